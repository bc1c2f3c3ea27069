"""The scripted UTXO chain over real connections: broken answers, credentials, commands from outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from chains.devnet import Devnet
from chains.devnet.faults import CutOff, DropSocket, HttpStatus, InvalidJson, SlowBody
from tests.parts.utxo_devnet import DevnetUtxoScript

COUNT = {"jsonrpc": "1.0", "id": 1, "method": "getblockcount", "params": []}


@pytest.fixture
async def devnet() -> AsyncIterator[Devnet]:
    async with Devnet() as devnet:
        devnet.add_utxo_chain("btc")
        yield devnet


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def command(http: aiohttp.ClientSession, devnet: Devnet, said: Any) -> tuple[int, Any]:
    given = {"chain": "btc"} | said
    async with http.post(devnet.base_url + "/control", json=given) as response:
        answer = await response.json()
        return response.status, answer.get("result", answer.get("error"))


async def done(http: aiohttp.ClientSession, devnet: Devnet, do: str, **given: Any) -> Any:
    """Carry out a command; `chain` and `node` say where, everything else is what it takes."""
    place = {key: given.pop(key) for key in ("chain", "node") if key in given}
    status, result = await command(http, devnet, {"do": do, "with": given} | place)
    assert status == 200, result
    return result


async def height(http: aiohttp.ClientSession, devnet: Devnet, name: str = "a") -> int:
    async with http.post(devnet.url("btc", name), json=COUNT) as response:
        return int((await response.json())["result"])


async def test_both_families_are_served_side_by_side(devnet: Devnet, http):
    devnet.add_chain(1)
    devnet.utxo_chains["btc"].mine(4)
    assert await height(http, devnet) == 5
    async with http.post(devnet.url(1), json=COUNT | {"method": "eth_blockNumber"}) as response:
        assert (await response.json())["result"] == "0x0"
    async with http.post(devnet.url("doge"), json=COUNT) as response:
        assert response.status == 404


async def test_connections_break_as_those_of_every_chain(devnet: Devnet, http):
    node = devnet.utxo_node("btc")
    node.faults.add(HttpStatus(status=503, retry_after_s=3))
    async with http.post(devnet.url("btc"), json=COUNT) as response:
        assert (response.status, response.headers["Retry-After"]) == (503, "3")
    node.faults.add(InvalidJson())
    async with http.post(devnet.url("btc"), json=COUNT) as response:
        assert await response.text() == "<html>gateway</html>"
    node.faults.add(CutOff(after_bytes=5))
    async with http.post(devnet.url("btc"), json=COUNT) as response:
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    node.faults.add(DropSocket())
    with pytest.raises(aiohttp.ClientConnectionError):
        await http.post(devnet.url("btc"), json=COUNT)
    node.faults.add(SlowBody(chunk_bytes=8, pause_s=0.001))
    assert await height(http, devnet) == 1


async def test_credentials_in_the_url_let_in_and_wrong_ones_get_401_and_no_word(
    devnet: Devnet, http
):
    devnet.utxo_node("btc").set(credentials="user:secret")
    async with http.post(devnet.url("btc"), json=COUNT) as response:
        assert (response.status, await response.read()) == (401, b"")
    url = devnet.url("btc").replace("//", "//user:secret@")
    async with http.post(url, json=COUNT) as response:
        assert (await response.json())["result"] == 1


async def test_error_has_its_status_on_the_wire(devnet: Devnet, http):
    async with http.post(
        devnet.url("btc"), json=COUNT | {"method": "getblockhash", "params": [9]}
    ) as response:
        assert response.status == 500
        assert (await response.json())["error"]["code"] == -8


async def test_story_is_told_from_another_process(devnet: Devnet, http):
    shop = await done(http, devnet, "new_address", name="shop")
    tx = await done(http, devnet, "pay_coin", to=shop, amount="2500000", how={"fee": 9})
    assert await done(http, devnet, "waiting") == [tx]
    elsewhere = [{"to": shop, "amount": 7}]
    rival = await done(http, devnet, "replace", txid=tx, payments=elsewhere, hold=True)
    assert (await done(http, devnet, "mine"))["transactions"] == [tx]
    block = await done(http, devnet, "reorganise", depth=1, place={rival: 1}, drop=[tx])
    assert block["transactions"] == [rival]
    assert await done(http, devnet, "depth", txid=rival) == "1"
    assert await done(http, devnet, "add_node", node="b") == devnet.url("btc", "b")
    await done(http, devnet, "set", node="b", lag=2)
    assert (await height(http, devnet), await height(http, devnet, "b")) == (3, 1)
    status = await done(http, devnet, "fault", fault="change_byte", methods=["getblock"], at=-5)
    assert status["faults_struck"] == 0
    other = await done(http, devnet, "pay_coin", to=shop, amount=1)
    await done(http, devnet, "node_evict", txid=other)
    assert await done(http, devnet, "node_hear", txid=other) is True
    await done(http, devnet, "restart")
    assert len(devnet.utxo_node("btc").mempool) == 0


async def test_chain_is_added_and_mines_by_itself_on_command(devnet: Devnet, http):
    url = await done(http, devnet, "add_chain", chain="ltc", network="litecoin-regtest")
    assert url == devnet.url("ltc")
    chain = devnet.utxo_chains["ltc"]
    chain.pay_coin(chain.new_address("shop"), 1)
    await done(http, devnet, "mine_automatically", chain="ltc", interval_s=0.01)
    while chain.waiting():
        await asyncio.sleep(0.01)
    await done(http, devnet, "stop_mining", chain="ltc")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"do": "mint_token"}, "unknown command 'mint_token'; known are announce"),
        ({"do": "mine", "chain": "doge"}, "there is no node 'a' of a UTXO chain 'doge'"),
        ({"do": "set", "with": {"call_tracer": True}}, "call_tracer"),
        ({"do": "fault", "with": {"fault": "removed_logs"}}, "removed_logs"),
        ({"do": "add_chain"}, "expected the name of a new UTXO chain, found 'btc'"),
        ({"do": "add_chain", "chain": "x", "with": {"network": "main"}}, "expected a network of"),
    ],
)
async def test_impossible_command_is_refused_by_name(devnet: Devnet, http, said: Any, words: str):
    status, sentence = await command(http, devnet, said)
    assert status == 400
    assert words in sentence


async def test_script_of_the_suite_tells_its_story(devnet: Devnet):
    script = DevnetUtxoScript(devnet)
    ours = [script.new_address() for _ in range(2)]
    tx = script.pay_many([(ours[0], 5), (ours[1], 6)])
    script.mine(3)
    script.reorganise(3, again=[(tx, 1)])
    assert script.height() == 5
    assert tx in script.ask("getblock", script.ask("getblockhash", 3))["tx"]
    script.rewind(4)
    assert script.ask("getrawmempool") == [tx]
    second = script.replace(tx, (ours[0], 9))
    assert script.ask("getrawmempool") == [second]
