"""`gagar run`."""

from gagar_cli.commands import _options as o
from gagar_cli.commands._stages import (
    Talk,
    do_assemble,
    do_filter,
    do_grade,
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
    votes: o.Votes = o.GRADE.votes,
    max_turns: o.MaxTurns = o.GRADE.max_turns,
    concurrency: o.Concurrency = o.GRADE.concurrency,
    request_timeout: o.RequestTimeout = o.GRADE.request_timeout,
    retries: o.Retries = o.GRADE.retries,
    temperature: o.Temperature = o.GRADE.temperature,
    max_output_tokens: o.MaxOutputTokens = o.GRADE.max_output_tokens,
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
        votes=votes,
        max_turns=max_turns,
        concurrency=concurrency,
        request_timeout=request_timeout,
        retries=retries,
        temperature=temperature,
        max_output_tokens=max_output_tokens,
        seed=seed,
    )
    redistribution = RedistributeOptions(
        weights, floor, ratio, fraction, keep_sum, mass, use_confidence, estimator, ddof, epsilon
    )
    talk = Talk(json, quiet)
    target = target_of(output, input_, "run", rejected)

    rollouts = open_rollouts(input_, col, pass_threshold)
    rollouts = do_filter(rollouts, filtering, rejected, talk)
    rehearse(rollouts, redistribution)
    rollouts = do_assemble(rollouts, assembling, repos, repo_map, jobs, talk)
    rollouts, ungraded = do_grade(rollouts, grading, talk)
    write(do_redistribute(rollouts, redistribution, talk), target, talk)
    return 0 if allow_ungraded else ungraded
