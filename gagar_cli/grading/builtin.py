"""The built-in grader: offline and deterministic, from what the candidates do side by side.

Each criterion gives a passing candidate a cost in points, mostly by comparison with its group:
what only it touches, how much more it changes than the median, what it leaves behind, how much it
resembles the attempts that failed. The lowest total ranks first; totals within a quarter of a
point tie. It is a heuristic and says so: its confidence stays below 1, and where criteria
contradict each other, or totals are close, it is low.

    confidence = mean over pairs in different tiers of |D| / (S + DOUBT)

D is the difference of the two totals, S the sum of the criteria's absolute differences.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median

from gagar_cli import __version__, findings
from gagar_cli.grading.contract import Grade, GroupView, Usage
from gagar_cli.patches import PatchFacts
from gagar_cli.ranking import Ranking, tiers_of

TIE = 0.25  # points within which totals tie
DOUBT = 0.5  # points that a difference must outweigh before it counts as sure
EMPTY = 30.0  # points for changing nothing; more than all other criteria together
_MIN_MEDIAN = 4  # changed lines; below this, twice as many is no excess


@dataclass(frozen=True, slots=True)
class Look:
    """One candidate as this grader looks at it: its diff's facts and its changed lines."""

    facts: PatchFacts
    contents: Mapping[str, str]
    lines: frozenset[str]
    scope: tuple[str, ...]  # the paths that count for scope and size: no tests, nothing left behind
    churn: int  # changed lines in scope

    @classmethod
    def of(cls, facts: PatchFacts, contents: Mapping[str, str]) -> "Look":
        """Take the facts of a diff and the new text of the files that it touches."""
        marked = (
            f"{file.path}\0{sign}{''.join(text.split())}"
            for file in facts.files
            for sign, texts in (("+", file.added), ("-", file.removed))
            for text in texts
            if text.strip()
        )
        scope = [f for f in facts.files if not (findings.is_test(f.path) or findings.is_stray(f))]
        return cls(
            facts,
            contents,
            lines=frozenset(marked),
            scope=tuple(file.path for file in scope),
            churn=sum(len(file.added) + len(file.removed) for file in scope),
        )


@dataclass(frozen=True, slots=True)
class Cost:
    """Points on one criterion, with the reason in words."""

    criterion: str
    points: float
    words: str


def rank_looks(passing: Mapping[str, Look], failing: Sequence[Look]) -> Grade:
    """Rank candidates by their looks; `passing` maps labels, `failing` is evidence only."""
    # Identical candidates are weighed as one, then tie; they must not outvote the others either.
    twins: dict[tuple[object, ...], list[str]] = {}
    for label, look in passing.items():
        twins.setdefault(_identity(look), []).append(label)
    heads = {min(group): passing[min(group)] for group in twins.values()}
    costs = {label: weigh(label, heads, failing) for label in sorted(heads)}
    totals = {label: math.fsum(c.points for c in costs[label]) for label in costs}
    ranking = tiers_of(totals, TIE)

    tie_with = {min(group): sorted(group) for group in twins.values()}
    tiers = tuple(
        tuple(sorted(twin for head in tier for twin in tie_with[head])) for tier in ranking.tiers
    )
    return Grade(
        ranking=Ranking(tiers),
        confidence=_confidence(costs, ranking),
        reasons={
            twin: _reason(heads[head], costs[head], [t for t in tie_with[head] if t != twin])
            for head in heads
            for twin in tie_with[head]
        },
    )


def weigh(label: str, passing: Mapping[str, Look], failing: Sequence[Look]) -> list[Cost]:
    """Return what a candidate costs, criterion by criterion; criteria without cost are left out."""
    look = passing[label]
    facts = look.facts
    others = [other for name, other in passing.items() if name != label]
    if not facts.files:
        return [Cost("empty", EMPTY, "changes nothing")]
    costs = [
        _scope(look, others),
        _excess(look, list(passing.values())),
        # A task may ask for other results than the tests expect, but hardly for fewer.
        _per_item("edited tests", findings.edited_tests(facts), 0.5, 1.0),
        _per_item("weakened tests", findings.weakened_tests(facts), 2.0, 4.0),
        _per_item("stray files", findings.stray_files(facts), 1.5, 3.0),
        _per_item("binary files", findings.binary_files(facts), 1.0, 2.0),
        _per_item("debug leftovers", findings.debug_leftovers(facts), 0.75, 2.25),
        _per_item("dead code", findings.dead_code(facts), 0.5, 2.0),
        _per_item("text addressed to a grader", findings.addressed_to_grader(facts), 3.0, 3.0),
        _per_line("white space only", findings.whitespace_changes(facts)),
        _per_line("repeated code", findings.duplicated_lines(facts, look.contents)),
        _resemblance(look, failing),
    ]
    return [cost for cost in costs if cost.points > 0]


