"""The networks that are made like Bitcoin, as data.

Reads nothing, writes nothing. What a shop may choose of them stands in the catalogue.

**Source** of every number: the chain's own node, whose file stands in each row's `source`.
`bitcoin` is bitcoin/bitcoin 0083e01 (src/kernel/chainparams.cpp; src/consensus/amount.h and
consensus.h), `litecoin` litecoin-project/litecoin 17f16ce (src/chainparams.cpp;
src/consensus/consensus.h; src/amount.h of 0.21), `dogecoin` dogecoin/dogecoin d090279
(src/chainparams.cpp; src/amount.h of 1.14).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from schemas.caip import ChainName

NAMESPACE: Final = "bip122"

#: CAIP-2 takes so many hex digits of the genesis block's hash.
#: Source: ChainAgnostic/namespaces 3fee8ee, bip122/caip2.md.
_REFERENCE_DIGITS: Final = 32

_COIN: Final = 10**8


class Network(Struct, frozen=True, kw_only=True):
    """One network. **Units**: `money_max` in base units (10^-8 of a coin), `coinbase_maturity` in blocks.

    `p2pkh` and `p2sh` are the version bytes in front of a hash in base 58; the first of `p2sh` is the
    one that we write, the others are older ones that are still read. `hrp` is what stands before the 1
    of a bech32 address, None where a network has no segregated witness. No output may hold more than
    `money_max`. What a block made may be spent after `coinbase_maturity` blocks.
    """

    name: str
    genesis_hash: str
    p2pkh: int
    p2sh: tuple[int, ...]
    hrp: str | None
    money_max: int
    coinbase_maturity: int
    uri_scheme: str
    test: bool = False
    source: str

    @property
    def chain(self) -> ChainName:
        """The CAIP-2 name."""
        return ChainName(f"{NAMESPACE}:{self.genesis_hash[:_REFERENCE_DIGITS]}")


#: COINBASE_MATURITY and MAX_MONEY of bitcoin and litecoin. The node's limit for Dogecoin is one of an
#: amount, not of the supply, which has none.
_BITCOIN_MONEY_MAX: Final = 21_000_000 * _COIN
_LITECOIN_MONEY_MAX: Final = 84_000_000 * _COIN
_DOGECOIN_MONEY_MAX: Final = 10_000_000_000 * _COIN

BITCOIN: Final = Network(
    name="Bitcoin",
    genesis_hash="000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f",
    p2pkh=0,
    p2sh=(5,),
    hrp="bc",
    money_max=_BITCOIN_MONEY_MAX,
    coinbase_maturity=100,
    uri_scheme="bitcoin",
    source="bitcoin, CMainParams",
)
BITCOIN_TESTNET3: Final = Network(
    name="Bitcoin testnet3",
    genesis_hash="000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943",
    p2pkh=111,
    p2sh=(196,),
    hrp="tb",
    money_max=_BITCOIN_MONEY_MAX,
    coinbase_maturity=100,
    uri_scheme="bitcoin",
    test=True,
    source="bitcoin, CTestNetParams",
)
BITCOIN_TESTNET4: Final = Network(
    name="Bitcoin testnet4",
    genesis_hash="00000000da84f2bafbbc53dee25a72ae507ff4914b867c565be350b0da8bf043",
    p2pkh=111,
    p2sh=(196,),
    hrp="tb",
    money_max=_BITCOIN_MONEY_MAX,
    coinbase_maturity=100,
    uri_scheme="bitcoin",
    test=True,
    source="BIP 94 (bitcoin/bips 01352f7), which changes no prefix of testnet3",
)
BITCOIN_SIGNET: Final = Network(
    name="Bitcoin signet",
    genesis_hash="00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6",
    p2pkh=111,
    p2sh=(196,),
    hrp="tb",
    money_max=_BITCOIN_MONEY_MAX,
    coinbase_maturity=100,
    uri_scheme="bitcoin",
    test=True,
    source="bitcoin, SigNetParams",
)
BITCOIN_REGTEST: Final = Network(
    name="Bitcoin regtest",
    genesis_hash="0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206",
    p2pkh=111,
    p2sh=(196,),
    hrp="bcrt",
    money_max=_BITCOIN_MONEY_MAX,
    coinbase_maturity=100,
    uri_scheme="bitcoin",
    test=True,
    source="bitcoin, CRegTestParams",
)
#: Litecoin first wrote scripts as Bitcoin does (3…, on test networks 2…) and now M… and Q…: the node
#: reads both and writes the new one. Source: litecoin, src/key_io.cpp, SCRIPT_ADDRESS2.
LITECOIN: Final = Network(
    name="Litecoin",
    genesis_hash="12a765e31ffd4059bada1e25190f6e98c99d9714d334efa41a195a7e7e04bfe2",
    p2pkh=48,
    p2sh=(50, 5),
    hrp="ltc",
    money_max=_LITECOIN_MONEY_MAX,
    coinbase_maturity=100,
    uri_scheme="litecoin",
    source="litecoin, CMainParams",
)
LITECOIN_TESTNET: Final = Network(
    name="Litecoin testnet",
    genesis_hash="4966625a4b2851d9fdee139e56211a0d88575f59ed816ff5e6a63deb4e3e29a0",
    p2pkh=111,
    p2sh=(58, 196),
    hrp="tltc",
    money_max=_LITECOIN_MONEY_MAX,
    coinbase_maturity=100,
    uri_scheme="litecoin",
    test=True,
    source="litecoin, CTestNetParams",
)
LITECOIN_REGTEST: Final = Network(
    name="Litecoin regtest",
    genesis_hash="530827f38f93b43ed12af0b3ad25a288dc02ed74d6d7857862df51fc56c416f9",
    p2pkh=111,
    p2sh=(58, 196),
    hrp="rltc",
    money_max=_LITECOIN_MONEY_MAX,
    coinbase_maturity=100,
    uri_scheme="litecoin",
    test=True,
    source="litecoin, CRegTestParams",
)
#: Blocks below 145000 matured after 30; the digishield rules made it 240.
DOGECOIN: Final = Network(
    name="Dogecoin",
    genesis_hash="1a91e3dace36e2be3bf030a65679fe821aa1d6ef92e7c9902eb318182c355691",
    p2pkh=30,
    p2sh=(22,),
    hrp=None,
    money_max=_DOGECOIN_MONEY_MAX,
    coinbase_maturity=240,
    uri_scheme="dogecoin",
    source="dogecoin, CMainParams",
)
DOGECOIN_TESTNET: Final = Network(
    name="Dogecoin testnet",
    genesis_hash="bb0a78264637406b6360aad926284d544d7049f45189db5664f3c4d07350559e",
    p2pkh=113,
    p2sh=(196,),
    hrp=None,
    money_max=_DOGECOIN_MONEY_MAX,
    coinbase_maturity=240,
    uri_scheme="dogecoin",
    test=True,
    source="dogecoin, CTestNetParams",
)
DOGECOIN_REGTEST: Final = Network(
    name="Dogecoin regtest",
    genesis_hash="3d2160a3b5dc4a9d62e7e66a295f70313ac808440ef7400d6c0772171ce973a5",
    p2pkh=111,
    p2sh=(196,),
    hrp=None,
    money_max=_DOGECOIN_MONEY_MAX,
    coinbase_maturity=60,
    uri_scheme="dogecoin",
    test=True,
    source="dogecoin, CRegTestParams",
)

#: Every network by its CAIP-2 name, real ones first.
NETWORKS: Final[Mapping[ChainName, Network]] = MappingProxyType(
    {
        network.chain: network
        for network in (
            BITCOIN,
            LITECOIN,
            DOGECOIN,
            BITCOIN_TESTNET3,
            BITCOIN_TESTNET4,
            BITCOIN_SIGNET,
            BITCOIN_REGTEST,
            LITECOIN_TESTNET,
            LITECOIN_REGTEST,
            DOGECOIN_TESTNET,
            DOGECOIN_REGTEST,
        )
    }
)
