"""A pushed head is a hint to look; a socket that breaks is nobody's problem."""

from __future__ import annotations

import time

from chains.clock import SystemClock
from chains.devnet import Devnet
from chains.evm.heads import NewHeads
from chains.evm.source import EvmSource
from tests.parts.listing import catalogue_of, chain_name

CHAIN_ID = 31_337


async def test_a_new_block_ends_the_wait_at_once():
    async with Devnet() as devnet:
        chain = devnet.add_chain(CHAIN_ID)
        heads = NewHeads(devnet.socket_url(CHAIN_ID), SystemClock())
        assert await heads.wait(0.05)
        chain.mine()
        started = time.monotonic()
        assert await heads.wait(20.0)
        assert time.monotonic() - started < 10.0
        await heads.close()
        await heads.close()


async def test_several_pushes_are_one_hint_and_a_quiet_chain_ends_by_the_time():
    async with Devnet() as devnet:
        chain = devnet.add_chain(CHAIN_ID)
        heads = NewHeads(devnet.socket_url(CHAIN_ID), SystemClock())
        await heads.wait(0.05)
        chain.mine(5)
        assert await heads.wait(5.0)
        assert await heads.wait(0.05)
        await heads.close()


async def test_without_a_socket_the_wait_is_the_poll_interval():
    heads = NewHeads("ws://127.0.0.1:1/", SystemClock())
    assert not await heads.wait(5.0)
    assert not await heads.wait(5.0)
    await heads.close()


async def test_a_source_whose_socket_breaks_goes_on_by_polling():
    async with Devnet() as devnet:
        chain = devnet.add_chain(CHAIN_ID)
        token = chain.deploy_token("TUSD", 6)
        source = EvmSource(
            chain=chain_name(CHAIN_ID),
            urls=[devnet.url(CHAIN_ID), devnet.socket_url(CHAIN_ID)],
            catalogue=catalogue_of(CHAIN_ID, token),
            clock=SystemClock(),
            poll_interval_s=0.01,
        )
        await source.start()
        await source.wait_for_change(0.05)
        devnet.drop_sockets()
        chain.mine()
        for _ in range(3):
            await source.wait_for_change(0.2)
        assert (await source.head()).header.height == chain.height
        await source.close()
