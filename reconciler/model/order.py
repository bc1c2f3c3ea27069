"""An order: its terms, the customer's claims, and what a person decided about it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from msgspec import Raw

from reconciler.model.policy import RoutePolicy
from schemas.amounts import BaseUnits
from schemas.caip import AssetName, ChainName, Family, family_of
from schemas.codes import ClaimEnd
from schemas.values import NO_LINES, FiatTerms, Message, OrderReference, TransferName


class Terms(Message, frozen=True):
    """What was agreed, frozen at placement; an amendment makes a new version, settings never do.

    `due` is what must come. On a shared address that is the reserved amount, `asked` what the shop
    asked for. `address_key` is canonical, `address` what people see.
    """

    version: int
    reference: OrderReference
    purchase: str | None
    route: str
    mode: Literal["derived", "given", "shared"]
    chain: ChainName
    asset: AssetName
    address: str
    address_key: str
    asked: BaseUnits
    due: BaseUnits
    placed_at: datetime
    deadline: datetime
    policy: RoutePolicy
    payment_uri: str
    page_token: str
    fiat: FiatTerms | None = None
    lines: Raw = NO_LINES

    @property
    def family(self) -> Family:
        """The family on which the address is ours."""
        return family_of(self.chain)

    @property
    def least_enough(self) -> int:
        """The least sum that confirms. The tolerated share is rounded down: never below terms."""
        tolerance = self.policy.tolerance
        if self.mode == "shared":
            return self.due
        share = self.due * tolerance.under_ppm // 1_000_000
        if tolerance.under_max is not None:
            share = min(share, tolerance.under_max)
        return max(1, self.due - share)

    @property
    def implausible_above(self) -> int:
        """The amount above which a single transfer is not believed."""
        return min(self.policy.amount_max, self.due * self.policy.implausible_times)


class Claim(Message, frozen=True):
    """One press of "I've paid", counted by the time at which our log took it.

    `known` tells that a node knew the named transaction while we looked for it.
    """

    key: str
    claimed_at: datetime
    tx: str | None = None
    sender: str | None = None
    known: bool = False
    end: ClaimEnd = ClaimEnd.OPEN


class OrderDecisions(Message, frozen=True):
    """What people decided about the order as a whole. Decisions on transfers live on transfers.

    `accepted` is the final sum that a person accepted as enough, zero for none: if part of it is lost
    again, what is left was never accepted. `taken` lists what had confirmed the order and was given
    elsewhere by a person, as a whole or in part.
    """

    accepted: BaseUnits = BaseUnits(0)
    revived: bool = False
    cancelled: bool = False
    cancel_reason: str = ""
    sibling_confirmed: bool = False
    taken: tuple[TransferName, ...] = ()


def open_until(terms: Terms, claims: tuple[Claim, ...]) -> datetime:
    """Give the end of the *open* span: the quote, extended once by the first claim made in it.

    The extension is longer only for a stable asset or a transaction that a node knows: otherwise
    the button would be a free option on the price and a lock on the stock.
    """
    earned = [claim for claim in claims if claim.claimed_at <= terms.deadline]
    if not earned:
        return terms.deadline
    policy = terms.policy
    longer = policy.stable or any(claim.known for claim in earned)
    span_s = policy.claim_extension_s
    if longer:
        span_s = max(span_s, policy.claim_extension_known_s)
    return terms.deadline + timedelta(seconds=span_s)
