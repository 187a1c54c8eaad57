"""What engines are made of, without a cluster: parts of a data set, blocks, summaries, journals."""

import asyncio
import os
from collections import Counter

import cli
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import tables
from cli import SAMPLE
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.assembling import AssembleSummary
from gagar_cli.engines.blocks import DataSet, checked, gathered, read_piece, worked, written
from gagar_cli.engines.job import Found, Job
from gagar_cli.engines.merging import merged
from gagar_cli.engines.partitions import how_many, packed, partition_of, split_evenly, unpacked
from gagar_cli.engines.tally import Sofar, Tally
from gagar_cli.errors import DataError
from gagar_cli.grading.builtin import BuiltinGrader
from gagar_cli.grading.contract import Usage
from gagar_cli.grading.journal import Journal
from gagar_cli.grading.stage import GradeSummary
from gagar_cli.grading.worker_journal import WorkerJournal, take_in
from gagar_cli.options import (
    AssembleOptions,
    FilterOptions,
    GradeOptions,
    RedistributeOptions,
)
from gagar_cli.parquet_io import open_source, pieces_of
from gagar_cli.rollouts import Rollouts

# Parts of a data set


def test_a_group_is_in_one_partition_whatever_the_type_of_its_id():
    texts = partition_of(pa.chunked_array([["5", "7"], ["5", "a"]]), 1000)
    numbers = partition_of(pa.chunked_array([[7, 5]]), 1000)
    words = partition_of(pa.chunked_array([pa.array(["a", "5"]).dictionary_encode()]), 1000)
    assert texts[0] == texts[2] == numbers[1] == words[1]
    assert (texts[1], texts[3]) == (numbers[0], words[0])
    assert texts.tolist() == [267, 255, 267, 928]  # the same in every process and version


def test_a_null_id_is_in_the_first_partition():
    assert partition_of(pa.chunked_array([[None, "a"]]), 9)[0] == 0


def test_partitions_are_of_about_equal_size():
    ids = pa.chunked_array([[f"task-{n}" for n in range(10_000)]])
    sizes = np.bincount(partition_of(ids, 10))
    assert sizes.min() > 900
    assert sizes.max() < 1100


@given(st.integers(0, 5000), st.integers(1, 300))
def test_shares_add_up_and_differ_by_one_at_most(total, shares):
    split = split_evenly(total, shares)
    assert sum(split) == total
    assert len(split) == shares
    assert max(split) - min(split) <= 1


def test_every_type_travels_as_it_is():
    table = tables.wide()
    found = unpacked(pa.scalar(packed(table), pa.large_binary()))
    assert found.schema.equals(table.schema, check_metadata=True)
    assert repr(found.to_pylist()) == repr(table.to_pylist())


