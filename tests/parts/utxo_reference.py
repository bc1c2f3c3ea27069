"""A second reader of raw blocks, written to be obvious and not to be fast: it keeps every field, writes the
same bytes again, and shares no line with the one in chains/utxo.
"""

from __future__ import annotations

import hashlib
import io
import struct
from dataclasses import dataclass, field


class Unreadable(Exception):
    """The bytes are no block."""


@dataclass
class In:
    outpoint: bytes
    script: bytes
    sequence: bytes
    witness: list[bytes] = field(default_factory=list)


@dataclass
class Out:
    amount: int
    script: bytes


@dataclass
class Tx:
    version: bytes
    inputs: list[In]
    outputs: list[Out]
    lock_time: bytes
    flags: int = 0

    def stripped(self) -> bytes:
        return self.version + self._body() + self.lock_time

    def full(self) -> bytes:
        if not self.flags:
            return self.stripped()
        out = self.version + bytes([0, self.flags]) + self._body()
        if self.flags & 1:
            for one in self.inputs:
                out += number(len(one.witness)) + b"".join(sized(item) for item in one.witness)
        if self.flags & 8:
            out += b"\0"
        return out + self.lock_time

    def txid(self) -> bytes:
        return twice(self.stripped())

    def _body(self) -> bytes:
        out = number(len(self.inputs))
        for one in self.inputs:
            out += one.outpoint + sized(one.script) + one.sequence
        out += number(len(self.outputs))
        for pay in self.outputs:
            out += struct.pack("<Q", pay.amount) + sized(pay.script)
        return out


@dataclass
class Block:
    """`before` is the merged work between header and transactions, `after` the extension block."""

    header: bytes
    before: bytes
    txs: list[Tx]
    after: bytes

    def full(self) -> bytes:
        body = number(len(self.txs)) + b"".join(tx.full() for tx in self.txs)
        return self.header + self.before + body + self.after

    def root(self) -> bytes:
        return root_of([tx.txid() for tx in self.txs])


def twice(data: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()


def root_of(level: list[bytes]) -> bytes:
    if len(level) == 1:
        return level[0]
    if len(level) % 2:
        level = [*level, level[-1]]
    return root_of([twice(level[n] + level[n + 1]) for n in range(0, len(level), 2)])


def number(n: int) -> bytes:
    if n < 253:
        return struct.pack("<B", n)
    if n < 2**16:
        return b"\xfd" + struct.pack("<H", n)
    if n < 2**32:
        return b"\xfe" + struct.pack("<I", n)
    return b"\xff" + struct.pack("<Q", n)


def sized(data: bytes) -> bytes:
    return number(len(data)) + data


class Source:
    def __init__(self, data: bytes) -> None:
        self.stream, self.size = io.BytesIO(data), len(data)

    def take(self, n: int) -> bytes:
        if n > self.size - self.stream.tell():
            raise Unreadable
        return self.stream.read(n)

    def number(self) -> int:
        first = self.take(1)[0]
        if first < 253:
            return first
        return int.from_bytes(self.take(2 ** (first - 252)), "little")

    def sized(self) -> bytes:
        return self.take(self.number())

    def rest(self) -> bytes:
        return self.stream.read()


def read_tx(source: Source) -> Tx:
    version = source.take(4)
    flags, count = 0, source.number()
    if count == 0:
        flags = source.take(1)[0]
        count = source.number()
    inputs = [In(source.take(36), source.sized(), source.take(4)) for _ in range(count)]
    outputs = [
        Out(struct.unpack("<Q", source.take(8))[0], source.sized()) for _ in range(source.number())
    ]
    if flags & 1:
        for one in inputs:
            one.witness = [source.sized() for _ in range(source.number())]
    if flags & 8 and source.take(1) != b"\0":
        raise Unreadable
    return Tx(version, inputs, outputs, source.take(4), flags)


def read_reference(data: bytes, *, merged: bool) -> Block:
    """Read a block; `merged` where the chain has merged mining."""
    source = Source(data)
    header, before = source.take(80), b""
    if merged and header[1] & 1:
        parent = read_tx(source)
        before = parent.full() + source.take(32)
        for _ in range(2):
            hashes = source.number()
            before += number(hashes) + source.take(32 * hashes) + source.take(4)
        before += source.take(80)
    count = source.number()
    if count > len(data) // 10:
        raise Unreadable
    txs = [read_tx(source) for _ in range(count)]
    return Block(header, before, txs, source.rest())
