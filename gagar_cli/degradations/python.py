"""A Python file as lines and syntax tree, so that edits go where they may.

Lines count from 0 as places between which something is put, and from 1 as `ast` counts them.
"""

import ast
import re
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile

Function = ast.FunctionDef | ast.AsyncFunctionDef
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Replaced:
    """Base lines that a candidate replaced: they stood at `old`, what is there now at `new`."""

    old: range
    new: range


@dataclass(frozen=True, slots=True)
class Edit:
    """New lines for those from `start` to before `stop`, counted from 0."""

    start: int
    stop: int
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Module:
    """A Python file that parses. `blocks`: where it differs from the base, in order."""

    path: str
    lines: tuple[str, ...]
    ending: str
    tree: ast.Module
    blocks: tuple[Replaced, ...]
    base: tuple[str, ...]

    @classmethod
    def of(cls, path: str, text: str, base: str | None) -> "Module | None":
        """Read a file; None where it is no Python, does not parse, or mixes line ends."""
        tree = parsed(text) if path.endswith(".py") else None
        ending = "\r\n" if "\r" in text else "\n"
        mixed = ending == "\r\n" and not text.count("\r") == text.count("\n") == text.count(ending)
        if tree is None or mixed:
            return None
        lines = tuple(text.split(ending))
        old = tuple((base or "").replace("\r\n", "\n").split("\n")) if base else ()
        return cls(path, lines, ending, tree, tuple(_blocks(old, lines)), old)

    @property
    def words(self) -> set[str]:
        """All names in the file, and words of its comments and texts."""
        return {word for line in self.lines for word in _WORD.findall(line)}

    @property
    def new_lines(self) -> set[int]:
        """The lines, from 1, that the candidate wrote; of a pure deletion the line after it."""
        return {n + 1 for b in self.blocks for n in (b.new or range(b.new.start, b.new.start + 1))}

    def edited(self, *edits: Edit) -> str | None:
        """Return the text with edits that do not overlap; None where it no longer parses."""
        lines = list(self.lines)
        # From the end; what is put between two lines comes after what replaces the second.
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.stop), reverse=True):
            lines[edit.start : edit.stop] = edit.lines
        text = self.ending.join(lines)
        return text if parsed(text) else None

    def commented(self, at: int, comment: Sequence[str]) -> str | None:
        """Return the text with comment lines before line `at`; None where they would be code."""
        text = self.ending.join([*self.lines[:at], *comment, *self.lines[at:]])
        new = parsed(text)
        return text if new and ast.dump(new) == ast.dump(self.tree) else None

    def appended(self, lines: Sequence[str]) -> str | None:
        """Return the text with further code at its end."""
        end = len(self.lines)
        while end and not self.lines[end - 1].strip():
            end -= 1
        return self.edited(Edit(end, len(self.lines), ("", "", *lines, "")))

    def stands_alone(self, statement: ast.stmt) -> bool:
        """Whether a statement begins and ends its own lines."""
        start, end = self.lines[first_line(statement) - 1], self.lines[last_line(statement) - 1]
        before = start.encode()[: statement.col_offset]
        after = end.encode()[statement.end_col_offset :].strip()
        above = self.lines[first_line(statement) - 2] if first_line(statement) > 1 else ""
        continued = above.rstrip().endswith("\\")
        return not before.strip() and not continued and (not after or after.startswith(b"#"))

    def indent(self, statement: ast.stmt) -> str:
        """Return the white space before a statement that stands alone."""
        return self.lines[first_line(statement) - 1].encode()[: statement.col_offset].decode()

    def functions(self, *, changed: bool) -> list[Function]:
        """Return the functions whose own lines the candidate changed, or the others, in order."""
        owner: dict[int, Function] = {}
        everyone = [node for node in ast.walk(self.tree) if isinstance(node, Function)]
        for function in everyone:  # outer ones come before those inside them
            owner.update(dict.fromkeys(range(function.lineno, last_line(function) + 1), function))
        touched = {id(owner[line]) for line in self.new_lines if line in owner}
        chosen = [function for function in everyone if (id(function) in touched) == changed]
        return sorted(chosen, key=lambda function: function.lineno)

    def start_of_body(self, function: Function) -> tuple[int, str] | None:
        """Return where code goes first in a function, and its indentation; None for `def f(): x`.

        A docstring stays first.
        """
        first = function.body[0]
        if not self.stands_alone(first):
            return None
        at = last_line(first) if is_docstring(first) else first_line(first) - 1
        return at, self.indent(first)


def parsed(text: str) -> ast.Module | None:
    """Return the syntax tree, None where there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in somebody else's text
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def first_line(statement: ast.stmt) -> int:
    """Return the first line of a statement, its decorators included."""
    if isinstance(statement, Function | ast.ClassDef) and statement.decorator_list:
        return statement.decorator_list[0].lineno
    return statement.lineno


def last_line(statement: ast.stmt) -> int:
    """Return the last line of a statement."""
    return statement.end_lineno or statement.lineno


def is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is a bare text."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """Yield what is in a function's body, but not what is in functions and classes inside it."""
    waiting = deque[ast.AST](function.body)
    while waiting:
        node = waiting.popleft()
        yield node
        if not isinstance(node, Function | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def parameters(function: Function) -> list[str]:
    """Return the names of a function's parameters, without self and cls."""
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [name for name in names if name not in {"self", "cls"}]


def fresh(name: str, words: set[str]) -> str:
    """Return a name that is not among the words yet."""
    number = 2
    new = name
    while new in words:
        new = f"{name}{number}"
        number += 1
    return new


def _blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[Replaced]:
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    if same == len(old) == len(new):
        return
    matcher = SequenceMatcher(None, old[same:], new[same:])
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            yield Replaced(range(a + same, b + same), range(c + same, d + same))
