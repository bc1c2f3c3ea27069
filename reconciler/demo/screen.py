"""What a person sees: a table of the orders, a log below it, and each story's end above it.

Reads the play; writes standard output. Where that is no terminal it writes lines, one a fact. Colours
are those of the terminal itself, so that they are readable on light and dark.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chains.heed import heed_cancellation
from reconciler.demo.book import Line
from reconciler.demo.play import Outcome, Play
from reconciler.demo.words import (
    amount_words,
    attention_words,
    command_words,
    number_words,
    phase_words,
    time_left,
)
from schemas.events import PaymentEvent

#: The screen is drawn again when something changed, and a countdown at least so often.
REDRAW_S: Final = 0.5
#: Not more often than this: text that moves faster cannot be read.
REST_S: Final = 0.12
LINES_MIN: Final = 1
LINES_MAX: Final = 12

_STYLES: Final = {
    "plain": "",
    "quiet": "dim",
    "good": "green",
    "busy": "cyan",
    "warn": "magenta",
    "bad": "bold red",
}


class Column(Struct, frozen=True):
    """One column: from which width of the screen on it is shown, and its own width."""

    name: str
    title: str
    from_width: int
    width: int


_COLUMNS: Final = (
    Column("number", "#", 0, 2),
    Column("story", "Story", 123, 16),
    Column("order", "Order", 0, 14),
    Column("customer", "The customer", 106, 25),
    Column("payment", "Payment", 0, 19),
    Column("amount", "Received", 0, 20),
    Column("attention", "Attention", 80, 14),
    Column("last", "Last event", 138, 14),
    Column("left", "Ends", 0, 5),
)


class Row(Struct, frozen=True, kw_only=True):
    """One order of the table; `number` is empty for what belongs to no story."""

    number: str
    story: str
    order: str
    outcome: Outcome | None


class Screen:
    """Shows one play for as long as `run` runs."""

    def __init__(self, play: Play, console: Console) -> None:
        self._play = play
        self._console = console
        self._shown_lines = 0
        self._shown_outcomes: set[int] = set()

    async def run(self) -> None:
        """Show until cancelled."""
        if self._console.is_terminal:
            await self._draw()
        else:
            await self._write()

    def finish(self) -> None:
        """Write what `run` had no time for."""
        if not self._console.is_terminal:
            self._write_lines()
        self._tell_endings()

    async def _draw(self) -> None:
        with Live(
            self._frame(), console=self._console, auto_refresh=False, vertical_overflow="crop"
        ) as live:
            try:
                while True:
                    heed_cancellation()
                    self._tell_endings()
                    live.update(self._frame(), refresh=True)
                    await self._wait()
            finally:
                live.update(self._frame(log=False), refresh=True)

    async def _write(self) -> None:
        while True:
            heed_cancellation()
            self._write_lines()
            self._tell_endings()
            await self._wait()

    def _write_lines(self) -> None:
        book = self._play.book
        for line in book.lines_since(self._shown_lines):
            self._console.print(_log_line(line))
        self._shown_lines = book.lines_total

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REDRAW_S):
                await self._play.book.changed()
        await asyncio.sleep(REST_S)

    def _tell_endings(self) -> None:
        """Print how stories ended that have since; above the table, where there is one."""
        new = [n for n in self._play.outcomes if n not in self._shown_outcomes]
        self._shown_outcomes.update(new)
        for number in new:
            title, *below = _ending(self._play.outcomes[number])
            self._console.print()
            self._console.print(title)
            for text in below:
                # lines of a file are not broken; those of a terminal are, and stay indented
                if self._console.is_terminal:
                    self._console.print(Padding(text, (0, 1, 0, 5)))
                else:
                    self._console.print(Text("     ").append_text(text))
        if new and not self._console.is_terminal:
            self._console.print()

    def _frame(self, *, log: bool = True) -> Group:
        rows = self._rows()
        parts: list[Text | Table] = [self._head(), self._table(rows)]
        if log:
            room = self._console.height - len(rows) - 6
            count = max(LINES_MIN, min(LINES_MAX, room))
            lines = self._play.book.lines_since(max(0, self._play.book.lines_total - count))
            padding = [Text("")] * (count - len(lines))
            parts += [Text(""), *(_log_line(line) for line in lines), *padding, self._foot()]
        return Group(*parts)

    def _head(self) -> Text:
        stage = self._play.stage
        blocks = "  ".join(
            f"{chain.label} block {stage.tips[name].height}"
            for name, chain in stage.chains.items()
            if name in stage.tips
        )
        count = number_words(len(self._play.stories))
        done = f"{len(self._play.outcomes)} of {len(self._play.stories)} ended"
        return Text.assemble(
            (f"\n {count.capitalize()} payments, side by side", "bold"),
            (f"  {done}  {blocks}\n", "dim"),
            no_wrap=True,
            overflow="ellipsis",
        )

    def _foot(self) -> Text:
        if not self._play.invited:
            return Text(" Ctrl-C ends the demo", style="dim")
        return Text.assemble(
            (" From another terminal: ", "bold"),
            (f"{command_words()} demo pay yours-1 40", "cyan"),
            ("  Ctrl-C ends  also: orders, claim, reorganise", "dim"),
            overflow="ellipsis",
            no_wrap=True,
        )

    def _rows(self) -> Sequence[Row]:
        rows: list[Row] = []
        told: set[str] = set()
        for story in self._play.stories:
            for number, ask in enumerate(story.asks):
                told.add(ask.order)
                rows.append(
                    Row(
                        number="" if number else str(story.number),
                        story="" if number else story.title,
                        order=ask.order,
                        outcome=self._play.outcomes.get(story.number),
                    )
                )
        others = [order for order in self._play.book.events if order not in told]
        rows += [Row(number="", story="Yours", order=order, outcome=None) for order in others]
        return rows

    def _table(self, rows: Sequence[Row]) -> Table:
        table = Table(box=None, pad_edge=True, padding=(0, 1, 0, 0), header_style="dim")
        columns = [one for one in _COLUMNS if one.from_width <= self._console.width]
        for column in columns:
            table.add_column(
                column.title,
                width=column.width,
                no_wrap=True,
                overflow="ellipsis",
                justify="right" if column.name in {"number", "left"} else "left",
            )
        for row in rows:
            cells = self._cells(row)
            table.add_row(*(cells[column.name] for column in columns))
        return table

    def _cells(self, row: Row) -> dict[str, Text]:
        cells = {column.name: Text("") for column in _COLUMNS}
        cells["number"] = Text(row.number, style="dim")
        cells["story"] = Text(row.story)
        cells["order"] = Text(row.order)
        cells["customer"] = Text(self._play.script.paid.said.get(row.order, ""))
        event = self._play.book.last(row.order)
        if event is None:
            cells["payment"] = Text("not placed yet", style="dim")
        else:
            self._fill(cells, event)
        if row.outcome is not None:
            right = not row.outcome.wrong
            cells["left"] = Text(
                "right" if right else "wrong", style="green" if right else "bold red"
            )
        return cells

    def _fill(self, cells: dict[str, Text], event: PaymentEvent) -> None:
        stage = self._play.stage
        text, tone = phase_words(event, stage)
        cells["payment"] = Text(text, style=_STYLES[tone])
        cells["amount"] = Text(amount_words(event, stage))
        cells["attention"] = Text(attention_words(event), style="magenta")
        cells["last"] = Text(event.kind.value.replace("_", " "), style="dim")
        cells["left"] = Text(time_left(event, self._play.clock.now()))


def _log_line(line: Line) -> Text:
    return Text.assemble(
        (f" {line.at:%H:%M:%S}  ", "dim"),
        f"{line.order:<14} ",
        (line.text, _STYLES[line.tone]),
        no_wrap=True,
        overflow="ellipsis",
    )


def _ending(outcome: Outcome) -> Sequence[Text]:
    """Say how a story ended: its title, its events, and one sentence."""
    story, right = outcome.story, not outcome.wrong
    mark = ("ended right", "green") if right else ("ENDED WRONG", "bold red")
    told = [Text.assemble((f" {story.number:>2}  {story.title}", "bold"), "  ", mark)]
    for order, kinds in outcome.events.items():
        chain = " → ".join(kind.replace("_", " ") for kind in kinds)
        told.append(Text(f"{order}: {chain}", style="dim"))
    told.append(Text(outcome.sentence))
    told += [Text(wrong, style="red") for wrong in outcome.wrong]
    return told
