"""What transcripts say of the votes: their agreement, their bias, their failures, their cost."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from gagar_cli.agreement import Estimate, concordance, estimate
from gagar_cli.auditing.grades import by_count
from gagar_cli.bias import Presentation
from gagar_cli.errors import DataError, located
from gagar_cli.parquet_io import Source
from gagar_cli.ranking import Ranking
from gagar_cli.transcripts import as_transcripts, check_transcripts

_NUMBERS = ("requests", "prompt_tokens", "cached_tokens", "completion_tokens", "seconds")
# The conversations, most of a file, are not read.
_COLUMNS = (
    "group_id",
    "vote",
    "grader",
    "candidates",
    "tiers",
    "truncated",
    "fallback_parsed",
    "from_journal",
    "canary",
    "canary_failures",
    "error",
    *_NUMBERS,
)
_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Vote:
    """One row of transcripts. ranks: by workspace label, None where the vote gave no ranking.

    shown: label and changed lines of the candidates to rank, in the order shown. numbers: what it
    cost, by column; None where the row does not say.
    """

    group_id: str
    number: int
    grader: str | None
    shown: tuple[tuple[str, int | None], ...]
    ranks: Mapping[str, int] | None
    truncated: bool
    fallback_parsed: bool
    from_journal: bool
    canary: bool
    canary_failures: tuple[str, ...]
    numbers: Mapping[str, float | None]
    error: str | None

    def presentation(self) -> Presentation | None:
        """Return the vote as it was shown; None where it gave no ranking."""
        if self.ranks is None:
            return None
        lines = [lines for _, lines in self.shown]
        return Presentation(
            ranks=tuple(self.ranks[label] for label, _ in self.shown),
            # A size that is not known tells nobody apart, nor do equal ones.
            lines=tuple(0 if None in lines else int(n or 0) for n in lines),
        )


@dataclass(frozen=True, slots=True)
class Failures:
    """Votes, and how many of them went how far wrong; shares are of all votes.

    failed: without a valid ranking; errors: those by reason. fallback_parsed: a tool call was found
    in the text of an answer. truncated: an answer was cut off, or something had to be left out.
    """

    votes: int
    groups: int
    failed: int
    failed_share: float
    errors: Mapping[str, int]
    fallback_parsed: int
    fallback_parsed_share: float
    truncated: int
    truncated_share: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What votes cost when they were held; those from a journal were paid for by an earlier run.

    cached_share: 0..1, of the prompt tokens. seconds: summed over votes, many of which run at once.
    money: for all tokens at the full prices. None where the transcripts or the options do not say.
    """

    votes: int
    from_journal: int
    requests: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    cached_share: float | None
    completion_tokens: int | None
    seconds: float | None
    money: float | None


@dataclass(frozen=True, slots=True)
class Canaries:
    """Votes on groups made to test the grader. failures: by canary, votes that ranked it wrongly.

    ranked: votes that gave a ranking; failed_share: 0..1, the share of these in which any canary
    failed; None where no vote gave one.
    """

    groups: int
    votes: int
    ranked: int
    failed_votes: int
    failed_share: float | None
    failures: Mapping[str, int]


def read_votes(source: Source) -> list[Vote]:
    """Read the votes of transcripts, by group and number.

    A vote that contradicts itself, or stands there twice, raises DataError.
    """
    with located(source.name):
        check_transcripts(source.schema.names, _COLUMNS)
        votes: list[Vote] = []
        seen: set[tuple[str, int]] = set()
        for batch in source.batches(_COLUMNS):
            for row in as_transcripts(batch, _COLUMNS).to_pylist():
                vote = _vote(row)
                if (vote.group_id, vote.number) in seen:
                    raise DataError(
                        f"group {vote.group_id!r}",
                        f"has two votes {vote.number}, expected the transcripts of one run",
                    )
                seen.add((vote.group_id, vote.number))
                votes.append(vote)
    return sorted(votes, key=lambda vote: (vote.group_id, vote.number))


