"""A catalogue of the chain that a script plays on: its coin and its one listed token."""

from __future__ import annotations

from chains.catalog import Asset, AssetClass, Catalogue, ChainEntry
from schemas.caip import AssetName, ChainName

_MADE_UP = {"source": "made up for tests", "verified_at": "2026-11-30"}


def chain_name(chain_id: int) -> ChainName:
    return ChainName(f"eip155:{chain_id}")


def coin_of(chain_id: int) -> AssetName:
    return AssetName(f"eip155:{chain_id}/slip44:60")


def token_of(chain_id: int, contract: str) -> AssetName:
    return AssetName(f"eip155:{chain_id}/erc20:{contract}")


def catalogue_of(chain_id: int, contract: str, *, decimals: int = 6) -> Catalogue:
    entry = ChainEntry(
        id=chain_name(chain_id),
        name="Chain under test",
        coin=coin_of(chain_id),
        block_time_s="1",
        least_depth=1,
        reorganisation_limit=64,
        clock_slack_s=0,
        finalized=True,
        test_chain=True,
        **_MADE_UP,
    )
    coin = Asset(
        id=coin_of(chain_id),
        symbol="COIN",
        name="Coin",
        decimals=18,
        asset_class=AssetClass.VOLATILE,
        dust="1",
        amount_max=str(10**24),
        **_MADE_UP,
    )
    token = Asset(
        id=token_of(chain_id, contract),
        symbol="TUSD",
        name="Test dollar",
        decimals=decimals,
        asset_class=AssetClass.STABLE,
        dust="1",
        amount_max=str(10**18),
        **_MADE_UP,
    )
    return Catalogue([entry], [coin, token])
