"""The tools of one vote: look at any tree under the vote's labels.

Each returns text of bounded length, which says what it leaves out and how to get it. A mistake of
the model is told to it as text; no tool raises for it. What the trees hold is fenced as data.
"""

import asyncio
import json
import posixpath
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gagar_cli.errors import OptionError, SourceError
from gagar_cli.grading.case import VoteView
from gagar_cli.grading.coverage import Coverage
from gagar_cli.grading.prompts import TASK_CHARACTERS
from gagar_cli.grading.schemas import ALL, tool_schemas
from gagar_cli.grading.verdict import Citation
from gagar_cli.patches import readable
from gagar_cli.untrusted import visible
from gagar_cli.workspace.view import BASE

_LINES = 300
_CHARACTERS = 12_000
_LINE_CHARACTERS = 1_000
_ENTRIES = 200  # above this, a listing shows folders with their number of files
_ARGUMENT_CHARACTERS = 2_000
_SECONDS = 60.0  # for one tool


@dataclass(frozen=True, slots=True)
class _Arguments:
    """A tool's arguments, read one by one; a wrong one raises OptionError, which names it."""

    values: Mapping[str, object]

    def text(self, name: str, default: str | None = None) -> str:
        value = self.values.get(name)
        if value is None:
            value = default
        if value is None:
            raise OptionError(name, "is missing")
        if not isinstance(value, str):
            raise OptionError(name, f"got {_short(value)}, expected a string")
        if "\0" in value or len(value) > _ARGUMENT_CHARACTERS:
            raise OptionError(name, f"expected at most {_ARGUMENT_CHARACTERS} characters, no NUL")
        return value

    def path(self, name: str, default: str | None = None) -> str:
        """Return a path in a tree, normal, "" for all of it."""
        path = posixpath.normpath(self.text(name, default).strip("/"))
        if path.split("/")[0] == "..":
            raise OptionError(name, "leads out of the tree")
        return "" if path == "." else path

    def label(self, name: str, known: Sequence[str], default: str | None = None) -> str:
        label = self.text(name, default)
        if label not in known:
            raise OptionError(name, f"got {_short(label)}, expected one of {', '.join(known)}")
        return label

    def line(self, name: str, default: int) -> int:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise OptionError(name, f"got {_short(value)}, expected a line number from 1")
        return value


