"""One Hypothesis profile for all tests, and nothing of theirs in the user's cache folder."""

import os

import pytest
from hypothesis import settings
from small_groups import HUGE, LARGE, MIDDLE, SMALL, WRONG, SmallGroup

# The same examples on every run, whatever the load.

settings.register_profile("gagar", derandomize=True, deadline=None)
settings.load_profile("gagar")


@pytest.fixture(autouse=True, scope="session")
def _own_cache_folder(tmp_path_factory):
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def group(tmp_path_factory):
    """A group of three passing candidates and a failing one, over a repository."""
    passing = {"roll-large": LARGE, "roll-small": SMALL, "roll-middle": MIDDLE}
    return SmallGroup(tmp_path_factory.mktemp("group"), passing, {"roll-wrong": WRONG})


@pytest.fixture(scope="session")
def huge(tmp_path_factory):
    """A group whose diffs are too long to stand in a first prompt."""
    return SmallGroup(tmp_path_factory.mktemp("group"), {"small": SMALL, "huge": HUGE})
