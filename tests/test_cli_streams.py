"""Pipes, signals, full disks: what a shell does to a command."""

import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from cli import GAGAR, error_of, gagar, ok


@pytest.fixture
def source(tmp_path):
    groups = {f"g{n}": [True, False] for n in range(2000)}
    table = tables.rollouts(groups, text=[os.urandom(50).hex() for _ in range(4000)])
    return tables.write(tmp_path / "in.parquet", table)


def shell(script, **options):
    command = " ".join(map(shlex.quote, GAGAR))
    return subprocess.run(
        ["bash", "-c", script.replace("gagar", command)],
        capture_output=True,
        timeout=60,
        check=False,
        **options,
    )


def test_a_reader_that_goes_away_ends_the_command_quietly(source):
    done = shell(f"gagar filter -q {source} | head -c 100; echo ${{PIPESTATUS[0]}}")
    assert done.stdout[100:].strip() == b"141"
    assert done.stderr == b""


def test_a_redirected_file_is_read_in_place(source, tmp_path):
    done = shell(f"gagar filter -q < {source} > {tmp_path}/out.parquet", env=no_spool(tmp_path))
    assert (done.returncode, done.stderr) == (0, b"")


def no_spool(tmp_path):
    """Name a TMPDIR in which nothing can be made."""
    return {**os.environ, "TMPDIR": str(tmp_path / "absent")}


def test_a_pipe_whose_writer_failed_is_told_apart_from_an_empty_file(tmp_path):
    done = shell(f"gagar filter {tmp_path}/absent.parquet | gagar filter; echo ${{PIPESTATUS[@]}}")
    assert done.stdout.strip() == b"1 1"
    first, second = done.stderr.decode().splitlines()
    assert "absent.parquet" in first
    assert "standard input: is empty" in second
    assert "the command before it" in second


def test_half_a_stream_is_no_parquet(source):
    whole = ok("filter", source, "-q").stdout
    line = error_of("filter", stdin=whole[: len(whole) // 2])
    assert "standard input" in line
    assert "not a whole" in line


def test_a_full_disk_gets_one_line_and_leaves_nothing(source, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    done = subprocess.run(
        [*GAGAR, "filter", "-q", source, "-o", out / "out.parquet"],
        capture_output=True,
        text=True,
        check=False,
        # A file size limit is a disk that is full, for one process.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {out}/out.parquet: cannot be written (")
    assert done.stderr.count("\n") == 1
    assert list(out.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_standard_output_on_a_full_disk_gets_one_line(source):
    done = shell(f"gagar filter -q {source} > /dev/full")
    assert done.returncode == 1
    assert done.stderr.decode().startswith("error: standard output: cannot be written (No space")
    assert b"Next: free some space" in done.stderr


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_command_with_its_code_and_no_output(tmp_path, sent, code):
    out = tmp_path / "out.parquet"
    with subprocess.Popen(
        [*GAGAR, "filter", "-o", out],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        process.stdin.write(b"PAR1")
        process.stdin.flush()
        # Its spool file is open once it reads: only then does the signal find it at work.
        deadline = time.monotonic() + 30
        while not spools(process.pid, tmp_path) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(sent)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert b"Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def spools(pid, folder):
    """Whether a process has a file open in a folder."""
    if sys.platform != "linux":
        time.sleep(2)
        return True
    links = (link for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink())
    return any(str(link.readlink()).startswith(str(folder)) for link in links)


def test_an_output_that_cannot_be_is_refused_before_the_input_is_read(tmp_path):
    line = error_of("filter", "absent.parquet", "-o", tmp_path / "no" / "x.parquet")
    assert "its folder is not there" in line


def test_output_goes_through_links_and_devices(source):
    done = shell(f"gagar filter -q {source} -o /dev/stdout")
    assert pq.read_table(pa.BufferReader(done.stdout)).num_rows == 4000


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_that_is_not_needed_does_no_harm(source, tmp_path, closed):
    done = shell(f"gagar filter {source} -o {tmp_path}/out.parquet {closed}")
    assert done.returncode == 0
    assert pq.read_metadata(tmp_path / "out.parquet").num_rows == 4000


def test_a_closed_stream_that_is_needed_is_named(source):
    for script, words in (
        (f"gagar filter -q {source} >&-", b"standard output: is closed"),
        ("gagar filter -q -o /dev/null <&-", b"standard input: is closed"),
    ):
        done = shell(script)
        assert done.returncode == 1
        assert words in done.stderr
        assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_table_on_a_full_disk_gets_one_line(source):
    done = shell(f"gagar show {source} > /dev/full")
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"free some space" in done.stderr


def test_the_help_of_every_command_has_an_example_that_names_it():
    listed = ok("--help").stdout.decode()
    for name in ("run", "filter", "assemble", "grade", "redistribute", "validate", "show"):
        assert name in listed
        text = " ".join(ok(name, "--help").stdout.decode().split())
        assert f"Example: gagar {name} " in text


def test_the_version_is_printed():
    assert ok("--version").stdout.startswith(b"gagar 0.")


def test_nothing_to_do_shows_the_help():
    done = gagar()
    assert done.returncode == 2
    assert b"Usage" in done.stdout + done.stderr
