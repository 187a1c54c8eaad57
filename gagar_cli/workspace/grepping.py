"""Search texts, in files and in memory, for an extended regular expression, up to a bound.

GNU grep does it, which is faster than `git grep` for most expressions; files go to several at
once. Where grep is another one, callers ask git. Lines are told in the order of what was given.
"""

import os
import re
import shutil
import subprocess
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from threading import Timer
from typing import IO, cast

from gagar_cli.errors import SourceError

MOST_BYTES = 4_000_000  # of the lines found, with their paths
_ARGUMENT_BYTES = 500_000  # of one command; systems take a megabyte or more
_SECONDS = 60.0  # for one command
_PROCESSES = min(4, os.cpu_count() or 1)
_BINARY_BYTES = 8_000  # a NUL in these makes a file binary, as for git


@dataclass(frozen=True, slots=True)
class RawHit:
    """A line found; `place` says in what, `line` counts from 1."""

    place: bytes
    line: int
    text: bytes


@dataclass(frozen=True, slots=True)
class RawHits:
    """Lines found; below `last`, where it is set, nothing was looked at."""

    hits: list[RawHit]
    last: RawHit | None = None


@cache
def has_grep() -> bool:
    """Whether GNU grep is there; others differ in what expressions mean."""
    program = shutil.which("grep")
    if program is None:
        return False
    told = subprocess.run([program, "--version"], capture_output=True, check=False).stdout
    return b"GNU grep" in told.split(b"\n")[0]


def is_binary(content: bytes) -> bool:
    """Whether content counts as binary, which is not searched."""
    return b"\0" in content[:_BINARY_BYTES]


def read_hits(output: bytes, separator: bytes = b":") -> list[RawHit]:
    """Read lines `place NUL number SEPARATOR text`; a last one that is not whole is left out."""
    line = re.compile(rb"([^\0]+)\0(\d+)%s([^\n]*)\n" % separator)
    return [RawHit(m[1].removeprefix(b"./"), int(m[2]), m[3]) for m in line.finditer(output)]


def grep_files(
    folder: Path, paths: Sequence[bytes], pattern: str, *, fixed: bool
) -> RawHits | None:
    """Search files of a folder, binary ones as well; None where one of them cannot be read.

    A bad expression, and one that takes too long, raises SourceError.
    """
    parts = list(_parts(paths))
    with ThreadPoolExecutor(_PROCESSES) as pool:
        outputs = list(pool.map(lambda part: _grep(folder, part, pattern, fixed=fixed), parts))
    hits: list[RawHit] = []
    for found in outputs:
        if found is None:
            return None
        hits += found.hits
        if found.last:
            return RawHits(hits, found.last)
    return RawHits(hits)


def grep_texts(texts: Mapping[bytes, bytes], pattern: str, *, fixed: bool) -> RawHits:
    """Search texts by name; errors as with files."""
    whole = [text + b"\n" * (text[-1:] not in b"\n") for text in texts.values()]
    ends = list(accumulate(text.count(b"\n") for text in whole))
    with tempfile.TemporaryFile() as feed:
        feed.writelines(whole)
        feed.seek(0)
        found = _grep(None, [b"-"], pattern, fixed=fixed, feed=feed.fileno()) or RawHits([])
    names = list(texts)

    def placed(hit: RawHit) -> RawHit:
        place = bisect_right(ends, hit.line - 1)
        return RawHit(names[place], hit.line - (ends[place - 1] if place else 0), hit.text)

    return RawHits([placed(hit) for hit in found.hits], found.last and placed(found.last))


def _parts(paths: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Cut paths into as many parts as there are processes, or more where they get too long."""
    size = sum(map(len, paths)) + len(paths)
    number = max(_PROCESSES, size // _ARGUMENT_BYTES + 1)
    step = max(1, -(-len(paths) // number))
    # Without any path the expression is still looked at.
    yield from (paths[n : n + step] for n in range(0, len(paths) or 1, step))


def _grep(
    folder: Path | None,
    paths: Sequence[bytes],
    pattern: str,
    *,
    fixed: bool,
    feed: int | None = None,
) -> RawHits | None:
    # A file of this name would be taken for standard input.
    names = [b"./-" if path == b"-" and feed is None else path for path in paths]
    options = ["-a", "-s", "-n", "-Z", "-H", "-F" if fixed else "-E", "-e", pattern, "--"]
    process = subprocess.Popen(
        ["grep", *options, *(names or [os.fsencode(os.devnull)])],
        cwd=folder,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL if feed is None else feed,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    late = Timer(_SECONDS, process.kill)
    late.start()
    try:
        with process:
            found = cast("IO[bytes]", process.stdout).read(MOST_BYTES + 1)
            is_cut = len(found) > MOST_BYTES
            if is_cut:
                process.kill()
            told = cast("IO[bytes]", process.stderr).read().decode("utf-8", "replace")
    finally:
        late.cancel()
    if is_cut:
        # A single line that is too long is told in part.
        hits = read_hits(found) or read_hits(found[:MOST_BYTES] + b"\n")
        return RawHits(hits, hits[-1])
    if process.returncode < 0:
        raise SourceError("search", f"nothing within {_SECONDS:g} s, expected a simpler expression")
    if process.returncode > 1:
        problems = [line for line in told.splitlines() if "warning:" not in line]
        if problems:
            raise SourceError("search", problems[0].removeprefix("grep: "))
        return None
    return RawHits(read_hits(found))
