import json
from itertools import permutations

import pytest

from gagar_cli.errors import InvalidVerdictError
from gagar_cli.grading.verdict import (
    CRITERIA,
    Citation,
    answer_schema,
    read_verdict,
    submit_tool,
    verdict_in,
)

NOTE = {**dict.fromkeys(CRITERIA, "fine"), "evidence": ["src/a.py:3"]}


def test_a_verdict_has_a_ranking_and_notes_on_it():
    verdict = read_verdict({"tiers": [["B"], ["A"]], "notes": {"A": " x\ny ", "Z": "no"}}, "AB")
    assert verdict.ranking.tiers == (("B",), ("A",))
    assert verdict.notes == {"A": "x y"}
    assert verdict.trust == 1.0


@pytest.mark.parametrize("notes", [None, [], "A is good", {"A": 3}, {"A": " "}, {"A": {"risk": 1}}])
def test_notes_of_another_form_are_no_notes(notes):
    assert read_verdict({"tiers": ["A", "B"], "notes": notes}, "AB").notes == {}


def test_tiers_that_were_encoded_twice_are_read():
    verdict = read_verdict({"tiers": '[["B"], ["A"]]', "notes": {}}, "AB")
    assert verdict.ranking.tiers == (("B",), ("A",))


def test_half_a_character_in_a_note_becomes_visible():
    for note in ("bad \ud800", {"risk": "bad \ud800"}):
        [text] = read_verdict({"tiers": ["A"], "notes": {"A": note}}, "A").notes.values()
        assert text.endswith("bad \\ud800")
        text.encode()


def test_notes_by_criterion_become_one_line():
    note = {"requirement": "does  it", "risk": "", "tests": "none"}
    verdict = read_verdict({"tiers": ["A"], "notes": {"A": note}}, "A")
    assert verdict.notes == {"A": "requirement: does it; tests: none"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "tiers is missing"),
        ({"tiers": "A, B"}, "tiers is str"),
        ({"tiers": [["A"]]}, "B: missing"),
        ({"tiers": [["A"], [], ["B"]]}, "a tier is empty"),
        ({"tiers": [["A"], ["B"], ["A"]]}, "A: named more than once"),
        ({"tiers": [["A"], ["B"], ["C"]]}, "C: not among the candidates"),
        ({"tiers": [["A"], [{"B": 1}]]}, "not a list of labels"),
        ({"ranking": "A"}, "B: missing"),
        ({"ranking": "A > B > B"}, "B: named more than once"),
        ({"places": {"A": 1}}, "B: missing"),
        ({"places": {"A": 1, "B": "2"}}, "B: the place is no whole number"),
        ({"places": {"A": 1, "B": True}}, "B: the place is no whole number"),
        ({"places": {"A": 1, "B": 1, "C": 2}}, "C: not among the candidates"),
    ],
)
def test_a_verdict_that_is_none_says_why(arguments, problem):
    with pytest.raises(InvalidVerdictError, match=problem):
        read_verdict({**arguments, "notes": {"A": "a", "B": "b"}}, ["A", "B"])


@pytest.mark.parametrize(
    ("note", "cited"),
    [
        ("see src/a.py:3", ["src/a.py:3"]),
        ("src/a.py:3-7 and b.py:1.", ["src/a.py:3-7", "b.py:1"]),
        ({"risk": "a.py:1", "evidence": ["b/c.py:2", "d.py:4"]}, ["a.py:1", "b/c.py:2", "d.py:4"]),
        ("at http://localhost.net:8000 or a.b@c.org:25, at 10:30", []),
        ("twice a.py:1, a.py:1", ["a.py:1"]),
        ("a.py:" + "9" * 5000, []),
        ({"evidence": "a.py:1", "scope": 3}, ["a.py:1"]),
        (None, []),
    ],
)
def test_places_are_cited_as_file_and_line(note, cited):
    verdict = read_verdict({"tiers": ["A"], "notes": {"A": note}}, "A")
    assert [str(c) for c in verdict.citations.get("A", ())] == cited


def test_a_range_of_lines_is_a_citation():
    verdict = read_verdict({"tiers": ["A"], "notes": {"A": "a.py:3-7"}}, "A")
    assert verdict.citations["A"] == (Citation("a.py", 3, 7),)


# Schemas


def test_the_tool_asks_for_notes_first_and_names_only_the_labels():
    parameters = submit_tool(["A", "C"])["function"]["parameters"]
    assert list(parameters["properties"]) == ["notes", "tiers"]
    notes = parameters["properties"]["notes"]
    assert notes["required"] == ["A", "C"]
    assert list(notes["properties"]["A"]["properties"]) == [*CRITERIA, "evidence"]
    assert parameters["properties"]["tiers"]["items"]["items"]["enum"] == ["A", "C"]


@pytest.mark.parametrize(("count", "rankings"), [(2, 3), (3, 13), (4, 75)])
def test_up_to_four_candidates_every_ranking_is_listed_and_reads(count, rankings):
    labels = "ABCD"[:count]
    listed = answer_schema(labels)["properties"]["ranking"]["enum"]
    assert len(listed) == len(set(listed)) == rankings
    read = {read_verdict({"ranking": text}, labels).ranking for text in listed}
    assert len(read) == rankings
    strict = {tuple(t[0] for t in r.tiers) for r in read if len(r.tiers) == count}
    assert strict == set(permutations(labels))


def test_above_four_each_candidate_has_a_place_and_every_answer_is_a_ranking():
    labels = "ABCDE"
    places = answer_schema(labels)["properties"]["places"]
    assert places["required"] == list(labels)
    assert places["properties"]["E"]["enum"] == [1, 2, 3, 4, 5]
    answer = {"places": {"A": 4, "B": 2, "C": 4, "D": 5, "E": 2}}
    assert read_verdict(answer, labels).ranking.tiers == (("B", "E"), ("A", "C"), ("D",))


def test_the_notes_of_an_answer_stand_before_its_ranking():
    assert list(answer_schema("AB")["properties"]) == ["notes", "ranking"]
    assert list(answer_schema("ABCDE")["properties"]) == ["notes", "places"]


# In one answer


@pytest.mark.parametrize(
    "around", ["{}", "```json\n{}\n```", "Let me see: [1]\n{}\nDone.", "<think>{{}}</think>{}"]
)
def test_the_json_object_of_an_answer_is_found(around):
    answer = json.dumps({"notes": {"A": NOTE, "B": NOTE}, "ranking": "B > A"})
    verdict = verdict_in(around.format(answer), "AB")
    assert verdict.ranking.tiers == (("B",), ("A",))
    assert verdict.citations["A"] == (Citation("src/a.py", 3, 3),)


def test_the_last_ranking_of_an_answer_counts():
    text = 'First {"ranking": "A > B"}, no: {"ranking": "B > A"}'
    assert verdict_in(text, "AB").ranking.tiers == (("B",), ("A",))


@pytest.mark.parametrize("text", ["", "A > B", '{"notes": {}}', '{"ranking": "A > B"', "[1]"])
def test_an_answer_without_a_ranking_says_so(text):
    with pytest.raises(InvalidVerdictError, match="not a JSON object with notes and a ranking"):
        verdict_in(text, "AB")
