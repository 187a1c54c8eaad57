"""What is read of a file to be written again: batches of rows, or row groups as they are stored."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gagar_cli.parquet_io.batches import batches_of, kept
from gagar_cli.parquet_io.footer import Chunk, Footer
from gagar_cli.parquet_io.reading import reading

# Smaller row groups, on average, are decoded, so that they end up together in larger ones.
_WORTH_COPYING = 1 << 20


class OpenFile(pq.ParquetFile):  # type: ignore[misc]  # it has no types
    """A Parquet file whose bytes can be read as they are, too."""

    def __init__(self, name: str, stream: pa.NativeFile, *, pre_buffer: bool) -> None:
        """Open a stream that errors call by a name; no Parquet raises as pyarrow does."""
        super().__init__(stream, pre_buffer=pre_buffer)
        self.name = name
        self.stream = stream

    @cached_property
    def footer(self) -> Footer | None:
        """The footer; None where it is of a kind that cannot be copied from."""
        try:
            return Footer.read(self.stream.read_at, self.stream.size())
        except ValueError:
            return None

    @property
    def worth_copying(self) -> bool:
        """Whether its row groups are large enough to stay as they are."""
        count = self.metadata.num_row_groups
        return bool(count) and int(self.stream.size()) >= count * _WORTH_COPYING


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A row group as it lies in a file."""

    file: OpenFile
    chunks: tuple[Chunk, ...]
    num_rows: int

    def read(self, size: int, offset: int) -> bytes:
        """Read bytes of the file; SourceError where it has fewer."""
        with reading(self.file.name):
            data = bytes(self.file.stream.read_at(size, offset))
            if len(data) < size:
                raise OSError(f"it ends {size - len(data):,} bytes too early")
        return data


def portions_of(
    file: OpenFile,
    row_groups: Sequence[int],
    columns: Sequence[str],
    keep: NDArray[np.bool_] | None,
    target: Footer | None,
) -> Iterator[pa.RecordBatch | StoredGroup]:
    """Yield rows of a file for a file that has the footer `target`, in order.

    keep: (rows of these row groups,) bool, None for all. A row group of which all is kept comes as
    it is stored, where that is as the target stores it (None for never); one of which nothing is
    kept is not read.
    """
    stored = file.footer if target and file.worth_copying else None
    if stored and target and not stored.fits(target, columns):
        stored = None
    first = 0
    decode: list[int] = []
    masks: list[NDArray[np.bool_]] = []

    def decoded() -> Iterator[pa.RecordBatch]:
        if decode:
            batches = batches_of(file, decode, columns)
            yield from batches if keep is None else kept(batches, np.concatenate(masks))
        decode.clear()
        masks.clear()

    for number in row_groups:
        rows = file.metadata.row_group(number).num_rows
        mask = np.ones(rows, bool) if keep is None else keep[first : first + rows]
        first += rows
        if stored and mask.all():
            yield from decoded()
            yield StoredGroup(file, tuple(stored.chunks(number)), rows)
        elif mask.any():
            decode.append(number)
            masks.append(mask)
    yield from decoded()
