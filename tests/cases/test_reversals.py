"""Who took away what had confirmed an order: the chain, or a person. The shop is told which."""

from __future__ import annotations

from datetime import timedelta

import pytest

from schemas.codes import Attention, Phase
from schemas.commands import AcceptShort, Assign, Hold, Part, Reject, Release, Revive, Split, Undo
from tests.parts.stories import outcome
from tests.parts.world import ETHEREUM, World
from tests.properties.services.test_recordings import recorded, replayed

DUE = 25_000_000
CHAIN = "no longer on the chain"
PERSON = "a person's decision took away what confirmed the order; the chain took nothing back"
BOTH = "a person's decision and the chain took away what confirmed the order"


async def confirmed(world: World, *amounts: int) -> list[str]:
    """An order confirmed by these, a second order beside it; gives the transfers' names."""
    to = await world.place("o-1")
    await world.place("o-2")
    paid = [world.ethereum.seen(to, amount) for amount in amounts or (DUE,)]
    await world.mine(3, *paid)
    assert (await world.last("o-1")).phase is Phase.CONFIRMED
    return [fact.transfer for fact in paid]


async def told(world: World) -> tuple[str, str]:
    """The last reason that the shop was given, and the sentence of the exception."""
    event = await world.last("o-1")
    assert event.phase is Phase.REVERSED
    return event.reason, (await world.open_exceptions())["reversed"].sentence


async def take_back(world: World) -> None:
    await world.facts(*(world.ethereum.retraction() for _ in range(3)))
    await world.pass_time(timedelta(minutes=15))


async def test_what_the_chain_took_back_is_told_as_the_chains(world: World) -> None:
    await confirmed(world)
    await take_back(world)
    reason, sentence = await told(world)
    assert reason.endswith(CHAIN)
    assert sentence == "A payment that had been confirmed was taken away. The chain took it back."


@pytest.mark.parametrize(
    "action",
    [
        lambda name: Assign(transfer=name, reference="o-2"),
        lambda name: Reject(transfer=name),
        lambda name: Split(
            transfer=name,
            parts=(
                Part(reference="o-1", amount="1000000"),
                Part(reference="o-2", amount="24000000"),
            ),
        ),
    ],
    ids=["assigned to another order", "rejected", "split"],
)
async def test_what_a_person_took_is_told_as_a_persons(world: World, action) -> None:
    (name,) = await confirmed(world)
    await world.decide(action(name))
    reason, sentence = await told(world)
    assert reason == PERSON
    assert "A person's decision took it away" in sentence
    await world.mine(3)
    assert (await world.last("o-1")).reason in {PERSON, f"final sum 1000000 is short of {DUE}"}
    assert (await world.open_exceptions())["reversed"].sentence == sentence, "also later"


async def test_a_persons_word_taken_back_is_told_as_a_persons(world: World) -> None:
    to = await world.place("o-1")
    await world.mine(3, world.ethereum.seen(to, 10_000_000))
    key = await world.decide(AcceptShort(reference="o-1"))
    await world.decide(Undo(decision=key))
    assert (await told(world))[0] == PERSON


async def test_a_revival_taken_back_is_told_as_a_persons(world: World) -> None:
    to = await world.place("o-1")
    await world.pass_time(timedelta(minutes=65))
    await world.mine(3, world.ethereum.seen(to, DUE))
    key = await world.decide(Revive(reference="o-1"))
    await world.decide(Undo(decision=key))
    assert (await told(world))[0] == PERSON


async def test_half_taken_by_a_person_and_half_by_the_chain_is_told_as_both(world: World) -> None:
    first, _ = await confirmed(world, 15_000_000, 15_000_000)
    await world.decide(Hold(subject=ETHEREUM))
    await world.decide(Assign(transfer=first, reference="o-2"))
    await take_back(world)
    assert (await world.last("o-1")).phase is Phase.CONFIRMED, "held"
    await world.decide(Release(subject=ETHEREUM))
    await world.mine(1)
    assert (await told(world))[0] == BOTH


async def test_a_hold_does_not_turn_a_persons_decision_into_the_chains(world: World) -> None:
    (name,) = await confirmed(world)
    await world.decide(Hold(subject=ETHEREUM))
    await world.decide(Assign(transfer=name, reference="o-2"))
    assert Attention.RETRACTED not in (await world.last("o-1")).attention
    await world.decide(Release(subject=ETHEREUM))
    await world.mine(1)
    assert (await told(world))[0] == PERSON


async def test_what_came_back_and_is_then_lost_is_the_chains(world: World) -> None:
    """What a person took and gave back is not remembered against them."""
    (name,) = await confirmed(world)
    key = await world.decide(Assign(transfer=name, reference="o-2"))
    await world.decide(Undo(decision=key))
    assert (await world.last("o-1")).phase is Phase.CONFIRMED
    await take_back(world)
    assert (await told(world))[0].endswith(CHAIN)


async def test_recording_of_a_persons_reversal_tells_it_again_to_the_byte(world: World) -> None:
    (name,) = await confirmed(world)
    key = await world.decide(Assign(transfer=name, reference="o-2"))
    await world.mine(1)
    await world.decide(Undo(decision=key))
    await take_back(world)
    _, again = await replayed(world, await recorded(world))
    assert again == await outcome(world)
