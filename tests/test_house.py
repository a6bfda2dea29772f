"""The shape of the house: who may import whom, where it is loaded from, how long a file may be."""

import ast
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

MAY_IMPORT = {
    "topologies": {"networkx"},
    "algorithms": {"numpy"},
    "sim": {"topologies", "algorithms", "numpy", "networkx", "simpy", "numba", "click", "rich", "matplotlib"},
    "executor": {"topologies", "algorithms", "numpy", "numba", "mpi4py", "cupy", "ml_dtypes", "click", "rich"},
}
# Options that both commands share stand once, beside what they describe; a format has one reader, an extra one file.
MAY_IMPORT_ALSO = {
    "topologies/options.py": {"click"},
    "algorithms/options.py": {"click"},
    "topologies/files/text/markup.py": {"defusedxml"},
    "topologies/files/text/plain_yaml.py": {"yaml"},
    "executor/kernels/torch_flash.py": {"torch"},  # no dependency: an extra for those who have it
}

LONGEST_FILE = 400  # lines

# In halves, or this file would name them itself.
WORKPLACE = ["/wo" + "rk/", ".lib" + "rary", "py" + "pi.org", "python" + "hosted.org", "npm" + "js.org"]
OURS = ["algorithms", "topologies", "sim", "executor", "tests", "docs", ".ci"]
TOP_LEVEL = [
    ".gitignore",
    ".pre-commit-config.yaml",
    "CHANGELOG.md",
    "Makefile",
    "README.md",
    "pyproject.toml",
]


def modules(*folders):
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def named(path):
    return path.relative_to(ROOT).as_posix()


def imported(source):
    """The top-level names that a module imports, wherever in it; a relative import stays in the package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.partition(".")[0]


def trespasses(source, file):
    """The names that a file of a package imports and may not."""
    package = file.partition("/")[0]
    allowed = {package, *MAY_IMPORT[package], *MAY_IMPORT_ALSO.get(file, ()), *sys.stdlib_module_names}
    return sorted(set(imported(source)) - allowed)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package):
    files = modules(package)

    assert files
    assert {named(f): bad for f in files if (bad := trespasses(f.read_text(), named(f)))} == {}


@pytest.mark.parametrize(
    "source, file, bad",
    [
        ("import executor.mpi", "sim/engine.py", ["executor"]),
        ("def late():\n    from sim import engine", "executor/mpi.py", ["sim"]),
        ("from topologies.units import us", "algorithms/ring.py", ["topologies"]),
        ("from algorithms.ir import mesh", "topologies/dgx.py", ["algorithms"]),
        ("import numba as nb", "algorithms/ops/attend.py", ["numba"]),
        ("import click", "algorithms/ring.py", ["click"]),
        ("import click", "algorithms/options.py", []),
        ("import json, numpy\nfrom . import ring\nfrom algorithms.ir import mesh", "algorithms/x.py", []),
    ],
)
def test_a_planted_import_is_judged(source, file, bad):
    assert trespasses(source, file) == bad


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_each_package_is_loaded_from_this_checkout(package):
    assert Path(importlib.import_module(package).__file__).parent == ROOT / package


def test_no_file_is_too_long():
    lengths = {named(f): len(f.read_text().splitlines()) for f in modules(*MAY_IMPORT, "tests")}

    assert {file: n for file, n in lengths.items() if n > LONGEST_FILE} == {}


def test_no_file_names_the_place_where_it_was_written():
    files = [path for folder in OURS for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [ROOT / name for name in TOP_LEVEL if (ROOT / name).exists()]
    texts = {named(f): f.read_text(errors="ignore") for f in files if "__pycache__" not in f.parts}

    assert {(file, word) for file, text in texts.items() for word in WORKPLACE if word in text} == set()
