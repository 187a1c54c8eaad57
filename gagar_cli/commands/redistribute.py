"""`gagar redistribute`."""

from gagar_cli.commands import _options as o
from gagar_cli.commands._stages import Talk, do_redistribute, open_rollouts, target_of, write
from gagar_cli.options import RedistributeOptions


def redistribute_command(
    input_: o.Input = None,
    output: o.Output = None,
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
    pass_threshold: o.PassThreshold = None,
    col: o.Col = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Move credit from lower ranks to higher ones.

    Within the passing rollouts of each group; the sum of their advantages is kept.

    Example: gagar redistribute graded.parquet --keep-sum -o out.parquet
    """
    options = RedistributeOptions(
        weights, floor, ratio, fraction, keep_sum, mass, use_confidence, estimator, ddof, epsilon
    )
    target = target_of(output, input_, "redistribute")
    rollouts = open_rollouts(input_, col, pass_threshold)
    talk = Talk(json, quiet)
    write(do_redistribute(rollouts, options, talk), target, talk)
