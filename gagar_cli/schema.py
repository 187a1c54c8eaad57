"""The columns that gagar knows: their names, their types, and how a verdict is read.

A file's own names can differ; `ColumnNames` maps the canonical name to the one in the file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gagar_cli.errors import DataError, OptionError

Column: TypeAlias = "pa.ChunkedArray | pa.Array"
Floats = NDArray[np.float64]

DEFAULT_PASS_THRESHOLD = 1.0

ID = "string or integer"
TEXT = "string"
BLOB = "string or binary"
FLAG = "bool, or numbers 0 and 1"
NUMBER = "number"
INTEGER = "integer"
REAL = "double"
ANY = "any type"

INPUT_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "group_id": ID,
        "rollout_id": ID,
        "passed": FLAG,
        "reward": NUMBER,
        "problem_statement": TEXT,
        "repo": TEXT,
        "base_commit": TEXT,
        "patch": BLOB,
        "messages": ANY,
        "num_tokens": NUMBER,  # pandas makes integers with nulls floats
        "num_turns": INTEGER,
        "advantage": NUMBER,
    }
)

STAGE_COLUMNS: Mapping[str, Mapping[str, pa.DataType]] = MappingProxyType(
    {
        "filter": {},
        "assemble": {
            "workspace": pa.string(),
            "candidate": pa.string(),
            "patch_status": pa.string(),
            "patch_detail": pa.string(),
            "files_changed": pa.int32(),
            "lines_added": pa.int32(),
            "lines_removed": pa.int32(),
        },
        "grade": {
            "rank": pa.int32(),
            "grade_confidence": pa.float64(),
            "grade_status": pa.string(),
            "grade_reason": pa.string(),
            "grade_flags": pa.list_(pa.field("element", pa.string())),  # as Parquet names it
            "grader": pa.string(),
            "grade_votes": pa.int32(),
            "grade_margin": pa.float64(),
            "grade_cycle": pa.bool_(),
            # A row of the group's pairwise-win matrix: votes that put the rollout above each other
            # candidate; a tie counts half for both.
            "grade_wins": pa.list_(
                pa.field("element", pa.struct({"candidate": pa.string(), "wins": pa.float64()}))
            ),
        },
        "redistribute": {
            "advantage": pa.float64(),
            "credit_weight": pa.float64(),
            "redistributed_advantage": pa.float64(),
        },
    }
)

_ADDED_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "workspace": TEXT,
        "candidate": TEXT,
        "patch_status": TEXT,
        "patch_detail": TEXT,
        "files_changed": INTEGER,
        "lines_added": INTEGER,
        "lines_removed": INTEGER,
        "rank": NUMBER,  # likewise
        "grade_confidence": NUMBER,
        "grade_status": TEXT,
        "grade_reason": TEXT,
        "grade_flags": ANY,
        "grader": TEXT,
        "grade_votes": NUMBER,
        "grade_margin": NUMBER,
        "grade_cycle": ANY,
        "grade_wins": ANY,
        "credit_weight": REAL,
        "redistributed_advantage": REAL,
    }
)

KNOWN_COLUMNS: Mapping[str, str] = MappingProxyType({**INPUT_COLUMNS, **_ADDED_TYPES})

_HOW_TO_GET: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(STAGE_COLUMNS["assemble"], "gagar assemble"),
        **dict.fromkeys(STAGE_COLUMNS["grade"], "gagar grade"),
        **dict.fromkeys(("credit_weight", "redistributed_advantage"), "gagar redistribute"),
    }
)


def _text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _text(kind.value_type)
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _blob(kind: pa.DataType) -> bool:
    return (
        _text(kind)
        or bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
        or bool(pa.types.is_binary_view(kind))
    )


def _number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


_FITS = {
    ID: lambda kind: _text(kind) or pa.types.is_integer(kind),
    TEXT: _text,
    BLOB: _blob,
    FLAG: lambda kind: pa.types.is_boolean(kind) or _number(kind),
    NUMBER: _number,
    INTEGER: pa.types.is_integer,
    REAL: pa.types.is_floating,
    ANY: lambda _kind: True,
}


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The file's name of each canonical column; a name that is not mapped is its own."""

    mapping: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, canonical: str) -> str:
        """Return the name in the file."""
        return self.mapping.get(canonical, canonical)

    @classmethod
    def parse(cls, pairs: Iterable[str]) -> "ColumnNames":
        """Read `canonical=name` pairs; unknown or repeated names raise OptionError."""
        mapping: dict[str, str] = {}
        for pair in pairs:
            canonical, equals, name = pair.partition("=")
            if not equals or not name or canonical not in KNOWN_COLUMNS:
                raise OptionError(
                    "--col",
                    f"got {pair!r}, expected NAME=COLUMN with NAME one of "
                    + ", ".join(KNOWN_COLUMNS),
                )
            if canonical in mapping:
                raise OptionError("--col", f"got {canonical!r} twice, expected it once")
            mapping[canonical] = name
        if len(set(mapping.values())) < len(mapping):
            raise OptionError("--col", "got one column for two names, expected one each")
        return cls(mapping)

    def found_in(self, schema: pa.Schema, canonical: str) -> bool:
        """Whether the column is there; with `reward=passed`, no other is called `passed`."""
        taken = canonical not in self.mapping and canonical in self.mapping.values()
        return self[canonical] in schema.names and not taken

    def updated(self, other: "ColumnNames") -> "ColumnNames":
        """Return these names with the other's on top."""
        return ColumnNames({**self.mapping, **other.mapping})


