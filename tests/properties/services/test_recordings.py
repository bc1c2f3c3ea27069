"""What was applied, written down and applied again, tells the same: to the byte, an order's and an
exception's messages in their order.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.commands.replay import read_line
from reconciler.exports.recording import applied_lines, count_applied, write_line
from reconciler.services.replay import Replay, empty_store
from reconciler.storage.pages import snapshot
from tests.parts.stories import LAZY, Pace, Teller, act, moves, outcome
from tests.parts.world import World
from tests.properties.services.test_cuts import STORIES

Told = dict[tuple[str, str], list[bytes]]


async def recorded(world: World) -> bytes:
    """The recording, as the command writes it."""
    async with snapshot(world.store.engine) as work:
        lines = [write_line(line) async for line in applied_lines(work)]
        assert await count_applied(work) == len(lines)
    return "".join(line + "\n" for line in lines).encode()


async def replayed(world: World, recording: bytes) -> tuple[bytes, Told]:
    """What a replay prints, and the same by topic and key."""
    printed: list[str] = []
    found: Told = {}
    async with empty_store() as store:
        run = Replay(store, world.context)
        for number, text in enumerate(recording.splitlines(keepends=True), start=1):
            told = (await run.apply(number, read_line(number, text))).told
            for line in told:
                printed.append(write_line(line))
                found.setdefault((line.topic, line.key), []).append(bytes(line.value))
        for line in (await run.end()).told:
            printed.append(write_line(line))
            found.setdefault((line.topic, line.key), []).append(bytes(line.value))
    return "\n".join(printed).encode(), found


async def check(
    story: list[tuple], lanes: int, pace: Pace, *, twice: bool = False, look_s: int = 0
) -> None:
    """A run at any pace is recorded; the recording tells what the run told, and so does its own."""
    author = await World.open(lanes=lanes, second_look_s=look_s)
    run = await World.open(lanes=lanes, second_look_s=look_s)
    try:
        await act(run, await Teller(author).tell(story), pace)
        live = await outcome(run)
        recording = await recorded(run)
        first, told = await replayed(run, recording)
        assert told == live
        if twice:
            again, _ = await replayed(run, recording)
            assert again == first
    finally:
        await author.close()
        await run.close()


@pytest.mark.parametrize("name", STORIES)
async def test_recording_of_a_run_at_any_pace_tells_what_the_run_told_when(name: str) -> None:
    await check(STORIES[name], 2, LAZY)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
@given(moves(), st.sampled_from([1, 2]), st.integers(0, 2**16))
def test_recording_of_any_run_tells_what_the_run_told(story, lanes, seed) -> None:
    look_s = seed % 2 * 1_800
    asyncio.run(check(story, lanes, Pace(seed, 0.3, 0.2), twice=True, look_s=look_s))


async def test_recording_of_a_database_of_another_kind_is_the_same(postgres_url: str) -> None:
    """On PostgreSQL numbers come from a sequence and pages from other types."""
    story = [move for name in sorted(STORIES)[:6] for move in STORIES[name]]
    author = await World.open(lanes=2)
    worlds = [await World.open(url, lanes=2) for url in ("sqlite+aiosqlite://", postgres_url)]
    try:
        script = await Teller(author).tell(story)
        for world in worlds:
            await act(world, script, Pace(7, 0.3, 0.2))
        assert await outcome(worlds[0]) == await outcome(worlds[1])
        recordings = [await recorded(world) for world in worlds]
        assert recordings[0] == recordings[1]
        _, told = await replayed(worlds[1], recordings[1])
        assert told == await outcome(worlds[1])
    finally:
        for world in (author, *worlds):
            await world.close()


async def test_recording_holds_one_line_a_message_however_it_was_written(tmp_path: Path) -> None:
    world = await World.open()
    try:
        await Teller(world).tell(
            [
                ("place", 0, "own", 3),
                ("cover", 0),
                ("garbage", 0, 0),
                ("garbage", 0, 1),
                ("garbage", 0, 2),
            ]
        )
        recording = await recorded(world)
        assert recording.count(b"\n") == 5
        assert recording.count(b"value_base64") == 2
        _, told = await replayed(world, recording)
        assert told == await outcome(world)
    finally:
        await world.close()
