"""Ids as 64-bit keys, computed over Arrow's buffers a piece of a column at a time.

Equal ids have equal keys. The converse nearly always holds, and is never relied on: whoever finds
two keys equal compares the ids themselves.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gagar_cli.errors import DataError
from gagar_cli.schema import Column

Keys = NDArray[np.uint64]

PIECE = 1 << 16  # rows: what is computed from a piece stays in the processor's cache

# Of longer ids, only these first bytes and the length tell in the key.
_HASHED_BYTES = 256

_WORD = 8  # bytes
# The word's first n bytes, as a little-endian number, for n from 0 to 8.
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], dtype=np.uint64)

# The finaliser of MurmurHash3: one to one, and each bit of the input moves half of the output's.
_STEPS = ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53))
_LAST_SHIFT = np.uint64(33)


def pieces(column: Column, name: str) -> Iterator[pa.Array]:
    """Yield a column of ids as arrays of strings or integers, of at most PIECE rows, in order.

    Ids that are null raise DataError with their row.
    """
    row = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        for start in range(0, len(chunk), PIECE):
            piece = _plain(chunk.slice(start, PIECE))
            if piece.null_count:
                row += int(np.argmin(piece.is_valid().to_numpy(zero_copy_only=False)))
                raise DataError(f"row {row}", f"got a null {name}, expected an id")
            row += len(piece)
            yield piece


def _plain(ids: pa.Array) -> pa.Array:
    kind = ids.type
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ids
    return ids.cast(pa.string())  # a dictionary can hold a null, or one id twice


def text(ids: pa.Array) -> pa.Array:
    """Return ids, which may be integers, as strings."""
    return ids.cast(pa.string())


def keys(ids: pa.Array) -> Keys:
    """Return the key of each id of a piece, (N,) uint64."""
    if pa.types.is_integer(ids.type):
        return mixed(ids.to_numpy().astype(np.uint64))
    return _text_keys(ids)


def mixed(number: Keys) -> Keys:
    """Spread numbers over 64 bits, in place, one to one."""
    for shift, factor in _STEPS:
        number ^= number >> np.uint64(shift)
        number *= np.uint64(factor)
    number ^= number >> _LAST_SHIFT
    return number


def _text_keys(ids: pa.Array) -> Keys:
    offsets, data = _buffers(ids)
    start, length = offsets[:-1], np.diff(offsets)
    key = mixed(length.astype(np.uint64))
    # Words may start at any byte, and the last ones reach past the last id.
    padded = np.zeros(len(data) + _WORD, dtype=np.uint8)
    padded[: len(data)] = data
    words = np.ndarray(len(data) + 1, "<u8", padded.data, strides=(1,))
    row: slice | NDArray[np.intp] = slice(None)
    for at in range(0, min(int(length.max(initial=0)), _HASHED_BYTES), _WORD):
        longer = length > at
        if not longer.all():
            row = np.arange(len(ids))[row][longer]
            start, length = start[longer], length[longer]
        word = words[start + at] & _FIRST_BYTES[np.minimum(length - at, _WORD)]
        key[row] = mixed(key[row] ^ word)
    return key


def _buffers(ids: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return where each id begins and the last one ends, and all bytes, counted from the first."""
    width = np.int64 if pa.types.is_large_string(ids.type) else np.int32
    _, offset_buffer, data_buffer = ids.buffers()
    if not len(ids):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(offset_buffer, width)[ids.offset : ids.offset + len(ids) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(0, dtype=np.uint8)
    if last > first:  # else there may be no buffer
        data = np.frombuffer(data_buffer, np.uint8)[first:last]
    return (offsets - first).astype(np.int64), data


def are_equal(left: pa.Array, right: pa.Array) -> bool:
    """Whether two arrays hold the same ids, compared as they are."""
    return bool(pc.all(pc.equal(left, right), min_count=0).as_py())
