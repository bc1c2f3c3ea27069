"""A small world for tests of the services: one database, a few routes, records made by hand.

Time is the test's own; nothing here sleeps or asks the machine's clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import select
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.schema import CreateIndex, CreateTable

from chains.catalog import Catalogue, load_catalogue
from reconciler.model.policy import FinalityTier, Route, RoutePolicy, Tolerance
from reconciler.services.apply_commands import CommandsApplied, apply_commands, mark_inbox
from reconciler.services.apply_facts import Applied, apply_facts
from reconciler.services.context import ServiceContext
from reconciler.services.state import OrderState, decode_state
from reconciler.services.sweep import sweep_lane
from reconciler.storage import positions, tables
from reconciler.storage.engine import make_engine
from reconciler.storage.journal import entry_hash
from reconciler.storage.unit_of_work import Store
from reconciler.stream.promise import Batch, Lane, Record
from reconciler.stream.topics import ORDERS, PAYMENT_EVENTS, PAYMENT_EXCEPTIONS, transfers_topic
from schemas.amounts import BaseUnits
from schemas.caip import AssetName, ChainName
from schemas.codec import decode_as, encode, kind_name
from schemas.commands import Decide, PlaceOrder
from schemas.envelope import Envelope, to_headers
from schemas.events import PaymentEvent, PaymentException
from schemas.facts import (
    AddressCovered,
    BalanceSeen,
    BlockRetracted,
    Evidence,
    FoundBy,
    TransferDropped,
    TransferSeen,
    Watermark,
)
from schemas.values import BlockRef, Message, ParentRef, transfer_id

ETHEREUM = ChainName("eip155:1")
POLYGON = ChainName("eip155:137")
USDT = AssetName("eip155:1/erc20:0xdAC17F958D2ee523a2206206994597C13D831ec7")
USDC = AssetName("eip155:1/erc20:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48")
ETH = AssetName("eip155:1/slip44:60")
START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
PAYER = "0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa"
BLOCK_S = 12


def address(number: int) -> str:
    """Make an address of ours; all digits, so its checksum form is itself."""
    return "0x" + str(10**39 + number)


SHARED = address(999_999)


def policy(**changes: object) -> RoutePolicy:
    """A stable asset of six decimals, final three blocks deep."""
    base = RoutePolicy(
        decimals=6,
        stable=True,
        dust=BaseUnits(10_000),
        amount_max=BaseUnits(10**15),
        tiers=(FinalityTier(up_to=None, depth=3),),
        tolerance=Tolerance(under_ppm=5_000, under_max=BaseUnits(2_000_000)),
    )
    return msgspec.structs.replace(base, **changes)


def routes(**changes: object) -> dict[str, Route]:
    """`own` takes an address with each order, `shared` tells orders apart by their amount."""
    rules = policy(**changes)
    own = Route(
        name="own",
        chain=ETHEREUM,
        asset=USDT,
        mode="given",
        policy=rules,
        minimum=BaseUnits(10_000),
    )
    shared = msgspec.structs.replace(
        own,
        name="shared",
        mode="shared",
        shared_address=SHARED,
        step=BaseUnits(10_000),
        steps_max=99,
        more_ppm=1_000_000,
        policy=msgspec.structs.replace(rules, tolerance=Tolerance()),
    )
    eth = msgspec.structs.replace(
        own,
        name="eth",
        asset=ETH,
        minimum=BaseUnits(10**12),
        policy=msgspec.structs.replace(
            rules, decimals=18, stable=False, dust=BaseUnits(10**12), amount_max=BaseUnits(10**24)
        ),
    )
    return {route.name: route for route in (own, shared, eth)}


class Chain:
    """One chain's line of blocks, as a watcher tells it."""

    def __init__(self, world: World, chain: ChainName, lanes: int) -> None:
        self.world = world
        self.chain = chain
        self.lanes = [Lane(transfers_topic(chain), n) for n in range(lanes)]
        self.height = 100
        self.branch = "a"
        self.hashes: dict[int, str] = {100: "0xa100"}
        self.time = START - timedelta(seconds=BLOCK_S)
        self.finalized = 0
        self._tx = itertools.count(1)

    def hash_at(self, height: int) -> str:
        return self.hashes.setdefault(height, f"0x{self.branch}{height}")

    def time_at(self, height: int) -> datetime:
        return START + timedelta(seconds=BLOCK_S * (height - 101))

    def block(self, height: int) -> BlockRef:
        return BlockRef(height=height, hash=self.hash_at(height), time=self.time_at(height))

    def seen(
        self,
        to: str,
        amount: int,
        *,
        tx: str | None = None,
        position: str = "log:0",
        asset: AssetName = USDT,
        height: int | None = -1,
        first_seen_at: datetime | None = None,
        sender: str = PAYER,
    ) -> TransferSeen:
        """A transfer in the next block (or at a height, or in the mempool with None)."""
        at = self.height + 1 if height == -1 else height
        name = tx or f"0x{next(self._tx):064x}"
        block = None if at is None else self.block(at)
        return TransferSeen(
            transfer=transfer_id(self.chain, name, position),
            chain=self.chain,
            asset=asset,
            sender=sender,
            to=to,
            amount=BaseUnits(amount),
            block=block,
            first_seen_at=first_seen_at or (block.time if block else self.world.now),
            evidence=Evidence(method="receipts"),
            found_by=FoundBy.WATCH if block else FoundBy.MEMPOOL,
        )

    def watermark(self, upto: int | None = None, **changes: object) -> Watermark:
        """The watermark of the next block, or of all up to a height."""
        height = self.height + 1 if upto is None else upto
        mark = Watermark(
            chain=self.chain,
            from_height=self.height + 1,
            height=height,
            hash=self.hash_at(height),
            parent_hash=self.hash_at(self.height),
            time=self.time_at(height),
            finalized_height=self.finalized,
            read_at=self.time_at(height),
            log_id="log-1",
            watchlist_upto=0,
        )
        self.height = height
        return msgspec.structs.replace(mark, **changes)

    def retraction(self) -> BlockRetracted:
        """The newest block leaves the chain; the next one there has another hash."""
        gone = self.height
        fact = BlockRetracted(
            chain=self.chain,
            height=gone,
            hash=self.hash_at(gone),
            parent=ParentRef(height=gone - 1, hash=self.hash_at(gone - 1)),
        )
        del self.hashes[gone]
        self.height -= 1
        self.branch = chr(ord(self.branch) + 1)
        return fact

    def covered(self, text: str) -> AddressCovered:
        return AddressCovered(
            chain=self.chain, address=text, from_height=1, from_time=START - timedelta(days=1)
        )

    def balance(
        self, to: str, amount: int, *, asset: AssetName = USDT, height: int | None = None
    ) -> BalanceSeen:
        """What an address holds after the newest block, or after another."""
        block = self.block(self.height if height is None else height)
        return BalanceSeen(
            request=f"balance-{block.height}",
            chain=self.chain,
            asset=asset,
            address=to,
            block=block,
            balance=BaseUnits(amount),
        )

    def at(self, seen: TransferSeen) -> TransferSeen:
        """The same transfer in the next block."""
        return msgspec.structs.replace(
            seen, block=self.block(self.height + 1), found_by=FoundBy.WATCH
        )

    def dropped(self, seen: TransferSeen) -> TransferDropped:
        return TransferDropped(
            transfer=seen.transfer,
            chain=self.chain,
            to=seen.to,
            replaced_by="0xother",
            reason="nonce spent by another",
        )


