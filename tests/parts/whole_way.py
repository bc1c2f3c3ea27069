"""The whole way of a payment on one thread: devnet nodes, source, loop, messages, services.

Everything between a node's HTTP answer and the outbox is the product's own; only the processes are
left out, so that nothing waits for a machine's clock. Time is the chain's: it moves with blocks.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import select

from chains.catalog import Asset
from chains.devnet import Devnet, DevnetChain
from chains.devnet.node import DevnetNode
from chains.port import Step, WatchEntry
from chains.registry import raw_of_key
from reconciler.model.policy import Route
from reconciler.services.sweep import sweep_lane
from reconciler.storage import tables
from reconciler.stream.promise import Lane, Record
from reconciler.stream.topics import requests_topic, watchlist_topic
from reconciler.watch.publishing import messages_of
from schemas.caip import ChainName, family_of
from schemas.codec import REQUEST_KINDS, decode
from schemas.codes import ClaimEnd
from schemas.commands import ClaimPaid, PlaceOrder
from schemas.envelope import from_headers
from schemas.requests import ChainRequest, WatchAddress
from schemas.values import Message
from tests.parts.way_line import Line, Tip
from tests.parts.world import BLOCK_S, ETHEREUM, POLYGON, START, World, address

BSC = ChainName("eip155:56")
STEPS_MAX = 2_000
FIRST_BLOCKS = 2
FINALITY_LAG = 6


class EvmLine(Line):
    """An EVM chain: scripted blocks behind devnet nodes."""

    def __init__(self, way: Way, chain: ChainName, **seed: Any) -> None:
        super().__init__(way, chain)
        self.id = int(chain.partition(":")[2])
        began = int(START.timestamp()) - FIRST_BLOCKS * BLOCK_S
        self.chain: DevnetChain = way.devnet.add_chain(
            self.id, block_time_s=BLOCK_S, genesis_time=began, **seed
        )
        self.chain.finality_lag(FINALITY_LAG)
        self.payer = self.chain.account("payer")
        self.wallet = self.chain.account("wallet")
        self.chain.set_code(self.wallet)
        for asset in way.world.catalogue.assets_of(chain):
            if not asset.is_coin:
                contract = asset.id.rpartition(":")[2]
                self.chain.deploy_token(asset.symbol, asset.decimals, address=contract)
                for owner in (self.payer, self.wallet):
                    self.chain.give_token(contract, owner, 10**32)
        self.chain.mine(FIRST_BLOCKS)
        self.urls = [way.devnet.url(self.id)]

    @property
    def tip(self) -> Tip:
        head = self.chain.block()
        return Tip(head.hash, head.time)

    def mine(self, blocks: int = 1, **more: Any) -> None:
        self.chain.mine(blocks, **more)

    def pass_time(self, span: timedelta) -> None:
        self.chain.mine(1, time=self.tip.time + int(span.total_seconds()), transactions=())

    @property
    def node(self) -> DevnetNode:
        return self.way.devnet.node(self.id)

    def second_node(self, *, first: bool = False) -> DevnetNode:
        """Add a node; the source asks it after the other one, or before."""
        node = self.way.devnet.add_node(self.id, "b")
        self.urls.insert(0 if first else 1, self.way.devnet.url(self.id, "b"))
        return node

    def token(self, symbol: str) -> str:
        return self.asset(symbol).id.rpartition(":")[2]

    def pay(self, to: str, amount: int, symbol: str = "USDT") -> str:
        """Let the customer pay; gives the transaction."""
        if self.asset(symbol).is_coin:
            return self.chain.pay_coin(self.payer, to, amount)
        return self.chain.pay_token(self.token(symbol), self.payer, to, amount)


class Way:
    """Some chains before one world."""

    def __init__(self, world: World, devnet: Devnet) -> None:
        self.world, self.devnet = world, devnet
        self.lines: dict[ChainName, Any] = {}
        self.offset: dict[ChainName, int] = {}
        self._watchlist: dict[str, int] = {}
        self._asked: set[int] = set()

    @property
    def ethereum(self) -> EvmLine:
        return self.lines[ETHEREUM]

    @property
    def polygon(self) -> EvmLine:
        return self.lines[POLYGON]

    @property
    def first(self) -> Line:
        """The chain that is meant where none is named."""
        return next(iter(self.lines.values()))

    async def add(self, chain: ChainName, *, start: bool = True, **seed: Any) -> EvmLine:
        self.lines[chain] = line = EvmLine(self, chain, **seed)
        if start:
            await line.open()
        return line

    async def place(self, reference: str = "o-1", amount: int = 25_000_000, **more: Any) -> str:
        """Place an order and let its address be watched; gives the address."""
        number = int(reference.rpartition("-")[2])
        fields: dict[str, Any] = {"route": "own", "address": address(number), **more}
        if fields["route"] == "shared":
            fields["address"] = None
        key = self.world.key()
        await self.world.commands(
            PlaceOrder(idempotency_key=key, reference=reference, amount=str(amount), **fields)
        )
        await self.flow()
        return str((await self.world.last(reference)).address)

    async def claim(self, tx: str | None = None, order: str = "o-1", **more: Any) -> None:
        await self.world.commands(
            ClaimPaid(idempotency_key=self.world.key(), reference=order, transaction=tx, **more)
        )
        await self.flow()

    async def end_of_claim(self, order: str = "o-1") -> ClaimEnd:
        return (await self.world.state(order)).claims[-1].end

    async def mine(self, blocks: int = 1, *, on: Line | None = None, **more: Any) -> None:
        """Mine, and let what is in the blocks arrive; the clock follows the chain."""
        line = on or self.first
        line.mine(blocks, **more)
        await self.catch_up(line)

    async def pass_time(self, span: timedelta, *, on: Line | None = None) -> None:
        """Nothing but empty blocks, so much later."""
        line = on or self.first
        line.pass_time(span)
        await self.catch_up(line)

    async def catch_up(self, line: Line) -> None:
        head = datetime.fromtimestamp(line.tip.time, START.tzinfo)
        passed_s = max(0.0, (head - self.world.now).total_seconds())
        self.world.now += timedelta(seconds=passed_s)
        for each in self.lines.values():
            each.clock.pass_by(passed_s)
        await self.world.inbox()
        await self.flow()

    async def flow(self) -> None:
        """Let everything that is on its way arrive."""
        for _ in range(STEPS_MAX):
            moved = False
            for line in self.lines.values():
                moved |= await line.step()
            if not moved:
                return
        message = "the loops never come to rest"
        raise AssertionError(message)

    # What the relay and the watcher's door do

    async def tell(self) -> None:
        """Carry what the services wrote for the watchers to the loops."""
        written = self.world.store.outbox_written
        if not written.is_set():
            return
        written.clear()
        table = tables.outbox
        async with self.world.engine.connect() as connection:
            rows = list(
                await connection.execute(
                    select(table.c.id, table.c.topic, table.c.key, table.c.value, table.c.headers)
                    .where(table.c.topic.like("watchlist.%") | table.c.topic.like("requests.%"))
                    .order_by(table.c.id)
                )
            )
        for name, line in self.lines.items():
            if line.loop is None:
                continue
            told = self.offset.get(name, 0)
            mine = [row for row in rows if row.id > told]
            if mine:
                self.offset[name] = mine[-1].id
            watched = [row for row in mine if row.topic == watchlist_topic(family_of(name))]
            if watched:
                entries = [_entry(name, row.key, row.value, row.id) for row in watched]
                line.loop.add_addresses(entries, read_upto_offset=watched[-1].id + 1)
            for row in mine:
                if row.topic == requests_topic(name):
                    line.loop.request(_request(row))

    async def publish(self, line: Line, step: Step) -> None:
        """Apply a step as intake does: as messages of the lanes, a batch each; then sweep."""
        world = self.world
        lanes = world.context.lanes[line.name]
        swept = [*world.ethereum.lanes, *world.polygon.lanes]  # by the world itself
        records: dict[Lane, list[Record]] = {}
        for message in messages_of(step, line.name, lanes=lanes, now=world.now):
            lane = message.lane
            offset = world._offsets.get(lane.name, 0)
            world._offsets[lane.name] = offset + 1
            records.setdefault(lane, []).append(
                Record(
                    lane=lane,
                    offset=offset,
                    key=message.key,
                    value=message.value,
                    headers=message.headers,
                    time=world.now,
                )
            )
        for lane, batch in records.items():
            await world.apply_records(lane, batch)
            while world.sweeps and lane not in swept and await self._sweep(lane):
                pass

    async def _sweep(self, lane: Lane) -> int:
        return await sweep_lane(self.world.store, self.world.context, lane.name)


def _entry(chain: ChainName, key: bytes, value: bytes, offset: int) -> WatchEntry:
    wanted = msgspec.json.decode(value, type=WatchAddress)
    return WatchEntry(
        raw=raw_of_key(chain, key.decode()),
        display=wanted.address,
        since=wanted.since,
        offset=offset,
    )


def _request(row: Any) -> ChainRequest:
    headers = [(name, value) for name, value in msgspec.msgpack.decode(row.headers)]
    kind = from_headers(headers, default_time=START).type
    message: Message = decode(kind, row.value, REQUEST_KINDS)
    return message  # type: ignore[return-value]


def route_of(like: Route, asset: Asset, **rules: Any) -> Route:
    """A route like another one, in another asset; `rules` are of its policy."""
    policy = msgspec.structs.replace(
        like.policy, decimals=asset.decimals, stable=asset.asset_class == "stable", **rules
    )
    changes = {"chain": asset.chain, "asset": asset.name_id, "policy": policy}
    return msgspec.structs.replace(like, **changes)


@contextlib.asynccontextmanager
async def whole_way(
    world: World, chains: Sequence[ChainName] = (ETHEREUM,), *, start: bool = True, **seed: Any
) -> AsyncIterator[Way]:
    """Open a way over these chains, one lane each. Without `start` the test opens them itself."""
    world.context.lanes = dict.fromkeys(chains, 1)
    async with Devnet() as devnet:
        way = Way(world, devnet)
        for chain in chains:
            await way.add(chain, start=start, **seed)
        try:
            yield way
        finally:
            for line in way.lines.values():
                await line.close()
