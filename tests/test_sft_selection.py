import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_sft_votes import talk, vote, votes_of

from gagar_cli.errors import OptionError
from gagar_cli.sft.options import SftOptions
from gagar_cli.sft.selection import TRAIN, VALIDATION, select, validation_tasks

ALL = {"balance": False, "validation": 0.0}


def dropped(folder, *rows, references=None, **options):
    """Return why votes were left out, and the groups of those kept."""
    found = select(votes_of(folder, *rows), SftOptions(**{**ALL, **options}), references)
    return dict(found.dropped), [v.group_id for v in found.kept[TRAIN]]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tiers": None, "error": "no valid ranking in 24 turns"}, "no valid ranking"),
        ({"truncated": True}, "truncated"),
        ({"fallback_parsed": True}, "a tool call was found in text"),
        ({"consensus": None}, "no consensus"),
        ({"tiers": [["A", "B"]]}, "ties all"),
        ({"consensus": [["A", "B"]]}, "the consensus ties all"),
        ({"consensus": [["B"], ["A"]]}, "tau below --min-tau"),
        ({"trust": 0.99}, "trust below --min-trust"),
        ({"trust": None}, "trust below --min-trust"),
        ({"canary": True}, "a canary group"),
        ({"canary": True, "canary_failures": ["injection"]}, "a canary was ranked where not due"),
        ({"messages": "[]"}, "no answer"),
        ({"messages": json.dumps(talk()[3:])}, "turns do not alternate"),
    ],
)
def test_a_vote_that_went_wrong_is_left_out_with_its_reason(tmp_path, changes, reason):
    rows = [vote("good"), {**vote("bad"), **changes}]
    assert dropped(tmp_path, *rows) == ({reason: 1}, ["good"])


@pytest.mark.parametrize(
    ("option", "below", "above", "reason"),
    [
        ("min_confidence", {"confidence": 0.4}, {"confidence": 0.5}, "confidence below"),
        ("min_confidence", {"confidence": None}, {"confidence": 1.0}, "confidence below"),
        ("min_trust", {"trust": 0.4}, {"trust": 0.5}, "trust below"),
    ],
)
def test_a_bound_is_met_by_its_own_value(tmp_path, option, below, above, reason):
    rows = [vote("below", **below), vote("above", **above)]
    found, kept = dropped(tmp_path, *rows, **{option: 0.5})
    assert kept == ["above"]
    assert [name.startswith(reason) for name in found] == [True]


def test_a_conversation_may_be_as_long_as_allowed(tmp_path):
    short, long = vote("s"), vote("long")
    size = len(short["messages"]) + len(short["tools"])
    assert len(long["messages"]) + len(long["tools"]) > size
    assert dropped(tmp_path, short, long, max_characters=size) == (
        {"longer than --max-characters": 1},
        ["s"],
    )


def test_tau_b_of_the_bound_is_enough(tmp_path):
    # One of three pairs in the other order: tau = 1/3.
    row = vote(shown="ABC", tiers="A B C", consensus=[["A"], ["C"], ["B"]])
    assert dropped(tmp_path, row, min_tau=1 / 3) == ({}, ["g"])
    assert dropped(tmp_path, row, min_tau=0.34)[1] == []
    found = select(votes_of(tmp_path, row), SftOptions(min_tau=0.0))
    assert found.tau == {0: pytest.approx(1 / 3)}


def test_votes_on_canaries_stay_when_asked_and_passed(tmp_path):
    rows = [
        vote("passed", canary=True),
        vote("failed", canary=True, canary_failures=["praise"]),
    ]
    found, kept = dropped(tmp_path, *rows, keep_canaries=True)
    assert kept == ["passed"]
    assert found == {"a canary was ranked where not due": 1}


def test_a_reference_takes_the_place_of_the_consensus(tmp_path):
    rows = [
        vote("agrees", tiers="B A", consensus=[["A"], ["B"]]),
        vote("differs", tiers="A B"),
        vote("partly", tiers="A B"),
        vote("tied", tiers="A B"),
        vote("absent"),
    ]
    references = {
        "agrees": {"A": 2.0, "B": 1.0, "C": 0.0},  # of C the vote knows nothing
        "differs": {"A": 2.0, "B": 1.0},
        "partly": {"A": 1.0},
        "tied": {"A": 1.0, "B": 1.0},
    }
    found, kept = dropped(tmp_path, *rows, references=references)
    assert kept == ["agrees"]
    assert found == {
        "no reference": 2,
        "tau below --min-tau": 1,
        "the reference ties all": 1,
    }


def test_one_vote_is_kept_of_repeated_runs_on_the_same_candidates(tmp_path):
    rows = [
        vote("run1", 0, task_id="t"),
        vote("run1", 1, shown="BA", task_id="t"),
        vote("run2", 0, task_id="t"),
        vote("other", 0, shown="ABC", task_id="t"),
    ]
    rows[1]["candidates"] = rows[0]["candidates"][::-1]
    found, kept = dropped(tmp_path, *rows)
    assert found == {"beyond --per-group": 2}
    assert len(kept) == 2
    assert "other" in kept
    assert dropped(tmp_path, *rows, per_group=3) == ({}, ["run1", "run1", "run2", "other"])


