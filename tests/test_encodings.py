"""How an input is written decides how the output is."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gagar_cli.parquet_io import open_sink, open_source


@pytest.fixture
def blobs():
    """Unique texts of 2 MiB together: more than a dictionary page may hold."""
    return [f"{n:06d}" * 350 for n in range(1000)]


def _chunks(path):
    file = pq.ParquetFile(path)
    group = file.metadata.row_group(0)
    return {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}


def _copied(source, target):
    opened = open_source(str(source))
    with open_sink(str(target), opened.schema, opened) as sink:
        for batch in opened.batches():
            sink.write(batch)
    assert pq.read_table(target).equals(pq.read_table(source))
    return _chunks(target)


def test_a_dictionary_that_the_writer_gave_up_is_not_tried_again(tmp_path, blobs):
    table = pa.table({"blob": blobs, "few": [f"r{n % 7}" for n in range(1000)]})
    pq.write_table(table, tmp_path / "in.parquet")
    assert _chunks(tmp_path / "in.parquet")["blob"].has_dictionary_page
    written = _copied(tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert not written["blob"].has_dictionary_page
    assert written["few"].has_dictionary_page


def test_no_dictionary_is_made_where_the_input_has_none(tmp_path):
    table = pa.table({"few": [f"r{n % 7}" for n in range(1000)]})
    pq.write_table(table, tmp_path / "in.parquet", use_dictionary=False)
    assert not _copied(tmp_path / "in.parquet", tmp_path / "out.parquet")["few"].has_dictionary_page


def test_bounds_are_kept_of_short_values_that_are_not_in_lists(tmp_path, blobs):
    table = pa.table({"n": range(1000), "blob": blobs, "ids": [[n, n + 1] for n in range(1000)]})
    pq.write_table(table, tmp_path / "in.parquet")
    written = _copied(tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert written["n"].is_stats_set
    assert written["n"].statistics.max == 999
    assert not written["blob"].is_stats_set
    assert not written["ids.list.element"].is_stats_set


def test_no_bounds_are_made_where_the_input_has_none(tmp_path):
    pq.write_table(pa.table({"n": range(10)}), tmp_path / "in.parquet", write_statistics=False)
    assert not _copied(tmp_path / "in.parquet", tmp_path / "out.parquet")["n"].is_stats_set


def test_the_codec_of_each_column_is_kept(tmp_path):
    codecs = {"a": "gzip", "b": "zstd", "c": "none"}
    table = pa.table(dict.fromkeys(codecs, range(1000)))
    pq.write_table(table, tmp_path / "in.parquet", compression=codecs)
    written = _copied(tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert {name: chunk.compression for name, chunk in written.items()} == {
        "a": "GZIP",
        "b": "ZSTD",
        "c": "UNCOMPRESSED",
    }


def test_a_file_without_row_groups_tells_no_encoding(tmp_path):
    pq.ParquetWriter(tmp_path / "in.parquet", pa.schema({"a": pa.int64()})).close()
    assert open_source(str(tmp_path / "in.parquet")).encodings == {}


def test_batches_end_where_row_groups_end_and_all_rows_come_in_order(tmp_path, blobs):
    texts = [blob * 40 for blob in blobs[:300]]
    pq.write_table(
        pa.table({"n": range(300), "blob": texts}), tmp_path / "in.parquet", row_group_size=130
    )
    batches = list(open_source(str(tmp_path / "in.parquet")).batches())
    assert pa.Table.from_batches(batches)["n"].to_pylist() == list(range(300))
    ends = {0}
    for batch in batches:
        ends.add(max(ends) + len(batch))
    assert {130, 260, 300} <= ends
