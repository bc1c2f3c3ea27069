"""One transaction by itself, as the mempool gives it.

Pure. Reads its bytes as far as its id covers them; gives that id, what it pays and what it spends. What
stands between the outputs and the last four bytes (witnesses, Litecoin's extension data) is not looked
at: no id covers it, and whoever asked compares the id.
"""

from __future__ import annotations

import struct

from msgspec import Struct

from chains.errors import AnswerRefused
from chains.utxo.block import Paid
from chains.utxo.merkle import double_sha256, shown
from chains.utxo.rules import BlockRules
from chains.utxo.sizes import read_size
from chains.utxo.spent import outpoints_at, spends_max
from chains.utxo.transactions import (
    AMOUNT_BYTES,
    LOCK_TIME_BYTES,
    VERSION_BYTES,
    past_inputs,
)

#: No transaction is larger than a block. **Source**: Bitcoin Core consensus.h, MAX_BLOCK_WEIGHT.
TRANSACTION_BYTES_MAX = 4_000_000


class LooseTransaction(Struct, frozen=True, kw_only=True):
    """One transaction. `pays` has every output, `spends` every outpoint (`<txid>:<n>`)."""

    txid: str
    pays: list[Paid]
    spends: list[str]


def read_loose(data: bytes, rules: BlockRules) -> LooseTransaction:
    """Read a transaction. **Raises**: `AnswerRefused` where it is none of the chain.

    A transaction that lives in Litecoin's extension block alone is refused as well: it has no inputs.
    """
    if len(data) > TRANSACTION_BYTES_MAX:
        message = f"expected a transaction of at most {TRANSACTION_BYTES_MAX} bytes"
        raise AnswerRefused(message)
    try:
        return _read(data, rules)
    except (IndexError, struct.error):
        message = f"a transaction is cut off after {len(data)} bytes"
        raise AnswerRefused(message) from None


def _read(data: bytes, rules: BlockRules) -> LooseTransaction:
    inputs_at = VERSION_BYTES
    if data[inputs_at] == 0:
        inputs_at += 2
    _, outputs_at = past_inputs(data, inputs_at)
    outputs, end = _outputs(data, outputs_at, rules)
    lock_time = data[max(end, len(data) - LOCK_TIME_BYTES) :]
    if len(lock_time) != LOCK_TIME_BYTES:
        message = f"a transaction is cut off after {len(data)} bytes"
        raise AnswerRefused(message)
    txid = shown(double_sha256(data[:VERSION_BYTES] + data[inputs_at:end] + lock_time))
    spends = outpoints_at(data, inputs_at)
    first = tuple(spends[: spends_max(len(outputs))])
    pays = [
        Paid(txid=txid, index=index, script=script, amount=amount, coinbase=False, spends=first)
        for index, (amount, script) in enumerate(outputs)
    ]
    return LooseTransaction(txid=txid, pays=pays, spends=spends)


def _outputs(data: bytes, at: int, rules: BlockRules) -> tuple[list[tuple[int, bytes]], int]:
    count, at = read_size(data, at)
    found: list[tuple[int, bytes]] = []
    for _ in range(count):
        amount = int.from_bytes(data[at : at + AMOUNT_BYTES], "little")
        length, at = read_size(data, at + AMOUNT_BYTES)
        found.append((amount, data[at : at + length]))
        at += length
    total = sum(amount for amount, _ in found)
    if not count or total > rules.money_max:
        message = f"a transaction pays {total} to {count} outputs"
        raise AnswerRefused(message)
    return found, at
