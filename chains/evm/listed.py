"""What counts on one EVM chain: its coin and the listed contracts, ready for comparing.

Pure. Reads the catalogue, is read by the parser and the source.
"""

from __future__ import annotations

from msgspec import Struct

from chains.catalog import Catalogue, CatalogueError
from chains.evm import roots, words
from chains.evm.address import COIN_MIRRORS
from schemas.caip import AssetName, ChainName, asset_reference


class Listed(Struct, frozen=True, kw_only=True):
    """The assets of one chain. `tokens` is keyed by lower-case text, as nodes mostly write it.

    `mirrors` are the contracts that repeat moves of the coin; `bloom_masks` holds, per contract, the
    bits that any of its Transfer logs sets in a block's bloom.
    """

    chain: ChainName
    chain_id: int
    coin: AssetName
    tokens: dict[str, AssetName]
    mirrors: frozenset[str]
    bloom_masks: dict[str, int]

    @property
    def contracts(self) -> list[str]:
        """The contracts to ask logs of, in a fixed order."""
        return sorted(self.tokens)


def listed_on(chain: ChainName, catalogue: Catalogue) -> Listed:
    """Gather a chain's assets. **Raises**: `CatalogueError`, also for a contract that mirrors the coin."""
    entry = catalogue.chain(chain)
    tokens: dict[str, AssetName] = {}
    for asset in catalogue.assets_of(chain):
        if asset.is_coin:
            continue
        contract = bytes.fromhex(asset_reference(asset.name_id)[2:])
        if contract in COIN_MIRRORS:
            message = (
                f"asset {asset.id}: the contract mirrors the chain's coin and would count it twice"
            )
            raise CatalogueError(message)
        tokens[f"0x{contract.hex()}"] = asset.name_id
    topic = roots.bloom_mask(words.raw(words.TRANSFER_TOPIC))
    return Listed(
        chain=chain,
        chain_id=int(chain.partition(":")[2]),
        coin=AssetName(entry.coin),
        tokens=tokens,
        mirrors=frozenset(f"0x{mirror.hex()}" for mirror in COIN_MIRRORS),
        bloom_masks={text: topic | roots.bloom_mask(words.raw(text)) for text in tokens},
    )
