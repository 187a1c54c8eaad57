"""One function over many pieces, on all cores.

Threads do, since Arrow and NumPy let go of the interpreter's lock while they work on a piece.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def on_all_cores(function: Callable[[Piece], Result], pieces: Iterable[Piece]) -> list[Result]:
    """Return the function's results in the order of the pieces; the first error is raised."""
    pieces = list(pieces)
    if len(pieces) < 2 or pa.cpu_count() < 2:  # noqa: PLR2004  nothing to share
        return [function(piece) for piece in pieces]
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        return list(pool.map(function, pieces))
