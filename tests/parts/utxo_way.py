"""The whole way of a payment on Bitcoin-like chains: scripted nodes or real ones, and all of ours behind them.

What is the same on every chain is in `tests.parts.way_line` and `tests.parts.whole_way`. Time is the
chain's here too: where it is decided, the median of the last eleven blocks.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec

from chains.devnet import Devnet, Pay, Spend, UtxoChain
from chains.devnet.utxo.node import UtxoNode
from chains.utxo.networks import BITCOIN_REGTEST, Network
from reconciler.model.policy import FinalityTier, Route, Tolerance
from reconciler.services.context import ServiceContext
from schemas.amounts import BaseUnits
from schemas.caip import ChainName
from schemas.commands import PlaceOrder
from tests.parts.utxo_script import UtxoScript
from tests.parts.way_line import Line, Tip
from tests.parts.whole_way import Way
from tests.parts.world import START, World, policy

#: What an order asks for, and from how deep on it is final.
DUE = 5_000_000
DEPTH = 3
#: The catalogue's for every chain of this kind.
DUST = 546
BLOCK_S = 600
#: As many as an order's address is searched back through, and some.
FIRST_BLOCKS = 14
#: So many blocks at a time move the median of eleven to that time.
MEDIAN_BLOCKS = 6
#: What a look into the mempool waits for, and how often what waits is said again.
LOOK_S, AGAIN_S = 2.0, 600.0
#: Waits before nothing more is expected of nodes that answer.
FEW = 3


class CoinLine(Line):
    """A Bitcoin-like chain, whose coin is all there is to pay."""

    def __init__(self, way: Way, network: Network) -> None:
        super().__init__(way, network.chain)
        self.network = network
        self.clock.patience = FEW
        self._numbers = count(1)

    @property
    def coin(self) -> Any:
        (found,) = self.way.world.catalogue.assets_of(self.name)
        return found

    def is_done(self) -> bool:
        assert self.loop is not None
        return super().is_done() and self.loop._mempool.due_in_s() != 0.0


class DevnetCoinLine(CoinLine):
    """Scripted blocks and mempools behind devnet nodes."""

    def __init__(self, way: Way, network: Network) -> None:
        super().__init__(way, network)
        self.key = network.name
        began = int(START.timestamp()) - (FIRST_BLOCKS - 1) * BLOCK_S
        self.chain: UtxoChain = way.devnet.add_utxo_chain(
            self.key, network=_regtest(network), block_time_s=BLOCK_S, start_time=began
        )
        self.chain.mine(FIRST_BLOCKS - 1)
        self.urls = [way.devnet.url(self.key)]

    @property
    def node(self) -> UtxoNode:
        return self.way.devnet.utxo_node(self.key)

    @property
    def tip(self) -> Tip:
        head = self.chain.block()
        return Tip(head.hash, head.time)

    def second_node(self, *, first: bool = False) -> UtxoNode:
        """Add a node; the source asks it after the other one, or before."""
        node = self.way.devnet.add_utxo_node(self.key, "b")
        self.urls.insert(0 if first else 1, self.way.devnet.url(self.key, "b"))
        return node

    def new_address(self, kind: Any = None) -> str:
        usual = "p2pkh" if self.network.hrp is None else "p2wpkh"
        return self.chain.new_address(f"shop {next(self._numbers)}", kind or usual)

    def pay(self, to: str, amount: int, **how: Any) -> str:
        return self.chain.pay_coin(to, amount, Spend(**how))

    def pay_many(self, legs: Sequence[tuple[str, int]], **how: Any) -> str:
        return self.chain.pay_many([Pay(to, amount) for to, amount in legs], Spend(**how))

    def replace(self, tx: str, *legs: tuple[str, int], **how: Any) -> str:
        """Spend what another transaction spends; without legs all goes back to the payer."""
        own = f"script:{self.chain.wallet.script.hex()}"
        legs = legs or ((own, 1_000),)
        return self.chain.replace(tx, [Pay(to, amount) for to, amount in legs], **how)

    def mine(self, blocks: int = 1, **more: Any) -> None:
        """Mine ten minutes after the block before, or now if that was longer ago."""
        now = int(self.way.world.now.timestamp())
        self.chain.mine(blocks, **{"time": max(now, self.tip.time + BLOCK_S), **more})

    def reorganise(self, depth: int, **how: Any) -> None:
        self.chain.reorganise(depth, **how)

    def pass_time(self, span: timedelta) -> None:
        now = int((self.way.world.now + span).timestamp())
        for ahead in range(MEDIAN_BLOCKS):
            self.chain.mine(time=now - MEDIAN_BLOCKS + 1 + ahead, transactions=())


class RealCoinLine(CoinLine):
    """Real nodes, in the words of their script."""

    def __init__(self, way: Way, script: UtxoScript) -> None:
        super().__init__(way, script.network)
        self.script = script
        self.urls = [node.url for node in script.nodes]
        self.new_address, self.pay = script.new_address, script.pay_coin
        self.pay_many, self.replace = script.pay_many, script.replace
        self.reorganise = script.reorganise

    @property
    def tip(self) -> Tip:
        top = self.script.tip()
        return Tip(top.hash, top.time_s)

    def mine(self, blocks: int = 1, **more: Any) -> None:
        self.script.mine(blocks, **more)

    def pass_time(self, span: timedelta) -> None:
        now = int((self.way.world.now + span).timestamp())
        for ahead in range(MEDIAN_BLOCKS):
            time_s = now - MEDIAN_BLOCKS + 1 + ahead
            self.script.give(*self.script.branch(self.script.tip(), [[]], time_s=time_s))


class CoinWay(Way):
    """A way over one Bitcoin-like chain."""

    @property
    def line(self) -> Any:
        return self.first

    async def order(self, reference: str = "o-1", amount: int = DUE, **more: Any) -> str:
        """Place an order at a new address; gives the address."""
        to = more.pop("address", None) or self.line.new_address()
        await self.world.commands(
            PlaceOrder(
                idempotency_key=self.world.key(),
                reference=reference,
                amount=str(amount),
                route="coin",
                address=to,
                **more,
            )
        )
        await self.flow()
        return str(to)

    async def look(self) -> None:
        """Let the next look into the mempool come, and what it finds arrive."""
        await self.wait(LOOK_S)

    async def wait(self, seconds: float) -> None:
        """Let time pass without a block."""
        self.world.now += timedelta(seconds=seconds)
        self.line.clock.pass_by(seconds)
        await self.world.inbox()
        await self.flow()

    async def reorganise(self, depth: int, **how: Any) -> None:
        self.line.reorganise(depth, **how)
        await self.catch_up(self.line)

    def facts(self, kind: type) -> list[Any]:
        return [fact for step in self.line.steps for fact in step.facts if isinstance(fact, kind)]


def coin_route(world: World, chain: ChainName, **rules: Any) -> Route:
    """A route that takes the chain's coin at an address of each order."""
    (coin,) = world.catalogue.assets_of(chain)
    base = policy(
        decimals=coin.decimals,
        stable=False,
        dust=BaseUnits(coin.dust_base_units),
        amount_max=BaseUnits(coin.amount_max_base_units),
        tiers=(FinalityTier(up_to=None, depth=DEPTH),),
        tolerance=Tolerance(),
        clock_slack_s=world.catalogue.chain(chain).clock_slack_s,
        retracted_patience_s=3_600,
        pending_patience_s=86_400,
    )
    return Route(
        name="coin",
        chain=chain,
        asset=coin.name_id,
        mode="given",
        policy=msgspec.structs.replace(base, **rules),
        minimum=BaseUnits(coin.dust_base_units),
    )


