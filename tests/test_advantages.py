from fractions import Fraction
from math import sqrt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli import groups
from gagar_cli.advantages import estimate_advantages
from gagar_cli.errors import DataError
from gagar_cli.groups import GroupIndex
from gagar_cli.options import Estimator
from gagar_cli.schema import numbers

GRPO, DR_GRPO, RLOO = Estimator.GRPO, Estimator.DR_GRPO, Estimator.RLOO
NAN = float("nan")
SPREADS = st.fixed_dictionaries(
    {
        "estimator": st.sampled_from(Estimator),
        "ddof": st.sampled_from([0, 1]),
        "epsilon": st.sampled_from([0.0, 1e-8, 1e-6, 1e-4, 1.0]),
    }
)
# Thousandths, so that no two rewards are nearly equal.
REWARDS = st.none() | st.sampled_from([0, 1]) | st.integers(-5000, 5000).map(lambda n: n / 1000)


def estimate(groups, **options):
    """Return {group: advantages} from {group: rewards}, the groups' rows interleaved."""
    rows = sorted(
        ((place, name, r) for name, rewards in groups.items() for place, r in enumerate(rewards)),
        key=lambda row: row[:2],
    )
    index = GroupIndex.of(pa.array([name for _, name, _ in rows], pa.string()))
    reward = np.array([NAN if r is None else r for *_, r in rows], dtype=np.float64)
    value = estimate_advantages(reward, index, **options)
    found = {name: [] for name in groups}
    for (_, name, _), advantage in zip(rows, value.tolist(), strict=True):
        found[name].append(None if np.isnan(advantage) else advantage)
    return found


def one(rewards, **options):
    return estimate({"g": rewards}, **options)["g"]


def exact(rewards, estimator, ddof, epsilon):
    """Compute the advantages of one group from their definition."""
    known = [Fraction(r) for r in rewards if r is not None]
    if len(set(known)) < 2:
        return [None if r is None else 0.0 for r in rewards]
    mean = sum(known) / len(known)
    variance = sum((r - mean) ** 2 for r in known) / (len(known) - ddof)

    def advantage(r):
        if estimator is RLOO:
            return float(r - (sum(known) - r) / (len(known) - 1))
        scale = sqrt(variance) + epsilon if estimator is GRPO else 1
        return float(r - mean) / scale

    return [None if r is None else advantage(Fraction(r)) for r in rewards]


@given(
    st.dictionaries(
        st.sampled_from("abcd"), st.lists(REWARDS, min_size=1, max_size=8), min_size=1, max_size=4
    ),
    SPREADS,
)
def test_advantages_follow_their_definition_group_by_group(groups, options):
    found = estimate(groups, **options)
    for name, rewards in groups.items():
        expected = exact(rewards, **options)
        assert [a is None for a in found[name]] == [a is None for a in expected]
        known = [a for a in expected if a is not None]
        got = [a for a in found[name] if a is not None]
        assert got == pytest.approx(known, rel=1e-9, abs=1e-12)


def test_grpo_divides_by_the_standard_deviation_of_the_sample():
    # Mean 0.5, variance 1/3.
    expected = 0.5 / (sqrt(1 / 3) + 1e-6)
    assert one([1, 0, 1, 0]) == pytest.approx([expected, -expected] * 2, rel=1e-14)
    assert one([1, 0], ddof=0, epsilon=0.0) == [1, -1]


def test_dr_grpo_only_subtracts_the_mean():
    assert one([1, 0, 0, 0], estimator=DR_GRPO) == [0.75, -0.25, -0.25, -0.25]


def test_rloo_compares_with_the_mean_of_the_others():
    assert one([1, 0, 0, 1], estimator=RLOO) == pytest.approx([2 / 3, -2 / 3, -2 / 3, 2 / 3])


@pytest.mark.parametrize("estimator", Estimator)
@pytest.mark.parametrize("epsilon", [0.0, 1e-6])
@pytest.mark.parametrize(
    "rewards",
    [
        [0.7],
        [1, 1, 1],
        [0.1 + 0.2] * 7,
        [0.1] * 10,
        [1e-320] * 3,
        [1e308] * 4,
        [-1e308, None, -1e308],
        [0.3, None],
        [0.0, -0.0],
    ],
    ids=str,
)
def test_one_reward_and_equal_rewards_give_exactly_0(rewards, estimator, epsilon):
    expected = [None if r is None else 0 for r in rewards]
    assert one(rewards, estimator=estimator, epsilon=epsilon) == expected


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 9), SPREADS, st.booleans())
def test_equal_rewards_of_any_size_give_exactly_0(reward, count, options, other_group):
    groups = {"g": [reward] * count} | ({"other": [0, 1, 0]} if other_group else {})
    assert estimate(groups, **options)["g"] == [0] * count


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.decimal128(3, 1)])
def test_equal_rewards_of_narrow_types_give_exactly_0(kind):
    reward = numbers(pa.array([0.1] * 6).cast(kind))
    index = GroupIndex.of(pa.array(["g"] * 6))
    for estimator in Estimator:
        assert estimate_advantages(reward, index, estimator).tolist() == [0] * 6


@pytest.mark.parametrize("estimator", Estimator)
def test_null_rewards_take_no_part_in_means(estimator):
    without = one([1, 0, 0], estimator=estimator)
    assert one([None, 1, None, 0, 0], estimator=estimator) == [None, without[0], None, *without[1:]]


def test_a_group_without_rewards_has_no_advantages():
    assert estimate({"a": [None, None], "b": [1, 0]}, estimator=DR_GRPO) == {
        "a": [None, None],
        "b": [0.5, -0.5],
    }


def test_no_rows_give_no_rows():
    assert estimate({}) == {}
    assert estimate_advantages(np.zeros(0), GroupIndex.of(pa.array([], pa.string()))).size == 0


@pytest.mark.parametrize("estimator", Estimator)
@pytest.mark.parametrize("reward", [float("inf"), -float("inf")])
def test_an_infinite_reward_names_its_group(estimator, reward):
    with pytest.raises(DataError, match=f"group 'bad': got reward {reward:g}, expected"):
        estimate({"good": [0, 1], "bad": [0, reward]}, estimator=estimator)


@pytest.mark.parametrize("estimator", Estimator)
def test_rewards_that_overflow_the_mean_name_their_group(estimator):
    with pytest.raises(DataError, match=r"group 'bad': got reward 1e\+308, expected"):
        estimate({"good": [0, 1, 2], "bad": [1e308, 1e308, 0]}, estimator=estimator)


@pytest.mark.parametrize("spread", [1e200, 1e300])
def test_rewards_whose_variance_overflows_are_refused_and_not_made_0(spread):
    with pytest.raises(DataError, match=r"group 'bad': got reward 1e\+"):
        estimate({"good": [0, 1], "bad": [spread, 0]})
    assert one([spread, 0], estimator=DR_GRPO) == [spread / 2, -spread / 2]


def test_blocks_of_few_rows_change_no_bit(monkeypatch):
    random = np.random.default_rng(3)
    reward = np.where(random.random(90) < 0.2, NAN, random.random(90))
    index = GroupIndex.of(pa.array(np.arange(90) // 5))
    expected = [estimate_advantages(reward, index, way).tobytes() for way in Estimator]
    monkeypatch.setattr(groups, "BLOCK", 7)
    found = [estimate_advantages(reward, index, way).tobytes() for way in Estimator]
    assert found == expected
