"""Find one file of a tree by way of its folders, without a list of all files."""

import re
from collections.abc import Iterator

from gagar_cli.workspace.talking import Talk

_MOST_TREES = 1024
_ENTRY = {size: re.compile(rb"(\d+) ([^\0]+)\0(.{%d})" % size, re.DOTALL) for size in (20, 32)}
# Contents of tree objects by id; an id stands for the same content in every store.
_known: dict[str, bytes] = {}


def file_of(git: Talk, tree: str, path: bytes) -> bytes | None:
    """Return the content of a tree's file, a link's target; None for anything else."""
    *folders, name = path.split(b"/")
    folder: str | None = tree
    for part in folders:
        folder = _entry(git, folder, part) if folder else None
    oid = _entry(git, folder, name) if folder else None
    found = git.objects([oid]) if oid else []
    return next((raw for _, kind, raw in list(found) if kind == "blob"), None)


def entries_in(content: bytes, digits: int) -> Iterator[tuple[bytes, tuple[bytes, str]]]:
    """Yield name, and mode and id, of each entry of a tree object; ids have so many digits."""
    for match in _ENTRY[digits // 2].finditer(content):
        yield match[2], (match[1], match[3].hex())


def content_of(git: Talk, tree: str) -> bytes | None:
    """Return the content of a tree object, asking but once; None where there is no such tree."""
    known = _known.get(tree)
    if known is not None:
        return known
    found = [raw for _, kind, raw in git.objects([tree]) if kind == "tree"]
    if not found:
        return None
    if len(_known) >= _MOST_TREES:
        _known.clear()
    _known[tree] = found[0]
    return found[0]


def _entry(git: Talk, tree: str, name: bytes) -> str | None:
    """Return the id that a tree gives to a name."""
    entries = _ENTRY[len(tree) // 2].finditer(content_of(git, tree) or b"")
    return next((match[3].hex() for match in entries if match[2] == name), None)
