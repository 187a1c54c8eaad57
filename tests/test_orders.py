from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.orders import balanced_order

counts = st.integers(1, 12)
keys = st.text(max_size=5)


@given(counts, st.integers(0, 40), keys)
def test_an_order_holds_every_item_once_and_follows_from_the_key(count, vote, key):
    items = [f"item {n}" for n in range(count)]
    order = balanced_order(items, vote, key)
    assert sorted(order) == sorted(items)
    assert order == balanced_order(items, vote, key)


@given(counts, keys)
def test_two_successive_votes_are_each_others_reversal(count, key):
    items = range(count)
    for pair in range(count):
        first = balanced_order(items, 2 * pair, key)
        assert balanced_order(items, 2 * pair + 1, key) == first[::-1]


@given(counts, keys)
def test_twice_as_many_votes_as_items_put_each_item_twice_at_every_place(count, key):
    orders = [balanced_order(range(count), vote, key) for vote in range(2 * count)]
    for place in range(count):
        at = Counter(order[place] for order in orders)
        assert at == dict.fromkeys(range(count), 2)


@given(st.integers(4, 12), keys)
def test_four_votes_on_four_or_more_items_show_four_different_ones_first(count, key):
    assert len({balanced_order(range(count), vote, key)[0] for vote in range(4)}) == 4


def test_the_base_order_differs_from_key_to_key():
    assert len({balanced_order(range(6), 0, str(key)) for key in range(20)}) > 15


@pytest.mark.parametrize("vote", [0, 1, 7])
def test_no_items_have_no_order(vote):
    assert balanced_order([], vote, "key") == ()
