import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.places import sorted_rows

RANKS = st.sampled_from([1.0, 1.0, 2.0, 3.0]) | st.sampled_from([1.5, 2.0**40, np.inf])
ROWS = st.lists(
    st.tuples(
        st.booleans(),
        st.integers(0, 3),
        RANKS,
        st.sampled_from([0.5, 0.5, 1.0, 7.0]),
        st.sampled_from([0.0, 10.0, 10.0]),
    ),
    max_size=40,
)


@given(ROWS, st.booleans())
def test_rows_stand_as_a_full_sort_puts_their_values(rows, with_mass):
    wanted = np.flatnonzero([row[0] for row in rows])
    codes = np.array([row[1] for row in rows], dtype=np.int32)
    rank, advantage, mass = np.array([row[2:] for row in rows], dtype=np.float64).reshape(-1, 3).T
    found = sorted_rows(wanted, codes, rank, advantage, mass if with_mass else None)
    keys = (advantage, rank, codes)
    keys = (mass, *keys) if with_mass else keys
    expected = np.lexsort(keys)
    expected = expected[np.isin(expected, wanted)]
    assert sorted(found.tolist()) == wanted.tolist()
    for values in keys:
        np.testing.assert_array_equal(values[found], values[expected])


@pytest.mark.parametrize("rank", [2.0**31, 2.0**62, 2.0**63, 1e300])
def test_huge_ranks_do_not_overflow_into_other_groups(rank):
    codes = np.array([1, 0, 1, 0], dtype=np.int32)
    ranks = np.array([rank, rank, 1.0, 1.0])
    found = sorted_rows(np.arange(4), codes, ranks, np.ones(4), None)
    assert found.tolist() == [3, 1, 2, 0]
