"""Repositories are found by what rollouts call them, wherever their objects are; none is run."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import repos

from gagar_cli.errors import OptionError, SourceError
from gagar_cli.workspace.build import open_store
from gagar_cli.workspace.repositories import RepositoryFinder, objects_folder, read_repo_map

FILES = {"f.txt": repos.numbered(), "d/g.py": "x = 1\n"}
AFTER = repos.numbered().replace("line 15\n", "LINE 15\n")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder, base = repos.make(tmp_path_factory.mktemp("found") / "source", FILES)
    repos.git(folder, "config", "uploadpack.allowFilter", "true")
    repos.commit(folder, {"f.txt": "later\n"})
    return folder, base


@pytest.fixture(scope="module")
def patch(source):
    folder, base = source
    repos.git(folder, "checkout", "-q", base)
    diff = repos.changed(folder, {"f.txt": AFTER})
    repos.git(folder, "checkout", "-q", "main")
    return diff


# What makes each kind of copy, and what it is found by. Words are split at blanks.
KINDS = {
    "bare": (["clone -q --bare {source} copy"], "copy"),
    "bundle": (["-C {source} bundle create {folder}/copy.bundle --all"], "copy"),
    "bundle of HEAD alone": (["-C {source} bundle create {folder}/copy.bundle HEAD"], "copy"),
    "bundle of a branch alone": (["-C {source} bundle create {folder}/copy.bundle main"], "copy"),
    "work tree of another": (
        ["clone -q {source} other", "-C other worktree add -q ../copy --detach"],
        "copy",
    ),
    "git folder elsewhere": (["clone -q --separate-git-dir={folder}/x {source} copy"], "copy"),
    "alternates": (["clone -q --shared {source} other", "clone -q --shared other copy"], "copy"),
    "packed": (["clone -q --no-hardlinks {source} copy", "-C copy gc -q"], "copy"),
    "shallow": (["clone -q --depth=2 file://{source} copy"], "copy"),
    "URL": ([], "file://{source}"),
    "URL of a detached HEAD": (
        [
            "clone -q {source} copy",
            "-C copy checkout -q --detach HEAD~1",
            "-C copy branch -D -q main",
            "-C copy remote remove origin",
        ],
        "file://{folder}/copy",
    ),
    "relative alternates": (["clone -q --shared {source} copy"], "copy"),
    "link to a git folder": (["clone -q --bare {source} other"], "copy"),
}


def copy(kind, source, folder):
    """Make a copy of the source repository of some kind; return what to find it by."""
    commands, name = KINDS[kind]
    for command in commands:
        repos.git(folder, *(w.format(source=source, folder=folder) for w in command.split()))
    if kind == "relative alternates":
        objects = folder / "copy" / ".git" / "objects"
        relative = os.path.relpath(source / ".git" / "objects", objects)
        (objects / "info" / "alternates").write_text(f"{relative}\n")
    if kind == "link to a git folder":
        repos.put(folder, {"copy/.git": folder / "other"})
    return name.format(source=source, folder=folder)


@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_repository_gives_the_same_workspace(tmp_path, source, patch, kind):
    name = copy(kind, source[0], tmp_path)
    before = repos.fingerprint(tmp_path)
    root, cache = tmp_path / "root", tmp_path / "cache"
    repository = RepositoryFinder([tmp_path], cache).find(name)
    built = repos.build(root, patch, repository, source[1])
    assert built.candidates["r"].status == "applied"
    assert repos.tree_files(built.folder / "base") == {
        path.encode(): text.encode() for path, text in FILES.items()
    }
    assert repos.opened(built)[0].read("A", "f.txt") == AFTER.encode()
    after = repos.fingerprint(tmp_path)
    assert {path: state for path, state in after.items() if path in before} == before


def test_what_is_fetched_keeps_no_names_and_is_fetched_once(tmp_path, source):
    repos.git(source[0], "bundle", "create", str(tmp_path / "copy.bundle"), "--all")
    first = RepositoryFinder([tmp_path], tmp_path / "cache").find("copy")
    store = first.objects.parent
    assert repos.git(store, "for-each-ref") == b""
    assert not {"FETCH_HEAD", "packed-refs", "logs"} & {path.name for path in store.iterdir()}
    before = repos.fingerprint(tmp_path / "cache")
    assert RepositoryFinder([tmp_path], tmp_path / "cache").find("copy") == first
    assert repos.fingerprint(tmp_path / "cache") == before


def test_a_bundle_that_changed_is_fetched_anew(tmp_path, source):
    repos.git(source[0], "bundle", "create", str(tmp_path / "copy.bundle"), "main~1..main", "main")
    (tmp_path / "copy.bundle").write_bytes(b"no bundle")
    with pytest.raises(SourceError, match="cannot be fetched"):
        RepositoryFinder([tmp_path], tmp_path / "cache").find("copy")
    repos.git(source[0], "bundle", "create", str(tmp_path / "copy.bundle"), "--all")
    assert RepositoryFinder([tmp_path], tmp_path / "cache").find("copy").objects.is_dir()


@pytest.mark.parametrize(
    "place",
    [
        "psf/requests",
        "psf/requests.git",
        "psf/requests.bundle",
        "psf__requests",
        "psf__requests.git",
        "psf__requests.bundle",
        "requests",
        "requests.git",
        "requests.bundle",
    ],
)
def test_owner_and_name_are_found_in_every_spelling(tmp_path, source, patch, place):
    target = tmp_path / place
    target.parent.mkdir(exist_ok=True)
    if place.endswith(".bundle"):
        repos.git(source[0], "bundle", "create", str(target), "--all")
    else:
        bare = ["--bare"] if place.endswith(".git") else []
        repos.git(tmp_path, "clone", "-q", *bare, str(source[0]), str(target))
    finder = RepositoryFinder([tmp_path / "none", tmp_path], tmp_path / "cache")
    built = repos.build(tmp_path / "root", patch, finder.find("psf/requests"), source[1])
    assert built.candidates["r"].status == "applied"


def test_the_spelling_nearest_to_the_name_wins(tmp_path):
    places = ["o/name", "o__name", "name"]
    for place in places:
        repos.make(tmp_path / place, {"f": place})
    while places:
        found = RepositoryFinder([tmp_path], tmp_path / "cache").find("o/name")
        assert found.objects == tmp_path / places[0] / ".git" / "objects"
        (tmp_path / places[0]).rename(tmp_path / f"away{len(places)}")
        places.pop(0)
    with pytest.raises(SourceError, match="found neither"):
        RepositoryFinder([tmp_path], tmp_path / "cache").find("o/name")


def test_roots_are_searched_in_order(tmp_path):
    for root in ("one", "two"):
        repos.make(tmp_path / root / "name", {"f": root})
    for roots in (["one", "two"], ["two", "one"]):
        finder = RepositoryFinder([tmp_path / root for root in roots], tmp_path / "cache")
        assert finder.find("name").objects.is_relative_to(tmp_path / roots[0])


def test_the_map_overrides_everything(tmp_path, source):
    repos.make(tmp_path / "name", {"f": "1"})
    for target in (str(source[0]), f"file://{source[0]}"):
        mapping = read_repo_map([f"name={target}"])
        found = RepositoryFinder([tmp_path], tmp_path / "cache", mapping).find("name")
        assert found.name == "name"
        assert not found.objects.is_relative_to(tmp_path / "name")
    mapping = read_repo_map([f"name={tmp_path / 'none'}"])
    with pytest.raises(SourceError, match="none"):
        RepositoryFinder([tmp_path], tmp_path / "cache", mapping).find("name")


@pytest.mark.parametrize("pair", ["name", "=path", "name=", ""])
def test_a_map_entry_has_a_name_and_a_path(pair):
    with pytest.raises(OptionError, match="expected NAME=PATH"):
        read_repo_map([pair])


def test_a_path_may_hold_an_equals_sign():
    assert read_repo_map(["o/n=/a=b"]) == {"o/n": "/a=b"}


@pytest.mark.parametrize(
    "name",
    [
        "ext::sh -c 'touch {marker}'",
        "ext::touch% {marker}",
        "ssh://-oProxyCommand=touch%20{marker}/x",
        "fd::17",
        "file://--upload-pack=touch {marker}",
        "file:///none",
        "-c core.pager=touch {marker}",
        "--upload-pack=touch {marker}",
    ],
)
def test_a_name_that_would_run_a_program_is_a_source_error_and_runs_nothing(tmp_path, name):
    marker = tmp_path / "marker"
    target = name.format(marker=marker)
    for mapping in ({}, {target: target}):
        finder = RepositoryFinder([tmp_path], tmp_path / "cache", mapping)
        with pytest.raises(SourceError):
            finder.find(target)
    assert not marker.exists()


@pytest.mark.parametrize("name", ["", ".", "..", "a\0b", "a\nb", "x" * 5000, "no/such"])
def test_a_name_that_is_no_repository_says_where_it_was_looked_for(tmp_path, name):
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(SourceError, match="found neither a git repository nor a bundle under"):
        RepositoryFinder([root], tmp_path / "cache").find(name)


def test_names_that_start_with_a_hyphen_are_names(tmp_path, source, patch, monkeypatch):
    repos.git(tmp_path, "clone", "-q", str(source[0]), str(tmp_path / "-upload-pack=x"))
    repos.git(source[0], "bundle", "create", str(tmp_path / "--all.bundle"), "--all")
    monkeypatch.chdir(tmp_path)
    for name in ("-upload-pack=x", "--all"):
        found = RepositoryFinder([Path()], tmp_path / "cache").find(name)
        built = repos.build(tmp_path / "root", patch, found, source[1])
        assert built.candidates["r"].status == "applied"


def test_a_folder_that_only_looks_like_a_repository_is_none(tmp_path):
    (tmp_path / "a" / ".git").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / ".git").write_text("gitdir: /none\n")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / ".git").write_bytes(b"\xff\0")
    assert [objects_folder(tmp_path / name) for name in "abcd"] == [None] * 4


def test_a_partial_clone_leaves_files_out_and_says_so(tmp_path, source, patch):
    folder, base = source
    place = tmp_path / "copy"
    repos.git(
        tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{folder}", place
    )
    repos.git(place, "cat-file", "blob", f"{base}:d/g.py")  # one of two is fetched
    before = repos.fingerprint(place)
    python = b"--- a/d/g.py\n+++ b/d/g.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    new = b"--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+z\n"
    patches = {"python": python, "new": new, "absent": patch, "both": python + patch}
    for checkout in ("touched", "full"):
        built = repos.build(tmp_path / "root", patches, place, base, checkout=checkout)
        assert built.absent == ("f.txt",)
        assert repos.tree_files(built.folder / "base") == {b"d/g.py": b"x = 1\n"}
        assert {rollout: c.status for rollout, c in built.candidates.items()} == {
            "python": "applied",
            "new": "applied",
            "absent": "failed",
            "both": "failed",
        }
    kept = repos.build(tmp_path / "root", patches, place, base, checkout="full")
    assert (kept.kept, kept.absent) == (True, ("f.txt",))
    workspace, labels = repos.opened(built)
    assert workspace.read(labels["python"], "d/g.py") == b"x = 2\n"
    assert [hit.text for hit, _ in workspace.search(labels["python"], "x = ").hits] == ["x = 2"]
    with pytest.raises(SourceError, match="expected a blob"):
        workspace.read("base", "f.txt")
    assert repos.fingerprint(place) == before


def test_groups_built_at_once_share_one_store(tmp_path, source, patch):
    repository = repos.find(source[0], tmp_path / "cache")
    open_store(str(tmp_path / "root"), repository)
    with ThreadPoolExecutor(8) as pool:
        built = list(
            pool.map(
                lambda n: repos.build(
                    tmp_path / "root", patch, repository, source[1], group=f"g{n}"
                ),
                range(16),
            )
        )
    assert {group.candidates["r"].status for group in built} == {"applied"}
    assert len({group.candidates["r"].tree for group in built}) == 1
    assert len(list((tmp_path / "root" / ".objects").iterdir())) == 1


def test_objects_of_the_newer_hash_are_read(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    repos.git(folder, "init", "-q", "--object-format=sha256")
    base = repos.commit(folder, FILES)
    assert len(base) == 64
    diff = repos.changed(folder, {"f.txt": AFTER})
    near = diff.replace(b" line 14\n", b" line fourteen\n")
    built = repos.build(tmp_path / "root", {"r": diff, "near": near}, folder, base)
    workspace, labels = repos.opened(built)
    assert workspace.read(labels["r"], "f.txt") == AFTER.encode()
    assert built.candidates["r"].status == "applied"
    fuzzy = "applied-fuzz" if shutil.which("patch") else "failed"
    assert built.candidates["near"].status == fuzzy
