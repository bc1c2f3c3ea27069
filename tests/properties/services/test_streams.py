"""The same stream gives the same events, however it is cut into batches and whoever sweeps when.

Hypothesis prints the seed of a run that fails (`@seed(…)`), which gives it back.
"""

from __future__ import annotations

import random
from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.commands import (
    AcceptShort,
    AmendOrder,
    Assign,
    CancelOrder,
    ClaimPaid,
    Decide,
    Hold,
    Reject,
    Release,
    Revive,
    Undo,
)
from schemas.facts import LookedUpState, TransactionLookedUp, TransferSeen
from tests.parts.scripts import Script, play, told
from tests.parts.world import ETH, ETHEREUM, SHARED, USDC, USDT, World, address

FEW = settings(
    max_examples=6,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
AMOUNTS = [5_000, 9_999, 10_000_000, 15_000_000, 24_990_000, 25_000_000, 60_000_000, 2_600_000_000]


class Author:
    """Writes a random story of a few orders; the same seed writes the same."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.script = Script()
        self.seen: list[TransferSeen] = []
        self.decisions: list[str] = []
        self.number = 0
        self.keys = 0

    def write(self, length: int) -> Script:
        script = self.script
        for number in (1, 2, 3):
            purchase = "p" if number < 3 and self.dice.random() < 0.5 else None
            script.place(number, purchase=purchase)
        for number in (4, 5):
            script.place(number, route="shared")
        script.block()
        for _ in range(length):
            self.dice.choice(self.words())()
        script.reorganise(0)
        script.pass_minutes(400)
        script.blocks(3)
        return script

    def words(self) -> list:
        return [
            self.pay, self.pay, self.pay, self.pay, self.pay_many, self.block, self.block,
            self.some_time, self.some_time, self.reorganisation, self.mine_again, self.drop,
            self.claim, self.claim, self.look_up, self.amend, self.cancel, self.decide, self.decide,
            self.hold, self.mempool, self.repeat, self.long_time,
        ]  # fmt: skip

    def key(self) -> str:
        self.keys += 1
        return f"key-{self.keys}"

    def reference(self) -> str:
        return f"o-{self.dice.randint(1, 5)}"

    def place_to_pay(self) -> tuple[str, int]:
        number = self.dice.randint(1, 5)
        if number >= 4:
            exact = self.script.reserved(number)
            return SHARED, self.dice.choice([exact, exact, exact + 1, 25_000_000])
        return address(number), self.dice.choice(AMOUNTS)

    def sighting(self, **more) -> TransferSeen:
        to, amount = self.place_to_pay()
        asset = self.dice.choice([USDT] * 8 + [USDC, ETH])
        fact = self.script.chain.seen(to, amount, asset=asset, **more)
        self.seen.append(fact)
        return fact

    def pay(self) -> None:
        self.script.block(self.sighting())

    def pay_many(self) -> None:
        first = self.sighting()
        tx = first.transfer.split("/")[1]
        rest = [self.sighting(tx=tx, position=f"log:{n}") for n in (1, 2)]
        self.script.block(first, *rest)

    def mempool(self) -> None:
        self.script.fact(self.sighting(height=None))

    def repeat(self) -> None:
        if self.seen:
            self.script.fact(self.dice.choice(self.seen))

    def block(self) -> None:
        self.script.blocks(self.dice.randint(1, 4))

    def some_time(self) -> None:
        self.script.pass_minutes(self.dice.choice([3, 11, 25]))

    def long_time(self) -> None:
        self.script.pass_minutes(self.dice.choice([62, 130]))

    def reorganisation(self) -> None:
        depth = self.dice.randint(1, 3)
        if self.script.chain.height - depth > 101 and self.is_dense(depth):
            self.script.reorganise(depth)

    def is_dense(self, depth: int) -> bool:
        """Only blocks with a watermark are ever retracted."""
        chain = self.script.chain
        return all(chain.height - n in chain.hashes for n in range(depth + 1))

    def mine_again(self) -> None:
        if not self.seen:
            return
        old = self.dice.choice(self.seen)
        position = self.dice.choice([old.transfer.split("/")[2], "log:7"])
        again = self.script.chain.seen(
            old.to,
            self.dice.choice([int(old.amount)] * 4 + [12_000_000]),
            asset=old.asset,
            tx=old.transfer.split("/")[1],
            position=position,
            first_seen_at=old.first_seen_at,
        )
        self.seen.append(again)
        self.script.block(again)

    def drop(self) -> None:
        if self.seen:
            self.script.fact(self.script.chain.dropped(self.dice.choice(self.seen)))

    def claim(self) -> None:
        named = None
        if self.seen and self.dice.random() < 0.7:
            named = self.dice.choice(self.seen).transfer.split("/")[1]
        self.script.command(
            ClaimPaid(idempotency_key=self.key(), reference=self.reference(), transaction=named)
        )

    def look_up(self) -> None:
        """Answers of look-ups that nobody made are deaf; those of claims are found by their name."""
        if not self.seen:
            return
        fact = self.dice.choice(self.seen)
        self.script.fact(
            TransactionLookedUp(
                request="claim/o-1/0000000000000000/eip155:1",
                chain=ETHEREUM,
                tx=fact.transfer.split("/")[1],
                state=LookedUpState.INCLUDED,
                pays=(fact.transfer,),
            )
        )

    def amend(self) -> None:
        deadline = None
        if self.dice.random() < 0.5:
            deadline = self.script.world.now + timedelta(minutes=self.dice.choice([5, 90]))
        self.script.command(
            AmendOrder(
                idempotency_key=self.key(),
                reference=self.reference(),
                amount=self.dice.choice([None, "10000000", "30000000"]),
                deadline=deadline,
            )
        )

    def cancel(self) -> None:
        self.script.command(
            CancelOrder(
                idempotency_key=self.key(),
                reference=self.reference(),
                reason="no stock",
                force=self.dice.random() < 0.5,
            )
        )

    def decide(self) -> None:
        actions = [AcceptShort(reference=self.reference()), Revive(reference=self.reference())]
        if self.seen:
            name = self.dice.choice(self.seen).transfer
            actions += [
                Assign(transfer=name, reference=self.reference()),
                Reject(transfer=name),
            ]
        if self.decisions:
            actions.append(Undo(decision=self.dice.choice(self.decisions)))
        self.person(self.dice.choice(actions))

    def hold(self) -> None:
        what = self.dice.choice([Hold, Release])
        self.person(what(subject=self.dice.choice(["own", "eip155:1"])))

    def person(self, action) -> None:
        key = self.key()
        self.decisions.append(key)
        self.script.command(
            Decide(idempotency_key=key, actor="ada", reason="because", action=action)
        )


async def outcome(script: Script, cuts: list[int], *, sweeps: bool) -> dict[str, list[bytes]]:
    world = await World.open()
    try:
        await play(world, script.steps, cuts, sweeps=sweeps)
        return await told(world)
    finally:
        await world.close()


def first_difference(one: dict[str, list[bytes]], other: dict[str, list[bytes]]) -> str:
    for key in sorted(one.keys() | other.keys()):
        mine, theirs = one.get(key, []), other.get(key, [])
        for number, (a, b) in enumerate(zip(mine, theirs, strict=False)):
            if a != b:
                return f"{key} #{number}:\n  {a!r}\n  {b!r}"
        if len(mine) != len(theirs):
            longer = max(mine, theirs, key=len)
            return f"{key}: {len(mine)} and {len(theirs)}, then {longer[min(len(mine), len(theirs))]!r}"
    return ""


@FEW
@given(
    seed=st.integers(0, 2**32),
    length=st.integers(4, 25),
    cutting=st.integers(0, 2**32),
    share=st.sampled_from([0.0, 0.1, 0.5]),
    sweeps=st.booleans(),
)
async def test_same_stream_gives_the_same_bytes_wherever_it_is_cut(
    seed: int, length: int, cutting: int, share: float, sweeps: bool
) -> None:
    script = Author(seed).write(length)
    dice = random.Random(cutting)
    everywhere = list(range(len(script.steps)))
    somewhere = [n for n in everywhere if dice.random() < share]
    one_by_one = await outcome(script, everywhere, sweeps=True)
    in_batches = await outcome(script, somewhere, sweeps=sweeps)
    assert one_by_one == in_batches, first_difference(one_by_one, in_batches)
