"""The journal of votes: what was answered once is not paid for again.

One SQLite file in WAL mode. A vote is committed as soon as it is valid, under a key that stands for
everything it depends on, so a process that is killed at any moment loses only the votes that were
under way. Votes without a valid verdict are not kept.
"""

import asyncio
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from platformdirs import user_cache_path

from gagar_cli.errors import OutputError

T = TypeVar("T")

_VERSION = 1
_BUSY_SECONDS = 60.0  # another run may be writing to the same journal
_TABLE = """
CREATE TABLE IF NOT EXISTS votes (
    key TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    kept_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    vote BLOB NOT NULL
) WITHOUT ROWID
"""


def default_path() -> Path:
    """Return the journal in the user's cache folder."""
    return user_cache_path("gagar", appauthor=False) / "votes.sqlite"


class VoteStore(Protocol):
    """Keeps votes by key."""

    async def find(self, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the votes that were kept under some keys, by key."""

    async def keep(self, key: str, model: str, vote: Mapping[str, Any]) -> None:
        """Keep a valid vote."""


class Journal:
    """Votes by key. SQLite is called in one thread of its own, so nobody waits for the disk."""

    def __init__(self, path: Path) -> None:
        """Open a journal, or make one; a file that is none raises OutputError."""
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gagar-journal")
        try:
            self._database = self._thread.submit(self._open).result()
        except BaseException:
            self._thread.shutdown()
            raise

    async def find(self, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the votes that were kept under some keys, by key."""
        return await self._run(lambda: self._find(keys))

    async def keep(self, key: str, model: str, vote: Mapping[str, Any]) -> None:
        """Keep a valid vote; it is on disk when this returns."""
        await self._run(lambda: self._keep(key, model, vote))

    def take_in(self, votes: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
        """Keep many votes at once: keys, models, votes."""

        def take_in() -> None:
            self._database.execute("BEGIN")
            for key, model, vote in votes:
                self._keep(key, model, vote)
            self._database.execute("COMMIT")
            # All of it in the one file: workers on other machines read nothing else.
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        self._thread.submit(self._told, take_in).result()

    def close(self) -> None:
        """Let go of the file."""
        self._thread.submit(self._database.close).result()
        self._thread.shutdown()

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._told, call)

    def _told(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except sqlite3.Error as error:
            raise OutputError(
                f"journal {self._path}",
                f"cannot be used ({error})",
                "--journal PATH for another, or --no-journal",
            ) from error

    def _open(self) -> sqlite3.Connection:
        return self._told(self._connect)

    def _connect(self) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise sqlite3.OperationalError(error.strerror or str(error)) from error
        database = sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        # A commit is in the file after a kill, though a power failure may take the last ones.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            raise sqlite3.DatabaseError("a newer gagar made it")
        database.execute(_TABLE)
        database.execute(f"PRAGMA user_version = {_VERSION}")
        return database

    def _find(self, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        found = {}
        for key in keys:
            row = self._database.execute("SELECT vote FROM votes WHERE key = ?", (key,)).fetchone()
            if row is not None:
                # A row that does not read is as good as none: the vote is asked for again.
                with suppress(ValueError, zlib.error):
                    found[key] = json.loads(zlib.decompress(row[0]))
        return found

    def _keep(self, key: str, model: str, vote: Mapping[str, Any]) -> None:
        packed = zlib.compress(json.dumps(vote, ensure_ascii=False).encode(), 1)
        self._database.execute(
            "INSERT OR REPLACE INTO votes (key, model, vote) VALUES (?, ?, ?)", (key, model, packed)
        )
