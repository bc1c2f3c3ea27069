"""How a story ended, held against how it has to end. Pure: the book in, what is wrong out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from reconciler.demo.book import Book
from reconciler.demo.script import Paid
from reconciler.demo.stage import Stage
from reconciler.demo.stories import Ending, Story
from schemas.events import PaymentEvent
from schemas.values import split_transfer_id

#: The short name of a second order in a sentence.
_SECOND: Final = "_b"


def has_ended(ending: Ending, book: Book) -> bool:
    """Tell whether an order is where its story leads, with all that belongs to it."""
    last = book.last(ending.order)
    return (
        last is not None
        and last.phase is ending.phase
        and _happened(ending.kinds, book.kinds(ending.order))
        and ending.attention <= set(last.attention)
        and ending.exceptions <= book.open_kinds(ending.order)
        and (ending.claim is None or ending.claim in {claim.end for claim in last.claims})
    )


def wrong_with(story: Story, book: Book, stage: Stage) -> Sequence[str]:
    """Say what is not as the story has it; empty when all is right."""
    found: list[str] = []
    for ending in story.endings:
        events = book.events.get(ending.order, [])
        if not events:
            found.append(f"{ending.order}: expected events, found none")
            continue
        found += [f"{ending.order}: {what}" for what in _wrong_events(ending, events)]
        found += [f"{ending.order}: {what}" for what in _wrong_state(ending, book, events, stage)]
    return found


def _wrong_events(ending: Ending, events: Sequence[PaymentEvent]) -> Iterable[str]:
    sequences = [event.sequence for event in events]
    if sequences != list(range(1, len(events) + 1)):
        yield f"expected sequences 1 to {len(events)} without gaps, found {sequences}"
    kinds = [event.kind.value for event in events]
    if not _happened(ending.kinds, kinds):
        yield f"expected {', '.join(ending.kinds)}, found {', '.join(kinds)}"


def _wrong_state(
    ending: Ending, book: Book, events: Sequence[PaymentEvent], stage: Stage
) -> Iterable[str]:
    last = events[-1]
    if last.phase is not ending.phase:
        yield f"expected the phase {ending.phase.value}, found {last.phase.value}"
    if not ending.attention <= set(last.attention):
        yield f"expected attention {_names(ending.attention)}, found {_names(last.attention)}"
    kinds = book.open_kinds(ending.order)
    if kinds != ending.exceptions:
        yield f"expected the exceptions {_names(ending.exceptions)}, found {_names(kinds)}"
    wanted = last.due if ending.counted is None else stage.money(last.asset).units(ending.counted)
    if last.received_final != wanted:
        yield f"expected {wanted} base units to count, found {last.received_final}"
    ends = {claim.end for claim in last.claims}
    if ending.claim is not None and ending.claim not in ends:
        yield f"expected the claim to end as {ending.claim.value}, found {_names(ends)}"


def wrong_with_credits(book: Book, paid: Paid) -> Sequence[str]:
    """Say what was credited twice, or without having been paid, over all orders together."""
    credited: defaultdict[str, int] = defaultdict(int)
    found: list[str] = []
    for order, events in book.events.items():
        last = events[-1]
        counted = [transfer for transfer in last.transfers if transfer.counted]
        for transfer in counted:
            credited[transfer.transfer] += transfer.counted
        sums = last.received_final + last.received_pending
        if sum(transfer.counted for transfer in counted) < sums:
            found.append(f"{order}: {sums} is credited, which its transfers do not add up to")
    for name, amount in credited.items():
        _, tx, _ = split_transfer_id(name)
        sent = paid.by_tx[tx][1] if tx in paid.by_tx else 0
        if amount > sent:
            found.append(f"{name}: {amount} is credited of the {sent} that was sent")
    return found


def told(story: Story, book: Book, stage: Stage) -> str:
    """Say what happened, with the amounts that it happened with."""
    amounts: dict[str, str] = {}
    for number, ending in enumerate(story.endings):
        last = book.last(ending.order)
        if last is None:
            return "nothing is known of it"
        money, suffix = stage.money(last.asset), _SECOND if number else ""
        amounts[f"counted{suffix}"] = money.words(last.received_final)
        amounts[f"due{suffix}"] = money.words(last.due)
        amounts[f"excess{suffix}"] = money.words(last.excess)
    return story.sentence.format(**amounts)


def _happened(wanted: Sequence[str], kinds: Sequence[str]) -> bool:
    """Tell whether these happened in this order, whatever else did."""
    rest = iter(kinds)
    return all(kind in rest for kind in wanted)


def _names(codes: Iterable[str]) -> str:
    return ", ".join(sorted(str(code) for code in codes)) or "none"
