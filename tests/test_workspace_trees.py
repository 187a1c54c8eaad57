"""Trees made from the changed folders alone are those that git itself writes."""

import pytest
import repos
from hypothesis import given, settings
from hypothesis import strategies as st

from gagar_cli.workspace.trees import TreeMaker

# Few names, so that files take the place of folders and folders that of files; and names whose
# order as a file differs from that as a folder.
NAMES = st.sampled_from(["a", "a.b", "a0", "b", "ü"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
MODES = st.sampled_from(["100644", "100755", "120000"])
FILES = st.dictionaries(PATHS, MODES, max_size=8).map(
    lambda files: {
        path: mode
        for path, mode in files.items()
        if not any(other.startswith(f"{path}/") for other in files)
    }
)


class Scene:
    """A git repository, and a maker of trees that reads and writes its loose objects."""

    def __init__(self, folder, kind):
        folder.mkdir()
        self.folder = folder
        repos.git(folder, "init", "-q", f"--object-format={kind}")
        self.blob = repos.git(folder, "hash-object", "-w", "--stdin", stdin=b"x").decode().strip()
        self.objects = folder / ".git" / "objects"
        self.maker = TreeMaker(self.read, self.objects, len(self.blob))

    def read(self, tree):
        return repos.git(self.folder, "cat-file", "tree", tree)

    def written(self, files):
        """Return the tree that git makes of {path: mode}."""
        lines = "".join(f"{mode} {self.blob}\t{path}\0" for path, mode in files.items())
        index = {"GIT_INDEX_FILE": str(self.folder / "index")}
        repos.git(self.folder, "read-tree", "--empty", env=index)
        command = ("update-index", "-z", "--index-info")
        repos.git(self.folder, *command, stdin=lines.encode(), env=index)
        return repos.git(self.folder, "write-tree", env=index).decode().strip()


@pytest.fixture(scope="module", params=["sha1", "sha256"])
def scene(request, tmp_path_factory):
    return Scene(tmp_path_factory.mktemp("trees") / "git", request.param)


@settings(max_examples=60)
@given(before=FILES, after=FILES)
def test_the_tree_of_some_changes_is_the_one_that_git_writes(scene, before, after):
    base = scene.written(before)
    gone = [(path.encode(), None) for path in before if path not in after]
    new = [(path.encode(), (mode.encode(), scene.blob)) for path, mode in after.items()]
    made = scene.maker.changed(base, [*gone, *new])
    listed = repos.git(scene.folder, "ls-tree", "-r", "--name-only", "-z", made)
    assert sorted(listed.decode().split("\0")[:-1]) == sorted(after)
    assert made == scene.written(after)
