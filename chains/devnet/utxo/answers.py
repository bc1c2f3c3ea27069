"""Blocks, headers and transactions in the JSON of bitcoind. Pure.

**Source**: Bitcoin Core 27 rpc/blockchain.cpp (blockToJSON, blockheaderToJSON), core_write.cpp
(TxToUniv, ScriptToUniv, ValueFromAmount). Left out: descriptors (`desc`) of scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from chains.devnet.utxo.blocks import BITS, WORK, Block
from chains.devnet.utxo.node import UtxoNode
from chains.devnet.utxo.transactions import Input, Output, Transaction, index_of
from chains.utxo.address import address_of_script
from chains.utxo.header import HEADER_BYTES
from chains.utxo.merkle import HASH_BYTES, shown
from chains.utxo.sizes import write_size

Answer = dict[str, Any]
_COIN: Final = 10**8
#: What bits 207fffff are beside the first difficulty, as nodes write it.
_DIFFICULTY: Final = msgspec.Raw(b"4.656542373906925e-10")
_OPCODES: Final = {
    0x6A: "OP_RETURN",
    0x76: "OP_DUP",
    0x87: "OP_EQUAL",
    0x88: "OP_EQUALVERIFY",
    0xA9: "OP_HASH160",
    0xAC: "OP_CHECKSIG",
}
_PUSH_MAX: Final = 75
_NUMBER_BYTES_MAX: Final = 4
#: Kinds of scripts by how they begin and end, and how long they are.
_KINDS: Final = (
    ("pubkeyhash", b"\x76\xa9\x14", b"\x88\xac", 25),
    ("scripthash", b"\xa9\x14", b"\x87", 23),
    ("witness_v0_keyhash", b"\x00\x14", b"", 22),
    ("witness_v0_scripthash", b"\x00\x20", b"", 34),
    ("witness_v1_taproot", b"\x51\x20", b"", 34),
    ("pubkey", b"\x41", b"\xac", 67),
    ("pubkey", b"\x21", b"\xac", 35),
)


def header_answer(node: UtxoNode, block: Block) -> Answer:
    """Give a header as `getblockheader <hash> true` does."""
    answer: Answer = {
        "hash": shown(block.hash),
        "confirmations": confirmations(node, block),
        "height": block.height,
        "version": block.version,
        "versionHex": f"{block.version:08x}",
        "merkleroot": shown(block.merkle_root),
        "time": block.time,
        "mediantime": block.median_time,
        "nonce": block.nonce,
        "bits": f"{BITS:08x}",
        "difficulty": _DIFFICULTY,
        "chainwork": work_upto(block),
        "nTx": len(block.transactions),
    }
    if block.height:
        answer["previousblockhash"] = shown(block.parent_hash)
    after = node.at(block.height + 1) if answer["confirmations"] > 0 else None
    if after is not None:
        answer["nextblockhash"] = shown(after.hash)
    return answer


def block_answer(node: UtxoNode, block: Block, *, full: bool) -> Answer:
    """Give a block with its transactions, whole or by id."""
    stripped = HEADER_BYTES + len(write_size(len(block.transactions)))
    stripped += sum(one.stripped_size for one in block.transactions)
    size = len(block.raw)
    return header_answer(node, block) | {
        "strippedsize": stripped,
        "size": size,
        "weight": 3 * stripped + size,
        "tx": [
            transaction_answer(node, one) if full else shown(one.txid) for one in block.transactions
        ],
    }


def transaction_answer(node: UtxoNode, tx: Transaction) -> Answer:
    """Give a transaction as it stands in a block of verbosity 2."""
    answer: Answer = {
        "txid": shown(tx.txid),
        "hash": shown(tx.wide_id),
        "version": tx.version,
        "size": len(tx.raw),
        "vsize": -(-tx.weight // 4),
        "weight": tx.weight,
        "locktime": tx.lock_time,
        "vin": [_input_answer(one, coinbase=tx.is_coinbase) for one in tx.inputs],
        "vout": [output_answer(node, place, one) for place, one in enumerate(tx.outputs)],
    }
    if not tx.is_coinbase:
        answer["fee"] = coins(node.chain.world.fee(tx))
    return answer | {"hex": tx.raw.hex()}


def output_answer(node: UtxoNode, place: int, output: Output) -> Answer:
    """Give an output."""
    script = script_answer(node, output.script)
    return {"value": coins(output.amount), "n": place, "scriptPubKey": script}


def script_answer(node: UtxoNode, script: bytes) -> Answer:
    """Give an output's script."""
    answer: Answer = {"asm": " ".join(_words(script)), "hex": script.hex()}
    address = address_of_script(node.chain.world.network, script)
    if address is not None:
        answer["address"] = address.display
    return answer | {"type": _kind(script)}


def coins(amount: int) -> msgspec.Raw:
    """Write satoshi as a decimal number of coins, which never becomes a float."""
    sign, units = ("-", -amount) if amount < 0 else ("", amount)
    return msgspec.Raw(f"{sign}{units // _COIN}.{units % _COIN:08d}".encode())


def confirmations(node: UtxoNode, block: Block) -> int:
    """Give how many blocks of this node's chain stand on a block, itself included; -1 beside it."""
    on_chain = node.tree.is_ancestor(block, node.head)
    return node.head.height - block.height + 1 if on_chain else -1


def work_upto(block: Block) -> str:
    """Give the work of a whole branch."""
    return f"{WORK * (block.height + 1):064x}"


def _input_answer(one: Input, *, coinbase: bool) -> Answer:
    answer: Answer = {}
    if coinbase:
        answer["coinbase"] = one.script.hex()
    else:
        answer["txid"] = shown(one.outpoint[:HASH_BYTES])
        answer["vout"] = index_of(one.outpoint)
        answer["scriptSig"] = {"asm": " ".join(_words(one.script)), "hex": one.script.hex()}
    if one.witness:
        answer["txinwitness"] = [item.hex() for item in one.witness]
    return answer | {"sequence": one.sequence}


def _words(script: bytes) -> Iterator[str]:
    """Write a script's opcodes and pushes as people read them."""
    at = 0
    while at < len(script):
        opcode = script[at]
        at += 1
        if 0 < opcode <= _PUSH_MAX:
            pushed = script[at : at + opcode]
            at += opcode
            short = len(pushed) <= _NUMBER_BYTES_MAX
            yield str(_number(pushed)) if short else pushed.hex()
        elif opcode == 0 or 0x51 <= opcode <= 0x60:
            yield str(max(0, opcode - 0x50))
        else:
            yield _OPCODES.get(opcode, "OP_UNKNOWN")


def _number(pushed: bytes) -> int:
    """Read a script's number: the highest bit is its sign."""
    size = int.from_bytes(pushed, "little")
    sign = 1 << 8 * len(pushed) - 1
    return -(size ^ sign) if size & sign else size


def _kind(script: bytes) -> str:
    for name, begins, ends, length in _KINDS:
        if len(script) == length and script.startswith(begins) and script.endswith(ends):
            return name
    return "nulldata" if script.startswith(b"\x6a") else "nonstandard"
