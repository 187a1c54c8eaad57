"""What is kept of the votes of a run: transcripts on disk, and what they say about the grader."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gagar_cli.bias import Presentation
from gagar_cli.grading.contract import Grade, GroupView, VoteRecord
from gagar_cli.parquet_io import Sink, open_sink
from gagar_cli.ranking import Ranking
from gagar_cli.transcripts import TRANSCRIPT_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gagar_cli.grading.canaries import Canary


class VoteLog:
    """Is told the votes on each group; writes them when it is the group's turn."""

    def __init__(self, sink: Sink | None = None) -> None:
        """Write transcripts to a sink, if any."""
        self.presentations: list[Presentation] = []
        self.canaries: dict[str, Canary] = {}  # by the group id of the canary
        self._sink = sink
        self._waiting: dict[str, list[dict[str, Any]]] = {}

    def record(self, group: GroupView, votes: "Sequence[VoteRecord]", grade: Grade | None) -> None:
        """Take all votes on one group, and its grade if it has one."""
        canary = self.canaries.get(group.group_id)
        if canary is None:
            for vote in votes:
                if vote.ranking is not None:
                    self.presentations.append(_presentation(vote, vote.ranking))
        if self._sink is not None:
            task = sha256(group.task.encode("utf-8", "surrogatepass")).hexdigest()[:16]
            self._waiting[group.group_id] = [
                {"group_id": group.group_id, "task_id": task, **_row(vote, grade, canary)}
                for vote in votes
            ]

    def write(self, group_id: str, grader: str, model: str) -> None:
        """Write the transcripts of a group; called in the order in which they are to stand."""
        rows = self._waiting.pop(group_id, [])
        if self._sink is not None and rows:
            named = [{**row, "grader": grader, "model": model} for row in rows]
            self._sink.write(pa.RecordBatch.from_pylist(named, TRANSCRIPT_SCHEMA))


@contextmanager
def open_votelog(transcripts: str | None) -> Iterator[VoteLog]:
    """Open a log, with transcripts where a path is given; the file appears when the block ends."""
    if transcripts is None:
        yield VoteLog()
    else:
        with open_sink(transcripts, TRANSCRIPT_SCHEMA) as sink:
            yield VoteLog(sink)


def _presentation(vote: VoteRecord, ranking: Ranking) -> Presentation:
    ranks = ranking.ranks()
    shown = [candidate for candidate in vote.shown if candidate.passing]
    return Presentation(
        tuple(ranks[candidate.candidate] for candidate in shown),
        tuple(candidate.lines for candidate in shown),
    )


def _row(vote: VoteRecord, grade: Grade | None, canary: "Canary | None") -> Mapping[str, Any]:
    tiers = vote.ranking.tiers if vote.ranking else None
    heads = {candidate.candidate for candidate in vote.shown if candidate.passing}
    consensus = None
    if grade is not None:
        kept = ([name for name in tier if name in heads] for tier in grade.ranking.tiers)
        consensus = [tier for tier in kept if tier]
    return {
        "vote": vote.number,
        "mode": vote.mode,
        "candidates": [
            {"label": c.label, "candidate": c.candidate, "passing": c.passing, "lines": c.lines}
            for c in vote.shown
        ],
        "tiers": tiers,
        "consensus": consensus,
        "confidence": grade.confidence if grade else None,
        "trust": vote.trust,
        "reasons": [{"candidate": c, "reason": reason} for c, reason in vote.reasons.items()],
        "messages": json.dumps(vote.messages, ensure_ascii=False),
        "tools": json.dumps(list(vote.tools), ensure_ascii=False),
        "truncated": vote.truncated,
        "fallback_parsed": vote.fallback_parsed,
        "from_journal": vote.from_journal,
        "canary": canary is not None,
        "canary_failures": canary.failures(vote.ranking) if canary and vote.ranking else [],
        "requests": vote.requests,
        "prompt_tokens": vote.prompt_tokens,
        "cached_tokens": vote.cached_tokens,
        "completion_tokens": vote.completion_tokens,
        "seconds": vote.seconds,
        "error": vote.error,
    }
