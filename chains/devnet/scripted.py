"""The nouns of a script: what a transaction will do when it is executed.

There is no EVM here. A transaction carries its *effects* as a tree of frames, and the executor plays
them on the ledger. So the same transaction, mined again on another branch, does the same again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from chains.devnet.hexadecimal import ZERO_ADDRESS, keccak, word

TRANSFER_TOPIC: Final = keccak(b"Transfer(address,address,uint256)")


class FrameKind(StrEnum):
    """How a frame was entered, in the words of geth's callTracer."""

    CALL = "CALL"
    STATICCALL = "STATICCALL"
    DELEGATECALL = "DELEGATECALL"
    CALLCODE = "CALLCODE"
    CREATE = "CREATE"
    CREATE2 = "CREATE2"
    SELFDESTRUCT = "SELFDESTRUCT"


class Log(Struct, frozen=True):
    """One log, as a contract emits it."""

    address: bytes
    topics: tuple[bytes, ...]
    data: bytes


class Emit(Struct, frozen=True, tag="emit"):
    """Emit any log at all, true or not."""

    log: Log


class MoveToken(Struct, frozen=True, tag="move_token"):
    """Move a token in its own ledger, by its own rules. **Units**: base units, or an ERC-721 id.

    From the zero address is a mint, to it a burn. Without the money the token does what it does:
    revert, or return false.
    """

    token: bytes
    owner: bytes
    to: bytes
    amount: int


class Frame(Struct, frozen=True, kw_only=True, tag="frame"):
    """One call frame. **Units**: `value` in wei.

    `to` is the callee; for CREATE it is worked out, for SELFDESTRUCT it is the heir (and the whole
    balance goes). `fails` undoes everything inside and is the error that a tracer shows; a failing
    inner frame leaves its parent alone unless that one has `fails` too.
    """

    kind: FrameKind = FrameKind.CALL
    to: bytes = ZERO_ADDRESS
    value: int = 0
    input: bytes = b""
    steps: tuple[Frame | MoveToken | Emit, ...] = ()
    fails: str | None = None


class Transaction(Struct, frozen=True, kw_only=True):
    """A transaction with its place in a sender's row, its bytes and its effects. **Units**: wei.

    Signatures are made up: `r` and `s` are hashes. Nothing that reads blocks checks them, and so a
    script may pay from any address.
    """

    hash: bytes
    encoded: bytes
    type: int
    chain_id: int
    nonce: int
    sender: bytes
    root: Frame
    gas_limit: int
    fee_max: int
    tip_max: int
    authorizations: tuple[bytes, ...]
    r: int
    s: int
    y_parity: int


def transfer_log(contract: bytes, owner: bytes, to: bytes, amount: int) -> Log:
    """Give the log of an ERC-20 transfer."""
    return Log(contract, (TRANSFER_TOPIC, word(owner), word(to)), word(amount))
