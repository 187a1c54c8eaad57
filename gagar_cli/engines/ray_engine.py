"""The driver: the stages over a cluster.

    1  Ray Data reads the columns that stages need, and brings them together by group
    2  every partition is checked; what any stage would refuse stops the run here
    3  workers, a bounded number of actors, run the stages on one partition after another
    4  Ray Data takes the new columns back to their pieces of the input; each becomes a file

A task or worker that is lost is run again by Ray. Errors come back as data, so that they read as
they do locally.
"""

import asyncio
import os
import pickle
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from gagar_cli.assembling import refuse
from gagar_cli.engines import stages
from gagar_cli.engines.blocks import PARTITION, PIECE, DataSet, Refused, Worked, worked
from gagar_cli.engines.cluster import connected
from gagar_cli.engines.folders import new_folder
from gagar_cli.engines.job import Found, Job
from gagar_cli.engines.merging import merged
from gagar_cli.engines.partitions import how_many, split_evenly
from gagar_cli.engines.ray_worker import (
    KEYS,
    Setting,
    Worker,
    as_table,
    gather_task,
    merged_transcripts,
    read_task,
    refusals,
    rows_of,
    write_task,
)
from gagar_cli.engines.tally import Sofar, Tally
from gagar_cli.errors import OptionError, SourceError
from gagar_cli.grading.contract import Grader
from gagar_cli.grading.votelog import VoteLog
from gagar_cli.options import Cluster
from gagar_cli.parquet_io import pieces_of
from gagar_cli.rollouts import Rollouts

_SECONDS = 0.3  # between two looks at what is done
_TRIES = 5  # of a partition whose worker was lost, before it is to blame


class Tell(Protocol):
    """Is told what is under way, how much of it is done and of how much, and a remark."""

    def __call__(self, what: str, done: int, total: int, remark: str = "") -> None:
        """Tell that."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Folders to write: the output, and the rejected rows where they are wanted."""

    output: str
    rejected: str | None = None


def run_on_ray(
    rollouts: Rollouts, job: Job, targets: Targets, cluster: Cluster, tell: Tell
) -> Found:
    """Run a job over a data set on a cluster; return what it found, having written the folders.

    A cluster that is not to be had raises EngineError; all else raises as it does locally.
    """
    if job.grading and job.grading.canaries:
        raise OptionError(
            "--canaries",
            "cannot be planted by --engine ray, whose workers see a part of the groups each",
            "test the grader with --engine local on a part of the rollouts",
        )
    data = _data_set(rollouts, job)
    rubric = stages.read_rubric(job.files)
    # Columns that are missing or of a wrong type are refused before a cluster is looked for.
    nothing = worked(data.empty(), job, _grader(job, rubric))
    with connected(cluster) as cpus:
        setting = Setting(
            data=data,
            job=job,
            partitions=cluster.partitions or how_many(rollouts.source, data.columns, cpus),
            run=uuid.uuid4().hex[:8],
            cwd=str(Path.cwd()),
            rubric=rubric,
            keys={name: os.environ[name] for name in KEYS if name in os.environ},
        )
        with (
            new_folder(targets.output) as output,
            new_folder(targets.rejected) as rejected,
            _shared_journal(setting),
        ):
            done: list[Worked] = [nothing]
            results: list[Any] = []
            if rollouts.source.rows:
                blocks = _gathered(setting, tell)
                setting = replace(setting, model=_model(setting))
                found, results = _worked(setting, blocks, cpus, tell)
                done += found
            _write(setting, nothing, results, (str(output), rejected), tell)
    return merged([part.found for part in done])


def _data_set(rollouts: Rollouts, job: Job) -> DataSet:
    source = rollouts.source
    if not source.paths:
        raise SourceError(
            source.name, "cannot be read by --engine ray", "name a file, a folder, a glob or a URI"
        )
    return DataSet(
        name=source.name,
        folder=source.folder,
        schema=source.schema,
        provenance=rollouts.provenance,
        columns=job.columns(rollouts),
        pieces=pieces_of(source),
    )


def _grader(job: Job, rubric: str | None) -> Grader | None:
    if job.grading is None:
        return None
    return stages.grader_of(job.grading, rubric, None, VoteLog())


def _model(setting: Setting) -> str | None:
    """Ask the server for its model, once for all workers, where none is named."""
    grading = setting.job.grading
    if grading is None or not grading.url or grading.model:
        return None
    grader = stages.grader_of(grading, setting.rubric, None, VoteLog())

    async def ask() -> None:
        await grader.start()
        await grader.close()

    asyncio.run(ask())
    return grader.model


@contextmanager
def _shared_journal(setting: Setting) -> Iterator[None]:
    """Take in what workers of an earlier run have left beside the journal, and ours at the end."""
    path = stages.journal_path(setting.job.grading, setting.job.files)
    with stages.opened_journal(path):
        pass  # opened and closed: while workers run, nobody writes to it
    try:
        yield
    finally:
        with stages.opened_journal(path, setting.run):
            pass


