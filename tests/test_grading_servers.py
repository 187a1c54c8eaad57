"""Votes on servers that behave as real ones have been seen to."""

import json

import pytest
from agents import error_of, graded, grades, in_turn, ties_all
from scripted_server import (
    PROMPT_TOKENS,
    Raw,
    ScriptedServer,
    calls,
    completion,
    events,
    labels_to_rank,
    message,
    prefers_the_smallest,
    refused,
    tool_results,
)
from small_groups import SMALL, SmallGroup

from gagar_cli.errors import GraderError, UngradedError
from gagar_cli.options import Mode

# Calls


def test_a_submission_left_in_the_text_is_a_verdict(group):
    def script(body):
        tiers = [[label] for label in labels_to_rank(body)]
        notes = dict.fromkeys(labels_to_rank(body), "fine")
        call = {"name": "submit_ranking", "arguments": {"notes": notes, "tiers": tiers}}
        return message(f"<tool_call>{json.dumps(call)}</tool_call>")

    records = []
    grade, _, _ = graded(script, group, record=lambda _, votes, __: records.extend(votes))
    assert len(grade.ranking.tiers) == 3
    assert [vote.fallback_parsed for vote in records] == [True]


@pytest.mark.parametrize("ids", [[None, None], ["", ""], ["same", "same"], ["0", "0"]])
def test_ids_that_are_missing_or_repeated_are_made_unique(group, ids):
    asked = calls(("diff", {"candidate": "A"}), ("diff", {"candidate": "B"}))
    for call, id_ in zip(asked["tool_calls"], ids, strict=True):
        call["id"] = id_
    _, server, _ = graded(in_turn(asked, asked, ties_all), group)
    sent = server.bodies[-1]["messages"]
    made = [call["id"] for m in sent for call in m.get("tool_calls") or ()]
    assert len(set(made)) == 4
    assert made == [m["tool_call_id"] for m in sent if m["role"] == "tool"]


def test_broken_arguments_are_replayed_as_none_with_an_error(group):
    broken = calls(("diff", '{"candidate": "A'))
    _, server, _ = graded(in_turn(broken, ties_all), group)
    replayed = server.bodies[-1]["messages"][2]["tool_calls"][0]["function"]
    assert replayed == {"name": "diff", "arguments": "{}"}
    assert "not a JSON object" in tool_results(server.bodies[-1])[0]


def test_reasoning_goes_back_under_the_name_it_came_by(group):
    thought = calls(("diff", {"candidate": "A"})) | {"reasoning_content": "Let me see."}
    _, server, _ = graded(in_turn(thought, ties_all), group)
    assert server.bodies[-1]["messages"][2]["reasoning_content"] == "Let me see."


# Parameters


def test_a_refused_temperature_is_left_out_from_then_on(group):
    def script(body):
        if "temperature" in body:
            return refused("Unsupported value: 'temperature' does not support 0.7")
        return ties_all(body)

    _, server, _ = graded(script, group, votes=3, concurrency=1)
    assert ["temperature" in body for body in server.bodies] == [True, False, False, False]


def test_a_server_that_cannot_stream_is_asked_for_whole_answers(group):
    def script(body):
        return refused("stream is not supported") if body.get("stream") else ties_all(body)

    grade, server, _ = graded(script, group)
    assert len(grade.ranking.tiers) == 1
    assert [bool(body.get("stream")) for body in server.bodies] == [True, False]


def test_a_server_that_counts_no_tokens_in_a_stream_is_not_asked_to(group):
    def script(body):
        return (
            refused("unknown field stream_options") if "stream_options" in body else ties_all(body)
        )

    _, server, _ = graded(script, group)
    assert ["stream_options" in body for body in server.bodies] == [True, False]
    assert server.bodies[-1]["stream"] is True


def test_a_server_that_ignores_the_wish_for_a_stream_is_understood(group):
    def script(body):
        return completion({**body, "stream": False}, ties_all(body), {})

    grade, *_ = graded(script, group)
    assert len(grade.ranking.tiers) == 1


# The context


