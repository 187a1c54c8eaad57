import decimal

import numpy as np
import pyarrow as pa
import pytest
import tables

from gagar_cli.errors import DataError
from gagar_cli.options import Estimator, Mass, RedistributeOptions
from gagar_cli.redistributing import redistribute_rollouts, rewards
from gagar_cli.schema import read_verdicts

DEFAULT = RedistributeOptions()
DR_GRPO = RedistributeOptions(estimator=Estimator.DR_GRPO)
TOKENS = RedistributeOptions(mass=Mass.TOKENS)
RANKS = pa.array([1, 2, None, None], pa.int32())


def ranked(**columns):
    """One group of four: ranks 1 and 2, one passing without a rank, one failing."""
    return tables.rollouts({"g": [True, True, True, False]}, **{"rank": RANKS, **columns})


def run(table, options=DEFAULT, **settings):
    return redistribute_rollouts(table, options, **settings)[0].to_pydict()


def test_the_advantage_is_returned_only_where_it_was_absent():
    there = run(ranked(advantage=[1.0, 1.0, 1.0, -3.0]))
    assert list(there) == ["credit_weight", "redistributed_advantage"]
    assert there["credit_weight"] == pytest.approx([4 / 3, 2 / 3, 1, 1])
    assert there["redistributed_advantage"] == pytest.approx([4 / 3, 2 / 3, 1, -3])
    assert list(run(ranked())) == ["advantage", *there]


def test_an_absent_advantage_comes_from_passed():
    columns = run(ranked(), DR_GRPO)
    assert columns["advantage"] == [0.25, 0.25, 0.25, -0.75]
    assert columns["redistributed_advantage"] == pytest.approx([1 / 3, 1 / 6, 0.25, -0.75])


@pytest.mark.parametrize(
    "reward",
    [
        pa.array([4, 2, 2, 0]),
        pa.array([4, 2, 2, 0], pa.uint8()),
        pa.array([4.0, 2.0, 2.0, 0.0], pa.float32()),
        pa.array([decimal.Decimal(n) for n in (4, 2, 2, 0)]),
    ],
    ids=lambda column: str(column.type),
)
def test_an_absent_advantage_comes_from_rewards_of_any_number_type(reward):
    columns = run(ranked(reward=reward), DR_GRPO)
    assert columns["advantage"] == [2, 0, 0, -2]
    # The second has no advantage to lend, so the first is the only one ranked.
    assert columns["credit_weight"] == [1, 1, 1, 1]


def test_the_default_estimator_is_grpo():
    expected = 0.25 / (0.5 + 1e-6)
    got = run(ranked())["advantage"]
    assert got == pytest.approx([expected] * 3 + [-3 * expected], rel=1e-14)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float16(), pa.decimal128(6, 4), pa.float64()])
def test_advantages_of_any_number_type_move_in_float64(kind):
    narrow = pa.array([0.3, 0.6, 0.1, -1.0]).cast(kind)
    wide = np.array([float(value) for value in narrow.to_pylist()])
    added, summary = redistribute_rollouts(ranked(advantage=narrow), DEFAULT)
    assert {field.type for field in added.schema} == {pa.float64()}
    after = np.array(added["redistributed_advantage"].to_pylist())
    assert after[2:].tolist() == wide[2:].tolist()
    assert after[:2].sum() == pytest.approx(wide[:2].sum(), rel=1e-15)
    assert after[:2] == pytest.approx([0.3 * 0.9 / 0.6, 0.3 * 0.9 / 0.6], rel=2e-3)
    assert summary.sum_error <= 1e-12


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_null_advantage_stays_null_and_takes_no_place(missing):
    advantage = pa.array([missing, 1.0, 1.0, -1.0])
    ranks = pa.array([1, 2, 3, None], pa.int64())
    columns = run(ranked(advantage=advantage, rank=ranks))
    assert columns["credit_weight"] == [None, pytest.approx(4 / 3), pytest.approx(2 / 3), 1]
    assert columns["redistributed_advantage"][0] is None


def test_a_null_verdict_gets_a_null_advantage_and_takes_no_part_in_the_mean():
    table = tables.rollouts({"g": [True, None, False]}, rank=pa.array([1, None, None], pa.int32()))
    columns = run(table, DR_GRPO)
    assert columns["advantage"] == [0.5, None, -0.5]
    assert columns["credit_weight"] == [1, None, 1]
    with_reward = run(table.append_column("reward", [[1.0, 9.0, 0.0]]), DR_GRPO)
    assert with_reward == columns


def test_rank_without_a_pass_moves_nothing():
    ranks = pa.array([1, None, None, 2], pa.int32())
    columns = run(ranked(advantage=[1.0, 1.0, 1.0, 5.0], rank=ranks))
    assert columns["credit_weight"] == [1, 1, 1, 1]


def test_passed_may_be_numbers_and_a_reward_alone_decides_by_the_threshold():
    expected = run(ranked(advantage=[1.0, 1.0, 1.0, -3.0]))
    numeric = ranked(advantage=[1.0, 1.0, 1.0, -3.0])
    numeric = numeric.set_column(2, "passed", pa.array([1, 1, 1, 0], pa.int8()))
    assert run(numeric) == expected
    by_reward = numeric.set_column(2, "reward", pa.array([0.9, 0.5, 0.7, 0.1]))
    assert run(by_reward, pass_threshold=0.5) == expected
    assert run(by_reward)["credit_weight"] == [1, 1, 1, 1]


