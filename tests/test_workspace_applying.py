"""Patches as they come: each untidy shape gets the right status and the right files."""

import re
import shutil

import pytest
import repos

BEFORE = repos.numbered()
AFTER = BEFORE.replace("line 15\n", "LINE 15\n")
CRLF = BEFORE.replace("\n", "\r\n")
PYTHON = "import os\n\n\ndef f():\n    return 1\n"
FILES = {
    "f.txt": BEFORE,
    "d/g.py": PYTHON,
    "crlf.txt": CRLF,
    "pixel.bin": bytes(range(256)),
    "with space.txt": "a\nb\n",
    "latin.txt": b"caf\xe9\nx\ny\n",
    "run.sh": "#!/bin/sh\n" + BEFORE,
    "open.txt": "a\nb",
    "ä.txt": "ä\n",
}
needs_patch = pytest.mark.skipif(shutil.which("patch") is None, reason="no `patch` program")


class Case:
    """A repository, and what became of the one patch that was put on it."""

    def __init__(self, folder):
        self.root = folder / "root"
        self.source, self.base = repos.make(folder / "source", FILES)
        self.source.joinpath("run.sh").chmod(0o755)
        self.base = repos.commit(self.source, {})
        self.count = 0

    def diff(self, files, *options):
        return repos.changed(self.source, files, *options)

    def apply(self, patch):
        self.count += 1
        built = repos.build(self.root, patch, self.source, self.base, group=f"g{self.count}")
        return built.candidates["r"], repos.opened(built)[0]


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return Case(tmp_path_factory.mktemp("applying"))


def result(case, patch, path="f.txt"):
    """Apply a patch; return its status, its detail, and one file's content."""
    candidate, workspace = case.apply(patch)
    content = workspace.read(candidate.label, path) if candidate.tree else None
    return candidate.status, candidate.detail, content


def headless(patch):
    """Drop what only git writes, as `diff -u` does."""
    lines = [
        x for x in patch.splitlines(keepends=True) if not x.startswith((b"diff --git", b"index "))
    ]
    return b"".join(lines)


def miscounted(patch):
    return re.sub(
        rb"^@@ -(\d+),\d+ \+(\d+),\d+ @@", rb"@@ -\1,19 +\2,3 @@", patch, flags=re.MULTILINE
    )


@pytest.fixture(scope="module")
def plain(case):
    return case.diff({"f.txt": AFTER})


@pytest.mark.parametrize(
    ("untidy", "detail"),
    [
        (lambda p: p, ""),
        (lambda p: p.removesuffix(b"\n"), "edges cleaned"),
        (lambda p: b"\n \n\t\n" + p, ""),
        (lambda p: p + b"\n\n\n", ""),
        (lambda p: b"\xef\xbb\xbf" + p, ""),
        (lambda p: b"\xef\xbb\xbf\n" + p.removesuffix(b"\n"), "edges cleaned"),
        (headless, ""),
        (miscounted, "hunks recounted"),
        (lambda p: miscounted(headless(p)), "hunks recounted"),
        (lambda p: p.replace(b"\n", b"\r\n"), "line ends of the patch made LF"),
        (lambda p: p.replace(b"\n", b"\r\n")[:-2], "line ends of the patch made LF"),
        (lambda p: b"Here it is:\n\n```diff\n" + p + b"```\nThat is all.\n", ""),
        (lambda p: b"Here:\n```diff\n" + miscounted(p) + b"```\nThat is all.\n", "hunks recounted"),
    ],
    ids=[
        "as git writes it",
        "no last newline",
        "blank lines first",
        "blank lines last",
        "byte-order mark",
        "byte-order mark, blank line and no last newline",
        "no git header",
        "wrong counts",
        "wrong counts and no git header",
        "CRLF",
        "CRLF and no last newline",
        "fenced in prose",
        "fenced in prose with wrong counts",
    ],
)
def test_an_untidy_patch_is_applied_like_the_tidy_one(case, plain, untidy, detail):
    assert result(case, untidy(plain)) == ("applied", detail, AFTER.encode())


def test_several_files_without_git_headers_and_with_wrong_counts_are_applied(case, plain):
    other = case.diff({"d/g.py": PYTHON.replace("1", "2")})
    patch = miscounted(headless(plain + other))
    assert result(case, patch)[0] == "applied"
    assert result(case, patch, "d/g.py")[2] == PYTHON.replace("1", "2").encode()


