"""A block of a UTXO chain: real header, root, coinbase and work. Pure.

`chains.utxo.block` must accept every one of them, but for those made without work on purpose.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from chains.devnet.utxo.transactions import NOTHING, Input, Output, Transaction, make_transaction
from chains.utxo.header import work_hash, write_header
from chains.utxo.merkle import double_sha256, merkle_root
from chains.utxo.rules import BlockRules
from chains.utxo.sizes import write_size

#: The easiest target of every regtest. **Source**: Bitcoin Core, Litecoin Core, Dogecoin Core
#: chainparams.cpp, CRegTestParams.
BITS: Final = 0x207F_FFFF
TARGET: Final = 0x7FFFFF << 8 * (0x20 - 3)
#: How many tries a block takes on average, as `chainwork` counts it.
WORK: Final = 2**256 // (TARGET + 1)
_VERSION: Final = 0x2000_0000
_COMMITMENT: Final = b"\x6a\x24\xaa\x21\xa9\xed"
_RESERVED: Final = bytes(32)
#: Heights that one opcode stands for. **Source**: Bitcoin Core script/script.h, CScript::push_int64.
_OPCODE_MAX: Final = 16
_TIMES_OF_MEDIAN: Final = 11


class Block(Struct, frozen=True, kw_only=True, eq=False):
    """One block of any branch. `times` are its own and those of up to ten before it, newest first."""

    hash: bytes
    parent_hash: bytes
    height: int
    header: bytes
    version: int
    merkle_root: bytes
    time: int
    nonce: int
    times: tuple[int, ...]
    transactions: tuple[Transaction, ...]

    @property
    def raw(self) -> bytes:
        """The whole block as a node gives it."""
        return self.body(self.header)

    def body(self, header: bytes) -> bytes:
        """Write the block under a header."""
        count = write_size(len(self.transactions))
        return header + count + b"".join(one.raw for one in self.transactions)

    @property
    def median_time(self) -> int:
        """What the next block must lie above. **Source**: Bitcoin Core chain.h, GetMedianTimePast."""
        return sorted(self.times)[len(self.times) // 2]


def make_coinbase(
    height: int, salt: int, payees: Sequence[Output], others: Sequence[Transaction], *, segwit: bool
) -> Transaction:
    """Make coins: the block's height first (BIP 34), then what makes two blocks differ.

    With `segwit` the last output holds a hash over the other transactions' witnesses (BIP 141).
    """
    outputs = list(payees)
    if segwit:
        root = merkle_root([bytes(32), *(one.wide_id for one in others)])
        outputs.append(Output(0, _COMMITMENT + double_sha256(root + _RESERVED)))
    source = Input(
        outpoint=NOTHING,
        script=_height_push(height) + b"\x08" + struct.pack("<Q", salt),
        sequence=0xFFFF_FFFF,
        witness=(_RESERVED,) if segwit else (),
    )
    return make_transaction([source], outputs)


def make_block(
    parent: Block,
    transactions: Sequence[Transaction],
    *,
    time: int,
    rules: BlockRules,
    worked: bool = True,
) -> Block:
    """Close a block, and do its work; with `worked` False just not enough of it."""
    root = merkle_root([one.txid for one in transactions])
    version = _version(rules)
    nonce = 0
    while True:
        header = write_header(
            version=version,
            parent=parent.hash,
            merkle_root=root,
            time_s=time,
            bits=BITS,
            nonce=nonce,
        )
        if (int.from_bytes(work_hash(header, rules), "little") <= TARGET) == worked:
            break
        nonce += 1
    return Block(
        hash=double_sha256(header),
        parent_hash=parent.hash,
        height=parent.height + 1,
        header=header,
        version=version,
        merkle_root=root,
        time=time,
        nonce=nonce,
        times=(time, *parent.times[: _TIMES_OF_MEDIAN - 1]),
        transactions=tuple(transactions),
    )


def read_genesis(header: bytes, coinbase: Transaction) -> Block:
    """Make the first block of its header and its one transaction."""
    version, parent, root, time, _, nonce = struct.unpack("<i32s32sIII", header)
    return Block(
        hash=double_sha256(header),
        parent_hash=parent,
        height=0,
        header=header,
        version=version,
        merkle_root=root,
        time=time,
        nonce=nonce,
        times=(time,),
        transactions=(coinbase,),
    )


def _version(rules: BlockRules) -> int:
    """Give a header's version; with merged mining it names the chain, and no parent here."""
    return _VERSION if rules.auxpow_chain_id is None else rules.auxpow_chain_id << 16 | 4


def _height_push(height: int) -> bytes:
    if height <= _OPCODE_MAX:
        return bytes([0x50 + height])
    width = (height.bit_length() + 8) // 8
    return bytes([width]) + height.to_bytes(width, "little")
