"""A folder of Parquet files as an output: it appears whole or not at all, as a file does."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.fs

from gagar_cli.errors import OutputError
from gagar_cli.parquet_io import REMOTE, STDIO


def check_folder(target: str) -> None:
    """Raise OutputError where a new folder cannot be made, before any work is spent on it."""
    if target == STDIO:
        raise OutputError(
            "standard output", "cannot take a folder, which --engine ray writes", "-o FOLDER"
        )
    if target.startswith(REMOTE):
        if _listed(target):
            raise OutputError(target, "holds something already", "name another -o")
        return
    path = Path(target)
    if path.exists() and not path.is_dir():
        raise OutputError(target, "is a file, expected a folder to make", "name another -o")
    if path.is_dir() and any(path.iterdir()):
        raise OutputError(target, "is a folder that is not empty", "name another -o")
    parent = Path(os.path.abspath(path)).parent  # noqa: PTH100  a link stays where it stands
    if not parent.is_dir():
        raise OutputError(target, "its folder is not there", f"mkdir -p {parent}")
    if not os.access(parent, os.W_OK):
        raise OutputError(target, "may not be written", "name another -o")


@contextmanager
def new_folder(target: str | None) -> Iterator[str | None]:
    """Lend a temporary folder beside the target, which becomes it when the block ends well.

    Under a URI, where nothing can be renamed, the target itself is lent, and emptied when the block
    does not end well.
    """
    if target is None:
        yield None
    elif target.startswith(REMOTE):
        try:
            yield target
        except BaseException:
            system, path = pa.fs.FileSystem.from_uri(target)
            system.delete_dir_contents(path, missing_dir_ok=True)
            raise
    else:
        check_folder(target)
        path = Path(os.path.abspath(target))  # noqa: PTH100
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            temporary.mkdir()
            yield str(temporary)
            temporary.replace(path)
        except OSError as error:
            raise OutputError(
                target, f"cannot be written ({error.strerror})", "name another -o"
            ) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _listed(uri: str) -> bool:
    try:
        system, path = pa.fs.FileSystem.from_uri(uri)
        found = system.get_file_info(pa.fs.FileSelector(path, allow_not_found=True))
        return bool(found) or system.get_file_info(path).type == pa.fs.FileType.File
    except (pa.ArrowException, OSError, ValueError) as error:
        raise OutputError(uri, f"cannot be reached ({error})", "name another -o") from error
