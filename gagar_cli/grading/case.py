"""A group as the votes on it share it: who is shown once, in what words, and under what key.

Everything follows from what the candidates wrote, not from the labels of the workspace: the same
task with the same patches is the same case, wherever it lies.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from gagar_cli.essence import essence
from gagar_cli.grading.contract import GroupView
from gagar_cli.grading.fence import Fence
from gagar_cli.orders import balanced_order
from gagar_cli.patches import FileChange, PatchFacts, readable
from gagar_cli.ranking import labels
from gagar_cli.untrusted import visible
from gagar_cli.workspace.view import Workspace

_FILES = 50  # files of one candidate that are listed


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One candidate as every vote shows it, but for its label.

    name: the workspace's label. summary: its verdict, status and files, in words. diff: what it
    changes, with nothing in it that could steer a reader. digest: stands for its diff, status and
    verdict.
    """

    name: str
    passing: bool
    status: str
    facts: PatchFacts
    lines: int  # changed ones
    diff: str
    digest: str
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One group, prepared.

    heads: candidates to rank, one of each set whose patches are the same but for blank lines and
    comments. twins: by head, the workspace labels of its set. failing: shown, not ranked. key:
    stands for all content; the same seed and content draw the same.
    """

    workspace: Workspace
    task: str
    heads: tuple[Exhibit, ...]
    failing: tuple[Exhibit, ...]
    twins: Mapping[str, tuple[str, ...]]
    fence: Fence
    key: str

    @classmethod
    def of(cls, group: GroupView, seed: int) -> "Case":
        """Read a group's workspace."""
        workspace = group.workspace
        raw = {name: workspace.raw_diff(name) for name in (*group.passing, *group.failing)}
        shown = {
            name: _exhibit(workspace, name, diff, passing=name in group.passing)
            for name, diff in raw.items()
        }
        twins = _twins(group, shown, raw)
        heads = sorted((shown[name] for name in twins), key=lambda e: e.digest)
        failing = sorted((shown[name] for name in group.failing), key=lambda e: e.digest)
        task = visible(workspace.task)
        texts = [task, *(exhibit.diff for exhibit in (*heads, *failing))]
        digests = [exhibit.digest for exhibit in (*heads, *failing)]
        content = [str(seed), workspace.base_tree or "", workspace.task, *digests]
        key = sha256("\0".join(content).encode("utf-8", "surrogatepass")).hexdigest()
        fence = Fence.draw(key, texts)
        heads, failing = (
            [replace(exhibit, summary=_summary(exhibit, fence)) for exhibit in exhibits]
            for exhibits in (heads, failing)
        )
        return cls(workspace, task, tuple(heads), tuple(failing), twins, fence, key)

    def vote(self, number: int) -> "VoteView":
        """Draw order and labels of one vote.

        The candidates to rank get the first letters in the order in which they are shown: models
        favour letters as they favour places, and the orders balance both at once. The failing ones
        keep the letters after these, and are shown first, so that all votes offer the same tools
        and begin alike.
        """
        ordered = [*balanced_order(self.heads, number, self.key), *self.failing]
        shown = dict(zip(labels(len(ordered)), ordered, strict=True))
        failing = {label: e for label, e in shown.items() if not e.passing}
        return VoteView(self, number, {**failing, **shown})


@dataclass(frozen=True, slots=True)
class VoteView:
    """A case under the labels of one vote; `shown` in the order in which they are shown."""

    case: Case
    number: int
    shown: Mapping[str, Exhibit]

    @property
    def workspace(self) -> Workspace:
        """Where the trees are."""
        return self.case.workspace

    @property
    def fence(self) -> Fence:
        """What marks data."""
        return self.case.fence

    @property
    def passing(self) -> tuple[str, ...]:
        """The labels to rank, in the order of the alphabet."""
        return _alphabetical([label for label, e in self.shown.items() if e.passing])

    @property
    def failing(self) -> tuple[str, ...]:
        """The other labels, in the order of the alphabet."""
        return _alphabetical([label for label, e in self.shown.items() if not e.passing])

    def names(self) -> dict[str, str]:
        """Return the workspace's label by this vote's."""
        return {label: exhibit.name for label, exhibit in self.shown.items()}


