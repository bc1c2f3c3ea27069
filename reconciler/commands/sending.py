"""Sends one command to `orders` and waits for what the running intake makes of it.

Reads `orders-rejected` and the database; writes one message. Decides nothing.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from reconciler.commands.common import BadArgument
from reconciler.config import Settings
from reconciler.kernel.clock import Clock
from reconciler.kernel.spans import parse_span
from reconciler.services.apply_commands import digest_of
from reconciler.storage import reads
from reconciler.storage.unit_of_work import Store
from reconciler.stream.promise import Lane, Outgoing, Stream, partition_of
from reconciler.stream.topics import ORDERS, ORDERS_REJECTED
from schemas.codec import decode_as, encode, kind_name
from schemas.envelope import Envelope, to_headers
from schemas.values import Message

LOOK_EVERY_S: Final = 0.2
REJECTED_RECORDS: Final = 200


class Answer(Enum):
    """What became of a command."""

    CARRIED_OUT = auto()
    REPEATED = auto()
    REFUSED = auto()
    WAITING = auto()
    NONE = auto()


class Outcome(Struct, frozen=True):
    """The answer, and why it was refused.

    `REPEATED`: its key was used before, for the same: nothing new happens. `WAITING`: it waits for its
    order to be placed. `NONE`: it is sent, and nobody answered in time.
    """

    answer: Answer
    why: str = ""


def message_of(command: Message, key: str, *, settings: Settings, clock: Clock) -> Outgoing:
    """Write a command as a message to `orders`, as a shop does.

    **Raises**: `UnreadableMessage` for one that the intake could not read.
    """
    value = encode(command)
    decode_as(type(command), value)
    envelope = Envelope(
        id=str(getattr(command, "idempotency_key", "")),
        type=kind_name(command),
        time=clock.now(),
        subject=key,
    )
    lane = Lane(ORDERS, partition_of(key.encode(), settings.file.stream.orders_partitions))
    return Outgoing(lane=lane, key=key.encode(), value=value, headers=to_headers(envelope))


def read_wait(text: str) -> timedelta:
    """Read how long to wait for the answer. **Raises**: `BadArgument`."""
    try:
        return parse_span(text)
    except ValueError as error:
        raise BadArgument(f"--wait: {error}") from None


class Sending:
    """One command on its way. `waits_for`: the order that it waits for while there is none."""

    def __init__(
        self,
        store: Store,
        stream: Stream,
        command: Message,
        message: Outgoing,
        *,
        waits_for: str | None = None,
    ) -> None:
        self._store = store
        self._stream = stream
        self._key = str(getattr(command, "idempotency_key", ""))
        self._digest = digest_of(kind_name(command), command)
        self._message = message
        self._waits_for = waits_for
        self._rejected = Lane(ORDERS_REJECTED, 0)
        self._rejected_from = 0
        self._known_before: bytes | None = None

    async def send(self) -> None:
        """Append it under a name of its own, which fences nobody. **Raises**: `StreamError`."""
        _, self._rejected_from = await self._stream.bounds(self._rejected)
        self._known_before = await self._known()
        writer = self._stream.writer(f"command/{self._key}")
        try:
            await writer.start()
            await writer.append([self._message])
        finally:
            await writer.close()

    async def outcome(self, wait: timedelta, clock: Clock) -> Outcome:
        """Wait until it was carried out or refused, and say which."""
        if self._known_before == self._digest:
            return Outcome(Answer.REPEATED)
        until_s = clock.monotonic_s() + wait.total_seconds()
        while True:
            why = await self._refusal()
            if why is not None:
                return Outcome(Answer.REFUSED, why)
            if self._known_before is None and await self._known() == self._digest:
                return Outcome(Answer.CARRIED_OUT)
            if clock.monotonic_s() >= until_s:
                break
            await clock.sleep(LOOK_EVERY_S)
        return Outcome(Answer.WAITING if await self._is_parked() else Answer.NONE)

    async def _known(self) -> bytes | None:
        """Give what the key was used for, or None when it was not."""
        found = await self._store.read(lambda work: reads.commands(work, [self._key]))
        return found[self._key].digest if self._key in found else None

    async def _is_parked(self) -> bool:
        order = self._waits_for
        if order is None:
            return False
        return bool(await self._store.read(lambda work: reads.parked_references(work, [order])))

    async def _refusal(self) -> str | None:
        batch = await self._stream.read(
            self._rejected, from_offset=self._rejected_from, records_max=REJECTED_RECORDS
        )
        self._rejected_from = batch.next_offset
        for record in batch.records:
            if record.value == self._message.value:
                headers = dict(record.headers)
                code = headers.get("rejected_code", b"").decode()
                return f"{code}: {headers.get('rejected_reason', b'').decode()}"
        return None
