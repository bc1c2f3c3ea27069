"""What the log promises. One conformance suite (tests/contract) runs on Kafka and on SQL.

Order. Within one (topic, partition) records have rising offsets and every reader sees them in that
order. Offsets may have holes (Kafka spends some on transaction markers); only "higher is later" holds.

Atomic. `Writer.append` makes all its messages visible to readers together, over all topics and
partitions, or none of them. Readers only ever see committed data. On Kafka a lane shows an append some
milliseconds after `append` returned, one lane perhaps before another; after `start` all of it is there.

Fencing. A writer has a name; the latest one started under a name is the only one that can append.
An older one that wakes up gets `Fenced`, nothing that it sent is read, and it must exit, not retry.

Repeat. Appending is not idempotent by content: after `OutcomeUnknown` the caller starts a writer of
the same name again (which settles what became of the last append) and reads back what arrived.

Time. `Record.time` is when the log took the record, set by the log and never by the sender.
Within a partition it does not fall.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, Protocol

from msgspec import Struct

from schemas.envelope import Headers

#: The largest message of a topic: key, headers, value and what Kafka's wire adds. **Units**: bytes.
MESSAGE_BYTES_MAX: Final = 1_048_576


class StreamError(Exception):
    """Anything that a stream raises on purpose.

    ::

        StreamError
        ├── StreamUnavailable    nothing happened; try again with back-off
        ├── OutcomeUnknown       an append may or may not have happened: start the writer again
        ├── Fenced               another writer has our name: exit
        ├── LaneLost             the partition now belongs to another member of the group
        ├── PositionLost         the wanted offset is older than what is kept: an alarm, never a skip
        ├── MessageTooLarge      nothing was appended, and the same append will never be
        └── TopicsDiffer         topics are missing or have other settings than ours: refuse to start
    """


class StreamUnavailable(StreamError):
    """The log cannot be reached now; nothing was changed."""


class OutcomeUnknown(StreamError):
    """The connection broke while committing."""


class Fenced(StreamError):
    """A younger writer has taken our name."""


class LaneLost(StreamError):
    """The group gave the partition to somebody else."""


class PositionLost(StreamError):
    """Retention has passed the stored position: records are gone that were never applied."""


class MessageTooLarge(StreamError):
    """A message has more bytes than its topic takes, or an append more messages than one may have."""


class TopicsDiffer(StreamError):
    """A topic is missing or is set up otherwise than `reconciler.stream.topics` says."""


class TopicSpec(Struct, frozen=True, kw_only=True):
    """How a topic is set up. `retention_s` is None for a compacted topic, which keeps the last a key."""

    name: str
    partitions: int
    cleanup: Literal["delete", "compact"]
    retention_s: int | None
    message_bytes_max: int = MESSAGE_BYTES_MAX


class Lane(Struct, frozen=True, order=True):
    """One partition of one topic: one ordered log."""

    topic: str
    partition: int

    @property
    def name(self) -> str:
        """The lane as one word, for logs, metrics and the positions table."""
        return f"{self.topic}/{self.partition}"


class Outgoing(Struct, frozen=True, kw_only=True):
    """A message on its way out. A value of None is a tombstone in a compacted topic."""

    lane: Lane
    key: bytes
    value: bytes | None
    headers: Headers


class Record(Struct, frozen=True, kw_only=True):
    """A message as the log has it."""

    lane: Lane
    offset: int
    key: bytes
    value: bytes | None
    headers: Headers
    time: datetime

    @property
    def digest(self) -> bytes:
        """Tell this record from another one at its offset: of a topic that was made again."""
        time = self.time.astimezone(UTC).isoformat()
        parts = (self.key, self.value or b"", time.encode())
        return hashlib.sha256(b"".join(len(p).to_bytes(8, "big") + p for p in parts)).digest()[:16]


class Batch(Struct, frozen=True, kw_only=True):
    """Consecutive records of one lane. `next_offset` is where reading goes on, past any holes."""

    lane: Lane
    records: Sequence[Record]
    next_offset: int


class Writer(Protocol):
    """The one appender of its name."""

    async def start(self) -> None:
        """Take the name over; fences the one before and settles its unfinished append.

        **Raises**: `StreamUnavailable`.
        """
        ...

    async def append(self, messages: Sequence[Outgoing]) -> None:
        """Make all of them visible together. An empty sequence is a no-op.

        One append at a time: a second one waits. After `OutcomeUnknown` or a cancelled append every
        append raises `OutcomeUnknown` until `start` has settled it.

        **Raises**: `Fenced`, `OutcomeUnknown`, `StreamUnavailable`; before anything was sent
        `MessageTooLarge`, and `TopicsDiffer` for a lane that does not exist.
        """
        ...

    async def close(self) -> None:
        """Give up the connection, not the name. May be called twice."""
        ...


class LaneReader(Protocol):
    """One lane that the group has given us. Starts disarmed: `read` before `seek` is a bug.

    aiokafka hands out records that it fetched before a seek (shown), so a reader drops what does
    not follow the offset that it was armed with.
    """

    @property
    def lane(self) -> Lane:
        """Which lane."""
        ...

    async def seek(self, offset: int | None) -> None:
        """Arm the reader at an offset; None is the lane's beginning.

        **Raises**: `PositionLost` when the offset is below the beginning (and above nothing kept) or
        beyond the end; `LaneLost`.
        """
        ...

    async def read(self, *, records_max: int, wait_s: float) -> Batch:
        """Give what comes next, possibly nothing after `wait_s`. Never gives a record twice unless
        `seek` asks for it. An empty batch may still move `next_offset` over holes.

        **Raises**: `LaneLost`, `PositionLost`, `StreamUnavailable`.
        """
        ...


class Group(Protocol):
    """Readers that share lanes: each lane has at most one live reader, and none stays without.

    For a moment during a hand-over two may believe that they have it; the positions table's
    compare-and-swap decides between them, so the stream need not.
    """

    async def start(self) -> None:
        """Join."""
        ...

    async def lanes(self) -> Mapping[Lane, LaneReader]:
        """Give the lanes that are ours now. A reader object stays the same while a lane stays."""
        ...

    async def changed(self, wait_s: float) -> None:
        """Return when the lanes may have changed, at the latest after `wait_s`."""
        ...

    async def close(self) -> None:
        """Leave, so that others get the lanes at once. May be called twice."""
        ...


class Stream(Protocol):
    """The log."""

    async def start(self) -> None:
        """Connect. **Raises**: `StreamUnavailable`."""
        ...

    async def close(self) -> None:
        """Disconnect. May be called twice."""
        ...

    async def create_topics(self, specs: Sequence[TopicSpec]) -> Sequence[str]:
        """Make the topics that are missing; give their names. Never changes one that is there."""
        ...

    async def compare_topics(self, specs: Sequence[TopicSpec]) -> Sequence[str]:
        """Say, one sentence each, how topics differ from the specs; empty when they do not."""
        ...

    def writer(self, name: str) -> Writer:
        """Make the appender of a name; it owns nothing until `start`."""
        ...

    def group(self, name: str, topics: Sequence[str]) -> Group:
        """Make a member of a group that shares all lanes of these topics."""
        ...

    async def read(
        self, lane: Lane, *, from_offset: int, records_max: int, wait_s: float = 0.0
    ) -> Batch:
        """Read committed records of one lane, without a group and without a position.

        `from_offset` below the beginning is moved up to it. **Raises**: `StreamUnavailable`.
        """
        ...

    async def bounds(self, lane: Lane) -> tuple[int, int]:
        """Give (first kept offset, next offset to be written) of committed data."""
        ...


def partition_of(key: bytes, partitions: int) -> int:
    """Compute a key's partition: the first 8 bytes of its SHA-256, as a big-endian number, modulo.

    Clients of other languages partition differently, so it is always passed explicitly.
    """
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % partitions


async def read_all(stream: Stream, lane: Lane, *, from_offset: int = 0) -> Sequence[Record]:
    """Read a lane up to its present end: compacted topics at a start, and tests."""
    _, end = await stream.bounds(lane)
    found: list[Record] = []
    offset = from_offset
    while offset < end:
        batch = await stream.read(lane, from_offset=offset, records_max=5_000, wait_s=1.0)
        found.extend(batch.records)
        if batch.next_offset <= offset:
            break
        offset = batch.next_offset
    return found
