"""A folder of Parquet files as an output: it appears whole or not at all, as a file does."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gagar_cli import uris
from gagar_cli.errors import OutputError
from gagar_cli.parquet_io import STDIO, prefixes


def check_folder(target: str) -> None:
    """Raise OutputError where a new folder cannot be made, before any work is spent on it."""
    if target == STDIO:
        raise OutputError(
            "standard output", "cannot take a folder, which --engine ray writes", "-o FOLDER"
        )
    target = uris.local(target)
    if uris.is_remote(target):
        if prefixes.names_under(target):
            raise OutputError(uris.shown(target), "holds something already", "name another -o")
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

    Under a URI it is a prefix within the target, with a name that readers leave out; its files are
    moved when the block ends well, one by one, and removed when it does not.
    """
    target = None if target is None else uris.local(target)
    if target is None:
        yield None
    elif uris.is_remote(target):
        check_folder(target)
        with prefixes.staged(target) as stage:
            yield stage
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


def file_in(folder: str, name: str) -> str:
    """Return the path or URI of a file in a folder."""
    return uris.within(folder, name) if uris.is_remote(folder) else f"{folder}/{name}"
