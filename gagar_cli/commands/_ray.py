"""Commands on a Ray cluster: the same checks before, the same summaries after."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from gagar_cli.commands._console import Draw, progress_bar
from gagar_cli.commands._stages import (
    Talk,
    check_apart,
    open_rollouts,
    tell_assemble,
    tell_filter,
    tell_redistribute,
    tell_written,
)
from gagar_cli.errors import OptionError
from gagar_cli.options import Cluster, Engine

if TYPE_CHECKING:
    from gagar_cli.engines.job import Found, Job
    from gagar_cli.engines.ray_engine import Tell
    from gagar_cli.rollouts import Rollouts


def is_for_ray(cluster: Cluster) -> bool:
    """Whether Ray runs the stages."""
    if cluster.engine is Engine.LOCAL and cluster.partitions is not None:
        raise OptionError("--partitions", "is for --engine ray", "add it")
    return cluster.engine is Engine.RAY


def do_on_ray(
    job: "Job",
    cluster: Cluster,
    input_: str | None,
    targets: tuple[str | None, str | None, str],
    names: tuple[Sequence[str] | None, float | None],
    talk: Talk,
) -> int:
    """Run a job; return how many groups that needed a grade have none.

    targets: the output, the rejected rows, the name of the command. names: column names as on the
    command line, and the pass threshold.
    """
    from gagar_cli.engines.folders import check_folder
    from gagar_cli.engines.ray_engine import Targets, run_on_ray

    output, rejected, stage = targets
    target = _target(output, input_, stage)
    check_folder(target)
    if rejected is not None:
        check_folder(rejected)
    check_apart("--transcripts", job.files.transcripts, {"output": target, "input": input_})
    rollouts = open_rollouts(input_, *names)
    with _progress(talk) as tell:
        found = run_on_ray(rollouts, job, Targets(target, rejected), cluster, tell)
    _tell(found, job, rollouts, talk)
    tell_written(target, talk)
    return sum(found.graded.ungraded.values()) if found.graded else 0


def _target(output: str | None, input_: str | None, stage: str) -> str:
    from gagar_cli.parquet_io import STDIO, default_output

    if output is not None:
        return output
    if sys.stdout is None or not sys.stdout.isatty():
        return STDIO  # which is refused
    return default_output(input_, stage, suffix="")


def _tell(found: "Found", job: "Job", rollouts: "Rollouts", talk: Talk) -> None:
    if found.filtered:
        tell_filter(found.filtered, by_reward=rollouts.verdict() == "reward", talk=talk)
    if found.assembled and job.assembling:
        tell_assemble(found.assembled, job.assembling, talk)
    if found.graded and job.grading:
        from gagar_cli.commands._grading import tell_grade

        tell_grade(found.graded, job.grading, job.files, found.model, talk)
    if found.redistributed and job.redistribution:
        tell_redistribute(found.redistributed, job.redistribution, talk)


@contextmanager
def _progress(talk: Talk) -> Iterator["Tell"]:
    """Lend what shows one bar after the other, as one thing after the other is under way."""
    with ExitStack() as shown:
        bars: dict[str, Draw] = {}

        def tell(what: str, done: int, total: int, remark: str = "") -> None:
            if what not in bars:
                shown.close()
                bars[what] = shown.enter_context(progress_bar(what, quiet=talk.quiet))
            bars[what](done, total, remark)

        yield tell
