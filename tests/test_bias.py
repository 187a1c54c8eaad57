from fractions import Fraction
from math import comb, isclose
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.bias import Presentation, position_bias
from gagar_cli.errors import DataError


def vote(*ranks, lines=None):
    return Presentation(ranks, lines or (0,) * len(ranks))


@st.composite
def presentations(draw):
    size = draw(st.integers(1, 6))
    numbers = st.lists(st.integers(1, size), min_size=size, max_size=size)
    drawn = draw(numbers)
    ranks = tuple(1 + sum(other < one for other in drawn) for one in drawn)
    return Presentation(ranks, tuple(draw(numbers)))


def test_a_grader_that_prefers_the_first_place_is_biased():
    found = position_bias([vote(1, 2, 3)] * 12)
    assert found.votes == 12
    assert found.first_wins == 1
    assert isclose(found.chance, 1 / 3)
    assert isclose(found.excess, 2 / 3)
    assert found.place_correlation == 1
    assert found.biased


def test_a_grader_that_avoids_the_first_place_is_biased_too():
    found = position_bias([vote(2, 1)] * 12)
    assert found.first_wins == 0
    assert found.excess == -0.5
    assert found.place_correlation == -1
    assert found.interval[1] < 0
    assert found.biased


def test_votes_that_follow_the_candidates_through_balanced_orders_show_no_bias():
    # The same candidate wins wherever it stands; over the orders each stands first equally often.
    ranks = {"a": 1, "b": 2, "c": 3}
    orders = ["abc", "cba", "bca", "acb", "cab", "bac"]
    found = position_bias([vote(*(ranks[x] for x in order)) for order in orders])
    assert found.excess == 0
    assert not found.biased
    assert abs(found.place_correlation) < 1e-15


def test_a_tie_for_first_counts_its_share():
    # Half a win of the two tied for first, none of the last.
    found = position_bias([vote(1, 1, 3), vote(3, 1, 1)])
    assert found.first_wins == 0.25
    assert isclose(found.chance, 1 / 3)


@given(presentations())
def test_over_all_rotations_of_a_vote_the_first_place_wins_by_chance(shown):
    n = len(shown.ranks)
    turned = [
        Presentation(shown.ranks[k:] + shown.ranks[:k], shown.lines[k:] + shown.lines[:k])
        for k in range(n)
    ]
    found = position_bias(turned)
    if found is not None:
        assert found.excess == 0
        assert not found.biased


def test_votes_that_tell_nobody_apart_are_left_out():
    told = [vote(1, 2)] * 10
    assert position_bias([*told, *[vote(1, 1)] * 90, *[vote(1)] * 5]) == position_bias(told)


@pytest.mark.parametrize("votes", [[], [vote(1)], [vote(1, 1, 1)], [vote()]])
def test_no_vote_that_tells_two_apart_gives_no_bias(votes):
    assert position_bias(votes) is None


@pytest.mark.parametrize("candidates", [2, 8, 20])
def test_one_vote_proves_nothing(candidates):
    assert not position_bias([vote(*range(1, candidates + 1))]).biased
    assert not position_bias([vote(*range(candidates, 0, -1))]).biased


@given(st.integers(1, 40), st.data())
def test_the_interval_ends_where_the_binomial_tails_hold_a_fortieth(count, data):
    wins = data.draw(st.integers(0, count))
    found = position_bias([vote(1, 2)] * wins + [vote(2, 1)] * (count - wins))
    low, high = (end + 0.5 for end in found.interval)

    def tail(share, least):
        return sum(
            comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(least, count + 1)
        )

    assert isclose(low, 0, abs_tol=1e-12) if wins == 0 else isclose(tail(low, wins), 0.025)
    if wins == count:
        assert isclose(high, 1)
    else:
        assert isclose(1 - tail(high, wins + 1), 0.025, rel_tol=1e-6)
    assert low <= found.first_wins <= high


@given(st.lists(presentations(), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_numbers_are_in_range_and_the_order_of_votes_changes_nothing(votes, rng):
    found = position_bias(votes)
    if found is None:
        return
    assert 0 <= found.first_wins <= 1
    assert 0 < found.chance <= 0.5
    low, high = found.interval
    assert low - 1e-12 <= found.excess <= high + 1e-12
    assert -1 <= found.place_correlation <= 1
    shuffled = list(votes)
    rng.shuffle(shuffled)
    assert position_bias(shuffled) == found


def test_an_order_blind_grader_is_seldom_called_biased():
    rng = np.random.default_rng(4)
    called = 0
    for _ in range(300):
        votes = []
        for _ in range(rng.integers(3, 41)):
            ranks = 1 + rng.permutation(rng.integers(2, 7))
            votes.append(vote(*ranks.tolist()))
        called += position_bias(votes).biased
    assert called <= 300 * 0.05


def test_a_bias_of_a_quarter_is_found_in_a_hundred_votes():
    rng = np.random.default_rng(5)
    votes = []
    for _ in range(100):
        ranks = 1 + rng.permutation(4)
        votes.append(vote(1, 2, 3, 4) if rng.random() < 0.25 else vote(*ranks.tolist()))
    assert position_bias(votes).biased


def test_smaller_patches_that_rank_better_correlate_with_size():
    small_first = Presentation((3, 1, 2), (90, 5, 40))
    assert position_bias([small_first]).size_correlation == 1
    assert position_bias([Presentation((1, 2), (9, 3))]).size_correlation == -1


def test_votes_on_patches_of_one_size_say_nothing_on_size():
    sized = Presentation((1, 2), (3, 9))
    assert position_bias([vote(1, 2), vote(2, 1)]).size_correlation is None
    assert position_bias([sized, vote(2, 1), vote(1, 2)]).size_correlation == 1


def test_first_wins_is_an_exact_mean():
    thirds = [vote(1, 1, 1, 4)] * 3
    found = position_bias(thirds)
    assert found.first_wins == float(Fraction(1, 3))
    assert found.place_correlation == fmean([found.place_correlation] * 3)


def test_a_size_for_each_rank_is_required():
    with pytest.raises(DataError, match="got 2 ranks"):
        Presentation((1, 2), (3,))
