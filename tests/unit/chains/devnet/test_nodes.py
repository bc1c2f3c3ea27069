"""What a node answers, what it knows, and how it lies; without a connection."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chains.devnet.chain import DevnetChain
from chains.devnet.dialogue import reply_to
from chains.devnet.execution import Rules
from chains.devnet.faults import (
    Behind,
    ConflictingLogs,
    DuplicateLogs,
    ForeignLogs,
    Hang,
    Refuse,
    RefuseRange,
    RemovedLogs,
    Replace,
    SetField,
    Truncate,
    WrongId,
)
from chains.devnet.hexadecimal import ScriptError
from chains.devnet.node import DevnetNode
from chains.devnet.rpc_errors import RANGE_WORDINGS
from chains.devnet.world import Seed

PAYER, SHOP = "0x" + "aa" * 20, "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
UNKNOWN = "0x" + "12" * 32


@pytest.fixture
def chain() -> DevnetChain:
    """Ten blocks; blocks 3, 5 and 7 hold a token payment to the shop each."""
    chain = DevnetChain(Seed(chain_id=1), Rules())
    token = chain.deploy_token("USDT", 6, address="0xdAC17F958D2ee523a2206206994597C13D831ec7")
    for height in range(1, 11):
        if height in {3, 5, 7}:
            chain.pay_token(token, PAYER, SHOP, height)
        chain.mine()
    return chain


@pytest.fixture
def node(chain: DevnetChain) -> DevnetNode:
    return DevnetNode(chain, "a")


def said(node: DevnetNode, method: str, *params: Any) -> dict[str, Any]:
    call = {"jsonrpc": "2.0", "id": 7, "method": method, "params": list(params)}
    body = reply_to(node, json.dumps(call).encode()).body
    assert body is not None
    return json.loads(body)


def asked(node: DevnetNode, method: str, *params: Any) -> Any:
    return said(node, method, *params)["result"]


def refusal(node: DevnetNode, method: str, *params: Any) -> dict[str, Any]:
    return said(node, method, *params)["error"]


def amounts(node: DevnetNode, **span: Any) -> list[int]:
    return [int(row["data"], 16) for row in asked(node, "eth_getLogs", span)]


def test_lagging_node_knows_nothing_newer_than_its_head_and_clips_the_range(node: DevnetNode):
    ahead = node.chain.block(8)
    node.set(lag=4)
    assert asked(node, "eth_blockNumber") == "0x6"
    assert asked(node, "eth_getBlockByNumber", "0x8", False) is None
    assert asked(node, "eth_getBlockByHash", ahead.hash, False) is None
    assert refusal(node, "eth_getLogs", {"blockHash": ahead.hash})["message"] == "unknown block"
    assert amounts(node, fromBlock="0x1", toBlock="0xa") == [3, 5]
    assert asked(node, "eth_getTransactionReceipt", node.chain.block(7).transactions[0]) is None


def test_range_that_begins_beyond_the_head_is_answered_with_nothing(node: DevnetNode):
    assert amounts(node, fromBlock="0x100", toBlock="0x110") == []


def test_node_may_refuse_a_range_beyond_its_head(node: DevnetNode):
    node.set(lag=4, future_range="refuse")
    error = refusal(node, "eth_getLogs", {"fromBlock": "0x1", "toBlock": "0xa"})
    assert error["code"] == -32000


def test_node_that_stands_on_a_left_branch_tells_of_that_branch(node: DevnetNode):
    left = node.chain.block()
    tx = node.chain.block(7).transactions[0]
    node.chain.reorganise(4, drop=[tx])
    other = DevnetNode(node.chain, "b")
    other.set(on_block=left.hash)
    assert asked(node, "eth_getTransactionReceipt", tx) is None
    assert asked(other, "eth_getTransactionReceipt", tx)["blockNumber"] == "0x7"
    assert asked(other, "eth_getBlockByNumber", "latest", False)["hash"] == left.hash
    assert asked(other, "eth_getBlockByHash", node.chain.block().hash, False) is None


@pytest.mark.parametrize("remembers", [True, False])
def test_left_blocks_are_known_by_hash_only_where_the_node_remembers(
    node: DevnetNode, remembers: bool
):
    left = node.chain.block(9)
    node.chain.reorganise(3)
    node.set(side_blocks=remembers)
    found = asked(node, "eth_getBlockByHash", left.hash, False)
    assert (found is not None) is remembers
    assert asked(node, "eth_getBlockByNumber", "0x9", False)["hash"] != left.hash


def test_tags_follow_finality_and_a_node_never_calls_final_what_it_has_not_seen(node: DevnetNode):
    node.chain.finalize(8)
    assert asked(node, "eth_getBlockByNumber", "finalized", False)["number"] == "0x8"
    node.set(lag=5)
    assert asked(node, "eth_getBlockByNumber", "finalized", False)["number"] == "0x5"
    node.chain.finality_lag(None)
    assert refusal(node, "eth_getBlockByNumber", "finalized", False)["code"] == -39001


@pytest.mark.parametrize(
    ("switch", "method", "params"),
    [
        ("call_tracer", "debug_traceBlockByHash", [UNKNOWN, {"tracer": "callTracer"}]),
        ("call_tracer", "debug_traceBlockByNumber", ["0x3", {"tracer": "callTracer"}]),
        ("flat_traces", "trace_block", ["0x3"]),
        ("block_receipts", "eth_getBlockReceipts", ["0x3"]),
    ],
)
def test_method_that_is_switched_off_does_not_exist(node: DevnetNode, switch, method, params):
    node.set(**{switch: False})
    assert refusal(node, method, *params)["code"] == -32601


@pytest.mark.parametrize(
    ("span", "found"),
    [
        ({"fromBlock": "0x0", "toBlock": "latest"}, [3, 5, 7]),
        ({"fromBlock": "0x4", "toBlock": "0x6"}, [5]),
        ({"fromBlock": "earliest", "toBlock": "0x3"}, [3]),
        ({"fromBlock": "0x0", "toBlock": "latest", "address": SHOP}, []),
        ({"fromBlock": "0x0", "topics": [None, None, "0x" + SHOP[2:].rjust(64, "0")]}, [3, 5, 7]),
        ({"fromBlock": "0x0", "topics": [None, "0x" + SHOP[2:].rjust(64, "0")]}, []),
        ({"fromBlock": "0x0", "topics": [None, None, [UNKNOWN, "0x" + "0" * 64]]}, []),
        ({"fromBlock": "0x0", "topics": [None, None, None, None]}, []),
    ],
)
def test_logs_by_range_address_and_topics(node: DevnetNode, span, found):
    assert amounts(node, **span) == found


@pytest.mark.parametrize("wording", sorted(RANGE_WORDINGS))
def test_range_is_refused_in_every_wording_and_works_when_it_is_halved(node: DevnetNode, wording):
    node.set(range_blocks_max=5, range_wording=wording)
    span = {"fromBlock": "0x1", "toBlock": "0xa"}
    call = {"jsonrpc": "2.0", "id": 7, "method": "eth_getLogs", "params": [span]}
    reply = reply_to(node, json.dumps(call).encode())
    expected = RANGE_WORDINGS[wording]
    assert reply.http_status == expected.http_status
    assert json.loads(reply.body or b"")["error"]["message"] == expected.message
    assert amounts(node, fromBlock="0x1", toBlock="0x5") == [3, 5]
    assert amounts(node, fromBlock="0x6", toBlock="0xa") == [7]


def test_too_many_rows_are_refused_down_to_one_block(node: DevnetNode):
    node.set(range_rows_max=1)
    assert refusal(node, "eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x5"})["code"] == -32005
    assert amounts(node, fromBlock="0x5", toBlock="0x5") == [5]


def test_more_than_a_thousand_values_in_one_place_are_refused(node: DevnetNode):
    many = ["0x" + f"{number:040x}" for number in range(1_001)]
    error = refusal(node, "eth_getLogs", {"fromBlock": "0x0", "address": many})
    assert error["code"] == -32602


@pytest.mark.parametrize("gone", ["pruned", "empty"])
def test_pruned_history_says_so_or_answers_with_nothing(node: DevnetNode, gone: str):
    tx = node.chain.block(3).transactions[0]
    node.set(history_from=6, history_gone=gone)
    questions = [
        ("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x5"}, []),
        ("eth_getBlockReceipts", "0x3", []),
        ("eth_getTransactionReceipt", tx, None),
    ]
    for method, param, nothing in questions:
        answer = said(node, method, param)
        if gone == "empty":
            assert answer["result"] == nothing
        else:
            assert answer["error"] == {"code": 4444, "message": "pruned history unavailable"}
    assert amounts(node, fromBlock="0x6", toBlock="0xa") == [7]


def test_wrong_chain_behind_the_url(node: DevnetNode):
    node.set(chain_id=137)
    assert asked(node, "eth_chainId") == "0x89"
    assert asked(node, "net_version") == "137"


def logs_after(node: DevnetNode, fault: Any) -> list[dict[str, Any]]:
    node.faults.add(fault)
    return asked(node, "eth_getLogs", {"fromBlock": "0x3", "toBlock": "0x3"})


def test_lies_about_logs_change_this_answer_and_no_later_one(node: DevnetNode):
    (true_log,) = logs_after(node, Truncate(keep=1))
    assert logs_after(node, Truncate()) == []
    assert logs_after(node, DuplicateLogs()) == [true_log, true_log]
    assert logs_after(node, RemovedLogs()) == [true_log | {"removed": True}]
    first, second = logs_after(node, ConflictingLogs())
    assert first == true_log
    assert {key for key in first if first[key] != second[key]} == {"data"}
    first, second = logs_after(node, ForeignLogs(block_hash=UNKNOWN))
    assert second == true_log | {"blockHash": UNKNOWN}
    assert asked(node, "eth_getLogs", {"fromBlock": "0x3", "toBlock": "0x3"}) == [true_log]


def test_lies_about_logs_reach_into_receipts(node: DevnetNode):
    node.faults.add(DuplicateLogs(methods=("eth_getBlockReceipts",)))
    (receipt,) = asked(node, "eth_getBlockReceipts", "0x3")
    assert len(receipt["logs"]) == 2


def test_fault_skips_strikes_and_ends_and_keeps_to_its_methods(node: DevnetNode):
    node.faults.add(Replace(methods=("eth_getBlockByNumber",), skip=1, times=2))
    answers = [asked(node, "eth_getBlockByNumber", "latest", False) for _ in range(5)]
    assert [answer is None for answer in answers] == [False, True, True, False, False]
    assert asked(node, "eth_blockNumber") == "0xa"
    assert node.faults.struck() == 2


def test_errors_ids_and_fields_on_demand(node: DevnetNode):
    node.faults.add(Refuse(code=-32005, message="slow down"))
    assert refusal(node, "eth_blockNumber")["message"] == "slow down"
    node.faults.add(RefuseRange(wording="limited_to"))
    assert "10,000 blocks" in refusal(node, "eth_getLogs", {"fromBlock": "0x0"})["message"]
    node.faults.add(WrongId())
    assert said(node, "eth_blockNumber")["id"] != 7
    node.faults.add(SetField(field="parentHash", value=UNKNOWN))
    assert asked(node, "eth_getBlockByNumber", "0x3", False)["parentHash"] == UNKNOWN


def test_one_call_is_answered_by_a_node_that_lags_behind_the_same_url(node: DevnetNode):
    node.faults.add(Behind(methods=("eth_getLogs",), blocks=8))
    assert asked(node, "eth_blockNumber") == "0xa"
    assert asked(node, "eth_getLogs", {"fromBlock": "0x3", "toBlock": "0x3"}) == []
    assert len(asked(node, "eth_getLogs", {"fromBlock": "0x3", "toBlock": "0x3"})) == 1


def test_letter_case_and_wrong_root_last_until_they_are_switched_back(node: DevnetNode):
    node.set(upper_case_topics=True, checksummed_addresses=True, wrong_receipts_root=True)
    (log,) = asked(node, "eth_getLogs", {"fromBlock": "0x3", "toBlock": "0x3"})
    assert log["topics"][0] == "0x" + log["topics"][0][2:].upper()
    assert log["address"] == "0xdAC17F958D2ee523a2206206994597C13D831ec7"
    true_root = "0x" + node.chain.world.tree.head.receipts_root.hex()
    assert asked(node, "eth_getBlockByNumber", "latest", False)["receiptsRoot"] != true_root
    node.set(upper_case_topics=False, checksummed_addresses=False, wrong_receipts_root=False)
    assert asked(node, "eth_getBlockByNumber", "latest", False)["receiptsRoot"] == true_root


def test_batch_is_answered_in_order_with_errors_in_their_places(node: DevnetNode):
    calls = [
        {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []},
        {"jsonrpc": "2.0", "id": 2, "method": "eth_nothing", "params": []},
        {"jsonrpc": "2.0", "id": 3, "method": "eth_getBlockByNumber", "params": []},
        {"jsonrpc": "2.0", "method": "eth_blockNumber", "params": []},
    ]
    answers = json.loads(reply_to(node, json.dumps(calls).encode()).body or b"")
    assert [answer["id"] for answer in answers] == [1, 2, 3]
    assert [answer.get("error", {}).get("code") for answer in answers] == [None, -32601, -32602]


@pytest.mark.parametrize(
    ("body", "code"), [(b"{", -32700), (b"[]", -32600), (b"[" + b"1," * 1_000 + b"1]", -32600)]
)
def test_what_is_no_call_is_refused(node: DevnetNode, body: bytes, code: int):
    assert json.loads(reply_to(node, body).body or b"")["error"]["code"] == code


def test_connection_fault_in_a_batch_spoils_the_whole_answer(node: DevnetNode):
    node.faults.add(Hang(methods=("eth_chainId",)))
    one = {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []}
    assert reply_to(node, json.dumps([one]).encode()).transport is None
    both = [one, one | {"method": "eth_chainId"}]
    assert isinstance(reply_to(node, json.dumps(both).encode()).transport, Hang)


def test_unknown_switch_is_refused_by_name(node: DevnetNode):
    with pytest.raises(ScriptError, match="lagg"):
        node.set(lagg=3)


def test_token_tells_decimals_symbol_and_balance_and_nobody_tells_nothing(node: DevnetNode):
    old = node.chain.deploy_token("MKR", 18, symbol_is_bytes32=True)
    new = node.chain.deploy_token("USDC", 6)

    def call(to: str, content: str) -> str:
        return asked(node, "eth_call", {"to": to, "data": content}, "latest")

    assert int(call(new, "0x313ce567"), 16) == 6
    assert bytes.fromhex(call(old, "0x95d89b41")[2:]).rstrip(b"\0") == b"MKR"
    assert bytes.fromhex(call(new, "0x95d89b41")[2:])[64:68] == b"USDC"
    assert call(SHOP, "0x313ce567") == "0x"
    usdt = "0xdac17f958d2ee523a2206206994597c13d831ec7"
    balance_of = "0x70a08231" + SHOP[2:].lower().rjust(64, "0")
    assert int(call(usdt, balance_of), 16) == 15
    error = refusal(node, "eth_call", {"to": new, "data": "0x12345678"}, "latest")
    assert error == {"code": 3, "message": "execution reverted", "data": "0x"}
    at_five = asked(node, "eth_call", {"to": usdt, "data": balance_of}, "0x5")
    assert int(at_five, 16) == 8


def test_waiting_transaction_is_known_without_a_block_unless_the_mempool_is_hidden(
    node: DevnetNode,
):
    tx = node.chain.pay_coin(PAYER, SHOP, 1)
    assert asked(node, "eth_getTransactionByHash", tx)["blockHash"] is None
    assert asked(node, "eth_getTransactionReceipt", tx) is None
    nonces = [asked(node, "eth_getTransactionCount", PAYER, tag) for tag in ("latest", "pending")]
    assert nonces == ["0x3", "0x4"]
    node.set(mempool=False)
    assert asked(node, "eth_getTransactionByHash", tx) is None
