import numpy as np
import pyarrow as pa
import pytest
import tables
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.errors import DataError
from gagar_cli.filtering import filter_rollouts
from gagar_cli.options import FilterOptions

VERDICTS = st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=6)


def reasons(table, threshold=1.0, **options):
    """Return {group: reason}, None where the group stays, having checked row against row."""
    result = filter_rollouts(table, FilterOptions(**options), threshold)
    found = {}
    for group, keep, reason in zip(
        table["group_id"].to_pylist(), result.keep.tolist(), result.reason.to_pylist(), strict=True
    ):
        assert keep is (reason is None)
        assert found.setdefault(group, reason) == reason
    return found


@pytest.mark.parametrize(
    ("verdicts", "reason"),
    [
        ([True, False], None),
        ([False, None, True], None),
        ([None, None], "no-verdict"),
        ([None], "no-verdict"),
        ([True], "too-small"),
        ([False], "too-small"),
        ([True, None, None], "too-small"),
        ([True, True], "all-pass"),
        ([True, None, True], "all-pass"),
        ([False, False], "all-fail"),
        ([False, None, False], "all-fail"),
    ],
)
def test_exactly_the_groups_with_contrast_stay(verdicts, reason):
    assert reasons(tables.rollouts({"g": verdicts})) == {"g": reason}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"min_pass_rate": 0.25}, None),
        ({"min_pass_rate": 0.26}, "low-pass-rate"),
        ({"max_pass_rate": 0.25}, None),
        ({"max_pass_rate": 0.24}, "high-pass-rate"),
        ({"min_group_size": 4}, None),
        ({"min_group_size": 5}, "too-small"),
    ],
)
def test_bounds_belong_to_what_stays_and_count_only_rows_with_a_verdict(options, reason):
    table = tables.rollouts({"quarter": [True, None, False, False, None, False]})
    assert reasons(table, **options) == {"quarter": reason}


@pytest.mark.parametrize(
    ("verdicts", "options", "reason"),
    [
        ([None], {"min_group_size": 9, "min_pass_rate": 1.0}, "no-verdict"),
        ([True, True], {"min_group_size": 3, "max_pass_rate": 0.0}, "too-small"),
        ([True, True], {"max_pass_rate": 0.5}, "all-pass"),
        ([False, False], {"min_pass_rate": 0.5}, "all-fail"),
        ([True], {"min_group_size": 1}, "all-pass"),
        ([False], {"min_group_size": 1}, "all-fail"),
    ],
)
def test_the_first_reason_that_holds_is_the_one_given(verdicts, options, reason):
    assert reasons(tables.rollouts({"g": verdicts}), **options) == {"g": reason}


@given(st.dictionaries(st.sampled_from("abcde"), VERDICTS, max_size=5))
def test_kept_groups_have_both_verdicts_and_dropped_ones_never_do(groups):
    found = reasons(tables.rollouts(groups))
    assert set(found) == set(groups)
    for group, reason in found.items():
        assert ({True, False} <= set(groups[group])) is (reason is None)


@given(
    st.dictionaries(st.sampled_from("abcde"), VERDICTS, min_size=1, max_size=5),
    st.randoms(use_true_random=False),
)
def test_the_order_of_rows_decides_nothing(groups, random):
    table = tables.rollouts(groups)
    order = list(range(len(table)))
    random.shuffle(order)
    assert reasons(table.take(order)) == reasons(table)


def test_a_group_may_be_scattered_over_rows_and_chunks():
    table = tables.rollouts({"a": [True, False], "b": [True, True], "c": [False, True]})
    scattered = table.take([0, 2, 4, 1, 3, 5])
    chunked = pa.concat_tables([scattered.slice(0, 2), scattered.slice(2)])
    assert filter_rollouts(chunked, FilterOptions()).keep.tolist() == [
        True,
        False,
        True,
        True,
        False,
        True,
    ]


def test_reward_decides_by_the_threshold_where_there_is_no_passed():
    table = tables.rollouts({"a": [None] * 2, "b": [None] * 3}).drop_columns("passed")
    table = table.append_column("reward", pa.array([0.2, 0.5, 0.7, 0.9, None]))
    assert reasons(table, threshold=0.5) == {"a": None, "b": "all-pass"}
    assert reasons(table, threshold=0.8) == {"a": "all-fail", "b": None}
    assert reasons(table) == {"a": "all-fail", "b": "all-fail"}


def test_passed_decides_where_both_are_there():
    table = tables.rollouts({"a": [True, False]}, reward=[0.0, 0.0])
    assert reasons(table) == {"a": None}


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([7, 7, -8, -8]),
        pa.array(["a", "a", "b", "b"]).dictionary_encode(),
        pa.array(["a", "a", "b", "b"], pa.large_string()),
        pa.array(["a", "a", "b", "b"], pa.string_view()),
    ],
    ids=lambda column: str(column.type),
)
def test_ids_may_have_any_type_that_names(ids):
    table = tables.rollouts({"x": [True, False], "y": [True, True]}).set_column(0, "group_id", ids)
    table = table.set_column(1, "rollout_id", pa.array([1, 2, 1, 2]).cast(pa.int16()))
    assert list(reasons(table).values()) == [None, "all-pass"]


def test_the_summary_counts_what_stays_and_what_goes_by_reason():
    groups = {
        "a": [True, False, None],
        "b": [None, None],
        "c": [True],
        "d": [True, True],
        "e": [True, None, True],
        "f": [False, False],
    }
    summary = filter_rollouts(tables.rollouts(groups), FilterOptions()).summary
    assert (summary.groups_kept, summary.rollouts_kept) == (1, 3)
    assert summary.groups_dropped == {"no-verdict": 1, "too-small": 1, "all-pass": 2, "all-fail": 1}
    assert summary.rollouts_dropped == {
        "no-verdict": 2,
        "too-small": 1,
        "all-pass": 5,
        "all-fail": 2,
    }
    assert (summary.groups, summary.rollouts) == (6, 13)


def test_no_rows_keep_no_rows():
    result = filter_rollouts(tables.rollouts({}), FilterOptions())
    assert result.keep.tolist() == []
    assert result.reason.type == pa.string()
    assert (result.summary.groups, result.summary.rollouts) == (0, 0)


def test_the_result_has_a_bool_and_a_text_for_every_row():
    result = filter_rollouts(tables.rollouts({"a": [True, True]}), FilterOptions())
    assert result.keep.dtype == np.bool_
    assert result.reason.equals(pa.array(["all-pass", "all-pass"]))


@pytest.mark.parametrize(
    ("column", "ids", "words"),
    [
        (1, ["r0", "r0", "r0"], "group 'a': has 2 rows 'r0'"),
        (0, ["a", None, "b"], "row 1: got a null group_id"),
        (1, ["r0", "r1", None], "row 2: got a null rollout_id"),
    ],
)
def test_ids_that_identify_nothing_are_refused(column, ids, words):
    table = tables.rollouts({"a": [True, False], "b": [True]})
    table = table.set_column(column, table.column_names[column], pa.array(ids, pa.string()))
    with pytest.raises(DataError, match=words):
        filter_rollouts(table, FilterOptions())
