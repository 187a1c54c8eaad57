import asyncio
import re

import pytest
from small_groups import BASE, GROUP_ID, HUGE, LARGE, SMALL, WRONG, SmallGroup

from gagar_cli.grading.case import Case
from gagar_cli.grading.coverage import Coverage
from gagar_cli.grading.tools import VoteTools
from gagar_cli.grading.verdict import Citation
from gagar_cli.workspace import searching


class Bench:
    """Tools over a group, with rollout ids in place of the vote's labels."""

    def __init__(self, group):
        self.view = Case.of(group.view(), 0).vote(0)
        diffs = {label: exhibit.diff for label, exhibit in self.view.shown.items()}
        self.coverage = Coverage(diffs)
        self.tools = VoteTools(self.view, self.coverage)
        self.labels = {group.rollout(name): label for label, name in self.view.names().items()}

    def run(self, name, **arguments):
        return asyncio.run(self.tools.run(name, arguments))

    def schema(self, name):
        functions = {tool["function"]["name"]: tool["function"] for tool in self.tools.schemas}
        return functions[name]["parameters"]


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("group")
    passing = {"small": SMALL, "large": LARGE, "huge": HUGE}
    return Bench(SmallGroup(folder, passing, {"wrong": WRONG}))


@pytest.fixture(scope="module")
def without_trees(tmp_path_factory):
    folder = tmp_path_factory.mktemp("group")
    return Bench(SmallGroup(folder, {"small": SMALL, "large": LARGE}, with_repository=False))


def data_of(text):
    """Return what is between the marks."""
    [(_, data)] = re.findall(r"<data (\w+)>\n(.*)\n</data \1>", text, re.DOTALL)
    return data


def test_schemas_offer_exactly_the_labels_of_the_vote(bench):
    everyone = sorted(bench.view.shown)
    passing = sorted(bench.view.passing)
    assert bench.schema("read_file")["properties"]["tree"]["enum"] == ["base", *everyone]
    assert bench.schema("search")["properties"]["tree"]["enum"] == ["base", *everyone, "all"]
    assert bench.schema("diff")["properties"]["candidate"]["enum"] == everyone
    submit = bench.schema("submit_ranking")["properties"]
    assert list(submit) == ["notes", "tiers"]
    assert submit["notes"]["required"] == passing
    assert submit["tiers"]["items"]["items"]["enum"] == passing
    assert bench.labels["wrong"] not in passing


def test_without_trees_only_diffs_and_the_ranking_are_offered(without_trees):
    names = [tool["function"]["name"] for tool in without_trees.tools.schemas]
    assert names == ["diff", "submit_ranking"]
    shown = without_trees.run("diff", candidate=without_trees.labels["small"])
    assert "+    return float(a) + float(b)" in data_of(shown)
    label = without_trees.labels["small"]
    assert "no argument" in without_trees.run("diff", candidate=label, other="base")
    assert "There is no tool" in without_trees.run("read_file", tree="base", path="README.md")


def test_files_are_read_from_the_tree_that_is_named(bench):
    for rollout, files in {"small": SMALL, "large": LARGE, "wrong": WRONG}.items():
        text = bench.run("read_file", tree=bench.labels[rollout], path="src/add.py")
        numbered = [line.split("\t", 1) for line in data_of(text).split("\n")]
        assert [n for n, _ in numbered] == [str(n + 1) for n in range(len(numbered))]
        assert "".join(f"{line}\n" for _, line in numbered) == files["src/add.py"]
    text = bench.run("read_file", tree="base", path="src/add.py")
    assert "2\t    return a + b" in data_of(text)


def test_a_long_file_is_cut_and_says_how_to_go_on(bench):
    first = bench.run("read_file", tree="base", path="src/long.py")
    assert "lines 1 to 300 of 1000" in first
    assert first.endswith("700 lines left out below; start_line=301 shows more.")
    last = bench.run("read_file", tree="base", path="/src/long.py", start_line=901)
    assert data_of(last).startswith("901\tline_901 = 901\n")
    assert last.endswith(f"</data {bench.view.fence.code}>")
    some = bench.run("read_file", tree="base", path="./src/long.py", start_line=5, end_line=6)
    assert data_of(some) == "5\tline_5 = 5\n6\tline_6 = 6"


def test_pages_of_a_diff_put_together_are_the_diff(bench):
    label = bench.labels["huge"]
    pages, start = [], 1
    while start:
        text = bench.run("diff", candidate=label, start_line=start)
        assert len(text) < 13_000
        pages.append(data_of(text))
        following = re.search(r"start_line=(\d+) shows more", text)
        start = int(following[1]) if following else 0
    assert len(pages) > 5
    assert "\n".join(pages) + "\n" == bench.view.shown[label].diff


