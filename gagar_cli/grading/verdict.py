"""What a vote submits: notes on each candidate, then the ranking; its schema, and how it is read.

The notes come first, so that the ranking follows from them. The ranking is read strictly; of the
notes is taken what is there.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from gagar_cli.errors import InvalidVerdictError
from gagar_cli.grading.salvage import json_values
from gagar_cli.ranking import Ranking, read_ranking

SUBMIT = "submit_ranking"
CRITERIA = ("requirement", "scope", "cleanliness", "risk", "tests")
ENUMERATED = 4  # candidates up to which a schema can list every ranking: 75 of them
_NOTE_CHARACTERS = 400
_CITATION = re.compile(
    r"(?<![\w/:@.-])([\w.+-]+(?:/[\w.+-]+)*\.\w+):(\d{1,9})(?:-(\d{1,9}))?(?!\w)"
)


@dataclass(frozen=True, slots=True)
class Citation:
    """A place that a note names, as `file:line`; the last line is the first where it is one."""

    path: str
    first: int
    last: int

    def __str__(self) -> str:
        """Write it as the grader did."""
        return f"{self.path}:{self.first}" + (f"-{self.last}" if self.last > self.first else "")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A ranking, a note on each ranked label, and the places that the notes cite.

    trust: 0..1, what the vote counts for the confidence: less where it cites what is not there, or
    ranks what it was not shown.
    """

    ranking: Ranking
    notes: Mapping[str, str]
    citations: Mapping[str, tuple[Citation, ...]]
    trust: float = 1.0

    def trusted(self, factor: float) -> "Verdict":
        """Return the same with less trust."""
        return replace(self, trust=self.trust * factor)


def read_verdict(arguments: Mapping[str, object], passing: Sequence[str]) -> Verdict:
    """Read a submission; InvalidVerdictError says why there is no ranking.

    The ranking stands as `tiers`, as `ranking` ("A > B = C"), or as `places` (label: place).
    """
    if "tiers" in arguments:
        ranking = read_ranking(_list(arguments["tiers"]), passing)
    elif isinstance(written := arguments.get("ranking"), str):
        tiers = [[label.strip() for label in t.split("=")] for t in written.split(">")]
        ranking = read_ranking(tiers, passing)
    elif isinstance(places := arguments.get("places"), dict):
        ranking = read_ranking(_tiers(places), passing)
    else:
        raise InvalidVerdictError("tiers is missing")
    notes = arguments.get("notes")
    given = {
        label: note
        for label, note in (notes if isinstance(notes, dict) else {}).items()
        if label in passing
    }
    words = {label: _words(note) for label, note in given.items()}
    return Verdict(
        ranking,
        {label: text for label, text in words.items() if text},
        {label: tuple(_citations(note)) for label, note in given.items()},
    )


def _list(tiers: object) -> object:
    """Return tiers that were encoded twice as what they stand for; all else as it is."""
    try:
        return json.loads(tiers) if isinstance(tiers, str) else tiers
    except (ValueError, RecursionError):
        return tiers


def verdict_in(text: str, passing: Sequence[str]) -> Verdict:
    """Read a submission that is the JSON object in a text."""
    objects = [value for value in json_values(text) if isinstance(value, dict)]
    known = [v for v in objects if {"tiers", "ranking", "places"} & v.keys()]
    if not known:
        raise InvalidVerdictError("the answer is not a JSON object with notes and a ranking")
    return read_verdict(known[-1], passing)


def submit_tool(passing: Sequence[str]) -> dict[str, Any]:
    """Return the tool that ends a vote; its schema names only the labels to rank."""
    tiers = {
        "type": "array",
        "description": "best first; labels in one tier are tied; each label exactly once",
        "items": {"type": "array", "items": {"type": "string", "enum": list(passing)}},
    }
    parameters = _object({"notes": _notes(passing), "tiers": tiers})
    says = "Give the ranking; this ends the vote."
    function = {"name": SUBMIT, "description": says, "parameters": parameters}
    return {"type": "function", "function": function}


def answer_schema(passing: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of a vote in one answer; every answer of its form is a ranking.

    Up to four candidates the rankings are enumerated; of more, each gets a place, the same place
    for those that tie.
    """
    if len(passing) <= ENUMERATED:
        ranking = {"type": "string", "enum": [_written(t) for t in _all_tiers(tuple(passing))]}
        return _object({"notes": _notes(passing), "ranking": ranking})
    place = {"type": "integer", "enum": list(range(1, len(passing) + 1))}
    return _object({"notes": _notes(passing), "places": _object(dict.fromkeys(passing, place))})


def _notes(passing: Sequence[str]) -> dict[str, Any]:
    text = {"type": "string", "maxLength": _NOTE_CHARACTERS}
    evidence = {
        "type": "array",
        "maxItems": 5,
        "items": {"type": "string", "maxLength": 200},
        "description": "places in this candidate's tree that show it, as file:line",
    }
    note = _object({**dict.fromkeys(CRITERIA, text), "evidence": evidence})
    return _object(dict.fromkeys(passing, note))


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _all_tiers(labels: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Yield every way to put labels in tiers, those without ties among them."""
    if not labels:
        yield ()
    for size in range(1, len(labels) + 1):
        for tier in combinations(labels, size):
            rest = tuple(label for label in labels if label not in tier)
            yield from ((tier, *lower) for lower in _all_tiers(rest))


def _written(tiers: Sequence[Sequence[str]]) -> str:
    return " > ".join(" = ".join(tier) for tier in tiers)


def _tiers(places: Mapping[str, object]) -> list[list[str]]:
    """Return tiers from a place for each label."""
    wrong = [label for label, n in places.items() if not isinstance(n, int) or isinstance(n, bool)]
    if wrong:
        raise InvalidVerdictError(f"{', '.join(wrong)}: the place is no whole number")
    at: dict[int, list[str]] = {}
    for label, place in places.items():
        at.setdefault(int(str(place)), []).append(label)
    return [at[place] for place in sorted(at)]


def _words(note: object) -> str:
    """Return a note as one line: a text, or texts by criterion."""
    if isinstance(note, str):
        # JSON can hold half a surrogate pair, which no file can.
        return " ".join(note.encode("utf-8", "backslashreplace").decode().split())
    if not isinstance(note, dict):
        return ""
    texts = {name: _words(text) for name, text in note.items() if isinstance(text, str)}
    return "; ".join(_words(f"{name}: {text}") for name, text in texts.items() if text)


def _citations(note: object) -> Iterator[Citation]:
    texts = [note] if isinstance(note, str) else []
    if isinstance(note, dict):
        texts = [value for value in note.values() if isinstance(value, str)]
        evidence = note.get("evidence")
        texts += [e for e in evidence if isinstance(e, str)] if isinstance(evidence, list) else []
    found: dict[Citation, None] = {}
    for match in _CITATION.finditer("\n".join(texts)):
        first = int(match[2])
        found[Citation(match[1], first, int(match[3] or first))] = None
    yield from found
