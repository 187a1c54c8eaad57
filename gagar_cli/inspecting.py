"""What a file of rollouts has, what it lacks, and what each stage could do with it."""

from dataclasses import dataclass, field

import numpy as np

from gagar_cli.errors import DataError, GagarError
from gagar_cli.filtering import filter_rollouts
from gagar_cli.groups import GroupIndex
from gagar_cli.options import FilterOptions
from gagar_cli.rollouts import Rollouts
from gagar_cli.schema import KNOWN_COLUMNS, numbers, read_verdicts, type_problem


@dataclass(slots=True)
class Report:
    """problems: what makes the file unfit for any stage. stages: "ready", or what is missing."""

    rows: int = 0
    files: int = 0
    groups: int | None = None
    group_sizes: dict[str, float] | None = None
    verdict: str | None = None
    passed: int | None = None
    failed: int | None = None
    without_verdict: int | None = None
    mixed_groups: int | None = None
    columns: dict[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    other_columns: int = 0
    made_by: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    stages: dict[str, str] = field(default_factory=dict)


_NEEDS = {
    "filter": ("group_id", "rollout_id"),
    "assemble": ("group_id", "rollout_id", "patch"),
    "grade": ("group_id", "rollout_id", "workspace", "candidate", "patch_status", "files_changed"),
    "redistribute": ("group_id", "rollout_id", "rank"),
}
# Without these a stage still works, but does less.
_BETTER_WITH = {
    "assemble": ("repo", "base_commit", "problem_statement"),
    "redistribute": ("advantage", "grade_confidence", "num_tokens"),
}


def inspect(rollouts: Rollouts) -> Report:
    """Look at a file's columns, ids and verdicts; what is wrong goes into the report."""
    schema, names = rollouts.schema, rollouts.names
    report = Report(rows=rollouts.source.rows, files=len(rollouts.source.files))
    report.made_by = [f"{r.stage} {r.version}" for r in rollouts.provenance.stages]
    known = {names[c]: c for c in KNOWN_COLUMNS if names.found_in(schema, c)}
    for entry in schema:
        canonical = known.get(entry.name)
        if canonical is None:
            report.other_columns += 1
            continue
        report.columns[canonical] = str(entry.type)
        problem = type_problem(canonical, entry.name, entry.type)
        if problem:
            report.problems.append(problem)
    twice = [name for name in known if len(schema.get_all_field_indices(name)) > 1]
    report.problems += [f"has more than one column {name!r}, expected one" for name in twice]
    report.absent = [name for name in KNOWN_COLUMNS if name not in report.columns]
    _look_at_rows(rollouts, report)
    for stage in _NEEDS:
        report.stages[stage] = _readiness(rollouts, stage)
    return report


def _look_at_rows(rollouts: Rollouts, report: Report) -> None:
    try:
        report.verdict = rollouts.verdict()
        table = rollouts.read("group_id", "rollout_id", report.verdict)
        index = GroupIndex.of(table["group_id"])
        report.groups = len(index)
        if len(index):
            sizes = index.sizes
            report.group_sizes = {
                "least": int(sizes.min()),
                "median": float(np.median(sizes)),
                "most": int(sizes.max()),
            }
        verdicts = read_verdicts(table, rollouts.pass_threshold)
        report.passed = int(verdicts.passed.sum())
        report.failed = int(verdicts.failed.sum())
        report.without_verdict = int((~verdicts.known).sum())
        found = filter_rollouts(table, FilterOptions(), rollouts.pass_threshold)
        report.mixed_groups = found.summary.groups_kept
    except DataError as error:
        text = str(error).removeprefix(f"{rollouts.source.name}: ")
        if text not in report.problems and error.problem not in report.problems:
            report.problems.append(text)


def _readiness(rollouts: Rollouts, stage: str) -> str:
    try:
        rollouts.require(*_NEEDS[stage])
        rollouts.verdict()
        if stage == "redistribute" and rollouts.has("advantage"):
            _check_advantages(rollouts)
    except GagarError as error:
        return f"no: {error.problem}" + (f". Next: {error.next_step}" if error.next_step else "")
    lacking = [name for name in _BETTER_WITH.get(stage, ()) if not rollouts.has(name)]
    return "ready" + (f", without {', '.join(lacking)}" if lacking else "")


def _check_advantages(rollouts: Rollouts) -> None:
    values = numbers(rollouts.read("advantage")["advantage"])
    if np.isinf(values).any():
        raise DataError("", "got an infinite advantage, expected a number or null")
