"""What the stages cost per group, here and on a Ray cluster, and what a million rollouts would.

    python benchmarks/scaling.py [--groups 900] [--rounds 3] [--no-ray] [--json]

The groups of `sample_groups`, many times over under other ids, with token ids and messages as heavy
as those of real rollouts, in eight files over which groups are scattered. Each stage runs by itself
on the output of the one before, with the grader that is built in. Then the whole pipeline: on one
core, on two, and on Ray clusters of one and of two nodes of one core each, which stand already; a
quarter of the groups runs there too, so that what begins a run can be told from what a group costs.
The rows that come out must be the same. What a million rollouts would take is worked out from these
numbers, each in a line that shows how.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from prompt_size import CHARACTERS, first_prompts
from side_by_side import Cost, run_once

SAMPLE = Path(__file__).parent.parent / "sample_groups"
FILES = 8
TOKENS, TURNS, TURN = 5_000, 25, 2_000  # of a rollout: ids, messages, characters of a message
MILLION = 1_000_000
VOTES = 4
NODE = 16  # cores of a node of the cluster that is worked out

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
nodes = Cluster(initialize_head=True, head_node_args={
    "num_cpus": 1, "include_dashboard": False, "object_store_memory": 300_000_000})
for _ in range(int(sys.argv[1]) - 1):
    nodes.add_node(num_cpus=1, object_store_memory=300_000_000)
nodes.wait_for_nodes()
print(nodes.address, flush=True)
sys.stdin.read()
nodes.shutdown()
"""


@dataclass
class Data:
    """Rollouts, the bytes of one in Parquet, groups, and how many of these are kept."""

    rollouts: int
    size: float
    groups: int
    kept: int
    quarter: int  # groups of the smaller data set


def make(folder, groups):
    """Write the files; return rollouts, bytes of one, groups."""
    rng = np.random.default_rng(3)
    sample = pq.read_table(SAMPLE / "rollouts.parquet").replace_schema_metadata(None)
    times = -(-groups // len(sample["group_id"].unique()))
    words = np.array(["".join(rng.choice(list("etaoinsr(). _"), 7)) for _ in range(3000)])
    text = " ".join(rng.choice(words, 400_000))
    tables = []
    for copy in range(times):
        rows = len(sample)
        group_id = pc.binary_join_element_wise(sample["group_id"], f"{copy:05d}", "-")
        ids = np.minimum(rng.zipf(1.25, rows * TOKENS), 150_000).astype(np.int32)
        starts = rng.integers(0, len(text) - TURN, (rows, TURNS))
        messages = [
            [{"role": "tool", "content": text[at : at + TURN]} for at in places]
            for places in starts
        ]
        ends = pa.array(np.arange(rows + 1, dtype=np.int32) * TOKENS)
        table = sample.set_column(0, "group_id", group_id)
        table = table.append_column("response_ids", pa.ListArray.from_arrays(ends, pa.array(ids)))
        tables.append(table.append_column("messages", pa.array(messages)))
    whole = pa.concat_tables(tables)
    place = rng.integers(0, FILES, len(whole))
    source = folder / "rollouts"
    source.mkdir(parents=True)
    for number in range(FILES):
        part = whole.filter(pa.array(place == number))
        pq.write_table(part, source / f"{number}.parquet", row_group_size=256)
    size = sum(file.stat().st_size for file in source.iterdir())
    return len(whole), size / len(whole), len(whole["group_id"].unique())


def stage_commands(folder):
    """Return each stage as a command, on the output of the one before."""
    gagar = [sys.executable, "-m", "gagar_cli"]
    root = ["--root", str(folder / "stages")]
    steps = {
        "filter": [],
        "assemble": ["--repos", str(SAMPLE / "repos"), *root],
        "grade": [],
        "redistribute": [],
    }
    before = folder / "rollouts"
    commands = {}
    for stage, options in steps.items():
        after = folder / f"{stage}.parquet"
        commands[stage] = [*gagar, stage, str(before), "-o", str(after), "-q", *options]
        before = after
    return commands


def pipeline(folder, name, *more):
    """Return the whole pipeline as a command, with an output and workspaces of its own."""
    return [
        *(sys.executable, "-m", "gagar_cli", "run", str(folder / "rollouts"), "-q"),
        *("-o", str(folder / f"out-{name}"), "--repos", str(SAMPLE / "repos")),
        *("--root", str(folder / f"root-{name}"), *more),
    ]


def clean(folder, name):
    """Remove what a run left."""
    for place in (folder / f"out-{name}", folder / f"root-{name}"):
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)


