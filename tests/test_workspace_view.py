"""What the view of a workspace says equals what a real checkout, cat, grep and diff say."""

import json
import shutil
import subprocess

import pytest
import repos

from gagar_cli.errors import SourceError
from gagar_cli.patches import readable, without_dataless_binaries
from gagar_cli.workspace.searching import Hit
from gagar_cli.workspace.view import BASE, Workspace

FILES = {
    "a.py": "".join(f"value_{n} = {n}\n" for n in range(40)),
    "gone.py": "value_gone = 1\n",
    "same.py": "value_same = 1  # needle\n",
    "pkg/deep/er.py": "needle = 'grüß'\n\tneedle2 = [1]\r\n",
    "pkg/x-1.txt": "-v\n--all\nneedle ä\n",
    "pkg.txt": "needle beside the folder\n",
    "data.bin": b"needle\0\1",
    "latin.txt": b"needle caf\xe9\n",
    "open.txt": "needle without end",
    "with space.txt": "a needle\n",
    "ä.txt": "needle\n",
}
AFTER = {
    "a.py": FILES["a.py"].replace("value_7 = 7", "worth_7 = 'needle'"),
    "gone.py": None,
    "pkg/new.py": "value_new = 'needle'\n",
    "pkg/deep/er.py": None,
    "pkg/deep/moved.py": FILES["pkg/deep/er.py"],
    "open.txt": "another needle\nwithout end",
    "new.bin": b"\0needle",
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A workspace, and a real checkout of each of its trees."""
    folder = tmp_path_factory.mktemp("view")
    source, base = repos.make(folder / "source", FILES)
    patch = repos.changed(source, AFTER, "--binary")
    patches = {"changes": patch, "nothing": None, "fails": b"sorry"}
    built = repos.build(folder / "root", patches, source, base)
    workspace, labels = repos.opened(built)
    for name, diff in ((labels["changes"], patch), (BASE, b"")):
        repos.checked_out(source, base, diff, folder / name)
        shutil.rmtree(folder / name / ".git")
    return workspace, labels, folder


def trees(scene):
    workspace, labels, folder = scene
    return [(workspace, tree, folder / tree) for tree in (BASE, labels["changes"])]


def test_files_and_contents_equal_a_real_checkout(scene):
    for workspace, tree, real in trees(scene):
        files = repos.tree_files(real)
        assert workspace.files(tree) == sorted(readable(path) for path in files)
        assert {path: workspace.read(tree, path) for path in workspace.files(tree)} == {
            readable(path): content for path, content in files.items()
        }


def test_an_empty_candidate_reads_as_the_base(scene):
    workspace, labels, _ = scene
    label = labels["nothing"]
    assert workspace.files(label) == workspace.files(BASE)
    assert hits_in(workspace, label, "needle") == hits_in(workspace, BASE, "needle")
    assert workspace.diff(BASE, label) == b""
    assert workspace.touched(label) == {}


def grep(folder, *arguments):
    """Search with the real grep; return path, line and text of each hit, sorted."""
    out = subprocess.run(
        ["grep", "-rnaZ", "--exclude=*.bin", *arguments],
        cwd=folder,
        capture_output=True,
        check=False,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    ).stdout
    hits = []
    for line in out.split(b"\n")[:-1]:
        path, rest = line.split(b"\0", 1)
        number, text = rest.split(b":", 1)
        hits.append((readable(path.removeprefix(b"./")), int(number), readable(text)))
    return sorted(hits)


def hits_in(workspace, tree, pattern, **options):
    found = workspace.search(tree, pattern, **options)
    assert not found.cut
    assert all(trees == (tree,) for _, trees in found.hits)
    return [hit for hit, _ in found.hits]


def found(hits):
    return sorted((hit.path, hit.line, hit.text) for hit in hits)


@pytest.mark.parametrize(
    "pattern",
    [
        "needle",
        "value_[0-9]+ = ",
        "value_7 |worth_7",
        "^needle",
        "end$",
        r"\[1\]",
        r"\bneedle\b",
        "gr..$|gr..'",
        "n{0}eedle",
        "-v",
        "--all",
        "Needle",
        ".",
        "nothing like it",
    ],
)
def test_search_finds_what_grep_finds(scene, pattern):
    for workspace, tree, real in trees(scene):
        expected = grep(real, "-E", "-e", pattern)
        assert found(hits_in(workspace, tree, pattern)) == expected


@pytest.mark.parametrize("text", ["needle", "[1]", "= 'gr", "value_.", "--all", "a needle", "ä"])
def test_search_for_a_fixed_text_takes_it_literally(scene, text):
    for workspace, tree, real in trees(scene):
        assert found(hits_in(workspace, tree, text, fixed=True)) == grep(real, "-F", "-e", text)


@pytest.mark.parametrize(
    "folder", ["pkg", "pkg/", "/pkg", "pkg/deep", "a.py", "with space.txt", "ä.txt", "*", "none"]
)
def test_search_and_diff_stay_in_a_folder(scene, folder):
    bare = folder.strip("/")
    for workspace, tree, _ in trees(scene):
        inside = [
            hit
            for hit in hits_in(workspace, tree, "e")
            if hit.path == bare or hit.path.startswith(f"{bare}/")
        ]
        assert hits_in(workspace, tree, "e", folder=folder) == inside
    workspace, labels, _ = scene
    sections = workspace.diff(BASE, labels["changes"], folder).split(b"diff --git ")[1:]
    paths = [section.split(b" ")[0].removeprefix(b"a/").decode() for section in sections]
    assert all(path == bare or path.startswith(f"{bare}/") for path in paths)
    assert bool(paths) is (bare in {"pkg", "pkg/deep", "a.py"})


def test_search_reads_a_changed_file_as_the_candidate_left_it(scene):
    workspace, labels, _ = scene
    changed = labels["changes"]
    assert hits_in(workspace, changed, "value_7 ") == []
    assert hits_in(workspace, BASE, "value_7 ") == [Hit("a.py", 8, "value_7 = 7")]
    assert hits_in(workspace, changed, "worth_7") == [Hit("a.py", 8, "worth_7 = 'needle'")]
    assert hits_in(workspace, changed, "value_gone") == []
    assert hits_in(workspace, changed, "value_new") == [
        Hit("pkg/new.py", 1, "value_new = 'needle'")
    ]
    assert [hit.path for hit in hits_in(workspace, changed, "value_same")] == ["same.py"]


def test_search_keeps_text_that_looks_like_its_own_marks(tmp_path):
    source, base = repos.make(tmp_path / "source", {"f": "1\n"})
    tree = repos.git(source, "rev-parse", "HEAD^{tree}").decode().strip()
    patch = repos.changed(source, {"g": f"needle {tree}:f:1:x\n{tree}:needle\n"})
    workspace, _ = repos.opened(repos.build(tmp_path / "root", patch, source, base))
    own = json.loads((workspace.folder / "group.json").read_text())["candidates"]["A"]["tree"]
    assert own != tree
    texts = [hit.text for hit in hits_in(workspace, "A", "needle")]
    assert texts == [f"needle {tree}:f:1:x", f"{tree}:needle"]


def test_a_diff_turns_one_tree_into_the_other(scene):
    workspace, labels, folder = scene
    for old, new in ((BASE, labels["changes"]), (labels["changes"], BASE)):
        copy = folder / f"from-{old}"
        shutil.copytree(folder / old, copy)
        repos.git(copy, "init", "-q")
        text, dropped = without_dataless_binaries(workspace.diff(old, new))
        repos.git(copy, "apply", "-", stdin=text)
        shutil.rmtree(copy / ".git")
        files, wanted = repos.tree_files(copy), repos.tree_files(folder / new)
        assert {k: v for k, v in files.items() if k != b"new.bin"} == {
            k: v for k, v in wanted.items() if k != b"new.bin"
        }
        assert dropped == 1


def test_a_diff_between_candidates_is_none_against_base(scene):
    workspace, labels, _ = scene
    changed = labels["changes"]
    assert workspace.diff(changed, changed) == b""
    assert workspace.diff(labels["nothing"], changed) == workspace.diff(BASE, changed)
    assert workspace.diff(BASE, changed) == workspace.raw_diff(changed)


def test_touched_gives_the_new_text_of_what_changed(scene):
    workspace, labels, _ = scene
    expected = {path: text for path, text in AFTER.items() if isinstance(text, str)}
    assert workspace.touched(labels["changes"]) == expected


@pytest.mark.parametrize(
    "ask",
    [
        lambda w, _: w.read(BASE, "none.py"),
        lambda w, _: w.read(BASE, "pkg"),
        lambda w, _: w.read(BASE, "../TASK.md"),
        lambda w, _: w.read(BASE, "/etc/passwd"),
        lambda w, _: w.read(BASE, "a\0b"),
        lambda w, labels: w.read(labels["changes"], "gone.py"),
        lambda w, labels: w.read(labels["fails"], "a.py"),
        lambda w, labels: w.files(labels["fails"]),
        lambda w, labels: w.touched(labels["fails"]),
        lambda w, labels: w.search(labels["fails"], "x"),
        lambda w, labels: w.diff(BASE, labels["fails"]),
        lambda w, _: w.read("Z", "a.py"),
        lambda w, _: w.read("HEAD", "a.py"),
        lambda w, _: w.raw_diff("../TASK"),
        lambda w, _: w.raw_diff(BASE),
        lambda w, _: w.search(BASE, "("),
        lambda w, _: w.search(BASE, "a\0b"),
        lambda w, _: w.search(BASE, "\ud800"),
        lambda w, _: w.search(BASE, "a", folder="\0"),
        lambda w, _: w.search(BASE, "a", folder="../.."),
        lambda w, labels: w.diff(BASE, labels["changes"], "../x"),
        lambda w, labels: w.diff(BASE, labels["changes"], "\udcff"),
    ],
)
def test_what_is_not_there_is_a_source_error(scene, ask):
    workspace, labels, _ = scene
    with pytest.raises(SourceError) as caught:
        ask(workspace, labels)
    assert "\n" not in str(caught.value)


def test_a_link_reads_as_its_target_and_a_submodule_as_an_error(tmp_path):
    source, base = repos.make(tmp_path / "source", {"f": "1\n"})
    patch = (
        b"diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n"
        b"@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n"
        b"diff --git a/sub b/sub\nnew file mode 160000\n--- /dev/null\n+++ b/sub\n"
        b"@@ -0,0 +1 @@\n+Subproject commit " + b"1" * 40 + b"\n"
    )
    workspace, _ = repos.opened(repos.build(tmp_path / "root", patch, source, base))
    assert workspace.read("A", "link") == b"/etc/passwd"
    assert workspace.touched("A") == {"link": "/etc/passwd"}
    assert hits_in(workspace, "A", "root:") == []
    with pytest.raises(SourceError, match="is a submodule at commit 1111"):
        workspace.read("A", "sub")


def test_without_a_repository_only_the_diff_is_there(tmp_path):
    patch = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b"
    workspace, _ = repos.opened(repos.build(tmp_path, {"r": patch, "s": b"", "t": b"sorry"}))
    by_status = {candidate.status: label for label, candidate in workspace.candidates.items()}
    label = by_status["diff-only"]
    assert not workspace.has_trees
    assert workspace.diff(BASE, label) == workspace.raw_diff(label) == patch + b"\n"
    assert workspace.facts(label).lines_added == 1
    assert workspace.diff(BASE, by_status["empty"]) == b""
    for ask in (
        lambda: workspace.read(label, "f"),
        lambda: workspace.read(BASE, "f"),
        lambda: workspace.files(BASE),
        lambda: hits_in(workspace, label, "b"),
        lambda: workspace.touched(label),
        lambda: workspace.diff(by_status["empty"], label),
        lambda: workspace.diff(BASE, label, "f"),
    ):
        with pytest.raises(SourceError):
            ask()


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b"[]", b"3", b'"x"', b"\xff", b"{}", b'{"candidates": []}']
)
def test_a_workspace_that_is_not_whole_is_not_opened(tmp_path, content):
    if content is not None:
        (tmp_path / "group.json").write_bytes(content)
    with pytest.raises(SourceError, match="Next: gagar assemble"):
        Workspace.open(tmp_path)


def test_a_workspace_whose_files_or_objects_are_gone_says_so(tmp_path):
    source, base = repos.make(tmp_path / "source", {"f": "1\n"})
    built = repos.build(tmp_path / "root", b"", source, base)
    workspace, _ = repos.opened(built)
    (built.folder / "TASK.md").unlink()
    (built.folder / "candidates" / "A.diff").unlink()
    for ask in (lambda: workspace.task, lambda: workspace.raw_diff("A")):
        with pytest.raises(SourceError, match="Next: gagar assemble"):
            ask()
    source.rename(tmp_path / "away")
    with pytest.raises(SourceError, match="objects are gone"):
        Workspace.open(built.folder)


def test_a_root_that_moved_with_its_store_still_opens(tmp_path):
    source, base = repos.make(tmp_path / "source", {"f": "1\n"})
    built = repos.build(tmp_path / "root", b"", source, base)
    (tmp_path / "root").rename(tmp_path / "moved")
    workspace = Workspace.open(tmp_path / "moved" / built.folder.name)
    assert workspace.read(BASE, "f") == b"1\n"
