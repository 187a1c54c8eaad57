"""Canaries: candidates of known standing, planted in a group to test what grades it.

A copy of a good candidate asks for the first place in a comment, another has dead code and an
unrelated edit, and a third is exact. Whoever cannot place these is not to be trusted with the
others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from gagar_cli.degradations import CandidateFiles, Degraded, Kind, degrade
from gagar_cli.errors import SourceError
from gagar_cli.grading.builtin import Look, rank_looks
from gagar_cli.grading.contract import GroupView
from gagar_cli.ranking import Ranking, labels
from gagar_cli.workspace.planting import plant
from gagar_cli.workspace.view import BASE, Workspace

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


def _edits(workspace: Workspace, label: str, rng: Random) -> dict[str, dict[str, bytes | None]] | None:
    """Return the files of each canary that differ from the original's; None where one fails."""
    good = _files(workspace, label)
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
        "injected": _encoded(injected.edits),
        "degraded": _encoded(worse),
        "duplicate": {},
    }


def _files(workspace: Workspace, label: str) -> CandidateFiles:
    """Return a candidate's files, those left out that are no UTF-8: they could not be put back."""
    base = workspace.files(BASE)
    there, own = set(base), set(workspace.files(label))

    def read_base(path: str) -> str | None:
        return _text(workspace.read(BASE, path)) if path in there else None

    changed: dict[str, str | None] = {}
    for file in workspace.facts(label).files:
        if file.path in own:
            text = _text(workspace.read(label, file.path))
            if text is not None:
                changed[file.path] = text
    return CandidateFiles(base, read_base, changed)


def _text(raw: bytes) -> str | None:
    try:
        return None if b"\0" in raw else raw.decode()
    except UnicodeDecodeError:
        return None
