"""Time and memory of `gagar filter` against DuckDB and Polars, in one run.

    python benchmarks/filtering.py [--wide 2.0] [--narrow 10] [--rounds 3] [--grow] [--json]

Wide: a file of `--wide` GB with 20 columns of heavy rollouts (messages, token ids, log-probs), of
whose groups 60 % have contrast. Narrow: `--narrow` million rows of four columns, groups in
one piece, and scattered. Each tool keeps the groups that have both passing and failing rollouts, in
input order. `copy` is the file copied, `decode` all of it read, `recode` read and written without
any filter: the physical limits. `--grow` repeats the wide file at a quarter, a half and whole.

DuckDB keeps the order by its file row number; its plain semi-join would lose it. The rows that come
out are compared: ids and order everywhere, and all values where the tool keeps the types.
"""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from side_by_side import print_table, run_in_turn

ROW_GROUP = 1024
GROUP = 8  # rollouts of a group

DUCKDB = """
import duckdb, sys
source, target = sys.argv[1:]
duckdb.sql("SET threads = 2")
duckdb.sql("SET enable_progress_bar = false")
duckdb.sql(f'''
COPY (
  SELECT t.* EXCLUDE (file_row_number)
  FROM read_parquet('{source}', file_row_number = true) t
  WHERE group_id IN (
    SELECT group_id FROM read_parquet('{source}') GROUP BY group_id
    HAVING bool_or(passed) AND bool_or(NOT passed) AND count(passed) >= 2)
  ORDER BY file_row_number
) TO '{target}' (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 1024)
''')
"""
POLARS = """
import polars as pl, sys
source, target = sys.argv[1:]
rows = pl.scan_parquet(source)
kept = rows.group_by("group_id").agg(
    p=pl.col("passed").any(), f=(~pl.col("passed")).any(), n=pl.col("passed").count()
).filter(pl.col("p") & pl.col("f") & (pl.col("n") >= 2)).select("group_id")
rows.join(kept, on="group_id", how="semi", maintain_order="left").sink_parquet(
    target, compression="snappy", row_group_size=1024, maintain_order=True, engine="streaming")
"""
DECODE = """
import pyarrow.parquet as pq, sys
for batch in pq.ParquetFile(sys.argv[1]).iter_batches(batch_size=512):
    pass
"""
RECODE = """
import pyarrow.parquet as pq, sys
source = pq.ParquetFile(sys.argv[1])
with pq.ParquetWriter(sys.argv[2], source.schema_arrow) as writer:
    for batch in source.iter_batches(batch_size=1024):
        writer.write_batch(batch)
"""


def wide_table(rng: np.random.Generator, first: int, rows: int, words: list[str]) -> pa.Table:
    """Make heavy rollouts: about 130 kB a row, half of it token ids and log-probs."""
    number = np.arange(first, first + rows)
    group = number // GROUP
    tokens = rng.integers(2_000, 8_000, rows)
    ends = np.concatenate(([0], np.cumsum(tokens))).astype(np.int32)
    total = int(ends[-1])
    # Token ids are few and frequent, with a long tail.
    ids = np.minimum(rng.zipf(1.25, total), 150_000).astype(np.int32)
    logprobs = -rng.exponential(0.4, total).astype(np.float32)
    mask = (rng.random(total) < 0.7).astype(np.int8)

    def text(low: int, high: int) -> list[str]:
        lengths = rng.integers(low, high, rows)
        places = rng.integers(0, len(words) - high, rows)
        return [" ".join(words[p : p + n]) for p, n in zip(places, lengths, strict=True)]

    turns = rng.integers(10, 40, rows)
    turn_ends = np.concatenate(([0], np.cumsum(turns))).astype(np.int32)
    lengths = rng.integers(50, 400, int(turn_ends[-1]))
    places = rng.integers(0, len(words) - 400, int(turn_ends[-1]))
    contents = [" ".join(words[p : p + n]) for p, n in zip(places, lengths, strict=True)]
    messages = pa.ListArray.from_arrays(
        turn_ends,
        pa.StructArray.from_arrays(
            [
                pa.array(["assistant" if n % 2 else "tool" for n in range(int(turn_ends[-1]))]),
                pa.array(contents),
            ],
            ["role", "content"],
        ),
    )
    # Three groups of five hold both verdicts.
    kind = (group * 7919) % 5
    passed = np.where(kind < 3, number % GROUP % 2 == 0, kind == 3)
    return pa.table(
        {
            "group_id": [f"task-{g:07d}" for g in group],
            "rollout_id": [f"rollout-{n:09d}" for n in number],
            "passed": passed,
            "reward": passed.astype(np.float64),
            "step": pa.array(np.full(rows, 120), pa.int32()),
            "num_tokens": tokens.astype(np.int64),
            "num_turns": turns.astype(np.int32),
            "model": pa.array(["policy-7b"] * rows).dictionary_encode(),
            "repo": [f"owner/project-{g % 12}" for g in group],
            "base_commit": [f"{g % 400:040x}" for g in group],
            "problem_statement": text(100, 300),
            "patch": text(50, 800),
            "messages": messages,
            "prompt_ids": pa.ListArray.from_arrays(
                pa.array(np.arange(rows + 1, dtype=np.int32) * 500),
                pa.array(np.minimum(rng.zipf(1.25, rows * 500), 150_000).astype(np.int32)),
            ),
            "response_ids": pa.ListArray.from_arrays(pa.array(ends), pa.array(ids)),
            "logprobs": pa.ListArray.from_arrays(pa.array(ends), pa.array(logprobs)),
            "loss_mask": pa.ListArray.from_arrays(pa.array(ends), pa.array(mask)),
            "started": pa.array(number * 1_000_000, pa.timestamp("us", "UTC")),
            "seconds": rng.exponential(300, rows),
            "metadata": [json.dumps({"worker": int(n % 64), "seed": int(n)}) for n in number],
        }
    )


