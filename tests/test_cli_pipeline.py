"""The whole pipeline over real groups: pipes, files and one process agree."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from cli import GAGAR, SAMPLE, error_of, gagar, ok

REAL = Path(os.environ.get("GAGAR_REAL_ROLLOUTS", SAMPLE.parent.parent.parent / "shared" / "data"))
SAMPLES = SAMPLE.parent


def piped(source, cwd, *repos):
    """Run the four stages in a pipe; return the bytes."""
    data = ok("filter", source, "-q", cwd=cwd).stdout
    data = ok("assemble", "-q", *repos, stdin=data, cwd=cwd).stdout
    data = ok("grade", "-q", stdin=data, cwd=cwd).stdout
    return ok("redistribute", "-q", "--keep-sum", stdin=data, cwd=cwd).stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run everything on the sample once; return the folder with out.parquet and workspaces."""
    folder = tmp_path_factory.mktemp("run")
    ok("run", SAMPLE, "-q", "-o", "out.parquet", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def table(run):
    return pq.read_table(run / "out.parquet")


def test_pipe_files_and_run_write_the_same_bytes(run):
    whole = (run / "out.parquet").read_bytes()
    assert piped(SAMPLE, run, "--repos", SAMPLES) == whole
    ok("filter", SAMPLE, "-o", "1.parquet", cwd=run)
    ok("assemble", "1.parquet", "-o", "2.parquet", "--repos", SAMPLES, cwd=run)
    ok("grade", "2.parquet", "-o", "3.parquet", cwd=run)
    ok("redistribute", "3.parquet", "-o", "4.parquet", cwd=run)
    assert (run / "4.parquet").read_bytes() == whole


def test_every_stage_run_again_changes_nothing(run):
    whole = (run / "out.parquet").read_bytes()
    for stage in (
        ["filter"],
        ["assemble", "--repos", SAMPLES],
        ["grade"],
        ["redistribute"],
    ):
        again = pq.read_table(pa.BufferReader(ok(*stage, "-q", stdin=whole, cwd=run).stdout))
        before = pq.read_table(pa.BufferReader(whole))
        assert again.select(before.column_names).equals(before)


def test_input_columns_and_order_are_kept(table):
    source = pq.read_table(SAMPLE)
    kept = source.filter(pc.is_in(source["group_id"], pc.unique(table["group_id"])))
    assert table.select(source.column_names).equals(kept)


def test_only_groups_with_contrast_reach_the_end(table):
    for group in pc.unique(table["group_id"]).to_pylist():
        passed = table.filter(pc.equal(table["group_id"], group))["passed"].to_pylist()
        assert True in passed
        assert False in passed


def test_the_advantage_sum_of_every_group_is_kept(table):
    for group in pc.unique(table["group_id"]).to_pylist():
        rows = table.filter(pc.equal(table["group_id"], group)).to_pylist()
        passing = [row for row in rows if row["passed"] and row["rank"]]
        before = sum(row["advantage"] for row in passing)
        after = sum(row["redistributed_advantage"] for row in passing)
        assert after == pytest.approx(before, rel=1e-12)
        for row in rows:
            if not row["passed"]:
                assert row["redistributed_advantage"] == row["advantage"]


def test_better_ranks_get_no_less_credit_and_some_get_more(table):
    moved = 0
    for group in pc.unique(table["group_id"]).to_pylist():
        rows = table.filter(pc.equal(table["group_id"], group)).to_pylist()
        ranked = sorted((r["rank"], -r["credit_weight"]) for r in rows if r["rank"])
        assert [weight for _, weight in ranked] == sorted(weight for _, weight in ranked)
        moved += len({weight for _, weight in ranked}) > 1
    assert moved


def test_a_row_without_a_verdict_gets_no_advantage(table):
    rows = [row for row in table.to_pylist() if row["passed"] is None]
    assert rows
    for row in rows:
        assert row["advantage"] is None
        assert row["redistributed_advantage"] is None
        assert row["grade_status"] == "not-passing"


def test_statuses_are_those_of_the_contract(table):
    assert set(table["patch_status"].to_pylist()) <= {
        "applied",
        "applied-3way",
        "applied-fuzz",
        "empty",
        "failed",
        "refused",
    }
    assert set(table["grade_status"].to_pylist()) <= {
        "graded",
        "single",
        "not-passing",
        "ungraded",
    }
    for row in table.to_pylist():
        assert (row["rank"] is not None) == (row["grade_status"] in {"graded", "single"})


def test_every_passing_patch_of_the_sample_applies(table):
    passing = table.filter(table["passed"])
    assert set(passing["patch_status"].to_pylist()) <= {"applied", "applied-3way", "applied-fuzz"}


def test_what_the_verifier_ran_is_what_the_workspace_shows(table):
    """A candidate's files in the workspace are those that its own patch writes."""
    row = next(r for r in table.to_pylist() if r["patch_status"] == "applied" and r["passed"])
    folder = Path(row["workspace"])
    assert (folder / "TASK.md").read_text() == row["problem_statement"]
    assert (folder / "base").is_dir()
    assert (folder / "candidates" / f"{row['candidate']}.diff").read_bytes()
    manifest = json.loads((folder / "group.json").read_text())
    assert row["rollout_id"] not in json.dumps(manifest)


def test_the_fix_of_a_later_commit_is_nowhere_in_a_workspace(run):
    """Nothing but trees and diffs: no commits, no names that lead to them."""
    for folder in (run / "gagar_workspaces").iterdir():
        names = {path.name for path in folder.rglob("*")}
        if folder.name == ".objects":
            continue
        if folder.name == ".sources":
            assert not any(p.is_file() for p in folder.rglob("refs/**/*"))
            continue
        assert ".git" not in names
        assert "packed-refs" not in names


def test_assembling_again_keeps_the_workspaces(run):
    data = ok("filter", SAMPLE, "-q", cwd=run).stdout
    done = ok("assemble", "--json", "--repos", SAMPLES, stdin=data, cwd=run)
    summary = json.loads(done.stderr.splitlines()[0])
    assert summary["kept_as_they_were"] == summary["groups"] > 0


def test_runs_at_once_on_one_root_agree(tmp_path):
    """They make the same workspaces, and none takes another's away."""
    running = [
        subprocess.Popen(
            [*GAGAR, "run", SAMPLE, "-q", "-o", tmp_path / f"{n}.parquet"], cwd=tmp_path
        )
        for n in range(3)
    ]
    assert [process.wait(timeout=120) for process in running] == [0, 0, 0]
    first, *others = [(tmp_path / f"{n}.parquet").read_bytes() for n in range(3)]
    assert others == [first, first]


def test_any_order_of_rows_gives_the_same_grades(run, tmp_path):
    source = pq.read_table(SAMPLE)
    pq.write_table(source.take(list(range(len(source)))[::-1]), tmp_path / "reversed.parquet")
    ok("run", tmp_path / "reversed.parquet", "--repos", SAMPLES, "-o", "r.parquet", cwd=tmp_path)
    names = ["group_id", "rollout_id", "candidate", "rank", "redistributed_advantage"]
    key = [("group_id", "ascending"), ("rollout_id", "ascending")]
    ours = pq.read_table(run / "out.parquet", columns=names).sort_by(key)
    theirs = pq.read_table(tmp_path / "r.parquet", columns=names).sort_by(key)
    assert theirs.equals(ours)


def test_without_repositories_the_diffs_alone_are_graded(tmp_path):
    done = ok("run", SAMPLE, "--no-repo", "-o", "out.parquet", "--json", cwd=tmp_path)
    grade = json.loads(done.stderr.splitlines()[2])
    assert grade["graded"] > 0
    statuses = set(pq.read_table(tmp_path / "out.parquet")["patch_status"].to_pylist())
    assert statuses <= {"diff-only", "empty", "failed"}


def test_a_file_without_the_column_repo_is_assembled_with_a_warning(tmp_path):
    pq.write_table(pq.read_table(SAMPLE).drop_columns("repo"), tmp_path / "in.parquet")
    done = ok("run", "in.parquet", "-o", "out.parquet", cwd=tmp_path)
    assert "warning: no column repo" in done.stderr.decode()


def test_a_repository_that_is_nowhere_stops_before_anything_is_built(tmp_path):
    shutil.copy(SAMPLE, tmp_path / "in.parquet")
    line = error_of("assemble", "in.parquet", "-o", "out.parquet", cwd=tmp_path)
    assert "found neither a git repository nor a bundle" in line
    assert "--repos" in line
    assert "more groups" in line
    assert not (tmp_path / "out.parquet").exists()
    done = ok(
        "assemble", "in.parquet", "-o", "out.parquet", "--missing-repo", "diffs", cwd=tmp_path
    )
    assert b"warning: found neither" in done.stderr


def test_a_base_commit_that_is_not_there_is_named(tmp_path):
    source = pq.read_table(SAMPLE)
    place = source.column_names.index("base_commit")
    wrong = source.set_column(place, "base_commit", [["0" * 40] * len(source)])
    pq.write_table(wrong, tmp_path / "in.parquet")
    line = error_of("assemble", "in.parquet", "-o", "out.parquet", "--repos", SAMPLES, cwd=tmp_path)
    assert "got base_commit '0000" in line


def test_grading_without_the_workspaces_is_refused(run, tmp_path):
    data = ok("filter", SAMPLE, "-q", cwd=tmp_path).stdout
    data = ok("assemble", "-q", "--repos", SAMPLES, stdin=data, cwd=tmp_path).stdout
    shutil.rmtree(tmp_path / "gagar_workspaces")
    line = error_of("grade", stdin=data, cwd=tmp_path)
    assert "is not there. Next: gagar assemble" in line
    assert "got no column 'workspace'" in error_of("grade", SAMPLE, cwd=run)
    assert "got no column 'rank'" in error_of("redistribute", SAMPLE, cwd=run)


def test_a_group_that_gets_no_grade_exits_with_3_and_a_whole_output(tmp_path):
    """Two passing rollouts, of which only one has a patch that can be looked at."""
    source = pq.read_table(SAMPLE)
    group = next(
        g
        for g in pc.unique(source["group_id"]).to_pylist()
        if source.filter(pc.equal(source["group_id"], g))["passed"].to_pylist().count(True) >= 2
    )
    rows = source.filter(pc.equal(source["group_id"], group)).to_pylist()
    passing = [row for row in rows if row["passed"]][:2]
    failing = [row for row in rows if row["passed"] is False] or [
        {**passing[0], "rollout_id": "f", "passed": False}
    ]
    passing[1]["patch"] = "The agent ran out of steps."
    pq.write_table(
        pa.Table.from_pylist([*passing, failing[0]], source.schema), tmp_path / "in.parquet"
    )
    options = ["run", "in.parquet", "--repos", SAMPLES, "-o", "out.parquet"]
    done = gagar(*options, cwd=tmp_path)
    assert done.returncode == 3
    assert b"warning: 1 ungraded" in done.stderr
    out = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [r["grade_status"] for r in out] == ["ungraded", "ungraded", "not-passing"]
    assert all(r["redistributed_advantage"] == r["advantage"] for r in out)
    assert all(r["grade_reason"] for r in out[:2])
    assert gagar(*options, "--allow-ungraded", cwd=tmp_path).returncode == 0


def test_a_column_of_the_users_own_is_never_overwritten(tmp_path):
    source = pq.read_table(SAMPLE)
    own = source.append_column("rank", [[7] * len(source)])
    pq.write_table(own, tmp_path / "in.parquet")
    line = error_of("run", "in.parquet", "-o", "o.parquet", "--repos", SAMPLES, cwd=tmp_path)
    assert "'rank'" in line
    assert "--col rank=" in line
    assert not (tmp_path / "gagar_workspaces").exists()


def test_what_redistribution_would_refuse_is_refused_before_anything_is_built(tmp_path):
    source = pq.read_table(SAMPLE)
    place = source.column_names.index("num_tokens")
    wrong = source.set_column(place, "num_tokens", pa.nulls(len(source), pa.int64()))
    pq.write_table(wrong, tmp_path / "in.parquet")
    line = error_of(
        "run", "in.parquet", "--mass", "tokens", "--repos", SAMPLES, "-o", "o.parquet", cwd=tmp_path
    )
    assert "num_tokens" in line
    assert not (tmp_path / "gagar_workspaces").exists()


def test_a_task_that_comes_back_with_other_rollouts_gets_another_workspace(tmp_path):
    """The same group in two steps of training: grading the first still sees its own patches."""
    source = pq.read_table(SAMPLE)
    place = source.column_names.index("patch")
    turned = source["patch"].to_pylist()[::-1]
    pq.write_table(source, tmp_path / "1.parquet")
    pq.write_table(source.set_column(place, "patch", [turned]), tmp_path / "2.parquet")
    for step in ("1", "2"):
        ok("assemble", f"{step}.parquet", "--no-repo", "-o", f"a{step}.parquet", cwd=tmp_path)
    first = pq.read_table(tmp_path / "a1.parquet")
    second = pq.read_table(tmp_path / "a2.parquet")
    assert not set(first["workspace"].to_pylist()) & set(second["workspace"].to_pylist())
    ok("grade", "a1.parquet", "-o", "late.parquet", cwd=tmp_path)
    ok("run", "1.parquet", "--no-repo", "-o", "alone.parquet", "--root", "other", cwd=tmp_path)
    late = {
        (r["group_id"], r["rollout_id"]): r
        for r in pq.read_table(tmp_path / "late.parquet").to_pylist()
    }
    for row in pq.read_table(tmp_path / "alone.parquet").to_pylist():
        assert late[row["group_id"], row["rollout_id"]]["grade_reason"] == row["grade_reason"]


def test_a_root_that_is_a_file_gets_one_line(tmp_path):
    line = error_of("run", SAMPLE, "--root", SAMPLE, "-o", "o.parquet", cwd=tmp_path)
    assert "rollouts.parquet" in line


def test_trainers_advantages_are_used_as_they_are(tmp_path):
    source = pq.read_table(SAMPLE)
    values = pa.array([2.0 if p else -1.0 for p in source["passed"].to_pylist()], pa.float32())
    pq.write_table(source.append_column("advantage", values), tmp_path / "in.parquet")
    ok("run", "in.parquet", "-o", "out.parquet", "--repos", SAMPLES, cwd=tmp_path)
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.schema.field("advantage").type == pa.float32()
    assert set(out["advantage"].to_pylist()) == {2.0, -1.0}
    assert max(out["redistributed_advantage"].to_pylist()) > 2.0


@pytest.mark.skipif(not REAL.is_dir(), reason="real rollouts are not here")
def test_real_rollouts_give_the_same_table_by_pipe_and_by_run(tmp_path):
    source = REAL / "real_requests.parquet"
    ok("run", source, "--no-repo", "-q", "-o", "out.parquet", cwd=tmp_path)
    assert piped(source, tmp_path, "--no-repo") == (tmp_path / "out.parquet").read_bytes()
