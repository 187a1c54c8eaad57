"""The kinds of degradation, by name."""

from collections.abc import Callable
from enum import StrEnum
from hashlib import sha256
from random import Random

from gagar_cli.degradations.candidate import CandidateFiles, Degraded
from gagar_cli.degradations.comments import commented_out_code, injection, misleading_comment
from gagar_cli.degradations.leftovers import dead_code, debug_prints
from gagar_cli.degradations.rewrites import duplication, scope_creep
from gagar_cli.degradations.weakened import edited_tests


class Kind(StrEnum):
    """What is wrong with a degraded candidate."""

    SCOPE_CREEP = "scope-creep"
    DEAD_CODE = "dead-code"
    DEBUG_PRINTS = "debug-prints"
    EDITED_TESTS = "edited-tests"
    COMMENTED_OUT_CODE = "commented-out-code"
    DUPLICATION = "duplication"
    MISLEADING_COMMENT = "misleading-comment"
    INJECTION = "injection"


_MAKERS: dict[Kind, Callable[[CandidateFiles, Random], Degraded | None]] = {
    Kind.SCOPE_CREEP: scope_creep,
    Kind.DEAD_CODE: dead_code,
    Kind.DEBUG_PRINTS: debug_prints,
    Kind.EDITED_TESTS: edited_tests,
    Kind.COMMENTED_OUT_CODE: commented_out_code,
    Kind.DUPLICATION: duplication,
    Kind.MISLEADING_COMMENT: misleading_comment,
    Kind.INJECTION: injection,
}


def degrade(kind: Kind, candidate: CandidateFiles, rng: Random | None = None) -> Degraded | None:
    """Make a candidate worse in one way; None where that way does not fit it.

    rng: chooses among what fits; by default seeded by the kind and what the candidate changes.
    """
    return _MAKERS[kind](candidate, rng or Random(_seed(kind, candidate)))  # noqa: S311  no secret


def _seed(kind: Kind, candidate: CandidateFiles) -> str:
    content = repr((str(kind), sorted(candidate.changed.items())))
    return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
