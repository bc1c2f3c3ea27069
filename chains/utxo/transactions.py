"""The transactions of a raw block, walked once. The hot path.

Pure. Reads bytes; gives the id of every transaction, all output scripts, and the outputs that pay a
watched one. Nothing is built for an output that does not concern us, nothing is made by a count before
its bytes were seen, and witnesses are only stepped over: no id and no output depends on them.

Reading beyond the end raises IndexError or struct.error; `chains.utxo.block` makes them refusals.
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct as Layout
from typing import Final

from msgspec import Struct

from chains.errors import AnswerRefused
from chains.port import WatchedAddresses
from chains.utxo.merkle import HASH_BYTES
from chains.utxo.rules import BlockRules
from chains.utxo.sizes import LONG, read_size

VERSION_BYTES: Final = 4
LOCK_TIME_BYTES: Final = 4
AMOUNT_BYTES: Final = 8
SEQUENCE_BYTES: Final = 4
OUTPOINT_BYTES: Final = HASH_BYTES + 4

#: An amount and the first byte of the script's length.
_OUTPUT: Final = Layout("<QB")
_OUTPUT_HEAD: Final = AMOUNT_BYTES + 1
_WITNESS: Final = 0x01
_MWEB: Final = 0x08
#: One input, which spends nothing.
_MAKES_COINS: Final = b"\x01" + bytes(HASH_BYTES) + b"\xff\xff\xff\xff"
#: OP_8 and 32 bytes: where Litecoin's extension block is named. Nobody's address.
#: **Source**: Litecoin Core script/script.cpp, IsMWEBHogAddr.
_HOG_ADDRESS: Final = b"\x58\x20"
_HOG_ADDRESS_BYTES: Final = 34


class Hit(Struct, gc=False):
    """One output to a watched script. `place` is its transaction's. **Units**: `amount` in satoshi."""

    place: int
    index: int
    script: bytes
    amount: int


class Walked(Struct):
    """What one walk found. Ids are in the order of the bytes on the wire; `inputs_at` is where each
    transaction's inputs begin, `end` the byte behind the last one.

    `extended` says that the last transaction is marked as the one behind which an extension block stands.
    """

    txids: list[bytes]
    inputs_at: list[int]
    hits: list[Hit]
    scripts: set[bytes]
    outputs: int = 0
    amount: int = 0
    end: int = 0
    extended: bool = False


def walk(data: bytes, at: int, count: int, rules: BlockRules, watched: WatchedAddresses) -> Walked:
    """Walk `count` transactions that begin at a place.

    **Raises**: `AnswerRefused` for what no valid block of the chain holds; IndexError or struct.error
    where the bytes end too early.
    """
    found = Walked(txids=[], inputs_at=[], hits=[], scripts=set())
    for place in range(count):
        at = _walk_one(data, at, place, rules, watched, found)
        if found.extended and place + 1 < count:
            message = f"transaction {place} is marked as the last one of {count}"
            raise AnswerRefused(message)
    _require_coinbase(data, found)
    found.end = at
    return found


def _walk_one(
    data: bytes,
    start: int,
    place: int,
    rules: BlockRules,
    watched: WatchedAddresses,
    found: Walked,
) -> int:
    inputs_at, flags = start + VERSION_BYTES, 0
    if data[inputs_at] == 0:
        flags = _flags(data, inputs_at, rules)
        inputs_at += 2
    inputs, outputs_at = past_inputs(data, inputs_at)
    stripped_end = _walk_outputs(data, outputs_at, place, rules, watched, found)
    at = _past_marked(data, stripped_end, inputs, flags) if flags else stripped_end
    end = at + LOCK_TIME_BYTES
    if flags:
        stripped = data[start : start + VERSION_BYTES] + data[inputs_at:stripped_end] + data[at:end]
        if flags & _MWEB:
            _require_hog_address(data, outputs_at)
            found.extended = True
    else:
        stripped = data[start:end]
    found.txids.append(sha256(sha256(stripped).digest()).digest())
    found.inputs_at.append(inputs_at)
    return end


