"""Ask a grader to tell good patches from the same patches made worse on purpose.

The good ones are the best of each task in `sample_groups`. Each is degraded in every way that
fits, the hidden tests say whether the result still passes, and all that do are assembled and
ranked: each beside its original alone, and one of each kind together.

    python benchmarks/degradations.py [--json] [--seeds N] [--grader-url URL --model NAME]
"""

import argparse
import importlib.util
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gagar_cli.assembling import assemble
from gagar_cli.degradations import Degraded, Kind, degrade
from gagar_cli.errors import GagarError
from gagar_cli.grading.agent import AgentGrader
from gagar_cli.grading.builtin import BuiltinGrader
from gagar_cli.grading.contract import Grader
from gagar_cli.grading.stage import grade
from gagar_cli.options import AssembleOptions, GradeOptions
from gagar_cli.parquet_io import open_source
from gagar_cli.ranking import labels
from gagar_cli.rollouts import Rollouts
from gagar_cli.workspace.planting import candidate_files, encoded, plant
from gagar_cli.workspace.repositories import RepositoryFinder
from gagar_cli.workspace.view import Workspace

SAMPLES = Path(__file__).resolve().parent.parent / "sample_groups"
CLEAN, TOGETHER, ALL = "clean", "together", "all"
STANDINGS = ("above", "tie", "below")  # of the original to the degraded one


@dataclass(frozen=True, slots=True)
class Worse:
    """A degraded patch; `number` tells those of one kind and original apart."""

    kind: Kind
    number: int
    patch: bytes
    description: str


@dataclass(frozen=True, slots=True)
class Original:
    """A good patch of a task, and what it was made into; `not_fitting` counts seeds by kind."""

    task: Any
    rollout: str
    patch: bytes
    worse: tuple[Worse, ...]
    not_fitting: Counter[Kind]

    @property
    def name(self) -> str:
        """Task and rollout."""
        return f"{self.task.group_id}/{self.rollout}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an original stands to one degraded patch in a group."""

    group: str
    kind: str
    standing: str
    confidence: float | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description="Rank good patches beside degraded ones.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--seeds", type=int, default=8, metavar="N", help="tries of each kind (%(default)s)"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="tests run at a time")
    parser.add_argument("--grader-url", metavar="URL", help="an OpenAI-compatible server")
    parser.add_argument("--model", metavar="NAME", help="the model to ask there")
    parser.add_argument("--missed", action="store_true", help="name what did not rank below")
    options = parser.parse_args(arguments)
    samples = _samples()
    try:
        with tempfile.TemporaryDirectory(prefix="gagar-degradations-") as name:
            folder = Path(name)
            originals = list(_originals(samples, folder, options.seeds))
            failed = _failing(samples, originals, options.jobs)
            grader, told = _grader(options)
            outcomes = _rank(list(_groups(originals, failed)), folder, grader, told)
            result = _report(originals, failed, outcomes, grader.name)
    except (GagarError, samples.SampleError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result, indent=1) if options.json else _table(result))
    if options.missed and not options.json:
        print("\nranked no worse than their original:\n")
        print("\n".join(f"- {line}" for line in result["missed"]))
    return 0


def _samples() -> ModuleType:
    """Import what builds the sample groups: it knows the tasks and runs their tests."""
    spec = importlib.util.spec_from_file_location("sample_groups_build", SAMPLES / "build.py")
    if spec is None or spec.loader is None:
        raise ImportError(str(SAMPLES))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _grader(options: argparse.Namespace) -> tuple[Grader, GradeOptions]:
    told = GradeOptions(url=options.grader_url, model=options.model)
    return (AgentGrader(told) if told.url else BuiltinGrader()), told


def _originals(samples: ModuleType, folder: Path, seeds: int) -> Iterator[Original]:
    """Yield the good patches of all tasks that have any, each once."""
    rollouts = _assembled(SAMPLES / "rollouts.parquet", folder)
    rows = rollouts.read("group_id", "rollout_id", "workspace", "candidate").to_pylist()
    place = {(row["group_id"], row["rollout_id"]): row for row in rows}
    for task in samples.read_tasks():
        distinct = {task.patch(name): name for name in reversed(next(iter(task.order), ()))}
        for name in sorted(distinct.values()):
            row = place[task.group_id, name]
            workspace = Workspace.open(Path(row["workspace"]))
            yield _degraded(task, name, workspace, row["candidate"], folder, seeds)


def _degraded(  # noqa: PLR0913
    task: Any,
    name: str,
    workspace: Workspace,
    label: str,
    folder: Path,
    seeds: int,
) -> Original:
    """Degrade one candidate in all ways, with several seeds; equal results count once."""
    files = candidate_files(workspace, label)
    made: dict[tuple[Kind, int], Degraded] = {}
    misses = Counter[Kind]()
    for kind in Kind:
        for seed in range(seeds):
            result = degrade(kind, files, Random(f"{task.group_id} {kind} {seed}"))
            if result is None:
                misses[kind] += 1
            elif all(result.edits != other.edits for other in made.values()):
                made[kind, seed] = result
    free = [
        x for x in labels(len(workspace.candidates) + len(made)) if x not in workspace.candidates
    ]
    planted = plant(
        workspace,
        folder / f"{task.group_id}-{name}",
        {new: encoded(result.edits) for new, result in zip(free, made.values(), strict=True)},
        label,
    )
    worse = [
        Worse(kind, seed, planted.raw_diff(new), result.description)
        for new, ((kind, seed), result) in zip(free, made.items(), strict=True)
    ]
    return Original(task, name, planted.raw_diff(label), tuple(worse), misses)


