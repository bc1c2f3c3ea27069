"""A transfer as one order sees it."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from schemas.amounts import BaseUnits
from schemas.caip import AssetName, ChainName
from schemas.codes import MatchRule, TransferState
from schemas.values import BlockRef, TransferName


class OrderTransfer(Struct, frozen=True, kw_only=True):
    """One transfer that was given to the order.

    `amount` is the whole movement, `share` the part a person gave to this order (all of it unless
    split). `first_time` is when it was first seen in the mempool, else its first block's time: it
    decides *in time* once, whatever is mined again later. `heard_at` is when it was last announced. `tx_total` is all that its transaction
    pays us in this asset. `retracted_at` is the coverage time at which its block was taken back;
    `was_final` stays true through a retraction. `decided` tells that a person gave it to the order,
    `disposed` that a person sent it back or wrote it off: it can never count again.
    """

    transfer: TransferName
    chain: ChainName
    tx: str
    asset: AssetName
    amount: BaseUnits
    share: BaseUnits
    state: TransferState
    block: BlockRef | None
    first_time: datetime
    tx_total: int
    rule: MatchRule
    reason: str
    heard_at: datetime | None = None
    coinbase: bool = False
    was_final: bool = False
    retracted_at: datetime | None = None
    on_the_line: bool = True
    decided: bool = False
    held: bool = False
    disposed: bool = False

    @property
    def is_final(self) -> bool:
        """Tell whether it is granted finality and still has it."""
        return self.state is TransferState.FINAL
