"""Recorded messages on their way through the services again, in a database of their own.

Reads lines, writes that database, gives what comes out. The lines' order is the order of application:
batches are cut behind each watermark, and what it made due is judged before anything else is applied.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct

from reconciler.kernel.refusals import Refusal
from reconciler.services.apply_commands import apply_commands
from reconciler.services.apply_facts import InboxSeen, apply_facts
from reconciler.services.context import ServiceContext
from reconciler.services.incoming import read_record
from reconciler.services.sweep import sweep_lane
from reconciler.storage import recording
from reconciler.storage.engine import make_engine
from reconciler.storage.schema_version import migrate
from reconciler.storage.unit_of_work import Store
from reconciler.stream.promise import Batch, Lane, Record, partition_of
from reconciler.stream.topics import (
    ORDERS,
    ORDERS_REJECTED,
    PAYMENT_EVENTS,
    PAYMENT_EXCEPTIONS,
    RELAY_PROGRESS,
    requests_topic,
    watchlist_topic,
)
from schemas.caip import ChainName, family_of
from schemas.codec import FACT_KINDS, Line
from schemas.codes import Rejection, sentence
from schemas.envelope import Envelope, Headers, to_headers
from schemas.facts import BlockRetracted, TransactionLookedUp, Watermark

#: More records in one transaction gain nothing.
BATCH_MAX: Final = 250

#: Only watermarks ask how far `orders` was applied.
NO_INBOX: Final = InboxSeen(None)

_TOLD: Final = (PAYMENT_EVENTS, PAYMENT_EXCEPTIONS)
_FOR_THE_CHAIN: Final = {kind.__name__ for kind in (Watermark, BlockRetracted, TransactionLookedUp)}
_headers_of: Final = msgspec.msgpack.Decoder(list[tuple[str, bytes]]).decode


class BadLine(Refusal):
    """A line cannot be applied; the sentence names it by its number."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"line {number}: {what}")


class Rejected(Struct, frozen=True):
    """A command was refused, as `orders-rejected` would have told its sender."""

    line: int
    code: str
    reason: str


class CameOut(Struct, frozen=True, kw_only=True):
    """What some lines led to."""

    told: Sequence[Line] = ()
    rejected: Sequence[Rejected] = ()


class _Waiting(Struct, frozen=True):
    """A record that is not applied yet, and the line that it stands in."""

    number: int
    record: Record


@asynccontextmanager
async def empty_store() -> AsyncIterator[Store]:
    """Open an empty database in memory."""
    engine = make_engine("sqlite+aiosqlite://")
    try:
        await migrate(engine)
        yield Store(engine)
    finally:
        await engine.dispose()


