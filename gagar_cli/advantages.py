"""Group-relative advantages from rewards, for files whose trainer has not written them.

With r_i the rewards of one group of G rollouts that have a reward:

    grpo      (r_i - mean) / (std + epsilon)     DeepSeekMath, arXiv 2402.03300
    dr-grpo   r_i - mean                         Dr. GRPO, arXiv 2503.20783
    rloo      r_i - mean of the others           = (r_i - mean) G / (G - 1), arXiv 2402.14740
"""

import numpy as np

from gagar_cli.errors import DataError
from gagar_cli.groups import Codes, GroupIndex
from gagar_cli.options import Estimator
from gagar_cli.parallel import on_all_cores
from gagar_cli.schema import Floats


def estimate_advantages(
    reward: Floats,
    index: GroupIndex,
    estimator: Estimator = Estimator.GRPO,
    *,
    ddof: int = 1,
    epsilon: float = 1e-6,
) -> Floats:
    """Return the advantage of each row, (N,) float64, from rewards, (N,) float64.

    A NaN reward takes no part in means and gets a NaN advantage. A group of one, and a group
    whose rewards are all equal, gets exactly 0: equality is tested, since a standard deviation
    of equal floats can leave a residue that the division would blow up. `ddof` and `epsilon`
    count only for `grpo`. Infinite rewards, and rewards whose spread overflows float64, raise
    DataError. Linear in the rows.
    """
    advantage = np.full(len(reward), np.nan)

    def fill(rows: slice) -> None:
        codes, r = index.codes[rows], reward[rows]
        known = ~np.isnan(r)
        if not known.all():
            codes, r = codes[known], r[known]
        _check_finite(r, r, codes, index)
        value = _estimated(r, codes - codes.min(initial=len(index)), estimator, ddof, epsilon)
        _check_finite(value, r, codes, index)
        advantage[rows][known] = value

    on_all_cores(fill, index.blocks())
    return advantage


def _estimated(r: Floats, code: Codes, estimator: Estimator, ddof: int, epsilon: float) -> Floats:
    """Return the advantages of rows that all have a reward; what overflows is not finite."""
    count = np.bincount(code)
    one = np.zeros(len(count))
    one[code] = r  # any reward of the group: all are equal when all equal it
    flat = np.bincount(code[r != one[code]], minlength=len(count)) == 0
    with np.errstate(all="ignore"):
        mean = np.bincount(code, weights=r) / np.maximum(count, 1)
        value: Floats = r - np.where(flat, one, mean)[code]
        if estimator is Estimator.GRPO:
            squares = np.bincount(code, weights=value * value)
            std = np.sqrt(squares / np.maximum(count - ddof, 1))
            value /= np.where(flat, 1.0, np.where(np.isinf(std), np.nan, std + epsilon))[code]
        elif estimator is Estimator.RLOO:
            value *= (count / np.maximum(count - 1, 1))[code]
    return value


def _check_finite(value: Floats, reward: Floats, code: Codes, index: GroupIndex) -> None:
    bad = np.flatnonzero(~np.isfinite(value))
    if len(bad):
        raise DataError(
            f"group {index.name(code[bad[0]])!r}",
            f"got reward {reward[bad[0]]:g}, expected rewards that float64 can average",
        )