def _tell_world(world: World, chain: ChainName, rules: dict[str, Any]) -> None:
    world.context = ServiceContext(
        catalogue=world.catalogue,
        routes={"coin": coin_route(world, chain, **rules)},
        lanes={chain: 1},
        secret=world.context.secret,
        orders_partitions=1,
    )


@contextlib.asynccontextmanager
async def coin_way(
    world: World, network: Network = BITCOIN_REGTEST, *, start: bool = True, **rules: Any
) -> AsyncIterator[CoinWay]:
    """Open a way over a scripted chain; `rules` are of its route's policy."""
    _tell_world(world, network.chain, rules)
    async with Devnet() as devnet:
        way = CoinWay(world, devnet)
        line = way.lines[network.chain] = DevnetCoinLine(way, network)
        if start:
            await line.open()
        try:
            yield way
        finally:
            await line.close()


@contextlib.asynccontextmanager
async def real_way(world: World, script: UtxoScript, **rules: Any) -> AsyncIterator[CoinWay]:
    """Open a way over real nodes, from the head they have."""
    _tell_world(world, script.chain, rules)
    way = CoinWay(world, None)
    line = way.lines[script.chain] = RealCoinLine(way, script)
    world.now = datetime.fromtimestamp(line.tip.time, UTC)
    await line.open(start_at=script.height())
    try:
        yield way
    finally:
        await line.close()


def _regtest(network: Network) -> str:
    return f"{network.uri_scheme}-regtest"
