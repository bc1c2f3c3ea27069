from pathlib import Path

import msgspec
import pytest
from eth_utils.address import is_checksum_address

from chains.catalog import Catalogue, CatalogueError, load_catalogue
from chains.evm.address import COIN_MIRRORS
from chains.registry import contract_of
from chains.utxo.networks import NETWORKS
from schemas.caip import AssetName, ChainName, asset_reference

SHIPPED = load_catalogue()

#: chain, coin number, symbols of every listed token
EXPECTED = [
    ("eip155:1", 60, ["USDC", "USDT"]),
    ("eip155:10", 60, ["USDC", "USDC.e", "USDT", "USDT0"]),
    ("eip155:56", 9006, ["USDC", "USDT"]),
    ("eip155:100", 700, ["USDC", "USDC.e", "USDT"]),
    ("eip155:137", 966, ["USDC", "USDC.e", "USDT"]),
    ("eip155:8453", 60, ["USDC", "USDT", "USDbC"]),
    ("eip155:42161", 60, ["USDC", "USDC.e", "USDT"]),
    ("eip155:43114", 9005, ["USDC", "USDC.e", "USDT", "USDT.e"]),
]


@pytest.mark.parametrize(("chain", "coin", "symbols"), EXPECTED)
def test_every_chain_has_its_coin_first_and_every_real_contract(chain, coin, symbols):
    found = SHIPPED.assets_of(ChainName(chain))
    assert found[0].id == f"{chain}/slip44:{coin}"
    assert sorted(asset.symbol for asset in found[1:]) == symbols


def test_no_other_chain_is_shipped():
    assert sorted(SHIPPED.chains) == sorted([*(chain for chain, _, _ in EXPECTED), *NETWORKS])


#: chain's own row: coin number, block time, least depth, dust
BITCOIN_LIKE = [
    ("bip122:000000000019d6689c085ae165831e93", 0, "BTC", "600", 1, 546),
    ("bip122:12a765e31ffd4059bada1e25190f6e98", 2, "LTC", "150", 4, 5_460),
    ("bip122:1a91e3dace36e2be3bf030a65679fe82", 3, "DOGE", "60", 10, 100_000),
]


@pytest.mark.parametrize(("chain", "number", "symbol", "block_time", "depth", "dust"), BITCOIN_LIKE)
def test_bitcoin_like_chains_have_their_coin_and_their_own_pace(
    chain, number, symbol, block_time, depth, dust
):
    entry = SHIPPED.chain(ChainName(chain))
    assert (entry.block_time_s, entry.least_depth) == (block_time, depth)
    assert entry.reorganisation_limit * float(block_time) == 6 * 3_600
    (coin,) = SHIPPED.assets_of(ChainName(chain))
    assert (coin.id, coin.symbol) == (f"{chain}/slip44:{number}", symbol)
    assert coin.dust_base_units == dust


@pytest.mark.parametrize("network", NETWORKS.values(), ids=lambda network: network.name)
def test_every_bitcoin_like_network_is_listed_with_what_it_can_hold(network):
    entry = SHIPPED.chain(network.chain)
    assert (entry.name, entry.test_chain) == (network.name, network.test)
    assert (entry.finalized, entry.coverage_time) == (False, "median_time_past")
    assert entry.receipts_root == "none"
    (coin,) = SHIPPED.assets_of(network.chain)
    assert (coin.decimals, coin.asset_class, coin.log_shape) == (8, "volatile", "none")
    assert coin.amount_max_base_units == network.money_max
    assert (coin.id == f"{network.chain}/slip44:1") == network.test


def test_a_token_on_a_chain_that_has_none_is_refused_by_name(tmp_path: Path):
    chain = "bip122:000000000019d6689c085ae165831e93"
    file = tmp_path / "more.toml"
    file.write_text(
        f"[[asset]]{MORE.split('[[asset]]')[1]}".replace(
            "eip155:31337/slip44:1", f"{chain}/omni:31"
        )
    )
    with pytest.raises(CatalogueError, match="omni:31: only the chain's coin can be watched"):
        load_catalogue(file)


