"""What the parts of the Kafka stream share: how clients are made, which errors mean what.

Topics, groups and writers of a stream may carry a prefix, so that several live on one cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
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
            "retry_backoff_ms": RETRY_BACKOFF_MS,
            "max_partition_fetch_bytes": FETCH_BYTES_MAX,
            "fetch_max_wait_ms": FETCH_WAIT_MS,
        }
        return AIOKafkaConsumer(**{**settings, **self._common(), **options})

    def _common(self) -> dict[str, Any]:
        return {"bootstrap_servers": self.bootstrap, **self.options}


async def stop_consumer(consumer: Any) -> None:
    """Stop a client that reads, all of it.

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
    if not stopping.cancelled():
        stopping.result()
        return
    # aiokafka has no public way to go on.
    fetcher = consumer._fetcher  # noqa: SLF001
    if fetcher is not None:
        for left in (fetcher._fetch_task, *fetcher._pending_tasks):  # noqa: SLF001
            await _give_up(left)
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
