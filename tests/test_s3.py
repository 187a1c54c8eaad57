"""S3 as users have it: commands in processes of their own, and a real server on this machine."""

import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from cli import GAGAR, SAMPLE, error_of, ok
from ray_cluster import OWN, cluster
from s3_server import BUCKET, KEYS, s3_server
from test_sft_votes import vote, write

from gagar_cli.engines.folders import check_folder, file_in, new_folder
from gagar_cli.errors import OutputError, SourceError
from gagar_cli.parquet_io import open_source, read_text
from gagar_cli.rollouts import Rollouts

S3 = f"s3://{BUCKET}"

pytestmark = pytest.mark.s3


@pytest.fixture(scope="module")
def server():
    with s3_server() as running:
        yield running


@pytest.fixture
def here(server, monkeypatch):
    """Lead this process to the server."""
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": server.url}.items():
        monkeypatch.setenv(name, value)
    return server


def parts(folder):
    """Write a data set in files over which groups are scattered; return it as a table."""
    table = tables.rollouts({f"g{n}": [True, False, True] for n in range(20)})
    names = ["a.parquet", "a/b.parquet", "a-b.parquet", "z ü+%#[1].parquet", "_log/x.parquet"]
    for number, name in enumerate([*names, ".hidden.parquet", "notes.txt"]):
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        tables.write(path, table.slice(number * 9, 9))
    return table


def put_folder(server, folder, prefix):
    for path in folder.rglob("*"):
        if path.is_file():
            server.put(f"{prefix}/{path.relative_to(folder)}", path)
    return f"{S3}/{prefix}"


# Reading


def test_an_object_reads_as_the_file_does(server, tmp_path):
    uri = server.put("one/r.parquet", SAMPLE)
    ok("filter", SAMPLE, "-o", "local.parquet", cwd=tmp_path)
    ok("filter", uri, "-o", "env.parquet", cwd=tmp_path, env=server.env)
    named = {k: v for k, v in server.env.items() if k != "AWS_ENDPOINT_URL"}
    ok("filter", uri + server.options, "-o", "options.parquet", cwd=tmp_path, env=named)
    local = (tmp_path / "local.parquet").read_bytes()
    assert (tmp_path / "env.parquet").read_bytes() == local
    assert (tmp_path / "options.parquet").read_bytes() == local


def test_a_prefix_is_one_data_set_as_its_folder_is(here, tmp_path):
    parts(tmp_path / "in")
    uri = put_folder(here, tmp_path / "in", "many")
    here.put("many/empty/", b"")  # what consoles make of an empty folder
    ours, theirs = open_source(uri), open_source(str(tmp_path / "in"))
    assert [path.rpartition("/")[2] for path in ours.paths] == [
        *("b.parquet", "a-b.parquet", "a.parquet"),
        "z%20%C3%BC%2B%25%23%5B1%5D.parquet",
    ]
    assert ours.read(ours.schema.names).equals(theirs.read(theirs.schema.names))
    assert open_source(uri + "/").paths == ours.paths


def test_every_object_of_a_data_set_opens_alone_by_its_uri(here, tmp_path):
    parts(tmp_path / "in")
    uri = put_folder(here, tmp_path / "in", "alone") + here.options
    source = open_source(uri)
    assert sum(open_source(path).rows for path in source.paths) == source.rows == 36


def test_all_columns_of_a_row_group_come_in_one_request(here, tmp_path):
    columns = {f"c{n}": [os.urandom(4000).hex()] * 4000 for n in range(6)}
    table = tables.rollouts({f"g{n}": [True, False] for n in range(2000)}, **columns)
    path = tables.write(tmp_path / "in.parquet", table, row_group_size=1000, use_dictionary=False)
    source = open_source(here.put("few/in.parquet", path))
    with here.troubling("GET", "few/in", seconds=0):
        assert sum(map(len, source.batches())) == 4000
        assert here.troubled() == 4