def type_problem(canonical: str, name: str, kind: pa.DataType) -> str | None:
    """Say what is wrong with a column's type, or None."""
    expected = KNOWN_COLUMNS[canonical]
    if _FITS[expected](kind) or pa.types.is_null(kind):  # all null: a column nobody filled
        return None
    return f"column {name!r} has type {kind}, expected {expected}"


def require(schema: pa.Schema, names: ColumnNames, canonical: str) -> None:
    """Raise DataError unless the column is there, once, with a type that fits."""
    name = names[canonical]
    found = schema.get_all_field_indices(name) if names.found_in(schema, canonical) else []
    if len(found) > 1:
        raise DataError("", f"has {len(found)} columns {name!r}, expected one")
    if not found:
        how = _HOW_TO_GET.get(canonical)
        step = f"{how}, or" if how else "name yours with"
        have = ", ".join(schema.names[:12]) + (", …" if len(schema.names) > 12 else "")  # noqa: PLR2004
        raise DataError(
            "",
            f"got no column {name!r} among {have or 'none'}",
            f"{step} --col {canonical}=YOUR_COLUMN",
        )
    problem = type_problem(canonical, name, schema.field(name).type)
    if problem:
        raise DataError("", problem, f"cast it, or use --col {canonical}=YOUR_COLUMN")


def verdict_column(schema: pa.Schema, names: ColumnNames) -> str:
    """Return which column decides, `passed` before `reward`; neither raises DataError."""
    for canonical in ("passed", "reward"):
        if names.found_in(schema, canonical):
            require(schema, names, canonical)
            return canonical
    raise DataError(
        "",
        f"got neither {names['passed']!r} nor {names['reward']!r}, expected a verdict",
        "name yours with --col passed=YOUR_COLUMN or --col reward=YOUR_COLUMN",
    )


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the verifier said: two (N,) bool arrays; a row without a verdict is in neither."""

    passed: NDArray[np.bool_]
    failed: NDArray[np.bool_]

    @property
    def known(self) -> NDArray[np.bool_]:
        """Rows that have a verdict."""
        return self.passed | self.failed


def read_verdicts(table: pa.Table, pass_threshold: float = DEFAULT_PASS_THRESHOLD) -> Verdicts:
    """Read `passed`, or where it is absent `reward` (passed when at least `pass_threshold`).

    A null or NaN is no verdict: neither pass nor fail.
    """
    if "passed" in table.column_names:
        if pa.types.is_boolean(table["passed"].type):
            return Verdicts(*(_is(table["passed"], value) for value in (True, False)))
        values = numbers(table["passed"])
        known = ~np.isnan(values)
        odd = known & (values != 0) & (values != 1)
        if odd.any():
            row = int(np.flatnonzero(odd)[0])
            raise DataError(
                f"row {row}",
                f"got passed={values[row]:g}, expected true, false or null",
                "map a graded column with --col reward=YOUR_COLUMN instead",
            )
        return Verdicts(passed=values == 1, failed=values == 0)
    values = numbers(table["reward"])
    return Verdicts(passed=values >= pass_threshold, failed=values < pass_threshold)


def _is(column: Column, value: bool) -> NDArray[np.bool_]:  # noqa: FBT001
    wanted = column if value else pc.invert(column)
    return np.asarray(pc.fill_null(wanted, fill_value=False).to_numpy(zero_copy_only=False))


def numbers(column: Column) -> Floats:
    """Return a numeric or bool column as float64; nulls become NaN."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if len(chunks) == 1:
        return _floats(chunks[0])
    value = np.empty(len(column), dtype=np.float64)
    end = 0
    for chunk in chunks:  # one by one: no second whole column is ever there
        start, end = end, end + len(chunk)
        value[start:end] = _floats(chunk)
    return value


def _floats(chunk: pa.Array) -> Floats:
    if pa.types.is_boolean(chunk.type):
        chunk = chunk.cast(pa.int8())
    return np.asarray(chunk.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def strings(column: Column) -> list[str | None]:
    """Return a text or integer column as a list of str, nulls as None."""
    return [None if value is None else str(value) for value in column.to_pylist()]


def is_set(column: Column) -> NDArray[np.bool_]:
    """Return where a column is not null."""
    return np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False))
