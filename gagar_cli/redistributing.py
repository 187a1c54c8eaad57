"""The stage `redistribute`: from a table's columns to the columns that it adds."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gagar_cli.advantages import estimate_advantages
from gagar_cli.groups import GroupIndex, check_unique
from gagar_cli.options import RedistributeOptions
from gagar_cli.redistribution import redistribute
from gagar_cli.schema import (
    DEFAULT_PASS_THRESHOLD,
    STAGE_COLUMNS,
    Floats,
    Verdicts,
    numbers,
    read_verdicts,
)


@dataclass(frozen=True, slots=True)
class RedistributeSummary:
    """What moved. Weights are A'_i / A_i of the ranked rollouts; sum_error is relative."""

    groups: int
    groups_moved: int
    rollouts_ranked: int
    weight_low: float
    weight_high: float
    sum_error: float
    advantage_computed: bool


def redistribute_rollouts(
    table: pa.Table,
    options: RedistributeOptions,
    pass_threshold: float = DEFAULT_PASS_THRESHOLD,
) -> tuple[pa.Table, RedistributeSummary]:
    """Return the columns that `gagar redistribute` adds, row for row, and what moved.

    Reads `group_id`, `rollout_id`, a verdict and `rank`; where present `advantage` (else it is
    computed from `reward`, else from `passed`), `grade_confidence` and `num_tokens`.
    """
    index = GroupIndex.of(table["group_id"])
    check_unique(index, table["rollout_id"])
    verdicts = read_verdicts(table, pass_threshold)
    computed = "advantage" not in table.column_names
    advantage = (
        estimate_advantages(
            rewards(table, verdicts),
            index,
            options.estimator,
            ddof=options.ddof,
            epsilon=options.epsilon,
        )
        if computed
        else numbers(table["advantage"])
    )
    result = redistribute(
        advantage,
        index,
        verdicts.passed,
        numbers(table["rank"]),
        _optional(table, "grade_confidence"),
        _optional(table, "num_tokens"),
        options,
    )
    columns = {"advantage": advantage} if computed else {}
    columns |= {
        "credit_weight": result.credit_weight,
        "redistributed_advantage": result.advantage,
    }
    types = STAGE_COLUMNS["redistribute"]
    ranked = result.credit_weight[result.ranked]
    summary = RedistributeSummary(
        groups=len(index),
        groups_moved=int((index.count(result.ranked & (result.credit_weight != 1)) > 0).sum()),
        rollouts_ranked=len(ranked),
        weight_low=float(ranked.min(initial=1.0)),
        weight_high=float(ranked.max(initial=1.0)),
        sum_error=result.sum_error,
        advantage_computed=computed,
    )
    return pa.table({n: _nullable(v, types[n]) for n, v in columns.items()}), summary


def _nullable(value: Floats, kind: pa.DataType) -> pa.Array:
    """Return numbers as Arrow's, NaN as null; they are copied only where there is one."""
    missing = np.isnan(value)
    return pa.array(value, kind, mask=missing if missing.any() else None)


def rewards(table: pa.Table, verdicts: Verdicts) -> Floats:
    """Return `reward` where the file has it, else 1 for passed and 0 for failed; else NaN.

    A row without a verdict has no reward either: it takes no part in means.
    """
    has_rewards = "reward" in table.column_names
    reward = numbers(table["reward"]) if has_rewards else verdicts.passed.astype(np.float64)
    known = verdicts.known
    return reward if known.all() else np.where(known, reward, np.nan)


def _optional(table: pa.Table, name: str) -> Floats | None:
    return numbers(table[name]) if name in table.column_names else None
