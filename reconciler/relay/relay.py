"""One shard of the outbox: number a batch, send it with its number, mark it.

The number goes to compacted `relay-progress` in the same transaction of the log as the batch. After a
crash the last number in the log says what arrived: up to it batches are marked, after it sent again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

import msgspec

from chains.heed import heed_cancellation
from reconciler.kernel.clock import Clock
from reconciler.kernel.refusals import TakenOver
from reconciler.observability import metrics
from reconciler.observability.health import Verdict
from reconciler.observability.logs import logger
from reconciler.observability.metrics import Meters
from reconciler.observability.stopping import leaves
from reconciler.storage import outbox
from reconciler.storage.engine import DatabaseError
from reconciler.storage.outbox import OutboxMessage, ShardLostError
from reconciler.storage.unit_of_work import GaveUpError, Store
from reconciler.stream.promise import (
    Fenced,
    Lane,
    OutcomeUnknown,
    Outgoing,
    Stream,
    StreamUnavailable,
    TopicSpec,
    Writer,
    partition_of,
    read_all,
)
from reconciler.stream.topics import RELAY_PROGRESS

BATCH_MAX: Final = 500
#: The outbox is looked at so often when nobody in this process says that something was written.
POLL_S: Final = 0.005
#: … and so often when nothing was for a while: looking costs the database a little each time.
POLL_IDLE_S: Final = 0.025
IDLE_AFTER_S: Final = 2.0
BACK_OFF_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
MEASURE_EVERY_S: Final = 15.0
#: More waiting messages are not counted.
COUNT_MAX: Final = 100_000
#: A batch is sent so often under one start of the writer.
SENDS_MAX: Final = 5

log = logger("relay")


class AnotherRelay(TakenOver):
    """A younger relay has taken this shard. This one ends."""


class Relay:
    """Runs until it is cancelled or fenced."""

    def __init__(
        self,
        shard: int,
        *,
        store: Store,
        stream: Stream,
        specs: Mapping[str, TopicSpec],
        clock: Clock,
        meters: Meters,
        batch_max: int = BATCH_MAX,
    ) -> None:
        self._shard = shard
        self._batch_max = batch_max
        self._store = store
        self._stream = stream
        self._specs = specs
        self._clock = clock
        self._meters = meters
        self._failures = 0
        self._epoch = 0
        self._sent_at_s = 0.0

    @property
    def name(self) -> str:
        """The writer's name, and the key of its progress."""
        return f"relay/{self._shard}"

    def verdict(self) -> Verdict:
        """Say whether messages leave, for readiness."""
        if self._failures > len(BACK_OFF_S):
            return Verdict(ok=False, why=f"{self.name}: {self._failures} failures in a row")
        return Verdict(ok=True, why=f"{self.name} sends")

    async def run(self) -> None:
        """Send what waits, for ever, and say how much it is. **Raises**: `AnotherRelay`."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._measure())
                await self._send_for_ever()
        except ExceptionGroup as errors:
            raise leaves(errors)[0] from None

    async def _send_for_ever(self) -> None:
        while True:
            heed_cancellation()
            try:
                await self._one_life()
            except ShardLostError:
                message = f"another {self.name} has taken over; this one ends"
                raise AnotherRelay(message) from None
            except (
                # Who fenced us may be older than we are: the next life asks whose the shard is.
                Fenced,
                OutcomeUnknown,
                StreamUnavailable,
                GaveUpError,
                DatabaseError,
                ConnectionError,
            ) as error:
                await self._back_off(error)

    async def _measure(self) -> None:
        """Set the gauges of what waits, also while the log cannot be reached."""
        while True:
            heed_cancellation()
            try:
                found = await self._store.read(
                    lambda work: outbox.backlog(work, self._shard, count_max=COUNT_MAX)
                )
            except (GaveUpError, DatabaseError, ConnectionError) as error:
                log.warning("not_measured", relay=self.name, error=str(error)[:300])
            else:
                oldest_s = found.oldest.timestamp() if found.oldest else 0.0
                shard = str(self._shard)
                self._meters.set(metrics.OUTBOX_PENDING, found.pending, shard=shard)
                self._meters.set(metrics.OUTBOX_OLDEST_TIMESTAMP, oldest_s, shard=shard)
            await self._clock.sleep(MEASURE_EVERY_S)

    async def _one_life(self) -> None:
        writer = self._stream.writer(self.name)
        try:
            # First: an old relay that wakes up must not fence its successor before it knows of it.
            self._epoch = await self._store.run(
                lambda work: outbox.take_shard(work, self._shard, held=self._epoch),
                name="take_shard",
            )
            await writer.start()  # settles what an older relay had in flight
            await self._settle(writer)
            while True:
                heed_cancellation()
                self._store.outbox_written.clear()
                number = await self._number()
                if number is None:
                    await self._wait()
                    continue
                await self._send(writer, number)
                self._failures = 0
        finally:
            await writer.close()

    async def _settle(self, writer: Writer) -> None:
        """Mark the numbered batches that arrived, and send again those that did not.

        A database that was restored from a backup numbers lower than the log: new batches then begin
        above, for a number that arrived once would say of another batch that it had left.
        """
        last = await self._last_arrived()
        for number in await self._store.read(lambda work: outbox.numbered(work, self._shard)):
            if number <= last:
                await self._mark(number)
            else:
                await self._send(writer, number)
        await self._store.run(
            lambda work: outbox.number_above(work, self._shard, last, epoch=self._epoch),
            name="number_above",
        )

    async def _last_arrived(self) -> int:
        records = await read_all(self._stream, Lane(RELAY_PROGRESS, 0))
        ours = [r.value for r in records if r.key == self.name.encode() and r.value is not None]
        return max((int(value) for value in ours), default=0)

    async def _number(self) -> int | None:
        if not await self._store.read(lambda work: outbox.is_waiting(work, self._shard)):
            return None
        return await self._store.run(
            lambda work: outbox.number_batch(
                work, self._shard, epoch=self._epoch, limit=self._batch_max
            ),
            name="number_batch",
        )

    async def _send(self, writer: Writer, number: int) -> None:
        started_s = self._clock.monotonic_s()
        waiting = await self._store.read(lambda work: outbox.messages_of(work, self._shard, number))
        messages = [self._outgoing(message) for message in waiting]
        messages.append(
            Outgoing(
                lane=Lane(RELAY_PROGRESS, 0),
                key=self.name.encode(),
                value=str(number).encode(),
                headers=(),
            )
        )
        await self._append(writer, messages)
        await self._mark(number)
        self._sent_at_s = self._clock.monotonic_s()
        for message in waiting:
            self._meters.add(metrics.RELAY_PUBLISHED, topic=message.topic)
        spent_s = self._clock.monotonic_s() - started_s
        self._meters.observe(metrics.RELAY_BATCH_DURATION, spent_s)
        log.info(
            "sent", relay=self.name, batch=number, messages=len(waiting), seconds=round(spent_s, 4)
        )

    async def _append(self, writer: Writer, messages: list[Outgoing]) -> None:
        for attempt in range(1, SENDS_MAX + 1):
            try:
                await writer.append(messages)
            except StreamUnavailable as error:
                if attempt == SENDS_MAX:
                    raise
                await self._back_off(error)
            else:
                return

    def _outgoing(self, message: OutboxMessage) -> Outgoing:
        partitions = self._specs[message.topic].partitions
        return Outgoing(
            lane=Lane(message.topic, partition_of(message.key, partitions)),
            key=message.key,
            value=message.value,
            headers=tuple(msgspec.msgpack.decode(message.headers, type=list[tuple[str, bytes]])),
        )

    async def _mark(self, number: int) -> None:
        await self._store.run(
            lambda work: outbox.mark_sent(work, self._shard, number), name="mark_sent"
        )

    async def _wait(self) -> None:
        is_idle = self._clock.monotonic_s() - self._sent_at_s > IDLE_AFTER_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_IDLE_S if is_idle else POLL_S):
                await self._store.outbox_written.wait()

    async def _back_off(self, error: Exception) -> None:
        wait_s = BACK_OFF_S[min(self._failures, len(BACK_OFF_S) - 1)]
        self._failures += 1
        log.warning(
            "relay_waits",
            relay=self.name,
            error=f"{type(error).__name__}: {str(error)[:300]}",
            again_in_s=wait_s,
        )
        await self._clock.sleep(wait_s)
