"""What the workers of a run tell each other: groups done, and money spent."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sofar:
    """How far one worker is with one partition."""

    groups: int = 0
    tokens: int = 0
    cost: float = 0.0


class Tally:
    """Adds up what workers report; a later report on the same partition replaces the one before.

    What a worker that was lost has spent stays spent, though its partition is graded anew.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._groups: dict[int, int] = {}
        self._spent: dict[tuple[str, int], Sofar] = {}

    def report(self, worker: str, partition: int, sofar: Sofar) -> float:
        """Take a report; return the money that all others and earlier partitions have spent."""
        self._groups[partition] = sofar.groups
        self._spent[worker, partition] = sofar
        own = (worker, partition)
        return sum(entry.cost for key, entry in self._spent.items() if key != own)

    def total(self) -> Sofar:
        """Return all of it together."""
        spent = self._spent.values()
        return Sofar(
            sum(self._groups.values()), sum(s.tokens for s in spent), sum(s.cost for s in spent)
        )
