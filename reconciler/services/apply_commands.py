"""Apply a batch of one `orders` lane: one transaction, position first.

A command that cannot be read or breaks a rule goes to `orders-rejected` with the bytes as they came and
the reason; it never blocks another. One for a reference that is not known yet waits for a while.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct, field

from chains.addresses import AddressError
from chains.catalog import CatalogueError
from chains.registry import parse_address
from reconciler.services.amend_order import amend_order
from reconciler.services.cancel_order import cancel_order
from reconciler.services.claim_payment import claim_payment
from reconciler.services.context import ServiceContext
from reconciler.services.decide import decide, load_for_decision
from reconciler.services.derive_address import name_of_lock
from reconciler.services.incoming import Incoming, read_record
from reconciler.services.ledger import AddressKey, Ledger, Paired
from reconciler.services.place_order import place_order
from reconciler.services.position import move_position
from reconciler.services.refused import RefusedError
from reconciler.services.reject import reject
from reconciler.services.seqs import Seqs
from reconciler.storage import positions, reads, writes
from reconciler.storage.rows import CommandRow, ParkedRow
from reconciler.storage.unit_of_work import Store, Work
from reconciler.stream.promise import Batch, Lane, Record
from reconciler.stream.topics import ORDERS, transfers_topic
from schemas.caip import family_of
from schemas.codec import COMMAND_KINDS, encode
from schemas.codes import Rejection
from schemas.commands import (
    AmendOrder,
    CancelOrder,
    ClaimPaid,
    Decide,
    Hold,
    PlaceOrder,
    Release,
)
from schemas.values import Message


class CommandsApplied(Struct, kw_only=True):
    """What a batch did. `refusals` counts by rejection code, `matched` by chain and rule."""

    applied: int = 0
    repeated: int = 0
    parked: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    matched: Mapping[Paired, int] = field(default_factory=dict)

    @property
    def rejected(self) -> int:
        """How many were refused."""
        return self.refusals.total()


async def apply_commands(
    store: Store, context: ServiceContext, batch: Batch, *, held: int | None
) -> CommandsApplied:
    """Apply a batch behind position `held`. **Raises**: `PositionMovedError` (seek again)."""
    items = [read_record(record, COMMAND_KINDS) for record in batch.records]

    async def use_case(work: Work) -> CommandsApplied:
        run = _Run(Ledger(work, context))
        await run.lock(items)
        await move_position(work, batch, held=held)
        return await run.apply(items)

    done = await store.run(use_case, name="apply_commands")
    if items:
        store.outbox_written.set()
    return done


async def mark_inbox(store: Store, lane: Lane, until: datetime) -> None:
    """Note that everything of an `orders` lane that the log took up to a time was applied."""

    async def use_case(work: Work) -> None:
        await positions.mark_inbox(work, lane.name, until=until)

    await store.run(use_case, name="mark_inbox")


async def apply_own_decision(
    store: Store, context: ServiceContext, command: Decide, at: datetime
) -> None:
    """Apply a decision of the service itself; it stands in the journal like a person's."""
    item = Incoming(
        topic=ORDERS,
        partition=0,
        offset=-1,
        key=command.actor.encode(),
        type=type(command).__name__,
        headers=(),
        value=encode(command),
        recorded_at=at,
        message=command,
    )

    async def use_case(work: Work) -> CommandsApplied:
        run = _Run(Ledger(work, context))
        await run.lock([item])
        return await run.apply([item])

    await store.run(use_case, name="apply_own_decision")
    store.outbox_written.set()


async def reject_parked(
    store: Store, context: ServiceContext, *, before: datetime, limit: int = 200
) -> int:
    """Reject commands whose order did not come in time."""

    async def use_case(work: Work) -> int:
        ledger = Ledger(work, context)
        found = await writes.take_parked_before(work, before, limit=limit)
        for row in found:
            reject(ledger, _unpark(row), RefusedError(Rejection.UNKNOWN_ORDER))
        await ledger.flush()
        return len(found)

    count = await store.run(use_case, name="reject_parked")
    if count:
        store.outbox_written.set()
    return count


