"""`gagar validate`."""

import json as json_module
from dataclasses import asdict

import typer

from gagar_cli.commands import _options as o
from gagar_cli.commands._console import line
from gagar_cli.commands._stages import open_rollouts
from gagar_cli.errors import DataError


def validate_command(
    input_: o.Input = None,
    pass_threshold: o.PassThreshold = None,
    col: o.Col = None,
    json: o.JsonOut = False,
) -> None:
    """Say what a file has and what it lacks.

    And what each stage could do with it.

    Exits with 1 where the file has a problem that no stage can get past.

    Example: gagar validate sample_groups/rollouts.parquet
    """
    from gagar_cli.inspecting import inspect

    rollouts = open_rollouts(input_, col, pass_threshold)
    report = inspect(rollouts)
    if json:
        typer.echo(json_module.dumps(asdict(report), ensure_ascii=False))
    else:
        for name, value in asdict(report).items():
            if name not in {"columns", "stages", "problems"} and value not in (None, []):
                shown = ", ".join(map(str, value)) if isinstance(value, list) else value
                line(f"{name.replace('_', ' '):<16}  {_pairs(shown)}")
        line("columns")
        for name, kind in report.columns.items():
            line(f"  {name:<24}  {kind}")
        line("stages")
        for stage, state in report.stages.items():
            line(f"  {stage:<24}  {state}")
        for problem in report.problems:
            line(f"problem           {problem}")
    if report.problems:
        more = f" (and {len(report.problems) - 1} more)" if len(report.problems) > 1 else ""
        raise DataError(rollouts.source.name, report.problems[0] + more)


def _pairs(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {number:g}" for key, number in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)
