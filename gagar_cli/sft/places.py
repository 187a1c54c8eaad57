"""Balance of the places where winners were shown, so that a grader cannot learn one.

A model that is trained on votes in which the first candidate shown wins more often than others
learns to favour it. Places are compared among groups of one size only: being the first of two is
no news, being the first of eight is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from gagar_cli.sft.votes import Vote


@dataclass(frozen=True, slots=True)
class Places:
    """How many winners stood first, second and so on, among votes on `size` candidates to rank."""

    size: int
    before: tuple[int, ...]
    after: tuple[int, ...]


def draw(seed: int, *key: object) -> float:
    """Return a number from 0 to less than 1 that is as good as random, but the same for the key."""
    text = "\0".join(map(str, (seed, *key)))
    return int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:6]) / 2**48


def winner_place(vote: Vote, seed: int) -> int:
    """Return the place shown, from 0, of the best candidate; of a tie for it, of one drawn from it.

    A vote without a ranking has no winner, and must not be asked for one.
    """
    if vote.ranking is None:
        raise ValueError(f"vote {vote.number} of {vote.group_id!r} has no ranking")
    best = vote.ranking.tiers[0]
    winner = min(best, key=lambda label: (draw(seed, "winner", vote.digest, label), label))
    return vote.shown.index(winner)


def balance(
    votes: Sequence[Vote], seed: int, *, drop: bool = True
) -> tuple[list[Vote], list[Places]]:
    """Return the votes to keep, in their order, and the counts by group size, smallest first.

    Of every place, as many are kept as the rarest one has, drawn by seed; without `drop`, all are.
    A place where nobody ever wins is no measure: no choice among the rest would fill it, and the
    shares of the others are as even as they can be without it.
    """
    kept: list[Vote] = []
    counts: list[Places] = []
    for size in sorted({len(vote.shown) for vote in votes}):
        by_place: dict[int, list[Vote]] = {place: [] for place in range(size)}
        for vote in votes:
            if len(vote.shown) == size:
                by_place[winner_place(vote, seed)].append(vote)
        before = tuple(map(len, by_place.values()))
        most = min(filter(None, before)) if drop else len(votes)
        for members in by_place.values():
            members.sort(key=lambda vote: (draw(seed, "place", *identity(vote)), vote.row))
            kept += members[:most]
        counts.append(Places(size, before, tuple(min(count, most) for count in before)))
    return sorted(kept, key=lambda vote: vote.row), counts


def identity(vote: Vote) -> tuple[str, int, str]:
    """Return what tells a vote from all others, wherever it stands in a file."""
    return vote.group_id, vote.number, vote.digest


def shown_first(counts: Sequence[Places]) -> dict[str, float]:
    """Return the shares, 0..1, of winners shown first: before, after and by chance, over all sizes.

    By chance is what a grader blind to the order reaches, on the sizes kept. Empty without votes.
    """
    before = sum(sum(entry.before) for entry in counts)
    after = sum(sum(entry.after) for entry in counts)
    if not after:
        return {}
    return {
        "before": sum(entry.before[0] for entry in counts) / before,
        "after": sum(entry.after[0] for entry in counts) / after,
        "by chance": sum(sum(entry.after) / entry.size for entry in counts) / after,
    }
