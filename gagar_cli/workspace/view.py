"""Read a workspace: the full tree of any candidate, text search, and diffs.

Files and diffs come from the object store, so a candidate's unchanged files are there too, and a
base version of a file that it changed never is. Without a repository there are only diffs.
"""

import json
import os
import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from gagar_cli.errors import SourceError
from gagar_cli.patches import SUBMODULE_MODE, PatchFacts, read_diff, readable
from gagar_cli.workspace.build import Candidate
from gagar_cli.workspace.searching import Base, Found, search_trees
from gagar_cli.workspace.store import Entry, ObjectStore, TreeChange

BASE = "base"
_INEXPRESSIBLE = re.compile("[\0\ud800-\udfff]")  # no program can be given these


class Workspace:
    """One group's workspace. `tree` is `base` or a candidate's label; paths are readable text."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        """Take a folder and its manifest; use `open`."""
        self.folder = folder
        self.candidates = {
            label: Candidate(**fields) for label, fields in manifest["candidates"].items()
        }
        self._base: str | None = manifest["base"]
        self._files = Path(manifest.get("files") or folder / "base")
        self._absent = frozenset(os.fsencode(path) for path in manifest["absent"])
        store = manifest["store"]
        self._store = ObjectStore(folder.parent / store) if store else None
        self._changes: dict[str, list[TreeChange]] = {}
        self._facts: dict[str, PatchFacts] = {}

    @classmethod
    def open(cls, folder: Path, *, check_objects: bool = True) -> "Workspace":
        """Open a workspace; one that is missing or not whole raises SourceError.

        check_objects: whether to look that the base tree is there, which `check_objects_of` does
        for many at once.
        """
        next_step = "gagar assemble"
        try:
            manifest = json.loads((folder / "group.json").read_text())
            workspace = cls(folder, manifest)
        except FileNotFoundError:
            raise SourceError(f"workspace {folder}", "is not there", next_step) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SourceError(
                f"workspace {folder}", f"is not whole ({error})", next_step
            ) from error
        if check_objects:
            check_objects_of([workspace])
        return workspace

    @cached_property
    def task(self) -> str:
        """The problem statement."""
        return self._stored("TASK.md").decode()

    @property
    def base_tree(self) -> str | None:
        """The object id of the base tree; None without a repository."""
        return self._base

    @property
    def base_folder(self) -> Path:
        """Where the files of the base tree are; in a planted workspace, those of the original."""
        return self._files.resolve()

    @property
    def has_trees(self) -> bool:
        """Whether files can be read, not only diffs."""
        return self._store is not None

    def raw_diff(self, label: str) -> bytes:
        """Return what a candidate changes, as bytes; as submitted where it does not apply."""
        self._known(label)
        return self._stored(f"candidates/{label}.diff")

    def facts(self, label: str) -> PatchFacts:
        """Return what a candidate's diff does; one that cannot be parsed raises DataError."""
        if label not in self._facts:
            self._facts[label] = read_diff(self.raw_diff(label))
        return self._facts[label]

    def files(self, tree: str) -> list[str]:
        """List the paths of a tree, sorted."""
        return sorted(self._listing(tree))

    def read(self, tree: str, path: str) -> bytes:
        """Return a file's content; a link gives its target. No such file raises SourceError."""
        store, oid = self._trees(), self._oid(tree)
        # A backslash may stand for bytes that are no text; then only a list tells.
        found = None if "\\" in path else store.file(oid, path.encode("utf-8", "surrogatepass"))
        if found is not None:
            return found
        entry = self._listing(tree).get(path)
        if entry is None:
            raise SourceError(f"{tree}:{path}", "no such file")
        if entry.mode == SUBMODULE_MODE:
            raise SourceError(f"{tree}:{path}", f"is a submodule at commit {entry.oid}")
        return store.blobs([entry.oid])[entry.oid]

    def touched(self, label: str) -> dict[str, str]:
        """Return the new text of each text file that a candidate changes or adds."""
        store = self._trees()
        files = [c.new for c in self._changed(label) if c.new and c.new.mode != SUBMODULE_MODE]
        contents = store.blobs(entry.oid for entry in files)
        return {
            readable(entry.path): readable(contents[entry.oid])
            for entry in files
            if b"\0" not in contents[entry.oid]
        }

    def search(self, tree: str, pattern: str, *, fixed: bool = False, folder: str = "") -> Found:
        """Find the lines of a tree's text files that match an extended regular expression.

        `fixed` takes the pattern literally; `folder` narrows to one file or folder. At most 5,000
        lines and 4 MB are told, and where they end. A bad expression raises SourceError.
        """
        return self.search_all(pattern, [tree], fixed=fixed, folder=folder)

    def search_all(
        self,
        pattern: str,
        trees: Iterable[str] | None = None,
        *,
        fixed: bool = False,
        folder: str = "",
    ) -> Found:
        """Find the lines that match in these trees, in all that have files unless given.

        A line that stands at the same place in several trees is told once, with their names.
        Bounds and errors are those of `search`.
        """
        if _INEXPRESSIBLE.search(pattern):
            raise SourceError("search", f"got {pattern!r}, expected text without NUL or surrogates")
        store = self._trees()
        if trees is None:
            trees = [BASE, *(label for label, c in self.candidates.items() if c.tree)]
        changes = {tree: self._changed(tree) for tree in trees}
        base = Base(self._oid(BASE), self._files, self._absent)
        inside = b"".join(_narrowed(folder))
        return search_trees(store, base, changes, pattern, fixed=fixed, inside=inside)

    def diff(self, old: str, new: str, path: str = "") -> bytes:
        """Return the diff of two trees, all or of one file or folder.

        Without a repository only `base` against a candidate is there: its own diff.
        """
        if self._store is None:
            if old != BASE or path:
                raise SourceError("diff", "this group has no repository, only diffs against base")
            return self.raw_diff(new)
        return self._store.diff(self._oid(old), self._oid(new), _narrowed(path))

    def _stored(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise SourceError(
                f"workspace {self.folder}", f"has no {name} ({error.strerror})", "gagar assemble"
            ) from error

    def _trees(self) -> ObjectStore:
        if self._store is None:
            raise SourceError("workspace", "this group has no repository, only diffs")
        return self._store

    def _known(self, label: str) -> Candidate:
        candidate = self.candidates.get(label)
        if candidate is None:
            known = ", ".join([BASE, *self.candidates])
            raise SourceError(f"candidate {label!r}", f"got no such label, expected one of {known}")
        return candidate

    def _oid(self, tree: str) -> str:
        oid = self._base if tree == BASE else self._known(tree).tree
        if oid is None:
            raise SourceError(f"candidate {tree}", "its patch does not apply, so it has no files")
        return oid

    def _changed(self, tree: str) -> list[TreeChange]:
        """Return in what a tree differs from the base."""
        oid = self._oid(tree)
        if oid not in self._changes:
            self._changes[oid] = self._trees().changes(self._oid(BASE), oid)
        return self._changes[oid]

    def _listing(self, tree: str) -> dict[str, Entry]:
        return _list(self._trees().path, self._oid(tree))


@lru_cache(maxsize=16)
def _list(store: Path, oid: str) -> dict[str, Entry]:
    """List a tree by path; a few lists are kept, whatever the number of workspaces."""
    return {readable(entry.path): entry for entry in ObjectStore(store).entries(oid)}


def check_objects_of(workspaces: Iterable[Workspace]) -> None:
    """Raise SourceError where a workspace's base tree is gone; one look for each store."""
    by_store: dict[Path, list[Workspace]] = {}
    for workspace in workspaces:
        if workspace._store is not None:  # noqa: SLF001  of this module
            by_store.setdefault(workspace._store.path, []).append(workspace)  # noqa: SLF001
    for path, sharing in by_store.items():
        store = ObjectStore(path)
        there = path.is_dir()
        if there and store.has(w.base_tree for w in sharing if w.base_tree):
            continue
        lost = next(w for w in sharing if not (there and store.has([w.base_tree or ""])))
        raise SourceError(
            f"workspace {lost.folder}",
            f"its objects are gone from {path} or the repository it borrows from",
            "gagar assemble",
        )


def _narrowed(path: str) -> list[bytes]:
    """Return what narrows a search or diff to one file or folder; an empty path does not."""
    if _INEXPRESSIBLE.search(path) or ".." in path.split("/"):
        raise SourceError(f"path {path!r}", "no such file or folder")
    bare = path.strip("/")
    return [bare.encode()] if bare else []
