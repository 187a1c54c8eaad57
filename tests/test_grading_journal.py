import asyncio
import json
import random
import signal
import sqlite3
import subprocess
import time

import cli
import pyarrow.parquet as pq
import pytest
import quality_groups
from agents import graded, grades
from quality_groups import knows
from scripted_server import ScriptedServer, labels_to_rank, prefers_the_smallest, submits
from small_groups import LARGE, MIDDLE, SMALL, WRONG, SmallGroup

from gagar_cli.errors import OutputError, UngradedError
from gagar_cli.grading.journal import Journal
from gagar_cli.options import Mode


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    passing = {"large": LARGE, "small": SMALL, "middle": MIDDLE}
    return SmallGroup(tmp_path_factory.mktemp("group"), passing, {"wrong": WRONG})


@pytest.fixture
def journal(tmp_path):
    opened = Journal(tmp_path / "new folder" / "votes.sqlite")
    yield opened
    opened.close()


def rows(path):
    with sqlite3.connect(path) as database:
        found = database.execute("SELECT count(*) FROM votes").fetchone()[0]
    database.close()
    return found


# The file


def test_what_is_kept_is_found_again_also_by_another_process(tmp_path):
    path = tmp_path / "votes.sqlite"
    vote = {"tiers": [["A"]], "notes": {"A": "\u00e4 \u4e2d"}}

    async def keep():
        journal = Journal(path)
        assert await journal.find(["key"]) == {}
        await journal.keep("key", "model", vote)
        await journal.keep("key", "model", vote)
        assert await journal.find(["key", "other"]) == {"key": vote}
        journal.close()

    asyncio.run(keep())
    other = Journal(path)
    assert asyncio.run(other.find(["key"])) == {"key": vote}
    other.close()
    assert rows(path) == 1


def test_two_runs_may_use_one_journal_at_once(tmp_path):
    first, second = Journal(tmp_path / "v.sqlite"), Journal(tmp_path / "v.sqlite")

    async def both():
        await asyncio.gather(
            *(
                j.keep(f"{name}{n}", "m", {})
                for name, j in zip("ab", (first, second), strict=True)
                for n in range(50)
            )
        )
        return await first.find([f"b{n}" for n in range(50)])

    assert asyncio.run(both()) == {f"b{n}": {} for n in range(50)}
    first.close()
    second.close()


def test_a_row_that_does_not_read_is_as_good_as_none(tmp_path):
    path = tmp_path / "v.sqlite"
    journal = Journal(path)
    asyncio.run(journal.keep("key", "m", {}))
    with sqlite3.connect(path) as database:
        database.execute("UPDATE votes SET vote = x'00ff'")
    database.close()
    assert asyncio.run(journal.find(["key"])) == {}
    journal.close()


@pytest.mark.parametrize("content", [b"not a database " * 100, None])
def test_a_file_that_is_no_journal_is_one_error(tmp_path, content):
    path = tmp_path / "v.sqlite"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(OutputError, match=r"journal .*v\.sqlite: cannot be used \(.*--no-journal"):
        Journal(path)


def test_a_journal_of_a_newer_gagar_is_left_alone(tmp_path):
    path = tmp_path / "v.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(OutputError, match="a newer gagar made it"):
        Journal(path)


# What is asked again


def asked(url_of, group, journal, **options):
    """Grade with a journal; return the grade, and how many requests were made for votes."""
    with ScriptedServer(url_of) as server:
        [grade], grader = grades(server.url, [group.view()], journal=journal, **options)
    return grade, len(server.bodies), grader.usage


def test_a_vote_that_was_answered_is_not_asked_again(group, journal):
    first, requests, usage = asked(prefers_the_smallest, group, journal, votes=3)
    assert requests == 6
    assert usage.votes_from_journal == 0
    again, requests, usage = asked(prefers_the_smallest, group, journal, votes=3)
    assert (again, requests) == (first, 0)
    assert (usage.votes, usage.votes_from_journal, usage.requests) == (3, 3, 0)


def test_a_server_that_is_gone_does_not_matter_when_all_is_known(group, journal):
    first, *_ = asked(prefers_the_smallest, group, journal, model="model-1")
    [again], _ = grades("http://127.0.0.1:9/v1", [group.view()], journal=journal, model="model-1")
    assert again == first


def test_further_votes_are_added_to_those_that_are_known(group, journal):
    asked(prefers_the_smallest, group, journal, votes=2)
    _, requests, usage = asked(prefers_the_smallest, group, journal, votes=4)
    assert requests == 4
    assert usage.votes_from_journal == 2


