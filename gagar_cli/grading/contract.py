"""What a grader is given, and what it must return."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gagar_cli.ranking import Ranking
from gagar_cli.workspace.view import Workspace


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group as a grader sees it: no ids, only labels.

    passing: the labels to rank, at least two: their verifier passed and their patch has a tree or
    a diff to look at. failing: the labels of rollouts whose verifier failed; evidence, not to be
    ranked. Candidates that are in neither have no verdict or no patch that applies.
    """

    group_id: str
    workspace: Workspace
    passing: tuple[str, ...]
    failing: tuple[str, ...]

    @property
    def task(self) -> str:
        """The problem statement as the policy saw it."""
        return self.workspace.task


@dataclass(frozen=True, slots=True)
class Grade:
    """A ranking of exactly the passing labels, its confidence 0..1, and a reason per label."""

    ranking: Ranking
    confidence: float
    reasons: Mapping[str, str]


@dataclass(slots=True)
class Usage:
    """What grading cost so far; the built-in grader leaves it at zero."""

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    notes: list[str] = field(default_factory=list)


class Grader(Protocol):
    """Grades groups one at a time; several calls may be under way at once."""

    usage: Usage

    @property
    def name(self) -> str:
        """Kind, version, and for a model its name and rubric, as the column `grader` has it."""

    async def start(self) -> None:
        """Get ready; a server that cannot be used raises GraderError before anything is spent."""

    async def grade(self, group: GroupView) -> Grade:
        """Rank one group; UngradedError says why there is no grade, GraderError stops the run."""

    async def close(self) -> None:
        """Let go of connections."""
