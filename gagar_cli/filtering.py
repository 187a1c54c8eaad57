"""Dynamic sampling: keep the groups that hold both passing and failing rollouts.

A group without contrast has only zero advantages and carries no signal (DAPO, arXiv 2503.14476).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gagar_cli.groups import GroupIndex, check_unique
from gagar_cli.options import FilterOptions
from gagar_cli.schema import DEFAULT_PASS_THRESHOLD, Verdicts, read_verdicts

# In order of precedence: the first that holds is a group's reason.
REASONS = ("no-verdict", "too-small", "all-pass", "all-fail", "low-pass-rate", "high-pass-rate")


@dataclass(frozen=True, slots=True)
class FilterSummary:
    """Groups and rollouts, kept and dropped by reason."""

    groups_kept: int
    rollouts_kept: int
    groups_dropped: Mapping[str, int]
    rollouts_dropped: Mapping[str, int]

    @property
    def groups(self) -> int:
        """All groups of the input."""
        return self.groups_kept + sum(self.groups_dropped.values())

    @property
    def rollouts(self) -> int:
        """All rollouts of the input."""
        return self.rollouts_kept + sum(self.rollouts_dropped.values())


@dataclass(frozen=True, slots=True)
class FilterResult:
    """codes: (N,) int8, the place in REASONS of why a row goes, -1 where it is kept."""

    codes: NDArray[np.int8]
    summary: FilterSummary

    @property
    def keep(self) -> NDArray[np.bool_]:
        """Which rows stay, (N,) bool."""
        return self.codes < 0

    @property
    def reason(self) -> pa.StringArray:
        """Why rows go, (N,) strings, null where they are kept."""
        place = pa.array(self.codes, mask=self.keep)
        return pa.DictionaryArray.from_arrays(place, pa.array(REASONS, pa.string())).cast("string")


def filter_rollouts(
    table: pa.Table,
    options: FilterOptions,
    pass_threshold: float = DEFAULT_PASS_THRESHOLD,
) -> FilterResult:
    """Decide, for each row of `group_id`, `rollout_id` and a verdict, whether its group stays.

    Rows without a verdict go with their group; they count neither for its size nor for its pass
    rate. Duplicate ids raise DataError.
    """
    index = GroupIndex.of(table["group_id"])
    check_unique(index, table["rollout_id"])
    reason = group_reasons(index, read_verdicts(table, pass_threshold), options)

    sizes = index.sizes
    dropped = {name: reason == code for code, name in enumerate(REASONS) if (reason == code).any()}
    summary = FilterSummary(
        groups_kept=int((reason < 0).sum()),
        rollouts_kept=int(sizes[reason < 0].sum()),
        groups_dropped={name: int(where.sum()) for name, where in dropped.items()},
        rollouts_dropped={name: int(sizes[where].sum()) for name, where in dropped.items()},
    )
    return FilterResult(reason[index.codes], summary)


def group_reasons(
    index: GroupIndex, verdicts: Verdicts, options: FilterOptions
) -> NDArray[np.int8]:
    """Return, per group, the place in REASONS of why it is dropped, or -1 where it is kept."""
    passes = index.count(verdicts.passed)
    size = passes + index.count(verdicts.failed)
    rate = passes / np.maximum(size, 1)
    conditions = [
        size == 0,
        size < options.min_group_size,
        passes == size,
        passes == 0,
        rate < options.min_pass_rate,
        rate > options.max_pass_rate,
    ]
    return np.select(conditions, list(range(len(conditions))), default=-1).astype(np.int8)
