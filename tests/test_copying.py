"""Row groups that stay whole are copied as they are stored; whatever cannot be, is decoded."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gagar_cli.errors import SourceError
from gagar_cli.options import FilterOptions, RedistributeOptions
from gagar_cli.parquet_io import StoredGroup, open_source
from gagar_cli.rollouts import Rollouts

GROUP_ROWS = 40


@pytest.fixture(scope="module")
def heavy(tmp_path_factory):
    """Three row groups of more than a mebibyte each, and a fourth that is short."""
    draw = random.Random(5)
    ids = [draw.randrange(150_000) for _ in range(2000)]
    rows = 3 * GROUP_ROWS + 10
    table = pa.table(
        {
            "group_id": [f"g{n // 4}" for n in range(rows)],
            "rollout_id": [f"r{n}" for n in range(rows)],
            "passed": [n % 2 == 0 for n in range(rows)],
            "messages": [
                [{"role": "tool", "content": f"{n}" + draw.randbytes(20_000).hex()}] * 2
                for n in range(rows)
            ],
            "ids": [ids[n:] for n in range(rows)],
            "blob": [draw.randbytes(60_000) for _ in range(rows)],
            "kind": pa.array(["a", "b"] * (rows // 2)).dictionary_encode(),
            "nothing": pa.nulls(rows),
        }
    )
    path = tmp_path_factory.mktemp("copying") / "heavy.parquet"
    pq.write_table(table, path, row_group_size=GROUP_ROWS)
    return path


def _portions(rollouts, target):
    """Write, and return what it was written of: rows, and whether they were copied."""
    found = []
    source = type(rollouts.source)
    portions = source.portions

    def noted(self, *arguments):
        for portion in portions(self, *arguments):
            found.append((portion.num_rows, isinstance(portion, StoredGroup)))
            yield portion

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "portions", noted)
        rollouts.write(str(target))
    return found


def _stored_bytes(path, group):
    """Return the bytes of each leaf's chunk."""
    source = open_source(str(path))
    [file] = source.files
    return [file.stream.read_at(c.size, c.start) for c in file.footer.chunks(group)]


def test_a_stage_that_drops_nothing_copies_every_byte_and_adds_its_columns(heavy, tmp_path):
    rollouts = Rollouts.of(open_source(str(heavy)))
    weights = pa.table({"credit_weight": np.arange(rollouts.source.rows, dtype=float)})
    added = rollouts.with_columns(weights, "redistribute", RedistributeOptions())
    out = tmp_path / "out.parquet"
    assert _portions(added, out) == [(GROUP_ROWS, True)] * 3 + [(10, True)]
    before, after = pq.read_table(heavy), pq.read_table(out)
    assert after.drop_columns("credit_weight").replace_schema_metadata(None).equals(before)
    assert after["credit_weight"].to_pylist() == list(range(len(before)))
    for group in range(4):
        assert _stored_bytes(out, group)[:-1] == _stored_bytes(heavy, group)
    metadata = pq.ParquetFile(out).metadata
    assert metadata.num_rows == len(before)
    sizes = [metadata.row_group(0).column(i) for i in range(metadata.num_columns)]
    assert metadata.row_group(0).total_byte_size == sum(c.total_uncompressed_size for c in sizes)


def test_row_groups_that_go_are_not_read_and_those_that_stay_in_part_are_decoded(heavy, tmp_path):
    rollouts = Rollouts.of(open_source(str(heavy)))
    keep = np.ones(rollouts.source.rows, bool)
    keep[GROUP_ROWS : 2 * GROUP_ROWS] = False
    keep[2 * GROUP_ROWS + 5] = False
    out = tmp_path / "out.parquet"
    portions = _portions(rollouts.only(keep, "filter", FilterOptions()), out)
    assert portions[0] == (GROUP_ROWS, True)
    assert portions[-1] == (10, True)
    assert {copied for _, copied in portions[1:-1]} == {False}
    assert sum(rows for rows, _ in portions) == keep.sum()
    expected = pq.read_table(heavy).filter(pa.array(keep))
    assert pq.read_table(out).replace_schema_metadata(None).equals(expected)


def test_a_column_of_an_earlier_run_is_left_out_and_made_anew(heavy, tmp_path):
    first = tmp_path / "first.parquet"
    rollouts = Rollouts.of(open_source(str(heavy)))
    ones = pa.table({"credit_weight": np.ones(rollouts.source.rows)})
    rollouts.with_columns(ones, "redistribute", RedistributeOptions()).write(str(first))
    again = Rollouts.of(open_source(str(first))).ready_for("redistribute")
    halves = pa.table({"credit_weight": np.full(rollouts.source.rows, 0.5)})
    second = tmp_path / "second.parquet"
    added = again.with_columns(halves, "redistribute", RedistributeOptions())
    assert all(copied for _, copied in _portions(added, second))
    table = pq.read_table(second)
    assert set(table["credit_weight"].to_pylist()) == {0.5}
    assert table.column_names == [*pq.read_schema(heavy).names, "credit_weight"]
    assert table["messages"].equals(pq.read_table(heavy)["messages"])


