import json
import os
import re

import cli
import pyarrow.parquet as pq
import pytest
import quality_groups
from quality_groups import knows
from scripted_server import ScriptedServer, message, submits

from gagar_cli.transcripts import TRANSCRIPT_SCHEMA

SIZES = [3, 2, 3, 1, 4]
NEEDING = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with assembled groups of diffs."""
    folder = tmp_path_factory.mktemp("graded")
    quality_groups.write(folder / "in.parquet", SIZES)
    cli.ok("assemble", "in.parquet", "-o", "assembled.parquet", "--no-repo", cwd=folder)
    return folder


def grade(folder, server, *options, out="out.parquet", file="assembled.parquet", code=0):
    """Grade the file; return the rows, and what was said as JSON, by stage."""
    journal = [] if "--journal" in options else ["--no-journal"]
    command = ["grade", file, "-o", out, "--json", "--grader-url", server.url, *journal, *options]
    done = cli.gagar(*command, cwd=folder)
    assert done.returncode == code, done.stderr.decode()
    said = {s["stage"]: s for s in map(json.loads, done.stderr.decode().splitlines())}
    return pq.read_table(folder / out).to_pylist(), said


def error(folder, server, *options, code=1):
    return cli.error_of(
        "grade",
        "assembled.parquet",
        "-o",
        "never.parquet",
        "--grader-url",
        server.url,
        "--no-journal",
        *options,
        code=code,
        cwd=folder,
    )


# Columns


def test_what_the_votes_said_is_in_the_columns(folder):
    with ScriptedServer(knows) as server:
        rows, _ = grade(folder, server)
    graded = [row for row in rows if row["grade_status"] == "graded"]
    assert len(graded) == 3 + 2 + 3 + 4
    for row in graded:
        assert (row["grade_votes"], row["grade_margin"], row["grade_cycle"]) == (4, 1.0, False)
        others = {r["candidate"]: r["rank"] for r in graded if r["group_id"] == row["group_id"]}
        assert {w["candidate"]: w["wins"] for w in row["grade_wins"]} == {
            name: 4.0 * (row["rank"] < rank)
            for name, rank in others.items()
            if name != row["candidate"]
        }
    for row in rows:
        if row["grade_status"] != "graded":
            assert row["grade_votes"] is row["grade_margin"] is row["grade_wins"] is None


def test_the_built_in_grader_holds_no_votes(folder):
    cli.ok("grade", "assembled.parquet", "-o", "builtin.parquet", cwd=folder)
    rows = pq.read_table(folder / "builtin.parquet").to_pylist()
    assert {row["grade_votes"] for row in rows} == {None}
    assert {row["grade_status"] for row in rows} == {"graded", "single", "not-passing"}


# Ungraded groups


def stubborn(*groups):
    """Rank, but say nothing useful on some groups."""

    def script(body):
        if any(f"g{number}.py" in body["messages"][1]["content"] for number in groups):
            return message("I would rather not.")
        return knows(body)

    return script


def test_ungraded_groups_alone_are_asked_about_again(folder):
    with ScriptedServer(stubborn(0, 4)) as server:
        first, said = grade(folder, server, out="first.parquet", code=3)
    assert said["grade"]["ungraded"] == 2
    ungraded = {row["group_id"] for row in first if row["grade_status"] == "ungraded"}
    assert ungraded == {"g00", "g04"}

    with ScriptedServer(knows) as server:
        options = ["--retry-ungraded", "--seed", 7]
        second, said = grade(folder, server, *options, out="second.parquet", file="first.parquet")
    assert len(server.bodies) == 8
    assert said["grade"]["kept_as_graded"] == 2
    assert said["grade"]["graded"] == 2
    assert {row["grade_status"] for row in second} == {"graded", "single", "not-passing"}
    kept = [row for row in first if row["group_id"] in {"g01", "g02"}]
    assert kept == [row for row in second if row["group_id"] in {"g01", "g02"}]


def test_retrying_needs_a_graded_file(folder):
    with ScriptedServer(knows) as server:
        line = error(folder, server, "--retry-ungraded")
    assert "grade_status" in line
    assert "gagar grade" in line


# Money


PRICES = ["--price-in", "2", "--price-out", "10"]


def test_the_cost_follows_from_tokens_and_prices(folder):
    usage = {
        "prompt_tokens": 10_000,
        "completion_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 7_500},
    }
    with ScriptedServer(knows, usage=usage) as server:
        _, said = grade(folder, server, *PRICES)
    votes = 4 * NEEDING
    assert said["grade"]["cost"] == pytest.approx(votes * (10_000 * 2 + 100 * 10) / 1e6)
    assert said["grade"]["cached_share"] == 0.75
    assert said["grade"]["requests"] == votes + 1


def test_a_budget_that_is_spent_ends_the_run_with_what_is_done(folder, tmp_path):
    journal = tmp_path / "votes.sqlite"
    # A vote costs 0.0201: the budget is used up by the second group's votes.
    options = [*PRICES, "--budget", "0.1", "--concurrency", 1, "--journal", journal]
    with ScriptedServer(knows) as server:
        rows, said = grade(folder, server, *options, code=3)
        spent = len(server.bodies)
        assert spent == 5
        status = {row["group_id"]: row["grade_status"] for row in rows if row["passed"]}
        assert status["g00"] == "graded"
        assert status["g04"] == "ungraded"
        reasons = {row["grade_reason"] for row in rows if row["grade_status"] == "ungraded"}
        assert reasons == {"budget: 0.1005 of 0.1 spent"}
        assert said["grade"]["ungraded"] == 3
        # With more money it goes on from there.
        rows, _ = grade(folder, server, *PRICES, "--journal", journal)
        assert len(server.bodies) == 4 * NEEDING
    assert all(row["grade_status"] != "ungraded" for row in rows)


def test_a_budget_without_prices_is_a_mistake(folder):
    with ScriptedServer(knows) as server:
        line = error(folder, server, "--budget", "5", code=2)
    assert line.startswith("error: --budget: got 5.0, expected --price-in and --price-out")


# Rubric, families, keys


def test_a_rubric_takes_the_place_of_the_default_one(folder, tmp_path):
    (tmp_path / "rubric.md").write_text("Prefer haiku.")
    with ScriptedServer(knows) as server:
        rows, _ = grade(folder, server, "--rubric", tmp_path / "rubric.md")
    assert all("Prefer haiku." in body["messages"][0]["content"] for body in server.bodies)
    assert not any("maintainer would rather" in json.dumps(body) for body in server.bodies)
    default = grade_name(folder)
    assert {row["grader"] for row in rows} - {None} != {default}


def grade_name(folder):
    with ScriptedServer(knows) as server:
        rows, _ = grade(folder, server)
    return next(row["grader"] for row in rows if row["grader"])


@pytest.mark.parametrize("content", [None, b"", b"  \n", b"\xff\xfe"])
def test_a_rubric_that_cannot_be_read_is_a_mistake(folder, tmp_path, content):
    path = tmp_path / "rubric.md"
    if content is not None:
        path.write_bytes(content)
    with ScriptedServer(knows) as server:
        assert error(folder, server, "--rubric", path, code=2).startswith("error: --rubric: ")
    assert server.bodies == []


def test_a_grader_of_the_policys_family_is_warned_of(folder):
    with ScriptedServer(knows, models=["Qwen/Qwen3-32B"]) as server:
        _, said = grade(folder, server, "--policy-model", "my-org/qwen2.5-coder-7b-sft")
        assert any("both qwen" in note for note in said["grade"]["notes"])
        _, said = grade(folder, server, "--policy-model", "deepseek-v3")
        assert not any("both" in note for note in said["grade"]["notes"])


def test_a_wrong_key_ends_the_run_at_once(folder):
    with ScriptedServer(lambda _: 401, calls_tools=False) as server:
        line = error(folder, server)
    assert "refuses every request (HTTP 401" in line
    assert line.endswith("Next: set GAGAR_GRADER_API_KEY")
    assert len(server.bodies) == 1


def test_the_journal_lies_in_the_cache_folder_unless_told(folder, tmp_path):
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with ScriptedServer(knows) as server:
        for _ in range(2):
            command = ["grade", "assembled.parquet", "-o", "cached.parquet"]
            cli.ok(*command, "--grader-url", server.url, cwd=folder, env=env)
    assert len(server.bodies) == 4 * NEEDING
    assert (tmp_path / "cache" / "gagar" / "votes.sqlite").is_file()


# Transcripts


def test_every_vote_is_a_row_of_the_transcripts(folder):
    with ScriptedServer(stubborn(2)) as server:
        options = ["--transcripts", "votes.parquet", "--max-turns", 2]
        rows, _ = grade(folder, server, *options, code=3)
    table = pq.read_table(folder / "votes.parquet")
    assert table.schema.equals(TRANSCRIPT_SCHEMA)
    votes = table.to_pylist()
    assert [(v["group_id"], v["vote"]) for v in votes] == [
        (group, n) for group in ("g00", "g01", "g02", "g04") for n in range(4)
    ]
    ranks = {(row["group_id"], row["candidate"]): row["rank"] for row in rows}
    for vote in votes:
        failed = vote["group_id"] == "g02"
        assert (vote["tiers"] is None) == (vote["error"] is not None) == failed
        passing = {c["candidate"] for c in vote["candidates"] if c["passing"]}
        if not failed:
            assert vote["consensus"] == vote["tiers"]
            for tier in vote["tiers"]:
                assert {ranks[vote["group_id"], c] for c in tier} == {
                    1 + sum(len(t) for t in vote["tiers"][: vote["tiers"].index(tier)])
                }
            assert {r["candidate"] for r in vote["reasons"]} == passing
        roles = [m["role"] for m in json.loads(vote["messages"])]
        assert roles[:3] == ["system", "user", "assistant"]
        assert "submit_ranking" in vote["tools"]
        assert vote["requests"] == (2 if failed else 1)
        assert vote["completion_tokens"] == 10 * vote["requests"]
        assert vote["seconds"] > 0


def test_transcripts_of_votes_from_the_journal_are_whole(folder, tmp_path):
    with ScriptedServer(knows) as server:
        options = ["--journal", tmp_path / "v.sqlite", "--transcripts"]
        grade(folder, server, *options, tmp_path / "one.parquet")
        grade(folder, server, *options, tmp_path / "two.parquet")
    one, two = (pq.read_table(tmp_path / f"{n}.parquet") for n in ("one", "two"))
    assert two["from_journal"].to_pylist() == [True] * len(two)
    assert one.drop_columns("from_journal").equals(two.drop_columns("from_journal"))


def test_transcripts_must_not_overwrite_the_output(folder):
    with ScriptedServer(knows) as server:
        line = error(folder, server, "--transcripts", "never.parquet", code=2)
    assert "which is the output too" in line
    assert server.bodies == []


# The whole prompt


def test_all_votes_on_a_group_begin_alike_and_offer_the_same_tools(folder):
    with ScriptedServer(knows) as server:
        grade(folder, server)
    for number in (0, 4):
        mine = [b for b in server.bodies if f"g{number}.py" in b["messages"][1]["content"]]
        assert len(mine) == 4
        assert len({json.dumps(b["tools"]) for b in mine}) == 1
        assert len({b["messages"][0]["content"] for b in mine}) == 1
        texts = [b["messages"][1]["content"] for b in mine]
        alike = next(n for n, signs in enumerate(zip(*texts, strict=False)) if len(set(signs)) > 1)
        assert "# Candidates to rank" in texts[0][:alike]
        assert re.search(r"Diff of candidate \w+ against base", texts[0][:alike])
    assert len({b["messages"][0]["content"] for b in server.bodies}) == 1


def test_a_verdict_of_the_last_turn_counts_without_notes(folder):
    def script(body):
        order = quality_groups.shown_order(body)
        return submits([order], {})

    with ScriptedServer(script) as server:
        rows, _ = grade(folder, server, "--max-turns", 1)
    assert {row["grade_status"] for row in rows} == {"graded", "single", "not-passing"}
