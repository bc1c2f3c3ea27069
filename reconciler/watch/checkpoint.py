"""Where the last run stopped, read back from the end of the chain's first lane.

Every lane carries every watermark, so one lane tells all. Reads the log; writes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from chains.port import Checkpoint
from reconciler.stream.promise import Lane, Record, Stream
from reconciler.stream.topics import transfers_topic
from schemas.caip import ChainName
from schemas.codec import decode_as
from schemas.envelope import from_headers
from schemas.facts import (
    BlockRetracted,
    LookedUpState,
    TransactionLookedUp,
    TransferDropped,
    TransferSeen,
    Watermark,
)

#: Offsets read in one go on the way back.
CHUNK_OFFSETS: Final = 2_000
#: More is not held in memory from the start: below it, a reorganisation reads on in the log.
WATERMARKS_MAX: Final = 20_000
#: Where the chain has no finality of its own, so many times the limit is read back.
LIMITS_BACK: Final = 4

_Read = Watermark | BlockRetracted | TransactionLookedUp
_KINDS: Final[dict[str, type[_Read]]] = {
    kind.__name__: kind for kind in (Watermark, BlockRetracted, TransactionLookedUp)
}
_TRANSFERS: Final[dict[str, type[TransferSeen | TransferDropped]]] = {
    kind.__name__: kind for kind in (TransferSeen, TransferDropped)
}
_UNSETTLED: Final = frozenset({LookedUpState.UNKNOWN, LookedUpState.PENDING})


class Tail(Struct, frozen=True, kw_only=True):
    """What the end of the log says: the checkpoint, and the requests answered since its start.

    `unsettled` are those of them whose transaction no node knew, or that waited: their answer may change.
    `told_at` is when the last watermark was written, by its writer's clock: it tells one writer's
    watermark from another's.
    """

    checkpoint: Checkpoint | None
    answered: frozenset[str]
    unsettled: frozenset[str]
    told_at: datetime | None


async def read_tail(stream: Stream, chain: ChainName, *, reorganisation_limit: int) -> Tail:
    """Read back from the end of lane 0 until a watermark at or below the finalized height.

    The checkpoint is None when no watermark is kept. **Raises**: `StreamUnavailable`.
    """
    facts: deque[Watermark | BlockRetracted] = deque()
    answered: dict[str, LookedUpState] = {}
    told_at: datetime | None = None
    async for records in _from_the_end(stream, chain):
        found = [_fact(record) for record in records]
        told_at = told_at or _told_at(records)
        facts.extendleft(
            fact for fact in reversed(found) if isinstance(fact, Watermark | BlockRetracted)
        )
        looked_up = [fact for fact in found if isinstance(fact, TransactionLookedUp)]
        answered = {fact.request: fact.state for fact in looked_up} | answered
        if _reaches_far_enough(standing_watermarks(facts), reorganisation_limit):
            break
    standing = standing_watermarks(facts)[-WATERMARKS_MAX:]
    checkpoint = Checkpoint(watermarks=standing) if standing else None
    return Tail(
        checkpoint=checkpoint,
        answered=frozenset(answered),
        unsettled=frozenset(name for name, state in answered.items() if state in _UNSETTLED),
        told_at=told_at,
    )


async def read_standing(stream: Stream, chain: ChainName, *, down_to: int) -> list[Watermark]:
    """Give the watermarks that stand at the end of lane 0, oldest first, down to one at or below a height.

    Fewer where less is kept. **Raises**: `StreamUnavailable`.
    """
    facts: deque[Watermark | BlockRetracted] = deque()
    standing: list[Watermark] = []
    async for records in _from_the_end(stream, chain):
        found = [_fact(record) for record in reversed(records)]
        facts.extendleft(fact for fact in found if isinstance(fact, Watermark | BlockRetracted))
        standing = standing_watermarks(facts)
        if standing and standing[0].height <= down_to:
            break
    return standing


class ReadLog:
    """A chain's log as memory (`chains.port.LogMemory`)."""

    def __init__(self, stream: Stream, chain: ChainName, *, lanes: int) -> None:
        self._stream = stream
        self._chain = chain
        self._lanes = lanes

    async def older(self, down_to: int) -> Sequence[Watermark]:
        """Give the watermarks that stand. **Raises**: `StreamUnavailable`."""
        return await read_standing(self._stream, self._chain, down_to=down_to)

    async def announced(self, back_s: float) -> Sequence[TransferSeen]:
        """Give what was said to wait to be mined, of every lane. **Raises**: `StreamUnavailable`."""
        found: list[TransferSeen] = []
        for lane in range(self._lanes):
            found += await self._announced_in(lane, timedelta(seconds=back_s))
        return found

    async def _announced_in(self, number: int, back: timedelta) -> list[TransferSeen]:
        """Read a lane from its end until so long before its last record."""
        since: datetime | None = None
        waiting: dict[str, TransferSeen | None] = {}
        async for records in _from_the_end(self._stream, self._chain, number):
            since = since or (records[-1].time - back if records else None)
            for record in reversed(records):
                fact = _told_of_transfer(record)
                if isinstance(fact, TransferSeen) and fact.block is None:
                    waiting.setdefault(fact.transfer, fact)
                elif fact is not None:
                    waiting.setdefault(fact.transfer, None)
            if since is not None and records and records[0].time < since:
                break
        return [seen for seen in reversed(waiting.values()) if seen is not None]