@cache
def _catalogue() -> Catalogue:
    return load_catalogue()


@cache
def _tables_in_sqlite() -> str:
    """Write our tables as one script: made once, it is run in a tenth of the time."""
    dialect = sqlite.dialect()
    made: list[str] = []
    for table in tables.metadata.sorted_tables:
        made.append(f"DROP TABLE IF EXISTS {table.name}")
        made.append(str(CreateTable(table).compile(dialect=dialect)))
        made += [str(CreateIndex(index).compile(dialect=dialect)) for index in table.indexes]
    return ";\n".join(made) + ";"


class World:
    """The database, the clock, and both kinds of lanes."""

    def __init__(self, engine: AsyncEngine | None, *, lanes: int = 1, **changes: object) -> None:
        if engine is not None:
            self.engine = engine
            self.store = Store(engine)
        self.now = START
        self.catalogue: Catalogue = _catalogue()
        self.context = ServiceContext(
            catalogue=self.catalogue,
            routes=routes(**changes),
            lanes={ETHEREUM: lanes, POLYGON: 1},
            secret=b"a secret of thirty-two bytes....",
            orders_partitions=1,
        )
        self.ethereum = Chain(self, ETHEREUM, lanes)
        self.polygon = Chain(self, POLYGON, 1)
        self.sweeps = True
        self._offsets: dict[str, int] = {}
        self._keys = itertools.count(1)

    @classmethod
    async def open(cls, url: str = "sqlite+aiosqlite://", **changes: object) -> World:
        engine = make_engine(url)
        if engine.dialect.name != "sqlite":
            async with engine.begin() as connection:
                await connection.run_sync(tables.metadata.drop_all)
                await connection.run_sync(tables.metadata.create_all)
            return cls(engine, **changes)
        async with engine.connect() as connection:  # a script is quicker, and there are hundreds
            raw = await connection.get_raw_connection()
            await raw.driver_connection.executescript(_tables_in_sqlite())
        return cls(engine, **changes)

    @classmethod
    def without_database(cls, **changes: object) -> World:
        """One that only writes records."""
        return cls(None, **changes)

    async def close(self) -> None:
        await self.store.close()

    # Records

    def record(
        self, lane: Lane, key: str, message: Message, time: datetime | None = None
    ) -> Record:
        offset = self._offsets.get(lane.name, 0)
        self._offsets[lane.name] = offset + 1
        envelope = Envelope(id=f"{lane.name}/{offset}", type=kind_name(message), time=self.now)
        return Record(
            lane=lane,
            offset=offset,
            key=key.encode(),
            value=encode(message),
            headers=to_headers(envelope),
            time=time or self.now,
        )

    def raw(self, lane: Lane, type_name: str, value: bytes, key: str = "k") -> Record:
        offset = self._offsets.get(lane.name, 0)
        self._offsets[lane.name] = offset + 1
        headers = to_headers(Envelope(id=f"raw/{offset}", type=type_name, time=self.now))
        return Record(
            lane=lane, offset=offset, key=key.encode(), value=value, headers=headers, time=self.now
        )

    async def position(self, lane: Lane) -> int | None:
        return await self.store.read(lambda work: positions.position(work, lane.name))

    # Applying

    async def facts(self, *messages: Message, lane: Lane | None = None) -> Applied:
        """Apply facts of one chain, one batch; then sweep."""
        chain = (
            self.ethereum if getattr(messages[0], "chain", ETHEREUM) == ETHEREUM else self.polygon
        )
        where = lane or chain.lanes[0]
        records = [self.record(where, getattr(m, "to", "block").lower(), m) for m in messages]
        return await self.apply_records(where, records)

    async def apply_records(self, lane: Lane, records: Sequence[Record]) -> Applied:
        batch = Batch(lane=lane, records=records, next_offset=self._offsets.get(lane.name, 0))
        return await self.apply_batch(batch)

    async def apply_batch(self, batch: Batch) -> Any:
        """Apply a batch of whatever lane; then sweep."""
        lane = batch.lane
        if lane.topic == ORDERS:
            held = await self.position(lane)
            return await apply_commands(self.store, self.context, batch, held=held)
        done = await apply_facts(self.store, self.context, batch, held=await self.position(lane))
        if self.sweeps:
            await self.sweep()
        return done

    async def commands(self, *messages: Message) -> CommandsApplied:
        """Apply commands, one batch."""
        lane = Lane(ORDERS, 0)
        records = [self.record(lane, getattr(m, "reference", "d"), m) for m in messages]
        return await self.command_records(records)

    async def command_records(self, records: Sequence[Record]) -> CommandsApplied:
        lane = Lane(ORDERS, 0)
        batch = Batch(lane=lane, records=records, next_offset=self._offsets[lane.name])
        return await apply_commands(self.store, self.context, batch, held=await self.position(lane))

    async def sweep(self) -> None:
        for chain in (self.ethereum, self.polygon):
            for lane in chain.lanes if chain.chain in self.context.lanes else ():
                while await sweep_lane(self.store, self.context, lane.name):
                    pass

    async def inbox(self, until: datetime | None = None) -> None:
        """Say that `orders` was applied up to now."""
        await mark_inbox(self.store, Lane(ORDERS, 0), until or self.now)

    def key(self) -> str:
        return f"key-{next(self._keys)}"

    async def mine(self, blocks: int = 1, *facts: Message, chain: Chain | None = None) -> None:
        """Let blocks pass; the facts stand in the first of them. The clock follows the chain."""
        line = chain or self.ethereum
        for number in range(blocks):
            mark = line.watermark()
            self.now = max(self.now, mark.time)
            await self.inbox()
            await self.facts(*(facts if number == 0 else ()), mark)

    async def pass_time(self, span: timedelta, chain: Chain | None = None) -> None:
        """Let an empty span pass under one watermark."""
        line = chain or self.ethereum
        steps = int(span.total_seconds() // BLOCK_S) + 1
        mark = line.watermark(line.height + steps)
        self.now = max(self.now, mark.time)
        await self.inbox()
        await self.facts(mark)

    async def place(self, reference: str = "o-1", amount: int = 25_000_000, **more: object) -> str:
        """Place an order and cover its address; gives the address that it is paid to."""
        number = int(reference.rpartition("-")[2])
        fields: dict[str, Any] = {"route": "own", "address": address(number), **more}
        if fields["route"] == "shared":
            fields["address"] = None
        key = self.key()
        await self.commands(
            PlaceOrder(idempotency_key=key, reference=reference, amount=str(amount), **fields)
        )
        to = fields["address"] or SHARED
        await self.facts(self.ethereum.covered(to))
        return to

    async def decide(
        self, action: Any, *, actor: str = "ada", reason: str = "because", key: str | None = None
    ) -> str:
        """A person decides; gives the decision's key."""
        name = key or self.key()
        await self.commands(Decide(idempotency_key=name, actor=actor, reason=reason, action=action))
        return name

    # Reading

    async def last(self, order: str = "o-1") -> PaymentEvent:
        """The order's last event."""
        return (await self.events(order))[-1]

    async def journal(self, order: str = "o-1") -> list[str]:
        """What the journal tells of an order: `fact`, `command`, `decision`, or its new phase.

        On the way every chain is followed: an entry that does not fit the one before it fails.
        """
        table, heads, told = tables.journal, dict[str, bytes](), list[str]()
        async with self.engine.connect() as connection:
            for row in await connection.execute(select(table).order_by(table.c.id)):
                assert row.previous_hash == heads.get(row.chain_key, bytes(32))
                fields = ("chain_key", "kind", "seq", "recorded_at")
                about = {name: getattr(row, name) for name in fields}
                assert row.hash == entry_hash(row.previous_hash, row.body, **about)
                heads[row.chain_key] = row.hash
                if row.chain_key == f"order/{order}":
                    status = msgspec.json.decode(row.body).get("status", {})
                    told.append(status.get("phase", row.kind))
        return told

    async def state(self, order: str) -> OrderState:
        """The order's whole document."""
        async with self.engine.connect() as connection:
            statement = select(tables.orders.c.state).where(tables.orders.c.reference == order)
            return decode_state((await connection.execute(statement)).scalar_one())

    async def events(self, order: str | None = None) -> list[PaymentEvent]:
        rows = await self._outbox(PAYMENT_EVENTS)
        found = [decode_as(PaymentEvent, value) for value in rows]
        return [event for event in found if order is None or event.order == order]

    async def kinds(self, order: str) -> list[str]:
        return [event.kind.value for event in await self.events(order)]

    async def exceptions(self) -> list[PaymentException]:
        rows = await self._outbox(PAYMENT_EXCEPTIONS)
        return [decode_as(PaymentException, value) for value in rows]

    async def open_exceptions(self) -> dict[str, PaymentException]:
        last = {e.exception: e for e in await self.exceptions()}
        return {e.kind.value: e for e in last.values() if e.open}

    async def rejections(self) -> list[tuple[str, bytes]]:
        async with self.engine.connect() as connection:
            found = await connection.execute(
                select(tables.outbox.c.headers, tables.outbox.c.value)
                .where(tables.outbox.c.topic == "orders-rejected")
                .order_by(tables.outbox.c.id)
            )
            return [
                (dict(msgspec.msgpack.decode(headers))["rejected_code"].decode(), value)
                for headers, value in found
            ]

    async def _outbox(self, topic: str) -> list[bytes]:
        async with self.engine.connect() as connection:
            found = await connection.execute(
                select(tables.outbox.c.value)
                .where(tables.outbox.c.topic == topic)
                .order_by(tables.outbox.c.id)
            )
            return [row[0] for row in found]
