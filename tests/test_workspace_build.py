"""What a workspace holds, what it never holds, and when it is made anew."""

import os
import shutil

import pytest
import repos

from gagar_cli.errors import DataError
from gagar_cli.workspace.build import draw_labels, folder_name

FILES = {"f.txt": repos.numbered(), "d/g.py": "x = 1\n", "run.sh": "#!/bin/sh\n", "empty": ""}
AFTER = repos.numbered().replace("line 15\n", "LINE 15\n")
FIX_TEXT = "the reference fix, which nobody may see"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A repository whose history goes on, after the base commit, to the fix."""
    folder, base = repos.make(tmp_path_factory.mktemp("build") / "source", FILES)
    repos.git(folder, "remote", "add", "origin", "https://example.org/secret-remote.git")
    repos.git(folder, "tag", "v1-secret-tag")
    fix = repos.commit(folder, {"f.txt": f"{FIX_TEXT}\n", "fix.py": FIX_TEXT}, "secret message")
    repos.git(folder, "branch", "secret-branch")
    return folder, base, fix


@pytest.fixture(scope="module")
def patches(source):
    folder, base, fix = source
    repos.git(folder, "checkout", "-q", base)
    found = {
        "rollout-one": repos.changed(folder, {"f.txt": AFTER}),
        "rollout-two": repos.changed(folder, {"d/g.py": None, "new/n.py": "y = 2\n"}),
        "rollout-three": b"sorry",
        "rollout-four": None,
        "rollout-five": b"--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+z\n",
    }
    repos.git(folder, "checkout", "-q", fix)
    return found


def all_bytes(folder):
    """Return every name and content under a folder."""
    found = {os.fsencode(path.relative_to(folder)) for path in folder.rglob("*")}
    return b"\0".join([*found, *repos.tree_files(folder).values()])


def outcome(built):
    return built.candidates, built.absent


def test_a_workspace_holds_the_task_the_base_and_every_candidate(tmp_path, source, patches):
    folder, base, _ = source
    built = repos.build(tmp_path, patches, folder, base, text="Grüße,\r\nfix it.")
    assert (built.folder / "TASK.md").read_bytes() == "Grüße,\r\nfix it.".encode()
    assert repos.opened(built)[0].task == "Grüße,\r\nfix it."
    assert repos.tree_files(built.folder / "base") == {
        path.encode(): text.encode() for path, text in FILES.items()
    }
    place = built.folder / "candidates"
    one, two = (built.candidates[f"rollout-{n}"].label for n in ("one", "two"))
    assert repos.tree_files(place / one) == {b"f.txt": AFTER.encode()}
    assert repos.tree_files(place / two) == {b"new/n.py": b"y = 2\n"}
    assert sorted(path.name for path in place.glob("*.diff")) == [f"{x}.diff" for x in "ABCDE"]
    assert sorted(path.name for path in built.folder.iterdir()) == [
        "TASK.md",
        "base",
        "candidates",
        "group.json",
    ]


def test_full_checkouts_equal_real_ones(tmp_path, source, patches):
    folder, base, _ = source
    built = repos.build(tmp_path / "root", patches, folder, base, checkout="full")
    for name in ("rollout-one", "rollout-two"):
        copy = built.folder / "candidates" / built.candidates[name].label
        real = repos.checked_out(folder, base, patches[name], tmp_path / name)
        assert repos.tree_files(copy) == real
        assert not (copy / ".git").exists()


def test_the_source_repository_is_never_written(tmp_path, source):
    folder, base, fix = source
    # A candidate that equals the fix makes objects that the source has already.
    gold = repos.git(folder, "diff", base, fix)
    patches = {"gold": gold, "other": gold.replace(b"nobody", b"everybody"), "fuzzy": gold[:-60]}
    for packed in (False, True):
        if packed:
            repos.git(folder, "gc", "-q")
        before = repos.fingerprint(folder)
        built = repos.build(tmp_path / f"packed-{packed}", patches, folder, base)
        workspace, labels = repos.opened(built)
        assert workspace.read(labels["gold"], "fix.py") == FIX_TEXT.encode()
        workspace.search(labels["gold"], "x")
        workspace.diff("base", labels["gold"])
        assert repos.fingerprint(folder) == before


def test_no_history_comes_along(tmp_path, source, patches):
    folder, base, fix = source
    for repository in (folder, repos.find(folder)):
        built = repos.build(tmp_path / "root", patches, repository, base)
    everything = all_bytes(tmp_path / "root")
    for secret in (FIX_TEXT, fix, base, "secret-remote", "secret-tag", "secret-branch"):
        assert secret.encode() not in everything
    (store,) = (tmp_path / "root" / ".objects").iterdir()
    names = {path.name for path in store.rglob("*") if path.is_file()}
    assert not names & {"packed-refs", "FETCH_HEAD", "ORIG_HEAD", "logs", "index", "COMMIT_EDITMSG"}
    assert list((store / "refs").iterdir()) == []
    assert repos.git(store, "for-each-ref") == repos.git(store, "remote") == b""
    assert repos.git(store, "rev-list", "--all", "--reflog") == b""
    assert built.candidates["rollout-one"].status == "applied"


NO_IDS = ["HEAD", "main", "v1-secret-tag", "refs/heads/main", "@", ":/secret", "--all", "-h", ""]
NO_PLAIN_IDS = [
    "{fix}~1",
    "{fix}^0",
    "{fix}^{{/work}}",
    "{fix}:d",
    "{fix} {fix}",
    "{fix}\n",
    "0" * 40,
]


@pytest.mark.parametrize("name", [*NO_IDS, *NO_PLAIN_IDS, None])
def test_only_ids_name_a_base_commit(tmp_path, source, name):
    commit = name and name.format(fix=source[2])
    with pytest.raises(DataError, match="expected a commit of repository 'source'"):
        repos.build(tmp_path, b"", source[0], commit)
    assert [path.name for path in tmp_path.iterdir()] == [".objects"]


def test_a_short_id_names_its_commit(tmp_path, source):
    built = repos.build(tmp_path, b"", source[0], source[1][:12])
    assert (built.folder / "base" / "f.txt").read_text() == FILES["f.txt"]


def test_many_candidates_need_few_files(tmp_path):
    files = {f"p{n % 20}/m{n}.py": f"x = {n}\n" for n in range(500)}
    source, base = repos.make(tmp_path / "source", files)
    patches = {f"r{n}": repos.changed(source, {f"p{n}/m{n}.py": "y\n"}) for n in range(16)}
    root = tmp_path / "root"
    built = repos.build(root, patches, source, base)
    count = sum(path.is_file() for path in root.rglob("*"))
    assert all(candidate.status == "applied" for candidate in built.candidates.values())
    assert count < 500 + 16 * 8 < 17 * 500 / 10


def test_a_second_build_keeps_the_workspace(tmp_path, source, patches):
    first = repos.build(tmp_path, patches, *source[:2])
    stamp = repos.fingerprint(first.folder)
    second = repos.build(tmp_path, patches, *source[:2])
    assert (first.kept, second.kept) == (False, True)
    assert outcome(second) == outcome(first)
    assert repos.fingerprint(first.folder) == stamp


def test_the_order_of_rollouts_changes_nothing(tmp_path, source, patches):
    first = repos.build(tmp_path, patches, *source[:2])
    turned = dict(reversed(patches.items()))
    second = repos.build(tmp_path, turned, *source[:2])
    assert second.kept
    assert outcome(second) == outcome(first)


def test_what_decides_a_workspace_rebuilds_it(tmp_path, source, patches):
    folder, base, fix = source
    variants = (
        {"patches": {**patches, "rollout-three": b"very sorry"}},
        {"patches": {**patches, "rollout-four": b""}},
        {"text": "Another task."},
        {"seed": 1},
        {"checkout": "full"},
        {"base": fix},
    )
    for options in variants:
        repos.build(tmp_path, patches, folder, base)
        assert repos.build(tmp_path, patches, folder, base).kept
        changed = {"patches": patches, "source": folder, "base": base} | options
        assert not repos.build(tmp_path, **changed).kept


def damage(name, change):
    """Return what does something to one file of a workspace."""

    def run(folder):
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return run


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: shutil.rmtree(folder.parent / ".objects"),
        lambda folder: shutil.rmtree(folder / "base"),
        lambda folder: shutil.rmtree(folder / "candidates"),
        lambda folder: (folder / "candidates" / "A.diff").unlink(),
        lambda folder: (folder / "TASK.md").unlink(),
        lambda folder: (folder / "group.json").unlink(),
        damage("group.json", lambda raw: raw[: len(raw) // 2]),
        damage("group.json", lambda _: b""),
        damage("group.json", lambda _: b"[]"),
        damage("group.json", lambda _: b"\xff\xfe"),
        damage("group.json", lambda raw: raw.replace(b'"candidates"', b'"others"')),
        damage("group.json", lambda raw: raw.replace(b'"tree"', b'"bush"')),
        damage("group.json", lambda raw: raw.replace(b'"tree": "', b'"tree": "0', 1)),
        damage("group.json", lambda raw: raw.replace(b'"store"', b'"shop"')),
        damage("group.json", lambda raw: raw.replace(b'"absent": []', b'"absent": 1')),
    ],
)
def test_a_workspace_that_is_not_whole_is_made_anew(tmp_path, source, patches, harm):
    first = repos.build(tmp_path, patches, *source[:2])
    files = repos.tree_files(first.folder)
    harm(first.folder)
    second = repos.build(tmp_path, patches, *source[:2])
    assert not second.kept
    assert outcome(second) == outcome(first)
    assert repos.tree_files(second.folder) == files
    assert repos.opened(second)[0].files("A")


def test_a_failed_build_leaves_nothing_and_loses_nothing(tmp_path, source, patches):
    first = repos.build(tmp_path, patches, *source[:2])
    files = repos.tree_files(first.folder)
    with pytest.raises(DataError):
        repos.build(tmp_path, patches, source[0], "0" * 40)
    assert repos.tree_files(first.folder) == files
    assert {path.name for path in tmp_path.iterdir()} == {".objects", first.folder.name}


def test_no_file_tells_a_rollout_or_whether_it_passed(tmp_path, source, patches):
    built = repos.build(tmp_path, patches, *source[:2])
    everything = all_bytes(tmp_path)
    assert b"rollout" not in everything
    assert b"passed" not in all_bytes(built.folder)


def test_labels_follow_the_group_and_the_seed_and_nothing_else():
    ids = [f"r{n}" for n in range(30)]
    labels = draw_labels("g", ids, 0)
    assert draw_labels("g", ids[::-1], 0) == labels
    assert sorted(labels.values(), key=lambda x: (len(x), x))[25:28] == ["Z", "AA", "AB"]
    assert draw_labels("h", ids, 0) != labels
    assert draw_labels("g", ids, 1) != labels
    firsts = {draw_labels(f"g{n}", ids, 0)["r0"] for n in range(60)}
    assert len(firsts) > 15  # no rollout has a label of its own


STRANGE = ["../../x", "", "a/b", "a b", "..", ".", "x" * 5000, "ü/日本", "\0", "-rf", "a\nb", "CON"]


def test_strange_group_ids_stay_inside_the_root(tmp_path):
    root = tmp_path / "deep" / "root"
    for group in STRANGE:
        built = repos.build(root, b"sorry", group=group)
        assert built.folder.parent == root.resolve()
        assert built.folder.is_dir()
        assert not built.folder.name.startswith((".", "-"))
    assert len(list(root.iterdir())) == len(STRANGE)
    assert [path.name for path in tmp_path.rglob("*.diff") if root not in path.parents] == []


def test_ids_with_one_safe_form_get_folders_of_their_own():
    ids = [*STRANGE, "a_b", "a b", "a?b", "日本", "本日", "x" * 4999, "A_b"]
    assert len({folder_name(group, "").lower() for group in ids}) == len(set(ids))
    assert max(len(folder_name(group, "").encode()) for group in ids) < 100
    assert folder_name("django__django-11001", "").startswith("django__django-11001-")


def test_without_a_repository_there_are_only_diffs(tmp_path, patches):
    one = patches["rollout-one"]
    built = repos.build(tmp_path, {**patches, "miscounted": one.replace(b",7 +", b",9 +")})
    found = {rollout: (c.status, c.lines_added) for rollout, c in built.candidates.items()}
    assert found == {
        "rollout-one": ("diff-only", 1),
        "rollout-two": ("diff-only", 1),
        "rollout-three": ("failed", None),
        "rollout-four": ("empty", 0),
        "rollout-five": ("diff-only", 1),
        "miscounted": ("diff-only", 1),
    }
    assert built.candidates["miscounted"].detail == "no repository; hunks recounted"
    assert not (built.folder / "base").exists()
    assert not (tmp_path / ".objects").exists()
    assert all(candidate.tree is None for candidate in built.candidates.values())
    assert repos.build(tmp_path, patches).kept is False
    assert repos.build(tmp_path, patches).kept is True
