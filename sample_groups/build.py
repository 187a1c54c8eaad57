"""Rebuild the sample rollouts by running every patch against its verifier.

For each rollout the base commit is checked out of the bundle into a temporary
folder, the patch is applied, the hidden tests of the task are copied over the
tree, and `python -m unittest` gives the verdict. Needs git and pyarrow; the
`patch` program is a last resort for diffs that git refuses, where installed.

    python sample_groups/build.py            # write sample_groups/rollouts.parquet
    python sample_groups/build.py --check    # compare it with a fresh build
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent
SHIPPED = ROOT / "rollouts.parquet"
TIME_LIMIT = 10.0  # seconds for the tests of one rollout
COMMIT_ID = re.compile(r"[0-9a-f]{40}")
TOKEN = re.compile(r"\w+|[^\w\s]", re.ASCII)  # a word, or one other visible character
TESTS_RUN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
TESTS_FAILED = re.compile(r"\b(?:failures|errors)=(\d+)")
LAST_LINE = re.compile(r"^(?:OK|FAILED)\b.*", re.MULTILINE)

SCHEMA = pa.schema(
    [
        ("group_id", pa.string()),
        ("rollout_id", pa.string()),
        ("problem_statement", pa.string()),
        ("repo", pa.string()),
        ("base_commit", pa.string()),
        ("patch", pa.string()),
        ("passed", pa.bool_()),
        ("reward", pa.float64()),
        ("num_tokens", pa.int64()),
        ("tests_run", pa.int32()),
        ("tests_failed", pa.int32()),
    ]
)


class SampleError(Exception):
    """Something in the sample folder, or the machine, is not as expected."""


@dataclass(frozen=True, slots=True)
class Task:
    """One group: a problem at a commit, its hidden tests and its rollouts."""

    group_id: str
    repo: str
    base_commit: str
    problem: str
    folder: Path
    rollouts: tuple[str, ...]
    order: tuple[tuple[str, ...], ...]

    @property
    def bundle(self) -> Path:
        """The git bundle that holds the base commit."""
        return ROOT / self.repo

    def patch(self, rollout_id: str) -> bytes:
        """Return the patch of one rollout as it is stored."""
        return (self.folder / "rollouts" / f"{rollout_id}.patch").read_bytes()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the verifier says; `passed` is null on time-out, the counts where no test ran."""

    passed: bool | None
    tests_run: int | None = None
    tests_failed: int | None = None

    @property
    def reward(self) -> float | None:
        """1.0 for a pass, 0.0 for a failure, null without a verdict."""
        return None if self.passed is None else float(self.passed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build or check the sample file and return the exit code."""
    parser = argparse.ArgumentParser(description="Rebuild the sample rollouts from their patches.")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=SHIPPED,
        metavar="PATH",
        help="the shipped file by default",
    )
    parser.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="rollouts run at a time (%(default)s)"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing, compare PATH with a fresh build"
    )
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs: got {options.jobs}, expected at least 1")
    try:
        table = build_table(read_tasks(), options.jobs)
        print_counts(table)
        if options.check:
            check_table(table, options.output)
        else:
            write_table(table, options.output)
    except (SampleError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def read_tasks() -> list[Task]:
    """Return the tasks by name, each checked for a complete description."""
    folders = sorted(path.parent for path in ROOT.glob("tasks/*/task.json"))
    if not folders:
        raise SampleError(f"{ROOT / 'tasks'}: got no task.json, expected one in each folder")
    return [_read_task(folder) for folder in folders]


def _read_task(folder: Path) -> Task:
    """Return the task that a folder describes."""
    where = folder / "task.json"
    try:
        facts = json.loads(where.read_text(encoding="utf-8"))
        task = Task(
            group_id=facts["group_id"],
            repo=facts["repo"],
            base_commit=facts["base_commit"],
            problem=(folder / "problem.md").read_text(encoding="utf-8"),
            folder=folder,
            rollouts=tuple(sorted(facts["notes"], key=_natural)),
            order=tuple(map(tuple, facts["order"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SampleError(f"{where}: cannot be read ({error!r})") from error
    stored = {path.stem for path in folder.glob("rollouts/*.patch")}
    if stored != set(task.rollouts):
        odd = ", ".join(sorted(stored ^ set(task.rollouts), key=_natural))
        raise SampleError(f"{where}: notes and patches differ in {odd}")
    if task.group_id != folder.name:
        raise SampleError(f"{where}: got group_id {task.group_id!r}, expected {folder.name!r}")
    if not COMMIT_ID.fullmatch(task.base_commit):
        raise SampleError(f"{where}: got base_commit {task.base_commit!r}, expected 40 hex digits")
    if not task.bundle.is_file():
        raise SampleError(f"{where}: got repo {task.repo!r}, expected a bundle in {ROOT}")
    if not any(folder.glob("verify/**/test_*.py")):
        raise SampleError(f"{where}: got no test_*.py under verify, expected the hidden tests")
    return task


def _natural(name: str) -> tuple[int, str]:
    """Return the key that puts r2 before r10."""
    return len(name), name


def build_table(tasks: Sequence[Task], jobs: int) -> pa.Table:
    """Run all rollouts and return one row each: first rollouts first, groups taking turns."""
    if shutil.which("git") is None:
        raise SampleError("git: not found on PATH, expected it to check out the base commits")
    by_turn = zip_longest(*([(task, name) for name in task.rollouts] for task in tasks))
    rows = [row for turn in by_turn for row in turn if row is not None]
    with ThreadPoolExecutor(jobs) as pool:
        bases = pool.map(lambda task: run_verifier(task, b""), tasks)
        verdicts = pool.map(lambda row: run_verifier(row[0], row[0].patch(row[1])), rows)
        for task, base in zip(tasks, bases, strict=True):
            if base.passed is not False:
                raise SampleError(f"{task.group_id}: the base commit does not fail its tests")
        table = _to_table(rows, list(verdicts))
    _check_orders(tasks, table)
    return table


def _to_table(rows: Sequence[tuple[Task, str]], verdicts: Sequence[Verdict]) -> pa.Table:
    """Return the rollouts with their verdicts in the documented columns."""
    raw = [task.patch(name) for task, name in rows]
    schema = SCHEMA
    try:
        patches: list[str] | list[bytes] = [patch.decode() for patch in raw]
    except UnicodeDecodeError:
        patches = raw
        schema = schema.set(schema.get_field_index("patch"), pa.field("patch", pa.binary()))
    columns = {
        "group_id": [task.group_id for task, _ in rows],
        "rollout_id": [name for _, name in rows],
        "problem_statement": [task.problem for task, _ in rows],
        "repo": [task.repo for task, _ in rows],
        "base_commit": [task.base_commit for task, _ in rows],
        "patch": patches,
        "passed": [verdict.passed for verdict in verdicts],
        "reward": [verdict.reward for verdict in verdicts],
        "num_tokens": [count_tokens(patch) for patch in raw],
        "tests_run": [verdict.tests_run for verdict in verdicts],
        "tests_failed": [verdict.tests_failed for verdict in verdicts],
    }
    return pa.table(columns, schema=schema)


def count_tokens(patch: bytes) -> int:
    """Return the number of words and other visible characters; stands in for policy tokens."""
    return len(TOKEN.findall(patch.decode(errors="replace")))


def _check_orders(tasks: Iterable[Task], table: pa.Table) -> None:
    """Raise `SampleError` unless the reference tiers name the passing rollouts, each once."""
    passing = {(row["group_id"], row["rollout_id"]) for row in table.to_pylist() if row["passed"]}
    for task in tasks:
        named = sorted((task.group_id, name) for tier in task.order for name in tier)
        expected = sorted(pair for pair in passing if pair[0] == task.group_id)
        if named != expected:
            raise SampleError(
                f"{task.group_id}: got order {[name for _, name in named]}, "
                f"expected the passing rollouts {[name for _, name in expected]}"
            )


def run_verifier(task: Task, patch: bytes) -> Verdict:
    """Apply a patch to a fresh checkout, run the hidden tests and return the verdict."""
    with tempfile.TemporaryDirectory(prefix="gagar-sample-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        tree = folder / "tree"
        _git(folder, "clone", "--quiet", "--no-checkout", str(task.bundle), str(tree))
        _git(tree, "checkout", "--quiet", "--detach", task.base_commit)
        if not apply_patch(tree, patch):
            return Verdict(passed=False)
        hidden = task.folder / "verify"
        shutil.copytree(
            hidden, tree, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )
        modules = [
            ".".join(path.relative_to(hidden).with_suffix("").parts)
            for path in sorted(hidden.glob("**/test_*.py"))
        ]
        return _run_tests(tree, modules)


def apply_patch(tree: Path, patch: bytes) -> bool:
    """Apply a patch as verifiers do, from strict to lenient; tell whether it worked."""
    if not patch.strip():
        return True
    file = tree.parent / "rollout.patch"
    file.write_bytes(normalise(patch))
    commands = [
        ["git", "apply", str(file)],
        ["git", "apply", "--recount", str(file)],
        ["patch", "--batch", "--fuzz=5", "-p1", "-i", str(file)],
    ]
    if shutil.which("patch") is None:
        commands.pop()
    return any(_run(command, tree).returncode == 0 for command in commands)


def normalise(patch: bytes) -> bytes:
    """Drop leading blank lines, add a missing last newline, undo CRLF where all lines have it."""
    patch = patch.lstrip(b"\r\n")
    if patch.count(b"\r\n") == patch.count(b"\n"):
        patch = patch.replace(b"\r\n", b"\n")
    return patch if patch.endswith(b"\n") else patch + b"\n"


def _run_tests(tree: Path, modules: Sequence[str]) -> Verdict:
    """Run test modules in their own process, within the time limit."""
    try:
        done = _run([sys.executable, "-m", "unittest", *modules], tree, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        return Verdict(passed=None)
    text = done.stderr.decode(errors="replace")
    passed = done.returncode == 0
    counts, endings = TESTS_RUN.findall(text), LAST_LINE.findall(text)
    if not counts or not endings:  # the process died before its summary
        return Verdict(passed=passed)
    return Verdict(passed, int(counts[-1]), sum(map(int, TESTS_FAILED.findall(endings[-1]))))


def _git(folder: Path, *arguments: str) -> None:
    """Run git in a folder, or raise `SampleError` with what it said."""
    done = _run(["git", *arguments], folder)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise SampleError(f"git {arguments[0]}: {said[-1] if said else 'failed'}")


def _run(
    command: Sequence[str], folder: Path, timeout: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a folder; settings of the user's git and Python do not reach it."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTHON"))
    }
    environment |= {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
    }
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )


def print_counts(table: pa.Table) -> None:
    """Print how many rollouts of each group passed, failed or have no verdict."""
    counts = Counter(zip(table["group_id"].to_pylist(), table["passed"].to_pylist(), strict=True))
    groups = sorted({group for group, _ in counts})
    width = max(map(len, groups))
    print(f"{'group':<{width}}  passed  failed  null")
    for group in groups:
        passed, failed, null = (counts[group, value] for value in (True, False, None))
        print(f"{group:<{width}}  {passed:>6}  {failed:>6}  {null:>4}")


def write_table(table: pa.Table, path: Path) -> None:
    """Write the rollouts to a temporary file beside `path`, then rename it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(table, draft, compression="zstd")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    print(f"wrote {path} ({table.num_rows} rollouts)")


def check_table(table: pa.Table, path: Path) -> None:
    """Raise `SampleError` unless the file holds the very rows of a fresh build."""
    try:
        shipped = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise SampleError(f"{path}: cannot be read ({error})") from error
    if not shipped.schema.equals(table.schema) or shipped.num_rows != table.num_rows:
        raise SampleError(f"{path}: its columns or its number of rows differ from a fresh build")
    for index, (old, new) in enumerate(zip(shipped.to_pylist(), table.to_pylist(), strict=True)):
        if old != new:
            names = ", ".join(name for name in new if old[name] != new[name])
            raise SampleError(
                f"{path}: row {index} ({new['group_id']} {new['rollout_id']}) differs from a "
                f"fresh build in {names}"
            )
    print(f"{path} equals a fresh build ({table.num_rows} rollouts)")


if __name__ == "__main__":
    sys.exit(main())