def _gathered(setting: Setting, tell: Tell) -> list[Any]:
    """Read and bring together; return references of blocks of partitions, all of them checked."""
    import ray  # noqa: PLC0415

    numbers = [{PIECE: piece.number} for piece in setting.data.pieces if piece.rows]
    tell("reading files", 0, len(numbers))
    blocks = (
        ray.data.from_items(numbers, override_num_blocks=len(numbers))
        .map_batches(
            read_task, batch_format="pyarrow", batch_size=None, fn_kwargs={"setting": setting}
        )
        .groupby(PARTITION, num_partitions=setting.partitions)
        .map_groups(gather_task, batch_format="pyarrow", fn_kwargs={"setting": setting})
        .materialize()
        .to_arrow_refs()
    )
    tell("reading files", len(numbers), len(numbers))
    look = ray.remote(num_cpus=0, max_retries=-1)(refusals)
    found: list[Refused] = list(chain(*ray.get([look.remote(block) for block in blocks])))
    errors = [(refused.row, n, refused.error) for n, refused in enumerate(found) if refused.error]
    if errors:
        raise min(errors)[2]
    missing = sorted((p for refused in found for p in refused.missing), key=lambda p: p[0])
    refuse([problem for _, problem in missing], setting.data.name)
    return list(blocks)


def _worked(
    setting: Setting, blocks: Sequence[Any], cpus: int, tell: Tell
) -> tuple[list[Worked], list[Any]]:
    """Run the stages on all blocks; return what was found, and references of the new columns."""
    import ray  # noqa: PLC0415

    grading = setting.job.grading
    asking = grading.concurrency if grading and grading.url else None
    many = min(cpus, len(blocks), asking or cpus)
    tally = ray.remote(num_cpus=0)(Tally).remote()
    actor = ray.remote(max_restarts=-1, max_task_retries=_TRIES)(Worker)
    workers = [actor.remote(share) for share in split_evenly(asking or many, many)]
    shared = ray.put(setting)

    done: dict[int, list[Worked]] = {}
    transcripts: dict[int, Any] = {}
    results: dict[int, Any] = {}
    under_way: dict[Any, tuple[int, Any]] = {}
    waiting, idle = list(range(len(blocks))), list(workers)
    while waiting or under_way:
        while waiting and idle:
            number, worker = waiting.pop(0), idle.pop()
            call = worker.work.options(num_returns=3)
            found, transcripts[number], results[number] = call.remote(shared, tally, blocks[number])
            under_way[found] = (number, worker)
        ready, _ = ray.wait(list(under_way), timeout=_SECONDS)
        for reference in ready:
            number, worker = under_way.pop(reference)
            idle.append(worker)
            outcome = ray.get(reference)
            if isinstance(outcome, Exception):
                raise outcome
            done[number] = outcome
        so_far = ray.get(tally.total.remote())
        tell("partitions", len(done), len(blocks), _remark(so_far, setting.job))
    if setting.job.files.transcripts is not None:
        parts = (ray.get(transcripts[number]) for number in sorted(transcripts))
        merged_transcripts(chain.from_iterable(parts), setting.job.files.transcripts)
    for worker in workers:
        ray.kill(worker)  # its CPU is needed to write
    return list(chain(*(done[number] for number in sorted(done)))), list(results.values())


def _remark(so_far: Sofar, job: Job) -> str:
    priced = job.grading is not None and (job.grading.price_in or job.grading.price_out)
    words = [f"{so_far.groups:,} groups graded"] * bool(so_far.groups)
    words += [f"{so_far.tokens:,} tokens"] * bool(so_far.tokens)
    words += [f"{so_far.cost:.2f} spent"] * bool(priced)
    return ", ".join(words)


def _write(
    setting: Setting,
    nothing: Worked,
    results: Sequence[Any],
    folders: tuple[str, str | None],
    tell: Tell,
) -> None:
    """Write each piece of the input as a file; `nothing` is what pieces without rows come to."""
    import ray  # noqa: PLC0415

    pieces = len(setting.data.pieces)
    tell("writing files", 0, pieces)
    empty = rows_of(nothing)
    references = [*results, *([ray.put(as_table(empty))] if empty else [])]
    how = (nothing.provenance, nothing.dropped)
    files = (
        ray.data.from_arrow_refs(references)
        .groupby(PIECE, num_partitions=pieces)
        .map_groups(
            write_task,
            batch_format="pyarrow",
            fn_kwargs={"setting": setting, "folders": folders, "how": how},
        )
    )
    for done, row in enumerate(files.iter_rows(), start=1):
        if row["error"] is not None:
            raise pickle.loads(row["error"])  # noqa: S301  our own
        tell("writing files", done, pieces)
