"""Where an order stands, and the moment at which that was judged."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from schemas.amounts import BaseUnits
from schemas.codes import AmountState, Attention, Phase
from schemas.values import Message, TransferName

#: Who took away what had confirmed an order.
ReversedBy = Literal["chain", "person", "both"]


class Moment(Message, frozen=True):
    """What the judge may look at: how far the order's lane was read when a message was applied.

    `verdicts` is true at a watermark and false at any other fact: only a watermark grants finality,
    confirms or ends. `decided_until` is the lesser of coverage time and the time up to which
    `orders` was applied: nothing that either of them could still bring is older than it.
    `recorded_at` is when the log took the message; it becomes the event's time.
    """

    seq: int
    verdicts: bool
    recorded_at: datetime
    height: int | None = None
    finalized_height: int = 0
    coverage_time: datetime | None = None
    decided_until: datetime | None = None


class Due(Message, frozen=True):
    """When the order must be judged again: at the first watermark that passes any of these."""

    time: datetime | None = None
    height: int | None = None
    finalized_height: int | None = None


class Status(Message, frozen=True):
    """The judgement. `previous` of the next one, so it also keeps what must not be forgotten.

    `counted` lists transfers that made up the sums. `settled` is `counted` of final money at an end:
    after an end other money is late. `set_aside` lists what a person had given to it before it was
    cancelled: it counts again only when a person says so again. `confirmed_by` lists what confirmed it.
    `ended_at` is the coverage time of an end, `reversed_at` that of a reversal, `reversed_by` who is
    behind the last one. Sums are of the order's asset.
    """

    phase: Phase
    amount_state: AmountState = AmountState.NONE
    attention: tuple[Attention, ...] = ()
    received_final: BaseUnits = BaseUnits(0)
    received_pending: BaseUnits = BaseUnits(0)
    missing: BaseUnits = BaseUnits(0)
    excess: BaseUnits = BaseUnits(0)
    counted: tuple[TransferName, ...] = ()
    late: tuple[TransferName, ...] = ()
    settled: tuple[TransferName, ...] = ()
    set_aside: tuple[TransferName, ...] = ()
    confirmed_by: tuple[TransferName, ...] = ()
    ended_at: datetime | None = None
    ended_as: Phase | None = None
    reversed_at: datetime | None = None
    reversed_by: ReversedBy = "chain"
    was_confirmed: bool = False
    claims_seen: int = 0
    terms_version: int = 1
    reason: str = ""

    @property
    def has_ended(self) -> bool:
        """Tell whether the order has an outcome that is not `confirmed`."""
        return self.phase in ENDS

    @property
    def is_open(self) -> bool:
        """Tell whether money may still bring it forward by itself."""
        return self.phase in OPEN_PHASES


ENDS = frozenset({Phase.UNDERPAID, Phase.EXPIRED, Phase.CANCELLED})
OPEN_PHASES = frozenset(
    {Phase.AWAITING_PAYMENT, Phase.CLAIMED, Phase.DETECTED, Phase.PARTIALLY_PAID, Phase.REVERSED}
)
