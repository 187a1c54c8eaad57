"""`gagar export-sft`."""

from typing import Annotated

import typer

from gagar_cli import uris
from gagar_cli.commands import _options as o
from gagar_cli.commands._console import summary
from gagar_cli.errors import OptionError
from gagar_cli.sft.options import Profile, SftOptions

SFT = SftOptions()

Transcripts = Annotated[
    list[str],
    typer.Argument(
        metavar="TRANSCRIPTS...",
        help="Votes, as gagar grade --transcripts wrote them: paths, folders, globs or URIs, or -.",
    ),
]
Folder = Annotated[
    str, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write: a path or URI.")
]
ProfileOption = Annotated[Profile, typer.Option("--profile", help="The trainer that loads it.")]
Reference = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Parquet with group_id, candidate and a column to measure votes by. Left out: the "
        "consensus of each group.",
        show_default=False,
    ),
]
ReferenceColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="That column: numbers, the lower the better, as a rank."),
]
HigherIsBetter = Annotated[
    bool, typer.Option("--higher-is-better", help="Of the reference the higher is the better.")
]
MinTau = Annotated[
    float, typer.Option(help="Least Kendall tau-b of a vote with the reference, -1 to 1.")
]
MinTrust = Annotated[float, typer.Option(help="Least trust in a vote, 0 to 1.")]
MinConfidence = Annotated[float, typer.Option(help="Least confidence of a group, 0 to 1.")]
MaxCharacters = Annotated[
    int | None,
    typer.Option(help="Longest conversation, as JSON with its tools.", show_default=False),
]
KeepCanaries = Annotated[
    bool,
    typer.Option(help="Keep the votes on groups with planted candidates that passed the test."),
]
PerGroup = Annotated[
    int, typer.Option(help="Votes kept of a group; repeated runs on it are one group.")
]
Balance = Annotated[
    bool,
    typer.Option(help="Drop votes until winners were shown at each place as often as at others."),
]
Validation = Annotated[
    float, typer.Option(help="Share of tasks held out, by a hash of the task, 0 to less than 1.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier export in that folder.")
]


def export_sft_command(
    transcripts: Transcripts,
    output: Folder,
    profile: ProfileOption = Profile.TRL,
    reference: Reference = None,
    reference_column: ReferenceColumn = None,
    higher_is_better: HigherIsBetter = False,
    min_tau: MinTau = SFT.min_tau,
    min_trust: MinTrust = SFT.min_trust,
    min_confidence: MinConfidence = SFT.min_confidence,
    max_characters: MaxCharacters = SFT.max_characters,
    keep_canaries: KeepCanaries = SFT.keep_canaries,
    per_group: PerGroup = SFT.per_group,
    balance: Balance = SFT.balance,
    validation: Validation = SFT.validation,
    overwrite: Overwrite = False,
    seed: o.Seed = SFT.seed,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Turn a grader's votes into data to train a grader on.

    Keeps votes that agree with their group, or with a reference, and that went well; one of each
    group, winners at each place shown alike often, validation by task. The folder gets train and
    validation files in the shape that the trainer loads, and export.json with all counts.

    Example: gagar export-sft votes.parquet -o sft --profile trl
    """
    options = SftOptions(
        min_tau=min_tau,
        min_trust=min_trust,
        min_confidence=min_confidence,
        max_characters=max_characters,
        keep_canaries=keep_canaries,
        per_group=per_group,
        balance=balance,
        validation=validation,
        seed=seed,
    )
    if (reference is None) != (reference_column is None):
        lacking = "--reference" if reference is None else "--reference-column"
        raise OptionError(lacking, "got nothing, expected it beside the other of the two")
    if [*transcripts, reference].count("-") > 1:
        raise OptionError("-", "got standard input for two files, expected it for one", "name one")

    from gagar_cli.parquet_io import open_source
    from gagar_cli.sft.export import export_sft
    from gagar_cli.sft.places import shown_first
    from gagar_cli.sft.reference import read_reference

    output = uris.local(output)
    references = None
    if reference is not None and reference_column is not None:
        references = read_reference(
            open_source(reference), reference_column, higher_is_better=higher_is_better
        )
    done = export_sft(
        [open_source(path) for path in transcripts],
        output,
        profile,
        options,
        references,
        reference=reference and f"{uris.shown(reference)}:{reference_column}",
        overwrite=overwrite,
    )
    selection = done.selection
    summary(
        "export-sft",
        {
            "votes": done.votes,
            **{side: len(votes) for side, votes in selection.kept.items()},
            "tasks": len({v.task_id for votes in selection.kept.values() for v in votes}),
            "dropped": dict(selection.dropped),
            "winners_shown_first": {
                name: round(share, 3)
                for name, share in shown_first(
                    [entry for counts in selection.places.values() for entry in counts]
                ).items()
            },
            "profile": str(profile),
            "output": uris.shown(output),
            "load": done.load,
        },
        notes=list(selection.notes),
        as_json=json,
        quiet=quiet,
    )
