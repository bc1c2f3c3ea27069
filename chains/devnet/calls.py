"""How a script writes what a transaction does: plain text and numbers, as they come over JSON too.

The nouns that `DevnetChain` takes. They are turned into `scripted` ones when a transaction is made.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from chains.devnet.scripted import FrameKind

GWEI: Final = 10**9
ZERO: Final = "0x" + "00" * 20


class How(Struct, frozen=True, kw_only=True):
    """How a transaction is sent. **Units**: wei a gas.

    `hold`: not into the mempool, only for `mine(transactions=…)` or `reorganise(place=…)`.
    `nonce`: that of a waiting transaction replaces it. `authorizations`: contracts that the sender
    delegates to (type 4). A type that nobody knows is encoded like type 2.
    """

    type: int = 2
    fails: str | None = None
    nonce: int | None = None
    hold: bool = False
    gas_limit: int = 1_000_000
    fee_max: int = 2 * GWEI
    tip_max: int = GWEI
    input: str = "0x"
    authorizations: tuple[str, ...] = ()


PLAINLY: Final = How()


class Payment(Struct, frozen=True, kw_only=True):
    """One leg of a batch; without a token it pays the chain's coin."""

    to: str
    amount: int
    token: str | None = None


class Step(Struct, frozen=True, kw_only=True):
    """One thing that happens inside a frame: a call (with steps of its own), a token move, or a log.

    Exactly one of `call`, `move` and `log` is set.
    """

    call: Call | None = None
    move: TokenMove | None = None
    log: RawLog | None = None


class Call(Struct, frozen=True, kw_only=True):
    """A frame of a call tree, as a script writes it."""

    kind: FrameKind = FrameKind.CALL
    to: str = ZERO
    value: int = 0
    input: str = "0x"
    steps: tuple[Step, ...] = ()
    fails: str | None = None


class TokenMove(Struct, frozen=True, kw_only=True):
    """A token's own transfer; the zero address mints and burns."""

    token: str
    owner: str
    to: str
    amount: int


class RawLog(Struct, frozen=True, kw_only=True):
    """Any log at all."""

    address: str
    topics: tuple[str, ...]
    data: str = "0x"
