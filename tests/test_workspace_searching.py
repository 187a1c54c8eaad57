"""A search of all trees says what a search of each says; it has bounds, and believes no edits."""

import os
import shutil

import pytest
import repos

from gagar_cli.errors import SourceError
from gagar_cli.workspace import grepping, searching
from gagar_cli.workspace.planting import plant
from gagar_cli.workspace.searching import MOST_HITS, Found, Hit
from gagar_cli.workspace.view import BASE, Workspace

FILES = {
    "a.py": "needle one\nneedle two\nother\n",
    "b/gone.py": "needle gone\n",
    "b/same.py": "needle same\n",
    "b.txt": "needle beside\n",
    "-": "needle dash\n",
    "--help": "needle help\n",
    "data.bin": b"needle\0\n",
    "late.txt": b"needle late\n" + b"x" * 9000 + b"\0\n",
    "latin.txt": b"needle caf\xe9\n",
    "new\nline.txt": "needle in an odd name\n",
}
PATCHES = {
    "edits": {"a.py": "first\nneedle one\nneedle 2\n"},
    "deletes": {"b/gone.py": None, "a.py": None},
    "adds": {"b/new.py": "needle new\n", "data.bin": "needle text now\n"},
    "hides": {"b/same.py": b"needle same\n\0\n"},
    "moves": {"b/gone.py": None, "z.py": "needle gone\n"},
    "same as edits": {"a.py": "first\nneedle one\nneedle 2\n", "c.py": "c\n"},
    "empties": {"a.py": "", "b/gone.py": "\n", "b/same.py": "x"},
}


@pytest.fixture
def scene(tmp_path):
    """A workspace, and the label of each rollout."""
    source, base = repos.make(tmp_path / "source", FILES)
    patches = {name: repos.changed(source, files, "--binary") for name, files in PATCHES.items()}
    return repos.opened(repos.build(tmp_path / "root", {**patches, "fails": b"no"}, source, base))


def told(found):
    return [(hit.path, hit.line, hit.text, trees) for hit, trees in found.hits]


def without_grep(monkeypatch):
    monkeypatch.setattr(searching, "has_grep", lambda: False)


@pytest.mark.parametrize(
    "pattern", ["needle", "e (gone|same|2)$", "needle .*[0-9]", "none", "-", "^$"]
)
@pytest.mark.parametrize("folder", ["", "b", "a.py", "b/same.py"])
def test_a_search_of_all_trees_says_what_a_search_of_each_says(scene, pattern, folder):
    workspace, labels = scene
    found = told(workspace.search_all(pattern, folder=folder))
    assert found == sorted(found, key=lambda hit: (hit[0].encode(), hit[1]))
    for tree in (BASE, *sorted(set(labels.values()) - {labels["fails"]})):
        mine = [(*place, (tree,)) for *place, trees in found if tree in trees]
        assert mine == told(workspace.search(tree, pattern, folder=folder))


def test_a_line_of_the_base_is_not_told_of_who_changed_or_deleted_its_file(scene):
    workspace, labels = scene
    found = {(h.path, h.line, h.text): set(t) for h, t in workspace.search_all("needle").hits}
    everyone = {BASE, *labels.values()} - {labels["fails"]}
    edited = {labels["edits"], labels["same as edits"]}
    assert found["a.py", 1, "needle one"] == everyone - edited - {
        labels["deletes"],
        labels["empties"],
    }
    assert found["a.py", 2, "needle one"] == edited
    assert found["b/gone.py", 1, "needle gone"] == everyone - {
        labels[name] for name in ("deletes", "moves", "empties")
    }
    assert found["z.py", 1, "needle gone"] == {labels["moves"]}
    assert found["b/same.py", 1, "needle same"] == everyone - {
        labels["hides"],
        labels["empties"],
    }
    assert found["data.bin", 1, "needle text now"] == {labels["adds"]}


def test_git_finds_what_grep_finds(scene, monkeypatch):
    workspace, _ = scene
    patterns = ["needle", "^needle (one|2)$", "caf", "[nx]e+dle", "late", r"\bin\b"]
    expected = [workspace.search_all(pattern) for pattern in patterns]
    assert all(found.hits for found in expected)
    without_grep(monkeypatch)
    assert [workspace.search_all(pattern) for pattern in patterns] == expected
    with pytest.raises(SourceError):
        workspace.search(BASE, "(")


@pytest.mark.parametrize("damage", ["edited", "gone", "no folder"])
def test_a_base_folder_that_somebody_changed_is_not_believed(scene, damage):
    workspace, _ = scene
    file = workspace.folder / "base" / "b" / "same.py"
    manifest = (workspace.folder / "group.json").stat()
    if damage == "edited":
        file.write_text("needle made up\n")
        os.utime(file, ns=(0, manifest.st_mtime_ns + 1))
    elif damage == "gone":
        file.unlink()
    else:
        shutil.rmtree(workspace.folder / "base")
    searching.files_of.cache_clear()
    assert told(workspace.search(BASE, "same")) == [("b/same.py", 1, "needle same", (BASE,))]


