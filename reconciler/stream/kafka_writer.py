"""The one appender of a name on Kafka: a transactional producer.

Starting takes the name over: the broker raises the name's epoch, which fences the producer before us,
and ends its open transaction, so that afterwards it has happened or never will.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

import structlog
from aiokafka.errors import MessageSizeTooLargeError

from reconciler.stream.checks import check_messages
from reconciler.stream.kafka_client import (
    UNREACHABLE,
    Cluster,
    FindSpecs,
    is_fenced,
    unavailable_when_unreachable,
)
from reconciler.stream.promise import (
    Fenced,
    MessageTooLarge,
    OutcomeUnknown,
    Outgoing,
)

#: Shorter than the transaction's own time-out, so that we know before the broker gives up.
APPEND_TIMEOUT_S: Final = 20.0
START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 5.0
STOP_POLL_S: Final = 0.1

log = structlog.get_logger(__name__)


class KafkaWriter:
    """The one appender of its name."""

    def __init__(self, cluster: Cluster, name: str, find_specs: FindSpecs) -> None:
        self._cluster = cluster
        self._name = name
        self._find_specs = find_specs
        self._producer: Any = None
        self._fenced = False
        self._unsettled = False
        self._appending = asyncio.Lock()

    async def start(self) -> None:
        """Take the name over."""
        async with self._appending:
            await self._give_up()
            producer = self._cluster.producer(self._name)
            try:
                with unavailable_when_unreachable(f"writer {self._name}"):
                    async with asyncio.timeout(START_TIMEOUT_S):
                        await producer.start()
            except BaseException:
                await discard(producer)
                raise
            self._producer = producer
            self._fenced = False
            self._unsettled = False

    async def append(self, messages: Sequence[Outgoing]) -> None:
        """Make all of them visible together."""
        if not messages:
            return
        async with self._appending:
            producer = self._usable()
            check_messages(messages, await self._find_specs([each.lane for each in messages]))
            # Only a commit that was acknowledged settles it; a cancellation does not.
            self._unsettled = True
            try:
                async with asyncio.timeout(APPEND_TIMEOUT_S):
                    await producer.begin_transaction()
                    await self._send(producer, messages)
                    await self._commit(producer)
            except UNREACHABLE as error:
                raise self._failed(error) from error
            self._unsettled = False

    async def close(self) -> None:
        """Give up the connection, not the name."""
        async with self._appending:
            await self._give_up()

    def _usable(self) -> Any:
        if self._fenced:
            message = f"writer {self._name}: a younger one has the name"
            raise Fenced(message)
        if self._unsettled or self._producer is None:
            message = f"writer {self._name}: the last append is not settled, start it again"
            raise OutcomeUnknown(message)
        return self._producer

    def _failed(self, error: BaseException) -> Exception:
        message = f"writer {self._name}: {error!r}"
        if is_fenced(error):
            self._fenced = True
            return Fenced(message)
        if isinstance(error, MessageSizeTooLargeError):
            return MessageTooLarge(message)
        # Also when nothing was committed: the producer's numbering of batches has a hole then, and
        # only a start mends it.
        return OutcomeUnknown(message)

    async def _send(self, producer: Any, messages: Sequence[Outgoing]) -> None:
        """Hand all to the broker and wait for it: a commit does not tell of a batch that failed."""
        sent = []
        for message in messages:
            partition = self._cluster.partition(message.lane)
            sent.append(
                await producer.send(
                    partition.topic,
                    message.value,
                    key=message.key,
                    partition=partition.partition,
                    headers=list(message.headers),
                )
            )
        results = await asyncio.gather(*sent, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _commit(self, producer: Any) -> None:
        await producer.commit_transaction()

    async def _give_up(self) -> None:
        producer, self._producer = self._producer, None
        if producer is None:
            return
        if self._unsettled or self._fenced:
            await discard(producer)
            return
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await producer.stop()
        except UNREACHABLE as error:
            log.warning("a producer did not stop", writer=self._name, reason=repr(error))
            await discard(producer)


async def discard(producer: Any) -> None:
    """Stop a producer that may be in the middle of something.

    Its own `stop` waits until all is delivered, for ever if the broker is gone. What it held is
    lost with it: the next start of its name ends the transaction. aiokafka has no public way to do
    this, so its parts are stopped one by one.
    """
    producer._closed = True  # noqa: SLF001
    client, sending = producer.client, producer._sender.sender_task  # noqa: SLF001
    if sending is not None:
        sending.cancel()
    await _close_client(client)
    if sending is None:
        return
    for _ in range(int(STOP_TIMEOUT_S / STOP_POLL_S)):
        # Requests that failed wait for news of the cluster, which nobody brings any more.
        news, client._md_update_fut = client._md_update_fut, None  # noqa: SLF001
        if news is not None and not news.done():
            news.set_result(False)
        if (await asyncio.wait([sending], timeout=STOP_POLL_S))[0]:
            break
        sending.cancel()
    if sending.done() and not sending.cancelled() and (error := sending.exception()):
        log.info("a producer was given up", reason=repr(error))
    await _close_client(client)


async def _close_client(client: Any) -> None:
    with contextlib.suppress(*UNREACHABLE):
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await client.close()
