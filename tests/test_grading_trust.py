"""What graders of known quality end with: confidence, weights, and the report on their bias."""

import json
import random
from statistics import fmean

import cli
import pyarrow.parquet as pq
import pytest
import quality_groups
from quality_groups import knows, shown_order
from scripted_server import ScriptedServer, submits

SIZES = (2, 3, 4, 6)
GROUPS_OF_A_SIZE = 10


@pytest.fixture(scope="module")
def rollouts(tmp_path_factory):
    """Groups of several sizes, without repositories; of each, one rollout more fails."""
    folder = tmp_path_factory.mktemp("rollouts")
    return quality_groups.write(folder / "in.parquet", SIZES * GROUPS_OF_A_SIZE)


def run(rollouts, folder, script, *options):
    """Run all stages with a scripted grader; return the rows and the summary of `grade`."""
    with ScriptedServer(script) as server:
        command = ["run", rollouts, "-o", "out.parquet", "--json", "--grader-url", server.url]
        done = cli.ok(
            *command, "--concurrency", 8, "--no-repo", "--no-journal", *options, cwd=folder
        )
    summaries = [json.loads(line) for line in done.stderr.decode().splitlines()]
    rows = pq.read_table(folder / "out.parquet").to_pylist()
    graded = [row for row in rows if row["grade_status"] == "graded"]
    assert graded
    return graded, next(s for s in summaries if s["stage"] == "grade")


def mean_confidence(rows):
    return fmean({row["group_id"]: row["grade_confidence"] for row in rows}.values())


def mean_shift(rows):
    return fmean(abs(row["credit_weight"] - 1) for row in rows)


def seeded(body):
    return random.Random(json.dumps(body["messages"]))


def favours_the_first(body):
    """Put the first shown first in 70 % of the votes; know nothing else."""
    rng, order = seeded(body), shown_order(body)
    first = order[:1] if rng.random() < 0.7 else []
    rest = [label for label in order if label not in first]
    rng.shuffle(rest)
    return submits([[label] for label in first + rest])


def follows_the_order(body):
    """Rank in the order shown in 70 % of the votes, and at random in the others."""
    rng, order = seeded(body), shown_order(body)
    if rng.random() >= 0.7:
        rng.shuffle(order)
    return submits([[label] for label in order])


def guesses(body):
    order = shown_order(body)
    seeded(body).shuffle(order)
    return submits([[label] for label in order])


@pytest.mark.parametrize("script", [favours_the_first, follows_the_order])
def test_a_grader_that_only_favours_the_first_place_moves_next_to_nothing(
    rollouts, tmp_path, script
):
    rows, summary = run(rollouts, tmp_path, script)
    assert mean_confidence(rows) < 0.2
    assert mean_shift(rows) < 0.05
    bias = summary["bias"]
    assert bias["interval"][0] > 0.2
    assert bias["place_correlation"] > 0.1
    assert any("favours the first-shown candidate" in note for note in summary["notes"])


def test_a_grader_that_guesses_moves_next_to_nothing_and_shows_no_bias(rollouts, tmp_path):
    rows, summary = run(rollouts, tmp_path, guesses)
    assert mean_confidence(rows) < 0.2
    assert mean_shift(rows) < 0.05
    low, high = summary["bias"]["interval"]
    assert low < 0 < high
    assert not any("favours" in note for note in summary["notes"])


def test_a_perfect_grader_ends_at_confidence_1_after_four_votes(rollouts, tmp_path):
    rows, summary = run(rollouts, tmp_path, knows)
    assert {row["grade_confidence"] for row in rows} == {1.0}
    assert {row["grade_votes"] for row in rows} == {4}
    assert {row["grade_margin"] for row in rows} == {1.0}
    assert summary["votes"] == 4 * len(SIZES) * GROUPS_OF_A_SIZE
    low, high = summary["bias"]["interval"]
    assert low < 0 < high
    for row in rows:
        size = len(row["grade_wins"]) + 1
        assert sum(w["wins"] for w in row["grade_wins"]) == 4 * (size - row["rank"])


def test_unclear_groups_get_more_votes_up_to_the_most(rollouts, tmp_path):
    rows, _ = run(rollouts, tmp_path, guesses, "--votes", 2, "--max-votes", 5)
    votes = {row["grade_votes"] for row in rows}
    assert min(votes) == 2
    assert max(votes) == 5


def test_one_vote_is_said_to_show_no_doubt(rollouts, tmp_path):
    rows, summary = run(rollouts, tmp_path, guesses, "--votes", 1, "--max-votes", 1)
    assert {row["grade_confidence"] for row in rows} == {1.0}
    assert any("one vote cannot show doubt" in note for note in summary["notes"])
