"""The stage `assemble`: a workspace for every group, and what each patch came to."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from gagar_cli.errors import DataError, OutputError, SourceError, located
from gagar_cli.groups import GroupIndex, check_unique
from gagar_cli.options import AssembleOptions, MissingRepo
from gagar_cli.rollouts import Progress, Rollouts, stage_table
from gagar_cli.schema import STAGE_COLUMNS, read_verdicts, strings
from gagar_cli.workspace.build import Built, GroupPatches, base_tree, build_workspace, open_store
from gagar_cli.workspace.repositories import Repository, RepositoryFinder

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

    Memory holds ids and one group's patches per job; the patches wait on disk. A repository or
    commit that is not found raises, before anything is built, unless the options say to do with
    the diffs alone. `progress` is told groups done and all groups.
    """
    rollouts = rollouts.ready_for("assemble")
    table, index, plans, summary = _planned(rollouts, finder, options)
    problems = [plan.problem for plan in plans if plan.problem]
    if options.missing_repo is MissingRepo.ERROR:
        refuse(problems, rollouts.source.name)
    summary.problems.update(str(problem.problem) for problem in problems)
    ids = [text or "" for text in strings(table["rollout_id"])]

    with closing(_Spool()) as spool:
        statements = spool.fill(rollouts, index)

        def build(group: int) -> Built:
            rows = index.rows(group)
            return build_workspace(
                GroupPatches(
                    group_id=index.ids[group],
                    problem_statement=statements[group],
                    rollout_ids=[ids[row] for row in rows],
                    patches=partial(spool.get, rows),
                    repository=plans[group].repository,
                    base_commit=plans[group].base_commit,
                ),
                options,
            )

        built: list[Built] = []
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            try:
                for result in pool.map(build, range(len(index))):
                    built.append(result)
                    progress(len(built), len(index))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    columns = _columns(index, ids, built)
    _summarise(summary, built, plans)
    if "passed" in table.column_names or "reward" in table.column_names:
        passed = read_verdicts(table, rollouts.pass_threshold).passed
        summary.passing_not_applied = sum(
            status in {"failed", "refused"}
            for status, passes in zip(columns["patch_status"], passed, strict=True)
            if passes
        )
    added = stage_table("assemble", columns)
    return rollouts.with_columns(added, "assemble", options), summary


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
    repo, commit = strings(table["repo"]), strings(table["base_commit"])
    plans = []
    for group, (group_id, rows) in enumerate(index):
        name = _one_value(repo, rows, f"group {group_id!r}", "repo")
        base = _one_value(commit, rows, f"group {group_id!r}", "base_commit")
        plans.append(_locate(name, base, index.ids[group], finder, options))
    return plans


def _one_value(values: list[str | None], rows: Iterable[int], where: str, what: str) -> str | None:
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


class _Spool:
    """The patches of all rows, one after another in a temporary file."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="gagar-patches-")  # noqa: SIM115  see close
        self._ends: list[int] = []
        self._null: list[bool] = []

    def close(self) -> None:
        self._file.close()

    def fill(self, rollouts: Rollouts, index: GroupIndex) -> list[str]:
        """Take in all patches; return each group's problem statement, the first that is set."""
        columns = ["patch"] + ["problem_statement"] * rollouts.has("problem_statement")
        statements = [""] * len(index)
        end = row = 0
        try:
            for batch in rollouts.stream(*columns):
                texts = batch.column(1).to_pylist() if len(columns) > 1 else [None] * len(batch)
                for patch, text in zip(batch.column(0), texts, strict=True):
                    raw = _raw(patch)
                    self._file.write(raw or b"")
                    end += len(raw or b"")
                    self._ends.append(end)
                    self._null.append(raw is None)
                    group = index.codes[row]
                    statements[group] = statements[group] or text or ""
                    row += 1
            self._file.flush()
        except OSError as error:
            raise OutputError(
                "patches", f"cannot be spooled to disk ({error.strerror})", "set TMPDIR"
            ) from error
        return statements

    def get(self, rows: Iterable[int]) -> list[bytes | None]:
        """Return the patches of some rows; safe from several threads."""
        return [None if self._null[row] else self._slice(row) for row in rows]

    def _slice(self, row: int) -> bytes:
        start = self._ends[row - 1] if row else 0
        return os.pread(self._file.fileno(), self._ends[row] - start, start)


def _raw(scalar: pa.Scalar) -> bytes | None:
    value = scalar.as_py()
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _columns(index: GroupIndex, ids: list[str], built: Sequence[Built]) -> dict[str, list[object]]:
    rows = len(ids)
    columns: dict[str, list[object]] = {n: [None] * rows for n in STAGE_COLUMNS["assemble"]}
    for group, result in enumerate(built):
        for row in index.rows(group):
            candidate = result.candidates[ids[row]]
            for name, value in (
                ("workspace", str(result.folder)),
                ("candidate", candidate.label),
                ("patch_status", candidate.status),
                ("patch_detail", candidate.detail),
                ("files_changed", candidate.files_changed),
                ("lines_added", candidate.lines_added),
                ("lines_removed", candidate.lines_removed),
            ):
                columns[name][row] = value
    return columns


def _summarise(summary: AssembleSummary, built: Sequence[Built], plans: Sequence[_Plan]) -> None:
    summary.kept = sum(result.kept for result in built)
    summary.without_repository = sum(plan.repository is None for plan in plans)
    for result in built:
        summary.statuses.update(c.status for c in result.candidates.values())
        summary.absent.update(result.absent)
