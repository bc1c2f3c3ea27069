"""Cases CH-G01 to G05 from a scripted node that changes its mind to events."""

from __future__ import annotations

from datetime import timedelta

import pytest

from chains.devnet.faults import AnyFault, RemovedLogs, TellTwice, Withhold
from reconciler.config import SettingsError
from schemas.codes import Attention, Phase
from schemas.facts import BlockRetracted, TransferSeen
from schemas.requests import ReleaseReorganisation
from tests.parts.settings import settings_of
from tests.parts.whole_way import Way, route_of, whole_way
from tests.parts.world import POLYGON, World

DUE = 25_000_000
LIMIT = 12


def told(way: Way, kind: type) -> list:
    return [
        fact
        for line in way.lines.values()
        for step in line.steps
        for fact in step.facts
        if isinstance(fact, kind)
    ]


# CH-G01


@pytest.fixture
async def polygon(quick_world: World):
    """Polygon without a notion of its own of what is final."""
    own = quick_world.context.routes["own"]
    async with whole_way(quick_world, [POLYGON], start=False) as way:
        way.polygon.chain.finality_lag(None)
        await way.polygon.open()
        quick_world.context.routes = {"own": route_of(own, way.polygon.asset("USDT"))}
        yield way


async def test_g01_157_blocks_are_taken_back_and_the_confirmation_with_them(polygon: Way) -> None:
    depth, line, world = 157, polygon.polygon, polygon.world
    assert world.catalogue.chain(POLYGON).reorganisation_limit > depth
    to = await polygon.place()
    tx = line.pay(to, DUE)
    await polygon.mine(depth, on=line)
    assert (await world.last()).phase is Phase.CONFIRMED
    line.chain.reorganise(depth, drop=[tx], beyond_finalized=True)
    await polygon.catch_up(line)
    events = await world.events("o-1")
    assert [event.kind.value for event in events[-2:]] == ["adjusted", "reversed"]
    assert events[-2].attention == (Attention.RETRACTED,)
    assert set(await world.open_exceptions()) == {"reversed"}
    assert (await world.journal())[-1] == "reversed"
    line.pay(to, DUE)
    await polygon.mine(3, on=line)
    assert (await world.last()).phase is Phase.CONFIRMED
    assert await world.open_exceptions() == {}


@pytest.mark.parametrize("more", [0, 1])
async def test_g01_the_limit_is_the_last_depth_that_needs_nobody(polygon: Way, more: int) -> None:
    line = polygon.polygon
    line.limit = LIMIT
    await line.restart()
    await polygon.place()
    await polygon.mine(LIMIT + 3, on=line)
    line.chain.reorganise(LIMIT + more, beyond_finalized=True)
    await polygon.catch_up(line)
    assert (line.loop.status().held is None) is (more == 0)
    assert (line.loop.status().retracted_total > 0) is (more == 0)


@pytest.mark.parametrize("released", [True, False])
async def test_g01_one_block_more_than_the_limit_waits_for_a_person(
    polygon: Way, released: bool
) -> None:
    """Nothing is retracted, nothing ends and nothing is confirmed until somebody agrees."""
    line, world = polygon.polygon, polygon.world
    line.limit = LIMIT
    await line.restart()
    to = await polygon.place()
    tx = line.pay(to, DUE)
    await polygon.mine(LIMIT + 1, on=line)
    line.chain.reorganise(LIMIT + 1, drop=[tx], beyond_finalized=True)
    await polygon.pass_time(timedelta(minutes=90), on=line)
    assert f"more than {LIMIT} blocks" in str(line.loop.status().held)
    assert told(polygon, BlockRetracted) == []
    assert (await world.last()).phase is Phase.CONFIRMED
    if released:
        line.loop.request(
            ReleaseReorganisation(request="r", chain=POLYGON, actor="ada", reason="seen elsewhere")
        )
        await polygon.pass_time(timedelta(minutes=30), on=line)
        assert (await world.last()).phase is Phase.EXPIRED
        assert "reversed" in await world.kinds("o-1")


async def test_g01_a_second_node_that_agrees_releases_as_well(quick_world: World) -> None:
    own = quick_world.context.routes["own"]
    async with whole_way(quick_world, [POLYGON], start=False) as way:
        line = way.polygon
        line.chain.finality_lag(None)
        line.second_node()
        line.limit = LIMIT
        await line.open()
        quick_world.context.routes = {"own": route_of(own, line.asset("USDT"))}
        to = await way.place()
        tx = line.pay(to, DUE)
        await way.mine(LIMIT + 1, on=line)
        line.chain.reorganise(LIMIT + 1, drop=[tx], beyond_finalized=True)
        await way.pass_time(timedelta(minutes=30), on=line)
        assert line.loop.status().held is None
        assert "reversed" in await quick_world.kinds("o-1")


@pytest.mark.parametrize("depth", [12, 128, 199])
def test_g01_settings_refuse_a_depth_that_polygon_has_undercut(tmp_path, depth: int) -> None:
    text = f"""
[database]
url = "sqlite+aiosqlite:///x.db"
[keys]
hashing = "0123456789abcdef0123456789abcdef"
[chains."{POLYGON}"]
rpc = ["http://127.0.0.1:1"]
[[routes]]
name = "own"
asset = "{POLYGON}/erc20:0xc2132D05D31c914a87C6611C10748AEb04B58e8F"
deposit = {{ mode = "given" }}
finality = [{{ depth = {depth} }}]
"""
    with pytest.raises(SettingsError, match="200"):
        settings_of(text, tmp_path)
    settings_of(text.replace(f"depth = {depth}", "depth = 200"), tmp_path)


# CH-G02


