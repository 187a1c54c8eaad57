"""The agentic grader: a language model votes on each group, until the votes are clear enough.

Each vote has its own labels and order, the orders balanced, so that neither can favour anybody for
long. Nothing is guessed: a vote without a valid ranking fails, and a group whose votes all fail has
no grade.

    confidence = agreement of the votes * mean trust in them

Agreement is that of `consensus`; a vote that failed has trust 0.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from statistics import fmean
from typing import Any

from gagar_cli import __version__
from gagar_cli.consensus import Consensus
from gagar_cli.errors import UngradedError
from gagar_cli.grading import prompts
from gagar_cli.grading.case import Case, VoteView
from gagar_cli.grading.client import BudgetError, ChatClient, Sleep
from gagar_cli.grading.contract import Grade, GroupView, Recorder, Shown, Usage, VoteRecord
from gagar_cli.grading.conversation import (
    AgentConversation,
    Conversation,
    SingleConversation,
    named,
)
from gagar_cli.grading.journal import VoteStore
from gagar_cli.grading.probe import can_call_tools
from gagar_cli.options import GradeOptions, Mode
from gagar_cli.ranking import Ranking, kendall_tau_b

CLEAR = 0.5  # the margin from which no further votes are held
_FURTHER = 2  # votes held at a time after the first ones: an order and its reversal
# What the journal keeps of a vote's record besides its verdict.
_KEPT = (
    "mode",
    "truncated",
    "fallback_parsed",
    "requests",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "seconds",
)
_KEY_FORMAT = 1  # in the journal's keys; another where a kept vote would read differently


def _no_record(group: GroupView, votes: Sequence[VoteRecord], grade: Grade | None) -> None:
    """Keep no record."""


class AgentGrader:
    """Grades by a model on an OpenAI-compatible server; several groups at once share it."""

    def __init__(
        self,
        options: GradeOptions,
        rubric: str | None = None,
        journal: VoteStore | None = None,
        record: Recorder = _no_record,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Take the options, a rubric in place of the default one, and where votes are kept.

        `record` is told all votes on a group when it is done. Nothing is sent yet.
        """
        prices = None
        if options.price_in is not None or options.price_out is not None:
            prices = (options.price_in or 0.0, options.price_out or 0.0)
        self.usage = Usage(prices=prices, budget=options.budget)
        self._options = options
        self._rubric = prompts.default_rubric() if rubric is None else rubric
        self._journal = journal
        self._record = record
        self._client = ChatClient(options, self.usage, sleep)
        self._mode = options.mode
        self._ready = False
        self._getting_ready = asyncio.Lock()

    @property
    def model(self) -> str:
        """The model that is asked; empty until it is known."""
        return self._client.model

    @property
    def name(self) -> str:
        """Kind, version, model, rubric, and how votes are held."""
        options = self._options
        return (
            f"agent/{__version__} model={self._client.model or 'unknown'} "
            f"rubric={prompts.rubric_hash(self._rubric)} mode={options.mode} "
            f"votes={options.votes}-{max(options.votes, options.max_votes)}"
        )

    async def start(self) -> None:
        """Find out the model, where none is named; else the first vote that is not kept does."""
        if not self._options.model:
            await self._client.start()

    async def close(self) -> None:
        """Let go of connections."""
        await self._client.close()

    async def grade(self, group: GroupView) -> Grade:
        """Rank the passing candidates of one group by the votes on it.

        Candidates whose patches are the same but for blank lines and comments are shown once, and
        tie.
        """
        case = await asyncio.to_thread(Case.of, group, self._options.seed)
        if len(case.heads) == 1:
            everyone = tuple(sorted(group.passing))
            same = "the same patch as all other passing candidates"
            return Grade(Ranking((everyone,)), 1.0, dict.fromkeys(everyone, same))
        votes, heads = await self._votes(case)
        if heads is None:
            self._record(group, votes, None)
            raise UngradedError(votes[0].error or "no vote gave a ranking")
        consensus = heads.spread(case.twins)
        reasons = _typical(votes, heads.ranking).reasons
        grade = Grade(
            ranking=consensus.ranking,
            confidence=consensus.agreement * fmean(vote.trust for vote in votes),
            reasons={
                twin: reasons.get(head, "") for head in case.twins for twin in case.twins[head]
            },
            consensus=consensus,
        )
        self._record(group, votes, grade)
        return grade

    async def _votes(self, case: Case) -> tuple[list[VoteRecord], Consensus | None]:
        """Hold votes until they are clear, or there are as many as there may be.

        Returns them and what they say, None where none is valid. A budget that is used up raises
        BudgetError: part of a balanced set of votes is biased.
        """
        first, most = self._options.votes, max(self._options.votes, self._options.max_votes)
        votes: list[VoteRecord] = []
        numbers = range(first)
        while True:
            votes += await self._some_votes(case, numbers)
            valid = [vote.ranking for vote in votes if vote.ranking is not None]
            if not valid:
                return votes, None
            consensus = Consensus.of(valid)
            if consensus.margin >= CLEAR or len(votes) >= most:
                return votes, consensus
            numbers = range(len(votes), min(most, len(votes) + _FURTHER))

    async def _some_votes(self, case: Case, numbers: range) -> list[VoteRecord]:
        """Hold votes at once, or find them in the journal.

        Votes that have begun end before BudgetError is raised, so that all that was paid for is
        kept; the first error that is more than a failed vote ends them.
        """
        views = [case.vote(number) for number in numbers]
        talks = [self._conversation(view, self._options.mode) for view in views]
        keys = [self._key(view, talk) for view, talk in zip(views, talks, strict=True)]
        kept = await self._journal.find(keys) if self._journal else {}
        votes: list[VoteRecord | BudgetError] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                held = {
                    key: tasks.create_task(self._vote(view, talk, key))
                    for view, talk, key in zip(views, talks, keys, strict=True)
                    if key not in kept
                }
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        for view, talk, key in zip(views, talks, keys, strict=True):
            if key in kept:
                votes.append(self._restored(view, talk, kept[key]))
            else:
                votes.append(held[key].result())
        valid = []
        for vote in votes:
            if isinstance(vote, BudgetError):
                raise vote
            self.usage.votes += 1
            self.usage.votes_from_journal += vote.from_journal
            if vote.error:
                self.usage.votes_failed[vote.error] += 1
            valid.append(vote)
        return valid

    async def _vote(
        self, view: VoteView, conversation: Conversation, key: str
    ) -> VoteRecord | BudgetError:
        """Hold one vote and keep it; return BudgetError where it cannot begin."""
        await self._get_ready()
        if self._mode != self._options.mode:
            conversation = self._conversation(view, self._mode)
        record = conversation.record
        began = time.monotonic()
        try:
            verdict = await conversation.hold(self._client, self._options.max_turns)
        except BudgetError as error:
            return error
        except UngradedError as error:
            record.error = str(error)
            record.seconds = time.monotonic() - began
            return record
        record.seconds = time.monotonic() - began
        vote = {name: getattr(record, name) for name in _KEPT}
        vote |= {"tiers": verdict.ranking.tiers, "trust": verdict.trust, "notes": verdict.notes}
        if self._journal:
            # The first two messages are made again from what the vote is on.
            skipped = 2 if conversation.opened_as_usual else 0
            said = {"skipped": skipped, "messages": record.messages[skipped:]}
            await self._journal.keep(key, self._client.model, {**vote, **said})
        return _settled(record, view, vote)

    def _restored(
        self, view: VoteView, conversation: Conversation, kept: Mapping[str, Any]
    ) -> VoteRecord:
        """Return a vote that the journal kept."""
        if kept["mode"] != self._options.mode:
            conversation = self._conversation(view, Mode(kept["mode"]))
        record = conversation.record
        record.from_journal = True
        record.messages = conversation.messages[: kept["skipped"]] + kept["messages"]
        told = {name: kept[name] for name in kept.keys() - {"skipped", "messages"}}
        return _settled(record, view, told)

    def _conversation(self, view: VoteView, mode: Mode) -> Conversation:
        lines = tuple(Shown(label, e.name, e.passing, e.lines) for label, e in view.shown.items())
        record = VoteRecord(view.number, str(mode), lines)
        kind = AgentConversation if mode is Mode.AGENT else SingleConversation
        return kind(view, self._rubric, record)

    def _key(self, view: VoteView, conversation: Conversation) -> str:
        """Return what stands for all that a vote depends on: all it is asked, of whom, and how."""
        options = self._options
        content = [
            _KEY_FORMAT,
            view.number,
            view.workspace.base_tree,
            self._client.model,
            *(options.mode, options.temperature, options.max_output_tokens, options.max_turns),
            # The schemas of tools and answers follow from the labels, which the prompt names.
            *(message["content"] for message in conversation.messages),
        ]
        return sha256("\0".join(map(str, content)).encode()).hexdigest()

    async def _get_ready(self) -> None:
        """Before the first request: check the server and its model, and whether it calls tools."""
        if self._ready:
            return
        async with self._getting_ready:
            if self._ready:
                return
            if self._options.model:
                await self._client.start()
            if self._mode is Mode.AGENT and not await can_call_tools(self._client):
                self._mode = Mode.SINGLE
                self.usage.notes.append(
                    f"{self._client.model} does not call tools on this server: "
                    "every vote is one request, as with --mode single"
                )
            self._ready = True


def _typical(votes: Sequence[VoteRecord], ranking: Ranking) -> VoteRecord:
    """Return the vote that agrees best with the result, the first of equals."""
    return max(votes, key=lambda v: kendall_tau_b(v.ranking, ranking) if v.ranking else -1.0)


def _settled(record: VoteRecord, view: VoteView, vote: Mapping[str, Any]) -> VoteRecord:
    """Fill in a valid vote, told in its own labels, in the labels of the workspace."""
    names = view.names()
    record.ranking = Ranking(tuple(map(tuple, vote["tiers"]))).renamed(names)
    record.reasons = {names[label]: named(note, names) for label, note in vote["notes"].items()}
    for name in vote.keys() - {"tiers", "notes"}:
        setattr(record, name, vote[name])
    return record
