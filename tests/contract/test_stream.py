"""What `reconciler.stream.promise` promises, on every stream that there is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest

from reconciler.kernel.checks import InvariantBroken
from reconciler.stream.promise import (
    Batch,
    Fenced,
    Group,
    Lane,
    LaneLost,
    LaneReader,
    MessageTooLarge,
    OutcomeUnknown,
    Outgoing,
    PositionLost,
    Record,
    Stream,
    StreamError,
    TopicsDiffer,
    TopicSpec,
    Writer,
    partition_of,
    read_all,
)
from tests.parts.memory_stream import InMemory
from tests.parts.streams import KafkaLog, Log, SqlLog, held, lose_the_answer

DAY_S = 86_400
FACTS = TopicSpec(name="facts", partitions=3, cleanup="delete", retention_s=30 * DAY_S)
EVENTS = TopicSpec(name="events", partitions=1, cleanup="delete", retention_s=90 * DAY_S)
LAST = TopicSpec(name="last", partitions=1, cleanup="compact", retention_s=None)
TOPICS = [FACTS, EVENTS, LAST]
FIRST, SECOND, THIRD = (Lane(topic="facts", partition=index) for index in range(3))
EVENT = Lane(topic="events", partition=0)
PATIENCE_S = 20.0


@pytest.fixture(
    params=[
        pytest.param("memory"),
        pytest.param("memory_with_holes"),
        pytest.param("sqlite"),
        pytest.param("postgresql", marks=pytest.mark.postgres),
        pytest.param("kafka", marks=pytest.mark.kafka),
    ]
)
async def log(request: pytest.FixtureRequest) -> AsyncIterator[Log]:
    made: Log
    if request.param.startswith("memory"):
        made = InMemory(marker_holes=request.param != "memory")
    elif request.param == "sqlite":
        made = SqlLog(request.getfixturevalue("sqlite_url"))
    elif request.param == "postgresql":
        made = SqlLog(request.getfixturevalue("postgres_url"))
    else:
        broker = request.getfixturevalue("kafka_broker")
        made = KafkaLog(broker.bootstrap, request.getfixturevalue("kafka_prefix"))
    await made.prepare()
    yield made
    await made.close()


@pytest.fixture
async def stream(log: Log) -> Stream:
    opened = await log.open()
    await opened.create_topics(TOPICS)
    return opened


def message(lane: Lane, value: bytes | None = b"v", *, key: bytes = b"k", headers=()) -> Outgoing:
    return Outgoing(lane=lane, key=key, value=value, headers=headers)


def numbered(lane: Lane, numbers: Sequence[int]) -> list[Outgoing]:
    return [message(lane, str(number).encode()) for number in numbers]


def numbers(records: Sequence[Record]) -> list[int]:
    return [int(record.value or b"-1") for record in records]


async def started(stream: Stream, name: str) -> Writer:
    writer = stream.writer(name)
    await writer.start()
    return writer


async def arrived(stream: Stream, lane: Lane, count: int) -> list[Record]:
    """Wait until a lane shows so many records; give all that it shows."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = list(await read_all(stream, lane))
            if len(found) >= count:
                return found
            await asyncio.sleep(0.01)


async def shows(stream: Stream, lane: Lane, expected: Sequence[int]) -> None:
    assert numbers(await arrived(stream, lane, len(expected))) == list(expected)


