"""`gagar assemble`."""

from gagar_cli.commands import _options as o
from gagar_cli.commands._stages import Talk, do_assemble, open_rollouts, target_of, write
from gagar_cli.options import AssembleOptions


def assemble_command(
    input_: o.Input = None,
    output: o.Output = None,
    repos: o.Repos = None,
    repo_map: o.RepoMap = None,
    root: o.Root = o.ASSEMBLE.root,
    checkout: o.CheckoutMode = o.ASSEMBLE.checkout,
    missing_repo: o.MissingRepos = o.ASSEMBLE.missing_repo,
    no_repo: o.NoRepo = False,
    jobs: o.Jobs = None,
    seed: o.Seed = o.ASSEMBLE.seed,
    pass_threshold: o.PassThreshold = None,
    col: o.Col = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Put each group into one shared workspace.

    All of its rollouts, under anonymous labels, over their base commit.

    Example: gagar assemble kept.parquet --repos sample_groups -o assembled.parquet
    """
    options = AssembleOptions(root, checkout, missing_repo, not no_repo, seed)
    target = target_of(output, input_, "assemble")
    rollouts = open_rollouts(input_, col, pass_threshold)
    talk = Talk(json, quiet)
    write(do_assemble(rollouts, options, repos, repo_map, jobs, talk), target, talk)
