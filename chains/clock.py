"""Time for chains/: told, never taken. A simulator gives its own.

Reads the machine's clocks in one place; everything else takes a `Clock`.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What time it is, how long something took, and a wait."""

    def now(self) -> datetime:
        """Give the present moment, aware, in UTC."""
        ...

    def monotonic_s(self) -> float:
        """Give seconds that never jump. Only differences mean something."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's own time."""

    @staticmethod
    def now() -> datetime:
        """Give the present moment."""
        return datetime.now(UTC)

    @staticmethod
    def monotonic_s() -> float:
        """Give seconds that never jump."""
        return time.monotonic()

    @staticmethod
    async def sleep(seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
