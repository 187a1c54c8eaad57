import json

import pytest
from scripted_server import events

from gagar_cli.grading.refusals import Failure, Overflow
from gagar_cli.grading.replies import read_reply
from gagar_cli.grading.transport import Answer

NAMES = ("diff", "submit_ranking")


def whole(message, finish_reason="stop", usage=None):
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return Answer(json.dumps({"choices": [choice], "usage": usage}).encode())


def streamed(*deltas, done=True, finish_reason="stop", usage=None):
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if finish_reason:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]})
    if usage:
        chunks.append({"choices": [], "usage": usage})
    return Answer(events(*chunks, done=done).body.encode(), streamed=True)


def call(name="diff", arguments='{"candidate": "A"}', **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def read(answer):
    return read_reply(answer, NAMES)


def calls_of(answer):
    return [(c.name, c.arguments) for c in read(answer).tool_calls]


# In one piece


@pytest.mark.parametrize("finish_reason", ["stop", "length", "tool_calls", None, "weird"])
def test_calls_count_whatever_the_finish_reason_says(finish_reason):
    message = {"content": None, "tool_calls": [call(id="x")]}
    assert calls_of(whole(message, finish_reason)) == [("diff", '{"candidate": "A"}')]
    said = read(whole({"content": "hi", "tool_calls": []}, finish_reason))
    assert (said.content, said.tool_calls) == ("hi", ())
    assert said.cut_off is (finish_reason == "length")


@pytest.mark.parametrize("content", [None, "", 3, {"a": 1}])
def test_a_content_that_is_no_text_is_empty(content):
    assert read(whole({"content": content})).content == ""


def test_a_content_in_parts_is_joined():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "image"}]
    assert read(whole({"content": parts})).content == "ab"


def test_arguments_that_are_an_object_become_text():
    message = {"content": None, "tool_calls": [call(arguments={"candidate": "A"})]}
    assert calls_of(whole(message)) == [("diff", '{"candidate": "A"}')]


def test_broken_arguments_are_handed_on_as_they_are():
    message = {"content": None, "tool_calls": [call(arguments='{"candidate": "A')]}
    assert calls_of(whole(message)) == [("diff", '{"candidate": "A')]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_kept_under_the_servers_name_for_it(name):
    assert read(whole({"content": "x", name: "so"})).reasoning == (name, "so")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, (9, 2, 0)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 5}}, (9, 0, 5)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, (9, 0, 4)),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, (9, 0, 0)),
        ({"prompt_tokens": "9"}, (0, 0, 0)),
        ({"prompt_tokens": 10**30, "completion_tokens": -5}, (0, 0, 0)),
        (None, (0, 0, 0)),
    ],
)
def test_tokens_are_counted_as_far_as_the_server_tells(usage, expected):
    reply = read(whole({"content": "x"}, usage=usage))
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == expected


# Calls left in the text


