import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables

from gagar_cli.errors import DataError
from gagar_cli.parquet_io import open_source
from gagar_cli.ranking import Ranking
from gagar_cli.sft.reference import read_reference
from gagar_cli.sft.votes import read_conversations, read_votes
from gagar_cli.transcripts import TRANSCRIPT_SCHEMA

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "diff",
            "description": "What a candidate changes.",
            "parameters": {
                "type": "object",
                "properties": {"candidate": {"type": "string", "enum": ["A", "B"]}},
                "required": ["candidate"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "submit_ranking",
            "description": "Give the ranking; this ends the vote.",
            "parameters": {
                "type": "object",
                "properties": {"notes": {"type": "object"}, "tiers": {"type": "array"}},
                "required": ["notes", "tiers"],
            },
        },
    },
]


def call(number, name, **arguments):
    """Make a tool call as a transcript has it: with its arguments as text."""
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": f"call_{number}", "type": "function", "function": function}


def talk(task="Fix it.", tiers=(("A",), ("B",))):
    """Make an agent's conversation: two turns of tools, the first with two calls, and the end."""
    return [
        {"role": "system", "content": "You grade."},
        {"role": "user", "content": task},
        {
            "role": "assistant",
            "content": "Both diffs: <a> & „b“.",
            "tool_calls": [call(0, "diff", candidate="A"), call(1, "diff", candidate="B")],
        },
        {"role": "tool", "tool_call_id": "call_0", "content": "+ä = 1"},
        {"role": "tool", "tool_call_id": "call_1", "content": "+b = 2"},
        {"role": "assistant", "content": None, "tool_calls": [call(2, "diff", candidate="A")]},
        {"role": "tool", "tool_call_id": "call_2", "content": "+ä = 1"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [call(3, "submit_ranking", notes={"A": "</tool_call>"}, tiers=tiers)],
        },
    ]


def vote(group="g", number=0, shown="AB", tiers=None, **changes):
    """Make a row: candidates shown in an order, ranked in tiers such as "A BC"."""
    ranked = [list(tier) for tier in (tiers or " ".join(sorted(shown))).split()]
    return {
        "group_id": group,
        "vote": number,
        "task_id": f"task of {group}",
        "grader": "agent/0.1.0 model=m",
        "model": "m",
        "mode": "agent",
        "candidates": [
            {"label": chr(ord("P") + place), "candidate": name, "passing": True, "lines": place}
            for place, name in enumerate(shown)
        ],
        "tiers": ranked,
        "consensus": ranked,
        "confidence": 1.0,
        "trust": 1.0,
        "reasons": [],
        "messages": json.dumps(talk(f"{group} {number} {shown}", ranked), ensure_ascii=False),
        "tools": json.dumps(TOOLS),
        "truncated": False,
        "fallback_parsed": False,
        "from_journal": False,
        "canary": False,
        "canary_failures": [],
        "requests": 3,
        "prompt_tokens": 100,
        "cached_tokens": 0,
        "completion_tokens": 10,
        "seconds": 1.0,
        "error": None,
        **changes,
    }


def write(path, rows):
    """Write transcripts; return the path."""
    return tables.write(path, pa.Table.from_pylist(rows, TRANSCRIPT_SCHEMA))


def votes_of(folder, *rows):
    """Write rows and read them as votes."""
    return read_votes([open_source(str(write(folder / "votes.parquet", rows)))])


def test_a_vote_knows_the_order_shown_and_its_rankings(tmp_path):
    [found] = votes_of(tmp_path, vote(shown="CAB", tiers="B AC", consensus=[["B"], ["A"], ["C"]]))
    assert found.shown == ("C", "A", "B")
    assert found.ranking == Ranking((("B",), ("A", "C")))
    assert found.consensus == Ranking((("B",), ("A",), ("C",)))
    assert found.tokens == 110
    assert found.problem is None


def test_failing_candidates_are_shown_but_have_no_place(tmp_path):
    row = vote()
    row["candidates"].insert(0, {"label": "Z", "candidate": "F", "passing": False, "lines": 7})
    [found] = votes_of(tmp_path, row)
    assert found.shown == ("A", "B")
    assert ("F", False, 7) in found.candidates


