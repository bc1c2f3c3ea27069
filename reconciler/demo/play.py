"""The demo as a whole: chains, service, shop and customers in one process on one loop.

The composition of the demo, as `reconciler.wiring` is that of the service, whose parts it uses as they
are. Writes a temporary folder and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.config import Settings
from reconciler.demo.book import Book
from reconciler.demo.chain_time import ChainTime
from reconciler.demo.endings import has_ended, told, wrong_with, wrong_with_credits
from reconciler.demo.litecoin_chain import (
    LITECOIN,
    NoLitecoind,
    find_litecoind,
    litecoin_address,
    litecoin_chain,
)
from reconciler.demo.script import Script
from reconciler.demo.shop import Shop
from reconciler.demo.shop_settings import QUICK_S, write_settings
from reconciler.demo.stage import Stage, StageError, shop_address
from reconciler.demo.stories import Ask, Story
from reconciler.kernel.clock import Clock
from reconciler.observability.stopping import Job
from reconciler.storage import schema_version
from reconciler.wiring import (
    Parts,
    apply_and_send_jobs_of,
    open_engine,
    open_parts,
    open_stream,
    watch_job_of,
)
from schemas.amounts import AmountError
from schemas.commands import PlaceOrder
from schemas.values import OrderReference

StageFactory = Callable[..., AbstractAsyncContextManager[Stage]]

#: A story that takes longer than this has not ended as it should. Ten times what it needs.
STORY_TIMEOUT_S: Final = 180.0
#: Chains begin so long before the first order.
PAST_S: Final = 60
_NO_LITECOIND: Final = (
    "Two more stories are told where litecoind is: apt-get install litecoind on Debian, "
    "Litecoin Core elsewhere."
)


class Outcome(Struct, frozen=True, kw_only=True):
    """How a story ended: its events, its sentence, and what is wrong with it (nothing, if all is well)."""

    story: Story
    events: Mapping[str, Sequence[str]]
    sentence: str
    wrong: tuple[str, ...]


class Play:
    """One performance. `outcomes` fills as stories end; `untold` says which could not be told here."""

    def __init__(
        self,
        stage: Stage,
        shop: Shop,
        clock: Clock,
        stories: Sequence[Story],
        *,
        patience_s: float = STORY_TIMEOUT_S,
        untold: str = "",
    ) -> None:
        self.stage = stage
        self.shop = shop
        self.clock = clock
        self.stories = stories
        self.untold = untold
        self.script = Script(stage, shop, clock)
        self._patience_s = patience_s
        self.outcomes: dict[int, Outcome] = {}
        self.invited = False
        self.took_s = 0.0

    @property
    def book(self) -> Book:
        """What the shop knows."""
        return self.shop.book

    @property
    def is_over(self) -> bool:
        """Tell whether every story has ended."""
        return len(self.outcomes) == len(self.stories)

    async def tell(self) -> None:
        """Tell all stories side by side, then look at everything once more."""
        started_s = self.clock.monotonic_s()
        async with asyncio.TaskGroup() as group:
            for story in self.stories:
                group.create_task(self._tell(story), name=f"story {story.number}")
        await self.shop.caught_up()
        self._look_again()
        self.took_s = self.clock.monotonic_s() - started_s

    async def invite(self, *asks: Ask) -> None:
        """Place orders for whoever watches, and say so on the screen."""
        await self.place(*asks)
        for ask in asks:
            await self.script.placed(ask.order)
        self.invited = True
        self.book.touch()

    async def place(self, *asks: Ask) -> None:
        """Let the shop place orders."""
        await self.shop.send(*(_command(ask) for ask in asks))

    async def _tell(self, story: Story) -> None:
        wrong: list[str] = []
        try:
            async with asyncio.timeout(self._patience_s):
                await self._play(story)
                await self.book.until(
                    lambda: all(has_ended(ending, self.book) for ending in story.endings)
                )
        except TimeoutError:
            wrong.append(f"did not end within {self._patience_s:.0f} s")
        except (StageError, AmountError) as error:
            wrong.append(str(error))
        self._note(story, wrong)

    async def _play(self, story: Story) -> None:
        if not story.short:
            await self._act(story)
            return
        end = self.clock.now() + timedelta(seconds=QUICK_S)
        with self.stage.time.held_before(end):
            await self._act(story)

    async def _act(self, story: Story) -> None:
        await self.place(*story.asks)
        for ask in story.asks:
            await self.script.placed(ask.order)
        await story.act(self.script)

    def _note(self, story: Story, wrong: Sequence[str]) -> None:
        found = [*wrong, *wrong_with(story, self.book, self.stage)]
        self.outcomes[story.number] = Outcome(
            story=story,
            events={ending.order: self.book.kinds(ending.order) for ending in story.endings},
            sentence=told(story, self.book, self.stage),
            wrong=tuple(found),
        )
        self.book.touch()

    def _look_again(self) -> None:
        """Judge every story anew: what came after its end must not have spoilt it."""
        for story in self.stories:
            before = self.outcomes[story.number]
            if not before.wrong:
                self._note(story, ())

    def faults(self) -> Sequence[str]:
        """Name every story that did not end right, and what is wrong over all of them together."""
        found = [
            f"story {number}, {outcome.story.title}: {'; '.join(outcome.wrong)}"
            for number, outcome in sorted(self.outcomes.items())
            if outcome.wrong
        ]
        return [*found, *wrong_with_credits(self.book, self.script.paid)]


class Theatre(Struct, frozen=True, kw_only=True):
    """A play with the service around it: what has to run, and what runs for as long as it does."""

    play: Play
    jobs: Mapping[str, Job]


@asynccontextmanager
async def open_theatre(
    make_stage: StageFactory,
    folder: Path,
    *,
    clock: Clock,
    stories: Sequence[Story],
    patience_s: float,
) -> AsyncIterator[Theatre]:
    """Set up chains, files, tables, topics and parts. Nothing runs yet."""
    time = ChainTime(clock)
    genesis_s = int(clock.now().timestamp()) - PAST_S
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(make_stage(time, genesis_s=genesis_s))
        untold = ""
        if any(story.on_litecoin for story in stories):
            stage, untold = await _with_litecoin(stack, stage, clock)
        told = [story for story in stories if stage.litecoin or not story.on_litecoin]
        for chain in stage.chains.values():
            await stage.mine_once(chain)
        settings = write_settings(stage, folder)
        await _migrate(settings)
        async with open_parts(settings, clock=clock) as parts:
            shop = Shop(parts.stream, stage, Book(), clock)
            await shop.open()
            try:
                play = Play(stage, shop, clock, told, patience_s=patience_s, untold=untold)
                yield Theatre(play=play, jobs=_service_jobs(parts) | _own_jobs(play))
            finally:
                await shop.close()


async def _with_litecoin(stack: AsyncExitStack, stage: Stage, clock: Clock) -> tuple[Stage, str]:
    """Give the stage with a Litecoin node on it; or as it is, and a sentence that says why."""
    binary = find_litecoind()
    if binary is None:
        return stage, _NO_LITECOIND
    now_s = int(clock.now().timestamp())
    try:
        chain = await stack.enter_async_context(litecoin_chain(binary, now_s=now_s))
    except NoLitecoind as error:
        return stage, f"Two more stories need a Litecoin node, and there is none: {error}."
    return replace(stage, litecoin=chain, litecoin_coin=LITECOIN), ""


async def _migrate(settings: Settings) -> None:
    async with open_engine(settings) as engine:
        await schema_version.migrate(engine)
        async with open_stream(settings, engine) as stream:
            await stream.create_topics(settings.topic_specs())


def _service_jobs(parts: Parts) -> dict[str, Job]:
    """Give the parts of `reconciler run`, as they are."""
    watchers = {
        f"watch {chain}": watch_job_of(parts, chain)[0] for chain in parts.settings.chains()
    }
    return watchers | apply_and_send_jobs_of(parts)


def _own_jobs(play: Play) -> dict[str, Job]:
    stage, shop = play.stage, play.shop
    miners: dict[str, Job] = {
        f"mine {chain.label.lower()}": partial(stage.mine_for_ever, chain)
        for chain in stage.chains.values()
    }
    return miners | {
        "read events": shop.read_events,
        "read exceptions": shop.read_exceptions,
        "read rejected": shop.read_rejected,
    }


def _command(ask: Ask) -> PlaceOrder:
    return PlaceOrder(
        idempotency_key=f"demo-place-{ask.order}",
        reference=OrderReference(ask.order),
        route=ask.route,
        amount_decimal=ask.amount,
        address=_address_for(ask),
    )


def _address_for(ask: Ask) -> str | None:
    if ask.route == "shared":
        return None
    return litecoin_address(ask.order) if ask.on_litecoin else shop_address(ask.order)
