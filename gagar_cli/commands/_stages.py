"""The stages as commands run them: with progress, summary and notes; `grade` in `_grading`.

`run` calls these one after the other; each of the other commands calls one.
"""

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gagar_cli import uris
from gagar_cli.commands._console import error_line, progress_bar, summary
from gagar_cli.errors import OptionError, OutputError
from gagar_cli.options import AssembleOptions, FilterOptions, RedistributeOptions, Sources

if TYPE_CHECKING:
    from gagar_cli.assembling import AssembleSummary
    from gagar_cli.filtering import FilterSummary
    from gagar_cli.redistributing import RedistributeSummary
    from gagar_cli.rollouts import Rollouts


@dataclass(frozen=True)
class Talk:
    """How a command talks: JSON summaries, or none."""

    as_json: bool = False
    quiet: bool = False


def open_rollouts(
    input_: str | None, col: Sequence[str] | None, pass_threshold: float | None
) -> "Rollouts":
    """Open the input with its column names."""
    from gagar_cli.parquet_io import open_source
    from gagar_cli.rollouts import Rollouts
    from gagar_cli.schema import ColumnNames

    names = ColumnNames.parse(col or ())
    if pass_threshold is not None and math.isnan(pass_threshold):
        raise OptionError("--pass-threshold", "got nan, expected a number")
    return Rollouts.of(open_source(input_), names, pass_threshold)


def target_of(
    output: str | None, input_: str | None, stage: str, rejected: str | None = None
) -> str:
    """Return where the output goes: as said, else a pipe, else beside the input.

    One that cannot be written raises OutputError, before any work is spent on it.
    """
    from gagar_cli.parquet_io import STDIO, check_target, default_output

    if output is not None:
        target = output
    elif sys.stdout is None:
        raise OutputError("standard output", "is closed", "name an -o")
    else:
        target = default_output(input_, stage) if sys.stdout.isatty() else STDIO
    check_target(target)
    check_apart("--rejected", rejected, {"output": target, "input": input_})
    return target


def check_apart(option: str, path: str | None, others: Mapping[str, str | None]) -> None:
    """Raise unless a further file can be written, and is none of the others."""
    from gagar_cli.parquet_io import check_target

    if path is None:
        return
    check_target(path)
    for what, other in others.items():
        if other is not None and _place(other) == _place(path):
            raise OptionError(option, f"got {uris.shown(path)!r}, which is the {what} too")


def _place(name: str) -> str:
    """Return a path or URI so that two names of one place are equal."""
    name = uris.local(name)
    return uris.same_text(name) if uris.is_remote(name) else os.path.realpath(name)


def write(rollouts: "Rollouts", target: str, talk: Talk) -> None:
    """Write the result, and say where, unless it is a pipe."""
    from gagar_cli.parquet_io import STDIO

    with progress_bar("writing rows", quiet=talk.quiet) as progress:
        rollouts.write(target, progress)
    if target != STDIO:
        tell_written(target, talk)


def tell_written(target: str, talk: Talk) -> None:
    """Say where the result is."""
    target = uris.shown(target)
    if talk.as_json:
        error_line(json.dumps({"stage": "write", "path": target}, ensure_ascii=False))
    elif not talk.quiet:
        error_line(f"wrote {target}")


def do_filter(
    rollouts: "Rollouts", options: FilterOptions, rejected: str | None, talk: Talk
) -> "Rollouts":
    """Keep the groups with contrast; save the others where asked."""
    from gagar_cli.engines.stages import filtered

    result = filtered(rollouts, options)
    if rejected is not None:
        rollouts.write_rejected(rejected, result.keep, result.reason)
    tell_filter(result.summary, by_reward=rollouts.verdict() == "reward", talk=talk)
    return rollouts.only(result.keep, "filter", options)


def tell_filter(found: "FilterSummary", *, by_reward: bool, talk: Talk) -> None:
    """Say what was kept; by_reward: whether a reward decides what passed."""
    notes = []
    if found.groups and not found.groups_kept:
        notes.append(
            "no group holds both passing and failing rollouts"
            + ("; see --pass-threshold" if by_reward else "")
        )
    summary(
        "filter",
        {
            "groups_kept": found.groups_kept,
            "rollouts_kept": found.rollouts_kept,
            "groups_dropped": dict(found.groups_dropped),
            "rollouts_dropped": dict(found.rollouts_dropped),
        },
        notes=notes,
        as_json=talk.as_json,
        quiet=talk.quiet,
    )


def do_assemble(
    rollouts: "Rollouts",
    options: AssembleOptions,
    sources: Sources,
    talk: Talk,
) -> "Rollouts":
    """Build a workspace for each group."""
    from gagar_cli.engines.stages import assembled

    with progress_bar("assembling groups", quiet=talk.quiet) as progress:
        result, found = assembled(rollouts, options, sources, progress)
    tell_assemble(found, options, talk)
    return result


def tell_assemble(found: "AssembleSummary", options: AssembleOptions, talk: Talk) -> None:
    """Say what the patches came to."""
    summary(
        "assemble",
        {
            "groups": found.groups,
            "kept_as_they_were": found.kept or None,
            "without_repository": found.without_repository or None,
            "patches": dict(found.statuses.most_common()),
            "passing_not_applied": found.passing_not_applied,
            "workspaces": str(Path(options.root).resolve()),
        },
        notes=found.notes,
        as_json=talk.as_json,
        quiet=talk.quiet,
    )


def do_redistribute(rollouts: "Rollouts", options: RedistributeOptions, talk: Talk) -> "Rollouts":
    """Redistribute the advantages."""
    from gagar_cli.engines.stages import redistributed

    result, found = redistributed(rollouts, options)
    tell_redistribute(found, options, talk)
    return result


def tell_redistribute(
    found: "RedistributeSummary", options: RedistributeOptions, talk: Talk
) -> None:
    """Say what moved."""
    summary(
        "redistribute",
        {
            "groups": found.groups,
            "groups_moved": found.groups_moved,
            "rollouts_ranked": found.rollouts_ranked,
            "credit_weights": (found.weight_low, found.weight_high),
            "largest_sum_error": found.sum_error,
            "advantage": f"computed ({options.estimator})"
            if found.advantage_computed
            else "as in the file",
        },
        notes=[] if found.rollouts_ranked else ["no passing rollout has a rank: nothing moves"],
        as_json=talk.as_json,
        quiet=talk.quiet,
    )
