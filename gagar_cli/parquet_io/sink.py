"""Write Parquet: a path, a URI, a pipe; all or nothing."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa

from gagar_cli import uris
from gagar_cli.errors import OutputError
from gagar_cli.parquet_io import remote
from gagar_cli.parquet_io.encodings import encodings_for
from gagar_cli.parquet_io.footer import Footer
from gagar_cli.parquet_io.source import Source
from gagar_cli.parquet_io.stored import StoredGroup
from gagar_cli.parquet_io.writer import RowGroupWriter
from gagar_cli.uris import STDIO

_ROW_GROUP_ROWS = 1_000  # of a file that is like no other
_ROW_GROUP_BYTES = 256 << 20  # a row group is written at this size, if not full before


class Sink:
    """Where Parquet is written; use `open_sink`."""

    def __init__(self, stream: IO[bytes], schema: pa.Schema, like: Source | None) -> None:
        """Write to a stream, with the codecs, encodings and row groups of the source, if any."""
        self._row_group_rows = like.row_group_rows if like else _ROW_GROUP_ROWS
        self._held: list[pa.RecordBatch] = []
        self._held_rows = self._held_bytes = 0
        encodings = encodings_for(schema, like.encodings if like else {})
        self._writer = RowGroupWriter(stream, schema, encodings)

    @property
    def footer(self) -> Footer:
        """What the footer says of the columns."""
        return self._writer.footer

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        while len(batch):
            part = batch.slice(0, self._row_group_rows - self._held_rows)
            batch = batch.slice(len(part))
            self._held.append(part)
            self._held_rows += len(part)
            self._held_bytes += part.nbytes
            if self._held_rows >= self._row_group_rows or self._held_bytes >= _ROW_GROUP_BYTES:
                self._flush()

    def copy(self, group: StoredGroup, added: pa.Table) -> None:
        """Append the rows of a row group as it is stored, with new columns."""
        self._flush()  # what is held may be less than a row group, never less than one row
        self._writer.copy(group, added)

    def _flush(self) -> None:
        if self._held:
            self._writer.encode(pa.Table.from_batches(self._held))
        self._held, self._held_rows, self._held_bytes = [], 0, 0

    def close(self) -> None:
        """Write the rest and the footer."""
        self._flush()
        self._writer.close()

    def abort(self) -> None:
        """Make sure that no footer follows: half a file must not look like a whole one."""
        self._writer.abandon()


@contextmanager
def open_sink(target: str, schema: pa.Schema, like: Source | None = None) -> Iterator[Sink]:
    """Open a path, a URI, or standard output (`-`) for writing; all or nothing.

    A path gets a temporary file beside it, which is synced and renamed when the block ends well
    and removed when it does not. What cannot be written raises OutputError. A reader that goes
    away raises BrokenPipeError.
    """
    target = uris.local(target)
    try:
        if target == STDIO:
            with _sink_on(sys.stdout.buffer, schema, like) as sink:
                yield sink
        elif uris.is_remote(target):
            with remote.uploaded(target) as stream, _sink_on(stream, schema, like) as sink:
                yield sink
        else:
            with _renamed(Path(target)) as stream, _sink_on(stream, schema, like) as sink:
                yield sink
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(
            uris.shown(target) if target != STDIO else "standard output",
            f"cannot be written ({error.strerror or error})",
            "free some space" if error.errno == errno.ENOSPC else "name another -o",
        ) from error


def check_target(target: str) -> None:
    """Raise OutputError where a file cannot be made at a path, before any work is spent on it."""
    target = uris.local(target)
    if uris.is_remote(target):
        remote.check_object(target)
    if target == STDIO or uris.is_remote(target):
        return
    path = Path(target)
    if path.is_dir():
        raise OutputError(target, "is a folder, expected a file name", "name another -o")
    if not path.parent.is_dir():
        raise OutputError(target, "its folder is not there", f"mkdir -p {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise OutputError(target, "may not be written", "name another -o")


@contextmanager
def _sink_on(stream: IO[bytes], schema: pa.Schema, like: Source | None) -> Iterator[Sink]:
    sink = Sink(stream, schema, like)
    try:
        yield sink
        sink.close()
    except BaseException:
        sink.abort()
        raise


@contextmanager
def _renamed(path: Path) -> Iterator[IO[bytes]]:
    check_target(str(path))
    if path.exists() and not path.is_file():  # a device or a named pipe has no "whole or not"
        with path.open("wb") as stream:
            yield stream
        return
    real = Path(os.path.realpath(path))
    temporary = real.with_name(f".{real.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(real)
        _sync_folder(real.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
