"""What commands say: summaries and progress on standard error, never on standard output."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import typer

from gagar_cli.untrusted import INVISIBLE

# Control characters and those that reorder text: ids, paths and reasons come from rollouts, and
# must not steer the terminal that shows them.
_INVISIBLE = re.compile(rf"[\n\r\t{INVISIBLE}]")


def visible(text: str) -> str:
    """Return text with every character that a terminal would obey as a visible escape."""
    return _INVISIBLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def line(text: str) -> None:
    """Write one line to standard output."""
    typer.echo(visible(text))


def error_line(message: str) -> None:
    """Write one line to standard error, where there is one; brackets are no markup."""
    if sys.stderr is not None:
        typer.echo(visible(message), err=True)


def summary(
    title: str, rows: Mapping[str, Any], *, notes: list[str], as_json: bool, quiet: bool
) -> None:
    """Write a stage's summary: a small table, or one line of JSON; notes are warnings."""
    if as_json:
        error_line(json.dumps({"stage": title, **rows, "notes": notes}, ensure_ascii=False))
        return
    for note in notes:
        error_line(f"warning: {note}")
    if quiet:
        return
    error_line(f"gagar {title}")
    width = max(map(len, rows), default=0)
    for name, value in rows.items():
        if value is not None and value != {}:
            error_line(f"  {name.replace('_', ' '):<{width}}  {_shown(value)}")


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{count:,} {name}" for name, count in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return " to ".join(_shown(part) for part in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


class Draw(Protocol):
    """Is told how many are done, of how many, and a remark."""

    def __call__(self, done: int, total: int, remark: str = "") -> None:
        """Draw that."""


def _nothing(done: int, total: int, remark: str = "") -> None:
    """Draw nothing."""


@contextmanager
def progress_bar(label: str, *, quiet: bool) -> Iterator[Draw]:
    """Lend a function that is told done, all, and a remark; it draws only on a terminal."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield _nothing
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[remark]}", markup=False),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task(label, total=None, remark="")

        def update(done: int, total: int, remark: str = "") -> None:
            bar.update(task, completed=done, total=total, remark=remark)

        yield update
