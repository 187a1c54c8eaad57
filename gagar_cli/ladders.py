"""What each place in a ranking weighs, before the group's sum is restored.

The source of the method gives no formula; these ladders are ours. Places are counted from 0, the
best, within the ranked rollouts of one group.
"""

import numpy as np
from numpy.typing import NDArray

from gagar_cli.groups import Ints
from gagar_cli.options import RedistributeOptions
from gagar_cli.schema import Floats


def place_weights(size: Ints, place: Ints, options: RedistributeOptions) -> Floats:
    """Return the weight of each place in a group of that size, (N,) float64 from (N,) int64.

    linear: from 1 down to the floor in equal steps. geometric: ratio**place, at least the floor.
    bottom-fraction: the floor for that share of the places, rounded down, never for the first;
    1 for the others. A list: the weight of each place; the last one repeats.
    """
    ladder = options.ladder()
    if isinstance(ladder, tuple):
        return np.asarray(ladder, dtype=np.float64)[np.minimum(place, len(ladder) - 1)]
    if ladder == "linear":
        share = place / np.maximum(size - 1, 1)
        return np.where(share == 1, options.floor, 1.0 - (1.0 - options.floor) * share)
    if ladder == "geometric":
        return np.maximum(np.float64(options.ratio) ** place, options.floor)
    # 0.29 of 100 is 28.999999999999996 in floats, and 29 to whoever wrote it.
    lowered = np.minimum(np.floor(options.fraction * size + 1e-9), size - 1)
    weight: Floats = np.where(place >= size - lowered, options.floor, 1.0)
    return weight


def share_ties(weight: Floats, new_tier: NDArray[np.bool_]) -> Floats:
    """Give the rows of each tier the mean of their weights; `new_tier` marks where one begins."""
    starts = np.flatnonzero(new_tier)
    sizes = np.diff(np.append(starts, len(weight)))
    mean = np.add.reduceat(weight, starts) / sizes
    # Rounding must not lift a mean over the tier's first weight, and so over a better tier's.
    mean = np.minimum(np.maximum(mean, weight[starts + sizes - 1]), weight[starts])
    shared: Floats = mean[np.cumsum(new_tier) - 1]
    return shared


def shrink(weight: Floats, confidence: Floats) -> Floats:
    """Move weights toward 1 where the votes disagree: 1 - c (1 - w), c from 0 to 1."""
    # The same, arranged so that a weight near zero keeps its digits.
    return confidence * weight + (1.0 - confidence)
