"""What the shop knows: every event of its orders, every open exception, every refused command.

Written by `shop`, read by stories and screens. Decides nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from schemas.codes import ExceptionKind, TransferState
from schemas.events import PaymentEvent, PaymentException

#: Older lines are forgotten: a demo may run for days.
LINES_MAX: Final = 1_000


class Line(Struct, frozen=True, kw_only=True):
    """One line of the log that people read. `tone` chooses its colour."""

    at: datetime
    order: str
    text: str
    tone: str = "plain"


def is_unmined(event: PaymentEvent | None) -> bool:
    """Tell whether money of an order was seen that stands in no block."""
    return event is not None and any(
        transfer.state is TransferState.SEEN for transfer in event.transfers
    )


class Book:
    """Grows as messages come; wakes whoever waits for something in it."""

    def __init__(self) -> None:
        self.events: dict[str, list[PaymentEvent]] = {}
        self.exceptions: dict[str, PaymentException] = {}
        self.rejected: list[str] = []
        self.lines_total = 0
        self._lines: deque[Line] = deque(maxlen=LINES_MAX)
        self._changed = asyncio.Event()

    def last(self, order: str) -> PaymentEvent | None:
        """Give an order's last event."""
        events = self.events.get(order)
        return events[-1] if events else None

    def kinds(self, order: str) -> Sequence[str]:
        """Give what happened to an order, in sequence."""
        return [event.kind.value for event in self.events.get(order, ())]

    def open_exceptions(self, order: str) -> Sequence[PaymentException]:
        """Give what needs a person about an order."""
        return [one for one in self.exceptions.values() if one.open and one.order == order]

    def open_kinds(self, order: str) -> set[ExceptionKind]:
        """Give the kinds of what needs a person about an order."""
        return {one.kind for one in self.open_exceptions(order)}

    def add_event(self, event: PaymentEvent) -> None:
        """Take an event in."""
        self.events.setdefault(event.order, []).append(event)
        self.touch()

    def add_exception(self, exception: PaymentException) -> None:
        """Take the newest revision of an exception in."""
        self.exceptions[exception.exception] = exception
        self.touch()

    def add_rejected(self, sentence: str) -> None:
        """Take a refusal in."""
        self.rejected.append(sentence)
        self.touch()

    def add_line(self, line: Line) -> None:
        """Write a line into the log."""
        self._lines.append(line)
        self.lines_total += 1
        self.touch()

    def lines_since(self, count: int) -> Sequence[Line]:
        """Give the lines after the first `count`, as far as they are kept."""
        new = self.lines_total - count
        return list(self._lines)[-new:] if new > 0 else []

    def touch(self) -> None:
        """Wake whoever waits."""
        woken, self._changed = self._changed, asyncio.Event()
        woken.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds in the book."""
        while not condition():
            await self._changed.wait()

    async def changed(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()
