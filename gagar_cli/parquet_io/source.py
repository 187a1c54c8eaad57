"""Read Parquet: a path, a folder or glob as one data set, a URI, a pipe.

Record batches stream in order, only the columns asked for.
"""

import glob
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gagar_cli import uris
from gagar_cli.errors import SourceError
from gagar_cli.parquet_io import remote
from gagar_cli.parquet_io.ahead import ahead
from gagar_cli.parquet_io.batches import batches_of, conformed, kept
from gagar_cli.parquet_io.encodings import Encoding, encodings_of
from gagar_cli.parquet_io.footer import Footer
from gagar_cli.parquet_io.reading import reading
from gagar_cli.parquet_io.stored import OpenFile, StoredGroup, portions_of
from gagar_cli.uris import STDIO

_DEFAULT_ROW_GROUP = 1 << 20
_AHEAD = 4  # batches, so that decoding goes on while a whole row group is encoded


@dataclass(frozen=True)
class Source:
    """A Parquet data set: one or more files with one schema, in order."""

    name: str
    files: tuple[OpenFile, ...]
    folder: Path | None  # where its relative names are looked up; None for pipes and URIs
    paths: tuple[str, ...] = ()  # what opens each file alone, in another process; none for pipes

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of all files; types that differ raise SourceError."""
        schemas = [file.schema_arrow for file in self.files]
        if all(schema.equals(schemas[0], check_metadata=True) for schema in schemas):
            return schemas[0]
        try:
            return pa.unify_schemas(schemas).with_metadata(schemas[0].metadata)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise SourceError(
                self.name, f"its files have columns of different types ({error})"
            ) from error

    @cached_property
    def rows(self) -> int:
        """All rows."""
        return sum(file.metadata.num_rows for file in self.files)

    @cached_property
    def row_group_rows(self) -> int:
        """The length of the longest row group, which an output keeps."""
        sizes = [
            file.metadata.row_group(i).num_rows
            for file in self.files
            for i in range(file.metadata.num_row_groups)
        ]
        return max(sizes, default=0) or _DEFAULT_ROW_GROUP

    @cached_property
    def encodings(self) -> dict[str, Encoding]:
        """How each leaf column is written, by its path."""
        return encodings_of(self.files)

    def parts(self) -> Iterator[tuple[OpenFile, list[int]]]:
        """Yield each file, with the numbers of its row groups."""
        for file in self.files:
            yield file, list(range(file.metadata.num_row_groups))

    def batches(
        self, columns: Sequence[str] | None = None, keep: NDArray[np.bool_] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows in order, all columns or those named, under the data set's schema.

        keep: (rows,) bool, the rows to yield; None for all. The next batches are decoded while
        the last one is in use.
        """
        batches = self._batches(self._selected(columns))
        return ahead(batches if keep is None else kept(batches, keep), _AHEAD)

    def portions(
        self, columns: Sequence[str], keep: NDArray[np.bool_] | None, target: Footer
    ) -> Iterator[pa.RecordBatch | StoredGroup]:
        """Yield rows as `batches` does, for a file with the footer `target`.

        Row groups that are kept whole come as they are stored, where they can be copied to it.
        """
        return ahead(self._portions(self._selected(columns), keep, target), _AHEAD)

    def _portions(
        self, schema: pa.Schema, keep: NDArray[np.bool_] | None, target: Footer
    ) -> Iterator[pa.RecordBatch | StoredGroup]:
        first = 0
        for file, groups in self.parts():
            rows = sum(file.metadata.row_group(number).num_rows for number in groups)
            mask = None if keep is None else keep[first : first + rows]
            first += rows
            with reading(self.name):
                # What a file lacks keeps it from fitting: it is decoded, and made null.
                names = _present(schema, file)
                whole = target if len(names) == len(schema) else None
                for portion in portions_of(file, groups, names, mask, whole):
                    stored = isinstance(portion, StoredGroup)
                    yield portion if stored else conformed(portion, schema)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read whole columns."""
        schema = self._selected(columns)
        tables = []
        for file, groups in self.parts():
            with reading(self.name):
                table = file.read_row_groups(groups, columns=_present(schema, file))
                tables.append(conformed(table, schema).replace_schema_metadata(None))
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for file, groups in self.parts():
            with reading(self.name):
                for batch in batches_of(file, groups, _present(schema, file)):
                    yield conformed(batch, schema)

    def _selected(self, columns: Sequence[str] | None) -> pa.Schema:
        if columns is None:
            return self.schema
        return pa.schema([self.schema.field(n) for n in columns], metadata=self.schema.metadata)


def open_source(spec: str | None) -> Source:
    """Open a path, a folder, a glob, a URI, or standard input (`-` or None).

    What is not readable as Parquet raises SourceError. A pipe is spooled to disk first, since
    Parquet is read from its end; a redirected file is read in place.
    """
    if spec is None or spec == STDIO:
        return _open_stdin()
    spec = uris.local(spec)
    if uris.is_remote(spec):
        return _open_uri(spec)
    path = Path(spec)
    if path.is_dir():
        paths = sorted(p for p in path.rglob("*.parquet") if _is_data(p.relative_to(path)))
        folder = path
    elif path.exists():
        paths, folder = [path], path.parent
    else:
        found = sorted(Path(name) for name in glob.glob(spec, recursive=True))  # noqa: PTH207
        paths = [path for path in found if path.is_file() and _is_data(Path(path.name))]
        folder = path.parent
        if not paths:
            raise SourceError(spec, "no such file, expected Parquet", "check the path")
    if not paths:
        raise SourceError(spec, "no *.parquet file in this folder")
    return Source(
        spec,
        tuple(_open_file(str(p), p) for p in paths),
        folder.resolve(),
        tuple(str(p.resolve()) for p in paths),
    )


def _is_data(path: Path) -> bool:
    """Whether no part of the path is hidden or marked as bookkeeping."""
    return not any(part.startswith((".", "_")) for part in path.parts)


def _open_stdin() -> Source:
    name = "standard input"
    if sys.stdin is None:
        raise SourceError(name, "is closed, expected Parquet", "name an INPUT, or pipe one in")
    stdin = sys.stdin.buffer
    if sys.stdin.isatty():
        raise SourceError(name, "is a terminal, expected Parquet", "name an INPUT, or pipe one in")
    if stat.S_ISREG(os.fstat(stdin.fileno()).st_mode):
        return Source(name, (_open_file(name, stdin),), None)
    spool = tempfile.TemporaryFile(prefix="gagar-stdin-")  # noqa: SIM115  lives with the Source
    try:
        shutil.copyfileobj(stdin, spool, 1 << 20)
    except OSError as error:
        raise SourceError(
            name, f"cannot be spooled to {tempfile.gettempdir()} ({error.strerror})", "set TMPDIR"
        ) from error
    if spool.tell() == 0:
        raise SourceError(name, "is empty, expected Parquet", "see the command before it")
    spool.seek(0)
    return Source(name, (_open_file(name, spool),), None)


def _open_uri(uri: str) -> Source:
    found = remote.find_objects(uri)
    with ThreadPoolExecutor(remote.THREADS) as pool:  # each takes some requests, one after another
        files = tuple(pool.map(_open_object, found))
    return Source(uris.shown(uri), files, None, tuple(entry.uri for entry in found))


def _open_object(found: remote.Object) -> OpenFile:
    with remote.telling(SourceError, found.uri):
        stream = found.open()
    return _open_file(uris.shown(found.uri), stream)


def _open_file(name: str, file: Path | IO[bytes] | pa.NativeFile) -> OpenFile:
    with reading(name):
        if isinstance(file, Path) and file.stat().st_size == 0:
            raise SourceError(name, "is an empty file, expected Parquet")
        if isinstance(file, pa.NativeFile):
            # From afar, the columns of a row group come in a few requests, not in one for each.
            return OpenFile(name, file, pre_buffer=True)
        stream = pa.OSFile(str(file)) if isinstance(file, Path) else pa.PythonFile(file, "r")
        return OpenFile(name, stream, pre_buffer=False)


def _present(schema: pa.Schema, file: OpenFile) -> list[str]:
    return [name for name in schema.names if name in file.schema_arrow.names]


def default_output(spec: str | None, stage: str, suffix: str = ".parquet") -> str:
    """Return `<stem>.<stage><suffix>` beside the input; in the working folder for a pipe."""
    end = f".{stage}{suffix}"
    if spec is None or spec == STDIO:
        return f"stdin{end}"
    spec = uris.local(spec)
    if uris.is_remote(spec):
        return uris.beside(spec, end)
    path = Path(spec)
    if glob.has_magic(spec) and not path.exists():  # named by the folder above its wildcards
        plain = [part for part in path.parts if not glob.has_magic(part)]
        path = Path(*plain) if plain else Path("rollouts")
    stem = path.name.removesuffix(".parquet") or path.resolve().name
    return str(path.parent / f"{stem}{end}")
