"""New blocks pushed over ZeroMQ: a hint to look now, whatever is pushed, by whom and how often.

No node here is built with ZeroMQ, so the publisher is ours: topic, hash and number, as Bitcoin Core sends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
import zmq

from chains.catalog import load_catalogue
from chains.clock import SystemClock
from chains.registry import open_source
from chains.utxo.networks import BITCOIN_REGTEST
from chains.utxo.pushes import NewBlocks

#: Long enough that a test which waits for it is seen to wait.
PATIENCE_S = 20.0


class Publisher:
    """What a node's `-zmqpubhashblock` is to us."""

    def __init__(self) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.XPUB)
        self.port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self._number = 0

    @property
    def url(self) -> str:
        return f"zmq+tcp://127.0.0.1:{self.port}"

    def until_subscribed(self) -> bytes:
        """Wait until somebody listens; gives to what."""
        assert self._socket.poll(int(PATIENCE_S * 1_000)), "nobody subscribed"
        return self._socket.recv()

    def push(self, *parts: bytes) -> None:
        self._number += 1
        number = self._number.to_bytes(4, "little")
        self._socket.send_multipart(parts or (b"hashblock", b"\x11" * 32, number))

    def close(self) -> None:
        self._context.destroy(linger=0)


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    found = Publisher()
    yield found
    found.close()


async def waited_s(pushes: NewBlocks, timeout_s: float = PATIENCE_S) -> float:
    begun = time.monotonic()
    await pushes.wait(timeout_s)
    return time.monotonic() - begun


async def subscribed(publisher: Publisher) -> NewBlocks:
    pushes = NewBlocks(publisher.url)
    await pushes.wait(0.01)
    assert await asyncio.to_thread(publisher.until_subscribed) == b"\x01hashblock"
    return pushes


async def test_a_pushed_block_ends_the_wait(publisher: Publisher) -> None:
    pushes = await subscribed(publisher)
    waiting = asyncio.create_task(waited_s(pushes))
    await asyncio.sleep(0.05)
    publisher.push()
    assert await waiting < PATIENCE_S / 2
    await pushes.close()


async def test_many_pushes_are_one_reason_to_look(publisher: Publisher) -> None:
    pushes = await subscribed(publisher)
    for _ in range(50):
        publisher.push()
    await asyncio.sleep(0.2)
    assert await waited_s(pushes) < PATIENCE_S / 2
    assert await waited_s(pushes, 0.1) >= 0.1
    await pushes.close()


@pytest.mark.parametrize(
    "parts",
    [(b"hashblock",), (b"hashblock", b""), (b"hashblock", b"\xff" * 900), (b"hashblock",) * 40],
)
async def test_what_is_pushed_is_not_read(publisher: Publisher, parts: tuple[bytes, ...]) -> None:
    pushes = await subscribed(publisher)
    publisher.push(*parts)
    assert await waited_s(pushes) < PATIENCE_S / 2
    await pushes.close()


async def test_other_topics_and_messages_too_large_end_no_wait(publisher: Publisher) -> None:
    pushes = await subscribed(publisher)
    publisher.push(b"rawtx", b"\x11" * 200)
    publisher.push(b"hashblock", b"\x11" * 2_000_000)
    assert await waited_s(pushes, 0.3) >= 0.3
    await pushes.close()


async def test_where_nobody_pushes_the_time_passes_and_closing_twice_does_no_harm() -> None:
    pushes = NewBlocks("zmq+tcp://127.0.0.1:1")
    assert await waited_s(pushes, 0.1) >= 0.1
    await pushes.close()
    await pushes.close()


async def test_a_source_looks_at_once_when_a_block_is_pushed(publisher: Publisher) -> None:
    source = open_source(
        BITCOIN_REGTEST.chain,
        ["http://127.0.0.1:1", publisher.url],
        catalogue=load_catalogue(),
        clock=SystemClock(),
        poll_interval_s=PATIENCE_S,
    )
    await source.wait_for_change(0.01)
    await asyncio.to_thread(publisher.until_subscribed)
    begun = time.monotonic()
    waiting = asyncio.create_task(source.wait_for_change(PATIENCE_S))
    await asyncio.sleep(0.05)
    publisher.push()
    await waiting
    assert time.monotonic() - begun < PATIENCE_S / 2
    await source.close()
