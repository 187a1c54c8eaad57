"""The driver: the stages over a cluster.

    1  Ray Data reads the columns that stages need, and brings them together by group
    2  every partition is checked; what any stage would refuse stops the run here
    3  workers, a bounded number of actors, run the stages on one partition after another
    4  Ray Data brings the new columns back to their files; each is written once, heavy columns and all

Groups are small beside a partition, so a partition is many groups. A task or worker that is lost is
run again by Ray. Errors come back as data, so that they read as they do locally.
"""

import contextlib
import logging
import os
import pickle
import signal
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from gagar_cli.assembling import refuse
from gagar_cli.engines import stages
from gagar_cli.engines.blocks import PARTITION, PIECE, DataSet, Refused, Worked, worked
from gagar_cli.engines.folders import new_folder
from gagar_cli.engines.job import Found, Job
from gagar_cli.engines.merging import merged
from gagar_cli.engines.partitions import how_many, split_evenly
from gagar_cli.engines.tally import Sofar, Tally
from gagar_cli.errors import EngineError, GagarError, OptionError, SourceError
from gagar_cli.options import Cluster
from gagar_cli.parquet_io import pieces_of
from gagar_cli.rollouts import Rollouts

_SECONDS = 0.3  # between two looks at what is done


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
    data = _data_set(rollouts, job)
    _refuse_what_cannot_be_shared(job)
    rubric = stages.read_rubric(job.files)
    # Columns that are missing or of a wrong type are refused before a cluster is looked for.
    nothing = worked(data.empty(), job, _grader(job, rubric, None))
    with _connected(cluster) as cpus:
        from gagar_cli.engines.ray_worker import KEYS, Setting  # noqa: PLC0415

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
            parts, results = [nothing], []
            if rollouts.source.rows:
                blocks = _gathered(setting, tell)
                setting = replace(setting, model=_model(setting))
                found, results = _worked(setting, blocks, cpus, tell)
                parts += found
            _write(setting, (nothing, results), (str(output), rejected), tell)
    return merged([part.found for part in parts])


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


def _refuse_what_cannot_be_shared(job: Job) -> None:
    if job.grading and job.grading.canaries:
        raise OptionError(
            "--canaries",
            "cannot be planted by --engine ray, whose workers see a part of the groups each",
            "test the grader with --engine local on a part of the rollouts",
        )


def _grader(job: Job, rubric: str | None, model: str | None) -> Any:  # noqa: ANN401
    if job.grading is None:
        return None
    from gagar_cli.grading.votelog import VoteLog  # noqa: PLC0415

    options = replace(job.grading, model=job.grading.model or model)
    return stages.grader_of(options, rubric, None, VoteLog())


