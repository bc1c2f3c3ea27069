"""What both streams check alike: how a topic differs from its spec, and how large a message is.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from reconciler.stream.promise import (
    Lane,
    MessageTooLarge,
    Outgoing,
    TopicsDiffer,
    TopicSpec,
)

#: What a record adds to its bytes on Kafka's wire, at most: the batch's head (61), and per record
#: and header a few variable-length numbers. **Source**: Kafka protocol, record batch version 2.
BATCH_OVERHEAD_BYTES: Final = 96
HEADER_OVERHEAD_BYTES: Final = 10

#: Writes one append may carry. **Units**: messages.
APPEND_MESSAGES_MAX: Final = 100_000


def message_bytes(message: Outgoing) -> int:
    """Count a message as Kafka would, so that both streams refuse the same ones."""
    headers = sum(
        len(name.encode()) + len(value) + HEADER_OVERHEAD_BYTES for name, value in message.headers
    )
    return len(message.key) + len(message.value or b"") + headers + BATCH_OVERHEAD_BYTES


def check_messages(messages: Sequence[Outgoing], topics: Mapping[str, TopicSpec]) -> None:
    """Refuse what cannot be appended, before anything is.

    **Raises**: `TopicsDiffer` for a lane that does not exist, `MessageTooLarge`.
    """
    if len(messages) > APPEND_MESSAGES_MAX:
        sentence = f"an append takes {APPEND_MESSAGES_MAX} messages, found {len(messages)}"
        raise MessageTooLarge(sentence)
    for message in messages:
        spec = check_lane(message.lane, topics)
        found = message_bytes(message)
        if found > spec.message_bytes_max:
            sentence = (
                f"{message.lane.name}: a message takes {spec.message_bytes_max} bytes,"
                f" found {found} (key {message.key[:64]!r})"
            )
            raise MessageTooLarge(sentence)


def check_lane(lane: Lane, topics: Mapping[str, TopicSpec]) -> TopicSpec:
    """Give the spec of a lane's topic. **Raises**: `TopicsDiffer` when the lane does not exist."""
    spec = topics.get(lane.topic)
    if spec is None:
        message = f"topic {lane.topic} is missing"
        raise TopicsDiffer(message)
    if not 0 <= lane.partition < spec.partitions:
        message = f"topic {lane.topic} has {spec.partitions} partitions, found no {lane.partition}"
        raise TopicsDiffer(message)
    return spec


def lane_counts(messages: Sequence[Outgoing]) -> Sequence[tuple[Lane, int]]:
    """Count messages by lane, lanes in the one order in which their heads are locked."""
    return sorted(Counter(message.lane for message in messages).items())


def differences(wanted: TopicSpec, found: TopicSpec | None) -> list[str]:
    """Say how a topic differs from its spec, one sentence each."""
    name = wanted.name
    if found is None:
        return [f"topic {name} is missing"]
    pairs = [
        ("partitions", wanted.partitions, found.partitions),
        ("cleanup", wanted.cleanup, found.cleanup),
        ("retention_s", wanted.retention_s, found.retention_s),
        ("message_bytes_max", wanted.message_bytes_max, found.message_bytes_max),
    ]
    return [
        f"topic {name}: expected {what} {ours}, found {theirs}"
        for what, ours, theirs in pairs
        if ours != theirs
    ]
