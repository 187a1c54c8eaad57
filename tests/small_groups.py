"""Small groups in real workspaces, over a real repository, for tests of what grades them."""

import difflib
import os
import subprocess

from gagar_cli.grading.contract import GroupView
from gagar_cli.options import AssembleOptions
from gagar_cli.workspace.build import GroupPatches, build_workspace
from gagar_cli.workspace.repositories import RepositoryFinder
from gagar_cli.workspace.view import Workspace

GROUP_ID = "acme__widgets-863"
TASK = "`add` must take numbers that are written as text."
BASE = {
    "src/add.py": "def add(a, b):\n    return a + b\n",
    "src/long.py": "".join(f"line_{n} = {n}\n" for n in range(1, 1001)),
    "README.md": "Adds.\n",
    "logo.bin": "\0\1\2",
    **{f"data/part{n % 5}/{n:03}.txt": f"{n}\n" for n in range(250)},
}
SMALL = {"src/add.py": "def add(a, b):\n    return float(a) + float(b)\n"}
MIDDLE = {
    "src/add.py": """\
def add(a, b):
    a = float(a)
    b = float(b)
    print(a, b)
    return a + b
"""
}
LARGE = {**MIDDLE, "fix_report.md": "I fixed it.\n" * 20}
WRONG = {"src/add.py": "def add(a, b):\n    return int(a) + int(b)\n"}
HUGE = {**SMALL, "src/table.py": "".join(f"entry_{n} = {n * n}\n" for n in range(3000))}


def repository(folder, files=BASE):
    """Commit files in a new repository; return the commit."""

    def git(*arguments):
        names = ("GIT_AUTHOR", "GIT_COMMITTER")
        who = {f"{n}_{part}": "t@example.org" for n in names for part in ("NAME", "EMAIL")}
        settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        return subprocess.run(
            ["git", *arguments],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, **who, **settings},
        ).stdout.strip()

    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "base")
    return git("rev-parse", "HEAD")


def patch(changed):
    """Return the diff from BASE to files of a new content."""
    parts = []
    for path, text in changed.items():
        old = BASE.get(path)
        parts.append(f"diff --git a/{path} b/{path}\n" + "new file mode 100644\n" * (old is None))
        parts += difflib.unified_diff(
            (old or "").splitlines(keepends=True),
            text.splitlines(keepends=True),
            "/dev/null" if old is None else f"a/{path}",
            f"b/{path}",
        )
    return "".join(parts).encode()


class SmallGroup:
    """A group in its workspace; `label` gives the workspace's label of a rollout."""

    def __init__(self, folder, passing, failing=(), *, with_repository=True):
        """Build it; `passing` and `failing` map rollout ids to changed files."""
        attempts = {**passing, **dict(failing)}
        finder = RepositoryFinder([folder], folder / "cache")
        commit = None
        if with_repository:
            (folder / "widgets").mkdir()
            commit = repository(folder / "widgets")
        self.built = build_workspace(
            GroupPatches(
                group_id=GROUP_ID,
                problem_statement=TASK,
                rollout_ids=list(attempts),
                patches=lambda: [patch(changed) for changed in attempts.values()],
                repository=finder.find("acme/widgets") if with_repository else None,
                base_commit=commit,
            ),
            AssembleOptions(root=str(folder / "root")),
        )
        self.base_commit = commit
        self.rollouts = list(attempts)
        self._passing = list(passing)
        self._failing = list(dict(failing))

    def label(self, rollout):
        return self.built.candidates[rollout].label

    def rollout(self, label):
        return next(r for r in self.rollouts if self.label(r) == label)

    def view(self, group_id=GROUP_ID):
        """Return the group as a grader gets it."""
        return GroupView(
            group_id=group_id,
            workspace=Workspace.open(self.built.folder),
            passing=tuple(sorted(map(self.label, self._passing))),
            failing=tuple(sorted(map(self.label, self._failing))),
        )

    def tiers(self, ranking):
        """Return a ranking's tiers as rollout ids."""
        return [sorted(map(self.rollout, tier)) for tier in ranking.tiers]
