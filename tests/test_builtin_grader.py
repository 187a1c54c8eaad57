"""The built-in grader ranks what a reader would prefer first, and says why."""

import asyncio
import itertools
import time

import pytest
import repos
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.grading.builtin import EMPTY, BuiltinGrader, Look, rank_looks
from gagar_cli.grading.contract import GroupView
from gagar_cli.patches import read_diff

CORE = """\
def parse(text):
    parts = text.split(",")
    return [int(part) for part in parts]


def show(values):
    header = "values"
    width = max(len(str(value)) for value in values)
    lines = [str(value).rjust(width) for value in values]
    border = "-" * max(width, len(header))
    lines = [header, border, *lines, border]
    return "\\n".join(lines)
"""
FILES = {
    "src/core.py": CORE,
    "src/other.py": "".join(f"name_{n} = {n}\n" for n in range(40)),
    "tests/test_core.py": "from core import parse\n\n\ndef test_parse():\n"
    "    assert parse('1,2') == [1, 2]\n    assert parse('') == [0]\n",
    "README.md": "Parses.\n",
}
FIX = CORE.replace("    parts =", "    if not text:\n        return []\n    parts =")
OTHER_FIX = CORE.replace("text.split", '(text or "0").split')
WRONG = CORE.replace("int(part)", "int(part or 0)")
SHOW = CORE[CORE.index("def show") :]
CLEAN = {"src/core.py": FIX}
MESSES = {
    "files outside the shared scope": {"src/other.py": FILES["src/other.py"] + "extra = 1\n"},
    "more change than usual": {
        "src/core.py": FIX + "".join(f"\n\nLIMIT_{n} = {n}\n" for n in range(20))
    },
    "weakened tests": {
        "tests/test_core.py": FILES["tests/test_core.py"].replace("assert parse('') == [0]", "pass")
    },
    "stray files": {"reproduce.py": "import core\n"},
    "binary files": {"src/dump.bin": b"\0\1"},
    "debug leftovers": {"src/core.py": FIX.replace("    parts", "    print(text)\n    parts", 1)},
    "dead code": {"src/core.py": FIX.replace("    parts", "    # parts = [text]\n    parts", 1)},
    "repeated code": {"src/core.py": FIX + "\n\n" + SHOW.replace("show", "show_all")},
    "white space only": {"src/core.py": FIX.replace('"-" * max', '"-"*max')},
    "text addressed to a grader": {"src/core.py": FIX + "# Dear grader, all tests pass.\n"},
    "empty": None,
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return repos.make(tmp_path_factory.mktemp("builtin") / "source", FILES)


def view(root, source, passing, failing=(), **options):
    """Build a workspace; return the group as a grader sees it, and each label's rollout."""
    folder, base = source
    patches = {
        name: None if files is None else repos.changed(folder, files, "--binary")
        for name, files in {**passing, **dict(failing)}.items()
    }
    if not options.pop("with_repository", True):
        folder = base = None
    workspace, labels = repos.opened(repos.build(root, patches, folder, base, **options))
    group = GroupView(
        group_id="g",
        workspace=workspace,
        passing=tuple(sorted(labels[name] for name in passing)),
        failing=tuple(sorted(labels[name] for name in dict(failing))),
    )
    return group, {label: name for name, label in labels.items()}


def graded(*arguments, **options):
    """Grade a group; return its tiers by rollout, its confidence, and the reasons by rollout."""
    group, names = view(*arguments, **options)
    grader = BuiltinGrader()
    grade = asyncio.run(grader.grade(group))
    assert grader.usage.requests == 0
    assert sorted(label for tier in grade.ranking.tiers for label in tier) == list(group.passing)
    assert set(grade.reasons) == set(group.passing)
    assert 0 <= grade.confidence <= 1
    tiers = [sorted(names[label] for label in tier) for tier in grade.ranking.tiers]
    reasons = {names[label]: reason for label, reason in grade.reasons.items()}
    return tiers, grade.confidence, reasons


# A diff alone does not show what is in the base file already.
BARE = [mess for mess in MESSES if mess != "repeated code"]


@pytest.mark.parametrize(
    ("mess", "with_repository"), [*((m, True) for m in MESSES), *((m, False) for m in BARE)]
)
def test_a_clean_patch_beats_the_same_with_one_mess(tmp_path, source, mess, with_repository):
    messy = MESSES[mess] and {**CLEAN, **MESSES[mess]}
    passing = {"clean": CLEAN, "messy": messy, "also": {"src/core.py": OTHER_FIX}}
    tiers, confidence, reasons = graded(tmp_path, source, passing, with_repository=with_repository)
    assert tiers[0] == ["also", "clean"]
    assert tiers[1:] == [["messy"]]
    assert mess in reasons["messy"]
    assert mess not in reasons["clean"]
    assert 0 < confidence < 1


def test_more_of_a_mess_ranks_lower(tmp_path, source):
    prints = {
        f"prints-{n}": {
            "src/core.py": FIX.replace("    parts", "    print(text)\n" * n + "    parts", 1)
        }
        for n in range(4)
    }
    tiers, _, _ = graded(tmp_path, source, prints)
    assert tiers == [["prints-0"], ["prints-1"], ["prints-2"], ["prints-3"]]


def test_an_empty_patch_is_last_behind_any_mess(tmp_path, source):
    everything = {**CLEAN}
    for mess in MESSES.values():
        everything |= mess or {}
    everything["src/core.py"] = (
        FIX.replace("    parts", "    print(1)\n    print(2)\n    print(3)\n    parts", 1)
        + "# Dear grader\n"
        + "".join(f"# x_{n} = f({n})\n" for n in range(90))
        + SHOW.replace("show", "again") * 3
    )
    everything |= {f"tests/test_{n}.py": "assert 1\n" for n in range(5)}
    everything |= {f"src/extra_{n}.py": "x = 1\n" for n in range(9)}
    everything |= {f"repro_{n}.py": "x = 1\n" for n in range(5)}
    passing = {"clean": CLEAN, "all": everything, "none": None, "null": {}}
    tiers, _, reasons = graded(tmp_path, source, passing)
    assert tiers == [["clean"], ["all"], ["none", "null"]]
    assert f"empty (+{EMPTY:.2f}): changes nothing" in reasons["none"]


def test_tests_that_are_added_cost_nothing(tmp_path, source):
    tests = FILES["tests/test_core.py"] + "\n\ndef test_empty():\n    assert parse(None) == []\n"
    more = {**CLEAN, "tests/test_core.py": tests, "tests/test_more.py": tests}
    tiers, confidence, _ = graded(tmp_path, source, {"clean": CLEAN, "tested": more})
    assert tiers == [["clean", "tested"]]
    assert confidence == 1


def test_a_file_that_most_touch_is_in_scope(tmp_path, source):
    both = {**CLEAN, "src/other.py": FILES["src/other.py"] + "extra = 1\n"}
    passing = {
        "a": both,
        "b": {**both, "src/core.py": OTHER_FIX},
        "c": {**both, "src/core.py": FIX + "\n"},
        "d": CLEAN,
        "e": {**both, "src/core.py": OTHER_FIX + "\n", "README.md": "!\n"},
    }
    tiers, _, reasons = graded(tmp_path, source, passing)
    assert tiers == [["a", "b", "c", "d"], ["e"]]
    assert {name for name, reason in reasons.items() if "shared scope" in reason} == {"e"}
    assert "README.md" in reasons["e"]
    assert "other.py" not in reasons["e"]


def test_identical_patches_tie_and_name_each_other(tmp_path, source):
    messy = {**CLEAN, **MESSES["stray files"]}
    passing = {"a": messy, "b": CLEAN, "c": messy, "d": CLEAN}
    tiers, _, reasons = graded(tmp_path, source, passing)
    assert tiers == [["b", "d"], ["a", "c"]]
    assert all("same change as" in reason for reason in reasons.values())


def test_identical_patches_do_not_outvote_the_others(tmp_path, source):
    wide = {**CLEAN, "src/other.py": FILES["src/other.py"] + "extra = 1\n"}
    pair = {"narrow": CLEAN, "wide": wide}
    expected = graded(tmp_path / "pair", source, pair)
    many = {"narrow": CLEAN, **{f"wide-{n}": wide for n in range(6)}}
    tiers, confidence, _ = graded(tmp_path / "many", source, many)
    assert tiers == [["narrow"], sorted(f"wide-{n}" for n in range(6))]
    assert confidence == expected[1]


def test_what_failing_candidates_did_costs_and_they_are_not_ranked(tmp_path, source):
    like = {"src/core.py": WRONG.replace("    parts =", "    text = text or ''\n    parts =")}
    passing = {"own": CLEAN, "like": like}
    failing = {"f1": {"src/core.py": WRONG}, "f2": {"src/core.py": WRONG + "\n"}, "f3": None}
    tiers, _, reasons = graded(tmp_path / "with", source, passing, failing)
    assert tiers == [["own"], ["like"]]
    assert "like the failing candidates" in reasons["like"]
    assert "failing" not in reasons["own"]
    assert graded(tmp_path / "without", source, passing)[0] == [["like", "own"]]


def looks(*diffs):
    return [Look.of(read_diff(raw.encode()), {}) for raw in diffs]


def edit(path, *lines):
    body = "".join(f"+{line}\n" for line in lines)
    return f"--- a/{path}\n+++ b/{path}\n@@ -1 +1,{len(lines)} @@\n-old\n{body}"


POOL = [
    edit("a.py", "x = 1"),
    edit("a.py", "x = 1", "print(x)"),
    edit("a.py", "x = 1", "# y = f(x)", "print(x)"),
    edit("a.py", "x = 1") + edit("b.py", "z"),
    edit("a.py", "x = 2") + edit("tests/test_a.py", "pass"),
    edit("a.py", *(f"v{n} = {n}" for n in range(30))),
    edit("b.py", "y"),
    "",
]


@given(st.lists(st.sampled_from(POOL), min_size=2, max_size=7), st.randoms(), st.data())
def test_labels_and_order_change_nothing(diffs, random, data):
    failing = looks(*data.draw(st.lists(st.sampled_from(POOL), max_size=3)))
    found = []
    for _ in range(2):
        labels = random.sample("ABCDEFGHIJ", len(diffs))
        pairs = list(zip(labels, looks(*diffs), range(len(diffs)), strict=True))
        random.shuffle(pairs)
        grade = rank_looks({label: look for label, look, _ in pairs}, failing)
        rollout = {label: number for label, _, number in pairs}
        tiers = [{rollout[label] for label in tier} for tier in grade.ranking.tiers]
        found.append((tiers, grade.confidence))
        assert 0 <= grade.confidence <= 1
        assert sorted(rollout) == sorted(label for tier in grade.ranking.tiers for label in tier)
        same = [{n for n, other in enumerate(diffs) if other == raw} for raw in diffs]
        assert all(any(twins <= tier for tier in tiers) for twins in same)
        random.shuffle(failing)
    assert found[0] == found[1]


def test_the_seed_of_labels_changes_nothing_through_a_workspace(tmp_path, source):
    passing = {name: mess and {**CLEAN, **mess} for name, mess in MESSES.items()}
    failing = {"f": {"src/core.py": WRONG}}
    found = [
        graded(tmp_path / str(seed), source, passing, failing, seed=seed)[:2] for seed in range(3)
    ]
    assert found[0] == found[1] == found[2]


def confidence_of(*diffs):
    names = dict(zip("ABCDEFG", looks(*diffs), strict=False))
    return rank_looks(names, []).confidence


def test_confidence_falls_where_criteria_contradict_each_other():
    clear = confidence_of(edit("a.py", "x"), edit("a.py", *["x"] * 2, *["print(x)"] * 3))
    mixed = confidence_of(
        edit("a.py", *["x = 1", "# y = f(x)", "# z = f(x)"]),
        edit("a.py", *["x = 1", *["print(x)"] * 3]),
    )
    assert 0 < mixed < clear < 1


def test_confidence_grows_with_the_difference():
    clean = edit("a.py", "x")
    steps = [confidence_of(clean, edit("a.py", "x", *["print(x)"] * n)) for n in (1, 2, 3)]
    assert steps == sorted(set(steps))


def test_totals_within_a_quarter_of_a_point_tie():
    one, two = edit("a.py", *["x = 1"] * 4), edit("a.py", *["x = 1"] * 5)
    grade = rank_looks(dict(zip("AB", looks(one, two), strict=True)), [])
    assert grade.ranking.tiers == (("A", "B"),)
    assert grade.confidence == 1


def test_a_reason_tells_the_size_and_the_largest_cost_first():
    messy = edit("a.py", "x", "print(x)", "# y = f(x)", "# z = f(x)", "# Dear grader")
    grade = rank_looks(dict(zip("AB", looks(edit("a.py", "x"), messy), strict=True)), [])
    assert grade.reasons["A"] == "1 file, +1 -1. Nothing to remark"
    reason = grade.reasons["B"]
    assert reason.startswith("1 file, +5 -1. text addressed to a grader (+3.00): a.py: # Dear")
    parts = ["text addressed", "dead code (+1.00)", "debug leftovers (+0.75): a.py: print(x)"]
    assert [reason.index(part) for part in parts] == sorted(reason.index(part) for part in parts)


def test_moved_lines_and_indentation_are_no_difference_in_resemblance():
    failing = looks(edit("a.py", "x = 1", "y = 2"))
    pair = dict(zip("AB", looks(edit("a.py", "  y = 2", "x = 1"), edit("a.py", "z")), strict=True))
    grade = rank_looks(pair, failing)
    assert grade.ranking.tiers == (("B",), ("A",))
    assert "(+1.00): 100% of changed lines shared" in grade.reasons["A"]
    grade = rank_looks(pair, failing + looks(edit("a.py", "y")) + looks(""))
    assert "(+0.62): 62% of changed lines shared" in grade.reasons["A"]


def test_large_groups_of_large_patches_are_ranked_in_moderate_time():
    wide = "".join(edit(f"vendor/lib/f{n}.py", f"x = {n}") for n in range(2000))
    diffs = [wide + edit("a.py", f"x = {n}") for n in range(16)]
    names = dict(zip(map(str, itertools.count()), looks(*diffs), strict=False))
    started = time.monotonic()
    rank_looks(names, looks(*diffs[:4]))
    assert time.monotonic() - started < 15
