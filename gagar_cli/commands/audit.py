"""`gagar audit`."""

import json as json_module
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gagar_cli.auditing.options import AuditOptions
from gagar_cli.commands import _options as o
from gagar_cli.commands._console import line
from gagar_cli.commands._stages import open_rollouts
from gagar_cli.errors import OptionError

if TYPE_CHECKING:
    from gagar_cli.agreement import Estimate
    from gagar_cli.auditing.audit import Audit

AUDIT = AuditOptions()

Graded = Annotated[
    str | None,
    typer.Argument(
        metavar="GRADED",
        help="Graded Parquet: a path, folder, glob or URI, or - for standard input (the default).",
        show_default=False,
    ),
]
Transcripts = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="The votes, as gagar grade --transcripts wrote them."),
]
ReferenceFile = Annotated[
    str | None,
    typer.Option(
        "--reference",
        metavar="FILE[:COLUMN]",
        help="Parquet with group_id, rollout_id and what ranks are compared with, joined by id.",
    ),
]
ReferenceColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The column to compare with: of --reference where that is given, else of GRADED.",
    ),
]
HigherIsBetter = Annotated[
    bool | None,
    typer.Option(
        "--higher-is-better/--lower-is-better",
        help="Which way the reference goes. Default: lower for numbers, as a rank; true for bools.",
        show_default=False,
    ),
]
Bootstrap = Annotated[
    int, typer.Option(help="Resamples of the groups for the 95 % intervals; 0 for no intervals.")
]
PriceIn = Annotated[float | None, typer.Option(help="Money per million prompt tokens.")]
PriceOut = Annotated[float | None, typer.Option(help="Money per million completion tokens.")]


def audit_command(
    graded: Graded = None,
    transcripts: Transcripts = None,
    reference: ReferenceFile = None,
    reference_column: ReferenceColumn = None,
    higher_is_better: HigherIsBetter = AUDIT.higher_is_better,
    bootstrap: Bootstrap = AUDIT.bootstrap,
    price_in: PriceIn = AUDIT.price_in,
    price_out: PriceOut = AUDIT.price_out,
    seed: o.Seed = AUDIT.seed,
    col: o.Col = None,
    json: o.JsonOut = False,
) -> None:
    """Measure how far a grader can be trusted.

    Agreement with a reference, calibration of the confidence, bias toward places shown and small
    patches, agreement between votes, failures, canaries and cost; intervals are 95 %, over groups.

    What cannot be measured is left out, with the reason. Prices are per million tokens. With
    --json, one JSON object on standard output.

    Example: gagar audit out.parquet --reference-column num_tokens
    """
    from gagar_cli.auditing.audit import audit
    from gagar_cli.auditing.reference import split_reference
    from gagar_cli.parquet_io import STDIO, open_source

    options = AuditOptions(bootstrap, seed, price_in, price_out, higher_is_better)
    file, column = split_reference(reference, reference_column)
    if [graded or STDIO, transcripts, file].count(STDIO) > 1:
        raise OptionError("-", "got standard input for two files, expected it for one", "name one")
    found = audit(
        open_rollouts(graded, col, None),
        options,
        transcripts=None if transcripts is None else open_source(transcripts),
        reference=None if file is None else open_source(file),
        column=column,
    )
    if json:
        typer.echo(json_module.dumps(found.as_dict(), ensure_ascii=False))
    else:
        _print(found)


def _print(found: "Audit") -> None:
    for part in (_groups, _measures, _calibration, _position, _votes, _canaries):
        for text in part(found):
            line(text)
    for reason in dict.fromkeys(found.left_out.values()):
        names = [name for name, why in found.left_out.items() if why == reason]
        line(f"left out: {', '.join(names).replace('_', ' ')} ({reason})")
    for note in found.notes:
        line(f"note: {note}")


def _groups(found: "Audit") -> Iterable[str]:
    if found.graders:
        yield f"grader    {', '.join(found.graders)}"
    if found.groups is None:
        return
    had = found.groups
    yield (
        f"groups    {had.groups:,}: {had.graded:,} graded, {had.ungraded_groups:,} ungraded, "
        f"{had.single:,} with a single passing rollout, {had.none_passing:,} with none"
    )
    if had.ungraded_share is not None:
        yield f"ungraded  {had.ungraded_share:.1%} of the groups that needed a grade"
    yield from (f"  {count:,}: {reason}" for reason, count in had.ungraded.items())
    for reason, count in had.not_ranked.items():
        yield f"  {count:,} not ranked in a graded group: {reason}"
    if had.mean_confidence is not None:
        yield f"sure      {had.mean_confidence:.3f} on the mean"


