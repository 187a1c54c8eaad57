"""Make a good candidate worse on purpose, mechanically, without a change of what it does.

What a grader says can then be compared with what is known. Each kind fits some candidates and not
others; the same candidate and the same random numbers give the same result. Python is edited by
its syntax tree, and what comes out parses; files in other languages are edited where that needs no
parser.

candidate   what a candidate is made of, and what a degradation does to it
kinds       `degrade`: the kinds by name
comments    old code as comments, comments that are wrong, comments addressed to the grader
leftovers   code that does nothing for the task: dead code, debugging prints
rewrites    code that is written otherwise for no reason: other files, copies
weakened    existing tests that check less
python      a Python file as lines and syntax tree
"""

from gagar_cli.degradations.candidate import CandidateFiles, Degraded
from gagar_cli.degradations.kinds import Kind, degrade

__all__ = ["CandidateFiles", "Degraded", "Kind", "degrade"]
