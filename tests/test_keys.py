"""Keys of ids, and groups found through them, against plain Python over random columns."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagar_cli import groups, keys
from gagar_cli.errors import DataError
from gagar_cli.groups import GroupIndex, check_unique

IDS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "a", "a\0", "12345678", "123456789", "grüße-ß", "x" * 255, "x" * 300]),
    st.integers(0, 20).map(lambda n: "shared-prefix-of-many-ids/" + str(n)),
    st.integers(0, 3).map(lambda n: "y" * 256 + str(n)),  # alike as far as keys look
)
TYPES = st.sampled_from(["string", "large_string", "string_view", "dictionary"])


@st.composite
def columns(draw):
    """Return ids, and a column of them in chunks, some of them slices."""
    kind = draw(TYPES)
    pool = draw(st.lists(IDS, min_size=1, max_size=8))
    ids = draw(st.lists(st.sampled_from(pool), max_size=60))
    cuts = sorted(draw(st.lists(st.integers(0, len(ids)), max_size=3)))
    parts = [ids[a:b] for a, b in zip([0, *cuts], [*cuts, len(ids)], strict=True)]
    plain = pa.string() if kind == "dictionary" else getattr(pa, kind)()
    arrays = [pa.array(["before", *part, "after"], plain).slice(1, len(part)) for part in parts]
    if kind == "dictionary":
        arrays = [array.dictionary_encode() for array in arrays]
    return ids, pa.chunked_array(arrays)


def expected(ids):
    """Return names in order of first appearance, and the place of each id there."""
    names = tuple(dict.fromkeys(ids))
    return names, [names.index(name) for name in ids]


def assert_indexes(ids, column):
    index = GroupIndex.of(column)
    assert (index.ids, index.codes.tolist()) == expected(ids)
    assert index.order.tolist() == sorted(range(len(ids)), key=index.codes.__getitem__)
    assert index.sizes.tolist() == [ids.count(name) for name in index.ids]


def small_pieces(patch):
    """Let a few rows make several pieces, with runs that cross them."""
    patch.setattr(keys, "PIECE", 7)
    patch.setattr(groups, "PIECE", 7)


def colliding(patch):
    """Let only four keys be left, so that most ids share theirs."""
    full = keys.keys
    patch.setattr(groups, "keys", lambda ids: full(ids) % np.uint64(4))


WAYS = pytest.mark.parametrize(
    "way", [None, small_pieces, colliding], ids=["plain", "pieces", "collisions"]
)


@WAYS
@settings(max_examples=50)
@given(column=columns())
def test_groups_are_those_that_python_finds(way, column):
    with pytest.MonkeyPatch.context() as patch:
        if way:
            way(patch)
        assert_indexes(*column)


@WAYS
@settings(max_examples=50)
@given(ids=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), max_size=60))
def test_groups_of_integers_are_those_that_python_finds(way, ids):
    with pytest.MonkeyPatch.context() as patch:
        if way:
            way(patch)
        assert_indexes([str(n) for n in ids], pa.array(ids, pa.int64()))


@WAYS
@settings(max_examples=50)
@given(column=columns(), seed=st.integers(0, 99))
def test_a_repeated_rollout_is_found_exactly_where_there_is_one(way, column, seed):
    ids, rollout_id = column
    group = np.random.default_rng(seed).integers(0, 4, len(ids))
    index = GroupIndex.of(pa.array(group))
    pairs = list(zip(group.tolist(), ids, strict=True))
    repeated = [pair for pair in pairs if pairs.count(pair) > 1]
    with pytest.MonkeyPatch.context() as patch:
        if way:
            way(patch)
        if not repeated:
            check_unique(index, rollout_id)
            return
        with pytest.raises(DataError) as caught:
            check_unique(index, rollout_id)
    name, rollout = repeated[0]
    assert caught.value.where == f"group '{name}'"
    assert caught.value.problem.startswith(f"has {pairs.count(repeated[0])} rows {rollout!r} ")


@given(st.lists(IDS, unique=True, max_size=40))
def test_equal_ids_have_equal_keys_wherever_they_lie(ids):
    array = pa.array(ids, pa.string())
    alone = [int(keys.keys(pa.array([name]))[0]) for name in ids]
    assert keys.keys(array).tolist() == alone
    assert keys.keys(array.cast(pa.large_string())).tolist() == alone
    assert keys.keys(array.slice(1)).tolist() == alone[1:]


def test_ids_that_differ_in_one_character_have_keys_of_their_own():
    ids = [f"task-{n}" for n in range(200_000)] + [f"{n:016x}" for n in range(200_000)]
    assert len(np.unique(keys.keys(pa.array(ids)))) == len(ids)


def test_every_unsigned_integer_is_its_own_group():
    ids = pa.array([2**64 - 1, 0, 2**63, 2**64 - 1], pa.uint64())
    assert GroupIndex.of(ids).ids == (str(2**64 - 1), "0", str(2**63))


def test_a_null_far_into_a_column_names_its_row(monkeypatch):
    small_pieces(monkeypatch)
    with pytest.raises(DataError, match="row 20: got a null group_id"):
        GroupIndex.of(pa.chunked_array([["a"] * 9, ["b"] * 11 + [None, "c"]]))
