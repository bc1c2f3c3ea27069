"""The settings and the catalogue of the demo's shop, written as files, as a shop would write them."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Final

from reconciler.config import Settings, load_settings
from reconciler.demo.stage import (
    BLOCK_S,
    COIN_DECIMALS,
    Money,
    Stage,
    StageChain,
    shop_address,
)

QUICK_S: Final = 10

_CHAIN: Final = """
[[chain]]
id = "{chain}"
name = "{name}"
coin = "{chain}/slip44:1"
block_time_s = "{block_s:g}"
least_depth = 2
reorganisation_limit = 128
clock_slack_s = 15
finalized = true
test_chain = true
source = "made up for the demo"
verified_at = "2026-11-30"
"""
_ASSET: Final = """
[[asset]]
id = "{money.asset}"
symbol = "{money.symbol}"
name = "{name}"
decimals = {money.decimals}
asset_class = "{kind}"
dust = "{dust}"
amount_max = "{amount_max}"
source = "made up for the demo"
verified_at = "2026-11-30"
"""
#: A slack of one second: here shop and service share one clock, and one database holds the log.
_SETTINGS: Final = """
[database]
url = {database}
[keys]
hashing = {key}
[catalogue]
extra = "catalogue.toml"
[stream]
kind = "sql"
orders_partitions = 1
events_partitions = 1
[server]
port = 0
[watch]
watermark_every = "250ms"
[intake]
clock_slack = "1s"
"""
_CHAIN_TABLE: Final = """
[chains."{chain}"]
rpc = ["{url}"]
start_at = {first_height}
poll_interval = "200ms"
"""
#: An hour to pay, as in a shop; `quick` shows in seconds what ends after an hour.
_ROUTES: Final = """
[[routes]]
name = "dollar"
asset = "{dollar}"
deposit = {{ mode = "given" }}
finality = [{{ depth = 3 }}]
tolerance = {{ excess_max = "1" }}
[[routes]]
name = "coin"
asset = "{coin}"
deposit = {{ mode = "given" }}
finality = [{{ depth = 3 }}]
[[routes]]
name = "quick"
asset = "{dollar}"
deposit = {{ mode = "given" }}
finality = [{{ depth = 2 }}]
quote = "{quick_s}s"
claim_extension = "2s"
claim_extension_known = "2s"
claim_patience = "3s"
[[routes]]
name = "shared"
asset = "{dollar}"
deposit = {{ mode = "shared", address = "{shared}", step = "0.01", steps_max = 9 }}
finality = [{{ depth = 2 }}]
[[routes]]
name = "birch"
asset = "{birch}"
deposit = {{ mode = "given" }}
finality = [{{ depth = 2 }}]
retracted_patience = "3s"
"""
#: Its own hour and its own ten seconds; a chain's time is some blocks behind here.
_LITECOIN_ROUTES: Final = """
[[routes]]
name = "litecoin"
asset = "{coin}"
deposit = {{ mode = "given" }}
finality = [{{ depth = 3 }}]
[[routes]]
name = "litecoin-quick"
asset = "{coin}"
deposit = {{ mode = "given" }}
finality = [{{ depth = 2 }}]
quote = "{quick_s}s"
claim_extension = "2s"
claim_extension_known = "2s"
claim_patience = "3s"
"""


def write_settings(stage: Stage, folder: Path) -> Settings:
    """Write both files into the folder and read them as every process does."""
    (folder / "catalogue.toml").write_text(_catalogue(stage), encoding="utf-8")
    path = folder / "reconciler.toml"
    path.write_text(_settings(stage, folder), encoding="utf-8")
    return load_settings(path, {})


def _catalogue(stage: Stage) -> str:
    own = {one.name: one for one in (stage.aster, stage.birch)}
    rows = [
        _CHAIN.format(chain=chain, name=one.label, block_s=BLOCK_S) for chain, one in own.items()
    ]
    rows += [_asset(money, own[money.chain]) for money in stage.listed]
    return "".join(rows)


def _asset(money: Money, chain: StageChain) -> str:
    is_coin = money.contract is None
    return _ASSET.format(
        money=money,
        name=f"Coin of {chain.label}" if is_coin else f"Demo dollar on {chain.label}",
        kind="volatile" if is_coin else "stable",
        dust=10 ** (money.decimals - 6) if money.decimals == COIN_DECIMALS else 10**4,
        amount_max=10 ** (money.decimals + 6),
    )


def _settings(stage: Stage, folder: Path) -> str:
    head = _SETTINGS.format(
        database=json.dumps(f"sqlite+aiosqlite:///{folder}/reconciler.db"),
        key=json.dumps(secrets.token_hex(32)),
    )
    tables = [
        _CHAIN_TABLE.format(chain=one.name, url=one.url, first_height=one.first_height)
        for one in stage.chains.values()
    ]
    routes = _ROUTES.format(
        dollar=stage.dollar.asset,
        coin=stage.aster_coin.asset,
        birch=stage.birch_dollar.asset,
        shared=shop_address("shared"),
        quick_s=QUICK_S,
    )
    if stage.litecoin_coin is not None:
        routes += _LITECOIN_ROUTES.format(coin=stage.litecoin_coin.asset, quick_s=QUICK_S)
    return head + "".join(tables) + routes
