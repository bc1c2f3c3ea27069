"""Look-ups of claimed transactions, handed to the loop no faster than it works them off.

Reads `requests.<chain>`; writes nothing. Anybody can name transactions, so the loop looks up only so
many a minute. What it has no room for waits in the log: nothing is lost, only later.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from chains.port import FollowLoop
from reconciler.kernel.clock import Clock
from reconciler.observability.metrics import Meters
from reconciler.stream.promise import Lane, Record, Stream
from reconciler.stream.topics import requests_topic
from reconciler.watch.inputs import BATCH_RECORDS, UNREADABLE, hand_over, read_request
from schemas.caip import ChainName
from schemas.requests import LookUpTransaction

#: So many may wait in the loop, which takes twice as many.
OPEN_MAX: Final = 5_000


class LookUps:
    """Hands look-ups to the loop. Reads on from where it stopped.

    A run begins with the first that may be open: one that came since `again_since`, which lies before
    the last watermark, or behind one that the end of the log shows as answered. They are answered in
    their order, so that a queue longer than that span is gone on with where it stood. Those whose answer
    may still change are asked again: a run remembers nothing of them.
    """

    def __init__(
        self,
        stream: Stream,
        chain: ChainName,
        meters: Meters,
        *,
        again_since: datetime | None,
        answered: frozenset[str],
        unsettled: frozenset[str],
        clock: Clock,
    ) -> None:
        self._stream = stream
        self._chain = chain
        self._meters = meters
        self._lane = Lane(requests_topic(chain), 0)
        self._again_since = again_since
        self._answered = answered
        self._unsettled = unsettled
        self._clock = clock
        self._offset = 0
        self._begun = again_since is None

    async def take(self, loop: FollowLoop, *, wait_s: float) -> None:
        """Hand over what comes next, as far as there is room."""
        room = OPEN_MAX - loop.status().look_ups_open
        if room <= 0:
            await self._clock.sleep(wait_s)
            return
        batch = await self._stream.read(
            self._lane, from_offset=self._offset, records_max=BATCH_RECORDS, wait_s=wait_s
        )
        for record in batch.records:
            request = self._look_up(record)
            if request is None or self._is_over(request, record.time):
                continue
            if room == 0:
                self._offset = record.offset
                return
            hand_over(request, loop, self._meters)
            room -= 1
        self._offset = batch.next_offset

    def _is_over(self, request: LookUpTransaction, time: datetime) -> bool:
        answered = request.request in self._answered
        fresh = self._again_since is None or time >= self._again_since
        self._begun = self._begun or answered or fresh
        settled = answered and request.request not in self._unsettled
        return settled or not self._begun

    def _look_up(self, record: Record) -> LookUpTransaction | None:
        """Read a look-up; who reads the other requests alarms of what cannot be read."""
        if record.value is None:
            return None
        try:
            request = read_request(record, self._chain)
        except UNREADABLE:
            return None
        return request if isinstance(request, LookUpTransaction) else None
