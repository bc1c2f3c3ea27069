"""A raw block, whole or refused.

Pure. Reads the bytes as a node gives them (`getblock <hash> 0`) and what is watched; gives what the
block pays to watched scripts. Before anything is given, the header's work was checked, all transactions
were walked to the last byte and hash to the header's root. Asks no node and keeps nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from chains.errors import AnswerRefused
from chains.port import WatchedAddresses
from chains.utxo import auxpow, mweb
from chains.utxo.header import HEADER_BYTES, RawHeader, read_header, require_work
from chains.utxo.height import height_in_coinbase
from chains.utxo.merkle import merkle_root, shown
from chains.utxo.rules import BlockRules
from chains.utxo.sizes import read_size
from chains.utxo.spent import SpentOutpoints, outpoints_at, spends_max
from chains.utxo.transactions import Walked, past_inputs, walk

#: What a node's own reader takes at most. **Source**: Bitcoin Core serialize.h, MAX_SIZE.
BLOCK_BYTES_MAX: Final = 0x0200_0000


class Paid(Struct, frozen=True, kw_only=True):
    """One output to a watched script. Its position in a transfer's name is `out:<index>`.

    `spends` are the outpoints (`<txid>:<n>`) of its transaction, none of a coinbase; of many only the
    first (`spends_max`). **Units**: `amount` in satoshi.
    """

    txid: str
    index: int
    script: bytes
    amount: int
    coinbase: bool
    spends: tuple[str, ...]


class RawBlock(Struct, frozen=True, kw_only=True):
    """What one block holds, as far as it concerns us.

    `txids` are bytes on the wire, in the block's order. `outputs` and `amount` count and add up all
    outputs, watched or not. `scripts` holds every output script, `spent` every outpoint that the block
    spends, with the transaction that did. `extension_bytes` counts what stands behind the transactions.
    `height` is what the coinbase says, None where the chain did not yet demand that it does.
    """

    header: RawHeader
    txids: list[bytes]
    paid: list[Paid]
    outputs: int
    amount: int
    scripts: frozenset[bytes]
    spent: Mapping[str, str]
    extension_bytes: int
    height: int | None


def read_block(
    data: bytes, rules: BlockRules, watched: WatchedAddresses, *, extended: bool = True
) -> RawBlock:
    """Read a block to its last byte.

    `extended` is False for bytes that were made of a node's JSON, which has no extension block.

    **Raises**: `AnswerRefused` where it is no valid block of the chain, as far as one block can show:
    too short or too long, without its work, another merkle root, amounts that cannot be.
    """
    if len(data) > BLOCK_BYTES_MAX:
        message = f"expected a block of at most {BLOCK_BYTES_MAX} bytes, found {len(data)}"
        raise AnswerRefused(message)
    header = read_header(data)
    try:
        found = _walked(data, header, rules, watched)
        follows = found.extended and extended
        end = mweb.past_extension(data, found.end) if follows else found.end
    except (IndexError, struct.error):
        raise _cut_off(header, data) from None
    if end > len(data):
        raise _cut_off(header, data)
    if end < len(data):
        message = f"block {header.hash} ends at byte {end}, {len(data) - end} bytes follow"
        raise AnswerRefused(message)
    if merkle_root(found.txids) != header.merkle_root:
        message = f"the transactions of block {header.hash} do not hash to its root"
        raise AnswerRefused(message)
    return _told(data, header, found, rules)


def _walked(data: bytes, header: RawHeader, rules: BlockRules, watched: WatchedAddresses) -> Walked:
    count, at = read_size(data, _past_work(data, header, rules))
    if not count:
        message = f"block {header.hash} has no transactions"
        raise AnswerRefused(message)
    return walk(data, at, count, rules, watched)


def _cut_off(header: RawHeader, data: bytes) -> AnswerRefused:
    return AnswerRefused(f"block {header.hash} is cut off after {len(data)} bytes")


def _past_work(data: bytes, header: RawHeader, rules: BlockRules) -> int:
    """Check the work, the block's own or its parent's; give the place behind it."""
    if rules.auxpow_chain_id is not None:
        auxpow.require_chain_id(header, rules)
        if auxpow.is_merged(header):
            return auxpow.past_merged_work(data, HEADER_BYTES, header, rules)
    require_work(data[:HEADER_BYTES], header.bits, rules)
    return HEADER_BYTES


def _named_spends(data: bytes, inputs_at: int) -> tuple[str, ...]:
    _, outputs_at = past_inputs(data, inputs_at)
    outputs, _ = read_size(data, outputs_at)
    return tuple(outpoints_at(data, inputs_at, at_most=spends_max(outputs)))


def _told(data: bytes, header: RawHeader, found: Walked, rules: BlockRules) -> RawBlock:
    spends: dict[int, tuple[str, ...]] = {0: ()}
    paid = []
    for hit in found.hits:
        if hit.place not in spends:
            spends[hit.place] = _named_spends(data, found.inputs_at[hit.place])
        paid.append(
            Paid(
                txid=shown(found.txids[hit.place]),
                index=hit.index,
                script=hit.script,
                amount=hit.amount,
                coinbase=hit.place == 0,
                spends=spends[hit.place],
            )
        )
    return RawBlock(
        header=header,
        txids=found.txids,
        paid=paid,
        outputs=found.outputs,
        amount=found.amount,
        scripts=frozenset(found.scripts),
        spent=SpentOutpoints(data, found.inputs_at, found.txids),
        extension_bytes=len(data) - found.end,
        height=height_in_coinbase(data, found.inputs_at[0], header.version, rules),
    )
