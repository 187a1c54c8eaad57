"""What a diff is read to do is what git says that it does."""

import re
from itertools import product

import pytest
import repos
from hypothesis import given, settings
from hypothesis import strategies as st

from gagar_cli.errors import DataError
from gagar_cli.patches import (
    has_prefixes,
    is_diff,
    named_paths,
    preimages,
    read_diff,
    recounted,
    unquoted,
    with_clean_edges,
    without_dataless_binaries,
)

BEFORE = repos.numbered()
AFTER = BEFORE.replace("line 15\n", "LINE 15\nand more\n")
FILES = {
    "f.txt": BEFORE,
    "d/g.py": "x = 1\n",
    "crlf.txt": BEFORE.replace("\n", "\r\n"),
    "pixel.bin": bytes(range(256)),
    "with space.txt": "a\nb\n",
    "with space.bin": b"\0",
    "latin.txt": b"caf\xe9\nx\n",
    "open.txt": "a\nb",
    "ä.txt": "ä\n",
    'quo"te\t.txt': "a\n",
    "dashes.sql": "-- one\n-- two\nthree\n",
    "odd.txt": "a\x0cb\u2028c\x1cd\x85e\rf\ng\n",
    "run.sh": "#!/bin/sh\n",
}
CHANGES = {
    "one line": {"f.txt": AFTER},
    "far apart": {"f.txt": AFTER.replace("line 2\n", "").replace("line 29\n", "x\ny\n")},
    "several files": {"f.txt": AFTER, "d/g.py": "x = 2\n", "d/h/new.py": "1\n2\n"},
    "rename": {"f.txt": None, "e/moved.txt": BEFORE},
    "rename with edit": {"f.txt": None, "e/moved.txt": AFTER},
    "rename with space": {"with space.txt": None, "d/new space.txt": "a\nb\n"},
    "delete": {"f.txt": None, "with space.txt": None},
    "empty file": {"d/__init__.py": "", "with space.log": ""},
    "binary": {"pixel.bin": b"\0\1", "with space.bin": None, "new space.bin": b"\0\2"},
    "CRLF": {"crlf.txt": AFTER.replace("\n", "\r\n")},
    "not UTF-8": {"latin.txt": b"caf\xe8\nx\n\xff\n"},
    "no last newline": {"open.txt": "a\nc", "d/g.py": "x = 1", "new.txt": "z"},
    "last newline comes": {"open.txt": "a\nb\n"},
    "names": {"ä.txt": "b\n", 'quo"te\t.txt': "b\nc\n", "with space.txt": "b\n"},
    "lines like headers": {"dashes.sql": "++ one\n-- two\n@@ -1,2 +1 @@\ndiff --git a/x b/x\n"},
    "odd line ends": {"odd.txt": "a\x0cb\u2028C\x1cd\x85e\rf\nG\n"},
    "all lines": {"f.txt": BEFORE.upper()},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return repos.make(tmp_path_factory.mktemp("patches") / "source", FILES)[0]


def facts_as_numstat(raw):
    """Return what `git diff --numstat -z --no-renames` would say, but for renames."""
    return sorted(
        (file.path, *((None, None) if file.binary else (len(file.added), len(file.removed))))
        for file in read_diff(raw).files
    )


def numstat(folder, files):
    repos.put(folder, files)
    fields = repos.changes(folder, "--numstat", "-z").split(b"\0")[:-1]
    found = []
    while fields:
        added, removed, path = fields.pop(0).split(b"\t", 2)
        if not path:  # a rename: old and new path follow
            _, path = fields.pop(0), fields.pop(0)
        counts = (None, None) if added == b"-" else (int(added), int(removed))
        found.append((path.decode(), *counts))
    return sorted(found)


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("options", [(), ("-U0",), ("--binary", "--full-index"), ("-U20",)])
def test_counts_and_paths_equal_those_of_git(source, name, options):
    raw = repos.changed(source, CHANGES[name], *options)
    expected = numstat(source, CHANGES[name])
    assert facts_as_numstat(raw) == expected
    facts = read_diff(raw)
    assert facts.lines_added == sum(added or 0 for _, added, _ in expected)
    assert facts.lines_removed == sum(removed or 0 for _, _, removed in expected)
    assert any(file.binary for file in facts.files) is any(
        added is None for _, added, _ in expected
    )
    assert recounted(raw) == raw


def status_of(source, files):
    repos.put(source, files)
    letters = {"A": "added", "D": "deleted", "M": "modified", "R": "renamed"}
    fields = repos.changes(source, "--name-status", "-z").decode().split("\0")[:-1]
    found = []
    while fields:
        kind = letters[fields.pop(0)[0]]
        old = fields.pop(0)
        new = fields.pop(0) if kind == "renamed" else old
        found.append((new, old, kind))
    return sorted(found)


@pytest.mark.parametrize("name", CHANGES)
def test_kinds_and_old_paths_equal_those_of_git(source, name):
    raw = repos.changed(source, CHANGES[name])
    found = sorted((file.path, file.old_path, file.kind) for file in read_diff(raw).files)
    assert found == status_of(source, CHANGES[name])


def test_modes_are_told(source):
    source.joinpath("run.sh").chmod(0o755)
    repos.put(source, {"link": source / "f.txt", "d/g.py": "x = 2\n", "f.txt": None})
    modes = {file.path: file.mode for file in read_diff(repos.changes(source)).files}
    assert modes == {"run.sh": "100755", "link": "120000", "d/g.py": "100644", "f.txt": "100644"}


def lines_of(text):
    return text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")


def check_places(raw, before, after):
    for file in read_diff(raw).files:
        for block in file.blocks:
            old, new = block.old_start - 1, block.new_start - 1
            if block.removed:
                assert lines_of(before)[old : old + len(block.removed)] == list(block.removed)
            if block.added:
                assert lines_of(after)[new : new + len(block.added)] == list(block.added)


def test_blocks_are_runs_of_changed_lines_at_their_places(source):
    after = AFTER.replace("line 2\n", "").replace("line 29\n", "x\ny\n")
    (file,) = read_diff(repos.changed(source, {"f.txt": after})).files
    assert [(b.old_start, b.new_start, b.removed, b.added) for b in file.blocks] == [
        (2, 2, ("line 2",), ()),
        (15, 14, ("line 15",), ("LINE 15", "and more")),
        (29, 29, ("line 29",), ("x", "y")),
    ]


LINES = st.lists(
    st.text(st.sampled_from("ab +-@\\\t\r\x0b\x0c\x1c\x85\u2028ä"), max_size=5), max_size=12
)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + "\n" * end, LINES, st.booleans())


