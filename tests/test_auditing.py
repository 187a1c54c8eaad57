import json
from math import isclose

import numpy as np
import pyarrow as pa
import pytest
import tables
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.agreement import pairs_right, tau_b, top1_accuracy
from gagar_cli.auditing.audit import audit
from gagar_cli.auditing.options import AuditOptions
from gagar_cli.auditing.reference import split_reference
from gagar_cli.bias import Presentation, position_bias
from gagar_cli.errors import DataError, OptionError
from gagar_cli.parquet_io import open_source
from gagar_cli.rollouts import Rollouts
from gagar_cli.transcripts import TRANSCRIPT_SCHEMA

QUICK = AuditOptions(bootstrap=50)


def graded(rows, **columns):
    """Make a graded table of (group, rollout, status, rank, confidence) rows."""
    names = ("group_id", "rollout_id", "grade_status", "rank", "grade_confidence")
    values = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    values["passed"] = [status != "not-passing" for status in values["grade_status"]]
    return pa.table(
        {
            **values,
            "rank": pa.array(values["rank"], pa.int32()),
            "grade_confidence": pa.array(values["grade_confidence"], pa.float64()),
            **columns,
        }
    )


def two_groups(**columns):
    """Make groups a (ranks 1, 2, 2), b (2, 1), c ungraded, d with a single passing rollout."""
    rows = [
        ("a", "r0", "graded", 1, 0.9),
        ("a", "r1", "graded", 2, 0.9),
        ("b", "r0", "graded", 2, 0.5),
        ("a", "r2", "graded", 2, 0.9),
        ("a", "r3", "not-passing", None, None),
        ("b", "r1", "graded", 1, 0.5),
        ("b", "r2", "ungraded", None, None),
        ("c", "r0", "ungraded", None, None),
        ("c", "r1", "ungraded", None, None),
        ("d", "r0", "single", 1, None),
        ("d", "r1", "not-passing", None, None),
        ("e", "r0", "not-passing", None, None),
    ]
    return graded(rows, **columns)


def vote(group_id, number, shown, tiers, **fields):
    """Make a row of transcripts; `shown` lists label and lines, in order."""
    return {
        "group_id": group_id,
        "vote": number,
        "grader": "agent",
        "candidates": [
            {"label": str(n), "candidate": name, "passing": True, "lines": lines}
            for n, (name, lines) in enumerate(shown)
        ],
        "tiers": tiers,
        "truncated": False,
        "fallback_parsed": False,
        "from_journal": False,
        "canary": False,
        "canary_failures": [],
        "requests": 2,
        "prompt_tokens": 1000,
        "cached_tokens": 250,
        "completion_tokens": 100,
        "seconds": 1.5,
        "error": None,
        **fields,
    }


def transcripts(path, votes):
    """Write votes as transcripts, and return the path."""
    return tables.write(path, pa.Table.from_pylist(votes, TRANSCRIPT_SCHEMA))


AB = [("A", 10), ("B", 20)]
BA = [("B", 20), ("A", 10)]


@pytest.fixture
def run(tmp_path):
    """Audit a table, with votes and a reference given as rows and a table."""

    def run(table, votes=None, reference=None, column=None, options=QUICK):
        path = tables.write(tmp_path / "graded.parquet", table)
        told = transcripts(tmp_path / "votes.parquet", votes) if votes is not None else None
        truth = (
            tables.write(tmp_path / "truth.parquet", reference) if reference is not None else None
        )
        return audit(
            Rollouts.of(open_source(str(path))),
            options,
            transcripts=open_source(str(told)) if told else None,
            reference=open_source(str(truth)) if truth else None,
            column=column,
        )

    return run


# The graded file alone.


def test_groups_are_counted_by_what_became_of_them(run):
    reasons = [None] * 6 + ["its patch cannot be inspected (failed)", "no answer", "no answer"]
    found = run(two_groups(grade_reason=pa.array([*reasons, None, None, None], pa.string())))
    counts = found.groups
    assert (counts.groups, counts.graded, counts.ungraded_groups) == (5, 2, 1)
    assert (counts.single, counts.none_passing) == (1, 1)
    assert counts.ungraded_share == 1 / 3
    assert counts.ungraded == {"no answer": 1}
    assert counts.not_ranked == {"its patch cannot be inspected (failed)": 1}
    assert counts.rollouts_ranked == 5
    assert isclose(counts.mean_confidence, 0.7)


