"""The agentic grader against a real server: llama.cpp, with a language model of 135M parameters.

The model calls no tools, writes a great deal, and ranks by what is shown first rather than by
quality. That is the point: it is a real grader of the worst kind, and nothing that it says may
move credit.
"""

import os

import pytest
from cli import error_of
from live_server import MODEL, live_server, missing
from quality_groups import write

pytestmark = pytest.mark.live

if (lack := missing()) and not os.environ.get("GAGAR_LIVE_REQUIRED"):
    pytest.skip(f"no live server: {lack}", allow_module_level=True)


@pytest.fixture(scope="module")
def url():
    with live_server(slots=2, slot_tokens=4096) as served:
        yield served


def test_an_unknown_model_is_refused_with_what_is_served(tmp_path, url):
    write(tmp_path / "in.parquet", [2])
    error = error_of(
        "run",
        "in.parquet",
        "-o",
        "out.parquet",
        "--no-repo",
        "--no-journal",
        "--grader-url",
        url,
        "--model",
        "other",
        cwd=tmp_path,
    )
    assert "'other'" in error
    assert error.count(MODEL) == 1
