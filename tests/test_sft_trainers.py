"""What an export is like for the packages that trainers read data with."""

import json

import pyarrow.parquet as pq
import pytest
from test_sft_votes import talk, vote, write

from gagar_cli.parquet_io import open_source
from gagar_cli.sft.export import export_sft
from gagar_cli.sft.options import Profile, SftOptions

pytestmark = [
    pytest.mark.trainers,
    pytest.mark.filterwarnings("ignore"),  # other packages' own
]

datasets = pytest.importorskip("datasets")
jinja2 = pytest.importorskip("jinja2")

# Of the Hermes kind, as most chat templates with tools are. It fails where a key is null that
# should be absent, and where arguments are text.
TEMPLATE = """\
{%- for tool in tools or [] %}<tool>{{ tool | tojson }}</tool>
{% endfor %}
{%- for message in messages %}<|{{ message.role }}|>
{{- message.content }}
{%- if 'tool_calls' in message %}
{%- for call in message.tool_calls %}<call>{{ call.function.name }}
{%- for name, value in call.function.arguments.items() %} {{ name }}={{ value | tojson }}
{%- endfor %}</call>{% endfor %}
{%- endif %}<|end|>
{% endfor %}"""


needs_json = pytest.mark.skipif(
    not hasattr(datasets, "Json"), reason="TRL and axolotl ask for datasets from 4.7 on"
)


def exported(folder, profile, first="agent", **options):
    """Export votes of both modes, whose calls have different arguments; return the folder."""
    rows = [vote(f"g{n}", shown="AB" if n % 2 else "BA", tiers="A B") for n in range(40)]
    for n, row in enumerate(rows[20:]):
        row |= {"mode": "single", "tools": "[]"}
        row["messages"] = json.dumps(
            [*talk()[:2], {"role": "assistant", "content": f'{{"ranking": "A > B", "n": {n}}}'}]
        )
    rows.sort(key=lambda row: row["mode"] != first)
    votes = write(folder / "votes.parquet", rows)
    export_sft(
        [open_source(str(votes))],
        str(folder / "sft"),
        profile,
        SftOptions(**{"validation": 0.3, "balance": False, **options}),
    )
    return folder / "sft"


def rendered(messages, tools):
    # As `transformers` sets up Jinja for chat templates, its `tojson` writes no HTML escapes.
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(TEMPLATE).render(messages=messages, tools=tools)


def assert_complete(text, messages, tools):
    """Check that each message, call and tool of a conversation stands in a rendering, in order."""
    at = 0
    for tool in tools:
        at = text.index(json.dumps(tool, ensure_ascii=False), at)
    for message in messages:
        at = text.index(f"<|{message['role']}|>{message['content'] or ''}", at)
        for call in message.get("tool_calls") or ():
            at = text.index(f"<call>{call['function']['name']}", at)
            for name, value in json.loads(call["function"]["arguments"]).items():
                at = text.index(f" {name}={json.dumps(value, ensure_ascii=False)}", at)
    assert text.count("<call>") == sum(len(m.get("tool_calls") or ()) for m in messages)


def originals(folder):
    """Return the transcripts' conversations and tools by their first question."""
    rows = pq.read_table(folder / "votes.parquet").to_pylist()
    read = [(json.loads(row["messages"]), json.loads(row["tools"])) for row in rows]
    return {(m[1]["content"], m[-1]["content"]): (m, tools) for m, tools in read}


@needs_json
def test_every_message_and_argument_survives_datasets_and_a_chat_template(tmp_path):
    folder = exported(tmp_path, Profile.TRL)
    splits = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    assert set(splits) == {"train", "validation"}
    known = originals(tmp_path)
    seen = 0
    for row in [row for split in splits.values() for row in split]:
        messages, tools = row["messages"], row["tools"]
        key = messages[1]["content"], messages[-1]["content"] or None
        transcript, offered = known[key]
        assert_complete(rendered(messages, tools), transcript, offered)
        assert (tools or []) == offered
        seen += 1
    manifest = json.loads((folder / "export.json").read_text())
    assert seen == sum(split["conversations"] for split in manifest["splits"].values())
    assert any(row["tools"] is None for row in splits["train"])
    assert any(row["tools"] for row in splits["train"])


@needs_json
def test_mapping_keeps_arguments_apart(tmp_path):
    """A trainer maps over the data; struct columns would give every call the keys of all."""
    folder = exported(tmp_path, Profile.TRL, validation=0.0)
    split = datasets.load_dataset(
        "parquet", data_files=str(folder / "train.parquet"), cache_dir=str(tmp_path / "cache")
    )["train"]
    mapped = split.map(lambda row: {"turns": len(row["messages"])})
    calls = [c for row in mapped for m in row["messages"] for c in m.get("tool_calls", ())]
    assert {tuple(c["function"]["arguments"]) for c in calls} == {
        ("candidate",),
        ("notes", "tiers"),
    }


@needs_json
@pytest.mark.parametrize("first", ["agent", "single"])
def test_axolotl_lines_hold_all_after_datasets(tmp_path, first):
    folder = exported(tmp_path, Profile.AXOLOTL, first)
    splits = datasets.load_dataset(
        "json",
        data_files={name: str(folder / f"{name}.jsonl") for name in ("train", "validation")},
        chunksize=1000,  # bytes at a time: what comes later need not be like what came first
        cache_dir=str(tmp_path / "cache"),
    )
    known = originals(tmp_path)
    for row in [row for split in splits.values() for row in split]:
        # As axolotl does: nulls go, then arguments and tools are parsed.
        messages = [{k: v for k, v in m.items() if v is not None} for m in row["messages"]]
        for message in messages:
            for call in message.get("tool_calls", ()):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        tools = json.loads(row["tools"])
        transcript, offered = known[messages[1]["content"], messages[-1]["content"] or None]
        assert_complete(rendered(messages, tools), transcript, offered)


def test_llama_factory_lines_load_as_plain_text(tmp_path):
    folder = exported(tmp_path, Profile.LLAMA_FACTORY)
    info = json.loads((folder / "dataset_info.json").read_text())
    for entry in info.values():
        split = datasets.load_dataset(
            "json", data_files=str(folder / entry["file_name"]), cache_dir=str(tmp_path / "cache")
        )["train"]
        for row in split:
            assert set(row) == set(entry["columns"].values())
            for turn in row["conversations"]:
                assert isinstance(turn["value"], str)