@contextlib.contextmanager
def _connected(cluster: Cluster) -> Iterator[int]:
    """Connect to a cluster, or start one on this machine; lend the number of its CPUs."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # of a cluster of our own
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # asks for less talk
    try:
        import ray  # noqa: PLC0415
        import ray.data  # noqa: PLC0415
    except ImportError as error:
        raise EngineError(
            "--engine ray", "needs Ray, which is not installed", "pip install 'gagar[ray]'"
        ) from error
    address = cluster.address or os.environ.get("RAY_ADDRESS") or "local"
    own: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    terminate = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            ignore_reinit_error=False,
            **own,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        what = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EngineError(
            f"Ray at {address}", f"cannot be reached ({what})", "check --ray-address"
        ) from error
    try:
        signal.signal(signal.SIGTERM, terminate)  # Ray puts its own in place
        logging.getLogger("ray").setLevel(logging.ERROR)
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        yield max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _shared_journal(setting: Any) -> Iterator[None]:  # noqa: ANN401
    """Take in what workers of an earlier run have left beside the journal, and ours at the end."""
    job = setting.job
    path = stages.journal_path(job.grading, job.files) if job.grading else None
    with stages.opened_journal(path):
        pass
    try:
        yield
    finally:
        with stages.opened_journal(path, setting.run):
            pass


def _gathered(setting: Any, tell: Tell) -> list[Any]:  # noqa: ANN401
    """Read and bring together; return references of blocks of partitions, having checked them."""
    import ray  # noqa: PLC0415

    from gagar_cli.engines.ray_worker import gather_task, read_task, refusals  # noqa: PLC0415

    numbers = [{PIECE: piece.number} for piece in setting.data.pieces if piece.rows]
    tell("reading files", 0, len(numbers))
    read = ray.data.from_items(numbers, override_num_blocks=len(numbers)).map_batches(
        read_task, batch_format="pyarrow", batch_size=None, fn_kwargs={"setting": setting}
    )
    together = read.groupby(PARTITION, num_partitions=setting.partitions).map_groups(
        gather_task, batch_format="pyarrow", fn_kwargs={"setting": setting}
    )
    blocks = together.materialize().to_arrow_refs()
    tell("reading files", len(numbers), len(numbers))
    found: list[Refused] = sum(ray.get([refusals.remote(block) for block in blocks]), [])
    errors = [refused for refused in found if refused.error]
    if errors:
        raise min(errors, key=lambda refused: refused.row).error  # type: ignore[misc]
    missing = sorted((p for refused in found for p in refused.missing), key=lambda p: p[0])
    refuse([problem for _, problem in missing], setting.data.name)
    return blocks


def _model(setting: Any) -> str | None:  # noqa: ANN401
    """Ask the server for its model, once for all workers, where none is named."""
    import asyncio  # noqa: PLC0415

    job = setting.job
    if not job.grading or not job.grading.url or job.grading.model:
        return None
    grader = _grader(job, setting.rubric, None)

    async def ask() -> None:
        await grader.start()
        await grader.close()

    asyncio.run(ask())
    return str(grader.model)


def _worked(
    setting: Any,  # noqa: ANN401
    blocks: Sequence[Any],
    cpus: int,
    tell: Tell,
) -> tuple[list[Worked], list[Any]]:
    """Run the stages on all blocks; return what was found, and references of the new columns."""
    import ray  # noqa: PLC0415

    from gagar_cli.engines.ray_worker import Worker, merged_transcripts  # noqa: PLC0415

    grading = setting.job.grading
    asks = grading is not None and grading.url is not None
    many = min(cpus, len(blocks), grading.concurrency if asks else cpus)
    shares = split_evenly(grading.concurrency, many) if asks else [1] * many
    tally = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Tally).remote()
    shared = ray.put(setting)
    idle = [Worker.remote(shared, share, tally) for share in shares]
    everyone = list(idle)
    under_way: dict[Any, tuple[int, Any]] = {}
    done: dict[int, list[Worked]] = {}
    transcripts, results = [None] * len(blocks), [None] * len(blocks)
    waiting = list(range(len(blocks)))[::-1]
    while waiting or under_way:
        while waiting and idle:
            number, worker = waiting.pop(), idle.pop()
            found, transcripts[number], results[number] = worker.work.options(num_returns=3).remote(
                blocks[number]
            )
            under_way[found] = (number, worker)
        ready, _ = ray.wait(list(under_way), num_returns=1, timeout=_SECONDS)
        for reference in ready:
            number, worker = under_way.pop(reference)
            idle.append(worker)
            done[number] = _unless_failed(ray.get(reference))
        so_far: Sofar = ray.get(tally.total.remote())
        tell("partitions", len(done), len(blocks), _remark(so_far, setting.job))
    if setting.job.files.transcripts is not None:
        merged_transcripts(sum(ray.get(transcripts), []), setting.job.files.transcripts)
    for worker in everyone:
        ray.kill(worker)
    return sum((done[number] for number in sorted(done)), []), results


def _unless_failed(found: list[Worked] | GagarError | OSError) -> list[Worked]:
    if isinstance(found, Exception):
        raise found
    return found


def _remark(so_far: Sofar, job: Job) -> str:
    priced = job.grading is not None and (job.grading.price_in or job.grading.price_out)
    words = [f"{so_far.groups:,} groups graded"] * bool(so_far.groups)
    words += [f"{so_far.tokens:,} tokens"] * bool(so_far.tokens)
    words += [f"{so_far.cost:.2f} spent"] * bool(priced)
    return ", ".join(words)


def _write(
    setting: Any,  # noqa: ANN401
    made: tuple[Worked, list[Any]],
    folders: tuple[str, str | None],
    tell: Tell,
) -> None:
    """Write each piece of the input as a file of the output."""
    import ray  # noqa: PLC0415

    from gagar_cli.engines.ray_worker import as_table, rows_of, write_task  # noqa: PLC0415

    nothing, results = made
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
