"""A throw-away bare object store that borrows a source repository's objects.

Trees of candidates are made here, through temporary indexes, so that the source repository is
never written and no work tree is needed. It has no refs, remotes or reflogs.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from gagar_cli.errors import SourceError

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

    environment = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": "",
        **(
            {"GIT_DIR": str(git_dir), "GIT_OBJECT_DIRECTORY": f"{git_dir}/objects"}
            if git_dir
            else {}
        ),
        **env,
    }
    command = ["git", *arguments]
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
        alternates = f"{borrowed}\n" if borrowed else ""
        info = path / "objects" / "info"
        try:
            if (info / "alternates").read_text() == alternates:
                return cls(path)
        except OSError:
            pass  # not there yet, or not whole
        new = path.with_name(f".{path.name}.{os.getpid()}")
        shutil.rmtree(new, ignore_errors=True)
        (new / "objects" / "info").mkdir(parents=True)
        (new / "refs").mkdir()
        (new / "info").mkdir()
        (new / "HEAD").write_text("ref: refs/heads/none\n")
        sha256 = object_format != "sha1"
        extensions = f"[extensions]\n\tobjectFormat = {object_format}\n" if sha256 else ""
        (new / "config").write_text(_CONFIG.format(version=int(sha256), extensions=extensions))
        (new / "info" / "attributes").write_text(_ATTRIBUTES)
        (new / "objects" / "info" / "alternates").write_text(alternates)
        shutil.rmtree(path, ignore_errors=True)
        new.rename(path)
        return cls(path)

    def git(self, *arguments: str, index: Path | None = None, stdin: bytes | None = None) -> Output:
        """Run git in the store."""
        env = {"GIT_INDEX_FILE": str(index)} if index else {}
        return run_git(arguments, git_dir=self.path, env=env, stdin=stdin)

    def must(self, *arguments: str, index: Path | None = None, stdin: bytes | None = None) -> bytes:
        """Run git in the store and return its output; a failure raises SourceError."""
        output = self.git(*arguments, index=index, stdin=stdin)
        if output.status:
            raise SourceError(
                f"git {arguments[0]} in {self.path}", output.stderr or f"exit {output.status}"
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
        entries = []
        for record in self.must("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0")[:-1]:
            meta, path = record.split(b"\t", 1)
            mode, _, oid = meta.decode().split(" ")
            entries.append(Entry(path, mode, oid))
        return entries

    def changes(self, old: str, new: str) -> list[TreeChange]:
        """List the paths in which two trees differ; renames are an old and a new path."""
        fields = self.must("diff-tree", "-r", "-z", "--raw", "--no-renames", old, new).split(b"\0")
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

    def diff(self, old: str, new: str, paths: Sequence[bytes] = ()) -> bytes:
        """Return the git-form diff of two trees, with renames found, for all or some paths."""
        return self.must(
            "--literal-pathspecs",
            "diff-tree",
            "-r",
            "-p",
            "-M",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            old,
            new,
            "--",
            *(os.fsdecode(path) for path in paths),
        )

    def blobs(self, oids: Iterable[str]) -> dict[str, bytes]:
        """Read blobs in one go."""
        wanted = list(dict.fromkeys(oids))
        if not wanted:
            return {}
        out = self.must("cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in wanted).encode())
        blobs: dict[str, bytes] = {}
        position = 0
        for oid in wanted:
            end = out.index(b"\n", position)
            header = out[position:end].split(b" ")
            if len(header) != 3:  # noqa: PLR2004  "<oid> missing" rather than "<oid> blob <size>"
                raise SourceError(f"object {oid}", f"got {header[-1].decode()}, expected a blob")
            size = int(header[2])
            blobs[oid] = out[end + 1 : end + 1 + size]
            position = end + 1 + size + 1
        return blobs

    def write_blobs(self, contents: Mapping[bytes, bytes]) -> dict[bytes, str]:
        """Store blobs, as they are, and return the object id of each key."""
        if not contents:
            return {}
        with tempfile.TemporaryDirectory(prefix="gagar-blobs-") as folder:
            paths = [Path(folder) / str(number) for number in range(len(contents))]
            for path, content in zip(paths, contents.values(), strict=True):
                path.write_bytes(content)
            feed = "".join(f"{path}\n" for path in paths).encode()
            out = self.must("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=feed)
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

    def grep(self, tree: str, pattern: str, *, fixed: bool, paths: Sequence[bytes] = ()) -> bytes:
        """Search the text files of a tree; lines are `path NUL line-number NUL text`.

        The pattern is an extended regular expression, or a fixed string. A bad expression raises
        SourceError.
        """
        arguments = ["--literal-pathspecs", "grep", "-I", "-n", "-z", "--full-name", "--no-color"]
        arguments += ["-F" if fixed else "-E", "-e", pattern, tree, "--"]
        output = self.git(*arguments, *(os.fsdecode(path) for path in paths))
        if output.status > 1:
            raise SourceError("search", output.stderr or "git grep failed")
        return output.stdout.replace(f"{tree}:".encode(), b"")
