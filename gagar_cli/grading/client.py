"""Ask an OpenAI-compatible server for chat completions, patiently where that may help.

Which failures are tried again, and how requests change where a server refuses a parameter, is told
in `refusals` and `dialect`.
"""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from gagar_cli.errors import GraderError, UngradedError
from gagar_cli.grading.contract import Usage
from gagar_cli.grading.dialect import Dialect, Message
from gagar_cli.grading.refusals import Failure, Overflow
from gagar_cli.grading.replies import Reply, read_models, read_reply
from gagar_cli.grading.transport import Answer, Limits, Transport
from gagar_cli.options import GradeOptions

Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")

_LISTING_SECONDS = 30.0  # a server that lists no models in this time is not ready
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds between attempts, doubling
_LOADING_WAIT = 2.0  # seconds between two looks at a server whose model is being loaded
_NAMED = 10  # models that an error lists
_NO_SUCH_PLACE = {404, 405}
_RUN = re.compile(r"(.)\1{3,}", re.DOTALL)
_PLENTY = 5  # characters a token, below which nothing was cut for sure
_LEAST_CHECKED = 2_000  # characters; of a shorter prompt nothing is cut


class ContextOverflowError(UngradedError):
    """A prompt that exceeds the context of the model."""

    def __init__(self, reason: str, overflow: Overflow) -> None:
        """Keep what the server says of its size."""
        super().__init__(f"context: {reason}")
        self.overflow = overflow


class BudgetError(UngradedError):
    """The run has spent what it may spend."""