def overflowing(limit, script, shape="vllm", tokens=len):
    """Refuse a request whose messages exceed a limit of tokens, one for each four characters."""

    def answer(body):
        text = "".join(m["content"] or "" for m in body["messages"])
        prompt = tokens(text) // 4
        most = body.get("max_tokens", 0)
        if prompt + most <= limit:
            return script(body)
        if shape == "llama.cpp":
            if prompt <= limit:
                return script(body)
            error = {"n_prompt_tokens": prompt, "n_ctx": limit}
            return refused("too long", type="exceed_context_size_error", **error)
        if shape == "sglang" and prompt > limit:
            return refused(
                f"The input ({prompt} tokens) is longer than the model's context length "
                f"({limit} tokens)."
            )
        if shape == "sglang":
            return refused(
                f"Requested token count exceeds the model's maximum context length of {limit} "
                f"tokens. You requested a total of {prompt + most} tokens: {prompt} tokens from "
                f"the input messages and {most} tokens for the completion."
            )
        return refused(
            f"This model's maximum context length is {limit} tokens. However, you requested "
            f"{prompt + most} tokens ({prompt} in the messages, {most} in the completion)."
        )

    return answer


SHAPES = ["vllm", "sglang", "llama.cpp"]


def test_an_answer_longer_than_what_is_left_is_asked_for_shorter(group):
    _, server, _ = graded(overflowing(5000, ties_all), group, max_output_tokens=4096)
    asked = [body["max_tokens"] for body in server.bodies]
    assert asked[0] == 4096
    assert 512 <= asked[-1] < 4096
    assert "taken out" not in json.dumps(server.bodies[-1])


@pytest.mark.parametrize("shape", SHAPES)
def test_earlier_results_give_way_visibly_when_the_context_is_full(group, shape):
    read = calls(("read_file", {"tree": "base", "path": "src/long.py"}))
    script = overflowing(
        6500 - 600 * (shape == "llama.cpp"), in_turn(read, read, read, read, ties_all), shape
    )
    records = []
    grade, server, _ = graded(
        script, group, max_output_tokens=600, record=lambda _, votes, __: records.extend(votes)
    )
    assert len(grade.ranking.tiers) == 1
    results = tool_results(server.bodies[-1])
    assert "were taken out: the conversation had grown longer than the context" in results[0]
    assert "line_1 = 1" in results[-1]
    assert records[0].truncated


