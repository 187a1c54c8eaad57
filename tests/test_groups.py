import numpy as np
import pyarrow as pa
import pytest

from gagar_cli import groups
from gagar_cli.errors import DataError
from gagar_cli.groups import GroupIndex, check_unique

SCATTERED = ["b", "a", "b", "c", "a", "b"]


def test_groups_come_in_order_of_first_appearance_with_their_rows_in_input_order():
    index = GroupIndex.of(pa.array(SCATTERED))
    assert [(name, rows.tolist()) for name, rows in index] == [
        ("b", [0, 2, 5]),
        ("a", [1, 4]),
        ("c", [3]),
    ]
    assert len(index) == 3
    assert index.sizes.tolist() == [3, 2, 1]
    assert index.rows(1).tolist() == [1, 4]
    assert [index.ids[code] for code in index.codes] == SCATTERED


def test_rows_of_large_groups_keep_their_order_too():
    index = GroupIndex.of(pa.array([str(row % 3) for row in range(5000)]))
    assert all((np.diff(rows) == 3).all() for _, rows in index)


def test_a_count_has_a_place_for_every_group():
    index = GroupIndex.of(pa.array(SCATTERED))
    condition = np.array([True, False, True, True, False, False])
    assert index.count(condition).tolist() == [2, 0, 1]


def test_chunks_do_not_divide_a_group():
    chunked = pa.chunked_array([SCATTERED[:2], [], SCATTERED[2:]], pa.string())
    whole = GroupIndex.of(pa.array(SCATTERED))
    assert GroupIndex.of(chunked).ids == whole.ids
    assert GroupIndex.of(chunked).codes.tolist() == whole.codes.tolist()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([7, -1, 7]),
        pa.array(["7", "-1", "7"], pa.large_string()),
        pa.array(["7", "-1", "7"], pa.string_view()),
        pa.array(["7", "-1", "7"]).dictionary_encode(),
        pa.chunked_array(
            [
                pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(["-1", "7"])),
                pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["7"])),
            ]
        ),
        # A dictionary may hold one value twice.
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["7", "-1", "7"])),
    ],
    ids=["integers", "large", "view", "dictionary", "two dictionaries", "repeating dictionary"],
)
def test_ids_of_every_type_are_read_as_text(column):
    index = GroupIndex.of(column)
    assert index.ids == ("7", "-1")
    assert index.codes.tolist() == [0, 1, 0]
    with pytest.raises(DataError, match="has 2 rows '7'"):
        check_unique(GroupIndex.of(pa.array(["g"] * 3)), column)


def test_no_rows_are_no_groups():
    index = GroupIndex.of(pa.array([], pa.string()))
    assert len(index) == 0
    assert list(index) == []
    assert index.count(np.zeros(0, dtype=bool)).tolist() == []
    assert index.sizes.tolist() == []


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "a"]),
        pa.chunked_array([["a"], [None, "a"]]),
        pa.array(["a", None, "a"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None])),
    ],
    ids=["plain", "chunked", "dictionary", "null in the dictionary"],
)
def test_a_null_id_names_its_row(column):
    with pytest.raises(DataError, match="row 1: got a null group_id"):
        GroupIndex.of(column)
    with pytest.raises(DataError, match="row 1: got a null rollout_id"):
        check_unique(GroupIndex.of(pa.array(["g"] * 3)), column)


def test_a_rollout_id_may_repeat_in_another_group():
    index = GroupIndex.of(pa.array(["a", "b", "a"]))
    assert check_unique(index, pa.array(["r", "r", "s"])) is None


def test_a_repeated_rollout_id_is_told_with_its_group_and_count():
    index = GroupIndex.of(pa.array(["a", "b", "b", "a", "b"]))
    with pytest.raises(DataError) as caught:
        check_unique(index, pa.array([1, 5, 5, 2, 5]))
    assert str(caught.value) == ("group 'b': has 3 rows '5' (rollout_id must be unique in a group)")


@pytest.mark.parametrize("sizes", [[1], [3, 1, 2, 9, 1, 1], [20], [2] * 30, []])
def test_blocks_hold_whole_groups_and_every_row_once(monkeypatch, sizes):
    monkeypatch.setattr(groups, "BLOCK", 4)
    ids = [f"g{n}" for n, size in enumerate(sizes) for _ in range(size)]
    index = GroupIndex.of(pa.array(ids, pa.string()))
    blocks = list(index.blocks())
    assert [row for block in blocks for row in range(len(ids))[block]] == list(range(len(ids)))
    seen = [set(ids[block]) for block in blocks]
    assert sum(map(len, seen)) == len(set(ids))


def test_rows_of_scattered_groups_are_one_block():
    assert list(GroupIndex.of(pa.array(SCATTERED)).blocks()) == [slice(0, 6)]
