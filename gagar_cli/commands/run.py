"""`gagar run`."""

from gagar_cli.commands import _options as o
from gagar_cli.commands._bundles import with_bundles
from gagar_cli.commands._grading import GradeFiles, check_grade_files, do_grade
from gagar_cli.commands._stages import (
    Sources,
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


@with_bundles
def run_command(
    *,
    input_: o.Input = None,
    output: o.Output = None,
    rejected: o.Rejected = None,
    filtering: FilterOptions,
    sources: Sources,
    assembling: AssembleOptions,
    grading: GradeOptions,
    files: GradeFiles,
    allow_ungraded: o.AllowUngraded = False,
    redistribution: RedistributeOptions,
    pass_threshold: o.PassThreshold = None,
    col: o.Col = None,
    talk: Talk,
) -> int:
    """Filter, assemble, grade and redistribute in one go.

    The same as the four stages in a pipe, but the heavy columns are read once.

    Example: gagar run sample_groups/rollouts.parquet -o out.parquet
    """
    target = target_of(output, input_, "run", rejected)
    check_grade_files(files, {"output": target, "input": input_, "rejected": rejected})

    rollouts = open_rollouts(input_, col, pass_threshold)
    rollouts = do_filter(rollouts, filtering, rejected, talk)
    rehearse(rollouts, redistribution)
    rollouts = do_assemble(rollouts, assembling, sources, talk)
    rollouts, ungraded = do_grade(rollouts, grading, files, talk)
    write(do_redistribute(rollouts, redistribution, talk), target, talk)
    return 0 if allow_ungraded else ungraded
