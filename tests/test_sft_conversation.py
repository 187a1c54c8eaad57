import json

import pytest
from test_sft_votes import TOOLS, call, talk

from gagar_cli.errors import DataError
from gagar_cli.sft.conversation import read_conversation


def read(messages, tools=TOOLS):
    return read_conversation(json.dumps(messages), json.dumps(tools))


def answer(text, **more):
    return {"role": "assistant", "content": text, **more}


USER = {"role": "user", "content": "hello"}


def test_arguments_become_objects_and_results_get_the_name_of_their_tool():
    found = read(talk())
    first = found.messages[2]["tool_calls"][0]
    assert first == {
        "id": "call_0",
        "type": "function",
        "function": {"name": "diff", "arguments": {"candidate": "A"}},
    }
    assert [m["name"] for m in found.messages if m["role"] == "tool"] == ["diff"] * 3
    assert list(found.tools) == TOOLS
    assert found.problem() is None


def test_an_answer_that_only_calls_tools_has_an_empty_text():
    assert [m["content"] for m in read(talk()).messages if m["role"] == "assistant"][1:] == ["", ""]


def test_results_that_nobody_read_are_left_out():
    messages = talk()
    messages[-1]["tool_calls"].insert(0, call(9, "diff", candidate="B"))
    messages.append({"role": "tool", "tool_call_id": "call_9", "content": "unread"})
    found = read(messages)
    assert found.messages[-1]["role"] == "assistant"
    assert len(found.messages) == len(messages) - 1
    assert found.problem() is None


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_kept_under_the_name_that_templates_know(name):
    found = read([USER, answer("{}", **{name: "I think."}, refusal=None)], tools=[])
    assert found.messages[1] == {
        "role": "assistant",
        "content": "{}",
        "reasoning_content": "I think.",
    }


def test_no_answer_is_no_conversation():
    assert read([]) is None
    assert read([USER]) is None


@pytest.mark.parametrize(
    "messages",
    [
        [answer("a")],
        [USER, USER, answer("a")],
        [USER, answer("a"), answer("b")],
        [USER, {"role": "system", "content": "s"}, answer("a")],
        [{"role": "tool", "content": "r"}, answer("a")],
        [USER, answer("a"), {"role": "tool", "content": "r"}, USER, answer("b")],
    ],
)
def test_turns_that_do_not_alternate_are_a_problem(messages):
    assert read(messages).problem() == "turns do not alternate"


def test_a_call_written_as_text_is_a_problem():
    found = read([USER, answer("<tool_call>{}</tool_call>")])
    assert found.problem() == "a tool call is written as text"
    quoted = [{"role": "user", "content": "<tool_call>"}, answer("no")]
    assert read(quoted).problem() is None


@pytest.mark.parametrize("arguments", ["[]", "{", "null", None, 3])
def test_arguments_that_are_no_object_are_an_error(arguments):
    bad = {"id": "1", "type": "function", "function": {"name": "diff", "arguments": arguments}}
    with pytest.raises(DataError, match="a call of 'diff' has arguments that are not a JSON obj"):
        read([USER, answer(None, tool_calls=[bad])])