def test_many_files_are_copied_one_after_another(heavy, tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    table = pq.read_table(heavy)
    for n in range(3):
        pq.write_table(table, folder / f"{n}.parquet", row_group_size=GROUP_ROWS)
    rollouts = Rollouts.of(open_source(str(folder)))
    out = tmp_path / "out.parquet"
    assert all(copied for _, copied in _portions(rollouts, out))
    expected = pa.concat_tables([table] * 3).combine_chunks()
    assert pq.read_table(out).replace_schema_metadata(None).combine_chunks().equals(expected)


def _with_column(table):
    return table.append_column("more", pa.array(range(len(table))))


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (_with_column, {}),  # a column that the other file lacks
        (lambda t: t.select(t.column_names[::-1]), {}),
        (lambda t: t, {"use_compliant_nested_type": False}),  # items called otherwise
    ],
    ids=["one column more", "another order", "other names of items"],
)
def test_files_that_differ_make_one_that_holds_all(heavy, tmp_path, change, options):
    folder = tmp_path / "many"
    folder.mkdir()
    table = pq.read_table(heavy)
    pq.write_table(table, folder / "0.parquet", row_group_size=GROUP_ROWS)
    pq.write_table(change(table), folder / "1.parquet", row_group_size=GROUP_ROWS, **options)
    out = tmp_path / "out.parquet"
    rollouts = Rollouts.of(open_source(str(folder)))
    _portions(rollouts, out)
    written = pq.read_table(out)
    assert written.num_rows == 2 * len(table)
    for name in table.column_names:
        assert written[name].to_pylist() == table[name].to_pylist() * 2


@pytest.mark.parametrize(
    "options",
    [
        {"data_page_version": "2.0", "compression": "zstd"},
        {"write_page_index": True},
        {"compression": "none", "use_dictionary": False},
        {"bloom_filter_options": {"rollout_id": True}},
        {"sorting_columns": [pq.SortingColumn(1)]},
    ],
    ids=["pages of version 2", "page index", "plain", "Bloom filter", "sorted"],
)
def test_files_of_every_make_are_copied_without_what_lies_beside_the_pages(
    heavy, tmp_path, options
):
    table = pq.read_table(heavy)
    source = tmp_path / "source.parquet"
    pq.write_table(table, source, row_group_size=GROUP_ROWS, **options)
    out = tmp_path / "out.parquet"
    assert all(copied for _, copied in _portions(Rollouts.of(open_source(str(source))), out))
    assert pq.read_table(out).replace_schema_metadata(None).equals(table)
    column = pq.ParquetFile(out).metadata.row_group(0).column(1)
    assert not column.has_offset_index
    assert not column.has_column_index
    kept = pq.read_table(out, filters=[("rollout_id", "=", "r7")])
    assert kept["group_id"].to_pylist() == ["g1"]


def _created_by(path, name, target):
    """Copy a file with another name of its writer."""
    [file] = open_source(str(path)).files
    file.footer.struct.change(6, name.encode())
    groups = file.footer.struct.value(4).values
    data = path.read_bytes()[: file.footer.start]
    target.write_bytes(data + file.footer.written(groups, file.metadata.num_rows))
    assert pq.ParquetFile(target).metadata.created_by == name


@pytest.mark.parametrize(
    ("writer", "copied"),
    [
        ("parquet-mr version 1.13.1 (build 0)", True),
        ("parquet-mr version 1.8.1 (build 0)", False),
        ("parquet-cpp version 1.2.0", False),
        ("unknown", False),
    ],
)
def test_pages_of_writers_whose_errors_readers_work_around_are_decoded(
    heavy, tmp_path, writer, copied
):
    table = pq.read_table(heavy)
    source = tmp_path / "source.parquet"
    _created_by(heavy, writer, source)
    out = tmp_path / "out.parquet"
    portions = _portions(Rollouts.of(open_source(str(source))), out)
    assert {was_copied for _, was_copied in portions} == {copied}
    assert pq.read_table(out).replace_schema_metadata(None).equals(table)


def test_small_row_groups_are_put_together(tmp_path):
    table = pa.table(
        {"group_id": ["a"] * 100, "rollout_id": range(100), "passed": [True, False] * 50}
    )
    source = tmp_path / "small.parquet"
    pq.write_table(table, source, row_group_size=50)
    out = tmp_path / "out.parquet"
    assert not any(copied for _, copied in _portions(Rollouts.of(open_source(str(source))), out))
    assert pq.read_table(out).replace_schema_metadata(None).equals(table)


def test_a_file_that_is_redirected_to_standard_input_is_copied_too(heavy, tmp_path, monkeypatch):
    with heavy.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        source = open_source("-")
        out = tmp_path / "out.parquet"
        assert all(copied for _, copied in _portions(Rollouts.of(source), out))
    assert pq.read_table(out).replace_schema_metadata(None).equals(pq.read_table(heavy))


def test_a_file_that_lost_data_is_told_and_nothing_is_written(heavy, tmp_path):
    data = heavy.read_bytes()
    [file] = open_source(str(heavy)).files
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(data[: len(data) // 2] + data[file.footer.start :])
    out = tmp_path / "out.parquet"
    with pytest.raises(SourceError, match="over the end"):
        Rollouts.of(open_source(str(broken))).write(str(out))
    assert [path.name for path in tmp_path.iterdir()] == ["broken.parquet"]


def test_a_file_that_shrinks_while_it_is_copied_is_told_as_the_input_it_is(heavy, tmp_path):
    source = tmp_path / "source.parquet"
    source.write_bytes(heavy.read_bytes())
    rollouts = Rollouts.of(open_source(str(source)))
    assert rollouts.source.files[0].footer
    with source.open("r+b") as stream:
        stream.truncate(1_000_000)
    with pytest.raises(SourceError, match="too early"):
        rollouts.write(str(tmp_path / "out.parquet"))
    assert [path.name for path in tmp_path.iterdir()] == ["source.parquet"]
