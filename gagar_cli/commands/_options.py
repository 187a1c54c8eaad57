"""The options that several commands share, each written once."""

from typing import Annotated

import typer

from gagar_cli import uris
from gagar_cli.errors import OptionError
from gagar_cli.options import Checkout, Engine, Estimator, Mass, MissingRepo, Mode


def _on_this_machine(value: str | None) -> str | None:
    """Return a file:// URI as a path; git, SQLite and locks work on no other kind of URI."""
    try:
        place = None if value is None else uris.local(value)
    except OptionError as error:
        raise typer.BadParameter(str(error)) from error
    if place is not None and uris.is_remote(place):
        raise typer.BadParameter(f"got {uris.shown(place)}, expected a path of this machine")
    return place


def _all_on_this_machine(values: list[str] | None) -> list[str] | None:
    return values and [str(_on_this_machine(value)) for value in values]


Input = Annotated[
    str | None,
    typer.Argument(
        metavar="INPUT",
        help="Parquet: a path, folder or glob, or an s3://, gs://, hdfs:// or file:// URI of one; "
        "- for standard input (the default).",
        show_default=False,
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="PATH",
        help="Where to write: a path or URI. Left out: standard output when that is no terminal, "
        "else <stem>.<stage>.parquet beside the input.",
    ),
]
Col = Annotated[
    list[str] | None,
    typer.Option(
        "--col",
        metavar="NAME=COLUMN",
        help="Your name for one of gagar's columns, such as group_id=uid; may be repeated, and "
        "travels with the file.",
    ),
]
PassThreshold = Annotated[
    float | None,
    typer.Option(
        help="Reward from which a rollout passes, where there is no column passed; travels with "
        "the file. Default 1.0.",
        show_default=False,
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Write the summary as one line of JSON to standard error."),
]
JsonOut = Annotated[
    bool, typer.Option("--json", help="Print JSON on standard output instead of text.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
Seed = Annotated[int, typer.Option(help="Seed of every random choice.")]

EngineOption = Annotated[
    Engine,
    typer.Option(
        "--engine",
        help="local: this process. ray: the workers of a Ray cluster (pip install 'gagar[ray]'); "
        "the output is a folder of Parquet files.",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        envvar="RAY_ADDRESS",
        metavar="ADDRESS",
        help="ray: the cluster, such as auto or HOST:6379. Left out: one that is started here, and "
        "ends with the command.",
    ),
]
Partitions = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="ray: parts that the groups are dealt into. Default: by the size of the data and the "
        "cores of the cluster.",
        show_default=False,
    ),
]

Rejected = Annotated[
    str | None,
    typer.Option(
        metavar="PATH", help="Save the dropped rows there, a path or URI, with their reject_reason."
    ),
]
MinGroupSize = Annotated[
    int, typer.Option(help="Fewest rollouts with a verdict that a kept group may have.")
]
MinPassRate = Annotated[
    float, typer.Option(help="Lowest share of passing rollouts of a kept group, 0 to 1.")
]
MaxPassRate = Annotated[
    float, typer.Option(help="Highest share of passing rollouts of a kept group, 0 to 1.")
]

Root = Annotated[
    str,
    typer.Option(
        metavar="FOLDER",
        help="Where workspaces live: a path, no URI.",
        callback=_on_this_machine,
    ),
]
Repos = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FOLDER",
        help="Where repositories and bundles are looked up: a path, no URI; may be repeated. Left "
        "out: beside the input, then the working folder.",
        callback=_all_on_this_machine,
    ),
]
RepoMap = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=PATH", help="Where one repository is; may be repeated."),
]
UseRepo = Annotated[
    bool,
    typer.Option("--use-repo/--no-repo", help="Without: workspaces of diffs alone."),
]
MissingRepos = Annotated[
    MissingRepo,
    typer.Option(
        "--missing-repo",
        help="A repository or commit is not found: stop with an error, or use the group's diffs.",
    ),
]
CheckoutMode = Annotated[
    Checkout,
    typer.Option("--checkout", help="Write each candidate's touched files, or its full tree."),
]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="Groups assembled at a time. Default: the cores.", show_default=False),
]

