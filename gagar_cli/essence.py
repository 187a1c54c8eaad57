r"""What a patch changes apart from blank lines and comments.

Two patches of one base have the same essence exactly when they would be the same without blank
lines and comments, and without the white space that stands before a comment or ends a line. All
else counts, spacing and line breaks inside a statement too: a patch that also reformats is another
patch. So do kind, mode and old path of a file, the bytes of a binary one, and CRLF line ends; that
a file's last line has no line feed does not.

Python is read by `tokenize`: strings, docstrings among them, count to the letter; shebangs,
`# type:`, `# noqa` and coding lines are comments. Everything else is read line by line, and so is
Python that does not tokenize: a comment is one that fills its lines, by the suffix of the file.
Such a line inside a here-document or a string over several lines is taken for a comment too. What a
backslash continues never is, nor Go's `//go:`, Lua's `--[[`, and the `/*!` of MySQL and licenses.

Without a repository there are only the changed lines, and a backslash or a string above them is not
seen. A file that is added is whole even so; others are known by the places in the base where their
lines go, so that some patches are told apart that leave the same code.
"""

import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gagar_cli.findings import addressed_to_grader
from gagar_cli.patches import SUBMODULE_MODE, SYMLINK_MODE, FileChange, PatchFacts

_SECTION = re.compile(rb"^(?=diff --git )", re.MULTILINE)
_NEW_MODE = re.compile(rb"^new mode ", re.MULTILINE)
_SPACE = " \t\f"
_PYTHON = {".py", ".pyi"}
_LAYOUT = {tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass(frozen=True, slots=True)
class _Comments:
    """How a language writes comments that fill whole lines.

    line: starts one that ends with its line. opens, closes: around one that may take several.
    """

    line: re.Pattern[str] | None = None
    opens: re.Pattern[str] | None = None
    closes: str = ""


_NONE = _Comments()
_HASH = _Comments(re.compile("#"))
_STARRED = re.compile(r"/\*(?!!)")
_SLASH = _Comments(re.compile(r"//(?!go:)"), _STARRED, "*/")
_LANGUAGES = (
    ("py pyi pyx pxd sh bash zsh fish rb rake gemspec pl pm r jl ex exs nim", _HASH),
    ("yaml yml toml cmake mk dockerfile properties conf tf", _HASH),
    ("c h cc cpp cxx hh hpp hxx cu m mm cs java kt kts scala groovy gradle swift go rs", _SLASH),
    ("dart zig proto php js jsx mjs cjs ts tsx mts cts jsonc json5 scss less", _SLASH),
    ("css", _Comments(None, _STARRED, "*/")),
    ("sql", _Comments(re.compile("--"), re.compile(r"/\*(?![!+])"), "*/")),
    ("lua", _Comments(re.compile(r"--(?!\[=*\[)"))),
    (
        "html htm xhtml xml svg xsd xsl vue svelte",
        _Comments(None, re.compile(r"<!--(?!\[)"), "-->"),
    ),
    ("ini cfg", _Comments(re.compile("[;#]"))),
)
_BY_SUFFIX: Mapping[str, _Comments] = {
    f".{suffix}": comments for suffixes, comments in _LANGUAGES for suffix in suffixes.split()
}
_HASH_NAMES = {
    "Dockerfile",
    "Makefile",
    "GNUmakefile",
    "CMakeLists.txt",
    "Gemfile",
    "Rakefile",
    ".gitignore",
    ".dockerignore",
}


def essence(
    facts: PatchFacts, contents: Mapping[str, str] | None, raw: bytes
) -> tuple[object, ...]:
    """Return what is the same for patches that differ only in blank lines and comments.

    facts, raw: of one diff, against the base that all compared patches share. contents: the new
    text of each text file that it touches, by path; None where there is no repository. The result
    is hashable. A file where only blank lines and comments change has no part in it; one that is
    added with nothing else is an empty one. A patch that speaks to its grader is the same only as
    its own copies, so that it is judged by itself.
    """
    if addressed_to_grader(facts):
        return ("addressed to a grader", raw)
    changes = [
        _change(file, contents or {}, section)
        for file, section in zip(facts.files, _sections(facts, raw), strict=True)
    ]
    return tuple(sorted(filter(None, changes), key=lambda change: change[:4]))


def _sections(facts: PatchFacts, raw: bytes) -> Sequence[bytes]:
    """Return what the diff says of each file; all that it says where the two do not fit."""
    sections = [part for part in _SECTION.split(raw) if part.startswith(b"diff --git ")]
    return sections if len(sections) == len(facts.files) else [raw] * len(facts.files)


def _change(
    file: FileChange, contents: Mapping[str, str], section: bytes
) -> tuple[object, ...] | None:
    """Return the essence of what happens to one file, None where that is nothing."""
    what = (file.path, file.old_path, file.kind, file.mode)
    if file.kind == "deleted":
        return what
    if file.binary:
        return (*what, section)
    new = contents.get(file.path)
    if new is None and file.kind == "added":
        new = "\n".join(file.added)
    if new is None:
        code = _block_code(file)
        same = not code
    else:
        code = _code(file, new)
        same = _was_the_same(file, new, code)
    # Without blocks, or with a new mode, something else than lines has changed.
    lines_only = file.kind == "modified" and file.blocks and not _NEW_MODE.search(section)
    return None if same and lines_only else (*what, code)


def _was_the_same(file: FileChange, new: str, code: tuple[object, ...]) -> bool:
    """Whether a file had this code before; its old text follows from the new one and the blocks."""
    if file.kind != "modified":
        return False
    if _is_python(file) and _beginnings(file.removed) != _beginnings(file.added):
        return False  # most changes show here, without reading the file once more
    lines = new.split("\n")
    for block in reversed(file.blocks):
        start = max(0, block.new_start - 1)
        end = start + len(block.added)
        if tuple(lines[start:end]) != block.added:
            return False
        lines[start:end] = block.removed
    return _code(file, "\n".join(lines)) == code


def _beginnings(lines: Iterable[str]) -> list[str]:
    """Return what stands before any `#`, sorted: code has the same whatever its comments."""
    return sorted(filter(None, (line.split("#", 1)[0].strip() for line in lines)))


def _code(file: FileChange, text: str) -> tuple[object, ...]:
    """Return how a text was read, and its lines without blank ones and comments."""
    lines = text.split("\n")
    python = _python_lines(lines) if _is_python(file) else None
    if python is not None:
        return ("tokens", *python)
    return ("lines", *(line for _, line in _kept(lines, _comments(file))))


def _block_code(file: FileChange) -> tuple[object, ...]:
    """Return each block's lines without blank ones and comments, and where in the base they go."""
    comments = _comments(file)
    changes: list[object] = []
    for block in file.blocks:
        removed, added = _kept(block.removed, comments), _kept(block.added, comments)
        new = tuple(line for _, line in added)
        if new != tuple(line for _, line in removed):
            old = tuple((block.old_start + row, line) for row, line in removed)
            changes.append((old or block.old_start, new))
    return tuple(changes)


def _is_file(file: FileChange) -> bool:
    return file.mode not in {SYMLINK_MODE, SUBMODULE_MODE}


def _is_python(file: FileChange) -> bool:
    return _is_file(file) and PurePosixPath(file.path).suffix in _PYTHON


def _comments(file: FileChange) -> _Comments:
    path = PurePosixPath(file.path)
    if not _is_file(file):
        return _NONE
    return _HASH if path.name in _HASH_NAMES else _BY_SUFFIX.get(path.suffix.lower(), _NONE)


def _python_lines(lines: Sequence[str]) -> list[str] | None:
    """Return the lines that hold code, without comments; None where they do not tokenize."""
    code: set[int] = set()
    whole: set[int] = set()  # rows that end inside a string
    cut: dict[int, int] = {}
    strings: list[int] = []  # first rows of f-strings, which are several tokens from 3.12 on
    source = iter([f"{line}\n" for line in lines])
    try:
        for token in tokenize.generate_tokens(lambda: next(source, "")):
            first, last = token.start[0], token.end[0]
            name = tokenize.tok_name[token.type]
            if token.type == tokenize.ERRORTOKEN:
                return None
            if name.endswith("STRING_START"):
                strings.append(first)
            elif name.endswith("STRING_END"):
                first = strings.pop()
            if token.type == tokenize.COMMENT:
                cut[first] = token.start[1]
            elif token.type not in _LAYOUT:
                code.update(range(first, last + 1))
                whole.update(range(first, last))
    except (tokenize.TokenError, SyntaxError):
        return None
    kept = []
    for row, line in enumerate(lines, start=1):
        text = line if row in whole else _trimmed(line, cut.get(row))
        # A row without tokens may be a lone backslash; a blank one with some ends a statement.
        if row in code or text.strip():
            kept.append(text)
    return kept


def _kept(lines: Sequence[str], comments: _Comments) -> list[tuple[int, str]]:
    """Return the lines that are neither blank nor comments, with their numbers from 0."""
    closing = [n for n, line in enumerate(lines) if comments.opens and comments.closes in line]
    kept = []
    row = 0
    continued = False
    while row < len(lines):
        past = row if continued else _past_comment(lines, row, comments, closing)
        if past > row:
            row = past
            continue
        line = _trimmed(lines[row])
        continued = line.rstrip("\r").endswith("\\")
        kept.append((row, line))
        row += 1
    return kept


def _past_comment(
    lines: Sequence[str], row: int, comments: _Comments, closing: Sequence[int]
) -> int:
    """Return the row after the comment, or blank line, that starts here; the same row for none."""
    text = lines[row].strip()
    if not text:
        return row + 1
    if comments.line and comments.line.match(text):
        return row if text.endswith("\\") else row + 1
    if not (comments.opens and (opened := comments.opens.match(text))):
        return row
    last, rest = row, text[opened.end() :]
    if comments.closes not in rest:
        following = bisect_right(closing, row)
        if following == len(closing):
            return row  # never closed: hardly a comment
        last = closing[following]
        rest = lines[last]
    after = rest.partition(comments.closes)[2]
    return row if after.strip() else last + 1


def _trimmed(line: str, end: int | None = None) -> str:
    """Return a line up to its comment, without white space at its end; a CR stays."""
    bare = line.removesuffix("\r")
    text = bare[:end].rstrip(_SPACE)
    if text.endswith("\\"):
        text = bare  # white space after a backslash changes what it does
    return text + line[len(bare) :]
