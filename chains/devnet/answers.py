"""Blocks, transactions, receipts and logs in the JSON of a node. Pure.

The shapes are those of geth; `tests/contract` compares them with recorded answers of anvil.
"""

from __future__ import annotations

from typing import Any, Final

from chains.devnet.blocks import BASE_FEE, GAS_LIMIT, Block, Executed, Fork
from chains.devnet.encoding import DEPOSIT_TYPE, EMPTY_REQUESTS, EMPTY_ROOT, EMPTY_UNCLES, bloom_of
from chains.devnet.execution import CREATES
from chains.devnet.hexadecimal import ZERO_ADDRESS, data, keccak, quantity, word
from chains.devnet.scripted import Transaction

Answer = dict[str, Any]
_ZERO_HASH: Final = data(bytes(32))


def header_answer(block: Block) -> Answer:
    """Give a header as `newHeads` announces it."""
    answer: Answer = {
        "hash": data(block.hash),
        "parentHash": data(block.parent_hash),
        "sha3Uncles": data(EMPTY_UNCLES),
        "miner": data(ZERO_ADDRESS),
        "stateRoot": data(block.state_root),
        "transactionsRoot": data(block.transactions_root),
        "receiptsRoot": data(block.receipts_root),
        "logsBloom": data(block.logs_bloom),
        "difficulty": "0x0",
        "number": quantity(block.height),
        "gasLimit": quantity(GAS_LIMIT),
        "gasUsed": quantity(block.gas_used),
        "timestamp": quantity(block.time),
        "extraData": data(block.extra_data),
        "mixHash": data(block.mix_hash),
        "nonce": data(bytes(8)),
    }
    if block.fork >= Fork.LONDON:
        answer["baseFeePerGas"] = quantity(BASE_FEE)
    if block.fork >= Fork.SHANGHAI:
        answer["withdrawalsRoot"] = data(EMPTY_ROOT)
    if block.fork >= Fork.CANCUN:
        answer |= {
            "blobGasUsed": "0x0",
            "excessBlobGas": "0x0",
            "parentBeaconBlockRoot": _ZERO_HASH,
        }
    if block.fork >= Fork.PRAGUE:
        answer["requestsHash"] = data(EMPTY_REQUESTS)
    return answer


def block_answer(block: Block, *, full: bool) -> Answer:
    """Give a block with its transactions, whole or by hash."""
    answer = header_answer(block)
    answer["size"] = quantity(block.size)
    answer["uncles"] = []
    answer["transactions"] = [
        mined_transaction_answer(block, one) if full else data(one.transaction.hash)
        for one in block.executed
    ]
    if block.fork >= Fork.SHANGHAI:
        answer["withdrawals"] = []
    return answer


def mined_transaction_answer(block: Block, one: Executed) -> Answer:
    """Give a transaction with its place in a block."""
    answer = transaction_answer(one.transaction, effective_price=one.fee)
    answer["blockHash"] = data(block.hash)
    answer["blockNumber"] = quantity(block.height)
    answer["transactionIndex"] = quantity(one.index)
    answer["blockTimestamp"] = quantity(block.time)
    return answer


def transaction_answer(tx: Transaction, *, effective_price: int | None = None) -> Answer:
    """Give a transaction; without a block it waits."""
    root = tx.root
    answer: Answer = {
        "type": quantity(tx.type),
        "nonce": quantity(tx.nonce),
        "gas": quantity(tx.gas_limit),
        "gasPrice": quantity(tx.fee_max if effective_price is None else effective_price),
        "from": data(tx.sender),
        "to": None if root.kind in CREATES else data(root.to),
        "value": quantity(root.value),
        "input": data(root.input),
        "hash": data(tx.hash),
        "blockHash": None,
        "blockNumber": None,
        "transactionIndex": None,
    }
    if tx.type == DEPOSIT_TYPE:
        source = data(keccak(word(tx.nonce) + tx.sender))
        return answer | {"sourceHash": source, "mint": "0x0", "depositReceiptVersion": "0x1"}
    answer |= {"chainId": quantity(tx.chain_id), "r": quantity(tx.r), "s": quantity(tx.s)}
    if tx.type == 0:
        return answer | {"v": quantity(tx.chain_id * 2 + 35 + tx.y_parity)}
    answer |= {"v": quantity(tx.y_parity), "yParity": quantity(tx.y_parity), "accessList": []}
    if tx.type != 1:
        answer["maxFeePerGas"] = quantity(tx.fee_max)
        answer["maxPriorityFeePerGas"] = quantity(tx.tip_max)
    if tx.type == 4:
        answer["authorizationList"] = [_authorization(tx, one) for one in tx.authorizations]
    return answer


def _authorization(tx: Transaction, delegate: bytes) -> Answer:
    return {
        "chainId": quantity(tx.chain_id),
        "address": data(delegate),
        "nonce": quantity(tx.nonce + 1),
        "yParity": "0x0",
        "r": "0x1",
        "s": "0x1",
    }


def receipt_answer(block: Block, one: Executed) -> Answer:
    """Give a receipt with its logs."""
    tx = one.transaction
    answer: Answer = {
        "type": quantity(tx.type),
        "status": quantity(one.status),
        "cumulativeGasUsed": quantity(one.cumulative_gas),
        "logs": log_answers(block, one),
        "logsBloom": data(bloom_of(one.logs)),
        "transactionHash": data(tx.hash),
        "transactionIndex": quantity(one.index),
        "blockHash": data(block.hash),
        "blockNumber": quantity(block.height),
        "gasUsed": quantity(one.gas_used),
        "effectiveGasPrice": quantity(one.fee),
        "from": data(tx.sender),
        "to": None if tx.root.kind in CREATES else data(tx.root.to),
        "contractAddress": None if one.contract is None else data(one.contract),
    }
    if tx.type == DEPOSIT_TYPE:
        answer |= {"depositNonce": quantity(tx.nonce), "depositReceiptVersion": "0x1"}
    return answer


def log_answers(block: Block, one: Executed, *, removed: bool = False) -> list[Answer]:
    """Give the logs of one transaction, numbered within its block."""
    return [
        {
            "address": data(log.address),
            "topics": [data(topic) for topic in log.topics],
            "data": data(log.data),
            "blockHash": data(block.hash),
            "blockNumber": quantity(block.height),
            "blockTimestamp": quantity(block.time),
            "transactionHash": data(one.transaction.hash),
            "transactionIndex": quantity(one.index),
            "logIndex": quantity(one.log_index + count),
            "removed": removed,
        }
        for count, log in enumerate(one.logs)
    ]
