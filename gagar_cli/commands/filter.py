"""`gagar filter`."""

from gagar_cli.commands import _options as o
from gagar_cli.commands._bundles import with_bundles
from gagar_cli.commands._ray import do_on_ray, is_for_ray
from gagar_cli.commands._stages import Talk, do_filter, open_rollouts, target_of, write
from gagar_cli.options import Cluster, FilterOptions


@with_bundles
def filter_command(
    *,
    input_: o.Input = None,
    output: o.Output = None,
    rejected: o.Rejected = None,
    options: FilterOptions,
    pass_threshold: o.PassThreshold = None,
    col: o.Col = None,
    cluster: Cluster,
    talk: Talk,
) -> None:
    """Keep the groups that have contrast.

    Those are the groups that hold both passing and failing rollouts (dynamic sampling).

    Example: gagar filter sample_groups/rollouts.parquet -o kept.parquet
    """
    if is_for_ray(cluster):
        from gagar_cli.engines.job import Job

        job = Job(filtering=options, keep_rejected=rejected is not None)
        do_on_ray(job, cluster, input_, (output, rejected, "filter"), (col, pass_threshold), talk)
        return
    target = target_of(output, input_, "filter", rejected)
    rollouts = open_rollouts(input_, col, pass_threshold)
    write(do_filter(rollouts, options, rejected, talk), target, talk)
