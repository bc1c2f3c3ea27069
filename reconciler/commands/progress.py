"""How far a command is, shown to a person at a terminal and to nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from chains.heed import heed_cancellation
from chains.port import FollowStatus
from reconciler.kernel.clock import Clock
from schemas.caip import ChainName

LOOK_EVERY_S: Final = 0.5
#: A watcher that is a few blocks behind is at work, not catching up.
BEHIND_BLOCKS: Final = 20

_COLUMNS: Final = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeRemainingColumn(),
)


@contextmanager
def progress(what: str, total: int, *, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error while the block runs; gives what moves it on."""
    console = Console(stderr=True)
    hidden = not (shown and console.is_terminal)
    with Progress(*_COLUMNS, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


async def catching_up(
    statuses: Mapping[ChainName, Callable[[], FollowStatus | None]], clock: Clock
) -> None:
    """Show how far watchers are behind while they are; returns at once where nobody looks."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return
    with Progress(*_COLUMNS, console=console, transient=True) as bar:
        blocks = {chain: bar.add_task(f"{chain} blocks", visible=False) for chain in statuses}
        searches = {chain: bar.add_task(f"{chain} addresses", visible=False) for chain in statuses}
        while True:
            heed_cancellation()
            for chain, status in statuses.items():
                found = status()
                if found is not None:
                    _show(bar, found, blocks[chain], searches[chain])
            await clock.sleep(LOOK_EVERY_S)


def _show(bar: Progress, status: FollowStatus, blocks: TaskID, searches: TaskID) -> None:
    behind = status.head_height - status.covered_height
    bar.update(
        blocks,
        completed=status.covered_height,
        total=status.head_height,
        visible=behind > BEHIND_BLOCKS,
    )
    searched = status.watched - status.back_scans_open
    bar.update(
        searches, completed=searched, total=status.watched, visible=status.back_scans_open > 0
    )
