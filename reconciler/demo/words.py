"""What the demo says to people: messages in, sentences out."""

from __future__ import annotations

import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import Final

from reconciler.demo.book import is_unmined
from reconciler.demo.stage import Money, Stage
from schemas.codes import Attention, Phase, TransferState, sentence
from schemas.events import EventKind, PaymentEvent, PaymentException

#: Text and tone. Tones: plain, quiet, good, busy, warn, bad.
Said = tuple[str, str]

_PHASES: Final[dict[Phase, Said]] = {
    Phase.AWAITING_PAYMENT: ("waiting", "quiet"),
    Phase.CLAIMED: ("says paid, unseen", "busy"),
    Phase.DETECTED: ("seen", "busy"),
    Phase.PARTIALLY_PAID: ("part paid", "busy"),
    Phase.CONFIRMED: ("confirmed", "good"),
    Phase.REVERSED: ("reversed", "bad"),
    Phase.UNDERPAID: ("ended, too little", "warn"),
    Phase.EXPIRED: ("expired", "quiet"),
    Phase.CANCELLED: ("cancelled", "quiet"),
}


def money_of(event: PaymentEvent, stage: Stage) -> Money:
    """Give what an order is paid in."""
    return stage.money(event.asset)


def phase_words(event: PaymentEvent, stage: Stage) -> Said:
    """Say where an order stands, with the depth that its money has by now."""
    text, tone = _PHASES[event.phase]
    if event.phase is not Phase.DETECTED:
        return text, tone
    if is_unmined(event):
        return f"{text}, in no block", tone
    depths = [
        (_depth_now(transfer.block.height, stage, event), transfer.depth_required)
        for transfer in event.transfers
        if transfer.state is TransferState.INCLUDED and transfer.block and transfer.depth_required
    ]
    if not depths:
        return text, tone
    depth, required = min(depths)
    return f"{text}, {min(depth, required or depth)} of {required} blocks", tone


def _depth_now(height: int, stage: Stage, event: PaymentEvent) -> int:
    tip = stage.tips.get(event.chain)
    return max(1, tip.height - height + 1) if tip else 1


def amount_words(event: PaymentEvent, stage: Stage) -> str:
    """Say what came of what was due, final or not: the phase says which."""
    money = money_of(event, stage)
    received = money.words(event.received_final + event.received_pending)
    return f"{received.partition(' ')[0]} of {money.words(event.due)}"


def attention_words(event: PaymentEvent) -> str:
    """Name what needs a person or explains a wait."""
    return ", ".join(code.value.replace("_", " ") for code in event.attention)


def time_left(event: PaymentEvent, now: datetime) -> str:
    """Say how long the customer may still pay."""
    if event.phase in {Phase.CONFIRMED, Phase.EXPIRED, Phase.UNDERPAID, Phase.CANCELLED}:
        return ""
    seconds = int((event.open_until - now).total_seconds())
    if seconds <= 0:
        return "over"
    return f"{seconds // 60}:{seconds % 60:02d}"


def event_line(event: PaymentEvent, before: PaymentEvent | None, stage: Stage) -> Said:
    """Say what an event tells, in one line."""
    money = money_of(event, stage)
    due, final = money.words(event.due), money.words(event.received_final)
    label = stage.chains[event.chain].label
    span = int((event.deadline - event.occurred_at).total_seconds())
    pending = money.words(event.received_pending)
    not_yet = "in no block" if is_unmined(event) else "not final"
    texts: dict[EventKind, Said] = {
        EventKind.AWAITING: (f"placed: {due} on {label}, {_span(span)} to pay", "quiet"),
        EventKind.CLAIMED: ('the customer pressed "I\'ve paid"', "busy"),
        EventKind.DETECTED: (f"seen: {pending}, {not_yet} yet", "busy"),
        EventKind.WITHDRAWN: ("what was seen is gone", "warn"),
        EventKind.PARTIALLY_PAID: (f"{final} is final, {_missing(event, money)} to go", "busy"),
        EventKind.CONFIRMED: (f"confirmed: {final} of {due} is final", "good"),
        EventKind.UNDERPAID: (f"the time to pay is over with {final} of {due}", "warn"),
        EventKind.EXPIRED: ("the time to pay is over and nothing counted came", "quiet"),
        EventKind.LATE: ("money came late: kept, and not counted", "warn"),
        EventKind.ADJUSTED: _adjusted(event, before, stage),
        EventKind.REVERSED: ("reversed: what confirmed it was taken away", "bad"),
        EventKind.CANCELLED: ("cancelled", "quiet"),
    }
    text, tone = texts[event.kind]
    return f"#{event.sequence} {text}", tone


def exception_line(found: PaymentException, stage: Stage) -> Said:
    """Say what needs a person, or no longer does."""
    kind = found.kind.value.replace("_", " ")
    if not found.open:
        return f"settled: {kind}", "quiet"
    amount = ""
    if found.amount is not None and found.asset is not None:
        money = stage.money(found.asset)
        where = stage.chains[money.chain].label
        amount = f" ({money.words(found.amount)} on {where})"
    return f"for a person: {kind}{amount}", "warn"


def command_words() -> str:
    """Say how this very command is called from this folder."""
    called = Path(sys.argv[0])
    if shutil.which(called.name) == str(called):
        return called.name
    return str(called.relative_to(Path.cwd())) if called.is_relative_to(Path.cwd()) else str(called)


def number_words(number: int) -> str:
    """Write the numbers that the demo begins its sentences with."""
    words = {10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen"}
    return words.get(number, str(number))


def _adjusted(event: PaymentEvent, before: PaymentEvent | None, stage: Stage) -> Said:
    known = set(before.attention) if before else set()
    new = [code for code in event.attention if code not in known]
    if new:
        return sentence(new[0]), "warn" if new[0] is not Attention.HELD else "busy"
    if before is not None and before.attention and not event.attention:
        return "all is well again", "good"
    return amount_words(event, stage), "busy"


def _missing(event: PaymentEvent, money: Money) -> str:
    return money.words(event.missing)


def _span(seconds: int) -> str:
    return f"{seconds // 60} minutes" if seconds >= 120 else f"{seconds} seconds"