def test_the_same_candidates_in_another_group_are_known(tmp_path, group, journal):
    asked(prefers_the_smallest, group, journal)
    passing = {"middle": MIDDLE, "small": SMALL, "large": LARGE}
    twin = SmallGroup(tmp_path, passing, {"wrong": WRONG})
    grade, requests, _ = asked(prefers_the_smallest, twin, journal)
    assert requests == 0
    assert twin.tiers(grade.ranking) == [["small"], ["middle"], ["large"]]


@pytest.mark.parametrize(
    "change",
    [
        {"rubric": "Be kind."},
        {"temperature": 0.1},
        {"max_output_tokens": 99},
        {"max_turns": 9},
        {"seed": 1},
        {"mode": Mode.SINGLE},
    ],
)
def test_another_question_is_asked(group, journal, change):
    def script(body):
        if body.get("tools"):
            return submits([labels_to_rank(body)])
        notes = dict.fromkeys("ABC", "fine")
        text = json.dumps({"notes": notes, "ranking": "A = B = C"})
        return {"role": "assistant", "content": text}

    asked(script, group, journal)
    assert asked(script, group, journal)[1] == 0
    assert asked(script, group, journal, **change)[1] == 1


def test_another_model_is_asked(group, journal):
    with ScriptedServer(prefers_the_smallest, models=["one", "two"]) as server:
        for model in ("one", "two"):
            grades(server.url, [group.view()], journal=journal, model=model)
    assert len(server.bodies) == 4


def test_another_patch_is_asked_about(tmp_path, group, journal):
    asked(prefers_the_smallest, group, journal)
    other = SmallGroup(tmp_path, {"large": LARGE, "small": SMALL, "middle": WRONG}, {"w": MIDDLE})
    assert asked(prefers_the_smallest, other, journal)[1] == 2


def test_a_vote_without_a_verdict_is_not_kept(group, journal, tmp_path):
    with ScriptedServer(lambda _: 400) as server, pytest.raises(UngradedError):
        grades(server.url, [group.view()], journal=journal)
    assert rows(tmp_path / "new folder" / "votes.sqlite") == 0
    assert asked(prefers_the_smallest, group, journal)[1] == 2


def test_without_a_journal_everything_is_asked_again(group):
    for _ in range(2):
        assert len(graded(prefers_the_smallest, group)[1].bodies) == 2


# Killed


GROUPS = 10
KILLS = 3
VOTES = 4 * GROUPS


def slowly(body):
    time.sleep(0.02)
    return knows(body)


def test_a_run_that_is_killed_at_any_moment_asks_only_for_what_is_missing(tmp_path):
    path = quality_groups.write(tmp_path / "in.parquet", [3] * GROUPS)
    cli.ok("assemble", path, "-o", "assembled.parquet", "--no-repo", cwd=tmp_path)
    votes = tmp_path / "votes.sqlite"
    rng = random.Random(1)
    kills = 0
    with ScriptedServer(slowly) as server:
        options = ["--grader-url", server.url, "--journal", votes, "--concurrency", 4, "-q"]
        command = [
            *cli.GAGAR,
            "grade",
            "assembled.parquet",
            "-o",
            "out.parquet",
            *map(str, options),
        ]
        while True:
            known = rows(votes) if votes.exists() else 0
            before = len(server.bodies)
            run = subprocess.Popen(command, cwd=tmp_path)
            if kills < KILLS:
                # Only once votes come in is there something to lose.
                while len(server.bodies) < before + rng.randrange(5, 12) and run.poll() is None:
                    time.sleep(0.002)
                run.send_signal(signal.SIGKILL)
            killed = run.wait() != 0
            if not killed:
                break
            assert kills < KILLS
            kills += 1
            assert not (tmp_path / "out.parquet").exists()
            assert rows(votes) >= known
        # The last run asked exactly for what the journal did not have.
        assert len(server.bodies) - before == VOTES - known
        assert kills == KILLS
        assert known > 0
        assert rows(votes) == VOTES

        whole = ["--no-journal" if str(o) == "--journal" else str(o) for o in options if o != votes]
        cli.ok("grade", "assembled.parquet", "-o", "whole.parquet", *whole, cwd=tmp_path)
    ours, theirs = (pq.read_table(tmp_path / f"{n}.parquet") for n in ("out", "whole"))
    assert ours.equals(theirs)
