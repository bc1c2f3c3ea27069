"""How a named transaction ends, whatever was known when it was looked up."""

from __future__ import annotations

import pytest

from reconciler.services.claims import request_id
from schemas.codes import ClaimEnd
from schemas.commands import ClaimPaid, PlaceOrder
from schemas.facts import LookedUpState, TransactionLookedUp
from tests.parts.world import ETHEREUM, World, address


def place(number: int) -> PlaceOrder:
    return PlaceOrder(
        idempotency_key=f"place-{number}",
        reference=f"o-{number}",
        route="own",
        amount="25000000",
        address=address(number),
    )


@pytest.mark.parametrize(
    ("claimant", "end"), [("o-1", ClaimEnd.USED), ("o-2", ClaimEnd.ALREADY_USED)]
)
async def test_transaction_looked_up_before_its_address_was_watched(claimant: str, end: ClaimEnd):
    """The watcher answers "pays nothing of ours", and finds the payment when it scans back."""
    world = await World.open()
    await world.commands(place(1), place(2))
    seen = world.ethereum.seen(address(1), 25_000_000)
    tx = seen.transfer.split("/")[1]
    claim = ClaimPaid(idempotency_key="claim", reference=claimant, transaction=tx)
    await world.commands(claim)
    answer = TransactionLookedUp(
        request=request_id(claimant, "claim", ETHEREUM),
        chain=ETHEREUM,
        tx=tx,
        state=LookedUpState.INCLUDED,
        block=seen.block,
    )
    await world.mine(1, answer)
    state = await world.state(claimant)
    assert [claim.end for claim in state.claims] == [ClaimEnd.PAYS_NOTHING]
    await world.facts(seen)
    state = await world.state(claimant)
    assert [claim.end for claim in state.claims] == [end]
    assert ("claim_already_used" in await world.open_exceptions()) == (claimant == "o-2")
    await world.close()
