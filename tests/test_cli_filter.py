import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from cli import error_of, gagar, ok

GROUPS = {
    "mixed": [True, False, True],
    "all pass": [True, True],
    "all fail": [False, False],
    "none": [None, None],
    "alone": [True],
    "with null": [True, None, False],
}


@pytest.fixture
def source(tmp_path):
    return tables.write(tmp_path / "in.parquet", tables.rollouts(GROUPS), row_group_size=4)


def groups_of(path):
    return list(dict.fromkeys(pq.read_table(path)["group_id"].to_pylist()))


def test_exactly_the_groups_with_contrast_stay(source, tmp_path):
    done = ok("filter", source, "-o", tmp_path / "out.parquet")
    assert groups_of(tmp_path / "out.parquet") == ["mixed", "with null"]
    assert pq.read_metadata(tmp_path / "out.parquet").num_rows == 6
    assert done.stdout == b""
    assert "out.parquet" in done.stderr.decode()


def test_the_summary_counts_groups_and_rollouts_by_reason(source):
    done = ok("filter", source, "-o", "/dev/null", "--json")
    summary = json.loads(done.stderr.splitlines()[0])
    assert summary["groups_kept"] == 2
    assert summary["rollouts_kept"] == 6
    reasons = {"no-verdict": 1, "too-small": 1, "all-pass": 1, "all-fail": 1}
    assert summary["groups_dropped"] == reasons
    assert summary["rollouts_dropped"] == {**reasons, "no-verdict": 2, "all-pass": 2, "all-fail": 2}


def test_rejected_rows_are_saved_with_their_reason(source, tmp_path):
    kept, dropped = tmp_path / "kept.parquet", tmp_path / "dropped.parquet"
    ok("filter", source, "-o", kept, "--rejected", dropped)
    table = pq.read_table(dropped)
    pairs = table.select(["group_id", "reject_reason"]).to_pylist()
    assert {row["group_id"]: row["reject_reason"] for row in pairs} == {
        "all pass": "all-pass",
        "all fail": "all-fail",
        "none": "no-verdict",
        "alone": "too-small",
    }
    both = pa.concat_tables([pq.read_table(kept), table.drop_columns("reject_reason")])
    key = [("group_id", "ascending"), ("rollout_id", "ascending")]
    assert both.sort_by(key).equals(pq.read_table(source).sort_by(key))


def test_a_group_may_be_scattered_over_rows_and_files(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    table = tables.rollouts(GROUPS)
    scattered = table.take(sorted(range(len(table)), key=lambda row: row * 7 % len(table)))
    tables.write(folder / "1.parquet", scattered.slice(0, 5))
    tables.write(folder / "2.parquet", scattered.slice(5))
    ok("filter", folder, "-o", tmp_path / "out.parquet")
    kept = [row for row in scattered.to_pylist() if row["group_id"] in {"mixed", "with null"}]
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == kept


def test_reward_decides_where_there_is_no_passed(tmp_path):
    table = tables.rollouts({"a": [True, False], "b": [True, True]}).drop_columns("passed")
    table = table.append_column("reward", [[0.6, 0.2, 0.7, 0.9]])
    path = tables.write(tmp_path / "in.parquet", table)
    ok("filter", path, "--pass-threshold", "0.5", "-o", tmp_path / "out.parquet")
    assert groups_of(tmp_path / "out.parquet") == ["a"]
    done = ok("filter", path, "-o", tmp_path / "none.parquet")
    assert b"--pass-threshold" in done.stderr
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_threshold_and_names_travel_with_the_file(tmp_path):
    table = tables.rollouts({"a": [True, False]}).drop_columns("passed")
    table = table.append_column("score", [[0.6, 0.2]]).rename_columns(["uid", "n", "score"])
    path = tables.write(tmp_path / "in.parquet", table)
    columns = ["--col", "group_id=uid", "--col", "rollout_id=n", "--col", "reward=score"]
    first = ok("filter", path, "--pass-threshold", "0.5", *columns)
    again = ok("filter", stdin=first.stdout)
    assert pq.read_table(pa.BufferReader(again.stdout)).num_rows == 2
    assert again.stdout == first.stdout


def test_pass_rates_and_sizes_bound_what_stays(tmp_path):
    path = tables.write(
        tmp_path / "in.parquet",
        tables.rollouts({"half": [True, False], "most": [True] * 3 + [False]}),
    )
    for option, value, left in (
        ("--max-pass-rate", "0.5", ["half"]),
        ("--min-pass-rate", "0.6", ["most"]),
        ("--min-group-size", "3", ["most"]),
    ):
        ok("filter", path, option, value, "-o", tmp_path / "out.parquet")
        assert groups_of(tmp_path / "out.parquet") == left


def test_without_an_output_a_pipe_gets_the_data_and_nothing_else(source):
    done = ok("filter", source)
    assert pq.read_table(pa.BufferReader(done.stdout)).num_rows == 6
    assert done.stderr


def test_quiet_says_nothing(source):
    assert ok("filter", source, "-q").stderr == b""


def test_filtering_again_changes_nothing(source):
    once = ok("filter", source).stdout
    assert ok("filter", "-", stdin=once).stdout == once


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop_columns("group_id"), ["no column 'group_id'", "--col group_id="]),
        (lambda t: t.drop_columns("passed"), ["neither 'passed' nor 'reward'"]),
        (lambda t: pa.concat_tables([t, t.slice(1, 1)]), ["'mixed'", "2 rows 'r1'", "unique"]),
        (lambda t: t.set_column(2, "passed", [["yes"] * len(t)]), ["'passed'", "string", "bool"]),
        (lambda t: t.set_column(2, "passed", [[0.5] * len(t)]), ["passed=0.5"]),
        (lambda t: t.set_column(0, "group_id", pa.array([1.5] * len(t))), ["'group_id'", "double"]),
        (lambda t: t.set_column(0, "group_id", [[None] * len(t)]), ["group_id"]),
        (lambda t: t.append_column("passed", t["passed"]), ["2 columns 'passed'"]),
    ],
)
def test_a_file_that_is_not_rollouts_gets_one_line(tmp_path, change, words):
    path = tables.write(tmp_path / "in.parquet", change(tables.rollouts(GROUPS)))
    line = error_of("filter", path, "-o", tmp_path / "out.parquet")
    assert str(path) in line
    for word in words:
        assert word in line
    assert not (tmp_path / "out.parquet").exists()


def test_usage_errors_exit_with_2(source):
    for arguments in (
        ["--min-pass-rate", "1.5"],
        ["--min-pass-rate", "0.9", "--max-pass-rate", "0.1"],
        ["--min-group-size", "0"],
        ["--min-group-size", "many"],
        ["--nonsense"],
        ["--pass-threshold", "nan"],
        ["--col", "nonsense"],
        ["--col", "group_id=a", "--col", "group_id=b"],
    ):
        error_of("filter", source, *arguments, code=2)
    assert gagar("no-such-command").returncode == 2


def test_the_rejected_rows_never_overwrite_the_input_or_the_output(source, tmp_path):
    before = source.read_bytes()
    other = source.parent / "." / source.name
    error_of("filter", source, "-o", tmp_path / "o.parquet", "--rejected", other, code=2)
    error_of(
        "filter",
        source,
        "-o",
        "o.parquet",
        "--rejected",
        tmp_path / "o.parquet",
        code=2,
        cwd=tmp_path,
    )
    assert source.read_bytes() == before
