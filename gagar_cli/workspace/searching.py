"""Search many trees over one base at once: the base once, then what each of them changed.

What a tree changed or deleted counts as it is there: the base's lines of it are masked. The base
is read from its folder where nothing there is newer than the workspace, else from its objects.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from gagar_cli.errors import SourceError
from gagar_cli.patches import readable
from gagar_cli.workspace.grepping import (
    RawHit,
    RawHits,
    grep_files,
    grep_texts,
    has_grep,
    is_binary,
    read_hits,
)
from gagar_cli.workspace.store import ObjectStore, TreeChange

MOST_HITS = 5_000
_AT_ONCE = 64  # changed files in memory
_REGULAR = (b"100644", b"100755")  # no links, no submodules


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that a search found; `line` counts from 1."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """Lines in the order of paths, each with the trees that hold it.

    cut: the last line told, as `path:line`, where a search found more than it tells; else empty.
    """

    hits: list[tuple[Hit, tuple[str, ...]]]
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Base:
    """The base of all trees: its id, the folder that holds its files, and those that are absent."""

    tree: str
    folder: Path
    absent: frozenset[bytes] = frozenset()


def search_trees(  # noqa: PLR0913
    store: ObjectStore,
    base: Base,
    trees: Mapping[str, Sequence[TreeChange]],
    pattern: str,
    *,
    fixed: bool,
    inside: bytes,
) -> Found:
    """Search trees, each given by what it changes of the base, in one file or folder or in all.

    A bad expression raises SourceError.
    """
    unchanged = _in_base(store, base, pattern, fixed=fixed, inside=inside)
    changed, owners = _in_changed(store, trees, pattern, fixed=fixed, inside=inside)
    holders: dict[RawHit, set[str]] = {}
    masks = {name: {change.path for change in changes} for name, changes in trees.items()}
    masked, everyone = set[bytes]().union(*masks.values()), set(trees)
    for hit in unchanged.hits:
        names = everyone
        if hit.place in masked:
            names = {name for name, mask in masks.items() if hit.place not in mask}
        if names:
            holders[hit] = names
    for hit in changed.hits:
        path = hit.place.split(b"\0")[0]
        plain = RawHit(path, hit.line, hit.text)
        holders[plain] = holders.get(plain, set()) | owners[hit.place]
    # Below the last line of a search that was cut there may be more.
    ends = [_position(found.last) for found in (unchanged, changed) if found.last]
    ordered = sorted(holders, key=_position)
    told = [hit for hit in ordered if not ends or _position(hit) <= min(ends)][:MOST_HITS]
    is_cut = bool(ends) or len(told) < len(ordered)
    return Found(
        [(_hit(hit), tuple(name for name in trees if name in holders[hit])) for hit in told],
        _place(told) if is_cut else "",
    )


def _position(hit: RawHit) -> tuple[bytes, int]:
    return hit.place.split(b"\0")[0], hit.line


def _place(told: Sequence[RawHit]) -> str:
    return f"{readable(told[-1].place)}:{told[-1].line}" if told else "the start"


def _hit(raw: RawHit) -> Hit:
    return Hit(readable(raw.place), raw.line, readable(raw.text))


def _is_inside(path: bytes, inside: bytes) -> bool:
    return not inside or path == inside or path.startswith(inside + b"/")


# The base


@dataclass(frozen=True, slots=True)
class _Folder:
    """The regular files of a base on disk, in the order of their paths; which of them are text."""

    paths: list[bytes]
    is_text: dict[bytes, bool] = field(default_factory=dict)


def _in_base(
    store: ObjectStore, base: Base, pattern: str, *, fixed: bool, inside: bytes
) -> RawHits:
    if has_grep() and (files := files_of(store.path, base)):
        paths = [path for path in files.paths if _is_inside(path, inside)]
        try:
            found = grep_files(base.folder, paths, pattern, fixed=fixed)
            if found is not None:
                kept = [hit for hit in found.hits if _is_text(files, base.folder, hit.place)]
                return RawHits(kept, found.last)
        except OSError:
            pass  # somebody takes the folder away meanwhile; the objects are still there
    hits = _git_grep(store, [base.tree], pattern, fixed=fixed, inside=inside)
    return RawHits(hits)


@lru_cache(maxsize=8)
def files_of(store: Path, base: Base) -> _Folder | None:
    """Return a base's files on disk; None where one is gone, or newer than the workspace."""
    listed = ObjectStore(store).paths(base.tree, _REGULAR)
    paths = [path for path in listed if path not in base.absent] if base.absent else listed
    root = os.fsencode(base.folder)
    try:
        made = os.stat(base.folder.parent / "group.json").st_mtime_ns  # noqa: PTH116  many files
        newest = max((os.stat(b"%s/%s" % (root, p)).st_mtime_ns for p in paths), default=0)  # noqa: PTH116
    except OSError:
        return None
    return _Folder(sorted(paths)) if newest <= made else None


