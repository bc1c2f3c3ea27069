"""One run: processes, misfortunes and a play, and what is printed when it ends badly."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from secrets import randbelow

from sqlalchemy import select

from reconciler.storage import tables
from reconciler.storage.engine import make_engine
from tests.parts.processes import ProductProcess
from tests.parts.thousand.misfortunes import Misfortunes
from tests.parts.thousand.play import Play


def choose_seed() -> int:
    """Give the seed of a run; RECONCILER_SEED plays an old one again."""
    given = os.environ.get("RECONCILER_SEED")
    seed = int(given) if given else randbelow(1_000_000)
    print(f"seed: RECONCILER_SEED={seed}")
    return seed


def log_folder(name: str) -> Path:
    """Give a folder that stays when a run fails."""
    return Path(tempfile.mkdtemp(prefix=f"reconciler-{name}-"))


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long a part of the run took."""
    begun = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - begun:.1f} s")


async def live_through(play: Play, misfortunes: Misfortunes) -> None:
    """Play everything while misfortunes happen; the first failure ends the run."""
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(misfortunes.watch())
        tasks.create_task(misfortunes.run())
        with timed("in time"):
            await play.in_time()
        with timed("late"):
            await play.late(lambda: misfortunes.done)
        with timed("settle"):
            await play.settle()
        watching.cancel()


async def stop_all(processes: Sequence[ProductProcess]) -> None:
    """Stop as an administrator would: all of them say that they are done."""
    codes = await asyncio.gather(*(process.stop() for process in processes))
    for process, code in zip(processes, codes, strict=True):
        assert code == 0, f"{process.name} stopped with {code}; {process.tail()}"


def check_nobody_waited_in_a_ring(processes: Sequence[ProductProcess]) -> None:
    """A deadlock costs a second each, and whoever has many lanes would pay it again and again."""
    rings = {p.name: p.log.read_text().count("deadlock detected") for p in processes}
    assert not any(rings.values()), f"deadlocks: {rings}"


async def told_of(play: Play, database: str, folder: Path) -> str:
    """Say what a person needs who must find out why a run failed."""
    lines = [f"seed {play.book.seed}, logs in {folder}", *_last_words(folder)]
    differing = play.differing()
    lines.append(f"{len(differing)} orders differ from the model")
    if differing:
        order = differing[0]
        lines += [f"the first is {order.reference}: {play.difference(order)}", repr(order)]
        lines += [json.dumps(event) for event in play.shop.told.events[order.reference]]
        lines += await _journal_of(database, order.reference)
    stories = sorted({f"{order.story} ({play.difference(order)[:160]})" for order in differing})
    return "\n".join([*lines, "differing stories:", *stories[:40]])


def _last_words(folder: Path) -> list[str]:
    """Quote the ends of all logs: who stands still, and what for."""
    return [
        f"{log.stem}: {line[:300]}"
        for log in sorted(folder.glob("*.log"))
        for line in log.read_text(errors="replace").splitlines()[-4:]
    ]


async def _journal_of(database: str, reference: str) -> list[str]:
    async with AsyncExitStack() as stack:
        engine = make_engine(database)
        stack.push_async_callback(engine.dispose)
        connection = await stack.enter_async_context(engine.connect())
        found = await connection.execute(
            select(tables.journal.c.seq, tables.journal.c.kind, tables.journal.c.body)
            .where(tables.journal.c.chain_key == f"order/{reference}")
            .order_by(tables.journal.c.id)
        )
        return [f"journal {seq} {kind}: {body.decode()[:1_000]}" for seq, kind, body in found]
