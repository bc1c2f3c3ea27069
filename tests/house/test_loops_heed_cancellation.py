"""A loop without an end must end when its task is asked to, also when the asking was lost (chains/heed.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def modules() -> list[str]:
    return sorted(
        str(path.relative_to(ROOT))
        for house in ("reconciler", "chains")
        for path in (ROOT / house).rglob("*.py")
    )


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """Walk what a function or a loop does itself, without what functions in it do."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from inside(child)


def endless_loops(module: str) -> Iterator[ast.While]:
    """Give the loops of tasks that begin anew after errors, or never end by themselves."""
    for function in ast.walk(ast.parse((ROOT / module).read_text())):
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        for loop in inside(function):
            if not (isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant)):
                continue
            parts = list(inside(loop))
            waits = any(isinstance(part, ast.Await | ast.AsyncWith) for part in parts)
            ends = any(isinstance(part, ast.Return | ast.Break) for part in parts)
            catches = any(isinstance(part, ast.Try) and part.handlers for part in parts)
            if waits and (catches or not ends):
                yield loop


@pytest.mark.parametrize("module", modules())
def test_endless_loops_begin_with_heeding(module: str) -> None:
    deaf = [
        loop.lineno
        for loop in endless_loops(module)
        if ast.unparse(loop.body[0]) != "heed_cancellation()"
    ]
    assert not deaf, f"{module} lines {deaf}: begin the loop with heed_cancellation()"


def test_the_loops_are_found() -> None:
    assert sum(1 for module in modules() for _ in endless_loops(module)) > 20


@pytest.mark.parametrize("module", modules())
def test_nobody_waits_with_wait_for(module: str) -> None:
    """Before Python 3.12 it loses a cancellation that comes as what it waits for is done."""
    assert "wait_for(" not in (ROOT / module).read_text().replace("def wait_for(", "")
