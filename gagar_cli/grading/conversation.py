"""One vote: a conversation that ends with a verdict, or with the reason why there is none.

    AgentConversation    looks around with tools, and submits by a tool
    SingleConversation   is shown everything at once, and answers with JSON

Both are patient with form and strict about the ranking: what is wrong is told and may be put right
within the turns that there are.
"""

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from gagar_cli.errors import InvalidVerdictError, UngradedError
from gagar_cli.grading import prompts
from gagar_cli.grading.case import VoteView
from gagar_cli.grading.client import ChatClient, ContextOverflowError
from gagar_cli.grading.contract import VoteRecord
from gagar_cli.grading.coverage import Coverage
from gagar_cli.grading.dialect import Message
from gagar_cli.grading.refusals import Overflow
from gagar_cli.grading.replies import Reply, ToolCall
from gagar_cli.grading.tools import VoteTools
from gagar_cli.grading.verdict import SUBMIT, Verdict, answer_schema, read_verdict, verdict_in

UNFOUNDED = 0.5  # the trust in a vote that keeps citing what is not there
_LAST_TURNS = 2  # in these an agent is told to submit
_SINGLE_TURNS = 3  # answers that a vote in one answer may take to get its form right
_LEAST_ANSWER = 512  # tokens; with less room the prompt is shortened rather than the answer
_MARGIN = 64  # tokens that templates may add between two counts
_LEAST_INLINE = 1_000  # characters of diffs; below, a vote in one answer shows nothing worth it
_LONG_RESULT = 400  # characters of a tool's result that are worth taking out
_REASON_CHARACTERS = 1_000


