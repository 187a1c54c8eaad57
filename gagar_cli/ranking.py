"""Rankings in tiers: read strictly, and compared."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import combinations

from gagar_cli.errors import InvalidVerdictError


@dataclass(frozen=True, slots=True)
class Ranking:
    """Labels in tiers, best first; labels in one tier are tied."""

    tiers: tuple[tuple[str, ...], ...]

    def ranks(self) -> dict[str, int]:
        """Return the rank of each label: 1 is best, ties share the lowest place (1, 1, 3)."""
        ranks: dict[str, int] = {}
        for tier in self.tiers:
            place = len(ranks) + 1
            ranks.update(dict.fromkeys(tier, place))
        return ranks

    def renamed(self, names: dict[str, str]) -> "Ranking":
        """Return the same tiers under other labels."""
        return Ranking(tuple(tuple(names[label] for label in tier) for tier in self.tiers))


def read_ranking(value: object, labels: Collection[str]) -> Ranking:
    """Read a verdict: a list of tiers, each a list of labels; a bare label is a tier of its own.

    Exactly the given labels, each once, else InvalidVerdictError, which says what is wrong in
    words that a grader can act on. Nothing is guessed, completed or dropped.
    """
    if not isinstance(value, list):
        raise InvalidVerdictError(f"tiers is {type(value).__name__}, expected a list of lists")
    tiers: list[tuple[str, ...]] = []
    for tier in value:
        members = [tier] if isinstance(tier, str) else tier
        if not isinstance(members, list) or not all(isinstance(m, str) for m in members):
            raise InvalidVerdictError("a tier is not a list of labels")
        if not members:
            raise InvalidVerdictError("a tier is empty")
        tiers.append(tuple(members))
    given = [label for tier in tiers for label in tier]
    problems = (
        ("missing", [label for label in labels if label not in given]),
        ("named more than once", sorted({label for label in given if given.count(label) > 1})),
        ("not among the candidates to rank", [label for label in given if label not in labels]),
    )
    found = [f"{', '.join(names)}: {what}" for what, names in problems if names]
    if found:
        raise InvalidVerdictError("; ".join(found))
    return Ranking(tuple(tiers))


def tiers_of(cost: dict[str, float], tolerance: float = 0.0) -> Ranking:
    """Rank labels by cost, lowest first; those within `tolerance` of a tier's first are tied."""
    tiers: list[list[str]] = []
    for label in sorted(cost, key=lambda name: (cost[name], name)):
        if tiers and cost[label] - cost[tiers[-1][0]] <= tolerance:
            tiers[-1].append(label)
        else:
            tiers.append([label])
    return Ranking(tuple(tuple(sorted(tier)) for tier in tiers))


def kendall_tau_b(a: Ranking, b: Ranking) -> float:
    """Return Kendall's tau-b of two rankings of the same labels, -1..1, ties corrected.

    Two rankings that are both one tier agree fully: 1. Where only one of them is, nothing can be
    said: 0. (Kendall 1945, "The treatment of ties in ranking problems".)
    """
    ranks_a, ranks_b = a.ranks(), b.ranks()
    agree = untied_a = untied_b = 0
    for x, y in combinations(ranks_a, 2):
        sign_a, sign_b = _sign(ranks_a[x] - ranks_a[y]), _sign(ranks_b[x] - ranks_b[y])
        agree += sign_a * sign_b
        untied_a += sign_a != 0
        untied_b += sign_b != 0
    if untied_a == 0 and untied_b == 0:
        return 1.0
    if untied_a == 0 or untied_b == 0:
        return 0.0
    return float(agree / (untied_a * untied_b) ** 0.5)


def mid_places(vote: Ranking) -> dict[str, float]:
    """Return the place of each label, from 1; tied labels share the mean of theirs."""
    places: dict[str, float] = {}
    for tier in vote.tiers:
        middle = len(places) + (len(tier) + 1) / 2
        places.update(dict.fromkeys(tier, middle))
    return places


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def labels(count: int) -> Iterable[str]:
    """Yield A, B, … Z, AA, AB and so on."""
    for number in range(1, count + 1):
        name, rest = "", number
        while rest:
            rest, letter = divmod(rest - 1, 26)
            name = chr(ord("A") + letter) + name
        yield name
