"""The other terminal's side of a running demo: what may be asked, and how it is asked.

Reads the state file that the running demo wrote; talks to it over HTTP. Loads nothing of the service,
so that a command answers at once.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
from msgspec import Struct

from reconciler.kernel.refusals import Refusal

ANSWER_TIMEOUT_S: Final = 30.0
NAME: Final = "crypto-payment-reconciler"


class NoDemo(Refusal):
    """No demo is running, or none that can be reached."""


class NotMoved(Refusal):
    """The running demo refused; the sentence says why."""


class OrderLine(Struct, frozen=True, kw_only=True):
    """One order, as another terminal shows it."""

    order: str
    payment: str
    received: str
    attention: str
    left: str
    network: str
    address: str


class Wish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What another terminal wants. Each verb reads its own fields."""

    order: str = ""
    amount: str = ""
    tx: str | None = None
    depth: int = 0
    network: str = ""
    keep: bool = False


class Answer(Struct, frozen=True, kw_only=True):
    """What became of it."""

    said: str = ""
    orders: tuple[OrderLine, ...] = ()


async def ask_demo(verb: str, wish: Wish) -> Answer:
    """Move the running demo. **Raises**: `NoDemo`, `NotMoved`."""
    try:
        url = state_file().read_text(encoding="utf-8").strip()
    except OSError:
        message = "no demo is running here; start one with `make demo` in another terminal"
        raise NoDemo(message) from None
    timeout = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(f"{url}/{verb}", data=msgspec.json.encode(wish)) as response,
        ):
            body = await response.read()
            if not response.ok:
                raise NotMoved(body.decode(errors="replace") or f"status {response.status}")
    except (aiohttp.ClientError, TimeoutError) as error:
        message = f"the demo no longer answers ({type(error).__name__}); start one with `make demo`"
        raise NoDemo(message) from None
    return msgspec.json.decode(body, type=Answer)


def state_file() -> Path:
    """Say where a running demo leaves its address: under XDG_STATE_HOME, else in a folder of ours."""
    base = os.environ.get("XDG_STATE_HOME")
    if base:
        return Path(base) / NAME / "demo.url"
    return Path(tempfile.gettempdir()) / f"{NAME}-{os.getuid()}" / "demo.url"