def make_wide(path: Path, gigabytes: float) -> None:
    """Write the wide file, in row groups of 1,024, with pyarrow's defaults."""
    rng = np.random.default_rng(7)
    words = [
        "".join(rng.choice(list("etaoinshrdlucmfwyp_().:"), int(n)))
        for n in rng.integers(2, 11, 5_000)
    ]
    words = [words[n] for n in rng.zipf(1.3, 400_000) % len(words)]
    first = 0
    writer = None
    with path.open("wb") as stream:
        while stream.tell() < gigabytes * 1e9:
            table = wide_table(rng, first, ROW_GROUP, words)
            writer = writer or pq.ParquetWriter(stream, table.schema)
            writer.write_table(table, row_group_size=ROW_GROUP)
            first += ROW_GROUP
        writer.close()


def make_narrow(path: Path, rows: int, *, scattered: bool) -> None:
    """Write four columns, with pyarrow's defaults."""
    rng = np.random.default_rng(11)
    number = np.arange(rows)
    if scattered:
        rng.shuffle(number)
    group = number // GROUP
    kind = (group * 7919) % 5
    table = pa.table(
        {
            "group_id": pc.binary_join_element_wise("task-", pa.array(group).cast("string"), ""),
            "rollout_id": pc.binary_join_element_wise("r-", pa.array(number).cast("string"), ""),
            "passed": np.where(kind < 3, number % GROUP % 2 == 0, kind == 3),
            "num_tokens": rng.integers(100, 30_000, rows),
        }
    )
    pq.write_table(table, path)


def commands(source: Path, folder: Path, *, limits: bool) -> dict[str, list[str]]:
    """Return what is run on a file, each with an output of its own."""
    python = sys.executable
    result = {
        "gagar": [
            *(python, "-m", "gagar_cli", "filter", str(source), "-q"),
            *("-o", str(folder / "gagar.parquet")),
        ],
        "DuckDB": [python, "-c", DUCKDB, str(source), str(folder / "duckdb.parquet")],
        "Polars": [python, "-c", POLARS, str(source), str(folder / "polars.parquet")],
    }
    if limits:
        result["copy"] = ["cp", str(source), str(folder / "copy.parquet")]
        result["decode"] = [python, "-c", DECODE, str(source)]
        result["recode"] = [python, "-c", RECODE, str(source), str(folder / "recode.parquet")]
    return result


def check(source: Path, folder: Path) -> None:
    """Raise unless the outputs hold the same rows in the same order."""
    ids = ["group_id", "rollout_id"]
    kept = {name: pq.ParquetFile(folder / f"{name}.parquet") for name in ("gagar", "duckdb")}
    kept["polars"] = pq.ParquetFile(folder / "polars.parquet")
    expected = kept["duckdb"].read(columns=ids)
    for name, file in kept.items():
        found = file.read(columns=ids).cast(expected.schema)
        if not found.equals(expected):
            raise SystemExit(f"{name} keeps other rows, or in another order")
    schema = pq.read_schema(source)
    if not kept["gagar"].schema_arrow.equals(schema):
        raise SystemExit("gagar changes the schema")
    for name in ("duckdb", "polars"):
        found = kept[name].schema_arrow
        changed = [f.name for f in schema if found.field(f.name).type != f.type]
        print(f"{name} changes the types of {len(changed)} columns of {len(schema)}", flush=True)
    # Value by value against the source, by its own rows.
    rows = pq.ParquetFile(source).read_row_groups([0, 1])
    wanted = set(expected["rollout_id"].to_pylist()[: 2 * ROW_GROUP])
    rows = rows.filter(pc.is_in(rows["rollout_id"], pa.array(sorted(wanted))))
    ours = kept["gagar"].read_row_groups(range(min(2, kept["gagar"].num_row_groups)))
    if any(
        ours[name].slice(0, len(rows)).to_pylist() != rows[name].to_pylist()
        for name in schema.names
    ):
        raise SystemExit("gagar changes values")


def main() -> None:
    """Make the data, run all, print the tables."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--wide", type=float, default=2.0, help="GB of the wide file; 0 for none")
    options.add_argument("--narrow", type=float, default=10.0, help="million rows; 0 for none")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--grow", action="store_true", help="a quarter, a half and the whole")
    options.add_argument("--folder", type=Path, help="where data is made and kept")
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="gagar-benchmark-"))
    folder.mkdir(exist_ok=True)
    results = {}
    parts = [1.0] if not chosen.grow else [0.25, 0.5, 1.0]
    for part in parts if chosen.wide else []:
        source = folder / f"wide-{chosen.wide * part:g}.parquet"
        if not source.exists():
            make_wide(source, chosen.wide * part)
        results[f"wide, {chosen.wide * part:g} GB"] = (source, True)
    for scattered in (False, True) if chosen.narrow else ():
        name = "scattered" if scattered else "contiguous"
        source = folder / f"narrow-{chosen.narrow:g}-{name}.parquet"
        if not source.exists():
            make_narrow(source, int(chosen.narrow * 1e6), scattered=scattered)
        results[f"narrow, {chosen.narrow:g} million rows, {name}"] = (source, False)
    told = {}
    for title, (source, limits) in results.items():
        print(f"\n{title}", file=sys.stderr)
        costs = run_in_turn(commands(source, folder, limits=limits), folder, chosen.rounds)
        check(source, folder)
        told[title] = {name: asdict(cost) for name, cost in costs.items()}
        if not chosen.json:
            print(f"\n{title}\n")
            print_table(costs, "DuckDB")
    if chosen.json:
        print(json.dumps(told))
    if chosen.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