def test_decimals_are_18_on_bsc_and_6_elsewhere():
    tokens = [
        asset for chain in SHIPPED.chains for asset in SHIPPED.assets_of(chain) if not asset.is_coin
    ]
    assert tokens
    for asset in tokens:
        assert asset.decimals == (18 if asset.chain == "eip155:56" else 6), asset.id
        assert asset.dust_base_units == 10**asset.decimals // 100
        assert asset.amount_max_base_units == 10**asset.decimals * 10**9


def test_contracts_are_written_with_their_checksum_and_mirror_no_coin():
    for chain in SHIPPED.chains:
        for asset in SHIPPED.assets_of(chain)[1:]:
            assert is_checksum_address(asset_reference(asset.name_id)), asset.id
            assert contract_of(asset.name_id) not in COIN_MIRRORS


def test_polygon_can_take_back_what_it_once_took_back():
    polygon = SHIPPED.chain(ChainName("eip155:137"))
    assert polygon.reorganisation_limit >= 200
    assert polygon.least_depth >= 200
    assert polygon.receipts_root == "without_bridge_receipts"


def test_every_row_says_where_it_comes_from_and_when():
    for entry in SHIPPED.chains.values():
        assert entry.source
        assert entry.verified_at == "2026-11-30"


MORE = """
[[chain]]
id = "eip155:31337"
name = "Anvil"
coin = "eip155:31337/slip44:1"
block_time_s = "1"
least_depth = 1
reorganisation_limit = 64
clock_slack_s = 5
finalized = true
test_chain = true
source = "a test"
verified_at = "2026-11-30"

[[asset]]
id = "eip155:31337/slip44:1"
symbol = "ETH"
name = "Test ether"
decimals = 18
asset_class = "volatile"
dust = "1"
amount_max = "1000000000000000000000000"
source = "a test"
verified_at = "2026-11-30"
"""


def test_a_shop_adds_its_own_chain_by_a_file(tmp_path: Path):
    file = tmp_path / "more.toml"
    file.write_text(MORE)
    found = load_catalogue(file)
    assert found.chain(ChainName("eip155:31337")).test_chain
    assert found.asset(AssetName("eip155:31337/slip44:1")).decimals == 18
    assert len(found.chains) == len(SHIPPED.chains) + 1


def test_rows_may_be_added_and_never_replaced(tmp_path: Path):
    file = tmp_path / "more.toml"
    file.write_text(MORE.replace("31337", "1"))
    with pytest.raises(CatalogueError, match="eip155:1: not canonical, or listed twice"):
        load_catalogue(file)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("decimals = 18", "decimals = -1", "decimals"),
        ('dust = "1"', 'dust = "0"', "dust must be above zero"),
        ('dust = "1"', 'dust = "0.5"', "dust"),
        ("least_depth = 1", "least_depth = 0", "least_depth"),
        ('name = "Anvil"', 'name = "Anvil"\nsurprise = 1', "surprise"),
        ('coin = "eip155:31337/slip44:1"', 'coin = "eip155:31337/slip44:2"', "its coin"),
        ("[[chain]]", "[[chain]", "more.toml"),
    ],
)
def test_an_impossible_row_is_refused_by_name(tmp_path: Path, old, new, message):
    file = tmp_path / "more.toml"
    file.write_text(MORE.replace(old, new))
    with pytest.raises(CatalogueError, match=message):
        load_catalogue(file)


def test_unknown_chains_and_assets_are_errors_with_the_name_in_them():
    empty = Catalogue([], [])
    with pytest.raises(CatalogueError, match="eip155:1 is not"):
        empty.chain(ChainName("eip155:1"))
    with pytest.raises(CatalogueError, match="slip44:60 is not"):
        empty.asset(AssetName("eip155:1/slip44:60"))
    assert empty.assets_of(ChainName("eip155:1")) == []


def test_second_looks_take_a_chains_own_word_for_final_or_a_depth_where_it_has_none():
    shipped = load_catalogue()
    bitcoin = shipped.chain(ChainName("bip122:000000000019d6689c085ae165831e93"))
    ethereum = shipped.chain(ChainName("eip155:1"))
    assert ethereum.settled_height(1_000, 930) == 930
    assert ethereum.settled_height(1_000, 0) == 0
    assert bitcoin.settled_height(1_000, 0) == 994
    assert bitcoin.settled_height(3, 0) == 0
    without = msgspec.structs.replace(bitcoin, settled_depth=0)
    assert without.settled_height(1_000, 0) == 1_000 - bitcoin.reorganisation_limit
