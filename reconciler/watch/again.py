"""Ask the running watcher to read blocks once more. Writes one request; waits for nothing."""

from __future__ import annotations

from reconciler.kernel.clock import Clock
from reconciler.stream.promise import Lane, Outgoing, Stream
from reconciler.stream.topics import requests_topic
from schemas.caip import ChainName
from schemas.codec import encode, kind_name
from schemas.envelope import Envelope, derived_id, to_headers
from schemas.requests import ReadAgain


async def ask_again(
    stream: Stream,
    chain: ChainName,
    *,
    from_height: int,
    to_height: int,
    reason: str,
    clock: Clock,
) -> ReadAgain:
    """Write a `ReadAgain`. Asking twice is harmless: facts are repeated, effects are not.

    **Raises**: `StreamError`.
    """
    now = clock.now()
    request = ReadAgain(
        request=f"again-{derived_id(chain, str(from_height), str(to_height), now.isoformat())}",
        chain=chain,
        from_height=from_height,
        to_height=to_height,
        reason=reason,
    )
    headers = to_headers(
        Envelope(id=request.request, type=kind_name(request), time=now, subject=chain)
    )
    # A name of its own: the request must not fence the relay, nor another person's request.
    writer = stream.writer(f"again/{request.request}")
    try:
        await writer.start()
        await writer.append(
            [
                Outgoing(
                    lane=Lane(requests_topic(chain), 0),
                    key=request.request.encode(),
                    value=encode(request),
                    headers=headers,
                )
            ]
        )
    finally:
        await writer.close()
    return request
