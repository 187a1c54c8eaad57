"""`gagar assemble`."""

from gagar_cli.commands import _options as o
from gagar_cli.commands._bundles import with_bundles
from gagar_cli.commands._ray import do_on_ray, is_for_ray
from gagar_cli.commands._stages import (
    Talk,
    do_assemble,
    open_rollouts,
    target_of,
    write,
)
from gagar_cli.options import AssembleOptions, Cluster, Sources


@with_bundles
def assemble_command(
    *,
    input_: o.Input = None,
    output: o.Output = None,
    sources: Sources,
    options: AssembleOptions,
    pass_threshold: o.PassThreshold = None,
    col: o.Col = None,
    cluster: Cluster,
    talk: Talk,
) -> None:
    """Put each group into one shared workspace.

    All of its rollouts, under anonymous labels, over their base commit.

    Example: gagar assemble kept.parquet --repos sample_groups -o assembled.parquet
    """
    if is_for_ray(cluster):
        from gagar_cli.engines.job import Job

        job = Job(assembling=options, sources=sources)
        do_on_ray(job, cluster, input_, (output, None, "assemble"), (col, pass_threshold), talk)
        return
    target = target_of(output, input_, "assemble")
    rollouts = open_rollouts(input_, col, pass_threshold)
    write(do_assemble(rollouts, options, sources, talk), target, talk)
