"""Further candidates in a copy of a workspace, made from one that is there."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from gagar_cli.degradations import CandidateFiles
from gagar_cli.errors import DataError, SourceError
from gagar_cli.patches import read_diff, readable
from gagar_cli.workspace.build import Candidate
from gagar_cli.workspace.store import ObjectStore
from gagar_cli.workspace.view import BASE, Workspace

Files = Mapping[str, Mapping[str, bytes | None]]


def plant(
    workspace: Workspace,
    folder: Path,
    extra: Files,
    on: str,
    names: Mapping[str, str] | None = None,
) -> Workspace:
    """Write a workspace that holds all candidates of another, and more; return it opened.

    extra: by label, the files that differ from those of the candidate `on`, None for one that is
    gone; a file that is there keeps its mode. on: a label of the given workspace. names: the label
    in the new workspace of each candidate of the given one, the same by default. Labels are
    letters, as `ranking.labels` gives them.

    Only what `Workspace` reads is written, into `folder`; objects go into the store that the given
    workspace uses, and stay there. A workspace without a repository, a candidate without files, or
    a path outside of the tree raises SourceError; two candidates of one label raise DataError.
    """
    names = names or {label: label for label in workspace.candidates}
    original = workspace.candidates.get(on)
    if not workspace.has_trees or workspace.base_tree is None:
        raise SourceError(
            f"workspace {workspace.folder}", "this group has no repository to plant in"
        )
    if original is None or original.tree is None:
        raise SourceError(f"candidate {on!r}", "has no files to plant on")
    taken = set(names.values())
    if len(taken) < len(names) or taken & extra.keys():
        raise DataError(f"workspace {workspace.folder}", "got a label for two candidates")
    manifest = json.loads((workspace.folder / "group.json").read_text())
    store = ObjectStore((workspace.folder.parent / manifest["store"]).resolve())
    candidates = {new: replace(workspace.candidates[old], label=new) for old, new in names.items()}
    (folder / "candidates").mkdir(parents=True, exist_ok=True)
    for old, new in names.items():
        (folder / "candidates" / f"{new}.diff").write_bytes(workspace.raw_diff(old))
    for label, files in extra.items():
        tree = _tree_with(store, original.tree, files)
        diff = store.diff(workspace.base_tree, tree)
        (folder / "candidates" / f"{label}.diff").write_bytes(diff)
        candidates[label] = _planted(original, label, tree, diff)
    shutil.copyfile(workspace.folder / "TASK.md", folder / "TASK.md")
    ordered = sorted(candidates.values(), key=lambda c: (len(c.label), c.label))
    planted = {
        # Beside the folder there is no store; a path from the root is taken as it is.
        "store": str(store.path),
        "base": workspace.base_tree,
        "files": str(workspace.base_folder),
        "absent": manifest["absent"],
        "candidates": {candidate.label: asdict(candidate) for candidate in ordered},
    }
    (folder / "group.json").write_text(json.dumps(planted, indent=1))
    return Workspace.open(folder)


def _planted(original: Candidate, label: str, tree: str, diff: bytes) -> Candidate:
    """Return a candidate that nothing but its diff tells from the one that it was made of."""
    facts = read_diff(diff)
    return replace(
        original,
        label=label,
        tree=tree,
        files_changed=len(facts.files),
        lines_added=facts.lines_added,
        lines_removed=facts.lines_removed,
    )


def _tree_with(store: ObjectStore, tree: str, files: Mapping[str, bytes | None]) -> str:
    """Store a tree with some of its files replaced, added or gone."""
    if not files:
        return tree
    there = {readable(entry.path): entry for entry in store.entries(tree)}
    names = {path: there[path].path if path in there else os.fsencode(path) for path in files}
    contents = {names[path]: text for path, text in files.items() if text is not None}
    modes = {names[path]: there[path].mode for path in files if path in there}
    lines = [
        f"0 {'0' * len(tree)}\t".encode() + names[path]
        for path, text in files.items()
        if text is None
    ]
    for name, oid in store.write_blobs(contents).items():
        lines.append(f"{modes.get(name, '100644')} {oid}\t".encode() + name)
    feed = b"".join(line + b"\0" for line in lines)
    with store.index_of(tree) as index:
        put = store.git("update-index", "-z", "--index-info", index=index, stdin=feed)
        if put.status or put.stderr:  # a path outside of the tree is only told of, and left out
            raise SourceError("planted files", put.stderr or f"git update-index: {put.status}")
        # Most objects are only borrowed, and a command that writes does not see them.
        written = store.must("write-tree", "--missing-ok", index=index, writes=True)
    return written.decode().strip()


def candidate_files(workspace: Workspace, label: str) -> CandidateFiles:
    """Return a candidate's files as degradations take them.

    What could not be put back as it was is left out, with its base: text that is not UTF-8, or
    that does not end with a line, as the target of a link does not.
    """
    base = frozenset(workspace.files(BASE))

    def read_base(path: str) -> str | None:
        if path not in base:
            return None
        try:
            return _text(workspace.read(BASE, path))
        except SourceError:
            return None  # a submodule, or a blob that a partial clone lacks

    texts = {path: _text(workspace.read(label, path)) for path in workspace.touched(label)}
    changed = {path: text for path, text in texts.items() if text is not None}
    named = {path for file in workspace.facts(label).files for path in (file.path, file.old_path)}
    return CandidateFiles(base - (named - changed.keys()), read_base, changed)


def _text(raw: bytes) -> str | None:
    if b"\0" in raw or not raw.endswith(b"\n"):
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def encoded(edits: Mapping[str, str | None]) -> dict[str, bytes | None]:
    """Return the files of a degradation as they are stored."""
    return {path: None if text is None else text.encode() for path, text in edits.items()}
