"""A block: its header, its transactions, and what each of them did. Pure.

The header's hash, the two roots and the bloom are real; the state root is made up (there is no
state trie, and nothing that reads blocks can check it without proofs).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from msgspec import Struct

from chains.devnet.encoding import (
    EMPTY_REQUESTS,
    EMPTY_ROOT,
    EMPTY_UNCLES,
    bloom_of,
    encode,
    encode_receipt,
    trie_root,
)
from chains.devnet.hexadecimal import ZERO_ADDRESS, keccak
from chains.devnet.scripted import FrameKind, Log, Transaction

GAS_LIMIT: Final = 1_000_000_000
#: One gwei: low enough that a script's payer seldom runs out of coin.
BASE_FEE: Final = 1_000_000_000


class Fork(IntEnum):
    """Which fields a header has: each fork of Ethereum appended some."""

    BERLIN = 0
    LONDON = 1
    SHANGHAI = 2
    CANCUN = 3
    PRAGUE = 4


class Trace(Struct, kw_only=True):
    """One executed frame, as a tracer tells it. **Units**: `value` in wei, gas in gas."""

    kind: FrameKind
    sender: bytes
    to: bytes
    value: int
    input: bytes
    output: bytes = b""
    gas_used: int = 0
    error: str | None = None
    calls: list[Trace]


class Executed(Struct, frozen=True, kw_only=True):
    """What a transaction did in its block. `log_index` is that of its first log in the block."""

    transaction: Transaction
    index: int
    status: int
    gas_used: int
    cumulative_gas: int
    fee: int
    logs: tuple[Log, ...]
    log_index: int
    trace: Trace
    contract: bytes | None
    bridge: bool = False


class Block(Struct, frozen=True, kw_only=True, eq=False):
    """One block of any branch. Two blocks are equal only when they are the same object."""

    hash: bytes
    parent_hash: bytes
    height: int
    time: int
    fork: Fork
    extra_data: bytes
    mix_hash: bytes
    state_root: bytes
    transactions_root: bytes
    receipts_root: bytes
    logs_bloom: bytes
    gas_used: int
    size: int
    executed: tuple[Executed, ...]

    @property
    def rooted(self) -> tuple[Executed, ...]:
        """What the two roots speak for: everything but a bridge's transaction (Polygon)."""
        return tuple(one for one in self.executed if not one.bridge)


def make_block(
    *,
    parent: Block | None,
    time: int,
    fork: Fork,
    extra_data: bytes,
    mix_hash: bytes,
    executed: tuple[Executed, ...],
) -> Block:
    """Close a block over what was executed."""
    rooted = [one for one in executed if not one.bridge]
    receipts = [receipt_bytes(one) for one in rooted]
    transactions = [one.transaction.encoded for one in rooted]
    body = encode([list(transactions), []])
    parts: dict[str, Any] = {
        "parent_hash": bytes(32) if parent is None else parent.hash,
        "height": 0 if parent is None else parent.height + 1,
        "time": time,
        "fork": fork,
        "extra_data": extra_data,
        "mix_hash": mix_hash,
        "state_root": keccak(b"state" + mix_hash + b"".join(transactions)),
        "transactions_root": trie_root(transactions),
        "receipts_root": trie_root(receipts),
        "logs_bloom": bloom_of(log for one in rooted for log in one.logs),
        "gas_used": sum(one.gas_used for one in rooted),
    }
    header = encode(_header_fields(parts))
    size = len(header) + len(body)
    return Block(hash=keccak(header), size=size, executed=executed, **parts)


def receipt_bytes(one: Executed) -> bytes:
    """Give the bytes by which a receipt stands in the receipts' trie."""
    return encode_receipt(
        type_=one.transaction.type,
        status=one.status,
        cumulative_gas=one.cumulative_gas,
        logs=one.logs,
        nonce=one.transaction.nonce,
    )


def _header_fields(parts: dict[str, Any]) -> list[Any]:
    fields = [
        parts["parent_hash"],
        EMPTY_UNCLES,
        ZERO_ADDRESS,
        parts["state_root"],
        parts["transactions_root"],
        parts["receipts_root"],
        parts["logs_bloom"],
        0,  # difficulty: after the merge there is none
        parts["height"],
        GAS_LIMIT,
        parts["gas_used"],
        parts["time"],
        parts["extra_data"],
        parts["mix_hash"],
        bytes(8),
    ]
    appended: list[list[Any]] = [[BASE_FEE], [EMPTY_ROOT], [0, 0, bytes(32)], [EMPTY_REQUESTS]]
    for more in appended[: int(parts["fork"])]:
        fields += more
    return fields