def test_rewards_are_the_column_or_1_and_0_and_null_without_a_verdict():
    table = tables.rollouts({"g": [True, False, None, True]})
    verdicts = read_verdicts(table)
    np.testing.assert_array_equal(rewards(table, verdicts), [1, 0, np.nan, 1])
    table = table.append_column("reward", pa.array([0.5, -1.0, 3.0, None]))
    np.testing.assert_array_equal(rewards(table, verdicts), [0.5, -1, np.nan, np.nan])


def test_groups_may_be_scattered_over_rows_and_chunks():
    table = tables.rollouts(
        {"a": [True, True, False], "b": [True, True]},
        rank=pa.array([1, 2, None, 2, 1], pa.int32()),
        advantage=[1.0, 2.0, -3.0, 0.5, 0.5],
    )
    expected = redistribute_rollouts(table, DEFAULT)[0]
    order = [4, 0, 3, 2, 1]
    moved = table.take(order)
    moved = pa.concat_tables([moved.slice(0, 2), moved.slice(2)])
    assert redistribute_rollouts(moved, DEFAULT)[0].equals(expected.take(order))


def test_confidence_counts_where_it_is_there_and_null_counts_as_full():
    advantage = [1.0, 1.0, 1.0, -3.0]
    full = run(ranked(advantage=advantage))
    null = pa.array([None] * 4, pa.float64())
    assert run(ranked(advantage=advantage, grade_confidence=null)) == full
    none = ranked(advantage=advantage, grade_confidence=[0.0, 0.0, None, None])
    assert run(none)["credit_weight"] == [1, 1, 1, 1]
    assert run(none, RedistributeOptions(use_confidence=False)) == full


def test_tokens_are_the_mass_of_a_token_mean_loss():
    table = ranked(advantage=[1.0, 1.0, 1.0, -3.0], num_tokens=[100, 300, None, None])
    a, b, *_ = run(table, TOKENS)["redistributed_advantage"]
    assert 100 * a + 300 * b == pytest.approx(400, rel=1e-14)
    assert b == a / 2


def test_the_summary_counts_what_moved():
    table = tables.rollouts(
        {"moved": [True, True, False], "tied": [True, True], "not graded": [True, False]},
        rank=pa.array([1, 2, None, 1, 1, None, None], pa.int32()),
        advantage=[1.0, 1.0, -2.0, 1.0, 1.0, 1.0, -1.0],
    )
    summary = redistribute_rollouts(table, DEFAULT)[1]
    assert (summary.groups, summary.groups_moved, summary.rollouts_ranked) == (3, 1, 4)
    assert (summary.weight_low, summary.weight_high) == pytest.approx((2 / 3, 4 / 3))
    assert summary.sum_error <= 1e-12
    assert not summary.advantage_computed
    without = redistribute_rollouts(table, RedistributeOptions(keep_sum=False))[1]
    assert without.sum_error == pytest.approx(0.25)


@pytest.mark.parametrize("table", [ranked().slice(0, 0), ranked(rank=pa.nulls(4, pa.int32()))])
def test_nothing_to_rank_moves_nothing(table):
    added, summary = redistribute_rollouts(table, DEFAULT)
    assert len(added) == len(table)
    assert added["redistributed_advantage"].equals(added["advantage"])
    assert set(added["credit_weight"].to_pylist()) <= {1.0}
    assert (summary.groups_moved, summary.rollouts_ranked, summary.sum_error) == (0, 0, 0)
    assert (summary.weight_low, summary.weight_high) == (1, 1)
    assert summary.advantage_computed


INFINITE = float("inf")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"advantage": [1.0, INFINITE, 1.0, 1.0]}, "infinite advantage"),
        ({"advantage": [1.0, 1.0, -INFINITE, 1.0]}, "infinite advantage"),
        ({"advantage": [1.0, 1.5e308, 1.5e308, 1.0]}, "overflows"),
        ({"rank": [1, 0, 2, 2]}, "rank below 1"),
        ({"rank": [1, 1, -2, 2]}, "rank below 1"),
        ({"grade_confidence": [1.0, 1.5, 1.5, 1.0]}, "grade_confidence"),
        ({"grade_confidence": [1.0, -0.1, -0.1, 1.0]}, "grade_confidence"),
        ({"grade_confidence": [0.5, 0.4, 0.6, 0.5]}, "not one value from 0 to 1"),
        ({"num_tokens": [1, 1, None, 1]}, "num_tokens"),
        ({"num_tokens": [1, -1, 1, 1]}, "num_tokens"),
    ],
)
def test_values_that_make_no_sense_name_their_group(columns, words):
    table = pa.table(
        {
            "group_id": ["good", "bad", "bad", "good"],
            "rollout_id": ["1", "1", "2", "2"],
            "passed": [True] * 4,
            "rank": [1, 1, 2, 2],
            "advantage": [1.0] * 4,
            "num_tokens": [5] * 4,
            "grade_confidence": [1.0] * 4,
            **columns,
        }
    )
    with pytest.raises(DataError, match=words) as caught:
        redistribute_rollouts(table, TOKENS)
    assert caught.value.where == "group 'bad'"


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        (ranked(), TOKENS, "got no num_tokens, expected them with --mass tokens"),
        (ranked(reward=[1.0, INFINITE, 1.0, 0.0]), DEFAULT, "group 'g': got reward inf"),
        (ranked(rollout_id=["1", "1", "2", "3"]), DEFAULT, "group 'g': has 2 rows '1'"),
    ],
)
def test_a_table_that_cannot_be_redistributed_is_refused(table, options, words):
    with pytest.raises(DataError, match=words):
        redistribute_rollouts(table, options)
