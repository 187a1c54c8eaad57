import random
from collections import Counter
from fractions import Fraction
from itertools import combinations, permutations
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rankings import polls, ranking, rankings

from gagar_cli.consensus import (
    EXACT,
    LISTED,
    Consensus,
    places_from_list,
    places_from_subsets,
)
from gagar_cli.orders import balanced_order
from gagar_cli.ranking import Ranking, kendall_tau_b, mid_places


def agreed(*votes):
    return Consensus.of([ranking(vote) for vote in votes])


def all_tierings(names):
    """Yield every ranking of some labels, ties included."""
    if not names:
        yield ()
    for size in range(1, len(names) + 1):
        for tier in combinations(names, size):
            rest = tuple(name for name in names if name not in tier)
            yield from ((tier, *lower) for lower in all_tierings(rest))


def contradiction(tiers, votes):
    """Return twice the distance K^(1/2) of a ranking to all votes, by its definition."""
    mine = Ranking(tiers).ranks()
    total = 0
    for vote in votes:
        theirs = vote.ranks()
        for a, b in combinations(mine, 2):
            x = (mine[a] > mine[b]) - (mine[a] < mine[b])
            y = (theirs[a] > theirs[b]) - (theirs[a] < theirs[b])
            total += abs(x - y)
    return total


# The ranking


@given(polls(most=5))
@settings(max_examples=60)
def test_the_ranking_is_the_mean_of_all_that_contradict_the_votes_least(votes):
    names = tuple(sorted(votes[0].ranks()))
    tierings = list(all_tierings(names))
    least = min(contradiction(tiers, votes) for tiers in tierings)
    best = [Ranking(tiers) for tiers in tierings if contradiction(tiers, votes) == least]
    place = {name: sum(Fraction(mid_places(b)[name]) for b in best) for name in names}
    ranks = Consensus.of(votes).ranking.ranks()
    for a, b in combinations(names, 2):
        assert (place[a] < place[b]) is (ranks[a] < ranks[b])
        assert (place[a] == place[b]) is (ranks[a] == ranks[b])


@given(polls(least=2, most=LISTED))
@settings(max_examples=60)
def test_both_ways_to_the_best_tierings_agree(votes):
    labels = sorted(votes[0].ranks())
    ranks = np.array([[vote.ranks()[label] for label in labels] for vote in votes])
    above = (ranks[:, :, None] < ranks[:, None, :]).sum(axis=0)
    tied = (ranks[:, :, None] == ranks[:, None, :]).sum(axis=0)
    assert places_from_list(above, tied) == places_from_subsets(above, tied)


def test_a_majority_on_each_pair_decides_against_mean_places():
    # By mean place B would win: it never stands last.
    votes = ["A>B>C"] * 3 + ["B>C>A"] * 2
    assert agreed(*votes).ranking == ranking("A>B>C")


def test_opposite_votes_tie():
    assert agreed("A>B>C", "C>B>A").ranking == ranking("A=B=C")


def test_ties_stay_ties_where_most_votes_tie():
    assert agreed("A=B", "A=B", "A=B", "A>B").ranking == ranking("A=B")
    assert agreed("A=B>C", "A=B>C").ranking == ranking("A=B>C")


def test_a_cycle_favours_nobody():
    found = agreed("A>B>C", "B>C>A", "C>A>B")
    assert found.ranking == ranking("A=B=C")
    assert found.cycle


@given(st.integers(EXACT + 1, EXACT + 3), st.randoms(use_true_random=False), st.integers(1, 4))
@settings(max_examples=20)
def test_many_candidates_are_ranked_by_mean_place(count, rng, number):
    names = [chr(ord("A") + n) for n in range(count)]
    votes = [Ranking(tuple((n,) for n in rng.sample(names, count))) for _ in range(number)]
    ranks = Consensus.of(votes).ranking.ranks()
    total = {name: sum(vote.ranks()[name] for vote in votes) for name in names}
    for a, b in combinations(names, 2):
        assert (total[a] < total[b]) is (ranks[a] < ranks[b])
        assert (total[a] == total[b]) is (ranks[a] == ranks[b])


