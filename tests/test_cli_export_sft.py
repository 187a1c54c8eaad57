import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from agents import graded
from cli import error_of, gagar, ok
from scripted_server import prefers_the_smallest
from small_groups import LARGE, MIDDLE, SMALL, WRONG, SmallGroup
from test_sft_votes import vote, write

from gagar_cli.grading.votelog import open_votelog
from gagar_cli.transcripts import TRANSCRIPT_SCHEMA

PROFILES = ["trl", "axolotl", "llama-factory", "verl"]


@pytest.fixture(scope="module")
def votes(tmp_path_factory):
    """Write 40 good votes on 40 tasks, and two that went wrong."""
    rows = [vote(f"g{n}", shown="AB" if n % 2 else "BA", tiers="A B") for n in range(40)]
    rows += [vote("x", tiers=None, truncated=True), {**vote("y"), "tiers": None}]
    return write(tmp_path_factory.mktemp("sft") / "votes.parquet", rows)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("profile", PROFILES)
def test_each_profile_writes_both_splits_and_a_manifest(votes, tmp_path, profile):
    out = tmp_path / "sft"
    done = ok("export-sft", votes, "-o", out, "--profile", profile, "--validation", 0.3, "--json")
    assert done.stdout == b""
    [told] = [json.loads(line) for line in done.stderr.splitlines()]
    manifest = json.loads((out / "export.json").read_text())
    assert manifest["profile"] == told["profile"] == profile
    assert manifest["votes"] == told["votes"] == 42
    assert manifest["dropped"] == told["dropped"]
    assert manifest["load"] == told["load"]
    assert str(out) in told["load"]
    assert told["dropped"]["truncated"] == told["dropped"]["no valid ranking"] == 1
    for side in ("train", "validation"):
        split = manifest["splits"][side]
        path = out / split["file"]
        rows = lines(path) if path.suffix == ".jsonl" else pq.read_table(path).to_pylist()
        assert len(rows) == split["conversations"] == told[side] > 0
    assert told["train"] + told["validation"] + sum(told["dropped"].values()) == 42
    more = {"llama-factory": {"dataset_info.json"}, "verl": {"verl_dataset.py"}}.get(profile, set())
    named = {split["file"] for split in manifest["splits"].values()}
    assert {path.name for path in out.iterdir()} == {"export.json"} | named | more


def test_the_same_input_gives_the_same_bytes(votes, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        ok("export-sft", votes, "-o", "sft", "--seed", 3, cwd=tmp_path / name)
    for path in (tmp_path / "one" / "sft").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / "sft" / path.name).read_bytes()


def test_winners_are_shown_first_as_often_as_by_chance(tmp_path):
    skewed = pa.Table.from_pylist(
        [vote(f"s{n}", shown="AB" if n % 4 else "BA", tiers="A B") for n in range(40)],
        TRANSCRIPT_SCHEMA,
    )
    path = tables.write(tmp_path / "skewed.parquet", skewed)
    done = ok("export-sft", path, "-o", tmp_path / "sft", "--validation", 0, "--json")
    told = json.loads(done.stderr)
    assert told["winners_shown_first"] == {"before": 0.75, "after": 0.5, "by chance": 0.5}
    assert told["train"] == 20
    done = ok("export-sft", path, "-o", tmp_path / "all", "--no-balance", "--json")
    assert json.loads(done.stderr)["winners_shown_first"]["after"] == 0.75


def test_several_files_and_globs_are_read_as_one(votes, tmp_path):
    for name in "ab":
        write(tmp_path / f"{name}.parquet", [vote(name)])
    out = tmp_path / "sft"
    ok("export-sft", votes, tmp_path / "?.parquet", "-o", out, "--no-balance")
    assert json.loads((out / "export.json").read_text())["votes"] == 44
    ok("export-sft", "-", "-o", tmp_path / "piped", stdin=votes.read_bytes())


def test_a_reference_is_named_with_its_column(tmp_path):
    path = write(tmp_path / "votes.parquet", [vote("g", tiers="B A"), vote("h", tiers="A B")])
    truth = pa.table(
        {"group_id": ["g", "g", "h", "h"], "candidate": ["A", "B"] * 2, "human": [1, 2] * 2}
    )
    truth = tables.write(tmp_path / "truth.parquet", truth)
    named = ["--reference", truth, "--reference-column", "human"]
    done = ok("export-sft", path, "-o", tmp_path / "a", *named, "--json")
    assert json.loads(done.stderr)["dropped"] == {"tau below --min-tau": 1}
    ok("export-sft", path, "-o", tmp_path / "b", *named, "--higher-is-better")
    first, second = (
        json.loads(pq.read_table(tmp_path / name / "train.parquet")["messages"][0][1].as_py())
        for name in "ab"
    )
    assert (first["content"], second["content"]) == ("h 0 AB", "g 0 AB")
    line = error_of("export-sft", path, "-o", tmp_path / "c", "--reference", truth, code=2)
    assert line.startswith("error: --reference-column: got nothing")