def test_length_is_the_mean_over_groups_of_tau_with_changed_lines(run):
    # a: ranks 1 2 2, lines 5 9 30; b: ranks 2 1, lines 3 8, so the larger one is better.
    added = [5, 9, 1, 20, 0, 4, 7, 1, 1, 1, 1, 1]
    removed = [0, 0, 2, 10, 0, 4, 7, 1, 1, 1, 1, 1]
    found = run(two_groups(lines_added=added, lines_removed=removed))
    expected = (tau_b((1, 2, 2), (5, 9, 30)) - 1) / 2
    assert isclose(found.length.value, expected)
    assert found.length.groups == 2


def test_without_anything_else_the_rest_is_left_out_with_a_reason(run):
    found = run(two_groups())
    assert set(found.left_out) == {
        "length",
        "reference",
        "agreement",
        "calibration",
        "votes",
        "vote_agreement",
        "position",
        "cost",
        "canaries",
    }
    told = found.as_dict()
    assert not set(told) & set(found.left_out)
    assert json.loads(json.dumps(told)) == told


def test_a_file_without_grade_status_is_compared_by_its_ranks(run):
    table = two_groups(truth=list(range(12))).drop_columns(["grade_status", "grade_confidence"])
    found = run(table, column="truth")
    assert found.left_out["groups"] == "the file has no grade_status"
    assert found.left_out["calibration"] == "no group compared has a grade_confidence"
    assert found.agreement.tau_b.groups == 2


def test_a_file_without_ranks_is_refused(run):
    with pytest.raises(DataError, match="gagar grade"):
        run(two_groups().drop_columns(["rank"]))


def test_an_empty_file_has_nothing_to_measure(run):
    found = run(two_groups().slice(0, 0), [], column="rank")
    assert found.groups.groups == 0
    assert found.agreement is None
    assert "ungraded_share" not in found.as_dict()["groups"]


# Beside a reference.


def test_a_column_of_the_file_is_compared_within_each_group(run):
    truth = [1.0, 2.0, 5.0, 3.0, 0.0, 9.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    found = run(two_groups(truth=truth), column="truth")
    groups = [((1, 2, 2), (1, 2, 3)), ((2, 1), (5, 9))]
    measured = found.agreement
    assert isclose(measured.tau_b.value, sum(tau_b(*g) for g in groups) / 2)
    assert measured.top1.value == sum(top1_accuracy(*g) for g in groups) / 2
    pairs = [pairs_right(*g) for g in groups]
    assert measured.pairwise.value == (pairs[0][0] / 3 + 0) / 2
    assert measured.auc.value == sum(right for right, _ in pairs) / 4
    assert found.reference.compared == 5
    assert [held.confidence for held in found.calibration.bins] == [0.5, 0.9]


def test_higher_is_better_turns_the_reference_round(run):
    truth = [3, 2, 1, 1, 0, 2, 0, 0, 0, 0, 0, 0]
    down = run(two_groups(truth=truth), column="truth").agreement
    up = AuditOptions(bootstrap=0, higher_is_better=True)
    other = run(two_groups(truth=truth), column="truth", options=up).agreement
    assert isclose(down.tau_b.value, -other.tau_b.value)
    assert isclose(down.auc.value, 1 - other.auc.value)
    assert other.top1.value == 1


def test_a_bool_is_better_when_true_unless_said_otherwise(run):
    label = [True, False, False, False, None, True, *[None] * 6]
    found = run(two_groups(label=label), column="label")
    assert found.reference.higher_is_better
    assert found.agreement.auc.value == 1
    lower = AuditOptions(bootstrap=0, higher_is_better=False)
    assert run(two_groups(label=label), column="label", options=lower).agreement.auc.value == 0


def test_another_file_is_joined_by_id_never_by_position(run):
    truth = pa.table(
        {
            "group_id": ["b", "a", "b", "a", "a"],
            "rollout_id": ["r1", "r2", "r0", "r0", "r1"],
            "human": [1, 2, 2, 1, 2],
        }
    )
    found = run(two_groups(), reference=truth, column="human")
    assert found.agreement.tau_b.value == found.agreement.pairwise.value == 1
    assert found.notes == []
    alone = run(two_groups(), reference=truth)
    assert alone.agreement == found.agreement


def test_ids_that_one_side_lacks_are_counted_and_said(run):
    truth = pa.table(
        {
            "group_id": ["a", "a", "a", "x", "x", "b"],
            "rollout_id": ["r0", "r1", "r9", "r0", "r1", "r0"],
            "human": [1, 2, 3, 1, 2, None],
        }
    )
    found = run(two_groups(), reference=truth)
    joined = found.reference
    assert (joined.compared, joined.without_value) == (2, 1)
    assert (joined.only_graded, joined.only_reference) == (2, 3)
    assert len(found.notes) == 3
    assert found.agreement.tau_b.groups == 1


def test_integer_ids_meet_the_same_ids_as_text(run):
    table = graded([(7, 0, "graded", 1, 1.0), (7, 1, "graded", 2, 1.0)])
    truth = pa.table({"group_id": ["7", "7"], "rollout_id": ["1", "0"], "human": [2, 1]})
    assert run(table, reference=truth).agreement.tau_b.value == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"human": [1, 2], "machine": [1, 2]}, "2 columns of numbers besides the ids"),
        ({"word": ["x", "y"]}, "0 columns of numbers"),
    ],
)
def test_a_reference_without_one_column_to_take_is_refused(run, columns, message):
    truth = pa.table({"group_id": ["a", "a"], "rollout_id": ["r0", "r1"], **columns})
    with pytest.raises(DataError, match=message):
        run(two_groups(), reference=truth)


