"""Apply a batch of one chain lane: one transaction, position first.

Reads the lane's records; writes transfers, coverage, orders, journal and outbox. Decides through
matcher and lifecycle only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field

from chains.addresses import canonical_key
from reconciler.services.balances import apply_balance
from reconciler.services.claims import tx_name
from reconciler.services.context import ServiceContext
from reconciler.services.coverage import apply_retraction, apply_watermark, drain_lane, wake_address
from reconciler.services.incoming import Incoming, LaneStoppedError, read_record
from reconciler.services.judge import catch_up, judge
from reconciler.services.known import journal_at_address
from reconciler.services.ledger import AddressKey, Ledger, Paired
from reconciler.services.look_ups import apply_look_up, order_of_request
from reconciler.services.matching import prepare_matching
from reconciler.services.position import move_position
from reconciler.services.transfers import apply_dropped, apply_seen, why_unappliable
from reconciler.services.unreadable import UnappliableError, drain_address, keep_unreadable
from reconciler.storage import positions, reads
from reconciler.storage.unit_of_work import Store, Work
from reconciler.stream.promise import Batch, Lane
from schemas.caip import ChainName, family_of
from schemas.codec import FACT_KINDS
from schemas.facts import (
    AddressCovered,
    BalanceSeen,
    BlockRetracted,
    TransactionLookedUp,
    TransferDropped,
    TransferSeen,
    Watermark,
)


class Applied(Struct, frozen=True, kw_only=True):
    """What a batch did, for metrics and for those who wait for the outbox.

    `matched` counts the transfers that got an order, by chain and rule.
    """

    facts: int
    watermarks: int
    unreadable: int
    matched: Mapping[Paired, int] = field(default_factory=dict)


class InboxSeen(Struct, frozen=True):
    """A replay knows up to when `orders` was applied; a live lane reads it from the positions."""

    until: datetime | None


async def apply_facts(
    store: Store,
    context: ServiceContext,
    batch: Batch,
    *,
    held: int | None,
    inbox: InboxSeen | None = None,
) -> Applied:
    """Apply a batch behind position `held` and move the position to `batch.next_offset`.

    **Raises**: `PositionMovedError` (seek again), `LaneStoppedError` (a kind that we do not know).
    """
    items = [read_record(record, FACT_KINDS) for record in batch.records]
    for item in items:
        if item.unknown_type:
            message = f"lane {batch.lane.name} at {item.offset}: {item.why}"
            raise LaneStoppedError(message)

    async def use_case(work: Work) -> Applied:
        await work.lock_lanes(exclusive=batch.lane.name)
        await move_position(work, batch, held=held)
        ledger = Ledger(work, context)
        run = _Run(ledger, batch.lane, await _inbox(work, context, inbox))
        return await run.apply(items)

    applied = await store.run(use_case, name="apply_facts")
    if items:
        store.outbox_written.set()
    return applied


async def _inbox(work: Work, context: ServiceContext, given: InboxSeen | None) -> datetime | None:
    if given is not None:
        return given.until
    return await positions.inbox_until(work, context.orders_lanes)


def _is_for_the_chain(item: Incoming) -> bool:
    return isinstance(item.message, Watermark | BlockRetracted | TransactionLookedUp)


class _Run:
    """One batch under way."""

    def __init__(self, ledger: Ledger, lane: Lane, inbox_until: datetime | None) -> None:
        self.ledger = ledger
        self.lane = lane
        self.chain: ChainName = ledger.context.chain_of_topic[lane.topic]
        self.inbox_until = inbox_until
        self.watermarks = 0
        self.unreadable = 0

    async def apply(self, items: Sequence[Incoming]) -> Applied:
        await self.ledger.load_lanes([self.lane.name])
        await self.ledger.load_holds()
        await self._load(items)
        seqs = await self.ledger.work.next_seqs(len(items))
        for item, seq in zip(items, seqs, strict=True):
            await self._apply_or_keep(item, seq)
        await self.ledger.flush()
        return Applied(
            facts=len(items) - self.watermarks - self.unreadable,
            watermarks=self.watermarks,
            unreadable=self.unreadable,
            matched=self.ledger.matched,
        )

    async def _load(self, items: Sequence[Incoming]) -> None:
        """Lock the addresses and read everything that the batch can touch."""
        ledger = self.ledger
        seen = [i.message for i in items if isinstance(i.message, TransferSeen)]
        names = {m.transfer for m in seen}
        names |= {i.message.transfer for i in items if isinstance(i.message, TransferDropped)}
        txs = {name.split("/")[1] for name in names}
        await self._load_transfers(items, txs)
        places = {(self.lane.name, m.block.height) for m in seen if m.block is not None}
        await ledger.load_line(places)
        await prepare_matching(ledger, family_of(self.chain), seen, txs)
        references = {ref for name in ledger.transfers for ref in ledger.owners_of(name)}
        references |= {row.owner for row in ledger.addresses.values() if row.owner is not None}
        looked_up = [i.message for i in items if isinstance(i.message, TransactionLookedUp)]
        references |= {order_of_request(m.request) for m in looked_up}
        paid = await reads.transfers(ledger.work, {name for m in looked_up for name in m.pays})
        await ledger.load_transfers(paid.values())
        await ledger.load_orders(references)
        await self._hold_lanes_of_shared(items)

    async def _hold_lanes_of_shared(self, items: Sequence[Incoming]) -> None:
        """What cannot be applied, or tells a balance, speaks to a shared address's orders on all chains."""
        family = family_of(self.chain)
        lanes: set[str] = set()
        for item in items:
            row = self.ledger.addresses.get((family, item.key_text))
            speaks = self._is_unappliable(item) or isinstance(item.message, BalanceSeen)
            if row is not None and row.owner is None and speaks:
                lanes |= set(self.ledger.context.lanes_of(family, row.key))
        await self.ledger.work.lock_lanes(exclusive=None, shared=sorted(lanes))
        await self.ledger.load_lanes(lanes)

    def _is_unappliable(self, item: Incoming) -> bool:
        message = item.message
        if message is None or getattr(message, "chain", self.chain) != self.chain:
            return True
        return isinstance(message, TransferSeen) and bool(why_unappliable(self.ledger, message))

    async def _load_transfers(self, items: Sequence[Incoming], txs: set[str]) -> None:
        """Read the batch's transfers and all that their transactions pay us, behind their locks.

        A transaction may pay addresses of other lanes: its name is locked, so that each sees what the
        others brought, and those addresses as well, since what the transaction pays is noted on all.
        """
        ledger, work = self.ledger, self.ledger.work
        family = family_of(self.chain)
        if ledger.context.lanes[self.chain] > 1:
            await work.lock_names(tx_name(family, tx) for tx in txs)
        known = await reads.transfers_of_txs(work, [self.chain], txs)
        keys = {*self._address_keys(items), *((r.family, r.address_key) for r in known)}
        await ledger.lock_addresses(keys)
        if work.is_postgresql:
            about = [item for item in items if not _is_for_the_chain(item)]
            await ledger.wait_for_addresses(self._address_keys(about))
        if known and work.is_postgresql:  # what is decided on is read after the lock
            known = await reads.transfers_of_txs(work, [self.chain], txs)
        await ledger.load_transfers(known)

    def _address_keys(self, items: Sequence[Incoming]) -> list[AddressKey]:
        family = family_of(self.chain)
        keys: list[AddressKey] = []
        for item in items:
            message = item.message
            if isinstance(message, TransferSeen | TransferDropped):
                keys.append((family, canonical_key(self.chain, message.to)))
            elif isinstance(message, AddressCovered | BalanceSeen):
                keys.append((family, canonical_key(self.chain, message.address)))
            keys.append((family, item.key_text))
        return keys

    async def _apply_or_keep(self, item: Incoming, seq: int) -> None:
        """Apply a fact; one that cannot be applied is kept as it came, and the lane moves on."""
        if item.message is None:
            self.unreadable += 1
            await self._keep_unreadable(item, seq, why=item.why)
            return
        try:
            await self._apply(item, seq)
        except UnappliableError as error:
            self.unreadable += 1
            await self._keep_unreadable(item, seq, why=str(error))

    async def _keep_unreadable(self, item: Incoming, seq: int, *, why: str) -> None:
        """Hold the orders of its address from here on: those due before are judged first."""
        address = self.ledger.addresses.get((family_of(self.chain), item.key_text))
        if address is not None and address.owner is None:
            await drain_address(self.ledger, address)
        await keep_unreadable(self.ledger, item, self.chain, seq, why=why)

    async def _apply(self, item: Incoming, seq: int) -> None:
        message, ledger = item.message, self.ledger
        chain = getattr(message, "chain", self.chain)
        if chain != self.chain:
            sentence = f"expected facts of {self.chain}, found {chain}"
            raise UnappliableError(sentence)
        if isinstance(message, TransferSeen):
            await apply_seen(ledger, self.lane, item, message, seq)
        elif isinstance(message, Watermark):
            self.watermarks += 1
            await apply_watermark(
                ledger, self.lane, item, message, seq, inbox_until=self.inbox_until
            )
        elif isinstance(message, BlockRetracted):
            await apply_retraction(ledger, self.lane, item, message, seq)
        elif isinstance(message, TransferDropped):
            await apply_dropped(ledger, item, message, seq)
        elif isinstance(message, AddressCovered):
            await self._cover(item, message, seq)
        elif isinstance(message, BalanceSeen):
            await apply_balance(ledger, self.lane, item, message, seq)
        elif isinstance(message, TransactionLookedUp):
            await apply_look_up(ledger, self.lane, item, message, seq)

    async def _cover(self, item: Incoming, message: AddressCovered, seq: int) -> None:
        """Note that an address was scanned back; its order may now end."""
        ledger = self.ledger
        key = canonical_key(self.chain, message.address)
        row = ledger.addresses.get((family_of(self.chain), key))
        if row is None or row.is_covered(self.chain):
            return
        entry = ledger.orders.get(row.owner) if row.owner else None
        if entry is not None:
            await catch_up(ledger, entry)
        elif row.owner is None:
            await drain_lane(ledger, ledger.lanes[self.lane.name])
        row.cover(self.chain)
        journal_at_address(ledger, row, item, seq)
        if row.owner is None:
            await wake_address(ledger, self.lane.name, row, seq)
        if entry is None or entry.state.terms.chain != self.chain:
            return
        lane = ledger.lane_of(entry)
        await judge(
            ledger, entry, lane.moment(seq=seq, recorded_at=item.recorded_at, verdicts=False)
        )
