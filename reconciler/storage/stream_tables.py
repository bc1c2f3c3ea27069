"""The tables of the SQL stream: `reconciler.stream.sql` reads and writes them, nothing else does.

Instants are microseconds since 1970 in UTC, as the database's own clock gives them: one form on
PostgreSQL and SQLite.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    false,
    text,
)

stream_metadata: Final = MetaData()

stream_topics: Final = Table(
    "stream_topics",
    stream_metadata,
    Column("name", String(249), primary_key=True),
    Column("partitions", Integer, nullable=False),
    Column("cleanup", String(16), nullable=False),
    Column("retention_s", BigInteger, nullable=True),
    Column("message_bytes_max", BigInteger, nullable=False),
    CheckConstraint("partitions > 0", name="ck_stream_topics_partitions"),
)

#: One row per lane: its head. Whoever appends holds it locked until the commit, as the last lock, so
#: that offsets are dense and their order is the order of commits.
stream_lanes: Final = Table(
    "stream_lanes",
    stream_metadata,
    Column("lane_id", Integer, primary_key=True, autoincrement=True),
    Column("topic", String(249), ForeignKey("stream_topics.name"), nullable=False),
    Column("partition_index", Integer, nullable=False),
    Column("first_offset", BigInteger, nullable=False, server_default=text("0")),
    Column("next_offset", BigInteger, nullable=False, server_default=text("0")),
    Column("compacted_to", BigInteger, nullable=False, server_default=text("0")),
    Column("last_time_us", BigInteger, nullable=False, server_default=text("0")),
    UniqueConstraint("topic", "partition_index", name="uq_stream_lanes_topic_partition"),
)

stream_messages: Final = Table(
    "stream_messages",
    stream_metadata,
    Column("lane_id", Integer, ForeignKey("stream_lanes.lane_id"), primary_key=True),
    Column("log_offset", BigInteger, primary_key=True, autoincrement=False),
    Column("message_key", LargeBinary, nullable=False),
    Column("message_value", LargeBinary, nullable=True),
    Column("headers", LargeBinary, nullable=False),
    Column("time_us", BigInteger, nullable=False),
    Column("compacted", Boolean, nullable=False, server_default=false()),
    sqlite_with_rowid=False,
)

#: Finds what a newer message of the same key has made needless; empty for topics kept by time.
Index(
    "ix_stream_messages_key",
    stream_messages.c.lane_id,
    stream_messages.c.message_key,
    stream_messages.c.log_offset,
    postgresql_where=stream_messages.c.compacted,
    sqlite_where=text("compacted = 1"),
)
Index(
    "ix_stream_messages_tombstones",
    stream_messages.c.lane_id,
    stream_messages.c.log_offset,
    postgresql_where=stream_messages.c.message_value.is_(None),
    sqlite_where=stream_messages.c.message_value.is_(None),
)

#: The writer of a name with the highest epoch is the only one that may append.
stream_writers: Final = Table(
    "stream_writers",
    stream_metadata,
    Column("name", String(249), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
)

#: One row per group; who shares out lanes holds it locked.
stream_groups: Final = Table(
    "stream_groups",
    stream_metadata,
    Column("name", String(249), primary_key=True),
    Column("generation", BigInteger, nullable=False),
)

stream_members: Final = Table(
    "stream_members",
    stream_metadata,
    Column("group_name", String(249), ForeignKey("stream_groups.name"), primary_key=True),
    Column("member", String(64), primary_key=True),
    Column("topics", String, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
)

stream_leases: Final = Table(
    "stream_leases",
    stream_metadata,
    Column("group_name", String(249), ForeignKey("stream_groups.name"), primary_key=True),
    Column("lane_id", Integer, ForeignKey("stream_lanes.lane_id"), primary_key=True),
    Column("member", String(64), nullable=False),
)
