"""Send an HTTP answer the way a broken connection or a broken node would.

Reads a `Reply`; writes to the client. What it streams is bounded by the fault itself.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from chains.devnet.faults import (
    CutOff,
    DropSocket,
    Hang,
    HttpStatus,
    HugeBody,
    InvalidJson,
    SlowBody,
)
from chains.devnet.reply import Reply

_JSON = "application/json"
_CHUNK = b"0" * 65_536


async def send(request: web.Request, reply: Reply) -> web.StreamResponse:
    """Answer a request, spoilt if a fault says so."""
    body = reply.body or b""
    match reply.transport:
        case HttpStatus() as fault:
            headers = (
                {} if fault.retry_after_s is None else {"Retry-After": str(fault.retry_after_s)}
            )
            return web.Response(status=fault.status, headers=headers, text=fault.body)
        case InvalidJson() as fault:
            return web.Response(text=fault.body, content_type=_JSON)
        case Hang() as fault:
            await asyncio.sleep(fault.seconds)
        case CutOff() as fault:
            return await _cut_off(request, body, fault)
        case SlowBody() as fault:
            return await _slowly(request, body, fault)
        case HugeBody() as fault:
            return await _huge(request, fault)
        case DropSocket():
            abort(request)
        case _:
            pass
    return web.Response(body=body, status=reply.http_status, content_type=_JSON)


def abort(request: web.Request) -> None:
    """Break the connection off."""
    if request.transport is not None:
        request.transport.abort()


async def _cut_off(request: web.Request, body: bytes, fault: CutOff) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": _JSON})
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: fault.after_bytes])
    if request.transport is not None:
        # close, not abort: what was written must arrive before the end does
        request.transport.close()
    return response


async def _slowly(request: web.Request, body: bytes, fault: SlowBody) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": _JSON})
    response.content_length = len(body)
    await response.prepare(request)
    for start in range(0, len(body), fault.chunk_bytes):
        await response.write(body[start : start + fault.chunk_bytes])
        await asyncio.sleep(fault.pause_s)
    return response


async def _huge(request: web.Request, fault: HugeBody) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": _JSON})
    await response.prepare(request)
    await response.write(b'{"jsonrpc":"2.0","id":1,"result":"0x')
    sent = 0
    while sent < fault.size_bytes:
        await response.write(_CHUNK)
        sent += len(_CHUNK)
    await response.write(b'"}')
    return response
