import importlib.util
import io
import json
import sys
import types
from importlib.resources import files

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_sft_votes import TOOLS, call, talk

from gagar_cli.sft.conversation import read_conversation
from gagar_cli.sft.options import Profile
from gagar_cli.sft.profiles import SHAPES, dataset_info

ANSWER = {"role": "assistant", "content": '{"ranking": "A > B"}', "reasoning": "Hm."}
SINGLE = [*talk()[:2], ANSWER]


def shaped(profile, messages, tools=TOOLS):
    """Return the row of one conversation, as it reads back from a file."""
    shape = SHAPES[profile]
    row = shape.row(read_conversation(json.dumps(messages), json.dumps(tools)))
    if shape.schema is None:
        return json.loads(json.dumps(row))
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row], shape.schema), file)
    [back] = pq.read_table(file).to_pylist()
    return back


def parsed(messages):
    """Return messages of a transcript with their arguments parsed, as calls by name."""
    return [
        (
            m["role"],
            m["content"] or "",
            [
                (c["function"]["name"], json.loads(c["function"]["arguments"]))
                for c in m.get("tool_calls") or []
            ],
        )
        for m in messages
    ]


def test_trl_gets_json_whose_arguments_are_objects():
    row = shaped(Profile.TRL, talk())
    messages = [json.loads(text) for text in row["messages"]]
    assert [
        (m["role"], m["content"], [tuple(c["function"].values()) for c in m.get("tool_calls", [])])
        for m in messages
    ] == parsed(talk())
    assert [json.loads(text) for text in row["tools"]] == TOOLS
    # Nothing is null: templates ask whether a key is there.
    assert [sorted(m) for m in messages[2:4]] == [
        ["content", "role", "tool_calls"],
        ["content", "name", "role", "tool_call_id"],
    ]
    assert shaped(Profile.TRL, SINGLE, [])["tools"] is None


def test_trl_files_say_that_their_lists_hold_json():
    file = io.BytesIO()
    schema = SHAPES[Profile.TRL].schema
    pq.write_table(pa.Table.from_pylist([], schema), file)
    back = pq.read_schema(file)
    features = json.loads(back.metadata[b"huggingface"])["info"]["features"]
    assert features["messages"] == {"_type": "List", "feature": {"_type": "Json"}}
    assert set(features) == set(back.names)
    raw = pq.read_schema(file).field("messages").type.value_type
    assert str(raw) in {"extension<arrow.json>", "string"}


def test_axolotl_gets_arguments_and_tools_as_json_text():
    row = shaped(Profile.AXOLOTL, talk())
    assert parsed(row["messages"]) == parsed(talk())
    assert json.loads(row["tools"]) == TOOLS
    single = shaped(Profile.AXOLOTL, SINGLE, [])
    assert single["tools"] == "[]"
    assert single["messages"][-1]["reasoning_content"] == "Hm."
    for messages in (row["messages"], single["messages"]):
        assert [m["role"] == "assistant" for m in messages] == [
            m.get("training", False) for m in messages
        ]


def test_llama_factory_gets_turns_that_alternate():
    row = shaped(Profile.LLAMA_FACTORY, talk())
    assert [turn["from"] for turn in row["conversations"]] == [
        "human",
        "function_call",
        "observation",
        "function_call",
        "observation",
        "function_call",
    ]
    assert row["system"] == "You grade."
    assert json.loads(row["tools"]) == TOOLS
    assert row["conversations"][2]["value"] == ("+ä = 1\n</tool_response>\n<tool_response>\n+b = 2")


def test_llama_factory_gets_the_calls_of_a_turn_as_one_json_text():
    _, first, _, second, _, last = shaped(Profile.LLAMA_FACTORY, talk())["conversations"]
    text, _, rest = first["value"].partition("<tool_call>")
    assert text == "Both diffs: <a> & „b“."
    assert json.loads(rest.removesuffix("</tool_call>")) == [
        {"name": "diff", "arguments": {"candidate": "A"}},
        {"name": "diff", "arguments": {"candidate": "B"}},
    ]
    assert json.loads(second["value"]) == {"name": "diff", "arguments": {"candidate": "A"}}
    # The end of a call that stands in an argument must not end the call.
    assert "</tool_call>" not in last["value"]
    assert json.loads(last["value"])["arguments"]["notes"] == {"A": "</tool_call>"}


def test_llama_factory_gets_an_answer_without_tools_with_its_thought():
    row = shaped(Profile.LLAMA_FACTORY, SINGLE, [])
    assert row["conversations"][-1] == {
        "from": "gpt",
        "value": '<think>\nHm.\n</think>\n\n{"ranking": "A > B"}',
    }
    assert row["tools"] == ""


def test_a_question_between_turns_stays_in_its_place():
    nudged = [*talk()[:2], ANSWER, {"role": "user", "content": "Call a tool."}, *talk()[5:]]
    turns = shaped(Profile.LLAMA_FACTORY, nudged)["conversations"]
    assert [turn["from"] for turn in turns[:4]] == ["human", "gpt", "human", "function_call"]


def test_the_description_names_each_file_once():
    info = dataset_info(["train.jsonl", "validation.jsonl"])
    assert {name: entry["file_name"] for name, entry in info.items()} == {
        "gagar_train": "train.jsonl",
        "gagar_validation": "validation.jsonl",
    }
    row = shaped(Profile.LLAMA_FACTORY, talk())
    for entry in info.values():
        assert entry["formatting"] == "sharegpt"
        assert set(entry["columns"].values()) == set(row)


def test_verl_gets_structs_without_the_keys_of_other_calls():
    row = shaped(Profile.VERL, talk())
    assert parsed(row["messages"]) == parsed(talk())
    assert [tool["function"]["name"] for tool in row["tools"]] == ["diff", "submit_ranking"]
    assert (
        json.loads(row["tools"][0]["function"]["parameters"])
        == (TOOLS[0]["function"]["parameters"])
    )
    assert shaped(Profile.VERL, SINGLE, [])["tools"] == []


class ReadsParquet:
    """Holds data as verl's own data set does after reading."""

    messages_key = "messages"

    def __init__(self, rows):
        self.rows = rows
        self._read_files_and_process()

    def _read_files_and_process(self):
        self.messages = [row["messages"] for row in self.rows]
        self.tools = [row["tools"] for row in self.rows]
        self.dataframe = {"messages": None}


@pytest.fixture
def loader(monkeypatch):
    """Import the file that is written beside verl's data, over a stand-in for verl."""
    module = types.ModuleType("verl.utils.dataset.multiturn_sft_dataset")
    module.MultiTurnSFTDataset = ReadsParquet
    for name in ("verl", "verl.utils", "verl.utils.dataset"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    path = files("gagar_cli.sft").joinpath("verl_dataset.py")
    spec = importlib.util.spec_from_file_location("verl_dataset", str(path))
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_the_loader_for_verl_restores_what_parquet_cannot_hold(loader):
    nulls = [*talk()[:-1], {**talk()[-1], "tool_calls": [call(0, "submit_ranking", notes=None)]}]
    data = loader.ToolCallDataset([shaped(Profile.VERL, nulls)])
    expected = read_conversation(json.dumps(nulls), json.dumps(TOOLS))
    assert data.messages == [list(expected.messages)]
    assert data.tools == [TOOLS]
    assert data.dataframe["messages"] is data.messages
    assert loader.restored({"a": None, "b": [None, {"c": None}]}) == {"b": [None, {}]}
