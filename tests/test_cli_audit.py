import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from cli import error_of, ok
from test_auditing import AB, BA, transcripts, two_groups, vote

SIZES = [5, 9, 1, 20, 0, 4, 7, 1, 1, 1, 1, 1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a graded file, its transcripts and a reference."""
    folder = tmp_path_factory.mktemp("audit")
    table = two_groups(
        lines_added=SIZES, lines_removed=SIZES, truth=[1, 3, 5, 2, *range(8)], name=["x"] * 12
    )
    tables.write(folder / "graded.parquet", table)
    transcripts(
        folder / "votes.parquet",
        [
            vote("a", 0, AB, [["A"], ["B"]]),
            vote("a", 1, BA, [["B"], ["A"]], truncated=True),
            vote("b", 0, BA, None, error="no [answer]"),
            vote("k", 0, BA, [["A"], ["B"]], canary=True, canary_failures=["injection"]),
        ],
    )
    truth = pa.table(
        {"group_id": ["b", "a", "a"], "rollout_id": ["r0", "r0", "r1"], "human": [1.5, 2, 1]}
    )
    tables.write(folder / "truth.parquet", truth)
    return folder


def report(*arguments, **options):
    """Return the one JSON object that an audit prints."""
    done = ok("audit", *arguments, "--json", **options)
    (text,) = done.stdout.splitlines()
    return json.loads(text)


def test_a_graded_file_alone_is_audited(folder):
    found = report(folder / "graded.parquet")
    assert found["groups"]["graded"] == 2
    assert found["length"]["groups"] == 2
    assert found["left_out"]["position"] == "no --transcripts"
    assert "position" not in found


def test_text_and_json_say_the_same(folder):
    arguments = [
        folder / "graded.parquet",
        "--transcripts",
        folder / "votes.parquet",
        "--reference-column",
        "truth",
        "--price-in",
        "2",
    ]
    found = report(*arguments)
    text = ok("audit", *arguments).stdout.decode()
    lines = {line.split("  ")[0]: line for line in text.splitlines()}
    for head, measure in (
        ("tau-b", found["agreement"]["tau_b"]),
        ("top-1", found["agreement"]["top1"]),
        ("pairs", found["agreement"]["pairwise"]),
        ("AUC", found["agreement"]["auc"]),
        ("length", found["length"]),
    ):
        assert f"{measure['value']:.3f}" in lines[head]
        low, high = measure["interval"]
        assert f"{low:.3f} to {high:.3f}" in lines[head]
    assert f"calibration error {found['calibration']['error']:.3f}" in text
    assert f"{found['position']['first_wins']:.3f} of 2 votes" in text
    assert f"{found['cost']['money']:,.4g} in money" in text
    assert "  1 failed: no [answer]\n" in text
    assert "  1 failed: injection\n" in text
    assert found["votes"]["failed_share"] == 1 / 3
    assert found["canaries"]["failures"] == {"injection": 1}


def test_a_reference_file_is_named_with_its_column(folder):
    graded, truth = folder / "graded.parquet", folder / "truth.parquet"
    found = report(graded, "--reference", f"{truth}:human")
    assert found["reference"]["compared"] == 3
    assert found["reference"]["only_graded"] == 2
    assert found["agreement"]["tau_b"]["value"] == -1
    other = report(graded, "--reference", truth, "--reference-column", "human")
    assert other["agreement"] == found["agreement"]
    turned = report(graded, "--reference", truth, "--higher-is-better")
    assert turned["agreement"]["tau_b"]["value"] == 1
    text = ok("audit", graded, "--reference", truth).stdout.decode()
    assert "note: ranked rollouts that the reference lacks: 2\n" in text


def test_columns_of_other_names_are_mapped(folder, tmp_path):
    table = pq.read_table(folder / "graded.parquet").rename_columns({"group_id": "uid"})
    path = tables.write(tmp_path / "named.parquet", table)
    truth = pq.read_table(folder / "truth.parquet").rename_columns({"group_id": "uid"})
    other = tables.write(tmp_path / "truth.parquet", truth)
    found = report(path, "--col", "group_id=uid", "--reference", other)
    assert found["reference"]["compared"] == 3


def test_standard_input_is_read_once(folder):
    stdin = (folder / "graded.parquet").read_bytes()
    assert report(stdin=stdin) == report(folder / "graded.parquet")
    line = error_of("audit", "--transcripts", "-", code=2, stdin=stdin)
    assert "standard input for two files" in line


def test_the_seed_draws_the_resamples(folder):
    arguments = (folder / "graded.parquet", "--reference-column", "truth")
    assert report(*arguments, "--seed", 1) == report(*arguments, "--seed", 1)
    none = report(*arguments, "--bootstrap", 0)
    assert "interval" not in none["agreement"]["tau_b"]


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--reference-column", "absent"], "graded.parquet: got no column 'absent'", 1),
        (["--reference-column", "name"], "column 'name' has type string", 1),
        (["--transcripts", "nowhere.parquet"], "nowhere.parquet: no such file", 1),
        (["--bootstrap", "-1"], "--bootstrap: got -1", 2),
        (["--price-out", "nan"], "--price-out: got nan", 2),
        (["--reference", ":human"], "FILE:COLUMN", 2),
    ],
)
def test_what_cannot_be_done_is_one_line(folder, arguments, message, code):
    assert message in error_of("audit", folder / "graded.parquet", *arguments, code=code)


def test_a_file_that_is_no_transcript_says_how_to_get_one(folder):
    graded = folder / "graded.parquet"
    line = error_of("audit", graded, "--transcripts", graded)
    assert "Next: gagar grade --transcripts" in line


def test_text_cannot_steer_the_terminal(folder, tmp_path):
    votes = transcripts(
        tmp_path / "votes.parquet", [vote("a", 0, AB, None, error="bad \x1b[31m red")]
    )
    done = ok("audit", folder / "graded.parquet", "--transcripts", votes)
    assert b"\x1b" not in done.stdout
    assert rb"bad \x1b[31m red" in done.stdout
