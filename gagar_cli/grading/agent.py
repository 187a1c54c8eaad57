"""The agentic grader: a language model that looks around the workspace, then ranks.

A vote is one conversation: query, run the tools that the reply calls, until a ranking is
submitted that reads strictly. Each vote has its own labels and order, so that neither can favour
anybody for long. Nothing is guessed: a vote without a valid ranking fails, and a group whose
votes all fail has no grade.
"""

import asyncio
import json
import re
from collections.abc import Collection, Mapping, Sequence

from gagar_cli import __version__
from gagar_cli.errors import InvalidVerdictError, UngradedError
from gagar_cli.grading import prompts
from gagar_cli.grading.client import ChatClient, Message, Reply, Sleep, ToolCall
from gagar_cli.grading.contract import Grade, GroupView, Usage
from gagar_cli.grading.prompts import VoteView
from gagar_cli.grading.tools import SUBMIT, Verdict, VoteTools, read_verdict
from gagar_cli.options import GradeOptions
from gagar_cli.ranking import Ranking, aggregate

_LAST_TURNS = 2  # in these the model is told to submit
_REASON_CHARACTERS = 1_000


class AgentGrader:
    """Grades by a model on an OpenAI-compatible server; several groups at once share it."""

    def __init__(
        self, options: GradeOptions, rubric: str | None = None, sleep: Sleep = asyncio.sleep
    ) -> None:
        """Take the options, and a rubric in place of the default one; nothing is sent yet."""
        self.usage = Usage()
        self._options = options
        self._rubric = prompts.default_rubric() if rubric is None else rubric
        self._client = ChatClient(options, self.usage, sleep)
        self._failed_votes = 0

    @property
    def name(self) -> str:
        """Kind, version, model, rubric and number of votes."""
        return (
            f"agent/{__version__} model={self._client.model or 'unknown'} "
            f"rubric={prompts.rubric_hash(self._rubric)} votes={self._options.votes}"
        )

    async def start(self) -> None:
        """Ask the server for its models, and choose."""
        await self._client.start()

    async def close(self) -> None:
        """Let go of connections; note how many votes other votes had to make up for."""
        if self._failed_votes:
            votes = f"{self._failed_votes} vote{'s' * (self._failed_votes != 1)}"
            self.usage.notes.append(f"{votes} gave no ranking; other votes on the group did")
        await self._client.close()

    async def grade(self, group: GroupView) -> Grade:
        """Rank the passing candidates of one group by the votes on it.

        Candidates whose diffs are the same bytes are shown once, and tie.
        """
        twins = await asyncio.to_thread(_twins, group)
        if len(twins) == 1:
            same = "the same patch as all other passing candidates"
            everyone = tuple(sorted(group.passing))
            return Grade(Ranking((everyone,)), 1.0, dict.fromkeys(everyone, same))
        outcomes = await self._votes(group, tuple(twins))
        verdicts = [outcome for outcome in outcomes if isinstance(outcome, Verdict)]
        failures = [outcome for outcome in outcomes if isinstance(outcome, UngradedError)]
        if not verdicts:
            raise failures[0]
        self._failed_votes += len(failures)
        ranking, confidence = aggregate([verdict.ranking for verdict in verdicts])
        notes = verdicts[0].notes
        return Grade(
            ranking=Ranking(
                tuple(
                    tuple(sorted(twin for head in tier for twin in twins[head]))
                    for tier in ranking.tiers
                )
            ),
            # A vote that came to nothing speaks for nobody, so it is doubt.
            confidence=confidence * len(verdicts) / len(outcomes),
            reasons={twin: notes.get(head, "") for head in twins for twin in twins[head]},
        )

    async def _votes(
        self, group: GroupView, ranked: Collection[str]
    ) -> list[Verdict | UngradedError]:
        """Hold all votes on a group at once; the first GraderError ends them."""
        try:
            async with asyncio.TaskGroup() as tasks:
                votes = [
                    tasks.create_task(self._vote(group, ranked, number))
                    for number in range(self._options.votes)
                ]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [vote.result() for vote in votes]

    async def _vote(
        self, group: GroupView, ranked: Collection[str], number: int
    ) -> Verdict | UngradedError:
        """Hold one vote, and give its verdict under the workspace's labels."""
        key = f"{self._options.seed}\0{group.group_id}\0{number}"
        view = await asyncio.to_thread(VoteView.draw, group, ranked, key)
        conversation = Conversation(
            VoteTools(view),
            view.passing,
            prompts.system_prompt(self._rubric, view.fence),
            await asyncio.to_thread(prompts.user_prompt, view),
        )
        try:
            verdict = await conversation.hold(self._client, self._options.max_turns)
        except UngradedError as error:
            return error
        return Verdict(
            verdict.ranking.renamed(dict(view.names)),
            {view.names[label]: _reason(note, view.names) for label, note in verdict.notes.items()},
        )