class Conversation(ABC):
    """What both kinds share; the record is kept up to date all along."""

    def __init__(self, view: VoteView, rubric: str, record: VoteRecord, *, tools: bool) -> None:
        """Open with the two prompts."""
        self.coverage = Coverage({label: e.diff for label, e in view.shown.items()})
        self.view = view
        self.record = record
        self.examiner = VoteTools(view, self.coverage)
        self.tools: Sequence[Message] = self.examiner.schemas if tools else ()
        self.schema = None if tools else answer_schema(view.passing)
        self._inline = prompts.INLINE if tools else prompts.SINGLE
        self._most_tokens: int | None = None
        self._notes_wanted = True
        self._evidence_wanted = True
        self.problem = "nothing was submitted"
        self.messages: list[Message] = [
            {"role": "system", "content": prompts.system_prompt(rubric)},
            {"role": "user", "content": self._first_prompt()},
        ]
        self._opening = [dict(message) for message in self.messages]
        record.messages = self.messages
        record.tools = self.tools

    @property
    def opened_as_usual(self) -> bool:
        """Whether the first prompts still are what they were at the start."""
        return self.messages[: len(self._opening)] == self._opening

    @abstractmethod
    async def hold(self, client: ChatClient, max_turns: int) -> Verdict:
        """Talk until there is a verdict; UngradedError where there is none."""

    def _first_prompt(self) -> str:
        text, cut = prompts.first_prompt(
            self.view, self.coverage, tools=bool(self.tools), room=self._inline
        )
        self.record.truncated |= cut
        return text

    async def ask(self, client: ChatClient) -> Reply:
        """Get the next reply; where the context is too short, shorten what can be spared."""
        record = self.record
        while True:
            record.requests += 1
            try:
                reply = await client.complete(
                    self.messages,
                    self.tools,
                    self.schema,
                    self._most_tokens,
                    begins=record.requests == 1,
                )
            except ContextOverflowError as error:
                if not self._shorten(error.overflow):
                    raise
                continue
            record.prompt_tokens += reply.prompt_tokens
            record.completion_tokens += reply.completion_tokens
            record.cached_tokens += reply.cached_tokens
            record.truncated |= reply.cut_off
            record.fallback_parsed |= reply.salvaged
            return reply

    def _shorten(self, overflow: Overflow) -> bool:
        """Ask for a shorter answer, else take out results, else show less at first."""
        room = overflow.room - _MARGIN
        if room >= _LEAST_ANSWER and (self._most_tokens is None or room < self._most_tokens):
            self._most_tokens = room
            return True
        self.record.truncated = True
        results = [
            m
            for m in self.messages[2:-1]
            if m["role"] == "tool" and len(m["content"]) > _LONG_RESULT
        ]
        if not results and self.messages[-1]["role"] == "tool":
            results = [m for m in self.messages if m["role"] == "tool"][-1:]
            results = [m for m in results if len(m["content"]) > _LONG_RESULT]
        if results:
            # The oldest half: one at a time would be refused many times over.
            for message in results[: (len(results) + 1) // 2]:
                message["content"] = prompts.shortened(len(message["content"]))
            return True
        shown = len(self.messages[1]["content"])
        least = 0 if self.tools else _LEAST_INLINE
        while self._inline > least:
            self._inline //= 2
            self.messages[1]["content"] = self._first_prompt()
            if len(self.messages[1]["content"]) < shown:
                return True
        return False

    async def judged(self, verdict: Verdict, *, last: bool) -> Verdict:
        """Return a verdict with its trust; ask once for notes, and once for founded evidence."""
        lacking = [label for label in self.view.passing if label not in verdict.notes]
        if lacking and self._notes_wanted and not last:
            self._notes_wanted = False
            raise InvalidVerdictError(f"notes has no sentence on {', '.join(lacking)}")
        absent: list[str] = []
        if any(verdict.citations.values()):
            absent = await asyncio.to_thread(self.examiner.missing, verdict.citations)
        if absent and self._evidence_wanted and not last:
            self._evidence_wanted = False
            raise InvalidVerdictError(prompts.not_there(absent[:10]))
        seen = self.coverage.share(self.view.passing)
        return verdict.trusted(seen * (UNFOUNDED if absent else 1.0))

    def in_vain(self, turns: int) -> UngradedError:
        """Say why there is no verdict."""
        return UngradedError(f"no valid ranking in {turns} turns; last: {self.problem}")

    def refuse(self, error: InvalidVerdictError) -> str:
        """Note what is wrong, and return it."""
        self.problem = str(error)[:_REASON_CHARACTERS]
        return self.problem


class SingleConversation(Conversation):
    """A vote in one answer, of a form that the server enforces where it can."""

    def __init__(self, view: VoteView, rubric: str, record: VoteRecord) -> None:
        """Open with the two prompts; all that is to be seen stands in them."""
        super().__init__(view, rubric, record, tools=False)

    async def hold(self, client: ChatClient, max_turns: int) -> Verdict:
        """Ask, and ask again where the answer has not the form."""
        turns = min(max_turns, _SINGLE_TURNS)
        for left in range(turns, 0, -1):
            reply = await self.ask(client)
            self.messages.append(_assistant(reply))
            try:
                verdict = verdict_in(reply.content or reply.reasoning[1], self.view.passing)
                return await self.judged(verdict, last=left == 1)
            except InvalidVerdictError as error:
                text = prompts.again(self.refuse(error), cut_off=reply.cut_off)
            self.messages.append({"role": "user", "content": text})
        raise self.in_vain(turns)


class AgentConversation(Conversation):
    """A vote with tools: query, run the tools that the reply calls, until one submits."""

    def __init__(self, view: VoteView, rubric: str, record: VoteRecord) -> None:
        """Open with the two prompts."""
        super().__init__(view, rubric, record, tools=True)
        self._ids: set[str] = set()

    async def hold(self, client: ChatClient, max_turns: int) -> Verdict:
        """Query and run tools, turn by turn, until a ranking is valid."""
        for left in range(max_turns, 0, -1):
            if left <= _LAST_TURNS:
                # In the message that is there: not every server takes two of one role in a row.
                self.messages[-1]["content"] += f"\n\n{prompts.last_call(left)}"
            reply = await self.ask(client)
            verdict = await self._react(reply, last=left == 1)
            if verdict is not None:
                return verdict
        raise self.in_vain(max_turns)

    async def _react(self, reply: Reply, *, last: bool) -> Verdict | None:
        """Run the calls of a reply in order, each answered by its id; stop at a valid ranking."""
        if not reply.tool_calls:
            self.messages += [
                _assistant(reply),
                {"role": "user", "content": prompts.nudge(cut_off=reply.cut_off)},
            ]
            return None
        calls = [self._with_id(call) for call in reply.tool_calls]
        read = [_arguments(call.arguments) for call in calls]
        replayed = [_replayed(call, a) for call, a in zip(calls, read, strict=True)]
        self.messages.append({**_assistant(reply), "tool_calls": replayed})
        for call, arguments in zip(calls, read, strict=True):
            result = await self._execute(call.name, arguments, last=last)
            if isinstance(result, Verdict):
                return result
            self.messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return None

    def _with_id(self, call: ToolCall) -> ToolCall:
        """Return a call with an id of its own: some servers give none, or one to all."""
        own = call.id if call.id and call.id not in self._ids else f"call_{len(self._ids)}"
        self._ids.add(own)
        return ToolCall(own, call.name, call.arguments)

    async def _execute(
        self, name: str, arguments: Mapping[str, object] | None, *, last: bool
    ) -> Verdict | str:
        if arguments is None:
            if name == SUBMIT:
                self.problem = "the arguments of the submission are not a JSON object"
            return (
                f"{name[:100]}: the arguments are not a JSON object. Call it again with valid JSON."
            )
        if name != SUBMIT:
            return await self.examiner.run(name, arguments)
        try:
            return await self.judged(read_verdict(arguments, self.view.passing), last=last)
        except InvalidVerdictError as error:
            return f"Not accepted: {self.refuse(error)}. Call {SUBMIT} again, complete."


def _assistant(reply: Reply) -> Message:
    """Return a reply as it is sent back, with its reasoning where the server gave it one."""
    content = reply.content or (None if reply.tool_calls else "(nothing)")
    message: dict[str, Any] = {"role": "assistant", "content": content}
    name, text = reply.reasoning
    return {**message, name: text} if name else message


def _arguments(text: str) -> Mapping[str, object] | None:
    """Parse a call's arguments; None unless they are a JSON object of valid text."""
    try:
        value = json.loads(text or "{}")
        json.dumps(value, ensure_ascii=False).encode()  # lone surrogates cannot be told back
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _replayed(call: ToolCall, arguments: Mapping[str, object] | None) -> Message:
    """Return a call as it is sent back; servers that parse arguments must not fail over them."""
    text = call.arguments if arguments else "{}"
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def named(note: str, names: Mapping[str, str]) -> str:
    """Return a note, cut where it is long; the labels that it names are told as the workspace's."""
    note = note if len(note) <= _REASON_CHARACTERS else f"{note[:_REASON_CHARACTERS]}…"
    found = [label for label in sorted(names) if re.search(rf"\b{label}\b", note)]
    if not found:
        return note
    return f"{note} [labels as in the vote: {', '.join(f'{n}={names[n]}' for n in found)}]"