@pytest.mark.parametrize(
    ("pattern", "rows"),
    [("*.parquet", 27), ("**/*.parquet", 36), ("*/b.parquet", 9), ("a*b.parquet", 9), ("*", 33)],
)
def test_a_glob_names_objects(here, tmp_path, pattern, rows):
    parts(tmp_path / "in")
    (tmp_path / "in" / "notes.txt").rename(tmp_path / "in" / "other")
    uri = put_folder(here, tmp_path / "in", "glob")
    assert open_source(f"{uri}/{pattern}{here.options}").rows == rows


@pytest.mark.parametrize(
    "uri", ["odd/z ü+%25%23[1].parquet", "odd/z%20%C3%BC+%25%23%5B1%5D.parquet"]
)
def test_a_name_may_be_written_plainly_or_encoded(here, uri):
    here.put("odd/z ü+%#[1].parquet", SAMPLE)
    assert open_source(f"{S3}/{uri}").rows == 68
    Rollouts.of(open_source(f"{S3}/{uri}")).write(f"{S3}/{uri}.copy")
    assert here.keys("odd/") == ["odd/z ü+%#[1].parquet", "odd/z ü+%#[1].parquet.copy"]


# Every command


def test_the_pipeline_gives_the_same_bytes_there_as_here(server, tmp_path):
    uri = server.put("run/r.parquet", SAMPLE)
    rubric = server.put("run/rubric.md", "Größe zählt".encode())
    options = ["--repos", SAMPLE.parent, "--root", tmp_path / "root", "-q"]
    ok("run", SAMPLE, "-o", "o.parquet", "--rejected", "n.parquet", *options, cwd=tmp_path)
    there = ["-o", f"{S3}/run/o.parquet", "--rejected", f"{S3}/run/n.parquet", "--rubric", rubric]
    ok("run", uri, *there, *options, env=server.env)
    for name in ("o.parquet", "n.parquet"):
        assert server.get(f"run/{name}") == (tmp_path / name).read_bytes()


def test_each_command_takes_uris(server, tmp_path):
    def run(*arguments):
        return ok(*arguments, cwd=tmp_path, env=server.env)

    server.put("each/r.parquet", SAMPLE)
    before = f"{S3}/each/r.parquet"
    for stage, options in (
        ("filter", []),
        ("assemble", ["--repos", SAMPLE.parent]),
        ("grade", ["--transcripts", f"{S3}/each/votes.parquet"]),
        ("redistribute", []),
    ):
        done = run(stage, before, "-o", f"{S3}/each/{stage}.parquet", *options)
        assert f"wrote {S3}/each/{stage}.parquet".encode() in done.stderr
        before = f"{S3}/each/{stage}.parquet"
    ok("run", SAMPLE, "-o", "o.parquet", "--repos", SAMPLE.parent, cwd=tmp_path)
    local = pq.read_table(tmp_path / "o.parquet")
    assert pq.read_table(pa.BufferReader(server.get("each/redistribute.parquet"))).equals(local)
    assert b"rows              56" in run("validate", before).stdout
    assert (
        run("show", before).stdout.splitlines()[:-1]
        == (ok("show", tmp_path / "o.parquet").stdout.splitlines()[:-1])
    )
    for more in ([f"{before}:num_tokens"], [before + server.options, "--reference-column", "rank"]):
        found = json.loads(run("audit", before, "--json", "--reference", *more).stdout)
        assert found["reference"]["compared"] > 0
    votes = ["--transcripts", f"{S3}/each/votes.parquet"]
    assert b"transcripts hold no vote" in run("audit", before, *votes).stdout  # nor did it hold any


def test_votes_are_exported_there_as_here(server, tmp_path):
    votes = write(tmp_path / "v.parquet", [vote(f"g{n}", tiers="A B") for n in range(20)])
    uri = server.put("sft/v.parquet", votes)
    options = ["--profile", "verl", "--no-balance"]
    ok("export-sft", votes, "-o", "sft", *options, cwd=tmp_path)
    ok("export-sft", uri, "-o", f"{S3}/sft/out", *options, env=server.env)
    names = {path.name for path in (tmp_path / "sft").iterdir()}
    assert set(server.keys("sft/out/")) == {f"sft/out/{name}" for name in names}
    for name in names - {"export.json"}:
        assert server.get(f"sft/out/{name}") == (tmp_path / "sft" / name).read_bytes()
    again = ["export-sft", uri, "-o", f"{S3}/sft/out", "--no-balance"]
    assert "holds an export" in error_of(*again, env=server.env)
    ok(*again, "--overwrite", "--validation", 0, env=server.env)
    assert server.files("sft/out/") == ["sft/out/export.json", "sft/out/train.parquet"]
    assert "no export" in error_of("export-sft", uri, "-o", f"{S3}/sft", env=server.env)


