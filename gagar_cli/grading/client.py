"""Ask an OpenAI-compatible server: so many requests at once, patiently where that may help.

How a request that fails ends:

    401, 402, 403, 404, 405     GraderError, and no request is sent any more: none would fare better
    408, 409, 429, 5xx,         tried again, later and later; then UngradedError
    no answer, no valid JSON
    any other status            UngradedError: something about this one request is wrong

The SDK's typed answers are not used: what servers send is often a little off, so the JSON is read
here, field by field.
"""

import asyncio
import json
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from gagar_cli.errors import GraderError, OptionError, UngradedError
from gagar_cli.grading.contract import Usage
from gagar_cli.options import GradeOptions

if TYPE_CHECKING:
    from openai import APIStatusError

Message = dict[str, Any]
Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")

_LISTING_SECONDS = 30.0  # a server that lists no models in this time is not ready
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds between attempts, doubling
_LONGEST_TOLD_WAIT = 600.0  # seconds; a server that asks for more is given up
_NAMED = 10  # models that an error lists

_CLIENT_ERRORS = range(400, 500)
_TRIED_AGAIN = {408, 409, 429}
_NO_SUCH_PLACE = {404, 405}
_STOPS = {
    401: "set GAGAR_GRADER_API_KEY",
    402: "look after the account of the API key",
    403: "set GAGAR_GRADER_API_KEY",
    404: "check --grader-url and --model",
    405: "check --grader-url",
}
# Servers know the bound on output by one of two names, and some refuse the other.
_BOUNDS = ("max_tokens", "max_completion_tokens")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model wants run; `arguments` is the JSON text as it wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the model. `cut_off`: the bound on output ended it."""

    content: str
    tool_calls: tuple[ToolCall, ...]
    prompt_tokens: int
    completion_tokens: int
    cut_off: bool = False


@dataclass(frozen=True, slots=True)
class _Failure:
    """A request that came to nothing. `status` is None without an answer, 200 for garbage."""

    reason: str
    status: int | None = None
    wait: float = 0.0  # seconds that the server asks for

    @property
    def refused(self) -> bool:
        """Whether the server wants no such request, now or later."""
        return self.status in _CLIENT_ERRORS and self.status not in _TRIED_AGAIN

    @property
    def may_pass(self) -> bool:
        """Whether another attempt makes sense."""
        return not self.refused and self.wait <= _LONGEST_TOLD_WAIT


class ChatClient:
    """Chat completions from one server; `usage` counts what they cost."""

    def __init__(self, options: GradeOptions, usage: Usage, sleep: Sleep = asyncio.sleep) -> None:
        """Take the options; nothing is sent yet. `sleep` waits between attempts."""
        from openai import AsyncOpenAI  # noqa: PLC0415  a second to import

        self.url = options.url or ""
        if not _is_web_address(self.url):
            raise OptionError("--grader-url", f"got {self.url!r}, expected http://HOST:PORT/v1")
        self.model = options.model
        self._options = options
        self._usage = usage
        self._sleep = sleep
        self._slots = asyncio.Semaphore(options.concurrency)
        # Jitter spreads requests in time; it is no secret, and changes no answer.
        self._random = random.Random(f"{options.seed}\0back-off")  # noqa: S311  no secret
        self._bounds: tuple[str, ...] = _BOUNDS
        self._stop: GraderError | None = None
        key = os.environ.get("GAGAR_GRADER_API_KEY") or os.environ.get("OPENAI_API_KEY") or "EMPTY"
        key = key.strip()
        if not (key.isascii() and key.isprintable()):
            raise OptionError("GAGAR_GRADER_API_KEY", "got characters that no API key has")
        self._api = AsyncOpenAI(
            base_url=self.url,
            api_key=key,
            max_retries=0,
            timeout=options.request_timeout,
        )

    async def start(self) -> None:
        """Find out the model; a server or model that cannot be used raises GraderError."""
        try:
            self.model = self._choose(await self._served())
        except GraderError:
            await self.close()
            raise

    async def close(self) -> None:
        """Let go of connections."""
        await self._api.close()

    async def complete(self, messages: Sequence[Message], tools: Sequence[Message]) -> Reply:
        """Return the model's next message.

        UngradedError where this request gets no answer, GraderError where none would.
        """
        request = {
            "model": self.model,
            "messages": messages,
            "tools": tools,
            "temperature": self._options.temperature,
        }
        failure = _Failure("")
        for bound in self._bounds:
            limited = {**request, bound: self._options.max_output_tokens}
            answer = await self._persist(
                partial(self._api.chat.completions.with_raw_response.create, **limited),
                _read_reply,
                self._options.request_timeout,
            )
            if isinstance(answer, Reply):
                self._bounds = (bound, *(name for name in _BOUNDS if name != bound))
                self._usage.prompt_tokens += answer.prompt_tokens
                self._usage.completion_tokens += answer.completion_tokens
                return answer
            failure = answer
            if answer.status in _STOPS:
                self._stop = self._stop or self._useless(answer)
                raise self._stop
            if not answer.refused or bound not in answer.reason:
                break
        if failure.refused:
            raise UngradedError(f"server refused the request: {failure.reason}")
        raise UngradedError(f"no answer from the grader's server: {failure.reason}")

    async def _served(self) -> list[str]:
        """List the models of the server; none where it has no such list."""
        listed = await self._persist(
            self._api.models.with_raw_response.list,
            _read_models,
            min(_LISTING_SECONDS, self._options.request_timeout),
            starting=True,
        )
        if not isinstance(listed, _Failure):
            return listed
        if listed.status in _NO_SUCH_PLACE:
            return []
        if listed.status in _STOPS:
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

    def _useless(self, failure: _Failure) -> GraderError:
        return GraderError(
            self.url,
            f"refuses every request ({failure.reason})",
            _STOPS[failure.status or 0],
        )

    async def _persist(
        self,
        send: Callable[[], Awaitable[Any]],
        read: Callable[[bytes], T | _Failure],
        seconds: float,
        *,
        starting: bool = False,
    ) -> T | _Failure:
        """Send until there is an answer, a failure that stays, or no attempt left.

        Starting, a server that is not there counts as one that stays away.
        """
        attempts = 1 + self._options.retries
        failure = _Failure("not asked")
        for attempt in range(1, attempts + 1):
            async with self._slots:
                if self._stop:
                    raise self._stop
                if not starting:
                    self._usage.requests += 1
                    self._usage.retries += attempt > 1
                answer = await _send(send, read, seconds)
            if not isinstance(answer, _Failure) or answer.refused:
                return answer
            if not answer.may_pass:
                reason = f"{answer.reason}, to be asked again in {answer.wait:.0f} s"
                return _Failure(reason, answer.status)
            if starting and answer.status is None:
                return answer
            failure = answer
            if attempt < attempts:
                wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempt - 1))
                await self._sleep(answer.wait + wait * self._random.uniform(0.5, 1.0))
        return _Failure(f"{failure.reason}, {attempts} attempts", failure.status)


async def _send(
    send: Callable[[], Awaitable[Any]], read: Callable[[bytes], T | _Failure], seconds: float
) -> T | _Failure:
    """Send one request and read its answer; a failure comes back as data."""
    from openai import (  # noqa: PLC0415  a second to import
        APIConnectionError,
        APIStatusError,
        APITimeoutError,
    )

    try:
        async with asyncio.timeout(seconds):
            response = await send()
    except APIStatusError as error:
        return _Failure(_words(error), error.status_code, _retry_after(error.response.headers))
    except (TimeoutError, APITimeoutError):
        return _Failure(f"nothing within {seconds:g} s")
    except APIConnectionError as error:
        return _Failure(str(error.__cause__ or error).strip() or type(error.__cause__).__name__)
    return read(response.content)


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or a bracket is left open
        return False


def _words(error: "APIStatusError") -> str:
    """Return what the server said: a status and its message, in one line."""
    body = error.body
    said = body.get("message") or body.get("detail") if isinstance(body, Mapping) else body
    text = " ".join(str(said or "no message").split())
    return f"HTTP {error.status_code}: {text[:300]}"


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that a Retry-After header asks for, 0 without a readable one."""
    value = headers.get("retry-after", "").strip()
    if value.replace(".", "", 1).isdecimal():
        return float(value)
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    now = datetime.now(UTC)
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - now).total_seconds())


