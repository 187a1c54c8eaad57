"""One Hypothesis profile for all tests: the same examples on every run, whatever the load."""

from hypothesis import settings

settings.register_profile("gagar", derandomize=True, deadline=None)
settings.load_profile("gagar")
