"""The agentic grader against a real server: llama.cpp, with a language model of 135M parameters.

The model calls no tools, and ranks by the order shown rather than by quality. That is the point:
it is a real grader of the worst kind, and what it says may hardly move credit.
"""

import asyncio
import json
import os
import subprocess
from statistics import fmean

import pyarrow.parquet as pq
import pytest
import quality_groups
import tables
from cli import GAGAR, error_of
from live_server import MODEL, live_server, missing

from gagar_cli.grading.agent import AgentGrader
from gagar_cli.options import GradeOptions

# Where the tests are wanted, as in the gate, what is missing is a failure.
wanted = bool(os.environ.get("GAGAR_LIVE_REQUIRED"))
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(bool(missing()) and not wanted, reason=f"no live server: {missing()}"),
]

SIZES = [3, 3, 3]  # passing candidates of each group
SECONDS = 900  # for one run, however slow the machine
# The model copies what it sees: an answer to copy makes short answers. It names no label.
RUBRIC = """\
The smaller change is the better one. Be brief: one word for each note, no evidence, as in
{"requirement":"met","scope":"kept","cleanliness":"clean","risk":"none","tests":"none",\
"evidence":[]}
"""


@pytest.fixture(scope="module")
def url():
    with live_server() as served:
        yield served


class Run:
    """A finished `gagar run`: its exit code, rows, votes, and what it said by stage."""

    def __init__(self, folder, url, *options):
        (folder / "rubric.txt").write_text(RUBRIC)
        command = [*GAGAR, "run", "in.parquet", "-o", "out.parquet", "--no-repo", "--no-journal"]
        command += ["--json", "--transcripts", "votes.parquet", "--rubric", "rubric.txt"]
        command += [
            "--grader-url",
            url,
            "--temperature",
            "0",
            "--concurrency",
            "1",
            *map(str, options),
        ]
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode in {0, 3}, done.stderr
        self.code = done.returncode
        self.said = {s["stage"]: s for s in map(json.loads, done.stderr.splitlines())}
        self.rows = pq.read_table(folder / "out.parquet").to_pylist()
        self.votes = pq.read_table(folder / "votes.parquet").to_pylist()


def refusal(folder, url, *options, env=None):
    quality_groups.write(folder / "in.parquet", [2])
    files = ["in.parquet", "-o", "out.parquet", "--no-repo", "--no-journal"]
    return error_of("run", *files, "--grader-url", url, *options, cwd=folder, env=env)


@pytest.fixture(scope="module")
def run(url, tmp_path_factory):
    """Several groups, graded as a user would who knows nothing of this model."""
    folder = tmp_path_factory.mktemp("run")
    quality_groups.write(folder / "in.parquet", SIZES)
    return Run(folder, url, "--max-output-tokens", 800)


# The server as it is found


def test_a_model_that_calls_no_tools_is_asked_for_single_answers(run):
    assert any(f"{MODEL} does not call tools" in note for note in run.said["grade"]["notes"])
    assert {vote["mode"] for vote in run.votes} == {"single"}


def test_an_unknown_model_is_refused_with_what_is_served(tmp_path, url):
    line = refusal(tmp_path, url, "--model", "other")
    assert "'other'" in line
    assert line.count(MODEL) == 1


def test_a_wrong_key_is_one_error(tmp_path):
    with live_server(key="right") as url:
        line = refusal(tmp_path, url, env={**os.environ, "GAGAR_GRADER_API_KEY": "wrong"})
    assert "401" in line
    assert "GAGAR_GRADER_API_KEY" in line


def test_the_key_that_the_server_wants_lets_the_grader_in(monkeypatch):
    monkeypatch.setenv("GAGAR_GRADER_API_KEY", "right")

    async def model(url):
        grader = AgentGrader(GradeOptions(url=url))
        await grader.start()
        await grader.close()
        return grader.model

    with live_server(key="right") as url:
        assert asyncio.run(model(url)) == MODEL


def test_tokens_of_streamed_answers_are_counted(run):
    said = run.said["grade"]
    assert said["prompt_tokens"] >= sum(vote["prompt_tokens"] for vote in run.votes)
    assert said["completion_tokens"] >= sum(vote["completion_tokens"] for vote in run.votes)
    assert all(vote["prompt_tokens"] > 0 < vote["completion_tokens"] for vote in run.votes)


# Rankings


@pytest.mark.parametrize("size", [4, 5])
def test_every_vote_gives_a_valid_ranking(size, url, tmp_path):
    quality_groups.write(tmp_path / "in.parquet", [size])
    done = Run(tmp_path, url, "--mode", "single", "--votes", 2, "--max-votes", 2)
    assert done.code == 0
    passing = {row["candidate"] for row in done.rows if row["passed"]}
    assert len(passing) == size
    assert [vote["error"] for vote in done.votes] == [None, None]
    for vote in done.votes:
        ranked = [label for tier in vote["tiers"] for label in tier]
        assert sorted(ranked) == sorted(passing)


# Bias


def test_a_grader_that_knows_nothing_hardly_moves_credit(run):
    assert run.said["grade"]["graded"] == len(SIZES)
    assert run.said["grade"]["mean_confidence"] < 0.3
    weights = [row["credit_weight"] for row in run.rows if row["passed"]]
    assert len(weights) == sum(SIZES)
    assert fmean(abs(weight - 1) for weight in weights) < 0.08


def test_the_bias_toward_what_is_shown_first_is_reported(run):
    said = run.said["grade"]
    assert said["bias"]["excess"] > 0
    assert said["bias"]["interval"][0] > 0
    assert any("favours the first-shown candidate" in note for note in said["notes"])


# Context


def patch(name, lines):
    body = "".join(f"+value_{n} = {name!r} * {n}\n" for n in range(lines))
    head = f"diff --git a/{name}.py b/{name}.py\nnew file mode 100644\n--- /dev/null\n"
    return f"{head}+++ b/{name}.py\n@@ -0,0 +1,{lines} @@\n{body}"


def long_group(folder):
    """Write a group whose two passing patches are some thousand tokens long."""
    table = tables.rollouts({"long": [True, True, False]})
    patches = [patch("one", 150), patch("two", 150), patch("three", 1)]
    tables.write(folder / "in.parquet", table.append_column("patch", [patches]))


def test_diffs_beyond_the_context_are_shortened_where_one_can_see_it(tmp_path):
    long_group(tmp_path)
    with live_server(slot_tokens=1792) as url:
        done = Run(tmp_path, url, "--mode", "single", "--votes", 1, "--max-votes", 1)
    [vote] = done.votes
    assert vote["truncated"]
    assert "more lines of this diff are left out" in json.loads(vote["messages"])[1]["content"]
    if done.code:
        assert vote["tiers"] is None
        assert vote["error"]
    else:
        assert 0 < vote["prompt_tokens"] / vote["requests"] < 1792


def test_a_context_too_short_for_the_question_leaves_a_group_ungraded(tmp_path):
    long_group(tmp_path)
    with live_server(slot_tokens=512) as url:
        done = Run(tmp_path, url, "--mode", "single", "--votes", 2, "--max-votes", 2)
    assert done.code == 3
    reasons = {row["grade_reason"] for row in done.rows if row["grade_status"] == "ungraded"}
    assert len(reasons) == 1
    assert reasons.pop().startswith("context: ")
    assert {row["rank"] for row in done.rows} == {None}
    assert {row["credit_weight"] for row in done.rows if row["passed"]} == {1.0}
