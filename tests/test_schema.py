import decimal

import numpy as np
import pyarrow as pa
import pytest
import tables

from gagar_cli.errors import DataError, OptionError
from gagar_cli.schema import (
    INPUT_COLUMNS,
    KNOWN_COLUMNS,
    STAGE_COLUMNS,
    ColumnNames,
    is_set,
    numbers,
    read_verdicts,
    require,
    strings,
    type_problem,
    verdict_column,
)

OWN = ColumnNames()


def test_a_name_that_is_not_mapped_is_its_own():
    names = ColumnNames.parse(["group_id=uid", "reward=a=b"])
    assert [names["group_id"], names["reward"], names["patch"]] == ["uid", "a=b", "patch"]


def test_two_names_may_be_swapped():
    names = ColumnNames.parse(["group_id=rollout_id", "rollout_id=group_id"])
    assert (names["group_id"], names["rollout_id"]) == ("rollout_id", "group_id")


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (["group_id"], "got 'group_id', expected NAME=COLUMN"),
        (["group_id="], "got 'group_id=', expected NAME=COLUMN"),
        (["=uid"], "got '=uid', expected NAME=COLUMN"),
        (["group=uid"], "one of group_id, rollout_id, passed"),
        (["group_id=a", "group_id=b"], "got 'group_id' twice"),
        (["group_id=a", "rollout_id=a"], "one column for two names"),
    ],
)
def test_a_mapping_that_makes_no_sense_names_the_option(pairs, words):
    with pytest.raises(OptionError, match=words) as caught:
        ColumnNames.parse(pairs)
    assert caught.value.where == "--col"


def test_later_names_win_over_those_that_travel_with_the_file():
    carried = ColumnNames.parse(["group_id=uid", "reward=score"])
    names = carried.updated(ColumnNames.parse(["group_id=task"]))
    assert (names["group_id"], names["reward"]) == ("task", "score")


@pytest.mark.parametrize(
    ("canonical", "kind", "fits"),
    [
        ("group_id", pa.string(), True),
        ("group_id", pa.large_string(), True),
        ("group_id", pa.string_view(), True),
        ("group_id", pa.dictionary(pa.int32(), pa.string()), True),
        ("group_id", pa.uint64(), True),
        ("group_id", pa.float64(), False),
        ("group_id", pa.binary(), False),
        ("passed", pa.bool_(), True),
        ("passed", pa.int8(), True),
        ("passed", pa.string(), False),
        ("reward", pa.float16(), True),
        ("reward", pa.float32(), True),
        ("reward", pa.decimal128(5, 2), True),
        ("reward", pa.bool_(), False),
        ("patch", pa.binary(), True),
        ("patch", pa.large_binary(), True),
        ("patch", pa.string(), True),
        ("patch", pa.int32(), False),
        ("num_tokens", pa.int64(), True),
        ("num_tokens", pa.float64(), True),
        ("rank", pa.int64(), True),
        ("rank", pa.float64(), True),
        ("messages", pa.list_(pa.struct([("role", pa.string())])), True),
        ("credit_weight", pa.float64(), True),
        ("credit_weight", pa.int64(), False),
    ],
)
def test_each_column_takes_the_types_that_trainers_write(canonical, kind, fits):
    problem = type_problem(canonical, "mine", kind)
    assert (problem is None) is fits
    if problem:
        assert problem == f"column 'mine' has type {kind}, expected {KNOWN_COLUMNS[canonical]}"


@pytest.mark.parametrize("stage", STAGE_COLUMNS)
def test_what_a_stage_writes_the_next_can_read(stage):
    for name, kind in STAGE_COLUMNS[stage].items():
        assert type_problem(name, name, kind) is None


def complaint(schema, canonical, names=OWN):
    with pytest.raises(DataError) as caught:
        require(schema, names, canonical)
    return str(caught.value)


def test_a_column_that_fits_is_accepted_under_its_own_name():
    schema = pa.schema([("uid", pa.string())])
    assert require(schema, ColumnNames({"group_id": "uid"}), "group_id") is None


@pytest.mark.parametrize("canonical", INPUT_COLUMNS)
def test_a_missing_input_column_is_to_be_named(canonical):
    line = complaint(pa.schema([("uid", pa.string())]), canonical)
    assert f"got no column '{canonical}' among uid" in line
    assert line.endswith(f"Next: name yours with --col {canonical}=YOUR_COLUMN")


@pytest.mark.parametrize(
    ("canonical", "command"),
    [
        ("candidate", "gagar assemble"),
        ("workspace", "gagar assemble"),
        ("rank", "gagar grade"),
        ("grade_status", "gagar grade"),
        ("credit_weight", "gagar redistribute"),
    ],
)
def test_a_missing_stage_column_is_to_be_made_by_its_stage(canonical, command):
    line = complaint(pa.schema([]), canonical)
    assert f"got no column '{canonical}' among none" in line
    assert line.endswith(f"Next: {command}, or --col {canonical}=YOUR_COLUMN")


