"""The regtest networks that a devnet can be, each with its real first block. Data only.

**Source**: kernel/chainparams.cpp of Bitcoin Core, chainparams.cpp of Litecoin Core and Dogecoin Core,
CRegTestParams and CreateGenesisBlock. The hashes of the networks say whether these bytes are right.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from chains.devnet.utxo.blocks import BITS, Block, read_genesis
from chains.devnet.utxo.transactions import NOTHING, Input, Output, make_transaction
from chains.utxo import networks
from chains.utxo.header import write_header
from chains.utxo.merkle import HASH_BYTES
from chains.utxo.networks import Network
from chains.utxo.rules import BlockRules, rules_of

_COIN: Final = 10**8
_TIME: Final = 1_296_688_602
_ONE_BYTE_LENGTH_MAX: Final = 75


class _First(Struct, frozen=True, kw_only=True):
    network: Network
    words: str
    key: str
    coins: int
    nonce: int


_SATOSHI: Final = (
    "04678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb6"
    "49f6bc3f4cef38c4f35504e51ec112de5c384df7ba0b8d578a4c702b6bf11d5f"
)
_LEE: Final = (
    "040184710fa689ad5023690c80f3a49c8f13f8d45b8c857fbcbc8bc4a8e4d3eb4b"
    "10f4d4604fa08dce601aaf0f470216fe1b51850b4acf21b179c45070ac7b03a9"
)
_FIRSTS: Final[Mapping[str, _First]] = MappingProxyType(
    {
        "bitcoin-regtest": _First(
            network=networks.BITCOIN_REGTEST,
            words="The Times 03/Jan/2009 Chancellor on brink of second bailout for banks",
            key=_SATOSHI,
            coins=50,
            nonce=2,
        ),
        "litecoin-regtest": _First(
            network=networks.LITECOIN_REGTEST,
            words="NY Times 05/Oct/2011 Steve Jobs, Apple\u2019s Visionary, Dies at 56",
            key=_LEE,
            coins=50,
            nonce=0,
        ),
        "dogecoin-regtest": _First(
            network=networks.DOGECOIN_REGTEST, words="Nintondo", key=_LEE, coins=88, nonce=2
        ),
    }
)
#: The networks by the names that a devnet's URLs have.
NETWORKS: Final[Mapping[str, Network]] = MappingProxyType(
    {name: first.network for name, first in _FIRSTS.items()}
)


def regtest(name: str) -> tuple[Network, BlockRules, Block]:
    """Give a network of `NETWORKS`, its rules and its first block."""
    first = _FIRSTS[name]
    return first.network, rules_of(first.network.chain), _genesis(first)


def _genesis(first: _First) -> Block:
    words = first.words.encode()
    length = bytes([len(words)])
    pushed = (length if len(words) <= _ONE_BYTE_LENGTH_MAX else b"\x4c" + length) + words
    source = Input(
        outpoint=NOTHING,
        script=struct.pack("<BI", 4, 0x1D00_FFFF) + b"\x01\x04" + pushed,
        sequence=0xFFFF_FFFF,
    )
    paid = Output(first.coins * _COIN, b"\x41" + bytes.fromhex(first.key) + b"\xac")
    coinbase = make_transaction([source], [paid], version=1)
    header = write_header(
        version=1,
        parent=bytes(HASH_BYTES),
        merkle_root=coinbase.txid,
        time_s=_TIME,
        bits=BITS,
        nonce=first.nonce,
    )
    return read_genesis(header, coinbase)
