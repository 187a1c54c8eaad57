"""`gagar grade`."""

from gagar_cli.commands import _options as o
from gagar_cli.commands._bundles import with_bundles
from gagar_cli.commands._grading import check_grade_files, do_grade
from gagar_cli.commands._ray import do_on_ray, is_for_ray
from gagar_cli.commands._stages import Talk, open_rollouts, target_of, write
from gagar_cli.options import Cluster, GradeFiles, GradeOptions


@with_bundles
def grade_command(
    *,
    input_: o.Input = None,
    output: o.Output = None,
    options: GradeOptions,
    files: GradeFiles,
    retry_ungraded: o.RetryUngraded = False,
    allow_ungraded: o.AllowUngraded = False,
    pass_threshold: o.PassThreshold = None,
    col: o.Col = None,
    cluster: Cluster,
    talk: Talk,
) -> int:
    """Rank the passing rollouts of each group.

    Side by side in its workspace: by the built-in grader, or by a model with --grader-url.

    Example: gagar grade assembled.parquet -o graded.parquet
    """
    if is_for_ray(cluster):
        from gagar_cli.engines.job import Job

        job = Job(grading=options, files=files, retry_ungraded=retry_ungraded)
        names = (col, pass_threshold)
        ungraded = do_on_ray(job, cluster, input_, (output, None, "grade"), names, talk)
        return 0 if allow_ungraded else ungraded
    target = target_of(output, input_, "grade")
    check_grade_files(files, {"output": target, "input": input_})
    rollouts = open_rollouts(input_, col, pass_threshold)
    graded, ungraded = do_grade(rollouts, options, files, talk, retry_ungraded=retry_ungraded)
    write(graded, target, talk)
    return 0 if allow_ungraded else ungraded
