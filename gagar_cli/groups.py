"""Rows by group, wherever in the file they stand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gagar_cli.errors import DataError
from gagar_cli.keys import PIECE, Keys, are_equal, keys, mixed, pieces, text
from gagar_cli.parallel import on_all_cores
from gagar_cli.schema import Column

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]

_Values = TypeVar("_Values", Codes, NDArray[np.bool_])

BLOCK = 1 << 15  # rows

_ROLLOUTS_APART = np.uint64(0x9E3779B97F4A7C15)  # odd, so that groups are told apart


@dataclass(frozen=True)
class GroupIndex:
    """The rows of each group. N rows, G groups in order of first appearance.

    names: G ids, strings. codes: (N,) int32, the group of each row. The rest is worked out when
    it is first asked for.
    """

    names: pa.Array
    codes: Codes

    @classmethod
    def of(cls, group_id: Column) -> "GroupIndex":
        """Index a column of group ids; ids that are null raise DataError.

        Linear in the rows. Rows of one group that stand together are read as one.
        """
        firsts, begins = _runs(pieces(group_id, "group_id"))
        names, codes = _encoded(firsts)
        if len(codes) < len(begins):
            codes = codes[np.cumsum(begins, dtype=np.int32) - 1]
        return cls(text(names), codes)

    def __len__(self) -> int:
        """Count the groups."""
        return len(self.names)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The ids of the groups as Python strings, (G,)."""
        return tuple(self.names.to_pylist())

    def name(self, group: int) -> str:
        """Return the id of one group."""
        return str(self.names[int(group)].as_py())

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether each group's rows stand together."""
        return bool((self.codes[1:] >= self.codes[:-1]).all())

    def blocks(self) -> Iterator[slice]:
        """Cut the rows between groups into slices that fit the processor's cache.

        Where groups are scattered, all rows are one slice.
        """
        yield from cut(self.codes) if self.is_contiguous else [slice(0, len(self.codes))]

    @cached_property
    def sizes(self) -> Ints:
        """Rows per group, (G,) int64."""
        return np.bincount(self.codes, minlength=len(self)).astype(np.int64)

    @cached_property
    def starts(self) -> Ints:
        """Where each group's rows start in `order`, (G + 1,) int64."""
        return np.concatenate(([0], np.cumsum(self.sizes))).astype(np.int64)

    @cached_property
    def order(self) -> Ints:
        """The rows sorted by group, input order within, (N,) int64."""
        row = np.arange(len(self.codes), dtype=np.int64)
        if self.is_contiguous:
            return row
        # Group and row in one number: numbers are sorted much faster than positions.
        bits = len(row).bit_length()
        row |= self.codes.astype(np.int64) << bits
        row.sort()
        row &= (1 << bits) - 1
        return row

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


def cut(codes: Codes) -> Iterator[slice]:
    """Cut rows that are sorted by group into slices of whole groups, of about BLOCK rows."""
    start = 0
    while start < len(codes):
        last = codes[min(start + BLOCK, len(codes)) - 1]
        end = int(np.searchsorted(codes, last, side="right"))
        yield slice(start, end)
        start = end


def check_unique(index: GroupIndex, rollout_id: Column) -> None:
    """Raise DataError unless every rollout_id is set and unique within its group.

    Sorts one number per row, which tells a group and an id; ids themselves are compared only where
    two numbers are equal.
    """
    key = _rollout_keys(index, rollout_id)
    key.sort()
    repeated = key[1:][key[1:] == key[:-1]]
    if len(repeated):
        del key
        rows = np.flatnonzero(np.isin(_rollout_keys(index, rollout_id), repeated))
        _check_unique_among(rows, index, rollout_id)


def _rollout_keys(index: GroupIndex, rollout_id: Column) -> Keys:
    """Return a number for each row, (N,) uint64, equal where group and rollout_id are equal."""
    parts = list(pieces(rollout_id, "rollout_id"))

    def of_part(placed: tuple[pa.Array, Codes]) -> Keys:
        part, codes = placed
        return keys(part) + mixed(codes.astype(np.uint64)) * _ROLLOUTS_APART

    return _joined(on_all_cores(of_part, _beside(parts, index.codes)))


def _check_unique_among(rows: Ints, index: GroupIndex, rollout_id: Column) -> None:
    parts = [text(part) for part in pieces(rollout_id, "rollout_id")]
    ids = pa.chunked_array(parts).take(pa.array(rows))
    pair = pa.table({"group": index.codes[rows], "id": ids, "row": rows})
    found = pair.group_by(["group", "id"]).aggregate([("row", "min"), ("row", "count")])
    found = found.filter(pc.greater(found["row_count"], 1)).sort_by("row_min")
    if len(found):
        first = found.slice(0, 1).to_pylist()[0]
        raise DataError(
            f"group {index.name(first['group'])!r}",
            f"has {first['row_count']} rows {first['id']!r} (rollout_id must be unique in a group)",
        )


def _runs(parts: Iterator[pa.Array]) -> tuple[list[pa.Array], NDArray[np.bool_]]:
    """Return the first id of each run of equal ids, and the rows where runs begin, (N,) bool."""
    firsts: list[pa.Array] = []
    begins = [np.zeros(0, dtype=bool)]
    before = None
    for part in parts:
        differs = pc.not_equal(part.slice(1), part.slice(0, len(part) - 1))
        begins.append(np.append(part[0] != before, differs.to_numpy(zero_copy_only=False)))
        firsts.append(part if begins[-1].all() else part.filter(pa.array(begins[-1])))
        before = part[-1]
    return firsts, np.concatenate(begins)


def _encoded(parts: Sequence[pa.Array]) -> tuple[pa.Array, Codes]:
    """Return the distinct ids in order of first appearance, and the place of each id there."""
    if not parts:
        return pa.array([], pa.string()), np.zeros(0, dtype=np.int32)
    key = _joined(on_all_cores(keys, parts))
    # The common case of groups in one piece: keys that are all distinct belong to distinct ids.
    if _are_distinct(key[:PIECE]) and _are_distinct(key):
        return pa.concat_arrays(parts), np.arange(len(key), dtype=np.int32)
    encoded = pa.array(key).dictionary_encode()
    codes: Codes = encoded.indices.to_numpy()
    latest = np.maximum.accumulate(codes)
    is_new = np.append(True, latest[1:] > latest[:-1])
    names = pa.concat_arrays([part.filter(pa.array(new)) for part, new in _beside(parts, is_new)])

    def is_exact(placed: tuple[pa.Array, Codes]) -> bool:
        part, places = placed
        return are_equal(part, names.take(pa.array(places)))

    if all(on_all_cores(is_exact, _beside(parts, codes))):
        return names, codes
    # Two ids share a key: slower, by the ids themselves.
    exact = pa.chunked_array(parts).dictionary_encode().combine_chunks()
    return exact.dictionary, exact.indices.to_numpy()


def _beside(parts: Sequence[pa.Array], value: _Values) -> Iterator[tuple[pa.Array, _Values]]:
    """Yield each part with the values, one per row of all parts, that belong to it."""
    row = 0
    for part in parts:
        yield part, value[row : row + len(part)]
        row += len(part)


def _joined(key: Sequence[Keys]) -> Keys:
    return np.concatenate(key) if key else np.zeros(0, dtype=np.uint64)


def _are_distinct(key: Keys) -> bool:
    ordered = np.sort(key)
    return bool((ordered[1:] != ordered[:-1]).all())
