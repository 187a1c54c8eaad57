"""Why a request came to nothing, and what may be done about it.

401, 402, 403, 404, 405,    the run stops: no other request would fare better
a quota that is used up
408, 409, 429, 5xx,         tried again, later and later
no answer, no valid JSON
a prompt that is too long   shortened, and tried again
a parameter it knows not    left out or renamed, and tried again
any other status            something about this one request is wrong
"""

import json
import re
from dataclasses import dataclass

_CLIENT_ERRORS = range(400, 500)
_TRIED_AGAIN = {408, 409, 429}
_LONGEST_TOLD_WAIT = 600.0  # seconds; a server that asks for more is given up
STOPS = {
    401: "set GAGAR_GRADER_API_KEY",
    402: "look after the account of the API key",
    403: "set GAGAR_GRADER_API_KEY",
    404: "check --grader-url and --model",
    405: "check --grader-url",
}
_QUOTA = {"insufficient_quota", "billing_hard_limit_reached"}

# How servers say that prompt and answer exceed the context: vLLM, SGLang, llama.cpp, OpenAI.
_OVERFLOW = re.compile(
    r"context[ _](?:length|size|window)|exceed_context_size|prompt is too long"
    r"|input is too long|maximum (?:allowed )?input length|reduce the length of the",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"(?:context length (?:is|of)(?: only)?|context (?:length|size) \(|maximum input length of)"
    r"\s*(\d+)"
)
_PROMPT = re.compile(
    r"(\d+) (?:tokens )?(?:in|from) the (?:input )?messages"
    r"|(?:has|contains|contains at least|passed) (\d+) input tokens"
    r"|(?:input|request) \((\d+) tokens\)|resulted in (\d+) tokens"
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """A request that exceeds the context; what the server says of it in tokens, 0 for nothing."""

    limit: int = 0
    prompt: int = 0

    @property
    def room(self) -> int:
        """Tokens that are left for the answer, as far as the server tells."""
        return self.limit - self.prompt if self.prompt else 0


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that came to nothing. `status` is None without an answer, 200 for garbage."""

    reason: str
    status: int | None = None
    wait: float = 0.0  # seconds that the server asks for
    overflow: Overflow | None = None
    code: str = ""  # the server's own word for it, if it has one

    @classmethod
    def refusal(cls, status: int, content: bytes, wait: float = 0.0) -> "Failure":
        """Read a status other than 200 and what was sent with it."""
        error = _error(content)
        said = error.get("message") or error.get("detail") or content.decode("utf-8", "replace")
        text = " ".join(str(said).split()) or "no message"
        code = str(error.get("code") or "")
        kind = f"{error.get('type') or ''} {code}"
        overflow = None
        if status < 500 and status not in STOPS and _OVERFLOW.search(f"{kind} {text}"):  # noqa: PLR2004
            overflow = Overflow(
                _count(error.get("n_ctx")) or _first(_LIMIT, text),
                _count(error.get("n_prompt_tokens")) or _first(_PROMPT, text),
            )
        return cls(f"HTTP {status}: {text[:300]}", status, wait, overflow, code)

    @property
    def refused(self) -> bool:
        """Whether the server wants no such request, now or later."""
        return self.status in _CLIENT_ERRORS and self.status not in _TRIED_AGAIN

    @property
    def loading(self) -> bool:
        """Whether the server is there, and its model is not yet."""
        return self.status == 503 and "loading" in self.reason.lower()  # noqa: PLR2004

    @property
    def stops(self) -> str:
        """What to do about it, where no other request would fare better."""
        if self.code in _QUOTA:
            return STOPS[402]
        return STOPS.get(self.status or 0, "")

    @property
    def may_pass(self) -> bool:
        """Whether another attempt makes sense."""
        return not (self.refused or self.stops) and self.wait <= _LONGEST_TOLD_WAIT


def _error(content: bytes) -> dict[str, object]:
    """Return the error of a refusal: an object under `error`, or the whole."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    inner = body.get("error") if isinstance(body, dict) else None
    if isinstance(inner, str):
        return {"message": inner}
    found = inner if isinstance(inner, dict) else body
    return found if isinstance(found, dict) else {}


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _first(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return int(next(group for group in match.groups() if group)) if match else 0