def test_a_small_listing_names_files_and_a_large_one_counts_them(bench):
    text = bench.run("list_files", tree=bench.labels["large"])
    entries = data_of(text).split("\n")
    assert "data/ (250 files)" in entries
    assert "fix_report.md" in entries
    assert "fix_report.md" not in bench.run("list_files", tree="base")
    text = bench.run("list_files", tree="base", folder="data")
    assert data_of(text).split("\n")[0] == "data/part0/ (50 files)"
    text = bench.run("list_files", tree="base", folder="data/part3/")
    assert len(data_of(text).split("\n")) == 50


def test_a_search_gives_path_line_and_text(bench):
    text = bench.run("search", tree=bench.labels["large"], pattern=r"print\(|^I fixed")
    lines = data_of(text).split("\n")
    assert "src/add.py:4:    print(a, b)" in lines
    assert "fix_report.md:1:I fixed it." in lines
    text = bench.run("search", tree=bench.labels["large"], pattern="fixed", folder="src")
    assert text == f"Nothing matches in {bench.labels['large']} in 'src'."
    assert "start_line=301" in bench.run("search", tree="base", pattern="line_")


def test_a_search_of_all_trees_says_which_hold_a_line(bench):
    small, large, huge, wrong = (bench.labels[name] for name in ("small", "large", "huge", "wrong"))
    lines = data_of(bench.run("search", tree="all", pattern="return|^Adds")).split("\n")
    assert "[all] README.md:1:Adds." in lines
    assert "[base] src/add.py:2:    return a + b" in lines
    both = " ".join(sorted([small, huge]))
    assert f"[{both}] src/add.py:2:    return float(a) + float(b)" in lines
    assert f"[{wrong}] src/add.py:2:    return int(a) + int(b)" in lines
    assert f"[{large}] src/add.py:5:    return a + b" in lines
    text = bench.run("search", tree="all", pattern="nowhere at all", folder="src")
    assert text == "Nothing matches in all trees in 'src'."


def test_a_search_of_all_trees_names_only_what_the_vote_shows(tmp_path):
    same = {"src/add.py": "def add(a, b):\n    # text\n    return float(a) + float(b)\n"}
    bench = Bench(SmallGroup(tmp_path, {"small": SMALL, "twin": same, "large": LARGE}))
    assert len(bench.view.shown) == 2
    lines = data_of(bench.run("search", tree="all", pattern="float.a|Adds")).split("\n")
    named = {word for line in lines for word in line[1:].split("]")[0].split()}
    assert named == {"all", *bench.view.shown}
    assert "[all] README.md:1:Adds." in lines


def test_a_search_that_finds_too_much_says_where_it_ends(bench, monkeypatch):
    monkeypatch.setattr(searching, "MOST_HITS", 400)
    text = bench.run("search", tree="base", pattern="line_", start_line=301)
    assert "lines 301 to 400 of 400" in text
    assert text.endswith("There may be more below src/long.py:400; search a folder.")
    assert "There may be more" not in bench.run("search", tree="base", pattern="line_1")


def test_candidates_are_compared_with_base_or_with_each_other(bench):
    small, large = bench.labels["small"], bench.labels["large"]
    against_base = data_of(bench.run("diff", candidate=large))
    assert "+I fixed it." in against_base
    one_file = data_of(bench.run("diff", candidate=large, path="src/add.py"))
    assert "+    print(a, b)" in one_file
    assert "fix_report.md" not in one_file
    mutual = data_of(bench.run("diff", candidate=large, other=small, path="src"))
    assert "-    return float(a) + float(b)" in mutual
    assert bench.run("diff", candidate=large, other=large).endswith("no difference.")


def test_a_binary_file_is_only_named(bench):
    assert bench.run("read_file", tree="base", path="logo.bin").endswith("is binary, 3 bytes.")


