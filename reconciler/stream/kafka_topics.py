"""Looks after the topics of a Kafka cluster: makes them, and says how they are set up.

Never changes a topic that is there: the number of lanes is fixed for its life.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import NodeNotReadyError, kafka_errors
from msgspec import Struct

from reconciler.stream.checks import differences
from reconciler.stream.kafka_client import Cluster, check_code, unavailable_when_unreachable
from reconciler.stream.promise import TopicSpec

T = TypeVar("T")

REPLICAS_DEFAULT: Final = 3
ALREADY_EXISTS: Final = 36
VISIBLE_TIMEOUT_S: Final = 30.0
VISIBLE_POLL_S: Final = 0.1
ASK_AGAIN_MAX: Final = 10
ASK_AGAIN_S: Final = 0.2
FOR_EVER: Final = "-1"
MS: Final = 1_000


class Topic(Struct, frozen=True, kw_only=True):
    """A topic as the cluster has it; `spec` in our words, the rest as Kafka's settings."""

    spec: TopicSpec
    time_is_the_logs: bool
    settings: Mapping[str, str]


@contextlib.asynccontextmanager
async def connected(cluster: Cluster) -> AsyncIterator[Any]:
    """Open a client for the time of a block."""
    admin = cluster.admin()
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()


async def find_topics(cluster: Cluster) -> Mapping[str, Topic]:
    """Find our topics, by name without the prefix."""
    with unavailable_when_unreachable("describing topics"):
        async with connected(cluster) as admin:
            return await _elsewhere(lambda: _describe(admin, cluster))


async def create_missing(
    cluster: Cluster, specs: Sequence[TopicSpec], replicas: int | None
) -> Sequence[str]:
    """Make the topics that are missing and wait until they can be written to."""
    with unavailable_when_unreachable("creating topics"):
        async with connected(cluster) as admin:
            there = await _elsewhere(lambda: _describe(admin, cluster))
            wanted = [spec for spec in specs if spec.name not in there]
            if not wanted:
                return []
            copies = replicas or min(REPLICAS_DEFAULT, await _broker_count(admin))
            new = [_new_topic(cluster, spec, copies) for spec in wanted]
            answer = await _elsewhere(lambda: admin.create_topics(new))
            codes = {name: code for name, code, *_ in answer.topic_errors}
            made = [spec.name for spec in wanted if codes[cluster.prefix + spec.name] == 0]
            for spec in wanted:
                code = codes[cluster.prefix + spec.name]
                # Another process was faster: fine, comparing tells whether it made the same.
                if code != ALREADY_EXISTS:
                    check_code(code, kafka_errors, f"creating topic {spec.name}")
            await _wait_until_usable(admin, [cluster.prefix + spec.name for spec in wanted])
            return made


def compare(wanted: TopicSpec, found: Topic | None) -> list[str]:
    """Say how a topic differs, with what only Kafka can have otherwise."""
    said = differences(wanted, found.spec if found else None)
    if found is None:
        return said
    name = wanted.name
    if not found.time_is_the_logs:
        said.append(f"topic {name}: expected message.timestamp.type LogAppendTime")
    size = found.settings["retention.bytes"]
    if wanted.cleanup == "delete" and size != FOR_EVER:
        said.append(f"topic {name}: expected retention.bytes {FOR_EVER}, found {size}")
    return said


def _new_topic(cluster: Cluster, spec: TopicSpec, replicas: int) -> NewTopic:
    retention_ms = FOR_EVER if spec.retention_s is None else str(spec.retention_s * MS)
    return NewTopic(
        cluster.prefix + spec.name,
        spec.partitions,
        replicas,
        topic_configs={
            "cleanup.policy": spec.cleanup,
            "retention.ms": retention_ms,
            "retention.bytes": FOR_EVER,
            "max.message.bytes": str(spec.message_bytes_max),
            # A claim counts by when it reached the log, which its sender must not choose.
            "message.timestamp.type": "LogAppendTime",
            # One broker may be lost, and what was acknowledged is still on another.
            "min.insync.replicas": str(max(1, replicas - 1)),
            "unclean.leader.election.enable": "false",
        },
    )


async def _elsewhere(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask again when the broker that was asked is down: the client picks one without looking."""
    for _ in range(ASK_AGAIN_MAX):
        try:
            return await ask()
        except NodeNotReadyError:
            await asyncio.sleep(ASK_AGAIN_S)
    return await ask()


async def _describe(admin: Any, cluster: Cluster) -> Mapping[str, Topic]:
    described = await admin.describe_topics()
    partitions = {
        topic["topic"]: len(topic["partitions"])
        for topic in described
        if not topic["is_internal"] and topic["topic"].startswith(cluster.prefix)
    }
    if not partitions:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in partitions]
    found: dict[str, Topic] = {}
    for answer in await admin.describe_configs(resources):
        for code, _message, _type, name, entries in answer.resources:
            check_code(code, kafka_errors, f"describing topic {name}")
            settings = {entry[0]: entry[1] for entry in entries}
            ours = name.removeprefix(cluster.prefix)
            found[ours] = _to_topic(ours, partitions[name], settings)
    return found


def _to_topic(name: str, partitions: int, settings: Mapping[str, str]) -> Topic:
    compacted = settings["cleanup.policy"] == "compact"
    retention_ms = int(settings["retention.ms"])
    kept_for_ever = compacted or retention_ms < 0
    spec = TopicSpec(
        name=name,
        partitions=partitions,
        # What is both is neither of ours; it is said with Kafka's own words.
        cleanup=settings["cleanup.policy"],  # type: ignore[arg-type]
        retention_s=None if kept_for_ever else retention_ms // MS,
        message_bytes_max=int(settings["max.message.bytes"]),
    )
    return Topic(
        spec=spec,
        time_is_the_logs=settings["message.timestamp.type"] == "LogAppendTime",
        settings=settings,
    )


async def _broker_count(admin: Any) -> int:
    return len((await admin.describe_cluster())["brokers"])


async def _wait_until_usable(admin: Any, names: Sequence[str]) -> None:
    """Brokers learn of a new topic one after the other, and its lanes get leaders a little later."""
    async with asyncio.timeout(VISIBLE_TIMEOUT_S):
        while True:
            described = await admin.describe_topics(list(names))
            if all(
                topic["error_code"] == 0
                and topic["partitions"]
                and all(each["leader"] >= 0 for each in topic["partitions"])
                for topic in described
            ):
                return
            await asyncio.sleep(VISIBLE_POLL_S)