def _alphabetical(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda label: (len(label), label)))


def _exhibit(workspace: Workspace, name: str, raw: bytes, *, passing: bool) -> Exhibit:
    status = workspace.candidates[name].status
    digest = sha256(b"\0".join([str(passing).encode(), status.encode(), raw])).hexdigest()
    facts = workspace.facts(name)
    lines = facts.lines_added + facts.lines_removed
    return Exhibit(name, passing, status, facts, lines, visible(readable(raw)), digest)


def _summary(exhibit: Exhibit, fence: Fence) -> str:
    facts = exhibit.facts
    verdict = "passed, to be ranked" if exhibit.passing else "failed"
    number = len(facts.files)
    head = f"{verdict}. Patch {exhibit.status}, {number} file{'s' * (number != 1)}"
    if not facts.files:
        return f"{head}: it changes nothing."
    listed = fence.around(visible("\n".join(_file_lines(facts))))
    return f"{head}, +{facts.lines_added} -{facts.lines_removed}\n{listed}"


def _file_lines(facts: PatchFacts) -> Iterable[str]:
    yield from (_file_line(file) for file in facts.files[:_FILES])
    if len(facts.files) > _FILES:
        yield f"[{len(facts.files) - _FILES} more files]"


def _file_line(file: FileChange) -> str:
    remarks = [file.kind if file.kind != "modified" else "", "binary" if file.binary else ""]
    if file.kind == "renamed":
        remarks[0] = f"renamed from {file.old_path}"
    remark = ", ".join(filter(None, remarks))
    counts = f"+{file.lines_added} -{file.lines_removed}"
    return f"{counts} {file.path}" + (f" ({remark})" if remark else "")


def _twins(
    group: GroupView, shown: Mapping[str, Exhibit], raw: Mapping[str, bytes]
) -> dict[str, tuple[str, ...]]:
    """Return the passing labels by the one that stands for all with the same change."""
    same_bytes: dict[object, list[str]] = defaultdict(list)
    for name in sorted(group.passing):
        same_bytes[name if name in group.apart else raw[name]].append(name)
    alike: dict[object, list[list[str]]] = defaultdict(list)
    for names in same_bytes.values():
        apart = names[0] in group.apart
        alike[names[0] if apart else _rough(shown[names[0]].facts)].append(names)
    sets: list[list[str]] = []
    for rough in alike.values():
        # Whole files are read only where patches may be the same: that takes a while.
        exact: dict[object, list[str]] = defaultdict(list)
        for names in rough:
            key = 0 if len(rough) == 1 else _essence(group.workspace, shown[names[0]], raw)
            exact[key] += names
        sets += exact.values()
    return {
        min(names, key=lambda n: (shown[n].lines, shown[n].digest, n)): tuple(sorted(names))
        for names in sets
    }


def _rough(facts: PatchFacts) -> object:
    """Return what patches have in common that are the same in code."""
    files = ((file.path, file.kind, *_changes(file)) for file in facts.files)
    return frozenset(file for file in files if file[1] != "modified" or file[2] or file[3])


def _changes(file: FileChange) -> tuple[frozenset[str], frozenset[str]]:
    # Cut at what may start a comment; more is cut than comments, but the same in both patches.
    added, removed = (
        {text.split("#", 1)[0].split("//", 1)[0].strip() for text in texts} - {""}
        for texts in (file.added, file.removed)
    )
    return frozenset(added - removed), frozenset(removed - added)


def _essence(workspace: Workspace, exhibit: Exhibit, raw: Mapping[str, bytes]) -> object:
    contents = workspace.touched(exhibit.name) if workspace.has_trees else None
    return essence(exhibit.facts, contents, raw[exhibit.name])
