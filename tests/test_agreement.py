from fractions import Fraction
from itertools import combinations, permutations, product
from math import inf, isclose, nan
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.agreement import (
    Compared,
    agreement,
    calibration,
    concordance,
    estimate,
    kendall_w,
    pairs_right,
    tau_b,
    top1_accuracy,
)
from gagar_cli.errors import DataError


def ranks_of(numbers):
    return tuple(1.0 + sum(other < one for other in numbers) for one in numbers)


@st.composite
def compared(draw, least=2):
    size = draw(st.integers(least, 7))
    numbers = st.lists(st.integers(0, size), min_size=size, max_size=size)
    return Compared(ranks_of(draw(numbers)), tuple(map(float, draw(numbers))))


@st.composite
def votes(draw):
    """Draw several rankings of the same candidates."""
    size = draw(st.integers(2, 6))
    one = st.lists(st.integers(1, size), min_size=size, max_size=size).map(ranks_of)
    return draw(st.lists(one, min_size=2, max_size=6))


def distinct(count):
    return st.permutations(range(count)).map(lambda order: tuple(map(float, order)))


# Groups beside a reference.


@given(st.lists(st.integers(2, 7).flatmap(distinct), min_size=1, max_size=8))
def test_a_perfect_ranking_gives_1_everywhere(references):
    found = agreement([Compared(ranks_of(r), r) for r in references], 20)
    for measure in (found.tau_b, found.top1, found.pairwise, found.auc):
        assert isclose(measure.value, 1)
        assert measure.groups == len(references)
        assert measure.interval is None or all(isclose(end, 1) for end in measure.interval)


@given(st.lists(st.integers(2, 7).flatmap(distinct), min_size=1, max_size=8))
def test_a_reversed_ranking_gives_minus_1_and_0(references):
    found = agreement([Compared(ranks_of([-x for x in r]), r) for r in references])
    assert isclose(found.tau_b.value, -1)
    assert found.top1.value == found.pairwise.value == found.auc.value == 0


def test_all_tied_ranks_reach_what_chance_does():
    found = agreement([Compared((1, 1, 1, 1), (1, 2, 3, 4)), Compared((1, 1), (5, 3))])
    assert found.tau_b.value == 0
    assert found.top1.value == found.top1_chance == (1 / 4 + 1 / 2) / 2
    assert found.pairwise.value == found.auc.value == 0.5


@given(compared())
def test_pairs_are_counted_one_by_one(group):
    right, ordered = 0.0, 0
    for a, b in combinations(range(len(group.ranks)), 2):
        truth = group.reference[a] - group.reference[b]
        said = group.ranks[a] - group.ranks[b]
        if truth:
            ordered += 1
            right += 0.5 if said == 0 else float((said > 0) == (truth > 0))
    assert pairs_right(group.ranks, group.reference) == (right, ordered)


@given(st.integers(2, 7).flatmap(lambda n: st.tuples(distinct(n), distinct(n))))
def test_without_ties_pairs_and_tau_say_the_same(pair):
    right, ordered = pairs_right(*pair)
    assert isclose(2 * right / ordered - 1, tau_b(*pair), abs_tol=1e-12)


def test_top_1_is_the_chance_to_draw_a_best_one_from_the_best_tier():
    assert top1_accuracy((1, 1, 3), (0, 1, 2)) == 0.5
    assert top1_accuracy((1, 2, 3), (0, 0, 2)) == 1
    assert top1_accuracy((1, 1, 1), (2, 0, 0)) == 2 / 3
    assert top1_accuracy((2, 1, 3), (0, 1, 2)) == 0


def test_the_auc_of_a_label_is_pooled_over_pairs_within_groups():
    # 1 of 1 pair, and 0.5 of 4; across the groups nothing is compared.
    good, bad = 0.0, 1.0
    groups = [
        Compared((1, 2), (good, bad)),
        Compared((1, 2, 2, 4), (bad, good, bad, good)),
    ]
    found = agreement(groups)
    assert found.pairs == 5
    assert found.auc.value == 1.5 / 5
    assert found.pairwise.value == (1 + 0.5 / 4) / 2


def test_groups_that_the_reference_does_not_order_say_nothing():
    told = Compared((1, 2, 3), (1, 3, 2))
    assert agreement([told, Compared((1, 2), (7, 7)), Compared((1,), (1,))]) == agreement([told])
    assert agreement([Compared((1, 2), (7, 7))]) is None
    assert agreement([]) is None


