"""The demo's Litecoin node does what the stories and another terminal ask of it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from reconciler.demo.litecoin_chain import (
    DEPTH_MAX,
    LITECOIN,
    LitecoinChain,
    find_litecoind,
    litecoin_address,
    litecoin_chain,
)
from reconciler.demo.stage import StageError
from tests.parts.need import missing

pytestmark = pytest.mark.litecoind

SHOP = litecoin_address("shop")
AMOUNT = 25_000_000


class Steps:
    """Mines block after block, a second apart."""

    def __init__(self, chain: LitecoinChain, now_s: int) -> None:
        self.chain, self.now_s = chain, now_s

    async def mine(self, count: int = 1) -> None:
        for _ in range(count):
            self.now_s += 1
            await self.chain.mine(self.now_s)


@pytest.fixture
async def steps() -> AsyncIterator[Steps]:
    binary = find_litecoind()
    if binary is None:
        missing("litecoind", "install the package litecoind (`make system`)")
    now_s = int(time.time())
    async with litecoin_chain(binary, now_s=now_s) as chain:
        yield Steps(chain, now_s)


async def test_a_block_bears_the_time_that_it_is_given(steps: Steps):
    await steps.mine(3)
    assert (await steps.chain.tip()).time_s == steps.now_s


async def test_a_payment_is_in_the_next_block(steps: Steps):
    tx = await steps.chain.pay(LITECOIN, SHOP, AMOUNT)
    assert await steps.chain.waits()
    assert await steps.chain.depth_of(tx) == 0
    await steps.mine(2)
    assert await steps.chain.depth_of(tx) == 2
    assert not await steps.chain.waits()


async def test_a_little_fee_waits_until_miners_are_hurried(steps: Steps):
    tx = await steps.chain.pay_little_fee(SHOP, AMOUNT)
    await steps.mine(2)
    assert await steps.chain.depth_of(tx) == 0
    assert not await steps.chain.waits()
    await steps.chain.hurry(tx)
    assert await steps.chain.waits()
    await steps.mine()
    assert await steps.chain.depth_of(tx) == 1


async def test_what_is_replaced_is_never_mined(steps: Steps):
    tx = await steps.chain.pay_little_fee(SHOP, AMOUNT)
    rival = await steps.chain.replace(tx)
    await steps.mine(2)
    assert await steps.chain.depth_of(rival) == 2
    assert await steps.chain.depth_of(tx) == 0


async def test_payments_never_share_a_coin(steps: Steps):
    txs = [await steps.chain.pay(LITECOIN, SHOP, AMOUNT) for _ in range(20)]
    assert len(set(txs)) == 20
    await steps.mine()
    assert [await steps.chain.depth_of(tx) for tx in txs] == [1] * 20


async def test_a_reorganisation_leaves_out_what_it_is_told_for_ever_and_keeps_the_rest(
    steps: Steps,
):
    chain = steps.chain
    stays = await chain.pay(LITECOIN, SHOP, AMOUNT)
    await steps.mine()
    goes = await chain.pay(LITECOIN, SHOP, AMOUNT)
    await steps.mine()
    before = await chain.tip()
    await chain.reorganise(2, away=[goes])
    assert (await chain.tip()).height == before.height + 1
    assert await chain.depth_of(stays) == 3
    await steps.mine(3)
    assert await chain.depth_of(stays) == 6
    assert await chain.depth_of(goes) == 0


@pytest.mark.parametrize("depth", [1, 9, DEPTH_MAX - 3])
async def test_the_same_blocks_are_replaced_again_and_again(steps: Steps, depth: int):
    """Beyond ten blocks the node puts nothing back into its mempool by itself."""
    chain = steps.chain
    tx = await chain.pay(LITECOIN, SHOP, AMOUNT)
    await steps.mine(depth)
    for more in range(3):
        before = await chain.tip()
        await chain.reorganise(depth + more, away=[])
        assert (await chain.tip()).height == before.height + 1
        assert await chain.depth_of(tx) == depth + more + 1
    await chain.reorganise(depth + 3)
    assert await chain.depth_of(tx) == 0


async def test_a_demo_that_runs_for_minutes_mines_on_where_the_extension_would_begin(steps: Steps):
    chain = steps.chain
    await steps.mine(200)
    assert (await chain.tip()).height > 432
    tx = await chain.pay(LITECOIN, SHOP, AMOUNT)
    await steps.mine(2)
    await chain.reorganise(1)
    assert await chain.depth_of(tx) == 3


@pytest.mark.parametrize("depth", [-1, 0, DEPTH_MAX + 1])
async def test_a_depth_that_cannot_be_is_refused(steps: Steps, depth: int):
    before = await steps.chain.tip()
    with pytest.raises(StageError, match=f"a depth of 1 to {DEPTH_MAX}, found {depth}"):
        await steps.chain.reorganise(depth)
    assert await steps.chain.tip() == before


async def test_more_than_any_coin_is_worth_is_refused(steps: Steps):
    with pytest.raises(StageError, match=r"the largest is worth 50\.00 tLTC"):
        await steps.chain.pay(LITECOIN, SHOP, 50 * 10**8)
