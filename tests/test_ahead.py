"""Working ahead: order, errors and an early end are those of the iterator itself."""

import threading
from itertools import count

import pytest

from gagar_cli.parquet_io.ahead import ahead


def _threads():
    return [t for t in threading.enumerate() if t.name == "gagar-ahead"]


@pytest.mark.parametrize("depth", [1, 3, 100])
def test_items_come_in_order(depth):
    assert list(ahead(iter(range(50)), depth)) == list(range(50))
    assert not _threads()


def test_nothing_comes_of_nothing():
    assert list(ahead(())) == []


def test_an_error_comes_after_the_items_before_it():
    def items():
        yield 1
        raise ValueError("after one")

    found = []
    with pytest.raises(ValueError, match="after one"):
        found.extend(ahead(items()))
    assert not _threads()
    made = ahead(items())
    assert next(made) == 1
    with pytest.raises(ValueError, match="after one"):
        next(made)


def test_a_consumer_that_stops_early_stops_the_thread_and_no_more_is_made():
    made = []
    for item in ahead((made.append(n) or n for n in count()), depth=2):
        if item == 5:
            break
    assert not _threads()
    assert len(made) <= 5 + 1 + 2 + 1 + 1


def test_no_more_than_the_depth_and_one_in_the_making_are_held():
    made = []
    third = threading.Event()

    def items():
        for n in count():
            made.append(n)
            if n == 2:
                third.set()
            yield n

    taken = ahead(items(), depth=2)
    next(taken)
    assert third.wait(10)
    taken.close()
    assert len(made) <= 1 + 2 + 1