@given(compared(), st.randoms(use_true_random=False))
def test_shuffled_rollouts_change_nothing(group, rng):
    order = list(range(len(group.ranks)))
    rng.shuffle(order)
    other = Compared(tuple(group.ranks[n] for n in order), tuple(group.reference[n] for n in order))
    assert agreement([other]) == agreement([group])


@given(compared())
def test_only_the_order_of_the_reference_counts(group):
    other = Compared(group.ranks, tuple(2.0**x - 9 for x in group.reference))
    assert agreement([other]) == agreement([group])


def test_infinite_references_are_tied_with_each_other():
    assert tau_b((1, 2, 2), (-inf, inf, inf)) == 1
    assert pairs_right((1, 2, 2), (-inf, inf, inf)) == (2, 2)


@pytest.mark.parametrize(
    ("ranks", "reference", "confidence", "message"),
    [
        ((1, 2), (1,), None, "got 2 ranks"),
        ((1, nan), (1, 2), None, "NaN"),
        ((1, 2), (nan, 2), None, "NaN"),
        ((1, 2), (1, 2), 1.5, "confidence of 1.5"),
        ((1, 2), (1, 2), nan, "confidence of nan"),
    ],
)
def test_values_that_cannot_be_compared_are_refused(ranks, reference, confidence, message):
    with pytest.raises(DataError, match=message):
        Compared(ranks, reference, confidence)


# Intervals.


def test_the_interval_follows_from_the_seed():
    values = [0.1, 0.5, 0.9, 0.3, 1.0]
    assert estimate(values, 200, 1) == estimate(values, 200, 1)
    assert estimate(values, 200, 1) != estimate(values, 200, 2)


def test_the_interval_of_two_groups_is_that_of_all_their_resamples():
    # Of two groups there are three means, the extreme ones each with a probability of 1/4.
    assert estimate([0.0, 1.0], 2000, 0).interval == (0.0, 1.0)


def test_the_interval_approaches_that_of_the_normal_distribution():
    values = np.random.default_rng(3).random(400)
    found = estimate(values.tolist(), 4000, 0)
    half = 1.96 * values.std() / 20
    assert np.allclose(found.interval, (found.value - half, found.value + half), atol=half / 10)


def test_the_interval_holds_the_true_mean_about_95_times_in_100():
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(200):
        low, high = estimate(rng.random(40).tolist(), 300, 0).interval
        held += low <= 0.5 <= high
    assert 180 <= held <= 199


def test_groups_are_resampled_whole():
    # Pairs of one group stand and fall together: one of 100 pairs, the other of 1.
    found = estimate([100.0, 0.0], 500, 0, [100.0, 1.0])
    assert found.value == 100 / 101
    assert found.interval == (0.0, 1.0)


@pytest.mark.parametrize(("values", "resamples"), [([0.5], 100), ([0.5, 0.7], 0)])
def test_one_group_or_no_resamples_give_no_interval(values, resamples):
    found = estimate(values, resamples, 0)
    assert found.interval is None
    assert isclose(found.value, fmean(values))


def test_no_group_gives_no_estimate():
    assert estimate([], 100, 0) is None


# Votes beside each other.


def by_the_tables(ranks):
    """Compute W as textbooks write it: squares of the sums, less a correction for each tie."""
    count, size = len(ranks), len(ranks[0])
    middle = [[r + (vote.count(r) - 1) / 2 for r in vote] for vote in ranks]
    sums = [sum(column) for column in zip(*middle, strict=True)]
    squares = sum((total - count * (size + 1) / 2) ** 2 for total in sums)
    ties = sum(vote.count(r) ** 3 - vote.count(r) for vote in ranks for r in set(vote))
    return Fraction(12 * squares) / Fraction(count**2 * (size**3 - size) - count * ties)


@given(votes())
def test_w_is_that_of_the_textbooks(ranks):
    if all(len(set(vote)) == 1 for vote in ranks):
        assert kendall_w(ranks) is None
        assert concordance(ranks) is None
    else:
        assert isclose(kendall_w(ranks), by_the_tables(ranks), abs_tol=1e-12)