@settings(max_examples=60)
@given(st.data())
def test_counts_and_places_equal_git_for_any_text(tmp_path_factory, data):
    before = data.draw(TEXTS)
    # Lines that stay make the two alike, so that hunks have context.
    kept = data.draw(st.lists(st.sampled_from(lines_of(before)), max_size=8))
    after = "\n".join(kept) + data.draw(TEXTS)
    folder = tmp_path_factory.getbasetemp() / "pair"
    repos.put(folder, {"x.txt": before, "y.txt": after})
    context = data.draw(st.sampled_from(["-U0", "-U1", "-U3"]))

    def diff(option):
        return repos.git(folder, "diff", "--no-index", option, "x.txt", "y.txt", check=False)

    raw = diff(context)
    counts = [int(x) for x in diff("--numstat").split(b"\t")[:2]] if before != after else [0, 0]
    facts = read_diff(raw)
    assert [facts.lines_added, facts.lines_removed] == counts
    check_places(raw, before, after)
    assert recounted(raw) == raw
    # In a hunk whose counts are wrong, such lines are taken for another file's header.
    if not re.search(rb"^[-+](?:--|\+\+) ", raw.partition(b"\n@@ ")[2], re.MULTILINE):
        wrong = re.sub(rb"(?m)^(@@ -\d+)\S* (\+\d+)\S*", rb"\1,99 \2,99", raw)
        again = read_diff(recounted(wrong))
        assert [again.lines_added, again.lines_removed] == counts


def test_a_mailed_patch_keeps_its_counts_and_loses_its_signature(source):
    repos.git(source, "checkout", "-q", "-B", "mail")
    repos.commit(source, {"f.txt": AFTER})
    mail = repos.git(source, "format-patch", "--stdout", "-1")
    assert re.search(rb"^-- \n\d", mail, re.MULTILINE)
    assert recounted(mail) == mail
    wrong = mail.replace(b"@@ -12,7 +12,8 @@", b"@@ -12,9 +12,3 @@")
    assert recounted(wrong) == mail
    assert read_diff(mail).lines_removed == 1
    repos.git(source, "checkout", "-q", "main")


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        b"```\nDone.\n",
        b"diff --git a/g b/g\n",
        b"--- a/g\n+++ b/g\n",
        b"@@ -9 +9 @@\n-x\n+y\n",
    ],
)
@pytest.mark.parametrize("counts", [b"-1,3 +1,2", b"-1,2 +1,4", b"-1,9 +1,9", b"-1 +1", b"-1,0 +1"])
def test_wrong_counts_are_put_right(counts, tail):
    hunk = b"@@ %s @@ def f():\n a\n-b\n+c\n+d\n e\n"
    wrong, right = (b"--- a/f\n+++ b/f\n" + hunk % c + tail for c in (counts, b"-1,3 +1,4"))
    assert recounted(wrong) == right
    assert recounted(right) == right


def test_blank_lines_and_prose_after_a_hunk_are_no_part_of_it():
    body = b" a\n-b\n+c\n+d\n e\n\n\nDone.\n"
    wrong, right = (b"--- a/f\n+++ b/f\n@@ -1,3 +1,%d @@\n" % n + body for n in (2, 4))
    assert recounted(wrong) == right
    assert recounted(right) == right


def test_counts_that_do_not_fit_cannot_be_read():
    with pytest.raises(DataError, match="unidiff cannot parse it"):
        read_diff(b"--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n a\n-b\n+c\n")