def test_twelve_candidates_are_still_ranked_exactly():
    names = [chr(ord("A") + n) for n in range(EXACT)]
    last_first = [*names[1:], names[0]]
    votes = [Ranking(tuple((n,) for n in names))] * 3
    votes += [Ranking(tuple((n,) for n in last_first))] * 2
    # By mean place A would fall to the middle; a majority puts it above each of the others.
    assert Consensus.of(votes).ranking == votes[0]


@given(polls(), st.randoms(use_true_random=False))
def test_neither_the_order_of_votes_nor_the_names_of_labels_matter(votes, rng):
    found = Consensus.of(votes)
    assert Consensus.of(rng.sample(votes, len(votes))) == found
    names = sorted(found.ranking.ranks())
    other = dict(zip(names, rng.sample(names, len(names)), strict=True))
    renamed = Consensus.of([vote.renamed(other) for vote in votes])
    assert renamed.ranking.ranks() == {other[n]: r for n, r in found.ranking.ranks().items()}
    assert renamed.agreement == pytest.approx(found.agreement)
    assert renamed.margin == pytest.approx(found.margin)
    assert renamed.cycle == found.cycle


# The matrix of wins, the margin, the cycle


@given(polls())
def test_wins_count_votes_and_half_of_the_ties(votes):
    found = Consensus.of(votes)
    for a, b in permutations(found.ranking.ranks(), 2):
        above = sum(vote.ranks()[a] < vote.ranks()[b] for vote in votes)
        tied = sum(vote.ranks()[a] == vote.ranks()[b] for vote in votes)
        assert found.wins[a][b] == above + tied / 2
        assert found.wins[a][b] + found.wins[b][a] == found.votes == len(votes)


@given(polls())
def test_the_margin_is_the_mean_lead_of_the_commonest_opinion(votes):
    leads = []
    for a, b in combinations(sorted(votes[0].ranks()), 2):
        said = Counter((v.ranks()[a] > v.ranks()[b]) - (v.ranks()[a] < v.ranks()[b]) for v in votes)
        first, second = (*sorted(said.values(), reverse=True), 0)[:2]
        leads.append((first - second) / len(votes))
    assert Consensus.of(votes).margin == pytest.approx(fmean(leads))


def test_no_cycle_where_majorities_agree():
    assert not agreed("A>B>C", "A>C>B", "B>A>C").cycle
    assert not agreed("A>B", "B>A").cycle


# Agreement


@given(st.sampled_from([2, 3, 4, 6]).flatmap(lambda n: rankings(tuple("ABCDEF")[:n])))
def test_unanimous_votes_agree_by_1_and_give_their_ranking(drawn):
    for number in (1, 2, 4):
        found = Consensus.of([drawn] * number)
        assert {frozenset(t) for t in found.ranking.tiers} == {frozenset(t) for t in drawn.tiers}
        assert (found.agreement, found.margin, found.cycle) == (1.0, 1.0, False)


@given(polls())
def test_agreement_is_the_mean_tau_b_of_pairs_of_votes_but_never_below_0(votes):
    pairs = [kendall_tau_b(a, b) for a, b in combinations(votes, 2)]
    expected = max(0.0, fmean(pairs)) if pairs else 1.0
    assert Consensus.of(votes).agreement == pytest.approx(expected)


@pytest.mark.parametrize(
    ("candidates", "groups", "most"), [(2, 400, 0.17), (4, 400, 0.10), (8, 60, 0.06)]
)
def test_random_votes_agree_by_about_0(candidates, groups, most):
    rng = random.Random(candidates)
    names = [chr(ord("A") + n) for n in range(candidates)]

    def drawn():
        return Ranking(tuple((name,) for name in rng.sample(names, candidates)))

    found = [Consensus.of([drawn() for _ in range(4)]).agreement for _ in range(groups)]
    assert fmean(found) < most


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_votes_that_follow_balanced_orders_agree_by_0(count):
    names = [chr(ord("A") + n) for n in range(count)]
    votes = [Ranking(tuple((n,) for n in balanced_order(names, v, "key"))) for v in range(4)]
    assert Consensus.of(votes).agreement == 0.0


# Twins


def test_labels_that_stand_for_others_spread_their_result():
    found = agreed("A>B", "A>B", "A=B", "B>A").spread({"A": ("A", "X"), "B": ("B",)})
    assert found.ranking == ranking("A=X>B")
    assert found.wins["X"] == {"A": 2.0, "B": 2.5}
    assert found.wins["B"] == {"A": 1.5, "X": 1.5}
