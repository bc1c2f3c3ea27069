"""A second look finds what the watcher's node left out, and holds what it cannot explain."""

import asyncio

import pytest

from chains.devnet import Devnet
from chains.devnet.faults import Truncate
from reconciler.cli import run
from reconciler.kernel import SystemClock
from reconciler.kernel.refusals import TakenOver
from reconciler.wiring import second_look_of
from tests.parts.looking import (
    PATIENCE_S,
    balances,
    differs,
    events,
    facts,
    final,
    has,
    is_at_work,
    place,
)
from tests.parts.service import service, write_settings
from tests.parts.settings import CHAIN, SETTINGS, TOKEN

NUMBER = int(CHAIN.partition(":")[2])
CONTRACT = TOKEN.rpartition(":")[2]
OURS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
STRANGER = "0x00000000000000000000000000000000000000Ff"
RICH = 10**9

COIN_ROUTE = f"""
[[routes]]
name = "coin-one"
asset = "{CHAIN}/slip44:1"
quote = "6s"
deposit = {{ mode = "given" }}
finality = [{{ rule = "finalized" }}]
[intake]
clock_slack = "1s"
[audit]
patience = "10m"
[log]
level = "error"
"""


@pytest.fixture
async def devnet():
    async with Devnet() as net:
        now = int(SystemClock().now().timestamp())
        chain = net.add_chain(NUMBER, block_time_s=1, genesis_time=now - 5)
        chain.deploy_token("TUSD", 6, address=CONTRACT)
        chain.deploy_token("TEST", 18, address="0x" + "1" * 40)
        net.add_node(NUMBER, "b")
        chain.finality_lag(2)
        for _ in range(4):
            chain.mine()
        yield net


@pytest.fixture
def settings(devnet, tmp_path):
    text = SETTINGS.replace("http://127.0.0.1:8545", devnet.url(NUMBER)).replace(
        "rpc =", f'second_rpc = ["{devnet.url(NUMBER, "b")}"]\nstart_at = 1\nrpc ='
    )
    return write_settings(tmp_path, text=text + COIN_ROUTE)


def mine(devnet):
    """Mine a block of now: none is ahead of our clock, however fast they come."""
    chain = devnet.chains[NUMBER]
    now = int(SystemClock().now().timestamp())
    return chain.mine(time=max(chain.block().time, now)).height


async def until(devnet, condition):
    """Mine and wait: verdicts and finality come with blocks."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            mine(devnet)
            await asyncio.sleep(0.05)


async def test_transfer_that_the_watchers_node_leaves_out_is_found_by_another_node(
    devnet, settings
):
    chain, node = devnet.chains[NUMBER], devnet.node(NUMBER)
    node.set(block_receipts=False)
    payer = chain.account("payer")
    chain.give_token(CONTRACT, payer, RICH)
    async with service(settings) as parts, is_at_work(parts, CHAIN):
        await place(parts, "tusd-one", "25000000", OURS)
        await until(devnet, lambda: has(parts, "awaiting"))
        node.faults.add(Truncate(methods=("eth_getLogs",), times=None, keep=1))
        chain.pay_token(CONTRACT, payer, STRANGER, 7)
        chain.pay_token(CONTRACT, payer, OURS, 25_000_000)
        paid_at = mine(devnet)
        look = second_look_of(parts, CHAIN)
        await look.round()
        await until(devnet, lambda: final(look, paid_at))
        assert not await has(parts, "detected")
        node.faults.clear()
        found = await look.round()
        assert len(found.missed) == 1
        await until(devnet, lambda: has(parts, "confirmed"))
        said = await facts(parts, CHAIN)
        assert {fact["found_by"] for fact in said if "found_by" in fact} == {"audit"}
        assert (await look.round()).is_well
        await look.close()


async def test_coin_that_no_node_of_the_watcher_traces_holds_the_end_of_its_order(devnet, settings):
    chain = devnet.chains[NUMBER]
    devnet.node(NUMBER).set(call_tracer=False, flat_traces=False)
    devnet.node(NUMBER, "b").set(call_tracer=False, flat_traces=False)
    payer, exchange = chain.account("payer"), chain.account("exchange")
    async with service(settings) as parts, is_at_work(parts, CHAIN):
        await place(parts, "coin-one", "5000000000", OURS)
        look = second_look_of(parts, CHAIN)

        async def looked():
            await look.round()
            return await differs(parts)

        await until(devnet, lambda: has(parts, "awaiting"))
        start = mine(devnet)
        await until(devnet, lambda: final(look, start))
        await look.round()  # what the address held before
        await until(devnet, lambda: balances(parts, CHAIN, 1))
        chain.pay_inside(payer, exchange, OURS, 5_000_000_000)
        await until(devnet, looked)
        kinds = [event["kind"] for event in await events(parts)]
        assert "expired" not in kinds
        assert "balance_differs" in (await events(parts))[-1]["attention"]
        assert not (await look.round()).is_well
        await look.close()


async def test_order_without_money_ends_as_soon_as_it_was_looked_at(devnet, settings):
    async with service(settings) as parts, is_at_work(parts, CHAIN):
        await place(parts, "coin-one", "5000000000", OURS)
        look = second_look_of(parts, CHAIN)

        async def ended():
            await look.round()
            return await has(parts, "expired")

        await until(devnet, ended)
        await look.close()


async def test_of_two_audits_of_a_chain_the_younger_one_goes_on(devnet, settings):
    async with service(settings) as parts, is_at_work(parts, CHAIN):
        await place(parts, "tusd-one", "25000000", OURS)
        await until(devnet, lambda: has(parts, "awaiting"))
        old, new = second_look_of(parts, CHAIN), second_look_of(parts, CHAIN)
        await until(devnet, lambda: final(old, 5))
        await old.round()
        await new.round()
        with pytest.raises(TakenOver, match="another audit"):
            await old._asker.read_again(1, 1, reason="late")
        await old.close()
        await new.close()


async def test_looking_once_says_what_was_read_and_refuses_a_chain_of_others(
    devnet, settings, capsys
):
    async with service(settings) as parts, is_at_work(parts, CHAIN):
        look = second_look_of(parts, CHAIN)
        await until(devnet, lambda: final(look, 5))
        await look.close()
        arguments = ["audit", "look", CHAIN, "--once", "-c", str(settings)]
        assert await asyncio.to_thread(run, arguments) == 0
        assert "0 transfers missed" in capsys.readouterr().err
        wrong = ["audit", "look", "eip155:1", "--once", "-c", str(settings)]
        assert await asyncio.to_thread(run, wrong) == 2
