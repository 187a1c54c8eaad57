"""Transcripts of an agent's grading: one row per vote, as `gagar grade --transcripts` writes them.

A vote is on the candidates to rank of one group, those whose patches are the same being shown once;
`candidates` lists what was shown. Nested values that differ from server to server are JSON text.
"""

from collections.abc import Collection, Sequence

import pyarrow as pa

from gagar_cli.errors import DataError


def _list(of: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", of))  # as Parquet names it


_TIERS = _list(_list(pa.string()))

TRANSCRIPT_SCHEMA = pa.schema(
    {
        "group_id": pa.string(),
        "vote": pa.int32(),  # its number in the group, from 0
        "task_id": pa.string(),  # 16 hex digits that stand for the text of the task
        "grader": pa.string(),  # as the column `grader` of the rollouts has it
        "model": pa.string(),
        "mode": pa.string(),  # agent or single
        # In the order shown: the label in this vote, the workspace's label, whether it was to be
        # ranked (else it had failed), and the changed lines of its patch.
        "candidates": _list(
            pa.struct(
                {
                    "label": pa.string(),
                    "candidate": pa.string(),
                    "passing": pa.bool_(),
                    "lines": pa.int32(),
                }
            )
        ),
        # Workspace labels, best first; null where the vote gave no valid ranking, and where the
        # group got no grade. Both are over the same labels.
        "tiers": _TIERS,
        "consensus": _TIERS,
        "confidence": pa.float64(),  # of the group
        "trust": pa.float64(),  # of the vote, 0 to 1
        "reasons": _list(pa.struct({"candidate": pa.string(), "reason": pa.string()})),
        # The conversation as it was sent, the answer that ended it included: a JSON list of
        # chat messages; and the JSON list of tools that it offered ([] in mode single).
        "messages": pa.string(),
        "tools": pa.string(),
        "truncated": pa.bool_(),  # an answer was cut off, or something had to be left out
        "fallback_parsed": pa.bool_(),  # a tool call was found in the text of an answer
        "from_journal": pa.bool_(),
        "canary": pa.bool_(),  # the group was a test of the grader: in no output
        "canary_failures": _list(pa.string()),  # which canaries this vote ranked where not due
        "requests": pa.int32(),
        "prompt_tokens": pa.int64(),
        "cached_tokens": pa.int64(),
        "completion_tokens": pa.int64(),
        "seconds": pa.float64(),
        "error": pa.string(),  # why there are no tiers
    }
)


def check_transcripts(present: Collection[str], columns: Sequence[str]) -> None:
    """Raise DataError unless a file has these columns of transcripts."""
    absent = [name for name in columns if name not in present]
    if absent:
        raise DataError(
            "",
            f"got no column {', '.join(map(repr, absent))}, expected transcripts",
            "gagar grade --transcripts PATH writes them",
        )


def as_transcripts(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.Table:
    """Return columns of a batch in the types of transcripts; what does not fit raises DataError."""
    schema = pa.schema([TRANSCRIPT_SCHEMA.field(name) for name in columns])
    table = pa.Table.from_batches([batch.replace_schema_metadata(None)])
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        what = str(error).splitlines()[0]
        raise DataError("", f"has a column of another type than transcripts ({what})") from error
