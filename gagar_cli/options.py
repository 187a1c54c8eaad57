"""What each stage can be told: small frozen dataclasses, the one place of every default.

Light on purpose: the command line reads its defaults here without loading Arrow.
A value that makes no sense raises OptionError when the object is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType

from gagar_cli.errors import OptionError

# Below this a weight would push ordinary advantages toward underflow, and the
# promise to keep the sum could not be kept.
MIN_WEIGHT = 1e-9

BUILTIN_LADDERS = ("linear", "geometric", "bottom-fraction")


class Estimator(StrEnum):
    """How advantages are computed from rewards where the file has none."""

    GRPO = "grpo"
    DR_GRPO = "dr-grpo"
    RLOO = "rloo"


class Mass(StrEnum):
    """What a rollout weighs in the loss: 1 for each sequence, or its tokens."""

    SEQUENCES = "sequences"
    TOKENS = "tokens"


class Checkout(StrEnum):
    """How much of each candidate's tree a workspace writes out."""

    TOUCHED = "touched"
    FULL = "full"


class MissingRepo(StrEnum):
    """What to do with a group whose repository or base commit is not found."""

    ERROR = "error"
    DIFFS = "diffs"


class Mode(StrEnum):
    """How a vote is held: by an agent with tools, or in a single answer."""

    AGENT = "agent"
    SINGLE = "single"


class Engine(StrEnum):
    """What runs the stages: this process, or the workers of a Ray cluster."""

    LOCAL = "local"
    RAY = "ray"


def _check(condition: bool, option: str, got: object, expected: str) -> None:  # noqa: FBT001
    if not condition:
        raise OptionError(option, f"got {got}, expected {expected}", "see --help")


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Bounds on the groups that are kept; rates are shares of rollouts with a verdict."""

    min_group_size: int = 2
    min_pass_rate: float = 0.0
    max_pass_rate: float = 1.0

    def __post_init__(self) -> None:
        """Check the ranges."""
        _check(self.min_group_size >= 1, "--min-group-size", self.min_group_size, "at least 1")
        for option, rate in (
            ("--min-pass-rate", self.min_pass_rate),
            ("--max-pass-rate", self.max_pass_rate),
        ):
            _check(0.0 <= rate <= 1.0, option, rate, "a rate from 0 to 1")
        _check(
            self.min_pass_rate <= self.max_pass_rate,
            "--min-pass-rate",
            self.min_pass_rate,
            f"at most --max-pass-rate ({self.max_pass_rate})",
        )


@dataclass(frozen=True, slots=True)
class AssembleOptions:
    """How workspaces are made. `seed` draws the anonymous labels."""

    root: str = "gagar_workspaces"
    checkout: Checkout = Checkout.TOUCHED
    missing_repo: MissingRepo = MissingRepo.ERROR
    use_repo: bool = True
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Sources:
    """Where repositories are looked up, and how many groups are assembled at a time."""

    repos: Sequence[str] | None = None
    repo_map: Sequence[str] | None = None
    jobs: int | None = None


@dataclass(frozen=True, slots=True)
class GradeFiles:
    """What `grade` reads and writes besides rollouts, and the policy that it should know of."""

    rubric: str | None = None
    policy_model: str | None = None
    journal: str | None = None
    keep_journal: bool = True
    transcripts: str | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the stages run. `partitions`: parts that the groups are dealt into, for Ray."""

    engine: Engine = Engine.LOCAL
    address: str | None = None
    partitions: int | None = None


# How fast and how patiently something is done leaves no trace in the data, so these options are
# not recorded in a file's metadata: the same answers give the same bytes.
_UNRECORDED = MappingProxyType({"recorded": False})


