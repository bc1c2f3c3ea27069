"""Every lie of a Bitcoin node on demand, and that the product's reader refuses what it can check."""

from __future__ import annotations

import contextlib
from hashlib import sha256
from typing import Any

import pytest

from chains.devnet.faults import Behind, Refuse, Replace, SetField, Truncate, WrongId
from chains.devnet.utxo.chain import Spend, UtxoChain
from chains.devnet.utxo.faults import ChangeByte, CutHex, Elsewhere, ListUnknown
from chains.devnet.utxo.node import UtxoNode
from chains.devnet.utxo.world import UtxoSeed
from chains.errors import AnswerRefused
from chains.utxo.block import read_block
from tests.parts.utxo_blocks import Everything
from tests.parts.utxo_devnet import asked, refusal, said


@pytest.fixture
def chain() -> UtxoChain:
    chain = UtxoChain(UtxoSeed())
    for n in range(1, 6):
        chain.pay_coin(chain.new_address("shop"), n)
        chain.mine()
    return chain


@pytest.fixture
def node(chain: UtxoChain) -> UtxoNode:
    return UtxoNode(chain, "a")


def raw(node: UtxoNode, **lie: Any) -> bytes:
    return bytes.fromhex(asked(node, "getblock", node.chain.block().hash, 0))


def read(node: UtxoNode) -> str:
    found = read_block(raw(node), node.chain.world.rules, Everything())
    return found.header.hash


@pytest.mark.parametrize("at", [0, 4, 36, 68, 100, -1, -60])
def test_block_with_one_byte_changed_is_refused_or_another_block(node: UtxoNode, at: int):
    truth = raw(node)
    node.faults.add(ChangeByte(methods=("getblock",), at=at))
    lie = raw(node)
    assert sum(a != b for a, b in zip(truth, lie, strict=True)) == 1
    node.faults.add(ChangeByte(methods=("getblock",), at=at))
    with contextlib.suppress(AnswerRefused):
        assert read(node) != node.chain.block().hash
    assert read(node) == node.chain.block().hash


def test_cut_hex_is_refused(node: UtxoNode):
    node.faults.add(CutHex(digits=2))
    with pytest.raises(AnswerRefused):
        read(node)


def test_lies_meet_on_one_answer(node: UtxoNode):
    truth = asked(node, "getblock", node.chain.block().hash, 0)
    node.faults.add(CutHex(digits=3))
    node.faults.add(ChangeByte(at=0))
    node.faults.add(ChangeByte(at=10_000_000))
    lie = asked(node, "getblock", node.chain.block().hash, 0)
    assert lie == f"{int(truth[:2], 16) ^ 1:02x}" + truth[2:-3]


def test_other_blocks_bytes_are_a_true_block_under_the_wrong_name(node: UtxoNode):
    node.faults.add(Elsewhere(methods=("getblock",), blocks=2))
    assert read(node) == node.chain.block(4).hash


def test_header_of_another_height_and_hash_of_another_height(node: UtxoNode):
    node.faults.add(Elsewhere(methods=("getblockheader",)))
    assert asked(node, "getblockheader", node.chain.block(3).hash)["height"] == 2
    node.faults.add(Elsewhere(methods=("getblockhash",)))
    assert asked(node, "getblockhash", 3) == node.chain.block(2).hash


def test_transaction_of_another_id(chain: UtxoChain, node: UtxoNode):
    first, second = (chain.pay_coin(chain.new_address("shop"), n) for n in (1, 2))
    node.faults.add(Elsewhere(methods=("getrawtransaction",)))
    assert asked(node, "getrawtransaction", first, 0) == chain.raw(second)


def test_mempool_lists_what_it_does_not_give(chain: UtxoChain, node: UtxoNode):
    tx = chain.pay_coin(chain.new_address("shop"), 1)
    node.faults.add(ListUnknown(methods=("getrawmempool",)))
    listed = asked(node, "getrawmempool")
    assert listed == [tx, sha256(b"0").hexdigest()]
    assert refusal(node, "getrawtransaction", listed[1], 0)["code"] == -5


def test_shared_lies_work_as_for_every_chain(chain: UtxoChain, node: UtxoNode):
    chain.pay_coin(chain.new_address("shop"), 1)
    node.faults.add(Truncate(methods=("getrawmempool",)))
    assert asked(node, "getrawmempool") == []
    node.faults.add(Replace(methods=("getbestblockhash",)))
    assert asked(node, "getbestblockhash") is None
    node.faults.add(SetField(methods=("getblockheader",), field="height", value=77))
    assert asked(node, "getblockheader", chain.block().hash)["height"] == 77
    node.faults.add(Refuse(code=-20, message="database error"))
    assert refusal(node, "getblockcount") == {"code": -20, "message": "database error"}
    node.faults.add(WrongId())
    assert said(node, "getblockcount")["id"] == 4_294_967_295
    assert node.faults.struck() == 5


def test_call_that_a_balancer_sends_elsewhere_sees_an_older_chain_and_spoils_no_mempool(
    chain: UtxoChain, node: UtxoNode
):
    shop = chain.new_address("shop")
    chain.mine(pay_to=shop)
    made = chain.world.tree.head.transactions[0].txid[::-1].hex()
    spent = chain.pay_coin(shop, 5, Spend(inputs=(f"{made}:0",)))
    node.faults.add(Behind(methods=("getrawmempool", "getblockcount"), blocks=2, times=2))
    assert asked(node, "getblockcount") == chain.height - 2
    assert asked(node, "getrawmempool") == list(chain.block(chain.height - 1).transactions)
    assert asked(node, "getrawmempool") == [spent]
