"""The settings of a run: the product's own reader, spans shortened to minutes, a catalogue of our own.

Two EVM chains with one listed dollar, its twin and their coins; or two Bitcoin-like ones with their coins,
as the catalogue has them. An order lives some minutes, so that a run has a beginning and an end; every
rule is the one of a real route.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

from chains.utxo.address import address_of_script
from chains.utxo.networks import BITCOIN_REGTEST, LITECOIN_REGTEST
from reconciler.config.reading import Reader
from reconciler.config.settings import Settings, make_settings
from schemas.amounts import BaseUnits, format_decimal_amount
from schemas.caip import AssetName, ChainName
from tests.simulate.plan import Plan


def address_at(number: int, *, utxo: bool = True) -> str:
    """Give the deposit address of an order."""
    if not utxo:
        return "0x" + str(10**39 + number)
    script = b"\x76\xa9\x14" + (10**40 + number).to_bytes(20, "big") + b"\x88\xac"
    found = address_of_script(BITCOIN_REGTEST, script)
    assert found is not None
    return found.display


CHAIN_IDS = (313_371, 313_372)
DOLLAR_CONTRACT = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
TWIN_CONTRACT = "0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512"
SHARED_ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
#: The regtests write the same P2PKH address.
SHARED_UTXO_ADDRESS = address_at(0)
UTXO_NETWORKS = ("bitcoin-regtest", "litecoin-regtest")
UTXO_CHAINS = (BITCOIN_REGTEST.chain, LITECOIN_REGTEST.chain)
#: What people count in: a dollar, or a hundredth of a coin. **Units**: base units.
ONE = 10**6
DUST = 10_000
UTXO_DUST = {UTXO_CHAINS[0]: 546, UTXO_CHAINS[1]: 5_460}

QUOTE_S = 90
EXTENSION_S = 30
RETRACTED_PATIENCE_S = 40
PENDING_PATIENCE_S = 90
#: How long what waits is counted on after it was last announced: it is, every ten minutes.
MEMPOOL_PATIENCE_S = 700
#: Our clocks and the log's differ by less, also after a jump.
CLOCK_SLACK_S = 12
CLOCK_JUMP_S_MAX = 10.0
REVIVE_WITHIN_S = 60
DEPTHS = ((50 * ONE, 2), (500 * ONE, 4))
#: On chains that call nothing final themselves.
DEEPEST = 6


def chain_name(number: int, *, utxo: bool = False) -> ChainName:
    if utxo:
        return UTXO_CHAINS[number]
    return ChainName(f"eip155:{CHAIN_IDS[number]}")


def coin(chain: str) -> AssetName:
    """Give a chain's coin: of test chains it has one name."""
    return AssetName(f"{chain}/slip44:1")


def dollar(chain: str) -> AssetName:
    return AssetName(f"{chain}/erc20:{DOLLAR_CONTRACT}")


def twin(chain: str) -> AssetName:
    return AssetName(f"{chain}/erc20:{TWIN_CONTRACT}")


def settings_of(plan: Plan) -> Settings:
    """Make the settings of a plan."""
    return _settings(
        plan.chains,
        plan.lanes,
        plan.orders_partitions,
        plan.events_partitions,
        plan.shards,
        plan.reorganisation_limit,
        plan.watermark_every_s,
        plan.late_revives,
        plan.flag_by_address,
        plan.batch_max,
        plan.relay_batch_max,
        plan.utxo,
    )


