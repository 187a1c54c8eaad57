"""Write a group's workspace: the task, the base tree, and every candidate beside it.

    <root>/<group>-<hash>/
        TASK.md              the problem statement
        base/                the base tree, once
        candidates/A/        the files that candidate A touches (or all, with Checkout.FULL)
        candidates/A.diff    what A changes; as submitted where it does not apply
        group.json           trees by object id, and each candidate's status
    <root>/.objects/         one object store per repository, shared by its groups

No history, remotes or reflogs come along: they would leak the reference fix. Nothing in a
workspace says which rollout a candidate is, or whether it passed.
"""

import glob
import hashlib
import json
import os
import random
import re
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gagar_cli.errors import DataError
from gagar_cli.options import AssembleOptions, Checkout
from gagar_cli.patches import (
    SUBMODULE_MODE,
    PatchFacts,
    is_diff,
    read_diff,
    recounted,
    with_clean_edges,
)
from gagar_cli.ranking import labels
from gagar_cli.workspace.applying import Applied, apply_patch, borrow_named
from gagar_cli.workspace.repositories import Repository
from gagar_cli.workspace.store import ObjectStore, TreeChange, publish

LAYOUT = 1  # raise when what stands in a workspace changes; older ones are then made anew


@dataclass(frozen=True, slots=True)
class GroupPatches:
    """What a workspace is made of. `patches` is called for the patch of each rollout, in order."""

    group_id: str
    problem_statement: str
    rollout_ids: Sequence[str]
    patches: Callable[[], Sequence[bytes | None]]
    repository: Repository | None = None
    base_commit: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One rollout in its workspace. Counts are None where the diff cannot be read."""

    label: str
    status: str
    detail: str
    tree: str | None
    files_changed: int | None
    lines_added: int | None
    lines_removed: int | None


@dataclass(frozen=True, slots=True)
class Built:
    """A workspace: its folder, the candidate of each rollout, and whether it was there already.

    absent: paths of the base tree whose content the source repository does not have.
    """

    folder: Path
    candidates: dict[str, Candidate]
    absent: tuple[str, ...]
    kept: bool


def folder_name(group_id: str, content: str) -> str:
    """Return a safe folder name: a readable form of the id plus a short hash of id and content.

    The same task comes back in every step of a training run; a file of an earlier step must go on
    naming its own workspace, and never find another's patches there.
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", group_id).strip("._-") or "group"
    digest = hashlib.sha256(b"\0".join((group_id.encode(), content.encode()))).hexdigest()
    return f"{safe[:60]}-{digest[:12]}"


def draw_labels(group_id: str, rollout_ids: Sequence[str], seed: int) -> dict[str, str]:
    """Draw an anonymous label for each rollout, by group and seed, whatever their order."""
    ordered = sorted(rollout_ids)
    random.Random(f"{seed}\0{group_id}").shuffle(ordered)  # noqa: S311  anonymity, not secrecy
    return dict(zip(ordered, labels(len(ordered)), strict=True))


def build_workspace(group: GroupPatches, options: AssembleOptions) -> Built:
    """Write the workspace of one group.

    A workspace that holds just this already is kept. One bad patch loses nobody else's. The
    folder appears whole or not at all.
    """
    root = Path(options.root).resolve()
    names = draw_labels(group.group_id, group.rollout_ids, options.seed)
    patches = dict(zip(group.rollout_ids, group.patches(), strict=True))
    fingerprint = _fingerprint(group, names, patches, options)
    folder = root / folder_name(group.group_id, fingerprint)
    manifest = _read_kept(folder, fingerprint)
    if manifest is not None:
        by_label = {k: Candidate(**fields) for k, fields in manifest["candidates"].items()}
        kept = {rollout: by_label[label] for rollout, label in names.items()}
        return Built(folder, kept, tuple(manifest["absent"]), kept=True)

    new = root / f".{folder.name}.{os.getpid()}"
    _clear_abandoned(root, folder.name)
    (new / "candidates").mkdir(parents=True)
    absent: tuple[str, ...] = ()
    (new / "TASK.md").write_text(group.problem_statement, encoding="utf-8", errors="replace")
    try:
        if group.repository is None:
            store, base = None, None
            candidates = {r: _from_diff(names[r], patches[r], new) for r in group.rollout_ids}
        else:
            store = _open_store(root, group.repository)
            base = base_tree(store, group.repository, group.group_id, group.base_commit)
            candidates, absent = _from_trees(store, base, names, patches, new, options.checkout)
        manifest = {
            "layout": LAYOUT,
            "fingerprint": fingerprint,
            "store": os.path.relpath(store.path, root) if store else None,
            "base": base,
            "absent": absent,
            "candidates": {c.label: asdict(c) for c in sorted(candidates.values(), key=_by_label)},
        }
        (new / "group.json").write_text(json.dumps(manifest, indent=1))
        publish(new, folder, lambda: _read_kept(folder, fingerprint) is not None)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return Built(folder, candidates, absent, kept=False)


