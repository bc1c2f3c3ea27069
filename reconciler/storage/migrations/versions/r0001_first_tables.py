"""The first tables: orders, transfers, the journal, the outbox, and the log in tables."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0001"
down_revision: Final = None
branch_labels: Final = None
depends_on: Final = None

# What columns were made of at this revision; what the program makes of them later does not matter.
AMOUNT: Final = sa.Text().with_variant(sa.NUMERIC(78, 0), "postgresql")
INSTANT: Final = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")
ROW_ID: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

#: In the order in which they are made: a table comes after those that it points to.
TABLES: Final = (
    "addresses",
    "claims",
    "commands",
    "counters",
    "decisions",
    "exceptions",
    "holds",
    "journal",
    "lane_log",
    "lanes",
    "orders",
    "outbox",
    "parked",
    "positions",
    "relays",
    "reservations",
    "seals",
    "shares",
    "transfers",
    "unreadable",
    "unsent",
    "stream_groups",
    "stream_topics",
    "stream_writers",
    "stream_lanes",
    "stream_members",
    "stream_leases",
    "stream_messages",
)


def upgrade() -> None:
    """Make every table, and the sequence that orders everything applied."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(sa.schema.CreateSequence(sa.Sequence("applied_seq")))
    _addresses()
    _claims()
    _commands()
    _counters()
    _decisions()
    _exceptions()
    _holds()
    _journal()
    _lane_log()
    _lanes()
    _orders()
    _outbox()
    _parked()
    _positions()
    _relays()
    _reservations()
    _seals()
    _shares()
    _transfers()
    _unreadable()
    _unsent()
    _stream_groups()
    _stream_topics()
    _stream_writers()
    _stream_lanes()
    _stream_members()
    _stream_leases()
    _stream_messages()


def downgrade() -> None:
    """Drop every table, with all that it holds."""
    for name in reversed(TABLES):
        op.drop_table(name)
    if op.get_bind().dialect.name == "postgresql":
        op.execute(sa.schema.DropSequence(sa.Sequence("applied_seq")))


