"""A folder of output that appears whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gagar_cli import uris
from gagar_cli.errors import OutputError
from gagar_cli.parquet_io import prefixes


@contextmanager
def whole_folder(target: str, marker: str, *, overwrite: bool) -> Iterator[Path]:
    """Lend a folder beside the target, which takes its place when the block ends well.

    An existing target must be an empty folder, or with `overwrite` one that holds a file `marker`:
    what nobody exported is never deleted. Else, and where it cannot be written, OutputError. For a
    URI the folder is a temporary one of this machine, whose files are uploaded, the marker last.
    """
    check_folder(target, marker, overwrite=overwrite)
    target = uris.local(target)
    if uris.is_remote(target):
        with tempfile.TemporaryDirectory(prefix="gagar-upload-") as folder:
            yield Path(folder)
            files = sorted(Path(folder).iterdir(), key=lambda file: (file.name == marker, file))
            prefixes.replace_files(target, files)
        return
    real = Path(os.path.realpath(target))
    new = real.with_name(f".{real.name}.{os.getpid()}.tmp")
    old = real.with_name(f".{real.name}.{os.getpid()}.old")
    try:
        new.mkdir()
        yield new
        for file in new.iterdir():
            _sync(file)
        _sync(new)
        if real.exists():
            real.rename(old)
        new.rename(real)
        _sync(real.parent)
    except OSError as error:
        raise OutputError(
            target, f"cannot be written ({error.strerror or error})", "name another -o"
        ) from error
    finally:
        if old.exists() and not real.exists():
            old.rename(real)
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)


def check_folder(target: str, marker: str, *, overwrite: bool) -> None:
    """Raise OutputError where the folder cannot be made, before any work is spent on it."""
    target = uris.local(target)
    if uris.is_remote(target):
        _check_names(target, prefixes.names_under(target), marker, overwrite=overwrite)
        return
    path = Path(target)
    if not Path(os.path.realpath(path)).parent.is_dir():
        raise OutputError(target, "its folder is not there", f"mkdir -p {path.parent}")
    if not path.exists():
        return
    if not path.is_dir():
        raise OutputError(target, "is a file, expected a folder", "name another -o")
    names = [entry.name + "/" * entry.is_dir() for entry in path.iterdir()]
    _check_names(target, names, marker, overwrite=overwrite)


def _check_names(target: str, names: Sequence[str], marker: str, *, overwrite: bool) -> None:
    where = uris.shown(target)
    if names and marker not in names:
        raise OutputError(where, f"is not empty, and no export: no {marker}", "name another -o")
    if names and not overwrite:
        raise OutputError(where, "holds an export", "--overwrite, or name another -o")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