@dataclass(frozen=True, slots=True)
class GradeOptions:
    """Where the grader is, how votes are held, and how far it may go.

    Without a `url` the built-in grader ranks, offline, and the rest means nothing. Each group gets
    `votes` votes, and up to `max_votes` while they are not clear. Times are in seconds: until an
    answer begins, between two parts of it, and in all. Prices are per million tokens, in the
    currency of `budget`.
    """

    url: str | None = field(default=None, metadata=_UNRECORDED)  # may hold a password
    model: str | None = None
    mode: Mode = Mode.AGENT
    votes: int = 4
    max_votes: int = 8
    max_turns: int = 24
    concurrency: int = field(default=16, metadata=_UNRECORDED)
    first_byte_timeout: float = field(default=300.0, metadata=_UNRECORDED)
    idle_timeout: float = field(default=60.0, metadata=_UNRECORDED)
    request_timeout: float = field(default=900.0, metadata=_UNRECORDED)
    retries: int = field(default=4, metadata=_UNRECORDED)
    temperature: float = 0.7
    max_output_tokens: int = 4096
    price_in: float | None = field(default=None, metadata=_UNRECORDED)
    price_out: float | None = field(default=None, metadata=_UNRECORDED)
    budget: float | None = field(default=None, metadata=_UNRECORDED)
    canaries: int = field(default=0, metadata=_UNRECORDED)
    max_canary_failures: int | None = field(default=None, metadata=_UNRECORDED)
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges."""
        for option, number in (
            ("--votes", self.votes),
            ("--max-votes", self.max_votes),
            ("--max-turns", self.max_turns),
            ("--concurrency", self.concurrency),
            ("--max-output-tokens", self.max_output_tokens),
        ):
            _check(number >= 1, option, number, "at least 1")
        _check(self.retries >= 0, "--retries", self.retries, "0 or more")
        _check(self.canaries >= 0, "--canaries", self.canaries, "0 or more")
        for option, seconds in (
            ("--first-byte-timeout", self.first_byte_timeout),
            ("--idle-timeout", self.idle_timeout),
            ("--request-timeout", self.request_timeout),
        ):
            _check(seconds > 0, option, seconds, "above 0")
        _check(0 <= self.temperature <= 2, "--temperature", self.temperature, "0 to 2")  # noqa: PLR2004
        for option, money in (
            ("--price-in", self.price_in),
            ("--price-out", self.price_out),
            ("--budget", self.budget),
        ):
            _check(money is None or 0 <= money < float("inf"), option, money, "0 or more")
        priced = self.budget is None or bool(self.price_in or self.price_out)
        _check(priced, "--budget", self.budget, "--price-in and --price-out to count by")
        most = self.max_canary_failures
        _check(most is None or most >= 0, "--max-canary-failures", most, "0 or more")


@dataclass(frozen=True, slots=True)
class RedistributeOptions:
    """How credit moves inside a group.

    `weights` names a ladder, or lists the weight of each place (the last one repeats).
    `floor` is the lowest weight of a named ladder; `ratio` belongs to `geometric`, `fraction`
    (the share of places that get the floor) to `bottom-fraction`. `ddof` and `epsilon` belong to
    the standard deviation of the `grpo` estimator.
    """

    weights: str = "linear"
    floor: float = 0.5
    ratio: float = 0.8
    fraction: float = 0.5
    keep_sum: bool = True
    mass: Mass = Mass.SEQUENCES
    use_confidence: bool = True
    estimator: Estimator = Estimator.GRPO
    ddof: int = 1
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        """Check the ranges."""
        self.ladder()
        _check(MIN_WEIGHT <= self.floor <= 1, "--floor", self.floor, f"{MIN_WEIGHT} to 1")
        _check(0 < self.ratio <= 1, "--ratio", self.ratio, "above 0, at most 1")
        _check(0 <= self.fraction <= 1, "--fraction", self.fraction, "a share from 0 to 1")
        _check(self.ddof in {0, 1}, "--ddof", self.ddof, "0 or 1")
        _check(0 <= self.epsilon < float("inf"), "--epsilon", self.epsilon, "0 or more")

    def ladder(self) -> str | tuple[float, ...]:
        """Return the ladder's name, or the listed weights.

        A list starts at 1, never rises, and stays at or above 1e-9.
        """
        if self.weights in BUILTIN_LADDERS:
            return self.weights
        expected = f"{', '.join(BUILTIN_LADDERS)}, or a list such as 1,0.8,0.6"
        try:
            listed = tuple(float(word) for word in self.weights.split(","))
        except ValueError:
            raise OptionError(
                "--weights", f"got {self.weights!r}, expected {expected}", "see --help"
            ) from None
        _check(listed[0] == 1, "--weights", self.weights, "a list that starts at 1")
        _check(
            all(MIN_WEIGHT <= w <= 1 for w in listed) and _never_rises(listed),
            "--weights",
            self.weights,
            f"weights from 1 down to {MIN_WEIGHT} that never rise",
        )
        return listed


def _never_rises(values: Sequence[float]) -> bool:
    return all(a >= b for a, b in pairwise(values))
