"""The services and a naive second opinion say the same, in whatever order independent facts come."""

from __future__ import annotations

import dataclasses
import random
from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import select

from reconciler.storage import tables
from schemas.codec import decode_as
from schemas.commands import ClaimPaid
from schemas.events import PaymentException
from tests.parts.scripts import Applied, Script, play
from tests.parts.world import SHARED, START, USDC, World, address
from tests.properties.reference import Agreed, Money, Verdict, judge

FEW = settings(
    max_examples=8,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
DUE = 25_000_000
AMOUNTS = [4_000, 9_999, 10_000, 1_000_000, 12_500_000, 24_874_999, 24_875_000, DUE, DUE + 1]
AMOUNTS += [60_000_000, 2_500_000_000, 2_500_000_001, 2**256 - 1]
ORDERS = 4


class Story:
    """Random payments and claims for four orders: three own addresses and one on a shared one."""

    def __init__(self, seed: int, length: int) -> None:
        self.dice = random.Random(seed)
        self.script = Script()
        self.agreed = {f"o-{n}": Agreed(due=DUE, deadline=60.0) for n in range(1, ORDERS + 1)}
        self.marks: list[tuple[int, float]] = []
        self.strangers: list[Money] = []
        self.named = 0
        self.write(length)

    def write(self, length: int) -> None:
        for number in range(1, ORDERS):
            self.script.place(number)
        self.script.place(ORDERS, route="shared")
        reserved = self.script.reserved(ORDERS)
        self.agreed[f"o-{ORDERS}"] = Agreed(due=reserved, deadline=60.0, exact=True)
        self.set_deadlines()
        for _ in range(length):
            self.chapter()
        for _ in range(3):
            self.mark_after(lambda: self.script.pass_minutes(200))

    def set_deadlines(self) -> None:
        """Each order was placed a millisecond after the one before it."""
        for number in range(1, ORDERS + 1):
            self.agreed[f"o-{number}"].deadline = 60.0 + number / 60_000

    def minute(self, moment) -> float:
        return (moment - START) / timedelta(minutes=1)

    def mark_after(self, act) -> None:
        act()
        chain = self.script.chain
        self.marks.append((chain.height, self.minute(chain.time_at(chain.height))))

    def chapter(self) -> None:
        dice = self.dice.random()
        if dice < 0.25:
            self.claim()
        elif dice < 0.45:
            self.mark_after(lambda: self.script.pass_minutes(self.dice.choice([4, 18, 33])))
        else:
            facts = [self.pay() for _ in range(self.dice.choice([0, 1, 1, 2, 3]))]
            self.mark_after(lambda: self.script.block(*facts))

    def claim(self) -> None:
        reference = f"o-{self.dice.randint(1, ORDERS)}"
        self.named += 1
        self.script.command(ClaimPaid(idempotency_key=f"c-{self.named}", reference=reference))
        self.agreed[reference].claims.append(self.minute(self.script.world.now))

    def pay(self):
        number = self.dice.randint(1, ORDERS)
        chain, script = self.script.chain, self.script
        amount = self.dice.choice(AMOUNTS)
        kind = self.dice.choice(["right"] * 6 + ["wrong_asset"])
        to = address(number)
        if number == ORDERS:
            to, kind = SHARED, "right"
            amount = self.dice.choice([script.reserved(number), amount])
        more = {"asset": USDC} if kind == "wrong_asset" else {}
        fact = chain.seen(to, amount, **more)
        at = self.minute(fact.block.time)
        money = Money(fact.transfer, amount, fact.block.height, at, kind)
        mine = self.agreed[f"o-{number}"]
        if number < ORDERS or amount == mine.due:
            mine.paid.append(money)
        else:
            self.strangers.append(money)
        return fact


def shuffled(steps: list[Applied], dice: random.Random) -> list[Applied]:
    """Another order of what does not depend on each other.

    Facts of one block change places and are told up to three times; a command is applied as late as
    the next word of the inbox allows.
    """
    found: list[Applied] = []
    block: list[Applied] = []
    waiting: list[Applied] = []

    def release() -> None:
        dice.shuffle(block)
        repeated = [step for step in block for _ in range(dice.choice([1, 1, 2, 3]))]
        dice.shuffle(repeated)
        found.extend(repeated)
        block.clear()

    for step in steps:
        if step.record is None:  # `orders` was read up to here
            release()
            found.extend(waiting)
            waiting.clear()
            found.append(step)
        elif step.lane.topic == "orders":
            (waiting if b'"c-' in (step.record.value or b"") else found).append(step)
        elif dict(step.record.headers)["ce_type"] == b"TransferSeen":
            block.append(step)
        else:
            release()
            found.append(step)
    return [*found, *waiting]


async def verdicts(world: World) -> dict[str, Verdict]:
    """What the services say, in the second opinion's words."""
    open_now: dict[str, list[tuple[str, str]]] = {}
    async with world.engine.connect() as connection:
        table = tables.exceptions
        found = [
            decode_as(PaymentException, row.body)
            for row in await connection.execute(select(table.c.body).where(table.c.open))
        ]
    for each in found:
        owner = each.order or ""
        subject = each.transfer or ("order" if each.order else "")
        open_now.setdefault(owner, []).append((each.kind.value, subject))
    said = {}
    for number in range(1, ORDERS + 1):
        reference = f"o-{number}"
        status = (await world.state(reference)).status
        assert status is not None
        said[reference] = Verdict(
            phase=status.phase.value,
            received=int(status.received_final),
            counted=frozenset(status.counted),
            exceptions=frozenset(open_now.get(reference, [])),
        )
    said[""] = Verdict("", 0, frozenset(), frozenset(open_now.get("", [])))
    return said


def expected(story: Story) -> dict[str, Verdict]:
    said = {reference: judge(order, story.marks) for reference, order in story.agreed.items()}
    strangers = frozenset(("unmatched", m.name) for m in story.strangers if m.amount >= 10_000)
    return {**said, "": Verdict("", 0, frozenset(), strangers)}


def compare(said: dict[str, Verdict], story: Story) -> None:
    """Equal but for dust, which is told by the day for all orders together, and stays for a person
    once it was told: a grain that does not count today may complete a sum tomorrow.
    """
    wanted = expected(story)
    uncounted = any(e[0] == "dust" for v in wanted.values() for e in v.exceptions)
    uncounted |= any(m.amount < 10_000 for m in story.strangers)
    told = any(e[0] == "dust" for v in said.values() for e in v.exceptions)
    assert told or not uncounted
    assert _without_dust(said) == _without_dust(wanted)


def _without_dust(verdicts_of: dict[str, Verdict]) -> dict[str, Verdict]:
    return {
        name: dataclasses.replace(
            verdict, exceptions=frozenset(e for e in verdict.exceptions if e[0] != "dust")
        )
        for name, verdict in verdicts_of.items()
    }


async def outcome(steps: list[Applied], *, sweeps: bool) -> dict[str, Verdict]:
    world = await World.open()
    try:
        await play(world, steps, range(0, len(steps), 3), sweeps=sweeps)
        for number in range(1, ORDERS + 1):
            events = await world.events(f"o-{number}")
            assert [e.sequence for e in events] == list(range(1, len(events) + 1))
        return await verdicts(world)
    finally:
        await world.close()


@FEW
@given(seed=st.integers(0, 2**32), length=st.integers(2, 22), sweeps=st.booleans())
async def test_services_end_as_the_second_opinion_says(
    seed: int, length: int, sweeps: bool
) -> None:
    story = Story(seed, length)
    compare(await outcome(story.script.steps, sweeps=sweeps), story)


@FEW
@given(seed=st.integers(0, 2**32), length=st.integers(2, 22), shuffling=st.integers(0, 2**32))
async def test_any_order_of_independent_facts_and_any_repetition_ends_the_same(
    seed: int, length: int, shuffling: int
) -> None:
    story = Story(seed, length)
    steps = shuffled(story.script.steps, random.Random(shuffling))
    offsets: dict[str, int] = {}
    renumbered = [_renumbered(step, offsets) for step in steps]
    compare(await outcome(renumbered, sweeps=True), story)


def _renumbered(step: Applied, offsets: dict[str, int]) -> Applied:
    if step.record is None:
        return step
    offset = offsets.get(step.lane.name, 0)
    offsets[step.lane.name] = offset + 1
    return Applied(step.lane, replace(step.record, offset=offset))
