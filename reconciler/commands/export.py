"""`reconciler export`: orders, transfers and exceptions as CSV or JSON lines."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, TextIO

from cyclopts import Parameter

from reconciler.commands.common import DEFAULT_CONFIG, DONE, BadArgument, ConfigFile, say
from reconciler.commands.progress import progress
from reconciler.config import load_settings
from reconciler.exports.files import Format, head, line
from reconciler.exports.rows import EXPORTS
from reconciler.storage.pages import count_rows, snapshot
from reconciler.wiring import open_engine

Kind = Literal["orders", "transfers", "exceptions"]


async def export(
    kind: Annotated[Kind, Parameter(help="What is written.")],
    /,
    *,
    form: Annotated[
        Format, Parameter(name=["--format", "-f"], help="CSV (RFC 4180), or JSON lines.")
    ] = "csv",
    output: Annotated[
        Path | None,
        Parameter(name=["--output", "-o"], help="The file; standard output when not given."),
    ] = None,
    config: ConfigFile = DEFAULT_CONFIG,
) -> int:
    """Write all orders, transfers or exceptions as they stand at this moment.

    Amounts are base units, and beside them decimal in the asset's scale. A new file never takes the
    place of one that is there.
    """
    settings = load_settings(config)
    wanted = EXPORTS[kind]
    async with open_engine(settings) as engine, snapshot(engine) as work:
        total = await count_rows(work, kind)
        with _opened(output) as file, progress(kind, total, shown=output is not None) as advance:
            file.write(head(wanted.columns, form))
            async for row in wanted.rows(work, settings.catalogue):
                file.write(line(row, form))
                advance(1)
    say(f"{total} {kind} written")
    return DONE


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
