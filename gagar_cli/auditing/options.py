"""What an audit can be told. Light: the command line reads its defaults here without Arrow."""

from dataclasses import dataclass

from gagar_cli.errors import OptionError


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """How an audit counts.

    bootstrap: resamples of the groups for each interval, 0 for no intervals. Prices are per million
    tokens. higher_is_better: which way the reference goes; None: up for a bool, down for a number.
    """

    bootstrap: int = 1000
    seed: int = 0
    price_in: float | None = None
    price_out: float | None = None
    higher_is_better: bool | None = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        for option, number in (("--bootstrap", self.bootstrap), ("--seed", self.seed)):
            if number < 0:
                raise OptionError(option, f"got {number}, expected 0 or more", "see --help")
        for option, price in (("--price-in", self.price_in), ("--price-out", self.price_out)):
            if price is not None and not 0 <= price < float("inf"):
                raise OptionError(option, f"got {price}, expected 0 or more", "see --help")
