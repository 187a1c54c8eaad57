import pytest

from gagar_cli.errors import OptionError
from gagar_cli.options import (
    AssembleOptions,
    Checkout,
    Estimator,
    FilterOptions,
    GradeOptions,
    Mass,
    MissingRepo,
    RedistributeOptions,
)

NAN = float("nan")


@pytest.mark.parametrize(
    ("kind", "values", "option"),
    [
        (FilterOptions, {"min_group_size": 0}, "--min-group-size"),
        (FilterOptions, {"min_pass_rate": -0.1}, "--min-pass-rate"),
        (FilterOptions, {"min_pass_rate": NAN}, "--min-pass-rate"),
        (FilterOptions, {"max_pass_rate": 1.1}, "--max-pass-rate"),
        (FilterOptions, {"min_pass_rate": 0.6, "max_pass_rate": 0.5}, "--min-pass-rate"),
        (GradeOptions, {"votes": 0}, "--votes"),
        (GradeOptions, {"max_turns": 0}, "--max-turns"),
        (GradeOptions, {"concurrency": 0}, "--concurrency"),
        (GradeOptions, {"max_output_tokens": 0}, "--max-output-tokens"),
        (GradeOptions, {"retries": -1}, "--retries"),
        (GradeOptions, {"request_timeout": 0.0}, "--request-timeout"),
        (GradeOptions, {"request_timeout": NAN}, "--request-timeout"),
        (GradeOptions, {"max_votes": 0}, "--max-votes"),
        (GradeOptions, {"first_byte_timeout": 0.0}, "--first-byte-timeout"),
        (GradeOptions, {"idle_timeout": -1.0}, "--idle-timeout"),
        (GradeOptions, {"price_in": -1.0}, "--price-in"),
        (GradeOptions, {"price_out": NAN}, "--price-out"),
        (GradeOptions, {"budget": -1.0, "price_in": 1.0}, "--budget"),
        (GradeOptions, {"budget": 1.0}, "--budget"),
        (GradeOptions, {"canaries": -1}, "--canaries"),
        (GradeOptions, {"max_canary_failures": -1}, "--max-canary-failures"),
        (GradeOptions, {"temperature": -0.1}, "--temperature"),
        (GradeOptions, {"temperature": 2.1}, "--temperature"),
        (RedistributeOptions, {"floor": 0.0}, "--floor"),
        (RedistributeOptions, {"floor": 1.1}, "--floor"),
        (RedistributeOptions, {"floor": NAN}, "--floor"),
        (RedistributeOptions, {"ratio": 0.0}, "--ratio"),
        (RedistributeOptions, {"ratio": 1.1}, "--ratio"),
        (RedistributeOptions, {"fraction": -0.1}, "--fraction"),
        (RedistributeOptions, {"fraction": 1.1}, "--fraction"),
        (RedistributeOptions, {"ddof": 2}, "--ddof"),
        (RedistributeOptions, {"epsilon": -1e-9}, "--epsilon"),
        (RedistributeOptions, {"epsilon": float("inf")}, "--epsilon"),
        (RedistributeOptions, {"weights": "quadratic"}, "--weights"),
        (RedistributeOptions, {"weights": ""}, "--weights"),
        (RedistributeOptions, {"weights": "1,,0.5"}, "--weights"),
        (RedistributeOptions, {"weights": "0.9,0.5"}, "--weights"),
        (RedistributeOptions, {"weights": "1,0.5,0.6"}, "--weights"),
        (RedistributeOptions, {"weights": "1,0"}, "--weights"),
        (RedistributeOptions, {"weights": "1,-0.5"}, "--weights"),
        (RedistributeOptions, {"weights": "1,nan"}, "--weights"),
        (RedistributeOptions, {"weights": "inf,1"}, "--weights"),
    ],
)
def test_a_value_that_makes_no_sense_names_its_option_and_the_help(kind, values, option):
    with pytest.raises(OptionError, match=r"got .*, expected ") as caught:
        kind(**values)
    assert caught.value.where == option
    assert str(caught.value).endswith("Next: see --help")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (FilterOptions, {"min_group_size": 1, "min_pass_rate": 0.0, "max_pass_rate": 0.0}),
        (FilterOptions, {"min_pass_rate": 1.0, "max_pass_rate": 1.0}),
        (GradeOptions, {"votes": 1, "max_turns": 1, "concurrency": 1, "max_output_tokens": 1}),
        (GradeOptions, {"retries": 0, "temperature": 0.0, "request_timeout": 0.001}),
        (GradeOptions, {"temperature": 2.0}),
        (RedistributeOptions, {"floor": 1e-9, "ratio": 1e-9, "fraction": 0.0, "epsilon": 0.0}),
        (RedistributeOptions, {"floor": 1.0, "ratio": 1.0, "fraction": 1.0, "ddof": 0}),
    ],
)
def test_the_ends_of_each_range_belong_to_it(kind, values):
    made = kind(**values)
    assert {name: getattr(made, name) for name in values} == values


def test_a_ladder_is_a_name_or_the_listed_weights():
    assert RedistributeOptions(weights="geometric").ladder() == "geometric"
    assert RedistributeOptions(weights="1, 0.8,0.8,1e-9").ladder() == (1, 0.8, 0.8, 1e-9)
    assert RedistributeOptions(weights="1").ladder() == (1,)


def test_the_defaults_are_those_of_the_contract():
    redistribute = RedistributeOptions()
    assert (redistribute.weights, redistribute.floor) == ("linear", 0.5)
    assert redistribute.keep_sum
    assert redistribute.mass is Mass.SEQUENCES
    assert redistribute.use_confidence
    assert redistribute.estimator is Estimator.GRPO
    assert GradeOptions().url is None
    assemble = AssembleOptions()
    assert assemble.root == "gagar_workspaces"
    assert (assemble.checkout, assemble.missing_repo) == (Checkout.TOUCHED, MissingRepo.ERROR)
