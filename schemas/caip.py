"""Names of chains and assets: CAIP-2 and CAIP-19.

**Source**: ChainAgnostic CAIPs, CAIP-2 and CAIP-19 (read 2026-08-18). They are compared exactly;
CAIP-19 asks for no canonical form, so ours is EIP-55 for EVM contracts (`chains.catalog`).
"""

from __future__ import annotations

import re
from typing import Annotated, Final, NewType

from msgspec import Meta

#: The end of a text and nothing else: `$` alone also stands before a last line break in Python. It is
#: published as `$`, which is the end of a text to every other reader of JSON Schemas.
END: Final = r"$(?!\n)"

CHAIN_PATTERN: Final = r"^[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}" + END
ASSET_PATTERN: Final = (
    r"^[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}/[-a-z0-9]{3,8}:[-.%a-zA-Z0-9]{1,128}" + END
)

ChainName = NewType("ChainName", str)
AssetName = NewType("AssetName", str)
#: All chains on which one key gives one address: `eip155`, or one UTXO chain by itself.
Family = NewType("Family", str)

ChainId = Annotated[ChainName, Meta(pattern=CHAIN_PATTERN, description="CAIP-2")]
AssetId = Annotated[AssetName, Meta(pattern=ASSET_PATTERN, description="CAIP-19")]

#: Tron has no registered namespace and is written in three ways for the same chain.
#: Source: WalletConnect and TRON documentation; MetaMask keyring TrxScope.
_ALIASES: Final = {
    "tron:728126428": "tron:0x2b6653dc",
    "tron:mainnet": "tron:0x2b6653dc",
}


class CaipError(ValueError):
    """A text is not a CAIP-2 or CAIP-19 name."""


def parse_chain(text: str) -> ChainName:
    """Read a CAIP-2 chain name. **Raises**: `CaipError`."""
    if not re.fullmatch(CHAIN_PATTERN, text):
        message = f"expected a CAIP-2 chain such as eip155:1, found {text[:80]!r}"
        raise CaipError(message)
    return ChainName(_ALIASES.get(text, text))


def parse_asset(text: str) -> AssetName:
    """Read a CAIP-19 asset name. **Raises**: `CaipError`."""
    if not re.fullmatch(ASSET_PATTERN, text):
        message = f"expected a CAIP-19 asset such as eip155:1/slip44:60, found {text[:200]!r}"
        raise CaipError(message)
    chain, _, rest = text.partition("/")
    return AssetName(f"{parse_chain(chain)}/{rest}")


def chain_of(asset: AssetName) -> ChainName:
    """Give the chain that an asset lives on."""
    return ChainName(asset.partition("/")[0])


def asset_kind(asset: AssetName) -> str:
    """Give the asset's namespace: `slip44` for a chain's coin, `erc20` for a token."""
    return asset.partition("/")[2].partition(":")[0]


def asset_reference(asset: AssetName) -> str:
    """Give what stands behind the namespace: a contract address or a SLIP-44 number."""
    return asset.partition("/")[2].partition(":")[2]


def family_of(chain: ChainName) -> Family:
    """Give the family: `eip155` for every EVM chain, else the chain itself.

    One row an address and family is what keeps two chains from giving one address to two orders.
    """
    namespace = chain.partition(":")[0]
    return Family("eip155") if namespace == "eip155" else Family(chain)


def topic_token(name: ChainName | Family) -> str:
    """Write a chain or family as part of a Kafka topic name, in which a colon is not allowed."""
    return name.replace(":", "-")
