"""One unit of work's view of the database: loaded in bulk, changed in memory, written in bulk.

An identity map. Services load what a batch touches, change rows through the ledger, and `flush` writes
each table with one statement. Judging (`reconciler.services.judge`) works on what is loaded here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from reconciler.kernel.checks import check
from reconciler.model.status import Due, Moment
from reconciler.model.transfer import OrderTransfer
from reconciler.services.context import ServiceContext
from reconciler.services.state import OrderState, decode_state, encode_state
from reconciler.storage import outbox, reads, rows, tables, writes
from reconciler.storage.bulk import insert, update, upsert
from reconciler.storage.journal import JournalWriter
from reconciler.storage.unit_of_work import Work
from reconciler.stream.promise import partition_of
from schemas.caip import AssetName, ChainName, Family
from schemas.codec import encode, kind_name
from schemas.codes import Attention, MatchRule, Phase, TransferState
from schemas.envelope import Envelope, Headers, to_headers
from schemas.values import BlockRef, Message, TransferName

AddressKey = tuple[str, str]
#: A chain and the rule by which a transfer of it got an order.
Paired = tuple[str, str]

#: Watermarks of a lane held in memory; an order that waited for more asks the database.
HISTORY_MAX: Final = 1_000


#: Attention of orders that wait for something that is no fact of theirs: they are woken by it.
_WAITS: Final = frozenset({Attention.HELD, Attention.NOT_COVERED})


class OrderEntry:
    """An order in memory: its row, its document, and whether it must be written."""

    def __init__(self, row: rows.OrderRow, state: OrderState) -> None:
        self.row = row
        self.state = state
        self.dirty = False

    @property
    def due(self) -> Due:
        """When it must be judged again."""
        row = self.row
        return Due(time=row.due_time, height=row.due_height, finalized_height=row.due_finalized)

    def change(self, **changes: Any) -> None:
        """Replace parts of the document."""
        self.state = msgspec.structs.replace(self.state, **changes)
        self.dirty = True


class LaneView:
    """A lane in memory: its row, and the watermarks that this unit of work applied.

    `history` holds the stored watermarks after `history_after`, all of them, once somebody asked.
    """

    def __init__(self, row: rows.LaneRow) -> None:
        self.row = row
        self.applied: list[rows.LaneLogRow] = []
        self.history: list[rows.LaneLogRow] = []
        self.history_after: int | None = None
        self.dirty = False

    def forget_watermarks(self) -> None:
        """Read the lane's watermarks anew when they are asked for next."""
        self.applied.clear()
        self.history, self.history_after = [], None

    def moment(self, *, seq: int, recorded_at: datetime, verdicts: bool) -> Moment:
        """Say what a judge may look at now."""
        row = self.row
        return Moment(
            seq=seq,
            verdicts=verdicts,
            recorded_at=recorded_at,
            height=row.height,
            finalized_height=row.finalized_height,
            coverage_time=row.time,
            decided_until=row.decided_until,
        )


def moment_of(entry: rows.LaneLogRow) -> Moment:
    """Say what a judge may look at, at a watermark."""
    return Moment(
        seq=entry.seq,
        verdicts=True,
        recorded_at=entry.recorded_at,
        height=entry.height,
        finalized_height=entry.finalized_height,
        coverage_time=entry.time,
        decided_until=entry.decided_until,
    )


def passes(due: Due, entry: rows.LaneLogRow) -> bool:
    """Tell whether a watermark makes an order due."""
    if due.height is not None and entry.height >= due.height:
        return True
    if due.finalized_height is not None and entry.finalized_height >= due.finalized_height:
        return True
    return (
        due.time is not None and entry.decided_until is not None and entry.decided_until > due.time
    )


