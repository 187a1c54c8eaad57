import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables

from gagar_cli.errors import OutputError, SourceError
from gagar_cli.parquet_io import check_target, default_output, open_sink, open_source
from gagar_cli.rollouts import Rollouts


def copied(source, target):
    Rollouts.of(open_source(str(source))).write(str(target))
    return pq.ParquetFile(target)


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
def test_unknown_columns_pass_through_with_their_types_and_codec(tmp_path, codec):
    source = tables.write(tmp_path / "in.parquet", tables.wide(), compression=codec)
    before, after = pq.ParquetFile(source), copied(source, tmp_path / "out.parquet")
    for old, new in zip(before.schema_arrow, after.schema_arrow, strict=True):
        assert new.equals(old, check_metadata=True)
    for name in before.schema_arrow.names:
        old, new = before.read([name]).column(0), after.read([name]).column(0)
        # NaN differs from itself, so the buffers are compared.
        assert pa.concat_arrays(old.chunks).buffers() == pa.concat_arrays(new.chunks).buffers()
    assert before.metadata.row_group(0).column(0).compression in {
        after.metadata.row_group(0).column(i).compression for i in range(after.metadata.num_columns)
    }
    metadata = dict(after.schema_arrow.metadata)
    metadata.pop(b"gagar")
    assert metadata == before.schema_arrow.metadata


def test_rows_keep_their_order_over_row_groups_and_files(tmp_path):
    folder = tmp_path / "parts"
    (folder / "deep").mkdir(parents=True)
    (folder / "_logs").mkdir()
    table = tables.rollouts({f"g{n}": [True, False, None] for n in range(40)})
    tables.write(folder / "a.parquet", table.slice(0, 50), row_group_size=7)
    tables.write(folder / "deep" / "b.parquet", table.slice(50), row_group_size=1000)
    tables.write(folder / "_logs" / "c.parquet", table)
    assert copied(folder, tmp_path / "out.parquet").read().equals(table)
    assert open_source(str(folder / "*.parquet")).rows == 50
    assert open_source(str(folder / "**" / "?.parquet")).rows > 50


def test_columns_that_one_file_lacks_are_null_there(tmp_path):
    first = tables.rollouts({"a": [True]})
    second = first.append_column("extra", [[1]])
    folder = tmp_path / "parts"
    folder.mkdir()
    tables.write(folder / "1.parquet", first)
    tables.write(folder / "2.parquet", second)
    assert copied(folder, tmp_path / "o.parquet").read()["extra"].to_pylist() == [None, 1]


def test_files_whose_types_differ_are_refused(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    tables.write(folder / "1.parquet", pa.table({"a": [1]}))
    tables.write(folder / "2.parquet", pa.table({"a": ["x"]}))
    with pytest.raises(SourceError, match="different types"):
        _ = open_source(str(folder)).schema


def test_a_row_group_stays_as_long_as_the_longest_of_the_input(tmp_path):
    table = tables.rollouts({f"g{n}": [True] for n in range(100)})
    source = tables.write(tmp_path / "in.parquet", table, row_group_size=32)
    after = copied(source, tmp_path / "out.parquet").metadata
    assert [after.row_group(i).num_rows for i in range(after.num_row_groups)] == [32, 32, 32, 4]


def test_a_file_without_rows_stays_a_file_without_rows(tmp_path):
    source = tables.write(tmp_path / "in.parquet", tables.wide().slice(0, 0))
    assert copied(source, tmp_path / "out.parquet").metadata.num_rows == 0


def test_a_failure_leaves_neither_half_a_file_nor_a_temporary_one(tmp_path):
    source = open_source(str(tables.write(tmp_path / "in.parquet", tables.wide())))
    target = tmp_path / "out.parquet"
    target.write_bytes(b"the old one")

    def fail_halfway():
        with open_sink(str(target), source.schema, source) as sink:
            sink.write(next(source.batches()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert target.read_bytes() == b"the old one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_a_file_can_be_written_over_its_own_input(tmp_path):
    path = tables.write(tmp_path / "in.parquet", tables.wide())
    before = pq.read_table(path)
    Rollouts.of(open_source(str(path))).write(str(path))
    assert pq.read_table(path).drop_columns("log_probs").equals(before.drop_columns("log_probs"))


def test_a_link_stays_a_link_to_the_new_file(tmp_path):
    path = tables.write(tmp_path / "in.parquet", tables.wide())
    (tmp_path / "real.parquet").write_bytes(b"")
    (tmp_path / "link.parquet").symlink_to("real.parquet")
    copied(path, tmp_path / "link.parquet")
    assert (tmp_path / "link.parquet").is_symlink()
    assert pq.read_metadata(tmp_path / "real.parquet").num_rows == 6


def test_a_new_file_has_the_usual_permissions(tmp_path):
    path = tables.write(tmp_path / "in.parquet", tables.wide())
    copied(path, tmp_path / "out.parquet")
    assert (tmp_path / "out.parquet").stat().st_mode == path.stat().st_mode


def test_a_file_uri_is_read_and_written(tmp_path):
    path = tables.write(tmp_path / "in.parquet", tables.wide())
    Rollouts.of(open_source(path.as_uri())).write((tmp_path / "out.parquet").as_uri())
    assert pq.read_metadata(tmp_path / "out.parquet").num_rows == 6


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent.parquet", None, "no such file"),
        ("empty.parquet", b"", "empty file"),
        ("text.parquet", b"group_id,passed\n" * 9, "not a whole, readable Parquet file"),
    ],
)
def test_what_is_not_parquet_is_refused_by_name(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=words) as caught:
        open_source(str(tmp_path / name))
    assert name in str(caught.value)


def test_a_file_damaged_inside_is_refused_when_it_is_read(tmp_path):
    table = pa.table({"a": [os.urandom(100).hex() for _ in range(1000)]})
    path = tables.write(tmp_path / "in.parquet", table, compression="zstd")
    content = bytearray(path.read_bytes())
    content[1000:3000] = b"\0" * 2000
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"in\.parquet.*readable"):
        open_source(str(path)).read(["a"])


def test_the_default_output_stands_beside_the_input():
    assert default_output("a/r.parquet", "filter") == "a/r.filter.parquet"
    assert default_output("a/r.filter.parquet", "grade") == "a/r.filter.grade.parquet"
    assert default_output(None, "filter") == "stdin.filter.parquet"
    assert default_output("s3://bucket/r.parquet", "run") == "s3://bucket/r.run.parquet"
    assert default_output("a/parts/*.parquet", "run") == "a/parts.run.parquet"


def test_a_target_that_cannot_be_is_refused_beforehand(tmp_path):
    for target in (tmp_path, tmp_path / "absent" / "x.parquet"):
        with pytest.raises(OutputError):
            check_target(str(target))
    check_target(str(tmp_path / "x.parquet"))
    check_target("-")
