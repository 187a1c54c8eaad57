"""`gagar grade`."""

from gagar_cli.commands import _options as o
from gagar_cli.commands._grading import GradeFiles, check_grade_files, do_grade
from gagar_cli.commands._stages import Talk, open_rollouts, target_of, write
from gagar_cli.options import GradeOptions


def grade_command(
    input_: o.Input = None,
    output: o.Output = None,
    grader_url: o.GraderUrl = None,
    model: o.Model = None,
    mode: o.VoteMode = o.GRADE.mode,
    votes: o.Votes = o.GRADE.votes,
    max_votes: o.MaxVotes = o.GRADE.max_votes,
    max_turns: o.MaxTurns = o.GRADE.max_turns,
    rubric: o.Rubric = None,
    policy_model: o.PolicyModel = None,
    concurrency: o.Concurrency = o.GRADE.concurrency,
    first_byte_timeout: o.FirstByteTimeout = o.GRADE.first_byte_timeout,
    idle_timeout: o.IdleTimeout = o.GRADE.idle_timeout,
    request_timeout: o.RequestTimeout = o.GRADE.request_timeout,
    retries: o.Retries = o.GRADE.retries,
    temperature: o.Temperature = o.GRADE.temperature,
    max_output_tokens: o.MaxOutputTokens = o.GRADE.max_output_tokens,
    journal: o.JournalPath = None,
    no_journal: o.NoJournal = False,
    retry_ungraded: o.RetryUngraded = False,
    transcripts: o.Transcripts = None,
    price_in: o.PriceIn = None,
    price_out: o.PriceOut = None,
    budget: o.Budget = None,
    canaries: o.Canaries = o.GRADE.canaries,
    max_canary_failures: o.MaxCanaryFailures = None,
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
        mode=mode,
        votes=votes,
        max_votes=max_votes,
        max_turns=max_turns,
        concurrency=concurrency,
        first_byte_timeout=first_byte_timeout,
        idle_timeout=idle_timeout,
        request_timeout=request_timeout,
        retries=retries,
        temperature=temperature,
        max_output_tokens=max_output_tokens,
        price_in=price_in,
        price_out=price_out,
        budget=budget,
        canaries=canaries,
        max_canary_failures=max_canary_failures,
        seed=seed,
    )
    files = GradeFiles(rubric, policy_model, journal, not no_journal, transcripts, retry_ungraded)
    target = target_of(output, input_, "grade")
    check_grade_files(files, {"output": target, "input": input_})
    rollouts = open_rollouts(input_, col, pass_threshold)
    talk = Talk(json, quiet)
    graded, ungraded = do_grade(rollouts, options, files, talk)
    write(graded, target, talk)
    return 0 if allow_ungraded else ungraded
