import hashlib
import json
import re
import socket
import time

import cli
import pyarrow.parquet as pq
import pytest
import tables
from agents import error_of, graded, grades, in_turn, ties_all
from scripted_server import (
    ScriptedServer,
    calls,
    labels_to_rank,
    message,
    prefers_the_smallest,
    submits,
    tool_results,
)
from small_groups import (
    LARGE,
    SMALL,
    TASK,
    WRONG,
    patch,
)

from gagar_cli.errors import GraderError

# Verdicts that are none


def wrong_verdicts(body):
    """Return submissions that are not a ranking, with what the grader should be told."""
    a, b, c = labels = labels_to_rank(body)
    notes = dict.fromkeys(labels, "fine")
    failing = next(label for label in "ABCD" if label not in labels)
    return [
        ({"tiers": [[a], [b]], "notes": notes}, f"{c}: missing"),
        ({"tiers": [[a, b], [c, a]], "notes": notes}, f"{a}: named more than once"),
        ({"tiers": [[a], [b], [c], [failing]], "notes": notes}, f"{failing}: not among"),
        ({"tiers": [[a], [b], [c], ["Z"]], "notes": notes}, "Z: not among"),
        ({"tiers": f"{a} > {b} > {c}", "notes": notes}, "tiers is str, expected a list"),
        ({"tiers": [[a], [b], [3, c]], "notes": notes}, "a tier is not a list of labels"),
        ({"notes": notes}, "tiers is missing"),
        ({"tiers": [[a], [b], [c]], "notes": {a: "fine", b: " "}}, "notes has no sentence on "),
    ]


@pytest.mark.parametrize("number", range(8))
def test_an_invalid_verdict_is_told_and_can_be_corrected(group, number):
    script = in_turn(
        lambda body: calls(("submit_ranking", wrong_verdicts(body)[number][0])),
        lambda body: submits([[label] for label in labels_to_rank(body)]),
    )
    grade, server, _ = graded(script, group)
    _, problem = wrong_verdicts(server.bodies[0])[number]
    assert problem in tool_results(server.bodies[-1])[-1]
    assert len(grade.ranking.tiers) == 3


@pytest.mark.parametrize("number", range(7))
def test_a_verdict_that_stays_invalid_leaves_the_group_without_a_grade(group, number):
    def script(body):
        return calls(("submit_ranking", wrong_verdicts(body)[number][0]))

    reason, server = error_of(script, group, max_turns=4)
    _, problem = wrong_verdicts(server.bodies[0])[number]
    assert reason.startswith("no valid ranking in 4 turns; last: ")
    assert problem in reason
    assert len(server.bodies) == 4


def test_notes_are_asked_for_once_only(group):
    def script(body):
        labels = labels_to_rank(body)
        return submits([labels], {labels[0]: "fine"})

    grade, server, _ = graded(script, group)
    assert len(server.bodies) == 2
    assert sorted(grade.reasons.values()) == ["", "", "fine"]


def test_notes_are_not_asked_for_when_no_turn_is_left(group):
    grade, server, _ = graded(lambda body: submits([labels_to_rank(body)], {}), group, max_turns=1)
    assert len(server.bodies) == 1
    assert len(grade.ranking.tiers) == 1


# Turns


def test_a_grader_that_never_submits_runs_out_of_turns(group):
    looks = calls(("list_files", {"tree": "base"}))
    reason, server = error_of(lambda _: looks, group, max_turns=5)
    assert reason == "no valid ranking in 5 turns; last: nothing was submitted"
    assert len(server.bodies) == 5


def test_the_last_two_turns_ask_for_the_ranking(group):
    looks = calls(("list_files", {"tree": "base"}))
    _, server = error_of(lambda _: looks, group, max_turns=4)
    last = [body["messages"][-1]["content"].rsplit("\n\n", 1)[-1] for body in server.bodies]
    assert "2 turns are left: call `submit_ranking` now" in last[2]
    assert "This is the last turn: call `submit_ranking` now" in last[3]
    assert not any("left: call" in text or "last turn" in text for text in last[:2])


