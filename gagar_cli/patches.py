"""What a diff does: its files, its lines, and the signs that a reader should know of.

Pure text in, small frozen values out. Diffs are parsed by unidiff; what it cannot parse raises
DataError, which a caller turns into a status.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO

from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk, PatchedFile, PatchSet

from gagar_cli.errors import DataError

_HEADER = re.compile(rb"^(diff --git |--- .*\n\+\+\+ |Binary files )", re.MULTILINE)
_HUNK = re.compile(rb"^@@ -\d", re.MULTILINE)
_HUNK_HEADER = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_SECTION = re.compile(rb"^(?=diff --git )", re.MULTILINE)
_PATH_LINE = re.compile(
    rb"^(?:--- |\+\+\+ |(?:rename|copy) (?:from|to) )(.*?)(?:\t.*)?\r?$", re.MULTILINE
)
_GIT_LINE = re.compile(rb"^diff --git (.*?)\r?$", re.MULTILINE)
_PREIMAGE = re.compile(rb"^index ([0-9a-f]{4,64})\.\.[0-9a-f]", re.MULTILINE)
_UNPREFIXED = re.compile(
    rb"""^(?:diff\ --git\ (?!"?a/)
        |---\ (?!"?a/|/dev/null).*\n\+\+\+\ .*\n@@\ -
        |---\ .*\n\+\+\+\ (?!"?b/|/dev/null).*\n@@\ -)""",
    re.MULTILINE | re.VERBOSE,
)
_BODY = {b" ", b"+", b"-", b"\\", b"", b"\r"}  # what a line of a hunk starts with
_VERSION = re.compile(rb"\d+\.\d")  # git's, under the "-- " that ends a mailed patch
_OCTAL = re.compile(r"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "v": "\v", "f": "\f"}

SYMLINK_MODE, SUBMODULE_MODE = "120000", "160000"


@dataclass(frozen=True, slots=True)
class Block:
    """A run of changed lines without context between: old line texts, then new ones."""

    old_start: int
    new_start: int
    removed: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of a diff. `kind` is added, deleted, modified or renamed."""

    path: str
    old_path: str
    kind: str
    mode: str
    binary: bool
    blocks: tuple[Block, ...]

    @property
    def added(self) -> tuple[str, ...]:
        """All added lines, without their line ends."""
        return tuple(line for block in self.blocks for line in block.added)

    @property
    def removed(self) -> tuple[str, ...]:
        """All removed lines, without their line ends."""
        return tuple(line for block in self.blocks for line in block.removed)

    @property
    def lines_added(self) -> int:
        """The number of added lines."""
        return sum(len(block.added) for block in self.blocks)

    @property
    def lines_removed(self) -> int:
        """The number of removed lines."""
        return sum(len(block.removed) for block in self.blocks)


@dataclass(frozen=True, slots=True)
class PatchFacts:
    """A whole diff, file by file."""

    files: tuple[FileChange, ...]

    @property
    def lines_added(self) -> int:
        """Added lines over all files."""
        return sum(file.lines_added for file in self.files)

    @property
    def lines_removed(self) -> int:
        """Removed lines over all files."""
        return sum(file.lines_removed for file in self.files)


def readable(raw: bytes) -> str:
    r"""Decode UTF-8; other bytes become visible escapes such as \xff."""
    return raw.decode("utf-8", "backslashreplace")


def is_diff(raw: bytes) -> bool:
    """Whether the text holds any part of a diff, rather than prose."""
    return bool(_HEADER.search(raw) or _HUNK.search(raw))


def with_clean_edges(raw: bytes) -> bytes:
    """Drop a byte-order mark and blank lines before the diff; end the last line."""
    text = raw.removeprefix(b"\xef\xbb\xbf")
    lines = text.split(b"\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    text = b"\n".join(lines)
    return text if text.endswith(b"\n") or not text else text + b"\n"


def without_dataless_binaries(raw: bytes) -> tuple[bytes, int]:
    """Drop the files that say only "Binary files differ"; return the rest and their number."""
    sections = _SECTION.split(raw)
    kept = [s for s in sections if not re.search(rb"^Binary files .* differ\r?$", s, re.MULTILINE)]
    return b"".join(kept), len(sections) - len(kept)


def recounted(raw: bytes) -> bytes:
    """Set the line counts of each hunk header to what the hunk's body has.

    Empty lines that end a body beyond what its header counts are no part of it: prose or another
    diff may follow. A hunk whose counts are right stays as it is.
    """
    lines = raw.removesuffix(b"\n").split(b"\n")
    number = 0
    while number < len(lines):
        match = _HUNK_HEADER.match(lines[number])
        number += 1
        if match is None:
            continue
        end = _end(lines, number, int(match[2] or 1), int(match[4] or 1))
        if end == number:
            while end < len(lines) and not _ends_hunk(lines[end : end + 2]):
                end += 1
            body = lines[number:end]
            while body and not body[-1] and _side(body, b" -") > int(match[2] or 1):
                body.pop()
            counts = (match[1], _side(body, b" -"), match[3], _side(body, b" +"))
            lines[number - 1] = b"@@ -%s,%d +%s,%d @@" % counts + lines[number - 1][match.end() :]
        number = end
    return b"\n".join(lines) + b"\n" * raw.endswith(b"\n")


def _end(lines: list[bytes], start: int, old: int, new: int) -> int:
    """Return where a hunk of so many old and new lines ends; its start where they do not fit."""
    end = start
    while old > 0 or new > 0:
        sign = lines[end][:1] if end < len(lines) else b"end"
        if sign not in _BODY:
            return start
        old -= sign not in {b"+", b"\\"}
        new -= sign not in {b"-", b"\\"}
        end += 1
    more = lines[end : end + 2]
    fits = old == new == 0 and (
        not more or more[0][:1] not in {b"+", b"-", b" "} or _ends_hunk(more)
    )
    return end if fits else start


def _ends_hunk(lines: list[bytes]) -> bool:
    """Whether the first of two lines is no part of a hunk, be it another file or a signature."""
    line, following = (*lines, b"")[:2]
    return (
        line[:1] not in _BODY
        or (line.startswith(b"--- ") and following.startswith(b"+++ "))
        or (line == b"-- " and bool(_VERSION.match(following)))
    )


def _side(body: list[bytes], signs: bytes) -> int:
    """Count the lines of one side of a hunk; an empty line is context that lost its blank."""
    return sum(not line.strip(b"\r") or line[:1] in signs for line in body)


def named_paths(raw: bytes, strip: int = 1) -> tuple[bytes, ...]:
    """Return the paths that a diff's headers name, less `strip` leading parts, each once."""
    paths: dict[bytes, None] = {}
    for name, renamed in _names(raw):
        plain = unquoted(name.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        if plain == b"/dev/null":
            continue
        paths[plain if renamed else b"/".join(plain.split(b"/")[strip:])] = None
    return tuple(paths)


def _names(raw: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the names in a diff's headers as written, and whether they come without prefix."""
    for match in _PATH_LINE.finditer(raw):
        yield match[1], match[0].startswith((b"rename", b"copy"))
    for match in _GIT_LINE.finditer(raw):
        # `a/NAME b/NAME`; where the two differ, other lines name them.
        middle = len(match[1]) // 2
        if match[1][middle : middle + 1] == b" ":
            yield match[1][:middle], False
            yield match[1][middle + 1 :], False


def preimages(raw: bytes) -> tuple[str, ...]:
    """Return the ids, often short ones, of the blobs that a diff says it starts from."""
    return tuple(dict.fromkeys(match[1].decode() for match in _PREIMAGE.finditer(raw)))


def has_prefixes(raw: bytes) -> bool:
    """Whether all paths in a diff's headers start with a/ and b/."""
    return not _UNPREFIXED.search(raw)


def unquoted(name: str) -> str:
    r"""Undo git's C-style quoting: `"a/\303\244.txt"` becomes `a/ä.txt`; others stay."""
    if not (name.startswith('"') and name.endswith('"') and len(name) > 1):
        return name
    raw = bytearray()
    position = 1
    while position < len(name) - 1:
        match = _OCTAL.match(name, position)
        if match is None:
            raw += name[position].encode("utf-8", "surrogateescape")
            position += 1
        elif match[1].isdigit():
            raw.append(int(match[1], 8) & 0xFF)
            position = match.end()
        else:
            raw += _ESCAPES.get(match[1], match[1]).encode("utf-8", "surrogateescape")
            position = match.end()
    return raw.decode("utf-8", "surrogateescape")


def read_diff(raw: bytes) -> PatchFacts:
    """Parse a git-form diff. Wrong hunk counts and the like raise DataError."""
    text = readable(raw)
    try:
        # unidiff calls anything that it does not know a header: an empty result is no error.
        parsed = PatchSet(StringIO(text, newline="\n"))
    except UnidiffParseError as error:
        raise DataError("diff", f"unidiff cannot parse it ({error})") from error
    return PatchFacts(tuple(_file_change(file) for file in parsed))


def _file_change(file: PatchedFile) -> FileChange:
    info = [str(line) for line in file.patch_info or ()]
    renames = {
        line.split(" ", 2)[1]: line.split(" ", 2)[2].rstrip("\n")
        for line in info
        if line.startswith(("rename from ", "rename to "))
    }
    old = renames.get("from") or _plain(file.source_file)
    new = renames.get("to") or _plain(file.target_file)
    old, new = unquoted(old), unquoted(new)
    if old == "/dev/null":
        kind, old = "added", new
    elif new == "/dev/null":
        kind, new = "deleted", old
    else:
        kind = "renamed" if old != new else "modified"
    return FileChange(
        path=readable(new.encode("utf-8", "surrogateescape")),
        old_path=readable(old.encode("utf-8", "surrogateescape")),
        kind=kind,
        mode=file.target_mode or file.source_mode or "100644",
        binary=bool(file.is_binary_file),
        blocks=tuple(block for hunk in file for block in _blocks(hunk)),
    )


def _plain(name: str) -> str:
    """Drop the a/ or b/ of a header path, inside quotes too."""
    quoted = name.startswith('"')
    bare = name.removeprefix('"')
    bare = bare[2:] if bare.startswith(("a/", "b/")) else bare
    return f'"{bare}' if quoted else bare


def _blocks(hunk: Hunk) -> list[Block]:
    blocks: list[Block] = []
    removed: list[str] = []
    added: list[str] = []
    old, new = hunk.source_start, hunk.target_start
    start = (old, new)

    def close() -> None:
        if removed or added:
            blocks.append(Block(start[0], start[1], tuple(removed), tuple(added)))
            removed.clear()
            added.clear()

    for line in hunk:
        text = line.value.rstrip("\n")
        if line.is_context:
            close()
            old, new = old + 1, new + 1
            start = (old, new)
        elif line.is_removed:
            removed.append(text)
            old += 1
        elif line.is_added:
            added.append(text)
            new += 1
    close()
    return blocks
