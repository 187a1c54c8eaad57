"""The shapes in which trainers load conversations with tool calls today.

trl            TRL 1.16, datasets from 4.7 on: Parquet whose `messages` and `tools` are lists of
               JSON that `datasets` decodes (its feature `Json`). Arguments stay objects, which
               nearly all chat templates need; as structs they would get the keys of all calls.
axolotl        axolotl 0.19, `type: chat_template`: JSON lines. Arguments and tools are JSON
               text, which axolotl parses before the template sees it.
llama-factory  LLaMA-Factory 0.9.5, ShareGPT: JSON lines, and `dataset_info.json`.
verl           verl 0.9.1, MultiTurnSFTDataset: Parquet of structs. Arguments and parameters are
               JSON text, as structs would get the keys of all; `verl_dataset.py` restores them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from gagar_cli.sft.conversation import Conversation, Message
from gagar_cli.sft.options import Profile

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """How one trainer reads: a row for each conversation, in Parquet of a schema or JSON lines.

    load: how it is told to, with {folder} for where the files are.
    """

    row: Callable[[Conversation], Row]
    load: str
    schema: pa.Schema | None = None

    @property
    def suffix(self) -> str:
        """The ending of the files."""
        return "jsonl" if self.schema is None else "parquet"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# Arrow's own type for JSON, by its name: what `datasets` decodes, and text to all other readers.
_JSON = {"ARROW:extension:name": "arrow.json", "ARROW:extension:metadata": ""}
_JSON_LIST = pa.list_(pa.field("element", pa.string(), metadata=_JSON))
_FEATURES = {n: {"_type": "List", "feature": {"_type": "Json"}} for n in ("messages", "tools")}
_TRL_SCHEMA = pa.schema(
    {"messages": _JSON_LIST, "tools": _JSON_LIST},
    metadata={"huggingface": json.dumps({"info": {"features": _FEATURES}})},
)


def _trl(conversation: Conversation) -> Row:
    return {
        "messages": [_text(message) for message in conversation.messages],
        # Some templates announce tools for an empty list.
        "tools": [_text(tool) for tool in conversation.tools] or None,
    }


def _axolotl(conversation: Conversation) -> Row:
    messages = [_with_text_arguments(message) for message in conversation.messages]
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            # axolotl's own mark. No template sees it, and it makes the keys of messages differ in
            # every row: where `datasets` finds them alike at first and not later on, it gives up.
            messages[place] = {**message, "training": True}
    return {"messages": messages, "tools": _text(conversation.tools)}


def _with_text_arguments(message: Message) -> Message:
    if "tool_calls" not in message:
        return message
    calls = [
        {
            **call,
            "function": {
                "name": call["function"]["name"],
                "arguments": _text(call["function"]["arguments"]),
            },
        }
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


# What LLaMA-Factory itself puts between the results of several calls.
_BETWEEN_RESULTS = "\n</tool_response>\n<tool_response>\n"


def _llama_factory(conversation: Conversation) -> Row:
    """Return ShareGPT turns: users and observations alternate with answers and function calls.

    The results of an answer's calls are one observation, and its calls are one turn, whose text, if
    any, stands before them as LLaMA-Factory's default template words have it.
    """
    system, turns, results = "", [], list[str]()
    for message in conversation.messages:
        role, content = message["role"], message["content"]
        if role == "tool":
            results.append(content)
            continue
        if results:
            turns.append({"from": "observation", "value": _BETWEEN_RESULTS.join(results)})
            results = []
        if role == "system":
            system = content
        elif role == "user":
            turns.append({"from": "human", "value": content})
        else:
            turns.append(_llama_factory_answer(message))
    tools = _text(conversation.tools) if conversation.tools else ""
    return {"conversations": turns, "system": system, "tools": tools}


def _llama_factory_answer(message: Message) -> Row:
    text = message["content"]
    if "reasoning_content" in message:
        text = f"<think>\n{message['reasoning_content']}\n</think>\n\n{text}"
    if "tool_calls" not in message:
        return {"from": "gpt", "value": text}
    calls = [call["function"] for call in message["tool_calls"]]
    # Its words for thoughts and calls are looked for in the whole value; in JSON, < can be escaped.
    value = _text(calls if len(calls) > 1 else calls[0]).replace("<", "\\u003c")
    if text:
        value = f"{text}<tool_call>{value}</tool_call>"
    return {"from": "function_call", "value": value}


_VERL_CALL = pa.struct(
    {
        "id": pa.string(),
        "type": pa.string(),
        "function": pa.struct({"name": pa.string(), "arguments": pa.string()}),
    }
)
_VERL_TOOL = pa.struct(
    {
        "type": pa.string(),
        "function": pa.struct(
            {"name": pa.string(), "description": pa.string(), "parameters": pa.string()}
        ),
    }
)
_VERL_MESSAGE = pa.struct(
    {
        "role": pa.string(),
        "content": pa.string(),
        "reasoning_content": pa.string(),
        "tool_calls": pa.list_(pa.field("element", _VERL_CALL)),
        "tool_call_id": pa.string(),
        "name": pa.string(),
    }
)
_VERL_SCHEMA = pa.schema(
    {
        "messages": pa.list_(pa.field("element", _VERL_MESSAGE)),
        "tools": pa.list_(pa.field("element", _VERL_TOOL)),
    }
)


def _verl(conversation: Conversation) -> Row:
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool["function"]["name"],
                "description": tool["function"].get("description", ""),
                "parameters": _text(tool["function"].get("parameters", {})),
            },
        }
        for tool in conversation.tools
    ]
    messages = [_with_text_arguments(message) for message in conversation.messages]
    return {"messages": messages, "tools": tools}


SHAPES: Mapping[Profile, Shape] = MappingProxyType(
    {
        Profile.TRL: Shape(_trl, 'load_dataset("{folder}")', _TRL_SCHEMA),
        Profile.AXOLOTL: Shape(
            _axolotl,
            "datasets: [{{path: {folder}/train.jsonl, ds_type: json, type: chat_template}}]",
        ),
        Profile.LLAMA_FACTORY: Shape(_llama_factory, "dataset_dir: {folder}, dataset: gagar_train"),
        Profile.VERL: Shape(
            _verl,
            "data.train_files={folder}/train.parquet "
            "data.custom_cls.path={folder}/verl_dataset.py "
            "data.custom_cls.name=ToolCallDataset",
            _VERL_SCHEMA,
        ),
    }
)


def dataset_info(files: Sequence[str]) -> dict[str, Any]:
    """Return LLaMA-Factory's description of these files, each as the data set `gagar_<stem>`."""
    columns = {"messages": "conversations", "system": "system", "tools": "tools"}
    return {
        f"gagar_{name.partition('.')[0]}": {
            "file_name": name,
            "formatting": "sharegpt",
            "columns": columns,
        }
        for name in files
    }
