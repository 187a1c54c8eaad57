"""Advantage redistribution: lower-ranked passing rollouts lend credit to higher-ranked ones.

Over the passing rollouts P of one group that have a positive advantage A_i and a rank:

    A'_i = w_i A_i * (sum_P A_j m_j) / (sum_P w_j A_j m_j)

w_i in (0, 1] comes from the place of i in P (`ladders`); m_j is what a rollout weighs in the
loss: 1, or its tokens. The group's sum of A_i m_i stays; only its distribution moves. The idea is
that of Groupwise Agentic Grading and Advantage Redistribution (arXiv 2609.32577), which gives no
formula for w. Rollouts outside P are never touched.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gagar_cli.errors import DataError, SumNotKeptError
from gagar_cli.groups import GroupIndex, Ints, cut
from gagar_cli.ladders import place_weights, share_ties, shrink
from gagar_cli.options import Mass, RedistributeOptions
from gagar_cli.parallel import on_all_cores
from gagar_cli.places import changes, sorted_rows
from gagar_cli.schema import Floats

TOLERANCE = 1e-12  # relative, in float64: the promise of --keep-sum

# A smaller advantage counts as zero: its products would lose bits to underflow, and with them
# the sum that must be kept.
NEGLIGIBLE = 1e-290

# NumPy adds a group's terms one after another. They are all positive, so the relative error
# stays under (terms x 1.1e-16): within the tolerance up to here; math.fsum above.
_LONG_GROUP = 1000


@dataclass(frozen=True, slots=True)
class Redistribution:
    """credit_weight A'_i / A_i and advantage A'_i: (N,) float64, NaN where there was no advantage.

    ranked: (N,) bool, the rows of P. sum_error: how far the sum of a group moved at the most,
    relative to itself.
    """

    credit_weight: Floats
    advantage: Floats
    ranked: NDArray[np.bool_]
    sum_error: float


@dataclass(frozen=True, slots=True)
class _Runs:
    """Rows of P that stand group by group: where each group starts, and each row's group."""

    starts: Ints
    member: Ints

    @classmethod
    def of(cls, new_group: NDArray[np.bool_]) -> "_Runs":
        return cls(np.flatnonzero(new_group), np.cumsum(new_group) - 1)

    def sizes(self) -> Ints:
        return np.diff(np.append(self.starts, len(self.member)))

    def sums(self, value: Floats) -> Floats:
        total = np.add.reduceat(value, self.starts)
        for run in np.flatnonzero(self.sizes() > _LONG_GROUP):
            total[run] = math.fsum(value[self.member == run])
        return total

    def scaled(self, value: Floats, reference: Floats) -> Floats:
        """Divide by a power of two near the group's largest reference: exact, sums stay finite."""
        exponent = np.frexp(np.maximum.reduceat(reference, self.starts))[1]
        return np.ldexp(value, -exponent[self.member])


