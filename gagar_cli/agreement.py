"""How far a grader agrees with a reference, votes with each other, and a confidence with the truth.

Groups are what is independent, so every mean is over groups and every interval resamples groups.
Ranks and references are numbers of which the lower is the better; equal ones are tied.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from gagar_cli.errors import DataError
from gagar_cli.ranking import kendall_tau_b, tiers_of

Floats = NDArray[np.float64]

BINS = 5  # of the confidence: a file has tens or hundreds of groups, not thousands
_INTERVAL = (0.025, 0.975)
_FEWEST = 2  # groups whose resamples differ


@dataclass(frozen=True, slots=True)
class Compared:
    """One group's ranked rollouts beside a reference: two numbers each, and the confidence 0..1.

    Other lengths than one another's, a NaN, or a confidence out of its range raise DataError.
    """

    ranks: tuple[float, ...]
    reference: tuple[float, ...]
    confidence: float | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        if len(self.ranks) != len(self.reference):
            raise DataError(
                "", f"got {len(self.ranks)} ranks, expected one for each of {len(self.reference)}"
            )
        if any(map(isnan, (*self.ranks, *self.reference))):
            raise DataError("", "got NaN among ranks or references, expected numbers")
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise DataError("", f"got a confidence of {self.confidence:g}, expected 0 to 1")

    @property
    def ordered(self) -> bool:
        """Whether the reference tells any two of them apart."""
        return len(set(self.reference)) > 1


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over groups, and its 95 % interval; None where it was not asked for, or one group."""

    value: float
    interval: tuple[float, float] | None
    groups: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """What ranks share with a reference, over the groups that the reference orders.

    tau_b: -1..1, Kendall's tau-b, mean over groups. top1: 0..1, see `top1_accuracy`, mean over
    groups; top1_chance is what drawing at random reaches. pairwise: 0..1, see `pairs_right`, its
    share in each group, mean over groups. auc: the same pooled over the pairs of all groups, so
    that large groups count more; with a label of two values it is the area under the ROC curve
    within groups, with numbers Harrell's concordance (1982, "Evaluating the yield of medical
    tests"). A random grader reaches 1/2 in both. pairs: those that the reference orders.
    """

    tau_b: Estimate
    top1: Estimate
    top1_chance: float
    pairwise: Estimate
    auc: Estimate
    pairs: int


@dataclass(frozen=True, slots=True)
class Bin:
    """Groups of like confidence: their mean confidence, and their mean pairwise accuracy."""

    low: float
    high: float
    groups: int
    confidence: float
    accuracy: float

    @property
    def expected(self) -> float:
        """The pairwise accuracy that the confidence promises; see `calibration`."""
        return (1 + self.confidence) / 2


@dataclass(frozen=True, slots=True)
class Calibration:
    """Bins that hold a group, the lowest first; error is the expected calibration error, 0..1."""

    bins: tuple[Bin, ...]
    groups: int
    error: float