class Ledger:
    """See the module."""

    def __init__(self, work: Work, context: ServiceContext) -> None:
        self.work = work
        self.context = context
        self.addresses: dict[AddressKey, rows.AddressRow] = {}
        self.orders: dict[str, OrderEntry] = {}
        self._addresses_asked: set[AddressKey] = set()
        self.transfers: dict[str, rows.TransferRow] = {}
        self.lanes: dict[str, LaneView] = {}
        self.holds: dict[str, rows.HoldRow] = {}
        self.journal = JournalWriter()
        self.matched: Counter[Paired] = Counter()
        self._line: dict[tuple[str, int], str | None] = {}
        self._purchases: dict[str, set[str]] = {}
        self.reservations: list[rows.ReservationRow] = []
        self._next_indexes: dict[str, int] = {}
        self._indexes: dict[tuple[str, str], int] = {}
        self.claims_seen: list[rows.ClaimRow] = []
        self._of_tx: dict[tuple[str, str], set[str]] = {}
        self._shares: dict[str, list[rows.ShareRow]] = {}
        self._of_order: dict[str, set[str]] = {}
        self._orders_complete: set[str] = set()
        self._txs_asked: set[str] = set()
        self._dirty_addresses: set[AddressKey] = set()
        self._new_addresses: set[AddressKey] = set()
        self._new_orders: set[str] = set()
        self._dirty_transfers: set[str] = set()
        self._new_transfers: set[str] = set()
        self._dirty_shares: set[str] = set()
        self._outbox: list[rows.OutboxRow] = []
        self.new_rows: dict[str, list[Any]] = {}
        self._exceptions: dict[str, rows.ExceptionRow] = {}
        self._exceptions_known: set[str] = set()
        self._dirty_exceptions: set[str] = set()

    # Loading

    async def load_holds(self) -> None:
        """Read all holds."""
        self.holds = await reads.holds(self.work)

    async def load_lanes(self, names: Iterable[str]) -> None:
        """Read lanes; one that was never applied is new."""
        wanted = [name for name in names if name not in self.lanes]
        found = await reads.lanes(self.work, wanted)
        for name in wanted:
            chain = self.context.chain_of_topic.get(name.rpartition("/")[0], "")
            row = found.get(name) or rows.LaneRow(lane=name, chain=chain)
            self.lanes[name] = LaneView(row)

    async def load_history(self, view: LaneView, after_seq: int) -> bool:
        """Read a lane's watermarks after a point into memory. False when there are too many."""
        if view.history_after is not None and view.history_after <= after_seq:
            return True
        found = await reads.watermarks_after(
            self.work, view.row.lane, after_seq, limit=HISTORY_MAX + 1
        )
        if len(found) > HISTORY_MAX:
            return False
        view.history, view.history_after = found, after_seq
        return True

    async def lock_addresses(self, keys: Iterable[AddressKey]) -> None:
        """Lock and read addresses that are not held yet."""
        wanted = [key for key in keys if key not in self._addresses_asked]
        self._addresses_asked.update(wanted)
        if wanted:
            self.addresses.update(await reads.lock_addresses(self.work, wanted))

    async def wait_for_addresses(self, keys: Iterable[AddressKey]) -> None:
        """Look again for addresses that are not there, behind whoever may just be placing them."""
        missing = [key for key in keys if key not in self.addresses]
        if not missing:
            return
        await self.work.lock_names(f"address/{family}/{key}" for family, key in missing)
        self.addresses.update(await reads.lock_addresses(self.work, missing))

    async def load_transfers(self, found: Iterable[rows.TransferRow]) -> None:
        """Take transfers in, with those to whom they were given."""
        fresh = [row for row in found if row.transfer not in self.transfers]
        for row in fresh:
            self._take(row)
        for share in await reads.shares_of_transfers(self.work, [row.transfer for row in fresh]):
            self._add_share(share)

    async def load_orders(self, references: Iterable[str]) -> None:
        """Read orders, all their transfers and all that pay for the same thing, behind their locks.

        The locks are those of the purchases, of the lanes whose coverage judges them, and of their
        addresses.
        """
        wanted = sorted(set(references) - self._orders_complete)
        if not wanted:
            return
        self._orders_complete.update(wanted)
        held = set(self.addresses)
        found = await reads.orders(self.work, wanted)
        await self._find_siblings(found)
        lanes = sorted({row.lane for row in found.values()})
        await self.work.lock_lanes(exclusive=None, shared=lanes)
        await self.lock_addresses((row.family, row.address_key) for row in found.values())
        await self.load_lanes(lanes)
        unheld = [r for r, row in found.items() if (row.family, row.address_key) not in held]
        if unheld and self.work.is_postgresql:  # what is decided on is read after the lock
            found.update(await reads.orders(self.work, unheld))
        for reference, row in found.items():
            self.orders.setdefault(reference, OrderEntry(row, decode_state(row.state)))
        shares = await reads.shares_of_orders(self.work, found)
        missing = {share.transfer for share in shares} - self.transfers.keys()
        await self.load_transfers((await reads.transfers(self.work, missing)).values())
        await self._load_claimed(found)
        await self._load_line_of(found)

    async def _load_claimed(self, references: Iterable[str]) -> None:
        """Read the transactions that these orders' customers name, whoever they pay.

        A claim's end says what is known of its transaction, and never what else a batch happened to
        hold.
        """
        wanted: dict[Family, set[str]] = {}
        for reference in references:
            entry = self.orders[reference]
            txs = {claim.tx for claim in entry.state.claims if claim.tx is not None}
            wanted.setdefault(entry.state.terms.family, set()).update(txs)
        for family, txs in sorted(wanted.items()):
            fresh = txs - self._txs_asked
            self._txs_asked |= fresh
            if fresh:
                chains = self.context.chains_of(family)
                await self.load_transfers(await reads.transfers_of_txs(self.work, chains, fresh))

    async def load_purchase(self, purchase: str) -> Sequence[OrderEntry]:
        """Read every order of a purchase, behind its lock."""
        await self.work.lock_names([f"purchase/{purchase}"])
        rows_found = await reads.orders_of_purchases(self.work, [purchase])
        await self.load_orders(row.reference for row in rows_found)
        self._purchases.setdefault(purchase, set()).update(row.reference for row in rows_found)
        return [self.orders[name] for name in sorted(self._purchases[purchase])]

    async def load_derivations(self, references: Iterable[str]) -> None:
        """Read which indexes orders were given already; before a restore, where they are new."""
        for row in await reads.derivations_of_orders(self.work, references):
            self._indexes[row.key, row.order_ref] = row.index

    def index_of(self, key: str, reference: str) -> int | None:
        """Give the index of an extended public key that an order was given, the last one; loaded before."""
        return self._indexes.get((key, reference))

    async def next_index(self, key: str) -> int:
        """Give the least index of an extended public key above all that were given out.

        The key's name is locked: see `reconciler.services.derive_address`.
        """
        if key not in self._next_indexes:
            self._next_indexes[key] = await reads.next_index(self.work, key)
        return self._next_indexes[key]

    async def _find_siblings(self, found: dict[str, rows.OrderRow]) -> None:
        """Add every order that pays for the same thing as one of these."""
        purchases = {row.purchase for row in found.values() if row.purchase is not None}
        fresh = sorted(purchases - self._purchases.keys())
        if not fresh:
            return
        await self.work.lock_names(f"purchase/{purchase}" for purchase in fresh)
        for row in await reads.orders_of_purchases(self.work, fresh):
            self._purchases.setdefault(str(row.purchase), set()).add(row.reference)
            if row.reference not in self._orders_complete:
                self._orders_complete.add(row.reference)
                found[row.reference] = row

    async def _load_line_of(self, references: Iterable[str]) -> None:
        """Read the watermarks' hashes where these orders' transfers stand."""
        names = {name for ref in references for name in self._of_order.get(ref, ())}
        held = [self.transfers[name] for name in names]
        await self.load_line((row.lane, row.height) for row in held if row.height is not None)

    async def load_line(self, places: Iterable[tuple[str, int]]) -> None:
        """Read the hashes that a lane's watermarks name at these heights."""
        by_lane: dict[str, set[int]] = {}
        for lane, height in places:
            if (lane, height) not in self._line:
                by_lane.setdefault(lane, set()).add(height)
        for lane, heights in sorted(by_lane.items()):
            line = await reads.line_hashes(self.work, lane, heights)
            self._line.update({(lane, height): line.get(height) for height in heights})

    async def reload_line(self, lane: str) -> None:
        """Read a lane's line anew, after blocks left the chain."""
        places = [place for place in self._line if place[0] == lane]
        for place in places:
            del self._line[place]
        await self.load_line(places)

    def _is_on_the_line(self, row: rows.TransferRow) -> bool:
        """Tell whether the lane's watermark, if it has one there, names the transfer's block."""
        if row.height is None:
            return True
        view = self.lanes.get(row.lane)
        applied = view.applied if view else ()
        here = next((w.hash for w in reversed(applied) if w.height == row.height), None)
        known = here or self._line.get((row.lane, row.height))
        return known is None or known == row.block_hash

    # Reading what is loaded

    def address_of(self, entry: OrderEntry) -> rows.AddressRow:
        """Give the address row of an order."""
        return self.addresses[entry.row.family, entry.row.address_key]

    def group_of(self, entry: OrderEntry) -> Sequence[OrderEntry]:
        """Give the orders that are judged together: those of one purchase, oldest first."""
        names = self._purchases.get(entry.row.purchase or "", set()) | {entry.row.reference}
        members = [self.orders[name] for name in names]
        return sorted(members, key=lambda e: (e.row.placed_at, e.row.reference))

    def lane_of(self, entry: OrderEntry) -> LaneView:
        """Give the lane whose coverage an order is judged by."""
        return self.lanes[entry.row.lane]

    def shares_of(self, transfer: str) -> Sequence[rows.ShareRow]:
        """Tell to whom a transfer was given."""
        return self._shares.get(transfer, ())

    def owners_of(self, transfer: str) -> Sequence[str]:
        """Name the orders that a transfer was given to."""
        return [share.order_ref for share in self._shares.get(transfer, ())]

    def transfers_of(self, reference: str) -> Sequence[rows.TransferRow]:
        """List an order's transfers in the order in which they were first applied."""
        names = self._of_order.get(reference, ())
        return sorted(
            (self.transfers[name] for name in names), key=lambda row: (row.seq, row.transfer)
        )

    def transfers_of_tx(self, chain: str, tx: str) -> Sequence[rows.TransferRow]:
        """List the loaded transfers of one transaction."""
        return [self.transfers[name] for name in sorted(self._of_tx.get((chain, tx), ()))]

    def view_of(self, entry: OrderEntry) -> tuple[OrderTransfer, ...]:
        """Give an order's transfers as its judge sees them."""
        return tuple(
            self._as_seen(row, entry.row.reference)
            for row in self.transfers_of(entry.row.reference)
        )

    def _as_seen(self, row: rows.TransferRow, reference: str) -> OrderTransfer:
        share = next(s for s in self._shares[row.transfer] if s.order_ref == reference)
        block = None
        if row.height is not None and row.block_hash is not None and row.block_time is not None:
            block = BlockRef(height=row.height, hash=row.block_hash, time=row.block_time)
        return OrderTransfer(
            transfer=TransferName(row.transfer),
            chain=ChainName(row.chain),
            tx=row.tx,
            asset=AssetName(row.asset),
            amount=row.amount,
            share=share.share,
            state=TransferState(row.state),
            block=block,
            first_time=row.first_time,
            tx_total=row.tx_total,
            rule=MatchRule(row.rule),
            reason=row.reason,
            heard_at=row.heard_at,
            coinbase=row.coinbase,
            was_final=row.was_final,
            retracted_at=row.retracted_at,
            on_the_line=self._is_on_the_line(row),
            decided=row.decided,
            disposed=row.disposed is not None,
        )

    # Changing

    def add_order(self, row: rows.OrderRow, state: OrderState) -> OrderEntry:
        """Take in a new order."""
        check(row.reference not in self.orders, f"order {row.reference} is placed twice")
        entry = OrderEntry(row, state)
        entry.dirty = True
        self.orders[row.reference] = entry
        self._orders_complete.add(row.reference)
        self._new_orders.add(row.reference)
        if row.purchase is not None:
            self._purchases.setdefault(row.purchase, set()).add(row.reference)
        return entry

    def add_address(self, row: rows.AddressRow) -> None:
        """Take in a new address."""
        self.addresses[row.family, row.key] = row
        self._new_addresses.add((row.family, row.key))

    def touch_address(self, row: rows.AddressRow) -> None:
        """Note that an address row changed."""
        self._dirty_addresses.add((row.family, row.key))

    def put_transfer(self, row: rows.TransferRow) -> None:
        """Take in a new transfer, or note that one changed."""
        if row.transfer not in self.transfers:
            self._new_transfers.add(row.transfer)
        self._take(row)
        self._dirty_transfers.add(row.transfer)

    def _take(self, row: rows.TransferRow) -> None:
        self.transfers[row.transfer] = row
        self._shares.setdefault(row.transfer, [])
        self._of_tx.setdefault((row.chain, row.tx), set()).add(row.transfer)

    def give(self, transfer: str, shares: Sequence[rows.ShareRow]) -> None:
        """Give a transfer to these orders and to nobody else: all of it, or nothing."""
        whole = self.transfers[transfer].amount
        given = sum(share.share for share in shares)
        check(not shares or given == whole, f"{transfer} has {whole}, and {given} is given away")
        for old in self._shares.get(transfer, ()):
            self._of_order.get(old.order_ref, set()).discard(transfer)
        self._shares[transfer] = []
        for share in shares:
            self._add_share(share)
        self._dirty_shares.add(transfer)

    def _add_share(self, share: rows.ShareRow) -> None:
        owners = self._shares.setdefault(share.transfer, [])
        if all(known.order_ref != share.order_ref for known in owners):
            owners.append(share)
        self._of_order.setdefault(share.order_ref, set()).add(share.transfer)

    def add_derivation(self, row: rows.DerivationRow) -> None:
        """Note that an index is given out."""
        self._next_indexes[row.key] = max(self._next_indexes.get(row.key, 0), row.index + 1)
        self.add_new("derivations", row)

    def add_new(self, table: str, row: Any) -> None:
        """Append a row that is only ever written once."""
        self.new_rows.setdefault(table, []).append(row)

    # Telling

    def send(
        self,
        *,
        topic: str,
        key: str,
        message: Message,
        event_id: str,
        recorded_at: datetime,
        subject: str | None = None,
        sequence: int | None = None,
        with_key: str | None = None,
    ) -> bytes:
        """Put a message into the outbox, with what it tells of; gives its bytes.

        `with_key`: it leaves in its turn with messages of this key, by the same relay.
        """
        name = kind_name(message)
        envelope = Envelope(
            id=event_id, type=name, time=recorded_at, subject=subject, sequence=sequence
        )
        value = encode(message)
        self.send_raw(
            topic=topic,
            key=key.encode(),
            type_name=name,
            headers=to_headers(envelope),
            value=value,
            event_id=event_id,
            recorded_at=recorded_at,
            with_key=None if with_key is None else with_key.encode(),
        )
        return value

    def send_raw(
        self,
        *,
        topic: str,
        key: bytes,
        type_name: str,
        headers: Headers,
        value: bytes | None,
        event_id: str,
        recorded_at: datetime,
        with_key: bytes | None = None,
    ) -> None:
        """Put bytes into the outbox as they are."""
        self._outbox.append(
            rows.OutboxRow(
                shard=partition_of(with_key or key, self.context.relay_shards),
                topic=topic,
                key=key,
                type=type_name,
                event_id=event_id,
                headers=msgspec.msgpack.encode(headers),
                value=value,
                recorded_at=recorded_at,
            )
        )

    # Exceptions

    async def exception(self, name: str) -> rows.ExceptionRow | None:
        """Read an exception, once a unit of work, behind its lock: some belong to no address."""
        if name not in self._exceptions_known:
            self._exceptions_known.add(name)
            await self.work.lock_names([f"exception/{name}"])
            self._exceptions.update(await reads.exceptions(self.work, [name]))
        return self._exceptions.get(name)

    def put_exception(self, row: rows.ExceptionRow) -> None:
        """Take in a new exception, or note that one changed."""
        self._exceptions[row.exception] = row
        self._exceptions_known.add(row.exception)
        self._dirty_exceptions.add(row.exception)

    # Writing

    async def flush(self) -> None:
        """Write every change, one statement a table. The ledger can be used on."""
        connection = self.work.connection
        new = sorted(self._new_addresses)
        await insert(connection, tables.addresses, [self.addresses[key] for key in new])
        changed = sorted(self._dirty_addresses - self._new_addresses)
        await upsert(
            connection,
            tables.addresses,
            [self.addresses[key] for key in changed],
            keys=("family", "key"),
        )
        await self._flush_orders()
        await self._flush_transfers()
        await upsert(
            connection,
            tables.exceptions,
            [self._exceptions[name] for name in sorted(self._dirty_exceptions)],
            keys=("exception",),
        )
        for name, fresh in self.new_rows.items():
            await insert(connection, tables.metadata.tables[name], fresh)
        await self._flush_lanes()
        entries = self.journal.take()
        if entries:
            await self.work.lock_journal(exclusive=False)
            await insert(connection, tables.journal, entries)
        await self._flush_outbox()
        self._dirty_addresses.clear()
        self._new_addresses.clear()
        self._dirty_exceptions.clear()
        self.new_rows.clear()

    async def _flush_orders(self) -> None:
        dirty = [entry for _, entry in sorted(self.orders.items()) if entry.dirty]
        for entry in dirty:
            status = entry.state.status
            entry.row.state = encode_state(entry.state)
            entry.row.phase = status.phase if status else Phase.AWAITING_PAYMENT
            entry.row.is_open = status.is_open if status else True
            entry.row.waits = status is not None and not _WAITS.isdisjoint(status.attention)
            entry.dirty = False
        connection, new = self.work.connection, self._new_orders
        placed = [entry.row for entry in dirty if entry.row.reference in new]
        await insert(connection, tables.orders, placed)
        changed = [entry.row for entry in dirty if entry.row.reference not in new]
        await update(
            connection, tables.orders, changed, key="reference", columns=rows.JUDGED_COLUMNS
        )
        self._new_orders.clear()

    async def _flush_transfers(self) -> None:
        connection = self.work.connection
        dirty, new = sorted(self._dirty_transfers), self._new_transfers
        await insert(
            connection, tables.transfers, [self.transfers[name] for name in dirty if name in new]
        )
        changed = [self.transfers[name] for name in dirty if name not in new]
        await update(
            connection,
            tables.transfers,
            changed,
            key="transfer",
            columns=rows.TransferRow.__struct_fields__[1:],
        )
        given = sorted(self._dirty_shares)
        if given:
            await writes.forget_shares(self.work, [name for name in given if name not in new])
            await insert(
                connection,
                tables.shares,
                [share for name in given for share in self._shares[name]],
            )
        self._dirty_transfers.clear()
        self._new_transfers.clear()
        self._dirty_shares.clear()

    async def _flush_lanes(self) -> None:
        changed = [view for _, view in sorted(self.lanes.items()) if view.dirty]
        await upsert(
            self.work.connection, tables.lanes, [view.row for view in changed], keys=("lane",)
        )
        for view in changed:
            view.dirty = False

    async def _flush_outbox(self) -> None:
        if not self._outbox:
            return
        await outbox.put(self.work, self._outbox)
        self._outbox = []
