"""The audit as a whole: all that can be measured, and why the rest cannot."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from gagar_cli.agreement import (
    Agreement,
    Calibration,
    Compared,
    Estimate,
    agreement,
    calibration,
    estimate,
    tau_b,
)
from gagar_cli.auditing.grades import Counts, Grades, count_grades, read_grades
from gagar_cli.auditing.options import AuditOptions
from gagar_cli.auditing.reference import Reference, other_reference, own_reference
from gagar_cli.auditing.votes import (
    Canaries,
    Cost,
    Failures,
    add_up_cost,
    count_canaries,
    count_failures,
    read_votes,
    vote_agreement,
)
from gagar_cli.bias import Bias, position_bias
from gagar_cli.errors import located
from gagar_cli.parquet_io import Source
from gagar_cli.rollouts import Rollouts


@dataclass(slots=True)
class Audit:
    """What was measured; None is what could not be, with the reason in `left_out`.

    unordered_groups: those compared whose reference ties all, which say nothing. length: the mean
    over groups of tau-b between rank and changed lines, positive where smaller patches rank better:
    a preference, and no fault by itself. Notes say what was left out of the numbers.
    """

    graders: tuple[str, ...] = ()
    groups: Counts | None = None
    reference: Reference | None = None
    agreement: Agreement | None = None
    unordered_groups: int | None = None
    calibration: Calibration | None = None
    length: Estimate | None = None
    votes: Failures | None = None
    vote_agreement: Estimate | None = None
    position: Bias | None = None
    cost: Cost | None = None
    canaries: Canaries | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return all that was measured, as JSON values; what was not is not there."""
        values: dict[str, Any] = _plain(self)
        if self.reference is not None:
            del values["reference"]["values"]
        if self.position is not None:
            values["position"]["biased"] = self.position.biased
        if self.calibration is not None:
            for entry, held in zip(
                values["calibration"]["bins"], self.calibration.bins, strict=True
            ):
                entry["expected"] = held.expected
        return values


def audit(
    rollouts: Rollouts,
    options: AuditOptions,
    *,
    transcripts: Source | None = None,
    reference: Source | None = None,
    column: str | None = None,
) -> Audit:
    """Measure what a graded file, its transcripts and a reference tell.

    The reference is a column of the file that is named so, else one of the graded file; without
    either there is none.
    """
    grades = read_grades(rollouts)
    found = Audit(graders=grades.graders)
    _look_at_grades(found, rollouts, grades, options)
    higher = options.higher_is_better
    if reference is not None:
        found.reference = other_reference(
            reference, rollouts.names, grades, column, higher_is_better=higher
        )
    elif column is not None:
        found.reference = own_reference(rollouts, grades, column, higher_is_better=higher)
    _compare(found, rollouts, grades, options)
    _look_at_votes(found, grades, transcripts, options)
    return found


def _look_at_grades(
    found: Audit, rollouts: Rollouts, grades: Grades, options: AuditOptions
) -> None:
    if rollouts.has("grade_status"):
        found.groups = count_grades(rollouts, grades)
    else:
        found.left_out["groups"] = "the file has no grade_status"
    if grades.lines is None:
        found.left_out["length"] = "the file has no lines_added and lines_removed"
        return
    pairs = [
        (grades.rank[rows].tolist(), grades.lines[rows].tolist())
        for rows in grades.groups(~np.isnan(grades.lines))
    ]
    told = [tau_b(a, b) for a, b in pairs if len(set(a)) > 1 and len(set(b)) > 1]
    found.length = estimate(told, options.bootstrap, options.seed)
    if found.length is None:
        found.left_out["length"] = "no group has ranks and changed lines that both differ"