def test_rows_are_numbered_over_all_sources(tmp_path):
    paths = [
        write(tmp_path / f"{name}.parquet", [vote(f"{name}{n}") for n in range(3)]) for name in "ab"
    ]
    sources = [open_source(str(path)) for path in paths]
    assert [(v.row, v.group_id) for v in read_votes(sources)] == list(
        enumerate(["a0", "a1", "a2", "b0", "b1", "b2"])
    )
    chosen = dict(read_conversations(sources, frozenset({1, 5})))
    assert {row: c.messages[1]["content"] for row, c in chosen.items()} == {
        1: "a1 0 AB",
        5: "b2 0 AB",
    }


def test_rows_keep_their_numbers_over_several_row_groups(tmp_path):
    table = pa.Table.from_pylist([vote(f"g{n}") for n in range(7)], TRANSCRIPT_SCHEMA)
    path = tables.write(tmp_path / "v.parquet", table, row_group_size=2)
    source = open_source(str(path))
    [(row, found)] = read_conversations([source], frozenset({5}))
    assert (row, found.messages[1]["content"]) == (5, "g5 0 AB")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"tiers": [["A"]]}, "tiers is 'A', expected each of A, B once"),
        ({"tiers": [["A"], ["A", "B"]]}, "tiers is 'A > A = B', expected"),
        ({"consensus": [["A"], ["C"]]}, "consensus is 'A > C', expected"),
        ({"tiers": [["A", "B"], []]}, "tiers is 'A = B > ', expected"),
        ({"task_id": None}, "got no task_id"),
        ({"messages": None}, "got no messages"),
        ({"messages": "[{]"}, "messages is not JSON"),
        ({"messages": '{"a": 1}'}, "messages is not a list of objects"),
        ({"messages": '[{"role": "narrator"}]'}, "role 'narrator'"),
        ({"messages": '[{"role": "user", "content": [{}]}]'}, "content of type list"),
        ({"tools": "[1]"}, "tools is not a list of objects"),
    ],
)
def test_a_row_that_contradicts_itself_is_an_error_that_says_where(tmp_path, changes, problem):
    with pytest.raises(DataError) as caught:
        votes_of(tmp_path, {**vote(), **changes})
    assert problem in str(caught.value)
    assert "votes.parquet: group 'g' vote 0" in str(caught.value)


def test_other_parquet_than_transcripts_is_an_error(tmp_path):
    path = tables.write(tmp_path / "r.parquet", tables.rollouts({"a": [True]}))
    with pytest.raises(DataError, match="got no column 'vote', 'task_id'"):
        read_votes([open_source(str(path))])
    table = pq.read_table(write(tmp_path / "v.parquet", [vote()]))
    wrong = table.set_column(1, "vote", pa.array(["first"]))
    path = tables.write(tmp_path / "wrong.parquet", wrong)
    with pytest.raises(DataError, match="another type than transcripts"):
        read_votes([open_source(str(path))])


def reference_of(folder, column, values, **options):
    table = pa.table(
        {"group_id": ["g"] * len(values), "candidate": ["A", "B", "C", None][: len(values)]}
    ).append_column(column, pa.array(values))
    path = tables.write(folder / "truth.parquet", table)
    return read_reference(open_source(str(path)), column, **options)


def test_a_reference_is_read_by_group_and_label(tmp_path):
    found = reference_of(tmp_path, "human", [2, 1, None, 5])
    assert found == {"g": {"A": 2, "B": 1}}
    assert reference_of(tmp_path, "q", [2, 1], higher_is_better=True) == {"g": {"A": -2, "B": -1}}
    assert reference_of(tmp_path, "ok", [True, False])["g"] == {"A": 1, "B": 0}
    assert reference_of(tmp_path, "q", [float("nan"), 1.0]) == {"g": {"B": 1}}


def test_a_reference_that_cannot_be_one_is_an_error(tmp_path):
    with pytest.raises(DataError, match="type string, expected numbers or bool"):
        reference_of(tmp_path, "human", ["1", "2"])
    path = tmp_path / "truth.parquet"
    with pytest.raises(DataError, match="got no column 'other' among group_id, candidate, human"):
        read_reference(open_source(str(path)), "other")
    table = pa.table({"group_id": ["g", "g"], "candidate": ["A", "A"], "human": [1, 2]})
    tables.write(path, table)
    with pytest.raises(DataError, match="group 'g': has two rows for candidate 'A'"):
        read_reference(open_source(str(path)), "human")
