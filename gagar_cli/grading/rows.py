"""The rollouts as the stage `grade` reads them: by group, who passed, and who can be ranked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gagar_cli.errors import DataError, SourceError, located
from gagar_cli.findings import flags
from gagar_cli.grading.contract import GroupView
from gagar_cli.groups import GroupIndex, check_unique
from gagar_cli.rollouts import Rollouts
from gagar_cli.schema import is_set, read_verdicts, strings
from gagar_cli.workspace.view import Workspace, check_objects_of

_INSPECTABLE = {"applied", "applied-3way", "applied-fuzz", "empty", "diff-only"}


@dataclass(frozen=True, slots=True)
class Row:
    """One rollout as the stage reads it."""

    candidate: str
    passed: bool
    failed: bool
    status: str
    counted: bool  # whether unidiff can read its diff

    @property
    def inspectable(self) -> bool:
        """Whether there is something to look at."""
        return self.counted and self.status in _INSPECTABLE


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one group, by their number in the file."""

    group_id: str
    folder: Path
    rows: Mapping[int, Row]

    @property
    def passing(self) -> list[int]:
        """The rows whose verifier passed."""
        return [n for n, row in self.rows.items() if row.passed]

    @property
    def ranked(self) -> list[int]:
        """The passing rows that can be inspected."""
        return [n for n in self.passing if self.rows[n].inspectable]

    def open(self) -> Workspace:
        """Open its workspace, whose objects have been looked for already."""
        return Workspace.open(self.folder, check_objects=False)

    def view(self, workspace: Workspace) -> GroupView:
        """Return what a grader sees."""
        rows = [row for row in self.rows.values() if row.inspectable]
        return GroupView(
            group_id=self.group_id,
            workspace=workspace,
            passing=tuple(sorted(row.candidate for row in rows if row.passed)),
            failing=tuple(sorted(row.candidate for row in rows if row.failed)),
        )


def flags_of(group: Group, workspace: Workspace) -> dict[str, list[str]]:
    """Return the flags of each candidate that can be inspected."""
    rows = [row for row in group.rows.values() if row.inspectable]
    return {row.candidate: flags(workspace.facts(row.candidate)) for row in rows}


def read_groups(rollouts: Rollouts) -> tuple[list[Group], int]:
    """Read all groups, and the number of rows; a workspace that is not whole raises SourceError."""
    rollouts.require("workspace", "candidate", "patch_status", "files_changed")
    table = rollouts.read(
        "group_id",
        "rollout_id",
        rollouts.verdict(),
        "workspace",
        "candidate",
        "patch_status",
        "files_changed",
    )
    counted = is_set(table["files_changed"])
    with located(rollouts.source.name):
        index = GroupIndex.of(table["group_id"])
        check_unique(index, table["rollout_id"])
        verdicts = read_verdicts(table, rollouts.pass_threshold)
        folders, names, statuses = (
            strings(table[name]) for name in ("workspace", "candidate", "patch_status")
        )
        groups = []
        for group_id, rows in index:
            folder = {folders[row] for row in rows}
            found = [names[row] for row in rows]
            if len(folder) != 1 or None in folder or None in found or len(set(found)) < len(found):
                raise DataError(
                    f"group {group_id!r}",
                    "its rows do not name one workspace and one candidate each",
                    "gagar assemble",
                )
            read = {
                int(row): Row(
                    candidate=str(names[row]),
                    passed=bool(verdicts.passed[row]),
                    failed=bool(verdicts.failed[row]),
                    status=statuses[row] or "",
                    counted=bool(counted[row]),
                )
                for row in rows
            }
            groups.append(Group(group_id, Path(str(folder.pop())), read))
    _check(groups)
    return groups, table.num_rows


def _check(groups: Sequence[Group]) -> None:
    for group in groups:
        if not (group.folder / "group.json").is_file():
            raise SourceError(f"workspace {group.folder}", "is not there", "gagar assemble")
    check_objects_of(group.open() for group in groups)