class Conversation:
    """One vote's messages; ends with a verdict, or with UngradedError when its turns are used."""

    def __init__(self, tools: VoteTools, passing: Sequence[str], system: str, first: str) -> None:
        """Open with the two prompts."""
        self._tools = tools
        self._passing = passing
        self._messages: list[Message] = [
            {"role": "system", "content": system},
            {"role": "user", "content": first},
        ]
        self._notes_wanted = True
        self._problem = "nothing was submitted"

    async def hold(self, client: ChatClient, max_turns: int) -> Verdict:
        """Query and run tools, turn by turn, until a ranking is valid."""
        for left in range(max_turns, 0, -1):
            if left <= _LAST_TURNS:
                # In the message that is there: not every server takes two of one role in a row.
                self._messages[-1]["content"] += f"\n\n{prompts.last_call(left)}"
            reply = await client.complete(self._messages, self._tools.schemas)
            # Notes are worth asking for once, not worth losing a ranking over.
            self._notes_wanted &= left > 1
            verdict = await self._react(reply, max_turns - left)
            if verdict is not None:
                return verdict
        raise UngradedError(f"no valid ranking in {max_turns} turns; last: {self._problem}")

    async def _react(self, reply: Reply, turn: int) -> Verdict | None:
        """Run the calls of a reply in order, each answered by its id; stop at a valid ranking."""
        calls = [
            ToolCall(call.id or f"call_{turn}_{n}", call.name, call.arguments)
            for n, call in enumerate(reply.tool_calls)
        ]
        if not calls:
            self._messages += [
                {"role": "assistant", "content": reply.content or "(nothing)"},
                {"role": "user", "content": prompts.nudge(cut_off=reply.cut_off)},
            ]
            return None
        read = [_read_arguments(call.arguments) for call in calls]
        self._messages.append(
            {
                "role": "assistant",
                "content": reply.content or None,
                "tool_calls": [
                    _replayed(call, arguments) for call, arguments in zip(calls, read, strict=True)
                ],
            }
        )
        for call, arguments in zip(calls, read, strict=True):
            result = await self._execute(call.name, arguments)
            if isinstance(result, Verdict):
                return result
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return None

    async def _execute(self, name: str, arguments: Mapping[str, object] | None) -> Verdict | str:
        if arguments is None:
            if name == SUBMIT:
                self._problem = "the arguments of the submission are not a JSON object"
            return (
                f"{name[:100]}: the arguments are not a JSON object. Call it again with valid JSON."
            )
        if name != SUBMIT:
            return await self._tools.run(name, arguments)
        try:
            return self._verdict(arguments)
        except InvalidVerdictError as error:
            self._problem = str(error)[:_REASON_CHARACTERS]
            return f"Not accepted: {self._problem}. Call {SUBMIT} again, complete."

    def _verdict(self, arguments: Mapping[str, object]) -> Verdict:
        verdict = read_verdict(arguments, self._passing)
        missing = [label for label in self._passing if label not in verdict.notes]
        if missing and self._notes_wanted:
            self._notes_wanted = False
            raise InvalidVerdictError(f"notes has no sentence on {', '.join(missing)}")
        return verdict


def _twins(group: GroupView) -> dict[str, list[str]]:
    """Return the passing labels by the first one with the same diff."""
    heads: dict[bytes, str] = {}
    twins: dict[str, list[str]] = {}
    for label in sorted(group.passing):
        head = heads.setdefault(group.workspace.raw_diff(label), label)
        twins.setdefault(head, []).append(label)
    return twins


def _read_arguments(text: str) -> Mapping[str, object] | None:
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
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": text},
    }


def _reason(note: str, names: Mapping[str, str]) -> str:
    """Return a note; where it names labels, with what the workspace calls them."""
    note = note if len(note) <= _REASON_CHARACTERS else f"{note[:_REASON_CHARACTERS]}…"
    named = [label for label in sorted(names) if re.search(rf"\b{label}\b", note)]
    if not named:
        return note
    return f"{note} [labels as in the vote: {', '.join(f'{n}={names[n]}' for n in named)}]"
