"""The settings file of a run: two chains with equal contracts, six routes, short spans."""

from __future__ import annotations

from pathlib import Path

from tests.parts.thousand.book import SHARED_ADDRESS, SHARED_STEPS_MAX
from tests.parts.thousand.story import COIN_DUST, USD_DUST, ChainLetter, Money
from tests.parts.thousand.street import Street

QUOTE_S = 50
EXTENSION_S = 5
LANES: dict[ChainLetter, int] = {"a": 1, "b": 3}

_CHAIN = """
[[chain]]
id = "{id}"
name = "Chain {letter}"
coin = "{id}/slip44:1"
block_time_s = "1"
least_depth = 1
reorganisation_limit = 64
clock_slack_s = 300
finalized = true
test_chain = true
source = "made up for tests"
verified_at = "2026-11-30"
[[asset]]
id = "{id}/slip44:1"
symbol = "TEST"
name = "Coin of chain {letter}"
decimals = 18
asset_class = "volatile"
dust = "{coin_dust}"
amount_max = "1000000000000000000000000"
source = "made up for tests"
verified_at = "2026-11-30"
"""
_TOKEN = """
[[asset]]
id = "{id}"
symbol = "{symbol}"
name = "{symbol} of chain {letter}"
decimals = 6
asset_class = "stable"
dust = "{dust}"
amount_max = "1000000000000"
source = "made up for tests"
verified_at = "2026-11-30"
"""
_FILE = """
[database]
url = "{database}"
connections = 8
[keys]
hashing = "0123456789abcdef0123456789abcdef"
sealing = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
[journal]
seal_every = "2s"
seals = "seals.jsonl"
[catalogue]
extra = "catalogue.toml"
[server]
port = 0
[watch]
watermark_every = "300ms"
[relay]
shards = 2
"""
_NODE = """
[chains."{id}"]
rpc = ["{url}"]
start_at = {start_at}
lanes = {lanes}
poll_interval = "200ms"
"""
_ROUTE = """
[[routes]]
name = "{name}"
asset = "{asset}"
deposit = {deposit}
finality = {finality}
tolerance = {tolerance}
quote = "{quote_s}s"
claim_extension = "{extension_s}s"
claim_extension_known = "{extension_s}s"
claim_patience = "10s"
retracted_patience = "20s"
pending_patience = "10m"
grace = "1h"
"""


def write_settings(
    folder: Path, streets: dict[ChainLetter, Street], *, database: str, more: str
) -> Path:
    """Write the settings and the catalogue; `more` is the stream's table."""
    catalogue = ""
    nodes = ""
    routes = ""
    for letter, street in streets.items():
        catalogue += _CHAIN.format(id=street.name, letter=letter, coin_dust=COIN_DUST)
        for money, symbol in (("usd", "TUSD"), ("twin", "TUSD.e")):
            catalogue += _TOKEN.format(
                id=street.asset(money), symbol=symbol, letter=letter, dust=USD_DUST
            )
        nodes += _NODE.format(
            id=street.name, url=street.node.url, start_at=street.start_at, lanes=LANES[letter]
        )
        routes += _routes(letter, street)
    (folder / "catalogue.toml").write_text(catalogue)
    path = folder / "reconciler.toml"
    path.write_text(_FILE.format(database=database) + more + nodes + routes)
    return path


def _routes(letter: ChainLetter, street: Street) -> str:
    tiers = '[{ up_to = "50", depth = 3 }, { rule = "finalized" }]'
    dollars: Money = "usd"
    shared = f'{{ mode = "shared", address = "{SHARED_ADDRESS}", step = "0.01", steps_max = {SHARED_STEPS_MAX}, more_max = "100%" }}'
    rows = (
        (
            "usd",
            dollars,
            '{ mode = "given" }',
            tiers,
            '{ under = "0.5%", under_max = "2", excess_max = "5" }',
        ),
        ("shared", dollars, shared, tiers, "{}"),
        ("coin", "coin", '{ mode = "given" }', "[{ depth = 4 }]", "{}"),
    )
    return "".join(
        _ROUTE.format(
            name=f"{letter}-{name}",
            asset=street.asset(money),
            deposit=deposit,
            finality=finality,
            tolerance=tolerance,
            quote_s=QUOTE_S,
            extension_s=EXTENSION_S,
        )
        for name, money, deposit, finality, tolerance in rows
    )
