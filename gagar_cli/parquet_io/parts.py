"""Parts of a data set: row groups of one of its files, and rows that are in memory already.

Each is a Source under the schema of the whole data set, so what works on a data set works on a part
of it, with the same errors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gagar_cli.parquet_io.batches import kept
from gagar_cli.parquet_io.footer import Footer
from gagar_cli.parquet_io.source import Source, open_source
from gagar_cli.parquet_io.stored import OpenFile, StoredGroup

_PIECE_BYTES = 256 << 20  # uncompressed, of a piece; a row group is never cut


@dataclass(frozen=True, slots=True)
class Piece:
    """Some row groups of one file, by a path or URI that every process can open.

    number: its place among the pieces of the data set. first: the number of its first row there.
    """

    number: int
    path: str
    row_groups: tuple[int, ...]
    first: int
    rows: int


def pieces_of(source: Source, most: int = _PIECE_BYTES) -> list[Piece]:
    """Cut a data set into pieces of about `most` bytes, uncompressed; each file has at least one.

    In the order of its rows. A pipe has no pieces.
    """
    pieces: list[Piece] = []
    first = 0
    for path, file in zip(source.paths, source.files, strict=True):
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        held: list[int] = []
        rows = size = 0
        for number, group in enumerate(groups):
            if held and size + group.total_byte_size > most:
                pieces.append(Piece(len(pieces), path, tuple(held), first, rows))
                first, held, rows, size = first + rows, [], 0, 0
            held.append(number)
            rows, size = rows + group.num_rows, size + group.total_byte_size
        pieces.append(Piece(len(pieces), path, tuple(held), first, rows))
        first += rows
    return pieces


@dataclass(frozen=True)
class PieceSource(Source):
    """A piece of a file as a data set; `whole` is the schema of the data set that it is of."""

    row_groups: tuple[int, ...] = ()
    whole: pa.Schema = None

    @classmethod
    def open(cls, piece: Piece, whole: pa.Schema, name: str) -> "PieceSource":
        """Open a piece; errors call it by the name of its data set."""
        opened = open_source(piece.path)
        return cls(name, opened.files, None, opened.paths, piece.row_groups, whole)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the data set."""
        return self.whole

    @property
    def rows(self) -> int:
        """All rows of the piece."""
        metadata = self.files[0].metadata
        return sum(metadata.row_group(i).num_rows for i in self.row_groups)

    def parts(self) -> Iterator[tuple[OpenFile, list[int]]]:
        """Yield the file, with the numbers of the row groups that make the piece."""
        yield self.files[0], list(self.row_groups)


@dataclass(frozen=True)
class TableSource(Source):
    """Rows in memory; `table` holds those columns of `whole` that will be asked for."""

    table: pa.Table = None
    whole: pa.Schema = None

    @classmethod
    def of(cls, table: pa.Table, whole: pa.Schema, name: str, folder: Path | None) -> "TableSource":
        """Take some columns of a data set."""
        return cls(name, (), folder, (), table, whole)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the data set, columns that are not in memory included."""
        return self.whole

    @property
    def rows(self) -> int:
        """All rows in memory."""
        return int(self.table.num_rows)

    def batches(
        self, columns: Sequence[str] | None = None, keep: NDArray[np.bool_] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows in order; keep: (rows,) bool, None for all."""
        table = self.table if columns is None else self.table.select(columns)
        batches = table.replace_schema_metadata(self.whole.metadata).to_batches()
        yield from batches if keep is None else kept(batches, keep)

    def portions(
        self, columns: Sequence[str], keep: NDArray[np.bool_] | None, target: Footer
    ) -> Iterator[pa.RecordBatch | StoredGroup]:
        """Yield rows in order; nothing is stored in a file."""
        del target
        return self.batches(columns, keep)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return whole columns."""
        return self.table.select(columns)
