"""Before orders are taken: what the log knows of derived addresses, and a restored database does not.

Reads each watchlist on from where it was last read, and from its beginning where another log stands
there now. A restored database was last read at an earlier place, and so meets what it forgot.
"""

from __future__ import annotations

from typing import Final

from reconciler.observability.logs import logger
from reconciler.services.context import ServiceContext
from reconciler.services.recall_addresses import recall_addresses
from reconciler.storage import positions
from reconciler.storage.positions import PositionMovedError
from reconciler.storage.unit_of_work import Store
from reconciler.stream.promise import Lane, PositionLost, Stream
from reconciler.stream.topics import watchlist_topic
from schemas.caip import family_of

#: Lines of one transaction.
BATCH_RECORDS: Final = 2_000
WAIT_S: Final = 1.0

log = logger("intake")


async def recall(store: Store, context: ServiceContext, stream: Stream) -> int:
    """Take in every derived address that the log has; gives how many the database did not know.

    Nothing is read where no route derives addresses, and else every watchlist: a key counts over all
    chains, also those on which no route names it any more. **Raises**: `StreamUnavailable`.
    """
    families = {family_of(chain) for chain in context.lanes} if context.derives else set()
    news = 0
    for family in sorted(families):
        news += await _recall_lane(store, stream, Lane(watchlist_topic(family), 0))
    if news:
        log.warning(
            "addresses_recalled",
            count=news,
            why="the log knows derived addresses that the database does not: it was restored",
        )
    return news


async def _recall_lane(store: Store, stream: Stream, lane: Lane) -> int:
    held = await store.read(lambda work: positions.position(work, lane.name))
    offset = held or 0
    if not await _is_the_same_log(store, stream, lane):
        offset = 0
    _, end = await stream.bounds(lane)
    news = 0
    while offset < end:
        batch = await stream.read(
            lane, from_offset=offset, records_max=BATCH_RECORDS, wait_s=WAIT_S
        )
        try:
            news += await recall_addresses(store, batch, held=held)
        except PositionMovedError:  # another intake reads the same: on from where it is now
            held = await store.read(lambda work: positions.position(work, lane.name))
            offset = held or 0
            continue
        held = offset = batch.next_offset
    return news


async def _is_the_same_log(store: Store, stream: Stream, lane: Lane) -> bool:
    """Tell whether the line that was read last still stands where it stood.

    It does not in a topic that was made again, nor where the same address was asked for again.
    """
    last = await store.read(lambda work: positions.last_applied(work, lane.name))
    if last is None:
        return True
    try:
        batch = await stream.read(lane, from_offset=last.offset, records_max=1, wait_s=WAIT_S)
    except PositionLost:
        return False
    found = next((r for r in batch.records if r.offset == last.offset), None)
    return found is not None and found.digest == last.digest
