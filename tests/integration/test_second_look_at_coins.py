"""A second look at a Bitcoin-like chain: blocks read again by another node, balances by an Esplora server.

A node cannot leave a payment out of a block unseen, for the block would not hash to its root. So what is
found again here is what a reader of ours left out, or what stood on a branch that only one node had.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from chains.catalog import load_catalogue
from chains.devnet import Devnet
from chains.utxo import source as utxo_source
from chains.utxo.networks import BITCOIN_REGTEST, LITECOIN_REGTEST
from reconciler.kernel import SystemClock
from reconciler.storage.second_look import covered_height
from reconciler.wiring import second_look_of
from tests.parts.esplora import Esplora, esplora_of
from tests.parts.litecoind.node import Litecoind
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
from tests.parts.utxo_script import UtxoScript
from tests.parts.utxo_way import MEDIAN_BLOCKS

DUE = 5_000_000
#: How deep a block is that second looks take for final: Bitcoin's number, and Litecoin's.
SETTLED, SETTLED_LITECOIN = (
    load_catalogue().chain(network.chain).settled_depth
    for network in (BITCOIN_REGTEST, LITECOIN_REGTEST)
)
SETTINGS = """
[database]
url = "sqlite+aiosqlite:///reconciler.db"
[keys]
hashing = "0123456789abcdef0123456789abcdef"
[chains."{chain}"]
rpc = [{rpc}]
second_rpc = [{second}]
start_at = {start_at}
poll_interval = "100ms"
[[routes]]
name = "coin"
asset = "{chain}/slip44:1"
deposit = {{ mode = "given" }}
finality = [{{ depth = 3 }}]
quote = "{quote}"
retracted_patience = "2s"
[audit]
patience = "10m"
[log]
level = "error"
"""
HOUR = "1h"
#: Orders end by blocks and by our own clock; so short ones are waited for.
QUOTE_S, SLACK_S = 1, 1.2
SHORT = '[intake]\nclock_slack = "1s"\n'


class Blind:
    """A reader of ours that does not see payments while it is `blind`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blind = False
        self._sees = utxo_source.transfers_of
        monkeypatch.setattr(utxo_source, "transfers_of", self)

    def __call__(self, paid, telling):
        return [] if self.blind else self._sees(paid, telling)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Blind:
    return Blind(monkeypatch)


def quoted(*urls: str) -> str:
    return ", ".join(f'"{url}"' for url in urls)


# Blocks


@pytest.fixture
async def devnet() -> AsyncIterator[Devnet]:
    async with Devnet() as net:
        now = int(SystemClock().now().timestamp())
        net.add_utxo_chain("btc", block_time_s=1, start_time=now - 60)
        net.add_utxo_node("btc", "b")
        net.utxo_chains["btc"].mine(20)
        yield net


@pytest.fixture
def settings(devnet: Devnet, tmp_path):
    text = SETTINGS.format(
        chain=BITCOIN_REGTEST.chain,
        rpc=quoted(devnet.url("btc")),
        second=quoted(devnet.url("btc", "b")),
        start_at=devnet.utxo_chains["btc"].height,
        quote=HOUR,
    )
    return write_settings(tmp_path, text=text)


async def until(condition) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            await asyncio.sleep(0.04)