def tau_b(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Kendall's tau-b of two lists of numbers, by place; ties as in `kendall_tau_b`."""
    first, second = (
        # Dense codes, since the difference of two infinities is none.
        tiers_of(
            {str(n): float(code) for n, code in enumerate(np.unique(x, return_inverse=True)[1])}
        )
        for x in (a, b)
    )
    return kendall_tau_b(first, second)


def top1_accuracy(ranks: Sequence[float], reference: Sequence[float]) -> float:
    """Return the share, 0..1, of the best tier that is in the reference's best tier.

    This is the chance that a rollout drawn from the grader's best tier is a best one.
    """
    best = np.asarray(ranks) == min(ranks)
    return float(np.mean(np.asarray(reference)[best] == min(reference)))


def pairs_right(ranks: Sequence[float], reference: Sequence[float]) -> tuple[float, int]:
    """Return how many pairs that the reference orders are ranked so, and how many it orders.

    A pair that the grader ties counts one half; one that the reference ties counts nothing.
    """
    by_rank, by_reference = (np.asarray(x, dtype=np.float64) for x in (ranks, reference))
    better = by_reference[:, None] < by_reference[None, :]
    above = by_rank[:, None] < by_rank[None, :]
    level = by_rank[:, None] == by_rank[None, :]
    return float((above & better).sum() + (level & better).sum() / 2), int(better.sum())


def kendall_w(votes: Sequence[Sequence[float]]) -> float | None:
    """Return Kendall's W of votes (m, n), ranks of n candidates by each of m: 0..1, ties corrected.

    1 where all votes agree, 1/m on the mean for random ones. None where no vote tells any two
    candidates apart. (Kendall and Babington Smith 1939, "The problem of m rankings"; ties share the
    mean of their places, and take away from the greatest variance that the sums can have.)
    """
    places = np.array([_mid_places(vote) for vote in votes])
    most = len(places) * float(places.var(axis=1).sum())
    return float(places.sum(axis=0).var() / most) if most else None


def concordance(votes: Sequence[Sequence[float]]) -> float | None:
    """Return W corrected for chance, (m W - 1) / (m - 1): 1 where all votes agree, 0 by chance.

    So groups with more votes and groups with fewer can be averaged. Without ties it is the mean of
    Spearman's correlation over pairs of votes (Kendall and Babington Smith 1939), and reaches down
    to -1 / (m - 1). None for fewer than two votes, and where W is.
    """
    count = len(votes)
    w = kendall_w(votes) if count > 1 else None
    return None if w is None else (count * w - 1) / (count - 1)


def _mid_places(vote: Sequence[float]) -> Floats:
    ranks = np.asarray(vote, dtype=np.float64)
    before = (ranks[:, None] > ranks[None, :]).sum(axis=1)
    level = (ranks[:, None] == ranks[None, :]).sum(axis=1)
    return np.asarray(before + (level + 1) / 2)


def estimate(
    parts: Sequence[float], resamples: int, seed: int, wholes: Sequence[float] | None = None
) -> Estimate | None:
    """Return the mean over groups, or sum of parts over sum of wholes; None without groups.

    parts, wholes: one number per group, in an order that does not depend on the file's. The
    interval is the percentile bootstrap's over groups (Efron 1979, "Bootstrap methods: another
    look at the jackknife"): with few groups, some ten, it is too narrow.
    """
    if not parts:
        return None
    part = np.asarray(parts, dtype=np.float64)
    whole = np.ones(len(part)) if wholes is None else np.asarray(wholes, dtype=np.float64)
    interval = None
    if resamples and len(part) >= _FEWEST:
        rng = np.random.default_rng(seed)
        # One resample at a time: all at once would take resamples x groups of memory.
        drawn = (rng.integers(len(part), size=len(part)) for _ in range(resamples))
        means = [part[rows].sum() / whole[rows].sum() for rows in drawn]
        low, high = np.quantile(means, _INTERVAL)
        interval = (float(low), float(high))
    return Estimate(float(part.sum() / whole.sum()), interval, len(part))


def agreement(groups: Sequence[Compared], resamples: int = 0, seed: int = 0) -> Agreement | None:
    """Compare ranks with a reference; None where the reference orders no group.

    A group that it does not order says nothing. One that only the grader does not order counts: as
    a tau-b of 0, and as a half of each pair.
    """
    used = [group for group in groups if group.ordered]
    pairs = [pairs_right(group.ranks, group.reference) for group in used]
    shares = [right / ordered for right, ordered in pairs]
    tau = estimate([tau_b(g.ranks, g.reference) for g in used], resamples, seed)
    top1 = estimate([top1_accuracy(g.ranks, g.reference) for g in used], resamples, seed)
    pairwise = estimate(shares, resamples, seed)
    auc = estimate([p[0] for p in pairs], resamples, seed, [p[1] for p in pairs])
    if tau is None or top1 is None or pairwise is None or auc is None:
        return None
    best = [g.reference.count(min(g.reference)) / len(g.reference) for g in used]
    return Agreement(tau, top1, fmean(best), pairwise, auc, sum(ordered for _, ordered in pairs))


def calibration(groups: Sequence[Compared], bins: int = BINS) -> Calibration | None:
    """Compare the confidence with what it promises; None where no group has both.

    A confidence is the agreement of votes in terms of tau, and tau is 2p - 1 where p is the share
    of pairs in the same order. So a confidence c promises a pairwise accuracy of (1 + c) / 2: 0
    promises nothing, which is a half. Pairs that the reference ties are no part of it, so that a
    coarse reference, such as a label, can still be met in full.

    The error is the mean over bins of |promised - reached|, weighted by groups (Naeini, Cooper and
    Hauskrecht 2015, "Obtaining well calibrated probabilities using Bayesian binning"). Bins are
    equally wide, their upper ends belonging to the next one. Chance alone makes it larger than 0
    where bins hold few groups.
    """
    held: list[list[tuple[float, float]]] = [[] for _ in range(bins)]
    for group in groups:
        if group.confidence is not None and group.ordered:
            right, ordered = pairs_right(group.ranks, group.reference)
            held[min(int(group.confidence * bins), bins - 1)].append(
                (group.confidence, right / ordered)
            )
    found = tuple(
        Bin(
            low=number / bins,
            high=(number + 1) / bins,
            groups=len(members),
            confidence=fmean(confidence for confidence, _ in members),
            accuracy=fmean(accuracy for _, accuracy in members),
        )
        for number, members in enumerate(held)
        if members
    )
    if not found:
        return None
    return Calibration(
        bins=found,
        groups=sum(entry.groups for entry in found),
        error=fmean(
            (abs(entry.expected - entry.accuracy) for entry in found),
            weights=[entry.groups for entry in found],
        ),
    )
