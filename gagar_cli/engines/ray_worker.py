"""What runs on the nodes of a cluster: tasks around the functions of `blocks`, and the workers."""

import contextlib
import os
import pickle
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gagar_cli.engines import stages
from gagar_cli.engines.blocks import (
    PARTITION,
    PIECE,
    Block,
    DataSet,
    Refused,
    Worked,
    checked,
    gathered,
    read_piece,
    worked,
    written,
    written_rejected,
)
from gagar_cli.engines.folders import file_in
from gagar_cli.engines.job import Job
from gagar_cli.engines.partitions import packed, unpacked
from gagar_cli.engines.tally import Sofar
from gagar_cli.errors import GagarError, SourceError
from gagar_cli.grading.contract import Usage
from gagar_cli.grading.votelog import open_votelog
from gagar_cli.grading.worker_journal import WorkerJournal
from gagar_cli.parquet_io import open_sink
from gagar_cli.provenance import Provenance
from gagar_cli.transcripts import TRANSCRIPT_SCHEMA

_SECONDS = 0.25  # between two reports to the tally
KEYS = ("GAGAR_GRADER_API_KEY", "OPENAI_API_KEY")
Failure = GagarError | OSError


@dataclass(frozen=True, slots=True)
class Setting:
    """What the tasks and workers of a run share. run: its name in files. cwd: of the command.

    model: the one that is asked, where the options leave it to the server.
    """

    data: DataSet
    job: Job
    partitions: int
    run: str
    cwd: str
    rubric: str | None = None
    model: str | None = None
    keys: Mapping[str, str] | None = None


def go_home(setting: Setting) -> None:
    """Work in the command's folder, so that relative paths mean here what they mean there."""
    try:
        os.chdir(setting.cwd)
    except OSError as error:
        raise SourceError(
            setting.cwd,
            f"is not on node {os.uname().nodename} ({error.strerror})",
            "work in a folder that all nodes share",
        ) from error


def read_task(batch: pa.Table, setting: Setting) -> pa.Table:
    """Read pieces; a row for each partition of each, or the error."""
    tables = []
    for number in batch[PIECE].to_pylist():
        try:
            go_home(setting)
            table = read_piece(setting.data, setting.data.pieces[number], setting.partitions)
            table = table.append_column("error", pa.nulls(len(table), pa.binary()))
        except GagarError as error:
            table = pa.table(
                {
                    PARTITION: pa.array([0], pa.int64()),
                    PIECE: pa.array([number], pa.int64()),
                    "rows": pa.array([b""], pa.large_binary()),
                    "error": pa.array([pickle.dumps(error)], pa.binary()),
                }
            )
        tables.append(table)
    return pa.concat_tables(tables)


def gather_task(parts: pa.Table, setting: Setting) -> pa.Table:
    """Bring a partition together and check it; one row with what is wrong and the rows."""
    failed = next((e.as_py() for e in parts["error"] if e.is_valid), None)
    if failed is not None:
        refused, rows = Refused(pickle.loads(failed)), b""  # noqa: S301  our own
    else:
        block = gathered(setting.data, parts)
        try:
            go_home(setting)
            refused = checked(block, setting.job)
        except GagarError as error:
            refused = Refused(error)
        rows = packed(_with_places(block))
    return pa.table(
        {
            PARTITION: parts[PARTITION].slice(0, 1),
            "refused": pa.array([pickle.dumps(refused)], pa.large_binary()),
            "rows": pa.array([rows], pa.large_binary()),
        }
    )


def _with_places(block: Block) -> pa.Table:
    table = block.table.append_column(PIECE, pa.array(block.pieces))
    return table.append_column("row", pa.array(block.rows))


def _block_of(data: DataSet, rows: pa.Scalar) -> Block:
    table = unpacked(rows)
    pieces, numbers = (table.column(table.num_columns - n).to_numpy() for n in (2, 1))
    bare = table.select(list(range(table.num_columns - 2)))
    return Block(data, bare, pieces, numbers, sorted(set(pieces.tolist())))


def refusals(block: pa.Table) -> list[Refused]:
    """Return what is wrong with the partitions of a block."""
    return [pickle.loads(refused.as_buffer()) for refused in block["refused"]]  # noqa: S301