def _clear_abandoned(root: Path, name: str) -> None:
    """Remove what a process that was killed has left of this workspace."""
    for half in root.glob(f".{glob.escape(name)}.*"):
        pid = int(half.name.rpartition(".")[2])
        if pid == os.getpid() or not _is_alive(pid):
            shutil.rmtree(half, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # somebody else's
    return True


def _by_label(candidate: Candidate) -> tuple[int, str]:
    return len(candidate.label), candidate.label


def _open_store(root: Path, repository: Repository) -> ObjectStore:
    digest = hashlib.sha256(str(repository.objects).encode()).hexdigest()[:8]
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", repository.name)[-40:]
    path = root / ".objects" / f"{safe}-{digest}.git"
    path.parent.mkdir(parents=True, exist_ok=True)
    return ObjectStore.create(path, repository.objects, repository.object_format)


def open_store(root: str, repository: Repository) -> ObjectStore:
    """Return the object store under `root` that borrows a repository; make it where absent."""
    return _open_store(Path(root).resolve(), repository)


def base_tree(store: ObjectStore, repository: Repository, group_id: str, commit: str | None) -> str:
    """Return the tree of a group's base commit; one that is not there raises DataError."""
    tree = store.tree_of(commit or "")
    if tree is None:
        raise DataError(
            f"group {group_id!r}",
            f"got base_commit {commit!r}, expected a commit of repository {repository.name!r}",
            "fetch that commit into the repository, or --missing-repo diffs",
        )
    return tree


def _from_trees(  # noqa: PLR0913
    store: ObjectStore,
    base: str,
    names: dict[str, str],
    patches: dict[str, bytes | None],
    folder: Path,
    checkout: Checkout,
) -> tuple[dict[str, Candidate], tuple[str, ...]]:
    candidates: dict[str, Candidate] = {}
    # Writing the base is most of the work, and waits for the disk.
    with store.index_of(base) as index, ThreadPoolExecutor(1) as pool:
        (folder / "base").mkdir()
        written = pool.submit(store.write_files, index, folder / "base")
        borrow_named(store, base, patches.values())
        for rollout, raw in patches.items():
            applied = apply_patch(store, base, index, raw)
            changes = store.changes(base, applied.tree) if applied.tree else []
            place = folder / "candidates" / names[rollout]
            if applied.tree is None:
                _write_diff(place, raw or b"")
                candidates[rollout] = _candidate(names[rollout], applied, None)
                continue
            diff = store.diff(base, applied.tree)
            _write_diff(place, diff)
            place.mkdir()
            if checkout is Checkout.FULL:
                with store.index_of(applied.tree) as own:
                    store.write_files(own, place)
            else:
                _write_touched(store, changes, place)
            candidates[rollout] = _candidate(names[rollout], applied, diff)
        return candidates, written.result()


def _write_touched(store: ObjectStore, changes: Sequence[TreeChange], place: Path) -> None:
    files = [c.new for c in changes if c.new and c.new.mode != SUBMODULE_MODE]
    contents = store.blobs(entry.oid for entry in files)
    for entry in files:
        target = place / os.fsdecode(entry.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(contents[entry.oid])
        if entry.mode == "100755":
            target.chmod(0o755)


def _from_diff(label: str, raw: bytes | None, folder: Path) -> Candidate:
    """Make a candidate without a repository: only its diff, applied to nothing."""
    patch = with_clean_edges(raw or b"")
    if not patch.strip():
        applied = Applied("empty", "no patch" if raw is None else "", None)
        patch = b""
    elif not is_diff(patch):
        applied = Applied("failed", "prose instead of a diff", None)
    else:
        applied = Applied("diff-only", "no repository", None)
        right = recounted(patch)
        if right != patch:
            applied, patch = Applied("diff-only", "no repository; hunks recounted", None), right
    _write_diff(folder / "candidates" / label, patch)
    return _candidate(label, applied, None if applied.status == "failed" else patch)


def _write_diff(place: Path, diff: bytes) -> None:
    place.with_name(place.name + ".diff").write_bytes(diff)


def _candidate(label: str, applied: Applied, diff: bytes | None) -> Candidate:
    facts: PatchFacts | None = None
    detail = applied.detail
    if diff is not None:
        try:
            facts = read_diff(diff)
        except DataError as error:
            detail = "; ".join(filter(None, (detail, error.problem)))
    return Candidate(
        label=label,
        status=applied.status,
        detail=detail,
        tree=applied.tree,
        files_changed=len(facts.files) if facts else None,
        lines_added=facts.lines_added if facts else None,
        lines_removed=facts.lines_removed if facts else None,
    )


def _fingerprint(
    group: GroupPatches,
    names: dict[str, str],
    patches: dict[str, bytes | None],
    options: AssembleOptions,
) -> str:
    parts = [
        str(LAYOUT),
        options.checkout.value,
        group.problem_statement,
        str(group.repository.objects) if group.repository else "",
        group.base_commit or "",
    ]
    for rollout in sorted(names):
        raw = patches[rollout]
        digest = "null" if raw is None else hashlib.sha256(raw).hexdigest()
        parts += [names[rollout], digest]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read_kept(folder: Path, fingerprint: str) -> dict[str, Any] | None:
    """Return the manifest of a workspace that is whole and holds just this, else None."""
    try:
        manifest: dict[str, Any] = json.loads((folder / "group.json").read_text())
        if manifest["fingerprint"] != fingerprint:
            return None
        candidates = [Candidate(**fields) for fields in manifest["candidates"].values()]
        stored, base = manifest["store"], manifest["base"]
        tuple(manifest["absent"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # not there, or damaged
    files = [folder / "TASK.md", *(folder / "candidates" / f"{c.label}.diff" for c in candidates)]
    if not all(file.is_file() for file in files):
        return None
    if stored:
        store = ObjectStore(folder.parent / stored)
        trees = [c.tree for c in candidates if c.tree]
        if not (folder / "base").is_dir() or not store.path.is_dir():
            return None
        if not store.has([base, *trees]):
            return None
    return manifest
