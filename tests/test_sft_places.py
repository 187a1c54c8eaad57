from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.ranking import Ranking
from gagar_cli.sft.places import Places, balance, draw, shown_first, winner_place
from gagar_cli.sft.votes import Vote


def shown_at(place, size, row=0, tied=1):
    """Make a vote on `size` candidates whose best stood at a place, from 0, and those after it."""
    names = tuple(f"c{n}" for n in range(size))
    best = tuple(names[(place + n) % size] for n in range(tied))
    rest = tuple(name for name in names if name not in best)
    return Vote(
        row=row,
        group_id=f"g{row}",
        number=0,
        task_id="t",
        shown=names,
        candidates=frozenset(),
        ranking=Ranking((best, rest) if rest else (best,)),
        consensus=None,
        confidence=1.0,
        trust=1.0,
        truncated=False,
        fallback_parsed=False,
        canary=False,
        canary_failed=False,
        tokens=1,
        characters=1,
        digest=f"d{row}",
        problem=None,
    )


def shown(size, *places):
    return [shown_at(place, size, row) for row, place in enumerate(places)]


PLACES = st.integers(2, 5).flatmap(
    lambda size: st.tuples(st.just(size), st.lists(st.integers(0, size - 1), min_size=1))
)


@given(PLACES, st.integers(0, 3))
def test_places_where_anybody_won_are_kept_alike_often(drawn, seed):
    size, places = drawn
    kept, [counts] = balance(shown(size, *places), seed)
    held = Counter(winner_place(vote, seed) for vote in kept)
    assert set(held) == set(places)
    assert set(held.values()) == {min(Counter(places).values())}
    assert counts == Places(
        size,
        tuple(places.count(place) for place in range(size)),
        tuple(held[place] for place in range(size)),
    )


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(3, 4))), st.randoms(), st.integers(0, 3))
def test_what_is_kept_does_not_depend_on_the_order_of_rows(drawn, random, seed):
    votes = [shown_at(place, size, row) for row, (place, size) in enumerate(drawn)]
    shuffled = random.sample(votes, len(votes))
    assert balance(votes, seed)[0] == balance(shuffled, seed)[0]


def test_sizes_are_balanced_apart():
    votes = [
        *(shown_at(0, 2, row) for row in range(3)),
        *(shown_at(1, 2, row) for row in range(3, 5)),
        *(shown_at(0, 3, row) for row in range(5, 9)),
        *(shown_at(2, 3, row) for row in range(9, 10)),
    ]
    kept, counts = balance(votes, 0)
    assert counts == [Places(2, (3, 2), (2, 2)), Places(3, (4, 0, 1), (1, 0, 1))]
    assert len(kept) == 6


def test_without_dropping_all_are_kept_and_counted():
    votes = shown(3, 0, 0, 2)
    kept, counts = balance(votes, 0, drop=False)
    assert kept == votes
    assert counts == [Places(3, (2, 0, 1), (2, 0, 1))]
    assert balance([], 0) == ([], [])


def test_the_seed_chooses_who_is_kept():
    votes = shown(2, *[0] * 20, 1)
    chosen = {tuple(vote.row for vote in balance(votes, seed)[0]) for seed in range(10)}
    assert len(chosen) > 1


def test_a_tie_for_best_counts_for_each_of_the_tied_alike():
    placed = Counter(winner_place(shown_at(1, 4, row, tied=2), 0) for row in range(400))
    assert set(placed) == {1, 2}
    assert abs(placed[1] - 200) < 50


def test_a_vote_without_a_ranking_has_no_winner():
    vote = shown_at(0, 2)
    other = Vote(**{name: getattr(vote, name) for name in Vote.__slots__} | {"ranking": None})
    with pytest.raises(ValueError, match="has no ranking"):
        winner_place(other, 0)


@given(st.integers(), st.text(), st.text())
def test_draws_are_repeatable_and_from_0_to_less_than_1(seed, a, b):
    assert draw(seed, a, b) == draw(seed, a, b)
    assert 0 <= draw(seed, a, b) < 1


def test_draws_are_uniform():
    below = sum(draw(0, "x", n) < 0.1 for n in range(10_000))
    assert abs(below - 1000) < 100


def test_the_share_of_winners_shown_first_is_told_beside_chance():
    counts = [Places(2, (3, 1), (1, 1)), Places(4, (0, 2, 0, 0), (0, 2, 0, 0))]
    assert shown_first(counts) == {"before": 0.5, "after": 0.25, "by chance": 0.375}
    assert shown_first([]) == {}
