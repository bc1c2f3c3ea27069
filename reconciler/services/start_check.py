"""A start is refused while open orders use what the settings no longer name."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.services.context import ServiceContext
from reconciler.storage import reads
from reconciler.storage.unit_of_work import Store


async def missing_settings(store: Store, context: ServiceContext) -> Sequence[str]:
    """Say, one sentence each, which chains and routes of open orders the settings do not name."""
    found = []
    for route, chain, count in await store.read(reads.open_routes):
        if chain not in context.lanes:
            found.append(f"{count} open orders are on chain {chain}, which has no [chains] entry")
        if route not in context.routes:
            found.append(f"{count} open orders use route {route!r}, which has no [[routes]] entry")
    return found
