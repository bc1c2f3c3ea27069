"""Which balances the second look asks for, and how often: one that never comes stands before no other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from reconciler.audit import look as looks
from reconciler.audit.ask import Asker
from reconciler.audit.look import Found, LookTerms, SecondLook
from reconciler.kernel.clock import ManualClock
from reconciler.observability.metrics import Meters
from schemas.caip import AssetName
from tests.parts.world import ETHEREUM, World, address
from tests.parts.worlds import BOTH, open_world

LOOK = timedelta(minutes=30)
HOUR = timedelta(minutes=61)


class Asked:
    """Notes what is asked of the watcher, who never answers."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []
        self.balances: list[str] = []

    async def read_again(self, first: int, last: int, *, reason: str) -> None:
        assert reason
        self.spans.append((first, last))

    async def see_balances(self, wanted: Sequence[tuple[AssetName, str]]) -> None:
        self.balances += [to for _, to in wanted]

    def take(self) -> list[str]:
        taken, self.balances = self.balances, []
        return taken


@pytest.fixture(params=BOTH)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    url = "sqlite+aiosqlite://"
    if request.param != "sqlite":
        url = request.getfixturevalue("postgres_tables")
    made = await open_world(url, second_look_s=int(LOOK.total_seconds()))
    yield made
    await made.close()


class Stand:
    """A second look without a chain: only its questions about balances."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.asked = Asked()
        self.clock = ManualClock(world.now)
        terms = LookTerms(
            chain=ETHEREUM, lanes=1, entry=world.catalogue.chain(ETHEREUM), patience=LOOK
        )
        self.look = SecondLook(
            terms,
            source=cast("Any", None),
            store=world.store,
            asker=cast("Asker", self.asked),
            clock=self.clock,
            meters=Meters(),
        )

    async def round(self) -> list[str]:
        """Ask at the world's own time; gives whose balances were asked for."""
        self.clock.advance(self.world.now - self.clock.now())
        await self.look._ask_for_balances(self.world.now, Found())
        return self.asked.take()


async def test_blocks_that_do_not_explain_a_balance_are_not_read_again_at_every_sight(
    world: World,
) -> None:
    to = await world.place()
    await world.mine(1)
    await world.facts(world.ethereum.balance(to, 0))
    stand = Stand(world)
    for _ in range(10):
        await world.mine(15)  # three minutes
        await world.facts(world.ethereum.balance(to, 9))
        assert await stand.round() == [to]
    assert stand.asked.spans == [(102, 116)]
    await world.mine(1)
    await world.facts(world.ethereum.balance(to, 10))  # another difference
    await stand.round()
    assert [first for first, _ in stand.asked.spans] == [102, 102]


async def test_balances_that_no_node_tells_do_not_stand_before_those_of_fresh_orders(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "BALANCES_A_ROUND", 2)
    stand = Stand(world)
    for number in (1, 2):
        await world.place(f"o-{number}")
    assert len(await stand.round()) == 2
    await world.mine(15)
    await world.place("o-3")
    assert address(3) in await stand.round()


async def test_orders_that_are_over_are_found_behind_those_that_soon_will_be(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "BALANCES_A_ROUND", 2)
    to = await world.place("o-1")
    await world.mine(1)
    await world.facts(world.ethereum.balance(to, 0))
    await world.pass_time(timedelta(minutes=10))
    for number in (2, 3, 4, 5):
        await world.place(f"o-{number}")
        await world.facts(world.ethereum.balance(address(number), 0))
    await world.pass_time(timedelta(minutes=51))
    for number in (2, 3, 4, 5):
        await world.facts(world.ethereum.balance(address(number), 0))
    assert await Stand(world).round() == [to]


async def test_money_that_moved_is_gone_through_page_by_page_and_then_left_alone_for_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "BALANCES_A_ROUND", 2)
    paid = [await world.place(f"o-{number}") for number in (1, 2, 3)]
    await world.mine(9, *(world.ethereum.seen(to, 25_000_000) for to in paid))
    await world.pass_time(timedelta(hours=25))
    stand = Stand(world)
    assert await stand.round() == paid[:2]
    assert await stand.round() == paid[2:]
    await world.mine(15)
    assert await stand.round() == []
    await world.pass_time(HOUR)
    assert await stand.round() == paid[:2]
