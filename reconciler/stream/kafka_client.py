"""What the parts of the Kafka stream share: how clients are made, which errors mean what.

Topics, groups and writers of a stream may carry a prefix, so that several live on one cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    BrokerResponseError,
    InvalidProducerEpoch,
    KafkaError,
    ProducerFenced,
)
from msgspec import Struct

from reconciler.stream.promise import Lane, StreamUnavailable, TopicSpec

#: What a cluster that cannot be reached raises.
UNREACHABLE: Final = (KafkaError, OSError, TimeoutError)

#: Until a request counts as lost. Kafka's default (40 s) is longer than a shop should be blind.
REQUEST_TIMEOUT_MS: Final = 10_000
RETRY_BACKOFF_MS: Final = 100
#: How long the client of a lane waits before it tries a broker again that did not answer. There are many,
#: and each tries in three places at once: with a tenth of a second, 200 connections a second were tried
#: for four lanes. A whole second is felt where a lane that is new has no leader yet (both measured).
READ_BACKOFF_MS: Final = 300
#: The broker gives up a transaction of a writer that died after this long. Until then readers of its
#: lanes see nothing newer; a successor that starts ends it at once.
TRANSACTION_TIMEOUT_MS: Final = 30_000
#: A record batch. One message may be larger than that; it is then a batch of its own.
BATCH_BYTES: Final = 262_144
REQUEST_BYTES_MAX: Final = 64 * 1_048_576
FETCH_BYTES_MAX: Final = 4 * 1_048_576
FETCH_WAIT_MS: Final = 500


#: Give the specs of the topics of these lanes. **Raises**: `TopicsDiffer` when a lane is missing.
FindSpecs = Callable[[Sequence[Lane]], Awaitable[Mapping[str, TopicSpec]]]


class Cluster(Struct, frozen=True, kw_only=True):
    """Where the cluster is, how to log in (`options` go to every client) and our prefix."""

    bootstrap: str
    prefix: str = ""
    options: Mapping[str, Any] = {}

    def partition(self, lane: Lane) -> TopicPartition:
        """Name a lane as the cluster does."""
        return TopicPartition(self.prefix + lane.topic, lane.partition)

    def lane(self, partition: TopicPartition) -> Lane:
        """Name a partition as we do."""
        return Lane(topic=partition.topic.removeprefix(self.prefix), partition=partition.partition)

    def admin(self) -> Any:
        """Make a client that looks after topics."""
        return AIOKafkaAdminClient(request_timeout_ms=REQUEST_TIMEOUT_MS, **self._common())

    def producer(self, name: str) -> Any:
        """Make a client that appends under a name."""
        return AIOKafkaProducer(
            transactional_id=self.prefix + name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            max_batch_size=BATCH_BYTES,
            max_request_size=REQUEST_BYTES_MAX,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            **self._common(),
        )

    def consumer(self, **options: Any) -> Any:
        """Make a client that reads what was committed and never moves its position by itself."""
        settings = {
            "isolation_level": "read_committed",
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            "retry_backoff_ms": READ_BACKOFF_MS,
            "max_partition_fetch_bytes": FETCH_BYTES_MAX,
            "fetch_max_wait_ms": FETCH_WAIT_MS,
        }
        return AIOKafkaConsumer(**{**settings, **self._common(), **options})

    def _common(self) -> dict[str, Any]:
        return {"bootstrap_servers": self.bootstrap, **self.options}


#: More brokers that do not answer are not named.
REASONS_MAX: Final = 10


class _WhyNot(logging.Filter):
    """Keeps what the client says of brokers that it cannot connect to, instead of logging it."""

    BEGINS: Final = "Unable connect to "

    def __init__(self) -> None:
        super().__init__()
        self.reasons: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Take a sentence of these, let every other one pass."""
        said = record.getMessage()
        if not said.startswith(self.BEGINS) or len(self.reasons) >= REASONS_MAX:
            return True
        self.reasons.add(said.removeprefix(self.BEGINS))
        return False


@contextlib.contextmanager
def unreachable_in_words(bootstrap: str) -> Iterator[None]:
    """Say of a cluster that cannot be reached where it was looked for, and why it did not answer: the
    client's error names no reason, only its log does. **Raises**: `StreamUnavailable`.
    """
    heard, client = _WhyNot(), logging.getLogger("aiokafka")
    client.addFilter(heard)
    try:
        yield
    except UNREACHABLE as error:
        reasons = "; ".join(sorted(heard.reasons))
        message = f"Kafka at {bootstrap} cannot be reached: {reasons or repr(error)}"
        raise StreamUnavailable(message) from error
    finally:
        client.removeFilter(heard)


async def stop_consumer(consumer: Any) -> None:
    """Stop a client that reads, all of it, also when it fails at that or who stops it is cancelled.

    aiokafka lets the cancellation of its own requests out of `stop` when one of them has just failed,
    and leaves the rest of the client open (shown). Who closes must not take that for its own: a task
    would end without a word.
    """
    stopping = asyncio.create_task(consumer.stop())
    try:
        await asyncio.wait([stopping])
    finally:
        if not stopping.done():
            await _give_up(stopping)
        if stopping.cancelled() or stopping.exception() is not None:
            await _stop_the_rest(consumer)
    if not stopping.cancelled():
        stopping.result()


async def _stop_the_rest(consumer: Any) -> None:
    """Stop part by part what `stop` left open; aiokafka has no public way to go on."""
    consumer._closed = True  # noqa: SLF001 - a stop that was given up before it began
    left: list[asyncio.Future[Any] | None] = []
    coordinator, fetcher = consumer._coordinator, consumer._fetcher  # noqa: SLF001
    if coordinator is not None:
        names = (
            "_coordination_task",
            "_heartbeat_task",
            "_commit_refresh_task",
            "_reset_committed_task",
        )
        left += [getattr(coordinator, name, None) for name in names]
    if fetcher is not None:
        left += [fetcher._fetch_task, *fetcher._pending_tasks]  # noqa: SLF001
    for task in left:
        if task is not None:
            await _give_up(task)
    await consumer._client.close()  # noqa: SLF001


async def _give_up(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])


@contextlib.contextmanager
def unavailable_when_unreachable(doing: str) -> Iterator[None]:
    """Turn what the client raises into the stream's own word."""
    try:
        yield
    except UNREACHABLE as error:
        message = f"{doing}: {error!r}"
        raise StreamUnavailable(message) from error


def is_fenced(error: BaseException) -> bool:
    """Tell whether a younger writer has the name. The client wraps some errors in others."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ProducerFenced | InvalidProducerEpoch):
            return True
        cause = cause.__cause__
    return False


def check_code(code: int, errors: Mapping[int, type[BrokerResponseError]], doing: str) -> None:
    """**Raises**: `StreamUnavailable` with the broker's word for a code that is not 0."""
    if code:
        word = errors[code].message if code in errors else "?"
        message = f"{doing}: the broker says {code} {word}"
        raise StreamUnavailable(message)
