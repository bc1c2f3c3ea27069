"""The devnet answers in the shapes of a real node: recorded ones, and live ones where there is anvil.

`RECONCILER_RECORD=1 pytest tests/contract/test_recorded_answers.py` writes the recording anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from chains.devnet import Devnet
from tests.parts.anvil.node import AnvilNode
from tests.parts.chain_scripts import AnvilScript, ChainScript, DevnetScript, Leg
from tests.parts.shapes import differences, shape_of

RECORDED = Path(__file__).parent / "recorded" / "anvil.json"
UNKNOWN_HASH = "0x" + "12" * 32
TRACER = {"tracer": "callTracer"}

#: Where anvil differs from geth, and the devnet follows geth.
ANVILS_OWN = {
    # geth has dropped it, as the merge made it a constant
    "block: .totalDifficulty: missing",
    "block with transactions: .totalDifficulty: missing",
    "finalized block: .totalDifficulty: missing",
    # geth tells a receipt's time in its logs, and a blob's price for blob transactions alone
    *(
        f"{question}: {place}: missing"
        for question, prefix in (
            ("receipts", "[]"),
            ("receipts by hash", "[]"),
            ("receipts by block object", "[]"),
            ("receipt", ""),
            ("receipt of a failed one", ""),
        )
        for place in (f"{prefix}.blobGasPrice", f"{prefix}.blockTimestamp")
    ),
    # the words of a revert are the contract's; scripted contracts have none
    "call traces: [].result.revertReason: missing",
    "call traces: [].result.calls[].revertReason: missing",
    "call traces by number: [].result.revertReason: missing",
    "call traces by number: [].result.calls[].revertReason: missing",
    # geth's newHeads is a bare header: no size and nothing of the body
    "new head: .transactions: missing",
    "new head: .uncles: missing",
    "new head: .withdrawals: missing",
    "new head: .size: missing",
    "new head: .totalDifficulty: missing",
    # geth refuses a range that runs backwards; anvil finds nothing in it
    "logs of a range that runs backwards: error -32602 and not result",
    "unknown traces: error -32000 and not error -32001",
}


async def questions(script: ChainScript) -> dict[str, tuple[str, list[Any]]]:
    """Play one block with every kind of transaction and one that waits; ask about all of it."""
    to = script.new_address()
    coin = script.pay_coin(to, 5)
    token = script.pay_token(to, 6)
    script.pay_inside(to, 7)
    script.pay_in_vain(to, 8)
    script.pay_many([Leg(to, 9), Leg(to, 10, script.token)])
    _, failed = script.pay_refused(11)
    script.mine()
    waiting = script.pay_coin(to, 12)
    height = hex(script.height())
    block_hash = script.ask("eth_getBlockByNumber", "latest", False)["hash"]
    span = {"fromBlock": "0x0", "toBlock": "latest", "address": script.token}
    return {
        "chain id": ("eth_chainId", []),
        "version": ("net_version", []),
        "height": ("eth_blockNumber", []),
        "block": ("eth_getBlockByNumber", ["latest", False]),
        "block with transactions": ("eth_getBlockByHash", [block_hash, True]),
        "finalized block": ("eth_getBlockByNumber", ["finalized", False]),
        "unknown block": ("eth_getBlockByHash", [UNKNOWN_HASH, False]),
        "future block": ("eth_getBlockByNumber", ["0xffff", False]),
        "receipts": ("eth_getBlockReceipts", [height]),
        "receipts by hash": ("eth_getBlockReceipts", [block_hash]),
        "receipts by block object": ("eth_getBlockReceipts", [{"blockHash": block_hash}]),
        "unknown receipts": ("eth_getBlockReceipts", [UNKNOWN_HASH]),
        "transaction": ("eth_getTransactionByHash", [coin]),
        "waiting transaction": ("eth_getTransactionByHash", [waiting]),
        "unknown transaction": ("eth_getTransactionByHash", [UNKNOWN_HASH]),
        "receipt": ("eth_getTransactionReceipt", [token]),
        "receipt of a failed one": ("eth_getTransactionReceipt", [failed]),
        "receipt of a waiting one": ("eth_getTransactionReceipt", [waiting]),
        "logs of a block": ("eth_getLogs", [{"blockHash": block_hash}]),
        "logs of a range": ("eth_getLogs", [span]),
        "logs of a range that runs backwards": (
            "eth_getLogs",
            [{"fromBlock": "0x2", "toBlock": "0x1"}],
        ),
        "logs of an unknown block": ("eth_getLogs", [{"blockHash": UNKNOWN_HASH}]),
        "code": ("eth_getCode", [script.token, "latest"]),
        "no code": ("eth_getCode", [to, "latest"]),
        "balance": ("eth_getBalance", [to, "latest"]),
        "balance at a height": ("eth_getBalance", [to, height]),
        "nonce": ("eth_getTransactionCount", [to, "pending"]),
        "decimals": ("eth_call", [{"to": script.token, "data": "0x313ce567"}, "latest"]),
        "call of nobody": ("eth_call", [{"to": to, "data": "0x313ce567"}, "latest"]),
        "unknown call": ("eth_call", [{"to": script.token, "data": "0x12345678"}, "latest"]),
        "call traces": ("debug_traceBlockByHash", [block_hash, TRACER]),
        "call traces by number": ("debug_traceBlockByNumber", [height, TRACER]),
        "unknown traces": ("debug_traceBlockByHash", [UNKNOWN_HASH, TRACER]),
        "flat traces": ("trace_block", [height]),
        "unknown method": ("eth_doWhatIMean", []),
    }


async def answers_of(script: ChainScript) -> dict[str, Any]:
    asked = await questions(script)
    found: dict[str, Any] = {}
    async with aiohttp.ClientSession() as http:
        for question, (method, params) in asked.items():
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            async with http.post(script.url, json=call) as response:
                found[question] = _outcome(await response.json())
        found |= await _notices(http, script)
    return found


async def _notices(http: aiohttp.ClientSession, script: ChainScript) -> dict[str, Any]:
    found = {}
    async with http.ws_connect(script.socket_url) as socket:
        for number, params in enumerate((["newHeads"], ["logs", {"address": script.token}])):
            call = {"jsonrpc": "2.0", "id": number, "method": "eth_subscribe", "params": params}
            await socket.send_json(call)
            found["subscribed to " + params[0]] = _outcome(await socket.receive_json())
        script.pay_token(script.new_address(), 13)
        script.mine()
        for _ in range(2):
            notice = await socket.receive_json()
            kind = "new log" if "topics" in notice["params"]["result"] else "new head"
            found[kind] = {"result": notice["params"].pop("result")}
            found["notice of a " + kind] = {"result": notice}
    return found


def _outcome(answer: dict[str, Any]) -> dict[str, Any]:
    assert set(answer) == {"jsonrpc", "id", "result"} or set(answer) == {"jsonrpc", "id", "error"}
    return {key: answer[key] for key in ("result", "error") if key in answer}


def compared(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    assert ours.keys() == theirs.keys()
    return [f"{question}: {line}" for question in ours for line in _parted(ours, theirs, question)]


def _parted(ours: dict[str, Any], theirs: dict[str, Any], question: str) -> list[str]:
    mine, other = ours[question], theirs[question]
    if "error" in mine or "error" in other:
        said = [
            f"error {one['error']['code']}" if "error" in one else "result" for one in (mine, other)
        ]
        return [] if said[0] == said[1] else [f"{said[0]} and not {said[1]}"]
    return [
        line.removeprefix(".result")
        for line in differences(
            {"result": shape_of(mine["result"])}, {"result": shape_of(other["result"])}
        )
    ]


@pytest.fixture
async def devnet_answers() -> AsyncIterator[dict[str, Any]]:
    async with Devnet() as devnet:
        yield await answers_of(DevnetScript(devnet, 31_337))


async def test_devnet_answers_in_the_recorded_shapes(devnet_answers: dict[str, Any]):
    recorded = json.loads(RECORDED.read_text())
    assert set(compared(devnet_answers, recorded)) == ANVILS_OWN


@pytest.mark.anvil
async def test_anvil_still_answers_in_the_recorded_shapes(anvil: AnvilNode):
    live = await answers_of(AnvilScript(anvil))
    if os.environ.get("RECONCILER_RECORD") == "1":
        RECORDED.write_text(json.dumps(live, indent=1) + "\n")
    recorded = json.loads(RECORDED.read_text())
    assert compared(live, recorded) == []
