"""How much of each candidate's change a vote has seen; what it has not seen it cannot judge."""

from collections.abc import Iterable, Mapping
from statistics import fmean

_SIGNS = ("+", "-")
_HEADERS = ("+++ ", "--- ")


class Coverage:
    """Notes the lines that were shown of each candidate."""

    def __init__(self, diffs: Mapping[str, str]) -> None:
        """Take the diffs by label."""
        self._diffs = diffs
        self._whole: set[str] = set()
        self._seen: dict[str, set[str]] = {label: set() for label in diffs}

    def saw_all(self, label: str) -> None:
        """Note that a whole diff was shown."""
        self._whole.add(label)

    def saw(self, labels: Iterable[str], lines: Iterable[str]) -> None:
        """Note lines that were shown of these candidates, with or without a diff's sign."""
        texts = {line[1:].strip() if line.startswith(_SIGNS) else line.strip() for line in lines}
        for label in labels:
            if label in self._seen:
                self._seen[label] |= texts

    def share(self, labels: Iterable[str]) -> float:
        """Return the mean over candidates of the share of changed lines shown, 0 to 1."""
        return fmean(self._share(label) for label in labels)

    def _share(self, label: str) -> float:
        if label in self._whole:
            return 1.0
        changed = [
            text
            for line in self._diffs[label].split("\n")
            if line.startswith(_SIGNS) and not line.startswith(_HEADERS)
            if (text := line[1:].strip())
        ]
        if not changed:
            return 1.0
        return sum(text in self._seen[label] for text in changed) / len(changed)
