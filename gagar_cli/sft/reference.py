"""A reference to measure votes by: a column of a graded file, by group and workspace label."""

from collections import defaultdict
from math import isfinite

import pyarrow as pa

from gagar_cli.errors import DataError, located
from gagar_cli.parquet_io import Source
from gagar_cli.rollouts import Rollouts
from gagar_cli.schema import numbers, strings


def read_reference(
    source: Source, column: str, *, higher_is_better: bool = False
) -> dict[str, dict[str, float]]:
    """Read a column of numbers or bools by group_id and candidate, turned to the lower the better.

    Rows without a label, or without a finite value, are left out. No such column, one of another
    type, and a label that a group has twice raise DataError.
    """
    ids = Rollouts.of(source).read("group_id", "candidate")
    with located(source.name):
        found = source.schema.get_all_field_indices(column)
        if len(found) != 1:
            count = f"{len(found)} columns" if found else "no column"
            have = ", ".join(source.schema.names)
            raise DataError("", f"got {count} {column!r} among {have}, expected one")
        kind = source.schema.field(column).type
        test = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        if not any(fits(kind) for fits in test):
            raise DataError("", f"column {column!r} has type {kind}, expected numbers or bool")
        values = numbers(source.read([column])[column])
        reference: dict[str, dict[str, float]] = defaultdict(dict)
        labels = strings(ids["candidate"])
        for group, label, value in zip(strings(ids["group_id"]), labels, values, strict=True):
            if group is None or label is None or not isfinite(value):
                continue
            if label in reference[group]:
                raise DataError(f"group {group!r}", f"has two rows for candidate {label!r}")
            reference[group][label] = -float(value) if higher_is_better else float(value)
    return dict(reference)
