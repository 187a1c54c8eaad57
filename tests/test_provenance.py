import json

import pyarrow as pa
import pytest

from gagar_cli import __version__
from gagar_cli.errors import DataError
from gagar_cli.provenance import KEY, Provenance, StageRecord
from gagar_cli.schema import ColumnNames

GRADE = StageRecord("grade", {"votes": 3, "model": None}, ("rank", "grader"))
FILTER = StageRecord("filter", {"min_pass_rate": 0.1})
MADE = Provenance(ColumnNames({"group_id": "uid", "reward": "größe"}), 0.1, (FILTER, GRADE))


def broken(**changes):
    return json.dumps({"columns": {}, "pass_threshold": 1, "stages": [], **changes}).encode()


def test_what_is_written_is_read_back():
    assert Provenance.read({KEY: MADE.write()}) == MADE
    schema = pa.schema([], metadata={KEY: MADE.write(), b"other": b"kept"})
    assert Provenance.read(schema.metadata) == MADE


def test_equal_provenance_gives_equal_bytes():
    turned = ColumnNames({"reward": "größe", "group_id": "uid"})
    assert Provenance(turned, 0.1, (FILTER, GRADE)).write() == MADE.write()
    assert Provenance.read({KEY: MADE.write()}).write() == MADE.write()


def test_the_json_tells_names_threshold_version_and_options():
    assert json.loads(MADE.write()) == {
        "columns": {"group_id": "uid", "reward": "größe"},
        "pass_threshold": 0.1,
        "stages": [
            {
                "stage": "filter",
                "version": __version__,
                "options": {"min_pass_rate": 0.1},
                "added": [],
            },
            {
                "stage": "grade",
                "version": __version__,
                "options": {"votes": 3, "model": None},
                "added": ["rank", "grader"],
            },
        ],
    }


@pytest.mark.parametrize("metadata", [None, {}, {b"pandas": b"{}"}])
def test_a_file_that_gagar_did_not_make_has_the_defaults(metadata):
    assert Provenance.read(metadata) == Provenance()
    assert Provenance().pass_threshold == 1
    assert Provenance().names["group_id"] == "group_id"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        broken(columns=["uid"]),
        broken(columns="uid"),
        broken(pass_threshold=["half"]),
        broken(pass_threshold=None),
        broken(stages=None),
        broken(stages=["filter"]),
        broken(stages=[{"stage": "filter"}]),
        broken(stages=[{"stage": "filter", "options": 5, "added": [], "version": "0.1"}]),
    ],
)
def test_a_broken_key_is_told_and_not_guessed(raw):
    with pytest.raises(DataError, match=r"metadata key 'gagar'.*Next: drop that key"):
        Provenance.read({KEY: raw})


def test_a_later_version_may_say_more():
    assert Provenance.read({KEY: broken(seed=4)}) == Provenance()


def test_a_stage_run_again_replaces_its_own_record_and_comes_last():
    again = StageRecord("filter", {"min_pass_rate": 0.2})
    assert MADE.with_stage(again).stages == (GRADE, again)
    assert MADE.with_stage(again).names == MADE.names
    assert MADE.stages == (FILTER, GRADE)


def test_a_stage_knows_the_columns_that_it_added():
    assert MADE.added_by("grade") == ("rank", "grader")
    assert MADE.added_by("filter") == ()
    assert MADE.added_by("redistribute") == ()