@pytest.mark.parametrize("shape", SHAPES)
def test_diffs_leave_the_first_prompt_when_they_do_not_fit(tmp_path, shape):
    long = {"src/add.py": SMALL["src/add.py"] + "".join(f"x{n} = {n}\n" for n in range(800))}
    group = SmallGroup(tmp_path, {"small": SMALL, "long": long})
    script = overflowing(3900 - 600 * (shape == "llama.cpp"), prefers_the_smallest, shape)
    grade, server, _ = graded(script, group, max_output_tokens=600)
    assert group.tiers(grade.ranking)[0] == ["small"]
    first, last = server.bodies[0], server.bodies[-1]
    assert "x700 = 700" in first["messages"][1]["content"]
    assert "x700 = 700" not in last["messages"][1]["content"]
    assert "Read the diff of every candidate" in last["messages"][1]["content"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", list(Mode))
def test_a_context_too_short_for_the_task_leaves_the_group_without_a_grade(group, mode, shape):
    reason, server = error_of(overflowing(300, ties_all, shape), group, mode=mode)
    assert reason.startswith("context: HTTP 400: ")
    assert len(server.bodies) < 15


def ranks_without_notes(body):
    """Rank in the order of the alphabet, by JSON."""
    schema = body["response_format"]["json_schema"]["schema"]["properties"]
    labels = list(schema["notes"]["properties"])
    return message(json.dumps({"notes": {}, "ranking": " > ".join(labels)}))


def test_one_answer_shows_less_of_each_diff_where_the_context_is_short(huge):
    records = []
    grade, server, _ = graded(
        overflowing(6000, ranks_without_notes),
        huge,
        mode=Mode.SINGLE,
        max_output_tokens=600,
        record=lambda _, votes, __: records.extend(votes),
    )
    prompt = server.bodies[-1]["messages"][1]["content"]
    assert "more lines of this diff are left out" in prompt
    assert "entry_5 = 25" in prompt
    assert records[0].truncated
    # What was not shown was not judged.
    assert 0.5 < grade.confidence < 0.8


def test_a_prompt_that_the_server_cut_fails_the_vote(huge):
    usage = {"prompt_tokens": 2048, "completion_tokens": 5}
    with (
        ScriptedServer(ranks_without_notes, usage=usage) as server,
        pytest.raises(UngradedError, match="the server cut the prompt: it read 2048 tokens of"),
    ):
        grades(server.url, [huge.view()], mode=Mode.SINGLE)


def test_tokens_that_came_from_the_cache_do_not_look_cut(huge):
    usage = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": PROMPT_TOKENS}}
    with ScriptedServer(ranks_without_notes, usage=usage) as server:
        [grade], grader = grades(server.url, [huge.view()], mode=Mode.SINGLE)
    assert len(grade.ranking.tiers) == 2
    assert grader.usage.cached_tokens == 2 * PROMPT_TOKENS  # asked twice for its notes


# Time


def slowly(body, answer, pauses):
    raw = completion(body, answer, {})
    return Raw(raw.status, raw.body, raw.headers, pauses)


def test_a_long_answer_may_take_longer_than_its_first_byte(group):
    def script(body):
        return slowly(body, ties_all(body), (0.0, 0.15, 0.15, 0.15))

    limits = {"first_byte_timeout": 0.3, "idle_timeout": 0.3, "request_timeout": 5}
    grade, *_ = graded(script, group, retries=0, **limits)
    assert len(grade.ranking.tiers) == 1


@pytest.mark.parametrize(
    ("pauses", "limits", "reason"),
    [
        ((0.6,), {"first_byte_timeout": 0.2}, "nothing within 0.2 s"),
        ((0, 0.6), {"idle_timeout": 0.2}, "silent for 0.2 s in the middle of an answer"),
        ((0, 0.1, 0.1, 0.1, 0.1, 0.1), {"request_timeout": 0.3}, "no whole answer within 0.3 s"),
    ],
)
def test_each_limit_of_time_ends_an_answer(group, pauses, limits, reason):
    def script(body):
        return slowly(body, ties_all(body), pauses)

    text, _ = error_of(script, group, retries=0, **limits)
    assert f"{reason}, 1 attempts" in text


def test_a_server_that_holds_a_stream_open_after_its_end_does_not_matter(group):
    def script(body):
        raw = completion(body, ties_all(body), {})
        return Raw(200, raw.body + ": and on\n" * 500, raw.headers, (0, 2))

    grade, *_ = graded(script, group, idle_timeout=0.5, retries=0)
    assert len(grade.ranking.tiers) == 1


def test_a_stream_that_breaks_off_is_tried_again(group):
    half = events({"choices": [{"index": 0, "delta": {"content": "Well"}}]}, done=False)
    grade, _, grader = graded(in_turn(half, ties_all), group)
    assert len(grade.ranking.tiers) == 1
    assert grader.usage.retries == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_server_that_is_busy_is_tried_again(group, status):
    grade, _, grader = graded(in_turn(status, status, ties_all), group)
    assert len(grade.ranking.tiers) == 1
    assert grader.usage.retries == 2


def test_a_model_that_is_loading_is_waited_for_without_using_up_attempts(group):
    loading = refused("Loading model", 503, type="unavailable_error", code=503)
    grade, server, _ = graded(in_turn(*[loading] * 8, ties_all), group, retries=1)
    assert len(grade.ranking.tiers) == 1
    assert len(server.bodies) == 9


def test_a_model_that_never_loads_is_given_up(group):
    loading = refused("Loading model", 503)
    reason, server = error_of(lambda _: loading, group, retries=1, first_byte_timeout=10)
    assert "Loading model" in reason
    assert len(server.bodies) == 7


def test_a_quota_that_is_used_up_stops_the_run_at_once(group):
    spent = refused("You exceeded your current quota", 429, code="insufficient_quota")
    text, server = error_of(lambda _: spent, group, GraderError, votes=3, concurrency=1)
    assert "quota" in text
    assert len(server.bodies) == 1
