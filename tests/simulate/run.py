"""One seed, from the first order to the last check."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from random import Random

import structlog
from msgspec import Struct

from tests.simulate.database import warm_up
from tests.simulate.ending import check_ending, is_at_rest, is_read
from tests.simulate.loop import SpinningError, StalledError, VirtualLoop
from tests.simulate.operator import Operator
from tests.simulate.plan import ENDS_AT_S, FAULTS_UNTIL_S, plan_of
from tests.simulate.recording import check_recording
from tests.simulate.referee import Referee
from tests.simulate.service import roles_of, stand_ins
from tests.simulate.shop import Shop
from tests.simulate.weather import Weather
from tests.simulate.world import Violation, World

LOOKS_EVERY_S = 10.0
#: Who is cancelled may start a task that gives a connection back.
ROUNDS_MAX = 5
#: A recording takes as long as half the run.
REPLAYED_EVERY = 4


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of a seed. `violation` is None where every promise was kept."""

    seed: int
    digest: str
    violation: str | None
    events: int
    steps: int
    virtual_s: float


def simulate(seed: int, *, tell: bool = False) -> Outcome:
    """Run a seed. The same seed gives the same outcome, in any process."""
    warm_up()
    plan = plan_of(seed)
    loop = VirtualLoop(Random(f"{seed}/scheduler"), shuffled=plan.shuffled)
    asyncio.set_event_loop(loop)
    quiet = structlog.make_filtering_bound_logger(50)
    violation = None
    with stand_ins(Random(f"{seed}/product")), _logs(quiet):
        world = World(plan, loop, tell=tell)
        referee = Referee(world)
        world.trace("plan", plan)
        try:
            loop.run_until_complete(_story(world, referee))
        except (Violation, StalledError, SpinningError) as error:
            violation = str(error)
        finally:
            with contextlib.suppress(StalledError, SpinningError):
                _end(world)
    outcome = Outcome(
        seed=seed,
        digest=world.digest,
        violation=violation,
        events=referee.checked,
        steps=loop.steps,
        virtual_s=loop.time(),
    )
    world.database.close()
    asyncio.set_event_loop(None)
    loop.close()
    return outcome


@contextlib.contextmanager
def _logs(kind: type) -> contextlib.Iterator[None]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=kind)
    try:
        yield
    finally:
        structlog.configure(**before)


async def _story(world: World, referee: Referee) -> None:
    roles = roles_of(world)
    shop = Shop(world, referee)
    weather = Weather(world, roles)
    for role in roles:
        world.do(role.keep_alive())
    weather.begin()
    world.do(shop.open())
    world.do(shop.listen())
    world.do(Operator(shop).work())
    course = world.loop.create_task(_course(world, shop, weather))
    await asyncio.wait([course, world.broken], return_when=asyncio.FIRST_COMPLETED)
    if world.broken.done():
        course.cancel()
        world.broken.result()
    course.result()


async def _course(world: World, shop: Shop, weather: Weather) -> None:
    """Wait for the faults to end, then for rest, then for the last block to be read; and judge."""
    referee = shop.referee
    await asyncio.sleep(FAULTS_UNTIL_S)
    weather.clear()
    while True:
        await _until(world, lambda: is_at_rest(world, referee))
        for street in world.streets:
            street.is_over = True
        await asyncio.sleep(2 * LOOKS_EVERY_S)
        shop.hear_all()
        if is_read(world) and is_at_rest(world, referee):
            break
        for street in world.streets:
            street.is_over = False
        await asyncio.sleep(LOOKS_EVERY_S)
        _require_time(world)
    check_ending(world, referee)
    if world.plan.seed % REPLAYED_EVERY == 0:
        await check_recording(world)


async def _until(world: World, rest: Callable[[], bool]) -> None:
    while not rest():
        _require_time(world)
        await asyncio.sleep(LOOKS_EVERY_S)


def _require_time(world: World) -> None:
    if world.loop.time() > ENDS_AT_S:
        raise Violation(f"not at rest after {ENDS_AT_S} s: {_what_is_open(world)}")


def _what_is_open(world: World) -> str:
    rows = world.database.raw.execute
    orders = rows("SELECT reference, phase, is_open FROM orders").fetchall()
    lanes = rows("SELECT lane, height, held FROM lanes").fetchall()
    held = rows("SELECT lane, next_offset FROM positions").fetchall()
    unsent = rows("SELECT count(*) FROM unsent").fetchone()
    holds = rows("SELECT subject, actor FROM holds").fetchall()
    heads = [(street.name, street.chain.height) for street in world.streets]
    return f"{orders} {lanes} {held} unsent {unsent} holds {holds} heads {heads}"


def _end(world: World) -> None:
    """Let everybody go."""
    loop = world.loop
    world.calm = True
    with contextlib.suppress(asyncio.CancelledError):
        if not world.broken.done():
            world.broken.cancel()
    for _ in range(ROUNDS_MAX):
        tasks = asyncio.all_tasks(loop)
        if not tasks:
            return
        for task in sorted(tasks, key=hash):
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks, timeout=60))
