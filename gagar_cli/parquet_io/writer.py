"""Write a Parquet file by row groups, encoded here or copied as they are stored elsewhere.

pyarrow encodes one column after another, and cannot copy. Here each column of some size is encoded
by itself, several at once, and the chunks are put together under a footer of our own.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from gagar_cli.parquet_io.encodings import Encoding
from gagar_cli.parquet_io.footer import MAGIC, Chunk, Footer, row_group_of
from gagar_cli.parquet_io.stored import StoredGroup

_ALONE = 1 << 20  # bytes from which a column is encoded by itself
_READ = 16 << 20  # copied at once
_THREADS = 8


class RowGroupWriter:
    """Writes to a stream; nothing that it leaves is Parquet before `close` has ended."""

    def __init__(
        self, stream: IO[bytes], schema: pa.Schema, encodings: Mapping[str, Encoding]
    ) -> None:
        """Begin a file; encodings: of each leaf column, by its path."""
        self._stream = stream
        self._names = schema.names
        self._options = {
            "compression": {leaf: _codec(of.codec) for leaf, of in encodings.items()},
            "use_dictionary": [leaf for leaf, of in encodings.items() if of.dictionary],
            "write_statistics": [leaf for leaf, of in encodings.items() if of.statistics],
        }
        self.footer = _footer_of(self._file_of(schema.empty_table(), store_schema=True))
        self._row_groups: list[bytes] = []
        self._rows = self._at = 0
        self._pool = ThreadPoolExecutor(min(os.cpu_count() or 1, _THREADS), "gagar-encode")
        self._put(MAGIC)

    def encode(self, table: pa.Table) -> None:
        """Append the rows of a table, which has the columns of the schema, as one row group."""
        self._add(self._encoded(table), table.num_rows)

    def copy(self, group: StoredGroup, added: pa.Table) -> None:
        """Append a row group as it is stored: those of its columns that `added` does not have."""
        new = set(added.column_names)
        old = [
            chunk
            for chunk in group.chunks
            if chunk.column in self._names and chunk.column not in new
        ]
        chunks = self._copied(old, group)
        if new:
            chunks += self._encoded(added)
        self._add(chunks, group.num_rows)

    def close(self) -> None:
        """Write the footer."""
        self.abandon()
        self._put(self.footer.written(self._row_groups, self._rows))
        self._stream.flush()

    def abandon(self) -> None:
        """Let go of what writing needs, and write nothing more."""
        self._pool.shutdown()

    def _add(self, chunks: Sequence[Chunk], rows: int) -> None:
        places = {name: place for place, name in enumerate(self._names)}
        ordered = sorted(chunks, key=lambda chunk: places[chunk.column])  # a column's leaves stay
        self._row_groups.append(row_group_of(ordered, rows))
        self._rows += rows

    def _encoded(self, table: pa.Table) -> list[Chunk]:
        tables = [table.select(names) for names in _tasks(table)]
        return [
            chunk for data in self._pool.map(self._file_of, tables) for chunk in self._placed(data)
        ]

    def _placed(self, data: memoryview) -> list[Chunk]:
        """Write the chunks of a file in memory."""
        chunks = _footer_of(data).chunks(0)
        start = min(chunk.start for chunk in chunks)
        shift = self._at - start
        self._put(data[start : max(chunk.start + chunk.size for chunk in chunks)])
        return [chunk.moved(chunk.start + shift) for chunk in chunks]

    def _copied(self, chunks: Sequence[Chunk], group: StoredGroup) -> list[Chunk]:
        placed = []
        for start, run in _runs(chunks):
            shift = self._at - start
            end = run[-1].start + run[-1].size
            for offset in range(start, end, _READ):
                self._put(group.read(min(_READ, end - offset), offset))
            placed += [chunk.moved(chunk.start + shift) for chunk in run]
        return placed

    def _put(self, data: bytes | memoryview) -> None:
        self._stream.write(data)
        self._at += len(data)

    def _file_of(self, table: pa.Table, *, store_schema: bool = False) -> memoryview:
        """Encode a table as a file in memory, with one row group if it has rows."""
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(
            sink, table.schema, store_schema=store_schema, **self._options
        ) as writer:
            if len(table):
                writer.write_table(table, row_group_size=len(table))
        return memoryview(sink.getvalue())


def _tasks(table: pa.Table) -> Iterator[list[str]]:
    """Yield the columns in runs: the small ones together, every other one alone."""
    run: list[str] = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.nbytes < _ALONE:
            run.append(name)
            continue
        if run:
            yield run
        yield [name]
        run = []
    if run:
        yield run


def _runs(chunks: Sequence[Chunk]) -> Iterator[tuple[int, list[Chunk]]]:
    """Yield runs of chunks that lie side by side, with the start of each."""
    run: list[Chunk] = []
    for chunk in chunks:
        if run and run[-1].start + run[-1].size != chunk.start:
            yield run[0].start, run
            run = []
        run.append(chunk)
    if run:
        yield run[0].start, run


def _footer_of(data: memoryview) -> Footer:
    return Footer.read(lambda size, offset: bytes(data[offset : offset + size]), len(data))


def _codec(name: str) -> str:
    return "NONE" if name == "UNCOMPRESSED" else name
