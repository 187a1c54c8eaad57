"""Write what was selected as a folder that one trainer loads."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa

from gagar_cli import __version__
from gagar_cli.errors import DataError
from gagar_cli.parquet_io import Source, open_sink
from gagar_cli.sft.folder import check_folder, whole_folder
from gagar_cli.sft.options import Profile, SftOptions
from gagar_cli.sft.profiles import SHAPES, Row, Shape, dataset_info
from gagar_cli.sft.selection import References, Selection, select
from gagar_cli.sft.votes import read_conversations, read_votes
from gagar_cli.uris import is_remote, shown

MANIFEST = "export.json"


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: how many votes were read, what was selected, and the file of each split.

    load: how the trainer is told to load it.
    """

    votes: int
    selection: Selection
    files: Mapping[str, str]
    load: str


def export_sft(  # noqa: PLR0913
    sources: Sequence[Source],
    folder: str,
    profile: Profile,
    options: SftOptions,
    references: References | None = None,
    *,
    reference: str | None = None,
    overwrite: bool = False,
) -> Exported:
    """Select votes and write them; the folder appears whole or not at all.

    reference: what the references are, for the manifest. Rows stand in the order of the sources. A
    split without votes has no file; where train would have none, DataError says why.
    """
    check_folder(folder, MANIFEST, overwrite=overwrite)
    votes = read_votes(sources)
    selection = select(votes, options, references)
    if not selection.kept["train"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in selection.dropped.items())
        raise DataError(
            ", ".join(source.name for source in sources),
            f"none of {len(votes)} votes can be trained on ({reasons or 'no votes'})",
            "see the bounds in gagar export-sft --help",
        )
    shape = SHAPES[profile]
    names = {side: f"{side}.{shape.suffix}" for side, kept in selection.kept.items() if kept}
    place = shown(folder).partition("?")[0] if is_remote(folder) else folder
    exported = Exported(len(votes), selection, names, shape.load.format(folder=place))
    with whole_folder(folder, MANIFEST, overwrite=overwrite) as new:
        _write_splits(new, sources, shape, exported)
        if profile is Profile.LLAMA_FACTORY:
            _write_json(new / "dataset_info.json", dataset_info(list(names.values())))
        if profile is Profile.VERL:
            code = files("gagar_cli.sft").joinpath("verl_dataset.py").read_bytes()
            (new / "verl_dataset.py").write_bytes(code)
        _write_json(new / MANIFEST, _manifest(exported, sources, profile, options, reference))
    return exported


def _write_splits(
    folder: Path, sources: Sequence[Source], shape: Shape, exported: Exported
) -> None:
    side_of = {vote.row: side for side, votes in exported.selection.kept.items() for vote in votes}
    with ExitStack() as stack:
        write = {
            side: stack.enter_context(_rows_written(folder / name, shape.schema))
            for side, name in exported.files.items()
        }
        for row, conversation in read_conversations(sources, frozenset(side_of)):
            write[side_of[row]](shape.row(conversation))


@contextmanager
def _rows_written(path: Path, schema: pa.Schema | None) -> Iterator[Callable[[Row], object]]:
    """Lend a function that appends a row: a line of JSON, or of Parquet under a schema."""
    if schema is None:
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            yield lambda row: stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    else:
        with open_sink(str(path), schema) as sink:
            yield lambda row: sink.write(pa.RecordBatch.from_pylist([row], schema))


def _manifest(
    exported: Exported,
    sources: Sequence[Source],
    profile: Profile,
    options: SftOptions,
    reference: str | None,
) -> dict[str, Any]:
    selection = exported.selection
    return {
        "gagar": __version__,
        "profile": str(profile),
        "load": exported.load,
        "options": asdict(options),
        "reference": reference or "consensus",
        "transcripts": [source.name for source in sources],
        "votes": exported.votes,
        "dropped": dict(selection.dropped),
        "splits": {
            side: {
                "file": exported.files.get(side),
                "conversations": len(votes),
                "tasks": len({vote.task_id for vote in votes}),
                "characters": sum(vote.characters for vote in votes),
                "mean_tau": fmean(selection.tau[v.row] for v in votes) if votes else None,
                "places_of_winners": [asdict(entry) for entry in selection.places[side]],
            }
            for side, votes in selection.kept.items()
        },
        "notes": list(selection.notes),
    }


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")
