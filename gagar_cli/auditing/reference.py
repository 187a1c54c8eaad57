"""A reference to compare ranks with: a column of the graded file, or of another one, by id."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gagar_cli.auditing.grades import Grades
from gagar_cli.errors import DataError, OptionError, located
from gagar_cli.groups import GroupIndex, check_unique
from gagar_cli.parquet_io import Source
from gagar_cli.rollouts import Rollouts
from gagar_cli.schema import ColumnNames, Floats, numbers
from gagar_cli.uris import is_remote, local

_IDS = ("group_id", "rollout_id")


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference as it was joined to the N rows of a graded file.

    values: (N,) the lower the better, NaN where there is none. compared: ranked rollouts that have
    a value. without_value: ranked rollouts whose value is null. only_graded: ranked rollouts that
    the reference lacks; only_reference: rows of it that the graded file lacks.
    """

    name: str
    higher_is_better: bool
    values: Floats
    compared: int
    without_value: int
    only_graded: int = 0
    only_reference: int = 0


def split_reference(spec: str | None, column: str | None) -> tuple[str | None, str | None]:
    """Read FILE[:COLUMN] and a column's name into a file and a column, either of them None.

    With a name given, all of the former is the file: so names that hold a colon can be said, and
    URIs with options.
    """
    if spec is None or column is not None or Path(local(spec)).exists():
        return spec, column
    if is_remote(spec) and "?" in spec:
        return spec, None
    file, colon, name = spec.rpartition(":")
    if not colon or "/" in name:  # a URI's own colon, or none
        return spec, None
    if not file or not name:
        raise OptionError(
            "--reference", f"got {spec!r}, expected FILE or FILE:COLUMN", "see --help"
        )
    return file, name


def own_reference(
    rollouts: Rollouts, grades: Grades, column: str, *, higher_is_better: bool | None
) -> Reference:
    """Take a column of the graded file itself."""
    with located(rollouts.source.name):
        values, higher = _values(rollouts.source, column, higher_is_better)
    ranked = ~np.isnan(grades.rank)
    known = ~np.isnan(values)
    return Reference(
        name=column,
        higher_is_better=higher,
        values=values,
        compared=int((ranked & known).sum()),
        without_value=int((ranked & ~known).sum()),
    )


def other_reference(
    source: Source,
    names: ColumnNames,
    grades: Grades,
    column: str | None,
    *,
    higher_is_better: bool | None,
) -> Reference:
    """Take a column of another file, joined by group_id and rollout_id, never by position.

    Its ids have the names that its own metadata says, else those of the graded file where it has
    such. Left out, the column is its only number or bool; ids given twice raise DataError.
    """
    own = {c: names[c] for c in _IDS if names[c] in source.schema.names}
    rollouts = Rollouts.of(source)
    if not all(rollouts.has(name) for name in _IDS):
        rollouts = Rollouts.of(source, ColumnNames(own))
    ids = rollouts.read(*_IDS)
    with located(source.name):
        check_unique(GroupIndex.of(ids["group_id"]), ids["rollout_id"])
        if column is None:
            column = _only_value(source.schema, [rollouts.names[name] for name in _IDS])
        theirs, higher = _values(source, column, higher_is_better)
    group_id = pa.array(grades.index.ids, pa.string()).take(pa.array(grades.index.codes))
    mine = _keys(group_id, grades.rollout_id)
    keys = _keys(ids["group_id"], ids["rollout_id"])
    place = numbers(pc.index_in(mine, value_set=keys))
    there = ~np.isnan(place)
    values = np.full(len(place), np.nan)
    values[there] = theirs[place[there].astype(np.int64)]
    ranked = ~np.isnan(grades.rank)
    known = ~np.isnan(values)
    return Reference(
        name=f"{source.name}:{column}",
        higher_is_better=higher,
        values=values,
        compared=int((ranked & known).sum()),
        without_value=int((ranked & there & ~known).sum()),
        only_graded=int((ranked & ~there).sum()),
        only_reference=len(keys) - int(there.sum()),
    )


def _values(source: Source, column: str, higher: bool | None) -> tuple[Floats, bool]:  # noqa: FBT001
    """Return a column as numbers of which the lower is the better, and which way it went."""
    found = source.schema.get_all_field_indices(column)
    if len(found) != 1:
        have = ", ".join(source.schema.names)
        count = f"{len(found)} columns" if found else "no column"
        raise DataError("", f"got {count} {column!r} among {have}, expected one")
    kind = source.schema.field(column).type
    if not _is_value(kind):
        raise DataError("", f"column {column!r} has type {kind}, expected numbers or bool")
    higher = bool(pa.types.is_boolean(kind)) if higher is None else higher
    values = numbers(source.read([column])[column])
    return (-values if higher else values), higher


def _only_value(schema: pa.Schema, ids: Sequence[str]) -> str:
    found = [entry.name for entry in schema if entry.name not in ids and _is_value(entry.type)]
    if len(found) != 1:
        raise DataError(
            "",
            f"got {len(found)} columns of numbers besides the ids, expected one",
            f"--reference FILE:COLUMN with one of {', '.join(found)}"
            if found
            else "add the column that ranks are to be compared with",
        )
    return str(found[0])


def _is_value(kind: pa.DataType) -> bool:
    test = pa.types
    return bool(
        test.is_boolean(kind)
        or test.is_integer(kind)
        or test.is_floating(kind)
        or test.is_decimal(kind)
        or test.is_null(kind)  # all null: a column nobody filled
    )


def _keys(group_id: pa.Array | pa.ChunkedArray, rollout_id: pa.ChunkedArray) -> pa.Array:
    """Return one text for both ids, which no id holds a NUL to confuse."""
    parts = [column.cast(pa.string()) for column in (group_id, rollout_id)]
    whole = [p.combine_chunks() if isinstance(p, pa.ChunkedArray) else p for p in parts]
    return pc.binary_join_element_wise(*whole, "\0")
