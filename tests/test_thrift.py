"""The compact protocol: what is read is what was written, to the byte."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.parquet_io.footer import Footer
from gagar_cli.parquet_io.thrift import (
    BINARY,
    BYTE,
    DOUBLE,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Items,
    Struct,
    read_struct,
    write_struct,
)

_integers = st.integers(-(2**63), 2**63 - 1)
_plain = st.one_of(
    st.tuples(st.sampled_from([I16, I32, I64]), _integers),
    st.tuples(st.just(TRUE), st.booleans()),
    st.tuples(st.just(BINARY), st.binary(max_size=300)),
    st.tuples(st.just(DOUBLE), st.binary(min_size=8, max_size=8)),
    st.tuples(st.just(BYTE), st.binary(min_size=1, max_size=1)),
)


def _structs(fields):
    return st.dictionaries(st.integers(1, 2**15 - 1), fields, max_size=6).map(Struct)


def _lists(fields):
    return st.one_of(
        st.lists(_integers, max_size=40).map(lambda values: (LIST, Items(I64, values))),
        st.lists(st.booleans(), max_size=20).map(lambda values: (LIST, Items(TRUE, values))),
        st.lists(_structs(fields), max_size=20).map(lambda values: (LIST, Items(STRUCT, values))),
    )


_fields = st.recursive(
    _plain,
    lambda fields: st.one_of(_structs(fields).map(lambda s: (STRUCT, s)), _lists(fields)),
    max_leaves=30,
)


@given(_structs(_fields))
def test_what_is_written_is_read(struct):
    data = write_struct(struct)
    read = read_struct(data)
    assert read == struct
    assert write_struct(read) == data


@given(_structs(_fields), st.integers(0, 30))
def test_what_ends_too_early_is_refused(struct, missing):
    data = write_struct(struct)
    if missing and len(data) > missing:
        with pytest.raises(ValueError, match="ends too early"):
            read_struct(data[:-missing])


def test_a_type_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="type 15"):
        read_struct(bytes([0x1F, 0]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"version": "1.0", "data_page_version": "2.0"},
        {"write_page_index": True, "compression": "zstd"},
        {"write_statistics": False, "use_dictionary": False, "store_schema": False},
        {"sorting_columns": [pq.SortingColumn(0)], "row_group_size": 3},
    ],
)
def test_footers_of_real_files_come_out_as_they_went_in(tmp_path, options):
    table = pa.table({"n": range(10), "s": [["a", None]] * 10, "t": [{"x": 1.5, "y": "z"}] * 10})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, **options)
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    assert write_struct(read_struct(footer)) == footer
    split = Footer.read(lambda size, offset: data[offset : offset + size], len(data))
    assert split.written(split.struct.value(4).values, 10) == footer + data[-8:]
    assert list(split.columns) == ["n", "s", "t"]
    assert [len(elements) for elements in split.columns.values()] == [1, 3, 3]