def at_a_terminal(*arguments, env):
    """Run gagar with a terminal as its standard output; return its exit code and what it said."""
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*GAGAR, *arguments], stdout=theirs, stderr=subprocess.PIPE, env=env, check=False
    )
    os.close(theirs)
    os.close(ours)
    return done.returncode, done.stderr.decode()


def test_at_a_terminal_the_output_stands_beside_the_input(server):
    uri = server.put("tty/in.parquet", SAMPLE) + server.options
    code, words = at_a_terminal("filter", uri, env=server.env)
    assert (code, words.splitlines()[-1]) == (
        0,
        f"wrote {S3}/tty/in.filter.parquet{server.options}",
    )
    assert server.keys("tty/") == ["tty/in.filter.parquet", "tty/in.parquet"]
    code, words = at_a_terminal("filter", S3, env=server.env)
    assert (code, words) == (
        1,
        f"error: {S3}: has no place beside it for the output. Next: name an -o\n",
    )


def test_two_names_of_one_object_are_one(server):
    uri = server.put("same/r.parquet", SAMPLE)
    options = ["-o", f"{S3}/same/%6F.parquet", "--rejected", f"{S3}/same/o.parquet{server.options}"]
    assert "the output too" in error_of("filter", uri, *options, code=2, env=server.env)


