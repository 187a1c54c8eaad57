"""Read what a server answered, whole or as a stream, field by field and forgiving.

Servers differ in small things: a call's arguments as an object, ids missing or repeated, every
call at index 0, a finish reason that contradicts the message, a content of null. What the message
holds decides.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gagar_cli.grading.refusals import Failure
from gagar_cli.grading.salvage import calls_in_text
from gagar_cli.grading.transport import Answer

_MOST_TOKENS = 1_000_000_000  # of one request; more is no count of tokens
_JSON_STARTS = {b"{", b"[", b"", b"<"}  # of an answer in one piece, or of what is none
_REASONING = ("reasoning_content", "reasoning")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model wants run; `arguments` is the JSON text as it wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the model.

    reasoning: (field, text) as the server names it, to be sent back with the message. cut_off: the
    bound on output ended it. salvaged: its calls were found in its text. Tokens are 0 where the
    server does not count them.
    """

    content: str
    tool_calls: tuple[ToolCall, ...]
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cut_off: bool = False
    salvaged: bool = False
    reasoning: tuple[str, str] = ("", "")


def read_reply(answer: Answer, tool_names: Sequence[str]) -> Reply | Failure:
    """Read a chat completion; one without a message is a failure.

    Where it calls no tool, calls of the named tools are looked for in its text.
    """
    # Not every server tells by the type of its content which of the two it sends.
    whole = answer.content.lstrip()[:1] in _JSON_STARTS
    body = _json(answer.content) if whole else _merged(answer.content)
    if isinstance(body, Failure):
        return body
    choice = _at(_at(body, "choices"), 0)
    message = _at(choice, "message")
    if not isinstance(message, dict):
        said = _at(_at(body, "error"), "message") or "no message in it"
        return Failure(f"its answer is no chat completion ({str(said)[:300]})", 200)
    calls = _at(message, "tool_calls")
    found = tuple(
        ToolCall(*_call_parts(call)) for call in (calls if isinstance(calls, list) else ())
    )
    content = _text(_at(message, "content"))
    reasoning = next(((n, t) for n in _REASONING if (t := _text(_at(message, n)))), ("", ""))
    salvaged: Sequence[tuple[str, str]] = ()
    if not found:
        salvaged = next(
            filter(None, (calls_in_text(text, tool_names) for text in (content, reasoning[1]))), ()
        )
    usage = _at(body, "usage")
    return Reply(
        content=content,
        tool_calls=found or tuple(ToolCall("", *call) for call in salvaged),
        prompt_tokens=_count(_at(usage, "prompt_tokens")),
        completion_tokens=_count(_at(usage, "completion_tokens")),
        cached_tokens=_count(_at(_at(usage, "prompt_tokens_details"), "cached_tokens"))
        or _count(_at(usage, "prompt_cache_hit_tokens")),
        cut_off=_at(choice, "finish_reason") == "length",
        salvaged=bool(salvaged),
        reasoning=reasoning,
    )


def read_models(answer: Answer) -> list[str] | Failure:
    """Read the names of a list of models."""
    listed = _at(_json(answer.content), "data")
    if not isinstance(listed, list):
        return Failure("its answer is no list of models", 200)
    return [name for model in listed if (name := _text(_at(model, "id")))]


@dataclass(slots=True)
class _Call:
    """A tool call as its pieces come in."""

    index: object
    id: str = ""
    name: str = ""
    arguments: str = ""

    @property
    def complete(self) -> bool:
        return isinstance(_json(self.arguments.encode("utf-8", "surrogatepass")), dict)


@dataclass(slots=True)
class _Pieces:
    """A message as its pieces come in."""

    texts: dict[str, str] = field(default_factory=dict)
    calls: list[_Call] = field(default_factory=list)
    finish_reason: object = None
    usage: object = None

    def add(self, chunk: Mapping[str, Any]) -> None:
        self.usage = chunk.get("usage") or self.usage
        choice = _at(chunk.get("choices"), 0)
        self.finish_reason = _at(choice, "finish_reason") or self.finish_reason
        delta = _at(choice, "delta") or _at(choice, "message")
        for name in ("content", *_REASONING):
            piece = _at(delta, name)
            if isinstance(piece, str):
                self.texts[name] = self.texts.get(name, "") + piece
        calls = _at(delta, "tool_calls")
        for piece in calls if isinstance(calls, list) else ():
            self._add_call(_at(piece, "index"), *_call_parts(piece))

    def _add_call(self, index: object, id_: str, name: str, arguments: str) -> None:
        call = next((c for c in reversed(self.calls) if c.index == index), None)
        # Some servers give every call index 0, some repeat the name in every piece: a piece opens
        # a new call where its id is another, or where it names a tool after a call that is whole.
        new = call is None or (id_ and call.id and id_ != call.id) or (name and call.complete)
        if call is None or new:
            call = _Call(index)
            self.calls.append(call)
        call.id = call.id or id_
        call.name = call.name or name
        call.arguments += arguments

    def body(self) -> dict[str, Any]:
        """Return the same as an answer in one piece."""
        calls = [
            {"id": c.id, "function": {"name": c.name, "arguments": c.arguments}} for c in self.calls
        ]
        message = {**self.texts, "tool_calls": calls}
        choice = {"message": message, "finish_reason": self.finish_reason}
        return {"choices": [choice], "usage": self.usage}


def _merged(raw: bytes) -> dict[str, Any] | Failure:
    """Put a stream of events together; one that holds an error, or breaks off, is a failure."""
    pieces = _Pieces()
    ended = False
    for data in _events(raw):
        if data == b"[DONE]":
            ended = True
            break
        chunk = _json(data)
        if not isinstance(chunk, dict):
            return Failure("an event of its stream is no JSON object", 200)
        error = chunk.get("error")
        if error:
            code = _at(error, "code")
            status = code if isinstance(code, int) else 200
            if status != 200:  # noqa: PLR2004
                return Failure.refusal(status, data)
            said = _at(error, "message") or error
            return Failure(f"an error within its stream ({str(said)[:300]})", 200)
        pieces.add(chunk)
    if not (ended or pieces.finish_reason):
        return Failure("its stream broke off", 200)
    return pieces.body()


def _events(raw: bytes) -> Iterator[bytes]:
    for line in raw.split(b"\n"):
        if line.startswith(b"data:"):
            yield line[5:].strip()


def _call_parts(call: object) -> tuple[str, str, str]:
    function = _at(call, "function")
    arguments = _at(function, "arguments")
    if isinstance(arguments, dict):  # some servers parse them already
        arguments = json.dumps(arguments)
    return _text(_at(call, "id")), _text(_at(function, "name")), _text(arguments)


def _json(raw: bytes) -> object:
    """Parse JSON; None for what is not."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _at(value: object, key: str | int) -> object:
    """Return a member of parsed JSON, None where there is none."""
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        item: object = value[key]
        return item
    return None


def _text(value: object) -> str:
    """Return a string that can be sent back: lone surrogates become visible escapes.

    A content may be a list of parts; those of text are joined.
    """
    if isinstance(value, list):
        return "".join(_text(_at(part, "text")) for part in value)
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else ""


def _count(value: object) -> int:
    """Return a number of tokens; 0 for what cannot be one."""
    return value if isinstance(value, int) and 0 < value < _MOST_TOKENS else 0
