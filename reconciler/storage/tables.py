"""The tables. Constraints carry promises: what must never be twice is unique here, not by care.

Order rows hold their aggregate (terms, claims, decisions, status) as one document in `state`, because it
is always read and written whole; columns beside it are what queries and constraints need.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Sequence,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from reconciler.storage.types import BaseUnitsType, Bytes, InstantType

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: SQLite gives 64-bit row ids only to INTEGER.
_Id = BigInteger().with_variant(Integer, "sqlite")

#: Orders everything that is applied; drawn after the locks (`Work.next_seqs`).
applied_seq = Sequence("applied_seq", metadata=metadata)
#: One row on SQLite, where it stands in for PostgreSQL's sequence of the same purpose.
counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

positions = Table(
    "positions",
    metadata,
    Column("lane", Text, primary_key=True),
    Column("next_offset", BigInteger, nullable=False),
    Column("inbox_until", InstantType),
    Column("last_offset", BigInteger),
    Column("last_digest", Bytes),
)

lanes = Table(
    "lanes",
    metadata,
    Column("lane", Text, primary_key=True),
    Column("chain", Text, nullable=False, index=True),
    Column("seq", BigInteger, nullable=False),
    Column("height", BigInteger),
    Column("hash", Text, nullable=False),
    Column("time", InstantType),
    Column("finalized_height", BigInteger, nullable=False),
    Column("decided_until", InstantType),
    Column("log_id", Text, nullable=False),
    Column("held", Text),
    Column("heard_at", InstantType),
    Column("journal_hash", Bytes, nullable=False),
)

lane_log = Table(
    "lane_log",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("lane", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("from_height", BigInteger, nullable=False),
    Column("height", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("time", InstantType),
    Column("finalized_height", BigInteger, nullable=False),
    Column("inbox_until", InstantType),
    Column("decided_until", InstantType),
    Column("recorded_at", InstantType, nullable=False),
    Column("live", Boolean, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Bytes, nullable=False),
    Index("ix_lane_log_lane_seq", "lane", "seq"),
    Index("ix_lane_log_lane_height", "lane", "height"),
)

addresses = Table(
    "addresses",
    metadata,
    Column("family", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("display", Text, nullable=False),
    Column("owner", Text),
    Column("covered", Text, nullable=False),
    Column("noted", Text, nullable=False),
    Column("watched_since", InstantType, nullable=False),
    Column("journal_hash", Bytes, nullable=False),
    PrimaryKeyConstraint("key", "family"),
)

orders = Table(
    "orders",
    metadata,
    Column("reference", Text, primary_key=True),
    Column("purchase", Text),
    Column("route", Text, nullable=False),
    Column("chain", Text, nullable=False),
    Column("asset", Text, nullable=False),
    Column("lane", Text, nullable=False),
    Column("family", Text, nullable=False),
    Column("address_key", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("is_open", Boolean, nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("assessed_seq", BigInteger, nullable=False),
    Column("due_time", InstantType),
    Column("due_height", BigInteger),
    Column("due_finalized", BigInteger),
    Column("waits", Boolean, nullable=False),
    Column("page_token", Text, nullable=False, unique=True),
    Column("placed_at", InstantType, nullable=False),
    Column("state", Bytes, nullable=False),
    Column("journal_hash", Bytes, nullable=False),
    Index("ix_orders_address_key_family", "address_key", "family"),
    # A document just over 2 KB would be compressed at every judgement, and read back from it.
    postgresql_with={"toast_tuple_target": 8160},
)
#: What finds few orders has few entries: a judgement changes most of an order's indexes.
for _name, _columns in {
    "purchase": ("purchase",),
    "due_time": ("lane", "due_time"),
    "due_height": ("lane", "due_height"),
    "due_finalized": ("lane", "due_finalized"),
}.items():
    _is_there = orders.c[_name].is_not(None)
    Index(
        f"ix_orders_{_name}",
        *(orders.c[column] for column in _columns),
        postgresql_where=_is_there,
        sqlite_where=_is_there,
    )

#: SQLite uses a partial index only where a query says the condition in the same words: `waits = 1`.
Index(
    "ix_orders_waits", orders.c.lane, postgresql_where=text("waits"), sqlite_where=text("waits = 1")
)

#: Counted for the metrics: what has ended grows for ever and is not.
Index(
    "ix_orders_open_phase",
    orders.c.phase,
    postgresql_where=text("is_open"),
    sqlite_where=text("is_open = 1"),
)

reservations = Table(
    "reservations",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("family", Text, nullable=False),
    Column("address_key", Text, nullable=False),
    Column("chain", Text, nullable=False),
    Column("asset", Text, nullable=False),
    Column("amount", BaseUnitsType, nullable=False),
    Column("order_ref", Text, nullable=False, index=True),
    Column("since", InstantType, nullable=False),
    Column("match_end", InstantType, nullable=False),
    Column("live", Boolean, nullable=False),
)
#: "Every order reserves its amount": one live reservation per amount, whoever asks first.
Index(
    "uq_reservations_live",
    reservations.c.address_key,
    reservations.c.family,
    reservations.c.asset,
    reservations.c.amount,
    unique=True,
    postgresql_where=text("live"),
    sqlite_where=text("live = 1"),
)

#: Which order was given which address of an extended public key, over all routes and chains: "one
#: derivation index per extended key". `key` is the key's name and not the key.
derivations = Table(
    "derivations",
    metadata,
    Column("key", Text, nullable=False),
    Column("index", BigInteger, nullable=False),
    Column("order_ref", Text, nullable=False, index=True),
    PrimaryKeyConstraint("key", "index"),
)

transfers = Table(
    "transfers",
    metadata,
    Column("transfer", Text, primary_key=True),
    Column("chain", Text, nullable=False),
    Column("tx", Text, nullable=False),
    Column("asset", Text, nullable=False),
    Column("family", Text, nullable=False),
    Column("address_key", Text, nullable=False),
    Column("lane", Text, nullable=False),
    Column("sender", Text, nullable=False),
    Column("amount", BaseUnitsType, nullable=False),
    Column("state", Text, nullable=False),
    Column("height", BigInteger),
    Column("block_hash", Text),
    Column("block_time", InstantType),
    Column("first_time", InstantType, nullable=False),
    Column("heard_at", InstantType, nullable=False),
    Column("retracted_at", InstantType),
    Column("was_final", Boolean, nullable=False),
    Column("coinbase", Boolean, nullable=False),
    Column("rule", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("decided", Boolean, nullable=False),
    Column("rejected_from", Text),
    Column("disposed", Text),
    Column("open_kind", Text),
    Column("tx_total", BaseUnitsType, nullable=False),
    Column("seq", BigInteger, nullable=False),
    CheckConstraint("(height IS NULL) = (block_hash IS NULL)", name="block_whole"),
    Index("ix_transfers_tx_chain", "tx", "chain"),
    Index("ix_transfers_lane_height", "lane", "height"),
    Index("ix_transfers_address_key_family", "address_key", "family"),
)

#: Who owns a transfer. Part 0 is the whole of it; a person may split it into parts 1 … n.
shares = Table(
    "shares",
    metadata,
    Column("transfer", Text, nullable=False),
    Column("part", Integer, nullable=False),
    Column("order_ref", Text, nullable=False, index=True),
    Column("share", BaseUnitsType, nullable=False),
    PrimaryKeyConstraint("transfer", "part"),
    UniqueConstraint("transfer", "order_ref"),
)

#: What an address held of an asset when transfers last explained it; and what they did not since.
balances = Table(
    "balances",
    metadata,
    Column("address_key", Text, nullable=False),
    Column("family", Text, nullable=False),
    Column("asset", Text, nullable=False),
    Column("chain", Text, nullable=False),
    Column("height", BigInteger, nullable=False),
    Column("time", InstantType, nullable=False),
    Column("balance", BaseUnitsType, nullable=False),
    Column("seen_height", BigInteger, nullable=False),
    Column("seen_time", InstantType, nullable=False),
    Column("seen_balance", BaseUnitsType, nullable=False),
    Column("unexplained", BaseUnitsType),
    PrimaryKeyConstraint("address_key", "family", "asset"),
)
#: Few: each is an open exception.
Index(
    "ix_balances_unexplained",
    balances.c.chain,
    postgresql_where=balances.c.unexplained.is_not(None),
    sqlite_where=balances.c.unexplained.is_not(None),
)

claims = Table(
    "claims",
    metadata,
    Column("order_ref", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("family", Text, nullable=False),
    Column("tx", Text),
    Column("sender", Text),
    Column("claimed_at", InstantType, nullable=False),
    PrimaryKeyConstraint("order_ref", "key"),
    Index("ix_claims_tx_family", "tx", "family"),
    Index("ix_claims_sender_family", "sender", "family"),
)

#: Idempotency: one row a key. The same key with other content is a conflict, not a repeat.
commands = Table(
    "commands",
    metadata,
    Column("key", Text, primary_key=True),
    Column("digest", Bytes, nullable=False),
    Column("reference", Text, nullable=False),
    Column("applied_at", InstantType, nullable=False),
)

#: Commands for a reference that is not known yet wait here for a while.
parked = Table(
    "parked",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("reference", Text, nullable=False, index=True),
    Column("lane", Text, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("key", Bytes, nullable=False),
    Column("type", Text, nullable=False),
    Column("headers", Bytes, nullable=False),
    Column("value", Bytes, nullable=False),
    Column("recorded_at", InstantType, nullable=False),
    UniqueConstraint("lane", "offset"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("key", Text, primary_key=True),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("action", Bytes, nullable=False),
    Column("before", Bytes, nullable=False),
    Column("decided_at", InstantType, nullable=False),
    Column("undone_by", Text),
)

holds = Table(
    "holds",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("since", InstantType, nullable=False),
)

exceptions = Table(
    "exceptions",
    metadata,
    Column("exception", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("order_ref", Text, index=True),
    Column("transfer", Text, index=True),
    Column("chain", Text),
    Column("open", Boolean, nullable=False),
    Column("settled", Boolean, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("opened_at", InstantType, nullable=False),
    Column("body", Bytes, nullable=False),
    UniqueConstraint("kind", "subject"),
    Index("ix_exceptions_open_opened_at", "open", "opened_at"),
)

#: A fact that could not be applied, as it came. It holds the orders of its address.
unreadable = Table(
    "unreadable",
    metadata,
    Column("seq", BigInteger, nullable=False, index=True),
    Column("lane", Text, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("key", Bytes, nullable=False),
    Column("type", Text, nullable=False),
    Column("headers", Bytes, nullable=False),
    Column("value", Bytes, nullable=False),
    Column("why", Text, nullable=False),
    Column("recorded_at", InstantType, nullable=False),
    PrimaryKeyConstraint("lane", "offset"),
)

journal = Table(
    "journal",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("seq", BigInteger, nullable=False, index=True),
    Column("chain_key", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("recorded_at", InstantType, nullable=False),
    Column("body", Bytes, nullable=False),
    Column("previous_hash", Bytes, nullable=False),
    Column("hash", Bytes, nullable=False),
    Index("ix_journal_chain_key_id", "chain_key", "id"),
)
#: A chain does not fork: no two entries follow the same one.
Index("uq_journal_chain", journal.c.chain_key, journal.c.previous_hash, unique=True)

seals = Table(
    "seals",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("body", Bytes, nullable=False),
    Column("hash", Bytes, nullable=False),
    Column("signature", Bytes, nullable=False),
    Column("sealed_at", InstantType, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("shard", Integer, nullable=False),
    Column("topic", Text, nullable=False),
    Column("key", Bytes, nullable=False),
    Column("type", Text, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("headers", Bytes, nullable=False),
    Column("value", Bytes),
    Column("recorded_at", InstantType, nullable=False),
)
#: One event per (order, sequence), one revision per exception, one request per id: ids are computed.
Index("uq_outbox_topic_event_id", outbox.c.topic, outbox.c.event_id, unique=True)

#: What of the outbox has not left, and under which number it leaves. Small: what was sent is gone, and
#: the messages themselves are written once and never changed.
unsent = Table(
    "unsent",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("shard", Integer, nullable=False),
    Column("batch", BigInteger),
    Index("ix_unsent_shard_id", "shard", "id"),
)
Index(
    "ix_unsent_numbered",
    unsent.c.shard,
    unsent.c.batch,
    postgresql_where=unsent.c.batch.is_not(None),
    sqlite_where=unsent.c.batch.is_not(None),
)

relays = Table(
    "relays",
    metadata,
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("batch", BigInteger, nullable=False),
)
