"""Summaries of the partitions of a data set as the summary of the whole."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import reduce
from math import fsum
from operator import or_

from gagar_cli.assembling import AssembleSummary
from gagar_cli.bias import position_bias
from gagar_cli.engines.job import Found
from gagar_cli.filtering import REASONS, FilterSummary
from gagar_cli.grading.contract import Usage
from gagar_cli.grading.stage import GradeSummary
from gagar_cli.redistributing import RedistributeSummary


def merged(parts: Sequence[Found]) -> Found:
    """Return what was found in all partitions, of which there is at least one."""
    shown = [presentation for part in parts for presentation in part.presentations]
    graded = _merged_grading([p.graded for p in parts if p.graded])
    if graded:
        graded.bias = position_bias(shown)
    return Found(
        filtered=_merged_filtering([p.filtered for p in parts if p.filtered]),
        assembled=_merged_assembling([p.assembled for p in parts if p.assembled]),
        graded=graded,
        model=max(part.model for part in parts),  # one that was never asked does not know it
        presentations=shown,
        redistributed=_merged_redistribution([p.redistributed for p in parts if p.redistributed]),
    )


def _counted(counts: Iterable[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return total


def _merged_filtering(parts: Sequence[FilterSummary]) -> FilterSummary | None:
    if not parts:
        return None
    groups = _counted(dict(part.groups_dropped) for part in parts)
    rollouts = _counted(dict(part.rollouts_dropped) for part in parts)
    return FilterSummary(
        groups_kept=sum(part.groups_kept for part in parts),
        rollouts_kept=sum(part.rollouts_kept for part in parts),
        groups_dropped={name: groups[name] for name in REASONS if name in groups},
        rollouts_dropped={name: rollouts[name] for name in REASONS if name in rollouts},
    )


def _merged_assembling(parts: Sequence[AssembleSummary]) -> AssembleSummary | None:
    if not parts:
        return None
    return AssembleSummary(
        groups=sum(part.groups for part in parts),
        kept=sum(part.kept for part in parts),
        without_repository=sum(part.without_repository for part in parts),
        statuses=_counted(part.statuses for part in parts),
        passing_not_applied=sum(part.passing_not_applied for part in parts),
        no_columns=max(part.no_columns for part in parts),
        problems=_counted(part.problems for part in parts),
        absent=reduce(or_, (part.absent for part in parts)),
    )


def _merged_grading(parts: Sequence[GradeSummary]) -> GradeSummary | None:
    if not parts:
        return None
    weighted = [(p.mean_confidence, p.graded) for p in parts if p.mean_confidence is not None]
    graded = sum(part.graded for part in parts)
    return GradeSummary(
        grader=max((p.grader for p in parts), key=lambda name: "model=unknown" not in name),
        graded=graded,
        kept=sum(part.kept for part in parts),
        single=sum(part.single for part in parts),
        none_passing=sum(part.none_passing for part in parts),
        ungraded=_counted(part.ungraded for part in parts),
        rollouts_not_ranked=sum(part.rollouts_not_ranked for part in parts),
        mean_confidence=fsum(mean * count for mean, count in weighted) / graded
        if weighted
        else None,
        usage=_merged_usage([part.usage for part in parts]),
    )


def _merged_usage(parts: Sequence[Usage]) -> Usage:
    total = Usage(prices=parts[0].prices, budget=parts[0].budget)
    for entry in fields(Usage):
        if entry.type in {int, "int"}:
            setattr(total, entry.name, sum(getattr(part, entry.name) for part in parts))
    total.votes_failed = _counted(part.votes_failed for part in parts)
    total.notes = list(dict.fromkeys(note for part in parts for note in part.notes))
    return total


def _merged_redistribution(parts: Sequence[RedistributeSummary]) -> RedistributeSummary | None:
    if not parts:
        return None
    return RedistributeSummary(
        groups=sum(part.groups for part in parts),
        groups_moved=sum(part.groups_moved for part in parts),
        rollouts_ranked=sum(part.rollouts_ranked for part in parts),
        weight_low=min(part.weight_low for part in parts),
        weight_high=max(part.weight_high for part in parts),
        sum_error=max(part.sum_error for part in parts),
        advantage_computed=any(part.advantage_computed for part in parts),
    )
