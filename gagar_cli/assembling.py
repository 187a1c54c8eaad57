"""The stage `assemble`: a workspace for every group, and what each patch came to."""

import os
import tempfile
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

import pyarrow as pa

from gagar_cli.errors import DataError, OutputError, SourceError, located
from gagar_cli.groups import GroupIndex, check_unique
from gagar_cli.options import AssembleOptions, MissingRepo
from gagar_cli.rollouts import Progress, Rollouts, stage_table
from gagar_cli.schema import STAGE_COLUMNS, read_verdicts
from gagar_cli.workspace.build import (
    Built,
    Candidate,
    GroupPatches,
    base_tree,
    build_workspace,
    open_store,
)
from gagar_cli.workspace.repositories import Repository, RepositoryFinder

_AHEAD = 4  # groups per job that are waiting or done early
_REASONS = 3  # of groups without a repository, that are told


@dataclass(slots=True)
class AssembleSummary:
    """Groups, patches by status, and what to know of.

    no_columns: names of columns that repositories are found by and the file lacks. problems: why
    groups have no repository, by how many. absent: files of base trees without content.
    """

    groups: int = 0
    kept: int = 0
    without_repository: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    passing_not_applied: int = 0
    no_columns: tuple[str, ...] = ()
    problems: Counter[str] = field(default_factory=Counter)
    absent: set[str] = field(default_factory=set)

    @property
    def notes(self) -> list[str]:
        """What to know of, in whole sentences."""
        notes = []
        if self.no_columns:
            columns = " and none ".join(self.no_columns)
            notes.append(f"no column {columns}: groups are assembled from their diffs alone")
        ordered = sorted(self.problems.items(), key=lambda problem: (-problem[1], problem[0]))
        notes += [f"{reason} ({count} groups)" for reason, count in ordered[:_REASONS]]
        if self.absent:
            notes.append(
                f"{len(self.absent)} files of base trees have no content in their repository, "
                f"as in a partial clone, and are left out: {min(self.absent)}"
            )
        return notes


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where a group's base comes from; without a repository, why not."""

    repository: Repository | None = None
    base_commit: str | None = None
    problem: SourceError | DataError | None = None


def assemble(
    rollouts: Rollouts,
    finder: RepositoryFinder,
    options: AssembleOptions,
    jobs: int = 2,
    progress: Progress = lambda _done, _all: None,
) -> tuple[Rollouts, AssembleSummary]:
    """Build the workspace of every group; return the rollouts with the stage's columns.

    Memory holds ids, the columns to add, and a few groups' patches; the other texts wait on disk.
    A repository or commit that is not found raises, before anything is built, unless the options
    say to do with the diffs alone. `progress` is told groups done and all groups.
    """
    rollouts = rollouts.ready_for("assemble")
    table, index, plans, summary = _planned(rollouts, finder, options)
    problems = [plan.problem for plan in plans if plan.problem]
    if options.missing_repo is MissingRepo.ERROR:
        refuse(problems, rollouts.source.name)
    summary.problems.update(str(problem.problem) for problem in problems)
    ids = _Texts(table["rollout_id"])

    columns: dict[str, list[object]] = {
        name: [None] * table.num_rows for name in STAGE_COLUMNS["assemble"]
    }
    with closing(_Spool(len(index))) as spool:
        spool.fill(rollouts, index)

        def build(group: int) -> Built:
            rows = index.rows(group)
            return build_workspace(
                GroupPatches(
                    group_id=index.ids[group],
                    problem_statement=spool.statement(group),
                    rollout_ids=[ids[row] or "" for row in rows],
                    patches=lambda: spool.patches(rows),
                    repository=plans[group].repository,
                    base_commit=plans[group].base_commit,
                ),
                options,
            )

        for group, built in enumerate(_in_order(build, range(len(index)), jobs)):
            for row in index.rows(group):
                _put(columns, row, built, built.candidates[ids[row] or ""])
            _count(summary, built, plans[group])
            progress(group + 1, len(index))
    if "passed" in table.column_names or "reward" in table.column_names:
        passed = read_verdicts(table, rollouts.pass_threshold).passed
        summary.passing_not_applied = sum(
            status in {"failed", "refused"}
            for status, passes in zip(columns["patch_status"], passed, strict=True)
            if passes
        )
    added = stage_table("assemble", columns)
    return rollouts.with_columns(added, "assemble", options), summary