def _flags(data: bytes, marker_at: int, rules: BlockRules) -> int:
    """Give what is marked to stand in a transaction beside inputs and outputs (BIP 144).

    **Source**: Bitcoin Core and Litecoin Core (1014fad) primitives/transaction.h.
    """
    flags = data[marker_at + 1]
    allowed = (_WITNESS if rules.segwit else 0) | (_MWEB if rules.mweb else 0)
    if flags == 0 or flags & ~allowed:
        message = f"byte {marker_at} begins no inputs; flags {flags:#04x} are none of {rules.coin}"
        raise AnswerRefused(message)
    return flags


def past_inputs(data: bytes, at: int) -> tuple[int, int]:
    """Give how many inputs begin at a place, and the place behind them."""
    count = data[at]
    at += 1
    if count >= LONG:
        count, at = read_size(data, at - 1)
    for _ in range(count):
        at += OUTPOINT_BYTES
        length = data[at]
        if length < LONG:
            at += 1 + SEQUENCE_BYTES + length
        else:
            length, at = read_size(data, at)
            at += SEQUENCE_BYTES + length
    if not count:
        message = f"expected a transaction's inputs at byte {at}, found none"
        raise AnswerRefused(message)
    return count, at


def _walk_outputs(
    data: bytes,
    at: int,
    place: int,
    rules: BlockRules,
    watched: WatchedAddresses,
    found: Walked,
) -> int:
    count = data[at]
    at += 1
    if count >= LONG:
        count, at = read_size(data, at - 1)
    read, scripts, hits, total = _OUTPUT.unpack_from, found.scripts, found.hits, 0
    for index in range(count):
        amount, length = read(data, at)
        at += _OUTPUT_HEAD
        if length >= LONG:
            length, at = read_size(data, at - 1)
        script = data[at : at + length]
        at += length
        total += amount
        scripts.add(script)
        if script in watched:
            hits.append(Hit(place, index, script, amount))
    if not count or total > rules.money_max:
        message = f"transaction {place} pays {total} to {count} outputs"
        raise AnswerRefused(message)
    found.outputs += count
    found.amount += total
    return at


def _past_marked(data: bytes, at: int, inputs: int, flags: int) -> int:
    """Step over witnesses and over the place of Litecoin's extension data, which a block leaves empty."""
    if flags & _WITNESS:
        at = past_witnesses(data, at, inputs)
    if flags & _MWEB:
        if data[at]:
            message = f"expected no extension data inside a transaction, found some at byte {at}"
            raise AnswerRefused(message)
        at += 1
    return at


def past_witnesses(data: bytes, at: int, inputs: int) -> int:
    """Give the place behind the witnesses of so many inputs; one of them at least has some."""
    begun = at
    for _ in range(inputs):
        at = _past_stack(data, at)
    if at - begun == inputs:
        message = f"expected witnesses at byte {begun}, found none"
        raise AnswerRefused(message)
    return at


def _past_stack(data: bytes, at: int) -> int:
    items = data[at]
    at += 1
    if items >= LONG:
        items, at = read_size(data, at - 1)
    for _ in range(items):
        length = data[at]
        if length < LONG:
            at += 1 + length
        else:
            length, at = read_size(data, at)
            at += length
    return at


def _require_hog_address(data: bytes, outputs_at: int) -> None:
    """Refuse the mark on any other transaction: no hash covers it, so whoever gave the bytes set it."""
    _, script_at = read_size(data, outputs_at)
    length, script_at = read_size(data, script_at + AMOUNT_BYTES)
    if length != _HOG_ADDRESS_BYTES or data[script_at : script_at + 2] != _HOG_ADDRESS:
        message = "a transaction is marked as HogEx and names no extension block"
        raise AnswerRefused(message)


def _require_coinbase(data: bytes, found: Walked) -> None:
    """Require that the first transaction, and it alone, makes coins.

    This also tells a list of transactions from a row of the merkle tree above it or below it: 64 bytes
    may be read as a transaction and as two hashes, but not those of a coinbase, of which 36 are given.
    So an honest transaction of 64 bytes, which a miner may put into a block, stops nobody.
    **Source**: Bitcoin Core validation.cpp, IsBlockMutated; BIP 54.
    """
    for place, at in enumerate(found.inputs_at):
        makes = data.startswith(_MAKES_COINS, at)
        if makes != (place == 0):
            message = f"transaction {place} {'makes' if makes else 'should make'} coins"
            raise AnswerRefused(message)