def redistribute(  # noqa: PLR0913
    advantage: Floats,
    index: GroupIndex,
    passed: NDArray[np.bool_],
    rank: Floats,
    confidence: Floats | None = None,
    tokens: Floats | None = None,
    options: RedistributeOptions | None = None,
) -> Redistribution:
    """Redistribute the advantages of N rows in their groups.

    advantage: (N,) float64, NaN where there is none. rank: (N,) float64, 1 is best, equal ranks
    tie, NaN is not ranked. confidence: (N,) float64 from 0 to 1, one value per group; absent or
    NaN counts as 1. tokens: (N,) float64 counts, read only with `mass=tokens`.

    Tied rollouts share the mean weight of the places they occupy. A row's result depends on
    neither the order of rows nor that of groups, to the last bit. Raises DataError for infinite
    advantages, ranks below 1, confidences outside 0..1 or not one per group, missing or negative
    tokens; SumNotKeptError if a group's sum moves by more than 1e-12 of itself. The ranked rows are
    sorted; all else is linear, and needs memory for a block of groups at a time.
    """
    options = options or RedistributeOptions()
    if options.mass is Mass.TOKENS and tokens is None:
        raise DataError("", "got no num_tokens, expected them with --mass tokens")
    mass = tokens if options.mass is Mass.TOKENS else None
    ranked = passed & (advantage >= NEGLIGIBLE) & ~np.isnan(rank)
    for bad, problem in (
        (np.isinf(advantage), "got an infinite advantage, expected a number or null"),
        (rank < 1, "got a rank below 1, expected 1 for the best"),
        (
            np.False_ if mass is None else ranked & ~((mass >= 0) & (mass < np.inf)),
            "got a null or negative num_tokens, expected a count",
        ),
    ):
        _refuse(np.flatnonzero(bad), problem, index)

    credit = np.where(np.isnan(advantage), np.nan, 1.0)
    redistributed = advantage.copy()
    row = sorted_rows(np.flatnonzero(ranked), index.codes, rank, advantage, mass)

    def move(block: slice) -> float:
        rows = row[block]
        runs = _Runs.of(changes(index.codes[rows]))
        a = advantage[rows]
        m = np.ones(len(rows)) if mass is None else mass[rows]
        weight = _weights(rank[rows], runs, options)
        if confidence is not None and options.use_confidence:
            weight = shrink(weight, _one_per_group(confidence[rows], rows, runs, index))
        # Without mass a rollout is in no sum; there, a huge one would cost the others their bits.
        counted = np.where(m > 0, a, 0.0)
        if options.keep_sum:
            weight = _restore_sum(weight, counted, m, runs)
        with np.errstate(over="ignore"):
            moved = a * weight
        overflow = "the new advantage overflows, expected less than 1e307"
        _refuse(rows[np.isinf(moved)], overflow, index)
        credit[rows], redistributed[rows] = weight, moved
        error = _sum_errors(counted, np.where(m > 0, moved, 0.0), m, runs)
        if options.keep_sum:
            _check_sums(error, rows[runs.starts], index)
        return float(error.max())

    worst = max(on_all_cores(move, cut(index.codes[row])), default=0.0)
    return Redistribution(credit, redistributed, ranked, worst)


def _weights(rank: Floats, runs: _Runs, options: RedistributeOptions) -> Floats:
    """Return what the place of each row weighs, before its group's sum is restored."""
    place = np.arange(len(rank)) - runs.starts[runs.member]
    weight = place_weights(runs.sizes()[runs.member], place, options)
    return share_ties(weight, (place == 0) | changes(rank))


def _check_sums(error: Floats, row: Ints, index: GroupIndex) -> None:
    """Raise SumNotKeptError if a group's error is above the tolerance; `row` is one of each."""
    worst = int(np.argmax(error))
    if not error[worst] <= TOLERANCE:
        raise SumNotKeptError(
            f"group {index.name(index.codes[row[worst]])!r}",
            f"the advantage sum moved by {error[worst]:.1e} of itself, expected {TOLERANCE:.0e}",
            "report this group's rows: it is a defect in gagar",
        )


def _restore_sum(weight: Floats, advantage: Floats, mass: Floats, runs: _Runs) -> Floats:
    """Return w_i (sum A m) / (sum w A m); equal weights give exactly 1."""
    weight = weight / np.maximum.reduceat(weight, runs.starts)[runs.member]
    term = runs.scaled(advantage, advantage) * mass
    total, weighted = runs.sums(term), runs.sums(weight * term)
    # Where no member has mass (zero tokens all), nothing weighs and nothing moves.
    has_mass = weighted > 0
    factor = np.divide(total, weighted, out=np.ones_like(total), where=has_mass)
    return np.where(has_mass[runs.member], weight * factor[runs.member], 1.0)


def _sum_errors(before: Floats, after: Floats, mass: Floats, runs: _Runs) -> Floats:
    old = runs.sums(runs.scaled(before, before) * mass)
    new = runs.sums(runs.scaled(after, before) * mass)
    return np.divide(np.abs(new - old), old, out=np.zeros_like(old), where=old > 0)


def _one_per_group(confidence: Floats, row: Ints, runs: _Runs, index: GroupIndex) -> Floats:
    c = np.where(np.isnan(confidence), 1.0, confidence)
    first = c[runs.starts][runs.member]
    bad = row[(c < 0) | (c > 1) | (c != first)]
    _refuse(bad, "got grade_confidence that is not one value from 0 to 1 in the group", index)
    return first


def _refuse(row: Ints, problem: str, index: GroupIndex) -> None:
    if len(row):
        raise DataError(f"group {index.name(index.codes[row.min()])!r}", problem)