def test_a_reply_without_calls_is_nudged(group):
    said = message("A looks best to me.")
    grade, server, _ = graded(in_turn(said, message(None), ties_all), group)
    roles = [m["role"] for m in server.bodies[-1]["messages"]]
    assert roles == ["system", "user", *["assistant", "user"] * 2]
    assert "submit_ranking" in server.bodies[1]["messages"][-1]["content"]
    assert len(grade.ranking.tiers) == 1


def test_a_reply_that_was_cut_off_is_told_so(group):
    _, server, _ = graded(in_turn(message("Well,", finish_reason="length"), ties_all), group)
    assert "cut off" in server.bodies[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    "arguments", ['{"tree": "base"', "[1]", "null", "tree=base", '{"tree": "\\ud800"}', "[" * 99999]
)
def test_malformed_arguments_are_told_and_not_sent_back(group, arguments):
    _, server, _ = graded(in_turn(calls(("list_files", arguments)), ties_all), group)
    call = server.bodies[-1]["messages"][2]["tool_calls"][0]
    assert call["function"]["arguments"] == "{}"
    assert "not a JSON object" in tool_results(server.bodies[-1])[0]


def test_empty_arguments_are_no_arguments(group):
    _, server, _ = graded(in_turn(calls(("list_files", "")), ties_all), group)
    assert server.bodies[-1]["messages"][2]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert "tree: is missing" in tool_results(server.bodies[-1])[0]


def test_a_valid_ranking_ends_the_turn(group):
    def script(body):
        first, second = submits([labels_to_rank(body)]), calls(("diff", {"candidate": "A"}))
        first["tool_calls"] += second["tool_calls"]
        return first

    _, server, _ = graded(script, group)
    assert len(server.bodies) == 1


# Votes


def vote_of(body):
    """Return what tells one vote's requests from another's."""
    return body["messages"][1]["content"]


def shown_diffs(body):
    """Return the label of each diff in the first prompt."""
    found = re.findall(
        r"Diff of candidate (\w+) against base:\n<data (\w+)>\n(.*?)\n</data \2>",
        body["messages"][1]["content"],
        re.DOTALL,
    )
    return {label: diff for label, _, diff in found}


def smallest_shown_first(body, *, reverse=False):
    shown = shown_diffs(body)
    labels = sorted(labels_to_rank(body), key=lambda label: len(shown[label]), reverse=reverse)
    return submits([[label] for label in labels])


def test_each_vote_draws_its_labels_and_order_and_the_result_maps_back(group):
    grade, server, _ = graded(smallest_shown_first, group, votes=4)
    assert len(server.bodies) == len({vote_of(body) for body in server.bodies}) == 4
    mappings = [shown_diffs(body) for body in server.bodies]
    assert len({json.dumps(sorted(m.items())) for m in mappings}) > 1
    assert len({json.dumps(list(m.values())) for m in mappings}) > 1
    assert group.tiers(grade.ranking) == [["roll-small"], ["roll-middle"], ["roll-large"]]
    assert grade.confidence == 1.0


def test_opposite_votes_give_no_confidence(group):
    first = []

    def script(body):
        first.append(vote_of(body))
        return smallest_shown_first(body, reverse=vote_of(body) != first[0])

    grade, *_ = graded(script, group, votes=2)
    assert grade.confidence == 0.0
    assert len(grade.ranking.tiers) == 1


def test_a_vote_that_fails_is_made_up_for_by_the_others(group):
    refused = []

    def script(body):
        refused.append(vote_of(body))
        return 400 if vote_of(body) == refused[0] else smallest_shown_first(body)

    grade, _, grader = graded(script, group, votes=3)
    assert group.tiers(grade.ranking) == [["roll-small"], ["roll-middle"], ["roll-large"]]
    assert all("is fine" in reason for reason in grade.reasons.values())
    # Two votes agree in full, of three that were asked.
    assert grade.confidence == pytest.approx(2 / 3)
    assert grader.usage.votes_failed == {"server refused the request: HTTP 400: scripted 400": 1}


def test_votes_that_all_fail_leave_no_grade(group):
    reason, server = error_of(lambda _: 400, group, votes=3)
    assert reason == "server refused the request: HTTP 400: scripted 400"
    assert len(server.bodies) == 3


