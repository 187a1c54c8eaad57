"""A throw-away bare object store that borrows a source repository's objects.

Trees of candidates are made here, through temporary indexes, so that the source repository is
never written and no work tree is needed. It has no refs, remotes or reflogs.

What is made lies in a folder of its own, `made`, and is written without sight of the source: git
would set the time of a source file whose object it meant to write again.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from gagar_cli.errors import SourceError
from gagar_cli.workspace.talking import Talk, talking
from gagar_cli.workspace.trees import TreeMaker
from gagar_cli.workspace.walking import content_of, file_of

# Settings and attributes of the user or of the rollouts' trees must not change what is read or
# written: no filters, no line-end conversion, no external diff, no links made on disk.
_CONFIG = """\
[core]
\trepositoryformatversion = {version}
\tbare = true
\tautocrlf = false
\tsymlinks = false
\tquotePath = false
\tfsmonitor = false
[gc]
\tauto = 0
[diff]
\tnoprefix = false
\tmnemonicPrefix = false
{extensions}"""
_ATTRIBUTES = "* !diff !merge -text -eol -crlf -ident -filter -working-tree-encoding\n"
_MADE = "made"
_Key = TypeVar("_Key", bytes, str)
# What git is told through the environment, as inside a hook, must not reach ours; how to reach
# a server may.
_KEPT_VARIABLES = ("GIT_ASKPASS", "GIT_EXEC_PATH", "GIT_HTTP", "GIT_PROXY", "GIT_SSH", "GIT_SSL")
_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",  # English messages, and patterns that count letters, not bytes
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_READ = ("cat-file", "--batch")
_DIFF = ("diff-tree", "-r", "-p", "-M", "--no-ext-diff", "--no-textconv", "--no-color")
_RAW = ("diff-tree", "-r", "-z", "--raw", "--no-renames")
_LISTED = re.compile(rb"(\d+) \w+ ([0-9a-f]+)\t([^\0]*)\0")
_ABSENT = re.compile(r"error: unable to read sha1 file of (.*) \([0-9a-f]+\)")


@dataclass(frozen=True, slots=True)
class Output:
    """What a git command did: exit status, standard output, standard error."""

    status: int
    stdout: bytes
    stderr: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a tree; `path` is the raw bytes that git keeps."""

    path: bytes
    mode: str
    oid: str


@dataclass(frozen=True, slots=True)
class TreeChange:
    """A path that differs between two trees; a side that is not there is None."""

    path: bytes
    old: Entry | None
    new: Entry | None


def run_git(
    arguments: Sequence[str],
    *,
    git_dir: Path | None = None,
    env: Mapping[str, str] = MappingProxyType({}),
    stdin: bytes | None = None,
) -> Output:
    """Run git without the user's or the system's configuration and without prompts."""
    try:
        from git import Git  # noqa: PLC0415  importing it runs git and fails without one
    except ImportError as error:
        raise SourceError("git", "got no git program on PATH", "install git") from error

    environment = {**_ENVIRONMENT, **({"GIT_DIR": str(git_dir)} if git_dir else {}), **env}
    unset = [f"--unset={n}" for n in os.environ if _is_foreign(n) and n not in environment]
    command = [*(["env", *unset] if unset else []), "git", *arguments]
    with tempfile.TemporaryFile() as feed:
        if stdin is not None:
            feed.write(stdin)
            feed.seek(0)
        status, stdout, stderr = Git(str(git_dir or Path.cwd())).execute(
            command,
            istream=feed,
            env=environment,
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            strip_newline_in_stdout=False,
        )
    text = stderr.decode("utf-8", "replace") if isinstance(stderr, bytes) else str(stderr)
    return Output(int(status), bytes(stdout), text.strip())


def _is_foreign(name: str) -> bool:
    return name.startswith("GIT_") and not name.startswith(_KEPT_VARIABLES)


def publish(new: Path, place: Path, is_whole: Callable[[], bool]) -> None:
    """Put a finished folder in its place at once.

    What is there already stays where it is whole: another process has made the same meanwhile,
    and may be using it.
    """
    try:
        new.rename(place)
    except OSError:
        if not is_whole():
            shutil.rmtree(place, ignore_errors=True)
            new.rename(place)
    shutil.rmtree(new, ignore_errors=True)


def _alternates(store: Path) -> str | None:
    """Return which object folders a store borrows from; None where it is not there or not whole."""
    try:
        return (store / "objects" / "info" / "alternates").read_text()
    except OSError:
        return None


