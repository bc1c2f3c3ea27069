"""`reconciler replay`: old traffic through the present rules, in an empty database in memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, TextIO

import msgspec
from cyclopts import Parameter
from msgspec import Raw, Struct

from reconciler.commands.common import DEFAULT_CONFIG, DONE, BadArgument, ConfigFile, put, say
from reconciler.commands.progress import progress
from reconciler.config import Settings, load_settings
from reconciler.services.apply_commands import apply_commands
from reconciler.services.apply_facts import InboxSeen, apply_facts
from reconciler.services.context import ServiceContext
from reconciler.services.sweep import sweep_lane
from reconciler.storage.engine import make_engine
from reconciler.storage.pages import pages, snapshot
from reconciler.storage.schema_version import migrate
from reconciler.storage.unit_of_work import Store
from reconciler.stream.promise import Batch, Lane, Record, partition_of
from reconciler.stream.topics import ORDERS, PAYMENT_EVENTS, PAYMENT_EXCEPTIONS
from reconciler.wiring import context_of
from schemas.codec import Line
from schemas.envelope import Envelope, to_headers
from schemas.facts import BlockRetracted, TransactionLookedUp, Watermark

#: A line longer than a message may be is no message.
LINE_BYTES_MAX: Final = 4 * 1_048_576

_OUT: Final = (PAYMENT_EVENTS, PAYMENT_EXCEPTIONS)
_FOR_THE_CHAIN: Final = {kind.__name__ for kind in (Watermark, BlockRetracted, TransactionLookedUp)}
_decode_line: Final = msgspec.json.Decoder(Line).decode
_write_line: Final = msgspec.json.Encoder().encode


async def replay(
    file: Annotated[
        Path, Parameter(help="JSON lines: topic, key, type, time, value; facts and commands.")
    ],
    /,
    *,
    config: ConfigFile = DEFAULT_CONFIG,
) -> int:
    """Apply recorded facts, commands and decisions in order, and print what comes out.

    Prints the messages of payment-events and payment-exceptions, one a line in the same form. The
    settings' routes apply to every order, which shows what another policy would have done. Reads and
    writes nothing of the service: its database is empty, in memory, and gone at the end.
    """
    settings = load_settings(config)
    try:
        with file.open(encoding="utf-8") as lines:
            await _replay(lines, settings, file.stat().st_size)
    except OSError as error:
        raise BadArgument(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadArgument(f"{file}: {error}") from None
    return DONE


async def _replay(lines: TextIO, settings: Settings, size: int) -> None:
    async with empty_store() as store:
        run = Replay(store, context_of(settings))
        with progress("bytes", size, shown=True) as advance:
            for number, text in enumerate(lines, start=1):
                await run.apply(read_line(number, text))
                advance(len(text.encode()))
        async for line in run.results():
            put(_write_line(line).decode())
        for topic, count in sorted(run.passed_over.items()):
            say(f"passed over: {count} of {topic}, which only tells what came out")


@asynccontextmanager
async def empty_store() -> AsyncIterator[Store]:
    """Open an empty database in memory."""
    engine = make_engine("sqlite+aiosqlite://")
    try:
        await migrate(engine)
        yield Store(engine)
    finally:
        await engine.dispose()


class Outcome(Struct, kw_only=True):
    """A message of the outbox."""

    id: int
    topic: str
    key: bytes
    type: str
    value: bytes | None
    recorded_at: datetime


class Replay:
    """Recorded messages on their way through the services."""

    def __init__(self, store: Store, context: ServiceContext) -> None:
        self._store = store
        self._context = context
        self._next: dict[Lane, int] = defaultdict(int)
        self.passed_over: Counter[str] = Counter()

    async def apply(self, line: Line) -> None:
        """Apply one message, and judge what it made due."""
        if line.topic == ORDERS:
            lane = Lane(ORDERS, self._partition(line, self._context.orders_partitions))
            await self._apply_command(lane, line)
        elif line.topic in self._context.chain_of_topic:
            for lane in self._lanes(line):
                await self._apply_fact(lane, line)
        else:
            self.passed_over[line.topic] += 1

    async def results(self) -> AsyncIterator[Line]:
        """Give what came out, in order."""
        async with snapshot(self._store.engine) as work:
            async for page in pages(work, Outcome, "outbox", "id"):
                for found in page:
                    if found.topic in _OUT:
                        yield _outgoing(found)

    async def _apply_command(self, lane: Lane, line: Line) -> None:
        held = self._held(lane)
        await apply_commands(self._store, self._context, self._batch(lane, line), held=held)

    async def _apply_fact(self, lane: Lane, line: Line) -> None:
        held = self._held(lane)
        # In a file that does not say it, what stands above the line had been applied.
        inbox = InboxSeen(line.inbox_until or line.time)
        batch = self._batch(lane, line)
        await apply_facts(self._store, self._context, batch, held=held, inbox=inbox)
        while await sweep_lane(self._store, self._context, lane.name):
            pass

    def _lanes(self, line: Line) -> Iterable[Lane]:
        count = self._context.lanes[self._context.chain_of_topic[line.topic]]
        if line.partition is None and line.type in _FOR_THE_CHAIN:
            return [Lane(line.topic, partition) for partition in range(count)]
        return [Lane(line.topic, self._partition(line, count))]

    @staticmethod
    def _partition(line: Line, count: int) -> int:
        if line.partition is None:
            return partition_of(line.key.encode(), count)
        if line.partition >= count:
            raise BadArgument(
                f"a line comes from partition {line.partition} of {line.topic}, and the settings "
                f"have {count}"
            )
        return line.partition

    def _held(self, lane: Lane) -> int | None:
        return self._next[lane] or None

    def _batch(self, lane: Lane, line: Line) -> Batch:
        offset = self._next[lane]
        self._next[lane] = offset + 1
        record = Record(
            lane=lane,
            offset=offset,
            key=line.key.encode(),
            value=bytes(line.value),
            headers=to_headers(Envelope(id="", type=line.type, time=line.time)),
            time=line.time,
        )
        return Batch(lane=lane, records=(record,), next_offset=offset + 1)


def read_line(number: int, text: str) -> Line:
    """Read a line of a file. **Raises**: `BadArgument` with its number."""
    if len(text) > LINE_BYTES_MAX:
        raise BadArgument(f"line {number}: expected at most {LINE_BYTES_MAX} bytes")
    try:
        return _decode_line(text)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadArgument(f"line {number}: {error}") from None


def _outgoing(found: Outcome) -> Line:
    return Line(
        topic=found.topic,
        key=found.key.decode(),
        type=found.type,
        time=found.recorded_at,
        value=Raw(found.value or b"null"),
    )
