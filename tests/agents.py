"""Grade small groups by scripted servers."""

import asyncio

import pytest
from scripted_server import (
    ScriptedServer,
    labels_to_rank,
    submits,
)

from gagar_cli.errors import UngradedError
from gagar_cli.grading.agent import AgentGrader
from gagar_cli.options import GradeOptions


async def no_sleep(_):
    """Wait for nothing."""


def grades(url, views, rubric=None, journal=None, record=None, **options):
    """Grade views at once, by one vote each unless told otherwise; return grades and grader."""
    options = {"votes": 1, "max_votes": options.get("votes", 1), **options}
    recorder = {"record": record} if record else {}

    async def go():
        grader = AgentGrader(
            GradeOptions(url=url, **options), rubric, journal, sleep=no_sleep, **recorder
        )
        await grader.start()
        try:
            return await asyncio.gather(*map(grader.grade, views)), grader
        finally:
            await grader.close()

    return asyncio.run(go())


def graded(script, group, **options):
    """Grade one group by a script; return the grade, the server and the grader."""
    with ScriptedServer(script) as server:
        [grade], grader = grades(server.url, [group.view()], **options)
    return grade, server, grader


def error_of(script, group, expected=UngradedError, **options):
    """Grade one group in vain; return the error's text and the server."""
    with ScriptedServer(script) as server, pytest.raises(expected) as caught:
        grades(server.url, [group.view()], **options)
    return str(caught.value), server


def in_turn(*answers):
    """Make a script that gives its answers one after the other, the last one for ever.

    An answer may be a function of the request.
    """
    left = list(answers)

    def script(body):
        answer = left.pop(0) if len(left) > 1 else left[0]
        return answer(body) if callable(answer) else answer

    return script


def ties_all(body):
    return submits([labels_to_rank(body)])


def told(server):
    """Return all tool results and user messages that the last request carried, as one text."""
    return "\n".join(m["content"] for m in server.bodies[-1]["messages"] if m["role"] != "system")
