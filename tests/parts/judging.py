"""Words for tests of the judge: terms, transfers and moments by the minute, and a story told in steps.

Minutes count from the placement; the deadline is at 60, a claim in time moves the end to 80.
Amounts are whole USDT.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from reconciler.lifecycle import Assessment, OrderFacts, assess, events_between
from reconciler.model.order import Claim, OrderDecisions, Terms
from reconciler.model.policy import RoutePolicy
from reconciler.model.status import Moment, Status
from reconciler.model.transfer import OrderTransfer
from schemas.amounts import BaseUnits
from schemas.caip import AssetName, ChainName
from schemas.codes import Attention, MatchRule, Phase, TransferState
from schemas.values import BlockRef, OrderReference, TransferName
from tests.parts.world import ETHEREUM, START, USDT, address, policy

ONE = 10**6
BLOCKS_A_MINUTE = 5


def usdt(amount: float) -> BaseUnits:
    return BaseUnits(round(amount * ONE))


def minute(number: float) -> datetime:
    return START + timedelta(minutes=number)


def terms(due: float = 25, rules: RoutePolicy | None = None, **changes: object) -> Terms:
    base = Terms(
        version=1,
        reference=OrderReference("o-1"),
        purchase=None,
        route="own",
        mode="given",
        chain=ETHEREUM,
        asset=USDT,
        address=address(1),
        address_key=address(1),
        asked=usdt(due),
        due=usdt(due),
        placed_at=START,
        deadline=minute(60),
        policy=rules or policy(),
        payment_uri="",
        page_token="token",
    )
    return msgspec.structs.replace(base, **changes)


def claim(at: float = 10, *, known: bool = False, tx: str | None = None) -> Claim:
    return Claim(key=f"claim-{at}", claimed_at=minute(at), tx=tx, known=known)


def money(
    amount: float,
    at: float = 10,
    state: TransferState = TransferState.INCLUDED,
    *,
    name: str = "t1",
    chain: ChainName = ETHEREUM,
    asset: AssetName = USDT,
    share: float | None = None,
    tx_total: float | None = None,
    rule: MatchRule = MatchRule.ADDRESS,
    retracted_at: float | None = None,
    heard_at: float | None = None,
    **more: object,
) -> OrderTransfer:
    """A transfer first seen at a minute, in the block of that minute unless in the mempool."""
    block = None
    if state in {TransferState.INCLUDED, TransferState.FINAL, TransferState.RETRACTED}:
        height = 100 + round(at * BLOCKS_A_MINUTE)
        block = BlockRef(height=height, hash=f"0xa{height}", time=minute(at))
    fields: dict[str, object] = {
        "transfer": TransferName(f"{chain}/{name}/log:0"),
        "chain": chain,
        "tx": name,
        "asset": asset,
        "amount": usdt(amount),
        "share": usdt(amount if share is None else share),
        "state": state,
        "block": block,
        "first_time": minute(at),
        "tx_total": int(usdt(amount if tx_total is None else tx_total)),
        "rule": rule,
        "reason": "",
        "was_final": state is TransferState.FINAL,
        "heard_at": None if heard_at is None else minute(heard_at),
        "retracted_at": None if retracted_at is None else minute(retracted_at),
        **more,
    }
    return OrderTransfer(**fields)


def final(amount: float, at: float = 10, **more: object) -> OrderTransfer:
    return money(amount, at, TransferState.FINAL, **more)


def seen(amount: float, at: float = 10, **more: object) -> OrderTransfer:
    return money(amount, at, TransferState.SEEN, **more)


def retracted(amount: float, at: float = 10, since: float = 20, **more: object) -> OrderTransfer:
    return money(amount, at, TransferState.RETRACTED, retracted_at=since, was_final=True, **more)


def given(**changes: object) -> OrderDecisions:
    return OrderDecisions(**changes)


class Step(Struct, kw_only=True):
    """What is known at a minute, and whether it is a watermark."""

    at: float
    transfers: tuple[OrderTransfer, ...] = ()
    claims: tuple[Claim, ...] = ()
    decisions: OrderDecisions = OrderDecisions()
    verdicts: bool = True
    covered: bool = True
    holds: tuple[str, ...] = ()
    noted: frozenset[Attention] = frozenset()
    terms: Terms | None = None
    finalized: int = 0


class Told(Struct):
    """A story's end, and everything the shop heard on the way."""

    last: Assessment | None
    status: Status
    kinds: list[str]


def moment(step: Step, seq: int) -> Moment:
    height = 100 + round(step.at * BLOCKS_A_MINUTE)
    return Moment(
        seq=seq,
        verdicts=step.verdicts,
        recorded_at=minute(step.at),
        height=height,
        finalized_height=step.finalized,
        coverage_time=minute(step.at),
        decided_until=minute(step.at),
    )


def tell(*steps: Step, agreed: Terms | None = None) -> Told:
    """Judge step by step as the services do: at the fact, then at the watermark of the same minute.

    Every change must be one that the table allows.
    """
    story = Told(None, Status(phase=Phase.AWAITING_PAYMENT), [])
    known: Status | None = None
    for number, step in enumerate(steps, start=1):
        for verdicts in sorted({False, step.verdicts}):
            known = _judge(story, step, number, known, agreed or terms(), verdicts=verdicts)
    return story


def _judge(
    story: Told, step: Step, seq: int, known: Status | None, agreed: Terms, *, verdicts: bool
) -> Status:
    facts = OrderFacts(
        terms=step.terms or agreed,
        claims=step.claims,
        transfers=step.transfers,
        decisions=step.decisions,
        covered=step.covered,
        holds=step.holds,
        noted=step.noted,
    )
    now = msgspec.structs.replace(moment(step, seq), verdicts=verdicts)
    last = assess(facts, now, known)
    assert assess(facts, now, known) == last
    changes = events_between(known, last.status, by_decision=last.by_decision)
    story.kinds += [kind.value for kind in changes]
    story.last, story.status = last, last.status
    return last.status