def _in_order(
    function: Callable[[int], Built], numbers: Iterable[int], jobs: int
) -> Iterator[Built]:
    """Call a function for each number, some at a time; yield the results in order."""
    waiting: deque[Future[Built]] = deque()
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            for number in numbers:
                waiting.append(pool.submit(function, number))
                if len(waiting) > _AHEAD * jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def missing_repositories(
    rollouts: Rollouts, finder: RepositoryFinder, options: AssembleOptions
) -> list[tuple[int, SourceError | DataError]]:
    """Return why groups cannot be assembled as the options ask, each with its first row.

    Nothing is built. What else `assemble` refuses raises.
    """
    _, index, plans, _ = _planned(rollouts.ready_for("assemble"), finder, options)
    if options.missing_repo is not MissingRepo.ERROR:
        return []
    first = [int(rows[0]) for _, rows in index]
    return [(row, p.problem) for row, p in zip(first, plans, strict=True) if p.problem]


def refuse(problems: Sequence[SourceError | DataError], name: str) -> None:
    """Raise the first of these problems of a data set, if any; it tells how many more there are."""
    if problems:
        first = problems[0]
        if len(problems) > 1:
            first.problem += f" (and {len(problems) - 1} more groups have such a problem)"
        with located(name):
            raise first


def _planned(
    rollouts: Rollouts, finder: RepositoryFinder, options: AssembleOptions
) -> tuple[pa.Table, GroupIndex, list[_Plan], AssembleSummary]:
    rollouts.require("patch")
    table = rollouts.read(
        "group_id", "rollout_id", optional=("repo", "base_commit", "passed", "reward")
    )
    with located(rollouts.source.name):
        index = GroupIndex.of(table["group_id"])
        check_unique(index, table["rollout_id"])
        summary = AssembleSummary(groups=len(index))
        return table, index, _plan(table, index, finder, options, summary), summary


def _plan(
    table: pa.Table,
    index: GroupIndex,
    finder: RepositoryFinder,
    options: AssembleOptions,
    summary: AssembleSummary,
) -> list[_Plan]:
    if not options.use_repo:
        return [_Plan()] * len(index)
    absent = [name for name in ("repo", "base_commit") if name not in table.column_names]
    if absent:
        summary.no_columns = tuple(absent)
        return [_Plan()] * len(index)
    repo, commit = _Texts(table["repo"]), _Texts(table["base_commit"])
    plans = []
    for group, (group_id, rows) in enumerate(index):
        name = _one_value(repo, rows, f"group {group_id!r}", "repo")
        base = _one_value(commit, rows, f"group {group_id!r}", "base_commit")
        plans.append(_locate(name, base, index.ids[group], finder, options))
    return plans


def _one_value(values: "_Texts", rows: Iterable[int], where: str, what: str) -> str | None:
    found = {values[row] for row in rows}
    if len(found) > 1:
        shown = " and ".join(sorted(repr(value) for value in found)[:2])
        raise DataError(where, f"has rows of {what} {shown}, expected one for the group")
    return found.pop()


def _locate(
    name: str | None,
    base: str | None,
    group_id: str,
    finder: RepositoryFinder,
    options: AssembleOptions,
) -> _Plan:
    if name is None or base is None:
        missing = "repo" if name is None else "base_commit"
        return _Plan(
            problem=DataError(
                f"group {group_id!r}", f"has a null {missing}", "--missing-repo diffs"
            )
        )
    try:
        repository = finder.find(name)
        base_tree(open_store(options.root, repository), repository, group_id, base)
    except (SourceError, DataError) as error:
        return _Plan(problem=error)
    return _Plan(repository, base)


