"""What a server that speaks Esplora can and cannot make us believe.

It stands in front of a real litecoind (`tests.parts.esplora`). That the promises of every source hold
here too is a row of `test_chain_source.py`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import pytest
from aiohttp import web

from chains.errors import AnswerRefused, NodeBehind, NodeBusy, NodeUnavailable, Unsupported
from chains.port import ChainSource
from schemas.facts import LookedUpState
from tests.parts.chain_stand import Stand, source_of, standing
from tests.parts.esplora import Esplora, esplora_of
from tests.parts.litecoind.node import Litecoind
from tests.parts.utxo_script import UtxoScript

pytestmark = pytest.mark.litecoind


class Server(NamedTuple):
    """A chain, the server before it, and a source that asks the server alone."""

    script: UtxoScript
    esplora: Esplora
    stand: Stand

    @property
    def source(self) -> ChainSource:
        return self.stand.source


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    with Litecoind("-txindex") as node:
        script = UtxoScript(node)
        async with esplora_of(node) as esplora, standing(script, urls=[esplora.url]) as stand:
            yield Server(script, esplora, stand)


def changed(place: int) -> Callable[[web.Response], web.Response]:
    """Flip a bit of a body."""

    def spoil(told: web.Response) -> web.Response:
        body = bytearray(told.body)
        body[place] ^= 1
        return web.Response(body=bytes(body))

    return spoil


async def test_its_mempool_is_not_read_and_the_start_says_what_that_means(server: Server):
    assert not server.source.shows_mempool
    assert await server.source.pending(frozenset(), ()) is None
    (spot,) = server.source.blind_spots()
    assert "seen when it is mined" in spot


async def test_beside_a_node_the_nodes_mempool_is_read(server: Server):
    script = server.script
    source = source_of(script, urls=[server.esplora.url, script.node.url])
    await source.start()
    ours = script.new_address()
    tx = script.pay_coin(ours, 50_000)
    found = await source.pending(server.stand.watching(ours), ())
    assert found is not None
    assert [one.transfer.split("/")[1] for one in found.transfers] == [tx]
    assert source.blind_spots() == ()
    await source.close()


@pytest.mark.parametrize("place", [3, 40, 79, 85, 130, -5])
async def test_a_block_of_which_one_bit_differs_is_refused(server: Server, place: int):
    ours = server.script.new_address()
    server.script.pay_coin(ours, 50_000)
    server.script.mine()
    header = await server.stand.header()
    server.esplora.spoilt["block/{hash}/raw"] = changed(place)
    with pytest.raises(AnswerRefused):
        await server.source.read_block(header, server.stand.watching(ours))


async def test_a_payment_that_the_server_leaves_out_of_a_block_is_missed_by_nobody(server: Server):
    """A server that lists only what it likes would go unnoticed, were hits asked for one by one."""
    ours = server.script.new_address()
    server.script.pay_coin(ours, 50_000)
    server.script.mine()
    header = await server.stand.header()
    without = server.script.node.raw_block(server.script.below(1).hash)
    server.esplora.spoilt["block/{hash}/raw"] = lambda _: web.Response(body=without)
    with pytest.raises(AnswerRefused):
        await server.source.read_block(header, server.stand.watching(ours))
    server.esplora.spoilt.clear()
    read = await server.source.read_block(header, server.stand.watching(ours))
    assert [int(one.amount) for one in read.transfers] == [50_000]


@pytest.mark.parametrize(
    ("field", "value"),
    [("nonce", 1), ("timestamp", 1_700_000_000), ("merkle_root", "12" * 32), ("height", 7)],
)
async def test_a_header_that_is_not_what_its_hash_covers_is_refused(
    server: Server, field: str, value: object
):
    server.script.mine()
    name = server.script.tip().hash

    def spoil(told: web.Response) -> web.Response:
        return web.json_response(json.loads(told.text or "") | {field: value})

    server.esplora.spoilt["block/{hash}"] = spoil
    with pytest.raises(AnswerRefused):
        await server.source.header_by_hash(name)


async def test_a_claim_is_looked_up_in_its_index_and_in_its_mempool(server: Server):
    script, ours = server.script, server.script.new_address()
    tx = script.pay_coin(ours, 50_000)
    assert (await server.stand.look_up(tx, ours)).state is LookedUpState.PENDING
    script.mine(2)
    found = await server.stand.look_up(tx, ours)
    assert (found.state, len(found.pays)) == (LookedUpState.INCLUDED, 1)
    assert found.block is not None
    assert found.block.height == script.height() - 1
    assert (await server.stand.look_up("12" * 32, ours)).state is LookedUpState.UNKNOWN


async def test_another_transaction_under_the_name_that_was_asked_for_is_refused(server: Server):
    script, ours = server.script, server.script.new_address()
    tx, other = script.pay_coin(ours, 50_000), script.pay_coin(script.new_address(), 1_000)
    raw = bytes.fromhex(script.ask("getrawtransaction", other, 0))
    server.esplora.spoilt["tx/{txid}/raw"] = lambda _: web.Response(body=raw)
    with pytest.raises(AnswerRefused, match=f"expected transaction {tx}"):
        await server.stand.look_up(tx, ours)


async def test_what_an_address_holds_counts_outputs_up_to_a_block_of_its_chain(server: Server):
    script, ours = server.script, server.script.new_address()
    coin = script.coin
    script.pay_many([(ours, 50_000), (ours, 7_000)])
    script.mine()
    header = await server.stand.header()
    script.pay_coin(ours, 900)
    script.mine()
    script.pay_coin(ours, 11)
    newest = await server.stand.header()
    assert int(await server.source.balance_at(coin, ours, header)) == 57_000
    assert int(await server.source.balance_at(coin, ours, newest)) == 57_900
    script.reorganise(1)
    with pytest.raises(NodeBehind):
        await server.source.balance_at(coin, ours, newest)


async def test_a_node_alone_does_not_know_balances(server: Server):
    source = source_of(server.script, urls=[server.script.node.url])
    await source.start()
    header = await source.header_at(server.script.height())
    with pytest.raises(Unsupported):
        await source.balance_at(server.script.coin, server.script.new_address(), header)
    await source.close()


async def test_a_server_that_asks_for_time_gets_it(server: Server):
    server.esplora.spoilt["blocks/tip/hash"] = lambda _: web.Response(
        status=429, headers={"Retry-After": "7"}
    )
    with pytest.raises(NodeBusy) as busy:
        await server.source.head()
    assert busy.value.retry_after_s == 7


@pytest.mark.parametrize("status", [301, 400, 500, 502])
async def test_any_other_status_is_a_failure_and_never_nothing(server: Server, status: int):
    server.esplora.spoilt["block/{hash}"] = lambda _: web.Response(status=status)
    server.script.mine()
    with pytest.raises(NodeUnavailable):
        await server.source.header_by_hash(server.script.tip().hash)


@pytest.mark.parametrize("body", ["", "not a hash", "<html>", "12" * 31, "é" * 32])
async def test_a_hash_that_is_none_is_refused(server: Server, body: str):
    server.esplora.spoilt["blocks/tip/hash"] = lambda _: web.Response(text=body)
    with pytest.raises(AnswerRefused):
        await server.source.head()
