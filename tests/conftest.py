"""One Hypothesis profile for all tests, and nothing of theirs in the user's cache folder."""

import os

import pytest
from hypothesis import settings

# The same examples on every run, whatever the load.

settings.register_profile("gagar", derandomize=True, deadline=None)
settings.load_profile("gagar")


@pytest.fixture(autouse=True, scope="session")
def _own_cache_folder(tmp_path_factory):
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
