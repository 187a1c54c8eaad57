"""The ranked rows of all groups in the order of their places."""

import numpy as np
from numpy.typing import NDArray

from gagar_cli.groups import Codes, Ints
from gagar_cli.schema import Floats

_KEY_BITS = 63  # of an int64 without its sign


def sorted_rows(
    row: Ints, codes: Codes, rank: Floats, advantage: Floats, mass: Floats | None
) -> Ints:
    """Sort rows by group, rank, advantage and mass, (n,) int64 of N rows.

    codes, rank, advantage, mass: (N,), no NaN in these rows. Sorting by value to the end makes
    sums over the result independent of the order of the rows. Mass None is the same for all.
    """
    row = _by_group_and_rank(row, codes[row], rank[row])
    values = [v for v in (mass, advantage) if v is not None]
    new_tier = changes(codes[row]) | changes(rank[row])
    tier = np.cumsum(new_tier, dtype=np.int64)
    # Most ties are between equal values, whose order changes nothing.
    differs = np.zeros(len(row), dtype=bool)
    for value in values:
        differs |= changes(value[row]) & ~new_tier
    if not differs.any():
        return row
    uneven = np.zeros(int(tier[-1]) + 1, dtype=bool)
    uneven[tier[differs]] = True
    place = np.flatnonzero(uneven[tier])
    rows = row[place]
    row[place] = rows[np.lexsort((*(value[rows] for value in values), tier[place]))]
    return row


def _by_group_and_rank(row: Ints, code: Codes, rank: Floats) -> Ints:
    """Sort rows by group and rank; `code` and `rank` are theirs."""
    if not len(row):
        return row
    row_bits, code_bits = int(row.max()).bit_length(), int(code.max()).bit_length()
    rank_bits = _KEY_BITS - row_bits - code_bits
    if (rank != np.floor(rank)).any() or rank.max() >= 2.0**rank_bits:
        return row[np.lexsort((rank, code))]
    # All in one number: numbers are sorted many times faster than positions.
    key = code.astype(np.int64) << rank_bits
    key |= rank.astype(np.int64)
    key <<= row_bits
    key |= row
    key.sort()
    key &= (1 << row_bits) - 1
    return key


def changes(value: Codes | Floats) -> NDArray[np.bool_]:
    """Mark where a value differs from the one before it; the first is marked."""
    changed = np.ones(len(value), dtype=bool)
    np.not_equal(value[1:], value[:-1], out=changed[1:])
    return changed
