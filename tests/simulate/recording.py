"""What was applied is written down, applied again to an empty database, and must tell the same.

The recording has neither batches nor sweepers nor deaths: that the events are equal byte for byte
says that they depended on the stream alone.
"""

from __future__ import annotations

from collections import defaultdict

from reconciler import wiring
from reconciler.exports.recording import applied_lines
from reconciler.services.replay import Replay
from reconciler.storage.pages import snapshot
from reconciler.storage.unit_of_work import Store
from reconciler.stream.topics import PAYMENT_EVENTS
from tests.simulate import database
from tests.simulate.database import Bystander
from tests.simulate.world import Violation, World


async def check_recording(world: World) -> None:
    """Replay the run. **Raises**: `Violation` naming the order that is told otherwise."""
    database.client.set(Bystander(world.database))
    async with snapshot(database.engine()) as work:
        lines = [line async for line in applied_lines(work)]
    database.client.set(Bystander(database.Database()))
    replay = Replay(Store(database.engine()), wiring.context_of(world.settings))
    again: dict[str, list[bytes]] = defaultdict(list)
    for number, line in enumerate(lines, start=1):
        _keep(again, (await replay.apply(number, line)).told)
    _keep(again, (await replay.end()).told)
    told = _told(world)
    for order in sorted(told.keys() | again.keys()):
        if told[order] != again[order]:
            at = next(
                (n for n, pair in enumerate(zip(told[order], again[order], strict=False), 1)
                 if pair[0] != pair[1]),
                min(len(told[order]), len(again[order])) + 1,
            )  # fmt: skip
            raise Violation(f"{order} is replayed otherwise from event {at} on")


def _keep(again: dict[str, list[bytes]], told: object) -> None:
    for line in told:  # type: ignore[attr-defined]
        if line.topic == PAYMENT_EVENTS:
            again[line.key].append(bytes(line.value))


def _told(world: World) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = defaultdict(list)
    for lane, records in world.log.records.items():
        if lane.topic == PAYMENT_EVENTS:
            for record in records:
                found[record.key.decode()].append(record.value or b"")
    return found