def standing_watermarks(facts: Iterable[Watermark | BlockRetracted]) -> list[Watermark]:
    """Give the watermarks that hold after these facts, oldest first; the facts may begin anywhere.

    A retraction takes its block's watermark away, and the next watermark begins the new branch: what
    stands at its heights is of the old one. A watermark of the newest block again takes its place. A
    lower one without a retraction answers `ReadAgain` and moves nothing; where the facts begin with
    one, the next watermark does not follow it, and that shows what it was.
    """
    standing: list[Watermark] = []
    fell_back = False
    for fact in facts:
        if isinstance(fact, BlockRetracted):
            fell_back = True
            if standing and standing[-1].hash == fact.hash:
                standing.pop()
            continue
        while fell_back and standing and standing[-1].height >= fact.from_height:
            standing.pop()
        if not standing or fact.height > standing[-1].height:
            if standing and not fell_back and fact.from_height != standing[-1].height + 1:
                standing.clear()
            standing.append(fact)
        elif fact.height == standing[-1].height and fact.hash == standing[-1].hash:
            standing[-1] = fact
        fell_back = False
    return standing


def _reaches_far_enough(standing: list[Watermark], reorganisation_limit: int) -> bool:
    if not standing:
        return False
    last = standing[-1]
    floor = last.finalized_height or last.height - LIMITS_BACK * reorganisation_limit
    return standing[0].height <= floor or len(standing) >= WATERMARKS_MAX


async def _from_the_end(
    stream: Stream, chain: ChainName, number: int = 0
) -> AsyncIterator[list[Record]]:
    """Read a lane in spans, the last one first; each in the order of its records."""
    lane = Lane(transfers_topic(chain), number)
    first, end = await stream.bounds(lane)
    while end > first:
        start = max(first, end - CHUNK_OFFSETS)
        yield await _read(stream, lane, start, end)
        end = start


async def _read(stream: Stream, lane: Lane, start: int, end: int) -> list[Record]:
    """Read the records of a span of offsets."""
    found: list[Record] = []
    while start < end:
        batch = await stream.read(lane, from_offset=start, records_max=CHUNK_OFFSETS)
        found.extend(record for record in batch.records if record.offset < end)
        if batch.next_offset <= start:
            break
        start = batch.next_offset
    return found


def _told_at(records: Sequence[Record]) -> datetime | None:
    for record in reversed(records):
        envelope = from_headers(record.headers, default_time=record.time)
        if envelope.type == Watermark.__name__:
            return envelope.time
    return None


def _fact(record: Record) -> _Read | None:
    """Read what matters here; facts about addresses are passed over without decoding."""
    kind = _KINDS.get(from_headers(record.headers, default_time=record.time).type)
    if kind is None or record.value is None:
        return None
    return decode_as(kind, record.value)


def _told_of_transfer(record: Record) -> TransferSeen | TransferDropped | None:
    kind = _TRANSFERS.get(from_headers(record.headers, default_time=record.time).type)
    if kind is None or record.value is None:
        return None
    return decode_as(kind, record.value)
