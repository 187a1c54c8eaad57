"""Patches, repositories and surroundings that mean harm, or merely differ: nothing comes of it."""

import os
import shutil
from pathlib import Path

import pytest
import repos

FILES = {"f.txt": repos.numbered(), "d/g.py": "x = 1\n"}
AFTER = repos.numbered().replace("line 15\n", "LINE 15\n")
TARGETS = ["/etc/passwd", "../../x", "..", "f.txt"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return repos.make(tmp_path_factory.mktemp("hostile") / "source", FILES)


def new_file(path, content="z", mode="100644"):
    return (
        f"diff --git a/{path} b/{path}\nnew file mode {mode}\n"
        f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{content}\n"
    ).encode()


def links(folder):
    return [path for path in folder.rglob("*") if path.is_symlink()]


@pytest.mark.parametrize("target", TARGETS)
def test_a_symbolic_link_is_never_made_on_disk(tmp_path, source, target):
    patch = repos.changed(source[0], {"link": Path(target)})
    for checkout in ("touched", "full"):
        built = repos.build(tmp_path / checkout, patch, *source, checkout=checkout)
        workspace, _ = repos.opened(built)
        assert built.candidates["r"].status == "applied"
        assert workspace.read("A", "link") == target.encode()
        assert links(tmp_path / checkout) == []
        copy = built.folder / "candidates" / "A" / "link"
        assert copy.is_file()
        assert copy.read_text() == target


def test_links_of_the_base_tree_are_not_made_either(tmp_path):
    source = repos.make(tmp_path / "source", {**FILES, "out": Path("/etc"), "d/up": Path("..")})
    built = repos.build(tmp_path / "root", new_file("new"), *source, checkout="full")
    assert links(tmp_path / "root") == []
    assert (built.folder / "base" / "out").read_text() == "/etc"
    assert (built.folder / "candidates" / "A" / "d" / "up").read_text() == ".."


@pytest.mark.parametrize("target", ["..", "/etc", "d"])
def test_writing_through_a_link_of_the_same_patch_is_refused(tmp_path, source, target):
    patch = repos.changed(source[0], {"link": Path(target)}) + new_file("link/evil")
    candidate = repos.build(tmp_path / "root", patch, *source).candidates["r"]
    assert (candidate.status, candidate.tree) == ("refused", None)
    assert not list(tmp_path.rglob("evil"))


def test_writing_through_a_link_of_the_base_tree_is_refused(tmp_path):
    source = repos.make(tmp_path / "source", {**FILES, "out": Path("..")})
    for patch in (new_file("out/evil"), new_file("out/evil").replace(b"diff --git", b"x")):
        candidate = repos.build(tmp_path / "root", patch, *source).candidates["r"]
        assert (candidate.status, candidate.tree) == ("refused", None)
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize(
    "path",
    [
        "../evil",
        "d/../../evil",
        "/evil",
        ".git/hooks/evil",
        ".GIT/hooks/evil",
        "d/.git/evil",
        "git~1/evil",
        "./evil",
    ],
)
def test_a_path_that_leaves_the_tree_or_enters_git_is_refused(tmp_path, source, path):
    before = repos.fingerprint(source[0])
    full = new_file(path)
    for patch in (full, b"".join(full.splitlines(keepends=True)[2:])):
        candidate = repos.build(tmp_path / "root", patch, *source).candidates["r"]
        assert (candidate.status, candidate.tree) == ("refused", None)
        assert "invalid path" in candidate.detail
    assert not list(tmp_path.rglob("evil"))
    assert repos.fingerprint(source[0]) == before


@pytest.mark.parametrize("old", ["../secret", "/etc/hosts", ".git/config"])
def test_a_move_out_of_or_into_the_tree_is_refused(tmp_path, source, old):
    for a, b in ((old, "d/here.txt"), ("f.txt", old)):
        patch = (
            f"diff --git a/{a} b/{b}\nsimilarity index 100%\nrename from {a}\nrename to {b}\n"
        ).encode()
        candidate = repos.build(tmp_path / "root", patch, *source).candidates["r"]
        assert candidate.tree is None
        assert candidate.status in {"refused", "failed"}


def test_an_absolute_path_stays_inside_the_tree(tmp_path, source):
    outside = tmp_path / "evil"
    patch = f"--- /dev/null\n+++ {outside}\n@@ -0,0 +1 @@\n+z\n".encode()
    built = repos.build(tmp_path / "root", patch, *source)
    assert not outside.exists()
    assert repos.opened(built)[0].files("A")[-1] == str(outside).removeprefix("/")


@pytest.mark.skipif(shutil.which("patch") is None, reason="no `patch` program")
@pytest.mark.parametrize("indent", ["", "  ", " \tX"])
def test_a_script_for_ed_is_not_run(tmp_path, source, indent):
    script = "".join(f"{indent}{line}\n" for line in ("1d", "!touch ../../../evil", "w", "q"))
    for header in ("--- a/f.txt\n+++ b/f.txt\n\n", "Index: f.txt\n--- a/f.txt\n+++ b/f.txt\n"):
        candidate = repos.build(tmp_path / "root", (header + script).encode(), *source)
        assert candidate.candidates["r"].status == "failed"


def test_a_commit_like_diff_cannot_smuggle_options(tmp_path, source):
    candidate = repos.build(tmp_path / "root", new_file("--output=evil"), *source).candidates["r"]
    assert candidate.status == "applied"
    workspace, _ = repos.opened(repos.build(tmp_path / "root", new_file("-v"), *source))
    assert workspace.read("A", "-v") == b"z\n"
    assert b"+z" in workspace.diff("base", "A", "-v")
    assert [hit.path for hit, _ in workspace.search("A", "^z$", folder="-v").hits] == ["-v"]


ATTRIBUTES = (
    "* filter=evil diff=evil merge=evil text eol=crlf ident working-tree-encoding=latin1\n"
    "*.py -diff binary\n"
)


def hostile_settings(marker):
    run = f"touch {marker}; cat"
    return f"""\
[core]
    autocrlf = true
    eol = crlf
    bigFileThreshold = 1
    quotePath = true
    fsmonitor = "touch {marker}; false"
    hooksPath = {marker.parent}/hooks
    pager = "{run}"
[filter "evil"]
    smudge = "{run}"
    clean = "{run}"
    required = true
[diff]
    external = "touch {marker}"
    noprefix = true
    context = 0
    algorithm = patience
[diff "evil"]
    textconv = "touch {marker}; cat"
    command = "touch {marker}"
[merge "evil"]
    driver = "touch {marker}"
[apply]
    whitespace = error
    ignoreWhitespace = change
[grep]
    patternType = fixed
    lineNumber = false
[color]
    ui = always
"""


def seen(root, source, base, patch):
    """Return all that a user can see of a workspace."""
    built = repos.build(root, {"a": patch, "b": patch.replace(b"LINE", b"ROW")}, source, base)
    workspace, _ = repos.opened(built)
    files = repos.tree_files(built.folder)
    del files[b"group.json"]  # knows the repository by its path
    return (
        {rollout: (c.status, c.tree, c.lines_added) for rollout, c in built.candidates.items()},
        files,
        workspace.files("A"),
        workspace.search("A", "^(LINE|ROW|line) 1[0-9]").hits,
        workspace.diff("base", "A"),
        workspace.diff("A", "B", "f.txt"),
    )


def test_settings_and_attributes_change_nothing_and_run_nothing(tmp_path, monkeypatch):
    files = {**FILES, "ä.txt": "$Id$\n"}
    calm, _ = repos.make(tmp_path / "calm" / "source", files)
    moved = "new\n" * 9 + repos.numbered().replace("line 13\n", "other\n")
    patch = repos.changed(calm, {"f.txt": AFTER, "d/g.py": "x = 2\n", "ä.txt": "$Id$\n\n"})
    base = repos.commit(calm, {".gitattributes": ATTRIBUTES, "f.txt": moved})
    expected = seen(tmp_path / "calm" / "root", calm, base, patch)
    assert expected[0]["a"][0] == "applied-3way"

    marker = tmp_path / "marker"
    hostile = tmp_path / "hostile" / "source"
    repos.git(tmp_path, "clone", "-q", str(calm), str(hostile))
    with (hostile / ".git" / "config").open("a") as config:
        config.write(hostile_settings(marker))
    home = tmp_path / "home"
    repos.put(home, {".gitconfig": hostile_settings(marker), ".config/git/attributes": ATTRIBUTES})
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {marker}")
    assert not marker.exists()
    assert seen(tmp_path / "hostile" / "root", hostile, base, patch) == expected
    assert not marker.exists()
    # The trap is a real one: git itself walks into it.
    repos.put(hostile, {"f.txt": "changed\n"})
    repos.git(hostile, "diff", check=False)
    assert marker.exists()


@pytest.mark.parametrize(
    "variables",
    [
        {"GIT_DIR": "{source}/.git", "GIT_INDEX_FILE": "{source}/.git/index"},
        {"GIT_WORK_TREE": "{tmp}", "GIT_PREFIX": "d/"},
        {"GIT_DIR": "{source}/.git", "GIT_COMMON_DIR": "{source}/.git"},
        {"GIT_OBJECT_DIRECTORY": "{tmp}/none", "GIT_QUARANTINE_PATH": "{tmp}/none"},
        {"GIT_ALTERNATE_OBJECT_DIRECTORIES": "{tmp}/none"},
        {"GIT_DIFF_OPTS": "-u0", "GIT_GLOB_PATHSPECS": "1"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.bare", "GIT_CONFIG_VALUE_0": "false"},
        {"GIT_CONFIG_PARAMETERS": "'diff.noprefix=true'"},
        {"GIT_TRACE": "1", "GIT_NAMESPACE": "other", "GIT_DEFAULT_HASH": "sha256"},
        {"PATCH_GET": "1", "POSIXLY_CORRECT": "1", "LC_ALL": "de_DE.UTF-8", "LANG": "xx"},
    ],
    ids=lambda variables: next(iter(variables)),
)
def test_what_a_hook_exports_changes_nothing(tmp_path, source, monkeypatch, variables):
    patch = repos.changed(source[0], {"f.txt": AFTER, "n.txt": "1\n"})
    if "PATCH_GET" in variables and shutil.which("patch"):
        patch = patch.replace(b" line 14\n", b" line fourteen\n")
    expected = seen(tmp_path / "clean", *source, patch)
    before = repos.fingerprint(source[0])
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp=tmp_path, source=source[0]))
    monkeypatch.chdir(source[0])
    assert seen(tmp_path / "hooked", *source, patch) == expected
    assert repos.fingerprint(source[0]) == before


