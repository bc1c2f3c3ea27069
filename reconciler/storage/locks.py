"""The locks of a unit of work, in one order, so that nobody ever waits in a ring.

The order: lanes by name, names by key, address rows by (family, key), the journal's lock. A lock that
comes next in it is waited for. One that comes too late, because what needs it was only found behind
later ones (the order of another lane that the same transaction pays), is taken if it is free. If
somebody holds it, waiting could close a ring that the database breaks a second later and at anybody's
cost; so the unit of work is rolled back at once and done again, and this time takes that lock in its
place (`Plan`). What it takes only grows, so it comes to an end.

PostgreSQL only. SQLite has one writer, and nothing to order.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

AddressKey = tuple[str, str]

#: PostgreSQL's `lock_not_available`. Source: PostgreSQL documentation, appendix A.
_NOT_AVAILABLE: Final = "55P03"

_LANE: Final = {
    (True, True): text("SELECT pg_advisory_xact_lock(:key)"),
    (True, False): text("SELECT pg_advisory_xact_lock_shared(:key)"),
    (False, True): text("SELECT pg_try_advisory_xact_lock(:key)"),
    (False, False): text("SELECT pg_try_advisory_xact_lock_shared(:key)"),
}
_NAMES: Final = {
    True: text(
        "SELECT pg_advisory_xact_lock(key) FROM "
        "(SELECT unnest(CAST(:keys AS bigint[])) AS key ORDER BY 1) AS wanted"
    ),
    False: text(
        "SELECT bool_and(pg_try_advisory_xact_lock(key)) FROM "
        "(SELECT unnest(CAST(:keys AS bigint[])) AS key ORDER BY 1) AS wanted"
    ),
}


class CrossedError(Exception):
    """Somebody holds a lock that was asked for out of its order: begin again, and take it in its place."""


class Plan:
    """What the next attempt takes in its place. Lanes: whether exclusively."""

    def __init__(self) -> None:
        self.lanes: dict[str, bool] = {}
        self.names: set[int] = set()
        self.addresses: set[AddressKey] = set()


class Locks:
    """What one transaction holds."""

    def __init__(self, connection: AsyncConnection, plan: Plan) -> None:
        self._connection = connection
        self._plan = plan
        self._lanes: dict[str, bool] = {}
        self._names: set[int] = set()
        self._addresses: set[AddressKey] = set()
        self._journal = False

    async def take_lanes(self, wanted: Mapping[str, bool]) -> None:
        """Take lanes, exclusively or not. **Raises**: `CrossedError`."""
        ours = dict(wanted)
        is_first = not (self._names or self._addresses or self._journal)
        if is_first:
            for lane, exclusive in self._plan.lanes.items():
                ours[lane] = ours.get(lane, False) or exclusive
        for lane, exclusive in sorted(ours.items()):
            if lane in self._lanes and (self._lanes[lane] or not exclusive):
                continue
            waits = is_first and lane > max(self._lanes, default="")
            found = await self._ask(_LANE[waits, exclusive], key=lock_key(lane))
            if not waits and not found:
                self._plan.lanes.update(
                    {name: mode or self._plan.lanes.get(name, False) for name, mode in ours.items()}
                )
                raise CrossedError(lane)
            self._lanes[lane] = exclusive

    async def take_names(self, names: Iterable[str]) -> None:
        """Take names, all in one statement. **Raises**: `CrossedError`."""
        await self._take_keys({lock_key(name) for name in names})

    async def _take_keys(self, wanted: set[int]) -> None:
        if not self._names:
            await self.take_lanes({})
        is_first = not (self._addresses or self._journal)
        fresh = (wanted | self._plan.names if is_first else wanted) - self._names
        if not fresh:
            return
        waits = is_first and (not self._names or min(fresh) > max(self._names))
        found = await self._ask(_NAMES[waits], keys=sorted(fresh))
        if not waits and not found:
            self._plan.names |= fresh
            raise CrossedError(f"{len(fresh)} names")
        self._names |= fresh

    async def before_addresses(self, wanted: Iterable[AddressKey]) -> tuple[list[AddressKey], bool]:
        """Take what stands before addresses; give those to lock now, and whether to wait for them."""
        if not self._addresses:
            await self._take_keys(set())
        fresh = set(wanted) | (set() if self._journal else self._plan.addresses)
        new = fresh - self._addresses
        waits = not self._journal and (
            not self._addresses or not new or min(new) > max(self._addresses)
        )
        return sorted(fresh), waits

    @contextlib.contextmanager
    def taking_addresses(self, keys: Iterable[AddressKey], *, waits: bool) -> Iterator[None]:
        """Note that addresses are held. **Raises**: `CrossedError` where one was not free at once."""
        try:
            yield
        except DBAPIError as error:
            origin: Any = error.orig
            # Who waited, and for too long, is not crossed: the database has refused it once.
            if waits or getattr(origin, "sqlstate", None) != _NOT_AVAILABLE:
                raise
            self._plan.addresses.update(keys)
            raise CrossedError("addresses") from error
        self._addresses.update(keys)

    async def take_journal(self, *, exclusive: bool) -> None:
        """Take the journal's lock, the last of all."""
        if not self._journal:
            self._journal = True
            await self._ask(_LANE[True, exclusive], key=lock_key("journal"))

    async def _ask(self, statement: Any, **parameters: Any) -> Any:
        return (await self._connection.execute(statement, parameters)).scalar()


def lock_key(name: str) -> int:
    """Compute a signed 64-bit key; two names that share one only wait for each other."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
