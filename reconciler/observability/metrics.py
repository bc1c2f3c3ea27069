"""Every metric of the service in one table, and the meters made of it.

Names follow Prometheus: base units, `_total` for what only rises, `_timestamp_seconds` for moments.
The label `chain` is a CAIP-2 name. What has no bound (address, transaction, order) is never a label.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from reconciler.kernel.checks import check

PREFIX: Final = "reconciler_"

#: One block seen to one event published has a budget of 50 ms to 250 ms (DESIGN section 11).
_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_BLOCKS = (1.0, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0)


class Metric(Struct, frozen=True, kw_only=True):
    """One row of the table."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...] = ()
    help: str
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        """The name under which Prometheus knows it."""
        return PREFIX + self.name


def _counter(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(name=name, kind="counter", labels=labels, help=text)


def _gauge(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(name=name, kind="gauge", labels=labels, help=text)


def _histogram(
    name: str, labels: tuple[str, ...], text: str, *, buckets: tuple[float, ...] = _FAST
) -> Metric:
    return Metric(name=name, kind="histogram", labels=labels, help=text, buckets=buckets)


BUILD_INFO: Final = _gauge("build_info", ("version",), "Always 1; names the version.")

CHAIN_HEAD_HEIGHT: Final = _gauge(
    "chain_head_height", ("chain",), "The highest block that the nodes claim."
)
CHAIN_COVERED_HEIGHT: Final = _gauge(
    "chain_covered_height", ("chain",), "The last block that the watcher read whole and published."
)
CHAIN_FINALIZED_HEIGHT: Final = _gauge(
    "chain_finalized_height", ("chain",), "The last block that the chain itself calls final."
)
CHAIN_COVERED_TIMESTAMP: Final = _gauge(
    "chain_covered_timestamp_seconds", ("chain",), "The time of the last covered block."
)
WATCH_ADDRESSES: Final = _gauge("watch_addresses", ("chain",), "Addresses that are watched.")
WATCH_BACK_SCANS: Final = _gauge(
    "watch_back_scans_open", ("chain",), "Newly watched addresses that are not searched back yet."
)
WATCH_FAILURES: Final = _gauge(
    "watch_failures_in_a_row", ("chain",), "Failed attempts since the last one that succeeded."
)
WATCH_HELD: Final = _gauge(
    "watch_held", ("chain",), "1 while the watcher waits for a second node or a person."
)
WATCH_RETRACTED: Final = _counter(
    "watch_retracted_blocks_total", ("chain",), "Blocks that left the chain."
)
WATCH_REORGANISATION_DEPTH: Final = _histogram(
    "watch_reorganisation_depth_blocks",
    ("chain",),
    "How many blocks a reorganisation took back.",
    buckets=_BLOCKS,
)
WATCH_BLOCKS: Final = _counter("watch_blocks_total", ("chain",), "Blocks read whole.")
WATCH_IGNORED: Final = _counter(
    "watch_ignored_total", ("chain", "reason"), "What looked like a payment and is none, by reason."
)
WATCH_READ_FAILURES: Final = _counter(
    "watch_read_failures_total", ("chain", "error"), "Reads that failed and are tried again."
)
RPC_REQUESTS: Final = _counter(
    "rpc_requests_total", ("chain", "node", "method", "outcome"), "Questions to nodes, by outcome."
)
RPC_DURATION: Final = _histogram(
    "rpc_request_duration_seconds", ("chain", "node"), "From a question to a node to its answer."
)
WATCH_FACTS: Final = _counter("watch_facts_total", ("chain", "kind"), "Facts published, by kind.")
WATCH_REQUESTS: Final = _counter(
    "watch_requests_total", ("chain", "kind"), "Requests taken, by kind."
)
WATCH_UNREADABLE: Final = _counter(
    "watch_unreadable_total", ("chain", "topic"), "Messages to the watcher that cannot be read."
)
WATCH_LOG_FAILURES: Final = _counter(
    "watch_log_failures_total", ("chain",), "Times the watcher could not use the log."
)
WATCH_PUBLISH_DURATION: Final = _histogram(
    "watch_publish_duration_seconds", ("chain",), "From a step in hand to its commit."
)

INTAKE_APPLIED: Final = _counter(
    "intake_applied_total", ("topic", "kind"), "Messages applied, by topic and kind."
)
INTAKE_REJECTED: Final = _counter(
    "intake_rejected_total", ("code",), "Commands refused, by rejection code."
)
INTAKE_BATCH_DURATION: Final = _histogram(
    "intake_batch_duration_seconds", ("topic",), "From a batch in hand to its commit."
)
INTAKE_LAG: Final = _gauge(
    "intake_lag_records", ("topic", "partition"), "Records of a lane that are not applied yet."
)
INTAKE_COVERAGE_TIMESTAMP: Final = _gauge(
    "intake_coverage_timestamp_seconds", ("chain",), "The time of the last applied watermark."
)
INTAKE_HELD: Final = _gauge(
    "intake_held", ("chain",), "1 while confirm and expiry of the chain wait."
)
AUDIT_HEIGHT: Final = _gauge(
    "audit_height", ("chain",), "Up to where blocks were read a second time."
)
AUDIT_FINDS: Final = _counter(
    "audit_finds_total",
    ("chain", "kind"),
    "What a second look found: missed and unconfirmed transfers, balances that differ.",
)
AUDIT_ASKED: Final = _counter(
    "audit_requests_total", ("chain", "kind"), "What the second look asked the watcher to do."
)
AUDIT_FAILURES: Final = _counter(
    "audit_failures_total", ("chain",), "Rounds of the second look that could not be finished."
)
SWEEP_ROWS: Final = _counter("sweep_rows_total", ("sweeper",), "Due rows taken, by sweeper.")
SWEEP_DURATION: Final = _histogram(
    "sweep_duration_seconds", ("sweeper",), "One transaction of a sweeper."
)
JOURNAL_SEALS: Final = _counter("journal_seals_total", (), "Seals that were put on the journal.")
JOURNAL_SEALED_TIMESTAMP: Final = _gauge(
    "journal_sealed_timestamp_seconds", (), "When the journal was last sealed and published."
)
OPEN_ORDERS: Final = _gauge(
    "orders_open", ("phase",), "Open orders, by phase; every intake says it, of 100,000 at most."
)
OPEN_EXCEPTIONS: Final = _gauge(
    "exceptions_open",
    ("kind",),
    "Open exceptions, by kind; every intake says it, of 100,000 in all at most.",
)
TRANSFERS_MATCHED: Final = _counter(
    "transfers_matched_total", ("chain", "rule"), "Transfers paired with an order, by rule."
)

OUTBOX_PENDING: Final = _gauge(
    "outbox_pending", ("shard",), "Messages that wait to leave; 100,000 a shard at most."
)
OUTBOX_OLDEST_TIMESTAMP: Final = _gauge(
    "outbox_oldest_timestamp_seconds",
    ("shard",),
    "When the oldest waiting message was written; 0 for none.",
)
RELAY_PUBLISHED: Final = _counter("relay_published_total", ("topic",), "Messages that left.")
RELAY_BATCH_DURATION: Final = _histogram(
    "relay_batch_duration_seconds", (), "From a batch in hand to its commit."
)

TABLE: Final[tuple[Metric, ...]] = tuple(
    row for row in list(globals().values()) if isinstance(row, Metric)
)


class Meters:
    """The meters of one process, all of the table, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._made: dict[str, Counter | Gauge | Histogram] = {
            row.name: self._make(row) for row in TABLE
        }

    def add(self, metric: Metric, amount: float = 1, **labels: str) -> None:
        """Raise a counter."""
        made = self._of(metric, labels)
        check(isinstance(made, Counter), f"{metric.name} is no counter")
        made.inc(amount)  # type: ignore[union-attr]

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """Set a gauge."""
        made = self._of(metric, labels)
        check(isinstance(made, Gauge), f"{metric.name} is no gauge")
        made.set(value)  # type: ignore[union-attr]

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """Put a measurement into a histogram."""
        made = self._of(metric, labels)
        check(isinstance(made, Histogram), f"{metric.name} is no histogram")
        made.observe(value)  # type: ignore[union-attr]

    def value(self, metric: Metric, **labels: str) -> float:
        """Give the present value of a counter or gauge, for tests and progress bars."""
        name = metric.full_name
        return self.registry.get_sample_value(name, labels) or 0.0

    def exposition(self) -> tuple[bytes, str]:
        """Write all meters as Prometheus reads them, with the content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def _of(self, metric: Metric, labels: dict[str, str]) -> Counter | Gauge | Histogram:
        check(
            set(labels) == set(metric.labels),
            f"{metric.name}: expected labels {metric.labels}, found {sorted(labels)}",
        )
        made = self._made[metric.name]
        return made.labels(**labels) if labels else made

    def _make(self, row: Metric) -> Counter | Gauge | Histogram:
        if row.kind == "histogram":
            return Histogram(
                row.full_name,
                row.help,
                row.labels,
                buckets=row.buckets,
                registry=self.registry,
            )
        kind = Counter if row.kind == "counter" else Gauge
        return kind(row.full_name, row.help, row.labels, registry=self.registry)
