"""How a file was made: the JSON under the key `gagar` of its Parquet metadata.

It carries the column mapping and the pass threshold, so that the next stage in a pipe needs no
flags, and each stage's options and columns, so that a stage run again knows which are its own.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gagar_cli import __version__
from gagar_cli.errors import DataError
from gagar_cli.schema import DEFAULT_PASS_THRESHOLD, ColumnNames

KEY = b"gagar"


@dataclass(frozen=True, slots=True)
class StageRecord:
    """One stage that ran: its options, and the columns it added by their names in the file."""

    stage: str
    options: Mapping[str, Any]
    added: tuple[str, ...] = ()
    version: str = __version__


@dataclass(frozen=True, slots=True)
class Provenance:
    """The mapping, the threshold and the stages so far, in the order in which they ran."""

    names: ColumnNames = field(default_factory=ColumnNames)
    pass_threshold: float = DEFAULT_PASS_THRESHOLD
    stages: tuple[StageRecord, ...] = ()

    @classmethod
    def read(cls, metadata: Mapping[bytes, bytes] | None) -> "Provenance":
        """Read a schema's metadata; none gives the defaults, a broken one raises DataError."""
        raw = (metadata or {}).get(KEY)
        if raw is None:
            return cls()
        try:
            data = json.loads(raw)
            return cls(
                names=ColumnNames(dict(data["columns"])),
                pass_threshold=float(data["pass_threshold"]),
                stages=tuple(
                    StageRecord(s["stage"], dict(s["options"]), tuple(s["added"]), s["version"])
                    for s in data["stages"]
                ),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                "metadata key 'gagar'",
                f"is not what gagar writes ({error!r})",
                "drop that key from the file's metadata",
            ) from error

    def write(self) -> bytes:
        """Return the JSON; equal provenance gives equal bytes."""
        return json.dumps(
            {
                "columns": dict(sorted(self.names.mapping.items())),
                "pass_threshold": self.pass_threshold,
                "stages": [
                    {
                        "stage": record.stage,
                        "version": record.version,
                        "options": dict(record.options),
                        "added": list(record.added),
                    }
                    for record in self.stages
                ],
            },
            ensure_ascii=False,
        ).encode()

    def added_by(self, stage: str) -> tuple[str, ...]:
        """Return the columns, by their names in the file, that a stage added earlier."""
        return tuple(name for r in self.stages if r.stage == stage for name in r.added)

    def with_stage(self, record: StageRecord) -> "Provenance":
        """Return this with a stage's record in the last place, an earlier run's removed."""
        others = tuple(r for r in self.stages if r.stage != record.stage)
        return replace(self, stages=(*others, record))
