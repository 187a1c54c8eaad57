"""`gagar filter`."""

from gagar_cli.commands import _options as o
from gagar_cli.commands._stages import Talk, do_filter, open_rollouts, target_of, write
from gagar_cli.options import FilterOptions


def filter_command(
    input_: o.Input = None,
    output: o.Output = None,
    rejected: o.Rejected = None,
    min_group_size: o.MinGroupSize = o.FILTER.min_group_size,
    min_pass_rate: o.MinPassRate = o.FILTER.min_pass_rate,
    max_pass_rate: o.MaxPassRate = o.FILTER.max_pass_rate,
    pass_threshold: o.PassThreshold = None,
    col: o.Col = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Keep the groups that have contrast.

    Those are the groups that hold both passing and failing rollouts (dynamic sampling).

    Example: gagar filter sample_groups/rollouts.parquet -o kept.parquet
    """
    options = FilterOptions(min_group_size, min_pass_rate, max_pass_rate)
    target = target_of(output, input_, "filter", rejected)
    rollouts = open_rollouts(input_, col, pass_threshold)
    talk = Talk(json, quiet)
    write(do_filter(rollouts, options, rejected, talk), target, talk)