class Replay:
    """Takes lines one by one; gives what came out whenever something did.

    A line without `partition` goes where its key says, and what speaks for a whole chain to every lane.
    A watermark without `inbox_until` is taken as if `orders` had been applied up to its own reading or
    recording, whichever was later: the file's order says what stood before it.
    """

    def __init__(self, store: Store, context: ServiceContext) -> None:
        self._store = store
        self._context = context
        self._ends: dict[str, int] = {}
        self._held: dict[str, int] = {}
        self._waiting: list[_Waiting] = []
        self._parked: dict[tuple[int, int], int] = {}
        self._told_upto = 0
        self._outputs = {ORDERS_REJECTED, RELAY_PROGRESS, *_TOLD}
        for chain in context.lanes:
            self._outputs |= {requests_topic(chain), watchlist_topic(family_of(chain))}
        self.passed_over: Counter[str] = Counter()

    async def apply(self, number: int, line: Line) -> CameOut:
        """Take a line. **Raises**: `BadLine`."""
        if line.topic in self._outputs:
            self.passed_over[line.topic] += 1
            return CameOut()
        came_out: list[CameOut] = []
        for lane in self._lanes(number, line):
            if self._waiting and self._waiting[0].record.lane != lane:
                came_out.append(await self._flush(NO_INBOX))
            record = self._record(number, lane, line)
            self._waiting.append(_Waiting(number, record))
            if line.type == Watermark.__name__ and lane.topic != ORDERS:
                came_out.append(await self._flush(_inbox_of(line, record)))
        if len(self._waiting) >= BATCH_MAX:
            came_out.append(await self._flush(NO_INBOX))
        return _together(came_out)

    async def end(self) -> CameOut:
        """Apply what waits; commands whose order never came are refused."""
        came_out = await self._flush(NO_INBOX)
        waiting = await self._store.read(recording.parked_places)
        refused = [
            Rejected(
                self._parked.get(place, 0),
                Rejection.UNKNOWN_ORDER,
                sentence(Rejection.UNKNOWN_ORDER),
            )
            for place in waiting
        ]
        return CameOut(told=came_out.told, rejected=[*came_out.rejected, *refused])

    # Reading lines

    def _lanes(self, number: int, line: Line) -> Iterable[Lane]:
        chain = self._context.chain_of_topic.get(line.topic)
        if chain is None and line.topic != ORDERS:
            known = ", ".join([ORDERS, *sorted(self._context.chain_of_topic)])
            raise BadLine(number, f"expected the topic {known}, found {line.topic!r}")
        count = self._count(chain)
        if line.partition is None and chain is not None and line.type in _FOR_THE_CHAIN:
            return [Lane(line.topic, partition) for partition in range(count)]
        partition = line.partition
        if partition is None:
            partition = partition_of(line.key.encode(), count)
        if partition >= count:
            what = f"expected partition 0 … {count - 1} of {line.topic}, found {partition}"
            raise BadLine(number, what)
        return [Lane(line.topic, partition)]

    def _count(self, chain: ChainName | None) -> int:
        return self._context.orders_partitions if chain is None else self._context.lanes[chain]

    def _record(self, number: int, lane: Lane, line: Line) -> Record:
        end = self._ends.get(lane.name, 0)
        offset = end if line.offset is None else line.offset
        self._ends[lane.name] = max(end, offset + 1)
        record = Record(
            lane=lane,
            offset=offset,
            key=line.key.encode(),
            value=_value_of(number, line),
            headers=_headers(number, line),
            time=line.time,
        )
        if lane.topic != ORDERS and line.type and line.type not in FACT_KINDS:
            known = ", ".join(sorted(FACT_KINDS))
            raise BadLine(number, f"expected one of {known}, found {line.type!r}")
        return record

    # Applying

    async def _flush(self, inbox: InboxSeen) -> CameOut:
        """Apply what waits as one batch, and judge what it made due."""
        if not self._waiting:
            return CameOut()
        lane = self._waiting[0].record.lane
        records = [each.record for each in self._waiting]
        batch = Batch(lane=lane, records=records, next_offset=self._ends[lane.name])
        held = self._held.get(lane.name)
        if lane.topic == ORDERS:
            await self._apply_commands(batch, held)
        else:
            await apply_facts(self._store, self._context, batch, held=held, inbox=inbox)
            while await sweep_lane(self._store, self._context, lane.name):
                pass
        self._held[lane.name] = batch.next_offset
        self._waiting.clear()
        return await self._collect()

    async def _apply_commands(self, batch: Batch, held: int | None) -> None:
        partition = batch.lane.partition
        places = {(partition, each.record.offset): each.number for each in self._waiting}
        self._parked.update(places)
        done = await apply_commands(self._store, self._context, batch, held=held)
        if done.parked == 0 and done.rejected == 0:
            for place in places:
                self._parked.pop(place, None)

    async def _collect(self) -> CameOut:
        """Take what was told since the last time out of the outbox."""
        told: list[Line] = []
        rejected: list[Rejected] = []
        for row in await recording.take_outbox(self._store):
            if row.topic in _TOLD:
                told.append(outgoing_line(row))
            elif row.topic == ORDERS_REJECTED:
                rejected.append(self._rejected(dict(_headers_of(row.headers))))
        return CameOut(told=told, rejected=rejected)

    def _rejected(self, headers: dict[str, bytes]) -> Rejected:
        place = (int(headers["rejected_partition"]), int(headers["rejected_offset"]))
        return Rejected(
            self._parked.pop(place, 0),
            headers["rejected_code"].decode(),
            headers["rejected_reason"].decode(),
        )


def outgoing_line(row: recording.Told) -> Line:
    """Write a message of the outbox in the form in which messages come in."""
    return Line(
        topic=row.topic,
        key=row.key.decode(errors="replace"),
        type=row.type,
        time=row.recorded_at,
        value=Raw(row.value or b"null"),
    )


def _inbox_of(line: Line, record: Record) -> InboxSeen:
    if line.inbox_until is not UNSET:
        return InboxSeen(line.inbox_until)
    message = read_record(record, FACT_KINDS).message
    read_at: datetime = message.read_at if isinstance(message, Watermark) else record.time
    return InboxSeen(max(read_at, record.time))


def _value_of(number: int, line: Line) -> bytes:
    if line.value_base64 is None:
        return bytes(line.value)
    try:
        return base64.b64decode(line.value_base64, validate=True)
    except binascii.Error as error:
        raise BadLine(number, f"value_base64: {error}") from None


def _headers(number: int, line: Line) -> Headers:
    if line.headers_base64 is None:
        return to_headers(Envelope(id="", type=line.type, time=line.time))
    try:
        return tuple(
            (name, base64.b64decode(value, validate=True)) for name, value in line.headers_base64
        )
    except binascii.Error as error:
        raise BadLine(number, f"headers_base64: {error}") from None


def _together(parts: Sequence[CameOut]) -> CameOut:
    return CameOut(
        told=[line for part in parts for line in part.told],
        rejected=[each for part in parts for each in part.rejected],
    )
