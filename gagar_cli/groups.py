"""Rows by group, wherever in the file they stand."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gagar_cli.errors import DataError

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupIndex:
    """The rows of each group. N rows, G groups in order of first appearance.

    ids: (G,) strings. codes: (N,) int64, the group of each row. order: (N,) int64, the rows
    sorted by group, input order within. starts: (G + 1,) int64 offsets into `order`.
    """

    ids: tuple[str, ...]
    codes: Ints
    order: Ints
    starts: Ints

    @classmethod
    def of(cls, group_id: pa.ChunkedArray | pa.Array) -> "GroupIndex":
        """Index a column of group ids; ids that are null raise DataError."""
        encoded = _text(group_id, "group_id").dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        sizes = np.bincount(codes, minlength=len(encoded.dictionary))
        return cls(
            ids=tuple(encoded.dictionary.to_pylist()),
            codes=codes,
            order=np.argsort(codes, kind="stable"),
            starts=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        )

    def __len__(self) -> int:
        """Count the groups."""
        return len(self.ids)

    @property
    def sizes(self) -> Ints:
        """Rows per group, (G,) int64."""
        return np.diff(self.starts)

    def rows(self, group: int) -> Ints:
        """Return the rows of one group, in input order."""
        return self.order[self.starts[group] : self.starts[group + 1]]

    def __iter__(self) -> Iterator[tuple[str, Ints]]:
        """Yield each group's id and rows."""
        for group, group_id in enumerate(self.ids):
            yield group_id, self.rows(group)

    def count(self, condition: NDArray[np.bool_]) -> Ints:
        """Count, per group, the rows where `condition` (N,) holds."""
        return np.bincount(self.codes[condition], minlength=len(self)).astype(np.int64)


def check_unique(index: GroupIndex, rollout_id: pa.ChunkedArray | pa.Array) -> None:
    """Raise DataError unless every rollout_id is set and unique within its group."""
    flat = _text(rollout_id, "rollout_id")
    codes = flat.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    keys = index.codes * (int(codes.max(initial=0)) + 1) + codes
    values, first, counts = np.unique(keys, return_index=True, return_counts=True)
    if len(values) == len(keys):
        return
    row = int(first[counts > 1].min())
    raise DataError(
        f"group {index.ids[index.codes[row]]!r}",
        f"has {int(counts[first == row][0])} rows {flat[row].as_py()!r} "
        "(rollout_id must be unique in a group)",
    )


def _text(ids: pa.ChunkedArray | pa.Array, name: str) -> pa.Array:
    """Return ids as one array of strings; one that is null raises DataError."""
    text = ids.cast(pa.string())  # first, since a dictionary can hold a null as a value
    flat = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
    if flat.null_count:
        row = int(np.flatnonzero(pc.is_null(flat).to_numpy(zero_copy_only=False))[0])
        raise DataError(f"row {row}", f"got a null {name}, expected an id")
    return flat