@lru_cache(maxsize=512)
def _settings(
    chains: int,
    lanes: int,
    orders_partitions: int,
    events_partitions: int,
    shards: int,
    limit: int,
    watermark_every_s: int,
    late_revives: bool,
    flag_by_address: bool,
    batch_max: int,
    relay_batch_max: int,
    utxo: bool,
) -> Settings:
    first = chain_name(0, utxo=utxo)
    asset = coin(first) if utxo else dollar(first)
    shared = SHARED_UTXO_ADDRESS if utxo else SHARED_ADDRESS
    fifty, five_hundred, two, one, step = (
        _decimal(amount, utxo=utxo) for amount in (50 * ONE, 500 * ONE, 2 * ONE, ONE, ONE // 100)
    )
    last = f"depth = {DEEPEST}" if utxo else 'rule = "finalized"'
    late = f"revive within {REVIVE_WITHIN_S}s" if late_revives else "review"
    route = f"""
quote = "{QUOTE_S}s"
claim_extension = "{EXTENSION_S}s"
claim_extension_known = "{EXTENSION_S}s"
claim_patience = "{EXTENSION_S}s"
retracted_patience = "{RETRACTED_PATIENCE_S}s"
pending_patience = "{PENDING_PATIENCE_S}s"
mempool_patience = "{MEMPOOL_PATIENCE_S}s"
late = "{late}"
flag_by_address = {str(flag_by_address).lower()}
finality = [
    {{ up_to = "{fifty}", depth = 2 }}, {{ up_to = "{five_hundred}", depth = 4 }}, {{ {last} }}
]
"""
    text = f"""
[database]
url = "sqlite+aiosqlite:///simulated"
[keys]
hashing = "0123456789abcdef0123456789abcdef"
[catalogue]
extra = "catalogue.toml"
[stream]
orders_partitions = {orders_partitions}
events_partitions = {events_partitions}
[relay]
shards = {shards}
batch_max = {relay_batch_max}
[intake]
clock_slack = "{CLOCK_SLACK_S}s"
blind_after = "45s"
uncovered_patience = "30s"
unknown_reference_patience = "30s"
batch_max = {batch_max}
[watch]
watermark_every = "{watermark_every_s}s"
watermark_again_every = "20s"
requests_again = "5m"
{"".join(_chain(number, lanes, limit, utxo=utxo) for number in range(chains))}
[[routes]]
name = "own"
asset = "{asset}"
deposit = {{ mode = "given" }}
tolerance = {{ under = "0.5%", under_max = "{two}", excess_max = "{one}" }}
{route}
[[routes]]
name = "shared"
asset = "{asset}"
deposit = {{ mode = "shared", address = "{shared}", step = "{step}", steps_max = 50, more_max = "5%" }}
{route}
"""
    with tempfile.TemporaryDirectory() as folder:
        beside = Path(folder)
        (beside / "catalogue.toml").write_text(CATALOGUE)
        return make_settings(text, reader=Reader({}), beside=beside)


def _decimal(amount: int, *, utxo: bool) -> str:
    return format_decimal_amount(BaseUnits(amount), 8 if utxo else 6)


def _chain(number: int, lanes: int, limit: int, *, utxo: bool) -> str:
    name = chain_name(number, utxo=utxo)
    host = UTXO_NETWORKS[number] if utxo else CHAIN_IDS[number]
    urls = ", ".join(f'"http://{node}.{host}.invalid"' for node in ("a", "b"))
    return f"""
[chains."{name}"]
rpc = [{urls}]
start_at = 3
lanes = {lanes}
poll_interval = "5s"
request_timeout = "5s"
reorganisation_limit = {limit}
"""


def _rows(chain: str, name: str) -> str:
    asset = """
[[asset]]
id = "{id}"
symbol = "{symbol}"
name = "{symbol} of the simulator"
decimals = {decimals}
asset_class = "{kind}"
dust = "{dust}"
amount_max = "{most}"
source = "made up for tests"
verified_at = "2026-11-30"
"""
    return f"""
[[chain]]
id = "{chain}"
name = "{name}"
coin = "{coin(chain)}"
block_time_s = "6"
least_depth = 2
reorganisation_limit = 64
clock_slack_s = 15
finalized = true
test_chain = true
source = "made up for tests"
verified_at = "2026-11-30"
""" + "".join(
        asset.format(id=id_, symbol=symbol, decimals=decimals, kind=kind, dust=dust, most=most)
        for id_, symbol, decimals, kind, dust, most in (
            (coin(chain), "COIN", 18, "volatile", 10**12, 10**24),
            (dollar(chain), "USD", 6, "stable", DUST, 10**15),
            (twin(chain), "TWIN", 6, "stable", DUST, 10**15),
        )
    )


CATALOGUE = "".join(
    _rows(chain_name(number), name) for number, name in enumerate(("First", "Second"))
)
