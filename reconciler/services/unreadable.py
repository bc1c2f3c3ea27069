"""A fact that cannot be applied is stored as it came, holds the orders of its address, and is told."""

from __future__ import annotations

import msgspec

from reconciler.services.coverage import drain_lane, wake_everywhere
from reconciler.services.desk import Cause, exception_id, open_exception
from reconciler.services.incoming import Incoming
from reconciler.services.judge import catch_up, catch_up_all, judge
from reconciler.services.ledger import Ledger
from reconciler.storage import reads
from reconciler.storage.rows import AddressRow, UnreadableRow
from reconciler.stream.promise import Lane
from schemas.caip import ChainName, Family, family_of
from schemas.codes import Attention, ExceptionKind


class UnappliableError(Exception):
    """A fact can be read and makes no sense here; says why."""


async def keep_unreadable(
    ledger: Ledger, item: Incoming, chain: ChainName, seq: int, *, why: str
) -> None:
    """Keep the bytes, hold the orders of the address, open an exception; the lane moves on."""
    lane = Lane(item.topic, item.partition).name
    ledger.add_new(
        "unreadable",
        UnreadableRow(
            seq=seq,
            lane=lane,
            offset=item.offset,
            key=item.key,
            type=item.type,
            headers=msgspec.msgpack.encode(item.headers),
            value=item.value,
            why=why[:2_000],
            recorded_at=item.recorded_at,
        ),
    )
    address = ledger.addresses.get((family_of(chain), item.key_text))
    await open_exception(
        ledger,
        Cause(
            kind=ExceptionKind.UNREADABLE_FACT,
            subject=f"{lane}/{item.offset}",
            chain=chain,
            order=address.owner if address else None,
            note=why[:500],
        ),
        item.recorded_at,
    )
    if address is None:
        return
    entry = ledger.orders.get(address.owner) if address.owner else None
    if entry is not None:
        await catch_up(ledger, entry)
    address.note(Attention.UNREADABLE_FACT.value)
    ledger.touch_address(address)
    if entry is None:
        return
    moment = ledger.lane_of(entry).moment(seq=seq, recorded_at=item.recorded_at, verdicts=False)
    await judge(ledger, entry, moment)


async def drain_address(ledger: Ledger, address: AddressRow) -> None:
    """Judge what is due on the lanes of a shared address, before something changes for its orders.

    They may be on any chain of the family: whoever comes here holds those lanes.
    """
    for lane in ledger.context.lanes_of(Family(address.family), address.key):
        await ledger.load_lanes([lane])
        await drain_lane(ledger, ledger.lanes[lane])


async def settle_unreadable(ledger: Ledger, subject: str, family: Family, seq: int) -> list[str]:
    """A person has seen to an unreadable fact: lift its hold when it was the address's last one.

    Gives the orders that must be judged again. `subject` is `<lane>/<offset>`.
    """
    lane, _, offset = subject.rpartition("/")
    row = await reads.unreadable_fact(ledger.work, lane, int(offset))
    if row is None:
        return []
    for other in await reads.unreadable_facts(ledger.work, row.key):
        name = exception_id(ExceptionKind.UNREADABLE_FACT, f"{other.lane}/{other.offset}")
        found = await ledger.exception(name)
        if found is not None and found.open:
            return []
    key = (str(family), row.key.decode(errors="replace"))
    await ledger.lock_addresses([key])
    address = ledger.addresses.get(key)
    if address is None:
        return []
    if address.owner is not None:
        await ledger.load_orders([address.owner])
        await catch_up_all(ledger, [address.owner])
    else:
        await drain_address(ledger, address)
    address.note(Attention.UNREADABLE_FACT.value, stands=False)
    ledger.touch_address(address)
    if address.owner is None:
        await wake_everywhere(ledger, address, seq)
        return []
    return [address.owner]