@given(st.integers(2, 6).flatmap(lambda n: st.lists(distinct(n), min_size=2, max_size=5)))
def test_without_ties_concordance_is_the_mean_spearman_correlation(ranks):
    means = fmean(np.corrcoef(a, b)[0, 1] for a, b in combinations(ranks, 2))
    assert isclose(concordance(ranks), means, abs_tol=1e-9)


def test_unanimous_votes_agree_fully():
    assert kendall_w([(1, 2, 3)] * 4) == 1
    assert concordance([(1, 2, 3)] * 4) == 1
    assert isclose(concordance([(1, 1, 3)] * 5), 1)


def test_opposite_votes_disagree():
    assert kendall_w([(1, 2, 3, 4), (4, 3, 2, 1)]) == 0
    assert concordance([(1, 2, 3, 4), (4, 3, 2, 1)]) == -1


@pytest.mark.parametrize(("size", "count"), [(2, 2), (3, 4), (3, 2), (4, 2)])
def test_all_votes_that_can_be_agree_by_0_on_the_mean(size, count):
    orders = list(permutations(range(1, size + 1)))
    found = [concordance(ranks) for ranks in product(orders, repeat=count)]
    assert isclose(fmean(found), 0, abs_tol=1e-12)


@given(votes(), st.randoms(use_true_random=False))
def test_the_order_of_votes_and_candidates_changes_nothing(ranks, rng):
    shuffled = list(ranks)
    rng.shuffle(shuffled)
    order = list(range(len(ranks[0])))
    rng.shuffle(order)
    found, other = concordance(ranks), concordance([[v[n] for n in order] for v in shuffled])
    assert found == other or isclose(found, other, abs_tol=1e-12)


def test_one_vote_agrees_with_nobody():
    assert concordance([(1, 2, 3)]) is None


# The confidence beside the truth.


def pair_group(right, confidence):
    """Make a group of two that is ranked right, wrong or not at all."""
    ranks = {1: (1, 2), 0.5: (1, 1), 0: (2, 1)}[right]
    return Compared(ranks, (1, 2), confidence)


def test_a_confidence_that_keeps_its_promise_has_no_error():
    sure = [pair_group(1, 1.0)] * 3
    unsure = [pair_group(0.5, 0.0), pair_group(1, 0.0), pair_group(0, 0.0)]
    half_sure = [pair_group(1, 0.5)] * 3 + [pair_group(0, 0.5)]
    found = calibration([*sure, *unsure, *half_sure])
    assert found.error == 0
    assert found.groups == 10
    assert [held.groups for held in found.bins] == [3, 4, 3]
    assert [held.expected for held in found.bins] == [0.5, 0.75, 1.0]
    assert [held.accuracy for held in found.bins] == [0.5, 0.75, 1.0]


def test_overconfidence_is_an_error():
    # Bin 0.8 to 1 promises 1 and reaches 0; bin 0 to 0.2 promises 1/2 and reaches 1.
    found = calibration([pair_group(0, 1.0), pair_group(1, 0.0)])
    assert found.error == (1 + 0.5) / 2
    assert [(held.low, held.high) for held in found.bins] == [(0.0, 0.2), (0.8, 1.0)]


def test_a_label_can_be_met_in_full_although_it_ties_pairs():
    found = calibration([Compared((1, 2, 3), (0, 1, 1), 1.0)])
    assert found.error == 0


def test_groups_without_confidence_or_order_are_no_part_of_the_calibration():
    told = pair_group(1, 0.6)
    assert calibration([told, pair_group(0, None), Compared((1, 2), (3, 3), 1.0)]) == calibration(
        [told]
    )
    assert calibration([pair_group(1, None)]) is None


@given(st.lists(st.tuples(st.sampled_from([0, 0.5, 1]), st.floats(0, 1)), min_size=1, max_size=30))
def test_the_error_is_the_weighted_distance_of_the_bins(drawn):
    groups = [pair_group(right, confidence) for right, confidence in drawn]
    found = calibration(groups)
    assert sum(held.groups for held in found.bins) == len(groups)
    assert all(held.low <= held.confidence <= held.high + 1e-12 for held in found.bins)
    total = sum(held.groups * abs((1 + held.confidence) / 2 - held.accuracy) for held in found.bins)
    assert isclose(found.error, total / len(groups), abs_tol=1e-12)
    assert 0 <= found.error <= 1
