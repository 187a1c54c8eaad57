"""Git processes that stay, and answer one question after another.

Starting git takes milliseconds, asking one that runs a fraction of one. The last few that nobody
asks wait for the next who does; each is asked by one thread at a time. What one does not answer
in full raises OSError, and a process of its own can be asked instead.
"""

import atexit
import os
import secrets
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from io import BufferedReader, BufferedWriter

MOST_IDLE = 8
_AT_ONCE = 100  # questions that a pipe holds while nobody reads the answers


class Talk:
    """One process: `git cat-file --batch` or `git diff-tree --stdin`."""

    def __init__(self, arguments: Sequence[str], git_dir: Path, env: Mapping[str, str]) -> None:
        """Start it; no such program or folder raises OSError."""
        self.process = subprocess.Popen(
            ["git", *arguments],
            cwd=git_dir,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._in = cast("BufferedWriter", self.process.stdin)
        self._out = cast("BufferedReader", self.process.stdout)

    def objects(self, names: Sequence[str]) -> Iterator[tuple[str, str, bytes]]:
        """Yield name, type and content of those objects that are there; of `cat-file --batch`."""
        for first in range(0, len(names), _AT_ONCE):
            some = names[first : first + _AT_ONCE]
            self._say("".join(f"{name}\n" for name in some))
            for name in some:
                header = _some(self._out.readline()).split()
                if len(header) == 3:  # noqa: PLR2004  "<oid> <type> <size>", not "<oid> missing"
                    yield name, header[1].decode(), self._bytes(int(header[2]))

    def difference(self, old: str, new: str) -> bytes:
        """Return what `diff-tree --stdin` prints of two trees."""
        # Git repeats a line that names no object: that is how the end is known.
        mark = f"end {secrets.token_hex(16)}\n"
        self._say(f"{old} {new}\n{mark}")
        end, found = mark.encode(), bytearray()
        if _some(self._out.readline()) == end:  # not the two names: one is no tree that is there
            raise BrokenPipeError
        while not found.endswith(end):
            found += _some(self._out.read1())
        return bytes(found[: -len(end)])

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            self._in.close()
        self._out.close()
        self.process.wait()

    def _say(self, text: str) -> None:
        self._in.write(text.encode())
        self._in.flush()

    def _bytes(self, size: int) -> bytes:
        raw = self._out.read(size + 1)
        if len(raw) <= size:
            raise BrokenPipeError
        return raw[:-1]


def _some(raw: bytes) -> bytes:
    if not raw:
        raise BrokenPipeError
    return raw


_Key = tuple[int, Path, tuple[str, ...]]


class _Idle:
    """Processes that nobody asks, those that waited longest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.waiting: list[tuple[_Key, Talk]] = []

    def take(self, key: _Key) -> Talk | None:
        with self._lock:
            for place in reversed(range(len(self.waiting))):
                if self.waiting[place][0] == key:
                    return self.waiting.pop(place)[1]
        return None

    def give(self, key: _Key, talk: Talk) -> None:
        with self._lock:
            self.waiting.append((key, talk))
            surplus = self.waiting[:-MOST_IDLE]
            del self.waiting[:-MOST_IDLE]
        for _, other in surplus:
            other.close()

    def close(self) -> None:
        for _, talk in self.waiting:
            talk.close()
        self.waiting.clear()

    def after_fork(self) -> None:
        # Whoever held it does not run here. Those of the parent are never taken: see the key.
        self._lock = threading.Lock()


idle = _Idle()
atexit.register(idle.close)
os.register_at_fork(after_in_child=idle.after_fork)


@contextmanager
def talking(
    git_dir: Path, arguments: Sequence[str], env: Callable[[], Mapping[str, str]]
) -> Iterator[Talk]:
    """Lend a process for some questions; one that was left in the middle of them is ended."""
    key = (os.getpid(), git_dir, tuple(arguments))
    talk = idle.take(key) or Talk(arguments, git_dir, env())
    try:
        yield talk
    except BaseException:
        talk.close()
        raise
    idle.give(key, talk)