def on_cluster(folder, nodes, rounds):
    """Return the median costs of the pipeline on a cluster of this many nodes of one core.

    Of all groups, and of a quarter.
    """
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    cluster = subprocess.Popen(
        [sys.executable, "-c", CLUSTER, str(nodes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    os.environ.update(environment)
    address = cluster.stdout.readline().strip()
    name = f"ray{nodes}"
    places = (folder / "quarter", folder)
    found = {place: [] for place in places}
    try:
        for _ in range(rounds):
            for place in places:
                clean(place, name)
                command = pipeline(place, name, "--engine", "ray", "--ray-address", address)
                found[place].append(run_once(command, folder))
                print(f"  Ray, {nodes} nodes: {found[place][-1].wall:.1f} s", file=sys.stderr)
    finally:
        cluster.stdin.close()
        cluster.wait()
    return median(found[folder]), median(found[places[0]])


def median(costs):
    """Return the cost with the median of each number."""
    return Cost(*(statistics.median(n) for n in zip(*map(astuple, costs), strict=True)))


def rows_of(place):
    """Return the rows of an output by id, without where workspaces stand."""
    table = pq.read_table(place).drop_columns("workspace")
    order = [("group_id", "ascending"), ("rollout_id", "ascending")]
    return table.sort_by(order).replace_schema_metadata(None).combine_chunks()


def million(data, stages, whole):
    """Work out what a million rollouts take; return lines of text."""
    per = data.rollouts / data.groups
    many = MILLION / per
    graded = many * data.kept / data.groups
    lines = [
        (
            f"{MILLION:,} rollouts in groups of {per:.1f}: {many:,.0f} groups, of which "
            f"{data.kept / data.groups:.0%} have contrast: {graded:,.0f}"
        ),
        f"Parquet: {MILLION:,} x {data.size / 1e3:.0f} kB = {MILLION * data.size / 1e9:,.0f} GB",
    ]
    total = 0.0
    for stage, cost in stages.items():
        count, measured = (many, data.groups) if stage == "filter" else (graded, data.kept)
        each = cost.cpu / measured
        total += each * count
        lines.append(
            f"{stage}: {each * 1e3:.1f} ms of CPU a group x {count:,.0f} = "
            f"{each * count / 3600:.2f} core hours"
        )
    wall = whole["two cores"].wall / data.groups
    lines.append(f"all stages: {total / 3600:.1f} core hours")
    lines.append(
        f"this machine: {wall * 1e3:.1f} ms a group x {many:,.0f} = {wall * many / 3600:.1f} hours"
    )
    characters = statistics.mean(first_prompts())
    prompt = characters / CHARACTERS
    asked = graded * VOTES * prompt
    lines.append(
        f"tokens: {characters:,.0f} characters in a vote's first prompt / {CHARACTERS} = "
        f"{prompt:,.0f}; x {VOTES} votes x {graded:,.0f} groups = {asked / 1e9:.1f} billion prompt "
        f"tokens, and as many again for each further turn"
    )
    lines += [
        f"a server that reads {rate:,} tokens a second: {asked / rate / 3600:,.0f} hours"
        for rate in (20_000, 200_000)
    ]
    if "Ray, 2 nodes" in whole:
        more = data.groups - data.quarter
        each = {}
        for n in (1, 2):
            long, short = (whole[f"Ray, {n} nodes{part}"].wall for part in ("", ", a quarter"))
            each[n] = (long - short) / more
            lines.append(
                f"Ray on {n} cores: ({long:.1f} s - {short:.1f} s) / {more} more groups = "
                f"{each[n] * 1e3:.1f} ms a group; {long - each[n] * data.groups:.0f} s to begin"
            )
        lines += [
            f"{n} nodes of {NODE} cores, if that goes on: {each[1] * 1e3:.1f} ms x {many:,.0f} / "
            f"{n * NODE} cores = {each[1] * many / (n * NODE) / 3600:.2f} hours"
            for n in (1, 4, 16)
        ]
    return lines


def measure_stages(folder, rounds):
    """Return the median cost of each stage."""
    found = {}
    for number in range(rounds):
        shutil.rmtree(folder / "stages", ignore_errors=True)
        for stage, command in stage_commands(folder).items():
            found.setdefault(stage, []).append(run_once(command, folder))
            print(f"  {number + 1} {stage}: {found[stage][-1].wall:.1f} s", file=sys.stderr)
    return {stage: median(costs) for stage, costs in found.items()}


def measure_whole(folder, rounds, *, ray):
    """Return the median cost of the pipeline, by where it runs; other rows raise."""
    runs = {
        "one core": ("one", ["taskset", "-c", "0", *pipeline(folder, "one", "--jobs", "1")]),
        "two cores": ("two", pipeline(folder, "two")),
    }
    found = {}
    for number in range(rounds):
        for name, (short, command) in runs.items():
            clean(folder, short)
            found.setdefault(name, []).append(run_once(command, folder))
            print(f"  {number + 1} run, {name}: {found[name][-1].wall:.1f} s", file=sys.stderr)
    whole = {name: median(costs) for name, costs in found.items()}
    for nodes in (1, 2) if ray else ():
        name = f"Ray, {nodes} nodes"
        whole[name], whole[f"{name}, a quarter"] = on_cluster(folder, nodes, rounds)
        if not rows_of(folder / f"out-ray{nodes}").equals(rows_of(folder / "out-two")):
            raise SystemExit(f"other rows from {nodes} nodes")
    return whole


def show(stages, whole, groups, kept):
    """Print the costs as a table."""
    print("| | seconds | CPU seconds | ms of CPU a group | peak MiB |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for stage, cost in stages.items():
        each = cost.cpu / (groups if stage == "filter" else kept) * 1e3
        print(f"| `{stage}` | {cost.wall:.1f} | {cost.cpu:.1f} | {each:.1f} | {cost.peak:,.0f} |")
    for name, cost in whole.items():
        away = name.startswith("Ray")  # only the process that waits is seen from here
        own = "| | |" if away else f"| {cost.cpu:.1f} | {cost.cpu / groups * 1e3:.1f} |"
        peak = "" if away else f" {cost.peak:,.0f}"
        print(f"| `run`, {name} | {cost.wall:.1f} {own}{peak} |")


def main():
    """Make the data, run all, print the tables."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--groups", type=int, default=900)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--no-ray", action="store_true")
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gagar-benchmark-"))
    rollouts, size, groups = make(folder, chosen.groups)
    _, _, quarter = make(folder / "quarter", chosen.groups // 4)
    stages = measure_stages(folder, chosen.rounds)
    kept = len(pq.read_table(folder / "filter.parquet", columns=["group_id"])["group_id"].unique())
    whole = measure_whole(folder, chosen.rounds, ray=not chosen.no_ray)
    lines = million(Data(rollouts, size, groups, kept, quarter), stages, whole)
    if chosen.json:
        told = {name: asdict(cost) for name, cost in {**stages, **whole}.items()}
        print(json.dumps({"groups": groups, "kept": kept, "costs": told, "million": lines}))
    else:
        print(f"{groups:,} groups, {rollouts:,} rollouts of {size / 1e3:.0f} kB, {kept:,} kept\n")
        show(stages, whole, groups, kept)
        print("\n" + "\n".join(f"- {line}" for line in lines))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
