"""What a scripted Bitcoin node answers: bitcoind's shapes, its errors, and what each kind of node lacks."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from chains.devnet.utxo.chain import Pay, Spend, UtxoChain
from chains.devnet.utxo.dialogue import reply_to
from chains.devnet.utxo.node import UtxoNode
from chains.devnet.utxo.world import UtxoSeed
from tests.parts.utxo_devnet import asked, refusal, said

COIN = 10**8
UNKNOWN = "12" * 32


@pytest.fixture
def chain() -> UtxoChain:
    return UtxoChain(UtxoSeed())


@pytest.fixture
def node(chain: UtxoChain) -> UtxoNode:
    return UtxoNode(chain, "a")


@pytest.fixture
def shop(chain: UtxoChain) -> str:
    return chain.new_address("shop")


def test_header_has_the_fields_of_bitcoind_in_its_order(chain: UtxoChain, node: UtxoNode):
    chain.mine(12)
    header = asked(node, "getblockheader", chain.block(5).hash)
    assert list(header) == [
        "hash", "confirmations", "height", "version", "versionHex", "merkleroot", "time",
        "mediantime", "nonce", "bits", "difficulty", "chainwork", "nTx", "previousblockhash",
        "nextblockhash",
    ]  # fmt: skip
    assert (header["height"], header["confirmations"], header["bits"]) == (5, 9, "207fffff")
    assert (header["version"], header["versionHex"]) == (0x20000000, "20000000")
    assert header["previousblockhash"] == chain.block(4).hash
    assert header["nextblockhash"] == chain.block(6).hash
    assert int(header["chainwork"], 16) == 2 * 6
    times = [chain.block(height).time for height in range(2, 13)]
    assert asked(node, "getblockheader", chain.block(12).hash)["mediantime"] == sorted(times)[5]
    raw = asked(node, "getblockheader", chain.block(5).hash, False)
    assert asked(node, "getblock", chain.block(5).hash, 0).startswith(raw)
    assert len(raw) == 160
    first = asked(node, "getblockheader", asked(node, "getblockhash", 0))
    assert "previousblockhash" not in first
    assert "nextblockhash" not in asked(node, "getblockheader", chain.block().hash)


def test_block_of_a_left_branch_is_still_told_of_with_minus_one_confirmations(
    chain: UtxoChain, node: UtxoNode
):
    left = chain.mine().hash
    chain.reorganise(1)
    header = asked(node, "getblockheader", left)
    assert header["confirmations"] == -1
    assert "nextblockhash" not in header
    assert asked(node, "getblock", left, 0).startswith(asked(node, "getblockheader", left, False))
    node.set(side_blocks=False)
    assert refusal(node, "getblock", left, 0) == {"code": -5, "message": "Block not found"}


def test_amounts_are_written_with_eight_digits_behind_the_point(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    amounts = [1, 10, 99_999_999, COIN, 2_000_000_000_000 + 1, 0]
    tx = chain.pay_many([Pay(shop, amount) for amount in amounts], Spend(fee=1_234))
    block = chain.mine()
    asking = json.dumps({"method": "getblock", "params": [block.hash, 2], "id": 1})
    body = reply_to(node, asking.encode()).body
    assert body is not None
    written = [part[: part.index(b",")].decode() for part in body.split(b'"value":')[1:]]
    assert written[:2] == ["50.00000000", "0.00000000"]
    assert written[2:-1] == [
        "0.00000001", "0.00000010", "0.99999999", "1.00000000", "20000.00000001", "0.00000000",
    ]  # fmt: skip
    assert b'"fee":0.00001234' in body
    assert asked(node, "getblock", block.hash, 1)["tx"][1:] == [tx]
    assert asked(node, "getblock", block.hash, 1) == asked(node, "getblock", block.hash)


def test_block_of_verbosity_2_tells_every_part_of_a_transaction(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    tx = chain.pay_coin(shop, COIN)
    block = asked(node, "getblock", chain.mine().hash, 2)
    raw = asked(node, "getblock", block["hash"], 0)
    assert block["size"] == len(raw) // 2
    assert block["weight"] == 3 * block["strippedsize"] + block["size"]
    coinbase, paid = block["tx"]
    assert list(paid) == [
        "txid", "hash", "version", "size", "vsize", "weight", "locktime", "vin", "vout", "fee",
        "hex",
    ]  # fmt: skip
    assert paid["txid"] == tx != paid["hash"]
    assert paid["hex"] in raw
    (source,) = paid["vin"]
    assert list(source) == ["txid", "vout", "scriptSig", "txinwitness", "sequence"]
    assert f"{source['txid']}:{source['vout']}" == chain.outpoints(tx)[0]
    output = paid["vout"][0]
    assert (output["n"], output["scriptPubKey"]["address"]) == (0, shop)
    assert output["scriptPubKey"]["type"] == "pubkeyhash"
    program = output["scriptPubKey"]["hex"][6:46]
    assert (
        output["scriptPubKey"]["asm"] == f"OP_DUP OP_HASH160 {program} OP_EQUALVERIFY OP_CHECKSIG"
    )
    assert list(coinbase["vin"][0]) == ["coinbase", "txinwitness", "sequence"]
    assert coinbase["vout"][0]["scriptPubKey"]["type"] == "nulldata"
    assert "fee" not in coinbase


def test_height_beyond_the_head_is_out_of_range_in_the_nodes_own_words(
    chain: UtxoChain, node: UtxoNode
):
    chain.mine(3)
    assert asked(node, "getblockhash", 4) == chain.block().hash
    for height in (5, -1):
        assert refusal(node, "getblockhash", height) == {
            "code": -8,
            "message": "Block height out of range",
        }
    node.set(speaks="btcd")
    assert refusal(node, "getblockhash", 5) == {"code": -1, "message": "Block number out of range"}
    node.set(lag=2)
    assert asked(node, "getblockcount") == 2
    assert refusal(node, "getblockheader", chain.block(3).hash)["code"] == -5


def test_node_without_index_finds_mined_transactions_only_by_block_or_unspent_output(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    tx = chain.pay_coin(shop, COIN)
    assert asked(node, "getrawtransaction", tx, 0) == chain.raw(tx)
    assert "blockhash" not in asked(node, "getrawtransaction", tx, 1)
    assert asked(node, "gettxout", tx, 0, False) is None
    assert asked(node, "gettxout", tx, 0)["confirmations"] == 0
    block = chain.mine().hash
    lost = refusal(node, "getrawtransaction", tx, 1)
    assert lost["code"] == -5
    assert lost["message"].startswith(
        "No such mempool transaction. Use -txindex or provide a block"
    )
    within = asked(node, "getrawtransaction", tx, 1, block)
    assert (within["in_active_chain"], within["blockhash"]) == (True, block)
    output = asked(node, "gettxout", tx, 0, False)
    assert (output["value"], output["confirmations"], output["coinbase"]) == (1, 1, False)
    assert output["bestblock"] == block
    assert asked(node, "gettxout", tx, 7, False) is None
    chain.pay_coin(chain.new_address("other"), 5, Spend(inputs=(f"{tx}:0",)))
    assert asked(node, "gettxout", tx, 0, False)["confirmations"] == 1
    assert asked(node, "gettxout", tx, 0, True) is None
    chain.mine()
    assert asked(node, "gettxout", tx, 0, False) is None


def test_node_with_index_tells_where_a_transaction_was_mined(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    node.set(tx_index=True)
    tx = chain.pay_coin(shop, COIN)
    block = chain.mine()
    chain.mine(2)
    found = asked(node, "getrawtransaction", tx, True)
    assert (found["blockhash"], found["confirmations"]) == (block.hash, 3)
    assert (found["time"], found["blocktime"]) == (block.time, block.time)
    assert asked(node, "getrawtransaction", tx) == chain.raw(tx)
    lost = refusal(node, "getrawtransaction", UNKNOWN, 0)
    assert lost == {
        "code": -5,
        "message": "No such mempool or blockchain transaction. Use gettransaction for wallet "
        "transactions.",
    }
    chain.reorganise(3, omit=[tx])
    assert "blockhash" not in asked(node, "getrawtransaction", tx, 1)


def test_first_coinbase_cannot_be_retrieved(node: UtxoNode):
    node.set(tx_index=True)
    first = asked(node, "getblock", asked(node, "getblockhash", 0), 1)["tx"][0]
    assert refusal(node, "getrawtransaction", first)["message"].startswith("The genesis block")


def test_pruned_node_keeps_headers_and_throws_bodies_away(chain: UtxoChain, node: UtxoNode):
    chain.mine(6)
    node.set(pruned_below=4)
    assert refusal(node, "getblock", chain.block(3).hash, 0) == {
        "code": -1,
        "message": "Block not available (pruned data)",
    }
    assert asked(node, "getblockheader", chain.block(3).hash)["height"] == 3
    assert asked(node, "getblock", chain.block(4).hash)["height"] == 4
    info = asked(node, "getblockchaininfo")
    assert (info["pruned"], info["pruneheight"], info["chain"]) == (True, 4, "regtest")
    assert (info["blocks"], info["bestblockhash"]) == (7, chain.block().hash)


def reply(node: UtxoNode, content: Any, **more: Any) -> tuple[int, Any]:
    found = reply_to(node, json.dumps(content).encode(), **more)
    return found.http_status, json.loads(found.body) if found.body else None


def test_errors_come_with_status_500_and_unknown_methods_with_404(node: UtxoNode):
    status, body = reply(node, {"method": "getblock", "params": [UNKNOWN], "id": "x"})
    error = {"code": -5, "message": "Block not found"}
    assert (status, body) == (500, {"result": None, "error": error, "id": "x"})
    status, body = reply(node, {"method": "getblocks", "id": 1})
    assert (status, body["error"]) == (404, {"code": -32601, "message": "Method not found"})
    node.set(warming_up=True)
    status, body = reply(node, {"method": "getblockcount", "id": 1})
    assert (status, body["error"]["code"]) == (500, -28)
    assert reply_to(node, b"{").http_status == 500


def test_newer_node_answers_json_rpc_2_by_its_rules_and_older_questions_as_before(node: UtxoNode):
    node.set(speaks="bitcoind_28")
    new = {"jsonrpc": "2.0", "method": "getblock", "params": [UNKNOWN], "id": 3}
    error = {"code": -5, "message": "Block not found"}
    assert reply(node, new) == (200, {"jsonrpc": "2.0", "error": error, "id": 3})
    counted = {"jsonrpc": "2.0", "method": "getblockcount", "id": 3}
    assert reply(node, counted) == (200, {"jsonrpc": "2.0", "result": 1, "id": 3})
    assert reply(node, new | {"jsonrpc": "1.0"})[0] == 500
    node.set(speaks="btcd")
    assert reply(node, new) == (200, {"result": None, "error": error, "id": 3})


def test_batch_is_answered_in_order_with_status_200(chain: UtxoChain, node: UtxoNode):
    asked_ = [{"method": "getblockhash", "params": [n], "id": n} for n in (1, 9)]
    status, body = reply(node, asked_)
    assert status == 200
    assert [one["id"] for one in body] == [1, 9]
    assert body[0]["result"] == chain.block().hash
    assert body[1]["error"]["code"] == -8
    node.set(takes_batches=False)
    assert reply(node, asked_)[1]["error"]["code"] == -32600


def test_credentials_are_asked_for(node: UtxoNode):
    node.set(credentials="user:secret")
    call = {"method": "getblockcount", "id": 1}
    right = "Basic " + base64.b64encode(b"user:secret").decode()
    assert reply(node, call) == (401, None)
    assert reply(node, call, authorization="Basic dXNlcjp3cm9uZw==") == (401, None)
    assert reply(node, call, authorization=right)[1]["result"] == 1


@pytest.mark.parametrize(
    ("method", "params", "code", "words"),
    [
        ("getblock", ["12"], -8, "blockhash must be of length 64 (not 2, for '12')"),
        ("getblock", ["zz" * 32], -8, "blockhash must be hexadecimal string"),
        ("getblock", [5], -3, "JSON value of type number is not of expected type string"),
        ("getblock", [], -1, "missing"),
        ("getblockhash", ["1"], -3, "JSON value of type string is not of expected type number"),
        ("getrawtransaction", ["12"], -8, "parameter 1 must be of length 64"),
        ("getrawtransaction", [UNKNOWN, 0, UNKNOWN], -5, "Block hash not found"),
        ("sendrawtransaction", ["00"], -22, "TX decode failed"),
        ("sendrawtransaction", ["zz"], -22, "TX decode failed"),
    ],
)
def test_wrong_parameters_are_refused_in_bitcoinds_words(
    node: UtxoNode, method: str, params: list[Any], code: int, words: str
):
    found = refusal(node, method, *params)
    assert found["code"] == code
    assert words in found["message"]


def test_sent_transaction_waits_everywhere_and_a_mined_one_is_refused(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    tx = chain.pay_coin(shop, 5, Spend(hold=True))
    assert asked(node, "getrawmempool") == []
    assert asked(node, "sendrawtransaction", chain.raw(tx)) == tx
    assert asked(node, "sendrawtransaction", chain.raw(tx)) == tx
    assert chain.waiting() == [tx] == asked(node, "getrawmempool")
    chain.mine()
    assert refusal(node, "sendrawtransaction", chain.raw(tx)) == {
        "code": -27,
        "message": "Transaction already in block chain",
    }
    double = chain.raw(chain.replace(tx, [Pay(shop, 4)], hold=True))
    assert refusal(node, "sendrawtransaction", double) == {
        "code": -25,
        "message": "bad-txns-inputs-missingorspent",
    }


def test_other_genesis_makes_it_another_chain(node: UtxoNode):
    node.set(genesis=UNKNOWN)
    assert asked(node, "getblockhash", 0) == UNKNOWN
    assert said(node, "getblockcount")["result"] == 1
