"""The votes of transcripts, without their conversations, which are most of a file."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

import pyarrow as pa

from gagar_cli.errors import DataError, located
from gagar_cli.parquet_io import Source
from gagar_cli.ranking import Ranking
from gagar_cli.sft.conversation import Conversation, read_conversation
from gagar_cli.transcripts import as_transcripts, check_transcripts

T = TypeVar("T")

_COLUMNS = (
    "group_id",
    "vote",
    "task_id",
    "candidates",
    "tiers",
    "consensus",
    "confidence",
    "trust",
    "messages",
    "tools",
    "truncated",
    "fallback_parsed",
    "canary",
    "canary_failures",
    "prompt_tokens",
    "completion_tokens",
)


@dataclass(frozen=True, slots=True)
class Vote:
    """One vote, by the number of its row over all sources.

    shown: labels of the candidates to rank, in the order shown. candidates: all that was shown, as
    label, passing and changed lines. ranking, consensus: over the labels shown, None where there is
    none. tokens: read and written; None where the transcript does not say. characters: of messages
    and tools, as JSON. digest: of the same. problem: why nobody should train on the conversation.
    """

    row: int
    group_id: str
    number: int
    task_id: str
    shown: tuple[str, ...]
    candidates: frozenset[tuple[str, bool, int | None]]
    ranking: Ranking | None
    consensus: Ranking | None
    confidence: float | None
    trust: float | None
    truncated: bool
    fallback_parsed: bool
    canary: bool
    canary_failed: bool
    tokens: int | None
    characters: int
    digest: str
    problem: str | None

    @property
    def group(self) -> tuple[str, frozenset[tuple[str, bool, int | None]]]:
        """What repeated runs on one group share: its task and its candidates."""
        return self.task_id, self.candidates


def read_votes(sources: Iterable[Source]) -> list[Vote]:
    """Read all votes, in order; one that contradicts itself raises DataError."""
    return list(_each(sources, _COLUMNS, _vote))


def read_conversations(
    sources: Iterable[Source], rows: frozenset[int]
) -> Iterator[tuple[int, Conversation]]:
    """Yield row number and conversation of the votes in these rows, in order."""
    columns = ("group_id", "vote", "messages", "tools")
    for number, found in _each(sources, columns, _conversation, rows):
        if found is not None:
            yield number, found


def _each(
    sources: Iterable[Source],
    columns: Sequence[str],
    read: Callable[[int, Mapping[str, Any]], T],
    only: frozenset[int] | None = None,
) -> Iterator[T]:
    """Yield what is read of each row and its number, the same whenever the sources are read."""
    number = 0
    for source in sources:
        with located(source.name):
            check_transcripts(source.schema.names, columns)
            for batch in source.batches(columns):
                wanted = [
                    place for place in range(len(batch)) if only is None or number + place in only
                ]
                table = as_transcripts(batch.take(pa.array(wanted, pa.int64())), columns)
                for place, row in zip(wanted, _read(table), strict=True):
                    with located(f"group {row['group_id']!r} vote {row['vote']}"):
                        found = read(number + place, row)
                    yield found
                number += len(batch)


def _conversation(number: int, row: Mapping[str, Any]) -> tuple[int, Conversation | None]:
    return number, read_conversation(row["messages"], row["tools"])


def _read(table: pa.Table) -> Iterator[Mapping[str, Any]]:
    for batch in table.to_batches(max_chunksize=1):  # conversations become large objects
        yield from batch.to_pylist()


def _vote(number: int, row: Mapping[str, Any]) -> Vote:
    absent = [n for n in ("group_id", "vote", "task_id", "messages") if row[n] is None]
    if absent:
        raise DataError("", f"got no {', '.join(absent)}, expected each")
    candidates = row["candidates"] or ()
    shown = tuple(c["candidate"] for c in candidates if c["passing"])
    text = row["messages"] + (row["tools"] or "")
    read = read_conversation(row["messages"], row["tools"])
    tokens = [row[name] for name in ("prompt_tokens", "completion_tokens")]
    return Vote(
        row=number,
        group_id=row["group_id"],
        number=row["vote"],
        task_id=row["task_id"],
        shown=shown,
        candidates=frozenset((c["candidate"], bool(c["passing"]), c["lines"]) for c in candidates),
        ranking=_ranking(row["tiers"], shown, "tiers"),
        consensus=_ranking(row["consensus"], shown, "consensus"),
        confidence=row["confidence"],
        trust=row["trust"],
        truncated=bool(row["truncated"]),
        fallback_parsed=bool(row["fallback_parsed"]),
        canary=bool(row["canary"]),
        canary_failed=bool(row["canary_failures"]),
        tokens=None if None in tokens else sum(tokens),
        characters=len(text),
        digest=sha256(text.encode()).hexdigest(),
        problem=read.problem() if read else "no answer",
    )


def _ranking(
    tiers: Sequence[Sequence[str]] | None, shown: Sequence[str], name: str
) -> Ranking | None:
    if tiers is None:
        return None
    ranking = Ranking(tuple(map(tuple, tiers)))
    given = [label for tier in ranking.tiers for label in tier]
    if sorted(given) != sorted(shown) or not all(ranking.tiers):
        written = " > ".join(" = ".join(map(str, tier)) for tier in tiers)
        raise DataError("", f"{name} is {written!r}, expected each of {', '.join(shown)} once")
    return ranking
