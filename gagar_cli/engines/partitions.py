"""Rows by group and back again: which partition, how many, and how they travel.

Rows travel as Arrow's own stream format, so that every type arrives as it was.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gagar_cli.parquet_io import Source

Ints = NDArray[np.int64]

_PARTITION_BYTES = 64 << 20  # of the columns that stages read
_PARTITIONS_PER_CPU = 4  # so that the last ones to end are short
_LEAST_ROWS = 8  # of a partition, on average


def partition_of(group_id: pa.ChunkedArray, partitions: int) -> Ints:
    """Return the partition of each row, (N,) int64: a stable 64-bit hash of its group, modulo.

    Equal ids are in one partition whatever their type in the file: 5 and "5". A null id is in the
    first one.
    """
    encoded = group_id.cast(pa.string()).combine_chunks().dictionary_encode()
    numbers = [_hash(text or "") % partitions for text in encoded.dictionary.to_pylist()]
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    dealt: Ints = np.array([*numbers, 0], dtype=np.int64)[codes]
    return dealt


def _hash(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def how_many(source: Source, columns: Sequence[str], cpus: int) -> int:
    """Return into how many partitions to deal the groups of a data set."""
    size = 0
    for file in source.files:
        for i in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(i)
            leaves = (group.column(j) for j in range(group.num_columns))
            size += sum(
                leaf.total_uncompressed_size
                for leaf in leaves
                if leaf.path_in_schema.partition(".")[0] in columns
            )
    wanted = max(-(-size // _PARTITION_BYTES), _PARTITIONS_PER_CPU * cpus)
    return max(1, min(wanted, source.rows // _LEAST_ROWS))


def split_evenly(total: int, shares: int) -> list[int]:
    """Split a number into whole shares that differ by at most one, larger ones first."""
    return [total // shares + (n < total % shares) for n in range(shares)]


def packed(table: pa.Table) -> bytes:
    """Return a table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def unpacked(data: pa.Scalar) -> pa.Table:
    """Return the table that a scalar of binary holds, without a copy of its bytes."""
    return pa.ipc.open_stream(data.as_buffer()).read_all()
