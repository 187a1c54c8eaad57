"""Groupwise agentic grading and advantage redistribution for rollouts of code agents."""

__all__ = ["__version__"]

__version__ = "0.1.0"
