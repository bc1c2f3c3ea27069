"""A settings file and its catalogue for tests: two chains of our own that no shop uses."""

from __future__ import annotations

from pathlib import Path

from chains.addresses import Address, AddressError
from chains.catalog import Asset
from reconciler.config.reading import Reader
from reconciler.config.settings import Settings, make_settings

CHAIN = "eip155:313371"
OTHER_CHAIN = "eip155:313372"
UTXO_CHAIN = "bip122:4966625a4b2851d9fdee139e56211a0d"
TOKEN = f"{CHAIN}/erc20:0x5FbDB2315678afecb367f032d93F642f64180aa3"
SHARED_ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"

_CHAIN_ROW = """
[[chain]]
id = "{id}"
name = "{name}"
coin = "{id}/slip44:1"
block_time_s = "1"
least_depth = {least_depth}
reorganisation_limit = 64
clock_slack_s = 15
finalized = {finalized}
test_chain = true
source = "made up for tests"
verified_at = "2026-11-30"
[[asset]]
id = "{id}/slip44:1"
symbol = "TEST"
name = "Coin of {name}"
decimals = {decimals}
asset_class = "volatile"
dust = "1000"
amount_max = "1000000000000000000000000"
source = "made up for tests"
verified_at = "2026-11-30"
"""

CATALOGUE = (
    _CHAIN_ROW.format(id=CHAIN, name="One", least_depth=2, finalized="true", decimals=18)
    + _CHAIN_ROW.format(id=OTHER_CHAIN, name="Two", least_depth=1, finalized="true", decimals=18)
    + f"""
[[asset]]
id = "{TOKEN}"
symbol = "TUSD"
name = "Test dollar"
decimals = 6
asset_class = "stable"
dust = "10000"
amount_max = "1000000000000"
source = "made up for tests"
verified_at = "2026-11-30"
[[asset]]
id = "{CHAIN}/erc20:0x1111111111111111111111111111111111111111"
symbol = "TEST"
name = "Token that takes a fee"
decimals = 18
asset_class = "volatile"
dust = "1000"
amount_max = "1000000000000000000000000"
offered = false
source = "made up for tests"
verified_at = "2026-11-30"
"""
)

#: The least that a file says; `routes` come last, so that a test can go on writing the last one.
SETTINGS = f"""
[database]
url = "sqlite+aiosqlite:///reconciler.db"
[keys]
hashing = "0123456789abcdef0123456789abcdef"
[catalogue]
extra = "catalogue.toml"
[chains."{CHAIN}"]
rpc = ["http://127.0.0.1:8545"]
[[routes]]
name = "tusd-one"
asset = "{TOKEN}"
deposit = {{ mode = "given" }}
finality = [{{ up_to = "50", depth = 3 }}, {{ rule = "finalized" }}]
"""


def read_any_address(asset: Asset, text: str) -> Address:
    """Read 0x… without its checksum: rules about addresses have tests of their own."""
    if len(text) != 42:
        raise AddressError(
            "address_malformed", f"expected an address of {asset.chain}, found {text!r}"
        )
    return Address(raw=bytes.fromhex(text[2:]), key=text.lower(), display=text)


def settings_of(text: str, folder: Path, environment: dict[str, str] | None = None) -> Settings:
    """Make settings of a text, with the catalogue above lying beside it."""
    (folder / "catalogue.toml").write_text(CATALOGUE)
    return make_settings(
        text,
        reader=Reader(environment or {}),
        beside=folder,
        read_address=read_any_address,
    )
