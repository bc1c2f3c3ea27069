"""The transactions of recent blocks by name, for nodes that keep no index of transactions.

Pure memory: 32 bytes a transaction and nothing else, searched from the newest block back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from chains.utxo.merkle import HASH_BYTES

#: A day of Bitcoin: about 20 MB at 4,000 transactions a block.
BLOCKS_MAX: Final = 150


class MinedLately:
    """Which block holds a transaction, among those that were read lately, of any branch."""

    def __init__(self, blocks_max: int = BLOCKS_MAX) -> None:
        self._blocks: OrderedDict[str, bytes] = OrderedDict()
        self._blocks_max = blocks_max

    def add(self, block_hash: str, txids: Sequence[bytes]) -> None:
        """Keep a block's transactions, as bytes on the wire."""
        self._blocks[block_hash] = b"".join(txids)
        self._blocks.move_to_end(block_hash)
        while len(self._blocks) > self._blocks_max:
            self._blocks.popitem(last=False)

    def blocks_of(self, txid: str) -> list[str]:
        """Name the blocks that hold a transaction, newest first: two branches may both have it."""
        wanted = bytes.fromhex(txid)[::-1]
        return [name for name, ids in reversed(self._blocks.items()) if _holds(ids, wanted)]


def _holds(ids: bytes, wanted: bytes) -> bool:
    at = ids.find(wanted)
    while at >= 0 and at % HASH_BYTES:
        at = ids.find(wanted, at + 1)
    return at >= 0
