"""Parquet's footer: where the column chunks of each row group lie, to be copied as they are.

The numbers are those of apache/parquet-format, src/main/thrift/parquet.thrift.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gagar_cli.parquet_io.thrift import I64, LIST, STRUCT, Items, Struct, read_struct, write_struct

MAGIC = b"PAR1"
ReadAt = Callable[[int, int], bytes]  # size, offset

# FileMetaData
_SCHEMA, _ROWS, _ROW_GROUPS, _CREATED_BY = 2, 3, 4, 6
# SchemaElement
_NAME, _CHILDREN = 4, 5
# RowGroup
_COLUMNS, _BYTE_SIZE, _NUM_ROWS, _FILE_OFFSET, _COMPRESSED_SIZE = 1, 2, 3, 5, 6
# ColumnChunk; what has the numbers 4 to 7 is an index outside of the chunk
_FILE_PATH, _OFFSET, _META, _INDEXES, _ENCRYPTED = 1, 2, 3, (4, 5, 6, 7), (8, 9)
# ColumnMetaData; a Bloom filter lies outside too
_PATH, _UNCOMPRESSED, _COMPRESSED, _DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE = 3, 6, 7, 9, 10, 11
_STATISTICS, _BLOOM = 12, (14, 15)
_OLD_BOUNDS = (1, 2)  # of Statistics; some writers ordered them in ways of their own

# Whose pages can stand in a file of another writer: readers work around errors of older ones by the
# writer's name, which a file has but once.
_SOUND = re.compile(rb"parquet-cpp-arrow|parquet-rs|Polars|DuckDB|parquet-mr version 1\.1\d")


@dataclass(frozen=True)
class Footer:
    """A file's metadata; row groups are kept as the bytes that they are written in.

    start: its own place in the file.
    """

    struct: Struct
    start: int

    @classmethod
    def read(cls, read_at: ReadAt, size: int) -> "Footer":
        """Read the footer of a file of `size` bytes; what is none raises ValueError."""
        end = read_at(8, size - 8)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != MAGIC or length > size - 12:
            raise ValueError("it has no plain footer")
        start = size - 8 - length
        return cls(read_struct(read_at(length, start), unread=_ROW_GROUPS), start)

    def chunks(self, row_group: int) -> list["Chunk"]:
        """Return the column chunks of a row group, in the order of the schema's leaves.

        What lies behind the end of the data raises OSError.
        """
        group = read_struct(self.struct.value(_ROW_GROUPS).values[row_group])
        chunks = [Chunk.of(struct) for struct in group.value(_COLUMNS).values]
        if any(chunk.start + chunk.size > self.start for chunk in chunks):
            raise OSError(f"row group {row_group} reaches over the end of the data")
        return chunks

    @cached_property
    def columns(self) -> dict[str, list[Struct]]:
        """The elements of the schema that make up each top-level column."""
        result: dict[str, list[Struct]] = {}
        open_children = 0
        for element in self.struct.value(_SCHEMA).values[1:]:  # the first is the root
            if not open_children:
                result[element.value(_NAME).decode()] = mine = []
                open_children = 1
            mine.append(element)
            open_children += element.integer(_CHILDREN) - 1
        return result

    def fits(self, other: "Footer", names: Sequence[str]) -> bool:
        """Whether these columns are stored in exactly the form that the other file has them in."""
        return bool(_SOUND.match(self.struct.value(_CREATED_BY) or b"")) and all(
            name in self.columns and self.columns[name] == other.columns.get(name) for name in names
        )

    def written(self, row_groups: Sequence[bytes], rows: int) -> bytes:
        """Return the end of a file with this schema and metadata, and these row groups."""
        struct = Struct(self.struct)
        struct.change(_ROWS, rows)
        struct[_ROW_GROUPS] = (LIST, Items(STRUCT, list(row_groups)))
        data = write_struct(struct)
        return data + len(data).to_bytes(4, "little") + MAGIC


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column chunk: what the footer says of it, and where it lies."""

    struct: Struct
    start: int
    size: int

    @classmethod
    def of(cls, struct: Struct) -> "Chunk":
        """Take a chunk out of a row group; one that is not plain in its file raises OSError."""
        meta = struct.value(_META)
        if meta is None or struct.value(_FILE_PATH) or any(n in struct for n in _ENCRYPTED):
            raise OSError("a column chunk is encrypted, or in another file")
        starts = [meta.integer(n) for n in (_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE)]
        return cls(struct, min(s for s in starts if s > 0), meta.integer(_COMPRESSED))

    @property
    def column(self) -> str:
        """The top-level column that it is of."""
        return str(self.struct.value(_META).value(_PATH).values[0].decode())

    def moved(self, start: int) -> "Chunk":
        """Return it as it is when its bytes lie at `start`, without what lay elsewhere."""
        meta = Struct((n, v) for n, v in self.struct.value(_META).items() if n not in _BLOOM)
        for number in (_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE):
            if meta.integer(number) > 0:
                meta.change(number, meta.integer(number) - self.start + start)
        if _STATISTICS in meta:
            bounds = meta.value(_STATISTICS).items()
            meta.change(_STATISTICS, Struct((n, v) for n, v in bounds if n not in _OLD_BOUNDS))
        chunk = Struct((n, v) for n, v in self.struct.items() if n not in _INDEXES)
        chunk.change(_META, meta)
        if chunk.integer(_OFFSET):
            chunk.change(_OFFSET, start)
        return replace(self, struct=chunk, start=start)


def row_group_of(chunks: Sequence[Chunk], rows: int) -> bytes:
    """Return a row group of these chunks."""
    sizes = [chunk.struct.value(_META) for chunk in chunks]

    return write_struct(
        Struct(
            {
                _COLUMNS: (LIST, Items(STRUCT, [chunk.struct for chunk in chunks])),
                _BYTE_SIZE: (I64, sum(meta.integer(_UNCOMPRESSED) for meta in sizes)),
                _NUM_ROWS: (I64, rows),
                _FILE_OFFSET: (I64, min((chunk.start for chunk in chunks), default=0)),
                _COMPRESSED_SIZE: (I64, sum(chunk.size for chunk in chunks)),
            }
        )
    )
