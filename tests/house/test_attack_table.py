"""The attack table of SECURITY.md and the tests of attacks are the same list."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(
    r"^\| (?P<attack>.+) \| `(?P<test>test_attack_\w+)` \| (?P<result>.+) \|$", re.MULTILINE
)


def rows() -> list[tuple[str, str, str]]:
    text = (ROOT / "SECURITY.md").read_text()
    section = text.partition("## Attacks tried")[2].partition("\n## ")[0]
    return [(row["attack"], row["test"], row["result"]) for row in ROW.finditer(section)]


def attack_tests() -> list[str]:
    found = []
    for path in sorted((ROOT / "tests" / "cases" / "attacks").glob("test_*.py")):
        tree = ast.parse(path.read_text())
        found += [
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("test_")
        ]
    return found


def test_every_row_names_a_test_that_exists_and_every_test_has_a_row():
    assert len(rows()) > 30
    assert sorted(test for _, test, _ in rows()) == sorted(attack_tests())


def test_every_line_of_the_table_is_a_row():
    section = (ROOT / "SECURITY.md").read_text().partition("## Attacks tried")[2]
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    assert len(lines) == len(rows()) + 2
