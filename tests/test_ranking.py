from itertools import combinations
from math import isclose, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rankings import ranking, rankings

from gagar_cli.errors import InvalidVerdictError
from gagar_cli.ranking import Ranking, kendall_tau_b, labels, read_ranking, tiers_of

ABC = ("A", "B", "C")


# What a ranking says.


def test_ties_share_the_lowest_place():
    assert ranking("B=C>A>D").ranks() == {"B": 1, "C": 1, "A": 3, "D": 4}
    assert ranking("A").ranks() == {"A": 1}
    assert Ranking(()).ranks() == {}


def test_renaming_keeps_the_tiers():
    names = {"A": "run-7", "B": "A", "C": "B"}
    assert ranking("B=C>A").renamed(names) == Ranking((("A", "B"), ("run-7",)))


# A verdict is read strictly.


@pytest.mark.parametrize(
    ("value", "tiers"),
    [
        ([["A"], ["B"], ["C"]], (("A",), ("B",), ("C",))),
        ([["C", "A"], ["B"]], (("C", "A"), ("B",))),
        (["B", ["C", "A"]], (("B",), ("C", "A"))),
        ([["A", "B", "C"]], (("A", "B", "C"),)),
    ],
)
def test_each_label_once_is_a_ranking(value, tiers):
    assert read_ranking(value, ABC) == Ranking(tiers)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([["A"], ["C"]], r"^B: missing$"),
        ([], r"^A, B, C: missing$"),
        ([["A"], ["B"], ["C"], ["A"]], r"^A: named more than once$"),
        ([["A", "A"], ["B"], ["C"]], r"^A: named more than once$"),
        ([["A"], ["B"], ["C"], ["D"]], r"^D: not among the candidates to rank$"),
        ([["A"], ["B"], ["c"]], r"C: missing; c: not among"),
        ([["A"], ["B"], ["C "]], r"C: missing; C : not among"),
        ([["A"], ["A"], ["D"]], r"B, C: missing; A: named more than once; D: not among"),
        (["A > B > C"], r"A > B > C: not among"),
        ({"A": 1, "B": 2, "C": 3}, "tiers is dict, expected a list of lists"),
        ("ABC", "tiers is str, expected a list of lists"),
        (None, "tiers is NoneType, expected a list of lists"),
        ((("A",), ("B",), ("C",)), "tiers is tuple, expected a list of lists"),
        ([["A"], ["B"], [3]], "a tier is not a list of labels"),
        ([["A"], ["B"], 3], "a tier is not a list of labels"),
        ([["A"], ["B"], None], "a tier is not a list of labels"),
        ([["A"], [["B"], ["C"]]], "a tier is not a list of labels"),
        ([{"A": 1}, "B", "C"], "a tier is not a list of labels"),
    ],
)
def test_anything_else_is_refused_in_words_to_act_on(value, words):
    with pytest.raises(InvalidVerdictError, match=words):
        read_ranking(value, ABC)


LABELS = st.sampled_from([*ABC, *ABC, "D"])


@given(st.lists(LABELS | st.lists(LABELS, min_size=1, max_size=3), max_size=4))
def test_exactly_the_verdicts_that_name_each_label_once_are_accepted(value):
    named = [label for tier in value for label in tier]
    try:
        accepted = list(read_ranking(value, ABC).ranks())
    except InvalidVerdictError:
        assert sorted(named) != list(ABC)
    else:
        assert accepted == named
        assert sorted(named) == list(ABC)


@given(rankings(tuple("ABCDE")))
def test_a_ranking_written_as_lists_is_read_back(drawn):
    assert read_ranking([list(tier) for tier in drawn.tiers], "ABCDE") == drawn


# From costs to tiers.


def test_the_lowest_cost_is_best_and_equal_costs_tie():
    assert tiers_of({"C": 2.0, "A": 5.0, "B": 2.0}) == ranking("B=C>A")


def test_costs_within_the_tolerance_of_a_tiers_first_tie():
    # A is near B, the best; C is near A, and too far from B.
    assert tiers_of({"A": 1.0, "B": 0.0, "C": 2.0}, tolerance=1.0) == ranking("A=B>C")


# Agreement of two rankings.


@pytest.mark.parametrize(
    ("a", "b", "tau"),
    [
        ("A>B>C", "A>B>C", 1),
        ("A>B>C", "C>B>A", -1),
        ("A>B>C", "A>C>B", 1 / 3),
        ("A=B>C", "A=B>C", 1),
        ("A=B>C", "A>B>C", 2 / sqrt(6)),
        ("A=B=C", "B=C=A", 1),
        ("A=B=C", "A>B>C", 0),
        ("A", "A", 1),
        # The example of scipy's manual, x = 12 2 1 12 2 and y = 1 4 7 1 0.
        ("C>B=E>A=D", "E>A=D>B>C", -0.4714045207910316),
    ],
)
def test_tau_b_of_known_pairs(a, b, tau):
    assert kendall_tau_b(ranking(a), ranking(b)) == pytest.approx(tau, rel=1e-15)


def tau_by_pairs(a, b):
    """Compute tau-b from its definition: concordant and discordant pairs, pairs tied in one."""
    first, second = a.ranks(), b.ranks()
    kinds = [
        (
            (first[x] > first[y]) - (first[x] < first[y]),
            (second[x] > second[y]) - (second[x] < second[y]),
        )
        for x, y in combinations(sorted(first), 2)
    ]
    same = sum(u * v == 1 for u, v in kinds)
    opposite = sum(u * v == -1 for u, v in kinds)
    only_first = sum(u == 0 != v for u, v in kinds)
    only_second = sum(v == 0 != u for u, v in kinds)
    untied = same + opposite
    if not untied + only_first + only_second:
        return 1.0
    if not (untied + only_first and untied + only_second):
        return 0.0
    return (same - opposite) / sqrt((untied + only_first) * (untied + only_second))


@given(rankings(tuple("ABCDEF")), rankings(tuple("ABCDEF")))
def test_tau_b_agrees_with_its_definition_and_is_symmetric(a, b):
    assert isclose(kendall_tau_b(a, b), tau_by_pairs(a, b), rel_tol=1e-12, abs_tol=1e-15)
    assert kendall_tau_b(a, b) == kendall_tau_b(b, a)
    assert -1 <= kendall_tau_b(a, b) <= 1
    assert kendall_tau_b(a, a) == 1


# Anonymous labels.


def test_labels_go_from_a_to_z_and_on_with_two_letters():
    assert list(labels(3)) == ["A", "B", "C"]
    many = list(labels(703))
    assert [many[n] for n in (25, 26, 27, 51, 52, 701, 702)] == [
        "Z",
        "AA",
        "AB",
        "AZ",
        "BA",
        "ZZ",
        "AAA",
    ]
    assert len(set(many)) == 703
    assert list(labels(0)) == []
