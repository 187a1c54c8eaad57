"""Bundles of options: a command that takes one of these dataclasses takes all of their options.

So each option of a stage is told once, for the stage's own command and for `run`. Defaults are
those of the dataclass.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from gagar_cli.commands import _options as o
from gagar_cli.commands._stages import Talk
from gagar_cli.options import (
    AssembleOptions,
    Cluster,
    FilterOptions,
    GradeFiles,
    GradeOptions,
    RedistributeOptions,
    Sources,
)

# Of each bundle: by field, the option's name in a command's signature, and the option.
_BUNDLES: Mapping[type, Mapping[str, tuple[str, Any]]] = {
    FilterOptions: {
        "min_group_size": ("min_group_size", o.MinGroupSize),
        "min_pass_rate": ("min_pass_rate", o.MinPassRate),
        "max_pass_rate": ("max_pass_rate", o.MaxPassRate),
    },
    Sources: {
        "repos": ("repos", o.Repos),
        "repo_map": ("repo_map", o.RepoMap),
        "jobs": ("jobs", o.Jobs),
    },
    AssembleOptions: {
        "root": ("root", o.Root),
        "checkout": ("checkout", o.CheckoutMode),
        "missing_repo": ("missing_repo", o.MissingRepos),
        "use_repo": ("use_repo", o.UseRepo),
        "seed": ("seed", o.Seed),
    },
    GradeOptions: {
        "url": ("grader_url", o.GraderUrl),
        "model": ("model", o.Model),
        "mode": ("mode", o.VoteMode),
        "votes": ("votes", o.Votes),
        "max_votes": ("max_votes", o.MaxVotes),
        "max_turns": ("max_turns", o.MaxTurns),
        "temperature": ("temperature", o.Temperature),
        "max_output_tokens": ("max_output_tokens", o.MaxOutputTokens),
        "concurrency": ("concurrency", o.Concurrency),
        "retries": ("retries", o.Retries),
        "first_byte_timeout": ("first_byte_timeout", o.FirstByteTimeout),
        "idle_timeout": ("idle_timeout", o.IdleTimeout),
        "request_timeout": ("request_timeout", o.RequestTimeout),
        "price_in": ("price_in", o.PriceIn),
        "price_out": ("price_out", o.PriceOut),
        "budget": ("budget", o.Budget),
        "canaries": ("canaries", o.Canaries),
        "max_canary_failures": ("max_canary_failures", o.MaxCanaryFailures),
        "seed": ("seed", o.Seed),
    },
    GradeFiles: {
        "rubric": ("rubric", o.Rubric),
        "policy_model": ("policy_model", o.PolicyModel),
        "journal": ("journal", o.JournalPath),
        "keep_journal": ("keep_journal", o.KeepJournal),
        "transcripts": ("transcripts", o.Transcripts),
    },
    RedistributeOptions: {
        "keep_sum": ("keep_sum", o.KeepSum),
        "weights": ("weights", o.Weights),
        "floor": ("floor", o.Floor),
        "ratio": ("ratio", o.Ratio),
        "fraction": ("fraction", o.Fraction),
        "mass": ("mass", o.MassOption),
        "use_confidence": ("use_confidence", o.UseConfidence),
        "estimator": ("estimator", o.EstimatorOption),
        "ddof": ("ddof", o.Ddof),
        "epsilon": ("epsilon", o.Epsilon),
    },
    Cluster: {
        "engine": ("engine", o.EngineOption),
        "address": ("ray_address", o.RayAddress),
        "partitions": ("partitions", o.Partitions),
    },
    Talk: {"as_json": ("json", o.Json), "quiet": ("quiet", o.Quiet)},
}


def with_bundles(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Give a command the options of the bundles that it takes; one that two share is given once."""
    taken = inspect.signature(command).parameters
    options: dict[str, inspect.Parameter] = {}
    for name, parameter in taken.items():
        kind = inspect.Parameter.KEYWORD_ONLY
        if parameter.annotation not in _BUNDLES:
            options[name] = parameter.replace(kind=kind)
            continue
        default = parameter.annotation()
        for field, (option, annotation) in _BUNDLES[parameter.annotation].items():
            options[option] = inspect.Parameter(
                option, kind, default=getattr(default, field), annotation=annotation
            )

    @functools.wraps(command)
    def run(**given: Any) -> int | None:  # noqa: ANN401
        arguments = {}
        for name, parameter in taken.items():
            bundle = _BUNDLES.get(parameter.annotation)
            if bundle is None:
                arguments[name] = given[name]
            else:
                fields = {field: given[option] for field, (option, _) in bundle.items()}
                arguments[name] = parameter.annotation(**fields)
        return command(**arguments)

    run.__annotations__ = {name: option.annotation for name, option in options.items()}
    run.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
    return run
