"""Amounts and names as people read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.demo.performance import GO_ON
from reconciler.demo.stage import coin_of, token_of

README = Path(__file__).parents[3] / "README.md"
SIX = token_of(1, "0x5FbDB2315678afecb367f032d93F642f64180aa3", decimals=6)
EIGHTEEN = coin_of(1, "AST")


@pytest.mark.parametrize(
    ("money", "amount", "words"),
    [
        (SIX, 0, "0.00 DUSD"),
        (SIX, 25_000_000, "25.00 DUSD"),
        (SIX, 25_500_000, "25.50 DUSD"),
        (SIX, 1, "0.000001 DUSD"),
        (EIGHTEEN, 5 * 10**16, "0.05 AST"),
        (EIGHTEEN, 10**18 + 1, "1.000000000000000001 AST"),
    ],
)
def test_an_amount_has_two_decimals_and_as_many_more_as_it_needs(money, amount: int, words: str):
    assert money.words(amount) == words
    assert money.units(words.partition(" ")[0]) == amount


def test_the_last_screen_names_sections_that_are_there():
    headings = [line for line in README.read_text().splitlines() if line.startswith("## ")]
    assert {f"## {section}" for section in GO_ON} <= set(headings)
