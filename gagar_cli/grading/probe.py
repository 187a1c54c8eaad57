"""Find out at the start whether a server's model calls tools."""

from gagar_cli.errors import GraderError, UngradedError
from gagar_cli.grading.client import BudgetError, ChatClient

_TRIES = 2
_MOST_TOKENS = 1024  # room for a model that thinks first
TOOL = {
    "type": "function",
    "function": {
        "name": "ready",
        "description": "Say that you can call tools.",
        "parameters": {
            "type": "object",
            "properties": {"ok": {"type": "boolean"}},
            "required": ["ok"],
            "additionalProperties": False,
        },
    },
}


async def can_call_tools(client: ChatClient) -> bool:
    """Ask for one tool call; a server that refuses tools, or a model that talks, cannot.

    A server that gives no answer at all raises GraderError: it would give none to a vote either.
    """
    messages = [{"role": "user", "content": "Call the tool `ready` with ok = true. Say nothing."}]
    for _ in range(_TRIES):
        try:
            reply = await client.complete(messages, [TOOL], max_tokens=_MOST_TOKENS)
        except UngradedError as error:
            if "refused the request" in str(error):
                return False
            if isinstance(error, BudgetError):
                raise
            raise GraderError(client.url, str(error), "look after the server") from error
        if any(call.name == "ready" for call in reply.tool_calls):
            return True
    return False
