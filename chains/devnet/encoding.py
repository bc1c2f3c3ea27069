"""Bytes and hashes of blocks, transactions and receipts, as consensus writes them.

Pure. **Source**: Ethereum yellow paper, section 4.3 and appendix D; EIP-2718, 2930, 1559, 4895,
4844, 4788, 7685, 7702; OP stack specification, "Deposits". Numbers of fields checked against anvil.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import rlp

from chains.devnet.hexadecimal import keccak, word
from chains.devnet.scripted import FrameKind, Log, Transaction

EMPTY_ROOT: Final = keccak(rlp.encode(b""))
EMPTY_UNCLES: Final = keccak(rlp.encode([]))
#: sha256 of nothing: EIP-7685, the hash of no requests.
EMPTY_REQUESTS: Final = bytes.fromhex(
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)
DEPOSIT_TYPE: Final = 0x7E
BLOOM_BYTES: Final = 256


def encode(item: Any) -> bytes:
    """RLP of nested lists of bytes and numbers."""
    return bytes(rlp.encode(item))


@lru_cache(maxsize=65_536)
def _bloom_bits(item: bytes) -> int:
    digest = keccak(item)
    bits = 0
    for start in (0, 2, 4):
        bits |= 1 << (int.from_bytes(digest[start : start + 2], "big") & 2047)
    return bits


def bloom_of(logs: Iterable[Log]) -> bytes:
    """Give the 2048-bit filter of addresses and topics."""
    bits = 0
    for log in logs:
        bits |= _bloom_bits(log.address)
        for topic in log.topics:
            bits |= _bloom_bits(topic)
    return bits.to_bytes(BLOOM_BYTES, "big")


def trie_root(items: Sequence[bytes]) -> bytes:
    """Give the root of the Merkle-Patricia trie over RLP(index) -> item.

    Built from below, so that each node is hashed once; the general trie re-hashes a path for every
    item, which is 20 times slower at 200 transactions (measured).
    """
    if not items:
        return EMPTY_ROOT
    rows = sorted((_nibbles(encode(index)), item) for index, item in enumerate(items))
    return keccak(encode(_trie_node(rows, 0)))


def _nibbles(key: bytes) -> tuple[int, ...]:
    return tuple(nibble for byte in key for nibble in (byte >> 4, byte & 15))


def _trie_node(rows: list[tuple[tuple[int, ...], bytes]], depth: int) -> list[Any]:
    first, last = rows[0][0], rows[-1][0]
    if len(rows) == 1:
        return [_path(first[depth:], leaf=True), rows[0][1]]
    shared = depth
    while shared < len(first) and first[shared] == last[shared]:
        shared += 1
    if shared > depth:
        return [_path(first[depth:shared], leaf=False), _reference(_trie_node(rows, shared))]
    branch: list[Any] = [b""] * 17
    for nibble in range(16):
        below = [row for row in rows if row[0][depth] == nibble]
        if below:
            branch[nibble] = _reference(_trie_node(below, depth + 1))
    return branch


def _path(nibbles: tuple[int, ...], *, leaf: bool) -> bytes:
    odd = len(nibbles) % 2
    flagged = ((2 if leaf else 0) + odd, *(() if odd else (0,)), *nibbles)
    return bytes(high << 4 | low for high, low in zip(flagged[::2], flagged[1::2], strict=True))


def _reference(node: list[Any]) -> Any:
    encoded = encode(node)
    return node if len(encoded) < 32 else keccak(encoded)


def transaction_payload(transaction: Transaction, *, signed: bool) -> bytes:
    """Give the bytes that are hashed: the EIP-2718 envelope, or the plain list of a legacy one."""
    fields = _transaction_fields(transaction, signed=signed)
    prefix = b"" if transaction.type == 0 else bytes([transaction.type])
    return prefix + encode(fields)


def _transaction_fields(tx: Transaction, *, signed: bool) -> list[Any]:
    root = tx.root
    to = b"" if root.kind in {FrameKind.CREATE, FrameKind.CREATE2} else root.to
    signature = [tx.y_parity, tx.r, tx.s] if signed else []
    call = [tx.gas_limit, to, root.value, root.input]
    if tx.type == 0:
        # EIP-155: the chain id stands in v, or behind the call where it is signed
        tail = [tx.chain_id * 2 + 35 + tx.y_parity, tx.r, tx.s] if signed else [tx.chain_id, 0, 0]
        return [tx.nonce, tx.fee_max, *call, *tail]
    if tx.type == 1:
        return [tx.chain_id, tx.nonce, tx.fee_max, *call, [], *signature]
    if tx.type == DEPOSIT_TYPE:
        source = keccak(word(tx.nonce) + tx.sender)
        return [source, tx.sender, to, 0, root.value, tx.gas_limit, 0, root.input]
    fees = [tx.chain_id, tx.nonce, tx.tip_max, tx.fee_max]
    if tx.type == 4:
        granted = [_authorization(tx, delegate) for delegate in tx.authorizations]
        return [*fees, *call, [], granted, *signature]
    # EIP-1559, and every type that nobody knows: real chains add types without asking us
    return [*fees, *call, [], *signature]


def _authorization(tx: Transaction, delegate: bytes) -> list[Any]:
    return [tx.chain_id, delegate, tx.nonce + 1, 0, 1, 1]


def encode_log(log: Log) -> list[Any]:
    """Give a log as its receipt hashes it."""
    return [log.address, list(log.topics), log.data]


def encode_receipt(
    *, type_: int, status: int, cumulative_gas: int, logs: Sequence[Log], nonce: int
) -> bytes:
    """Give a receipt's consensus bytes; a deposit's also hold its nonce and version."""
    fields = [status, cumulative_gas, bloom_of(logs), [encode_log(log) for log in logs]]
    if type_ == DEPOSIT_TYPE:
        fields += [nonce, 1]
    return (b"" if type_ == 0 else bytes([type_])) + encode(fields)


def created_address(sender: bytes, nonce: int) -> bytes:
    """Give the address at which CREATE puts a contract."""
    return keccak(encode([sender, nonce]))[12:]


def delegation_code(delegate: bytes) -> bytes:
    """Give the code of an account that delegated to a contract (EIP-7702)."""
    return bytes.fromhex("ef0100") + delegate