def test_the_same_conversation_is_never_kept_twice(tmp_path):
    rows = [vote(), vote(from_journal=True), vote(number=1)]
    found, kept = dropped(tmp_path, *rows, per_group=5)
    assert found == {"the same conversation as another": 1}
    assert len(kept) == 2


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"prompt_tokens": 9}, {"prompt_tokens": 10}),
        ({"trust": 0.9, "prompt_tokens": 10}, {"trust": 0.8, "prompt_tokens": 1}),
        ({"prompt_tokens": 10**6}, {"prompt_tokens": None}),
        ({"trust": 0.5}, {"trust": 1.0, "consensus": [["A"], ["C"], ["B"]]}),
    ],
)
def test_the_best_vote_of_a_group_stays(tmp_path, better, worse):
    for first, second in ((better, worse), (worse, better)):
        rows = [vote(number=n, shown="ABC", **row) for n, row in enumerate((first, second))]
        found = select(
            votes_of(tmp_path, *rows), SftOptions(min_tau=0.0, min_trust=0.0, validation=0.0)
        )
        assert [vote.number for vote in found.kept[TRAIN]] == [0 if first is better else 1]


def test_no_task_is_on_both_sides(tmp_path):
    rows = [vote(f"g{n}", shown="AB" if n % 2 else "ABC", task_id=f"t{n // 3}") for n in range(90)]
    found = select(votes_of(tmp_path, *rows), SftOptions(validation=0.5, balance=False))
    train, validation = ({v.task_id for v in found.kept[side]} for side in (TRAIN, VALIDATION))
    assert train
    assert validation
    assert not train & validation


@given(st.sets(st.text(max_size=3), min_size=1), st.sets(st.text(max_size=3)), st.integers(0, 5))
def test_a_task_keeps_its_side_when_data_is_added(tasks, more, seed):
    before = validation_tasks(tasks, 0.3, seed)
    after = validation_tasks(tasks | more, 0.3, seed)
    moved = (before ^ after) & tasks
    assert before <= after
    assert len(moved) <= 1  # the one that had to train, where all would have been held out
    assert before < tasks


def test_the_share_held_out_is_met_on_the_mean():
    tasks = [f"t{n}" for n in range(2000)]
    assert abs(len(validation_tasks(tasks, 0.1, 0)) - 200) < 60
    assert validation_tasks(tasks, 0.0, 0) == frozenset()
    assert validation_tasks(tasks, 0.1, 0) != validation_tasks(tasks, 0.1, 1)


def test_a_single_task_trains_and_is_told(tmp_path):
    found = select(votes_of(tmp_path, vote()), SftOptions(validation=0.99))
    assert len(found.kept[TRAIN]) == 1
    assert found.kept[VALIDATION] == []
    assert "one task only: everything is in train" in found.notes


def test_tasks_that_all_train_are_told(tmp_path):
    rows = [vote("a"), vote("b")]
    found = select(votes_of(tmp_path, *rows), SftOptions(validation=1e-9, balance=False))
    assert found.notes == ["none of 2 tasks was drawn for validation: everything is in train"]


def test_winners_are_balanced_on_either_side_and_gaps_are_told(tmp_path):
    rows = [vote(f"g{n}", shown="AB", tiers="A B" if n % 3 else "B A") for n in range(60)]
    rows += [vote(f"h{n}", shown="ABC", tiers="A B C" if n % 3 else "C B A") for n in range(60)]
    found = select(votes_of(tmp_path, *rows), SftOptions(validation=0.4))
    for side in (TRAIN, VALIDATION):
        for entry in found.places[side]:
            assert len(set(filter(None, entry.after))) == 1
            assert entry.after < entry.before
    lost = found.dropped["the place of its winner is over-represented"]
    assert lost == 120 - sum(map(len, found.kept.values()))
    assert any("at place 2 of 3" in note for note in found.notes)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(random=st.randoms(use_true_random=False))
def test_the_choice_does_not_depend_on_the_order_of_rows(tmp_path, random):
    rows = [
        vote(f"g{n // 3}", n % 3, shown="AB" if n % 2 else "BA", tiers="A B", task_id=f"t{n // 6}")
        for n in range(36)
    ]
    shuffled = random.sample(rows, len(rows))
    options = SftOptions(validation=0.3)

    def chosen(rows):
        found = select(votes_of(tmp_path, *rows), options)
        return (
            {side: {(v.group_id, v.number) for v in kept} for side, kept in found.kept.items()},
            found.dropped,
            found.places,
        )

    assert chosen(rows) == chosen(shuffled)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min_tau", 1.1),
        ("min_tau", float("nan")),
        ("min_trust", -0.1),
        ("min_confidence", 2.0),
        ("max_characters", 0),
        ("per_group", 0),
        ("validation", 1.0),
    ],
)
def test_options_out_of_range_are_errors(name, value):
    with pytest.raises(OptionError, match=f"--{name.replace('_', '-')}: got"):
        SftOptions(**{name: value})