CALL = {"name": "diff", "arguments": {"candidate": "A"}}
TEXTS = [
    json.dumps(CALL),
    f"<tool_call>\n{json.dumps(CALL)}\n</tool_call>",
    f"Let me look.\n```json\n{json.dumps(CALL)}\n```",
    f"[TOOL_CALLS] [{json.dumps(CALL)}]",
    f"<|python_tag|>{json.dumps({'name': 'diff', 'parameters': {'candidate': 'A'}})}",
    json.dumps({"type": "function", "function": CALL}),
    json.dumps({"tool_calls": [{"function": {**CALL, "arguments": '{"candidate": "A"}'}}]}),
    json.dumps({"tool": "diff", "args": {"candidate": "A"}}),
    '<function=diff>{"candidate": "A"}</function>',
    "<function=diff>\n<parameter=candidate>\nA\n</parameter>\n</function>",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", ["content", "reasoning", "reasoning_content"])
def test_a_call_left_in_the_text_is_found(name, text):
    reply = read(whole({"content": None, name: text}))
    assert [(c.name, json.loads(c.arguments)) for c in reply.tool_calls] == [
        ("diff", {"candidate": "A"})
    ]
    assert reply.salvaged


def test_several_calls_left_in_the_text_are_found_in_order():
    second = {"name": "submit_ranking", "arguments": {"tiers": [["A"]]}}
    text = f"<tool_call>{json.dumps(CALL)}</tool_call><tool_call>{json.dumps(second)}</tool_call>"
    assert [name for name, _ in calls_of(whole({"content": text}))] == ["diff", "submit_ranking"]


@pytest.mark.parametrize(
    "text",
    [
        "I would call diff with A.",
        '{"name": "rm", "arguments": {}}',
        '{"name": "diff"}',
        '{"name": "diff", "arguments": "A"}',
        '{"name": "diff", "arguments": {"candidate": "A"',
        "{" * 5000 + "diff",
    ],
)
def test_what_is_no_call_of_a_known_tool_is_left_alone(text):
    reply = read(whole({"content": text}))
    assert reply.tool_calls == ()
    assert not reply.salvaged


def test_text_is_not_searched_where_there_are_calls():
    message = {"content": json.dumps(CALL), "tool_calls": [call("submit_ranking", "{}")]}
    reply = read(whole(message))
    assert [c.name for c in reply.tool_calls] == ["submit_ranking"]
    assert not reply.salvaged


# As a stream


def piece(arguments, index=0, **more):
    return {"tool_calls": [{"index": index, "function": {"arguments": arguments}, **more}]}


def opening(name, arguments="", index=0, **more):
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": index, "function": function, **more}]}


def test_text_and_calls_come_together_from_pieces():
    answer = streamed(
        {"role": "assistant", "content": "Let "},
        {"content": "me."},
        {"reasoning_content": "Hm"},
        opening("diff", '{"cand', id="x"),
        piece('idate": "A"}'),
        opening("diff", '{"candidate": ', index=1, id="y"),
        piece('"B"}', index=1),
        finish_reason="tool_calls",
        usage={"prompt_tokens": 7, "completion_tokens": 3},
    )
    reply = read(answer)
    assert (reply.content, reply.reasoning) == ("Let me.", ("reasoning_content", "Hm"))
    assert [(c.id, c.arguments) for c in reply.tool_calls] == [
        ("x", '{"candidate": "A"}'),
        ("y", '{"candidate": "B"}'),
    ]
    assert (reply.prompt_tokens, reply.completion_tokens) == (7, 3)


@pytest.mark.parametrize(
    ("first", "second"),
    [({"id": "x"}, {"id": "y"}), ({}, {}), ({"id": "x"}, {"id": "x"}), ({"id": None}, {"id": ""})],
)
def test_calls_that_all_have_index_0_are_told_apart(first, second):
    answer = streamed(
        opening("diff", '{"candidate": "A"}', **first),
        opening("diff", '{"candidate": "B"}', **second),
    )
    assert calls_of(answer) == [("diff", '{"candidate": "A"}'), ("diff", '{"candidate": "B"}')]


def test_a_name_that_is_repeated_in_every_piece_is_one_call():
    answer = streamed(
        opening("diff", '{"candidate"', id="x"),
        opening("diff", ': "A', id="x"),
        opening("diff", '"}', id="x"),
    )
    assert calls_of(answer) == [("diff", '{"candidate": "A"}')]


def test_calls_without_index_come_one_after_the_other():
    answer = streamed(
        {"tool_calls": [call("diff", '{"candidate": "A"}'), call("diff", '{"candidate": "B"}')]}
    )
    assert len(calls_of(answer)) == 2


@pytest.mark.parametrize("told", [True, False])
def test_the_content_tells_a_stream_from_a_whole_answer(told):
    for answer in (streamed({"content": "hi"}), whole({"content": "hi"})):
        assert read(Answer(answer.content, streamed=told)).content == "hi"


def test_comments_blank_lines_and_carriage_returns_do_not_matter():
    body = streamed({"content": "hi"}).content.replace(b"\n", b"\r\n")
    assert read(Answer(b": ping\r\n\r\nevent: x\r\n" + body, streamed=True)).content == "hi"


@pytest.mark.parametrize(("done", "finish_reason"), [(True, None), (False, "stop")])
def test_either_end_of_a_stream_is_enough(done, finish_reason):
    answer = streamed({"content": "hi"}, done=done, finish_reason=finish_reason)
    assert read(answer).content == "hi"


def test_a_stream_that_breaks_off_is_a_failure_that_may_pass():
    failure = read(streamed({"content": "hi"}, done=False, finish_reason=None))
    assert failure.reason == "its stream broke off"
    assert failure.may_pass


@pytest.mark.parametrize(
    ("error", "status", "may_pass"),
    [
        ({"message": "overloaded", "code": 503}, 503, True),
        ({"message": "bad request", "code": 400}, 400, False),
        ({"message": "oops"}, 200, True),
        ("oops", 200, True),
    ],
)
def test_an_error_within_a_stream_counts_as_one(error, status, may_pass):
    answer = Answer(events({"error": error}).body.encode(), streamed=True)
    failure = read(answer)
    assert isinstance(failure, Failure)
    assert (failure.status, failure.may_pass) == (status, may_pass)


# Refusals


def refusal(status, body):
    return Failure.refusal(status, json.dumps(body).encode())


OVERFLOWS = [
    # vLLM, older and newer
    (
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested "
            "5000 tokens (4000 in the messages, 1000 in the completion). Please reduce the length "
            "of the messages or completion.",
            "type": "BadRequestError",
            "code": 400,
        },
        Overflow(4096, 4000),
    ),
    (
        {
            "error": {
                "message": "'max_tokens' or 'max_completion_tokens' is too large: 4096. This "
                "model's maximum context length is 4096 tokens and your request has 500 input "
                "tokens (4096 > 4096 - 500).",
                "type": "BadRequestError",
                "code": 400,
            }
        },
        Overflow(4096, 500),
    ),
    (
        {
            "error": {
                "message": "You passed 9001 input tokens and requested 100 output tokens. However, "
                "the model's context length is only 8192 tokens.",
                "code": 400,
            }
        },
        Overflow(8192, 9001),
    ),
    # SGLang
    (
        {
            "object": "error",
            "message": "The input (5000 tokens) is longer than the model's context length "
            "(4096 tokens).",
            "code": 400,
        },
        Overflow(4096, 5000),
    ),
    (
        {
            "message": "Requested token count exceeds the model's maximum context length of 4096 "
            "tokens. You requested a total of 5000 tokens: 3000 tokens from the input messages and "
            "2000 tokens for the completion."
        },
        Overflow(4096, 3000),
    ),
    # llama.cpp
    (
        {
            "error": {
                "code": 400,
                "message": "request (9412 tokens) exceeds the available context size (8192 "
                "tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9412,
                "n_ctx": 8192,
            }
        },
        Overflow(8192, 9412),
    ),
    # OpenAI
    (
        {
            "error": {
                "message": "This model's maximum context length is 4097 tokens. However, your "
                "messages resulted in 6164 tokens. Please reduce the length of the messages.",
                "code": "context_length_exceeded",
            }
        },
        Overflow(4097, 6164),
    ),
    ({"error": {"message": "no", "code": "context_length_exceeded"}}, Overflow(0, 0)),
]