def _read_reply(raw: bytes) -> Reply | _Failure:
    """Read a chat completion; one without a message is a failure."""
    body = _json(raw)
    choice = _at(_at(body, "choices"), 0)
    message = _at(choice, "message")
    if not isinstance(message, dict):
        said = _at(_at(body, "error"), "message") or "no message in it"
        return _Failure(f"its answer is no chat completion ({str(said)[:300]})", 200)
    calls = _at(message, "tool_calls")
    usage = _at(body, "usage")
    return Reply(
        content=_text(_at(message, "content")),
        tool_calls=tuple(_tool_call(call) for call in (calls if isinstance(calls, list) else ())),
        prompt_tokens=_count(_at(usage, "prompt_tokens")),
        completion_tokens=_count(_at(usage, "completion_tokens")),
        cut_off=_at(choice, "finish_reason") == "length",
    )


def _tool_call(call: object) -> ToolCall:
    function = _at(call, "function")
    arguments = _at(function, "arguments")
    if isinstance(arguments, dict):  # some servers parse them already
        arguments = json.dumps(arguments)
    return ToolCall(_text(_at(call, "id")), _text(_at(function, "name")), _text(arguments))


def _read_models(raw: bytes) -> list[str] | _Failure:
    listed = _at(_json(raw), "data")
    if not isinstance(listed, list):
        return _Failure("its answer is no list of models", 200)
    return [name for model in listed if (name := _text(_at(model, "id")))]


def _json(raw: bytes) -> object:
    """Parse JSON; None for what is not."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _at(value: object, key: str | int) -> object:
    """Return a member of parsed JSON, None where there is none."""
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        item: object = value[key]
        return item
    return None


def _text(value: object) -> str:
    """Return a string that can be sent back: lone surrogates become visible escapes."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
