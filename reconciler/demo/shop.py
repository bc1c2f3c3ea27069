"""The shop: sends commands into `orders`, reads `payment-events` and what needs a person.

What a real shop's backend does, over the same topics. Writes the book.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from chains.heed import heed_cancellation
from reconciler.demo.book import Book, Line
from reconciler.demo.stage import Stage
from reconciler.demo.words import event_line, exception_line
from reconciler.kernel.clock import Clock
from reconciler.stream.promise import (
    Lane,
    OutcomeUnknown,
    Outgoing,
    Record,
    Stream,
    StreamUnavailable,
    Writer,
)
from reconciler.stream.topics import ORDERS, ORDERS_REJECTED, PAYMENT_EVENTS, PAYMENT_EXCEPTIONS
from schemas.codec import decode_as, encode, kind_name
from schemas.commands import ClaimPaid, PlaceOrder
from schemas.envelope import Envelope, derived_id, to_headers
from schemas.events import PaymentEvent, PaymentException

RECORDS_MAX: Final = 500
WAIT_S: Final = 1.0
#: What cannot be sent is tried so often, with a rest in between.
TRIES_MAX: Final = 10
REST_S: Final = 0.5

EVENTS: Final = Lane(PAYMENT_EVENTS, 0)
EXCEPTIONS: Final = Lane(PAYMENT_EXCEPTIONS, 0)
REJECTED: Final = Lane(ORDERS_REJECTED, 0)


class Shop:
    """One shop. `run_*` are jobs; `send` may be called as soon as `open` was."""

    def __init__(self, stream: Stream, stage: Stage, book: Book, clock: Clock) -> None:
        self._stream = stream
        self._stage = stage
        self._clock = clock
        self._writer: Writer = stream.writer("demo-shop")
        self._sending = asyncio.Lock()
        self._read_upto: dict[Lane, int] = {}
        self.book = book

    async def open(self) -> None:
        """Take the writer's name."""
        await self._writer.start()

    async def close(self) -> None:
        """Give the connection up."""
        await self._writer.close()

    async def send(self, *commands: PlaceOrder | ClaimPaid) -> None:
        """Send commands, all of them together; again, where the log was not to be had.

        A command that arrives twice is one command, by its idempotency key. **Raises**: `StreamError`
        after the last try.
        """
        messages = [self._outgoing(command) for command in commands]
        async with self._sending:
            for _ in range(TRIES_MAX - 1):
                try:
                    await self._writer.append(messages)
                except (StreamUnavailable, OutcomeUnknown):
                    await self._clock.sleep(REST_S)
                    await self._settle()
                else:
                    return
            await self._writer.append(messages)

    async def _settle(self) -> None:
        """Start the writer anew, which settles what became of its last append."""
        with contextlib.suppress(StreamUnavailable):
            await self._writer.start()

    def _outgoing(self, command: PlaceOrder | ClaimPaid) -> Outgoing:
        envelope = Envelope(
            id=derived_id("demo", command.idempotency_key),
            type=kind_name(command),
            time=self._clock.now(),
            subject=command.reference,
        )
        return Outgoing(
            lane=Lane(ORDERS, 0),
            key=command.reference.encode(),
            value=encode(command),
            headers=to_headers(envelope),
        )

    async def read_events(self) -> None:
        """Take in events, for ever."""
        await self._read(EVENTS, self._take_event)

    async def read_exceptions(self) -> None:
        """Take in exceptions, for ever."""
        await self._read(EXCEPTIONS, self._take_exception)

    async def read_rejected(self) -> None:
        """Take in what was refused, for ever."""
        await self._read(REJECTED, self._take_rejected)

    async def caught_up(self) -> None:
        """Wait until everything that is in the topics now is in the book."""
        for lane in (EVENTS, EXCEPTIONS, REJECTED):
            _, end = await self._stream.bounds(lane)
            while self._read_upto.get(lane, 0) < end:
                await self.book.changed()

    async def _read(self, lane: Lane, take: Callable[[Record], None]) -> None:
        offset = 0
        while True:
            heed_cancellation()
            try:
                batch = await self._stream.read(
                    lane, from_offset=offset, records_max=RECORDS_MAX, wait_s=WAIT_S
                )
            except StreamUnavailable:
                await self._clock.sleep(REST_S)
                continue
            for record in batch.records:
                take(record)
            if batch.next_offset != offset:
                offset = self._read_upto[lane] = batch.next_offset
                self.book.touch()

    def _take_event(self, record: Record) -> None:
        event = decode_as(PaymentEvent, record.value or b"")
        before = self.book.last(event.order)
        self.book.add_event(event)
        text, tone = event_line(event, before, self._stage)
        self.book.add_line(Line(at=record.time, order=event.order, text=text, tone=tone))

    def _take_exception(self, record: Record) -> None:
        found = decode_as(PaymentException, record.value or b"")
        before = self.book.exceptions.get(found.exception)
        self.book.add_exception(found)
        if before is None or before.open != found.open:
            text, tone = exception_line(found, self._stage)
            self.book.add_line(Line(at=record.time, order=found.order or "-", text=text, tone=tone))

    def _take_rejected(self, record: Record) -> None:
        headers = {name: value.decode() for name, value in record.headers}
        code = headers.get("rejected_code", "?")
        sentence = f"{record.key.decode()}: {code}, {headers.get('rejected_reason', '')}"
        self.book.add_rejected(sentence)
        self.book.add_line(
            Line(at=record.time, order=record.key.decode(), text=f"refused: {code}", tone="bad")
        )
