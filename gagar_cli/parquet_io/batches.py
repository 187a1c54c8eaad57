"""The rows of a Parquet file as record batches of bounded size, under one schema."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_BATCH_BYTES = 32 << 20  # of one decoded batch, as the file's own sizes suggest
_BATCH_ROWS = 1 << 16
_RUN_BYTES = 4 << 20  # up to here row groups are read together


def batches_of(
    file: pq.ParquetFile, row_groups: Sequence[int], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some row groups in order, in batches of about 32 MiB, decoded.

    A large row group is cut evenly, and no batch reaches over its end, which would cost pyarrow
    about twice the time. Small ones are read together.
    """
    for run, rows in _runs(file, row_groups):
        yield from file.iter_batches(batch_size=rows, row_groups=run, columns=columns)


def kept(batches: Iterable[pa.RecordBatch], keep: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
    """Yield what is kept of each batch, where anything is; keep: (rows of all,) bool."""
    read = 0
    for batch in batches:
        mask = keep[read : read + len(batch)]
        read += len(batch)
        if mask.any():
            yield batch if mask.all() else batch.filter(pa.array(mask))


def conformed(rows: Rows, schema: pa.Schema) -> Rows:
    """Put rows under the schema: columns that their file lacks are null."""
    if rows.schema.equals(schema):
        return rows.replace_schema_metadata(schema.metadata)
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return type(rows).from_arrays(columns, schema=schema)


def _runs(file: pq.ParquetFile, row_groups: Sequence[int]) -> Iterator[tuple[list[int], int]]:
    """Yield runs of row groups that are small together, or one that is not; and rows per batch."""
    run: list[int] = []
    rows = size = 0
    for number in row_groups:
        group = file.metadata.row_group(number)
        if run and size + group.total_byte_size > _RUN_BYTES:
            yield run, _batch_rows(rows, size)
            run, rows, size = [], 0, 0
        run.append(number)
        rows, size = rows + group.num_rows, size + group.total_byte_size
    if run:
        yield run, _batch_rows(rows, size)


def _batch_rows(rows: int, size: int) -> int:
    batches = max(-(-size // _BATCH_BYTES), -(-rows // _BATCH_ROWS), 1)
    return max(-(-rows // batches), 1)