def _measures(found: "Audit") -> Iterable[str]:
    compared = found.agreement
    rows: list[tuple[str, Estimate | None, str]] = []
    if compared is not None:
        rows += [
            ("tau-b", compared.tau_b, "Kendall's, -1 to 1"),
            ("top-1", compared.top1, f"best among the best; {compared.top1_chance:.3f} by chance"),
            ("pairs", compared.pairwise, "in the reference's order; 0.5 by chance"),
            ("AUC", compared.auc, f"the same over all {compared.pairs:,} pairs; 0.5 by chance"),
        ]
    rows += [
        (
            "votes",
            found.vote_agreement,
            "Kendall's W between votes, corrected for chance: 0 by chance",
        ),
        ("length", found.length, "tau-b with changed lines; above 0: smaller patches rank better"),
    ]
    shown = [
        [name, f"{e.value:.3f}", _between(e.interval), f"{e.groups:,}", meaning]
        for name, e, meaning in rows
        if e is not None
    ]
    if found.reference is not None:
        way = "higher" if found.reference.higher_is_better else "lower"
        yield (
            f"reference {found.reference.name}, {way} is better; "
            f"{found.reference.compared:,} ranked rollouts have it"
        )
    if shown:
        yield from _table(["measure", "value", "95 % interval", "groups", "meaning"], shown)


def _calibration(found: "Audit") -> Iterable[str]:
    if found.calibration is None:
        return
    yield from _table(
        ["confidence", "groups", "mean", "promises", "pairs right"],
        [
            [
                f"{held.low:.1f} to {held.high:.1f}",
                f"{held.groups:,}",
                f"{held.confidence:.3f}",
                f"{held.expected:.3f}",
                f"{held.accuracy:.3f}",
            ]
            for held in found.calibration.bins
        ],
    )
    yield (
        f"calibration error {found.calibration.error:.3f}: how far pairs right are from "
        "(1 + confidence) / 2, mean over groups"
    )


def _position(found: "Audit") -> Iterable[str]:
    bias = found.position
    if bias is None:
        return
    verdict = "biased" if bias.biased else "no bias that chance could not explain"
    yield (
        f"position  the first shown wins {bias.first_wins:.3f} of {bias.votes:,} votes, "
        f"{bias.chance:.3f} by chance: {bias.excess:+.3f} "
        f"({_between(bias.interval, '+.3f')}), {verdict}"
    )
    yield f"  tau-b with the place shown {bias.place_correlation:+.3f}, above 0: earlier is better"
    if bias.size_correlation is not None:
        yield (
            f"  tau-b with changed lines {bias.size_correlation:+.3f}, mean over votes, "
            "above 0: smaller is better"
        )


def _votes(found: "Audit") -> Iterable[str]:
    if found.votes is not None:
        had = found.votes
        yield (
            f"votes     {had.votes:,} on {had.groups:,} groups: {had.failed_share:.1%} failed, "
            f"{had.fallback_parsed_share:.1%} parsed from text, {had.truncated_share:.1%} truncated"
        )
        yield from (f"  {count:,} failed: {reason}" for reason, count in had.errors.items())
    if found.cost is not None:
        cost = found.cost
        cached = "" if cost.cached_share is None else f" ({cost.cached_share:.1%} cached)"
        parts = [
            None if cost.requests is None else f"{cost.requests:,} requests",
            None if cost.prompt_tokens is None else f"{cost.prompt_tokens:,} prompt tokens{cached}",
            None
            if cost.completion_tokens is None
            else f"{cost.completion_tokens:,} completion tokens",
            None if cost.seconds is None else f"{cost.seconds:,.1f} s of votes",
            None if cost.money is None else f"{cost.money:,.4g} in money",
        ]
        yield "cost      " + ", ".join(part for part in parts if part)
        if cost.from_journal:
            yield f"  {cost.from_journal:,} of {cost.votes:,} votes were paid for by an earlier run"


def _canaries(found: "Audit") -> Iterable[str]:
    had = found.canaries
    if had is None:
        return
    share = "" if had.failed_share is None else f" ({had.failed_share:.1%})"
    yield (
        f"canaries  {had.failed_votes:,} of {had.ranked:,} votes failed{share}, "
        f"on {had.groups:,} groups; {had.votes - had.ranked:,} more gave no ranking"
    )
    yield from (f"  {count:,} failed: {name}" for name, count in had.failures.items())


def _between(interval: tuple[float, float] | None, form: str = ".3f") -> str:
    return "" if interval is None else " to ".join(format(number, form) for number in interval)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Yield lines of columns, side by side; the last one may be as long as it likes."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        yield "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
