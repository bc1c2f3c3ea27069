"""Which rooms may know which libraries. Which rooms may know each other is in .importlinter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SQL = (
    "reconciler/storage/",
    "reconciler/services/",
    "reconciler/stream/sql",
    "reconciler/wiring.py",
)
KAFKA = ("reconciler/stream/kafka",)
TALKS_TO_NODES = (
    "chains/http_node.py",
    "chains/rpc.py",
    "chains/evm/",
    "chains/utxo/",
    "chains/tron/",
    "chains/solana/",
)
SERVES_HTTP = (
    "chains/devnet/",
    "reconciler/observability/",
    "reconciler/api/",
    "reconciler/webhooks/",
    "reconciler/demo/",
)

#: library -> the only paths that may import it.
ONLY_IN: dict[str, tuple[str, ...]] = {
    "sqlalchemy": SQL,
    "alembic": ("reconciler/storage/",),
    "asyncpg": ("reconciler/storage/", "reconciler/stream/sql"),
    "aiosqlite": ("reconciler/storage/", "reconciler/stream/sql"),
    "aiokafka": KAFKA,
    "aiohttp": TALKS_TO_NODES + SERVES_HTTP,
}

#: Paths that decide: they are handed what they need and give an answer.
PURE = (
    "schemas/",
    "chains/forks.py",
    "chains/utxo/block.py",
    "chains/utxo/node_block.py",
    "chains/utxo/pays.py",
    "chains/utxo/transactions.py",
    "reconciler/model/",
    "reconciler/matcher/",
    "reconciler/lifecycle/",
)
IMPURE = {"asyncio", "aiohttp", "aiokafka", "sqlalchemy", "socket", "subprocess", "random", "time"}


def rooms() -> list[str]:
    return sorted(
        path.name
        for house in ("reconciler", "chains")
        for path in (ROOT / house).iterdir()
        if path.is_dir() and any(path.glob("*.py"))
    )


@pytest.mark.parametrize("room", rooms())
def test_room_is_listed_in_the_import_contracts(room: str) -> None:
    words = re.findall(r"[a-z_]+", (ROOT / ".importlinter").read_text())
    assert room in words, f"add {room} to its layer in .importlinter"


def modules() -> list[str]:
    return sorted(
        str(path.relative_to(ROOT))
        for house in ("reconciler", "chains", "schemas")
        for path in (ROOT / house).rglob("*.py")
    )


def imports(module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("module", modules())
def test_module_imports_only_libraries_of_its_room(module: str) -> None:
    strange = [
        library
        for library in imports(module)
        if library in ONLY_IN and not module.startswith(ONLY_IN[library])
    ]
    assert not strange, f"{module} may not import {strange}"


@pytest.mark.parametrize("module", [each for each in modules() if each.startswith(PURE)])
def test_what_decides_is_pure(module: str) -> None:
    assert IMPURE.isdisjoint(imports(module))
