"""`gagar assemble`."""

from gagar_cli.commands import _options as o
from gagar_cli.commands._bundles import with_bundles
from gagar_cli.commands._stages import (
    Sources,
    Talk,
    do_assemble,
    open_rollouts,
    target_of,
    write,
)
from gagar_cli.options import AssembleOptions


@with_bundles
def assemble_command(
    *,
    input_: o.Input = None,
    output: o.Output = None,
    sources: Sources,
    options: AssembleOptions,
    pass_threshold: o.PassThreshold = None,
    col: o.Col = None,
    talk: Talk,
) -> None:
    """Put each group into one shared workspace.

    All of its rollouts, under anonymous labels, over their base commit.

    Example: gagar assemble kept.parquet --repos sample_groups -o assembled.parquet
    """
    target = target_of(output, input_, "assemble")
    rollouts = open_rollouts(input_, col, pass_threshold)
    write(do_assemble(rollouts, options, sources, talk), target, talk)