async def looked(look, condition) -> None:
    """Look again and again: an address is asked about once it was searched back."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            await look.round()
            await asyncio.sleep(0.04)


async def _has_read(parts, height: int) -> bool:
    """Tell whether every block up to a height was read and applied."""
    chain = BITCOIN_REGTEST.chain
    return await parts.store.read(lambda work: covered_height(work, chain, 1)) >= height


@pytest.mark.parametrize("above", [SETTLED - 1, SETTLED])
async def test_payment_that_our_reader_left_out_is_found_once_it_is_settled(
    devnet: Devnet, settings, reader: Blind, above: int
):
    chain = devnet.utxo_chains["btc"]
    ours = chain.new_address("ours", "p2wpkh")
    async with service(settings) as parts, is_at_work(parts, BITCOIN_REGTEST.chain):
        await place(parts, "coin", str(DUE), ours)
        await until(lambda: has(parts, "awaiting"))
        reader.blind = True
        chain.pay_coin(ours, DUE)
        paid_at = chain.mine(1 + above).height - above
        look = second_look_of(parts, BITCOIN_REGTEST.chain)
        await until(lambda: _has_read(parts, chain.height))
        reader.blind = False
        found = await look.round()
        assert not await has(parts, "detected")
        assert len(found.missed) == (above == SETTLED)
        assert look._next == paid_at + above - SETTLED + 1
        if found.missed:
            await until(lambda: has(parts, "confirmed"))
            said = await facts(parts, BITCOIN_REGTEST.chain)
            assert {fact["found_by"] for fact in said if "found_by" in fact} == {"audit"}
            assert (await look.round()).is_well
        await look.close()


async def test_payment_on_a_branch_that_only_the_watchers_node_has_is_named(
    devnet: Devnet, settings
):
    """Final for the order, and not there for anybody else."""
    chain, node = devnet.utxo_chains["btc"], devnet.utxo_node("btc")
    ours = chain.new_address("ours", "p2wpkh")
    async with service(settings) as parts, is_at_work(parts, BITCOIN_REGTEST.chain):
        await place(parts, "coin", str(DUE), ours)
        await until(lambda: has(parts, "awaiting"))
        tx = chain.pay_coin(ours, DUE)
        branch = chain.mine(4)
        await until(lambda: has(parts, "confirmed"))
        node.set(on_block=branch.hash)
        chain.reorganise(4, length=3 + SETTLED, drop=[tx])
        look = second_look_of(parts, BITCOIN_REGTEST.chain)
        found = await look.round()
        assert [name.split("/")[1] for name in found.unconfirmed] == [tx]
        assert found.missed == []
        node.set(on_block=None)
        await until(lambda: has(parts, "adjusted"))
        assert (await look.round()).is_well
        await look.close()


async def test_nothing_waits_for_a_balance_that_no_node_tells(devnet: Devnet, tmp_path):
    chain = devnet.utxo_chains["btc"]
    text = SETTINGS.format(
        chain=BITCOIN_REGTEST.chain,
        rpc=quoted(devnet.url("btc")),
        second=quoted(devnet.url("btc", "b")),
        start_at=chain.height,
        quote=f"{QUOTE_S}s",
    )
    path = write_settings(tmp_path, text=text + SHORT)
    ours = chain.new_address("ours", "p2wpkh")
    async with service(path) as parts, is_at_work(parts, BITCOIN_REGTEST.chain):
        await place(parts, "coin", str(DUE), ours)
        look = second_look_of(parts, BITCOIN_REGTEST.chain)
        await until(lambda: has(parts, "awaiting"))
        await until(lambda: final(look, chain.height - SETTLED))
        assert (await look.round()).balances_asked == 0
        await asyncio.sleep(QUOTE_S + SLACK_S)
        now = int(SystemClock().now().timestamp())
        for ahead in range(SETTLED + MEDIAN_BLOCKS):
            chain.mine(time=now + ahead // MEDIAN_BLOCKS)
        await until(lambda: has(parts, "expired"))
        assert (await look.round()).is_well
        assert not await balances(parts, BITCOIN_REGTEST.chain, 1)
        await look.close()


# Balances


class Server:
    """A real node and an Esplora server before it. Its blocks are of a minute ago, until they are of now."""

    def __init__(self, script: UtxoScript, esplora: Esplora) -> None:
        self.script, self.esplora = script, esplora
        self.time_s = int(SystemClock().now().timestamp()) - 60
        self._mine(20)

    async def mine(self, blocks: int = 1) -> None:
        await asyncio.to_thread(self._mine, blocks)

    async def mine_past_the_end(self) -> None:
        """Let the time of an order pass, for us and for the newest settled block."""
        await asyncio.sleep(QUOTE_S + SLACK_S)
        self.time_s = int(SystemClock().now().timestamp())
        await self.mine(SETTLED_LITECOIN + MEDIAN_BLOCKS)

    def _mine(self, blocks: int) -> None:
        for waiting in [self.script.node.waiting, *[[]] * (blocks - 1)]:
            tip = self.script.tip()
            median = self.script.ask("getblockheader", tip.hash)["mediantime"]
            self.time_s = max(self.time_s, median + 1)
            self.script.give(*self.script.branch(tip, [waiting], time_s=self.time_s))


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    with Litecoind("-txindex") as node:
        async with esplora_of(node) as esplora:
            yield Server(UtxoScript(node), esplora)


@pytest.mark.litecoind
async def test_money_that_no_transfer_explains_holds_the_end_of_its_order_until_it_is_found(
    server: Server, tmp_path, reader: Blind
):
    """The balance of an Esplora server says that there is money; blocks that are read again, whose."""
    script, esplora = server.script, server.esplora
    chain = LITECOIN_REGTEST.chain
    text = SETTINGS.format(
        chain=chain,
        rpc=quoted(script.url, esplora.url),
        second=quoted(esplora.url),
        start_at=script.height(),
        quote=f"{QUOTE_S}s",
    )
    path = write_settings(tmp_path, text=text + SHORT)
    ours = script.new_address()
    async with service(path) as parts, is_at_work(parts, chain):
        await place(parts, "coin", str(DUE), ours)
        await until(lambda: has(parts, "awaiting"))
        look = second_look_of(parts, chain)
        await server.mine(SETTLED_LITECOIN)
        await looked(look, lambda: balances(parts, chain, 1))  # what the address held before
        reader.blind = True
        script.pay_coin(ours, DUE)
        await server.mine(1)
        await server.mine_past_the_end()
        await until(lambda: final(look, script.height() - SETTLED_LITECOIN))
        found = await look.round()
        assert (found.missed, found.balances_asked) == ([], 1)
        await until(lambda: differs(parts))
        await server.mine(1)
        await until(lambda: final(look, script.height() - SETTLED_LITECOIN))
        assert not await has(parts, "expired")
        assert "balance_differs" in (await events(parts))[-1]["attention"]

        reader.blind = False
        look._next = None  # as a look does that begins anew
        assert len((await look.round()).missed) == 1
        await until(lambda: has(parts, "confirmed"))
        said = await facts(parts, chain)
        assert {fact["found_by"] for fact in said if "found_by" in fact} == {"audit"}
        await look.close()


@pytest.mark.litecoind
async def test_order_without_money_ends_once_an_esplora_server_was_asked(server: Server, tmp_path):
    script, chain = server.script, LITECOIN_REGTEST.chain
    text = SETTINGS.format(
        chain=chain,
        rpc=quoted(script.url, server.esplora.url),
        second=quoted(server.esplora.url),
        start_at=script.height(),
        quote=f"{QUOTE_S}s",
    )
    path = write_settings(tmp_path, text=text + SHORT)
    async with service(path) as parts, is_at_work(parts, chain):
        await place(parts, "coin", str(DUE), script.new_address())
        await until(lambda: has(parts, "awaiting"))
        look = second_look_of(parts, chain)
        await server.mine(SETTLED_LITECOIN)
        await looked(look, lambda: balances(parts, chain, 1))
        await server.mine_past_the_end()
        await until(lambda: final(look, script.height() - SETTLED_LITECOIN))
        assert not await has(parts, "expired"), "nobody has looked yet"
        await look.round()
        await until(lambda: has(parts, "expired"))
        await look.close()