def _scope(look: Look, others: Sequence[Look]) -> Cost:
    """Charge each file by the share of the other candidates that do without it."""
    name = "files outside the shared scope"
    if not others:
        return Cost(name, 0.0, "")
    touched = Counter(path for other in others for path in set(other.scope))
    alone = {path: 1 - touched[path] / len(others) for path in look.scope}
    # A file that most of the others touch too is not outside.
    outside = {path: share for path, share in alone.items() if share > 0.5}  # noqa: PLR2004
    return Cost(name, min(4.0, math.fsum(sorted(outside.values()))), _named(sorted(outside)))


def _excess(look: Look, everyone: Sequence[Look]) -> Cost:
    """Charge doublings of the group's median number of changed lines."""
    middle = max(_MIN_MEDIAN, median(other.churn for other in everyone))
    points = min(3.0, 0.75 * math.log2(look.churn / middle)) if look.churn > middle else 0.0
    return Cost("more change than usual", points, f"{look.churn} lines, median {middle:g}")


def _per_item(criterion: str, items: Sequence[str], each: float, most: float) -> Cost:
    return Cost(criterion, min(most, each * len(items)), _named(items))


def _per_line(criterion: str, lines: int) -> Cost:
    return Cost(criterion, min(2.0, 0.5 * math.log2(1 + lines)), f"{lines} lines")


def _resemblance(look: Look, failing: Sequence[Look]) -> Cost:
    """Charge the mean Jaccard similarity of changed lines with the failing candidates."""
    similar = [_jaccard(look.lines, other.lines) for other in failing if other.lines]
    mean = math.fsum(similar) / len(similar) if similar else 0.0
    return Cost("like the failing candidates", mean, f"{mean:.0%} of changed lines shared")


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a or b else 0.0


def _identity(look: Look) -> tuple[object, ...]:
    return tuple((f.path, f.old_path, f.kind, f.mode, f.binary, f.blocks) for f in look.facts.files)


def _confidence(costs: Mapping[str, Sequence[Cost]], ranking: Ranking) -> float:
    ranks = ranking.ranks()
    points = {label: {c.criterion: c.points for c in costs[label]} for label in costs}
    sure = []
    for a, b in combinations(sorted(costs), 2):
        if ranks[a] == ranks[b]:
            continue
        differences = [
            points[a].get(k, 0.0) - points[b].get(k, 0.0)
            for k in sorted(points[a].keys() | points[b].keys())
        ]
        sure.append(abs(math.fsum(differences)) / (math.fsum(abs(d) for d in differences) + DOUBT))
    return fmean(sure) if sure else 1.0  # all tie: nothing moves, whatever the confidence


def _reason(look: Look, costs: Sequence[Cost], twins: Sequence[str]) -> str:
    facts = look.facts
    size = f"{_count(len(facts.files), 'file')}, +{facts.lines_added} -{facts.lines_removed}"
    found = sorted(costs, key=lambda cost: (-cost.points, cost.criterion))
    parts = [f"{c.criterion} (+{c.points:.2f}): {c.words}" for c in found]
    if twins:
        parts.append(f"same change as {', '.join(twins)}")
    return f"{size}. " + ("; ".join(parts) if parts else "Nothing to remark")


def _named(items: Sequence[str], most: int = 3) -> str:
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


class BuiltinGrader:
    """Ranks with `rank_looks`; needs no server and spends nothing."""

    def __init__(self) -> None:
        """Start with nothing spent."""
        self.usage = Usage()

    @property
    def model(self) -> str:
        """No model."""
        return ""

    @property
    def name(self) -> str:
        """Kind and version."""
        return f"builtin/{__version__}"

    async def start(self) -> None:
        """Nothing to prepare."""

    async def grade(self, group: GroupView) -> Grade:
        """Rank the passing candidates of one group."""
        looks = {label: _look(group, label) for label in (*group.passing, *group.failing)}
        return rank_looks(
            {label: looks[label] for label in group.passing},
            [looks[label] for label in group.failing],
        )

    async def close(self) -> None:
        """Nothing to let go of."""


def _look(group: GroupView, label: str) -> Look:
    workspace = group.workspace
    contents = workspace.touched(label) if workspace.has_trees else {}
    return Look.of(workspace.facts(label), contents)
