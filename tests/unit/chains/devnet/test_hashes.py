"""Headers, roots and blooms of a devnet are recomputed from its JSON alone, by other code."""

from __future__ import annotations

from typing import Any

import pytest
import rlp
from eth_hash.auto import keccak
from trie import HexaryTrie

from chains.devnet.answers import block_answer, receipt_answer
from chains.devnet.blocks import Block, Fork
from chains.devnet.calls import How, Payment
from chains.devnet.chain import DevnetChain
from chains.devnet.encoding import DEPOSIT_TYPE, trie_root
from chains.devnet.execution import Rules
from chains.devnet.world import Seed

PAYER = "0x" + "aa" * 20
SHOP = "0x" + "11" * 20
HEADER_FIELDS = [
    "parentHash",
    "sha3Uncles",
    "miner",
    "stateRoot",
    "transactionsRoot",
    "receiptsRoot",
    "logsBloom",
    "difficulty",
    "number",
    "gasLimit",
    "gasUsed",
    "timestamp",
    "extraData",
    "mixHash",
    "nonce",
    "baseFeePerGas",
    "withdrawalsRoot",
    "blobGasUsed",
    "excessBlobGas",
    "parentBeaconBlockRoot",
    "requestsHash",
]
NUMBERS = {
    "difficulty",
    "number",
    "gasLimit",
    "gasUsed",
    "timestamp",
    "baseFeePerGas",
    "blobGasUsed",
    "excessBlobGas",
}


def chain_of(fork: Fork = Fork.PRAGUE, extra_data: bytes = b"") -> DevnetChain:
    return DevnetChain(Seed(chain_id=1, fork=fork, extra_data=extra_data), Rules())


def busy_block(chain: DevnetChain) -> Block:
    token = chain.deploy_token("USDT", 6)
    for kind in (0, 1, 2, 3, 4, 0x6A, DEPOSIT_TYPE):
        delegates = (SHOP,) if kind == 4 else ()
        chain.pay_token(token, PAYER, SHOP, 100 + kind, How(type=kind, authorizations=delegates))
    chain.pay_coin(PAYER, SHOP, 5, How(fails="out of gas"))
    payments = [Payment(to=SHOP, amount=n, token=token) for n in range(150)]
    chain.pay_many(PAYER, payments, contract="0x" + "bb" * 20)
    chain.mine()
    return chain.world.tree.head


def raw(value: str, name: str) -> bytes | int:
    return int(value, 16) if name in NUMBERS else bytes.fromhex(value[2:])


def hash_of_json(answer: dict[str, Any]) -> str:
    fields = [raw(answer[name], name) for name in HEADER_FIELDS if name in answer]
    return "0x" + keccak(rlp.encode(fields)).hex()


def receipts_root_of_json(receipts: list[dict[str, Any]]) -> str:
    trie = HexaryTrie({})
    for index, receipt in enumerate(receipts):
        trie[rlp.encode(index)] = receipt_of_json(receipt)
    return "0x" + trie.root_hash.hex()


def receipt_of_json(receipt: dict[str, Any]) -> bytes:
    logs = [
        [
            bytes.fromhex(log["address"][2:]),
            [bytes.fromhex(topic[2:]) for topic in log["topics"]],
            bytes.fromhex(log["data"][2:]),
        ]
        for log in receipt["logs"]
    ]
    fields: list[Any] = [
        int(receipt["status"], 16),
        int(receipt["cumulativeGasUsed"], 16),
        bytes.fromhex(receipt["logsBloom"][2:]),
        logs,
    ]
    if receipt["type"] == hex(DEPOSIT_TYPE):
        fields += [int(receipt["depositNonce"], 16), int(receipt["depositReceiptVersion"], 16)]
    kind = int(receipt["type"], 16)
    return (bytes([kind]) if kind else b"") + rlp.encode(fields)


def bloom_has(bloom: int, item: bytes) -> bool:
    digest = keccak(item)
    bits = (int.from_bytes(digest[at : at + 2], "big") % 2048 for at in (0, 2, 4))
    return all(bloom >> bit & 1 for bit in bits)


@pytest.mark.parametrize("fork", list(Fork))
def test_header_hash_is_that_of_its_fields_on_every_fork(fork: Fork):
    block = busy_block(chain_of(fork))
    answer = block_answer(block, full=False)
    assert hash_of_json(answer) == answer["hash"]


@pytest.mark.parametrize("length", [0, 32, 97, 278])
def test_extra_data_of_any_length_is_part_of_the_hash(length: int):
    chain = chain_of(extra_data=b"\x07" * length)
    chain.mine()
    answer = block_answer(chain.world.tree.head, full=False)
    assert len(answer["extraData"]) == 2 + 2 * length
    assert hash_of_json(answer) == answer["hash"]


def test_receipts_root_of_160_receipts_of_all_types_is_recomputed_from_json():
    block = busy_block(chain_of())
    receipts = [receipt_answer(block, one) for one in block.executed]
    assert len({receipt["type"] for receipt in receipts}) == 7
    assert receipts_root_of_json(receipts) == block_answer(block, full=False)["receiptsRoot"]


def test_transaction_hashes_and_root_are_those_of_their_bytes():
    block = busy_block(chain_of())
    trie = HexaryTrie({})
    for index, one in enumerate(block.executed):
        trie[rlp.encode(index)] = one.transaction.encoded
        assert keccak(one.transaction.encoded) == one.transaction.hash
    assert trie.root_hash == block.transactions_root


def test_bloom_holds_every_address_and_topic_and_not_everything():
    block = busy_block(chain_of())
    bloom = int.from_bytes(block.logs_bloom, "big")
    logs = [log for one in block.executed for log in one.logs]
    assert len(logs) == 157
    assert all(bloom_has(bloom, item) for log in logs for item in (log.address, *log.topics))
    assert not bloom_has(bloom, b"nothing of this kind")


@pytest.mark.parametrize("count", [0, 1, 2, 16, 17, 128, 129, 300])
def test_root_built_from_below_equals_the_general_trie(count: int):
    items = [bytes([index % 256]) * (1 + index % 70) for index in range(count)]
    trie = HexaryTrie({})
    for index, item in enumerate(items):
        trie[rlp.encode(index)] = item
    assert trie_root(items) == trie.root_hash


def test_log_positions_run_through_the_block_and_not_the_transaction():
    block = busy_block(chain_of())
    rows = [log for one in block.executed for log in receipt_answer(block, one)["logs"]]
    assert [int(row["logIndex"], 16) for row in rows] == list(range(len(rows)))


def test_bridge_transaction_stands_in_the_block_and_outside_of_both_roots():
    chain = chain_of()
    token = chain.deploy_token("USDC", 6)
    chain.pay_token(token, PAYER, SHOP, 5)
    chain.bridge_in(token, SHOP, 7)
    chain.mine()
    block = chain.world.tree.head
    receipts = [receipt_answer(block, one) for one in block.executed]
    assert len(receipts) == 2
    assert receipts[1]["logs"][0]["data"].endswith("07")
    assert receipts_root_of_json(receipts[:1]) == block_answer(block, full=False)["receiptsRoot"]