# The server


def test_a_server_that_is_busy_once_costs_a_retry(group):
    grade, _, grader = graded(in_turn(429, prefers_the_smallest), group)
    assert group.tiers(grade.ranking)[0] == ["roll-small"]
    assert (grader.usage.requests, grader.usage.retries) == (4, 1)


def test_a_server_that_always_fails_leaves_the_group_without_a_grade(group):
    reason, server = error_of(lambda _: 500, group, retries=2)
    assert "HTTP 500" in reason
    assert "3 attempts" in reason
    assert len(server.bodies) == 3


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_stops_the_run_after_one_request(group, status):
    with ScriptedServer(lambda _: status) as server, pytest.raises(GraderError) as caught:
        grades(server.url, [group.view(f"g{n}") for n in range(5)], votes=3, concurrency=1)
    assert str(status) in str(caught.value)
    assert len(server.bodies) == 1


def test_a_server_that_is_not_there_is_one_error(group):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(GraderError, match="cannot be reached"):
            grades(f"http://127.0.0.1:{unused.getsockname()[1]}/v1", [group.view()])


def test_a_model_that_is_not_served_is_one_error(group):
    text, server = error_of(ties_all, group, GraderError, model="other")
    assert "model-1" in text
    assert server.bodies == []


def test_no_more_requests_than_allowed_are_in_flight_over_all_groups(group):
    def script(body):
        time.sleep(0.01)
        return prefers_the_smallest(body)

    with ScriptedServer(script) as server:
        views = [group.view(f"g{n}") for n in range(6)]
        grades(server.url, views, votes=3, concurrency=4)
    assert server.most_in_flight == 4
    assert len(server.bodies) == 36


def test_the_same_answers_give_the_same_grades_whatever_the_concurrency(group):
    def script(body):
        """Rank at random, but the same for the same request; answer in any order."""
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        time.sleep(int(digest[:2], 16) / 20_000)
        labels = labels_to_rank(body)
        ordered = sorted(
            labels, key=lambda label: hashlib.sha256((digest + label).encode()).digest()
        )
        if not tool_results(body):
            return calls(("diff", {"candidate": ordered[0]}))
        if int(digest[2], 16) < 2:
            return 400
        return submits([[ordered[0]], ordered[1:]], {n: f"{digest} {n}" for n in labels})

    def all_grades(concurrency):
        with ScriptedServer(script) as server:
            options = {"votes": 3, "concurrency": concurrency}
            return [grades(server.url, [group.view()], seed=n, **options)[0][0] for n in range(5)]

    one_by_one = all_grades(1)
    assert one_by_one == all_grades(16)
    assert len({grade.ranking for grade in one_by_one}) > 1


def test_a_run_on_the_command_line_asks_the_server(tmp_path):
    table = tables.rollouts(
        {"g": [True, True, False]},
        problem_statement=[TASK] * 3,
        patch=[patch(files).decode() for files in (LARGE, SMALL, WRONG)],
    )
    path = tables.write(tmp_path / "in.parquet", table)
    with ScriptedServer(prefers_the_smallest) as server:
        command = ["run", path, "-o", "out.parquet", "--no-journal", "--grader-url", server.url]
        done = cli.gagar(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    out = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert out["rank"] == [2, 1, None]
    assert out["grade_status"] == ["graded", "graded", "not-passing"]
    assert out["grader"][0].startswith("agent/")


def test_a_refused_key_is_one_line_on_the_command_line(tmp_path):
    table = tables.rollouts({f"g{n}": [True, True, False] for n in range(4)})
    contents = [patch(files).decode() for files in (LARGE, SMALL, WRONG)] * 4
    path = tables.write(tmp_path / "in.parquet", table.append_column("patch", [contents]))
    with ScriptedServer(lambda _: 401) as server:
        line = cli.error_of("run", path, "-q", "--grader-url", server.url, cwd=tmp_path)
    assert line.startswith(f"error: {server.url}: refuses every request (HTTP 401: ")
    assert line.endswith("Next: set GAGAR_GRADER_API_KEY")
