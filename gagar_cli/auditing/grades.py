"""What a graded file says by itself: who was ranked, who was not and why, and by which size."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gagar_cli.errors import located
from gagar_cli.groups import GroupIndex, check_unique
from gagar_cli.rollouts import Rollouts
from gagar_cli.schema import Floats, numbers

Bools = NDArray[np.bool_]

_STATUSES = ("graded", "ungraded", "single")
_NO_REASON = "no reason given"


@dataclass(frozen=True, slots=True)
class Grades:
    """The rows of a graded file, N of them.

    rank: (N,) NaN where the rollout was not ranked beside another. confidence: (N,) NaN where there
    is none. lines: (N,) changed lines of the patch, None where the file does not say. graders:
    their names, in the order of the alphabet.
    """

    index: GroupIndex
    rollout_id: pa.ChunkedArray
    rank: Floats
    confidence: Floats
    lines: Floats | None
    graders: tuple[str, ...]

    def groups(self, known: Bools) -> Iterator[NDArray[np.int64]]:
        """Yield the rows that are ranked and `known`, (N,) bool, of groups with two or more.

        Groups come in the order of their ids, rows in that of theirs: nothing follows from the
        order of the file.
        """
        usable = known & ~np.isnan(self.rank)
        for _, group in sorted((name, n) for n, name in enumerate(self.index.ids)):
            rows = self.index.rows(group)
            rows = rows[usable[rows]]
            if len(rows) > 1:
                yield rows


@dataclass(frozen=True, slots=True)
class Counts:
    """Groups by what became of them.

    ungraded_share: 0..1, of the groups that needed a grade; None where none did. ungraded: groups
    by reason. rollouts_ranked: beside others of their group. not_ranked: passing rollouts of graded
    groups that have no rank, by reason. mean_confidence: over groups that have one, else None.
    """

    groups: int
    graded: int
    ungraded_groups: int
    single: int
    none_passing: int
    ungraded_share: float | None
    ungraded: Mapping[str, int]
    rollouts_ranked: int
    not_ranked: Mapping[str, int]
    mean_confidence: float | None


def read_grades(rollouts: Rollouts) -> Grades:
    """Read what is needed of a graded file; one without `rank` raises DataError."""
    table = rollouts.read(
        "group_id",
        "rollout_id",
        "rank",
        optional=("grade_confidence", "grade_status", "lines_added", "lines_removed", "grader"),
    )
    with located(rollouts.source.name):
        index = GroupIndex.of(table["group_id"])
        check_unique(index, table["rollout_id"])
    rank = numbers(table["rank"])
    if "grade_status" in table.column_names:  # a single one is ranked beside nobody
        rank = np.where(_equal(table["grade_status"], "graded"), rank, np.nan)
    absent = np.full(len(table), np.nan)
    names = table.column_names
    sized = {"lines_added", "lines_removed"} <= set(names)
    graders = pc.unique(table["grader"]).to_pylist() if "grader" in names else []
    return Grades(
        index=index,
        rollout_id=table["rollout_id"],
        rank=rank,
        confidence=numbers(table["grade_confidence"]) if "grade_confidence" in names else absent,
        lines=numbers(table["lines_added"]) + numbers(table["lines_removed"]) if sized else None,
        graders=tuple(sorted(name for name in graders if name is not None)),
    )


def count_grades(rollouts: Rollouts, grades: Grades) -> Counts:
    """Count groups by their `grade_status`, which the file must have, else DataError."""
    status = rollouts.read("grade_status")["grade_status"]
    index = grades.index
    has = {name: index.count(_equal(status, name)) > 0 for name in _STATUSES}
    graded = has["graded"]
    ungraded = has["ungraded"] & ~graded
    single = has["single"] & ~graded & ~ungraded
    needed = int(graded.sum() + ungraded.sum())
    reasons, not_ranked = _reasons(rollouts, dict(zip(index.ids, graded, strict=True)))
    sure = ~np.isnan(grades.confidence)
    first = dict(zip(index.codes[sure].tolist(), grades.confidence[sure].tolist(), strict=True))
    return Counts(
        groups=len(index),
        graded=int(graded.sum()),
        ungraded_groups=int(ungraded.sum()),
        single=int(single.sum()),
        none_passing=int(len(index) - needed - single.sum()),
        ungraded_share=int(ungraded.sum()) / needed if needed else None,
        ungraded=reasons,
        rollouts_ranked=int((~np.isnan(grades.rank)).sum()),
        not_ranked=not_ranked,
        mean_confidence=float(np.mean(sorted(first.values()))) if first else None,
    )


def by_count(counter: Counter[str]) -> dict[str, int]:
    """Return what was counted, the most first, equal counts in the order of the alphabet."""
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))


def _reasons(
    rollouts: Rollouts, graded: Mapping[str, np.bool_]
) -> tuple[dict[str, int], dict[str, int]]:
    """Count ungraded groups by reason, and rollouts not ranked of graded groups by reason.

    Reasons are long and mostly those of ranks, so they are read batch by batch.
    """
    groups: dict[str, str] = {}
    left: Counter[str] = Counter()
    columns = ["group_id", "grade_status"]
    columns += ["grade_reason"] if rollouts.has("grade_reason") else []
    for batch in rollouts.stream(*columns):
        for row in batch.filter(
            pc.equal(batch["grade_status"].cast("string"), "ungraded")
        ).to_pylist():
            group_id, reason = str(row["group_id"]), row.get("grade_reason") or _NO_REASON
            if graded[group_id]:
                left[reason] += 1
            else:
                groups[group_id] = min(reason, groups.get(group_id, reason))
    return by_count(Counter(groups.values())), by_count(left)


def _equal(column: pa.ChunkedArray, value: str) -> Bools:
    found = pc.fill_null(pc.equal(column.cast("string"), value), fill_value=False)
    return np.asarray(found.to_numpy(zero_copy_only=False) if len(column) else [], dtype=bool)
