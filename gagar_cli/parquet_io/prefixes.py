"""A prefix of remote objects as a folder that appears whole or not at all, as far as can be.

Nothing can be renamed at once where there are no folders. So files are written under a name that
readers leave out, and moved one by one when all are there.
"""

import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from gagar_cli import uris
from gagar_cli.errors import OutputError
from gagar_cli.parquet_io import remote


def names_under(uri: str) -> list[str]:
    """Return the names of all objects under a prefix; one that is not there has none.

    An object of that very name raises OutputError.
    """
    from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415  loads S3

    with remote.telling(OutputError, uri):
        system, path = remote.reached(uri)
        if remote.info(system, path).type == FileType.File:
            raise OutputError(uris.shown(uri), "is a file, expected a folder", "name another -o")
        found = system.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        return [remote.name_below(entry.path, path) for entry in found if entry.is_file]


@contextmanager
def staged(uri: str) -> Iterator[str]:
    """Lend a prefix whose objects move to this one when the block ends well, and else are gone."""
    stage = uris.within(uri, f"_gagar-{uuid.uuid4().hex[:8]}")
    try:
        yield stage
        _move(stage, uri)
        _remove(stage)
    except BaseException:
        with suppress(OutputError):  # the first error is the one to tell
            _remove(stage)
            if not names_under(uri):
                _remove(uri)  # what S3 keeps in place of an empty folder
        raise


def replace_files(uri: str, files: Sequence[Path]) -> None:
    """Upload files of this machine as all that a prefix holds; the last one stands for the whole.

    Where one fails, those of them that are new are removed again.
    """
    before = set(names_under(uri))
    new = [file.name for file in files if file.name not in before]
    try:
        for file in files:
            with file.open("rb") as content:
                remote.upload(content, uris.within(uri, file.name))
    except BaseException:
        with suppress(OutputError):
            _delete(uri, new)
        raise
    _delete(uri, sorted(before - {file.name for file in files}))


def _move(source: str, target: str) -> None:
    names = names_under(source)
    with remote.telling(OutputError, target):
        system, path = remote.reached(target)
        _, start = remote.reached(source)
        try:
            with ThreadPoolExecutor(remote.THREADS) as pool:
                list(pool.map(lambda name: system.move(f"{start}/{name}", f"{path}/{name}"), names))
        except BaseException:
            with suppress(OutputError):
                _delete(target, names)
            raise


def _remove(uri: str) -> None:
    from pyarrow.fs import FileType  # noqa: PLC0415

    with remote.telling(OutputError, uri):
        system, path = remote.reached(uri)
        if remote.info(system, path).type == FileType.Directory:
            system.delete_dir(path)


def _delete(uri: str, names: Sequence[str]) -> None:
    with remote.telling(OutputError, uri):
        system, path = remote.reached(uri)
        for name in names:
            with suppress(FileNotFoundError):
                system.delete_file(f"{path}/{name}")
