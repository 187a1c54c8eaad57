"""`gagar show`."""

import json as json_module
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gagar_cli.commands import _options as o
from gagar_cli.commands._console import line, visible
from gagar_cli.commands._stages import open_rollouts
from gagar_cli.errors import DataError

if TYPE_CHECKING:
    from gagar_cli.viewing import GroupRow

File = Annotated[str, typer.Argument(metavar="FILE", help="Parquet of any stage, or -.")]
Group = Annotated[str | None, typer.Argument(metavar="GROUP", help="One group, with its rollouts.")]
Limit = Annotated[int, typer.Option(min=1, help="Groups listed at the most.")]


def show_command(
    file: File,
    group: Group = None,
    limit: Limit = 40,
    pass_threshold: o.PassThreshold = None,
    col: o.Col = None,
    json: o.JsonOut = False,
) -> None:
    """Show groups, ranks, reasons and weights.

    And the advantages before and after.

    With --json, one line of JSON per group or rollout on standard output.

    Example: gagar show out.parquet
    """
    from gagar_cli.viewing import group_rows, rollout_rows

    rollouts = open_rollouts(file, col, pass_threshold)
    if group is not None:
        rows = rollout_rows(rollouts, group)
        if not rows:
            raise DataError(rollouts.source.name, f"has no group {group!r}", f"gagar show {file}")
        if json:
            _print_json(rows)
        else:
            _print_group(group, rows)
        return
    groups = group_rows(rollouts)
    if json:
        _print_json([entry.as_dict() for entry in groups])
    else:
        _print_groups(groups, limit, file)


def _print_json(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        typer.echo(json_module.dumps(row, ensure_ascii=False))


def _print_groups(groups: list["GroupRow"], limit: int, file: str) -> None:
    heads = ["group", "n", "passed", "failed", "grade", "sure", "weights", "best"]
    rows = [
        [
            entry.group_id,
            str(entry.rollouts),
            str(entry.passed),
            str(entry.failed),
            entry.grade or "",
            "" if entry.confidence is None else f"{entry.confidence:.2f}",
            "" if entry.weights is None else f"{entry.weights[0]:.2f} to {entry.weights[1]:.2f}",
            _some(entry.best),
        ]
        for entry in groups[:limit]
    ]
    _print(heads, rows)
    if len(groups) > limit:
        typer.echo(f"… and {len(groups) - limit} more groups; --limit {len(groups)} shows all")
    count = f"{len(groups)} group{'s' * (len(groups) != 1)}"
    typer.echo(f"{count}; sure is the grade's confidence. One of them: gagar show {file} GROUP")


def _some(ids: list[str], most: int = 5) -> str:
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ", ".join(ids[:most]) + more


def _print_group(group: str, rows: list[dict[str, Any]]) -> None:
    rows = [{**row, "change": _change(row)} for row in rows]
    names = [name for name in _HEADS if name in rows[0]]
    if all(row.get("patch_status") in {None, "applied"} for row in rows):
        names = [name for name in names if name != "patch_status"]
    shown = [name for name in names if any(row[name] not in (None, "", []) for row in rows)]
    line(f"group {group}")
    _print([_HEADS[n] for n in shown], [[_cell(row[n]) for n in shown] for row in rows])
    for row in rows:
        if row.get("grade_reason"):
            _print_reason(f"{row.get('candidate') or row['rollout_id']}: {row['grade_reason']}")


_NAMES = {"group", "best", "flags", "rollout"}
_PIPE_WIDTH = 1000
_FEW = 10

# Ids may be long, so they stand last, where a narrow terminal cuts them rather than a number.
_HEADS = {
    "candidate": "as",
    "rank": "rank",
    "verdict": "verdict",
    "advantage": "before",
    "credit_weight": "weight",
    "redistributed_advantage": "after",
    "change": "change",
    "patch_status": "patch",
    "grade_flags": "flags",
    "rollout_id": "rollout",
}


def _print_reason(reason: str) -> None:
    """Print a reason, wrapped for a screen, on one line for a pipe."""
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        for part in textwrap.wrap(visible(reason), width, subsequent_indent="   "):
            line(part)
    else:
        line(reason)


def _change(row: dict[str, Any]) -> str:
    if row.get("files_changed") is None:
        return ""
    return f"+{row['lines_added']} -{row['lines_removed']} in {row['files_changed']}"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _print(heads: list[str], rows: list[list[str]]) -> None:
    """Draw a table; where the terminal is narrow, only the columns of names are cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # What is piped is no screen: it keeps its full width, so that nothing is cut.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    names = [place for place, head in enumerate(heads) if head in _NAMES]
    left = console.width - sum(w for n, w in enumerate(widths) if n not in names) - 2 * len(heads)
    for number, place in enumerate(names):
        # The first names are what one asks for next; those behind keep room for a few letters.
        behind = sum(min(_FEW, widths[other]) for other in names[number + 1 :])
        widths[place] = min(widths[place], max(_FEW, left - behind))
        left -= widths[place]

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head, width in zip(heads, widths, strict=True):
        table.add_column(head, no_wrap=True, width=width)
    for row in rows:
        cells = [Text(cell) for cell in row]
        for cell, width in zip(cells, widths, strict=True):
            cell.truncate(width, overflow="ellipsis")
        table.add_row(*cells)
    with console.capture() as captured:
        console.print(table)
    for text in captured.get().splitlines():
        typer.echo(text.rstrip())
