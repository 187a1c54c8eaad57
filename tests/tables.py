"""Small tables of rollouts for tests."""

import datetime as dt
import decimal

import pyarrow as pa
import pyarrow.parquet as pq


def rollouts(groups, **columns):
    """Make a table from {group_id: verdicts}, verdicts being True, False or None."""
    rows = [(g, f"r{n}", v) for g, verdicts in groups.items() for n, v in enumerate(verdicts)]
    return pa.table(
        {
            "group_id": [row[0] for row in rows],
            "rollout_id": [row[1] for row in rows],
            "passed": pa.array([row[2] for row in rows], pa.bool_()),
            **columns,
        }
    )


def write(path, table, **options):
    """Write a table and return the path."""
    pq.write_table(table, path, **options)
    return path


def wide(count=6):
    """Make a table with every kind of column that trainers write and gagar does not know."""
    numbers = list(range(count))
    day = dt.datetime(2026, 9, 1, tzinfo=dt.UTC)
    message = [{"role": "user", "content": "grüß"}, {"role": "assistant", "content": None}]
    words = pa.array([f"model-{n % 2}" for n in numbers]).dictionary_encode()
    uuid = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([bytes([n]) * 16 for n in numbers], pa.binary(16))
    )
    schema = pa.schema(
        [
            pa.field("group_id", pa.large_string(), metadata={"unit": "task"}),
            pa.field("rollout_id", pa.string(), nullable=False),
            pa.field("passed", pa.bool_()),
            pa.field("response_ids", pa.list_(pa.field("element", pa.int32(), nullable=False))),
            pa.field("log_probs", pa.large_list(pa.field("element", pa.float32()))),
            pa.field(
                "messages",
                pa.list_(
                    pa.field(
                        "element",
                        pa.struct([("role", pa.string()), ("content", pa.large_string())]),
                    )
                ),
            ),
            pa.field("cost", pa.decimal128(20, 6)),
            pa.field("at", pa.timestamp("ns", "Europe/Berlin")),
            pa.field("took", pa.duration("us")),
            pa.field("model", words.type),
            pa.field("blob", pa.large_binary()),
            pa.field("half", pa.float16()),
            pa.field("extra", pa.map_(pa.string(), pa.int64())),
            pa.field("nothing", pa.null()),
            pa.field("key", pa.uuid()),
            pa.field(
                "embedding",
                pa.list_(pa.field("element", pa.float32()), 2),
                metadata={"ARROW:extension:name": "ours.vector", "ARROW:extension:metadata": "2"},
            ),
        ],
        metadata={"trainer": "verl 1.2", "pandas": "{}"},
    )
    return pa.Table.from_arrays(
        [
            pa.array([f"g{n // 3}" for n in numbers], pa.large_string()),
            pa.array([f"r{n}" for n in numbers]),
            pa.array([n % 3 == 0 for n in numbers]),
            pa.array([[n, n + 1] if n else None for n in numbers], schema.field(3).type),
            pa.array([[0.1 * n, float("nan")] for n in numbers], schema.field(4).type),
            pa.array([message if n % 2 else [] for n in numbers], schema.field(5).type),
            pa.array([decimal.Decimal(n) / 8 for n in numbers], pa.decimal128(20, 6)),
            pa.array([day + dt.timedelta(hours=n) for n in numbers], schema.field(7).type),
            pa.array([n if n % 2 else None for n in numbers], pa.duration("us")),
            words,
            pa.array([b"\0\xff" * n for n in numbers], pa.large_binary()),
            pa.array([1.5 * n for n in numbers], pa.float16()),
            pa.array([[("a", n)] if n % 2 else None for n in numbers], schema.field(12).type),
            pa.nulls(count),
            uuid,
            pa.array([[n, -n] for n in numbers], schema.field(15).type),
        ],
        schema=schema,
    )
