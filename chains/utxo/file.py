"""A block in a file: raw bytes, the same as hex text, or a node's JSON.

Pure. Used by `inspect`; a watcher asks nodes and knows what it asked for.
"""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct

from chains.errors import AnswerRefused
from chains.port import WatchedAddresses
from chains.utxo.block import RawBlock, read_block
from chains.utxo.networks import NETWORKS
from chains.utxo.node_block import read_node_block
from chains.utxo.pays import Telling, transfers_of
from chains.utxo.rules import rules_of
from schemas.caip import AssetName, ChainName
from schemas.facts import TransferSeen
from schemas.values import BlockRef


class BlockPays(Struct, frozen=True, kw_only=True):
    """What a block pays; `ignored` counts the outputs that are no transfer, by reason."""

    block: RawBlock
    transfers: list[TransferSeen]
    ignored: dict[str, int]


def read_file(
    content: bytes,
    chain: ChainName,
    coin: AssetName,
    watched: WatchedAddresses,
    height: int | None,
) -> BlockPays:
    """Read a block in whichever form it is. `height` is needed where the block does not say its own.

    **Raises**: `CatalogueError` for a chain whose blocks we do not read; `AnswerRefused` where it is no
    block of the chain, or stands at another height.
    """
    rules, text = rules_of(chain), content.strip() if content.isascii() else None
    told: int | None
    if text is None:
        block = read_block(content, rules, watched)
        told = block.height
    elif text.startswith(b"{"):
        block, told = read_node_block(text, rules, watched)
    else:
        block = read_block(_of_hex(text), rules, watched)
        told = block.height
    time = datetime.fromtimestamp(block.header.time_s, UTC)
    reference = BlockRef(height=_agreed(told, height), hash=block.header.hash, time=time)
    telling = Telling(
        network=NETWORKS[chain], asset=coin, block=reference, seen_at=time, node="file"
    )
    transfers = transfers_of(block.paid, telling)
    return BlockPays(block=block, transfers=transfers, ignored=dict(telling.ignored))


def _of_hex(text: bytes) -> bytes:
    try:
        return bytes.fromhex(text.decode("ascii"))
    except ValueError:
        message = "expected a raw block, its hex, or a node's JSON of it"
        raise AnswerRefused(message) from None


def _agreed(told: int | None, given: int | None) -> int:
    if told is None:
        if given is None:
            message = "the block does not say how high it stands, and its height was not given"
            raise AnswerRefused(message)
        return given
    if given not in {None, told}:
        message = f"the block stands at height {told}, not at {given}"
        raise AnswerRefused(message)
    return told
