"""Send requests to one server and give back what comes over the wire, or why nothing came.

The SDK's client knows addresses, keys and headers; its aiohttp transport carries the requests. Its
typed answers are not used: what servers send is often a little off, and making the types costs
more than all the rest of a request.
"""

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gagar_cli.errors import OptionError
from gagar_cli.grading.refusals import Failure
from gagar_cli.options import GradeOptions

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_END_OF_STREAM = b"\ndata: [DONE]"  # within JSON a line feed is escaped
_LARGEST = 64 << 20  # bytes of an answer; no ranking is as long
_OK = 200
_WORDS = 200  # characters of a failure that are told


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds until the first byte of an answer, between two, and until its last."""

    first_byte: float
    idle: float
    total: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer; `streamed` says that its content is a stream of events."""

    content: bytes
    streamed: bool = False


class Transport:
    """One server, by its address; `concurrency` connections at the most."""

    def __init__(self, options: GradeOptions) -> None:
        """Check address and key; nothing is sent yet."""
        self.url = options.url or ""
        if not _is_web_address(self.url):
            raise OptionError("--grader-url", f"got {self.url!r}, expected http://HOST:PORT/v1")
        key = os.environ.get("GAGAR_GRADER_API_KEY") or os.environ.get("OPENAI_API_KEY") or "EMPTY"
        self._key = key.strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise OptionError("GAGAR_GRADER_API_KEY", "got characters that no API key has")
        self._concurrency = options.concurrency
        self._line: _Line | None = None

    async def close(self) -> None:
        """Let go of connections."""
        if self._line is not None:
            await self._line.api.close()
            self._line = None

    async def send(
        self, path: str, body: Mapping[str, Any] | None, limits: Limits
    ) -> Answer | Failure:
        """Get a path, or post a JSON body to it; a failure comes back as data."""
        import aiohttp  # noqa: PLC0415  both come with openai, which is slow to import
        import httpx2  # noqa: PLC0415

        line = self._line = self._line or _Line.open(self.url, self._key, self._concurrency)
        request = line.request(path, body)
        clock = asyncio.get_running_loop().time
        end = clock() + limits.total
        content = bytearray()
        try:
            async with (
                asyncio.timeout(min(limits.first_byte, limits.total)) as limit,
                aclosing(await line.http.send(request, stream=True)) as response,
            ):
                streamed = "event-stream" in response.headers.get("content-type", "")
                async for piece in response.aiter_bytes():
                    content += piece
                    if streamed and _END_OF_STREAM in content[-len(piece) - len(_END_OF_STREAM) :]:
                        break
                    if len(content) > _LARGEST:
                        return Failure(f"its answer is longer than {_LARGEST >> 20} MiB", _OK)
                    limit.reschedule(min(end, clock() + limits.idle))
        except TimeoutError:
            return Failure(_late(bytes(content[:1]), limits, over=clock() > end - 0.01))
        except httpx2.TransportError as error:
            words = str(error).strip() or str(error.__cause__ or "").strip()
            return Failure(words or type(error).__name__)
        except (httpx2.HTTPError, aiohttp.ClientError) as error:
            # The transport hands on what is no HTTP as the error that it got.
            words = " ".join(str(error).split())
            return Failure(f"{type(error).__name__}: {words[:_WORDS]}")
        if not response.is_success:
            wait = _retry_after(response.headers)
            return Failure.refusal(response.status_code, bytes(content), wait)
        return Answer(bytes(content), streamed)


@dataclass(frozen=True)
class _Line:
    """An open client. api: the SDK's; http: what carries its requests, of a type it does not tell.

    What is the same for all requests is made once.
    """

    api: "AsyncOpenAI"
    http: Any
    headers: Any
    places: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, url: str, key: str, concurrency: int) -> "_Line":
        import httpx2  # noqa: PLC0415
        from openai import AsyncOpenAI, DefaultAioHttpClient  # noqa: PLC0415  a second to import

        # Time is limited per request, and slots are counted by the client.
        limits = httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
        http = DefaultAioHttpClient(timeout=None, limits=limits)
        api = AsyncOpenAI(base_url=url, api_key=key, http_client=http, max_retries=0)
        told = {n: value for n, value in api.default_headers.items() if isinstance(value, str)}
        return cls(api, http, httpx2.Headers({**told, "Authorization": f"Bearer {key}"}))

    def request(self, path: str, body: Mapping[str, Any] | None) -> Any:  # noqa: ANN401
        import httpx2  # noqa: PLC0415

        if path not in self.places:
            self.places[path] = httpx2.URL(str(self.api.base_url).rstrip("/") + path)
        place = self.places[path]
        if body is None:
            return httpx2.Request("GET", place, headers=self.headers)
        content = json.dumps(body, ensure_ascii=False).encode()
        return httpx2.Request("POST", place, headers=self.headers, content=content)


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or a bracket is left open
        return False


def _late(content: bytes, limits: Limits, *, over: bool) -> str:
    if not content:
        return f"nothing within {min(limits.first_byte, limits.total):g} s"
    if over:
        return f"no whole answer within {limits.total:g} s"
    return f"silent for {limits.idle:g} s in the middle of an answer"


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that a Retry-After header asks for, 0 without a readable one."""
    value = headers.get("retry-after", "").strip()
    if value.replace(".", "", 1).isdecimal():
        return float(value)
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return 0.0
    now = datetime.now(UTC)
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - now).total_seconds())
