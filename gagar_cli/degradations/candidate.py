"""What a candidate is made of, and what a degradation does to it."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from random import Random

from gagar_cli.degradations.python import Module
from gagar_cli.findings import is_test


@dataclass(frozen=True, slots=True)
class Degraded:
    """A worse candidate: the new text of each file that differs from the good one's.

    A file that is gone is None. `description` says in words what was done, and where.
    """

    edits: Mapping[str, str | None]
    description: str


@dataclass(frozen=True, slots=True)
class CandidateFiles:
    """The files of a candidate, as text.

    base_paths: all paths of the base tree. read_base: gives a file's text there, None where there
    is no such file or it is no text. changed: the new text of what the candidate changes, None for
    what it deletes; files that are no text may be left out.
    """

    base_paths: Collection[str]
    read_base: Callable[[str], str | None]
    changed: Mapping[str, str | None]

    def text(self, path: str) -> str | None:
        """Return a file as the candidate leaves it."""
        return self.changed[path] if path in self.changed else self.read_base(path)

    def degraded(self, by: Degraded) -> "CandidateFiles":
        """Return the candidate with a degradation, to which another may be added."""
        return replace(self, changed={**self.changed, **by.edits})

    def edited_texts(self) -> Iterator[tuple[str, str]]:
        """Yield the files that the candidate changes or adds, and its text; tests come last."""
        for path in sorted(self.changed, key=lambda path: (is_test(path), path)):
            text = self.changed[path]
            if text:
                yield path, text

    def modules(self) -> Iterator[Module]:
        """Yield the Python files that it changes or adds and that are no tests."""
        for path, text in self.edited_texts():
            if not is_test(path):
                module = Module.of(path, text, self.read_base(path))
                if module is not None:
                    yield module

    def untouched(self, rng: Random, *, tests: bool) -> list[str]:
        """Return the Python files that it leaves alone: in the folders that it works in first."""
        near = {PurePosixPath(path).parent for path in self.changed}
        paths = sorted(
            path
            for path in self.base_paths
            if path.endswith(".py") and is_test(path) == tests and path not in self.changed
        )
        rng.shuffle(paths)
        return sorted(paths, key=lambda path: PurePosixPath(path).parent not in near)