def _is_text(files: _Folder, folder: Path, path: bytes) -> bool:
    if path not in files.is_text:
        with (folder / os.fsdecode(path)).open("rb") as file:
            files.is_text[path] = not is_binary(file.read(8_000))
    return files.is_text[path]


# What was changed


def _in_changed(
    store: ObjectStore,
    trees: Mapping[str, Sequence[TreeChange]],
    pattern: str,
    *,
    fixed: bool,
    inside: bytes,
) -> tuple[RawHits, dict[bytes, set[str]]]:
    """Search each new content once; places are `path NUL oid`, with the trees that have it."""
    owners: dict[bytes, set[str]] = {}
    for name, changes in trees.items():
        for change in changes:
            new = change.new
            if new and new.mode.encode() in _REGULAR and _is_inside(new.path, inside):
                owners.setdefault(b"%s\0%s" % (new.path, new.oid.encode()), set()).add(name)
    hits: list[RawHit] = []
    places = sorted(owners)
    for first in range(0, len(places), _AT_ONCE):
        found = _in_blobs(store, places[first : first + _AT_ONCE], pattern, fixed=fixed)
        hits += found.hits
        if found.last or len(hits) > MOST_HITS:
            return RawHits(hits, found.last or hits[-1]), owners
    return RawHits(hits), owners


def _in_blobs(store: ObjectStore, places: Sequence[bytes], pattern: str, *, fixed: bool) -> RawHits:
    oids = {place: place.rpartition(b"\0")[2].decode() for place in places}
    if has_grep():
        blobs = store.blobs(oids.values())
        texts = {place: blobs[oid] for place, oid in oids.items() if not is_binary(blobs[oid])}
        return grep_texts(texts, pattern, fixed=fixed)
    found = _git_grep(store, list(oids.values()), pattern, fixed=fixed)
    by_oid: dict[bytes, list[RawHit]] = {}
    for hit in found:
        by_oid.setdefault(hit.place, []).append(hit)
    return RawHits(
        [
            RawHit(place, hit.line, hit.text)
            for place, oid in oids.items()
            for hit in by_oid.get(oid.encode(), ())
        ]
    )


def _git_grep(
    store: ObjectStore, objects: Sequence[str], pattern: str, *, fixed: bool, inside: bytes = b""
) -> list[RawHit]:
    """Search the text in objects with git; the place is a path of a tree, or the id of a blob."""
    command = ["--literal-pathspecs", "grep", "-I", "-n", "-z", "--full-name", "--no-color"]
    command += ["-F" if fixed else "-E", "-e", pattern, *objects, "--"]
    output = store.git(*command, *([os.fsdecode(inside)] if inside else []))
    if output.status > 1:
        raise SourceError("search", output.stderr or "git grep failed")
    hits = read_hits(output.stdout, b"\0")
    return [RawHit(hit.place.partition(b":")[2] or hit.place, hit.line, hit.text) for hit in hits]
