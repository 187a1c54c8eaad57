"""Time and memory of `gagar redistribute` against DuckDB and Polars, in one run.

    python benchmarks/redistributing.py [--rows 10] [--rounds 3] [--grow] [--json]

A file of `--rows` million graded rollouts, with groups of eight in one piece, and scattered. Each
tool computes GRPO advantages from the rewards, the weight of each place among the ranked rollouts
with ties shared, and restores each group's sum, all by the defaults of `gagar redistribute`; it
writes the three columns beside those of the input, in input order. The outputs are compared: ids
exactly, numbers to a relative 1e-9. `--grow` repeats it at a sixteenth, a quarter, and whole.

Only gagar checks what it reads and writes: that ids are unique in their group, and that each sum is
kept.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from side_by_side import print_table, run_in_turn

GROUP = 8  # rollouts of a group

# The weights of linear places are linear, so tied rollouts share the weight of their mean place.
DUCKDB = """
import duckdb, sys
source, target = sys.argv[1:]
duckdb.sql("SET threads = 2")
duckdb.sql(f'''
COPY (
  WITH valued AS (
    SELECT *,
      CASE WHEN min(reward) OVER g = max(reward) OVER g THEN 0.0
        ELSE (reward - avg(reward) OVER g) / (stddev_samp(reward) OVER g + 1e-6) END AS advantage
    FROM read_parquet('{source}', file_row_number = true)
    WINDOW g AS (PARTITION BY group_id)),
  chosen AS (
    SELECT *, passed AND advantage > 0 AND rank IS NOT NULL AS ranked FROM valued),
  placed AS (
    SELECT *,
      CASE WHEN ranked THEN 1 - 0.5
        * (rank() OVER (PARTITION BY group_id, ranked ORDER BY rank) - 1
          + (count(*) OVER (PARTITION BY group_id, ranked, rank) - 1) / 2)
        / greatest(count(*) OVER (PARTITION BY group_id, ranked) - 1, 1) END AS weight
    FROM chosen),
  credited AS (
    SELECT *,
      CASE WHEN ranked THEN weight * sum(advantage) OVER p / sum(weight * advantage) OVER p
        ELSE 1.0 END AS credit_weight
    FROM placed WINDOW p AS (PARTITION BY group_id, ranked))
  SELECT * EXCLUDE (file_row_number, ranked, weight),
    advantage * credit_weight AS redistributed_advantage
  FROM credited ORDER BY file_row_number
) TO '{target}' (FORMAT parquet, COMPRESSION snappy)
''')
"""
POLARS = """
import polars as pl, sys
source, target = sys.argv[1:]
reward, group = pl.col("reward"), "group_id"
ranked = pl.col("passed") & (pl.col("advantage") > 0) & pl.col("rank").is_not_null()
pl.scan_parquet(source).with_columns(
    mean=reward.mean().over(group), std=reward.std().over(group),
    flat=(reward.min() == reward.max()).over(group),
).with_columns(
    advantage=pl.when("flat").then(0.0).otherwise(
        (reward - pl.col("mean")) / (pl.col("std") + 1e-6))
).with_columns(
    place=pl.when(ranked).then(pl.col("rank"))
).with_columns(
    weight=1 - 0.5 * (pl.col("place").rank("average").over(group) - 1)
    / pl.max_horizontal(pl.col("place").count().over(group) - 1, 1),
    term=pl.when(pl.col("place").is_not_null()).then("advantage"),
).with_columns(
    credit_weight=(
        pl.col("weight") * pl.col("term").sum().over(group)
        / (pl.col("weight") * pl.col("term")).sum().over(group)
    ).fill_null(1.0)
).with_columns(
    redistributed_advantage=pl.col("advantage") * pl.col("credit_weight")
).drop("mean", "std", "flat", "place", "weight", "term").collect().write_parquet(
    target, compression="snappy")
