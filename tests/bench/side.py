"""One process of a benchmark's service: an intake or a relay, or a share of facts without the log.

Run as `python -m tests.bench.side ROLE URL BOOTSTRAP LANES POLICY`; ends at SIGTERM. It stands for
`reconciler intake` and `reconciler relay`, over the tests' own routes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

from reconciler.intake import Intake, IntakeTerms
from reconciler.kernel.clock import SystemClock
from reconciler.kernel.garbage import collect_seldom
from reconciler.observability.health import Health
from reconciler.observability.logs import set_up_logs
from reconciler.observability.metrics import Meters
from reconciler.relay import Relay
from reconciler.services.apply_facts import apply_facts
from reconciler.services.sweep import sweep_lane
from reconciler.storage.engine import make_engine
from reconciler.stream.kafka import KafkaStream
from reconciler.stream.promise import Batch, Lane, Record, TopicSpec, partition_of
from reconciler.stream.topics import topic_specs, transfers_topic
from schemas.caip import Family
from schemas.facts import TransferSeen
from tests.parts.world import ETHEREUM, POLYGON, Chain, World, address

ROOT = Path(__file__).parents[2]
BATCH = 250
AMOUNT = 25_000_000


def specs_of(lanes: int) -> Sequence[TopicSpec]:
    return topic_specs({ETHEREUM: lanes, POLYGON: 1}, [Family("eip155")], orders_partitions=1)


def lane_of(to: str, lanes: int) -> int:
    """The lane of an address, as a watcher chooses it."""
    return partition_of(to.lower().encode(), lanes)


def payment(chain: Chain, number: int) -> TransferSeen:
    """Pay order `o-<number>` in the next block, by a transaction of its own."""
    return chain.seen(address(number), AMOUNT, tx=f"0x{number:064x}")


@contextlib.asynccontextmanager
async def beside(*roles: str, url: str, bootstrap: str, lanes: int = 1) -> AsyncIterator[None]:
    """Run processes of these roles until the block is left."""
    running = [spawn(role, url, bootstrap, str(lanes)) for role in roles]
    try:
        yield
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            process.wait()


def spawn(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.bench.side", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


async def serve(role: str, url: str, bootstrap: str, lanes: int) -> None:
    world = World(make_engine(url), lanes=lanes)
    stream = KafkaStream(bootstrap)
    await stream.start()
    if role == "intake":
        job = Intake(
            IntakeTerms(clock_slack=timedelta(seconds=2)),
            store=world.store,
            context=world.context,
            stream=stream,
            clock=SystemClock(),
            meters=Meters(),
            health=Health(),
        ).run()
    else:
        job = Relay(
            0,
            store=world.store,
            stream=stream,
            specs={spec.name: spec for spec in specs_of(lanes)},
            clock=SystemClock(),
            meters=Meters(),
        ).run()
    task = asyncio.ensure_future(job)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await stream.close()
    await world.close()


async def apply_share(what: str, url: str, lane: int, lanes: int, lives: int) -> None:
    """Apply one lane's facts, or sweep it, without the log, once a line comes in; says how long."""
    world = World(make_engine(url), lanes=lanes)
    batches = list(_batches(world, lane, lanes, lives)) if what == "seen" else []
    held = await world.position(world.ethereum.lanes[lane])
    _say("ready")
    sys.stdin.readline()
    started = time.perf_counter()
    name = world.ethereum.lanes[lane].name
    if what == "seen":
        for batch in batches:
            await apply_facts(world.store, world.context, batch, held=held)
            held = batch.next_offset
    else:
        while await sweep_lane(world.store, world.context, name):
            pass
    _say(json.dumps({"seconds": time.perf_counter() - started}))
    await world.close()


def _batches(world: World, lane: int, lanes: int, lives: int) -> Sequence[Batch]:
    chain = world.ethereum
    facts = [payment(chain, n) for n in range(lives)]
    ours = [fact for fact in facts if lane_of(fact.to, lanes) == lane]
    place = Lane(transfers_topic(ETHEREUM), lane)
    found = []
    for start in range(0, len(ours), BATCH):
        records: list[Record] = [
            world.record(place, fact.to.lower(), fact) for fact in ours[start : start + BATCH]
        ]
        found.append(Batch(lane=place, records=records, next_offset=records[-1].offset + 1))
    return found


def _say(words: str) -> None:
    os.write(1, words.encode() + b"\n")


def main() -> None:
    set_up_logs("error", stream=sys.stderr)
    collect_seldom()
    role, url, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    if role in {"seen", "sweep"}:
        lane, lanes, lives = map(int, rest)
        asyncio.run(apply_share(role, url, lane, lanes, lives))
    else:
        asyncio.run(serve(role, url, rest[0], int(rest[1])))


if __name__ == "__main__":
    main()
