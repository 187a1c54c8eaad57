import ast
import subprocess
import sys
from pathlib import Path

import pytest
import tables

PACKAGE = Path(__file__).parent.parent / "gagar_cli"

# Imports run from a higher layer to a lower one, never back.
CORE = {
    "options",
    "groups",
    "keys",
    "schema",
    "provenance",
    "ladders",
    "places",
    "parallel",
    "redistribution",
    "redistributing",
    "advantages",
    "filtering",
    "patches",
    "findings",
    "ranking",
    "consensus",
    "orders",
    "bias",
    "agreement",
    "essence",
    "untrusted",
    "degradations",
    "transcripts",
    "uris",
}
LAYERS = [
    {"__init__", "errors"},
    CORE,
    {"parquet_io", "workspace"},
    {"rollouts", "assembling", "inspecting", "viewing", "auditing", "sft"},
    {"grading"},
    {"engines"},
    {"commands"},
    {"cli"},
    {"__main__"},
]
LAYER = {name: level for level, names in enumerate(LAYERS) for name in names}
IMPURE = {"git", "openai", "typer", "rich", "os", "subprocess", "shutil", "tempfile", "socket"}


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def part(path):
    """Return the name that a module's layer goes by: its file, or its folder in the package."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            if node.module == "gagar_cli":
                yield from (f"gagar_cli.{alias.name}" for alias in node.names)


def test_every_module_has_a_layer():
    assert {part(path) for path in modules()} == set(LAYER)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_one_way(path):
    own = part(path)
    for name in imports(path):
        words = name.split(".")
        if words[0] != "gagar_cli" or len(words) == 1:
            continue
        other = words[1]
        if other in LAYER and other != own:
            allowed = LAYER[other] < LAYER[own] or (LAYER[other] == LAYER[own] <= 3)
            assert allowed, f"{own} imports {other}"


@pytest.mark.parametrize("name", sorted(CORE))
def test_the_core_touches_no_files_network_git_or_terminal(name):
    found = {module for path in modules() if part(path) == name for module in imports(path)}
    assert any(part(path) == name for path in modules())
    assert not {module.split(".")[0] for module in found} & IMPURE
    assert not found & {"pyarrow.parquet", "pyarrow.fs"}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_stays_under_400_lines(path):
    assert len(path.read_text().splitlines()) < 400


def loaded_after(*arguments, names):
    """Return which of these modules are loaded after a run of the command line."""
    code = (
        "import sys\n"
        f"sys.argv = ['gagar', *{list(map(str, arguments))!r}]\n"
        "from gagar_cli.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"print(*(m for m in {names!r} if m in sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1].split()


def test_help_loads_neither_arrow_nor_git_nor_openai():
    heavy = ["openai", "git", "pyarrow", "numpy", "rich.progress", "ray"]
    assert loaded_after("--help", names=heavy) == []
    assert loaded_after("grade", "--help", names=heavy) == []


def test_filter_loads_neither_git_nor_openai(tmp_path):
    path = tables.write(tmp_path / "in.parquet", tables.rollouts({"a": [True, False]}))
    out = tmp_path / "out.parquet"
    names = ["openai", "git", "unidiff", "ray"]
    assert loaded_after("filter", path, "-o", out, names=names) == []
    assert loaded_after("validate", path, names=names) == []