class ObjectStore:
    """A bare store at a path; its methods name trees and blobs by object id."""

    def __init__(self, path: Path) -> None:
        """Open a store that exists."""
        self.path = path

    @classmethod
    def create(
        cls, path: Path, borrowed: Path | None, object_format: str = "sha1"
    ) -> "ObjectStore":
        """Make a store that borrows the objects in the folder `borrowed`; keep one that does."""
        alternates = f"../{_MADE}\n{borrowed}\n" if borrowed else ""
        if _alternates(path) == alternates:
            return cls(path)
        new = path.with_name(f".{path.name}.{os.getpid()}")
        shutil.rmtree(new, ignore_errors=True)
        (new / "objects" / "info").mkdir(parents=True)
        for name in ("refs", "info", _MADE):
            (new / name).mkdir()
        (new / "HEAD").write_text("ref: refs/heads/none\n")
        sha256 = object_format != "sha1"
        extensions = f"[extensions]\n\tobjectFormat = {object_format}\n" if sha256 else ""
        (new / "config").write_text(_CONFIG.format(version=int(sha256), extensions=extensions))
        (new / "info" / "attributes").write_text(_ATTRIBUTES)
        (new / "objects" / "info" / "alternates").write_text(alternates)
        publish(new, path, lambda: _alternates(path) == alternates)
        return cls(path)

    def git(
        self,
        *arguments: str,
        index: Path | None = None,
        stdin: bytes | None = None,
        writes: bool = False,
    ) -> Output:
        """Run git in the store; one that `writes` objects sees none of the borrowed ones."""
        env = {"GIT_INDEX_FILE": str(index)} if index else {}
        if writes:
            env["GIT_OBJECT_DIRECTORY"] = str(self.path / _MADE)
        return run_git(arguments, git_dir=self.path, env=env, stdin=stdin)

    def must(
        self,
        *arguments: str,
        index: Path | None = None,
        stdin: bytes | None = None,
        writes: bool = False,
    ) -> bytes:
        """Run git in the store and return its output; a failure raises SourceError."""
        output = self.git(*arguments, index=index, stdin=stdin, writes=writes)
        if output.status:
            name = next(word for word in arguments if not word.startswith("-"))
            raise SourceError(
                f"git {name} in {self.path}", output.stderr or f"exit {output.status}"
            )
        return output.stdout

    def tree_of(self, commit: str) -> str | None:
        """Return the tree of a commit, or None where the store cannot reach it."""
        # A name such as "main" or "HEAD~3" must not resolve: only ids say which commit it was.
        if not (commit.isascii() and commit.isalnum()):
            return None
        output = self.git("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")
        return output.stdout.decode().strip() if output.status == 0 else None

    def has(self, oids: Iterable[str]) -> bool:
        """Whether all of these objects are here or borrowed."""
        feed = "".join(f"{oid}\n" for oid in oids).encode()
        output = self.git("cat-file", "--batch-check", stdin=feed)
        return output.status == 0 and b"missing" not in output.stdout

    @contextmanager
    def index_of(self, tree: str) -> Iterator[Path]:
        """Lend a temporary index file that holds a tree."""
        with tempfile.TemporaryDirectory(prefix="gagar-index-") as folder:
            index = Path(folder) / "index"
            self.must("read-tree", tree, index=index)
            yield index

    def entries(self, tree: str) -> list[Entry]:
        """List all files of a tree."""
        listed = _LISTED.findall(self._listed(tree))
        return [Entry(path, mode.decode(), oid.decode()) for mode, oid, path in listed]

    def paths(self, tree: str, modes: Container[bytes]) -> list[bytes]:
        """List the paths of a tree's files of these modes, by far faster than all entries."""
        return [path for mode, _, path in _LISTED.findall(self._listed(tree)) if mode in modes]

    def _listed(self, tree: str) -> bytes:
        return self.must("ls-tree", "-r", "-z", "--full-tree", tree)

    def changes(self, old: str, new: str) -> list[TreeChange]:
        """List the paths in which two trees differ; renames are an old and a new path."""
        return _changes(self._difference(_RAW, old, new))

    def index_changes(self, old: str, index: Path) -> list[TreeChange]:
        """List the paths in which an index differs from a tree."""
        command = ("diff-index", "--cached", "--raw", "-z", "--no-renames", old)
        return _changes(self.must(*command, index=index))

    def tree_with(self, base: str, changes: Iterable[TreeChange]) -> str:
        """Store the tree that changes make of the tree `base`; return its id."""
        puts = [(c.path, (c.new.mode.encode(), c.new.oid) if c.new else None) for c in changes]
        if not puts:
            return base
        with self._talking(*_READ) as git:

            def read(tree: str) -> bytes:
                content = content_of(git, tree)
                if content is None:
                    raise SourceError(f"tree {tree}", "got none in the repository")
                return content

            return TreeMaker(read, self.path / _MADE, len(base)).changed(base, puts)

    def diff(self, old: str, new: str, paths: Sequence[bytes] = ()) -> bytes:
        """Return the git-form diff of two trees, with renames found, for all or some paths."""
        if not paths:
            return self._difference(_DIFF, old, new)
        names = (os.fsdecode(path) for path in paths)
        return self.must("--literal-pathspecs", *_DIFF, old, new, "--", *names)

    def _difference(self, command: tuple[str, ...], old: str, new: str) -> bytes:
        if old == new:
            return b""
        try:
            with self._talking(*command, "--stdin") as git:
                return git.difference(old, new)
        except OSError:
            return self.must(*command, old, new)  # which tells what is wrong

    def _talking(self, *arguments: str) -> AbstractContextManager[Talk]:
        return talking(self.path, arguments, self._environment)

    def _environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not _is_foreign(name)}
        return own | _ENVIRONMENT | {"GIT_DIR": str(self.path)}

    def blobs(self, oids: Iterable[str]) -> dict[str, bytes]:
        """Read blobs in one go; one that is not there raises SourceError."""
        wanted = list(oids)
        blobs = self.present_blobs(wanted)
        if len(blobs) < len(set(wanted)):  # one who has run for long may have missed some
            blobs = self._present_blobs_apart(wanted)
        absent = next((oid for oid in wanted if oid not in blobs), None)
        if absent:
            raise SourceError(f"object {absent}", "got none in the repository, expected a blob")
        return blobs

    def file(self, tree: str, path: bytes) -> bytes | None:
        """Return the content of a tree's file, by way of its folders; None where there is none.

        A link gives its target; a submodule gives None, and so does what is a folder.
        """
        try:
            with self._talking(*_READ) as git:
                return file_of(git, tree, path)
        except OSError:
            return None

    def borrow(self, oids: Iterable[str]) -> None:
        """Copy blobs, where they are there, to where commands that write see them."""
        self.write_blobs(self.present_blobs(oids))

    def present_blobs(self, oids: Iterable[str]) -> dict[str, bytes]:
        """Read those blobs that are there, in one go; short ids are fine where they are unique."""
        wanted = list(dict.fromkeys(oids))
        if not wanted:
            return {}
        try:
            with self._talking(*_READ) as git:
                return {oid: raw for oid, kind, raw in git.objects(wanted) if kind == "blob"}
        except OSError:
            return self._present_blobs_apart(wanted)

    def _present_blobs_apart(self, wanted: Sequence[str]) -> dict[str, bytes]:
        blobs: dict[str, bytes] = {}
        feed = "".join(f"{oid}\n" for oid in wanted).encode()
        out = self.must(*_READ, stdin=feed)
        position = 0
        for oid in wanted:
            end = out.index(b"\n", position)
            header = out[position:end].split(b" ")
            position = end + 1
            if len(header) != 3:  # noqa: PLR2004  "<oid> missing" rather than "<oid> blob <size>"
                continue
            size = int(header[2])
            if header[1] == b"blob":
                blobs[oid] = out[position : position + size]
            position += size + 1
        return blobs

    def write_blobs(self, contents: Mapping[_Key, bytes]) -> dict[_Key, str]:
        """Store blobs, as they are, and return the object id of each key."""
        if not contents:
            return {}
        with tempfile.TemporaryDirectory(prefix="gagar-blobs-") as folder:
            paths = [Path(folder) / str(number) for number in range(len(contents))]
            for path, content in zip(paths, contents.values(), strict=True):
                path.write_bytes(content)
            feed = "".join(f"{path}\n" for path in paths).encode()
            out = self.must(
                "hash-object", "-w", "--no-filters", "--stdin-paths", stdin=feed, writes=True
            )
        return dict(zip(contents, out.decode().split(), strict=True))

    def write_files(self, index: Path, folder: Path) -> tuple[str, ...]:
        """Write all files of an index into a folder that exists.

        Returns the paths whose content the source repository does not have, as in a partial
        clone; they are left out. Any other failure raises SourceError.
        """
        output = run_git(
            ["checkout-index", "--all", "--force", "--quiet", f"--prefix={folder.resolve()}/"],
            git_dir=self.path,
            env={"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(folder.resolve())},
        )
        if output.status == 0:
            return ()
        lines = output.stderr.splitlines()
        absent = [match[1] for line in lines if (match := _ABSENT.fullmatch(line))]
        if not absent or len(absent) < len(lines):
            raise SourceError(f"git checkout-index into {folder}", output.stderr)
        return tuple(absent)


def _changes(raw: bytes) -> list[TreeChange]:
    """Read what git prints with --raw and -z."""
    fields = raw.split(b"\0")
    changes = []
    for meta, path in zip(fields[:-1:2], fields[1::2], strict=True):
        old_mode, new_mode, old_oid, new_oid, _ = meta.decode().lstrip(":").split(" ")
        changes.append(
            TreeChange(
                path,
                Entry(path, old_mode, old_oid) if int(old_mode, 8) else None,
                Entry(path, new_mode, new_oid) if int(new_mode, 8) else None,
            )
        )
    return changes
