"""Code that is written otherwise for no reason: in places the task does not touch, or twice."""

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath
from random import Random

from gagar_cli.degradations.candidate import CandidateFiles, Degraded
from gagar_cli.degradations.python import (
    Edit,
    Function,
    Module,
    first_line,
    fresh,
    last_line,
    own_nodes,
    parameters,
    parsed,
)

_TRIES = 30  # files that are read in search of something to rewrite
_REWRITES = 3
_COPIED_LINES = 6  # from which a copy is worth remarking on
_SEES_NAMES = {"locals", "vars", "eval", "exec"}  # a new variable would not go unnoticed
_SPOILS_COPY = (ast.Global, ast.Nonlocal)  # may stand only once in a function


def scope_creep(candidate: CandidateFiles, rng: Random) -> Degraded | None:
    """Rewrite returns, `return x` as `result = x; return result`, where the task has no business.

    In a file that the candidate leaves alone, else in a function; without Python in a README.
    """
    for path in candidate.untouched(rng, tests=False)[:_TRIES]:
        text = candidate.read_base(path)
        module = Module.of(path, text, text) if text else None
        made = _with_rewritten_returns(module, rng) if module else None
        if made:
            return Degraded(
                {path: made}, f"rewrites returns in {path}, which the task leaves alone"
            )
    for module in candidate.modules():
        made = _with_rewritten_returns(module, rng)
        if made:
            return Degraded({module.path: made}, f"rewrites returns elsewhere in {module.path}")
    for path in sorted(candidate.base_paths):
        pure = PurePosixPath(path)
        text = candidate.text(path) if pure.stem == "README" and len(pure.parts) == 1 else None
        if text and text.endswith("\n") and path not in candidate.changed:
            addition = "\nContributions of every kind are welcome.\n"
            return Degraded({path: text + addition}, f"adds a sentence to {path}")
    return None


def _with_rewritten_returns(module: Module, rng: Random) -> str | None:
    if _SEES_NAMES & module.words:
        return None
    returns = [
        node
        for function in module.functions(changed=False)
        for node in own_nodes(function)
        if isinstance(node, ast.Return)
        and node.value is not None
        and not isinstance(node.value, ast.Constant | ast.Name)
        and module.stands_alone(node)
    ]
    if not returns:
        return None
    name = fresh("result", module.words)
    edits: list[Edit] = []
    for node in rng.sample(returns, min(_REWRITES, len(returns))):
        start, end, indent = node.lineno - 1, last_line(node), module.indent(node)
        rest = module.lines[start].removeprefix(f"{indent}return").lstrip()
        edits += [
            Edit(start, start + 1, [f"{indent}{name} = {rest}"]),
            Edit(end, end, [f"{indent}return {name}"]),
        ]
    return module.edited(*edits)


def duplication(candidate: CandidateFiles, rng: Random) -> Degraded | None:
    """Write code twice: a helper copied for one caller, else both branches of an `if` alike."""
    for changed in (True, False):
        for module in candidate.modules():
            functions = module.functions(changed=changed)
            rng.shuffle(functions)
            for function in functions:
                made = _with_copied_helper(module, function) or _with_twin_branches(
                    module, function
                )
                if made:
                    return Degraded({module.path: made[0]}, f"{made[1]} in {module.path}")
    return None


def _with_copied_helper(module: Module, caller: Function) -> tuple[str, str] | None:
    """Copy a function of the module that `caller` calls by its name, and call the copy."""
    helpers = {
        node.name: node
        for node in module.tree.body
        if isinstance(node, Function)
        and not node.decorator_list
        and module.stands_alone(node)
        and last_line(node) - node.lineno + 1 >= _COPIED_LINES
        and node is not caller
    }
    rebound = {
        name
        for node in ast.walk(module.tree)
        for name in (
            node.arg if isinstance(node, ast.arg) else None,
            node.id if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else None,
        )
        if name
    }
    for call in _calls(caller):
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name in helpers and name not in rebound:
            text, copy = _copied(module, helpers[name], call, caller)
            new = parsed(text) if text else None
            # Where code inside a text begins is not always told right.
            if text and new and _names(new, copy) == 1:
                return text, f"copies {name} as {copy}"
    return None


def _calls(function: Function) -> Iterator[ast.Call]:
    return (node for node in own_nodes(function) if isinstance(node, ast.Call))


def _names(tree: ast.Module, name: str) -> int:
    return sum(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))


def _copied(
    module: Module, helper: Function, call: ast.Call, caller: Function
) -> tuple[str | None, str]:
    copy = fresh(f"{helper.name}_for_{caller.name.strip('_')}", module.words)
    body = list(module.lines[helper.lineno - 1 : last_line(helper)])
    body[0] = body[0].replace(f"def {helper.name}", f"def {copy}", 1)
    number, name = call.func.lineno - 1, helper.name.encode()
    line, column = module.lines[number].encode(), call.func.col_offset
    if line[column : column + len(name)] != name or number + 1 == helper.lineno:
        return None, copy
    called = (line[:column] + copy.encode() + line[column + len(name) :]).decode()
    end = last_line(helper)
    edits = Edit(number, number + 1, [called]), Edit(end, end, ["", "", *body])
    return module.edited(*edits), copy


def _with_twin_branches(module: Module, function: Function) -> tuple[str, str] | None:
    """Put the end of a function into both branches of an `if`."""
    names = parameters(function)
    deleted = any(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del) for node in ast.walk(function)
    )
    body = _tail(module, function)
    if not names or deleted or not body or module.start_of_body(function) is None:
        return None
    start, end, indent = first_line(body[0]) - 1, last_line(body[-1]), module.indent(body[0])
    step = "\t" if indent.startswith("\t") else "    "
    inner = [f"{step}{line}" if line.strip() else line for line in module.lines[start:end]]
    lines = [f"{indent}if {names[0]} is None:", *inner, f"{indent}else:", *inner]
    text = module.edited(Edit(start, end, lines))
    tree = parsed(text) if text else None
    # A text over several lines may have been moved with its code.
    same = tree is not None and any(
        isinstance(node, ast.If)
        and [ast.dump(n) for n in node.body]
        == [ast.dump(n) for n in node.orelse]
        == [ast.dump(n) for n in body]
        for node in ast.walk(tree)
    )
    return (text, f"has one block twice in {function.name}") if text and same else None


def _tail(module: Module, function: Function) -> list[ast.stmt]:
    """Return the last statements of a function, as many as make a copy worth remarking on."""
    for count in range(1, len(function.body) + 1):
        body = function.body[-count:]
        if any(isinstance(node, _SPOILS_COPY) for part in body for node in ast.walk(part)):
            return []
        if last_line(body[-1]) - first_line(body[0]) + 1 >= _COPIED_LINES:
            alone = all(module.stands_alone(statement) for statement in body)
            documented = count == len(function.body) and ast.get_docstring(function) is not None
            return body if alone and not documented else []
    return []
