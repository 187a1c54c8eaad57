"""Orders of presentation that balance who stands where.

Language models favour places in a list, the first above all. So the votes on one group do not draw
their orders independently: they are shifts of one random order, each followed by its reversal.
"""

import random
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

T = TypeVar("T")


def balanced_order(items: Sequence[T], vote: int, key: str) -> tuple[T, ...]:
    """Return the items in the order of one vote, counted from 0; the same key gives one family.

    Votes 2k and 2k + 1 are each other's reversal, so that over them every item has the same mean
    place. The shifts of successive pairs lie far apart; over 2n votes on n items each item stands
    exactly twice at every place.
    """
    base = sorted(range(len(items)))
    random.Random(f"{key}\0order").shuffle(base)  # noqa: S311  balance, not secrecy
    shift = _spread(len(items))[vote // 2 % max(1, len(items))] if items else 0
    order = base[shift:] + base[:shift]
    return tuple(items[n] for n in (reversed(order) if vote % 2 else order))


@cache
def _spread(count: int) -> tuple[int, ...]:
    """Return 0 to count - 1, each as far as can be, round the circle, from all before it."""
    found = [0]
    while len(found) < count:
        found.append(
            max(
                (n for n in range(count) if n not in found),
                key=lambda n: (min(min((n - m) % count, (m - n) % count) for m in found), -n),
            )
        )
    return tuple(found)