def _vote(row: Mapping[str, Any]) -> Vote:
    if row["group_id"] is None or row["vote"] is None:
        raise DataError("", "got a vote without group_id or number, expected both")
    shown = tuple((c["candidate"], c["lines"]) for c in row["candidates"] or () if c["passing"])
    ranks = None
    if row["tiers"] is not None:
        ranks = Ranking(tuple(map(tuple, row["tiers"]))).ranks()
        lacking = [str(label) for label, _ in shown if label not in ranks]
        if lacking or len(dict(shown)) < len(shown):
            raise DataError(
                f"group {row['group_id']!r}",
                f"vote {row['vote']} was shown {', '.join(str(x) for x, _ in shown)}, "
                "expected each of them once in its tiers",
            )
    return Vote(
        group_id=row["group_id"],
        number=row["vote"],
        grader=row["grader"],
        shown=shown,
        ranks=ranks,
        truncated=bool(row["truncated"]),
        fallback_parsed=bool(row["fallback_parsed"]),
        from_journal=bool(row["from_journal"]),
        canary=bool(row["canary"]),
        canary_failures=tuple(row["canary_failures"] or ()),
        numbers={name: row[name] for name in _NUMBERS},
        error=row["error"],
    )


def vote_agreement(votes: Iterable[Vote], resamples: int, seed: int) -> Estimate | None:
    """Return the agreement between the votes of one group, see `concordance`, mean over groups.

    None where no group has two valid votes that tell its candidates apart.
    """
    groups: dict[str, list[Mapping[str, int]]] = defaultdict(list)
    for vote in votes:
        if vote.ranks is not None:
            groups[vote.group_id].append(vote.ranks)
    agreeing = []
    for group_id, ranks in sorted(groups.items()):
        labels = sorted(ranks[0])
        if any(sorted(other) != labels for other in ranks):
            raise DataError(f"group {group_id!r}", "its votes are not on the same candidates")
        agreeing.append(concordance([[r[label] for label in labels] for r in ranks]))
    return estimate([value for value in agreeing if value is not None], resamples, seed)


def count_failures(votes: Sequence[Vote]) -> Failures | None:
    """Count what went wrong; None without votes."""
    if not votes:
        return None
    failed = [vote for vote in votes if vote.ranks is None]
    fallback = sum(vote.fallback_parsed for vote in votes)
    truncated = sum(vote.truncated for vote in votes)
    return Failures(
        votes=len(votes),
        groups=len({vote.group_id for vote in votes}),
        failed=len(failed),
        failed_share=len(failed) / len(votes),
        errors=by_count(Counter(vote.error or "no reason given" for vote in failed)),
        fallback_parsed=fallback,
        fallback_parsed_share=fallback / len(votes),
        truncated=truncated,
        truncated_share=truncated / len(votes),
    )


def add_up_cost(
    votes: Sequence[Vote], price_in: float | None, price_out: float | None
) -> Cost | None:
    """Add up what votes cost, failed ones too; None without votes.

    Prices are per million tokens; where only one is given, the other is 0.
    """
    if not votes:
        return None
    read, written = _total(votes, "prompt_tokens"), _total(votes, "completion_tokens")
    cached = _total(votes, "cached_tokens")
    money = None
    priced = price_in is not None or price_out is not None
    if priced and read is not None and written is not None:
        money = (read * (price_in or 0.0) + written * (price_out or 0.0)) / _MILLION
    seconds = [vote.numbers["seconds"] for vote in votes]
    known = [number for number in seconds if number is not None]
    return Cost(
        votes=len(votes),
        from_journal=sum(vote.from_journal for vote in votes),
        requests=_total(votes, "requests"),
        prompt_tokens=read,
        cached_tokens=cached,
        cached_share=cached / read if cached is not None and read else None,
        completion_tokens=written,
        seconds=fsum(known) if known else None,
        money=money,
    )


def _total(votes: Iterable[Vote], name: str) -> int | None:
    known = [number for vote in votes if (number := vote.numbers[name]) is not None]
    return int(sum(known)) if known else None


def count_canaries(votes: Collection[Vote]) -> Canaries | None:
    """Count what votes on canary groups ranked wrongly; None where there are none."""
    if not votes:
        return None
    ranked = [vote for vote in votes if vote.ranks is not None]
    failed = [vote for vote in ranked if vote.canary_failures]
    return Canaries(
        groups=len({vote.group_id for vote in votes}),
        votes=len(votes),
        ranked=len(ranked),
        failed_votes=len(failed),
        failed_share=len(failed) / len(ranked) if ranked else None,
        failures=by_count(Counter(name for vote in failed for name in set(vote.canary_failures))),
    )