class VoteTools:
    """The tools over one group's workspace, with `schemas` as a request carries them."""

    def __init__(self, view: VoteView, coverage: Coverage) -> None:
        """Offer what the workspace has: without trees only its diffs."""
        self._view = view
        self._coverage = coverage
        self._names = view.names()
        self._candidates = (*view.passing, *view.failing)
        self._trees = (BASE, *self._candidates)
        self.schemas = tool_schemas(
            view.passing,
            view.failing,
            trees=view.workspace.has_trees,
            long_task=len(view.case.task) > TASK_CHARACTERS,
        )

    async def run(self, name: str, arguments: Mapping[str, object]) -> str:
        """Run one tool and return its text."""
        functions = {tool["function"]["name"]: tool["function"] for tool in self.schemas}
        if name not in functions:
            return f"There is no tool {_short(name)}. The tools are {', '.join(functions)}."
        known = functions[name]["parameters"]["properties"]
        unknown = [argument for argument in arguments if argument not in known]
        if unknown:
            return (
                f"{name} has no argument {_short(unknown[0])}. Its arguments are "
                f"{', '.join(known)}."
            )
        tool: Callable[[_Arguments], str] = getattr(self, f"_{name}")
        try:
            async with asyncio.timeout(_SECONDS):
                return await asyncio.to_thread(tool, _Arguments(arguments))
        except OptionError as error:
            return f"{name}: {error}"
        except SourceError as error:
            # Where it happened names the workspace, and the candidate by another label.
            return f"{name}: {error.problem.replace(str(self._view.workspace.folder.parent), '')}"
        except TimeoutError:
            return f"{name}: nothing within {_SECONDS:g} s; ask for less."

    def _list_files(self, arguments: _Arguments) -> str:
        tree, folder = self._tree(arguments, "tree"), arguments.path("folder", "")
        inside = f"{folder}/" if folder else ""
        paths = [
            path
            for path in self._view.workspace.files(self._name(tree))
            if path.startswith(inside) or path == folder
        ]
        if not paths:
            return f"There is no file or folder {_short(folder)} in {tree}."
        if len(paths) > _ENTRIES:
            paths = _collapsed(paths, inside)
        title = f"Files of {tree}" + (f" in {folder!r}" if folder else "")
        return self._page(
            title, list(map(visible, paths)), arguments.line("start_line", 1), most=_ENTRIES
        )

    def _read_file(self, arguments: _Arguments) -> str:
        tree, path = self._tree(arguments, "tree"), arguments.path("path")
        start = arguments.line("start_line", 1)
        end = arguments.line("end_line", start + _LINES - 1)
        if end < start:
            raise OptionError("end_line", f"got {end}, expected at least start_line ({start})")
        raw = self._view.workspace.read(self._name(tree), path)
        if b"\0" in raw:
            return f"{path!r} in {tree} is binary, {len(raw)} bytes."
        # A line of the base that is gone in a candidate is one that its diff removes.
        seen = self._candidates if tree == BASE else [tree]
        title = f"{path!r} in {tree}"
        return self._page(title, _lines(raw), start, end, seen=seen, numbered=True)

    def _search(self, arguments: _Arguments) -> str:
        tree = arguments.label("tree", (*self._trees, ALL))
        folder, pattern = arguments.path("folder", ""), arguments.text("pattern")
        if not pattern:
            raise OptionError("pattern", "is empty")
        # Only what the vote shows, in its own order and words.
        labels = {self._name(shown): shown for shown in (self._trees if tree == ALL else [tree])}
        found = self._view.workspace.search_all(pattern, labels, folder=folder)
        where = ("all trees" if tree == ALL else tree) + (f" in {folder!r}" if folder else "")
        if not found.hits and not found.cut:
            return f"Nothing matches in {where}."
        lines = []
        for hit, names in found.hits:
            holders = ALL if len(names) == len(labels) else " ".join(labels[n] for n in names)
            mark = f"[{holders}] " if tree == ALL else ""
            lines.append(visible(f"{mark}{hit.path}:{hit.line}:{hit.text}"))
        text = self._page(f"Matches in {where}", lines, arguments.line("start_line", 1))
        if found.cut:
            text += f"\nThere may be more below {_cut(visible(found.cut))}; search a folder."
        return text

    def _diff(self, arguments: _Arguments) -> str:
        candidate = arguments.label("candidate", self._candidates)
        other = self._tree(arguments, "other", BASE)
        path = arguments.path("path", "")
        raw = self._view.workspace.diff(self._name(other), self._name(candidate), path)
        title = f"Diff from {other} to {candidate}" + (f" in {path!r}" if path else "")
        if not raw.strip():
            return f"{title}: no difference."
        start = arguments.line("start_line", 1)
        return self._page(title, _lines(raw), start, seen=[candidate, other])

    def _read_task(self, arguments: _Arguments) -> str:
        return self._page(
            "The task", self._view.case.task.split("\n"), arguments.line("start_line", 1)
        )

    def missing(self, citations: Mapping[str, Sequence[Citation]]) -> list[str]:
        """Return the places that are not in their candidate's tree, in words."""
        return [
            f"{label} {citation}"
            for label, cited in citations.items()
            for citation in cited
            if not self._is_there(label, citation)
        ]

    def _is_there(self, label: str, citation: Citation) -> bool:
        """Whether a candidate has these lines; without trees, whether its patch has the file."""
        exhibit = self._view.shown[label]
        if not self._view.workspace.has_trees:
            return any(file.path == citation.path for file in exhibit.facts.files)
        try:
            raw = self._view.workspace.read(exhibit.name, citation.path)
        except SourceError:
            return False
        return 1 <= citation.first <= citation.last <= max(1, len(_lines(raw)))

    def _tree(self, arguments: _Arguments, name: str, default: str | None = None) -> str:
        return arguments.label(name, self._trees, default)

    def _name(self, tree: str) -> str:
        """Return what the workspace calls a tree."""
        return BASE if tree == BASE else self._names[tree]

    def _page(  # noqa: PLR0913
        self,
        title: str,
        lines: Sequence[str],
        start: int,
        end: int | None = None,
        *,
        most: int = _LINES,
        seen: Sequence[str] = (),
        numbered: bool = False,
    ) -> str:
        """Show lines from `start`, as many as there is room for, fenced; name what is left out.

        The lines count as seen of the candidates `seen`.
        """
        total = len(lines)
        if not total:
            return f"{title}: empty."
        if start > total:
            return f"{title}: it has {total} lines, so none from {start}."
        shown: list[str] = []
        room = _CHARACTERS
        for number, line in enumerate(
            lines[start - 1 : min(end or total, start + most - 1)], start
        ):
            text = f"{number}\t" * numbered + _cut(line)
            room -= len(text) + 1
            if room < 0:
                break
            shown.append(text)
        last = start + len(shown) - 1
        self._coverage.saw(seen, lines[start - 1 : last])
        text = f"{title}, lines {start} to {last} of {total}:\n"
        text += self._view.fence.around("\n".join(shown))
        if last < total:
            text += f"\n{total - last} lines left out below; start_line={last + 1} shows more."
        return text


def _collapsed(paths: Sequence[str], inside: str) -> list[str]:
    """Return the entries of one folder, its folders with the number of files in them."""
    entries = Counter(
        head + slash for head, slash, _ in (p.removeprefix(inside).partition("/") for p in paths)
    )
    return [
        f"{inside}{name} ({number} files)" if name.endswith("/") else inside + name
        for name, number in sorted(entries.items())
    ]


def _lines(raw: bytes) -> list[str]:
    """Split at line feeds only, as line numbers in diffs and searches count; nothing is hidden."""
    return visible(readable(raw.removesuffix(b"\n"))).split("\n") if raw else []


def _cut(line: str) -> str:
    if len(line) <= _LINE_CHARACTERS:
        return line
    return f"{line[:_LINE_CHARACTERS]} [{len(line) - _LINE_CHARACTERS} characters left out]"


def _short(value: object) -> str:
    """Return a value of the model's for telling it back."""
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:100]}…"  # noqa: PLR2004  enough to recognise
