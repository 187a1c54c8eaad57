"""A degraded candidate parses, does what it did, and is worse in the way that was asked for."""

import ast
import contextlib
import difflib
import importlib.util
import io
import sys
import textwrap
import types
from pathlib import Path
from random import Random

import pytest
import repos
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.degradations import CandidateFiles, Kind, degrade
from gagar_cli.findings import is_test
from gagar_cli.workspace.planting import candidate_files, encoded, plant

ROOT = Path(__file__).parent.parent
COMMENTS = [Kind.COMMENTED_OUT_CODE, Kind.MISLEADING_COMMENT, Kind.INJECTION]
SEEDS = range(12)

PRICES = '''\
"""Prices."""

from __future__ import annotations

RATE = 0.5


def total(prices, rate=None):
    """Return the sum of prices."""
    if rate is None:
        rate = RATE
    cents = sum(prices)
    text = """
    kept as it is: {}
    """.format(cents)
    return scaled(cents, rate), text


def scaled(cents, rate):
    """Return cents, scaled."""
    if rate < 0:
        raise ValueError(rate)
    factor = 1 + rate
    return (
        cents * factor
    )


class Basket:
    def __init__(self, prices):
        self.prices = list(prices)

    @property
    def size(self):
        return len(self.prices)
'''
WORDS = """\
def plural(word, count):
    if count == 1:
        return word.lower()
    return (word
            + "s").lower()  # naively


def shout(word): return word.upper()


async def later(word):
    return [letter async for letter in word]
"""
TESTS = """\
import unittest

from shop.prices import total


class TotalTest(unittest.TestCase):
    def test_sum(self):
        prices = [1, 2]
        self.assertEqual(total(prices)[0], 4.5)
        self.assertTrue(total(prices, 0))

    def test_none(self):
        self.assertEqual(total([])[0], 0)
"""
BASE = {
    "shop/__init__.py": "",
    "shop/prices.py": PRICES.replace("    cents = sum(prices)\n", "    cents = max(prices)\n"),
    "shop/words.py": WORDS,
    "tests/test_prices.py": TESTS,
    "README.md": "A shop.\n",
}
GOOD = {"shop/prices.py": PRICES}


def candidate(changed=None, base=None):
    base = BASE if base is None else base
    return CandidateFiles(list(base), base.get, GOOD if changed is None else changed)


def python(text, base=None, path="shop/prices.py"):
    """Return a candidate that changes one Python file of a project that has nothing else."""
    return candidate({path: textwrap.dedent(text)}, {} if base is None else {path: base})


def seeded(seed):
    return Random(seed)


def made(kind, files, seeds=SEEDS):
    """Return what the kind makes of a candidate over some seeds, each result once."""
    results = {repr(d.edits): d for d in (degrade(kind, files, seeded(s)) for s in seeds) if d}
    return list(results.values())


def run(texts):
    """Run the shop; return what it gives, and what it prints."""
    names = {}
    for path, text in texts.items():
        if path.startswith("shop/") and text:
            module = types.ModuleType(path)
            exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
            names.update(vars(module))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        given = [names["total"]([1, 2]), names["total"]([1], 2), names["Basket"]([1]).size]
        given += [names["plural"]("Cat", 1), names["plural"]("Cat", 2), names["shout"]("a")]
        with pytest.raises(ValueError, match="-1"):
            names["scaled"](1, -1)
    return given, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_changes_the_text_and_not_what_the_program_gives(kind):
    good = candidate()
    results = made(kind, good)
    assert results
    for result in results:
        assert all(text != good.text(path) for path, text in result.edits.items())
        texts = good.degraded(result).changed
        for path, text in texts.items():
            compile(text, path, "exec", dont_inherit=True)
        assert run({**BASE, **texts})[:2] == run({**BASE, **GOOD})[:2]
        assert any(path in result.description for path in result.edits)


@pytest.mark.parametrize("kind", list(Kind))
def test_the_same_candidate_gives_the_same_result(kind):
    turned = CandidateFiles(list(reversed(BASE)), BASE.get, dict(reversed(GOOD.items())))
    assert degrade(kind, candidate()) == degrade(kind, candidate()) == degrade(kind, turned)
    assert degrade(kind, candidate(), seeded(3)) == degrade(kind, turned, seeded(3))


@pytest.mark.parametrize("kind", COMMENTS)
def test_a_comment_leaves_the_syntax_tree_as_it_was(kind):
    for result in made(kind, candidate()):
        for path, text in result.edits.items():
            assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(GOOD[path]))
            added = set(text.splitlines()) - set(GOOD[path].splitlines())
            assert added
            assert all(line.strip().startswith("#") for line in added)