"""


def make(path: Path, rows: int, *, scattered: bool) -> None:
    """Write graded rollouts, with pyarrow's defaults: ids, a verdict, a reward, a rank.

    Three groups of five have both verdicts; failing rollouts have rewards below 0.5. Passing ones
    are ranked from 1, and two ranks of three are shared.
    """
    rng = np.random.default_rng(11)
    number = np.arange(rows)
    if scattered:
        rng.shuffle(number)
    group = number // GROUP
    kind = (group * 7919) % 5
    passed = np.where(kind < 3, number % GROUP % 2 == 0, kind == 3)
    rank = number % GROUP // 3 * 3 + 1
    table = pa.table(
        {
            "group_id": pc.binary_join_element_wise("task-", pa.array(group).cast("string"), ""),
            "rollout_id": pc.binary_join_element_wise("r-", pa.array(number).cast("string"), ""),
            "passed": passed,
            "reward": np.where(passed, 1.0, np.round(rng.random(rows) * 0.5, 2)),
            "rank": pa.array(rank.astype(np.int32), mask=~passed),
        }
    )
    pq.write_table(table, path)


def apart(function: Callable[..., None], *arguments: object, **named: object) -> None:
    """Call a function in a process of its own: a parent's memory counts in its children's peaks."""
    with ProcessPoolExecutor(1) as pool:
        pool.submit(function, *arguments, **named).result()


def commands(source: Path, folder: Path) -> dict[str, list[str]]:
    """Return what is run on a file, each with an output of its own."""
    python = sys.executable
    return {
        "gagar": [
            *(python, "-m", "gagar_cli", "redistribute", str(source), "-q"),
            *("-o", str(folder / "gagar.parquet")),
        ],
        "DuckDB": [python, "-c", DUCKDB, str(source), str(folder / "duckdb.parquet")],
        "Polars": [python, "-c", POLARS, str(source), str(folder / "polars.parquet")],
    }


def check(folder: Path) -> None:
    """Raise unless the outputs hold the same rows in the same order, and the same numbers."""
    ours = pq.read_table(folder / "gagar.parquet")
    for name in ("duckdb", "polars"):
        theirs = pq.read_table(folder / f"{name}.parquet").select(ours.column_names)
        for column in ("group_id", "rollout_id"):
            if not theirs[column].cast(pa.string()).equals(ours[column]):
                raise SystemExit(f"{name} has other rows, or in another order")
        for column in ("advantage", "credit_weight", "redistributed_advantage"):
            a, b = (table[column].cast(pa.float64()).to_numpy() for table in (ours, theirs))
            if not np.allclose(a, b, rtol=1e-9, atol=1e-12):
                worst = int(np.argmax(np.abs(a - b)))
                raise SystemExit(f"{name}: {column} of row {worst} is {b[worst]}, ours {a[worst]}")


def main() -> None:
    """Make the data, run all, print the tables."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=float, default=10.0, help="million rows")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--grow", action="store_true", help="a sixteenth, a quarter and the whole")
    options.add_argument("--folder", type=Path, help="where data is made and kept")
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="gagar-benchmark-"))
    folder.mkdir(exist_ok=True)
    told = {}
    for part in (1 / 16, 1 / 4, 1) if chosen.grow else (1,):
        for scattered in (False, True):
            name = "scattered" if scattered else "contiguous"
            millions = chosen.rows * part
            source = folder / f"graded-{millions:g}-{name}.parquet"
            if not source.exists():
                apart(make, source, int(millions * 1e6), scattered=scattered)
            title = f"{millions:g} million rows, {name}"
            print(f"\n{title}", file=sys.stderr)
            costs = run_in_turn(commands(source, folder), folder, chosen.rounds)
            apart(check, folder)
            told[title] = {tool: asdict(cost) for tool, cost in costs.items()}
            if not chosen.json:
                print(f"\n{title}\n")
                print_table(costs, "DuckDB")
    if chosen.json:
        print(json.dumps(told))
    if chosen.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
