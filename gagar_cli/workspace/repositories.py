"""Find the repository that a rollout names, and the folder that holds its objects.

A name is looked up, in this order: the `--repo-map`; a URL; then, in each folder of `--repos`,
the name itself, `owner__name`, and the last part, each as it is, with `.git` and with `.bundle`.
Local repositories are only ever read, by path; bundles and URLs are fetched once into the cache.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gagar_cli.errors import OptionError, SourceError
from gagar_cli.workspace.store import ObjectStore, publish, run_git

# Only transports that run no program named by the data; ext:: would.
_URL = re.compile(r"^(?:(?:https?|ssh|git|file)://|[\w.-]+@[\w.-]+:)")
_FETCHED = "fetched"  # stands in a copy that is whole
_PROTOCOLS = "file:git:http:https:ssh"


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository found: what it was called, and its object folder."""

    name: str
    objects: Path
    object_format: str = "sha1"


@dataclass(slots=True)
class RepositoryFinder:
    """Finds repositories by name under `roots`; `mapping` overrides; `cache` keeps fetched ones."""

    roots: Sequence[Path]
    cache: Path
    mapping: Mapping[str, str] = field(default_factory=dict)
    _found: dict[str, Repository] = field(default_factory=dict)

    def find(self, name: str) -> Repository:
        """Return the repository; SourceError says where it was looked for in vain."""
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def _find(self, name: str) -> Repository:
        target = self.mapping.get(name, name)
        if _URL.match(target):
            return self._fetched(name, target, key=target)
        mapped = name in self.mapping
        tried = [Path(target).expanduser()] if mapped else list(self._places(target))
        for path in tried:
            if os.path.isdir(path) and (objects := objects_folder(path)):  # noqa: PTH112  see below
                return Repository(name, objects.resolve(), _object_format(objects.parent))
            if os.path.isfile(path):  # noqa: PTH113  Path.is_file raises where a name is too long
                state = path.stat()
                key = f"{path.resolve()} {state.st_size} {state.st_mtime_ns}"
                return self._fetched(name, str(path.resolve()), key)
        looked = f"at {tried[0]}" if mapped else "under " + ", ".join(map(str, self.roots))
        raise SourceError(
            f"repository {name!r}",
            f"found neither a git repository nor a bundle {looked}",
            f"--repos FOLDER, --repo-map {name}=PATH, or --missing-repo diffs",
        )

    def _places(self, name: str) -> Iterator[Path]:
        spellings = dict.fromkeys((name, name.replace("/", "__"), name.rsplit("/", 1)[-1]))
        for root in self.roots:
            for spelling in filter(None, spellings):
                for suffix in ("", ".git", ".bundle"):
                    yield root / (spelling + suffix)

    def _fetched(self, name: str, source: str, key: str) -> Repository:
        """Fetch a bundle or URL into the cache once; the copy keeps objects, not names."""
        digest = hashlib.sha256(key.encode()).hexdigest()[:12]
        path = self.cache.resolve() / f"{re.sub(r'[^A-Za-z0-9._-]+', '_', name)[-40:]}-{digest}.git"
        if not (path / _FETCHED).exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(f".{path.name}.{os.getpid()}")
            shutil.rmtree(new, ignore_errors=True)
            try:
                _fetch(name, source, new)
                publish(new, path, (path / _FETCHED).exists)
            finally:
                shutil.rmtree(new, ignore_errors=True)
        return Repository(name, (path / "objects").resolve())


def _fetch(name: str, source: str, path: Path) -> None:
    """Fetch all objects of a bundle or URL into a new store; leave no name that leads to any."""
    ObjectStore.create(path, borrowed=None)
    env = {"GIT_ALLOW_PROTOCOL": _PROTOCOLS}
    output = run_git(["ls-remote", "--", source], git_dir=path, env=env)
    # A HEAD that is detached, or alone in its bundle, is under no other reference.
    wanted = ["+refs/*:refs/gagar/*"]
    wanted += ["+HEAD:refs/gagar-head"] * (b"\tHEAD\n" in output.stdout)
    if output.status == 0:
        fetch = ["fetch", "--quiet", "--no-tags", "--", source, *wanted]
        output = run_git(fetch, git_dir=path, env=env)
    if output.status:
        reason = output.stderr.splitlines()[-1] if output.stderr else "git fetch failed"
        raise SourceError(f"repository {name!r}", f"cannot be fetched ({reason})")
    # References lead from the base commit to its fix; ids alone do not.
    shutil.rmtree(path / "refs", ignore_errors=True)
    (path / "refs").mkdir()
    for leftover in ("FETCH_HEAD", "packed-refs", "shallow"):
        (path / leftover).unlink(missing_ok=True)
    (path / _FETCHED).touch()


def objects_folder(path: Path) -> Path | None:
    """Return the object folder of a repository, bare or not, or of a work tree; None elsewhere."""
    if (path / "objects").is_dir() and (path / "HEAD").is_file():
        return path / "objects"
    link = path / ".git"
    if link.is_dir():
        return objects_folder(link)
    if not link.is_file():
        return None
    text = link.read_text(errors="replace").strip()
    git_dir = path / text.removeprefix("gitdir:").strip()
    common = git_dir / "commondir"
    if common.is_file():
        git_dir = git_dir / common.read_text().strip()
    return objects_folder(Path(os.path.normpath(git_dir)))


def _object_format(git_dir: Path) -> str:
    try:
        config = (git_dir / "config").read_text(errors="replace")
    except OSError:
        return "sha1"
    return "sha256" if re.search(r"objectformat\s*=\s*sha256", config, re.IGNORECASE) else "sha1"


def read_repo_map(pairs: Sequence[str]) -> dict[str, str]:
    """Read `name=PATH` pairs."""
    mapping = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            raise OptionError("--repo-map", f"got {pair!r}, expected NAME=PATH")
        mapping[name] = path
    return mapping
