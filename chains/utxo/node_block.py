"""A node's JSON of a block (`getblock <hash> 2`), made into the raw bytes that it stands for.

Pure. Nothing in it is believed: header and transactions are written as they are on the wire, amounts
turn from decimal text into satoshi without a float, and the one reader of raw blocks reads the result.
So ids are hashed here, the root and the work are checked, and whatever the JSON says beside it must
agree. Bytes of witnesses and of the extension block are not needed, for no id covers them.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from chains.answers import decode
from chains.errors import AnswerRefused
from chains.port import WatchedAddresses
from chains.utxo.block import RawBlock, read_block
from chains.utxo.merkle import HASH_BYTES, shown
from chains.utxo.rules import BlockRules
from chains.utxo.sizes import write_size
from chains.utxo.told_header import (
    ToldHeader,
    Version,
    Word,
    bytes_of,
    digest_of,
    header_bytes,
    signed_version,
)

_DECIMALS: Final = 8
#: A number as JSON writes one. Go's nodes write small amounts with an exponent. **Units**: at most 20
#: digits on either side hold every amount there is.
_NUMBER: Final = re.compile(r"(0|[1-9][0-9]{0,19})(?:\.([0-9]{1,20}))?(?:[eE]([+-]?[0-9]{1,2}))?")
_INDEX_OF_COINBASE: Final = 0xFFFF_FFFF


class _Script(Struct):
    hex: str


class _Output(Struct):
    value: Raw
    script: _Script = field(name="scriptPubKey")


class _Input(Struct):
    txid: str | None = None
    vout: Word | None = None
    script: _Script | None = field(default=None, name="scriptSig")
    coinbase: str | None = None
    sequence: Word = 0xFFFF_FFFF


class _Transaction(Struct):
    txid: str
    version: Version
    locktime: Word
    vin: list[_Input]
    vout: list[_Output]
    hex: str | None = None


class _Hexed(Struct):
    hex: str


class _MergedWork(Struct):
    tx: _Hexed
    index: Word
    chain_index: Word = field(name="chainindex")
    branch: list[str] = field(name="merklebranch")
    chain_branch: list[str] = field(name="chainmerklebranch")
    parent: str = field(name="parentblock")


class NodeBlock(ToldHeader, kw_only=True):
    """The fields that are read. `tx` holds ids alone below verbosity 2."""

    tx: list[str | _Transaction]
    auxpow: _MergedWork | None = None


def read_node_block(
    content: bytes, rules: BlockRules, watched: WatchedAddresses
) -> tuple[RawBlock, int]:
    """Read a block from a node's JSON; give it, and the height that the node says.

    **Raises**: `AnswerRefused` where the JSON has no transactions (verbosity 1), contradicts itself, or
    where the bytes that it stands for are no block of the chain.
    """
    told = decode(content, NodeBlock)
    found = read_block(raw_of(told, rules), rules, _Everything(), extended=False)
    if found.header.hash != told.hash.lower():
        message = f"the header hashes to {found.header.hash}, the node says {told.hash[:80]}"
        raise AnswerRefused(message)
    if found.height not in {None, told.height}:
        message = f"the coinbase says height {found.height}, the node says {told.height}"
        raise AnswerRefused(message)
    _require_told(told, found, rules)
    paid = [one for one in found.paid if one.script in watched]
    return msgspec.structs.replace(found, paid=paid), told.height


def raw_of(told: NodeBlock, rules: BlockRules) -> bytes:
    """Write a block's bytes, without extension block. **Raises**: `AnswerRefused`."""
    parts = [header_of(told), _count(told.tx)]
    parts += [_bytes_of(one, rules) for one in _full(told)]
    return b"".join(parts)