def test_replaced_objects_are_not_followed(tmp_path):
    source, base = repos.make(tmp_path / "source", FILES)
    other = repos.commit(source, {"f.txt": "other\n"})
    repos.git(source, "replace", base, other)
    built = repos.build(tmp_path / "root", b"", source, base)
    assert (built.folder / "base" / "f.txt").read_text() == FILES["f.txt"]


def test_file_names_that_are_not_text_survive(tmp_path):
    name = os.fsdecode(b"caf\xe9.txt")
    source, base = repos.make(tmp_path / "source", {**FILES, name: "a\n", "new\nline": "b\n"})
    patch = repos.changed(source, {name: "b\n"})
    built = repos.build(tmp_path / "root", patch, source, base, checkout="full")
    workspace, _ = repos.opened(built)
    assert built.candidates["r"].status == "applied"
    assert workspace.read("A", "caf\\xe9.txt") == b"b\n"
    assert repos.tree_files(built.folder / "candidates" / "A")[b"caf\xe9.txt"] == b"b\n"


@pytest.mark.parametrize("path", ["n" * 300, "d/" * 3000 + "f", "/".join(["n" * 250] * 5)])
@pytest.mark.parametrize("checkout", ["touched", "full"])
def test_a_path_that_no_disk_takes_costs_only_its_own_candidate(tmp_path, source, path, checkout):
    patches = {"long": new_file(path), "fine": new_file("new")}
    built = repos.build(tmp_path / "root", patches, *source, checkout=checkout)
    long, fine = built.candidates["long"], built.candidates["fine"]
    assert (long.status, long.tree) == ("refused", None)
    assert "too long" in long.detail
    assert fine.status == "applied"
