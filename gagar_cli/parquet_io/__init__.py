"""Read and write Parquet: a path, a folder or glob as one data set, a URI, a pipe."""

from gagar_cli.parquet_io.parts import Piece, PieceSource, TableSource, pieces_of
from gagar_cli.parquet_io.remote import read_text
from gagar_cli.parquet_io.sink import Sink, check_target, open_sink
from gagar_cli.parquet_io.source import Source, default_output, open_source
from gagar_cli.parquet_io.stored import StoredGroup
from gagar_cli.uris import STDIO

__all__ = [
    "STDIO",
    "Piece",
    "PieceSource",
    "Sink",
    "Source",
    "StoredGroup",
    "TableSource",
    "check_target",
    "default_output",
    "open_sink",
    "open_source",
    "pieces_of",
    "read_text",
]