def test_bytes_that_are_not_utf_8_become_visible(source):
    (file,) = read_diff(repos.changed(source, {"latin.txt": b"caf\xe8\nx\n"})).files
    assert (file.removed, file.added) == (("caf\\xe9",), ("caf\\xe8",))


@pytest.mark.parametrize("raw", [b"", b"prose", b"\n\n"])
def test_no_diff_has_no_files(raw):
    assert read_diff(raw).files == ()


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ('"a/\\303\\244.txt"', "a/ä.txt"),
        ('"a\\tb\\nc\\"d\\\\e"', 'a\tb\nc"d\\e'),
        ('"a/ä \\303\\244"', "a/ä ä"),
        ("a/plain.txt", "a/plain.txt"),
        ('"', '"'),
        ('""', ""),
        ('a"b"', 'a"b"'),
    ],
)
def test_quoting_is_undone(name, plain):
    assert unquoted(name) == plain


def test_every_byte_survives_the_quoting_of_git(source):
    names = ["".join(map(chr, range(n, n + 9))).replace("/", "_") for n in (1, 10, 19, 28, 119)]
    raw = repos.changed(source, dict.fromkeys(names, "x\n"))
    assert sorted(file.path for file in read_diff(raw).files) == sorted(names)
    assert set(named_paths(raw)) == {name.encode() for name in names}


def test_named_paths_are_those_of_every_header(source):
    files = {"f.txt": None, "e/m.txt": BEFORE, "ä.txt": "b\n", "pixel.bin": b"\0", "new": "1\n"}
    source.joinpath("run.sh").chmod(0o755)
    repos.put(source, files)
    raw = repos.changes(source)
    assert set(named_paths(raw)) == {p.encode() for p in (*files, "run.sh")}
    assert set(named_paths(raw.replace(b"\n", b"\r\n"))) == {p.encode() for p in (*files, "run.sh")}
    bare = repos.changed(source, {"d/g.py": "2\n"}, "--no-prefix")
    assert named_paths(bare, strip=0) == (b"d/g.py",)
    assert named_paths(b"--- a/x\t2026-01-01\n+++ /dev/null\n") == (b"x",)


def test_prefixes_are_seen(source):
    for name, options in product(CHANGES, [(), ("--no-prefix",)]):
        assert has_prefixes(repos.changed(source, CHANGES[name], *options)) is (not options)
    for old, new, expected in [
        ("a/x", "b/x", True),
        ("/dev/null", "b/x", True),
        ("a/x", "/dev/null", True),
        ('"a/\\303\\244"', '"b/\\303\\244"', True),
        ("x", "x", False),
        ("a/x", "a/x", False),
        ("x", "/dev/null", False),
    ]:
        assert has_prefixes(f"--- {old}\n+++ {new}\n@@ -1 +1 @@\n-x\n+y\n".encode()) is expected


def test_the_blobs_that_a_diff_starts_from_are_named(source):
    raw = repos.changed(source, {"f.txt": AFTER, "d/g.py": "2\n"}, "--full-index")
    blobs = repos.git(source, "rev-parse", "HEAD:f.txt", "HEAD:d/g.py").decode().split()
    assert sorted(preimages(raw)) == sorted(blobs)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", True),
        (b"--- x\n+++ x\n", True),
        (b"--- x\r\n+++ x\r\n", True),
        (b"Text before.\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", True),
        (b"@@ -1 +1 @@\n-a\n+b\n", True),
        (b"Binary files a/x and b/x differ\n", True),
        (b"I used git diff --git to look.\n", False),
        (b"---\ntitle: notes\n---\n+++ more\n", False),
        (b"  --- a/x\n  +++ b/x\n", False),
        (b"@@ later @@\n", False),
        (b"", False),
    ],
)
def test_a_diff_is_told_from_prose(raw, expected):
    assert is_diff(raw) is expected


@pytest.mark.parametrize("name", CHANGES)
def test_what_git_writes_is_a_diff(source, name):
    raw = repos.changed(source, CHANGES[name])
    assert is_diff(raw)
    assert with_clean_edges(raw) == raw


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (b"\xef\xbb\xbfx\n", b"x\n"),
        (b"\n\r\n \t\nx\n", b"x\n"),
        (b"x", b"x\n"),
        (b"\xef\xbb\xbf\n\nx\n y", b"x\n y\n"),
        (b"x\n\n\n", b"x\n\n\n"),
        (b"", b""),
        (b"\n\n", b""),
    ],
)
def test_edges_are_cleaned(raw, clean):
    assert with_clean_edges(raw) == clean
    assert with_clean_edges(clean) == clean


def test_only_binaries_without_data_are_dropped(source):
    text = repos.changed(source, {"f.txt": AFTER.replace("line 3", "Binary files a and b differ")})
    dataless = repos.changed(source, {"pixel.bin": b"\0"})
    data = repos.changed(source, {"pixel.bin": b"\0"}, "--binary")
    assert without_dataless_binaries(dataless + text + dataless) == (text, 2)
    assert without_dataless_binaries(data + text) == (data + text, 0)
    assert without_dataless_binaries(dataless) == (b"", 1)
    assert without_dataless_binaries(b"") == (b"", 0)