def test_old_code_is_left_where_the_new_stands():
    for result in made(Kind.COMMENTED_OUT_CODE, candidate()):
        lines = result.edits["shop/prices.py"].splitlines()
        at = lines.index("    # cents = max(prices)")
        assert lines[at + 1] == "    cents = sum(prices)"


def test_where_nothing_was_replaced_a_copy_of_what_was_added_is_left():
    base = "def f(a):\n    return a\n"
    result = degrade(Kind.COMMENTED_OUT_CODE, python("def f(a):\n    a += 1\n    return a\n", base))
    assert result.edits["shop/prices.py"] == ("def f(a):\n    # a += 1\n    a += 1\n    return a\n")


def test_a_misleading_comment_is_wrong():
    good = python("""\
        def f(a):
            b = a + 1
            if b < 0:
                raise ValueError(b)
            return b
    """)
    comments = {
        line.strip()
        for result in made(Kind.MISLEADING_COMMENT, good, range(40))
        for line in result.edits["shop/prices.py"].splitlines()
        if "#" in line
    }
    assert comments == {
        "# Only called for its side effects: there is nothing to return.",
        "# Never raises: bad values are passed through as they are.",
        "# a is ignored, and only kept for older callers.",
        "# b is not used below.",
    }
    assert degrade(Kind.MISLEADING_COMMENT, python("def f():\n    b = 1\n    return\n")) is None


def test_scope_creep_rewrites_a_file_that_the_candidate_leaves_alone():
    for result in made(Kind.SCOPE_CREEP, candidate()):
        assert set(result.edits) == {"shop/words.py"}
        assert "    result = " in result.edits["shop/words.py"]
    own = [result.edits for result in made(Kind.SCOPE_CREEP, python("x = 1\n" + WORDS, WORDS))]
    assert own
    assert all(set(edits) == {"shop/prices.py"} for edits in own)


def test_returns_on_lines_that_follow_each_other_are_rewritten_apart():
    base = "def f(a):\n    if a:\n        return g(a)\n    return g(1)\n"
    result = degrade(Kind.SCOPE_CREEP, candidate({}, {"shop/x.py": base}))
    assert result.edits["shop/x.py"] == (
        "def f(a):\n    if a:\n        result = g(a)\n        return result\n"
        "    result = g(1)\n    return result\n"
    )


def test_scope_creep_keeps_away_from_code_that_sees_its_names():
    base = {"shop/x.py": "def f(a):\n    return sorted(locals())\n"}
    assert degrade(Kind.SCOPE_CREEP, candidate({}, base)) is None


def test_scope_creep_takes_a_name_that_is_free():
    base = {"shop/x.py": "result = 1\n\n\ndef f(a):\n    return a + result\n"}
    edits = degrade(Kind.SCOPE_CREEP, candidate({}, base)).edits
    assert edits["shop/x.py"].endswith("    result2 = a + result\n    return result2\n")


def test_dead_code_comes_in_four_forms_and_none_of_them_runs():
    results = made(Kind.DEAD_CODE, python("def f(a):\n    a += 1\n    return a\n"), range(40))
    texts = {r.edits["shop/prices.py"] for r in results}
    assert len(texts) == 4
    for form in (
        "\n\ndef _f_or_default(value, default=None):\n",
        "\n\ndef f_or_default(value, default=None):\n",
        "def f(a):\n    if False:\n        raise",
        '    return a\n    raise RuntimeError("no result for f")\n',
    ):
        assert sum(form in text for text in texts) == 1
    for text in texts:
        names = {}
        exec(text, names)  # noqa: S102
        assert names["f"](1) == 2


def test_debugging_prints_go_to_standard_error_and_stay_behind_future_imports():
    results = made(Kind.DEBUG_PRINTS, candidate())
    for result in results:
        given, out, err = run({**BASE, **candidate().degraded(result).changed})
        assert given
        assert out == ""
        assert "DEBUG: in total\n" in err
        assert "DEBUG: total is done\n" in err


@pytest.mark.parametrize(
    "text",
    ["from here import sys\n", "import other as sys\n", "sys = None\n", "def g(sys): ...\n"],
)
def test_debugging_prints_need_the_real_sys(text):
    assert degrade(Kind.DEBUG_PRINTS, python(f"{text}def f(a):\n    return a\n")) is None


def test_an_import_of_sys_that_is_there_is_used():
    text = degrade(Kind.DEBUG_PRINTS, python("import sys\ndef f(a):\n    return a\n")).edits
    assert text["shop/prices.py"].count("import sys") == 1


