"""What the votes on one group say together: a ranking, and how far it may be trusted.

The ranking is Kemeny's: the tiers that contradict the votes least. A vote that puts b above a
contradicts "a above b" by 1 and "a, b tied" by 1/2; a vote that ties them contradicts either strict
order by 1/2 (Kemeny 1959, "Mathematics without numbers"; for ties the metric K^(1/2) of Fagin,
Kumar, Mahdian, Sivakumar and Vee 2006, "Comparing partial rankings"). Where several tierings
contradict the votes equally little, as after two opposite votes or in a cycle, candidates are
ranked by their mean place over all of them, so that no label is favoured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, product
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from gagar_cli.ranking import Ranking, kendall_tau_b, mid_places, tiers_of

EXACT = 12  # candidates up to which Kemeny's ranking is found exactly; Borda's above
LISTED = 6  # candidates up to which that is done by looking at every tiering
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Consensus:
    """The result of the votes.

    wins: for each label, and each other one, the number of votes that put it above; a tie counts
    half for both. margin: 0..1, the mean over pairs of how far the commonest opinion on a pair
    (one above, the other above, tied) leads the next, as a share of the votes. cycle: whether
    majorities contradict each other (a above b, b above c, c above a). agreement: 0..1, see `of`.
    """

    ranking: Ranking
    votes: int
    wins: Mapping[str, Mapping[str, float]]
    margin: float
    cycle: bool
    agreement: float

    @classmethod
    def of(cls, votes: Sequence[Ranking]) -> "Consensus":
        """Put votes over the same labels together, at least one.

        agreement = max(0, mean over pairs of votes of Kendall's tau-b): unanimous votes give 1,
        independent random ones about 0, votes that follow the place shown less than 0, thus 0,
        when their orders are balanced. One vote gives 1: nothing contradicts it.
        """
        labels = sorted(label for tier in votes[0].tiers for label in tier)
        above = _above(votes, labels)
        tied = len(votes) - above - above.T  # on the diagonal nothing that counts
        wins = above + tied / 2
        taus = [kendall_tau_b(a, b) for a, b in combinations(votes, 2)]
        if len({tuple(map(frozenset, vote.tiers)) for vote in votes}) == 1:
            places = [votes[0].ranks()[label] for label in labels]
        elif len(labels) <= EXACT:
            listed = len(labels) <= LISTED
            places = (places_from_list if listed else places_from_subsets)(above, tied)
        else:
            # Borda: twice the sum of the mid-places, exact in integers.
            places = [int(2 * sum(mid_places(vote)[label] for vote in votes)) for label in labels]
        return cls(
            ranking=tiers_of(dict(zip(labels, map(float, _dense(places)), strict=True))),
            votes=len(votes),
            wins={
                a: {b: float(wins[i, j]) for j, b in enumerate(labels) if j != i}
                for i, a in enumerate(labels)
            },
            margin=_margin(above, tied),
            cycle=_has_cycle(above > above.T),
            agreement=max(0.0, fmean(taus)) if taus else 1.0,
        )

    def spread(self, twins: Mapping[str, Sequence[str]]) -> "Consensus":
        """Return the same over all labels that stand behind each one; those are tied."""
        head = {twin: name for name, names in twins.items() for twin in names}
        tiers = self.ranking.tiers
        return replace(
            self,
            ranking=Ranking(
                tuple(tuple(sorted(t for h in tier for t in twins[h])) for tier in tiers)
            ),
            wins={
                a: {
                    b: self.votes / 2 if head[a] == head[b] else self.wins[head[a]][head[b]]
                    for b in sorted(head)
                    if b != a
                }
                for a in sorted(head)
            },
        )


def _above(votes: Sequence[Ranking], labels: Sequence[str]) -> Ints:
    """Return (n, n) int64: how many votes put label i strictly above label j."""
    total = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for vote in votes:
        ranks = vote.ranks()
        rank = np.array([ranks[label] for label in labels])
        total += rank[:, None] < rank[None, :]
    return total


def _margin(above: Ints, tied: Ints) -> float:
    n = len(above)
    opinions = np.sort(np.stack([above, above.T, tied]), axis=0)[:, *np.triu_indices(n, 1)]
    if not opinions.size:
        return 1.0
    return float(np.mean((opinions[2] - opinions[1]) / opinions.sum(axis=0)))


def _has_cycle(beats: NDArray[np.bool_]) -> bool:
    """Whether a relation (n, n) leads from anyone back to itself."""
    reach = beats.copy()
    for middle in range(len(reach)):
        reach |= reach[:, middle, None] & reach[None, middle, :]
    return bool(reach.diagonal().any())


def _dense(values: Sequence[int]) -> list[int]:
    order = {value: number for number, value in enumerate(sorted(set(values)))}
    return [order[value] for value in values]


def places_from_list(above: Ints, tied: Ints) -> list[int]:
    """Return for each label its mid-places summed over all best tierings, in half places.

    above, tied: (n, n) int64, votes by pair. Every tiering is looked at, so n is small.
    """
    opinions, places = _all_tierings(len(above))
    i, j = np.triu_indices(len(above), 1)
    up, down, even = above[i, j], above[j, i], tied[i, j]
    # Twice what "i above j", "j above i" and "i, j tied" contradict.
    cost = opinions @ np.concatenate([2 * down + even, 2 * up + even, up + down])
    return [int(place) for place in places[cost == cost.min()].sum(axis=0)]


@cache
def _all_tierings(n: int) -> tuple[Ints, Ints]:
    """Return all tierings of n labels: what each says of the pairs, one-hot, and all mid-places.

    (tierings, 3 pairs) and (tierings, n) int64, places in halves.
    """
    numbers = product(range(n), repeat=n)  # of the tier of each label, from 0, without gaps
    tier = np.array([row for row in numbers if len(set(row)) == max(row) + 1], dtype=np.int64)
    i, j = np.triu_indices(n, 1)
    a, b = tier[:, i], tier[:, j]
    higher = (tier[:, :, None] > tier[:, None, :]).sum(axis=2)
    same = (tier[:, :, None] == tier[:, None, :]).sum(axis=2)
    opinions = np.concatenate([a < b, a > b, a == b], axis=1).astype(np.int64)
    return opinions, (2 * higher + same + 1).astype(np.int64)


def places_from_subsets(above: Ints, tied: Ints) -> list[int]:
    """Return the same as `places_from_list`, for more labels.

    Dynamic programming over sets of labels, as bit masks: what a tiering contradicts adds up tier
    by tier, and a tier's part depends only on which labels stand above it.
    """
    n = len(above)
    full = (1 << n) - 1
    strict = 2 * above.T + tied  # twice what "row above column" contradicts
    inside = _pair_sums(above + above.T)
    size = _sums(np.ones(n, dtype=np.int64))

    def next_tiers(top: int) -> tuple[Ints, Ints]:
        """Return what the next tier below a set can be, and twice what each contradicts."""
        tiers = _subsets(full ^ top)
        upper = [i for i in range(n) if top >> i & 1]
        return tiers, inside[tiers] + _sums(strict[upper].sum(axis=0))[tiers]

    least = np.zeros(full + 1, dtype=np.int64)  # contradiction of the best tiering below each set
    ways = np.ones(full + 1, dtype=np.int64)  # number of best tierings below it
    for top in range(full - 1, -1, -1):
        tiers, cost = next_tiers(top)
        cost += least[top | tiers]
        least[top] = cost.min()
        ways[top] = ways[top | tiers[cost == least[top]]].sum()

    places = np.zeros(n, dtype=np.int64)
    reached = np.zeros(full + 1, dtype=np.int64)  # number of best tierings that pass each set
    reached[0] = 1
    for top in range(full):
        if reached[top]:
            tiers, cost = next_tiers(top)
            tiers = tiers[cost + least[top | tiers] == least[top]]
            reached[top | tiers] += reached[top]  # no set occurs twice in it
            middle = (2 * size[top] + size[tiers] + 1) * reached[top] * ways[top | tiers]
            places += [int(middle[tiers >> i & 1 == 1].sum()) for i in range(n)]
    return [int(place) for place in places]


def _subsets(mask: int) -> Ints:
    """Return all non-empty sets inside a set, as bit masks."""
    found = np.zeros(1, dtype=np.int64)
    for bit in range(mask.bit_length()):
        if mask >> bit & 1:
            found = np.concatenate([found, found | 1 << bit])
    return found[1:]


def _sums(value: Ints) -> Ints:
    """Return the sum over the members of each set of n labels, by bit mask, (2**n,) int64."""
    total = np.zeros(1, dtype=np.int64)
    for member in value:
        total = np.concatenate([total, total + member])
    return total


def _pair_sums(value: Ints) -> Ints:
    """Return the sum of a symmetric (n, n) matrix over the pairs in each set, (2**n,) int64."""
    total = np.zeros(1, dtype=np.int64)
    for member, row in enumerate(value):
        total = np.concatenate([total, total + _sums(row[:member])])
    return total
