"""Blocks made by hand on any parent, with any transactions: what regtest nodes take by `submitblock`.

**Source**: BIP 34 (height in the coinbase), BIP 141 (witness commitment), BIP 9 (version bits); Bitcoin
Core kernel/chainparams.cpp and btcd chaincfg/params.go, regtest: easiest target, half the subsidy every
150 blocks.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import NamedTuple

from chains.utxo.networks import LITECOIN_REGTEST, Network
from tests.parts.utxo_purse import ANYONE, ANYONE_BY_WITNESS, Pay
from tests.parts.utxo_reference import In, Out, Tx, number, root_of, sized, twice

EASY_BITS = 0x207FFFFF
_TARGET = 0x7FFFFF << 8 * (0x20 - 3)
_SUBSIDY = 50 * 10**8
_HALVING_BLOCKS = 150
#: CSV, segwit and taproot, which btcd counts votes for. Not bit 4, Litecoin's MWEB: blocks with an
#: extension are made by the node itself.
_VERSION = 0x2000_0000 | 0b111
_COMMITMENT = bytes.fromhex("6a24aa21a9ed")
_NO_OUTPOINT = bytes(32) + b"\xff" * 4

#: Any day that has passed, one block every ten minutes from there.
_BEGIN_S, _STEP_S = 1_704_067_200, 600
#: The first blocks' subsidies are cut into coins; a hundred blocks later they may be spent.
_COIN_BLOCKS, _COINS_A_BLOCK = 10, 100
#: litecoind has witnesses from the start, btcd after three rounds of 144 blocks of votes.
_PREPARED = {"litecoin": 110, "bitcoin": 431}


class Made(NamedTuple):
    """One block; `txs` without the coinbase. The genesis block is one without bytes."""

    hash: str
    parent: str
    height: int
    time_s: int
    coinbase: Tx | None
    txs: tuple[Tx, ...]
    raw: bytes


def genesis_of(network: Network) -> Made:
    return Made(network.genesis_hash, "", 0, _BEGIN_S, None, (), b"")


def make_block(
    network: Network,
    parent: Made,
    txs: Sequence[Tx] = (),
    *,
    time_s: int,
    mark: int,
    to: Sequence[Pay] | None = None,
) -> Made:
    """Make a block; `mark` tells blocks of one parent apart. Fees are left to nobody.

    `to` are the coinbase's outputs; they must not be more than the subsidy.
    """
    coinbase = _coinbase(parent.height + 1, mark, to)
    if any(tx.flags & 1 for tx in txs):
        _commit(coinbase, txs)
    every = [coinbase, *txs]
    root = root_of([tx.txid() for tx in every])
    header = _worked(network, bytes.fromhex(parent.hash)[::-1], root, time_s)
    raw = header + number(len(every)) + b"".join(tx.full() for tx in every)
    name = twice(header)[::-1].hex()
    return Made(name, parent.hash, parent.height + 1, time_s, coinbase, tuple(txs), raw)


@cache
def prepared(network: Network) -> tuple[Made, ...]:
    """Make the blocks that every chain of the tests begins with: always the same ones."""
    marks, last = count(), genesis_of(network)
    blocks = [last]
    for height in range(1, _PREPARED[network.uri_scheme] + 1):
        time_s = _BEGIN_S + height * _STEP_S
        to = _coins(height) if height <= _COIN_BLOCKS else None
        last = make_block(network, last, time_s=time_s, mark=next(marks), to=to)
        blocks.append(last)
    return tuple(blocks)


def subsidy_at(height: int) -> int:
    return _SUBSIDY >> height // _HALVING_BLOCKS


def _coins(height: int) -> list[Pay]:
    script = ANYONE_BY_WITNESS if height % 2 else ANYONE
    return [Pay(script, _SUBSIDY // _COINS_A_BLOCK)] * _COINS_A_BLOCK


def _coinbase(height: int, mark: int, to: Sequence[Pay] | None) -> Tx:
    wide = (height.bit_length() + 8) // 8
    script = sized(height.to_bytes(wide, "little")) + sized(struct.pack("<Q", mark))
    pays = [Pay(ANYONE, subsidy_at(height))] if to is None else to
    outputs = [Out(pay.amount, pay.script) for pay in pays]
    return Tx(struct.pack("<i", 1), [In(_NO_OUTPOINT, script, b"\xff" * 4)], outputs, bytes(4))


def _commit(coinbase: Tx, txs: Sequence[Tx]) -> None:
    """Name the witnesses of the whole block in its coinbase."""
    coinbase.inputs[0].witness = [bytes(32)]
    coinbase.flags = 1
    root = root_of([bytes(32), *(twice(tx.full()) for tx in txs)])
    coinbase.outputs.append(Out(0, _COMMITMENT + twice(root + bytes(32))))


def _worked(network: Network, parent: bytes, root: bytes, time_s: int) -> bytes:
    """Find a nonce; every second one will do."""
    for nonce in count():
        header = struct.pack("<i32s32sIII", _VERSION, parent, root, time_s, EASY_BITS, nonce)
        if int.from_bytes(_work(network, header), "little") <= _TARGET:
            return header
    raise AssertionError


def _work(network: Network, header: bytes) -> bytes:
    if network is LITECOIN_REGTEST:
        return hashlib.scrypt(header, salt=header, n=1024, r=1, p=1, dklen=32)
    return twice(header)