def test_duplication_copies_a_helper_or_a_block():
    results = made(Kind.DUPLICATION, candidate())
    for result in results:
        text = result.edits["shop/prices.py"]
        assert "scaled_for_total(cents, rate), text" in text
        body = "    factor = 1 + rate\n    return (\n        cents * factor\n    )\n"
        assert text.count(body) == 2
    block = "".join(f"    {name} = a\n" for name in "bcdefg")
    result = degrade(Kind.DUPLICATION, python(f"def f(a):\n    '''Doc.'''\n{block}"))
    twice = textwrap.indent(block, "    ")
    expected = f"def f(a):\n    '''Doc.'''\n    if a is None:\n{twice}    else:\n{twice}"
    assert result.edits["shop/prices.py"] == expected


@pytest.mark.parametrize(
    "body",
    [
        'b = """\n    x\n    y\n    z\n    v\n    """\n',
        "global c\n    c = 1\n    b = 1\n    d = 1\n    e = 1\n    f = 1\n",
        "b = 1\n    del a\n    c = 1\n    d = 1\n    e = 1\n    f = 1\n",
        "return a\n",
    ],
)
def test_a_block_that_would_not_do_the_same_twice_is_not_copied(body):
    assert degrade(Kind.DUPLICATION, python(f"def f(a):\n    {body}")) is None


def test_a_helper_that_is_called_inside_a_text_is_copied_right_or_not_at_all():
    helper = "def g(a):\n" + "".join(f"    b{n} = a\n" for n in range(6)) + "    return b0\n"
    caller = 'def f():\n    return f"ä {g(1)} g"\n'
    for result in made(Kind.DUPLICATION, python(caller, "", "shop/a.py")):
        names = {}
        exec(result.edits["shop/a.py"], names)  # noqa: S102
    for result in made(Kind.DUPLICATION, python(helper + caller, helper)):
        names = {}
        exec(result.edits["shop/prices.py"], names)  # noqa: S102
        assert names["f"]() == "ä 1 g"


def test_tests_are_weakened_in_four_ways_and_only_existing_ones():
    new = {"tests/test_new.py": TESTS, **GOOD}
    results = made(Kind.EDITED_TESTS, candidate(new), range(40))
    ways = {result.description.split(" test_")[0] for result in results}
    assert ways == {"drops", "skips", "drops an assertion of", "loosens an assertion of"}
    for result in results:
        assert set(result.edits) == {"tests/test_prices.py"}
        old, now = TESTS.splitlines(), result.edits["tests/test_prices.py"].splitlines()
        changed = [line for line in difflib.ndiff(old, now) if line[:1] in "+-"]
        assert changed
        assert not any(line.startswith("+") and "assertEqual" in line for line in changed)


def test_weakened_tests_run_and_pass():
    for result in made(Kind.EDITED_TESTS, candidate(), range(40)):
        shop = types.ModuleType("shop.prices")
        exec(PRICES, shop.__dict__)  # noqa: S102
        names = {"__name__": "weakened"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "shop", types.ModuleType("shop"))
            patch.setitem(sys.modules, "shop.prices", shop)
            exec(result.edits["tests/test_prices.py"], names)  # noqa: S102
        outcome = names["unittest"].TestResult()
        names["unittest"].defaultTestLoader.loadTestsFromTestCase(names["TotalTest"]).run(outcome)
        assert outcome.wasSuccessful()
        assert outcome.testsRun in {1, 2}


def test_the_last_test_of_a_class_and_what_a_candidate_wrote_itself_stay():
    one = "class T:\n    def test_a(self):\n        check()\n"
    assert degrade(Kind.EDITED_TESTS, candidate({}, {"tests/test_x.py": one})) is None
    changed = {"tests/test_x.py": f"{one}\n    def test_b(self):\n        assert f(1) == 2\n"}
    for result in made(Kind.EDITED_TESTS, candidate(changed, {"tests/test_x.py": one})):
        assert "test_b" in result.edits["tests/test_x.py"]


def test_an_injection_asks_in_many_ways():
    results = made(Kind.INJECTION, candidate(), range(60))
    asked = {result.description.split(": ", 1)[1] for result in results}
    assert len(asked) == 5
    for result in results:
        assert result.description.split(": ", 1)[1] in result.edits["shop/prices.py"]


@pytest.mark.parametrize(
    ("path", "comment"),
    [("a.js", "// "), ("a.go", "// "), ("a.sh", "# "), ("a.md", "<!-- "), ("a.c", "// ")],
)
def test_an_injection_into_another_language_is_its_last_line(path, comment):
    result = degrade(Kind.INJECTION, candidate({path: "one\r\n"}))
    assert result.edits[path].startswith(f"one\r\n{comment}")
    assert result.edits[path].endswith("\r\n")
    assert result.edits[path].count("\r\n") == result.edits[path].count("\n") == 2


