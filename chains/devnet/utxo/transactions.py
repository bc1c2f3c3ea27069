"""Transactions of a UTXO chain, to their bytes and back. Pure.

Ids and bytes are real; signatures are made up, for nothing that reads blocks checks them, and so a
script may spend anybody's output. Ids and outpoints are bytes on the wire; `shown` turns them round.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from msgspec import Struct

from chains.devnet.hexadecimal import ScriptError
from chains.errors import AnswerRefused
from chains.utxo.merkle import HASH_BYTES, double_sha256, shown
from chains.utxo.sizes import read_size, write_size

OUTPOINT_BYTES: Final = HASH_BYTES + 4
#: What a coinbase spends.
NOTHING: Final = bytes(HASH_BYTES) + b"\xff" * 4
#: Below it an input says that it may be replaced. **Source**: BIP 125.
REPLACEABLE_BELOW: Final = 0xFFFF_FFFE
_MARKER: Final = b"\x00\x01"
_OP_TRUE: Final = b"\x51"
#: Scripts that anybody may spend, by a hash of the one opcode that says so.
OPEN_WITNESS: Final = b"\x00\x20" + sha256(_OP_TRUE).digest()
OPEN_SCRIPT: Final = bytes.fromhex("a914da1745e9b549bd0bfa1a569971c77eba30cd5a4b87")


class Input(Struct, frozen=True, kw_only=True):
    """What is spent, and by what."""

    outpoint: bytes
    script: bytes = b""
    sequence: int = 0xFFFF_FFFD
    witness: tuple[bytes, ...] = ()


class Output(Struct, frozen=True):
    """Who is paid. **Units**: `amount` in satoshi."""

    amount: int
    script: bytes


class Transaction(Struct, frozen=True, kw_only=True, eq=False):
    """A transaction and its bytes. `wide_id` covers the witnesses, `stripped_size` leaves them out."""

    txid: bytes
    wide_id: bytes
    raw: bytes
    stripped_size: int
    version: int
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    lock_time: int

    @property
    def spends(self) -> tuple[bytes, ...]:
        """The outpoints that it spends; none of a coinbase."""
        return () if self.is_coinbase else tuple(one.outpoint for one in self.inputs)

    @property
    def is_coinbase(self) -> bool:
        """Tell whether it makes coins."""
        return self.inputs[0].outpoint == NOTHING

    @property
    def is_replaceable(self) -> bool:
        """Tell whether it says that it may be replaced."""
        return any(one.sequence < REPLACEABLE_BELOW for one in self.inputs)

    @property
    def weight(self) -> int:
        """Bytes without witnesses four times, witnesses once (BIP 141)."""
        return 3 * self.stripped_size + len(self.raw)


def make_transaction(
    inputs: Sequence[Input], outputs: Sequence[Output], *, version: int = 2, lock_time: int = 0
) -> Transaction:
    """Write a transaction."""
    head, tail = struct.pack("<i", version), struct.pack("<I", lock_time)
    body = b"".join(
        (
            write_size(len(inputs)),
            *(
                one.outpoint + _sized(one.script) + struct.pack("<I", one.sequence)
                for one in inputs
            ),
            write_size(len(outputs)),
            *(struct.pack("<Q", one.amount) + _sized(one.script) for one in outputs),
        )
    )
    stripped = head + body + tail
    raw = stripped
    if any(one.witness for one in inputs):
        raw = head + _MARKER + body + b"".join(_stack(one.witness) for one in inputs) + tail
    txid = double_sha256(stripped)
    return Transaction(
        txid=txid,
        wide_id=txid if raw is stripped else double_sha256(raw),
        raw=raw,
        stripped_size=len(stripped),
        version=version,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        lock_time=lock_time,
    )


def read_transaction(raw: bytes) -> Transaction:
    """Read a transaction's bytes to the last. **Raises**: `ScriptError`."""
    try:
        found = _read(raw)
    except (IndexError, struct.error, AnswerRefused) as error:
        message = f"the bytes are no transaction: {error}"
        raise ScriptError(message) from error
    if found.raw != raw:
        message = f"the bytes are no transaction: it has {len(found.raw)}, found {len(raw)}"
        raise ScriptError(message)
    return found


