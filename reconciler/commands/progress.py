"""How far a command is, shown to a person at a terminal and to nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress(what: str, total: int, *, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error while the block runs; gives what moves it on."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    hidden = not (shown and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
