"""An answer of a gigabyte, plain or packed, costs no more memory than an answer may have."""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from chains.clock import SystemClock
from chains.errors import AnswerRefused
from chains.http_node import NodeLimits
from chains.rpc import RpcNode

GIGABYTE = 2**30
PIECE = b"0" * 2**20
LIMIT_BYTES = 2**22
#: Buffers of the client and of the test's own server are in it.
PEAK_BYTES_MAX = 40 * 2**20


async def plain(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    for _ in range(GIGABYTE // len(PIECE)):
        await answer.write(PIECE)
    return answer


async def packed(request: web.Request) -> web.StreamResponse:
    """A thousand times as long once it is unpacked."""
    packer = zlib.compressobj(9, wbits=31)
    answer = web.StreamResponse(headers={"Content-Encoding": "gzip"})
    await answer.prepare(request)
    for _ in range(GIGABYTE // len(PIECE)):
        await answer.write(packer.compress(PIECE))
    await answer.write(packer.flush())
    return answer


@pytest.fixture(params=[plain, packed], ids=lambda handler: handler.__name__)
async def node(request: pytest.FixtureRequest) -> AsyncIterator[RpcNode]:
    app = web.Application()
    app.router.add_post("/", request.param)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    limits = NodeLimits(timeout_s=30, answer_bytes_max=LIMIT_BYTES)
    made = RpcNode(
        f"http://127.0.0.1:{runner.addresses[0][1]}/",
        chain="eip155:1",
        clock=SystemClock(),
        observer=lambda _: None,
        limits=limits,
    )
    yield made
    await made.close()
    await runner.cleanup()


async def test_gigabyte_is_refused_and_never_held(node: RpcNode) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(AnswerRefused, match=f"above {LIMIT_BYTES} bytes"):
            await node.ask("eth_getLogs")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < PEAK_BYTES_MAX