def test_nothing_to_train_on_is_an_error_that_counts_the_reasons(tmp_path):
    rows = [vote("a", truncated=True), vote("b", trust=0.5)]
    path = write(tmp_path / "votes.parquet", rows)
    line = error_of("export-sft", path, "-o", tmp_path / "sft")
    assert "none of 2 votes can be trained on" in line
    assert "1 truncated, 1 trust below --min-trust" in line
    assert not (tmp_path / "sft").exists()


def test_a_folder_appears_whole_or_not_at_all(votes, tmp_path):
    rows = [vote(f"g{n}") for n in range(3)]
    rows[2]["messages"] = "[{]"
    broken = write(tmp_path / "broken.parquet", rows)
    assert "group 'g2' vote 0: messages is not JSON" in error_of(
        "export-sft", broken, "-o", tmp_path / "sft"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["broken.parquet"]
    line = error_of("export-sft", votes, "-o", tmp_path / "no" / "sft")
    assert "its folder is not there" in line


def test_an_export_is_replaced_only_when_asked(votes, tmp_path):
    out = tmp_path / "sft"
    out.mkdir()
    ok("export-sft", votes, "-o", out, "--profile", "verl")
    line = error_of("export-sft", votes, "-o", out)
    assert line.endswith("holds an export. Next: --overwrite, or name another -o")
    ok("export-sft", votes, "-o", out, "--overwrite")
    assert not (out / "verl_dataset.py").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["sft"]


def test_what_is_no_export_is_never_replaced(votes, tmp_path):
    (tmp_path / "mine").mkdir()
    note = tmp_path / "mine" / "note.txt"
    note.write_text("keep")
    line = error_of("export-sft", votes, "-o", tmp_path / "mine", "--overwrite")
    assert "is not empty, and no export" in line
    assert note.read_text() == "keep"
    assert "is a file, expected a folder" in error_of("export-sft", votes, "-o", note)


def test_a_failed_replacement_leaves_the_old_export(votes, tmp_path):
    out = tmp_path / "sft"
    ok("export-sft", votes, "-o", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    empty = write(tmp_path / "empty.parquet", [])
    assert "none of 0 votes" in error_of("export-sft", empty, "-o", out, "--overwrite")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_usage_errors(votes, tmp_path):
    assert gagar("export-sft", votes).returncode == 2
    assert gagar("export-sft", "-o", tmp_path / "a").returncode == 2
    out = ["-o", tmp_path / "a"]
    assert gagar("export-sft", votes, *out, "--profile", "x").returncode == 2
    line = error_of("export-sft", votes, *out, "--validation", 1, code=2)
    assert line.startswith("error: --validation: got 1")
    line = error_of("export-sft", "-", "-", *out, code=2)
    assert "standard input for two files" in line
    rollouts = tables.write(tmp_path / "r.parquet", tables.rollouts({"a": [True]}))
    assert "expected transcripts" in error_of("export-sft", rollouts, *out)


def test_the_agents_own_transcripts_are_exported(tmp_path):
    group = SmallGroup(tmp_path, {"s": SMALL, "m": MIDDLE, "l": LARGE}, {"w": WRONG})
    path = tmp_path / "votes.parquet"
    with open_votelog(str(path)) as log:
        graded(prefers_the_smallest, group, votes=4, record=log.record)
        log.write(group.view().group_id, "agent", "model")
    [sent, *_] = [json.loads(text) for text in pq.read_table(path)["messages"].to_pylist()]
    for profile in PROFILES:
        out = tmp_path / profile
        done = ok("export-sft", path, "-o", out, "--profile", profile, "--per-group", 4)
        assert b"one task only" in done.stderr
    rows = lines(tmp_path / "axolotl" / "train.jsonl")
    assert [len(row["messages"]) for row in rows] == [len(sent)] * len(rows)
    submitted = rows[0]["messages"][-1]["tool_calls"][-1]["function"]
    assert submitted["name"] == "submit_ranking"
    assert len(json.loads(submitted["arguments"])["tiers"]) == 3
