"""Whether a grader favours places in the list that it is shown, or small patches."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from statistics import fmean

import numpy as np

from gagar_cli.agreement import tau_b
from gagar_cli.errors import DataError

_TAIL = 0.025  # on either side of a 95 % interval
_HALVINGS = 60  # of 0..1: past the resolution of a double


@dataclass(frozen=True, slots=True)
class Presentation:
    """One vote as it was shown: its candidates to rank, in the order shown.

    ranks: the rank that each got, 1 best, ties share the lowest place. lines: the changed lines of
    its patch. Other lengths than one another's raise DataError.
    """

    ranks: tuple[int, ...]
    lines: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check that each candidate has both."""
        if len(self.ranks) != len(self.lines):
            raise DataError(
                "", f"got {len(self.ranks)} ranks, expected one for each of {len(self.lines)} sizes"
            )


@dataclass(frozen=True, slots=True)
class Bias:
    """How far ranks follow the place shown, and the size of the patch.

    votes: those that tell candidates apart; all else is over them. first_wins: 0..1, the share of
    them that put the candidate shown first into the best tier; a tie for first of t candidates
    counts 1/t. chance: the mean of 1/n over candidates n, which a grader blind to the order
    reaches on random orders. excess: first_wins - chance. interval: of the excess, 95 %; see
    `position_bias`. place_correlation: -1..1, the mean over votes of Kendall's tau-b between rank
    and place shown; positive where earlier ones rank better. size_correlation: the same with
    changed lines, positive where smaller patches rank better, over votes whose patches differ in
    size; None where no vote has such.
    """

    votes: int
    first_wins: float
    chance: float
    excess: float
    interval: tuple[float, float]
    place_correlation: float | None
    size_correlation: float | None

    @property
    def biased(self) -> bool:
        """Whether the place shown first wins more, or less, often than chance explains."""
        low, high = self.interval
        return low > 0 or high < 0


def position_bias(presentations: Sequence[Presentation]) -> Bias | None:
    """Measure the bias of votes; None where no vote tells two candidates apart.

    A vote with all candidates in one tier is left out: it puts the first one at chance whatever
    the grader is like, so that it would only hide the bias of the others.

    The interval is Clopper and Pearson's (1934, "The use of confidence or fiducial limits"), less
    the chance, which is known. It holds for any number of votes and for shares of 0 and 1, where
    the normal and Wilson's do not: by Wilson's, one vote on eight candidates could show a bias.
    Chances that differ from vote to vote make the tails thinner than the binomial's (Hoeffding
    1956, "On the distribution of the number of successes in independent trials"), and so do
    balanced orders; fractions from ties are rounded outward. So it errs on the wide side.
    Votes that show one group in one order are not independent, and must not be counted as such.
    """
    votes = [p for p in presentations if len(set(p.ranks)) > 1]
    if not votes:
        return None
    count = len(votes)
    wins = sum((_first_win(vote.ranks) for vote in votes), Fraction(0))
    chance = sum((Fraction(1, len(vote.ranks)) for vote in votes), Fraction(0)) / count
    low = _least_share(floor(wins), count)
    high = 1 - _least_share(count - ceil(wins), count)
    sized = [vote for vote in votes if len(set(vote.lines)) > 1]
    return Bias(
        votes=count,
        first_wins=float(wins / count),
        chance=float(chance),
        excess=float(wins / count - chance),
        interval=(low - float(chance), high - float(chance)),
        place_correlation=fmean(tau_b(v.ranks, range(len(v.ranks))) for v in votes),
        size_correlation=fmean(tau_b(v.ranks, v.lines) for v in sized) if sized else None,
    )


def _first_win(ranks: Sequence[int]) -> Fraction:
    best = min(ranks)
    return Fraction(ranks[0] == best, ranks.count(best))


def _least_share(wins: int, trials: int) -> float:
    """Return the share 0..1 from which so many wins, or more, have a probability of 2.5 %."""
    if wins == 0:
        return 0.0
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, trials + 1)))))
    k = np.arange(wins, trials + 1)
    ways = logs[trials] - logs[k] - logs[trials - k]  # logarithm of n over k
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        share = (low + high) / 2
        if share in {low, high}:
            break
        tail = np.exp(ways + k * np.log(share) + (trials - k) * np.log1p(-share)).sum()
        low, high = (share, high) if tail < _TAIL else (low, share)
    return low