class _Run:
    """One batch under way."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.commands: dict[str, CommandRow] = {}
        self.waiting: set[str] = set()
        self.seqs = Seqs(ledger.work, 0)
        self.done = CommandsApplied()

    async def lock(self, items: Sequence[Incoming]) -> None:
        """Hold still the coverage that the commands are judged by, then names, in the one order."""
        work, context = self.ledger.work, self.ledger.context
        messages = [item.message for item in items if item.message is not None]
        references = {ref for m in messages if (ref := getattr(m, "reference", None))}
        known = (await reads.orders(work, references)).values()
        places = [m for m in messages if isinstance(m, PlaceOrder)]
        lanes = {row.lane for row in known}
        for place in places:
            lanes |= _lanes_of_place(context, place)
        await self._lock_lanes(messages, lanes)
        names = {f"command/{getattr(m, 'idempotency_key', '')}" for m in messages}
        # One reference may come on two partitions: an order that is not there yet is waited for.
        names |= {f"order/{reference}" for reference in references}
        purchases = {row.purchase for row in known} | {m.purchase for m in places}
        names |= {f"purchase/{purchase}" for purchase in purchases if purchase is not None}
        routes = [route for m in places if (route := context.routes.get(m.route)) is not None]
        names |= {name_of_lock(r.derivation.key.name) for r in routes if r.derivation is not None}
        addresses = [key for m in places if (key := _address_of_place(context, m)) is not None]
        names |= {f"address/{family}/{key}" for family, key in addresses}
        await work.lock_names(names)

    async def _lock_lanes(self, messages: Sequence[Message], lanes: set[str]) -> None:
        """Hold coverage still; a person's decision may touch any lane, a hold touches all at once."""
        work = self.ledger.work
        decisions = [m for m in messages if isinstance(m, Decide)]
        if decisions:
            lanes = lanes | {*self.ledger.context.facts_lanes, *await reads.lane_names(work)}
        if any(isinstance(m.action, Hold | Release) for m in decisions):
            await work.lock_all_lanes(lanes)
        await work.lock_lanes(exclusive=None, shared=sorted(lanes))

    async def apply(self, items: Sequence[Incoming]) -> CommandsApplied:
        ledger = self.ledger
        messages = [item.message for item in items if item.message is not None]
        self.commands = await reads.commands(
            ledger.work, {getattr(m, "idempotency_key", "") for m in messages}
        )
        await ledger.load_holds()
        references = {ref for m in messages if (ref := getattr(m, "reference", None))}
        places = [m for m in messages if isinstance(m, PlaceOrder)]
        await ledger.lock_addresses(
            key for m in places if (key := _address_of_place(ledger.context, m)) is not None
        )
        await ledger.load_orders(references)
        for message in messages:
            if isinstance(message, Decide):
                await load_for_decision(ledger, message.action)
        await ledger.load_derivations(m.reference for m in places if _derives(ledger.context, m))
        self.waiting = await reads.parked_references(ledger.work, {m.reference for m in places})
        self.seqs = Seqs(ledger.work, len(items))
        for item in items:
            await self._apply_or_reject(item, await self.seqs.take())
        await ledger.flush()
        self.done.matched = ledger.matched
        return self.done

    async def _apply_or_reject(self, item: Incoming, seq: int) -> None:
        try:
            await self._apply(item, seq)
        except RefusedError as error:
            self._refuse(item, error)

    def _refuse(self, item: Incoming, error: RefusedError) -> None:
        self.done.refusals[error.code.value] += 1
        reject(self.ledger, item, error)

    async def _apply(self, item: Incoming, seq: int) -> None:
        message = item.message
        if message is None:
            code = Rejection.UNKNOWN_TYPE if item.unknown_type else Rejection.UNREADABLE
            raise RefusedError(code, item.why)
        if await self._is_repeat(item, message):
            self.done.repeated += 1
            return
        if isinstance(message, PlaceOrder):
            await place_order(self.ledger, item, message, seq)
            self._remember(item, message)
            await self._apply_parked(message.reference, item.recorded_at)
            return
        if isinstance(message, Decide):
            await decide(self.ledger, item, message, seq)
            self._remember(item, message)
            return
        if not isinstance(message, ClaimPaid | CancelOrder | AmendOrder):
            raise RefusedError(Rejection.UNKNOWN_TYPE, item.type)
        entry = self.ledger.orders.get(message.reference)
        if entry is None:
            self._park(item, message.reference)
            return
        if isinstance(message, ClaimPaid):
            await claim_payment(self.ledger, entry, item, message, seq)
        elif isinstance(message, CancelOrder):
            await cancel_order(self.ledger, entry, item, message, seq)
        else:
            await amend_order(self.ledger, entry, item, message, seq)
        self._remember(item, message)

    async def _is_repeat(self, item: Incoming, message: Message) -> bool:
        """Tell a repeat; the same key with other content is a conflict."""
        known = self.commands.get(getattr(message, "idempotency_key", ""))
        if known is None:
            return False
        if known.digest != digest_of(item.type, message):
            raise RefusedError(Rejection.IDEMPOTENCY_CONFLICT, f"Found {known.key}.")
        return True

    def _remember(self, item: Incoming, message: Message) -> None:
        self.done.applied += 1
        row = CommandRow(
            key=getattr(message, "idempotency_key", ""),
            digest=digest_of(item.type, message),
            reference=getattr(message, "reference", ""),
            applied_at=item.recorded_at,
        )
        self.commands[row.key] = row
        self.ledger.add_new("commands", row)

    def _park(self, item: Incoming, reference: str) -> None:
        self.done.parked += 1
        self.waiting.add(reference)
        self.ledger.add_new(
            "parked",
            ParkedRow(
                reference=reference,
                lane=Lane(item.topic, item.partition).name,
                offset=item.offset,
                key=item.key,
                type=item.type,
                headers=msgspec.msgpack.encode(item.headers),
                value=item.value,
                recorded_at=item.recorded_at,
            ),
        )

    async def _apply_parked(self, reference: str, placed_at: datetime) -> None:
        """Apply what waited for this order; what waited too long is rejected."""
        if reference not in self.waiting:
            return
        await self.ledger.flush()
        for row in await writes.take_parked(self.ledger.work, [reference]):
            item = _unpark(row)
            if row.recorded_at + self.ledger.context.parked_for < placed_at:
                self._refuse(item, RefusedError(Rejection.UNKNOWN_ORDER))
                continue
            key = getattr(item.message, "idempotency_key", "")
            await self.ledger.work.lock_names([f"command/{key}"])
            self.commands.update(await reads.commands(self.ledger.work, [key]))
            self.seqs.draw_anew()
            await self._apply_or_reject(item, await self.seqs.take())