class _Texts:
    """A column of text; memory holds each value once."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
        self._values: list[str | None] = [*encoded.dictionary.to_pylist(), None]
        codes = encoded.indices.fill_null(len(self._values) - 1)
        self._codes = codes.to_numpy(zero_copy_only=False)

    def __getitem__(self, row: int) -> str | None:
        return self._values[int(self._codes[row])]


class _Spans:
    """Where texts are in a file, by number; a text that is null has a size below zero."""

    def __init__(self, number: int = 0) -> None:
        self._starts, self._sizes = array("q", bytes(8 * number)), array("q", bytes(8 * number))

    def append(self, span: tuple[int, int]) -> None:
        self._starts.append(span[0])
        self._sizes.append(span[1])

    def __setitem__(self, number: int, span: tuple[int, int]) -> None:
        self._starts[number], self._sizes[number] = span

    def __getitem__(self, number: int) -> tuple[int, int]:
        return self._starts[number], self._sizes[number]


class _Spool:
    """The patches of all rows and the statements of all groups, in a temporary file."""

    def __init__(self, groups: int) -> None:
        self._file = tempfile.TemporaryFile(prefix="gagar-texts-")  # noqa: SIM115  see close
        self._end = 0
        self._patches, self._statements = _Spans(), _Spans(groups)

    def close(self) -> None:
        self._file.close()

    def fill(self, rollouts: Rollouts, index: GroupIndex) -> None:
        """Take in all patches, and each group's problem statement, the first that is set."""
        columns = ["patch"] + ["problem_statement"] * rollouts.has("problem_statement")
        row = 0
        try:
            for batch in rollouts.stream(*columns):
                texts = batch.column(1) if len(columns) > 1 else pa.nulls(len(batch))
                for patch, text in zip(batch.column(0), texts, strict=True):
                    self._patches.append(self._put(_raw(patch)))
                    group = int(index.codes[row])
                    if not self._statements[group][1] and (raw := _raw(text)):
                        self._statements[group] = self._put(raw)
                    row += 1
            self._file.flush()
        except OSError as error:
            raise OutputError(
                "patches", f"cannot be spooled to disk ({error.strerror})", "set TMPDIR"
            ) from error

    def patches(self, rows: Iterable[int]) -> list[bytes | None]:
        """Return the patches of some rows; safe from several threads."""
        return [self._get(self._patches[row]) for row in rows]

    def statement(self, group: int) -> str:
        """Return the problem statement of a group, empty where none is set."""
        return (self._get(self._statements[group]) or b"").decode("utf-8", "surrogateescape")

    def _put(self, raw: bytes | None) -> tuple[int, int]:
        if raw is None:
            return self._end, -1
        self._file.write(raw)
        start, self._end = self._end, self._end + len(raw)
        return start, len(raw)

    def _get(self, span: tuple[int, int]) -> bytes | None:
        start, size = span
        return None if size < 0 else os.pread(self._file.fileno(), size, start)


def _raw(scalar: pa.Scalar) -> bytes | None:
    value = scalar.as_py()
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _put(columns: dict[str, list[object]], row: int, built: Built, candidate: Candidate) -> None:
    columns["workspace"][row] = str(built.folder)
    columns["candidate"][row] = candidate.label
    columns["patch_status"][row] = candidate.status
    columns["patch_detail"][row] = candidate.detail
    columns["files_changed"][row] = candidate.files_changed
    columns["lines_added"][row] = candidate.lines_added
    columns["lines_removed"][row] = candidate.lines_removed


def _count(summary: AssembleSummary, built: Built, plan: _Plan) -> None:
    summary.kept += built.kept
    summary.without_repository += plan.repository is None
    summary.statuses.update(candidate.status for candidate in built.candidates.values())
    summary.absent.update(built.absent)
