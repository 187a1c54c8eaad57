"""The journal of many workers: each adds lines to a file of its own beside the journal.

    votes.sqlite                      all votes of earlier runs
    votes.sqlite.worker-<run>-<id>    what one worker adds: a line of JSON for each vote

Nobody writes to the journal itself while workers run, and only its owner writes to a worker's file,
so they may stand on a file system that several machines share. A line is written as soon as a vote
is valid; a worker that is killed leaves at most a torn last line, which nobody reads. What workers
leave is taken into the journal at the end of the run, else by the next one.
"""

import fcntl
import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gagar_cli.errors import OutputError
from gagar_cli.grading.journal import Journal

_MARK = ".worker-"


class WorkerJournal:
    """Votes by key: of earlier runs, and of all workers of this one as far as they can be seen."""

    def __init__(self, path: Path, run: str, worker: str) -> None:
        """Open what there is, and a file of the worker's own; `run` and `worker` name it."""
        self._path = path
        own = path.with_name(f"{path.name}{_MARK}{run}-{worker}")
        self._places: dict[str, tuple[Path, int, int]] = {}  # of a vote: file, offset, length
        self._read: dict[Path, int] = {}  # bytes of each file that have been looked at
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._own = own.open("ab", buffering=0)
            fcntl.flock(self._own, fcntl.LOCK_SH)  # whoever takes files in sees that it is in use
            if self._own.tell() and not own.read_bytes().endswith(b"\n"):
                self._own.write(b"\n")  # ends the torn line of a worker that was killed
        except OSError as error:
            raise self._unusable(error) from error

    async def find(self, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the votes that were kept under some keys, by key."""
        found = self._find_merged(keys)
        if missing := [key for key in keys if key not in found]:
            self._look_again()
            for key in missing:
                if key in self._places:
                    path, offset, length = self._places[key]
                    with path.open("rb") as file:
                        found[key] = json.loads(os.pread(file.fileno(), length, offset))["vote"]
        return found

    async def keep(self, key: str, model: str, vote: Mapping[str, Any]) -> None:
        """Keep a valid vote; a kill after this returns does not lose it."""
        line = json.dumps({"key": key, "model": model, "vote": vote})
        try:
            self._own.write(line.encode() + b"\n")
        except OSError as error:
            raise self._unusable(error) from error

    def close(self) -> None:
        """Let go of the file."""
        self._own.close()

    def _find_merged(self, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        if not self._path.exists():
            return found
        # Immutable: nobody writes to it now, and no locks are needed that a network disk may lack.
        address = f"file:{quote(str(self._path.resolve()))}?immutable=1"
        # Where another run writes to it after all, a vote that cannot be read is asked for again.
        with (
            suppress(sqlite3.DatabaseError),
            closing(sqlite3.connect(address, uri=True)) as database,
        ):
            for key in keys:
                row = database.execute("SELECT vote FROM votes WHERE key = ?", (key,)).fetchone()
                if row is not None:
                    with suppress(ValueError, zlib.error):
                        found[key] = json.loads(zlib.decompress(row[0]))
        return found

    def _look_again(self) -> None:
        """Index the lines that have been added to any worker's file since the last look."""
        for file in _files_beside(self._path):
            for line, offset in _lines(file, self._read.get(file, 0)):
                self._read[file] = offset + len(line)
                if (vote := _parsed(line)) is not None:
                    self._places[vote["key"]] = (file, offset, len(line))

    def _unusable(self, error: Exception) -> OutputError:
        return OutputError(
            f"journal {self._path}",
            f"cannot be used ({error})",
            "--journal PATH for another, or --no-journal",
        )


def take_in(path: Path, journal: Journal, run: str | None = None) -> None:
    """Take the votes that workers left beside a journal into it.

    Their files go, but for those that another run is writing to; `run` is one that has ended.
    """
    for file in _files_beside(path):
        with suppress(FileNotFoundError), file.open("rb") as opened:  # another run took it in
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                in_use = False
            except OSError:
                in_use = run is None or not file.name.startswith(f"{path.name}{_MARK}{run}-")
            votes = (_parsed(line) for line, _ in _lines(file, 0))
            journal.take_in((v["key"], v["model"], v["vote"]) for v in votes if v is not None)
            if not in_use:
                file.unlink(missing_ok=True)


def _files_beside(path: Path) -> list[Path]:
    if not path.parent.is_dir():
        return []
    return sorted(p for p in path.parent.iterdir() if p.name.startswith(path.name + _MARK))


def _lines(file: Path, start: int) -> Iterator[tuple[bytes, int]]:
    """Yield the whole lines of a file from an offset on, each with its own offset."""
    with suppress(FileNotFoundError), file.open("rb") as opened:
        opened.seek(start)
        for line in opened:
            if not line.endswith(b"\n"):
                return
            yield line, start
            start += len(line)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return the vote of a line; None for the torn line of a worker that was killed."""
    try:
        read = json.loads(line)
    except ValueError:
        return None
    whole = isinstance(read, dict) and {"key", "model", "vote"} <= read.keys()
    return read if whole else None
