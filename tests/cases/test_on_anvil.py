"""Cases CH-F05, T05, T07, T08, G02 on a real node: what the devnet says, anvil says too.

The node is real, and so is everything behind it up to the events; the chain is its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from chains.follow import Follower, FollowSettings
from chains.port import ChainSource
from schemas.codes import Phase
from schemas.facts import BlockRetracted, TransferSeen
from tests.parts.anvil.node import AnvilNode
from tests.parts.chain_scripts import AnvilScript, Leg
from tests.parts.chain_stand import source_of
from tests.parts.follow_story import StepsLog
from tests.parts.listing import catalogue_of, chain_name, token_of
from tests.parts.way_line import Line, WayClock
from tests.parts.whole_way import Way
from tests.parts.world import World

pytestmark = pytest.mark.anvil
DUE = 25_000_000


class RealLine(Line):
    """A line over a real node: blocks come from it, the rest is as on the devnet."""

    def __init__(self, way: Way, script: AnvilScript) -> None:
        self.way, self.script = way, script
        self.name = chain_name(script.chain_id)
        self.clock = WayClock(way.world)
        self.marks, self.steps, self.failures = [], [], []
        self.loop: Follower | None = None
        self.source: ChainSource | None = None

    async def begin(self) -> None:
        self.source = source_of(self.script, clock=self.clock)
        self.loop = Follower(
            self.source,
            entry=self.way.world.catalogue.chain(self.name),
            checkpoint=None,
            log_id="log-1",
            start_at=self.script.height(),
            log=StepsLog(self.steps),
            clock=self.clock,
            settings=FollowSettings(resend_s=10**9),
            lot=lambda: 1.0,
        )

    def is_done(self) -> bool:
        assert self.loop is not None
        head = self.script.ask("eth_getBlockByNumber", "latest", False)["hash"]
        status = self.loop.status()
        at_head = bool(self.marks) and self.marks[-1].hash == head
        return at_head and not (status.back_scans_open or self.loop._side.is_due())

    async def mine(self, blocks: int = 1) -> None:
        self.script.mine(blocks)
        await self.way.world.inbox()
        await self.way.flow()


@pytest.fixture(scope="module")
def anvil_script():
    node = AnvilNode(finality_lag=4)
    node.start()
    yield AnvilScript(node)
    node.stop()


@pytest.fixture
async def line(anvil_script: AnvilScript, quick_world: World) -> AsyncIterator[RealLine]:
    script, world = anvil_script, quick_world
    chain = chain_name(script.chain_id)
    world.catalogue = world.context.catalogue = catalogue_of(script.chain_id, script.token)
    own = world.context.routes["own"]
    coin = msgspec.structs.replace(world.context.routes["eth"], chain=chain)
    coin = msgspec.structs.replace(coin, asset=world.catalogue.chain(chain).coin)
    token = token_of(script.chain_id, script.token)
    world.context.routes = {
        "own": msgspec.structs.replace(own, chain=chain, asset=token),
        "eth": coin,
    }
    world.context.lanes = {chain: 1}
    way = Way(world, None)
    made = way.lines[chain] = RealLine(way, script)
    head = script.ask("eth_getBlockByNumber", "latest", False)
    world.now = _moment(int(head["timestamp"], 16))
    await made.begin()
    yield made
    await made.close()


def _moment(seconds: int):
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC)


async def test_t05_equal_logs_of_one_transaction_are_payments_of_their_own_on_anvil(
    line: RealLine,
) -> None:
    to = line.script.new_address()
    await line.way.place(amount=5 * DUE, address=to)
    line.script.pay_many([Leg(to, DUE, line.script.token)] * 5)
    await line.mine(3)
    event = await line.way.world.last()
    assert (event.phase, event.received_final, len(event.transfers)) == (
        Phase.CONFIRMED,
        5 * DUE,
        5,
    )


async def test_t07_mint_is_a_payment_on_anvil(line: RealLine) -> None:
    to = line.script.new_address()
    await line.way.place(address=to)
    line.script.mint(to, DUE)
    await line.mine(3)
    assert (await line.way.world.last()).phase is Phase.CONFIRMED


async def test_t08_coin_of_an_inner_call_is_a_payment_on_anvil(line: RealLine) -> None:
    to = line.script.new_address()
    await line.way.place(address=to, route="eth", amount=10**15)
    line.script.pay_in_vain(to, 10**15)
    line.script.pay_inside(to, 10**15)
    await line.mine(3)
    event = await line.way.world.last()
    assert (event.phase, event.received_final) == (Phase.CONFIRMED, 10**15)
    assert event.transfers[0].transfer.endswith("/call:0")


async def test_f02_f05_fake_token_and_failed_payment_are_nothing_on_anvil(line: RealLine) -> None:
    to, refused = line.script.new_address(), line.script.pay_refused(10**15)[0]
    await line.way.place("o-1", address=to)
    await line.way.place("o-2", address=refused, route="eth", amount=10**15)
    line.script.pay_unlisted(to, DUE)
    line.script.pay_token(to, 0)
    line.script.pay_refused(10**15)
    await line.mine(3)
    for order in ("o-1", "o-2"):
        assert await line.way.world.kinds(order) == ["awaiting"]
    assert await line.way.world.open_exceptions() == {}


async def test_g02_mined_again_in_another_block_is_one_payment_on_anvil(line: RealLine) -> None:
    to = line.script.new_address()
    await line.way.place(address=to)
    tx = line.script.pay_token(to, DUE)
    await line.mine(2)
    line.script.reorganise(2, again=[(tx, 1)])
    await line.way.flow()
    await line.mine(3)
    event = await line.way.world.last()
    assert (event.phase, event.received_final, len(event.transfers)) == (Phase.CONFIRMED, DUE, 1)
    facts = [fact for step in line.steps for fact in step.facts]
    assert any(isinstance(fact, BlockRetracted) for fact in facts)
    assert len({fact.transfer for fact in facts if isinstance(fact, TransferSeen)}) == 1
