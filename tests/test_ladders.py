import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.ladders import place_weights, share_ties, shrink
from gagar_cli.options import RedistributeOptions

WEIGHTS = st.floats(1e-9, 1)


def ladder(size, **options):
    """Return the weights of all places of a group, best first."""
    sizes = np.full(size, size)
    return place_weights(sizes, np.arange(size), RedistributeOptions(**options)).tolist()


def test_linear_falls_from_1_to_the_floor_in_equal_steps():
    assert ladder(5) == [1, 0.875, 0.75, 0.625, 0.5]
    assert ladder(3, floor=0.2) == pytest.approx([1, 0.6, 0.2])


def test_geometric_falls_by_its_ratio_and_not_below_the_floor():
    assert ladder(5, weights="geometric") == pytest.approx([1, 0.8, 0.64, 0.512, 0.5])


def test_bottom_fraction_lowers_that_share_of_the_places_rounded_down():
    assert ladder(5, weights="bottom-fraction", floor=0.1) == [1, 1, 1, 0.1, 0.1]
    assert ladder(3, weights="bottom-fraction", fraction=0.3) == [1, 1, 1]


def test_bottom_fraction_never_lowers_the_first_place():
    assert ladder(3, weights="bottom-fraction", fraction=1) == [1, 0.5, 0.5]
    assert ladder(1, weights="bottom-fraction", fraction=1) == [1]


@pytest.mark.parametrize(("fraction", "size", "lowered"), [(0.29, 100, 29), (0.58, 50, 29)])
def test_a_share_means_what_it_says_in_decimals(fraction, size, lowered):
    assert ladder(size, weights="bottom-fraction", fraction=fraction).count(0.5) == lowered


def test_the_last_listed_weight_repeats():
    assert ladder(4, weights="1,0.8,0.6") == [1, 0.8, 0.6, 0.6]
    assert ladder(2, weights="1, 0.8, 0.6") == [1, 0.8]
    assert ladder(3, weights="1") == [1, 1, 1]


def test_each_row_is_weighed_by_the_size_of_its_own_group():
    size, place = np.array([3, 2, 3, 1]), np.array([2, 1, 1, 0])
    assert place_weights(size, place, RedistributeOptions()).tolist() == [0.5, 0.5, 0.75, 1]


@given(
    st.integers(2, 300),
    st.sampled_from(["linear", "geometric", "bottom-fraction"]),
    WEIGHTS,
    st.floats(0.01, 1),
)
def test_weights_start_at_1_never_rise_and_never_pass_the_floor(size, weights, floor, share):
    got = ladder(size, weights=weights, floor=floor, ratio=share, fraction=share)
    assert got[0] == 1
    assert got == sorted(got, reverse=True)
    assert got[-1] >= floor
    if weights == "linear":
        assert got[-1] == floor


def test_tied_rollouts_share_the_mean_weight():
    weight = np.array([1.0, 0.75, 0.5, 1.0, 0.5])
    tier = np.array([True, False, True, True, False])
    assert share_ties(weight, tier).tolist() == [0.875, 0.875, 0.5, 0.75, 0.75]


@given(st.lists(st.tuples(WEIGHTS, st.booleans()), min_size=1, max_size=40))
def test_sharing_never_lifts_a_tier_over_a_better_one_not_even_by_a_bit(rows):
    weight = np.array(sorted((w for w, _ in rows), reverse=True))
    tier = np.array([True, *(new for _, new in rows[1:])])
    shared = share_ties(weight, tier)
    assert (np.diff(shared) <= 0).all()
    assert shared.sum() == pytest.approx(weight.sum(), rel=1e-14)


@given(WEIGHTS, st.integers(1, 50))
def test_sharing_equal_weights_changes_no_bit(weight, size):
    shared = share_ties(np.full(size, weight), np.arange(size) == 0)
    assert set(shared.tolist()) == {weight}


@given(WEIGHTS, st.floats(0, 1))
def test_less_confidence_moves_a_weight_toward_1(weight, confidence):
    (got,) = shrink(np.array([weight]), np.array([confidence]))
    assert weight * (1 - 1e-15) <= got <= 1
    assert got == pytest.approx(1 - confidence * (1 - weight), abs=1e-15)


@given(WEIGHTS)
def test_full_confidence_keeps_a_weight_and_none_gives_exactly_1(weight):
    assert shrink(np.array([weight] * 2), np.array([1.0, 0.0])).tolist() == [weight, 1]


@given(st.floats(0, 1))
def test_a_weight_of_1_stays_exactly_1_whatever_the_confidence(confidence):
    assert shrink(np.ones(1), np.array([confidence])).tolist() == [1]