def header_of(told: NodeBlock) -> bytes:
    """Write a block's header and, where it was merge-mined, the work behind it."""
    header = header_bytes(told)
    work = told.auxpow
    if work is None:
        return header
    return b"".join(
        (
            header,
            bytes_of(work.tx.hex),
            bytes(HASH_BYTES),
            _branch(work.branch),
            work.index.to_bytes(4, "little"),
            _branch(work.chain_branch),
            work.chain_index.to_bytes(4, "little"),
            bytes_of(work.parent),
        )
    )


def satoshi_of(number: bytes, rules: BlockRules) -> int:
    """Give satoshi for a coin amount as JSON writes it.

    **Raises**: `AnswerRefused` for what is no amount of the chain: negative, too large, finer than a
    satoshi.
    """
    match = _NUMBER.fullmatch(number[:80].decode("ascii", "replace"))
    if match is not None:
        whole, fraction, exponent = match[1], match[2] or "", int(match[3] or 0)
        shift = _DECIMALS + exponent - len(fraction)
        up: int = 10 ** max(shift, 0)
        down: int = 10 ** max(-shift, 0)
        units, rest = divmod(int(whole + fraction) * up, down)
        if not rest and units <= rules.money_max:
            return units
    message = f"expected an amount of {rules.coin}, found {number[:80]!r}"
    raise AnswerRefused(message)


class _Everything:
    """Every script there is: what the node says of each output is compared."""

    def __contains__(self, script: object, /) -> bool:
        return True

    def __len__(self) -> int:
        return 0


def _require_told(told: NodeBlock, found: RawBlock, rules: BlockRules) -> None:
    transactions = _full(told)
    if [one.txid.lower() for one in transactions] != [shown(txid) for txid in found.txids]:
        message = (
            f"block {found.header.hash}: its transactions do not hash to the ids that are told"
        )
        raise AnswerRefused(message)
    outputs = [
        (satoshi_of(bytes(output.value), rules), bytes_of(output.script.hex))
        for one in transactions
        for output in one.vout
    ]
    if outputs != [(one.amount, one.script) for one in found.paid]:
        message = f"block {found.header.hash}: its outputs are not those that are told"
        raise AnswerRefused(message)


def _full(told: NodeBlock) -> list[_Transaction]:
    full = [one for one in told.tx if isinstance(one, _Transaction)]
    if len(full) != len(told.tx):
        message = f"block {told.hash[:80]} has ids in place of transactions: ask with verbosity 2"
        raise AnswerRefused(message)
    return full


def _bytes_of(told: _Transaction, rules: BlockRules) -> bytes:
    """Give a transaction's own bytes, or write those that its id covers from what is told of it."""
    if told.hex is not None:
        return bytes_of(told.hex)
    inputs = [_input(one) for one in told.vin]
    outputs = [
        satoshi_of(bytes(one.value), rules).to_bytes(8, "little")
        + _counted(bytes_of(one.script.hex))
        for one in told.vout
    ]
    return b"".join(
        (
            signed_version(told.version).to_bytes(4, "little", signed=True),
            _count(inputs),
            *inputs,
            _count(outputs),
            *outputs,
            told.locktime.to_bytes(4, "little"),
        )
    )


def _input(told: _Input) -> bytes:
    if told.coinbase is not None:
        outpoint, script = bytes(HASH_BYTES), told.coinbase
        index = _INDEX_OF_COINBASE
    elif told.txid is not None and told.vout is not None and told.script is not None:
        outpoint, index, script = digest_of(told.txid), told.vout, told.script.hex
    else:
        message = "an input names neither an output nor a coinbase"
        raise AnswerRefused(message)
    return (
        outpoint
        + index.to_bytes(4, "little")
        + _counted(bytes_of(script))
        + told.sequence.to_bytes(4, "little")
    )


def _count(many: list[bytes] | list[str | _Transaction]) -> bytes:
    return write_size(len(many))


def _counted(data: bytes) -> bytes:
    return write_size(len(data)) + data


def _branch(hashes: list[str]) -> bytes:
    return write_size(len(hashes)) + b"".join(map(digest_of, hashes))
