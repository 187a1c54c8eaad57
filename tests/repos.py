"""Small real git repositories, and patches from them, for tests."""

import hashlib
import os
import subprocess
from pathlib import Path

from gagar_cli.options import AssembleOptions, Checkout
from gagar_cli.workspace.build import GroupPatches, build_workspace
from gagar_cli.workspace.repositories import RepositoryFinder
from gagar_cli.workspace.view import Workspace

SETTINGS = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "gc.auto=0")


def git(folder, *arguments, stdin=None, env=None, check=True):
    """Run git in a folder, away from the user's settings; return its standard output."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *SETTINGS, *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        env={
            **clean,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
            "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
            **(env or {}),
        },
        check=False,
    )
    if check:
        assert done.returncode == 0, (arguments, done.stderr.decode())
    return done.stdout


def put(folder, files):
    """Write files, {path: text or bytes}; None deletes, a Path makes a symbolic link to it."""
    for path, content in files.items():
        target = Path(folder) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink() or content is None:
            target.unlink()
        if isinstance(content, Path):
            target.symlink_to(content)
        elif content is not None:
            target.write_bytes(content.encode() if isinstance(content, str) else content)


def commit(folder, files, message="work"):
    """Write files and commit everything; return the commit's id."""
    put(folder, files)
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return head(folder)


def head(folder):
    return git(folder, "rev-parse", "HEAD").decode().strip()


def make(folder, files):
    """Make a repository with one commit; return its folder and the commit's id."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    return folder, commit(folder, files)


def changed(folder, files, *options):
    """Return the diff of changes to the work tree, which is put back as it was."""
    put(folder, files)
    return changes(folder, *options)


def changes(folder, *options):
    """Return the diff of the work tree as it stands; then put the work tree back."""
    git(folder, "add", "-A", "-f")
    diff = git(folder, "diff", "--cached", "-M", *options)
    git(folder, "reset", "-q", "--hard")
    git(folder, "clean", "-q", "-f", "-d", "-x")
    return diff


def numbered(count=30, word="line"):
    """Return numbered lines of text."""
    return "".join(f"{word} {n}\n" for n in range(1, count + 1))


def find(path, cache=None):
    """Find the repository at a path."""
    return RepositoryFinder([path.parent], cache or path.parent / "cache").find(path.name)


def build(root, patches, source=None, base=None, **options):
    """Build the workspace of {rollout: patch}, or of one; `source` is a path or a Repository."""
    patches = patches if isinstance(patches, dict) else {"r": patches}
    options["checkout"] = Checkout(options.get("checkout", "touched"))
    group = GroupPatches(
        group_id=options.pop("group", "task-1"),
        problem_statement=options.pop("text", "Fix it."),
        rollout_ids=list(patches),
        patches=lambda: list(patches.values()),
        repository=find(source) if isinstance(source, Path) else source,
        base_commit=base,
    )
    return build_workspace(group, AssembleOptions(root=str(root), **options))


def opened(built):
    """Open a workspace; return it with the label of each rollout."""
    labels = {rollout: candidate.label for rollout, candidate in built.candidates.items()}
    return Workspace.open(built.folder), labels


def tree_files(folder):
    """Return {path: bytes} of a folder; a link counts by its target."""
    return {
        os.fsencode(path.relative_to(folder)): (
            b"-> " + os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        )
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def fingerprint(folder):
    """Return name, size, time of change and hash of everything in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        digest = hashlib.sha256(content).hexdigest()
        found[str(path.relative_to(folder))] = (state.st_mode, state.st_mtime_ns, digest)
    return found


def checked_out(source, base, patch, folder):
    """Return {path: bytes} of a real checkout of `base` after `git apply` of the patch."""
    git(source.parent, "clone", "-q", "--no-checkout", str(source), str(folder))
    git(folder, "checkout", "-q", base)
    if patch:
        git(folder, "apply", "--index", "--whitespace=nowarn", "-", stdin=patch)
    files = tree_files(folder)
    return {path: content for path, content in files.items() if not path.startswith(b".git/")}
