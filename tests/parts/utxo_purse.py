"""A purse without keys: its coins are locked by a script that is true, so that anyone may spend them.

What it pays needs no signature, and so no wallet: it works on every node, in blocks made by hand, and
for double spends. Transactions are those of `tests.parts.utxo_reference`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from tests.parts.utxo_reference import In, Out, Tx

OP_TRUE = b"\x51"
#: Paid to the hash of a script that is true: RIPEMD-160 of SHA-256 of 0x51 (BIP 16).
ANYONE = bytes.fromhex("a914da1745e9b549bd0bfa1a569971c77eba30cd5a4b87")
#: The same with the script in the witness (BIP 141).
ANYONE_BY_WITNESS = b"\x00\x20" + sha256(OP_TRUE).digest()

#: A sequence number below the last two says that the transaction may be replaced (BIP 125).
REPLACEABLE, FINAL = b"\xfd\xff\xff\xff", b"\xff\xff\xff\xff"
#: **Units**: base units. Well above what nodes ask for some inputs and outputs.
FEE = 20_000


class Pay(NamedTuple):
    """One output to be: a script and an amount of base units."""

    script: bytes
    amount: int


class Coin(NamedTuple):
    """What can be spent: an outpoint as bytes on the wire, its amount, and what it is locked by."""

    outpoint: bytes
    amount: int
    script: bytes

    @property
    def name(self) -> str:
        return f"{self.outpoint[31::-1].hex()}:{int.from_bytes(self.outpoint[32:], 'little')}"


def coins_of(tx: Tx) -> list[Coin]:
    """Give every output of a transaction that anyone may spend."""
    return [
        Coin(tx.txid() + struct.pack("<I", n), out.amount, out.script)
        for n, out in enumerate(tx.outputs)
        if out.script in {ANYONE, ANYONE_BY_WITNESS}
    ]


def spend(
    coins: Sequence[Coin], pays: Sequence[Pay], *, fee: int = FEE, sequence: bytes = REPLACEABLE
) -> Tx:
    """Spend coins; what is left over goes back to the purse by the last output, if anything is."""
    rest = sum(coin.amount for coin in coins) - sum(pay.amount for pay in pays) - fee
    if rest < 0:
        message = f"{-rest} base units are missing"
        raise ValueError(message)
    outputs = [Out(pay.amount, pay.script) for pay in pays]
    if rest:
        outputs.append(Out(rest, ANYONE))
    inputs = [_input_of(coin, sequence) for coin in coins]
    flags = int(any(one.witness for one in inputs))
    return Tx(struct.pack("<i", 2), inputs, outputs, bytes(4), flags)


def name_of(tx: Tx) -> str:
    """Give the id as people see it."""
    return tx.txid()[::-1].hex()


def _input_of(coin: Coin, sequence: bytes) -> In:
    if coin.script == ANYONE_BY_WITNESS:
        return In(coin.outpoint, b"", sequence, [OP_TRUE])
    return In(coin.outpoint, bytes([len(OP_TRUE)]) + OP_TRUE, sequence)