@pytest.mark.parametrize(("body", "expected"), OVERFLOWS)
def test_a_prompt_that_is_too_long_is_recognised_with_its_numbers(body, expected):
    assert refusal(400, body).overflow == expected


def test_the_room_for_an_answer_follows_from_the_numbers():
    assert Overflow(4096, 500).room == 3596
    assert Overflow(4096, 5000).room == -904
    assert Overflow(4096, 0).room == 0


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"message": "unknown parameter: tools"}}),
        (401, {"error": {"message": "context length"}}),
        (500, {"error": {"message": "context length"}}),
    ],
)
def test_other_refusals_are_no_overflow(status, body):
    assert refusal(status, body).overflow is None


@pytest.mark.parametrize("status", [401, 402, 403, 404, 405])
def test_what_concerns_every_request_stops_the_run(status):
    failure = refusal(status, {"error": {"message": "no"}})
    assert failure.stops
    assert not failure.may_pass


def test_a_quota_that_is_used_up_stops_the_run_and_a_rate_limit_does_not():
    used_up = refusal(429, {"error": {"message": "quota", "code": "insufficient_quota"}})
    assert "account" in used_up.stops
    assert not used_up.may_pass
    assert refusal(429, {"error": {"message": "slow down", "code": "rate_limit"}}).may_pass


def test_a_server_that_loads_its_model_says_so():
    assert refusal(503, {"error": {"code": 503, "message": "Loading model"}}).loading
    assert not refusal(503, {"error": {"message": "busy"}}).loading


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'{"error": null}', b"\xff"])
def test_a_refusal_without_words_is_told_by_its_status(body):
    assert Failure.refusal(400, body).reason.startswith("HTTP 400: ")