def _compare(found: Audit, rollouts: Rollouts, grades: Grades, options: AuditOptions) -> None:
    reference = found.reference
    if reference is None:
        reason = "no --reference and no --reference-column"
        found.left_out |= dict.fromkeys(("reference", "agreement", "calibration"), reason)
        return
    if reference.only_graded:
        found.notes.append(f"ranked rollouts that the reference lacks: {reference.only_graded}")
    if reference.only_reference:
        found.notes.append(f"rows of the reference that the file lacks: {reference.only_reference}")
    if reference.without_value:
        found.notes.append(f"ranked rollouts whose reference is null: {reference.without_value}")
    with located(rollouts.source.name):
        groups = [
            Compared(
                ranks=tuple(grades.rank[rows].tolist()),
                reference=tuple(reference.values[rows].tolist()),
                confidence=_first(grades.confidence[rows].tolist()),
            )
            for rows in grades.groups(~np.isnan(reference.values))
        ]
    found.unordered_groups = sum(not group.ordered for group in groups)
    if found.unordered_groups:
        found.notes.append(f"groups whose rollouts the reference ties: {found.unordered_groups}")
    found.agreement = agreement(groups, options.bootstrap, options.seed)
    if found.agreement is None:
        reason = "no group has two ranked rollouts that the reference tells apart"
        found.left_out |= dict.fromkeys(("agreement", "calibration"), reason)
        return
    found.calibration = calibration(groups)
    if found.calibration is None:
        found.left_out["calibration"] = "no group compared has a grade_confidence"


def _look_at_votes(
    found: Audit, grades: Grades, transcripts: Source | None, options: AuditOptions
) -> None:
    of_votes = ("votes", "vote_agreement", "position", "cost", "canaries")
    if transcripts is None:
        found.left_out |= dict.fromkeys(of_votes, "no --transcripts")
        return
    votes = read_votes(transcripts)
    found.canaries = count_canaries([vote for vote in votes if vote.canary])
    if found.canaries is None:
        found.left_out["canaries"] = "no vote of the transcripts is on a canary"
    votes = [vote for vote in votes if not vote.canary]
    ids = set(grades.index.ids)
    mine = [vote for vote in votes if vote.group_id in ids]
    if len(mine) < len(votes):
        found.notes.append(f"votes on groups that the file lacks: {len(votes) - len(mine)}")
    others = {vote.grader for vote in mine if vote.grader} - set(grades.graders)
    if others and grades.graders:
        found.notes.append(f"votes are by another grader than the grades: {min(others)}")
    if not mine:
        reason = "the transcripts hold no vote on a group of the file"
        found.left_out |= dict.fromkeys(of_votes[:-1], reason)
        return
    with located(transcripts.name):
        found.vote_agreement = vote_agreement(mine, options.bootstrap, options.seed)
    if found.vote_agreement is None:
        found.left_out["vote_agreement"] = (
            "no group has two valid votes that tell its candidates apart"
        )
    shown = [vote.presentation() for vote in mine]
    found.position = position_bias([vote for vote in shown if vote is not None])
    if found.position is None:
        found.left_out["position"] = "no valid vote tells two candidates apart"
    elif found.position.size_correlation is None:
        found.left_out["position.size_correlation"] = "no vote is on patches of different sizes"
    found.votes = count_failures(mine)
    found.cost = add_up_cost(mine, options.price_in, options.price_out)
    if found.cost is not None and found.cost.money is None:
        priced = options.price_in is not None or options.price_out is not None
        found.left_out["cost.money"] = (
            "the transcripts have no tokens" if priced else "no --price-in and no --price-out"
        )


def _first(confidences: list[float]) -> float | None:
    """Return the confidence of a group, which all its ranked rows share."""
    return next((number for number in confidences if not np.isnan(number)), None)


def _plain(value: Any) -> Any:  # noqa: ANN401  any JSON value
    """Return dataclasses as mappings, without what is None."""
    if is_dataclass(value):
        parts = {entry.name: getattr(value, entry.name) for entry in fields(value)}
        return {name: _plain(part) for name, part in parts.items() if part is not None}
    if isinstance(value, Mapping):
        return dict(value)
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