GraderUrl = Annotated[
    str | None,
    typer.Option(
        envvar="GAGAR_GRADER_URL",
        metavar="URL",
        help="An OpenAI-compatible server, such as http://localhost:8000/v1. Left out: the "
        "built-in offline grader. The key is read from GAGAR_GRADER_API_KEY or OPENAI_API_KEY.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(envvar="GAGAR_GRADER_MODEL", help="The model to ask; the only one served if one."),
]
VoteMode = Annotated[
    Mode,
    typer.Option(
        "--mode",
        help="agent: the model looks around with tools. single: it is shown all diffs in one "
        "request, for servers without tool calls.",
    ),
]
Votes = Annotated[
    int, typer.Option(help="Votes on each group, each under labels and an order of its own.")
]
MaxVotes = Annotated[int, typer.Option(help="Votes up to which unclear groups get more of them.")]
MaxTurns = Annotated[int, typer.Option(help="Turns after which a vote without a verdict ends.")]
Rubric = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Text of what counts, in place of the default rubric."),
]
PolicyModel = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The model that made the rollouts; a grader of the same family gets a warning.",
    ),
]
Concurrency = Annotated[int, typer.Option(help="Requests in flight at the most.")]
FirstByteTimeout = Annotated[float, typer.Option(help="Seconds until an answer must begin.")]
IdleTimeout = Annotated[float, typer.Option(help="Seconds that an answer may pause.")]
RequestTimeout = Annotated[float, typer.Option(help="Seconds that one answer may take in all.")]
Retries = Annotated[int, typer.Option(help="Further tries of a request that failed in passing.")]
Temperature = Annotated[float, typer.Option(help="Sampling temperature, 0 to 2.")]
MaxOutputTokens = Annotated[int, typer.Option(help="Tokens that one answer may have.")]
JournalPath = Annotated[
    str | None,
    typer.Option(
        "--journal",
        envvar="GAGAR_JOURNAL",
        metavar="PATH",
        help="Where votes are kept, so that none is paid for twice: a path, no URI. Left out: in "
        "your cache folder.",
        callback=_on_this_machine,
        show_default=False,
    ),
]
KeepJournal = Annotated[
    bool, typer.Option("--keep-journal/--no-journal", help="Without: keep and reuse no votes.")
]
RetryUngraded = Annotated[
    bool,
    typer.Option(
        "--retry-ungraded", help="The input is graded: ask only about its ungraded groups."
    ),
]
Transcripts = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="Save every vote there, a path or URI, as one Parquet row."),
]
PriceIn = Annotated[
    float | None,
    typer.Option(metavar="MONEY", help="Price of a million prompt tokens, for the cost."),
]
PriceOut = Annotated[
    float | None,
    typer.Option(metavar="MONEY", help="Price of a million completion tokens, for the cost."),
]
Budget = Annotated[
    float | None,
    typer.Option(
        metavar="MONEY",
        help="Ask nothing more once this is spent; the rest stays ungraded (exit 3).",
    ),
]
Canaries = Annotated[
    int, typer.Option(help="Groups in which the grader is tested with planted candidates.")
]
MaxCanaryFailures = Annotated[
    int | None,
    typer.Option(help="Fail when planted candidates stand where they do not belong more often."),
]
AllowUngraded = Annotated[
    bool, typer.Option("--allow-ungraded", help="Exit 0 even where groups got no grade.")
]

KeepSum = Annotated[
    bool, typer.Option(help="Rescale, so that each group's advantage sum is kept to 1e-12.")
]
Weights = Annotated[
    str,
    typer.Option(
        metavar="LADDER",
        help="linear, geometric, bottom-fraction, or the weight of each place: 1,0.8,0.6",
    ),
]
Floor = Annotated[float, typer.Option(help="Lowest weight of a named ladder, 1e-9 to 1.")]
Ratio = Annotated[float, typer.Option(help="geometric: each place's share of the one before.")]
Fraction = Annotated[float, typer.Option(help="bottom-fraction: share of places at the floor.")]
MassOption = Annotated[
    Mass,
    typer.Option(
        "--mass",
        help="What the kept sum counts: sequences (plain sum), or tokens for a token-mean loss.",
    ),
]
UseConfidence = Annotated[
    bool,
    typer.Option(
        "--use-confidence/--ignore-confidence",
        help="Move weights toward 1 where a group's grade is uncertain.",
    ),
]
EstimatorOption = Annotated[
    Estimator,
    typer.Option("--estimator", help="How advantages are computed where the file has none."),
]
Ddof = Annotated[int, typer.Option(help="grpo: 1 for the sample deviation, 0 for the population.")]
Epsilon = Annotated[float, typer.Option(help="grpo: added to the standard deviation.")]
