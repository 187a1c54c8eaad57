"""What reading Parquet raises, in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from gagar_cli import uris
from gagar_cli.errors import SourceError
from gagar_cli.parquet_io import remote


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn what reading may raise into SourceError."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        if uris.is_remote(name) and (lost := remote.meaning(error)):
            raise SourceError(name, *lost) from error
        raise SourceError(
            name, f"is not a whole, readable Parquet file ({short(error)})"
        ) from error


def short(error: Exception) -> str:
    """Return the first line of an error's text."""
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__