class Worker:
    """Runs the stages on one partition after another; it grades up to its share of requests."""

    def __init__(self, share: int) -> None:
        """Get ready; nothing is opened yet."""
        import ray  # noqa: PLC0415

        self._share = share
        self._id = ray.get_runtime_context().get_actor_id()
        self._journal: WorkerJournal | None = None

    def work(
        self,
        setting: Setting,
        tally: Any,  # noqa: ANN401  a handle of Ray's
        block: pa.Table,
    ) -> tuple[list[Worked] | Failure, list[bytes], pa.Table]:
        """Run the stages on the partitions of a block.

        Returns what was found or what stops the run, transcripts, and a row for each piece of each
        partition with its columns.
        """
        os.environ.update(setting.keys or {})
        self._tally = tally
        done: list[Worked] = []
        transcripts: list[bytes] = []
        results: list[dict[str, Any]] = []
        try:
            go_home(setting)
            for number, rows in zip(block[PARTITION].to_pylist(), block["rows"], strict=True):
                part = self._partition(setting, number, _block_of(setting.data, rows), transcripts)
                results += rows_of(part)
                done.append(replace(part, columns={}, rejected={}))
        except (GagarError, OSError) as error:
            return error, [], as_table([])
        return done, transcripts, as_table(results)

    def _partition(
        self, setting: Setting, number: int, block: Block, transcripts: list[bytes]
    ) -> Worked:
        if setting.job.grading is None:
            return worked(block, setting.job)
        options = replace(setting.job.grading, concurrency=self._share)
        asking = replace(options, model=options.model or setting.model)
        wanted = setting.job.files.transcripts is not None
        with tempfile.TemporaryDirectory(prefix="gagar-transcripts-") as folder:
            path = Path(folder) / "votes.parquet"
            with open_votelog(str(path) if wanted else None) as log:
                grader = stages.grader_of(asking, setting.rubric, self._votes(setting), log)
                with self._reporting(number, grader.usage) as progress:
                    result = worked(block, setting.job, grader, log, options, progress)
            if wanted:
                transcripts.append(path.read_bytes())
        return result

    def _votes(self, setting: Setting) -> WorkerJournal | None:
        path = stages.journal_path(setting.job.grading, setting.job.files)
        if path is not None and self._journal is None:
            self._journal = WorkerJournal(path, setting.run, self._id)
        return self._journal

    @contextlib.contextmanager
    def _reporting(self, number: int, usage: Usage) -> Iterator[Any]:
        """Tell the tally what is done and spent, now and then; learn what others have spent."""
        import ray  # noqa: PLC0415

        groups = 0
        ended = threading.Event()
        name = f"{self._id}-{os.getpid()}"

        def progress(done: int, _all: int, _usage: Usage) -> None:
            nonlocal groups
            groups = done

        def report() -> None:
            tokens = usage.prompt_tokens + usage.completion_tokens
            sofar = Sofar(groups, tokens, usage.cost or 0.0)
            usage.elsewhere = ray.get(self._tally.report.remote(name, number, sofar))

        def reports() -> None:
            while not ended.wait(_SECONDS):
                report()

        report()  # before anything is asked: the budget may be spent already
        thread = threading.Thread(target=reports, daemon=True)
        thread.start()
        try:
            yield progress
        finally:
            ended.set()
            thread.join()
            report()


def rows_of(part: Worked) -> list[dict[str, Any]]:
    """Return the columns of a partition as they travel back: a row for each piece."""
    return [
        {
            PIECE: piece,
            "columns": packed(table),
            "rejected": packed(part.rejected[piece]) if part.rejected else None,
        }
        for piece, table in part.columns.items()
    ]


def as_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows for pieces as a table."""
    kinds = {PIECE: pa.int64(), "columns": pa.large_binary(), "rejected": pa.large_binary()}
    return pa.Table.from_pylist(rows, pa.schema(kinds))


def write_task(
    parts: pa.Table,
    setting: Setting,
    folders: tuple[str, str | None],
    how: tuple[Provenance, frozenset[str]],
) -> pa.Table:
    """Write a piece of the output, and of the rows that did not stay where they are wanted."""
    number = parts[PIECE][0].as_py()
    error = None
    rows = 0
    try:
        go_home(setting)
        tables = [unpacked(part) for part in parts["columns"]]
        rows = written(setting.data, number, tables, _file(folders[0], number), how)
        if folders[1] is not None:
            tables = [unpacked(part) for part in parts["rejected"]]
            written_rejected(setting.data, number, tables, _file(folders[1], number))
    except (GagarError, OSError) as failure:
        error = pickle.dumps(failure)
    return pa.table({"rows": [rows], "error": pa.array([error], pa.binary())})


def _file(folder: str, number: int) -> str:
    return file_in(folder, f"part-{number:05}.parquet")


def merged_transcripts(parts: Iterable[bytes], target: str) -> None:
    """Write the transcripts of all partitions as one file."""
    with open_sink(target, TRANSCRIPT_SCHEMA) as sink:
        for part in parts:
            for batch in pq.ParquetFile(pa.BufferReader(part)).iter_batches():
                sink.write(batch)
