import json
from decimal import Decimal
from hashlib import sha256

import pytest

from chains.utxo.networks import (
    BITCOIN,
    BITCOIN_TESTNET3,
    DOGECOIN,
    DOGECOIN_REGTEST,
    DOGECOIN_TESTNET,
    LITECOIN,
    NETWORKS,
)
from schemas.caip import parse_chain
from tests.parts.chain_data import chain_file


def test_names_are_those_that_others_write():
    """The first four stand in CAIP-19's and CAIP-2's own examples."""
    assert BITCOIN.chain == "bip122:000000000019d6689c085ae165831e93"
    assert BITCOIN_TESTNET3.chain == "bip122:000000000933ea01ad0ee984209779ba"
    assert LITECOIN.chain == "bip122:12a765e31ffd4059bada1e25190f6e98"
    assert DOGECOIN.chain == "bip122:1a91e3dace36e2be3bf030a65679fe82"
    assert len({network.chain for network in NETWORKS.values()}) == 11
    for name, network in NETWORKS.items():
        assert parse_chain(name) == name == network.chain
        assert len(bytes.fromhex(network.genesis_hash)) == 32


def test_testnet4s_genesis_is_the_block_that_bip_94_prints():
    header = bytes.fromhex(
        "01000000" + "00" * 32 + "4e7b2b9128fe0291db0693af2ae418b767e657cd407e80cb1434221eaea7a07a"
        "046f3566ffff001dbb0c7817"
    )
    hashed = sha256(sha256(header).digest()).digest()[::-1].hex()
    (found,) = [n for n in NETWORKS.values() if n.name == "Bitcoin testnet4"]
    assert found.genesis_hash == hashed


def test_only_dogecoin_has_no_segregated_witness_and_a_longer_maturity():
    for network in NETWORKS.values():
        is_dogecoin = network.uri_scheme == "dogecoin"
        assert (network.hrp is None) == is_dogecoin
        assert (network.coinbase_maturity == 100) == (not is_dogecoin)
    assert DOGECOIN.coinbase_maturity == DOGECOIN_TESTNET.coinbase_maturity == 240
    assert DOGECOIN_REGTEST.coinbase_maturity == 60


@pytest.mark.parametrize(
    ("network", "name"),
    [(LITECOIN, "litecoin/getblock-2383206.json"), (BITCOIN, "bitcoin/getblock-v2-200000.json")],
)
def test_no_output_of_a_real_block_exceeds_what_a_network_can_hold(network, name):
    block = json.loads(chain_file(name).read_text(), parse_float=Decimal)
    largest = max(output["value"] for spent in block["tx"] for output in spent["vout"])
    assert 0 < largest * 10**8 < network.money_max
