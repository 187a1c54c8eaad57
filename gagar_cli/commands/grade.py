"""`gagar grade`."""

from gagar_cli.commands import _options as o
from gagar_cli.commands._stages import Talk, do_grade, open_rollouts, target_of, write
from gagar_cli.options import GradeOptions


def grade_command(
    input_: o.Input = None,
    output: o.Output = None,
    grader_url: o.GraderUrl = None,
    model: o.Model = None,
    votes: o.Votes = o.GRADE.votes,
    max_turns: o.MaxTurns = o.GRADE.max_turns,
    concurrency: o.Concurrency = o.GRADE.concurrency,
    request_timeout: o.RequestTimeout = o.GRADE.request_timeout,
    retries: o.Retries = o.GRADE.retries,
    temperature: o.Temperature = o.GRADE.temperature,
    max_output_tokens: o.MaxOutputTokens = o.GRADE.max_output_tokens,
    allow_ungraded: o.AllowUngraded = False,
    seed: o.Seed = o.GRADE.seed,
    pass_threshold: o.PassThreshold = None,
    col: o.Col = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Rank the passing rollouts of each group.

    Side by side in its workspace: by the built-in grader, or by a model with --grader-url.

    Example: gagar grade assembled.parquet -o graded.parquet
    """
    options = GradeOptions(
        url=grader_url,
        model=model,
        votes=votes,
        max_turns=max_turns,
        concurrency=concurrency,
        request_timeout=request_timeout,
        retries=retries,
        temperature=temperature,
        max_output_tokens=max_output_tokens,
        seed=seed,
    )
    target = target_of(output, input_, "grade")
    rollouts = open_rollouts(input_, col, pass_threshold)
    talk = Talk(json, quiet)
    graded, ungraded = do_grade(rollouts, options, talk)
    write(graded, target, talk)
    return 0 if allow_ungraded else ungraded