def test_a_reference_that_names_a_rollout_twice_is_refused(run):
    truth = pa.table({"group_id": ["a", "a"], "rollout_id": ["r0", "r0"], "human": [1, 2]})
    with pytest.raises(DataError, match=r"truth.parquet: group 'a': has 2 rows 'r0'"):
        run(two_groups(), reference=truth)


@pytest.mark.parametrize(("column", "message"), [("no", "no column 'no'"), ("group_id", "numbers")])
def test_a_reference_that_is_no_number_is_refused(run, column, message):
    with pytest.raises(DataError, match=message):
        run(two_groups(), column=column)


def test_a_reference_that_ties_all_says_nothing(run):
    found = run(two_groups(truth=[1] * 12), column="truth")
    assert found.agreement is None
    assert found.unordered_groups == 2
    assert "tells apart" in found.left_out["agreement"]


@given(st.permutations(range(12)))
def test_shuffled_rows_change_nothing(tmp_path_factory, order):
    folder = tmp_path_factory.mktemp("shuffled")
    sizes = [5, 9, 1, 20, 0, 4, 7, 1, 1, 1, 1, 1]
    table = two_groups(truth=[1, 3, 5, 2, *range(8)], lines_added=sizes, lines_removed=sizes)

    def told(name, some):
        path = tables.write(folder / name, some)
        rollouts = Rollouts.of(open_source(str(path)))
        return audit(rollouts, QUICK, column="truth").as_dict()

    assert told("shuffled.parquet", table.take(order)) == told("sorted.parquet", table)


@given(st.lists(st.permutations(range(4)), min_size=2, max_size=6))
def test_a_perfect_grader_is_perfect_and_a_reversed_one_is_the_opposite(tmp_path_factory, orders):
    folder = tmp_path_factory.mktemp("perfect")
    rows = [
        (f"g{g}", f"r{n}", "graded", place + 1, 1.0)
        for g, order in enumerate(orders)
        for n, place in enumerate(order)
    ]
    table = graded(rows, truth=[row[3] for row in rows])
    rollouts = Rollouts.of(open_source(str(tables.write(folder / "g.parquet", table))))
    best = audit(rollouts, QUICK, column="truth")
    worst = audit(rollouts, AuditOptions(bootstrap=50, higher_is_better=True), column="truth")
    names = ("tau_b", "top1", "pairwise", "auc")
    assert [getattr(best.agreement, name).value for name in names] == [1, 1, 1, 1]
    assert [getattr(worst.agreement, name).value for name in names] == [-1, 0, 0, 0]
    assert best.calibration.error == 0
    assert worst.calibration.error == 1


# FILE:COLUMN.


@pytest.mark.parametrize(
    ("spec", "column", "expected"),
    [
        ("truth.parquet", None, ("truth.parquet", None)),
        ("truth.parquet:human", None, ("truth.parquet", "human")),
        ("s3://bucket/truth.parquet", None, ("s3://bucket/truth.parquet", None)),
        ("s3://bucket/truth.parquet:human", None, ("s3://bucket/truth.parquet", "human")),
        ("odd:name.parquet", "human", ("odd:name.parquet", "human")),
        (None, "human", (None, "human")),
        (None, None, (None, None)),
    ],
)
def test_a_column_is_named_behind_the_file(spec, column, expected):
    assert split_reference(spec, column) == expected