@pytest.mark.parametrize("before", [0, 2])
async def test_g02_mined_again_one_block_later_at_another_index_is_one_payment(
    each_reading: Way, before: int
) -> None:
    way, line, world = each_reading, each_reading.ethereum, each_reading.world
    to = await way.place()
    for _ in range(before):
        line.pay(line.wallet, 1)
    tx = line.pay(to, DUE)
    await way.mine(1)
    line.chain.reorganise(1, length=2, place={tx: 1})
    await way.catch_up(line)
    event = await world.last()
    assert (event.phase, event.received_pending, event.received_final) == (Phase.DETECTED, DUE, 0)
    assert [t.block.height for t in event.transfers] == [line.chain.height]
    await way.mine(1)
    assert (await world.last()).phase is Phase.DETECTED
    await way.mine(1)
    event = await world.last()
    assert (event.phase, event.received_final, len(event.transfers)) == (Phase.CONFIRMED, DUE, 1)
    assert event.transfers[0].block.hash == line.chain.block(line.chain.height - 2).hash
    seen = {fact.transfer for fact in told(way, TransferSeen)}
    assert len(seen) == 1, "its own receipt's third log stays that, wherever it is mined"


# CH-G03


@pytest.mark.parametrize("removed_logs", [True, False])
@pytest.mark.parametrize(
    "fault",
    [
        None,
        RemovedLogs(times=None),
        TellTwice(methods=("newHeads", "logs"), times=None),
        Withhold(methods=("newHeads", "logs"), times=None),
    ],
    ids=["silent", "all-marked-removed", "told-twice", "never-told"],
)
async def test_g03_orphans_are_found_by_parent_hash_whatever_the_removed_flag_says(
    quick_world: World, fault: AnyFault | None, removed_logs: bool
) -> None:
    async with whole_way(quick_world, start=False) as way:
        line = way.ethereum
        line.node.set(removed_logs=removed_logs)
        line.urls.append(way.devnet.socket_url(line.id))
        await line.open(watermark_every_s=0.0)
        if fault is not None:
            line.node.faults.add(fault)
        to = await way.place()
        tx = line.pay(to, DUE)
        await way.mine(1)
        assert (await quick_world.last()).received_pending == DUE
        line.chain.reorganise(1, drop=[tx])
        await way.catch_up(line)
        assert len(told(way, BlockRetracted)) == 1
        await way.pass_time(timedelta(minutes=15))
        assert await quick_world.kinds("o-1") == ["awaiting", "detected", "adjusted", "withdrawn"]
        assert (await quick_world.last()).received_pending == 0


# CH-G04


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_g04_every_block_of_the_new_branch_is_read(way: Way, place: int) -> None:
    line, world = way.ethereum, way.world
    to = await way.place()
    tx = line.pay(to, DUE)
    await way.mine(1)
    forked_at = line.chain.height
    line.chain.reorganise(1, length=3, place={tx: place})
    await way.catch_up(line)
    await way.mine(2)
    event = await world.last()
    assert event.phase is Phase.CONFIRMED
    assert event.transfers[0].block.height == forked_at + place
    assert "withdrawn" not in await world.kinds("o-1")
    assert await world.open_exceptions() == {}


async def test_g04_neighbour_there_and_back_again(way: Way) -> None:
    line = way.ethereum
    to = await way.place()
    tx = line.pay(to, DUE)
    await way.mine(2)
    for offset in (1, 0):
        line.chain.reorganise(2, length=2, place={tx: offset})
        await way.catch_up(line)
    await way.mine(3)
    event = await way.world.last()
    assert (event.phase, event.received_final, len(event.transfers)) == (Phase.CONFIRMED, DUE, 1)


# CH-G05


async def test_g05_rollback_of_all_that_hangs_on_it_is_repeated_without_harm(
    both_ways: Way,
) -> None:
    """Claimed, matched, told and journalled; then taken back, applied again, and by a new process."""
    way, line, world = both_ways, both_ways.ethereum, both_ways.world
    to = await way.place()
    tx = line.pay(to, DUE)
    await way.claim(tx)
    await way.mine(4)
    assert (await world.last()).phase is Phase.CONFIRMED
    line.chain.reorganise(4, drop=[tx])
    await way.catch_up(line)
    rolled_back = next(s for s in line.steps if any(isinstance(f, BlockRetracted) for f in s.facts))
    kinds = await world.kinds("o-1")
    await way.publish(line, rolled_back)
    await way.publish(line, rolled_back)
    assert await world.kinds("o-1") == kinds
    await line.restart()
    await way.pass_time(timedelta(minutes=15))
    assert (await world.last()).phase is Phase.REVERSED
    line.pay(to, DUE)
    await way.mine(3)
    event = await world.last()
    assert (event.phase, event.received_final) == (Phase.CONFIRMED, DUE)
    assert await world.open_exceptions() == {}


async def test_g01_blocks_that_the_watcher_no_longer_remembers_are_taken_back_as_well(
    quick_world: World,
) -> None:
    """Three times the limit, with a second node that agrees: orders lose what those blocks paid."""
    own = quick_world.context.routes["own"]
    async with whole_way(quick_world, [POLYGON], start=False) as way:
        line, depth = way.polygon, 5 * LIMIT
        line.chain.finality_lag(None)
        line.second_node()
        line.limit = LIMIT
        await line.open()
        quick_world.context.routes = {"own": route_of(own, line.asset("USDT"))}
        to = await way.place()
        tx = line.pay(to, DUE)
        for _ in range(depth):
            await way.mine(1, on=line)
        assert (await quick_world.last()).phase is Phase.CONFIRMED
        line.chain.reorganise(depth, drop=[tx], beyond_finalized=True)
        await way.pass_time(timedelta(minutes=30), on=line)
        assert "reversed" in await quick_world.kinds("o-1")
        assert "coverage_gap" not in await quick_world.open_exceptions()
