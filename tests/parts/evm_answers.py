"""Small EVM answers for tests: logs, receipts, transactions, and a reading to parse them with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from chains.catalog import load_catalogue
from chains.evm import words
from chains.evm.listed import listed_on
from chains.evm.parse import Reading
from chains.evm.wire import Log, Receipt, Transaction
from schemas.caip import ChainName
from schemas.values import BlockRef

PAY = "0x1111111111111111111111111111111111111111"
PAYER = "0xaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
ATTACKER = "0xcccccccccccccccccccccccccccccccccccccccc"
NOBODY = f"0x{'0' * 40}"
T0 = words.TRANSFER_TOPIC
USDT = "0xdac17f958d2ee523a2206206994597c13d831ec7"
USDC = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"
BLOCK_HASH = f"0x{'b' * 64}"
TX = f"0x{'e1' * 32}"
BLOCK = BlockRef(height=18_000_000, hash=BLOCK_HASH, time=datetime(2023, 8, 26, tzinfo=UTC))
US = bytes.fromhex(PAY[2:])


def pad(address: str) -> str:
    return f"0x{address[2:]:0>64}"


def word(number: int) -> str:
    return f"0x{number:064x}"


def log(sender: str = PAYER, to: str = PAY, amount: int = 1, **other: Any) -> Log:
    """Make a Transfer log; `other` overrides fields."""
    fields: dict[str, Any] = {
        "address": USDT,
        "topics": [T0, pad(sender), pad(to)],
        "data": word(amount),
        "block_hash": BLOCK_HASH,
        "transaction_hash": TX,
        "log_index": "0x0",
    }
    return Log(**{**fields, **other})


def receipt(*logs: Log, **other: Any) -> Receipt:
    fields: dict[str, Any] = {
        "transaction_hash": TX,
        "block_hash": BLOCK_HASH,
        "cumulative_gas_used": "0x5208",
        "logs": list(logs),
        "status": "0x1",
        "from_": PAYER,
        "to": USDT,
    }
    return Receipt(**{**fields, **other})


def transaction(**other: Any) -> Transaction:
    fields: dict[str, Any] = {"hash": TX, "from_": PAYER, "to": USDT, "nonce": "0x7", "type": "0x2"}
    return Transaction(**{**fields, **other})


def reading(*ours: str, chain: str = "eip155:1", **other: Any) -> Reading:
    return Reading(
        listed=listed_on(ChainName(chain), load_catalogue()),
        watched=frozenset(bytes.fromhex(address[2:]) for address in ours or (PAY,)),
        block=BLOCK,
        seen_at=BLOCK.time,
        node="node.example",
        method="receipts",
        **other,
    )
