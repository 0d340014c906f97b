"""Rules between packages that import-linter cannot express; its contracts are in pyproject.toml."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = sorted((SOURCE / "cbid").rglob("*.py"))
MOST_MODULES = 230


def imported_names(tree: ast.AST, package: str) -> list[str]:
    """Return the absolute dotted names that a module of `package` imports."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - node.level + 1] if node.level else []
            start = ".".join([*base, node.module] if node.module else base)
            found += [f"{start}.{alias.name}" for alias in node.names]
    return found


def private_imports(tree: ast.AST, package: str) -> list[str]:
    """Return the private names and modules of other packages of cbid that a module of `package` imports.

    A package is a folder directly below cbid, or a module there. Dunder names such as `__version__` are public.
    """
    own = package.split(".")[:2]
    found = []
    for name in imported_names(tree, package):
        parts = name.split(".")
        private = any(part.startswith("_") and not part.endswith("__") for part in parts)
        if parts[0] == "cbid" and private and (parts[:2] != own or len(own) == 1):
            found.append(name)
    return found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from cbid.search._rows import Rows", ["cbid.search._rows.Rows"]),
        ("from ..search.index import _first", ["cbid.search.index._first"]),
        ("import cbid.search._rows", ["cbid.search._rows"]),
        ("from cbid.coders._own import f", []),
        ("from ._own import f", []),
        ("from cbid import __version__", []),
        ("from cbid.search import CodeIndex", []),
        ("from sklearn._loss import f", []),
    ],
)
def test_private_imports_are_recognised(code, found):
    assert private_imports(ast.parse(code), "cbid.coders") == found


def test_no_private_name_crosses_packages():
    crossing = {}
    for path in MODULES:
        package = ".".join(path.relative_to(SOURCE).parent.parts)
        if names := private_imports(ast.parse(path.read_text()), package):
            crossing[str(path.relative_to(SOURCE))] = names
    assert not crossing


def test_number_of_modules():
    assert len(MODULES) <= MOST_MODULES
