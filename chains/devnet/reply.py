"""What a node sends back, before the connection spoils it. Shared by the families' dialogues. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from chains.devnet.faults import Fault, Transport
from chains.devnet.served import AnyNode

#: What `WrongId` answers to.
WRONG_ID: Final = 4_294_967_295


class Reply(Struct, frozen=True):
    """What goes back: the body (None where nothing was asked), its status, and how it is spoilt."""

    body: bytes | None
    http_status: int = 200
    transport: Fault | None = None


def transport_faults(node: AnyNode, calls: Sequence[Any]) -> list[Fault]:
    """Give the connection faults that strike these calls."""
    methods = [call.get("method", "") for call in calls if isinstance(call, dict)]
    return [fault for method in methods for fault in node.faults.take(method, Transport)]


def written(said: Any, faults: Sequence[Fault], *, http_status: int = 200) -> Reply:
    """Write an answer, or none."""
    body = None if said is None else msgspec.json.encode(said)
    return Reply(body, http_status, faults[0] if faults else None)
