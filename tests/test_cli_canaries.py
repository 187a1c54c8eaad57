import json
import re

import cli
import pyarrow.parquet as pq
import pytest
from scripted_server import ScriptedServer, calls, diffs_by_tool, labels_to_rank, submits

PLEA = re.compile("grader|rank", re.IGNORECASE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("canaries")
    cli.ok("filter", cli.SAMPLE, "-o", "kept.parquet", cwd=folder)
    repos = cli.SAMPLE.parent
    cli.ok("assemble", "kept.parquet", "-o", "assembled.parquet", "--repos", repos, cwd=folder)
    return folder


def diffs(body):
    shown = re.findall(
        r"Diff of candidate (\w+) against base:\n<data (\w+)>\n(.*?)\n</data \2>",
        body["messages"][1]["content"],
        re.DOTALL,
    )
    return {label: diff for label, _, diff in shown} or diffs_by_tool(body)


def tiers_by(cost):
    """Make a script that ranks by what a diff costs, after having seen them all."""

    def script(body):
        labels, seen = labels_to_rank(body), diffs(body)
        if not seen:
            return calls(*(("diff", {"candidate": label}) for label in labels))
        costs = sorted({cost(seen[label]) for label in labels})
        return submits([[n for n in labels if cost(seen[n]) == c] for c in costs])

    return script


# A copy has the size of its original, and every degraded copy is larger.
judges_by_size = tiers_by(lambda diff: len(diff.split("\n")))
obeys_comments = tiers_by(lambda diff: (not PLEA.search(diff), len(diff.split("\n"))))


def grade(folder, script, out, *options):
    with ScriptedServer(script) as server:
        command = ["grade", "assembled.parquet", "-o", out, "--json", "--no-journal"]
        return cli.gagar(*command, "--grader-url", server.url, *options, cwd=folder)


def summary_of(done):
    return json.loads(done.stderr.decode().splitlines()[0])


def test_a_grader_that_knows_a_copy_passes_and_the_output_is_as_without_canaries(folder):
    with_canaries = grade(folder, judges_by_size, "with.parquet", "--canaries", 2)
    assert with_canaries.returncode == 0, with_canaries.stderr.decode()
    without = grade(folder, judges_by_size, "without.parquet")
    assert (folder / "with.parquet").read_bytes() == (folder / "without.parquet").read_bytes()
    found = summary_of(with_canaries)
    assert (found["canaries"], found["canary_failures"]) == (2, {})
    assert summary_of(without)["canaries"] is None
    assert found["votes"] == summary_of(without)["votes"] + 8


@pytest.fixture(scope="module")
def obeyed(folder):
    """What a grader that obeys comments did."""
    options = ["--canaries", 2, "--transcripts", "votes.parquet"]
    return grade(folder, obeys_comments, "obeyed.parquet", *options)


def test_a_grader_that_obeys_comments_is_found_out(obeyed):
    assert obeyed.returncode == 0
    found = summary_of(obeyed)
    assert found["canary_failures"] == {"injection": 2}
    assert "canaries: injection stood where it does not belong in 2 groups" in found["notes"]


@pytest.mark.usefixtures("obeyed")
def test_transcripts_mark_canaries_and_what_they_failed(folder):
    votes = pq.read_table(folder / "votes.parquet").to_pylist()
    planted = [vote for vote in votes if vote["canary"]]
    assert len({vote["group_id"] for vote in planted}) == 2
    assert {tuple(vote["canary_failures"]) for vote in planted} == {("injection",)}
    assert {tuple(v["canary_failures"]) for v in votes if not v["canary"]} == {()}
    ids = {row["group_id"] for row in pq.read_table(folder / "obeyed.parquet").to_pylist()}
    assert not ids & {vote["group_id"] for vote in planted}


@pytest.mark.parametrize(("most", "code"), [(0, 1), (1, 0)])
def test_too_many_failures_fail_the_run_and_leave_no_output(folder, most, code):
    options = ["--canaries", 1, "--max-canary-failures", most]
    done = grade(folder, obeys_comments, f"{most}.parquet", *options)
    assert done.returncode == code
    said = "got 1 canary failures in 1 groups (1 injection), expected at most 0"
    assert (said in done.stderr.decode()) == bool(code)
    assert (folder / f"{most}.parquet").exists() != bool(code)


def test_groups_without_a_repository_get_no_canaries(folder):
    cli.ok("assemble", "kept.parquet", "-o", "diffs.parquet", "--no-repo", cwd=folder)
    with ScriptedServer(judges_by_size) as server:
        options = ["--grader-url", server.url, "--no-journal", "--canaries", 3, "--json"]
        done = cli.ok("grade", "diffs.parquet", "-o", "d.parquet", *options, cwd=folder)
    found = summary_of(done)
    assert not found["canaries"]
    assert "canaries could be planted in 0 of 3 groups" in " ".join(found["notes"])


def test_the_built_in_grader_can_be_tested_too(folder):
    command = ["grade", "assembled.parquet", "-o", "b.parquet", "--json", "--canaries", 3]
    found = summary_of(cli.ok(*command, cwd=folder))
    assert found["canaries"] == 3
    assert "injection" not in found["canary_failures"]
    assert "duplicate" not in found["canary_failures"]
