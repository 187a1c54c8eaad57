import json

import pyarrow.parquet as pq
import pytest
import tables
from cli import SAMPLE, error_of, gagar, ok


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("show")
    ok("run", SAMPLE, "-q", "-o", folder / "out.parquet", "--root", folder / "workspaces")
    return folder / "out.parquet"


def lines(*arguments, **options):
    return [json.loads(line) for line in ok(*arguments, "--json", **options).stdout.splitlines()]


def test_validate_says_what_each_stage_could_do(out):
    (report,) = lines("validate", SAMPLE)
    table = pq.read_table(SAMPLE)
    assert report["rows"] == len(table)
    assert report["verdict"] == "passed"
    assert report["passed"] == table["passed"].to_pylist().count(True)
    assert report["without_verdict"] == table["passed"].null_count
    assert report["stages"]["filter"].startswith("ready")
    assert report["stages"]["assemble"].startswith("ready")
    assert "gagar assemble" in report["stages"]["grade"]
    assert "gagar grade" in report["stages"]["redistribute"]
    (after,) = lines("validate", out)
    assert all(state.startswith("ready") for state in after["stages"].values())
    assert [made.split()[0] for made in after["made_by"]] == [
        "filter",
        "assemble",
        "grade",
        "redistribute",
    ]


def test_validate_reads_standard_input_and_prints_text():
    text = ok("validate", stdin=SAMPLE.read_bytes()).stdout.decode()
    assert "group_id" in text
    assert "ready" in text


def test_validate_exits_with_1_on_a_problem_and_still_reports(tmp_path):
    table = tables.rollouts({"a": [True, False]})
    doubled = table.set_column(1, "rollout_id", [["same", "same"]])
    path = tables.write(tmp_path / "in.parquet", doubled)
    done = gagar("validate", path, "--json")
    assert done.returncode == 1
    assert "unique" in json.loads(done.stdout)["problems"][0]
    assert done.stderr.decode().startswith(f"error: {path}: ")


def test_show_lists_groups_with_their_grades(out):
    groups = lines("show", out)
    table = pq.read_table(out)
    assert [g["group_id"] for g in groups] == list(dict.fromkeys(table["group_id"].to_pylist()))
    for group in groups:
        low, high = group["weights"]
        assert low <= 1 <= high
        assert group["best"]
    text = ok("show", out).stdout.decode()
    assert all(group["group_id"] in text for group in groups)


def test_show_a_group_has_ranks_reasons_and_advantages(out):
    group = next(g["group_id"] for g in lines("show", out) if g["grade"] == "graded")
    rows = lines("show", out, group)
    ranks = [row["rank"] for row in rows if row["rank"]]
    assert ranks == sorted(ranks)
    assert ranks[0] == 1
    text = ok("show", out, group).stdout.decode()
    for row in rows:
        assert row["rollout_id"] in text
        assert row["grade_reason"] in text
    assert f"{rows[0]['credit_weight']:.3f}" in text


def test_show_works_before_anything_was_graded():
    assert {g["grade"] for g in lines("show", SAMPLE)} == {None}
    text = ok("show", SAMPLE, "--limit", "2").stdout.decode()
    assert "more groups" in text


def test_show_prints_brackets_as_they_are(tmp_path):
    table = tables.rollouts({"a[x=1]": [True, False]})
    path = tables.write(tmp_path / "in.parquet", table)
    assert "a[x=1]" in ok("show", path).stdout.decode()
    assert "[/red]" in error_of("show", path, "[/red]")


def test_show_a_group_that_is_not_there_says_so(out):
    assert "has no group 'nope'" in error_of("show", out, "nope")


def test_the_readme_shows_what_the_command_shows(out):
    readme = (SAMPLE.parent.parent / "README.md").read_text()
    text = ok("show", out, "reckon-parentheses").stdout.decode()
    table = [line.rstrip() for line in text.splitlines() if not line[1:].startswith(": ")]
    assert len(table) > 8
    for line in table:
        assert line in readme
    shown = ok("show", out).stdout.decode()
    listed = [line for line in readme.splitlines() if line.startswith("reckon-")]
    assert len(listed) == 2
    for line in listed:
        assert line in shown


def test_show_makes_what_a_terminal_would_obey_visible(tmp_path):
    table = tables.rollouts({"g\x1b[2J\x1b]0;x\x07\nh\u202e": [True, False]})
    path = tables.write(tmp_path / "in.parquet", table)
    shown = ok("show", path).stdout.decode()
    assert "g\\x1b[2J\\x1b]0;x\\x07\\nh\\u202e" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_show_names_the_best_of_any_ranks(tmp_path):
    table = tables.rollouts({"g": [True, True, False]}, rank=[7.0, 5.0, None])
    path = tables.write(tmp_path / "in.parquet", table)
    assert lines("show", path)[0]["best"] == ["r1"]


def test_validate_counts_a_column_that_is_there_twice_as_a_problem(tmp_path):
    table = tables.rollouts({"g": [True, False]}, patch=["", ""])
    path = tables.write(tmp_path / "in.parquet", table.append_column("patch", [["", ""]]))
    assert "more than one column 'patch'" in error_of_report(path)


def error_of_report(path):
    done = gagar("validate", path)
    assert done.returncode == 1
    return done.stderr.decode()
