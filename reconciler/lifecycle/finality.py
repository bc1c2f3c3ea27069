"""When is a transfer final: which tier, which depth, and is it reached."""

from __future__ import annotations

from reconciler.model.order import Terms
from reconciler.model.policy import FinalityTier, RoutePolicy
from reconciler.model.status import Moment
from reconciler.model.transfer import OrderTransfer
from schemas.codes import TransferState


def tier_for(policy: RoutePolicy, amount: int) -> FinalityTier:
    """Choose the tier by the largest amount at stake, so that splitting does not lower it."""
    for tier in policy.tiers:
        if tier.up_to is None or amount <= tier.up_to:
            return tier
    return policy.tiers[-1]


def tier_of_transfer(terms: Terms, transfer: OrderTransfer, order_sum: int) -> FinalityTier:
    """Give the tier of one transfer: the largest of due, received, and all that its tx pays us.

    Another asset has another scale, so its amount says nothing here: the strictest tier.
    """
    if transfer.asset != terms.asset:
        return terms.policy.tiers[-1]
    return tier_for(terms.policy, max(terms.due, order_sum, transfer.tx_total))


def depth_required(tier: FinalityTier, transfer: OrderTransfer, policy: RoutePolicy) -> int | None:
    """Give the depth that the tier asks for; None where the chain itself decides.

    Coinbase outputs can be spent from their 101st confirmation.
    Source: Bitcoin Core, consensus/consensus.h, COINBASE_MATURITY = 100.
    """
    if not transfer.coinbase:
        return tier.depth
    return max(tier.depth or 0, policy.coinbase_depth)


def depth_of(transfer: OrderTransfer, covered_height: int | None) -> int:
    """Count blocks from the transfer's own to the covered one; 0 while it is in none of them."""
    if transfer.block is None or covered_height is None:
        return 0
    return max(0, covered_height - transfer.block.height + 1)


def is_reached(
    tier: FinalityTier, transfer: OrderTransfer, policy: RoutePolicy, moment: Moment
) -> bool:
    """Tell whether coverage is deep enough above an included transfer."""
    if transfer.block is None or transfer.state is not TransferState.INCLUDED:
        return False
    if not transfer.on_the_line or transfer.held:
        return False
    depth = depth_of(transfer, moment.height)
    if depth == 0:
        return False
    required = depth_required(tier, transfer, policy)
    if required is not None and depth < required:
        return False
    return tier.depth is not None or moment.finalized_height >= transfer.block.height
