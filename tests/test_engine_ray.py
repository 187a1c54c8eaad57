"""Ray gives what one process gives: the same rows, errors and exit codes, also when workers die."""

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import cli
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import quality_groups
import tables
from cli import SAMPLE
from quality_groups import knows
from ray_cluster import OWN, cluster
from scripted_server import ScriptedServer

pytestmark = pytest.mark.ray

SAMPLES = SAMPLE.parent
KEY = [("group_id", "ascending"), ("rollout_id", "ascending")]
VOTES = 4


@pytest.fixture(scope="module")
def address():
    # Its sockets need a short path.
    folder = Path("/tmp") / f"gagar-ray-{os.getpid()}"  # noqa: S108
    with cluster(folder) as found:
        yield found
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def gagar(address):
    """Return what runs gagar on the cluster."""

    def run(*arguments, cwd, code=0):
        options = ["--engine", "ray", "--ray-address", address]
        done = cli.gagar(*arguments, *options, cwd=cwd, env={**os.environ, **OWN})
        assert done.returncode == code, done.stderr.decode()
        assert "Traceback" not in done.stderr.decode()
        return done

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Hold the sample with heavy columns in files over which groups are scattered; one is empty."""
    folder = tmp_path_factory.mktemp("ray")
    whole = pq.read_table(SAMPLE)
    count = len(whole)
    order = pa.array(sorted(range(count), key=lambda n: (n * 37) % count))
    whole = whole.take(order)
    for field, column in zip(tables.wide(count).schema, tables.wide(count).columns, strict=True):
        if field.name not in whole.column_names:
            whole = whole.append_column(field, column)
    whole = whole.replace_schema_metadata({"trainer": "verl 1.2"})
    (folder / "in").mkdir()
    for number, (start, end) in enumerate(pairwise([0, 11, 11, 40, count])):
        part = whole.slice(start, end - start)
        pq.write_table(part, folder / "in" / f"{number}.parquet", row_group_size=7)
    options = ["--repos", SAMPLES, "--rejected", "no.parquet", "--json"]
    done = cli.ok("run", "in", "-o", "local.parquet", *options, cwd=folder)
    (folder / "said.json").write_bytes(done.stderr)
    return folder


def same(ours, theirs):
    """Assert that a folder has the rows of a file, in order, with its columns and metadata."""
    files = [pq.read_table(path) for path in sorted(Path(ours).iterdir())]
    for file in files:
        assert file.schema.equals(pq.read_schema(theirs), check_metadata=True)
    # As text, in which one NaN is like another.
    rows = pa.concat_tables(files).to_pylist()
    assert repr(rows) == repr(pq.read_table(theirs).to_pylist())


def said(words):
    """Return what was said as JSON, by stage; paths are left out."""
    found = {s.pop("stage"): s for s in map(json.loads, words.decode().splitlines())}
    found.pop("write")
    found.get("assemble", {}).pop("kept_as_they_were", None)  # whoever is second keeps them
    return found


# The same rows


def test_run_gives_what_one_process_gives(gagar, folder):
    out, rejected = folder / "out", folder / "no"
    options = ["--partitions", 5, "--repos", SAMPLES, "--rejected", rejected, "--json"]
    done = gagar("run", "in", "-o", out, *options, cwd=folder)
    same(out, folder / "local.parquet")
    same(rejected, folder / "no.parquet")
    ours, theirs = said(done.stderr), said((folder / "said.json").read_bytes())
    mean, other = (s["grade"].pop("mean_confidence") for s in (ours, theirs))
    assert mean == pytest.approx(other, rel=1e-12)
    assert ours == theirs


def test_each_stage_gives_what_it_gives_in_one_process(gagar, folder):
    before = "in"
    for stage, options in (
        ("filter", []),
        ("assemble", ["--repos", SAMPLES]),
        ("grade", []),
        ("redistribute", ["--weights", "geometric"]),
    ):
        # Each stage reads what Ray wrote before, so both see the files in one order.
        cli.ok(stage, before, "-o", f"{stage}.parquet", *options, "-q", cwd=folder)
        gagar(stage, before, "-o", f"ray-{stage}", *options, "-q", "--partitions", 3, cwd=folder)
        same(folder / f"ray-{stage}", folder / f"{stage}.parquet")
        before = f"ray-{stage}"


# Errors


def test_errors_in_the_data_are_those_of_one_process(gagar, tmp_path):
    source = pq.read_table(SAMPLE)
    place = source.column_names.index("group_id")
    ids = source["group_id"].to_pylist()
    for name, wrong in (
        ("null", source.set_column(place, "group_id", [[*ids[:20], None, *ids[21:]]])),
        ("repo", source.set_column(source.column_names.index("repo"), "repo", [["x/y"] * 68])),
    ):
        pq.write_table(wrong, tmp_path / f"{name}.parquet", row_group_size=9)
        line = cli.error_of("run", f"{name}.parquet", "-o", "no.parquet", cwd=tmp_path)
        done = gagar("run", f"{name}.parquet", "-o", "no", cwd=tmp_path, code=1)
        assert done.stderr.decode().splitlines() == [line]
        assert [p.name for p in tmp_path.iterdir() if p.name.startswith((".no", "no"))] == []


# Grading by a server


@pytest.fixture(scope="module")
def quality(tmp_path_factory):
    """Hold twelve groups, and what one process makes of them with a server that knows."""
    folder = tmp_path_factory.mktemp("quality")
    quality_groups.write(folder / "in.parquet", [3] * 12)
    with ScriptedServer(knows) as server:
        options = ["--no-repo", "--grader-url", server.url, "--no-journal", "-q"]
        cli.ok("run", "in.parquet", "-o", "local.parquet", *options, cwd=folder)
    return folder


def slowly(body):
    time.sleep(0.15)
    return knows(body)


def test_the_server_sees_the_concurrency_and_no_more(gagar, quality):
    with ScriptedServer(slowly) as server:
        options = ["--no-repo", "--grader-url", server.url, "--no-journal", "--concurrency", 5]
        options += ["--partitions", 4, "--transcripts", "votes.parquet", "-q"]
        gagar("run", "in.parquet", "-o", "first", *options, cwd=quality)
        assert 3 <= server.most_in_flight <= 5
        assert len(server.bodies) == 12 * VOTES
    same(quality / "first", quality / "local.parquet")
    votes = pq.read_table(quality / "votes.parquet")
    assert sorted(set(votes["group_id"].to_pylist())) == [f"g{n:02}" for n in range(12)]
    assert len(votes) == 12 * VOTES


def actors():
    """Return the processes that run the stages."""
    found = []
    for words in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if b"ray::Worker" in words.read_bytes():
                found.append(int(words.parent.name))
    return found


def test_a_worker_that_is_killed_is_replaced_and_no_vote_is_paid_for_twice(gagar, quality):
    killed = []

    def script(body):
        time.sleep(0.1)
        if len(server.bodies) >= 12 and not killed:
            killed.append(min(actors()))
            os.kill(killed[0], signal.SIGKILL)
        return knows(body)

    options = ["--no-repo", "--journal", "killed.sqlite", "--partitions", 4, "-q"]
    with ScriptedServer(script) as server:
        options += ["--concurrency", 4, "--grader-url", server.url]
        gagar("run", "in.parquet", "-o", "killed", *options, cwd=quality)
        assert killed
        # What was under way at the worker that died is asked for again, and nothing else.
        assert 12 * VOTES <= len(server.bodies) <= 12 * VOTES + 4
        server.bodies.clear()
        gagar("run", "in.parquet", "-o", "again", *options, cwd=quality)
        assert server.bodies == []
    same(quality / "killed", quality / "local.parquet")
    same(quality / "again", quality / "local.parquet")
    assert [p.name for p in quality.iterdir() if ".worker-" in p.name] == []


def test_a_budget_is_one_for_all_workers(gagar, quality):
    with ScriptedServer(slowly) as server:
        options = ["--no-repo", "--grader-url", server.url, "--no-journal", "--partitions", 6]
        options += ["--concurrency", 2, "--price-in", 100, "--budget", 8, "--json"]
        done = gagar("run", "in.parquet", "-o", "budget", *options, cwd=quality, code=3)
    # A prompt costs 1, so that the eighth spends the budget; those under way are still paid for.
    assert 8 <= len(server.bodies) < 30
    assert said(done.stderr)["grade"]["ungraded"] > 0


def test_a_server_that_refuses_stops_the_run_with_its_error(gagar, quality):
    with ScriptedServer(lambda _: 401) as server:
        options = ["--no-repo", "--grader-url", server.url, "--no-journal", "-q"]
        done = gagar("run", "in.parquet", "-o", "refused", *options, cwd=quality, code=1)
    [line] = done.stderr.decode().splitlines()
    assert "scripted 401" in line
    assert not (quality / "refused").exists()


def test_an_interrupted_run_ends_with_130_and_keeps_its_votes(address, quality):
    with ScriptedServer(slowly) as server:
        options = ["--no-repo", "--grader-url", server.url, "--journal", "stopped.sqlite"]
        options += ["--engine", "ray", "--ray-address", address, "--concurrency", "2", "-q"]
        command = [*cli.GAGAR, "run", "in.parquet", "-o", "stopped", *options]
        run = subprocess.Popen(
            command, cwd=quality, env={**os.environ, **OWN}, stderr=subprocess.PIPE
        )
        while len(server.bodies) < 10 and run.poll() is None:
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        _, words = run.communicate()
        assert (run.returncode, words) == (130, b"interrupted\n")
        assert not (quality / "stopped").exists()
        asked = len(server.bodies)
        options[options.index("--engine") + 1] = "local"
        cli.ok("run", "in.parquet", "-o", "went-on.parquet", *options, cwd=quality)
        assert len(server.bodies) <= 12 * VOTES + 2
        assert asked >= 10
    theirs = pq.read_table(quality / "local.parquet")
    assert pq.read_table(quality / "went-on.parquet").equals(theirs)
