"""`gagar run`."""

from gagar_cli.commands import _options as o
from gagar_cli.commands._grading import GradeFiles, check_grade_files, do_grade
from gagar_cli.commands._stages import (
    Talk,
    do_assemble,
    do_filter,
    do_redistribute,
    open_rollouts,
    rehearse,
    target_of,
    write,
)
from gagar_cli.options import AssembleOptions, FilterOptions, GradeOptions, RedistributeOptions


def run_command(
    input_: o.Input = None,
    output: o.Output = None,
    rejected: o.Rejected = None,
    min_group_size: o.MinGroupSize = o.FILTER.min_group_size,
    min_pass_rate: o.MinPassRate = o.FILTER.min_pass_rate,
    max_pass_rate: o.MaxPassRate = o.FILTER.max_pass_rate,
    repos: o.Repos = None,
    repo_map: o.RepoMap = None,
    root: o.Root = o.ASSEMBLE.root,
    checkout: o.CheckoutMode = o.ASSEMBLE.checkout,
    missing_repo: o.MissingRepos = o.ASSEMBLE.missing_repo,
    no_repo: o.NoRepo = False,
    jobs: o.Jobs = None,
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
    transcripts: o.Transcripts = None,
    price_in: o.PriceIn = None,
    price_out: o.PriceOut = None,
    budget: o.Budget = None,
    canaries: o.Canaries = o.GRADE.canaries,
    max_canary_failures: o.MaxCanaryFailures = None,
    allow_ungraded: o.AllowUngraded = False,
    keep_sum: o.KeepSum = o.REDISTRIBUTE.keep_sum,
    weights: o.Weights = o.REDISTRIBUTE.weights,
    floor: o.Floor = o.REDISTRIBUTE.floor,
    ratio: o.Ratio = o.REDISTRIBUTE.ratio,
    fraction: o.Fraction = o.REDISTRIBUTE.fraction,
    mass: o.MassOption = o.REDISTRIBUTE.mass,
    use_confidence: o.UseConfidence = o.REDISTRIBUTE.use_confidence,
    estimator: o.EstimatorOption = o.REDISTRIBUTE.estimator,
    ddof: o.Ddof = o.REDISTRIBUTE.ddof,
    epsilon: o.Epsilon = o.REDISTRIBUTE.epsilon,
    seed: o.Seed = 0,
    pass_threshold: o.PassThreshold = None,
    col: o.Col = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Filter, assemble, grade and redistribute in one go.

    The same as the four stages in a pipe, but the heavy columns are read once.

    Example: gagar run sample_groups/rollouts.parquet -o out.parquet
    """
    filtering = FilterOptions(min_group_size, min_pass_rate, max_pass_rate)
    assembling = AssembleOptions(root, checkout, missing_repo, not no_repo, seed)
    grading = GradeOptions(
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
    files = GradeFiles(rubric, policy_model, journal, not no_journal, transcripts)
    redistribution = RedistributeOptions(
        weights, floor, ratio, fraction, keep_sum, mass, use_confidence, estimator, ddof, epsilon
    )
    talk = Talk(json, quiet)
    target = target_of(output, input_, "run", rejected)
    check_grade_files(files, {"output": target, "input": input_, "rejected": rejected})

    rollouts = open_rollouts(input_, col, pass_threshold)
    rollouts = do_filter(rollouts, filtering, rejected, talk)
    rehearse(rollouts, redistribution)
    rollouts = do_assemble(rollouts, assembling, repos, repo_map, jobs, talk)
    rollouts, ungraded = do_grade(rollouts, grading, files, talk)
    write(do_redistribute(rollouts, redistribution, talk), target, talk)
    return 0 if allow_ungraded else ungraded