async def next_numbers(reader: LaneReader, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            batch = await reader.read(records_max=count - len(found), wait_s=1.0)
            found += numbers(batch.records)
    return found


async def lanes_of(*groups: Group, until: Sequence[int]) -> list[dict[Lane, LaneReader]]:
    """Wait until the groups share three lanes, so many each."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            shares = [dict(await group.lanes()) for group in groups]
            all_lanes = [lane for share in shares for lane in share]
            sizes = sorted(len(share) for share in shares)
            if sizes == sorted(until) and len(set(all_lanes)) == len(all_lanes):
                return shares
            await asyncio.wait(
                [asyncio.create_task(group.changed(0.2)) for group in groups],
                return_when=asyncio.FIRST_COMPLETED,
            )


# Order, atomicity, visibility


async def test_a_lane_keeps_the_order_of_appends(stream: Stream) -> None:
    writer = await started(stream, "writer")
    for start in range(0, 50, 10):
        await writer.append(numbered(FIRST, range(start, start + 10)))
    records = await arrived(stream, FIRST, 50)
    assert numbers(records) == list(range(50))
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))


async def test_an_append_over_topics_and_lanes_is_seen_at_once(log: Log, stream: Stream) -> None:
    other = await log.open()
    writer = await started(stream, "writer")
    lanes = [FIRST, SECOND, THIRD, EVENT]
    await writer.append([message(lane) for lane in lanes])
    assert [len(await arrived(other, lane, 1)) for lane in lanes] == [1, 1, 1, 1]


async def test_nothing_is_seen_before_the_commit(log: Log, stream: Stream) -> None:
    other = await log.open()
    writer = await started(stream, "writer")
    await writer.append(numbered(FIRST, [1]))
    async with held(writer, [*numbered(FIRST, [2]), *numbered(EVENT, [2])]) as append:
        await shows(other, FIRST, [1])
        await shows(other, EVENT, [])
        await append.let_go()
    await shows(other, FIRST, [1, 2])
    await shows(other, EVENT, [2])


async def test_what_was_given_up_is_never_read(stream: Stream) -> None:
    writer = await started(stream, "writer")
    await writer.append(numbered(FIRST, [1]))
    lose_the_answer(writer, after_commit=False)
    with pytest.raises(OutcomeUnknown):
        await writer.append(numbered(FIRST, [2, 3]))
    await writer.start()
    await writer.append(numbered(FIRST, [4]))
    await shows(stream, FIRST, [1, 4])


async def test_an_empty_append_is_a_no_op(stream: Stream) -> None:
    writer = await started(stream, "writer")
    before = await stream.bounds(FIRST)
    await writer.append([])
    assert await stream.bounds(FIRST) == before


async def test_appends_of_one_writer_wait_for_each_other(stream: Stream) -> None:
    writer = await started(stream, "writer")
    async with asyncio.TaskGroup() as tasks:
        for number in range(20):
            tasks.create_task(writer.append(numbered(FIRST, [number, number])))
    found = numbers(await arrived(stream, FIRST, 40))
    assert sorted(found) == sorted([*range(20), *range(20)])
    assert found[::2] == found[1::2]


async def test_eight_writers_lose_nothing_and_keep_their_own_order(
    log: Log, stream: Stream
) -> None:
    async def write(writer_number: int) -> None:
        client = await log.open()
        writer = await started(client, f"writer-{writer_number}")
        for start in range(0, 1_000, 50):
            values = range(writer_number * 1_000 + start, writer_number * 1_000 + start + 50)
            await writer.append(numbered(FIRST, values))

    async def follow() -> list[int]:
        """Read while they write: a reader that is ahead of a commit must not lose it."""
        found: list[int] = []
        offset = 0
        while len(found) < 8_000:
            batch = await stream.read(FIRST, from_offset=offset, records_max=500, wait_s=1.0)
            found += numbers(batch.records)
            offset = batch.next_offset
        return found

    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(follow())
        for writer_number in range(8):
            tasks.create_task(write(writer_number))
    found = following.result()
    assert sorted(found) == list(range(8_000))
    for writer_number in range(8):
        own = [number for number in found if number // 1_000 == writer_number]
        assert own == sorted(own)
    await shows(stream, FIRST, found)


# Fencing and settling


@pytest.mark.parametrize("name", ["watch/eip155:1", "relay/0"])
async def test_a_writer_that_wakes_up_after_its_successor_started_is_fenced(
    log: Log, stream: Stream, name: str
) -> None:
    old = await started(stream, name)
    await old.append(numbered(FIRST, [1]))
    young = await started(await log.open(), name)
    with pytest.raises(Fenced):
        await old.append(numbered(FIRST, [2]))
    await young.append(numbered(FIRST, [3]))
    with pytest.raises(Fenced):
        await old.append(numbered(FIRST, [4]))
    await old.close()
    await young.append(numbered(FIRST, [5]))
    await shows(stream, FIRST, [1, 3, 5])


@pytest.mark.parametrize("name", ["watch/eip155:1", "relay/0"])
async def test_a_writer_that_wakes_up_in_the_middle_of_an_append_is_fenced(
    log: Log, stream: Stream, name: str
) -> None:
    if isinstance(log, SqlLog) and log.is_sqlite:
        pytest.skip("SQLite: one process; nobody starts while it is in the middle of an append")
    old = await started(stream, name)
    async with held(old, numbered(FIRST, [1])) as append:
        young = await started(await log.open(), name)
        await young.append(numbered(FIRST, [2]))
        with pytest.raises(StreamError) as raised:
            await append.let_go()
    # PostgreSQL has ended the connection of the one who slept: only the next append says why.
    if not isinstance(raised.value, Fenced):
        assert isinstance(raised.value, OutcomeUnknown)
    await young.append(numbered(FIRST, [3]))
    await shows(stream, FIRST, [2, 3])


async def test_writers_of_other_names_do_not_fence_each_other(log: Log, stream: Stream) -> None:
    one = await started(stream, "relay/0")
    other = await started(await log.open(), "relay/1")
    await one.append(numbered(FIRST, [1]))
    await other.append(numbered(FIRST, [2]))
    await one.append(numbered(FIRST, [3]))
    await shows(stream, FIRST, [1, 2, 3])


@pytest.mark.parametrize("happened", [True, False])
async def test_start_settles_an_append_whose_answer_was_lost(
    stream: Stream, happened: bool
) -> None:
    writer = await started(stream, "writer")
    lose_the_answer(writer, after_commit=happened)
    with pytest.raises(OutcomeUnknown):
        await writer.append([*numbered(FIRST, [1]), *numbered(EVENT, [1])])
    with pytest.raises(OutcomeUnknown):
        await writer.append(numbered(FIRST, [2]))
    await writer.start()
    happens = [1] if happened else []
    assert numbers(await read_all(stream, FIRST)) == happens
    assert numbers(await read_all(stream, EVENT)) == happens
    await writer.append(numbered(FIRST, [3]))
    await shows(stream, FIRST, [*happens, 3])


async def test_a_cancelled_append_has_to_be_settled(stream: Stream) -> None:
    writer = await started(stream, "writer")
    async with held(writer, numbered(FIRST, [1])):
        pass
    with pytest.raises(OutcomeUnknown):
        await writer.append(numbered(FIRST, [2]))
    await writer.start()
    lost = numbers(await read_all(stream, FIRST))
    await writer.append(numbered(FIRST, [3]))
    await shows(stream, FIRST, [*lost, 3])


async def test_appends_cancelled_anywhere_hold_up_nobody(log: Log, stream: Stream) -> None:
    other = await started(await log.open(), "other")
    writer = stream.writer("writer")
    for turns in range(0, 400, 10):
        await writer.start()
        append = asyncio.create_task(writer.append(numbered(FIRST, [1, 2])))
        for _ in range(turns):
            await asyncio.sleep(0)
        append.cancel()
        await asyncio.wait([append])
        async with asyncio.timeout(2.0):
            await other.append(numbered(FIRST, [3]))
    await writer.start()
    found = numbers(await arrived(stream, FIRST, 40))
    assert found.count(3) == 40
    assert found.count(1) == found.count(2)


async def test_closing_a_writer_keeps_its_name(log: Log, stream: Stream) -> None:
    old = await started(stream, "writer")
    await old.close()
    await old.close()
    young = await started(await log.open(), "writer")
    await young.append(numbered(FIRST, [1]))
    await shows(stream, FIRST, [1])


# What a record carries


async def test_keys_values_and_headers_come_back_byte_for_byte(stream: Stream) -> None:
    every_byte = bytes(range(256))
    headers = (("ce_type", every_byte), ("ce_type", b""), ("café", b"\x00"))
    writer = await started(stream, "writer")
    await writer.append(
        [
            message(FIRST, every_byte, key=every_byte, headers=headers),
            message(FIRST, b"", key=b""),
            message(Lane(topic="last", partition=0), None, key=b"gone"),
        ]
    )
    first, second = await arrived(stream, FIRST, 2)
    (gone,) = await arrived(stream, Lane(topic="last", partition=0), 1)
    assert (first.key, first.value, first.headers) == (every_byte, every_byte, headers)
    assert (second.key, second.value, second.headers) == (b"", b"", ())
    assert (gone.key, gone.value) == (b"gone", None)


async def test_times_are_the_logs_and_do_not_fall(log: Log, stream: Stream) -> None:
    writers = [await started(await log.open(), f"writer-{index}") for index in range(3)]
    for number in range(30):
        await writers[number % 3].append(numbered(FIRST, [number]))
    times = [record.time for record in await arrived(stream, FIRST, 30)]
    assert times == sorted(times)
    assert all(time.utcoffset() is not None for time in times)
    assert times[0] < times[-1]


async def test_a_message_too_large_for_its_topic_is_refused_by_name(stream: Stream) -> None:
    writer = await started(stream, "writer")
    too_large = message(FIRST, b"x" * FACTS.message_bytes_max)
    with pytest.raises(MessageTooLarge, match=r"facts/0: a message takes 1048576 bytes"):
        await writer.append([message(EVENT), too_large])
    just_fits = message(FIRST, b"x" * (FACTS.message_bytes_max - 200))
    await writer.append([just_fits])
    (record,) = await arrived(stream, FIRST, 1)
    assert record.value == just_fits.value
    assert await read_all(stream, EVENT) == []


# Reading without a group


async def test_bounds_and_reading_with_holes(stream: Stream) -> None:
    assert await stream.bounds(FIRST) == (0, 0)
    writer = await started(stream, "writer")
    for number in range(3):
        await writer.append(numbered(FIRST, [number]))
    await shows(stream, FIRST, range(3))
    first, end = await stream.bounds(FIRST)
    assert first == 0
    offset, found = 0, []
    while offset < end:
        batch = await stream.read(FIRST, from_offset=offset, records_max=1, wait_s=0.5)
        assert len(batch.records) <= 1
        assert batch.next_offset > offset
        found += batch.records
        offset = batch.next_offset
    assert numbers(found) == [0, 1, 2]
    assert offset == end > found[-1].offset
    assert await stream.read(FIRST, from_offset=end, records_max=1) == Batch(
        lane=FIRST, records=[], next_offset=end
    )


async def test_what_is_there_is_given_without_waiting(log: Log, stream: Stream) -> None:
    writer = await started(stream, "writer")
    await writer.append(numbered(FIRST, range(5)))
    await shows(stream, FIRST, range(5))
    other = await log.open()
    batch = await other.read(FIRST, from_offset=0, records_max=10)
    assert numbers(batch.records) == [0, 1, 2, 3, 4]
    async with member(stream) as group:
        (share,) = await lanes_of(group, until=[3])
        await share[FIRST].seek(None)
        batch = await share[FIRST].read(records_max=2, wait_s=0)
        assert numbers(batch.records) == [0, 1]


async def test_reading_below_the_beginning_starts_at_the_beginning(
    log: Log, stream: Stream
) -> None:
    writer = await started(stream, "writer")
    await writer.append(numbered(FIRST, range(5)))
    fourth = (await arrived(stream, FIRST, 5))[3].offset
    await log.forget_before(FIRST, fourth)
    assert (await stream.bounds(FIRST))[0] == fourth
    batch = await stream.read(FIRST, from_offset=0, records_max=10, wait_s=1.0)
    assert numbers(batch.records) == [3, 4]


async def test_a_waiting_read_is_woken_by_an_append(log: Log, stream: Stream) -> None:
    writer = await started(await log.open(), "writer")
    waiting = asyncio.create_task(
        stream.read(FIRST, from_offset=0, records_max=10, wait_s=PATIENCE_S)
    )
    await writer.append(numbered(FIRST, [1]))
    assert numbers((await waiting).records) == [1]


async def test_reading_a_lane_that_does_not_exist_says_so(stream: Stream) -> None:
    with pytest.raises(TopicsDiffer, match="topic nowhere is missing"):
        await stream.read(Lane(topic="nowhere", partition=0), from_offset=0, records_max=1)
    writer = await started(stream, "writer")
    with pytest.raises(TopicsDiffer, match="facts has 3 partitions, found no 3"):
        await writer.append([message(FIRST), message(Lane(topic="facts", partition=3))])
    assert await read_all(stream, FIRST) == []


# Groups


@contextlib.asynccontextmanager
async def member(stream: Stream, name: str = "intake") -> AsyncIterator[Group]:
    group = stream.group(name, ["facts"])
    await group.start()
    try:
        yield group
    finally:
        await group.close()
        await group.close()


async def test_a_lone_member_gets_every_lane_and_keeps_its_readers(stream: Stream) -> None:
    async with member(stream) as group:
        (share,) = await lanes_of(group, until=[3])
        assert sorted(share) == [FIRST, SECOND, THIRD]
        assert all(reader.lane == lane for lane, reader in share.items())
        again = await group.lanes()
        assert all(again[lane] is reader for lane, reader in share.items())


async def test_a_reader_starts_disarmed(stream: Stream) -> None:
    writer = await started(stream, "writer")
    await writer.append(numbered(FIRST, [1]))
    async with member(stream) as group:
        (share,) = await lanes_of(group, until=[3])
        with pytest.raises(InvariantBroken, match="facts/0: read before seek"):
            await share[FIRST].read(records_max=1, wait_s=0)


async def test_a_reader_reads_on_from_where_it_was_armed(stream: Stream) -> None:
    writer = await started(stream, "writer")
    for number in range(10):
        await writer.append(numbered(FIRST, [number]))
    fifth = (await arrived(stream, FIRST, 10))[5].offset
    async with member(stream) as group:
        (share,) = await lanes_of(group, until=[3])
        reader = share[FIRST]
        await reader.seek(None)
        assert await next_numbers(reader, 4) == [0, 1, 2, 3]
        await reader.seek(fifth)
        assert await next_numbers(reader, 5) == [5, 6, 7, 8, 9]
        await reader.seek(None)
        assert await next_numbers(reader, 10) == list(range(10))
        await writer.append(numbered(FIRST, [10]))
        assert await next_numbers(reader, 1) == [10]


async def test_seek_again_after_a_failed_transaction_gives_the_same_batch(stream: Stream) -> None:
    writer = await started(stream, "writer")
    await writer.append(numbered(FIRST, range(600)))
    async with member(stream) as group:
        (share,) = await lanes_of(group, until=[3])
        reader = share[FIRST]
        position = 0
        found: list[int] = []
        for attempt in range(12):
            await reader.seek(position)
            batch = await reader.read(records_max=100, wait_s=5.0)
            if attempt % 2:
                found += numbers(batch.records)
                position = batch.next_offset
        assert found == list(range(600))


async def test_a_position_that_is_no_longer_kept_is_an_alarm(log: Log, stream: Stream) -> None:
    writer = await started(stream, "writer")
    await writer.append(numbered(FIRST, range(5)))
    fourth = (await arrived(stream, FIRST, 5))[3].offset
    async with member(stream) as group:
        (share,) = await lanes_of(group, until=[3])
        reader = share[FIRST]
        await reader.seek(1)
        await log.forget_before(FIRST, fourth)
        with pytest.raises(PositionLost, match="facts/0"):
            await next_numbers(reader, 4)
        with pytest.raises(PositionLost, match="facts/0"):
            await reader.seek(1)
        with pytest.raises(PositionLost, match="beyond the end"):
            await reader.seek(1_000)
        with pytest.raises(InvariantBroken):
            await reader.read(records_max=1, wait_s=0)
        await reader.seek(fourth)
        assert await next_numbers(reader, 2) == [3, 4]


async def test_two_members_share_the_lanes_and_each_record_is_read_once(
    log: Log, stream: Stream
) -> None:
    writer = await started(stream, "writer")
    lanes = [FIRST, SECOND, THIRD]
    for index, lane in enumerate(lanes):
        await writer.append(numbered(lane, range(index * 100, index * 100 + 10)))
    async with member(stream) as one, member(await log.open()) as other:
        shares = await lanes_of(one, other, until=[1, 2])
        found: list[int] = []
        for share in shares:
            for reader in share.values():
                await reader.seek(None)
                found += await next_numbers(reader, 10)
    assert sorted(found) == [*range(10), *range(100, 110), *range(200, 210)]


async def test_lanes_change_hands_when_a_member_comes_and_goes(log: Log, stream: Stream) -> None:
    writer = await started(stream, "writer")
    async with member(stream) as stays:
        (before,) = await lanes_of(stays, until=[3])
        for reader in before.values():
            await reader.seek(None)
        async with member(await log.open()) as leaves:
            kept, given = await lanes_of(stays, leaves, until=[1, 2])
            lost = [before[lane] for lane in given]
            for reader in lost:
                with pytest.raises(LaneLost):
                    await reader.read(records_max=1, wait_s=0)
            for lane, reader in kept.items():
                assert reader is before[lane]
                await writer.append(numbered(lane, [lane.partition]))
                assert await next_numbers(reader, 1) == [lane.partition]
        (after,) = await lanes_of(stays, until=[3])
        for lane in given:
            assert after[lane] is not before[lane]
            with pytest.raises(InvariantBroken):
                await after[lane].read(records_max=1, wait_s=0)
            with pytest.raises(LaneLost):
                await before[lane].seek(None)
            await after[lane].seek(None)


async def test_a_lane_that_stays_is_read_on_through_a_rebalance(log: Log, stream: Stream) -> None:
    writer = await started(stream, "writer")
    async with member(stream) as stays:
        (before,) = await lanes_of(stays, until=[3])
        for lane, reader in before.items():
            await reader.seek(None)
            await writer.append(numbered(lane, [1, 2, 3]))
            assert await next_numbers(reader, 1) == [1]
        async with member(await log.open()) as comes:
            kept, _ = await lanes_of(stays, comes, until=[1, 2])
            for reader in kept.values():
                assert await next_numbers(reader, 2) == [2, 3]


async def test_stored_positions_read_every_record_once_through_rebalances(
    log: Log, stream: Stream
) -> None:
    """CH-K05. What intake does: the position moves with its effect, by compare-and-swap."""
    lanes = [FIRST, SECOND, THIRD]
    count = 300
    positions: dict[Lane, int | None] = dict.fromkeys(lanes)
    applied: dict[Lane, list[int]] = {lane: [] for lane in lanes}
    done = asyncio.Event()

    async def intake(client: Stream, until: asyncio.Event) -> None:
        held: dict[LaneReader, int | None] = {}
        async with member(client) as group:
            while not until.is_set():
                for reader in (await group.lanes()).values():
                    try:
                        if reader not in held:
                            await reader.seek(positions[reader.lane])
                            held[reader] = positions[reader.lane]
                        batch = await reader.read(records_max=7, wait_s=0.02)
                    except LaneLost:
                        held.pop(reader, None)
                        continue
                    if positions[reader.lane] != held[reader]:
                        del held[reader]
                        continue
                    applied[reader.lane] += numbers(batch.records)
                    positions[reader.lane] = held[reader] = batch.next_offset
                if not await group.lanes():
                    await group.changed(0.05)
                if sum(map(len, applied.values())) == 3 * count:
                    done.set()

    async def write() -> None:
        writer = await started(stream, "writer")
        for number in range(0, count, 10):
            await writer.append(
                [each for lane in lanes for each in numbered(lane, range(number, number + 10))]
            )

    async def come_and_go() -> None:
        client = await log.open()
        for turn in range(3):
            leave = asyncio.Event()
            async with asyncio.TaskGroup() as visiting:
                visiting.create_task(intake(client, leave))
                so_far = sum(map(len, applied.values()))
                while sum(map(len, applied.values())) < min(so_far + 100, 3 * count - turn):
                    await asyncio.sleep(0.01)
                leave.set()

    async with asyncio.timeout(2 * PATIENCE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(intake(await log.open(), done))
        tasks.create_task(come_and_go())
        tasks.create_task(write())
    assert applied == {lane: list(range(count)) for lane in lanes}


async def test_a_member_may_come_back(stream: Stream) -> None:
    for _ in range(2):
        async with member(stream) as group:
            await lanes_of(group, until=[3])


async def test_groups_of_other_names_read_the_same_lanes(log: Log, stream: Stream) -> None:
    writer = await started(stream, "writer")
    await writer.append(numbered(FIRST, [1, 2]))
    async with member(stream, "intake") as one, member(await log.open(), "shop") as other:
        for group in (one, other):
            (share,) = await lanes_of(group, until=[3])
            await share[FIRST].seek(None)
            assert await next_numbers(share[FIRST], 2) == [1, 2]


async def test_a_group_of_a_topic_that_does_not_exist_is_refused(stream: Stream) -> None:
    with pytest.raises(TopicsDiffer, match="nowhere"):
        await stream.group("intake", ["facts", "nowhere"]).start()


# Topics


async def test_topics_are_made_once_and_compared(stream: Stream) -> None:
    assert await stream.create_topics(TOPICS) == []
    assert await stream.compare_topics(TOPICS) == []
    more = TopicSpec(name="more", partitions=1, cleanup="delete", retention_s=DAY_S)
    assert await stream.compare_topics([more]) == ["topic more is missing"]
    assert await stream.create_topics([FACTS, more]) == ["more"]
    assert await stream.compare_topics([*TOPICS, more]) == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"partitions": 4}, "topic facts: expected partitions 4, found 3"),
        (
            {"retention_s": DAY_S},
            "topic facts: expected retention_s 86400, found 2592000",
        ),
        (
            {"message_bytes_max": 2_000_000},
            "topic facts: expected message_bytes_max 2000000, found 1048576",
        ),
    ],
)
async def test_every_difference_of_a_topic_is_said(
    stream: Stream, changed: dict[str, int], sentence: str
) -> None:
    fields = {"name": "facts", "partitions": 3, "cleanup": "delete", "retention_s": 30 * DAY_S}
    wanted = TopicSpec(**{**fields, **changed})
    assert await stream.compare_topics([wanted]) == [sentence]
    assert await stream.create_topics([wanted]) == []
    assert await stream.compare_topics([FACTS]) == []


async def test_another_cleanup_is_said_with_its_retention(stream: Stream) -> None:
    wanted = TopicSpec(name="facts", partitions=3, cleanup="compact", retention_s=None)
    assert await stream.compare_topics([wanted]) == [
        "topic facts: expected cleanup compact, found delete",
        "topic facts: expected retention_s None, found 2592000",
    ]


@pytest.mark.parametrize(
    ("key", "partitions", "expected"),
    [(b"", 3, 1), (b"order-1", 3, 2), (b"order-1", 6, 2), (b"order-2", 6, 1), (b"k", 1, 0)],
)
def test_a_key_keeps_its_partition_for_ever(key: bytes, partitions: int, expected: int) -> None:
    assert partition_of(key, partitions) == expected