def test_a_null_stands_for_an_argument_that_is_left_out(bench):
    text = bench.run("list_files", tree="base", folder=None, start_line=None)
    assert "README.md" in data_of(text)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("read_files", {}, "There is no tool"),
        ("read_file", {"tree": "base"}, "path: is missing"),
        ("read_file", {"path": "README.md"}, "tree: is missing"),
        ("read_file", {"tree": "Z", "path": "README.md"}, "expected one of base, A, B, C, D"),
        ("read_file", {"tree": 3, "path": "README.md"}, "tree: got 3, expected a string"),
        ("read_file", {"tree": ["A"], "path": "README.md"}, "expected a string"),
        ("read_file", {"tree": "base", "path": "src/none.py"}, "no such file"),
        ("read_file", {"tree": "base", "path": "src"}, "no such file"),
        ("read_file", {"tree": "base", "path": ""}, "no such file"),
        ("read_file", {"tree": "base", "path": "../../etc/passwd"}, "leads out of the tree"),
        ("read_file", {"tree": "base", "path": "a\0b"}, "no NUL"),
        ("read_file", {"tree": "base", "path": "x" * 5000}, "at most 2000 characters"),
        ("read_file", {"tree": "base", "path": "README.md", "line": 3}, 'no argument "line"'),
        ("read_file", {"tree": "base", "path": "README.md", "start_line": 9}, "has 1 lines"),
        ("read_file", {"tree": "base", "path": "README.md", "start_line": 0}, "line number from 1"),
        ("read_file", {"tree": "base", "path": "README.md", "start_line": "1"}, "line number"),
        ("read_file", {"tree": "base", "path": "README.md", "start_line": True}, "line number"),
        ("read_file", {"tree": "base", "path": "x", "start_line": 5, "end_line": 4}, "at least"),
        ("list_files", {"tree": "base", "folder": "nowhere"}, "no file or folder"),
        ("list_files", {"tree": "base", "folder": "sr"}, "no file or folder"),
        ("search", {"tree": "base"}, "pattern: is missing"),
        ("search", {"tree": "base", "pattern": ""}, "pattern: is empty"),
        ("search", {"tree": "base", "pattern": "("}, "search: "),
        ("search", {"tree": "base", "pattern": "x{2,1}"}, "search: "),
        ("search", {"tree": "base", "pattern": "x", "folder": "../.."}, "leads out"),
        ("search", {"tree": "base", "pattern": "no such text"}, "Nothing matches"),
        ("diff", {}, "candidate: is missing"),
        ("diff", {"candidate": "base"}, "expected one of A, B, C, D"),
        ("diff", {"candidate": "A", "other": "main"}, "expected one of base, A"),
        ("diff", {"candidate": "A", "path": "../x"}, "leads out"),
        ("diff", {"candidate": "A", "path": "nowhere"}, "no difference"),
    ],
)
def test_a_mistake_is_told(bench, name, arguments, expected):
    text = bench.run(name, **arguments)
    assert expected in text
    assert len(text) < 500
    assert str(bench.view.workspace.folder.parent) not in text
    assert GROUP_ID not in text


def test_the_base_is_what_was_committed(bench):
    assert bench.view.workspace.files("base") == sorted(BASE)


# What was seen


def fresh(group):
    bench = Bench(group)
    return bench, lambda rollout: bench.coverage.share([bench.labels[rollout]])


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    folder = tmp_path_factory.mktemp("group")
    return SmallGroup(folder, {"small": SMALL, "large": LARGE, "huge": HUGE})


def test_a_page_of_a_diff_counts_for_the_lines_on_it(group):
    bench, seen = fresh(group)
    assert seen("huge") == 0.0
    bench.run("diff", candidate=bench.labels["huge"])
    one_page = seen("huge")
    assert 0.05 < one_page < 0.2
    bench.run("diff", candidate=bench.labels["huge"], start_line=301)
    assert seen("huge") > one_page
    assert seen("small") == 0.0


def test_reading_the_changed_file_counts_as_seeing_the_change(group):
    bench, seen = fresh(group)
    bench.run("read_file", tree=bench.labels["small"], path="src/add.py")
    assert seen("small") == 0.5  # the line that it adds, and not the one that it removes
    bench.run("read_file", tree="base", path="src/add.py")
    assert seen("small") == 1.0


def test_a_comparison_counts_for_both(group):
    bench, seen = fresh(group)
    bench.run("diff", candidate=bench.labels["large"], other=bench.labels["small"])
    assert seen("small") > 0
    assert seen("large") > 0


def test_a_failed_call_shows_nothing(group):
    bench, seen = fresh(group)
    bench.run("diff", candidate=bench.labels["small"], start_line=10_000)
    assert seen("small") == 0.0


# What is cited


@pytest.mark.parametrize(
    ("path", "first", "last", "there"),
    [
        ("src/add.py", 1, 2, True),
        ("src/add.py", 2, 3, False),
        ("src/add.py", 0, 0, False),
        ("src/long.py", 1000, 1000, True),
        ("src/long.py", 1001, 1001, False),
        ("README.md", 1, 1, True),
        ("src/none.py", 1, 1, False),
        ("src/table.py", 1, 1, False),
        ("../outside.py", 1, 1, False),
    ],
)
def test_a_place_is_there_where_the_candidates_tree_has_the_lines(group, path, first, last, there):
    bench, _ = fresh(group)
    cited = {bench.labels["small"]: (Citation(path, first, last),)}
    assert bench.tools.missing(cited) == (
        [] if there else [f"{bench.labels['small']} {cited[bench.labels['small']][0]}"]
    )


def test_a_file_that_only_another_candidate_adds_is_not_there(group):
    bench, _ = fresh(group)
    place = (Citation("src/table.py", 7, 7),)
    assert bench.tools.missing({bench.labels["huge"]: place}) == []
    assert len(bench.tools.missing({bench.labels["large"]: place})) == 1


def test_without_trees_the_files_of_a_patch_can_be_cited(without_trees):
    label = without_trees.labels["small"]
    cited = {label: (Citation("src/add.py", 1, 1), Citation("src/long.py", 1, 1))}
    assert without_trees.tools.missing(cited) == [f"{label} src/long.py:1"]
