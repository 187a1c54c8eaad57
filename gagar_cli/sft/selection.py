"""Which votes are worth learning from, and on which side of the split they go.

Every vote that is left out has one reason, the first that applies. What a group's votes agree on,
or a reference says, is the truth that a vote is measured by; one that ties all, or whose truth
does, tells nobody apart: it has no winner, so it teaches no order and is left out.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gagar_cli.ranking import Ranking, kendall_tau_b, tiers_of
from gagar_cli.sft.options import SftOptions
from gagar_cli.sft.places import Places, balance, draw, identity
from gagar_cli.sft.votes import Vote

TRAIN, VALIDATION = "train", "validation"

# By group and workspace label, the lower the better.
References = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Selection:
    """Votes kept, by split, and those left out, by reason.

    tau: of each kept vote, by its row. places: by split, where winners stood before and after
    balancing. notes: what the user should know.
    """

    kept: Mapping[str, Sequence[Vote]]
    tau: Mapping[int, float]
    dropped: Mapping[str, int]
    places: Mapping[str, Sequence[Places]]
    notes: Sequence[str] = field(default_factory=list)


def select(
    votes: Sequence[Vote], options: SftOptions, references: References | None = None
) -> Selection:
    """Choose votes; the choice does not depend on the order of the rows.

    references: what rankings are compared with, in place of the consensus of each group.
    """
    dropped: Counter[str] = Counter()
    tau: dict[int, float] = {}
    good: list[Vote] = []
    for vote in votes:
        truth = vote.consensus if references is None else _reference(vote, references)
        reason = _fault(vote, options) or _no_order(vote, truth, referred=references is not None)
        if reason is None and vote.ranking is not None and truth is not None:
            tau[vote.row] = kendall_tau_b(vote.ranking, truth)
            reason = _too_weak(vote, tau[vote.row], options)
        if reason is None:
            good.append(vote)
        else:
            dropped[reason] += 1
    best = _best_of_groups(good, tau, options, dropped)
    held_out = validation_tasks((v.task_id for v in best), options.validation, options.seed)
    sides = {
        TRAIN: [v for v in best if v.task_id not in held_out],
        VALIDATION: [v for v in best if v.task_id in held_out],
    }
    kept: dict[str, list[Vote]] = {}
    places: dict[str, list[Places]] = {}
    for side, members in sides.items():
        kept[side], places[side] = balance(members, options.seed, drop=options.balance)
        if len(members) > len(kept[side]):
            dropped["the place of its winner is over-represented"] += len(members) - len(kept[side])
    return Selection(
        kept=kept,
        tau={vote.row: tau[vote.row] for members in kept.values() for vote in members},
        dropped=dict(sorted(dropped.items(), key=lambda entry: (-entry[1], entry[0]))),
        places=places,
        notes=list(_notes(kept, places, options)),
    )


def validation_tasks(tasks: Iterable[str], share: float, seed: int) -> frozenset[str]:
    """Return the tasks that are held out: those whose hash, drawn by the seed, is below the share.

    A task's side depends on nothing but its text and the seed, so it stays when data is added. The
    one exception keeps training possible: the task with the greatest hash always trains, so a
    single task does. So the share is met on the mean; few tasks may all train.
    """
    drawn = {task: draw(seed, "split", task) for task in tasks}
    last = max(drawn, key=lambda task: (drawn[task], task), default=None)
    return frozenset(task for task, drawn_ in drawn.items() if drawn_ < share and task != last)


def _fault(vote: Vote, options: SftOptions) -> str | None:
    """Return what is wrong with how a vote was held."""
    if vote.canary and vote.canary_failed:
        return "a canary was ranked where not due"
    if vote.canary and not options.keep_canaries:
        return "a canary group"
    if vote.ranking is None:
        return "no valid ranking"
    if vote.truncated:
        return "truncated"
    if vote.fallback_parsed:
        return "a tool call was found in text"
    return vote.problem


def _reference(vote: Vote, references: References) -> Ranking | None:
    """Return the reference's ranking of what the vote ranks; None unless it has all of it."""
    values = references.get(vote.group_id, {})
    if not vote.shown or any(label not in values for label in vote.shown):
        return None
    return tiers_of({label: values[label] for label in vote.shown})


def _no_order(vote: Vote, truth: Ranking | None, *, referred: bool) -> str | None:
    name = "reference" if referred else "consensus"
    if truth is None:
        return f"no {name}"
    if vote.ranking is not None and len(vote.ranking.tiers) == 1:
        return "ties all"
    if len(truth.tiers) == 1:
        return f"the {name} ties all"
    return None


def _too_weak(vote: Vote, tau: float, options: SftOptions) -> str | None:
    if tau < options.min_tau:
        return "tau below --min-tau"
    if vote.trust is None or vote.trust < options.min_trust:
        return "trust below --min-trust"
    # A group without a grade has no confidence; only a bound above 0 asks for one.
    if (vote.confidence or 0.0) < options.min_confidence:
        return "confidence below --min-confidence"
    if options.max_characters is not None and vote.characters > options.max_characters:
        return "longer than --max-characters"
    return None


def _best_of_groups(
    votes: Sequence[Vote], tau: Mapping[int, float], options: SftOptions, dropped: Counter[str]
) -> list[Vote]:
    """Keep the best votes of each group, repeated runs on the same candidates being one group."""
    groups: dict[Hashable, list[Vote]] = defaultdict(list)
    for vote in votes:
        groups[vote.group].append(vote)

    def order(vote: Vote) -> tuple[float, float, float, float, int]:
        tokens = float("inf") if vote.tokens is None else float(vote.tokens)
        drawn = draw(options.seed, "vote", *identity(vote))
        return -tau[vote.row], -(vote.trust or 0.0), tokens, drawn, vote.row

    kept: list[Vote] = []
    for members in groups.values():
        different: dict[str, Vote] = {}  # a vote from the journal is the same in every run
        for vote in sorted(members, key=order):
            different.setdefault(vote.digest, vote)
        best = list(different.values())[: options.per_group]
        kept += best
        if len(different) < len(members):
            dropped["the same conversation as another"] += len(members) - len(different)
        if len(best) < len(different):
            dropped["beyond --per-group"] += len(different) - len(best)
    return sorted(kept, key=lambda vote: vote.row)


def _notes(
    kept: Mapping[str, Sequence[Vote]], places: Mapping[str, Sequence[Places]], options: SftOptions
) -> Iterable[str]:
    tasks = {vote.task_id for members in kept.values() for vote in members}
    if options.validation and len(tasks) == 1:
        yield "one task only: everything is in train"
    elif options.validation and tasks and not kept[VALIDATION]:
        yield f"none of {len(tasks)} tasks was drawn for validation: everything is in train"
    never = {
        entry.size: [str(n) for n, count in enumerate(entry.after, 1) if not count]
        for entry in places[TRAIN]
    }
    gaps = [f"{', '.join(at)} of {size}" for size, at in never.items() if at]
    if gaps and options.balance:
        yield (
            f"no winner in train was shown at place {'; '.join(gaps)}: votes on more groups would "
            "fill them, dropping others cannot"
        )
