"""Code that does nothing for the task: dead code, and debugging prints."""

import ast
from pathlib import PurePosixPath
from random import Random

from gagar_cli.degradations.candidate import CandidateFiles, Degraded
from gagar_cli.degradations.python import (
    Edit,
    Function,
    Module,
    first_line,
    fresh,
    is_docstring,
    last_line,
)

_Made = tuple[str, str] | None  # the new text, and what it adds
_PRINTS = 3  # in one file
# Functions that nobody calls are no error in these languages; in others they may be.
_ELSEWHERE = {
    "js": "function legacyFallback(value) {\n  return value === undefined ? null : value;\n}",
    "go": "func legacyFallback(value int) int {\n\treturn value\n}",
}


def dead_code(candidate: CandidateFiles, rng: Random) -> Degraded | None:
    """Add code that never runs: a function without callers, or a branch that cannot be reached."""
    makers = [_private_function, _public_function, _false_branch, _after_return]
    rng.shuffle(makers)
    for module in candidate.modules():
        functions = module.functions(changed=True)
        function = rng.choice(functions) if functions else None
        for make in makers:
            made = make(module, function)
            if made:
                return Degraded({module.path: made[0]}, f"adds {made[1]} to {module.path}")
    for path, text in candidate.edited_texts():
        code = _ELSEWHERE.get(PurePosixPath(path).suffix[1:])
        if code and "\r" not in text and text.endswith("\n") and "legacyFallback" not in text:
            return Degraded(
                {path: f"{text}\n{code}\n"}, f"adds a function without callers to {path}"
            )
    return None


def _private_function(module: Module, function: Function | None) -> _Made:
    return _unused(module, "_", function)


def _public_function(module: Module, function: Function | None) -> _Made:
    return _unused(module, "", function)


def _unused(module: Module, prefix: str, function: Function | None) -> _Made:
    stem = function.name.strip("_") if function else "value"
    name = fresh(f"{prefix}{stem}_or_default", module.words)
    text = module.appended(
        [
            f"def {name}(value, default=None):",
            '    """Return the value, or the default where there is none."""',
            "    if value is None:",
            "        return default",
            "    return value",
        ]
    )
    return (text, f"{name}, which nothing calls,") if text else None


def _false_branch(module: Module, function: Function | None) -> _Made:
    start = module.start_of_body(function) if function else None
    if function is None or start is None:
        return None
    at, indent = start
    lines = [f"{indent}if False:", f'{indent}    raise RuntimeError("not supported")']
    text = module.edited(Edit(at, at, lines))
    return (text, f"a branch that is never taken in {function.name}") if text else None


def _after_return(module: Module, function: Function | None) -> _Made:
    last = function.body[-1] if function else None
    if function is None or not isinstance(last, ast.Return) or not module.stands_alone(last):
        return None
    end, indent = last_line(last), module.indent(last)
    lines = [f'{indent}raise RuntimeError("no result for {function.name}")']
    text = module.edited(Edit(end, end, lines))
    return (text, f"a line after the last return of {function.name}") if text else None


def debug_prints(candidate: CandidateFiles, rng: Random) -> Degraded | None:
    """Print to standard error where the changed functions begin and end.

    Only fixed text is printed: a value's text might be what the function itself makes.
    """
    for module in candidate.modules():
        if _binds_sys(module):
            continue
        functions = module.functions(changed=True) or module.functions(changed=False)
        rng.shuffle(functions)
        edits: list[Edit] = []
        for function in functions:
            edits += _prints(module, function)
        edits = edits[:_PRINTS]
        if not edits:
            continue
        text = module.edited(*edits, *_import_of_sys(module))
        if text:
            what = f"prints to standard error {len(edits)} times in {module.path}"
            return Degraded({module.path: text}, what)
    return None


def _prints(module: Module, function: Function) -> list[Edit]:
    start = module.start_of_body(function)
    if start is None:
        return []
    at, indent = start
    edits = [Edit(at, at, [f'{indent}print("DEBUG: in {function.name}", file=sys.stderr)'])]
    last = function.body[-1]
    if len(function.body) > 1 and isinstance(last, ast.Return) and module.stands_alone(last):
        end = first_line(last) - 1
        if end > at:
            note = f'print("DEBUG: {function.name} is done", file=sys.stderr)'
            edits.append(Edit(end, end, [module.indent(last) + note]))
    return edits


def _binds_sys(module: Module) -> bool:
    """Whether `sys` may be something else than the module."""
    for node in ast.walk(module.tree):
        bound = (
            (isinstance(node, ast.Name) and node.id == "sys" and not isinstance(node.ctx, ast.Load))
            or (isinstance(node, ast.arg) and node.arg == "sys")
            or (isinstance(node, ast.alias) and node.asname == "sys")
            or (isinstance(node, ast.ImportFrom) and any(a.name == "sys" for a in node.names))
            or (isinstance(node, Function | ast.ClassDef) and node.name == "sys")
        )
        if bound:
            return True
    return False


def _import_of_sys(module: Module) -> list[Edit]:
    body = module.tree.body
    if any(isinstance(n, ast.Import) and any(a.name == "sys" for a in n.names) for n in body):
        return []
    first = next((n for n in body if not (is_docstring(n) or _is_future(n))), None)
    at = first_line(first) - 1 if first else len(module.lines)
    return [Edit(at, at, ["import sys"])]


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