def _pairs(originals: Sequence[Original]) -> Iterator[tuple[Original, Worse]]:
    return ((original, worse) for original in originals for worse in original.worse)


def _pair_id(original: Original, worse: Worse) -> str:
    return f"{original.name} {worse.kind} {worse.number}"


def _failing(samples: ModuleType, originals: Sequence[Original], jobs: int) -> set[Worse]:
    """Run the hidden tests on everything degraded; return what does not pass."""
    pairs = list(_pairs(originals))
    with ThreadPoolExecutor(jobs) as pool:
        verdicts = pool.map(lambda pair: samples.run_verifier(pair[0].task, pair[1].patch), pairs)
        return {
            worse for (_, worse), v in zip(pairs, verdicts, strict=True) if v.passed is not True
        }


def _assembled(path: Path, folder: Path) -> Rollouts:
    finder = RepositoryFinder([SAMPLES], folder / "sources")
    options = AssembleOptions(root=str(folder / "workspaces"))
    return assemble(Rollouts.of(open_source(str(path))), finder, options)[0]


def _groups(originals: Sequence[Original], failed: set[Worse]) -> Iterator[dict[str, Any]]:
    """Yield the rows of all groups: an original with each degraded one, and with one of a kind."""
    for original in originals:
        groups: dict[str, list[Worse]] = defaultdict(list)
        for worse in original.worse:
            if worse not in failed:
                groups[_pair_id(original, worse)].append(worse)
                groups[f"{original.name} {TOGETHER} {worse.number}"].append(worse)
        for group_id, members in groups.items():
            patches = {CLEAN: original.patch, **{str(w.kind): w.patch for w in members}}
            for rollout_id, patch in patches.items():
                yield {
                    "group_id": group_id,
                    "rollout_id": rollout_id,
                    "problem_statement": original.task.problem,
                    "repo": original.task.repo,
                    "base_commit": original.task.base_commit,
                    "patch": patch,
                    "passed": True,
                }


def _rank(
    rows: Sequence[dict[str, Any]], folder: Path, grader: Grader, options: GradeOptions
) -> list[Outcome]:
    """Assemble and grade the groups; return how each degraded patch stands to its original."""
    path = folder / "degraded.parquet"
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    graded, _ = grade(_assembled(path, folder), grader, options)
    table = graded.read("group_id", "rollout_id", "rank", "grade_confidence")
    ranks: dict[str, dict[str, int | None]] = defaultdict(dict)
    confidence: dict[str, float | None] = {}
    for row in table.to_pylist():
        ranks[row["group_id"]][row["rollout_id"]] = row["rank"]
        confidence[row["group_id"]] = row["grade_confidence"]
    return [
        Outcome(group, kind, _standing(places[CLEAN], rank), confidence[group])
        for group, places in ranks.items()
        for kind, rank in places.items()
        if kind != CLEAN
    ]


def _report(
    originals: Sequence[Original], failed: set[Worse], outcomes: Sequence[Outcome], grader: str
) -> dict[str, Any]:
    """Count by kind; the confidence is the mean over pairs that were told apart."""
    words = {_pair_id(original, w): w.description for original, w in _pairs(originals)}
    pairs = [outcome for outcome in outcomes if outcome.group in words]
    together = [outcome for outcome in outcomes if outcome.group not in words]
    kinds = []
    for kind in (*Kind, ALL):
        made = [worse for _, worse in _pairs(originals) if kind in {worse.kind, ALL}]
        misses = [o.not_fitting for o in originals]
        told_apart = [
            outcome.confidence
            for outcome in pairs
            if kind in {outcome.kind, ALL}
            and outcome.standing in {"above", "below"}
            and outcome.confidence is not None
        ]
        kinds.append(
            {
                "kind": str(kind),
                "patches": len(made),
                "not_fitting": sum(m.total() if kind == ALL else m[Kind(kind)] for m in misses),
                "tests_fail": len(failed & set(made)),
                "pairs": Counter(o.standing for o in pairs if kind in {o.kind, ALL}),
                "confidence": fmean(told_apart) if told_apart else None,
                "together": Counter(o.standing for o in together if kind in {o.kind, ALL}),
            }
        )
    return {
        "grader": grader,
        "originals": len(originals),
        "groups": len({outcome.group for outcome in outcomes}),
        "ungraded": len({o.group for o in outcomes if o.standing == "ungraded"}),
        "kinds": kinds,
        "missed": sorted(
            f"{outcome.standing}: {outcome.group} {words[outcome.group]}"
            for outcome in pairs
            if outcome.standing != "above"
        ),
    }


def _standing(clean: int | None, worse: int | None) -> str:
    """Say where the good candidate stands, by the two ranks."""
    if clean is None or worse is None:
        return "ungraded"
    return "above" if clean < worse else "below" if clean > worse else "tie"


def _table(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    head = ["kind", "patches", "not fitting", "tests fail"]
    head += [*STANDINGS, "confidence", *(f"{name}, together" for name in STANDINGS)]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for kind in result["kinds"]:
        sure = "" if kind["confidence"] is None else f"{kind['confidence']:.2f}"
        line = [kind[name] for name in ("kind", "patches", "not_fitting", "tests_fail")]
        line += [*(kind["pairs"][name] for name in STANDINGS), sure]
        line += [kind["together"][name] for name in STANDINGS]
        lines.append(list(map(str, line)))
    told = f"{result['grader']}: {result['originals']} originals, {result['groups']} groups"
    if result["ungraded"]:
        told += f", {result['ungraded']} of them without a grade"
    return "\n".join([told, "", *(f"| {' | '.join(line)} |" for line in lines)])


if __name__ == "__main__":
    sys.exit(main())
