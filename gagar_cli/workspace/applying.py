"""Put a patch on a tree the way the usual verifiers do, and say how it went.

From strict to lenient; the first that works counts:

    applied        git apply; edges cleaned; line ends of the patch made LF; hunk counts put right
    applied-3way   git apply --3way, for context that moved, with the blobs that the diff names
    applied-fuzz   less context; in reverse; without a/ and b/; without binaries that carry no
                   data; `patch --fuzz=5` where that program is installed
    empty          nothing to apply
    refused        it would write outside the tree or into .git; nothing lenient is tried
    failed         none of these; prose instead of a diff
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gagar_cli.patches import (
    SUBMODULE_MODE,
    SYMLINK_MODE,
    has_prefixes,
    is_diff,
    named_paths,
    preimages,
    recounted,
    with_clean_edges,
    without_dataless_binaries,
)
from gagar_cli.workspace.store import Entry, ObjectStore, Output

_REFUSALS = ("invalid path", "beyond a symbolic link")
_UNREAD = ("failed to read", "cannot read the current contents")
_FUZZ_SECONDS = 60
_NAME_BYTES, _PATH_BYTES = 255, 1024  # git keeps longer ones, disks do not
# `patch` takes such a line, outside of hunks as it counts them, for a script for `ed`.
_ED_COMMAND = re.compile(rb"^[ \tX]*\d[\d,]*[acd]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Applied:
    """How a patch went on; `tree` is None unless there is a result."""

    status: str
    detail: str
    tree: str | None


@dataclass(frozen=True, slots=True)
class _Attempt:
    status: str
    detail: str
    patch: bytes
    options: tuple[str, ...] = ()


def borrow_named(store: ObjectStore, base: str, patches: Iterable[bytes | None]) -> None:
    """Copy into the store what the patches start from: blobs of the tree `base`, and by id."""
    diffs = [with_clean_edges(raw) for raw in patches if raw]
    named = {path for raw in diffs for strip in (0, 1) for path in named_paths(raw, strip)}
    here = [e.oid for e in store.entries(base) if e.path in named and e.mode != SUBMODULE_MODE]
    store.borrow([*here, *(oid for raw in diffs for oid in preimages(raw))])


def apply_patch(store: ObjectStore, base: str, base_index: Path, raw: bytes | None) -> Applied:
    """Apply `raw` to the tree `base`, whose index is given, and store the resulting tree.

    What it starts from should have been borrowed.
    """
    if raw is None or not raw.strip():
        return Applied("empty", "no patch" if raw is None else "", base)
    if not is_diff(raw):
        return Applied("failed", "prose instead of a diff", None)
    first_error = ""
    with tempfile.TemporaryDirectory(prefix="gagar-apply-") as folder:
        index = Path(folder) / "index"
        for attempt in _attempts(raw):
            shutil.copyfile(base_index, index)
            output = _git_apply(store, index, attempt)
            if any(unread in output.stderr for unread in _UNREAD):
                # git reads a name in a header that `borrow_named` reads otherwise.
                store.borrow(e.oid for e in store.entries(base) if e.mode != SUBMODULE_MODE)
                output = _git_apply(store, index, attempt)
            if output.status == 0:
                changes = store.index_changes(base, index)
                if any(_is_too_long(change.path) for change in changes):
                    return Applied("refused", "names a path that is too long for a disk", None)
                tree = store.tree_with(base, changes)
                # Changing nothing is a success only of a diff that says so by itself.
                if tree != base or attempt.status == "applied":
                    return Applied(attempt.status, attempt.detail, tree)
            first_error = first_error or _first_line(output.stderr)
            if any(refusal in output.stderr for refusal in _REFUSALS):
                return Applied("refused", _first_line(output.stderr), None)
        patched = _apply_with_fuzz(store, base, base_index, with_clean_edges(raw), Path(folder))
    return patched or Applied("failed", first_error or "does not apply", None)


def _git_apply(store: ObjectStore, index: Path, attempt: _Attempt) -> Output:
    options = ("--cached", "--whitespace=nowarn", *attempt.options)
    return store.git("apply", *options, "-", index=index, stdin=attempt.patch, writes=True)


def _attempts(raw: bytes) -> Iterator[_Attempt]:
    yield _Attempt("applied", "", raw)
    patch = with_clean_edges(raw)
    note = ""
    if patch != raw:
        note = "edges cleaned"
        yield _Attempt("applied", note, patch)
    if _is_crlf(patch):
        patch = patch.replace(b"\r\n", b"\n")
        note = "line ends of the patch made LF"
        yield _Attempt("applied", note, patch)
    right = recounted(patch)
    if right != patch:
        yield _Attempt("applied", "hunks recounted", right)
    yield _Attempt("applied", "hunks recounted", patch, ("--recount",))
    yield _Attempt("applied-3way", note, patch, ("--3way",))
    yield _Attempt("applied-fuzz", "in reverse", patch, ("--recount", "-R"))
    if not has_prefixes(patch):
        yield _Attempt("applied-fuzz", "paths without a/ and b/", patch, ("--recount", "-p0"))
    partial, left_out = without_dataless_binaries(patch)
    if left_out and is_diff(partial):
        what = f"{left_out} binary file{'s' * (left_out > 1)} without data left out"
        yield _Attempt("applied-fuzz", what, partial, ("--recount",))
    yield _Attempt(
        "applied-fuzz", "white space ignored", patch, ("--recount", "--ignore-whitespace")
    )
    yield _Attempt("applied-fuzz", "one line of context", patch, ("--recount", "-C1"))


def _is_too_long(path: bytes) -> bool:
    return len(path) > _PATH_BYTES or any(len(p) > _NAME_BYTES for p in path.split(b"/"))


def _is_crlf(patch: bytes) -> bool:
    # The last line may have lost its end, as stripped text does.
    lines = patch.split(b"\n")[:-2]
    return bool(lines) and all(line.endswith(b"\r") for line in lines)


def _apply_with_fuzz(
    store: ObjectStore, base: str, base_index: Path, patch: bytes, scratch: Path
) -> Applied | None:
    """Run `patch --fuzz=5` on copies of the touched files; None where that does not work."""
    program = shutil.which("patch")
    # Links and submodules are never made on disk, so a patch that has any is not for this.
    special = f"mode {SYMLINK_MODE}".encode() in patch or f"mode {SUBMODULE_MODE}".encode() in patch
    paths = named_paths(patch)
    unsafe = _ED_COMMAND.search(patch) or any(_leaves_tree(path) for path in paths)
    if program is None or special or unsafe:
        return None
    wanted = set(paths)
    before = {e.path: e for e in store.entries(base) if e.path in wanted}
    if any(entry.mode in {SYMLINK_MODE, SUBMODULE_MODE} for entry in before.values()):
        return None
    contents = store.present_blobs(entry.oid for entry in before.values())
    if any(entry.oid not in contents for entry in before.values()):
        return None  # a partial clone
    tree = scratch / "tree"
    tree.mkdir()
    for entry in before.values():
        target = tree / os.fsdecode(entry.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(contents[entry.oid])
        target.chmod(int(entry.mode[-3:], 8))
    file = scratch / "patch"
    file.write_bytes(patch)
    options = ("--batch", "--fuzz=5", "-p1", "--no-backup-if-mismatch", "-r", "-")
    try:
        done = subprocess.run(
            [program, *options, "-i", file],
            cwd=tree,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_FUZZ_SECONDS,
            check=False,
            # No PATH: `patch` would have `ed` or a version control system at its service.
            env={"PATH": str(scratch / "none"), "LC_ALL": "C", "TMPDIR": str(scratch)},
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        return None
    result = _store_folder(store, base, base_index, before, tree, scratch / "index")
    return Applied("applied-fuzz", "patch --fuzz=5", result) if result != base else None


def _store_folder(  # noqa: PLR0913
    store: ObjectStore,
    base: str,
    base_index: Path,
    before: dict[bytes, Entry],
    folder: Path,
    index: Path,
) -> str:
    """Store the base tree with the files of `folder` in place of `before`."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    after = {os.fsencode(path.relative_to(folder)): path.read_bytes() for path in files}
    zero = "0" * len(next((e.oid for e in before.values()), "0" * 40))
    lines = [f"0 {zero}\t".encode() + path for path in before if path not in after]
    for path, oid in store.write_blobs(after).items():
        runs = (folder / os.fsdecode(path)).stat().st_mode & 0o100
        lines.append(f"{'100755' if runs else '100644'} {oid}\t".encode() + path)
    shutil.copyfile(base_index, index)
    store.must(
        "update-index", "-z", "--index-info", index=index, stdin=b"".join(x + b"\0" for x in lines)
    )
    return store.tree_with(base, store.index_changes(base, index))


def _leaves_tree(path: bytes) -> bool:
    parts = path.split(b"/")
    return path.startswith(b"/") or b".." in parts or any(p.lower() == b".git" for p in parts)


def _first_line(message: str) -> str:
    lines = [line.removeprefix("error: ") for line in message.splitlines() if line.strip()]
    return lines[0][:200] if lines else ""
