"""How the leaf columns of a Parquet file are written, so that an output can be written alike."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_DICTIONARY = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}

# Writers give a dictionary up when its page has grown to 1 MiB (parquet-cpp, parquet-rs) or more;
# what they had of it until then stays in the file. Trying again would cost a hash per value.
_GIVEN_UP = 0.9 * (1 << 20)

# Bounds of longer values are cut or left out by most writers, and of no use to any reader.
_LONG = 1 << 10


@dataclass(frozen=True, slots=True)
class Encoding:
    """codec: as Parquet names it. dictionary, statistics: whether a column chunk has one."""

    codec: str = "ZSTD"
    dictionary: bool = True
    statistics: bool = True

    @classmethod
    def of(cls, chunk: Any, *, repeated: bool) -> "Encoding":  # noqa: ANN401  pyarrow ships no types
        """Read what a column chunk's metadata tells; repeated: whether it is part of a list.

        A dictionary that the writer gave up, and bounds over the items of lists or over long texts,
        count as none.
        """
        short = chunk.total_uncompressed_size < _LONG * max(chunk.num_values, 1)
        return cls(
            codec=chunk.compression,
            dictionary=bool(_DICTIONARY & set(chunk.encodings)) and not _given_up(chunk),
            statistics=chunk.is_stats_set and short and not repeated,
        )


def encodings_of(files: Iterable[pq.ParquetFile]) -> dict[str, Encoding]:
    """Return the encoding of each leaf, by its path, as the first row group of all has it."""
    for file in files:
        if file.metadata.num_row_groups:
            group = file.metadata.row_group(0)
            return {
                group.column(i).path_in_schema: Encoding.of(
                    group.column(i), repeated=file.schema.column(i).max_repetition_level > 0
                )
                for i in range(group.num_columns)
            }
    return {}


def encodings_for(schema: pa.Schema, known: Mapping[str, Encoding]) -> dict[str, Encoding]:
    """Return how each leaf of a schema is to be written: as is known of its path, or as new ones.

    New ones are written as they would be after they had been read: without bounds in lists.
    """
    sink = pa.BufferOutputStream()  # to learn the paths as Parquet names them
    pq.ParquetWriter(sink, schema).close()
    leaves = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return {
        leaf.path: known.get(leaf.path, Encoding(statistics=not leaf.max_repetition_level))
        for leaf in (leaves.column(i) for i in range(len(leaves)))
    }


def _given_up(chunk: Any) -> bool:  # noqa: ANN401
    """Whether the dictionary page, by its share of the chunk, is as large as writers let it be."""
    if not chunk.has_dictionary_page:
        return False
    stored = chunk.data_page_offset - chunk.dictionary_page_offset
    return bool(
        stored * chunk.total_uncompressed_size >= _GIVEN_UP * max(chunk.total_compressed_size, 1)
    )
