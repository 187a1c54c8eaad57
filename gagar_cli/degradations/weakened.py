"""Existing tests that check less, for no reason that the task gives."""

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath
from random import Random

from gagar_cli.degradations.candidate import CandidateFiles, Degraded
from gagar_cli.degradations.python import Edit, Function, Module, first_line, last_line
from gagar_cli.findings import is_test

_Made = tuple[str, str] | None  # the new text, and what was done
_TRIES = 30  # files that are read in search of a test


def edited_tests(candidate: CandidateFiles, rng: Random) -> Degraded | None:
    """Weaken one existing test: drop it, skip it, drop an assertion, or let it accept anything."""
    makers = [_without_test, _with_skip, _without_assertion, _with_looser_assertion]
    rng.shuffle(makers)
    for path in _test_files(candidate, rng)[:_TRIES]:
        text = candidate.text(path)
        module = Module.of(path, text, candidate.read_base(path)) if text else None
        if module is None:
            continue
        tests = [f for f in module.functions(changed=False) if _is_test_of(module, f)]
        rng.shuffle(tests)
        for make in makers:
            for test in tests:
                made = make(module, test)
                if made:
                    return Degraded({path: made[0]}, f"{made[1]} {test.name} in {path}")
    return None


def _test_files(candidate: CandidateFiles, rng: Random) -> list[str]:
    """Return existing tests: those that the candidate edits or that are named for it come first."""
    stems = {PurePosixPath(path).stem for path in candidate.changed}
    names = {f"test_{stem}" for stem in stems} | {f"{stem}_test" for stem in stems} | stems
    mine = [
        p for p in candidate.changed if p.endswith(".py") and is_test(p) and candidate.read_base(p)
    ]
    others = candidate.untouched(rng, tests=True)
    return [*sorted(mine), *sorted(others, key=lambda path: PurePosixPath(path).stem not in names)]


def _is_test_of(module: Module, function: Function) -> bool:
    return function.name.startswith("test") and module.stands_alone(function)


def _without_test(module: Module, test: Function) -> _Made:
    start, end = first_line(test) - 1, last_line(test)
    while end < len(module.lines) - 1 and not module.lines[end].strip():
        end += 1
    # Where it is all that its class has, the result does not parse.
    text = module.edited(Edit(start, end, []))
    return (text, "drops") if text else None


def _with_skip(module: Module, test: Function) -> _Made:
    imported = {
        alias.name
        for node in module.tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname is None
    }
    if "unittest" in imported:
        mark = '@unittest.skip("unrelated")'
    elif "pytest" in imported:
        mark = '@pytest.mark.skip(reason="unrelated")'
    else:
        return None
    at = first_line(test) - 1
    text = module.edited(Edit(at, at, [module.indent(test) + mark]))
    return (text, "skips") if text else None


def _assertions(module: Module, test: Function) -> Iterator[ast.Assert | ast.Expr]:
    for node in test.body:
        called = node.value if isinstance(node, ast.Expr) else None
        method = called.func if isinstance(called, ast.Call) else None
        is_method = isinstance(method, ast.Attribute) and method.attr.startswith("assert")
        if not module.stands_alone(node):
            continue
        if isinstance(node, ast.Assert) or (is_method and isinstance(node, ast.Expr)):
            yield node


def _without_assertion(module: Module, test: Function) -> _Made:
    if len(test.body) == 1:
        return None
    for node in _assertions(module, test):
        text = module.edited(Edit(first_line(node) - 1, last_line(node), []))
        if text:
            return text, "drops an assertion of"
    return None


def _with_looser_assertion(module: Module, test: Function) -> _Made:
    """Ask of a value no more than that it is there, in place of what it should equal."""
    for node in _assertions(module, test):
        line = module.lines[node.lineno - 1].encode()
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
            value, form = node.test.left, "assert isinstance({}, object)"
            expected = node.test.comparators[0] if isinstance(node.test.ops[0], ast.Eq) else None
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            equal = isinstance(call.func, ast.Attribute) and call.func.attr == "assertEqual"
            value = call.args[0] if call.args else call.func
            expected = call.args[1] if equal and len(call.args) > 1 else None
            form = f"{_source(line, call.func).rpartition('.')[0]}.assertIsInstance({{}}, object)"
        else:
            continue
        # What is compared with must do nothing when it is left out.
        if node.lineno == node.end_lineno and expected and _is_literal(expected):
            new = module.indent(node) + form.format(_source(line, value))
            text = module.edited(Edit(node.lineno - 1, node.lineno, [new]))
            if text:
                return text, "loosens an assertion of"
    return None


def _source(line: bytes, node: ast.expr) -> str:
    return line[node.col_offset : node.end_col_offset].decode()


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return False
    return True