class ChatClient:
    """Chat completions from one server; `usage` counts what they cost."""

    def __init__(self, options: GradeOptions, usage: Usage, sleep: Sleep = asyncio.sleep) -> None:
        """Take the options; nothing is sent yet. `sleep` waits between attempts."""
        self.model = options.model or ""
        self._transport = Transport(options)
        self.url = self._transport.url
        self._options = options
        self._usage = usage
        self._sleep = sleep
        self._slots = asyncio.Semaphore(options.concurrency)
        # Jitter spreads requests in time; it is no secret, and changes no answer.
        self._random = random.Random(f"{options.seed}\0back-off")  # noqa: S311  no secret
        self._dialect = Dialect()
        self._stop: GraderError | None = None

    async def start(self) -> None:
        """Find out the model; a server or model that cannot be used raises GraderError."""
        try:
            self.model = self._choose(await self._served())
        except GraderError:
            await self.close()
            raise

    async def close(self) -> None:
        """Let go of connections."""
        await self._transport.close()

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        *,
        begins: bool = True,
    ) -> Reply:
        """Return the model's next message: with calls of tools, or JSON of a schema's form.

        max_tokens bounds the answer, in place of the option. begins: whether nothing was paid yet
        for what this belongs to; only then does a spent budget refuse it. ContextOverflowError
        where the prompt is too long, BudgetError where the budget is spent, UngradedError where
        this request gets no answer, GraderError where none would.
        """
        names = [tool["function"]["name"] for tool in tools]
        most = max_tokens or self._options.max_output_tokens
        tried: list[Dialect] = []

        def request() -> tuple[dict[str, Any], Limits]:
            """Make the request when its turn has come: by then more may be known of the server."""
            if begins and not tried and self._usage.over_budget:
                raise BudgetError(f"budget: {self._usage.spent}")
            tried.append(self._dialect)
            body = self._dialect.request(
                self.model,
                messages,
                tools=tools,
                schema=schema,
                temperature=self._options.temperature,
                max_tokens=most,
            )
            return body, self._limits(self._dialect)

        while True:
            answer = await self._persist(
                "/chat/completions", request, lambda raw: read_reply(raw, names)
            )
            if isinstance(answer, Reply):
                self._count(answer, messages)
                return answer
            if answer.stops:
                self._stop = self._stop or self._useless(answer)
                raise self._stop
            if answer.overflow is not None:
                raise ContextOverflowError(answer.reason, answer.overflow)
            dialect = tried[-1]
            changed = dialect.without(answer.reason, tried) if answer.refused else None
            if changed is None:
                raise UngradedError(
                    f"server refused the request: {answer.reason}"
                    if answer.refused
                    else f"no answer from the grader's server: {answer.reason}"
                )
            if self._dialect == dialect:  # else another request has learnt it meanwhile
                self._dialect = changed

    def _limits(self, dialect: Dialect) -> Limits:
        options = self._options
        # An answer in one piece has its first byte when it is done.
        first = options.first_byte_timeout if dialect.stream else options.request_timeout
        return Limits(first, options.idle_timeout, options.request_timeout)

    def _count(self, reply: Reply, messages: Sequence[Message]) -> None:
        self._usage.prompt_tokens += reply.prompt_tokens
        self._usage.completion_tokens += reply.completion_tokens
        self._usage.cached_tokens += reply.cached_tokens
        told = reply.prompt_tokens
        if reply.cached_tokens > told:  # it counts only what was not in its cache
            told += reply.cached_tokens
        text = "\n".join(str(message.get("content") or "") for message in messages)
        if 0 < told < len(text) / _PLENTY and told < (least := least_tokens(text)):
            raise UngradedError(
                f"the server cut the prompt: it read {told} tokens of at least {least}; "
                "give it a longer context"
            )

    async def _served(self) -> list[str]:
        """List the models of the server; none where it has no such list."""
        seconds = min(_LISTING_SECONDS, self._options.request_timeout)
        listed = await self._persist(
            "/models",
            lambda: (None, Limits(seconds, seconds, seconds)),
            read_models,
            starting=True,
        )
        if not isinstance(listed, Failure):
            return listed
        if listed.status in _NO_SUCH_PLACE:
            return []
        if listed.stops:
            raise self._useless(listed)
        if listed.status is None:
            raise GraderError(
                self.url,
                f"cannot be reached ({listed.reason})",
                "start the server, or check --grader-url",
            )
        raise GraderError(
            self.url, f"cannot list its models ({listed.reason})", "check --grader-url"
        )

    def _choose(self, served: Sequence[str]) -> str:
        model = self._options.model
        if model is not None and (model in served or not served):
            return model
        if model is None and len(served) == 1:
            return served[0]
        more = f" and {len(served) - _NAMED} more" if len(served) > _NAMED else ""
        names = ", ".join(served[:_NAMED]) + more
        if model is not None:
            raise GraderError(
                self.url, f"got model {model!r}, expected one that it serves: {names}", "--model"
            )
        if served:
            raise GraderError(self.url, f"serves several models: {names}", "--model NAME")
        raise GraderError(self.url, "does not list its models", "check the URL, or --model NAME")

    def _useless(self, failure: Failure) -> GraderError:
        return GraderError(self.url, f"refuses every request ({failure.reason})", failure.stops)

    async def _persist(
        self,
        path: str,
        request: Callable[[], tuple[Mapping[str, Any] | None, Limits]],
        read: Callable[[Answer], T | Failure],
        *,
        starting: bool = False,
    ) -> T | Failure:
        """Send until there is an answer, a failure that stays, or no attempt left.

        A server that is loading its model is waited for as long as for a first byte. Starting, a
        server that is not there counts as one that stays away.
        """
        attempts = 1 + self._options.retries
        attempt, loading = 1, 0.0
        while True:
            async with self._slots:
                if self._stop:
                    raise self._stop
                body, limits = request()
                if not starting:
                    self._usage.requests += 1
                    self._usage.retries += attempt > 1
                raw = await self._transport.send(path, body, limits)
            answer = raw if isinstance(raw, Failure) else read(raw)
            if not isinstance(answer, Failure) or answer.refused or answer.stops:
                return answer
            if not answer.may_pass:
                reason = f"{answer.reason}, to be asked again in {answer.wait:.0f} s"
                return Failure(reason, answer.status)
            if answer.loading and loading < self._options.first_byte_timeout:
                loading += _LOADING_WAIT
                await self._sleep(_LOADING_WAIT)
                continue
            if starting and answer.status is None:
                return answer
            if attempt == attempts:
                return Failure(f"{answer.reason}, {attempts} attempts", answer.status)
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempt - 1))
            attempt += 1
            await self._sleep(answer.wait + wait * self._random.uniform(0.5, 1.0))


def least_tokens(text: str) -> int:
    """Return a number of tokens that no tokenizer in use gets below for this text.

    Words are never joined to one token, and eight characters of one word seldom are. Runs of one
    character may be, so they do not count.
    """
    if len(text) < _LEAST_CHECKED:
        return 0
    words = _RUN.sub("", text).split()
    return max(int(0.8 * len(words)), sum(map(len, words)) // 8)
