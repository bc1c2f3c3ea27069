"""The failure cases by id: none without a test, no test of an id that does not exist."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.cases.case_list import BY_THEIR_RULE, CASES, OWED

FOLDER = Path(__file__).parents[1] / "cases"
NAME = re.compile(r"test_(?P<id>[a-z]\d\d)_(?P<story>[a-z0-9_]{10,})")


def named_tests() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(FOLDER.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                match = NAME.fullmatch(node.name)
                if match:
                    found[match["id"].upper()].append(f"{path.name}::{node.name}")
    return found


TESTS = named_tests()


def test_there_are_81_cases_of_eight_kinds():
    assert len(CASES) == 81
    kinds = {kind: sum(name.startswith(kind) for name in CASES) for kind in "FTRGBDMK"}
    assert kinds == {"F": 13, "T": 13, "R": 15, "G": 5, "B": 10, "D": 6, "M": 14, "K": 5}


@pytest.mark.parametrize("case", CASES)
def test_every_case_has_a_test_named_by_it(case: str):
    assert TESTS[case], f"CH-{case} {CASES[case]}: no test_{case.lower()}_… in tests/cases"


def test_no_test_is_named_after_a_case_that_does_not_exist():
    assert set(TESTS) <= set(CASES)


def test_what_is_owed_and_what_is_shown_by_its_rule_are_cases():
    assert set(BY_THEIR_RULE) | set(OWED) <= set(CASES)


@pytest.mark.parametrize("case", [name for name in CASES if name.startswith("B")])
def test_every_bitcoin_case_is_shown_from_a_node_s_bytes_to_events(case: str):
    assert any(name.startswith("test_bitcoin_on_") for name in TESTS[case])