def test_a_missing_mapped_column_is_told_by_the_files_name():
    line = complaint(pa.schema([]), "group_id", ColumnNames({"group_id": "uid"}))
    assert "got no column 'uid'" in line
    assert "--col group_id=" in line


def test_a_wide_file_is_not_listed_whole():
    line = complaint(pa.schema([(f"c{n}", pa.int8()) for n in range(20)]), "rank")
    assert "c11, …. Next" in line
    assert "c12" not in line


def test_a_wrong_type_is_to_be_cast_or_another_column_named():
    line = complaint(pa.schema([("group_id", pa.float64())]), "group_id")
    assert "'group_id' has type double, expected string or integer" in line
    assert line.endswith("Next: cast it, or use --col group_id=YOUR_COLUMN")


def test_a_column_that_is_there_twice_is_refused():
    schema = pa.schema([("group_id", pa.string()), ("group_id", pa.string())])
    assert "has 2 columns 'group_id', expected one" in complaint(schema, "group_id")


def test_passed_decides_before_reward():
    both = pa.schema([("reward", pa.float64()), ("passed", pa.bool_())])
    assert verdict_column(both, OWN) == "passed"
    assert verdict_column(both, ColumnNames({"passed": "resolved"})) == "reward"


def test_a_column_that_is_mapped_to_one_verdict_is_not_also_the_other():
    graded = pa.schema([("passed", pa.float64())])
    assert verdict_column(graded, ColumnNames({"reward": "passed"})) == "reward"
    flag = pa.schema([("reward", pa.bool_())])
    assert verdict_column(flag, ColumnNames({"passed": "reward"})) == "passed"


def test_a_file_without_a_verdict_is_told_how_to_name_one():
    with pytest.raises(DataError, match=r"neither 'passed' nor 'reward'.*--col reward="):
        verdict_column(pa.schema([("score", pa.float64())]), OWN)


def test_a_verdict_of_the_wrong_type_is_refused():
    with pytest.raises(DataError, match="'passed' has type string, expected bool"):
        verdict_column(pa.schema([("passed", pa.string()), ("reward", pa.float64())]), OWN)


@pytest.mark.parametrize(
    "passed",
    [
        pa.array([True, False, None]),
        pa.array([1, 0, None], pa.uint8()),
        pa.array([1.0, 0.0, float("nan")]),
        pa.array([decimal.Decimal(1), decimal.Decimal(0), None]),
    ],
    ids=lambda column: str(column.type),
)
def test_a_null_verdict_is_neither_pass_nor_fail(passed):
    verdicts = read_verdicts(pa.table({"passed": passed}))
    assert verdicts.passed.tolist() == [True, False, False]
    assert verdicts.failed.tolist() == [False, True, False]
    assert verdicts.known.tolist() == [True, True, False]


def test_passed_wins_over_reward():
    table = pa.table({"passed": [False, True], "reward": [1.0, 0.0]})
    assert read_verdicts(table).passed.tolist() == [False, True]


def test_a_reward_passes_from_the_threshold_on():
    table = pa.table({"reward": pa.array([0.4, 0.5, 0.6, None, float("nan")])})
    verdicts = read_verdicts(table, 0.5)
    assert verdicts.passed.tolist() == [False, True, True, False, False]
    assert verdicts.failed.tolist() == [True, False, False, False, False]
    assert read_verdicts(pa.table({"reward": [0.999, 1.0]})).passed.tolist() == [False, True]


@pytest.mark.parametrize("odd", [0.5, 2.0, -1.0, float("inf")])
def test_a_graded_passed_column_is_refused_with_its_row(odd):
    with pytest.raises(DataError, match=rf"row 1: got passed={odd:g}.*--col reward="):
        read_verdicts(pa.table({"passed": [1.0, odd]}))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([True, None]), [1, None]),
        (pa.array([2**53, None], pa.int64()), [2.0**53, None]),
        (pa.array([0.1, None], pa.float32()), [float(np.float32(0.1)), None]),
        (pa.array([0.5, None], pa.float16()), [0.5, None]),
        (pa.array([decimal.Decimal("0.10"), None]), [0.1, None]),
        (pa.chunked_array([[1], [], [None]], pa.int8()), [1, None]),
        (pa.array([], pa.int32()), []),
    ],
    ids=str,
)
def test_numbers_are_float64_and_nulls_become_nan(column, expected):
    got = numbers(column)
    assert got.dtype == np.float64
    assert [None if np.isnan(value) else value for value in got] == expected


def test_text_and_nulls_are_read_value_by_value():
    assert strings(pa.array(["a", None, ""])) == ["a", None, ""]
    assert strings(pa.chunked_array([[7], [None]], pa.int64())) == ["7", None]
    assert strings(pa.array(["a", None]).dictionary_encode()) == ["a", None]
    assert is_set(pa.chunked_array([["", None], ["b"]])).tolist() == [True, False, True]


def test_columns_that_gagar_does_not_know_need_no_type():
    table = tables.wide()
    assert verdict_column(table.schema, OWN) == "passed"
    assert read_verdicts(table).passed.tolist() == [True, False, False] * 2
