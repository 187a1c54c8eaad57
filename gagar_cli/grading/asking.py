"""Ask a grader about many groups, some at a time, and keep what comes back in order."""

import asyncio
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gagar_cli.errors import UngradedError
from gagar_cli.grading.contract import Grade, Grader, GroupView, Usage
from gagar_cli.grading.rows import Group, flags_of
from gagar_cli.grading.votelog import VoteLog

if TYPE_CHECKING:
    from gagar_cli.grading.canaries import Canary

_OBJECTS = 50_000  # made since the last look for garbage, before the next
Progress = Callable[[int, int, Usage], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the grader said of one group, and the flags of its candidates; or of its canary."""

    grade: Grade | UngradedError
    flags: Mapping[str, Sequence[str]]
    canary: "Canary | None" = None


@dataclass(frozen=True, slots=True)
class Job:
    """A group to ask about; with a folder to plant in, its canary instead."""

    group: Group
    planted: Path | None = None
    seed: int = 0

    def prepare(self) -> "tuple[GroupView, Canary | None] | None":
        """Open the workspace; None where no canary can be planted in the group."""
        view = self.group.view(self.group.open())
        if self.planted is None:
            return view, None
        from gagar_cli.grading.canaries import plant_canary  # noqa: PLC0415  seldom asked for

        canary = plant_canary(view, self.planted, self.seed)
        return None if canary is None else (canary.view, canary)


async def ask(
    jobs: Sequence[Job], grader: Grader, log: VoteLog, concurrency: int, progress: Progress
) -> list[Answer | None]:
    """Return the grader's answer to each job, None for a canary that could not be planted.

    The first error that is more than a group without a grade stops them all. Transcripts are
    written in the order of the jobs.
    """
    answers: list[Answer | None] = [None] * len(jobs)
    names: list[str | None] = [None] * len(jobs)
    finished = [False] * len(jobs)
    waiting = iter(range(len(jobs)))
    done = written = 0

    async def work() -> None:
        nonlocal done, written
        for number in waiting:
            prepared = await asyncio.to_thread(jobs[number].prepare)
            if prepared is not None:
                view, canary = prepared
                names[number] = view.group_id
                if canary is not None:
                    log.canaries[view.group_id] = canary
                flags = {} if canary else flags_of(jobs[number].group, view.workspace)
                answers[number] = Answer(await _grade(grader, view), flags, canary)
            finished[number] = True
            done += 1
            progress(done, len(jobs), grader.usage)
            while written < len(jobs) and finished[written]:
                log.write(names[written] or "", grader.name, grader.model)
                written += 1

    await grader.start()
    try:
        with _seldom_collecting():
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(concurrency, len(jobs))):
                    tasks.create_task(work())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        await grader.close()
    return answers


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Look for garbage in cycles less often: thousands of open requests are all live objects."""
    usual = gc.get_threshold()
    gc.set_threshold(_OBJECTS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


async def _grade(grader: Grader, view: GroupView) -> Grade | UngradedError:
    try:
        return await grader.grade(view)
    except UngradedError as error:
        return error
