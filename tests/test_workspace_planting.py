"""A planted candidate is to a workspace what any other is, and nothing else changes."""

import os
import shutil

import pytest
import repos

from gagar_cli.errors import DataError, SourceError
from gagar_cli.patches import readable
from gagar_cli.workspace.planting import candidate_files, encoded, plant
from gagar_cli.workspace.searching import Hit
from gagar_cli.workspace.view import BASE, Workspace

FILES = {
    "a.py": "".join(f"value_{n} = {n}\n" for n in range(40)),
    "gone.py": "value_gone = 1\n",
    "same.py": "value_same = 1\n",
    "pkg/old.py": "value_old = 1\n",
    "run.sh": "echo one\n",
    "data.bin": b"\0\1",
    "ä.txt": "one\n",
}
GOOD = {"a.py": FILES["a.py"].replace("value_7 = 7", "worth_7 = 7"), "new.py": "value_new = 1\n"}
PLANTED = {
    "a.py": GOOD["a.py"].replace("value_9 = 9", "worth_9 = 'needle'").encode(),
    "pkg/old.py": None,
    "pkg/deep/new.py": b"needle = 2\n",
    "run.sh": b"echo needle\n",
    "ä.txt": b"needle\n",
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A group's workspace with its labels, what its source was like, and a planted workspace."""
    folder = tmp_path_factory.mktemp("planting")
    source, _ = repos.make(folder / "source", FILES)
    (source / "run.sh").chmod(0o755)
    base = repos.commit(source, {})
    patches = {
        "good": repos.changed(source, GOOD, "--binary"),
        "other": repos.changed(source, {"same.py": "value_same = 2\n"}),
        "fails": b"sorry",
    }
    built = repos.build(folder / "root", patches, source, base, text="Fix the shop.")
    workspace, labels = repos.opened(built)
    before = repos.fingerprint(source), repos.fingerprint(built.folder)
    extra = {"D": PLANTED, "E": {}}
    planted = plant(workspace, folder / "elsewhere" / "planted", extra, labels["good"])
    assert (repos.fingerprint(source), repos.fingerprint(built.folder)) == before
    return workspace, labels, planted, source, base, folder


def test_a_planted_tree_equals_a_real_checkout_of_its_own_diff(scene):
    _, _, planted, source, base, folder = scene
    patch = planted.raw_diff("D")
    real = repos.checked_out(source, base, patch, folder / "real")
    assert planted.files("D") == sorted(readable(path) for path in real)
    assert {path: planted.read("D", path) for path in planted.files("D")} == {
        readable(path): content for path, content in real.items()
    }
    assert os.access(folder / "real" / "run.sh", os.X_OK)
    expected = {os.fsencode(p): content for p, content in PLANTED.items() if content is not None}
    assert {path: real[path] for path in expected} == expected
    assert b"pkg/old.py" not in real


def test_a_planted_candidate_offers_all_that_others_do(scene):
    workspace, labels, planted, *_ = scene
    assert planted.diff(BASE, "D") == planted.raw_diff("D")
    assert planted.diff(labels["good"], "D", "run.sh").endswith(b"-echo one\n+echo needle\n")
    assert {hit.path for hit, _ in planted.search("D", "needle").hits} == PLANTED.keys() - {
        "pkg/old.py"
    }
    assert planted.search("D", "worth_7").hits == [(Hit("a.py", 8, "worth_7 = 7"), ("D",))]
    assert planted.search(BASE, "needle").hits == []
    touched = {path: text.decode() for path, text in PLANTED.items() if text is not None}
    assert planted.touched("D") == {**touched, "new.py": GOOD["new.py"]}
    facts = planted.facts("D")
    candidate = planted.candidates["D"]
    assert candidate.files_changed == len(facts.files) == 6
    assert (candidate.lines_added, candidate.lines_removed) == (facts.lines_added, 5)
    assert planted.task == workspace.task == "Fix the shop."


def test_without_files_a_planted_candidate_is_an_exact_copy(scene):
    workspace, labels, planted, *_ = scene
    assert planted.raw_diff("E") == workspace.raw_diff(labels["good"])
    assert planted.diff(labels["good"], "E") == b""


def test_the_candidates_that_were_there_stay_as_they_were(scene):
    workspace, labels, planted, *_ = scene
    assert set(planted.candidates) == {*labels.values(), "D", "E"}
    for label in labels.values():
        assert planted.candidates[label] == workspace.candidates[label]
        assert planted.raw_diff(label) == workspace.raw_diff(label)
    assert planted.files(BASE) == workspace.files(BASE)
    assert planted.base_tree == workspace.base_tree


def test_nothing_but_its_change_tells_a_planted_candidate(scene):
    _, labels, planted, *_ = scene
    good = planted.candidates[labels["good"]]
    for label in "DE":
        assert planted.candidates[label].status == good.status == "applied"
        assert planted.candidates[label].detail == good.detail
    order = [path.name for path in sorted((planted.folder / "candidates").iterdir())]
    assert order == [f"{label}.diff" for label in sorted(planted.candidates)]


def test_candidates_can_get_other_labels(scene, tmp_path):
    workspace, labels, *_ = scene
    names = {labels["good"]: "D", labels["other"]: "A", labels["fails"]: "C"}
    planted = plant(workspace, tmp_path / "w", {"B": PLANTED}, labels["good"], names)
    assert list(planted.candidates) == ["A", "B", "C", "D"]
    for old, new in names.items():
        assert planted.candidates[new].label == new
        assert planted.raw_diff(new) == workspace.raw_diff(old)
    assert planted.read("D", "new.py") == planted.read("B", "new.py")


def test_a_planted_workspace_opens_from_anywhere(scene, tmp_path, monkeypatch):
    workspace, labels, *_ = scene
    monkeypatch.chdir(tmp_path)
    planted = plant(workspace, repos.Path("w"), {"D": PLANTED}, labels["good"])
    monkeypatch.chdir("/")
    assert Workspace.open(tmp_path / "w").read("D", "run.sh") == b"echo needle\n"
    assert planted.candidates == Workspace.open(tmp_path / "w").candidates
    shutil.move(tmp_path / "w", tmp_path / "moved")
    assert Workspace.open(tmp_path / "moved").read("D", "run.sh") == b"echo needle\n"


def test_planting_again_gives_the_same(scene, tmp_path):
    workspace, labels, *_ = scene
    for _ in range(2):
        plant(workspace, tmp_path / "w", {"D": PLANTED}, labels["good"])
    plant(workspace, tmp_path / "v", {"D": PLANTED}, labels["good"])
    assert repos.tree_files(tmp_path / "w") == repos.tree_files(tmp_path / "v")


def test_what_cannot_be_planted_says_so(scene, tmp_path):
    workspace, labels, *_ = scene
    for on in (labels["fails"], "Z", BASE):
        with pytest.raises(SourceError, match="has no files to plant on"):
            plant(workspace, tmp_path / "w", {"D": {}}, on)
    for extra, names in (
        ({"A": {}}, None),
        ({"D": {}}, dict.fromkeys(labels.values(), "B")),
    ):
        with pytest.raises(DataError, match="a label for two candidates"):
            plant(workspace, tmp_path / "w", extra, labels["good"], names)
    with pytest.raises(SourceError, match=r"planted files: .*\.\./x"):
        plant(workspace, tmp_path / "w", {"D": {"../x": b"1\n"}}, labels["good"])
    bare, names = repos.opened(
        repos.build(tmp_path / "root", b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b")
    )
    with pytest.raises(SourceError, match="no repository to plant in"):
        plant(bare, tmp_path / "w", {"D": {}}, names["r"])


def test_the_files_of_a_candidate_come_as_text_and_can_be_put_back(scene, tmp_path):
    workspace, labels, *_ = scene
    files = candidate_files(workspace, labels["good"])
    assert dict(files.changed) == GOOD
    assert set(files.base_paths) == set(FILES)
    assert files.read_base("a.py") == FILES["a.py"]
    assert files.read_base("new.py") is files.read_base("data.bin") is None
    edits = {"D": encoded({**files.changed, "gone.py": None})}
    planted = plant(workspace, tmp_path / "w", edits, labels["good"])
    assert planted.diff(labels["good"], "D").startswith(b"diff --git a/gone.py b/gone.py\ndeleted")


def test_what_could_not_be_put_back_is_left_out_with_its_base(tmp_path):
    source, base = repos.make(
        tmp_path / "source",
        {"latin.py": "a = 1\n", "open.py": "a = 1\n", "moved.py": "a = 1\n" * 9},
    )
    change = {
        "latin.py": b"a = '\xe9'\n",
        "open.py": "a = 2",
        "link.py": repos.Path("open.py"),
        "moved.py": None,
        "here.py": b"\0" + b"a = 1\n" * 9,
        "good.py": "a = 'é'\n",
    }
    patch = repos.changed(source, change, "--binary")
    workspace, labels = repos.opened(repos.build(tmp_path / "root", patch, source, base))
    files = candidate_files(workspace, labels["r"])
    assert dict(files.changed) == {"good.py": "a = 'é'\n"}
    assert set(files.base_paths) == set()
