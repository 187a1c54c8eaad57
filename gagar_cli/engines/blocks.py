"""What happens to a partition of groups, and to a piece of a file; no cluster is needed for it.

    read_piece   the columns that stages read, dealt to partitions, with their places
    gathered     the rows of one partition, in input order
    checked      what the stages would refuse, before anything is paid for
    worked       the stages, as they run anywhere; columns by piece
    written      a piece of the input, its kept rows and their new columns: a file of the output

Places are (number of the piece, number of the row in it), so every result finds its row again, and
the heavy columns never leave their file but for the output.
"""

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gagar_cli.assembling import missing_repositories
from gagar_cli.engines import stages
from gagar_cli.engines.job import Found, Job
from gagar_cli.engines.partitions import Ints, packed, partition_of, unpacked
from gagar_cli.errors import DataError, GagarError, SourceError
from gagar_cli.grading.asking import Progress
from gagar_cli.grading.contract import Grader
from gagar_cli.grading.rows import read_groups
from gagar_cli.grading.stage import grade
from gagar_cli.grading.votelog import VoteLog
from gagar_cli.options import GradeOptions
from gagar_cli.parquet_io import Piece, PieceSource, TableSource
from gagar_cli.provenance import Provenance
from gagar_cli.rollouts import Rollouts

PIECE, ROW, PARTITION = "piece", "row", "partition"
_ROW = re.compile(r"\brow (\d+)$")


@dataclass(frozen=True)
class DataSet:
    """The input as every worker knows it: enough to open any piece of it."""

    name: str
    folder: Path | None
    schema: pa.Schema
    provenance: Provenance
    columns: Sequence[str]  # those that are brought together
    pieces: Sequence[Piece]

    def empty(self) -> "Block":
        """Return a block without rows, which is refused just as rows would be for its columns.

        It holds the pieces that have no rows either.
        """
        none = pa.schema([self.schema.field(name) for name in self.columns]).empty_table()
        places = np.zeros(0, dtype=np.int64)
        return Block(self, none, places, places, [p.number for p in self.pieces if not p.rows])


@dataclass(frozen=True)
class Block:
    """The rows of whole groups, and the place of each: (N,) int64 pieces and rows.

    numbers: the pieces that it has rows of.
    """

    data: DataSet
    table: pa.Table
    pieces: Ints
    rows: Ints
    numbers: Sequence[int]

    def rollouts(self) -> Rollouts:
        """Return them as the stages see them."""
        data = self.data
        source = TableSource.of(self.table, data.schema, data.name, data.folder)
        return Rollouts(source, data.provenance)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Tell the number of a row as the whole data set has it, in every error that names one."""
        try:
            yield
        except GagarError as error:
            if found := _ROW.search(error.where):
                here = int(found[1])
                first = self.data.pieces[self.pieces[here]].first
                error.where = f"{error.where[: found.start()]}row {first + self.rows[here]}"
            raise


@dataclass(slots=True)
class Refused:
    """What is wrong with a partition: errors with the number of the data set's row, for order."""

    error: GagarError | None = None
    row: int = 0
    missing: list[tuple[int, SourceError | DataError]] = field(default_factory=list)


@dataclass(slots=True)
class Worked:
    """What the stages made of a block.

    columns: by piece, the rows that stay and what was added. rejected: by piece, the rows that do
    not, with the reason. The provenance and the dropped columns are those of every block.
    """

    found: Found
    columns: dict[int, pa.Table]
    rejected: dict[int, pa.Table]
    provenance: Provenance
    dropped: frozenset[str]


def read_piece(data: DataSet, piece: Piece, partitions: int) -> pa.Table:
    """Read what the stages need of a piece; return a row for each partition that it has rows of."""
    source = PieceSource.open(piece, data.schema, data.name)
    rows: list[dict[str, object]] = []
    first = 0
    for batch in source.batches(data.columns):
        table = pa.Table.from_batches([batch.replace_schema_metadata(None)])
        dealt = partition_of(table[data.provenance.names["group_id"]], partitions)
        numbers = np.arange(first, first + len(batch))
        first += len(batch)
        for partition in np.unique(dealt):
            mine = dealt == partition
            part = table.filter(pa.array(mine)).append_column(ROW, pa.array(numbers[mine]))
            rows.append({PARTITION: int(partition), PIECE: piece.number, "rows": packed(part)})
    kinds = pa.schema({PARTITION: pa.int64(), PIECE: pa.int64(), "rows": pa.large_binary()})
    return pa.Table.from_pylist(rows, kinds)


def gathered(data: DataSet, parts: pa.Table) -> Block:
    """Bring the rows of one partition together, in the order of the input."""
    read = [
        (piece.as_py(), unpacked(rows))
        for piece, rows in zip(parts[PIECE], parts["rows"], strict=True)
    ]
    read.sort(key=lambda part: (part[0], _first(part[1])))
    table = pa.concat_tables([table for _, table in read])
    place = table.num_columns - 1
    return Block(
        data,
        table.remove_column(place),
        np.repeat([piece for piece, _ in read], [table.num_rows for _, table in read]),
        table.column(place).to_numpy(),
        sorted({piece for piece, _ in read}),
    )


def _first(table: pa.Table) -> int:
    return int(table.column(table.num_columns - 1)[0].as_py())