def test_a_header_with_a_time_after_blanks_is_applied(tmp_path, case, plain):
    patch = headless(plain).replace(b"/f.txt", b"/f.txt 2026-07-05 19:41:17.620000023 -0500")
    built = repos.build(tmp_path, patch, case.source, case.base)  # no file was touched here before
    assert built.candidates["r"].status == "applied"
    assert repos.opened(built)[0].read("A", "f.txt") == AFTER.encode()


def test_a_file_that_ends_without_a_newline_keeps_it_so(case):
    patch = case.diff({"open.txt": "a\nB"})
    assert result(case, patch, "open.txt") == ("applied", "", b"a\nB")


def test_a_crlf_file_takes_the_patch_that_git_makes_of_it(case):
    new = AFTER.replace("\n", "\r\n").encode()
    patch = case.diff({"crlf.txt": new})
    assert result(case, patch, "crlf.txt") == ("applied", "", new)


def test_an_lf_patch_on_a_crlf_file_leaves_the_other_lines_as_they_were(case):
    patch = case.diff({"crlf.txt": AFTER.replace("\n", "\r\n")}).replace(b"\r\n", b"\n")
    status, detail, content = result(case, patch, "crlf.txt")
    assert (status, detail) == ("applied-fuzz", "white space ignored")
    assert content == CRLF.replace("line 15\r\n", "LINE 15\n").encode()


def test_context_that_moved_is_merged_with_the_blobs_that_the_diff_names(tmp_path):
    source, _ = repos.make(tmp_path / "source", {"f.txt": BEFORE})
    patch = repos.changed(source, {"f.txt": AFTER})
    moved = "".join(f"new {n}\n" for n in range(40)) + BEFORE.replace("line 12\n", "other 12\n")
    base = repos.commit(source, {"f.txt": moved})
    candidate = repos.build(tmp_path / "root", patch, source, base).candidates["r"]
    assert candidate.status == "applied-3way"
    assert (candidate.lines_added, candidate.lines_removed) == (1, 1)
    wanted = moved.replace("line 15\n", "LINE 15\n")
    (copy,) = (tmp_path / "root").glob("*/candidates/A/f.txt")
    assert copy.read_text() == wanted


def test_a_merge_with_a_conflict_is_no_success(tmp_path):
    source, _ = repos.make(tmp_path / "source", {"f.txt": BEFORE})
    patch = repos.changed(source, {"f.txt": AFTER})
    base = repos.commit(source, {"f.txt": BEFORE.replace("line 15\n", "mine\n")})
    candidate = repos.build(tmp_path / "root", patch, source, base).candidates["r"]
    assert (candidate.status, candidate.tree) == ("failed", None)


def test_far_context_that_differs_needs_less_context(case, plain):
    patch = plain.replace(b" line 12\n", b" line twelve\n")
    expected = ("applied-fuzz", "one line of context", AFTER.encode())
    assert result(case, patch) == expected


@needs_patch
def test_near_context_that_differs_needs_the_patch_program(case, plain):
    patch = plain.replace(b" line 14\n", b" line fourteen\n")
    assert result(case, patch) == ("applied-fuzz", "patch --fuzz=5", AFTER.encode())


@needs_patch
def test_the_patch_program_keeps_and_makes_files_that_run(case):
    edit = case.diff({"run.sh": "#!/bin/sh\n" + AFTER})
    new = case.diff({"bin/new": "x\n"}).replace(b"mode 100644", b"mode 100755")
    candidate, workspace = case.apply((edit + new).replace(b" line 14\n", b" line fourteen\n"))
    assert (candidate.status, candidate.detail) == ("applied-fuzz", "patch --fuzz=5")
    files = {file.path: file for file in workspace.facts(candidate.label).files}
    assert {path: file.mode for path, file in files.items()} == {
        "run.sh": "100755",
        "bin/new": "100755",
    }


def test_a_reversed_patch_is_turned_round(case, plain):
    patch = plain.replace(b"-line 15\n+LINE 15\n", b"-LINE 15\n+line 15\n")
    assert result(case, patch) == ("applied-fuzz", "in reverse", AFTER.encode())


