"""`gagar redistribute`."""

from gagar_cli.commands import _options as o
from gagar_cli.commands._bundles import with_bundles
from gagar_cli.commands._ray import do_on_ray, is_for_ray
from gagar_cli.commands._stages import Talk, do_redistribute, open_rollouts, target_of, write
from gagar_cli.options import Cluster, RedistributeOptions


@with_bundles
def redistribute_command(
    *,
    input_: o.Input = None,
    output: o.Output = None,
    options: RedistributeOptions,
    pass_threshold: o.PassThreshold = None,
    col: o.Col = None,
    cluster: Cluster,
    talk: Talk,
) -> None:
    """Move credit from lower ranks to higher ones.

    Within the passing rollouts of each group; the sum of their advantages is kept.

    Example: gagar redistribute graded.parquet --keep-sum -o out.parquet
    """
    if is_for_ray(cluster):
        from gagar_cli.engines.job import Job

        job = Job(redistribution=options)
        do_on_ray(job, cluster, input_, (output, None, "redistribute"), (col, pass_threshold), talk)
        return
    target = target_of(output, input_, "redistribute")
    rollouts = open_rollouts(input_, col, pass_threshold)
    write(do_redistribute(rollouts, options, talk), target, talk)
