"""Every command, fact and decision in any order, and after each of them what must always be true."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from datetime import timedelta

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import select

from reconciler.storage import tables
from schemas.codes import Phase, TransferState
from schemas.commands import (
    AcceptShort,
    AmendOrder,
    Assign,
    CancelOrder,
    ClaimPaid,
    Hold,
    Part,
    Reject,
    Release,
    Returned,
    Revive,
    Split,
    Undo,
    WriteOff,
)
from schemas.facts import TransferSeen
from tests.parts.world import ETH, SHARED, USDC, USDT, World, address

NUMBERS = st.integers(1, 5)
AMOUNTS = st.sampled_from([1, 9_999, 10_000_000, 15_000_000, 24_990_000, 25_000_000, 2**256 - 1])
ASSETS = st.sampled_from([USDT] * 6 + [USDC, ETH])
WHICH = st.integers(0, 10**6)
VERDICTS = {"confirmed", "expired", "underpaid", "reversed"}
HERE = {TransferState.SEEN, TransferState.INCLUDED, TransferState.FINAL}


class Shop(RuleBasedStateMachine):
    """Three orders with addresses of their own (two for one purchase), two on a shared one."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.world: World = self.do(World.open())
        self.seen: list[TransferSeen] = []
        self.decisions: list[str] = []

    def do(self, awaitable):
        return self.runner.run(awaitable)

    def teardown(self) -> None:
        self.do(self.world.journal())
        self.do(self._check_verdicts())
        self.do(self.world.close())
        self.runner.close()

    @initialize()
    def open_shop(self) -> None:
        for number in (1, 2, 3):
            purchase = "p" if number < 3 else None
            self.do(self.world.place(f"o-{number}", purchase=purchase))
        for number in (4, 5):
            self.do(self.world.place(f"o-{number}", route="shared"))
        self.reserved = {n: int(self.do(self.world.last(f"o-{n}")).due) for n in (4, 5)}
        self.do(self.world.mine(1))

    def pick(self, which: int) -> TransferSeen:
        return self.seen[which % len(self.seen)]

    # Facts

    @rule(number=NUMBERS, amount=AMOUNTS, asset=ASSETS, mined=st.booleans())
    def pay(self, number: int, amount: int, asset: str, mined: bool) -> None:
        to = address(number) if number < 4 else SHARED
        height = -1 if mined else None
        fact = self.world.ethereum.seen(to, amount, asset=asset, height=height)
        self.seen.append(fact)
        self.do(self.world.mine(1, fact) if mined else self.world.facts(fact))

    @rule(number=st.sampled_from([4, 5]))
    def pay_exactly(self, number: int) -> None:
        fact = self.world.ethereum.seen(SHARED, self.reserved[number])
        self.seen.append(fact)
        self.do(self.world.mine(1, fact))

    @precondition(lambda self: self.seen)
    @rule(which=WHICH, amount=st.sampled_from([None, None, 12_000_000]), moved=st.booleans())
    def mine_again(self, which: int, amount: int | None, moved: bool) -> None:
        old = self.pick(which)
        _, tx, position = old.transfer.split("/")
        again = self.world.ethereum.seen(
            old.to,
            int(old.amount) if amount is None else amount,
            asset=old.asset,
            tx=tx,
            position="log:7" if moved else position,
        )
        self.seen.append(again)
        self.do(self.world.mine(1, again))

    @precondition(lambda self: self.seen)
    @rule(which=WHICH)
    def repeat(self, which: int) -> None:
        self.do(self.world.facts(self.pick(which)))

    @precondition(lambda self: self.seen)
    @rule(which=WHICH)
    def drop(self, which: int) -> None:
        self.do(self.world.facts(self.world.ethereum.dropped(self.pick(which))))

    @rule(blocks=st.integers(1, 4))
    def mine(self, blocks: int) -> None:
        self.do(self.world.mine(blocks))

    @rule(minutes=st.sampled_from([3, 11, 25, 62, 130]))
    def wait(self, minutes: int) -> None:
        self.do(self.world.pass_time(timedelta(minutes=minutes)))

    @rule(depth=st.integers(1, 3))
    def reorganise(self, depth: int) -> None:
        chain = self.world.ethereum
        if all(
            chain.height - n in chain.hashes and chain.height - n > 101 for n in range(depth + 1)
        ):
            self.do(self.world.facts(*(chain.retraction() for _ in range(depth))))

    @rule(number=NUMBERS, more=st.sampled_from([0, 0, 1]))
    def balance(self, number: int, more: int) -> None:
        """What an address holds: everything ever told of, which a reorganisation may have taken."""
        to = address(number) if number < 4 else SHARED
        held = sum(int(f.amount) for f in self.seen if f.to == to and f.asset == USDT and f.block)
        chain = self.world.ethereum
        self.do(self.world.facts(chain.balance(to, min(held, 2**255) + more)))
        self.do(self.world.mine(1))

    # Commands

    @rule(number=NUMBERS, which=WHICH, named=st.booleans())
    def claim(self, number: int, which: int, named: bool) -> None:
        tx = self.pick(which).transfer.split("/")[1] if named and self.seen else None
        self.command(
            ClaimPaid(idempotency_key=self.world.key(), reference=f"o-{number}", transaction=tx)
        )

    @rule(number=NUMBERS, amount=st.sampled_from(["10000000", "30000000"]))
    def amend(self, number: int, amount: str) -> None:
        self.command(
            AmendOrder(idempotency_key=self.world.key(), reference=f"o-{number}", amount=amount)
        )

    @rule(number=NUMBERS, minutes=st.sampled_from([5, 90]))
    def more_time(self, number: int, minutes: int) -> None:
        self.command(
            AmendOrder(
                idempotency_key=self.world.key(),
                reference=f"o-{number}",
                deadline=self.world.now + timedelta(minutes=minutes),
            )
        )

    @rule(number=NUMBERS, force=st.booleans())
    def cancel(self, number: int, force: bool) -> None:
        self.command(
            CancelOrder(
                idempotency_key=self.world.key(),
                reference=f"o-{number}",
                reason="no stock",
                force=force,
            )
        )

    def command(self, message: object) -> None:
        self.do(self.world.commands(message))
        self.do(self.world.sweep())

    # Decisions

    def decide(self, action: object) -> None:
        self.decisions.append(self.do(self.world.decide(action)))
        self.do(self.world.sweep())

    @rule(number=NUMBERS, kind=st.sampled_from([AcceptShort, Revive]))
    def about_order(self, number: int, kind: type) -> None:
        self.decide(kind(reference=f"o-{number}"))

    @precondition(lambda self: self.seen)
    @rule(which=WHICH, number=NUMBERS)
    def assign(self, which: int, number: int) -> None:
        self.decide(Assign(transfer=self.pick(which).transfer, reference=f"o-{number}"))

    @precondition(lambda self: self.seen)
    @rule(which=WHICH, first=NUMBERS, second=NUMBERS)
    def split(self, which: int, first: int, second: int) -> None:
        fact = self.pick(which)
        half = int(fact.amount) // 3
        parts = (
            Part(reference=f"o-{first}", amount=str(half)),
            Part(reference=f"o-{second}", amount=str(int(fact.amount) - half)),
        )
        self.decide(Split(transfer=fact.transfer, parts=parts))

    @precondition(lambda self: self.seen)
    @rule(which=WHICH)
    def reject(self, which: int) -> None:
        self.decide(Reject(transfer=self.pick(which).transfer))

    @precondition(lambda self: self.seen)
    @rule(which=WHICH, back=st.booleans())
    def dispose(self, which: int, back: bool) -> None:
        name = self.pick(which).transfer
        self.decide(Returned(transfer=name, tx="0xback") if back else WriteOff(transfer=name))

    @precondition(lambda self: self.decisions)
    @rule(which=WHICH)
    def undo(self, which: int) -> None:
        self.decide(Undo(decision=self.decisions[which % len(self.decisions)]))

    @rule(subject=st.sampled_from(["own", "eip155:1"]), kind=st.sampled_from([Hold, Release]))
    def hold(self, subject: str, kind: type) -> None:
        self.decide(kind(subject=subject))

    # What is always true

    @invariant()
    def events_are_whole(self) -> None:
        self.do(self._check_events())

    @invariant()
    def money_is_accounted_for(self) -> None:
        self.do(self._check_money())

    async def _check_events(self) -> None:
        by_order: dict[str, list] = {}
        for event in await self.world.events():
            by_order.setdefault(event.order, []).append(event)
        for order, events in by_order.items():
            assert [e.sequence for e in events] == list(range(1, len(events) + 1)), order
            last = events[-1]
            finals = [t for t in last.transfers if t.state is TransferState.FINAL]
            pending = [t for t in last.transfers if t.state is not TransferState.FINAL]
            assert last.received_final == sum(t.counted for t in finals)
            assert last.received_pending == sum(t.counted for t in pending)
            assert all(t.counted <= t.amount for t in last.transfers)
            for one, other in itertools.pairwise(events):
                if other.phase is Phase.CONFIRMED and one.phase is Phase.REVERSED:
                    assert other.restores in {e.sequence for e in events}

    async def _check_money(self) -> None:
        """Every unit received is counted, or in an open exception, or a person disposed of it."""
        async with self.world.engine.connect() as connection:
            rows = list(await connection.execute(select(tables.transfers)))
            shares = list(await connection.execute(select(tables.shares)))
            known = list(await connection.execute(select(tables.exceptions)))
        given: Counter[str] = Counter()
        for share in shares:
            given[share.transfer] += int(share.share)
        counted: set[str] = set()
        for number in range(1, 6):
            status = (await self.world.state(f"o-{number}")).status
            counted |= set(status.counted) if status else set()
        told = {row.subject for row in known if row.open or row.settled}
        dust = any(row.kind == "dust" for row in known)
        for row in rows:
            assert given[row.transfer] in {0, int(row.amount)}
            if row.state not in HERE or row.disposed is not None or row.transfer in counted:
                continue
            grain = dust and row.amount < 10**13
            assert row.transfer in told or grain, (row.transfer, row.state, int(row.amount))

    async def _check_verdicts(self) -> None:
        """Only a watermark or a person confirms, ends or reverses."""
        async with self.world.engine.connect() as connection:
            table = tables.journal
            statement = select(table.c.body).where(table.c.kind == "status")
            bodies = [row.body for row in await connection.execute(statement)]
        for body in bodies:
            status = msgspec.json.decode(body)
            if VERDICTS & set(status["events"]):
                assert status["moment"]["verdicts"], status["events"]


Shop.TestCase.settings = settings(
    max_examples=6,
    stateful_step_count=20,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
TestShop = Shop.TestCase
