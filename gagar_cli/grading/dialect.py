"""The form of a request that one server takes.

Parameters of the protocol go by two names, are not known everywhere, or are refused by some
models. The first request uses all of them; what a server refuses by name is not sent again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Message = dict[str, Any]

_BOUNDS = ("max_tokens", "max_completion_tokens")


@dataclass(frozen=True, slots=True)
class Dialect:
    """Which parameters to send. bounds: names of the bound on output, the one to use first."""

    bounds: tuple[str, ...] = _BOUNDS
    temperature: bool = True
    stream: bool = True
    stream_options: bool = True
    response_format: bool = True

    def request(  # noqa: PLR0913  one parameter for each part of a request
        self,
        model: str,
        messages: Sequence[Message],
        *,
        tools: Sequence[Message],
        schema: Mapping[str, Any] | None,
        temperature: float,
        max_tokens: int,
    ) -> dict[str, Any]:
        """Return the body of a request. With a schema, the answer is JSON of that form.

        `response_format` and tools are never combined: servers then force one and drop the other.
        """
        body: dict[str, Any] = {"model": model, "messages": messages}
        if tools:
            body["tools"] = tools
        elif schema is not None and self.response_format:
            named = {"name": "ranking", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        if self.temperature:
            body["temperature"] = temperature
        if self.bounds:
            body[self.bounds[0]] = max_tokens
        if self.stream:
            body["stream"] = True
            if self.stream_options:
                body["stream_options"] = {"include_usage": True}
        return body

    def without(self, refusal: str, tried: Collection["Dialect"] = ()) -> "Dialect | None":
        """Return the form without what a refusal names; None where it names nothing of it.

        tried: forms that this request was refused in; the result is none of them.
        """
        # The other name of the bound often stands in the same message, as the one to use.
        if self.bounds and self.bounds[0] in refusal:
            renamed = replace(self, bounds=(*self.bounds[1:], self.bounds[0]))
            return renamed if renamed not in tried else replace(self, bounds=())
        for name in ("stream_options", "response_format", "temperature", "stream"):
            if getattr(self, name) and name in refusal:
                change: Any = {name: False}
                return replace(self, **change)
        return None
