"""The tools that an agent is offered, as a request carries them.

They name the labels of a vote, and are the same for all votes on groups of the same make.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from gagar_cli.grading.verdict import submit_tool
from gagar_cli.workspace.view import BASE

ALL = "all"  # trees; labels are capital letters


@cache
def tool_schemas(
    passing: tuple[str, ...], failing: tuple[str, ...], *, trees: bool, long_task: bool
) -> tuple[dict[str, Any], ...]:
    """Return the tools of a vote, the one that submits last; nobody may change them.

    trees: whether there are trees to read, not only diffs. long_task: whether the prompt cuts the
    task.
    """
    candidates = (*passing, *failing)
    tree: dict[str, Any] = {
        "type": "string",
        "enum": [BASE, *candidates],
        "description": "whose tree",
    }
    start = _integer("first line to show, from 1")
    folder = _string("only what is in this folder, or this file")
    diff: dict[str, Any] = {
        "candidate": {"type": "string", "enum": list(candidates)},
        "start_line": start,
    }
    says = "What a candidate changes, as a unified diff."
    tools = []
    if trees:
        diff["other"] = {**tree, "description": "changed from what; base unless given"}
        diff["path"] = _string("only this file or folder")
        lines = {"start_line": start, "end_line": _integer("last line to show")}
        pattern = _string("POSIX extended regular expression")
        searched = {"type": "string", "enum": [*tree["enum"], ALL], "description": "whose tree"}
        tools += [
            _schema(
                "list_files",
                "List the files of a tree; large folders as a number.",
                {"tree": tree, "folder": folder, "start_line": start},
                ["tree"],
            ),
            _schema(
                "read_file",
                "Show a file with line numbers.",
                {"tree": tree, "path": _string("path of the file"), **lines},
                ["tree", "path"],
            ),
            _schema(
                "search",
                "Find the lines of text files that match, in a tree or in all of them at once.",
                {"tree": searched, "pattern": pattern, "folder": folder, "start_line": start},
                ["tree", "pattern"],
            ),
        ]
    if long_task:
        tools.append(_schema("read_task", "Show the task.", {"start_line": start}, []))
    return (_schema("diff", says, diff, ["candidate"]), *tools, submit_tool(passing))


def _string(says: str) -> dict[str, Any]:
    return {"type": "string", "description": says}


def _integer(says: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "description": says}


def _schema(
    name: str, says: str, properties: Mapping[str, Any], required: Sequence[str]
) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }
    function = {"name": name, "description": says, "parameters": parameters}
    return {"type": "function", "function": function}
