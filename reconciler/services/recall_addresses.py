"""Take in which derived addresses the log says were handed out: what a restored database forgot.

An address leaves for the shop behind its line of the watchlist, so the log knows every index that
anybody was told. Where the database has all of them, as it has without a restore, nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.services.derive_address import name_of_lock
from reconciler.services.position import move_position
from reconciler.storage import reads, tables
from reconciler.storage.bulk import insert
from reconciler.storage.rows import DerivationRow
from reconciler.storage.unit_of_work import Store, Work
from reconciler.stream.promise import Batch
from schemas.codec import UnreadableMessage, decode_as
from schemas.requests import DerivedFrom, WatchAddress


async def recall_addresses(store: Store, batch: Batch, *, held: int | None) -> int:
    """Take in a batch of a watchlist; gives how many indexes were news. **Raises**: `PositionMovedError`."""
    told = [source for record in batch.records if (source := _source(record.value)) is not None]
    by_key: dict[str, dict[int, str]] = {}
    for source in told:
        by_key.setdefault(source.key, {})[source.index] = source.order

    async def use_case(work: Work) -> int:
        await work.lock_names(name_of_lock(key) for key in by_key)
        await move_position(work, batch, held=held)
        forgotten = await _forgotten(work, by_key)
        await insert(work.connection, tables.derivations, forgotten)
        return len(forgotten)

    return await store.run(use_case, name="recall_addresses")


async def _forgotten(work: Work, by_key: dict[str, dict[int, str]]) -> Sequence[DerivationRow]:
    found: list[DerivationRow] = []
    for key, orders in sorted(by_key.items()):
        known = await reads.known_indexes(work, key, orders)
        found += [
            DerivationRow(key=key, index=index, order_ref=order)
            for index, order in sorted(orders.items())
            if index not in known
        ]
    return found


def _source(value: bytes | None) -> DerivedFrom | None:
    """Read how an address was made. A line that cannot be read was not written by us: watchers say so."""
    try:
        return None if value is None else decode_as(WatchAddress, value).derived
    except UnreadableMessage:
        return None
