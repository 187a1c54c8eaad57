"""Run the command line as a user does: another process, real pipes, real exit codes."""

import subprocess
import sys
from pathlib import Path

GAGAR = [sys.executable, "-m", "gagar_cli"]
SAMPLE = Path(__file__).parent.parent / "sample_groups" / "rollouts.parquet"


def gagar(*arguments, stdin=b"", cwd=None, env=None):
    """Run gagar; return the finished process, its streams as bytes."""
    return subprocess.run(
        [*GAGAR, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=env,
        timeout=120,
        check=False,
    )


def ok(*arguments, **options):
    """Run gagar; fail with its standard error unless it exits with 0."""
    done = gagar(*arguments, **options)
    assert done.returncode == 0, done.stderr.decode()
    return done


def error_of(*arguments, code=1, **options):
    """Run gagar; return the error's one line, having checked the exit code and standard output."""
    done = gagar(*arguments, **options)
    assert done.returncode == code, (done.returncode, done.stderr.decode())
    assert done.stdout == b""
    lines = [x for x in done.stderr.decode().splitlines() if x.startswith("error: ")]
    assert len(lines) == 1, done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
    return lines[0]