def _addresses() -> None:
    op.create_table(
        "addresses",
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("display", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text()),
        sa.Column("covered", sa.Text(), nullable=False),
        sa.Column("noted", sa.Text(), nullable=False),
        sa.Column("watched_since", INSTANT, nullable=False),
        sa.Column("journal_hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("key", "family", name="pk_addresses"),
    )


def _claims() -> None:
    op.create_table(
        "claims",
        sa.Column("order_ref", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("tx", sa.Text()),
        sa.Column("sender", sa.Text()),
        sa.Column("claimed_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("order_ref", "key", name="pk_claims"),
    )
    op.create_index("ix_claims_sender_family", "claims", ["sender", "family"])
    op.create_index("ix_claims_tx_family", "claims", ["tx", "family"])


def _commands() -> None:
    op.create_table(
        "commands",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("applied_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_commands"),
    )


def _counters() -> None:
    op.create_table(
        "counters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_counters"),
    )


def _decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("action", sa.LargeBinary(), nullable=False),
        sa.Column("before", sa.LargeBinary(), nullable=False),
        sa.Column("decided_at", INSTANT, nullable=False),
        sa.Column("undone_by", sa.Text()),
        sa.PrimaryKeyConstraint("key", name="pk_decisions"),
    )


def _exceptions() -> None:
    op.create_table(
        "exceptions",
        sa.Column("exception", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("order_ref", sa.Text()),
        sa.Column("transfer", sa.Text()),
        sa.Column("chain", sa.Text()),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.Column("settled", sa.Boolean(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("opened_at", INSTANT, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("exception", name="pk_exceptions"),
        sa.UniqueConstraint("kind", "subject", name="uq_exceptions_kind_subject"),
    )
    op.create_index("ix_exceptions_open_opened_at", "exceptions", ["open", "opened_at"])
    op.create_index("ix_exceptions_order_ref", "exceptions", ["order_ref"])
    op.create_index("ix_exceptions_transfer", "exceptions", ["transfer"])


def _holds() -> None:
    op.create_table(
        "holds",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("subject", name="pk_holds"),
    )


def _journal() -> None:
    op.create_table(
        "journal",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("chain_key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("recorded_at", INSTANT, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("previous_hash", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_journal"),
    )
    op.create_index("ix_journal_chain_key_id", "journal", ["chain_key", "id"])
    op.create_index("ix_journal_seq", "journal", ["seq"])
    op.create_index("uq_journal_chain", "journal", ["chain_key", "previous_hash"], unique=True)


def _lane_log() -> None:
    op.create_table(
        "lane_log",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("from_height", sa.BigInteger(), nullable=False),
        sa.Column("height", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("time", INSTANT),
        sa.Column("finalized_height", sa.BigInteger(), nullable=False),
        sa.Column("inbox_until", INSTANT),
        sa.Column("decided_until", INSTANT),
        sa.Column("recorded_at", INSTANT, nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_lane_log"),
    )
    op.create_index("ix_lane_log_lane_height", "lane_log", ["lane", "height"])
    op.create_index("ix_lane_log_lane_seq", "lane_log", ["lane", "seq"])


def _lanes() -> None:
    op.create_table(
        "lanes",
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("chain", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("height", sa.BigInteger()),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("time", INSTANT),
        sa.Column("finalized_height", sa.BigInteger(), nullable=False),
        sa.Column("decided_until", INSTANT),
        sa.Column("log_id", sa.Text(), nullable=False),
        sa.Column("held", sa.Text()),
        sa.Column("heard_at", INSTANT),
        sa.Column("journal_hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("lane", name="pk_lanes"),
    )
    op.create_index("ix_lanes_chain", "lanes", ["chain"])


def _orders() -> None:
    op.create_table(
        "orders",
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("purchase", sa.Text()),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("chain", sa.Text(), nullable=False),
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("address_key", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("assessed_seq", sa.BigInteger(), nullable=False),
        sa.Column("due_time", INSTANT),
        sa.Column("due_height", sa.BigInteger()),
        sa.Column("due_finalized", sa.BigInteger()),
        sa.Column("waits", sa.Boolean(), nullable=False),
        sa.Column("page_token", sa.Text(), nullable=False),
        sa.Column("placed_at", INSTANT, nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.Column("journal_hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("reference", name="pk_orders"),
        sa.UniqueConstraint("page_token", name="uq_orders_page_token"),
        postgresql_with={"toast_tuple_target": 8160},
    )
    op.create_index(
        "ix_orders_due_finalized",
        "orders",
        ["lane", "due_finalized"],
        postgresql_where=sa.text("due_finalized IS NOT NULL"),
        sqlite_where=sa.text("due_finalized IS NOT NULL"),
    )
    op.create_index(
        "ix_orders_due_height",
        "orders",
        ["lane", "due_height"],
        postgresql_where=sa.text("due_height IS NOT NULL"),
        sqlite_where=sa.text("due_height IS NOT NULL"),
    )
    op.create_index(
        "ix_orders_due_time",
        "orders",
        ["lane", "due_time"],
        postgresql_where=sa.text("due_time IS NOT NULL"),
        sqlite_where=sa.text("due_time IS NOT NULL"),
    )
    op.create_index("ix_orders_address_key_family", "orders", ["address_key", "family"])
    op.create_index(
        "ix_orders_open_phase",
        "orders",
        ["phase"],
        postgresql_where=sa.text("is_open"),
        sqlite_where=sa.text("is_open = 1"),
    )
    op.create_index(
        "ix_orders_purchase",
        "orders",
        ["purchase"],
        postgresql_where=sa.text("purchase IS NOT NULL"),
        sqlite_where=sa.text("purchase IS NOT NULL"),
    )
    op.create_index(
        "ix_orders_waits",
        "orders",
        ["lane"],
        postgresql_where=sa.text("waits"),
        sqlite_where=sa.text("waits = 1"),
    )


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("headers", sa.LargeBinary(), nullable=False),
        sa.Column("value", sa.LargeBinary()),
        sa.Column("recorded_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
    )
    op.create_index("uq_outbox_topic_event_id", "outbox", ["topic", "event_id"], unique=True)


def _unsent() -> None:
    op.create_table(
        "unsent",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("batch", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_unsent"),
    )
    op.create_index("ix_unsent_shard_id", "unsent", ["shard", "id"])
    op.create_index(
        "ix_unsent_numbered",
        "unsent",
        ["shard", "batch"],
        postgresql_where=sa.text("batch IS NOT NULL"),
        sqlite_where=sa.text("batch IS NOT NULL"),
    )


def _parked() -> None:
    op.create_table(
        "parked",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("headers", sa.LargeBinary(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("recorded_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_parked"),
        sa.UniqueConstraint("lane", "offset", name="uq_parked_lane_offset"),
    )
    op.create_index("ix_parked_reference", "parked", ["reference"])


def _positions() -> None:
    op.create_table(
        "positions",
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.Column("inbox_until", INSTANT),
        sa.Column("last_offset", sa.BigInteger()),
        sa.Column("last_digest", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("lane", name="pk_positions"),
    )


def _relays() -> None:
    op.create_table(
        "relays",
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("batch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("shard", name="pk_relays"),
    )


def _reservations() -> None:
    op.create_table(
        "reservations",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("address_key", sa.Text(), nullable=False),
        sa.Column("chain", sa.Text(), nullable=False),
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("amount", AMOUNT, nullable=False),
        sa.Column("order_ref", sa.Text(), nullable=False),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("match_end", INSTANT, nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_reservations"),
    )
    op.create_index("ix_reservations_order_ref", "reservations", ["order_ref"])
    op.create_index(
        "uq_reservations_live",
        "reservations",
        ["address_key", "family", "asset", "amount"],
        unique=True,
        postgresql_where=sa.text("live"),
        sqlite_where=sa.text("live = 1"),
    )


def _seals() -> None:
    op.create_table(
        "seals",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.Column("sealed_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_seals"),
    )


def _shares() -> None:
    op.create_table(
        "shares",
        sa.Column("transfer", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("order_ref", sa.Text(), nullable=False),
        sa.Column("share", AMOUNT, nullable=False),
        sa.PrimaryKeyConstraint("transfer", "part", name="pk_shares"),
        sa.UniqueConstraint("transfer", "order_ref", name="uq_shares_transfer_order_ref"),
    )
    op.create_index("ix_shares_order_ref", "shares", ["order_ref"])


def _transfers() -> None:
    op.create_table(
        "transfers",
        sa.Column("transfer", sa.Text(), nullable=False),
        sa.Column("chain", sa.Text(), nullable=False),
        sa.Column("tx", sa.Text(), nullable=False),
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("address_key", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("sender", sa.Text(), nullable=False),
        sa.Column("amount", AMOUNT, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("height", sa.BigInteger()),
        sa.Column("block_hash", sa.Text()),
        sa.Column("block_time", INSTANT),
        sa.Column("first_time", INSTANT, nullable=False),
        sa.Column("heard_at", INSTANT, nullable=False),
        sa.Column("retracted_at", INSTANT),
        sa.Column("was_final", sa.Boolean(), nullable=False),
        sa.Column("coinbase", sa.Boolean(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("decided", sa.Boolean(), nullable=False),
        sa.Column("rejected_from", sa.Text()),
        sa.Column("disposed", sa.Text()),
        sa.Column("open_kind", sa.Text()),
        sa.Column("tx_total", AMOUNT, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "(height IS NULL) = (block_hash IS NULL)", name="ck_transfers_block_whole"
        ),
        sa.PrimaryKeyConstraint("transfer", name="pk_transfers"),
    )
    op.create_index("ix_transfers_tx_chain", "transfers", ["tx", "chain"])
    op.create_index("ix_transfers_address_key_family", "transfers", ["address_key", "family"])
    op.create_index("ix_transfers_lane_height", "transfers", ["lane", "height"])


def _unreadable() -> None:
    op.create_table(
        "unreadable",
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("headers", sa.LargeBinary(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("recorded_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("lane", "offset", name="pk_unreadable"),
    )
    op.create_index("ix_unreadable_seq", "unreadable", ["seq"])


def _stream_groups() -> None:
    op.create_table(
        "stream_groups",
        sa.Column("name", sa.String(length=249), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _stream_topics() -> None:
    op.create_table(
        "stream_topics",
        sa.Column("name", sa.String(length=249), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("cleanup", sa.String(length=16), nullable=False),
        sa.Column("retention_s", sa.BigInteger()),
        sa.Column("message_bytes_max", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("partitions > 0", name="ck_stream_topics_partitions"),
        sa.PrimaryKeyConstraint("name"),
    )


def _stream_writers() -> None:
    op.create_table(
        "stream_writers",
        sa.Column("name", sa.String(length=249), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _stream_lanes() -> None:
    op.create_table(
        "stream_lanes",
        sa.Column("lane_id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("topic", sa.String(length=249), nullable=False),
        sa.Column("partition_index", sa.Integer(), nullable=False),
        sa.Column("first_offset", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("compacted_to", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_time_us", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["topic"], ["stream_topics.name"]),
        sa.PrimaryKeyConstraint("lane_id"),
        sa.UniqueConstraint("topic", "partition_index", name="uq_stream_lanes_topic_partition"),
    )


def _stream_members() -> None:
    op.create_table(
        "stream_members",
        sa.Column("group_name", sa.String(length=249), nullable=False),
        sa.Column("member", sa.String(length=64), nullable=False),
        sa.Column("topics", sa.String(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["group_name"], ["stream_groups.name"]),
        sa.PrimaryKeyConstraint("group_name", "member"),
    )


def _stream_leases() -> None:
    op.create_table(
        "stream_leases",
        sa.Column("group_name", sa.String(length=249), nullable=False),
        sa.Column("lane_id", sa.Integer(), nullable=False),
        sa.Column("member", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["group_name"], ["stream_groups.name"]),
        sa.ForeignKeyConstraint(["lane_id"], ["stream_lanes.lane_id"]),
        sa.PrimaryKeyConstraint("group_name", "lane_id"),
    )


def _stream_messages() -> None:
    op.create_table(
        "stream_messages",
        sa.Column("lane_id", sa.Integer(), nullable=False),
        sa.Column("log_offset", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("message_key", sa.LargeBinary(), nullable=False),
        sa.Column("message_value", sa.LargeBinary()),
        sa.Column("headers", sa.LargeBinary(), nullable=False),
        sa.Column("time_us", sa.BigInteger(), nullable=False),
        sa.Column("compacted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(["lane_id"], ["stream_lanes.lane_id"]),
        sa.PrimaryKeyConstraint("lane_id", "log_offset"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_stream_messages_key",
        "stream_messages",
        ["lane_id", "message_key", "log_offset"],
        postgresql_where=sa.text("compacted"),
        sqlite_where=sa.text("compacted = 1"),
    )
    op.create_index(
        "ix_stream_messages_tombstones",
        "stream_messages",
        ["lane_id", "log_offset"],
        postgresql_where=sa.text("message_value IS NULL"),
        sqlite_where=sa.text("message_value IS NULL"),
    )