def test_partitions_grow_with_the_columns_that_stages_read(tmp_path):
    size = 50_000
    table = tables.rollouts({f"g{n}": [True, False] for n in range(size // 2)})
    blob = np.random.default_rng(1).bytes(64 * size)
    patches = pa.array([blob[64 * n : 64 * n + 64] * 40 for n in range(size)])
    tables.write(
        tmp_path / "a.parquet", table.append_column("patch", patches), use_dictionary=False
    )
    source = open_source(str(tmp_path / "a.parquet"))
    assert how_many(source, ["group_id"], 1) == 4
    assert how_many(source, ["group_id", "patch"], 1) >= 2
    assert how_many(source, ["group_id"], 100) == 400


def test_pieces_are_the_row_groups_of_all_files_in_order(tmp_path):
    for number, rows in enumerate((10, 0, 7)):
        table = tables.rollouts({"g": [True] * rows})
        tables.write(tmp_path / f"{number}.parquet", table, row_group_size=4)
    pieces = pieces_of(open_source(str(tmp_path)), most=1)
    found = [(p.number, p.path[-9:], p.row_groups, p.first, p.rows) for p in pieces]
    assert found == [
        (0, "0.parquet", (0,), 0, 4),
        (1, "0.parquet", (1,), 4, 4),
        (2, "0.parquet", (2,), 8, 2),
        (3, "1.parquet", (0,), 10, 0),
        (4, "2.parquet", (0,), 10, 4),
        (5, "2.parquet", (1,), 14, 3),
    ]
    assert [p.row_groups for p in pieces_of(open_source(str(tmp_path)))] == [
        (0, 1, 2),
        (0,),
        (0, 1),
    ]


# Blocks


def dealt(source, job, partitions, most=2_000):
    """Return the data set of a source and its blocks, as the cluster would make them."""
    rollouts = Rollouts.of(source)
    pieces = pieces_of(source, most)
    columns = job.columns(rollouts)
    data = DataSet(source.name, source.folder, source.schema, rollouts.provenance, columns, pieces)
    rows = pa.concat_tables([read_piece(data, piece, partitions) for piece in pieces])
    numbers = sorted(set(rows["partition"].to_pylist()))
    return data, [gathered(data, rows.filter(pc.equal(rows["partition"], n))) for n in numbers]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The sample and what one process makes of it."""
    folder = tmp_path_factory.mktemp("engines")
    options = ["--no-repo", "--rejected", "no.parquet", "-q"]
    cli.ok("run", SAMPLE, "-o", "local.parquet", *options, cwd=folder)
    return folder


@pytest.mark.parametrize("partitions", [1, 2, 7, 100])
def test_any_partitioning_gives_the_rows_of_one_process(folder, partitions, monkeypatch):
    monkeypatch.chdir(folder)
    grader = BuiltinGrader()
    job = Job(
        filtering=FilterOptions(),
        assembling=AssembleOptions(use_repo=False),
        grading=GradeOptions(),
        redistribution=RedistributeOptions(),
    )
    data, blocks = dealt(open_source(str(SAMPLE)), job, partitions)
    assert len(blocks) > 1 or partitions == 1
    assert all(checked(block, job).error is None for block in blocks)
    done = [worked(block, job, grader) for block in blocks]
    for piece in data.pieces:
        parts = [d.columns[piece.number] for d in done if piece.number in d.columns]
        how = (done[0].provenance, done[0].dropped)
        written(data, piece.number, parts, f"{partitions}-{piece.number:03}.parquet", how)
    files = sorted(folder.glob(f"{partitions}-*.parquet"))
    local = pq.read_table(folder / "local.parquet")
    assert pa.concat_tables(map(pq.read_table, files)).equals(local)
    assert pq.read_schema(files[0]).equals(local.schema, check_metadata=True)
    found = merged([d.found for d in done])
    assert found.filtered.groups_kept == found.assembled.groups == found.graded.graded == 7
    assert found.redistributed.groups == 7


@pytest.mark.parametrize("partitions", [1, 3, 20])
def test_the_row_of_an_error_is_that_of_the_data_set(tmp_path, partitions):
    groups = {f"g{n}": [True, False] for n in range(10)}
    table = tables.rollouts(groups).set_column(2, "passed", [[0, 1] * 6 + [0, 7] + [0, 1] * 3])
    tables.write(tmp_path / "in.parquet", table, row_group_size=3)
    job = Job(filtering=FilterOptions())
    _, blocks = dealt(open_source(str(tmp_path / "in.parquet")), job, partitions, most=1)
    errors = [found for block in blocks if (found := checked(block, job)).error]
    assert [(str(e.error).split(": ")[1], e.row) for e in errors] == [("row 13", 13)]


def test_a_block_holds_only_what_its_stages_read():
    rollouts = Rollouts.of(open_source(str(SAMPLE)))
    names = Job(filtering=FilterOptions()).columns(rollouts)
    assert names == ["group_id", "rollout_id", "passed", "reward"]
    assert "patch" in Job(assembling=AssembleOptions()).columns(rollouts)


def test_columns_that_are_missing_are_refused_without_a_row():
    source = open_source(str(SAMPLE))
    job = Job(redistribution=RedistributeOptions())
    data, _ = dealt(source, job, 1)
    with pytest.raises(DataError, match="got no column 'rank'"):
        worked(data.empty(), job)


# Summaries


def test_summaries_of_partitions_add_up():
    parts = [
        GradeSummary("agent model=unknown", usage=Usage(notes=["n"])),
        GradeSummary("agent model=m", graded=3, ungraded=Counter(a=1), mean_confidence=0.5),
        GradeSummary("agent model=m", graded=1, ungraded=Counter(a=2, b=1), mean_confidence=0.9),
    ]
    parts[1].usage = Usage(requests=4, prompt_tokens=10, votes_failed=Counter(x=1), notes=["n"])
    parts[2].usage = Usage(requests=2, prompt_tokens=5, votes_failed=Counter(x=1))
    found = merged([Found(graded=part, model="m" * n) for n, part in enumerate(parts)])
    assert found.model == "mm"
    graded = found.graded
    assert (graded.grader, graded.graded) == ("agent model=m", 4)
    assert graded.ungraded == Counter(a=3, b=1)
    assert graded.mean_confidence == pytest.approx((3 * 0.5 + 0.9) / 4)
    usage = graded.usage
    assert (usage.requests, usage.prompt_tokens, usage.votes_failed["x"]) == (6, 15, 2)
    assert usage.notes == ["n"]


def test_reasons_of_partitions_are_told_once_with_their_sum():
    one = AssembleSummary(problems=Counter({"no such repo": 2}), absent={"b"})
    two = AssembleSummary(problems=Counter({"no such repo": 1, "other": 1}), absent={"a", "b"})
    found = merged([Found(assembled=one), Found(assembled=two)]).assembled
    assert found.notes[:2] == ["no such repo (3 groups)", "other (1 groups)"]
    assert found.notes[2].startswith("2 files of base trees")
    assert found.notes[2].endswith(": a")


def test_what_a_lost_worker_has_spent_stays_spent():
    tally = Tally()
    assert tally.report("a", 0, Sofar(3, 10, 1.0)) == 0
    assert tally.report("b", 1, Sofar(1, 10, 0.5)) == 1.0
    assert tally.report("b", 0, Sofar(2, 20, 2.0)) == 1.5
    assert tally.report("b", 0, Sofar(4, 30, 3.0)) == 1.5
    assert tally.total() == Sofar(5, 50, 4.5)


# Journals of workers


def keep(journal, *keys):
    async def keep():
        for key in keys:
            await journal.keep(key, "m", {"key": key, "text": "ä"})

    asyncio.run(keep())


def find(journal, *keys):
    return sorted(asyncio.run(journal.find(keys)))


@pytest.fixture
def votes(tmp_path):
    """Return the path of a journal that holds one vote."""
    journal = Journal(tmp_path / "votes.sqlite")
    keep(journal, "old")
    journal.take_in([])
    journal.close()
    return tmp_path / "votes.sqlite"


def test_a_worker_finds_earlier_votes_its_own_and_those_of_others(votes):
    one, two = WorkerJournal(votes, "run", "1"), WorkerJournal(votes, "run", "2")
    keep(one, "a")
    keep(two, "b")
    assert find(one, "old", "a", "b", "c") == find(two, "old", "a", "b") == ["a", "b", "old"]
    keep(two, "c")
    assert find(one, "c") == ["c"]
    assert asyncio.run(one.find(["a"]))["a"] == {"key": "a", "text": "ä"}
    one.close()
    two.close()


def test_a_line_that_was_torn_by_a_kill_is_no_vote_and_hides_none(votes):
    first = WorkerJournal(votes, "run", "1")
    keep(first, "a")
    first.close()
    [file] = votes.parent.glob("*.worker-*")
    with file.open("ab") as torn:
        torn.write(b'{"key": "b", "mod')
    again = WorkerJournal(votes, "run", "1")
    keep(again, "c")
    assert find(again, "a", "b", "c") == ["a", "c"]
    again.close()


def test_what_workers_leave_is_taken_in_and_their_files_go(votes):
    live, dead = WorkerJournal(votes, "live", "1"), WorkerJournal(votes, "dead", "1")
    keep(live, "a")
    keep(dead, "b")
    dead.close()
    journal = Journal(votes)
    take_in(votes, journal)
    assert find(journal, "old", "a", "b") == ["a", "b", "old"]
    # Another run is still writing to its file.
    assert [p.name for p in votes.parent.glob("*.worker-*")] == ["votes.sqlite.worker-live-1"]
    keep(live, "c")
    take_in(votes, journal, "live")
    assert find(journal, "c") == ["c"]
    assert list(votes.parent.glob("*.worker-*")) == []
    live.close()
    journal.close()


# Refused on the command line


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", SAMPLE, "--canaries", 1, "-o", "o"], 2, "--canaries: cannot be planted"),
        (["filter", SAMPLE], 1, "standard output: cannot take a folder"),
        (["filter", "-", "-o", "o"], 1, "standard input: cannot be read by --engine ray"),
        (["filter", SAMPLE, "-o", "full"], 1, "full: is a folder that is not empty"),
        (["filter", SAMPLE, "-o", "full/x"], 1, "full/x: is a file, expected a folder"),
        (["redistribute", SAMPLE, "-o", "o"], 1, "got no column 'rank'"),
    ],
)
def test_what_cannot_be_is_refused_before_a_cluster_is_looked_for(tmp_path, arguments, code, words):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    options = ["--engine", "ray", "--ray-address", "127.0.0.1:1"]
    with SAMPLE.open("rb") as stdin:
        done = cli.subprocess.run(
            [*cli.GAGAR, *map(str, [*arguments, *options])],
            stdin=stdin,
            capture_output=True,
            cwd=tmp_path,
            check=False,
        )
    [line] = done.stderr.decode().splitlines()
    assert done.returncode == code, line
    assert words in line


def test_without_ray_one_line_says_how_to_install_it(tmp_path):
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text("raise ImportError")
    options = ["filter", SAMPLE, "-o", "o", "--engine", "ray"]
    line = cli.error_of(*options, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert "needs Ray, which is not installed. Next: pip install 'gagar[ray]'" in line


def test_partitions_are_for_ray(tmp_path):
    options = ["filter", SAMPLE, "-o", "o", "--partitions", 3]
    assert "--partitions: is for --engine ray" in cli.error_of(*options, cwd=tmp_path, code=2)


def test_a_workspace_that_is_not_on_the_node_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cli.ok("filter", SAMPLE, "-o", "f.parquet", "-q", cwd=tmp_path)
    cli.ok("assemble", "f.parquet", "-o", "a.parquet", "--no-repo", "-q", cwd=tmp_path)
    (tmp_path / "gagar_workspaces").rename(tmp_path / "away")
    job = Job(grading=GradeOptions())
    _, [block] = dealt(open_source("a.parquet"), job, 1)
    found = str(checked(block, job).error)
    assert f"is not there, on node {os.uname().nodename}. Next: gagar run --engine ray" in found
