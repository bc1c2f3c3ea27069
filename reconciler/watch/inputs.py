"""What a watcher is told: addresses to watch and requests. Read by polling, handed to the loop.

Reads `watchlist.<family>` from its beginning and `requests.<chain>`; writes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

from chains.addresses import AddressError
from chains.heed import heed_cancellation
from chains.port import FollowLoop, WatchEntry
from chains.registry import raw_of_key
from reconciler.observability import metrics
from reconciler.observability.logs import logger
from reconciler.observability.metrics import Meters
from reconciler.stream.promise import Lane, Record, Stream
from reconciler.stream.topics import requests_topic, watchlist_topic
from schemas.caip import ChainName, family_of
from schemas.codec import REQUEST_KINDS, UnknownKind, UnreadableMessage, decode, decode_as
from schemas.envelope import EnvelopeError, from_headers
from schemas.requests import (
    ChainRequest,
    LookUpTransaction,
    ReadAgain,
    ReleaseReorganisation,
    SeeBalance,
    WatchAddress,
)
from schemas.values import Message

BATCH_RECORDS: Final = 5_000
POLL_S: Final = 1.0

log = logger("watch")


class Watchlist:
    """Hands addresses to the loop. Reads on from where it stopped."""

    def __init__(self, stream: Stream, chain: ChainName, meters: Meters) -> None:
        self._stream = stream
        self._chain = chain
        self._meters = meters
        self._lane = Lane(watchlist_topic(family_of(chain)), 0)
        self._offset = 0

    async def load(self, loop: FollowLoop) -> None:
        """Hand over everything that is there now: the loop must not read a block before."""
        _, end = await self._stream.bounds(self._lane)
        while self._offset < end:
            before = self._offset
            await self.take(loop, wait_s=0.0)
            if self._offset == before:
                break

    async def take(self, loop: FollowLoop, *, wait_s: float) -> None:
        """Hand over what comes next."""
        batch = await self._stream.read(
            self._lane, from_offset=self._offset, records_max=BATCH_RECORDS, wait_s=wait_s
        )
        entries = [entry for record in batch.records if (entry := self._entry(record)) is not None]
        if entries or batch.next_offset > self._offset:
            loop.add_addresses(entries, read_upto_offset=batch.next_offset)
        self._offset = batch.next_offset

    def _entry(self, record: Record) -> WatchEntry | None:
        """Read one line. The key is canonical and ours, so a million lines need no checksums.

        A line that cannot be read is passed over with an alarm: the address stays uncovered, which
        holds its order and opens `not_watched`, while all other addresses are watched.
        """
        if record.value is None:
            return None
        try:
            message = decode_as(WatchAddress, record.value)
            raw = raw_of_key(self._chain, record.key.decode())
        except (UnreadableMessage, UnicodeDecodeError, AddressError) as error:
            _unreadable(self._meters, self._chain, record, error)
            return None
        return WatchEntry(
            raw=raw, display=message.address, since=message.since, offset=record.offset
        )


class Requests:
    """Hands what a person or the audit asks to the loop: to read again, to release. At once.

    What a run was asked and did not answer is asked again: everything since `again_since`, which
    lies before the last watermark. A release of a reorganisation is a person's word about what they
    saw *then*: one from before this run could let another reorganisation pass, so it has to be given
    again. Look-ups of the same topic are taken at a pace of their own (`reconciler.watch.look_ups`).
    """

    def __init__(
        self,
        stream: Stream,
        chain: ChainName,
        meters: Meters,
        *,
        again_since: datetime | None,
        started_at: datetime,
    ) -> None:
        self._stream = stream
        self._chain = chain
        self._meters = meters
        self._lane = Lane(requests_topic(chain), 0)
        self._again_since = again_since
        self._started_at = started_at
        self._offset = 0

    async def take(self, loop: FollowLoop, *, wait_s: float) -> None:
        """Hand over what comes next."""
        batch = await self._stream.read(
            self._lane, from_offset=self._offset, records_max=BATCH_RECORDS, wait_s=wait_s
        )
        for record in batch.records:
            request = self._request(record)
            if request is not None and not self._is_over(request, record.time):
                hand_over(request, loop, self._meters)
        self._offset = batch.next_offset

    def _is_over(self, request: ChainRequest, time: datetime) -> bool:
        if isinstance(request, ReleaseReorganisation):
            return time < self._started_at
        return self._again_since is not None and time < self._again_since

    def _request(self, record: Record) -> ChainRequest | None:
        """Read a request; one that cannot be read is passed over with an alarm."""
        if record.value is None:
            return None
        try:
            request = read_request(record, self._chain)
        except UNREADABLE as error:
            _unreadable(self._meters, self._chain, record, error)
            return None
        ours = isinstance(request, ReadAgain | SeeBalance | ReleaseReorganisation)
        return request if ours else None


#: What reading a record may raise.
UNREADABLE: Final = (EnvelopeError, UnknownKind, UnreadableMessage)


def read_request(record: Record, chain: ChainName) -> ChainRequest | None:
    """Read a request to this chain's watcher; None for another's. **Raises**: one of `UNREADABLE`."""
    envelope = from_headers(record.headers, default_time=record.time)
    message: Message = decode(envelope.type, record.value or b"", REQUEST_KINDS)
    if not isinstance(message, LookUpTransaction | ReadAgain | SeeBalance | ReleaseReorganisation):
        return None
    return message if message.chain == chain else None


def hand_over(request: ChainRequest, loop: FollowLoop, meters: Meters) -> None:
    """Give a request to the loop, counted."""
    meters.add(metrics.WATCH_REQUESTS, chain=request.chain, kind=type(request).__name__)
    loop.request(request)


def again_since(read_at: datetime | None, span: timedelta) -> datetime | None:
    """Tell from when requests are taken again: a span before the last watermark was read.

    None, which is all that is kept, when there is no watermark.
    """
    return None if read_at is None else read_at - span


async def for_ever(take: Callable[[], Awaitable[None]]) -> None:
    """Go on taking; `take` itself waits for something to come."""
    while True:
        heed_cancellation()
        await take()


def _unreadable(meters: Meters, chain: ChainName, record: Record, error: Exception) -> None:
    meters.add(metrics.WATCH_UNREADABLE, chain=chain, topic=record.lane.topic)
    log.error(
        "unreadable message passed over",
        chain=chain,
        lane=record.lane.name,
        offset=record.offset,
        error=f"{type(error).__name__}: {error}",
    )
