import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from cli import error_of, ok


def ranked(**columns):
    """One group of four: two passing at ranks 1 and 2, one not ranked, one failing."""
    return tables.rollouts(
        {"g": [True, True, True, False]},
        rank=pa.array([1, 2, None, None], pa.int64()),
        **columns,
    )


def run(tmp_path, table, *options):
    path = tables.write(tmp_path / "in.parquet", table)
    ok("redistribute", path, "-q", "-o", tmp_path / "out.parquet", *options)
    return pq.read_table(tmp_path / "out.parquet")


def test_ranks_of_any_origin_are_enough(tmp_path):
    out = run(tmp_path, ranked(advantage=[1.0, 1.0, 1.0, -3.0]))
    # Places 1 and 2 weigh 1 and 0.5; the pair's sum of 2 is restored by 2 / 1.5.
    assert out["credit_weight"].to_pylist() == pytest.approx([4 / 3, 2 / 3, 1, 1])
    assert out["redistributed_advantage"].to_pylist() == pytest.approx([4 / 3, 2 / 3, 1, -3])


def test_without_keeping_the_sum_lower_ranks_only_lose(tmp_path):
    out = run(tmp_path, ranked(advantage=[1.0, 1.0, 1.0, -3.0]), "--no-keep-sum")
    assert out["redistributed_advantage"].to_pylist() == [1, 0.5, 1, -3]


@pytest.mark.parametrize(
    ("options", "second"),
    [
        (["--floor", "0.2"], 0.2),
        (["--weights", "geometric", "--ratio", "0.7"], 0.7),
        (["--weights", "bottom-fraction", "--fraction", "0.5", "--floor", "0.1"], 0.1),
        (["--weights", "1,0.9"], 0.9),
    ],
)
def test_each_ladder_weighs_the_second_place_as_it_says(tmp_path, options, second):
    table = ranked(advantage=[1.0, 1.0, 1.0, -3.0])
    out = run(tmp_path, table, "--no-keep-sum", *options)
    assert out["credit_weight"].to_pylist() == pytest.approx([1, second, 1, 1])


def test_tokens_are_the_mass_of_a_token_mean_loss(tmp_path):
    table = ranked(advantage=[1.0, 1.0, 1.0, -3.0], num_tokens=[100, 300, 1, 1])
    out = run(tmp_path, table, "--mass", "tokens")
    a, b, *_ = out["redistributed_advantage"].to_pylist()
    assert 100 * a + 300 * b == pytest.approx(400, rel=1e-12)
    assert b == pytest.approx(a / 2)


def test_no_confidence_moves_nothing_unless_it_is_ignored(tmp_path):
    table = ranked(advantage=[1.0, 1.0, 1.0, -3.0], grade_confidence=[0.0, 0.0, None, None])
    assert run(tmp_path, table)["credit_weight"].to_pylist() == [1, 1, 1, 1]
    out = run(tmp_path, table, "--ignore-confidence")
    assert out["credit_weight"].to_pylist() == pytest.approx([4 / 3, 2 / 3, 1, 1])


def test_advantages_are_computed_where_absent_and_computed_anew_when_run_again(tmp_path):
    first = run(tmp_path, ranked(reward=[1.0, 1.0, 1.0, 0.0]), "--estimator", "dr-grpo")
    assert first["advantage"].to_pylist() == [0.25, 0.25, 0.25, -0.75]
    pq.write_table(first, tmp_path / "in.parquet")
    ok("redistribute", tmp_path / "in.parquet", "--estimator", "rloo", "-o", tmp_path / "2.parquet")
    again = pq.read_table(tmp_path / "2.parquet")
    assert again["advantage"].to_pylist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, -1])
    assert again.column_names == first.column_names


def test_the_file_tells_how_it_was_made(tmp_path):
    out = run(tmp_path, ranked(), "--weights", "geometric")
    made = json.loads(out.schema.metadata[b"gagar"])
    (stage,) = made["stages"]
    assert stage["stage"] == "redistribute"
    assert stage["options"]["weights"] == "geometric"
    assert stage["added"] == ["advantage", "credit_weight", "redistributed_advantage"]


def test_a_mapped_rank_is_read_and_the_users_column_stays(tmp_path):
    table = ranked().rename_columns(["group_id", "rollout_id", "passed", "place"])
    out = run(tmp_path, table, "--col", "rank=place")
    assert out["place"].to_pylist() == [1, 2, None, None]
    assert out["credit_weight"][0].as_py() > 1


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"advantage": [float("inf"), 1.0, 1.0, 1.0]}, [], "infinite advantage"),
        ({"grade_confidence": [0.5, 0.6, None, None]}, [], "grade_confidence"),
        ({"num_tokens": [1, None, 1, 1]}, ["--mass", "tokens"], "num_tokens"),
        ({}, ["--mass", "tokens"], "num_tokens"),
        ({"advantage": ["1", "1", "1", "1"]}, [], "'advantage' has type string"),
    ],
)
def test_bad_columns_get_one_line_and_no_output(tmp_path, columns, options, words):
    path = tables.write(tmp_path / "in.parquet", ranked(**columns))
    line = error_of("redistribute", path, "-o", tmp_path / "out.parquet", *options)
    assert words in line
    assert str(path) in line
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--weights", "quadratic"],
        ["--weights", "0.9,0.5"],
        ["--weights", "1,0.5,0.6"],
        ["--weights", "1,0"],
        ["--floor", "0"],
        ["--ratio", "1.5"],
        ["--fraction", "-1"],
        ["--ddof", "2"],
        ["--epsilon", "-1"],
        ["--estimator", "gae"],
    ],
)
def test_options_that_make_no_sense_are_usage_errors(tmp_path, options):
    path = tables.write(tmp_path / "in.parquet", ranked())
    assert options[0] in error_of("redistribute", path, *options, code=2)


def test_a_column_mapped_to_one_name_is_not_read_as_another(tmp_path):
    """A bool column called reward is the verdict here, and nobody's reward."""
    table = ranked().rename_columns(["group_id", "rollout_id", "reward", "rank"])
    out = run(tmp_path, table, "--col", "passed=reward", "--estimator", "dr-grpo")
    assert out["advantage"].to_pylist() == [0.25, 0.25, 0.25, -0.75]


def test_a_rank_column_that_nobody_filled_moves_nothing(tmp_path):
    table = ranked().set_column(3, "rank", pa.nulls(4))
    assert run(tmp_path, table)["credit_weight"].to_pylist() == [1, 1, 1, 1]
