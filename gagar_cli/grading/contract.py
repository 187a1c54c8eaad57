"""What a grader is given, and what it must return."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gagar_cli.consensus import Consensus
from gagar_cli.ranking import Ranking
from gagar_cli.workspace.view import Workspace


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group as a grader sees it: no ids, only labels.

    passing: the labels to rank, at least two: their verifier passed and their patch has a tree or
    a diff to look at. failing: the labels of rollouts whose verifier failed; evidence, not to be
    ranked. Candidates that are in neither have no verdict or no patch that applies. apart: labels
    that are shown on their own even where their patch is the same as another's.
    """

    group_id: str
    workspace: Workspace
    passing: tuple[str, ...]
    failing: tuple[str, ...]
    apart: frozenset[str] = frozenset()

    @property
    def task(self) -> str:
        """The problem statement as the policy saw it."""
        return self.workspace.task


@dataclass(frozen=True, slots=True)
class Grade:
    """A ranking of exactly the passing labels, its confidence 0..1, and a reason per label.

    consensus: what the votes say, over the passing labels; None for a grader that does not vote.
    """

    ranking: Ranking
    confidence: float
    reasons: Mapping[str, str]
    consensus: Consensus | None = None


@dataclass(slots=True)
class Usage:
    """What grading cost so far; the built-in grader leaves it at zero.

    prices: money per million prompt and completion tokens, None where not known. budget: the money
    after which nothing is asked any more. elsewhere: what other workers of the same run have spent,
    where there are any.
    """

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    votes: int = 0
    votes_from_journal: int = 0
    votes_failed: Counter[str] = field(default_factory=Counter)  # by reason
    prices: tuple[float, float] | None = None
    budget: float | None = None
    elsewhere: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def cost(self) -> float | None:
        """The money spent; None without prices."""
        if self.prices is None:
            return None
        read, written = self.prices
        return (self.prompt_tokens * read + self.completion_tokens * written) / 1e6

    @property
    def over_budget(self) -> bool:
        """Whether the budget is used up."""
        return self.budget is not None and (self.cost or 0.0) + self.elsewhere >= self.budget

    @property
    def spent(self) -> str:
        """How the money stands, in words."""
        return f"{(self.cost or 0.0) + self.elsewhere:.4g} of {self.budget or 0.0:g} spent"


@dataclass(frozen=True, slots=True)
class Shown:
    """A candidate as one vote showed it; fields as in the schema of transcripts."""

    label: str
    candidate: str
    passing: bool
    lines: int


@dataclass(slots=True)
class VoteRecord:
    """One vote from its first prompt to its end; fields as in the schema of transcripts.

    Times are in seconds. `ranking` and `reasons` are in the workspace's labels.
    """

    number: int
    mode: str
    shown: tuple[Shown, ...]
    ranking: Ranking | None = None
    trust: float = 0.0
    reasons: Mapping[str, str] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    tools: Sequence[Mapping[str, Any]] = ()
    truncated: bool = False
    fallback_parsed: bool = False
    from_journal: bool = False
    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    error: str | None = None


# Is told all votes on a group when it is done, and its grade if it has one.
Recorder = Callable[[GroupView, Sequence[VoteRecord], Grade | None], None]


class Grader(Protocol):
    """Grades groups one at a time; several calls may be under way at once."""

    usage: Usage

    @property
    def model(self) -> str:
        """The model that is asked; empty where there is none."""

    @property
    def name(self) -> str:
        """Kind, version, and for a model its name and rubric, as the column `grader` has it."""

    async def start(self) -> None:
        """Get ready; a server that cannot be used raises GraderError before anything is spent."""

    async def grade(self, group: GroupView) -> Grade:
        """Rank one group; UngradedError says why there is no grade, GraderError stops the run."""

    async def close(self) -> None:
        """Let go of connections."""
