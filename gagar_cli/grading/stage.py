"""The stage `grade`: who needs a grade, the grader's answers, and the columns they become."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gagar_cli.errors import DataError, SourceError, UngradedError, located
from gagar_cli.findings import flags
from gagar_cli.grading.contract import Grade, Grader, GroupView, Usage
from gagar_cli.groups import GroupIndex, check_unique
from gagar_cli.options import GradeOptions
from gagar_cli.rollouts import Rollouts, stage_table
from gagar_cli.schema import STAGE_COLUMNS, is_set, read_verdicts, strings
from gagar_cli.workspace.view import Workspace

Progress = Callable[[int, int, Usage], None]

_INSPECTABLE = {"applied", "applied-3way", "applied-fuzz", "empty", "diff-only"}


@dataclass(slots=True)
class GradeSummary:
    """Groups by what became of them; `ungraded` counts, by reason, those that needed a grade."""

    grader: str = ""
    graded: int = 0
    single: int = 0
    none_passing: int = 0
    ungraded: Counter[str] = field(default_factory=Counter)
    rollouts_not_ranked: int = 0
    mean_confidence: float | None = None
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class _Row:
    """One rollout as the stage reads it."""

    candidate: str
    passed: bool
    failed: bool
    status: str
    counted: bool  # whether unidiff can read its diff

    @property
    def inspectable(self) -> bool:
        return self.counted and self.status in _INSPECTABLE


@dataclass(frozen=True, slots=True)
class _Group:
    group_id: str
    folder: Path
    rows: Mapping[int, _Row]

    @property
    def passing(self) -> list[int]:
        return [n for n, row in self.rows.items() if row.passed]

    @property
    def ranked(self) -> list[int]:
        return [n for n in self.passing if self.rows[n].inspectable]

    def view(self, workspace: Workspace) -> GroupView:
        rows = [row for row in self.rows.values() if row.inspectable]
        return GroupView(
            group_id=self.group_id,
            workspace=workspace,
            passing=tuple(sorted(row.candidate for row in rows if row.passed)),
            failing=tuple(sorted(row.candidate for row in rows if row.failed)),
        )


def grade(
    rollouts: Rollouts,
    grader: Grader,
    options: GradeOptions,
    progress: Progress = lambda _done, _all, _usage: None,
) -> tuple[Rollouts, GradeSummary]:
    """Rank the passing candidates of every group; return the rollouts with the stage's columns.

    A group with at least two passing candidates that can be inspected goes to the grader. A group
    that gets no valid ranking is `ungraded` with the reason, never put into a default order. A
    workspace that is missing raises before anything is asked; GraderError stops the run.
    """
    rollouts = rollouts.ready_for("grade")
    rollouts.require("workspace", "candidate", "patch_status", "files_changed")
    groups, rows = _read_groups(rollouts)
    for group in groups:
        if not (group.folder / "group.json").is_file():
            raise SourceError(f"workspace {group.folder}", "is not there", "gagar assemble")
    needing = [group for group in groups if len(group.ranked) > 1]
    answers = asyncio.run(_ask(needing, grader, options.concurrency, progress))

    summary = GradeSummary(grader=grader.name, usage=grader.usage)
    columns: dict[str, list[object]] = {n: [None] * rows for n in STAGE_COLUMNS["grade"]}
    for group in groups:
        _fill(columns, group, answers.get(group.group_id), summary)
    confidences = [a.confidence for a in answers.values() if isinstance(a, Grade)]
    if confidences:
        summary.mean_confidence = sum(confidences) / len(confidences)
    added = stage_table("grade", columns)
    return rollouts.with_columns(added, "grade", options), summary


def _read_groups(rollouts: Rollouts) -> tuple[list[_Group], int]:
    table = rollouts.read(
        "group_id",
        "rollout_id",
        rollouts.verdict(),
        "workspace",
        "candidate",
        "patch_status",
        "files_changed",
    )
    counted = is_set(table["files_changed"])
    with located(rollouts.source.name):
        index = GroupIndex.of(table["group_id"])
        check_unique(index, table["rollout_id"])
        verdicts = read_verdicts(table, rollouts.pass_threshold)
        folders, labels, statuses = (
            strings(table[name]) for name in ("workspace", "candidate", "patch_status")
        )
        groups = []
        for group_id, rows in index:
            folder = {folders[row] for row in rows}
            found = [labels[row] for row in rows]
            if len(folder) != 1 or None in folder or None in found or len(set(found)) < len(found):
                raise DataError(
                    f"group {group_id!r}",
                    "its rows do not name one workspace and one candidate each",
                    "gagar assemble",
                )
            groups.append(
                _Group(
                    group_id,
                    Path(str(folder.pop())),
                    {
                        int(row): _Row(
                            candidate=str(labels[row]),
                            passed=bool(verdicts.passed[row]),
                            failed=bool(verdicts.failed[row]),
                            status=statuses[row] or "",
                            counted=bool(counted[row]),
                        )
                        for row in rows
                    },
                )
            )
    return groups, table.num_rows


async def _ask(
    groups: Sequence[_Group], grader: Grader, concurrency: int, progress: Progress
) -> dict[str, Grade | UngradedError]:
    """Ask the grader about every group, some at a time; the first GraderError stops them all."""
    answers: dict[str, Grade | UngradedError] = {}
    waiting = iter(groups)

    async def work() -> None:
        for group in waiting:
            try:
                workspace = await asyncio.to_thread(Workspace.open, group.folder)
                answers[group.group_id] = await grader.grade(group.view(workspace))
            except UngradedError as error:
                answers[group.group_id] = error
            progress(len(answers), len(groups), grader.usage)

    if not groups:
        return answers
    await grader.start()
    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(concurrency, len(groups))):
                tasks.create_task(work())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        await grader.close()
    return answers


def _fill(
    columns: dict[str, list[object]],
    group: _Group,
    answer: Grade | UngradedError | None,
    summary: GradeSummary,
) -> None:
    """Write one group's rows into the columns, and count the group."""
    no_grade = _count(group, answer, summary)
    ranks = answer.ranking.ranks() if isinstance(answer, Grade) else {}
    workspace = Workspace.open(group.folder)
    for row, rollout in group.rows.items():
        if not rollout.passed:
            status, reason = "not-passing", "" if rollout.failed else "no verdict"
        elif len(group.passing) == 1:
            status, reason = "single", "the only passing rollout of its group"
            columns["rank"][row] = 1
        elif isinstance(answer, Grade) and rollout.candidate in ranks:
            status, reason = "graded", answer.reasons.get(rollout.candidate, "")
            columns["rank"][row] = ranks[rollout.candidate]
            columns["grade_confidence"][row] = answer.confidence
        else:
            status = "ungraded"
            reason = no_grade or f"its patch cannot be inspected ({rollout.status})"
        columns["grade_status"][row] = status
        columns["grade_reason"][row] = reason
        columns["grader"][row] = summary.grader if status in {"graded", "ungraded"} else None
        if rollout.inspectable:
            columns["grade_flags"][row] = flags(workspace.facts(rollout.candidate))


def _count(group: _Group, answer: Grade | UngradedError | None, summary: GradeSummary) -> str:
    """Count a group by what became of it; return why it has no grade, where it needed one."""
    passing = len(group.passing)
    if isinstance(answer, Grade):
        summary.graded += 1
        summary.rollouts_not_ranked += passing - len(group.ranked)
        return ""
    if passing == 0:
        summary.none_passing += 1
        return ""
    if passing == 1:
        summary.single += 1
        return ""
    reason = str(answer or f"fewer than two of {passing} passing patches can be inspected")
    summary.ungraded[reason] += 1
    return reason
