"""`gagar run`."""

from gagar_cli.commands import _options as o
from gagar_cli.commands._bundles import with_bundles
from gagar_cli.commands._grading import check_grade_files, do_grade
from gagar_cli.commands._ray import do_on_ray, is_for_ray
from gagar_cli.commands._stages import (
    Talk,
    do_assemble,
    do_filter,
    do_redistribute,
    open_rollouts,
    target_of,
    write,
)
from gagar_cli.options import (
    AssembleOptions,
    Cluster,
    FilterOptions,
    GradeFiles,
    GradeOptions,
    RedistributeOptions,
    Sources,
)


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
    cluster: Cluster,
    talk: Talk,
) -> int:
    """Filter, assemble, grade and redistribute in one go.

    The same as the four stages in a pipe, but the heavy columns are read once.

    Example: gagar run sample_groups/rollouts.parquet -o out.parquet
    """
    if is_for_ray(cluster):
        from gagar_cli.engines.job import Job

        job = Job(
            filtering=filtering,
            assembling=assembling,
            sources=sources,
            grading=grading,
            files=files,
            redistribution=redistribution,
            keep_rejected=rejected is not None,
        )
        names = (col, pass_threshold)
        ungraded = do_on_ray(job, cluster, input_, (output, rejected, "run"), names, talk)
        return 0 if allow_ungraded else ungraded
    target = target_of(output, input_, "run", rejected)
    check_grade_files(files, {"output": target, "input": input_, "rejected": rejected})

    from gagar_cli.engines.stages import rehearse

    rollouts = open_rollouts(input_, col, pass_threshold)
    rollouts = do_filter(rollouts, filtering, rejected, talk)
    rehearse(rollouts, redistribution)
    rollouts = do_assemble(rollouts, assembling, sources, talk)
    rollouts, ungraded = do_grade(rollouts, grading, files, talk)
    write(do_redistribute(rollouts, redistribution, talk), target, talk)
    return 0 if allow_ungraded else ungraded
