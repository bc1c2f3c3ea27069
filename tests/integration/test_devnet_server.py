"""The devnet over real connections: broken answers, subscriptions, commands from outside, web3."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from web3 import AsyncHTTPProvider, AsyncWeb3, WebSocketProvider

from chains.devnet import Devnet, DevnetChain
from chains.devnet.faults import (
    CutOff,
    DropSocket,
    Hang,
    HttpStatus,
    HugeBody,
    InvalidJson,
    SlowBody,
    TellTwice,
    Withhold,
)

SHOP = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
HEIGHT = {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []}
TOKEN_ABI = [
    {
        "type": "function",
        "name": name,
        "inputs": [],
        "outputs": [{"name": "", "type": kind}],
        "stateMutability": "view",
    }
    for name, kind in (("decimals", "uint8"), ("symbol", "string"))
]


@pytest.fixture
async def devnet() -> AsyncIterator[Devnet]:
    async with Devnet() as devnet:
        devnet.add_chain(1)
        yield devnet


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def command(http: aiohttp.ClientSession, devnet: Devnet, **said: Any) -> tuple[int, Any]:
    async with http.post(devnet.base_url + "/control", json=said) as response:
        answer = await response.json()
        return response.status, answer.get("result", answer.get("error"))


async def height(http: aiohttp.ClientSession, devnet: Devnet, chain: int = 1) -> int:
    async with http.post(devnet.url(chain), json=HEIGHT) as response:
        return int((await response.json())["result"], 16)


async def test_too_many_requests_say_when_to_come_back_and_then_pass(devnet: Devnet, http):
    devnet.node(1).faults.add(HttpStatus(status=429, retry_after_s=3))
    async with http.post(devnet.url(1), json=HEIGHT) as response:
        assert (response.status, response.headers["Retry-After"]) == (429, "3")
    assert await height(http, devnet) == 0


async def test_body_that_is_cut_off_breaks_in_the_middle(devnet: Devnet, http):
    devnet.node(1).faults.add(CutOff(after_bytes=5))
    async with http.post(devnet.url(1), json=HEIGHT) as response:
        assert response.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    assert await height(http, devnet) == 0


async def test_dropped_connection_gives_no_answer_at_all(devnet: Devnet, http):
    devnet.node(1).faults.add(DropSocket())
    with pytest.raises(aiohttp.ClientConnectionError):
        await http.post(devnet.url(1), json=HEIGHT)


async def test_hanging_answer_and_half_open_node_outlast_the_client(devnet: Devnet, http):
    patience = aiohttp.ClientTimeout(total=0.2)
    devnet.node(1).faults.add(Hang())
    with pytest.raises(TimeoutError):
        await http.post(devnet.url(1), json=HEIGHT, timeout=patience)
    devnet.node(1).set(half_open=True)
    with pytest.raises(TimeoutError):
        await http.post(devnet.url(1), json=HEIGHT, timeout=patience)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(http.ws_connect(devnet.socket_url(1)), 0.2)
    devnet.node(1).set(half_open=False)
    assert await height(http, devnet) == 0


async def test_invalid_json_comes_with_status_200(devnet: Devnet, http):
    devnet.node(1).faults.add(InvalidJson())
    async with http.post(devnet.url(1), json=HEIGHT) as response:
        assert (response.status, await response.text()) == (200, "<html>gateway</html>")


async def test_slow_body_arrives_whole(devnet: Devnet, http):
    devnet.node(1).faults.add(SlowBody(chunk_bytes=8, pause_s=0.001))
    assert await height(http, devnet) == 0


async def test_huge_body_streams_until_the_client_has_enough(devnet: Devnet, http):
    devnet.node(1).faults.add(HugeBody())
    async with http.post(devnet.url(1), json=HEIGHT) as response:
        read = 0
        async for chunk in response.content.iter_any():
            read += len(chunk)
            if read > 4 * 2**20:
                response.close()
                break
    assert read > 4 * 2**20
    assert await height(http, devnet) == 0


async def test_unknown_chain_or_node_is_not_found(devnet: Devnet, http):
    for path in ("/2/a", "/1/z", "/x/a"):
        async with http.post(devnet.base_url + path, json=HEIGHT) as response:
            assert response.status == 404


async def test_two_chains_on_one_port_are_apart(devnet: Devnet, http):
    other = devnet.add_chain(137)
    other.mine(5)
    assert [await height(http, devnet, chain) for chain in (1, 137)] == [0, 5]
    assert devnet.chains[1].block().hash != other.block(0).hash


async def subscribed(devnet: Devnet, http, *params: Any) -> aiohttp.ClientWebSocketResponse:
    socket = await http.ws_connect(devnet.socket_url(1))
    call = {"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": list(params)}
    await socket.send_json(call)
    assert (await socket.receive_json())["result"].startswith("0x")
    return socket


async def told(socket: aiohttp.ClientWebSocketResponse) -> Any:
    return (await socket.receive_json(timeout=10))["params"]["result"]


def paid(devnet: Devnet) -> tuple[DevnetChain, str]:
    chain = devnet.chains[1]
    token = chain.deploy_token("USDT", 6)
    return chain, chain.pay_token(token, chain.account("payer"), SHOP, 5)


async def test_reorganisation_is_told_as_removed_logs_and_new_heads(devnet: Devnet, http):
    heads = await subscribed(devnet, http, "newHeads")
    logs = await subscribed(devnet, http, "logs", {})
    chain, tx = paid(devnet)
    first = chain.mine()
    chain.reorganise(1, place={tx: 1})
    assert [(await told(heads))["number"] for _ in range(3)] == ["0x1", "0x1", "0x2"]
    rows = [await told(logs) for _ in range(3)]
    assert [(row["blockNumber"], row["removed"]) for row in rows] == [
        ("0x1", False),
        ("0x1", True),
        ("0x2", False),
    ]
    assert rows[0]["blockHash"] == rows[1]["blockHash"] == first.hash


async def test_removed_logs_may_never_be_told(devnet: Devnet, http):
    devnet.node(1).set(removed_logs=False)
    logs = await subscribed(devnet, http, "logs", {})
    chain, tx = paid(devnet)
    chain.mine()
    chain.reorganise(1, place={tx: 1})
    assert [(await told(logs))["removed"] for _ in range(2)] == [False, False]


async def test_heads_are_skipped_and_told_twice_on_demand(devnet: Devnet, http):
    heads = await subscribed(devnet, http, "newHeads")
    devnet.node(1).faults.add(Withhold(methods=("newHeads",), skip=1, times=2))
    devnet.chains[1].mine(4)
    devnet.node(1).faults.add(TellTwice(methods=("newHeads",)))
    devnet.chains[1].mine()
    assert [(await told(heads))["number"] for _ in range(4)] == ["0x1", "0x4", "0x5", "0x5"]


async def test_lagging_node_tells_of_heads_when_it_gets_there(devnet: Devnet, http):
    devnet.node(1).set(lag=2)
    heads = await subscribed(devnet, http, "newHeads")
    devnet.chains[1].mine(4)
    assert [(await told(heads))["number"] for _ in range(2)] == ["0x1", "0x2"]


async def test_unsubscribed_hears_nothing_more_and_dropped_socket_is_closed(devnet: Devnet, http):
    socket = await http.ws_connect(devnet.socket_url(1))
    await socket.send_json(HEIGHT | {"method": "eth_subscribe", "params": ["newHeads"]})
    name = (await socket.receive_json())["result"]
    await socket.send_json(HEIGHT | {"method": "eth_unsubscribe", "params": [name]})
    assert (await socket.receive_json())["result"] is True
    devnet.chains[1].mine()
    await socket.send_json(HEIGHT)
    assert (await socket.receive_json())["result"] == "0x1"
    devnet.drop_sockets()
    closed = await socket.receive(timeout=10)
    assert closed.type in {
        aiohttp.WSMsgType.CLOSED,
        aiohttp.WSMsgType.CLOSE,
        aiohttp.WSMsgType.ERROR,
    }


async def test_waiting_transaction_is_told_to_those_who_ask_for_it(devnet: Devnet, http):
    pending = await subscribed(devnet, http, "newPendingTransactions")
    _, tx = paid(devnet)
    assert await told(pending) == tx


async def test_another_process_deploys_pays_mines_and_reorganises(devnet: Devnet, http):
    async def do(verb: str, **given: Any) -> Any:
        status, result = await command(http, devnet, do=verb, chain=1, **{"with": given})
        assert status == 200, result
        return result

    token = await do("deploy_token", symbol="USDT", decimals="6")
    payer = await do("account", name="payer")
    big = str(2**200)
    tx = await do("pay_token", token=token, sender=payer, to=SHOP, amount=big)
    assert (await do("mine", blocks=2))["height"] == 2
    assert await do("balance", address=SHOP, token=token) == big
    assert (await do("reorganise", depth=2, drop=[tx]))["height"] == 3
    assert await do("balance", address=SHOP, token=token) == "0"
    assert (await do("flip_back"))["height"] == 2
    inner = {"call": {"to": SHOP, "value": "7"}}
    await do("send", sender=payer, call={"to": token, "steps": [inner]}, how={"type": 0})
    await do("mine")
    assert await do("balance", address=SHOP) == "7"


async def test_another_process_adds_chains_and_nodes_and_lets_blocks_come(devnet: Devnet, http):
    assert await command(http, devnet, do="add_chain", chain=137, **{"with": {"fork": 1}}) == (
        200,
        devnet.url(137),
    )
    status, url = await command(http, devnet, do="add_node", chain=137, node="b")
    assert (status, url) == (200, devnet.url(137, "b"))
    heads = await http.ws_connect(devnet.socket_url(137, "b"))
    await heads.send_json(HEIGHT | {"method": "eth_subscribe", "params": ["newHeads"]})
    await heads.receive_json()
    pace = {"interval_s": 0.01}
    await command(http, devnet, do="mine_automatically", chain=137, **{"with": pace})
    assert [(await told(heads))["number"] for _ in range(3)] == ["0x1", "0x2", "0x3"]
    await command(http, devnet, do="stop_mining", chain=137)
    assert devnet.chains[137].height >= 3


async def test_another_process_sets_switches_and_faults(devnet: Devnet, http):
    devnet.chains[1].mine(5)
    await command(http, devnet, do="set", chain=1, **{"with": {"lag": 2}})
    assert await height(http, devnet) == 3
    fault = {"fault": "http_status", "status": 503, "times": None}
    await command(http, devnet, do="fault", chain=1, **{"with": fault})
    async with http.post(devnet.url(1), json=HEIGHT) as response:
        assert response.status == 503
    _, status = await command(http, devnet, do="status", chain=1)
    assert status == {"height": 3, "requests": 2, "faults_struck": 1}
    await command(http, devnet, do="clear_faults", chain=1)
    assert await height(http, devnet) == 3


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"do": "mine", "chain": 5}, "no chain 5"),
        ({"do": "mine", "chain": 1, "node": "z"}, "no node 'z'"),
        ({"do": "submit", "chain": 1}, "unknown command 'submit'"),
        ({"do": "add_chain", "chain": 1}, "a chain 1 already"),
        ({"do": "add_chain", "chain": 2, "with": {"clock": 5}}, "clock: "),
        ({"do": "add_node", "chain": 5, "node": "b"}, "no chain 5"),
        ({"do": "mine_automatically", "chain": 5, "with": {"interval_s": 1}}, "no chain 5"),
        ({"do": "mine", "chain": 1, "with": {"block": 1}}, "no parameter 'block'"),
        ({"do": "mine", "chain": 1, "with": {"blocks": "many"}}, "blocks: Expected `int`"),
        ({"do": "account", "chain": 1}, "missing a required argument: 'name'"),
        ({"do": "fault", "chain": 1, "with": {"fault": "rain"}}, "rain"),
        ({"do": "balance", "chain": 1, "with": {"address": "0x12"}}, "expected 20 bytes"),
        ({"do": "flip_back", "chain": 1}, "never reorganised"),
        ({"what": 1}, "unknown field"),
    ],
)
async def test_command_that_cannot_be_obeyed_is_refused_in_a_sentence(
    devnet: Devnet, http, said: dict[str, Any], sentence: str
):
    status, error = await command(http, devnet, **said)
    assert status == 400
    assert sentence in error


class Metronome:
    """Lets one block through for each tick."""

    def __init__(self) -> None:
        self.ticks: asyncio.Queue[None] = asyncio.Queue()
        self.waited: list[float] = []

    async def wait_s(self, seconds: float) -> None:
        self.waited.append(seconds)
        await self.ticks.get()


async def test_blocks_come_by_themselves_at_the_pace_they_are_given(devnet: Devnet, http):
    pace = Metronome()
    heads = await subscribed(devnet, http, "newHeads")
    devnet.mine_automatically(1, 2.0, pace=pace)
    for number in (1, 2, 3):
        pace.ticks.put_nowait(None)
        assert (await told(heads))["number"] == hex(number)
    assert pace.waited[:3] == [2.0, 2.0, 2.0]


async def test_web3_reads_blocks_receipts_logs_and_contracts(devnet: Devnet):
    chain = devnet.chains[1]
    token = chain.deploy_token("USDT", 6)
    tx = chain.pay_token(token, chain.account("payer"), SHOP, 25_000_000)
    mined = chain.mine()
    web3 = AsyncWeb3(AsyncHTTPProvider(devnet.url(1)))
    assert await web3.eth.chain_id == 1
    block = await web3.eth.get_block("latest", full_transactions=True)
    assert block["hash"].to_0x_hex() == mined.hash
    assert block["transactions"][0]["hash"].to_0x_hex() == tx
    receipt = await web3.eth.get_transaction_receipt(tx)
    logs = await web3.eth.get_logs({"fromBlock": 0, "toBlock": "latest", "address": token})
    assert receipt["logs"] == logs
    assert int.from_bytes(logs[0]["data"]) == 25_000_000
    contract = web3.eth.contract(token, abi=TOKEN_ABI)
    assert await contract.functions.decimals().call() == 6
    assert await contract.functions.symbol().call() == "USDT"
    await web3.provider.disconnect()


async def test_web3_follows_heads_and_logs_over_a_websocket(devnet: Devnet):
    chain = devnet.chains[1]
    token = chain.deploy_token("USDT", 6)
    async with AsyncWeb3(WebSocketProvider(devnet.socket_url(1))) as web3:
        heads = await web3.eth.subscribe("newHeads")
        await web3.eth.subscribe("logs", {"address": token})
        chain.pay_token(token, chain.account("payer"), SHOP, 7)
        mined = chain.mine()
        found: dict[bool, Any] = {}
        async for notice in web3.socket.process_subscriptions():
            found[notice["subscription"] == heads] = notice["result"]
            if len(found) == 2:
                break
        assert found[True]["hash"].to_0x_hex() == mined.hash
        assert int.from_bytes(found[False]["data"]) == 7
