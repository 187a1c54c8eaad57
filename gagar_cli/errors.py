"""The error model.

Library code raises one of these; only `cli.py` knows exit codes.

    GagarError            an expected failure, told in one line
    ├── DataError         the rollouts are not what a stage needs
    ├── SourceError       a file, repository or commit cannot be read
    ├── OutputError       the result cannot be written
    ├── GraderError       the grader's server cannot be used at all; grading stops
    ├── EngineError       what was to run the stages is not there, or cannot be reached
    ├── OptionError       an option has a value that makes no sense
    └── SumNotKeptError   redistribution broke its promise; a defect, never the user's fault

Two more never reach the user as errors, since they are data:

    InvalidVerdictError   a grader's answer is not a ranking; the grader is told and may try again
    UngradedError         one group gets no grade; its reason is written into `grade_reason`
"""

from collections.abc import Iterator
from contextlib import contextmanager


class GagarError(Exception):
    """An expected failure: where it is, what is wrong, and what to do next."""

    def __init__(self, where: str, problem: str, next_step: str = "") -> None:
        """Keep the three parts apart, so that a caller can say more exactly where."""
        super().__init__(where, problem, next_step)
        self.where = where
        self.problem = problem
        self.next_step = next_step

    def __str__(self) -> str:
        """Return `WHERE: PROBLEM. Next: STEP` on one line."""
        line = f"{self.where}: {self.problem}" if self.where else self.problem
        if self.next_step:
            line = f"{line.rstrip('.')}. Next: {self.next_step}"
        return " ".join(line.split())


class DataError(GagarError):
    """The rollouts are not what a stage needs."""


class SourceError(GagarError):
    """A file, repository or commit cannot be read."""


class OutputError(GagarError):
    """The result cannot be written."""


class GraderError(GagarError):
    """The grader's server cannot be used at all."""


class EngineError(GagarError):
    """What was to run the stages is not there, or cannot be reached."""


class OptionError(GagarError):
    """An option has a value that makes no sense."""


class SumNotKeptError(GagarError):
    """Redistribution changed the advantage sum of a group."""


class InvalidVerdictError(Exception):
    """A grader's answer is not a ranking of exactly the passing candidates."""


class UngradedError(Exception):
    """One group cannot be graded; the message is the reason."""


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put `where` in front of every GagarError that passes, unless it says so already."""
    try:
        yield
    except GagarError as error:
        if not error.where.startswith(where):
            error.where = f"{where}: {error.where}" if error.where else where
        raise
