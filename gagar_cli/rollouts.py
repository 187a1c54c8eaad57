"""A data set of rollouts as the stages see it: kept rows, canonical names, columns added so far.

Nothing heavy is read until `write`, which streams the source once. A stage reads the columns that
it needs with `read`, and hands back the rows to keep or the columns to add; the result is a new
`Rollouts`, so that stages chain in memory just as they do through files.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gagar_cli.errors import DataError, located
from gagar_cli.parquet_io import Source, StoredGroup, open_sink
from gagar_cli.provenance import KEY, Provenance, StageRecord
from gagar_cli.schema import STAGE_COLUMNS, ColumnNames, require, verdict_column

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Rollouts:
    """Rows and columns of a source, as the stages so far have left them.

    keep: (rows of the source,) bool, None for all. added: columns by their names in the file, one
    value per kept row. dropped: names of columns of the source that an earlier run of a stage had
    added.
    """

    source: Source
    provenance: Provenance
    keep: NDArray[np.bool_] | None = None
    added: Mapping[str, pa.ChunkedArray] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        source: Source,
        names: ColumnNames | None = None,
        pass_threshold: float | None = None,
    ) -> "Rollouts":
        """Take a source; names and threshold override those that its metadata carries."""
        with located(source.name):
            provenance = Provenance.read(source.schema.metadata)
            if names is not None:
                provenance = replace(provenance, names=provenance.names.updated(names))
            if pass_threshold is not None:
                provenance = replace(provenance, pass_threshold=pass_threshold)
            for canonical, name in (names or ColumnNames()).mapping.items():
                if name not in source.schema.names:
                    raise DataError(
                        "",
                        f"got no column {name!r} for --col {canonical}={name}",
                        f"one of {', '.join(source.schema.names)}",
                    )
        return cls(source, provenance)

    @property
    def names(self) -> ColumnNames:
        """The file's name of each canonical column."""
        return self.provenance.names

    @property
    def pass_threshold(self) -> float:
        """The reward from which a rollout passes, where there is no `passed`."""
        return self.provenance.pass_threshold

    @property
    def schema(self) -> pa.Schema:
        """The columns as they stand now, by their names in the file."""
        fields = [f for f in self.source.schema if f.name not in self.dropped]
        fields += [pa.field(name, column.type) for name, column in self.added.items()]
        metadata = {**(self.source.schema.metadata or {}), KEY: self.provenance.write()}
        return pa.schema(fields, metadata=metadata)

    def has(self, canonical: str) -> bool:
        """Whether the column is there."""
        return self.names.found_in(self.schema, canonical)

    def require(self, *canonical: str) -> None:
        """Raise DataError unless these columns are there with types that fit."""
        with located(self.source.name):
            for name in canonical:
                require(self.schema, self.names, name)

    def verdict(self) -> str:
        """Return which column holds the verdict; none raises DataError."""
        with located(self.source.name):
            return verdict_column(self.schema, self.names)

    def read(self, *canonical: str, optional: Sequence[str] = ()) -> pa.Table:
        """Read columns of the kept rows, under their canonical names."""
        present = [name for name in optional if self.has(name)]
        wanted = list(dict.fromkeys((*canonical, *present)))
        self.require(*wanted)
        stored = [name for name in wanted if self.names[name] not in self.added]
        table = self.source.read([self.names[name] for name in stored])
        if self.keep is not None:
            table = table.filter(pa.array(self.keep))
        columns = {name: table.column(self.names[name]) for name in stored}
        columns |= {n: self.added[self.names[n]] for n in wanted if n not in columns}
        return pa.table({name: columns[name] for name in wanted})

    def stream(self, *canonical: str) -> Iterator[pa.RecordBatch]:
        """Yield columns of the source for the kept rows, batch by batch, by canonical name."""
        self.require(*canonical)
        for batch in self.source.batches([self.names[name] for name in canonical], self.keep):
            yield pa.RecordBatch.from_arrays(batch.columns, names=list(canonical))

    def only(self, keep: NDArray[np.bool_], stage: str, options: "DataclassInstance") -> "Rollouts":
        """Return the rows where `keep`, (kept rows,) bool, holds."""
        rows = np.arange(self.source.rows) if self.keep is None else np.flatnonzero(self.keep)
        whole = np.zeros(self.source.rows, dtype=bool)
        whole[rows[keep]] = True
        mask = pa.array(keep)
        return replace(
            self,
            keep=whole,
            added={name: column.filter(mask) for name, column in self.added.items()},
            provenance=self.provenance.with_stage(StageRecord(stage, _plain(options))),
        )

    def ready_for(self, stage: str) -> "Rollouts":
        """Return this without the columns that an earlier run of a stage added.

        A column of the input's own that the stage would overwrite raises DataError: input is
        never overwritten. `advantage` is read where it is there.
        """
        own = set(self.provenance.added_by(stage))
        ready = replace(
            self,
            dropped=self.dropped | (own & set(self.source.schema.names)),
            added={name: column for name, column in self.added.items() if name not in own},
        )
        for canonical in STAGE_COLUMNS[stage]:
            name = self.names[canonical]
            if canonical != "advantage" and name in ready.schema.names:
                raise DataError(
                    self.source.name,
                    f"has a column {name!r} that gagar {stage} did not make and must not overwrite",
                    f"rename it, or have ours named with --col {canonical}=OTHER_NAME",
                )
        return ready

    def with_columns(
        self, columns: pa.Table, stage: str, options: "DataclassInstance"
    ) -> "Rollouts":
        """Return this with a stage's columns, canonically named, one value per kept row.

        Call `ready_for` first.
        """
        names = {canonical: self.names[canonical] for canonical in columns.column_names}
        record = StageRecord(stage, _plain(options), tuple(names.values()))
        added = {names[c]: columns.column(c) for c in columns.column_names}
        return replace(
            self,
            added={**self.added, **added},
            provenance=self.provenance.with_stage(record),
        )

    def write(self, target: str, progress: Progress = lambda _done, _all: None) -> None:
        """Write the kept rows: the source's columns bit for bit, then those added.

        `progress` is told rows written and all rows to write.
        """
        total = self.source.rows if self.keep is None else int(self.keep.sum())
        schema = self.schema
        stored = [name for name in self.source.schema.names if name not in self.dropped]
        added = pa.table(dict(self.added))
        written = 0
        with open_sink(target, schema, self.source) as sink:
            for portion in self.source.portions(stored, self.keep, sink.footer):
                new = added.slice(written, portion.num_rows).combine_chunks()
                if isinstance(portion, StoredGroup):
                    sink.copy(portion, new)
                else:
                    arrays = [*portion.columns, *map(_one_chunk, new.columns)]
                    sink.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
                written += portion.num_rows
                progress(written, total)

    def write_rejected(self, target: str, keep: NDArray[np.bool_], reason: pa.Array) -> None:
        """Write the rows of the source that are not kept, with their `reject_reason`."""
        rejected = replace(self, keep=~keep)
        if "reject_reason" in self.source.schema.names:
            rejected = replace(rejected, dropped=frozenset({"reject_reason"}))
        column = pa.chunked_array([reason.filter(pa.array(~keep))])
        replace(rejected, added={"reject_reason": column}).write(target)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _plain(options: "DataclassInstance") -> dict[str, Any]:
    """Return the options of a stage that decide what it writes, as JSON values."""
    return {
        entry.name: getattr(options, entry.name)
        for entry in fields(options)
        if entry.metadata.get("recorded", True)
    }


def stage_table(stage: str, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Make a stage's columns, in the schema's order and types, from one list for each."""
    types = STAGE_COLUMNS[stage]
    return pa.table({name: pa.array(columns[name], types[name]) for name in columns})
