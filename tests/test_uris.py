import os
import shutil
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
import tables
from cli import SAMPLE, error_of, ok

from gagar_cli import uris
from gagar_cli.auditing.reference import split_reference
from gagar_cli.errors import OptionError, OutputError
from gagar_cli.parquet_io import default_output, open_source

OPTIONS = "?endpoint_override=localhost:9000&scheme=http"

# Names


@pytest.mark.parametrize("name", ["plain", "a b", "ü%20", "x[1]*?#", "\udcff"])
def test_a_file_uri_means_the_path_that_it_was_made_of(tmp_path, name):
    path = tmp_path / name
    assert uris.local(path.as_uri()) == str(path)
    assert uris.local(path.as_uri().replace("file://", "file://localhost")) == str(path)


@pytest.mark.parametrize("place", ["-", "a/b.parquet", "a:b", "s3://b/x", "x//y", "/ü"])
def test_any_other_place_is_as_it_is(place):
    assert uris.local(place) == place


@pytest.mark.parametrize("place", ["http://h/x", "s3a://b/x", "S3://b/x", "file://h/x", "file://"])
def test_a_scheme_that_nobody_knows_is_refused(place):
    with pytest.raises(OptionError, match="expected"):
        uris.local(place)


def test_keys_in_a_uri_are_not_told():
    assert uris.shown("s3://KEY:se%2Fcret@b/x?y") == "s3://***@b/x?y"
    assert uris.shown("Cannot parse 's3://KEY:s@b/ x'") == "Cannot parse 's3://***@b/ x'"
    for plain in ("s3://b/x:y@z", "gs://anonymous@b/x", "abfs://box@account/x", "a:b@c"):
        assert uris.shown(plain) == plain


def test_the_output_stands_beside_its_input_before_the_options():
    for given, stands in (
        ("s3://b/r.parquet", "s3://b/r.run.parquet"),
        ("s3://b/parts/", "s3://b/parts.run.parquet"),
        ("s3://b/parts/*.parquet", "s3://b/parts.run.parquet"),
        ("s3://b/parts/**/x*", "s3://b/parts.run.parquet"),
        ("file:///a%20b/r.parquet", "/a b/r.run.parquet"),
    ):
        assert default_output(given, "run") == stands
        if uris.is_remote(given):
            assert default_output(given + OPTIONS, "run") == stands + OPTIONS
    assert default_output("s3://b/r.parquet" + OPTIONS, "run", suffix="") == (
        "s3://b/r.run" + OPTIONS
    )
    for whole in ("s3://b", "s3://b/", "gs://b/*.parquet"):
        with pytest.raises(OutputError, match="beside"):
            default_output(whole, "run")


def test_two_names_of_one_place_are_equal():
    assert uris.same_text("s3://k:s@b/a%20b/" + OPTIONS) == uris.same_text("s3://b/a b")
    assert uris.same_text("s3://b/a") != uris.same_text("s3://b/a/b")


def test_a_column_may_follow_a_uri_without_options():
    assert split_reference("s3://b/l.parquet:quality", None) == ("s3://b/l.parquet", "quality")
    for whole in ("s3://b/l.parquet", "s3://b/l.parquet" + OPTIONS, "file:///l.parquet"):
        assert split_reference(whole, None) == (whole, None)


# file://


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "größe 100%"
    shutil.copytree(SAMPLE.parent, folder)
    return folder


def test_a_file_uri_is_read_and_written_as_its_path(folder, tmp_path):
    options = ["--root", tmp_path / "root", "-q"]
    ok("run", folder / SAMPLE.name, "-o", folder / "o.parquet", *options, cwd=tmp_path)
    # Repositories are found beside the input, so no --repos is needed.
    uri = folder.as_uri()
    ok("run", f"{uri}/{SAMPLE.name}", "-o", f"{uri}/uri.parquet", *options, cwd=tmp_path)
    ok(
        *("run", f"{uri}/{SAMPLE.name}", "-o", f"{uri}/all.parquet", "-q", "--repos", uri),
        *("--root", (tmp_path / "root").as_uri(), "--rejected", f"{uri}/no.parquet"),
        cwd=tmp_path,
    )
    whole = (folder / "o.parquet").read_bytes()
    assert (folder / "uri.parquet").read_bytes() == whole
    assert (folder / "all.parquet").read_bytes() == whole
    assert pq.read_metadata(folder / "no.parquet").num_rows == 12
    shown = ok("show", f"{uri}/o.parquet").stdout
    assert shown.splitlines()[:-1] == ok("show", folder / "o.parquet").stdout.splitlines()[:-1]


def test_a_file_uri_may_name_a_folder_or_a_glob(tmp_path):
    for name in ("a b.parquet", "c*.parquet"):
        tables.write(tmp_path / name, tables.rollouts({name: [True]}))
    for uri, rows in (
        (tmp_path.as_uri(), 2),
        (f"{tmp_path.as_uri()}/*.parquet", 2),
        (f"{tmp_path.as_uri()}/{quote('c*')}.parquet", 1),
    ):
        assert open_source(uri).rows == rows


def test_a_file_uri_and_its_path_are_one_place(tmp_path):
    path = tmp_path / "x y.parquet"
    line = error_of("filter", SAMPLE, "-o", path, "--rejected", path.as_uri(), code=2)
    assert "which is the output too" in line


# What cannot be


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["filter", "http://host/r.parquet"], 2, "got http://, expected a path, s3://"),
        (["filter", "s3a://b/r.parquet"], 2, "Next: s3://b/r.parquet"),
        (["filter", "file://host/r.parquet"], 2, "is no file of this machine"),
        (["filter", "file:///none.parquet"], 1, "/none.parquet: no such file"),
        (["filter", SAMPLE, "-o", "http://host/r.parquet"], 2, "got http://"),
        (["assemble", SAMPLE, "--root", "s3://b/x"], 2, "expected a path of this machine"),
        (["assemble", SAMPLE, "--repos", "gs://b/x"], 2, "expected a path of this machine"),
        (["grade", SAMPLE, "--journal", "s3://b/x"], 2, "expected a path of this machine"),
        (["grade", SAMPLE, "--journal", "ftp://b/x"], 2, "got ftp://"),
    ],
)
def test_what_cannot_be_a_uri_says_so_in_one_line(tmp_path, arguments, code, words):
    assert words in error_of(*arguments, code=code, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_hdfs_without_hadoop_is_told_in_one_line(tmp_path):
    env = {**os.environ, "JAVA_HOME": str(tmp_path), "HADOOP_HOME": str(tmp_path)}
    line = error_of("filter", "hdfs://127.0.0.1:9/r.parquet", env=env)
    assert line.startswith("error: hdfs://127.0.0.1:9/r.parquet: ")


def test_google_storage_that_nobody_answers_is_told_in_one_line():
    uri = "gs://anonymous@b/r.parquet?endpoint_override=127.0.0.1:9&scheme=http"
    assert error_of("filter", uri).startswith(f"error: {uri}: no server answers there (Could not")
