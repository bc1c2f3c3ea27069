"""What a valid block of each chain may hold, as far as a reader must know it.

Data only. Prefixes and amounts stand with the networks; here is what decides whether bytes are a block of
the chain: how its work is hashed, the easiest target, and what may stand in and behind its transactions.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from chains.catalog import CatalogueError
from chains.utxo import networks
from schemas.caip import ChainName


class Retarget(Struct, frozen=True, kw_only=True):
    """When a chain's target may change, from a height on: every so many blocks, and how much easier it
    may become at once, as a fraction.
    """

    every: int
    easier: tuple[int, int]
    since: int = 0


class BlockRules(Struct, frozen=True, kw_only=True):
    """The rules of one chain.

    `money_max` bounds one transaction's outputs together. **Units**: satoshi (or their like).
    `target_max` is the easiest target that a header may name. `segwit`: witnesses may stand in
    transactions. `mweb`: the last transaction may be a HogEx with an extension block behind it.
    `auxpow_chain_id`: the chain's number in merged mining, None where there is none; `auxpow_strict`: no
    header names another. `coinbase_height_from`: the height from which on a coinbase must begin with
    its own (BIP 34). `retarget` is None where the target may fall to the easiest at any block.
    """

    coin: str
    money_max: int
    work: Literal["sha256d", "scrypt"]
    target_max: int
    segwit: bool = False
    mweb: bool = False
    auxpow_chain_id: int | None = None
    auxpow_strict: bool = True
    coinbase_height_from: int
    retarget: Retarget | None = None


#: **Source**: Bitcoin Core pow.cpp CalculateNextWorkRequired; Litecoin Core has the same.
_EVERY_2016: Final = Retarget(every=2_016, easier=(4, 1))
#: **Source**: Dogecoin Core dogecoin.cpp CalculateDogecoinNextWorkRequired (digishield).
_DIGISHIELD: Final = Retarget(every=1, easier=(3, 2), since=145_000)

#: **Source**: Bitcoin Core kernel/chainparams.cpp (powLimit, BIP34Height).
BITCOIN: Final = BlockRules(
    coin="bitcoin",
    money_max=networks.BITCOIN.money_max,
    work="sha256d",
    target_max=2**224 - 1,
    segwit=True,
    coinbase_height_from=227_931,
    retarget=_EVERY_2016,
)
#: **Source**: Litecoin Core chainparams.cpp, mweb/mweb_node.cpp (1db3fd0).
LITECOIN: Final = BlockRules(
    coin="litecoin",
    money_max=networks.LITECOIN.money_max,
    work="scrypt",
    target_max=2**236 - 1,
    segwit=True,
    mweb=True,
    coinbase_height_from=710_000,
    retarget=_EVERY_2016,
)
#: Segwit was never switched on.
#: **Source**: Dogecoin Core chainparams.cpp (chain id 98), auxpow.cpp (129e318).
DOGECOIN: Final = BlockRules(
    coin="dogecoin",
    money_max=networks.DOGECOIN.money_max,
    work="scrypt",
    target_max=2**236 - 1,
    auxpow_chain_id=0x62,
    coinbase_height_from=1_034_383,
    retarget=_DIGISHIELD,
)

_REGTEST: Final = 2**255 - 1
#: The signet's limit is written in its compact form, 0x1e0377ae (BIP 325).
_SIGNET: Final = 0x0377AE << 216

#: On test networks a block that comes late may be the easiest, so that the chain goes on.
_BITCOIN_TEST: Final = replace(BITCOIN, retarget=None)
_LITECOIN_TEST: Final = replace(LITECOIN, retarget=None)
_DOGECOIN_TEST: Final = replace(DOGECOIN, retarget=None)

RULES: Final = MappingProxyType(
    {
        networks.BITCOIN.chain: BITCOIN,
        networks.BITCOIN_TESTNET3.chain: _BITCOIN_TEST,
        networks.BITCOIN_TESTNET4.chain: _BITCOIN_TEST,
        networks.BITCOIN_SIGNET.chain: replace(BITCOIN, target_max=_SIGNET),
        networks.BITCOIN_REGTEST.chain: replace(_BITCOIN_TEST, target_max=_REGTEST),
        networks.LITECOIN.chain: LITECOIN,
        networks.LITECOIN_TESTNET.chain: _LITECOIN_TEST,
        networks.LITECOIN_REGTEST.chain: replace(_LITECOIN_TEST, target_max=_REGTEST),
        networks.DOGECOIN.chain: DOGECOIN,
        networks.DOGECOIN_TESTNET.chain: replace(_DOGECOIN_TEST, auxpow_strict=False),
        networks.DOGECOIN_REGTEST.chain: replace(_DOGECOIN_TEST, target_max=_REGTEST),
    }
)


def rules_of(chain: ChainName) -> BlockRules:
    """Give the rules of a chain. **Raises**: `CatalogueError` for one whose blocks we do not read."""
    found = RULES.get(chain)
    if found is None:
        message = f"chain {chain}: its blocks cannot be read; its rules are not known"
        raise CatalogueError(message)
    return found
