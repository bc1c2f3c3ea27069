"""Cases CH-B01, B03, B04, B07, B08, B09, F06, G02 and G04 on real nodes, Litecoin's and Bitcoin's.

What a node does by itself is the story here: it replaces, refuses, forgets, and takes back into its
mempool what a reorganisation left out. One chain for all tests of a node; every address is new.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest

from schemas.codes import ClaimEnd, Phase
from schemas.facts import TransferDropped
from tests.parts.btcd.node import Btcd
from tests.parts.litecoind.node import Litecoind
from tests.parts.utxo_mining import subsidy_at
from tests.parts.utxo_purse import FINAL, Pay
from tests.parts.utxo_script import UtxoScript
from tests.parts.utxo_way import DEPTH, DUE, CoinWay, real_way
from tests.parts.world import World

NODES = {"litecoind": Litecoind, "btcd": Btcd}
TAPROOT_KEY = bytes.fromhex("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in NODES]
)
def script(request: pytest.FixtureRequest) -> Iterator[UtxoScript]:
    with NODES[request.param]() as node:
        yield UtxoScript(node)


@pytest.fixture
async def real(script: UtxoScript, quick_world: World) -> AsyncIterator[CoinWay]:
    """A real chain before one database in memory."""
    async with real_way(quick_world, script) as made:
        yield made


async def ends(way: CoinWay, order: str = "o-1") -> list[ClaimEnd]:
    return [claim.end for claim in (await way.world.state(order)).claims]


@pytest.mark.parametrize("seen_in", ["mempool", "block"])
async def test_b01_replacement_that_pays_the_payer_himself_on_a_node(
    real: CoinWay, script: UtxoScript, seen_in: str
) -> None:
    to = await real.order()
    paid = script.pay_coin(to, DUE)
    await real.look()
    await real.claim(paid)
    assert (await real.world.last()).received_pending == DUE
    if seen_in == "mempool":
        script.replace(paid)
        await real.look()
    else:
        script.mine_only(script.conflict(paid))
        await real.catch_up(real.line)
    assert (await real.world.kinds("o-1"))[-1] == "withdrawn"
    assert await ends(real) == [ClaimEnd.REPLACED]
    await real.pass_time(timedelta(minutes=90))
    assert (await real.world.last()).phase is Phase.EXPIRED


async def test_b01_fee_that_is_raised_is_one_payment_on_a_node(
    real: CoinWay, script: UtxoScript
) -> None:
    to = await real.order()
    paid = script.pay_coin(to, DUE)
    await real.look()
    raised = script.replace(paid, (to, DUE))
    await real.look()
    await real.mine(DEPTH)
    event = await real.world.last()
    assert (event.phase, event.received_final, event.excess) == (Phase.CONFIRMED, DUE, 0)
    assert {fact.replaced_by for fact in real.facts(TransferDropped)} == {raised}


@pytest.mark.parametrize("depth", [DEPTH - 1, DEPTH])
async def test_b01_branch_that_spends_the_money_otherwise_on_a_node(
    real: CoinWay, script: UtxoScript, depth: int
) -> None:
    to = await real.order()
    paid = script.pay_coin(to, DUE)
    await real.mine(depth)
    rival = script.conflict(paid)
    await real.reorganise(depth, again=[(rival, 0)])
    event = await real.world.last()
    assert event.kind.value == ("reversed" if depth == DEPTH else "withdrawn")
    assert (event.received_pending, event.received_final) == (0, 0)
    script.pay_coin(to, DUE)
    await real.mine(DEPTH)
    assert (await real.world.last()).phase is Phase.CONFIRMED


async def test_b03_coinbase_output_matures_on_a_node(real: CoinWay, script: UtxoScript) -> None:
    mined = subsidy_at(script.height() + 1)
    to = await real.order(amount=mined)
    script.mine_only(to=[Pay(script.raw_of(to), mined)])
    await real.mine(99)
    event = await real.world.last()
    assert (event.phase, event.transfers[0].depth_required) == (Phase.DETECTED, 101)
    await real.mine(1)
    assert (await real.world.last()).phase is Phase.CONFIRMED


async def test_b04_f06_one_transaction_pays_two_orders_and_dust_on_a_node(
    real: CoinWay, script: UtxoScript
) -> None:
    one, two = await real.order("o-1"), await real.order("o-2", amount=2 * DUE)
    three = await real.order("o-3")
    dust = int(real.line.coin.dust) - 1
    tx = script.pay_many([(one, DUE), (two, DUE), (three, dust), (two, DUE)])
    await real.claim(tx, order="o-2")
    await real.mine(DEPTH)
    for order, amount in (("o-1", DUE), ("o-2", 2 * DUE)):
        event = await real.world.last(order)
        assert (event.phase, event.received_final, event.excess) == (Phase.CONFIRMED, amount, 0)
    assert len((await real.world.last("o-2")).transfers) == 2
    assert await ends(real, "o-2") == [ClaimEnd.USED]
    assert (await real.world.last("o-3")).received_final == 0
    assert set(await real.world.open_exceptions()) == {"dust"}


async def test_b07_taproot_address_is_paid_on_a_node(real: CoinWay, script: UtxoScript) -> None:
    to = script.address_of(b"\x51\x20" + TAPROOT_KEY)
    await real.order(address=to.upper())
    script.pay_coin(to, DUE)
    await real.mine(DEPTH)
    event = await real.world.last()
    assert (event.phase, event.address) == (Phase.CONFIRMED, to)


@pytest.mark.parametrize("claimed", ["before", "after"])
async def test_b08_twin_is_mined_instead_on_a_node(
    real: CoinWay, script: UtxoScript, claimed: str
) -> None:
    """The same money to the same outputs, under another id."""
    to = await real.order()
    paid = script.pay_coin(to, DUE)
    pays = [Pay(script.raw_of(to), DUE)]
    twin = script.make(pays, coins=script.coins_behind(paid), sequence=FINAL)
    await real.look()
    if claimed == "before":
        await real.claim(paid)
    script.mine_only(twin)
    await real.catch_up(real.line)
    if claimed == "after":
        await real.claim(paid)
    await real.mine(DEPTH - 1)
    event = await real.world.last()
    assert (event.phase, event.received_final, event.excess) == (Phase.CONFIRMED, DUE, 0)
    assert await ends(real) == [ClaimEnd.REPLACED]


async def test_g02_g04_what_a_branch_leaves_out_waits_again_on_a_node(
    real: CoinWay, script: UtxoScript
) -> None:
    """The node takes it back into its mempool by itself, and it is mined in the third block after."""
    to = await real.order()
    tx = script.pay_coin(to, DUE)
    await real.mine(1)
    await real.reorganise(1, length=2)
    assert tx in script.node.waiting
    await real.look()
    assert (await real.world.last()).received_pending == DUE
    await real.mine(DEPTH)
    event = await real.world.last()
    assert (event.phase, event.received_final, len(event.transfers)) == (Phase.CONFIRMED, DUE, 1)
    assert await real.world.open_exceptions() == {}


@pytest.mark.litecoind
async def test_b09_node_that_forgot_its_mempool_takes_nothing_back(quick_world: World) -> None:
    with Litecoind() as node:
        script = UtxoScript(node)
        async with real_way(quick_world, script) as way:
            to = await way.order()
            paid = script.pay_coin(to, DUE)
            await way.look()
            script.restart()
            assert node.waiting == []
            way.line.clock.patience = 24
            await way.look()
            await way.look()
            assert await quick_world.kinds("o-1") == ["awaiting", "detected"]
            script.mine_only(paid)
            await way.mine(DEPTH - 1)
            assert (await quick_world.last()).phase is Phase.CONFIRMED
