"""Groups and rollouts as `gagar show` presents them, read from any stage's file."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from gagar_cli.errors import located
from gagar_cli.groups import GroupIndex
from gagar_cli.rollouts import Rollouts
from gagar_cli.schema import Verdicts, numbers, read_verdicts, strings

_SHOWN = (
    "candidate",
    "rank",
    "patch_status",
    "files_changed",
    "lines_added",
    "lines_removed",
    "grade_flags",
    "advantage",
    "credit_weight",
    "redistributed_advantage",
    "grade_reason",
)


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group: its verdicts, its grade, the ids of its best, its lowest and highest weight."""

    group_id: str
    rollouts: int
    passed: int
    failed: int
    grade: str | None
    confidence: float | None
    best: list[str]
    weights: tuple[float, float] | None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


def group_rows(rollouts: Rollouts) -> list[GroupRow]:
    """Summarise every group, in order of first appearance."""
    table = rollouts.read(
        "group_id",
        "rollout_id",
        rollouts.verdict(),
        optional=("rank", "grade_status", "grade_confidence", "credit_weight"),
    )
    with located(rollouts.source.name):
        index = GroupIndex.of(table["group_id"])
        verdicts = read_verdicts(table, rollouts.pass_threshold)
    ids = strings(table["rollout_id"])
    absent = [math.nan] * table.num_rows
    rank, confidence, weight = (
        numbers(table[name]) if name in table.column_names else np.array(absent)
        for name in ("rank", "grade_confidence", "credit_weight")
    )
    statuses = strings(table["grade_status"]) if "grade_status" in table.column_names else None
    found = []
    for group_id, rows in index:
        passing = rows[verdicts.passed[rows]]
        least = np.min(rank[passing], where=~np.isnan(rank[passing]), initial=math.inf)
        weights = weight[passing][~np.isnan(weight[passing])]
        sure = confidence[rows][~np.isnan(confidence[rows])]
        found.append(
            GroupRow(
                group_id=group_id,
                rollouts=len(rows),
                passed=len(passing),
                failed=int(verdicts.failed[rows].sum()),
                grade=_grade([statuses[row] for row in rows]) if statuses else None,
                confidence=float(sure[0]) if len(sure) else None,
                best=[str(ids[row]) for row in passing if rank[row] == least],
                weights=(float(weights.min()), float(weights.max())) if len(weights) else None,
            )
        )
    return found


def _grade(statuses: list[str | None]) -> str:
    """Return what became of a group, from what became of its rollouts."""
    return next((s for s in ("graded", "single", "ungraded") if s in statuses), "not-passing")


def rollout_rows(rollouts: Rollouts, group_id: str) -> list[dict[str, Any]]:
    """Return the rollouts of one group, the best first, the failing ones last."""
    table = rollouts.read("group_id", "rollout_id", rollouts.verdict(), optional=_SHOWN)
    with located(rollouts.source.name):
        verdicts = read_verdicts(table, rollouts.pass_threshold)
    mine = np.flatnonzero(
        pc.equal(table["group_id"].cast("string"), group_id).to_numpy(zero_copy_only=False)
    )
    rows = []
    for row, values in zip(mine, table.take(mine).to_pylist(), strict=True):
        shown = {name: values[name] for name in _SHOWN if name in values}
        verdict = _verdict(verdicts, int(row))
        rows.append({"rollout_id": str(values["rollout_id"]), "verdict": verdict, **shown})
    order = {"passed": 0, "failed": 1, "none": 2}
    return sorted(rows, key=lambda r: (order[r["verdict"]], r.get("rank") or math.inf))


def _verdict(verdicts: Verdicts, row: int) -> str:
    if verdicts.passed[row]:
        return "passed"
    return "failed" if verdicts.failed[row] else "none"
