"""Graders: what ranks the passing candidates of a group.

contract   what a grader is given, and what it must return
builtin    offline and deterministic, from what the candidates do side by side
agent      a language model with tools over the workspace, on any OpenAI-compatible server
"""
