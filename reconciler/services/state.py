"""The document of an order: all that its judgement needs and that has no row of its own."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from reconciler.model.order import Claim, OrderDecisions, Terms
from reconciler.model.status import Status
from schemas.codes import Attention
from schemas.values import Message, decode_hook, encode_hook


class OrderState(Message, frozen=True):
    """One order, whole. `confirmed_sequence` is that of its last `confirmed` event.

    `looked_until` is the time of the newest block at which its address held what transfers explain.
    `open_exceptions` lists (kind, subject) of the exceptions that this order keeps open.
    """

    terms: Terms
    claims: tuple[Claim, ...] = ()
    decisions: OrderDecisions = OrderDecisions()
    status: Status | None = None
    confirmed_sequence: int | None = None
    noted: tuple[Attention, ...] = ()
    open_exceptions: tuple[tuple[str, str], ...] = ()
    looked_until: datetime | None = None


_encoder: Final = msgspec.json.Encoder(enc_hook=encode_hook)
_decoder: Final = msgspec.json.Decoder(OrderState, dec_hook=decode_hook)


def encode_state(state: OrderState) -> bytes:
    """Write the document."""
    return _encoder.encode(state)


def decode_state(data: bytes) -> OrderState:
    """Read the document."""
    return _decoder.decode(data)