def test_a_patch_that_is_in_the_base_already_is_turned_round_as_verifiers_do(tmp_path):
    source, _ = repos.make(tmp_path / "source", {"f.txt": BEFORE})
    patch = repos.changed(source, {"f.txt": AFTER})
    base = repos.commit(source, {"f.txt": AFTER})
    candidate = repos.build(tmp_path / "root", patch, source, base).candidates["r"]
    assert (candidate.status, candidate.detail) == ("applied-fuzz", "in reverse")


def test_paths_without_prefixes_are_found(case):
    new = PYTHON.replace("1", "2")
    for patch in (
        case.diff({"d/g.py": new}, "--no-prefix"),
        headless(case.diff({"d/g.py": new}, "--no-prefix")),
    ):
        expected = ("applied-fuzz", "paths without a/ and b/", new.encode())
        assert result(case, patch, "d/g.py") == expected


@pytest.mark.parametrize("header", ["diff --git a/d/g.py b/d/g.py\nnew file mode 100644\n", ""])
def test_a_new_file_that_is_there_already_does_not_land_in_a_folder_named_b(case, header):
    patch = header + "--- /dev/null\n+++ b/d/g.py\n@@ -0,0 +1 @@\n+z\n"
    assert result(case, patch.encode())[0] == "failed"


@pytest.mark.parametrize(
    "prose",
    [
        b"I could not reproduce the issue, sorry.",
        b"--- a dash\n+++ is no diff",
        b"\x89PNG\r\n\x1a\n\0\0",
        b"diff",
    ],
)
def test_prose_is_no_patch(case, prose):
    candidate, _ = case.apply(prose)
    assert (candidate.status, candidate.tree, candidate.files_changed) == ("failed", None, None)


@pytest.mark.parametrize(
    ("patch", "detail"),
    [(None, "no patch"), (b"", ""), (b"\n", ""), (b" \t\r\n\n", "")],
)
def test_nothing_to_apply_is_empty_and_has_the_base_tree(case, patch, detail):
    candidate, workspace = case.apply(patch)
    assert (candidate.status, candidate.detail) == ("empty", detail)
    assert (candidate.files_changed, candidate.lines_added, candidate.lines_removed) == (0, 0, 0)
    assert workspace.files(candidate.label) == workspace.files("base")


def test_a_patch_that_changes_nothing_is_applied(case):
    patch = b"--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n line 1\n-line 2\n+line 2\n line 3\n"
    candidate, _ = case.apply(patch)
    assert (candidate.status, candidate.files_changed) == ("applied", 0)


def test_a_binary_file_without_data_costs_the_patch_only_that_file(case, plain):
    binary = case.diff({"pixel.bin": b"\0new"})
    assert b"Binary files" in binary
    for patch in (binary + plain, plain + binary):
        expected = ("applied-fuzz", "1 binary file without data left out", AFTER.encode())
        assert result(case, patch) == expected


def test_a_binary_file_without_data_alone_fails(case):
    assert result(case, case.diff({"pixel.bin": b"\0new"}))[0] == "failed"


def test_a_binary_patch_with_data_is_applied(case):
    for new in (b"\0new", bytes(range(256)) * 3):
        patch = case.diff({"pixel.bin": new, "new.bin": b"\0\1"}, "--binary")
        assert result(case, patch, "pixel.bin") == ("applied", "", new)
        assert result(case, patch, "new.bin")[2] == b"\0\1"


def test_one_file_twice_takes_both_changes(case, plain):
    other = case.diff({"f.txt": BEFORE.replace("line 3\n", "LINE 3\n")})
    new = AFTER.replace("line 3\n", "LINE 3\n")
    assert result(case, plain + other) == ("applied", "", new.encode())


def test_a_large_patch_is_applied_whole(case):
    new = "".join(f"row {n:07} of a table that some rollout generated\n" for n in range(20_000))
    patch = case.diff({"table.txt": new})
    assert len(patch) > 900_000
    assert result(case, patch, "table.txt") == ("applied", "", new.encode())