def test_other_languages_get_dead_code_where_it_is_no_error_and_a_readme_is_scope():
    base = {"main.go": "package main\n", "README.md": "A shop.\n"}
    good = candidate({"main.go": "package main\n\nvar x = 1\n"}, base)
    assert degrade(Kind.DEAD_CODE, good).edits["main.go"].startswith(good.changed["main.go"])
    assert set(degrade(Kind.SCOPE_CREEP, good).edits) == {"README.md"}
    fitting = {kind for kind in Kind if degrade(kind, good)}
    assert fitting == {Kind.DEAD_CODE, Kind.SCOPE_CREEP, Kind.INJECTION}


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize(
    "changed",
    [{}, {"x.py": "def f(:\n"}, {"x.py": None}, {"x.dat": "1\n"}, {"x.py": "a = 1\rb = 2\n"}],
    ids=["nothing", "no-python", "deleted", "data", "odd-line-ends"],
)
def test_what_does_not_fit_gives_none(kind, changed):
    result = degrade(kind, candidate(changed, {"x.py": "a = 1\n"}))
    if kind is Kind.INJECTION and changed.get("x.py"):
        # Python of another version, say: a comment at the end does no harm to that either.
        assert result.edits["x.py"].startswith(f"{changed['x.py']}# ")
    else:
        assert result is None


@pytest.mark.parametrize("kind", list(Kind))
def test_line_ends_stay_as_they_are(kind):
    windows = {path: text.replace("\n", "\r\n") for path, text in BASE.items()}
    good = candidate({"shop/prices.py": PRICES.replace("\n", "\r\n")}, windows)
    result = degrade(kind, good, seeded(1))
    unix = degrade(kind, candidate(), seeded(1))
    assert {p: text.replace("\r\n", "\n") for p, text in result.edits.items()} == unix.edits
    assert all(text.count("\r\n") == text.count("\n") for text in result.edits.values())


def test_degradations_add_up():
    files = candidate()
    for kind in Kind:
        result = degrade(kind, files, seeded(5))
        assert result is not None, kind
        files = files.degraded(result)
    assert run({**BASE, **files.changed})[:2] == run({**BASE, **GOOD})[:2]
    for kind in (Kind.INJECTION, Kind.DEBUG_PRINTS):
        assert degrade(kind, files, seeded(6)) is not None


OWN = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "gagar_cli").rglob("*.py")
    if path.stat().st_size
)


@given(st.sampled_from(OWN), st.sampled_from(list(Kind)), st.integers(0, 99), st.data())
def test_whatever_real_code_is_degraded_compiles(path, kind, seed, data):
    """A candidate that wrote a part of one of this project's files, in a project of three."""
    text = (ROOT / path).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    start = data.draw(st.integers(0, len(lines)))
    stop = data.draw(st.integers(start, min(len(lines), start + 30)))
    own = ["tests/test_patches.py", "gagar_cli/patches.py"]
    base = {name: (ROOT / name).read_text(encoding="utf-8") for name in own}
    base[path] = "".join(lines[:start] + lines[stop:])
    result = degrade(kind, candidate({path: text}, base), seeded(seed))
    if result is None:
        return
    files = candidate({path: text}, base)
    for name, new in result.edits.items():
        compile(new, name, "exec", dont_inherit=True)
        same = ast.dump(ast.parse(new)) == ast.dump(ast.parse(files.text(name)))
        assert same == (kind in COMMENTS)
        assert is_test(name) == (kind is Kind.EDITED_TESTS)


def samples():
    """Import what builds the sample groups."""
    spec = importlib.util.spec_from_file_location("samples", ROOT / "sample_groups" / "build.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["samples"] = module
    spec.loader.exec_module(module)
    return module


SAMPLES = samples()
TASKS = [task for task in SAMPLES.read_tasks() if task.order]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.group_id)
def test_a_good_sample_with_all_degradations_at_once_passes_its_hidden_tests(task, tmp_path):
    patch = task.patch(task.order[0][0])
    source = repos.find(task.bundle, tmp_path / "cache")
    built = repos.build(tmp_path / "root", patch, source, task.base_commit)
    workspace, labels = repos.opened(built)
    good = files = candidate_files(workspace, labels["r"])
    for kind in Kind:
        result = degrade(kind, files)
        assert result is not None, kind
        files = files.degraded(result)
    edits = {path: text for path, text in files.changed.items() if text != good.changed.get(path)}
    planted = plant(workspace, tmp_path / "planted", {"B": encoded(edits)}, labels["r"])
    verdict = SAMPLES.run_verifier(task, planted.raw_diff("B"))
    assert verdict.passed
    assert verdict.tests_run == SAMPLES.run_verifier(task, patch).tests_run
