"""Graders: what ranks the passing candidates of a group.

contract      what a grader is given, and what it must return
builtin       offline and deterministic, from what the candidates do side by side
agent         a language model that votes, on any OpenAI-compatible server

A vote, from the group to the verdict:

case          a group as its votes share it; labels and orders of each vote
prompts       the words; schemas, verdict: the tools, and what is submitted
conversation  one vote, with tools or in one answer; tools, coverage: what it looks at
client        requests that survive servers; transport, dialect, refusals, replies, salvage, probe
journal       votes that need not be asked for again

The stage:

stage         columns and summary; rows, asking: who is asked about, and in what order
votelog       transcripts, and what they say of the grader
canaries      candidates of known standing that test it
"""