# The whole object or nothing


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """Write 30 MB that nothing compresses, which are sent in parts."""
    count = 30
    blobs = [os.urandom(1 << 20) for _ in range(count)]
    table = tables.rollouts({"g": [True, False] * (count // 2)}, blob=blobs)
    return tables.write(tmp_path_factory.mktemp("big") / "in.parquet", table, row_group_size=8)


def test_a_large_object_arrives_whole(server, big):
    ok("filter", big, "-o", f"{S3}/large/o.parquet", env=server.env)
    there = pq.read_table(pa.BufferReader(server.get("large/o.parquet")))
    assert there.equals(pq.read_table(big))


def test_a_run_that_fails_leaves_nothing(server, tmp_path):
    table = pq.read_table(SAMPLE).append_column("rank", [["x"] * 68])
    source = tables.write(tmp_path / "in.parquet", table)
    target = f"{S3}/failed/o.parquet"
    assert "rank" in error_of("redistribute", source, "-o", target, env=server.env)
    assert (server.keys("failed"), server.uploads()) == ([], [])


@pytest.mark.parametrize(
    ("file", "method", "text"),
    [
        ("small", "PUT", "o.parquet"),
        ("big", "POST", "uploads"),
        ("big", "PUT", "partNumber=2"),
        ("big", "POST", "uploadId"),
    ],
)
def test_an_upload_that_fails_leaves_the_object_as_it_was(server, big, file, method, text):
    server.put("refused/o.parquet", b"the old one")
    source = SAMPLE if file == "small" else big
    with server.troubling(method, text):
        line = error_of("filter", "-q", source, "-o", f"{S3}/refused/o.parquet", env=server.env)
    assert line.startswith(f"error: {S3}/refused/o.parquet: these credentials do not allow it")
    assert server.get("refused/o.parquet") == b"the old one"


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_upload_is_whole(server, big, sent, code):
    target = f"{S3}/stopped/{code}.parquet"
    with server.troubling("PUT", "partNumber=1", seconds=1):
        command = [*GAGAR, "filter", "-q", big, "-o", target]
        with subprocess.Popen(command, env=server.env, stderr=subprocess.PIPE) as process:
            deadline = time.monotonic() + 60
            while not server.troubled() and time.monotonic() < deadline:
                time.sleep(0.02)
            process.send_signal(sent)
            _, words = process.communicate(timeout=60)
    assert (process.returncode, b"Traceback" in words) == (code, False)
    assert server.get(f"stopped/{code}.parquet") == ok("filter", "-q", big).stdout
    assert f"stopped/{code}.parquet" not in server.uploads()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_an_upload_takes_no_more_memory_for_a_larger_object(server, tmp_path):
    code = """if True:
        import pathlib, sys
        from gagar_cli.parquet_io.remote import upload
        with open(sys.argv[1], "rb") as file:
            upload(file, sys.argv[2])
        status = pathlib.Path("/proc/self/status").read_text()
        print(status.partition("VmHWM:")[2].split()[0])
    """
    peaks = []
    for size in (100, 300):
        file = tmp_path / str(size)
        with file.open("wb") as stream:
            stream.truncate(size << 20)
        with server.troubling("PUT", "partNumber", seconds=0.1):
            command = [sys.executable, "-c", code, file, f"{S3}/memory/{size}"]
            done = subprocess.run(command, env=server.env, capture_output=True, check=True)
        peaks.append(int(done.stdout) >> 10)
        assert len(server.get(f"memory/{size}")) == size << 20
    assert peaks[1] < peaks[0] + 60


# One line on what is wrong


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["s3://no-such-bucket/r.parquet"], 1, "there is no such bucket (no-such-bucket)"),
        ([f"{S3}/none.parquet"], 1, "no such object, expected Parquet. Next: check the name"),
        ([f"{S3}/none/*.parquet"], 1, "no such object"),
        ([f"{S3}/wrong/"], 1, "no *.parquet object under it"),
        ([f"{S3}/wrong/text.txt"], 1, "not a whole, readable Parquet file"),
        (["s3:///r.parquet"], 1, "has no bucket, expected s3://BUCKET/NAME"),
        ([f"{S3}/r.parquet?color=red"], 1, "Unexpected query parameter in S3 URI: 'color'"),
        ([f"s3://test:hidden@{BUCKET}/none"], 1, f"error: s3://***@{BUCKET}/none: no such object"),
        ([SAMPLE, "-o", "s3://no-such-bucket/r.parquet"], 1, "there is no such bucket"),
        ([SAMPLE, "-o", f"{S3}/"], 1, "is a folder, expected a name in it"),
        ([SAMPLE, "-o", f"{S3}/wrong"], 1, "is a folder, expected a file name"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(server, tmp_path, arguments, code, words):
    server.put("wrong/text.txt", b"no Parquet")
    if "-o" not in arguments:
        arguments = [*arguments, "-o", tmp_path / "o.parquet"]
    assert words in error_of("filter", *arguments, code=code, env=server.env)
    assert list(tmp_path.iterdir()) == []


def test_credentials_that_the_server_does_not_know_are_told_in_one_line(server, tmp_path):
    uri = server.put("locked/r.parquet", SAMPLE)
    words = "does not accept these credentials (The AWS Access Key Id you provided does not exist"
    with server.checking_keys():
        for arguments in ([uri, "-o", tmp_path / "o"], [SAMPLE, "-o", f"{S3}/locked/o.parquet"]):
            line = error_of("filter", *arguments, env=server.env)
            assert words in line
            assert "Next: check AWS_ACCESS_KEY_ID" in line
    assert server.keys("locked/") == ["locked/r.parquet"]


def test_credentials_that_may_only_write_are_enough_to_write(server):
    with server.troubling("HEAD", f"/{BUCKET}/only"):
        ok("filter", SAMPLE, "-o", f"{S3}/only/o.parquet", env=server.env)
    assert server.keys("only/") == ["only/o.parquet"]


def test_no_server_is_told_in_one_line(server, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        uri = f"{S3}/r.parquet?endpoint_override={address}&scheme=http"
        line = error_of("filter", uri, "-o", tmp_path / "o.parquet", env=server.env)
        assert line.startswith(f"error: {uri}: no server answers there (Timeout was reached)")
    line = error_of("filter", SAMPLE, "-o", uri, env=server.env)
    assert line.startswith(f"error: {uri}: no server answers there (Could not connect to server)")
    assert "Next: check the network and the endpoint" in line


def test_what_may_no_longer_be_read_is_no_damaged_file(here):
    source = open_source(here.put("ended/r.parquet", SAMPLE))
    with here.troubling("GET", "ended"), pytest.raises(SourceError, match="do not allow it"):
        source.read(["patch"])


# A folder as an output


def test_a_folder_appears_when_all_its_files_are_there(here):
    target = f"{S3}/folder/out{here.options}"
    check_folder(target)
    with new_folder(target) as folder:
        for name in ("1.parquet", "2.parquet"):
            Rollouts.of(open_source(str(SAMPLE))).write(file_in(folder, name))
        assert [key.count("/_gagar-") for key in here.keys("folder/")] == [1, 1]
    assert here.files("folder/") == ["folder/out/1.parquet", "folder/out/2.parquet"]
    with pytest.raises(OutputError, match="holds something already"):
        check_folder(target)


def test_a_folder_that_fails_leaves_no_files(here):
    def fail_halfway():
        with new_folder(f"{S3}/gone") as folder:
            Rollouts.of(open_source(str(SAMPLE))).write(file_in(folder, "1.parquet"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert here.keys("gone") == []


def test_a_folder_whose_files_cannot_all_be_moved_leaves_none(here):
    def fail_at_the_end():
        with new_folder(f"{S3}/stuck") as folder:
            for name in ("1.parquet", "2.parquet"):
                Rollouts.of(open_source(str(SAMPLE))).write(file_in(folder, name))

    with (
        here.troubling("PUT", "stuck/2"),
        pytest.raises(OutputError, match="do not allow it"),
    ):
        fail_at_the_end()
    assert here.keys("stuck") == []


def test_text_is_read_from_a_uri(here):
    assert read_text(here.put("text/ü.md", "größer".encode())) == "größer"
    with pytest.raises(SourceError, match="not"):
        read_text(f"{S3}/text/none.md")


# A cluster


@pytest.mark.ray
def test_ray_reads_and_writes_there_what_one_process_does_here(here, tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_ENDPOINT_URL")  # the workers know the server by the URIs alone
    (tmp_path / "in").mkdir()
    table = pq.read_table(SAMPLE)
    table = table.take(pa.array(sorted(range(68), key=lambda n: n * 37 % 68)))
    for number in range(4):
        pq.write_table(table.slice(number * 17, 17), tmp_path / "in" / f"{number} ü.parquet")
    options = ["--repos", SAMPLE.parent, "-q"]
    ok("run", "in", "-o", "o.parquet", "--rejected", "n.parquet", *options, cwd=tmp_path)
    uri = put_folder(here, tmp_path / "in", "ray/in") + here.options
    out, rejected = (f"{S3}/ray/{name}{here.options}" for name in ("out", "no"))
    env = {**{k: v for k, v in here.env.items() if k != "AWS_ENDPOINT_URL"}, **OWN}
    folder = Path("/tmp") / f"gagar-ray-s3-{os.getpid()}"  # noqa: S108  sockets need a short path
    with cluster(folder) as address:
        options += ["--engine", "ray", "--ray-address", address]
        ok("run", uri, "-o", out, "--rejected", rejected, *options, cwd=tmp_path, env=env)
        words = error_of("run", uri, "-o", out, *options, cwd=tmp_path, env=env)
        assert "holds something already" in words
        with here.troubling("PUT", "part-00002"):
            options[options.index("-q")] = "--no-repo"
            words = error_of("run", uri, "-o", f"{S3}/ray/half{here.options}", *options, env=env)
            assert "these credentials do not allow it" in words
    shutil.rmtree(folder, ignore_errors=True)
    for there, local in ((out, "o.parquet"), (rejected, "n.parquet")):
        source, whole = open_source(there), pq.read_table(tmp_path / local)
        assert source.read(source.schema.names).equals(whole)
    assert here.files("ray/out/") == [f"ray/out/part-0000{n}.parquet" for n in range(4)]
    assert here.files("ray/half") == []
