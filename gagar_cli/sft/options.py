"""What an export can be told. Light: the command line reads its defaults here without Arrow."""

from dataclasses import dataclass
from enum import StrEnum

from gagar_cli.errors import OptionError


class Profile(StrEnum):
    """The trainer that is to load the data."""

    TRL = "trl"
    AXOLOTL = "axolotl"
    LLAMA_FACTORY = "llama-factory"
    VERL = "verl"


@dataclass(frozen=True, slots=True)
class SftOptions:
    """Which votes are kept, and how they are split.

    min_tau: -1..1, the least agreement with the reference. min_trust, min_confidence: 0..1.
    max_characters: of the conversation and its tools, as JSON; None for any length. per_group:
    votes kept of one group. validation: the share of tasks, from 0 to less than 1.
    """

    min_tau: float = 0.6
    min_trust: float = 1.0
    min_confidence: float = 0.0
    max_characters: int | None = None
    keep_canaries: bool = False
    per_group: int = 1
    balance: bool = True
    validation: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges; NaN is in none."""
        most = self.max_characters
        for option, got, fits, expected in (
            ("--min-tau", self.min_tau, -1 <= self.min_tau <= 1, "-1 to 1"),
            ("--min-trust", self.min_trust, 0 <= self.min_trust <= 1, "0 to 1"),
            ("--min-confidence", self.min_confidence, 0 <= self.min_confidence <= 1, "0 to 1"),
            ("--max-characters", most, most is None or most >= 1, "at least 1"),
            ("--per-group", self.per_group, self.per_group >= 1, "at least 1"),
            ("--validation", self.validation, 0 <= self.validation < 1, "0 to less than 1"),
        ):
            if not fits:
                raise OptionError(option, f"got {got}, expected {expected}", "see --help")
