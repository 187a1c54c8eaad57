"""Read and write Parquet: a path, a folder or glob as one data set, a URI, a pipe."""

from gagar_cli.parquet_io.sink import Sink, check_target, open_sink
from gagar_cli.parquet_io.source import STDIO, Source, default_output, open_source

__all__ = ["STDIO", "Sink", "Source", "check_target", "default_output", "open_sink", "open_source"]
