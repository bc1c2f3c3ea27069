"""`reconciler replay`: old traffic through the present rules, in an empty database in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, BinaryIO, Final

import msgspec
from cyclopts import Parameter

from reconciler.commands.common import DEFAULT_CONFIG, DONE, BadArgument, ConfigFile, put, say
from reconciler.commands.progress import progress
from reconciler.config import Settings, load_settings
from reconciler.exports.recording import write_line
from reconciler.services.replay import BadLine, CameOut, Replay, empty_store
from reconciler.wiring import context_of
from schemas.codec import Line

#: A line longer than a message may be is no message.
LINE_BYTES_MAX: Final = 4 * 1_048_576

_decode_line: Final = msgspec.json.Decoder(Line).decode


async def replay(
    file: Annotated[
        Path,
        Parameter(
            help="JSON lines: topic, key, type, time, value; as `reconciler export messages` writes."
        ),
    ],
    /,
    *,
    config: ConfigFile = DEFAULT_CONFIG,
) -> int:
    """Apply recorded facts, commands and decisions in order, and print what comes out.

    Prints the messages of payment-events and payment-exceptions, one a line in the same form, the same
    bytes each time. Refused commands are told on standard error, with their line. The settings' routes
    apply to every order, which shows what another policy would have done. Touches nothing of the
    service: its database is empty, in memory, and gone at the end.

    A watermark may say up to when `orders` had been applied ("inbox_until"). One that does not is taken
    as if everything above it had been: up to its own reading or recording, whichever was later.
    """
    settings = load_settings(config)
    try:
        with file.open("rb") as lines:
            await _replay(lines, settings, file.stat().st_size)
    except OSError as error:
        raise BadArgument(f"{file}: {error.strerror}") from None
    return DONE


async def _replay(lines: BinaryIO, settings: Settings, size: int) -> None:
    async with empty_store() as store:
        run = Replay(store, context_of(settings))
        with progress("bytes", size) as advance:
            for number, text in enumerate(lines, start=1):
                _tell(await run.apply(number, read_line(number, text)))
                advance(len(text))
            _tell(await run.end())
        for topic, count in sorted(run.passed_over.items()):
            say(f"passed over: {count} of {topic}, which only tells what came out")


def _tell(came_out: CameOut) -> None:
    for line in came_out.told:
        put(write_line(line))
    for refused in came_out.rejected:
        say(f"line {refused.line}: {refused.code}: {refused.reason}")


def read_line(number: int, text: bytes) -> Line:
    """Read a line of a file. **Raises**: `BadLine`."""
    if len(text) > LINE_BYTES_MAX:
        raise BadLine(number, f"expected at most {LINE_BYTES_MAX} bytes")
    try:
        return _decode_line(text)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise BadLine(number, str(error)) from None
