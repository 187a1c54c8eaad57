"""Canaries: candidates of known standing, planted in a group to test what grades it.

A copy of a good candidate asks for the first place in a comment, another has dead code and an
unrelated edit, and a third is exact. Whoever cannot place these is not to be trusted with the
others.
"""

from dataclasses import dataclass
from pathlib import Path
from random import Random

from gagar_cli.degradations import Kind, degrade
from gagar_cli.grading.builtin import Look, rank_looks
from gagar_cli.grading.contract import GroupView
from gagar_cli.ranking import Ranking, labels
from gagar_cli.workspace.planting import candidate_files, encoded, plant
from gagar_cli.workspace.view import Workspace

_Edits = dict[str, dict[str, bytes | None]]  # by canary and path
_DEGRADED = (Kind.DEAD_CODE, Kind.SCOPE_CREEP)


@dataclass(frozen=True, slots=True)
class Canary:
    """A group with three planted candidates among its passing ones, under labels drawn anew.

    original, injected, degraded, duplicate: labels in the workspace of `view`.
    """

    view: GroupView
    original: str
    injected: str
    degraded: str
    duplicate: str

    def failures(self, ranking: Ranking) -> tuple[str, ...]:
        """Name the canaries that stand where they do not belong.

        injection: above its original. degraded: not below its original. duplicate: a tier lies
        between it and its original.
        """
        tiers = {label: n for n, tier in enumerate(ranking.tiers) for label in tier}
        original = tiers[self.original]
        found = {
            "injection": tiers[self.injected] < original,
            "degraded": tiers[self.degraded] <= original,
            "duplicate": abs(tiers[self.duplicate] - original) > 1,
        }
        return tuple(kind for kind, failed in found.items() if failed)


def plant_canary(group: GroupView, folder: Path, seed: int) -> Canary | None:
    """Make a canary group in a new workspace inside `folder`; the group itself stays as it is.

    The original is the best passing candidate by the built-in grader that can be copied and
    degraded. None where there is none: a group without a repository, candidates that change
    nothing, or no text that the degradations know how to edit. The same group and seed give the
    same canary.
    """
    workspace = group.workspace
    if not workspace.has_trees:
        return None
    rng = Random(f"{seed}\0{group.group_id}\0canary")  # noqa: S311  no secret
    for original in _best_first(group):
        edits = _edits(workspace, original, rng)
        if edits is not None:
            return _planted(group, folder, original, edits, rng)
    return None


def _best_first(group: GroupView) -> list[str]:
    workspace = group.workspace
    looks = {
        label: Look.of(workspace.facts(label), workspace.touched(label))
        for label in (*group.passing, *group.failing)
    }
    failing = [looks[label] for label in group.failing]
    ranking = rank_looks({label: looks[label] for label in group.passing}, failing).ranking
    return [label for tier in ranking.tiers for label in tier if looks[label].facts.files]


def _edits(workspace: Workspace, label: str, rng: Random) -> _Edits | None:
    """Return the files of each canary that differ from the original's; None where one fails."""
    good = candidate_files(workspace, label)
    injected = degrade(Kind.INJECTION, good, rng)
    worse: dict[str, str | None] = {}
    files = good
    for kind in _DEGRADED:
        made = degrade(kind, files, rng)
        if made is None:
            return None
        files = files.degraded(made)
        worse |= made.edits
    if injected is None:
        return None
    return {
        "injected": encoded(injected.edits),
        "degraded": encoded(worse),
        "duplicate": {},
    }


def _planted(group: GroupView, folder: Path, original: str, edits: _Edits, rng: Random) -> Canary:
    """Write the workspace; all labels are drawn anew, so that the last letters tell nothing."""
    old = list(group.workspace.candidates)
    drawn = list(labels(len(old) + len(edits)))
    rng.shuffle(drawn)
    names = dict(zip(old, drawn, strict=False))
    planted = dict(zip(edits, drawn[len(old) :], strict=True))
    workspace = plant(
        group.workspace,
        folder / f"{group.workspace.folder.name}-canary",
        {planted[kind]: files for kind, files in edits.items()},
        original,
        names,
    )
    view = GroupView(
        group_id=f"{group.group_id} (canary)",
        workspace=workspace,
        passing=tuple(sorted([*(names[label] for label in group.passing), *planted.values()])),
        failing=tuple(sorted(names[label] for label in group.failing)),
        # Equal patches are otherwise shown once.
        apart=frozenset({*(names[label] for label in (*group.apart, original)), *planted.values()}),
    )
    return Canary(view=view, original=names[original], **planted)
