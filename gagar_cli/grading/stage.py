"""The stage `grade`: who needs a grade, the grader's answers, and the columns they become."""

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gagar_cli.bias import Bias, position_bias
from gagar_cli.errors import GraderError, UngradedError
from gagar_cli.grading.asking import Answer, Job, Progress, ask
from gagar_cli.grading.contract import Grade, Grader, Usage
from gagar_cli.grading.rows import Group, flags_of, read_groups
from gagar_cli.grading.votelog import VoteLog
from gagar_cli.options import GradeOptions
from gagar_cli.rollouts import Rollouts, stage_table
from gagar_cli.schema import STAGE_COLUMNS

Columns = dict[str, list[object]]


@dataclass(slots=True)
class GradeSummary:
    """Groups by what became of them; `ungraded` counts, by reason, those that needed a grade.

    kept: groups that had a grade before. canaries: tests of the grader that were held, and how
    often each kind stood where it does not belong.
    """

    grader: str = ""
    graded: int = 0
    kept: int = 0
    single: int = 0
    none_passing: int = 0
    ungraded: Counter[str] = field(default_factory=Counter)
    rollouts_not_ranked: int = 0
    mean_confidence: float | None = None
    bias: Bias | None = None
    canaries: int = 0
    canary_failures: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)


def grade(  # noqa: PLR0913
    rollouts: Rollouts,
    grader: Grader,
    options: GradeOptions,
    log: VoteLog | None = None,
    progress: Progress = lambda _done, _all, _usage: None,
    *,
    retry_ungraded: bool = False,
) -> tuple[Rollouts, GradeSummary]:
    """Rank the passing candidates of every group; return the rollouts with the stage's columns.

    A group with at least two passing candidates that can be inspected goes to the grader. A group
    that gets no valid ranking is `ungraded` with the reason, never put into a default order. With
    `retry_ungraded`, groups that an earlier run of the stage graded stay as they are. A workspace
    that is missing raises before anything is asked; GraderError stops the run, as do more canary
    failures than the options allow.
    """
    log = VoteLog() if log is None else log
    old = _old_columns(rollouts) if retry_ungraded else None
    rollouts = rollouts.ready_for("grade")
    groups, rows = read_groups(rollouts)
    kept = {g.group_id for g in groups if old is not None and _has_grade(g, old)}
    needing = [g for g in groups if len(g.ranked) > 1 and g.group_id not in kept]
    with tempfile.TemporaryDirectory(prefix="gagar-canaries-") as folder:
        jobs = [Job(group) for group in needing]
        jobs += _canary_jobs(needing, Path(folder), options)
        answers = asyncio.run(ask(jobs, grader, log, options.concurrency, progress)) if jobs else []
    by_group = {g.group_id: a for g, a in zip(needing, answers, strict=False) if a is not None}

    summary = GradeSummary(grader=grader.name, usage=grader.usage, kept=len(kept))
    columns: Columns = {name: [None] * rows for name in STAGE_COLUMNS["grade"]}
    for group in groups:
        if old is not None and group.group_id in kept:
            for name, values in columns.items():
                for row in group.rows:
                    values[row] = old[name][row]
        else:
            _fill(columns, group, by_group.get(group.group_id), summary)
    grades = [a.grade for a in by_group.values() if isinstance(a.grade, Grade)]
    if grades:
        summary.mean_confidence = sum(g.confidence for g in grades) / len(grades)
    summary.bias = position_bias(log.presentations)
    _judge_canaries(answers[len(needing) :], options, summary)
    added = stage_table("grade", columns)
    return rollouts.with_columns(added, "grade", options), summary


def _old_columns(rollouts: Rollouts) -> Columns:
    names = STAGE_COLUMNS["grade"]
    table = rollouts.read("grade_status", optional=[n for n in names if n != "grade_status"])
    missing = [None] * table.num_rows
    return {n: table[n].to_pylist() if n in table.column_names else list(missing) for n in names}


def _has_grade(group: Group, old: Columns) -> bool:
    return any(old["grade_status"][row] == "graded" for row in group.rows)


def _canary_jobs(groups: Sequence[Group], folder: Path, options: GradeOptions) -> list[Job]:
    """Choose the groups in which canaries are planted; the same groups give the same choice."""
    chosen = sorted(groups, key=lambda group: group.group_id)
    random.Random(f"{options.seed}\0canaries").shuffle(chosen)  # noqa: S311  no secret
    return [Job(group, folder, options.seed) for group in chosen[: options.canaries]]


def _judge_canaries(
    answers: Sequence[Answer | None], options: GradeOptions, summary: GradeSummary
) -> None:
    """Count the canaries that stand where they do not belong; too many raise GraderError."""
    for answer in answers:
        if answer and answer.canary and isinstance(answer.grade, Grade):
            summary.canaries += 1
            summary.canary_failures.update(answer.canary.failures(answer.grade.ranking))
    failures, most = summary.canary_failures.total(), options.max_canary_failures
    if most is not None and failures > most:
        kinds = ", ".join(f"{n} {kind}" for kind, n in summary.canary_failures.items())
        raise GraderError(
            f"grader {summary.grader}",
            f"got {failures} canary failures in {summary.canaries} groups ({kinds}), "
            f"expected at most {most}",
            "another model or rubric; what it answered is in the journal",
        )


def _fill(columns: Columns, group: Group, answer: Answer | None, summary: GradeSummary) -> None:
    """Write one group's rows into the columns, and count the group."""
    grade = answer.grade if answer else None
    no_grade = _count(group, grade, summary)
    found = answer.flags if answer else flags_of(group, group.open())
    for row, rollout in group.rows.items():
        if rollout.inspectable:
            columns["grade_flags"][row] = found[rollout.candidate]
        if not rollout.passed:
            status, reason = "not-passing", "" if rollout.failed else "no verdict"
        elif len(group.passing) == 1:
            status, reason = "single", "the only passing rollout of its group"
            columns["rank"][row] = 1
        elif isinstance(grade, Grade) and rollout.inspectable:
            status, reason = "graded", grade.reasons.get(rollout.candidate, "")
            _fill_grade(columns, row, rollout.candidate, grade)
        else:
            status = "ungraded"
            reason = no_grade or f"its patch cannot be inspected ({rollout.status})"
        columns["grade_status"][row] = status
        columns["grade_reason"][row] = reason
        columns["grader"][row] = summary.grader if status in {"graded", "ungraded"} else None


def _fill_grade(columns: Columns, row: int, candidate: str, grade: Grade) -> None:
    columns["rank"][row] = grade.ranking.ranks()[candidate]
    columns["grade_confidence"][row] = grade.confidence
    consensus = grade.consensus
    if consensus is not None:
        columns["grade_votes"][row] = consensus.votes
        columns["grade_margin"][row] = consensus.margin
        columns["grade_cycle"][row] = consensus.cycle
        columns["grade_wins"][row] = [
            {"candidate": other, "wins": wins} for other, wins in consensus.wins[candidate].items()
        ]


def _count(group: Group, grade: Grade | UngradedError | None, summary: GradeSummary) -> str:
    """Count a group by what became of it; return why it has no grade, where it needed one."""
    passing = len(group.passing)
    if isinstance(grade, Grade):
        summary.graded += 1
        summary.rollouts_not_ranked += passing - len(group.ranked)
        return ""
    if passing == 0:
        summary.none_passing += 1
        return ""
    if passing == 1:
        summary.single += 1
        return ""
    reason = str(grade or f"fewer than two of {passing} passing patches can be inspected")
    summary.ungraded[reason] += 1
    return reason
