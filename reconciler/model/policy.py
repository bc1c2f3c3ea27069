"""What a route promises its customers. Frozen into an order's terms when it is placed.

Settings make it (`reconciler.config`), terms carry it, `lifecycle` reads it. Spans are whole
seconds, amounts base units of the route's asset, shares parts per million.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from chains.extended_keys import Derivation
from schemas.amounts import BaseUnits
from schemas.caip import AssetName, ChainName
from schemas.values import Message

#: Above this the shop would sell below price. Source: DESIGN section 7, "Amounts".
TOLERANCE_PPM_MAX = 50_000


class FinalityTier(Message, frozen=True):
    """Up to this amount, this depth; `depth` None is the chain's own notion (`finalized`).

    The last tier has no `up_to`. Depth 1 is the block itself.
    """

    up_to: BaseUnits | None
    depth: int | None


class Tolerance(Message, frozen=True):
    """How much less is enough, and how much more needs no person.

    Less: the smaller of `under_ppm` of the due amount and `under_max`. More: `excess_max`, None for
    "any excess needs a person".
    """

    under_ppm: int = 0
    under_max: BaseUnits | None = None
    excess_max: BaseUnits | None = None


class RoutePolicy(Message, frozen=True):
    """The rules of one route, complete: what is frozen must not need the settings later.

    `dust` and `amount_max` are the asset's, from the catalogue. `clock_slack_s` is the chain's.
    `late_revive_within_s` None means that a person reviews late money.
    `flag_by_address`, `flag_by_reserved_amount`: whether money beyond doubt flags an order that its
    customer forgot to flag; else it waits as `paid_unflagged`.
    `mempool_patience_s`: how long after its last announcement money that is not mined is counted on.
    `second_look_s`: how long an order that is over without money waits for somebody to compare what
    its own address holds; 0 where nobody does.
    """

    decimals: int
    stable: bool
    dust: BaseUnits
    amount_max: BaseUnits
    tiers: tuple[FinalityTier, ...]
    tolerance: Tolerance = Tolerance()
    quote_s: int = 3_600
    claim_extension_s: int = 1_200
    claim_extension_known_s: int = 1_200
    claim_patience_s: int = 1_200
    retracted_patience_s: int = 600
    pending_patience_s: int = 7_200
    mempool_patience_s: int = 1_800
    grace_s: int = 2_592_000
    clock_slack_s: int = 60
    not_watched_after_s: int = 120
    late_revive_within_s: int | None = None
    flag_by_address: bool = True
    flag_by_reserved_amount: bool = True
    second_look_s: int = 0
    claims_max: int = 3
    implausible_times: int = 100
    coinbase_depth: int = 101

    @property
    def quote(self) -> timedelta:
        """How long an order may be paid at its price."""
        return timedelta(seconds=self.quote_s)


class Route(Message, frozen=True):
    """A way to pay that the shop offers.

    `derivation` only in mode `derived`; `first_index` is the least index that it gives out.
    `shared_address` (display form) and `step` only in mode `shared`; `steps_max` is N of
    "due rounded up plus 1…N steps", and all of that is never more than the share `more_ppm` of the due
    amount. `minimum` is the least amount an order may ask for.
    """

    name: str
    chain: ChainName
    asset: AssetName
    mode: Literal["derived", "given", "shared"]
    policy: RoutePolicy
    minimum: BaseUnits
    derivation: Derivation | None = None
    first_index: int = 0
    shared_address: str | None = None
    step: BaseUnits | None = None
    steps_max: int = 999
    more_ppm: int = 10_000
    closed: bool = False