def test_a_base_folder_that_goes_away_between_searches_is_done_without(scene):
    workspace, _ = scene
    before = workspace.search_all("needle")
    shutil.rmtree(workspace.folder / "base")
    assert workspace.search_all("needle") == before


def test_a_planted_workspace_is_searched_like_the_one_that_it_was_made_of(scene, tmp_path):
    workspace, labels = scene
    extra = {"X": {"b/x.py": b"needle x\n", "a.py": None}}
    planted = plant(workspace, tmp_path / "planted", extra, labels["edits"])
    assert not (planted.folder / "base").exists()
    assert planted.base_folder == (workspace.folder / "base").resolve()
    others = [BASE, *(label for label in labels.values() if label != labels["fails"])]
    assert planted.search_all("needle", others) == workspace.search_all("needle", others)
    assert ("b/x.py", 1, "needle x", ("X",)) in told(planted.search("X", "needle"))
    assert not planted.search("X", "needle", folder="a.py").hits


def built_of(tmp_path, files, changes):
    source, base = repos.make(tmp_path / "source", files)
    patch = repos.changed(source, changes)
    workspace, labels = repos.opened(repos.build(tmp_path / "root", patch, source, base))
    return workspace, labels["r"]


@pytest.mark.parametrize("with_grep", [True, False])
def test_a_search_tells_so_many_lines_and_where_it_ends(tmp_path, monkeypatch, with_grep):
    many = "".join(f"needle {n}\n" for n in range(MOST_HITS))
    workspace, label = built_of(
        tmp_path, {"b": many, "c": "needle\n"}, {"a": "needle\n", "c": "\n"}
    )
    if not with_grep:
        without_grep(monkeypatch)
    exact = workspace.search(BASE, "needle", folder="b")
    assert (len(exact.hits), exact.cut) == (MOST_HITS, "")
    over = workspace.search(BASE, "needle")
    assert (len(over.hits), over.cut) == (MOST_HITS, f"b:{MOST_HITS}")
    mine = workspace.search(label, "needle")
    assert mine.hits[0][0] == Hit("a", 1, "needle")
    assert (len(mine.hits), mine.cut) == (MOST_HITS, f"b:{MOST_HITS - 1}")


def test_a_search_tells_so_many_bytes_and_nothing_from_below(tmp_path, monkeypatch):
    monkeypatch.setattr(grepping, "MOST_BYTES", 1000)
    lines = "".join(f"needle {n:03} {'x' * 80}\n" for n in range(100))
    changes = {"a": "needle a\n", "z": "needle z\n"}
    workspace, label = built_of(tmp_path, {"m": lines, "n": "needle n\n"}, changes)
    found = workspace.search(label, "needle")
    assert found.cut == f"m:{len(found.hits) - 1}"
    assert 5 < len(found.hits) < 15
    assert [hit.path for hit, _ in found.hits] == ["a"] + ["m"] * (len(found.hits) - 1)
    assert workspace.search(label, "needle", folder="z") == Found(
        [(Hit("z", 1, "needle z"), (label,))]
    )


def test_a_line_too_long_to_tell_is_told_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr(grepping, "MOST_BYTES", 1000)
    workspace, label = built_of(tmp_path, {"m": "needle" + "x" * 5000 + "\n"}, {"n": "y" * 5000})
    found = workspace.search(label, "needle")
    assert found.cut == "m:1"
    assert len(found.hits[0][0].text) < 1000
    assert workspace.search(label, "yy").cut == "n:1"


def test_a_search_that_takes_too_long_is_ended_and_told(tmp_path, monkeypatch):
    monkeypatch.setattr(grepping, "_SECONDS", 0.05)
    os.mkfifo(tmp_path / "never")
    with pytest.raises(SourceError, match="nothing within"):
        grepping.grep_files(tmp_path, [b"never"], "x", fixed=False)


def test_many_files_go_to_grep_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(grepping, "_ARGUMENT_BYTES", 100)
    files = {f"folder/file{n:03}.txt": f"needle {n}\n" for n in range(150)}
    workspace, label = built_of(tmp_path, files, {"folder/file007.txt": "bond\n"})
    found = [hit.path for hit, _ in workspace.search(label, "needle").hits]
    assert found == sorted(files.keys() - {"folder/file007.txt"})


def test_links_and_submodules_are_not_searched(tmp_path):
    patch = (
        b"diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n"
        b"@@ -0,0 +1 @@\n+needle\n\\ No newline at end of file\n"
    )
    source, _ = repos.make(tmp_path / "source", {"f": "needle\n"})
    (source / "old").symlink_to("needle")
    base = repos.commit(source, {})
    workspace, labels = repos.opened(repos.build(tmp_path / "root", patch, source, base))
    expected = [("f", 1, "needle", (BASE, labels["r"]))]
    assert told(workspace.search_all("needle")) == expected


def test_reopened_workspaces_share_what_they_know_of_a_base(scene):
    workspace, _ = scene
    searching.files_of.cache_clear()
    for _ in range(3):
        Workspace.open(workspace.folder).search(BASE, "needle")
    assert searching.files_of.cache_info().misses == 1
