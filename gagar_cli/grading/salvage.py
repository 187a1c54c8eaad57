"""Find tool calls that a model wrote into its text, where the server did not recognise them.

The forms are those of the common chat templates: a JSON object with a name and arguments, alone, in
a list, in a fence or between tags; `<function=NAME>` with JSON or with `<parameter=KEY>` inside.
"""

import json
import re
from collections.abc import Iterator, Sequence

_MOST = 20_000  # characters at the end of a text in which calls are looked for
_TRIES = 200  # places in it where JSON may start
_ARGUMENTS = ("arguments", "parameters", "input", "args")
_FUNCTION = re.compile(r"<function=([\w.-]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>\s*(.*?)\s*</parameter>", re.DOTALL)


def calls_in_text(text: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return (name, arguments as JSON text) for each call of a known tool in a text, in order."""
    if not any(name in text for name in names):
        return []
    text = text[-_MOST:]
    calls = [
        (name, json.dumps(arguments))
        for name, body in _FUNCTION.findall(text)
        if name in names and (arguments := _xml_arguments(body)) is not None
    ]
    return calls or [call for value in json_values(text) for call in _calls(value, names)]


def _xml_arguments(body: str) -> dict[str, object] | None:
    found = _PARAMETER.findall(body)
    if found:
        return {key: _parsed(value) for key, value in found}
    value = _parsed(body.strip() or "{}")
    return value if isinstance(value, dict) else None


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def json_values(text: str) -> Iterator[object]:
    """Yield the JSON objects and lists in a text, outermost only."""
    decoder = json.JSONDecoder()
    position = 0
    for _ in range(_TRIES):
        match = re.compile(r"[{\[]").search(text, position)
        if match is None:
            return
        try:
            value, position = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            position = match.end()
            continue
        yield value


def _calls(value: object, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _calls(item, names)
    if not isinstance(value, dict):
        return
    if isinstance(value.get("tool_calls"), list):
        yield from _calls(value["tool_calls"], names)
        return
    call = value["function"] if isinstance(value.get("function"), dict) else value
    name = call.get("name") or call.get("function") or call.get("tool")
    arguments = next((call[key] for key in _ARGUMENTS if key in call), None)
    if isinstance(arguments, str):
        arguments = _parsed(arguments)
    if isinstance(name, str) and name in names and isinstance(arguments, dict):
        yield name, json.dumps(arguments)