def digest_of(type_name: str, message: Message) -> bytes:
    """Give what an idempotency key stands for: the same key with another digest is a conflict."""
    return hashlib.sha256(type_name.encode() + b"\x00" + encode(message)).digest()


def _address_of_place(context: ServiceContext, command: PlaceOrder) -> AddressKey | None:
    """Give the address that an order to be placed will have, if it can be told."""
    route = context.routes.get(command.route)
    if route is None:
        return None
    try:
        address = parse_address(route.chain, route.shared_address or command.address or "")
    except (AddressError, CatalogueError):
        return None
    return family_of(route.chain), address.key


def _derives(context: ServiceContext, command: PlaceOrder) -> bool:
    route = context.routes.get(command.route)
    return route is not None and route.mode == "derived"


def _lanes_of_place(context: ServiceContext, command: PlaceOrder) -> set[str]:
    """Name the lanes by one of which an order to be placed will be judged, if it can be told.

    A derived address is only found behind later locks: any lane of its chain may be its own.
    """
    route = context.routes.get(command.route)
    if route is not None and route.mode == "derived":
        topic = transfers_topic(route.chain)
        return {Lane(topic, number).name for number in range(context.lanes[route.chain])}
    address = _address_of_place(context, command)
    if address is None:
        return set()
    return {context.lane_of(context.routes[command.route].chain, address[1])}


def _unpark(row: ParkedRow) -> Incoming:
    topic, _, partition = row.lane.rpartition("/")
    record = Record(
        lane=Lane(topic, int(partition)),
        offset=row.offset,
        key=row.key,
        value=row.value,
        headers=tuple(msgspec.msgpack.decode(row.headers, type=list[tuple[str, bytes]])),
        time=row.recorded_at,
    )
    return read_record(record, COMMAND_KINDS)
