"""deploy/RELIABILITY.md names tests: each of them is there, under that name, in that file."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "deploy" / "RELIABILITY.md"
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text())))
PATHS = sorted(set(re.findall(r"\]\(\.\./([^)#]+)\)", PAGE.read_text())))


def functions_of(path: Path) -> set[str]:
    """The names of a file's functions and classes, at its top and inside its classes."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    tree = ast.parse(path.read_text())
    # A stateful machine is run by the test case that stands at the top of its file.
    assigned = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return assigned | {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_every_test_that_the_page_names_is_there(path: str, name: str) -> None:
    file = ROOT / path
    assert file.is_file(), f"{path} is not there"
    assert name in functions_of(file), f"{path} has no {name}"


@pytest.mark.parametrize("path", PATHS)
def test_every_link_of_the_page_leads_somewhere(path: str) -> None:
    assert (ROOT / path).exists()
