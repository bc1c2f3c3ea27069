"""One performance, from curtain to curtain: opens the theatre, runs everything, sums up.

Writes standard output and the service's log into the demo's own folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from rich.console import Console
from rich.text import Text

from reconciler.demo.anvil_stage import anvil_stage
from reconciler.demo.control import Control, only_one
from reconciler.demo.devnet_stage import devnet_stage
from reconciler.demo.litecoin_chain import find_litecoind
from reconciler.demo.play import STORY_TIMEOUT_S, Play, StageFactory, open_theatre
from reconciler.demo.screen import Screen
from reconciler.demo.stories import STORIES, Ask, Story
from reconciler.demo.words import command_words, number_words
from reconciler.kernel.clock import Clock, SystemClock
from reconciler.observability.logs import set_up_logs
from reconciler.observability.stopping import Job, run_until_stopped

#: Orders that wait for whoever watches, once the stories have ended.
YOURS: Final = (
    Ask(order="yours-1", route="dollar", amount="40.00"),
    Ask(order="yours-2", route="coin", amount="0.10"),
    Ask(order="yours-3", route="birch", amount="15.00"),
    Ask(order="yours-4", route="litecoin", amount="0.50", on_litecoin=True),
)
#: Sections of README.md that say how to go on, and what each is for, within 80 columns.
GO_ON: Final = {
    "The way through": "what ran here, in one picture",
    "Talking to it": "what your shop has to do",
    "Going on to Kafka and PostgreSQL": "your own chains and settings",
    "When a person is needed": "how to answer what was shown",
}

_WIDTH: Final = 79
_STAGES: Final[dict[str, StageFactory]] = {"devnet": devnet_stage, "anvil": anvil_stage}


async def perform(
    console: Console,
    folder: Path,
    *,
    once: bool,
    chain: Literal["devnet", "anvil"] = "devnet",
    stories: Sequence[Story] = STORIES,
    clock: Clock | None = None,
    patience_s: float = STORY_TIMEOUT_S,
) -> int:
    """Play the stories and say how they ended; gives the process's exit code.

    0 when all ended right (or when whoever watched an endless demo ended it), 1 when one did not,
    130 when `once` was interrupted.
    """
    clock = clock or SystemClock()
    log_path = folder / "service.log"
    alone = contextlib.nullcontext() if once else only_one()
    with alone, log_path.open("w", encoding="utf-8") as log:
        set_up_logs("info", stream=log)
        console.print(_welcome(chain, stories))
        async with open_theatre(
            _STAGES[chain], folder, clock=clock, stories=stories, patience_s=patience_s
        ) as theatre:
            play, stop = theatre.play, asyncio.Event()
            screen = Screen(play, console)
            jobs: dict[str, Job] = dict(theatre.jobs) | {"screen": screen.run}
            if not once:
                jobs["control"] = Control(play).run
            jobs["stories"] = lambda: _tell(play, stop, once=once)
            await run_until_stopped(jobs, stop=stop)
            screen.finish()
            return _sum_up(console, play, once=once)


async def _tell(play: Play, stop: asyncio.Event, *, once: bool) -> None:
    await play.tell()
    if once:
        stop.set()
    else:
        yours = [ask for ask in YOURS if play.stage.litecoin or not ask.on_litecoin]
        await play.invite(*yours)
    # the other jobs go on until the process is told to stop
    await asyncio.Event().wait()


def _welcome(chain: str, stories: Sequence[Story]) -> Text:
    chains = "two chains of the demo's own" if chain == "devnet" else "two anvil nodes"
    there = find_litecoind() is not None
    told = [story for story in stories if there or not story.on_litecoin]
    orders = f"{number_words(sum(len(story.asks) for story in told))} orders"
    more = any(story.on_litecoin for story in told)
    cast = f"{orders}, {chains} and a Litecoin node" if more else f"{orders} and {chains}"
    return Text(
        _paragraph(
            f"A shop, {cast}; between them the real service: watchers, intake, relay, a SQLite file. "
            "Nothing leaves this machine. An hour to pay lasts ten seconds where a story waits for "
            "its end."
        )
        + "\n"
    )


def _paragraph(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=" ", subsequent_indent=" ")


def _sum_up(console: Console, play: Play, *, once: bool) -> int:
    if not play.is_over:
        console.print(" Stopped before all stories had ended.", style="magenta")
        return 130 if once else 0
    faults = play.faults()
    for fault in faults:
        console.print(Text(f" {fault}", style="bold red"))
    if faults:
        console.print(Text(" Not all stories ended right.", style="bold red"))
        return 1
    console.print(_summary(play))
    return 0


def _summary(play: Play) -> Text:
    book = play.book
    events = sum(len(events) for events in book.events.values())
    people = sum(one.open for one in book.exceptions.values())
    paid = len(play.script.paid.by_tx)
    name = number_words(len(play.stories))
    told = Text.assemble(
        (f"\n All {name} stories ended right", "bold green"),
        f" in {play.took_s:.0f} s: {len(book.events)} orders, {paid} payments,\n {events} events "
        f"without a gap, nothing credited twice, {people} matters shown to a person.\n",
    )
    if play.untold:
        told.append(f"\n{_paragraph(play.untold)}\n")
    told.append("\n How to go on\n", style="bold")
    for what, why in (
        ("make demo", "again, and its chains go on"),
        (f"{command_words()} --help", "every command of the service"),
        *((f"README.md, {section}", why) for section, why in GO_ON.items()),
    ):
        told.append(f"   {what:<44}", style="cyan").append(f" {why}\n")
    return told
