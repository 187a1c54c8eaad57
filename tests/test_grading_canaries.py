"""A canary group is the group, with three candidates more whose standing is known."""

import asyncio
import difflib

import pytest
import repos
from small_groups import LARGE, MIDDLE, SMALL, WRONG, SmallGroup

from gagar_cli.grading.builtin import BuiltinGrader
from gagar_cli.grading.canaries import Canary, plant_canary
from gagar_cli.ranking import Ranking, labels

PLANTED = ("injected", "degraded", "duplicate")


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    folder = tmp_path_factory.mktemp("canaries")
    passing = {"small": SMALL, "middle": MIDDLE, "large": LARGE}
    return SmallGroup(folder, passing, {"wrong": WRONG})


@pytest.fixture(scope="module")
def canary(group, tmp_path_factory):
    return plant_canary(group.view(), tmp_path_factory.mktemp("planted"), 0)


def planted_labels(canary):
    return [getattr(canary, kind) for kind in PLANTED]


def lines_between(canary, kind):
    """Return what a canary adds to its original and takes away."""
    workspace = canary.view.workspace
    diff = workspace.diff(canary.original, getattr(canary, kind)).decode().splitlines()
    changed = [line for line in diff if not line.startswith(("+++", "---"))]
    return [x[1:] for x in changed if x[0] == "+"], [x[1:] for x in changed if x[0] == "-"]


def test_the_group_is_there_under_other_labels(group, canary):
    view, old = canary.view, group.view()
    assert view.group_id == f"{old.group_id} (canary)"
    assert view.task == old.task
    assert set(view.workspace.candidates) == set(labels(len(group.rollouts) + 3))
    assert len(view.passing) == len(old.passing) + 3
    assert len(view.failing) == len(old.failing)
    assert not set(view.passing) & set(view.failing)
    own = sorted(set(view.passing) - set(planted_labels(canary)))
    for now, before in ((own, old.passing), (view.failing, old.failing)):
        diffs = [sorted(map(g.workspace.raw_diff, ls)) for g, ls in ((view, now), (old, before))]
        assert diffs[0] == diffs[1]


def test_the_original_is_the_best_by_the_builtin_grader(group, canary):
    original = canary.view.workspace.raw_diff(canary.original)
    assert original == group.view().workspace.raw_diff(group.label("small"))


def test_the_three_are_what_their_names_say(canary):
    added, removed = lines_between(canary, "injected")
    assert removed == []
    assert [line.strip().startswith("# ") for line in added] == [True]
    added, removed = lines_between(canary, "degraded")
    assert removed == []
    paths = {file.path for file in canary.view.workspace.facts(canary.degraded).files}
    assert paths == {"src/add.py", "README.md"}
    assert lines_between(canary, "duplicate") == ([], [])


def test_the_planted_ones_and_their_original_are_shown_on_their_own(canary):
    assert canary.view.apart == {canary.original, *planted_labels(canary)}


def test_the_group_itself_stays_as_it_is(group, tmp_path):
    before = repos.fingerprint(group.built.folder)
    plant_canary(group.view(), tmp_path, 0)
    assert repos.fingerprint(group.built.folder) == before


def test_the_same_seed_plants_the_same(group, canary, tmp_path):
    again = plant_canary(group.view(), tmp_path, 0)
    assert planted_labels(again) == planted_labels(canary)
    name = canary.view.workspace.folder.name
    assert repos.tree_files(tmp_path / name) == repos.tree_files(canary.view.workspace.folder)


def test_labels_do_not_tell_who_was_planted(group, tmp_path):
    canaries = [plant_canary(group.view(), tmp_path / str(seed), seed) for seed in range(8)]
    last = set(list(labels(len(group.rollouts) + 3))[-3:])
    assert {frozenset(planted_labels(canary)) for canary in canaries} != {frozenset(last)}
    assert len({canary.original for canary in canaries}) > 2


@pytest.mark.parametrize("seed", range(4))
def test_the_builtin_grader_places_all_canaries_where_they_belong(group, tmp_path, seed):
    canary = plant_canary(group.view(), tmp_path, seed)
    grade = asyncio.run(BuiltinGrader().grade(canary.view))
    assert canary.failures(grade.ranking) == ()


@pytest.mark.parametrize(
    ("tiers", "failures"),
    [
        ("O U | I | D | X", ()),
        ("O | U | I | D | X", ()),
        ("U | O | I | D | X", ()),
        ("O U I | X | D", ()),
        ("X | I O | D | U", ("duplicate",)),
        ("U | X | O I | D", ("duplicate",)),
        ("I | O U | D X", ("injection",)),
        ("O U I D X", ("degraded",)),
        ("D | O U | I X", ("degraded",)),
        ("I | D | O | X | U", ("injection", "degraded", "duplicate")),
    ],
)
def test_failures_name_the_canaries_that_stand_where_they_do_not_belong(tiers, failures):
    ranking = Ranking(tuple(tuple(tier.split()) for tier in tiers.split("|")))
    assert Canary(None, "O", "I", "D", "U").failures(ranking) == failures


def test_a_group_without_a_repository_gets_no_canary(tmp_path):
    group = SmallGroup(tmp_path, {"small": SMALL, "middle": MIDDLE}, with_repository=False)
    assert plant_canary(group.view(), tmp_path / "planted", 0) is None


def test_a_group_that_has_nothing_to_copy_gets_no_canary(tmp_path):
    group = SmallGroup(tmp_path, {"empty": {}, "data": {"data/part0/000.txt": "1\n"}})
    assert plant_canary(group.view(), tmp_path / "planted", 0) is None
    assert not (tmp_path / "planted").exists()


def test_where_the_best_cannot_be_degraded_the_next_is_the_original(tmp_path):
    group = SmallGroup(tmp_path, {"data": {"data/part0/000.txt": "1\n"}, "middle": MIDDLE})
    canary = plant_canary(group.view(), tmp_path / "planted", 0)
    own = group.view().workspace.raw_diff(group.label("middle"))
    assert canary.view.workspace.raw_diff(canary.original) == own
    degraded = canary.view.workspace.raw_diff(canary.degraded).decode().splitlines()
    assert [x for x in difflib.ndiff(own.decode().splitlines(), degraded) if x[0] == "+"]