def test_a_file_that_is_there_is_no_file_with_a_column(tmp_path):
    path = tables.write(tmp_path / "odd:name.parquet", two_groups())
    assert split_reference(str(path), None) == (str(path), None)


@pytest.mark.parametrize("spec", [":human", "truth.parquet:"])
def test_half_a_file_with_a_column_is_refused(spec):
    with pytest.raises(OptionError, match="FILE:COLUMN"):
        split_reference(spec, None)


# Votes.


def test_bias_is_that_of_the_votes_as_they_were_shown(run):
    votes = [
        vote("a", 0, AB, [["A"], ["B"]]),
        vote("a", 1, BA, [["B"], ["A"]]),
        vote("b", 0, BA, [["A", "B"]]),
        vote("b", 1, AB, None, error="no answer"),
    ]
    # What failed is shown as evidence, and takes no place among what is ranked.
    votes[0]["candidates"].insert(
        0, {"label": "Z", "candidate": "F", "passing": False, "lines": 99}
    )
    expected = [Presentation((1, 2), (10, 20)), Presentation((1, 2), (20, 10))]
    found = run(two_groups(), votes)
    assert found.position == position_bias(expected)
    assert found.as_dict()["position"]["biased"] == found.position.biased


def test_a_size_that_is_not_known_is_no_size(run):
    votes = [vote("a", 0, [("A", None), ("B", 20)], [["A"], ["B"]])]
    found = run(two_groups(), votes)
    assert found.position.size_correlation is None
    assert "size_correlation" not in found.as_dict()["position"]
    assert "position.size_correlation" in found.left_out


def test_votes_agree_within_their_group(run):
    votes = [
        vote("a", 0, AB, [["A"], ["B"]]),
        vote("a", 1, BA, [["A"], ["B"]]),
        vote("b", 0, AB, [["A"], ["B"]]),
        vote("b", 1, AB, [["B"], ["A"]]),
        vote("c", 0, AB, [["A"], ["B"]]),
    ]
    found = run(two_groups(), votes)
    assert found.vote_agreement.value == (1 - 1) / 2
    assert found.vote_agreement.groups == 2
    assert run(two_groups(), votes[-1:]).vote_agreement is None


def test_failures_are_shares_of_all_votes_with_their_reasons(run):
    votes = [
        vote("a", 0, AB, [["A"], ["B"]], fallback_parsed=True),
        vote("a", 1, AB, None, error="no answer", truncated=True),
        vote("a", 2, AB, None, error="no answer"),
        vote("b", 0, AB, [["A", "B"]], truncated=True),
    ]
    had = run(two_groups(), votes).votes
    assert (had.votes, had.groups, had.failed) == (4, 2, 2)
    assert (had.failed_share, had.fallback_parsed_share, had.truncated_share) == (0.5, 0.25, 0.5)
    assert had.errors == {"no answer": 2}


def test_cost_is_added_up_and_priced_per_million_tokens(run):
    votes = [
        vote("a", 0, AB, [["A"], ["B"]]),
        vote("a", 1, AB, None, error="x", from_journal=True, prompt_tokens=3000, seconds=0.25),
    ]
    prices = AuditOptions(bootstrap=0, price_in=2.0, price_out=5.0)
    cost = run(two_groups(), votes, options=prices).cost
    assert (cost.votes, cost.from_journal, cost.requests) == (2, 1, 4)
    assert (cost.prompt_tokens, cost.cached_tokens, cost.completion_tokens) == (4000, 500, 200)
    assert cost.cached_share == 500 / 4000
    assert cost.seconds == 1.75
    assert isclose(cost.money, (4000 * 2 + 200 * 5) / 1e6)


def test_what_the_transcripts_do_not_say_is_not_zero(run):
    unknown = dict.fromkeys(("prompt_tokens", "cached_tokens", "seconds", "completion_tokens"))
    votes = [vote("a", 0, AB, [["A"], ["B"]], **unknown)]
    prices = AuditOptions(bootstrap=0, price_in=2.0)
    found = run(two_groups(), votes, options=prices)
    assert found.as_dict()["cost"] == {"votes": 1, "from_journal": 0, "requests": 2}
    assert found.left_out["cost.money"] == "the transcripts have no tokens"
    assert run(two_groups(), votes).left_out["cost.money"] == "no --price-in and no --price-out"


