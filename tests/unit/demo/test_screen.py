"""What fits a screen."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from rich.console import Console

from reconciler.demo.book import Book, Line
from reconciler.demo.performance import YOURS
from reconciler.demo.screen import _COLUMNS, Screen
from reconciler.demo.stories import STORIES

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def frame(height: int) -> list[str]:
    """Draw the longest table that there is: every story, and the orders of whoever watches."""
    book = Book()
    for number in range(40):
        book.add_line(Line(at=NOON, order="exact", text=f"line {number}"))
    book.events = {ask.order: [] for ask in YOURS}
    play = SimpleNamespace(
        book=book,
        stage=SimpleNamespace(chains={}, tips={}),
        stories=STORIES,
        outcomes={},
        invited=True,
        script=SimpleNamespace(paid=SimpleNamespace(said={})),
    )
    console = Console(file=io.StringIO(), width=120, height=height)
    console.print(Screen(play, console)._frame())
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("height", [24, 30, 60])
def test_every_order_the_newest_line_and_how_to_go_on_fit(height: int):
    shown = frame(height)
    assert len(shown) <= height
    assert "Twelve payments" in shown[1]
    assert all(any(ask.order in line for line in shown) for ask in YOURS)
    assert "line 39" in shown[-2]
    assert "From another terminal" in shown[-1]


@pytest.mark.parametrize("width", sorted({max(80, column.from_width) for column in _COLUMNS}))
def test_no_column_is_cut_where_another_one_joins(width: int):
    shown = [column for column in _COLUMNS if column.from_width <= width]
    assert sum(column.width + 1 for column in shown) <= width
