"""What a command asks of an engine: which stages, with which options."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gagar_cli.assembling import AssembleSummary
from gagar_cli.bias import Presentation
from gagar_cli.filtering import FilterSummary
from gagar_cli.grading.stage import GradeSummary
from gagar_cli.options import (
    AssembleOptions,
    FilterOptions,
    GradeFiles,
    GradeOptions,
    RedistributeOptions,
    Sources,
)
from gagar_cli.redistributing import RedistributeSummary
from gagar_cli.rollouts import Rollouts
from gagar_cli.schema import STAGE_COLUMNS


@dataclass(frozen=True, slots=True)
class Job:
    """The stages of a command, None for one that it does not have, in the order of the pipeline."""

    filtering: FilterOptions | None = None
    assembling: AssembleOptions | None = None
    sources: Sources = field(default_factory=Sources)
    grading: GradeOptions | None = None
    files: GradeFiles = field(default_factory=GradeFiles)
    redistribution: RedistributeOptions | None = None
    retry_ungraded: bool = False
    keep_rejected: bool = False

    def columns(self, rollouts: Rollouts) -> list[str]:
        """Return the columns that the stages read, by their names in the file.

        The others, most of the bytes, need not be brought together by group.
        """
        wanted = ["group_id", "rollout_id", "passed", "reward"]
        if self.assembling:
            wanted += ["repo", "base_commit", "patch", "problem_statement"]
        if self.grading:
            wanted += ["workspace", "candidate", "patch_status", "files_changed"]
            wanted += STAGE_COLUMNS["grade"] if self.retry_ungraded else ()
        if self.redistribution:
            wanted += ["rank", "grade_confidence", "advantage", "num_tokens"]
        found = (rollouts.names[name] for name in wanted if rollouts.has(name))
        return list(dict.fromkeys(found))


@dataclass(slots=True)
class Found:
    """What the stages found: a summary of each that ran, and the votes as they were shown."""

    filtered: FilterSummary | None = None
    assembled: AssembleSummary | None = None
    graded: GradeSummary | None = None
    model: str = ""
    presentations: Sequence[Presentation] = ()
    redistributed: RedistributeSummary | None = None