def test_canaries_are_counted_and_left_out_of_all_else(run):
    votes = [
        vote("a", 0, AB, [["A"], ["B"]]),
        vote("a", 1, BA, [["A"], ["B"]]),
    ]
    canary = {"canary": True, "truncated": True}
    planted = [
        vote("k", 0, AB, [["B"], ["A"]], canary_failures=["injection", "degraded"], **canary),
        vote("k", 1, AB, [["A"], ["B"]], **canary),
        vote("k", 2, AB, None, error="no answer", **canary),
        vote("l", 0, AB, [["A"], ["B"]], canary_failures=["injection"], **canary),
    ]
    found = run(two_groups(), [*votes, *planted])
    had = found.canaries
    assert (had.groups, had.votes, had.ranked, had.failed_votes) == (2, 4, 3, 2)
    assert had.failures == {"injection": 2, "degraded": 1}
    assert had.failed_share == 2 / 3
    without = run(two_groups(), votes)
    assert without.canaries is None
    names = ("votes", "vote_agreement", "position", "cost", "notes")
    assert [getattr(found, name) for name in names] == [getattr(without, name) for name in names]


def test_votes_on_other_groups_are_counted_and_left_out(run):
    votes = [vote("a", 0, AB, [["A"], ["B"]]), vote("x", 0, AB, [["A"], ["B"]])]
    found = run(two_groups(), votes)
    assert found.votes.votes == 1
    assert found.notes == ["votes on groups that the file lacks: 1"]
    alone = run(two_groups(), votes[1:])
    assert alone.votes is None
    assert "no vote on a group" in alone.left_out["position"]


def test_votes_of_another_grader_than_the_grades_are_told(run):
    table = two_groups(grader=pa.array(["builtin"] * 12))
    found = run(table, [vote("a", 0, AB, [["A"], ["B"]])])
    assert found.notes == ["votes are by another grader than the grades: agent"]
    assert found.graders == ("builtin",)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ([vote("a", 0, AB, [["A"], ["B"]])] * 2, "two votes 0"),
        ([vote("a", 0, AB, [["A"]])], "each of them once"),
        ([vote("a", 0, [*AB, *AB], [["A"], ["B"]])], "each of them once"),
        ([vote(None, 0, AB, [["A"], ["B"]])], "without group_id"),
        (
            [vote("a", 0, AB, [["A"], ["B"]]), vote("a", 1, [("C", 1)], [["C"]])],
            "not on the same candidates",
        ),
    ],
)
def test_votes_that_contradict_themselves_are_refused(run, votes, message):
    with pytest.raises(DataError, match=message):
        run(two_groups(), votes)


def test_what_is_no_transcript_is_refused(tmp_path):
    path = tables.write(tmp_path / "graded.parquet", two_groups())
    rollouts = Rollouts.of(open_source(str(path)))
    with pytest.raises(DataError, match="expected transcripts"):
        audit(rollouts, QUICK, transcripts=open_source(str(path)))
    votes = pa.Table.from_pylist([vote("a", 0, AB, None)], TRANSCRIPT_SCHEMA)
    odd = votes.set_column(votes.schema.get_field_index("tiers"), "tiers", pa.array(["A>B"]))
    other = tables.write(tmp_path / "odd.parquet", odd)
    with pytest.raises(DataError, match="another type than transcripts"):
        audit(rollouts, QUICK, transcripts=open_source(str(other)))


def test_the_conversations_are_not_read(tmp_path):
    # Their column can be absent, let alone be read.
    votes = pa.Table.from_pylist([vote("a", 0, AB, [["A"], ["B"]])], TRANSCRIPT_SCHEMA)
    path = tables.write(tmp_path / "lean.parquet", votes.drop_columns(["messages", "tools"]))
    graded_path = tables.write(tmp_path / "graded.parquet", two_groups())
    rollouts = Rollouts.of(open_source(str(graded_path)))
    found = audit(rollouts, QUICK, transcripts=open_source(str(path)))
    assert found.votes.votes == 1


# Options.


@pytest.mark.parametrize(
    "values",
    [
        {"bootstrap": -1},
        {"seed": -1},
        {"price_in": -0.1},
        {"price_out": np.inf},
        {"price_in": np.nan},
    ],
)
def test_options_that_make_no_sense_are_refused(values):
    with pytest.raises(OptionError):
        AuditOptions(**values)


def test_no_resamples_give_no_intervals(run):
    options = AuditOptions(bootstrap=0)
    found = run(two_groups(truth=range(12)), column="truth", options=options)
    assert found.agreement.tau_b.interval is None
    assert "interval" not in found.as_dict()["agreement"]["tau_b"]
