"""The conversation of a vote, read from a transcript and made fit to train on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gagar_cli.errors import DataError

Message = dict[str, Any]

_ROLES = ("system", "user", "assistant", "tool")
_REASONING = ("reasoning_content", "reasoning")  # servers name it either way, trainers the first
_CALL_IN_TEXT = ("<tool_call>", "<|tool_call_start|>")


@dataclass(frozen=True, slots=True)
class Conversation:
    """Chat messages up to the last answer, and the tools offered: () where there were none.

    A message has a role and a text `content`, which is empty where an answer only calls tools. An
    answer may have `reasoning_content` and `tool_calls`, whose `arguments` are a JSON object, not
    its text; a result has the `tool_call_id` and the `name` of the tool that it comes from.
    """

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]

    def problem(self) -> str | None:
        """Say why nobody should train on it, or None.

        Users and results must take turns with answers, as chat templates and trainers want it. An
        answer that shows a call as text would teach to write calls which no server understands.
        """
        turns = self.messages[1:] if self.messages[0]["role"] == "system" else self.messages
        before = "assistant"
        for message in turns:
            role = message["role"]
            follows = {"user": "assistant", "assistant": "user tool", "tool": "assistant tool"}
            if role == "system" or before not in follows[role].split():
                return "turns do not alternate"
            before = role
        if before != "assistant" or turns[0]["role"] != "user":
            return "turns do not alternate"
        answers = [m["content"] for m in turns if m["role"] == "assistant"]
        if any(sign in text for text in answers for sign in _CALL_IN_TEXT):
            return "a tool call is written as text"
        return None


def read_conversation(messages: str, tools: str | None) -> Conversation | None:
    """Read a conversation from the JSON of a transcript; None where it holds no answer.

    What follows the last answer, such as results that nobody read, is left out. Keys that no chat
    template knows are, too. What is no list of chat messages raises DataError.
    """
    found = [_message(entry) for entry in _objects(messages, "messages")]
    while found and found[-1]["role"] != "assistant":
        del found[-1]
    if not found:
        return None
    names: dict[str, str] = {}
    for message in found:
        for call in message.get("tool_calls", ()):
            names[call["id"]] = call["function"]["name"]
        if message["role"] == "tool" and message["tool_call_id"] in names:
            message["name"] = names[message["tool_call_id"]]
    return Conversation(tuple(found), tuple(_objects(tools or "[]", "tools")))


def _objects(text: str, where: str) -> Sequence[Mapping[str, Any]]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise DataError("", f"{where} is not JSON ({error})") from error
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise DataError("", f"{where} is not a list of objects")
    return value


def _message(entry: Mapping[str, Any]) -> Message:
    role, content = entry.get("role"), entry.get("content")
    if role not in _ROLES or not isinstance(content, str | None):
        raise DataError(
            "",
            f"a message has role {role!r} and content of type {type(content).__name__}, expected "
            f"one of {', '.join(_ROLES)} and text",
        )
    # Templates fail over null more often than over nothing, and most tell neither from the other.
    message: Message = {"role": role, "content": content or ""}
    if role == "tool":
        message["tool_call_id"] = str(entry.get("tool_call_id") or "")
    if role == "assistant":
        reasoning = next((entry[name] for name in _REASONING if entry.get(name)), None)
        if isinstance(reasoning, str):
            message["reasoning_content"] = reasoning
        if entry.get("tool_calls"):
            message["tool_calls"] = [_call(call) for call in entry["tool_calls"]]
    return message


def _call(entry: Mapping[str, Any]) -> Message:
    function = entry.get("function") or {}
    name, arguments = function.get("name"), function.get("arguments")
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        value = None
    if not isinstance(name, str) or not isinstance(value, dict):
        raise DataError("", f"a call of {name!r} has arguments that are not a JSON object")
    return {
        "id": str(entry.get("id") or ""),
        "type": "function",
        "function": {"name": name, "arguments": value},
    }
