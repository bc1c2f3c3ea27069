"""Readers that share lanes, by leases in the database.

A member says every few seconds that it lives, and in the same transaction looks at who has what. Only the
owner gives a lane away, or anybody once the owner's lease has run out; so a lane has one reader, and
never stays without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec
import structlog
from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from chains.heed import heed_cancellation
from reconciler.storage.stream_tables import (
    stream_groups,
    stream_lanes,
    stream_leases,
    stream_members,
)
from reconciler.stream.promise import (
    Lane,
    LaneReader,
    StreamUnavailable,
    TopicsDiffer,
)
from reconciler.stream.reader import Bounds, Fetch, GroupReader
from reconciler.stream.sharing import share_out
from reconciler.stream.sql_database import (
    Database,
    News,
    Wake,
    unavailable_when_unreachable,
    wait_for_news,
)
from reconciler.stream.tasks import stop_tasks

RENEWALS_PER_LEASE: Final = 4
US: Final = 1_000_000

log = structlog.get_logger(__name__)


class _Shares(NamedTuple):
    """What one look at the group found."""

    mine: Mapping[int, Lane]
    generation: int


class SqlGroup:
    """One member of a group."""

    def __init__(
        self,
        database: Database,
        shared: Wake,
        *,
        name: str,
        topics: Sequence[str],
        lease_s: float,
        bounds: Bounds,
        fetch: Fetch,
    ) -> None:
        self._database = database
        self._shared = shared
        self._name = name
        self._topics = tuple(topics)
        self._lease_s = lease_s
        self._bounds = bounds
        self._fetch = fetch
        self._member = uuid4().hex
        self._readers: dict[Lane, GroupReader] = {}
        self._changed = asyncio.Event()
        self._lease_ends = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Join."""
        await self._renew()
        self._tasks.append(asyncio.create_task(self._renew_for_ever()))

    async def lanes(self) -> Mapping[Lane, LaneReader]:
        """Give the lanes that are ours now."""
        self._check_alive()
        self._drop_when_expired()
        self._changed.clear()
        return dict(self._readers)

    async def changed(self, wait_s: float) -> None:
        """Wait for another sharing."""
        self._check_alive()
        try:
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        except TimeoutError:
            self._drop_when_expired()

    async def close(self) -> None:
        """Leave: the lanes are free at once."""
        joined = bool(self._tasks)
        await stop_tasks(self._tasks)
        self._keep({})
        if not joined:
            return
        with unavailable_when_unreachable(f"leaving group {self._name}"):
            async with self._database.writing() as connection:
                await self._lock(connection)
                await self._forget(connection, [self._member])
                await self._database.notify(connection, News.SHARED)
        self._shared.all()

    def _holds(self, reader: GroupReader) -> bool:
        """Tell whether a reader's lane is still ours, as far as we can know."""
        self._drop_when_expired()
        return self._readers.get(reader.lane) is reader

    def _check_alive(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    def _drop_when_expired(self) -> None:
        if self._readers and asyncio.get_running_loop().time() > self._lease_ends:
            log.warning("the lease on our lanes ran out", group=self._name)
            self._keep({})

    async def _renew_for_ever(self) -> None:
        interval_s = self._lease_s / RENEWALS_PER_LEASE
        clock = asyncio.get_running_loop().time
        generation: int | None = None
        while True:
            heed_cancellation()
            news = self._shared.next()
            renew_at = clock() + interval_s
            try:
                generation = await self._renew()
            except StreamUnavailable as error:
                log.warning("the lease was not renewed", group=self._name, reason=str(error))
            while clock() < renew_at and not await self._is_shared_anew(generation):
                await wait_for_news(news, renew_at - clock())
                news = self._shared.next()

    async def _is_shared_anew(self, generation: int | None) -> bool:
        query = select(stream_groups.c.generation).where(stream_groups.c.name == self._name)
        try:
            with unavailable_when_unreachable(f"group {self._name}"):
                async with self._database.reading() as connection:
                    return (await connection.execute(query)).scalar() != generation
        except StreamUnavailable:
            return False

    async def _renew(self) -> int:
        """Say that we live, take what is ours, give away what is not. Give the group's generation."""
        started = asyncio.get_running_loop().time()
        with unavailable_when_unreachable(f"group {self._name}"):
            async with self._database.writing() as connection:
                before = await self._lock(connection)
                shares = await self._share(connection, before)
                if shares.generation != before:
                    await self._database.notify(connection, News.SHARED)
        self._lease_ends = started + self._lease_s
        self._keep(shares.mine)
        if shares.generation != before:
            self._shared.all()
        return shares.generation

    async def _lock(self, connection: AsyncConnection) -> int:
        """Lock the group; nobody else shares out now. Give its generation."""
        await self._database.guard_locks(connection)
        locked = (
            self._database.insert(stream_groups)
            .values(name=self._name, generation=0)
            .on_conflict_do_update(
                index_elements=[stream_groups.c.name],
                set_={"generation": stream_groups.c.generation},
            )
            .returning(stream_groups.c.generation)
        )
        return int((await connection.execute(locked)).scalar_one())

    async def _share(self, connection: AsyncConnection, generation: int) -> _Shares:
        changed = await self._say_alive(connection)
        changed |= await self._bury_the_dead(connection)
        lanes, wanting = await self._wanted(connection)
        owners = await self._owners(connection)
        changed |= await self._hand_over(connection, owners, share_out(wanting, owners))
        if changed:
            generation += 1
            await connection.execute(
                update(stream_groups)
                .where(stream_groups.c.name == self._name)
                .values(generation=generation)
            )
        owners = await self._owners(connection)
        mine = {lane: lanes[lane] for lane, who in owners.items() if who == self._member}
        return _Shares(mine, generation)

    async def _say_alive(self, connection: AsyncConnection) -> bool:
        expires_us = self._database.now_us() + int(self._lease_s * US)
        renewed = (
            update(stream_members)
            .where(
                stream_members.c.group_name == self._name,
                stream_members.c.member == self._member,
            )
            .values(expires_us=expires_us)
            .returning(stream_members.c.member)
        )
        if (await connection.execute(renewed)).first() is not None:
            return False
        await connection.execute(
            insert(stream_members).values(
                group_name=self._name,
                member=self._member,
                topics=msgspec.json.encode(self._topics).decode(),
                expires_us=expires_us,
            )
        )
        return True

    async def _bury_the_dead(self, connection: AsyncConnection) -> bool:
        dead = select(stream_members.c.member).where(
            stream_members.c.group_name == self._name,
            stream_members.c.expires_us < self._database.now_us(),
        )
        members = list((await connection.execute(dead)).scalars())
        if members:
            await self._forget(connection, members)
        return bool(members)

    async def _forget(self, connection: AsyncConnection, members: Sequence[str]) -> None:
        """Remove members and their leases; moves the generation when they left by themselves."""
        for table in (stream_leases, stream_members):
            await connection.execute(
                delete(table).where(table.c.group_name == self._name, table.c.member.in_(members))
            )
        await connection.execute(
            update(stream_groups)
            .where(stream_groups.c.name == self._name)
            .values(generation=stream_groups.c.generation + 1)
        )

    async def _wanted(
        self, connection: AsyncConnection
    ) -> tuple[Mapping[int, Lane], Mapping[int, list[str]]]:
        """Find all lanes of the group's topics, and who wants each."""
        query = select(stream_members.c.member, stream_members.c.topics).where(
            stream_members.c.group_name == self._name
        )
        topics_of = {
            member: set(msgspec.json.decode(topics, type=list[str]))
            for member, topics in (await connection.execute(query)).all()
        }
        lanes_query = select(stream_lanes).where(
            stream_lanes.c.topic.in_(set().union(*topics_of.values()))
        )
        lanes = {
            row.lane_id: Lane(topic=row.topic, partition=row.partition_index)
            for row in (await connection.execute(lanes_query)).all()
        }
        if missing := set(self._topics) - {lane.topic for lane in lanes.values()}:
            message = f"group {self._name}: topics {sorted(missing)} are missing"
            raise TopicsDiffer(message)
        wanting = {
            lane_id: [member for member, topics in topics_of.items() if lane.topic in topics]
            for lane_id, lane in lanes.items()
        }
        return lanes, wanting

    async def _owners(self, connection: AsyncConnection) -> Mapping[int, str]:
        query = select(stream_leases.c.lane_id, stream_leases.c.member).where(
            stream_leases.c.group_name == self._name
        )
        return {row.lane_id: row.member for row in (await connection.execute(query)).all()}

    async def _hand_over(
        self,
        connection: AsyncConnection,
        owners: Mapping[int, str],
        shares: Mapping[int, str | None],
    ) -> bool:
        """Give free lanes out, and ours to whom they belong now. Others give theirs themselves."""
        changed = False
        for lane_id, member in shares.items():
            owner = owners.get(lane_id)
            if member is None or member == owner:
                continue
            if owner is None:
                await connection.execute(
                    insert(stream_leases).values(
                        group_name=self._name, lane_id=lane_id, member=member
                    )
                )
            elif owner == self._member:
                await connection.execute(
                    update(stream_leases)
                    .where(
                        stream_leases.c.group_name == self._name,
                        stream_leases.c.lane_id == lane_id,
                    )
                    .values(member=member)
                )
            else:
                continue
            changed = True
        return changed

    def _keep(self, mine: Mapping[int, Lane]) -> None:
        lanes = set(mine.values())
        if lanes == set(self._readers):
            return
        self._readers = {
            lane: self._readers.get(lane)
            or GroupReader(lane, holds=self._holds, bounds=self._bounds, fetch=self._fetch)
            for lane in sorted(lanes)
        }
        self._changed.set()
