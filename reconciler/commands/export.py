"""`reconciler export`: what happened, as files: for finance as rows, for `replay` as messages."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, TextIO

from cyclopts import Parameter
from msgspec import Struct

from reconciler.commands.common import (
    DEFAULT_CONFIG,
    DONE,
    BadArgument,
    ConfigFile,
    read_chain,
    say,
)
from reconciler.commands.progress import progress
from reconciler.config import Settings, load_settings
from reconciler.exports.files import Format, head, line
from reconciler.exports.recording import (
    applied_lines,
    count_applied,
    count_told,
    told_lines,
    write_line,
)
from reconciler.exports.rows import EXPORTS
from reconciler.storage.pages import Narrowed, count_rows, snapshot
from reconciler.storage.unit_of_work import Work
from reconciler.wiring import open_database

Kind = Literal["orders", "transfers", "exceptions", "messages", "events"]


async def export(
    kind: Annotated[
        Kind,
        Parameter(
            help="orders, transfers or exceptions as rows; messages: all that was applied, for "
            "`reconciler replay`; events: all that was told, in the form in which replay tells it."
        ),
    ],
    /,
    *,
    form: Annotated[
        Format | None,
        Parameter(
            name=["--format", "-f"],
            help="csv (RFC 4180, the default for rows) or jsonl (JSON lines; messages are always so).",
        ),
    ] = None,
    since: Annotated[
        str | None,
        Parameter(
            name="--from",
            help="Only orders placed, transfers first seen, exceptions opened since: 2026-11-30, or "
            "2026-11-30T12:00:00Z.",
        ),
    ] = None,
    before: Annotated[
        str | None, Parameter(name="--to", help="Only what came before this instant.")
    ] = None,
    chain: Annotated[str | None, Parameter(help="Only what is on this chain: eip155:1.")] = None,
    output: Annotated[
        Path | None,
        Parameter(name=["--output", "-o"], help="The file; standard output when not given."),
    ] = None,
    config: ConfigFile = DEFAULT_CONFIG,
) -> int:
    """Write orders, transfers, exceptions or messages as they stand at this moment.

    Amounts are base units, and beside them decimal in the asset's scale. Of transfers, `given_to`
    says whose they are and `counted` how much of them counts: added up by order (`counted_for`) it
    is the received_final and received_pending of orders. Dust, late money and money in another
    asset count nothing. Cells of a CSV that a
    spreadsheet would calculate begin with an apostrophe. A new file never takes the place of one that
    is there.
    """
    settings = load_settings(config)
    source = _source(kind, form, _narrowed(kind, since, before, chain))
    async with open_database(settings) as engine, snapshot(engine) as work:
        total = await source.count(work)
        shown = output is not None or not sys.stdout.isatty()
        with _opened(output) as file, progress(kind, total, shown=shown) as advance:
            file.write(source.head)
            async for text in source.lines(work, settings):
                file.write(text)
                advance(1)
    say(f"{total} {kind} written")
    return DONE


class _Source(Struct, frozen=True):
    """What is written: its head, how many lines there are, and the lines."""

    head: str
    count: Callable[[Work], Awaitable[int]]
    lines: Callable[[Work, Settings], AsyncIterator[str]]


def _narrowed(
    kind: Kind, since: str | None, before: str | None, chain: str | None
) -> Narrowed | None:
    if since is None and before is None and chain is None:
        return None
    if kind in {"messages", "events"}:
        raise BadArgument(f"{kind} are written whole: a part of a run cannot be replayed")
    return Narrowed(
        time=EXPORTS[kind].time,
        chain=None if chain is None else read_chain(chain),
        since=_instant("--from", since),
        before=_instant("--to", before),
    )


def _source(kind: Kind, form: Format | None, narrowed: Narrowed | None) -> _Source:
    if kind in {"messages", "events"} and form == "csv":
        raise BadArgument(f"--format: {kind} are JSON lines")
    if kind == "messages":
        return _messages()
    if kind == "events":
        return _events()
    wanted, chosen = EXPORTS[kind], form or "csv"

    async def lines(work: Work, settings: Settings) -> AsyncIterator[str]:
        async for row in wanted.rows(work, settings.catalogue, narrowed):
            yield line(row, chosen)

    return _Source(
        head(wanted.columns, chosen), lambda work: count_rows(work, kind, narrowed), lines
    )


def _messages() -> _Source:
    async def lines(work: Work, _settings: Settings) -> AsyncIterator[str]:
        async for each in applied_lines(work):
            yield write_line(each) + "\n"

    return _Source("", count_applied, lines)


def _events() -> _Source:
    async def lines(work: Work, _settings: Settings) -> AsyncIterator[str]:
        async for each in told_lines(work):
            yield write_line(each) + "\n"

    return _Source("", count_told, lines)


def _instant(name: str, text: str | None) -> datetime | None:
    """Read a day, which begins at midnight UTC, or an instant with its zone."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is not None and moment.tzinfo is None and len(text) == len("2026-11-30"):
        moment = moment.replace(tzinfo=UTC)
    if moment is None or moment.tzinfo is None:
        expected = "a day such as 2026-11-30, or an instant such as 2026-11-30T12:00:00Z"
        raise BadArgument(f"{name}: expected {expected}, found {text!r}")
    return moment


@contextlib.contextmanager
def _opened(path: Path | None) -> Iterator[TextIO]:
    """Open a new file; what was written when something fails stays beside it as `.part`."""
    if path is None:
        yield sys.stdout
        return
    if path.exists():
        raise BadArgument(f"--output {path}: there is a file already")
    part = path.with_name(path.name + ".part")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise BadArgument(f"--output {path}: {error.strerror}") from None
    part.rename(path)
