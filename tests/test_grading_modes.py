"""With tools or in one answer, and what a vote is trusted for."""

import json

import pytest
from agents import error_of, graded, grades, in_turn, ties_all
from scripted_server import (
    ScriptedServer,
    calls,
    labels_to_rank,
    message,
    offered,
    refused,
    submits,
    tool_results,
)

from gagar_cli.errors import GraderError
from gagar_cli.options import Mode

# Whether tools work


def answers_in_json(body):
    """Rank in the order of the alphabet, by JSON; never call a tool."""
    if body.get("tools"):
        return message("I cannot call tools, but I would look at the diff.")
    schema = body["response_format"]["json_schema"]["schema"]["properties"]
    labels = list(schema["notes"]["properties"])
    notes = dict.fromkeys(labels, "fine")
    return message(json.dumps({"notes": notes, "ranking": " > ".join(labels)}))


def test_a_model_that_calls_no_tools_votes_in_one_answer_with_a_notice(group):
    with ScriptedServer(answers_in_json, calls_tools=False) as server:
        [grade], grader = grades(server.url, [group.view()], votes=2)
    assert len(grade.reasons) == 3
    probes = [body for body in server.bodies if body.get("tools")]
    assert [offered(body) for body in probes] == [["ready"], ["ready"]]
    assert len(server.bodies) == 4
    [note] = grader.usage.notes
    assert "does not call tools" in note
    assert "single" in note


def test_a_server_that_refuses_tools_votes_in_one_answer(group):
    def script(body):
        if body.get("tools"):
            return refused('"auto" tool choice requires --enable-auto-tool-choice')
        return answers_in_json(body)

    with ScriptedServer(script, calls_tools=False) as server:
        _, grader = grades(server.url, [group.view()])
    assert len(grader.usage.notes) == 1


def test_tools_and_response_format_are_never_combined(group):
    for mode in Mode:
        with ScriptedServer(lambda b: ties_all(b) if b.get("tools") else answers_in_json(b)) as s:
            grades(s.url, [group.view()], mode=mode)
        assert {("tools" in b, "response_format" in b) for b in s.bodies} == {
            (mode is Mode.AGENT, mode is Mode.SINGLE)
        }


def test_a_server_that_gives_no_answer_at_the_start_is_one_error(group):
    with ScriptedServer(lambda _: 500, calls_tools=False) as server:
        with pytest.raises(GraderError, match="HTTP 500"):
            grades(server.url, [group.view()], retries=1)
        assert len(server.bodies) == 2


# In one answer


def test_one_answer_is_shown_everything_and_asked_for_every_ranking(group):
    _, server, _ = graded(answers_in_json, group, mode=Mode.SINGLE)
    [body] = server.bodies
    prompt = body["messages"][1]["content"]
    assert prompt.count("Diff of candidate ") == 4
    schema = body["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert len(schema["schema"]["properties"]["ranking"]["enum"]) == 13


def test_an_answer_that_is_no_ranking_is_told_and_may_be_put_right(group):
    script = in_turn(message("A is best."), answers_in_json)
    grade, server, _ = graded(script, group, mode=Mode.SINGLE)
    assert len(grade.reasons) == 3
    roles = [m["role"] for m in server.bodies[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert "not a JSON object" in server.bodies[-1]["messages"][-1]["content"]


def test_one_answer_that_stays_invalid_leaves_no_grade(group):
    reason, server = error_of(lambda _: message("A."), group, mode=Mode.SINGLE)
    assert reason.startswith("no valid ranking in 3 turns; last: the answer is not a JSON object")
    assert len(server.bodies) == 3


def test_a_server_without_response_format_is_asked_in_words(group):
    def script(body):
        if "response_format" in body:
            return refused("response_format is not supported")
        labels = list("ABC")
        notes = dict.fromkeys(labels, "fine")
        return message(json.dumps({"notes": notes, "ranking": "A > B = C"}))

    grade, server, _ = graded(script, group, mode=Mode.SINGLE)
    assert sorted(map(len, grade.ranking.tiers)) == [1, 2]
    assert "one JSON object" in server.bodies[-1]["messages"][1]["content"]


# Evidence


def citing(place):
    def script(body):
        labels = labels_to_rank(body)
        note = {"requirement": "does it", "evidence": [place]}
        return submits([labels], dict.fromkeys(labels, note))

    return script


def test_evidence_that_is_there_is_believed(group):
    grade, server, _ = graded(citing("src/add.py:2"), group)
    assert grade.confidence == 1.0
    assert len(server.bodies) == 1


def test_evidence_that_is_not_there_is_sent_back_once_and_then_trusted_less(group):
    grade, server, _ = graded(citing("src/sub.py:99"), group)
    assert grade.confidence == 0.5
    assert len(server.bodies) == 2
    told = tool_results(server.bodies[-1])[0]
    assert "not in that candidate's tree: A src/sub.py:99" in told


def test_evidence_that_is_put_right_is_believed(group):
    grade, *_ = graded(in_turn(citing("src/sub.py:99"), citing("src/add.py:1")), group)
    assert grade.confidence == 1.0


def test_a_diff_that_was_never_read_lowers_the_confidence(huge):
    grade, *_ = graded(ties_all, huge)
    assert grade.confidence == 0.0
    grade, *_ = graded(in_turn(calls(("diff", {"candidate": "A"})), ties_all), huge)
    assert 0 < grade.confidence < 1
