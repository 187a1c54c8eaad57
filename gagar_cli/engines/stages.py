"""Each stage as every engine runs it: read the columns, decide, hand back rows and summary."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from gagar_cli.errors import OptionError, located
from gagar_cli.filtering import FilterResult, filter_rollouts
from gagar_cli.options import (
    AssembleOptions,
    FilterOptions,
    GradeFiles,
    GradeOptions,
    RedistributeOptions,
    Sources,
)
from gagar_cli.parquet_io import read_text
from gagar_cli.redistributing import RedistributeSummary, redistribute_rollouts
from gagar_cli.rollouts import Progress, Rollouts

if TYPE_CHECKING:
    from gagar_cli.assembling import AssembleSummary
    from gagar_cli.grading.contract import Grader
    from gagar_cli.grading.journal import VoteStore
    from gagar_cli.grading.votelog import VoteLog
    from gagar_cli.workspace.repositories import RepositoryFinder

CREDIT_COLUMNS = ("reward", "advantage", "grade_confidence", "num_tokens")


def filtered(rollouts: Rollouts, options: FilterOptions) -> FilterResult:
    """Decide which rows stay."""
    table = rollouts.read("group_id", "rollout_id", rollouts.verdict())
    with located(rollouts.source.name):
        return filter_rollouts(table, options, rollouts.pass_threshold)


def rehearse(rollouts: Rollouts, options: RedistributeOptions) -> None:
    """Raise what the stages after `filter` would refuse in the input, before grading is paid for.

    Redistribution is rehearsed with all passing rollouts tied.
    """
    for stage in ("assemble", "grade", "redistribute"):
        rollouts = rollouts.ready_for(stage)
    rollouts.require("patch")
    columns = [name for name in CREDIT_COLUMNS if name != "grade_confidence"]
    table = rollouts.read("group_id", "rollout_id", rollouts.verdict(), optional=columns)
    tied = table.append_column("rank", pa.array([1] * len(table), pa.int32()))
    with located(rollouts.source.name):
        redistribute_rollouts(tied, options, rollouts.pass_threshold)


def finder_of(rollouts: Rollouts, sources: Sources, options: AssembleOptions) -> "RepositoryFinder":
    """Return what finds the repositories; left to itself, beside the input, then here."""
    from gagar_cli.workspace.repositories import (  # noqa: PLC0415  filtering needs no git
        RepositoryFinder,
        read_repo_map,
    )

    beside = [*([rollouts.source.folder] if rollouts.source.folder else []), Path.cwd()]
    return RepositoryFinder(
        roots=[Path(folder) for folder in sources.repos]
        if sources.repos
        else list(dict.fromkeys(beside)),
        cache=Path(options.root) / ".sources",
        mapping=read_repo_map(sources.repo_map or ()),
    )


def assembled(
    rollouts: Rollouts,
    options: AssembleOptions,
    sources: Sources,
    progress: Progress = lambda _done, _all: None,
) -> tuple[Rollouts, "AssembleSummary"]:
    """Build a workspace for each group."""
    from gagar_cli.assembling import assemble  # noqa: PLC0415  likewise

    finder = finder_of(rollouts, sources, options)
    return assemble(rollouts, finder, options, sources.jobs or os.cpu_count() or 1, progress)


def redistributed(
    rollouts: Rollouts, options: RedistributeOptions
) -> tuple[Rollouts, RedistributeSummary]:
    """Redistribute the advantages."""
    rollouts = rollouts.ready_for("redistribute")
    table = rollouts.read(
        "group_id", "rollout_id", rollouts.verdict(), "rank", optional=CREDIT_COLUMNS
    )
    with located(rollouts.source.name):
        columns, found = redistribute_rollouts(table, options, rollouts.pass_threshold)
    return rollouts.with_columns(columns, "redistribute", options), found


def grader_of(
    options: GradeOptions, rubric: str | None, journal: "VoteStore | None", log: "VoteLog"
) -> "Grader":
    """Return the grader that the options ask for; nothing is sent yet."""
    if options.url is None:
        from gagar_cli.grading.builtin import BuiltinGrader  # noqa: PLC0415

        return BuiltinGrader()
    from gagar_cli.grading.agent import AgentGrader  # noqa: PLC0415  needs openai

    return AgentGrader(options, rubric, journal, log.record)


def journal_path(options: GradeOptions | None, files: GradeFiles) -> Path | None:
    """Return where votes are kept, None where none are."""
    if options is None or options.url is None or not files.keep_journal:
        return None
    from gagar_cli.grading.journal import default_path  # noqa: PLC0415

    return Path(files.journal) if files.journal else default_path()


@contextmanager
def opened_journal(path: Path | None, run: str | None = None) -> Iterator["VoteStore | None"]:
    """Open a journal, with the votes that workers left beside it; those of `run` have ended."""
    if path is None:
        yield None
        return
    from gagar_cli.grading.journal import Journal  # noqa: PLC0415
    from gagar_cli.grading.worker_journal import take_in  # noqa: PLC0415

    journal = Journal(path)
    try:
        take_in(path, journal, run)
        yield journal
    finally:
        journal.close()


def read_rubric(files: GradeFiles) -> str | None:
    """Return the text of the rubric, None for the default one."""
    if files.rubric is None:
        return None
    try:
        text = read_text(files.rubric)
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise OptionError("--rubric", f"cannot read {files.rubric!r} ({problem})") from error
    if not text.strip():
        raise OptionError("--rubric", f"got {files.rubric!r}, which is empty")
    return text
