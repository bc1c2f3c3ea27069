"""Transfers whose block left the chain, until they are mined again or can no longer be.

Pure bookkeeping of the loop: reads blocks of the new branch, gives `TransferDropped` where a block
proves that something else used a transfer's nonce or input. Lost on restart, which delays a verdict
and never changes one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from chains.line import Taken
from schemas.facts import TransferDropped, TransferSeen
from schemas.values import split_transfer_id

#: A chain that loses more than this at once is not followed up transfer by transfer.
LOST_MAX: Final = 10_000


class LostTransfers:
    """What was published per block, and what of it was retracted."""

    def __init__(self, *, kept_blocks: int) -> None:
        self._kept_blocks = kept_blocks
        self._published: dict[int, list[TransferSeen]] = {}
        self._lost: dict[str, TransferSeen] = {}

    def __len__(self) -> int:
        """Count the transfers that are neither mined again nor impossible."""
        return len(self._lost)

    def publish(self, taken: Taken) -> None:
        """Note a block's transfers, and forget blocks that no reorganisation reaches."""
        if taken.transfers:
            self._published[taken.header.height] = list(taken.transfers)
        for height in [
            at for at in self._published if at < taken.header.height - self._kept_blocks
        ]:
            del self._published[height]

    def retract_above(self, height: int) -> None:
        """Note that the blocks above a height left the chain."""
        for gone in sorted(at for at in self._published if at > height):
            for seen in self._published.pop(gone):
                if len(self._lost) < LOST_MAX:
                    self._lost[seen.transfer] = seen

    def settle(self, taken: Taken) -> list[TransferDropped]:
        """Compare with a block of the new branch; give what it made impossible."""
        if not self._lost:
            return []
        for seen in taken.transfers:
            self._lost.pop(seen.transfer, None)
        dropped = [
            fact for seen in self._lost.values() if (fact := _dropped(seen, taken)) is not None
        ]
        for fact in dropped:
            del self._lost[fact.transfer]
        return dropped


def _dropped(seen: TransferSeen, taken: Taken) -> TransferDropped | None:
    for key in _keys(seen):
        user = taken.spent.get(key.lower())
        if user is not None:
            again = user == split_transfer_id(seen.transfer)[1]
            return TransferDropped(
                transfer=seen.transfer,
                chain=seen.chain,
                to=seen.to,
                replaced_by=None if again else user,
                reason="mined again without paying" if again else f"{key} was used by another",
            )
    return None


def _keys(seen: TransferSeen) -> Iterable[str]:
    return [*seen.spends, *([seen.nonce_of] if seen.nonce_of else [])]