def test_files_come_go_and_move(case):
    patch = case.diff({"d/g.py": None, "f.txt": None, "e/f/moved.txt": BEFORE, "new/n.py": "1\n"})
    candidate, workspace = case.apply(patch)
    kinds = {f.path: f.kind for f in workspace.facts(candidate.label).files}
    assert kinds == {"d/g.py": "deleted", "e/f/moved.txt": "renamed", "new/n.py": "added"}
    assert {"e/f/moved.txt", "new/n.py"} <= set(workspace.files(candidate.label))
    assert not {"d/g.py", "f.txt"} & set(workspace.files(candidate.label))


def test_a_file_moves_and_changes(case):
    patch = case.diff({"f.txt": None, "moved.txt": AFTER})
    assert b"rename from f.txt" in patch
    assert result(case, patch, "moved.txt") == ("applied", "", AFTER.encode())


def test_a_mode_changes_alone_and_with_content(case):
    mode = b"diff --git a/f.txt b/f.txt\nold mode 100644\nnew mode 100755\n"
    candidate, workspace = case.apply(mode)
    assert (candidate.status, candidate.files_changed, candidate.lines_added) == ("applied", 1, 0)
    copy = workspace.folder / "candidates" / candidate.label / "f.txt"
    assert copy.stat().st_mode & 0o111
    case.source.joinpath("f.txt").chmod(0o755)
    candidate, workspace = case.apply(case.diff({"f.txt": AFTER}))
    assert workspace.facts(candidate.label).files[0].mode == "100755"
    assert workspace.read(candidate.label, "f.txt") == AFTER.encode()


def test_content_that_is_not_utf_8_stays_as_it_is(case):
    new = b"caf\xe9\nz\xff\xfe\ny\n"
    assert result(case, case.diff({"latin.txt": new}), "latin.txt") == ("applied", "", new)


def test_paths_with_blanks_and_other_alphabets_are_found(case):
    for path, quoted in (("with space.txt", False), ("ä.txt", True), ("ä.txt", False)):
        option = f"core.quotePath={'true' if quoted else 'false'}"
        repos.put(case.source, {path: "new\n"})
        patch = repos.git(case.source, "-c", option, "diff")
        repos.git(case.source, "checkout", "-q", ".")
        assert (b"\\303\\244" in patch) is quoted
        assert result(case, patch, path) == ("applied", "", b"new\n")


def test_a_submodule_entry_is_kept_and_nothing_is_fetched(case):
    patch = (
        b"diff --git a/sub b/sub\nnew file mode 160000\nindex 0000000..1111111\n"
        b"--- /dev/null\n+++ b/sub\n@@ -0,0 +1 @@\n+Subproject commit " + b"1" * 40 + b"\n"
    )
    candidate, workspace = case.apply(patch)
    assert (candidate.status, candidate.files_changed) == ("applied", 1)
    assert "sub" in workspace.files(candidate.label)
    assert repos.tree_files(workspace.folder / "candidates" / candidate.label) == {}


def test_one_bad_patch_loses_nobody_elses(case, plain):
    patches = {
        "good": plain,
        "prose": b"sorry",
        "stale": plain.replace(b"line 15", b"line x").replace(b"line 1", b"row "),
        "evil": b"--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+z\n",
        "none": None,
        "also good": case.diff({"d/g.py": "2\n"}),
    }
    built = repos.build(case.root, patches, case.source, case.base, group="mixed")
    statuses = {rollout: candidate.status for rollout, candidate in built.candidates.items()}
    assert statuses == {
        "good": "applied",
        "prose": "failed",
        "stale": "failed",
        "evil": "refused",
        "none": "empty",
        "also good": "applied",
    }
    for rollout, patch in patches.items():
        label = built.candidates[rollout].label
        stored = (built.folder / "candidates" / f"{label}.diff").read_bytes()
        if statuses[rollout] != "applied":
            assert stored == (patch or b"")
        has_files = (built.folder / "candidates" / label).is_dir()
        assert has_files is (statuses[rollout] in {"applied", "empty"})


def test_a_failed_patch_says_why(case, plain):
    candidate, _ = case.apply(plain.replace(b"line 1", b"row "))
    assert (candidate.status, candidate.detail) == ("failed", "patch failed: f.txt:12")
    candidate, _ = case.apply(plain.replace(b"@@ -12,7", b"@@ -12,x"))
    assert candidate.status == "failed"
    assert "gagar" not in candidate.detail