def outpoint_of(text: str) -> bytes:
    """Read `<txid>:<n>`. **Raises**: `ScriptError`."""
    txid, _, index = text.partition(":")
    if not index.isdecimal() or int(index) >= 2**32:
        message = f"expected an outpoint as <txid>:<n>, found {text[:100]!r}"
        raise ScriptError(message)
    return hash_bytes(txid) + struct.pack("<I", int(index))


def outpoint_at(txid: bytes, index: int) -> bytes:
    """Give an output's name."""
    return txid + struct.pack("<I", index)


def outpoint_text(outpoint: bytes) -> str:
    """Write `<txid>:<n>`."""
    return f"{shown(outpoint[:HASH_BYTES])}:{index_of(outpoint)}"


def index_of(outpoint: bytes) -> int:
    """Give which output of its transaction is meant."""
    return int.from_bytes(outpoint[HASH_BYTES:], "little")


def hash_bytes(text: str) -> bytes:
    """Read a hash as people see it, to its order on the wire. **Raises**: `ScriptError`."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != HASH_BYTES or len(text) != 2 * HASH_BYTES:
        message = f"expected a hash of 64 hex digits, found {text[:100]!r}"
        raise ScriptError(message)
    return found[::-1]


def spend(outpoint: bytes, script: bytes, *, sequence: int) -> Input:
    """Make an input for an output of any kind; where a signature is needed, it is made up."""
    signature, key = b"\x30" * 71, b"\x02" * 33
    if script == OPEN_WITNESS:
        return Input(outpoint=outpoint, sequence=sequence, witness=(_OP_TRUE,))
    if script == OPEN_SCRIPT:
        return Input(outpoint=outpoint, sequence=sequence, script=_sized(_OP_TRUE))
    if script[:1] in {b"\x00", b"\x51"}:
        return Input(outpoint=outpoint, sequence=sequence, witness=(signature, key))
    return Input(outpoint=outpoint, sequence=sequence, script=_sized(signature) + _sized(key))


def _sized(content: bytes) -> bytes:
    return write_size(len(content)) + content


def _stack(items: tuple[bytes, ...]) -> bytes:
    return write_size(len(items)) + b"".join(map(_sized, items))


def _read(raw: bytes) -> Transaction:
    version = struct.unpack_from("<i", raw)[0]
    marked = raw[4:6] == _MARKER
    inputs, at = _read_inputs(raw, 6 if marked else 4)
    outputs, at = _read_outputs(raw, at)
    if marked:
        for place, one in enumerate(inputs):
            witness, at = _read_stack(raw, at)
            inputs[place] = Input(
                outpoint=one.outpoint,
                script=one.script,
                sequence=one.sequence,
                witness=tuple(witness),
            )
    lock_time = struct.unpack_from("<I", raw, at)[0]
    if not inputs or not outputs:
        message = "it spends or pays nothing"
        raise AnswerRefused(message)
    return make_transaction(inputs, outputs, version=version, lock_time=lock_time)


def _read_inputs(raw: bytes, at: int) -> tuple[list[Input], int]:
    count, at = read_size(raw, at)
    found = []
    for _ in range(count):
        outpoint = raw[at : at + OUTPOINT_BYTES]
        script, at = _read_sized(raw, at + OUTPOINT_BYTES)
        sequence = struct.unpack_from("<I", raw, at)[0]
        found.append(Input(outpoint=outpoint, script=script, sequence=sequence))
        at += 4
    return found, at


def _read_outputs(raw: bytes, at: int) -> tuple[list[Output], int]:
    count, at = read_size(raw, at)
    found = []
    for _ in range(count):
        amount = struct.unpack_from("<Q", raw, at)[0]
        script, at = _read_sized(raw, at + 8)
        found.append(Output(amount, script))
    return found, at


def _read_stack(raw: bytes, at: int) -> tuple[list[bytes], int]:
    count, at = read_size(raw, at)
    found = []
    for _ in range(count):
        item, at = _read_sized(raw, at)
        found.append(item)
    return found, at


def _read_sized(raw: bytes, at: int) -> tuple[bytes, int]:
    length, at = read_size(raw, at)
    return raw[at : at + length], at + length
