"""What the second look asks a chain's watcher: to read again, to see balances. Appends to `requests.<chain>`."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.kernel.clock import Clock
from reconciler.kernel.refusals import TakenOver
from reconciler.observability import metrics
from reconciler.observability.metrics import Meters
from reconciler.stream.promise import (
    Fenced,
    Lane,
    OutcomeUnknown,
    Outgoing,
    Stream,
    StreamUnavailable,
    Writer,
)
from reconciler.stream.topics import requests_topic
from schemas.caip import AssetName, ChainName
from schemas.codec import encode, kind_name
from schemas.envelope import Envelope, derived_id, to_headers
from schemas.facts import FoundBy
from schemas.requests import ReadAgain, SeeBalance


class AnotherAudit(TakenOver):
    """A younger audit looks at this chain. This one ends."""


class Asker:
    """Writes requests under the name of this chain's audit: of two, the younger one goes on."""

    def __init__(self, stream: Stream, chain: ChainName, clock: Clock, meters: Meters) -> None:
        self._stream = stream
        self._chain = chain
        self._clock = clock
        self._meters = meters
        self._writer: Writer | None = None

    async def start(self) -> None:
        """Take the name. Harmless once it is taken."""
        if self._writer is None:
            writer = self._stream.writer(f"audit/{self._chain}")
            await writer.start()
            self._writer = writer

    async def close(self) -> None:
        """Release the log. May be called twice."""
        if self._writer is not None:
            await self._writer.close()
            self._writer = None

    async def read_again(self, first: int, last: int, *, reason: str) -> None:
        """Have a span read again. Twice is harmless. **Raises**: `AnotherAudit`; `StreamUnavailable`."""
        request = ReadAgain(
            request=self._name("again", str(first), str(last)),
            chain=self._chain,
            from_height=first,
            to_height=last,
            reason=reason,
            found_by=FoundBy.AUDIT,
        )
        await self._send([request])

    async def see_balances(self, wanted: Sequence[tuple[AssetName, str]]) -> None:
        """Have balances of (asset, address) seen. **Raises**: `AnotherAudit`; `StreamUnavailable`."""
        await self._send(
            [
                SeeBalance(
                    request=self._name("balance", asset, address),
                    chain=self._chain,
                    asset=asset,
                    address=address,
                )
                for asset, address in wanted
            ]
        )

    def _name(self, kind: str, *parts: str) -> str:
        now = self._clock.now().isoformat()
        return f"{kind}-{derived_id(self._chain, *parts, now)}"

    async def _send(self, requests: Sequence[ReadAgain | SeeBalance]) -> None:
        await self.start()
        writer = self._writer
        if writer is None:
            return
        try:
            await writer.append([self._outgoing(request) for request in requests])
        except Fenced:
            message = f"another audit looks at {self._chain}; this one ends"
            raise AnotherAudit(message) from None
        except OutcomeUnknown as error:
            # Asked twice is harmless: begin anew, and the next round asks again.
            await self.close()
            raise StreamUnavailable(str(error)) from error
        for request in requests:
            self._meters.add(metrics.AUDIT_ASKED, chain=self._chain, kind=kind_name(request))

    def _outgoing(self, request: ReadAgain | SeeBalance) -> Outgoing:
        headers = to_headers(
            Envelope(
                id=request.request,
                type=kind_name(request),
                time=self._clock.now(),
                subject=self._chain,
            )
        )
        return Outgoing(
            lane=Lane(requests_topic(self._chain), 0),
            key=request.request.encode(),
            value=encode(request),
            headers=headers,
        )