def checked(block: Block, job: Job) -> Refused:
    """Return what the stages would refuse in a block, before anything is built or paid for."""
    refused = Refused()
    try:
        with block.located():
            rollouts = block.rollouts()
            if job.filtering:
                rollouts = rollouts.only(
                    stages.filtered(rollouts, job.filtering).keep, "filter", job.filtering
                )
            if job.filtering and job.redistribution:
                stages.rehearse(rollouts, job.redistribution)
            if job.assembling:
                finder = stages.finder_of(rollouts, job.sources, job.assembling)
                missing = missing_repositories(rollouts, finder, job.assembling)
                kept = np.arange(len(block.rows)) if rollouts.keep is None else rollouts.keep
                rows = np.flatnonzero(kept) if kept.dtype == bool else kept
                refused.missing = [(block_row(block, int(rows[n])), p) for n, p in missing]
            elif job.grading:
                _check_workspaces(rollouts)
    except GagarError as error:
        named = _ROW.search(error.where)
        refused.error = error
        refused.row = int(named[1]) if named else block_row(block, 0)
    return refused


def block_row(block: Block, row: int) -> int:
    """Return the number of a block's row in the whole data set."""
    if not len(block.rows):
        return 0
    return int(block.data.pieces[block.pieces[row]].first + block.rows[row])


def _check_workspaces(rollouts: Rollouts) -> None:
    try:
        read_groups(rollouts.ready_for("grade"))
    except SourceError as error:
        raise SourceError(
            error.where,
            f"{error.problem}, on node {socket.gethostname()}",
            "gagar run --engine ray, which grades where it assembles, or a --root on a file system "
            "that all nodes share",
        ) from error


def worked(  # noqa: PLR0913
    block: Block,
    job: Job,
    grader: Grader | None = None,
    log: VoteLog | None = None,
    options: GradeOptions | None = None,
    progress: Progress = lambda _done, _all, _usage: None,
) -> Worked:
    """Run the stages on a block. `options` differ from the job's in what leaves no trace."""
    found = Found()
    log = VoteLog() if log is None else log
    reason = None
    with block.located():
        rollouts = block.rollouts()
        if job.filtering:
            result = stages.filtered(rollouts, job.filtering)
            found.filtered, reason = result.summary, result.reason
            rollouts = rollouts.only(result.keep, "filter", job.filtering)
        if job.assembling:
            sources = replace(job.sources, jobs=job.sources.jobs or 1)
            rollouts, found.assembled = stages.assembled(rollouts, job.assembling, sources)
        if job.grading and grader:
            rollouts, found.graded = grade(
                rollouts,
                grader,
                options or job.grading,
                log,
                progress,
                retry_ungraded=job.retry_ungraded,
            )
            found.model, found.presentations = grader.model, log.presentations
        if job.redistribution:
            rollouts, found.redistributed = stages.redistributed(rollouts, job.redistribution)
    keep = np.ones(len(block.rows), bool) if rollouts.keep is None else rollouts.keep
    rejected: dict[int, pa.Table] = {}
    if job.keep_rejected and reason is not None:
        rejected = _by_piece(block, ~keep, {"reject_reason": reason.filter(pa.array(~keep))})
    return Worked(
        found=found,
        columns=_by_piece(block, keep, rollouts.added),
        rejected=rejected,
        provenance=rollouts.provenance,
        dropped=rollouts.dropped,
    )


def _by_piece(
    block: Block, chosen: np.ndarray, columns: Mapping[str, pa.ChunkedArray | pa.Array]
) -> dict[int, pa.Table]:
    """Return, for each piece of a block, its chosen rows and one value of each column for them."""
    pieces = block.pieces[chosen]
    table = pa.table([*columns.values(), pa.array(block.rows[chosen])], [*columns, ROW])
    return {piece: table.filter(pa.array(pieces == piece)) for piece in block.numbers}


def written(
    data: DataSet,
    number: int,
    parts: Sequence[pa.Table],
    target: str,
    how: tuple[Provenance, frozenset[str]],
) -> int:
    """Write the rows of a piece that stay, with what was added to them; return how many."""
    rows, added = _in_order(parts)
    source = PieceSource.open(data.pieces[number], data.schema, data.name)
    keep = np.zeros(source.rows, dtype=bool)
    keep[rows] = True
    provenance, dropped = how
    Rollouts(source, provenance, keep, added, dropped).write(target)
    return len(rows)


def written_rejected(data: DataSet, number: int, parts: Sequence[pa.Table], target: str) -> int:
    """Write the rows of a piece that do not stay, with the reason; return how many."""
    rows, added = _in_order(parts)
    source = PieceSource.open(data.pieces[number], data.schema, data.name)
    keep = np.ones(source.rows, dtype=bool)
    keep[rows] = False
    reason = np.full(source.rows, None, dtype=object)
    reason[rows] = added["reject_reason"].to_pylist()
    Rollouts(source, data.provenance).write_rejected(
        target, keep, pa.array(reason.tolist(), pa.string())
    )
    return len(rows)


def _in_order(parts: Sequence[pa.Table]) -> tuple[Ints, dict[str, pa.ChunkedArray]]:
    """Return the rows of a piece in input order, and the columns that were added to them."""
    table = pa.concat_tables(parts)
    place = table.num_columns - 1
    table = table.take(pc.sort_indices(table.column(place)))
    added = table.remove_column(place)
    return table.column(place).to_numpy(), dict(zip(added.column_names, added.columns, strict=True))
