"""The stage `assemble` keeps texts on disk and groups in order, whatever is ready first."""

import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
import tables

from gagar_cli.assembling import assemble
from gagar_cli.options import AssembleOptions
from gagar_cli.parquet_io import open_source
from gagar_cli.rollouts import Rollouts
from gagar_cli.workspace.repositories import RepositoryFinder

PATCH = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+{}\n"


def written(folder, groups, **columns):
    """Write groups of two rollouts into a new folder; return the path."""
    folder.mkdir()
    rows = [f"{group}-{number}" for group in range(groups) for number in range(2)]
    columns = {"patch": [PATCH.format(row) for row in rows], **columns}
    table = tables.rollouts({f"g{n}": [True, False] for n in range(groups)}, **columns)
    return tables.write(folder / "in.parquet", table, row_group_size=4)


def assembled(path, jobs=2):
    """Assemble groups from their diffs alone; return the columns that are added."""
    rollouts = Rollouts.of(open_source(str(path)))
    finder = RepositoryFinder([path.parent], path.parent / "cache")
    options = AssembleOptions(root=str(path.parent / "root"))
    told = []
    result, summary = assemble(rollouts, finder, options, jobs, lambda *n: told.append(n))
    assert told == [(n + 1, summary.groups) for n in range(summary.groups)]
    return pa.table(dict(result.added))


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_rollout_gets_its_own_patch_with_more_groups_than_wait_at_once(tmp_path, jobs):
    table = assembled(written(tmp_path / "run", 40), jobs)
    for row, found in enumerate(table.to_pylist()):
        diff = Path(found["workspace"], "candidates", f"{found['candidate']}.diff").read_text()
        assert diff == PATCH.format(f"{row // 2}-{row % 2}")


def test_the_first_statement_that_is_set_is_the_task_of_its_group(tmp_path):
    statements = [None, "Fix ä.", "", "One.", "Two.", "Three.", None, None]
    texts = pa.array(statements, pa.string())
    table = assembled(written(tmp_path / "run", 4, problem_statement=texts))
    folders = table["workspace"].to_pylist()[::2]
    tasks = [Path(folder, "TASK.md").read_text() for folder in folders]
    assert tasks == ["Fix ä.", "One.", "Two.", ""]


def test_a_null_patch_is_told_from_an_empty_one(tmp_path):
    patches = pa.array([None, "", PATCH.format(1), None], pa.string())
    table = assembled(written(tmp_path / "run", 2, patch=patches))
    details = table["patch_detail"].to_pylist()
    assert table["patch_status"].to_pylist() == ["empty", "empty", "diff-only", "empty"]
    assert details[0] == details[3] == "no patch"
    assert details[1] != "no patch"


def test_memory_does_not_grow_with_the_texts_of_groups(tmp_path):
    def peak(groups):
        texts = [f"{n // 2} " + "x" * 200_000 for n in range(2 * groups)]
        path = written(tmp_path / f"run{groups}", groups, problem_statement=texts)
        del texts
        tracemalloc.start()
        assembled(path, jobs=1)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(2)  # what is loaded on first use
    few, many = peak(12), peak(48)
    assert many < few + 1_000_000
