"""Send a refused command back: the bytes as they came, with the reason in headers of our own.

Writes one message to `orders-rejected`. Whoever writes to `orders` chooses key, headers and value, and a
log that packs messages takes more bytes than it gives: what does not fit is cut and says so. A refusal
that the log did not take would stand in the way of every event behind it.
"""

from __future__ import annotations

import hashlib
from typing import Final

from reconciler.services.incoming import Incoming
from reconciler.services.ledger import Ledger
from reconciler.services.refused import RefusedError
from reconciler.stream.checks import message_bytes
from reconciler.stream.promise import MESSAGE_BYTES_MAX, Lane, Outgoing
from reconciler.stream.topics import ORDERS, ORDERS_REJECTED
from schemas.envelope import Headers, derived_id
from schemas.values import LONG_TEXT_MAX, SHORT_TEXT_MAX, cut

#: What is given back of a message that is larger than `orders` takes by itself. **Units**: bytes.
KEY_BYTES_MAX: Final = 1_024
HEADERS_BYTES_MAX: Final = 65_536
VALUE_BYTES_MAX: Final = MESSAGE_BYTES_MAX
HEADERS_MAX: Final = 100


def reject(ledger: Ledger, item: Incoming, error: RefusedError) -> None:
    """Tell whoever sent a command that it changes nothing, and why."""
    if item.offset < 0:
        return  # a decision of the service itself that came too late: nobody to tell
    ours = {
        "rejected_code": error.code.value,
        "rejected_reason": cut(str(error), LONG_TEXT_MAX),
        "rejected_topic": ORDERS,
        "rejected_partition": str(item.partition),
        "rejected_offset": str(item.offset),
    }
    key, theirs, value = item.key, item.headers, item.value
    if _size(item) > MESSAGE_BYTES_MAX:
        key, value = key[:KEY_BYTES_MAX], value[:VALUE_BYTES_MAX]
        theirs = _headers_that_fit(theirs)
        ours["rejected_bytes"] = str(len(item.value))
        ours["rejected_sha256"] = hashlib.sha256(item.value).hexdigest()
    ledger.send_raw(
        topic=ORDERS_REJECTED,
        key=key,
        type_name=cut(item.type, SHORT_TEXT_MAX) or "unknown",
        headers=(*theirs, *((name, text.encode()) for name, text in ours.items())),
        value=value,
        event_id=derived_id("rejected", item.topic, str(item.partition), str(item.offset)),
        recorded_at=item.recorded_at,
    )


def _size(item: Incoming) -> int:
    lane = Lane(item.topic, item.partition)
    return message_bytes(Outgoing(lane=lane, key=item.key, value=item.value, headers=item.headers))


def _headers_that_fit(headers: Headers) -> Headers:
    """Keep the first headers that there is room for; one that is too large is left out alone."""
    kept: list[tuple[str, bytes]] = []
    left = HEADERS_BYTES_MAX
    for name, value in headers[:HEADERS_MAX]:
        size = len(name.encode()) + len(value)
        if size <= left:
            kept.append((name, value))
            left -= size
    return tuple(kept)
