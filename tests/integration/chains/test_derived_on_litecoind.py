"""A node derives the same addresses: what a wallet on it would show, and would find money at."""

import pytest

from chains.registry import derive_address, read_derivation
from chains.utxo.networks import LITECOIN_REGTEST
from tests.parts.litecoind.node import Litecoind
from tests.unit.chains.test_derived_addresses import UPUB
from tests.unit.chains.test_extended_keys import PUBLIC, under

#: Nodes know one prefix, and say the script around it.
TPUB = under(PUBLIC["tpub"], UPUB)
#: a prefix that says the script, the script that the settings say, the descriptor of the same
SCRIPTS = [
    ("tpub", None, "pkh({})"),
    ("ttub", None, "pkh({})"),
    ("upub", None, "sh(wpkh({}))"),
    ("vpub", None, "wpkh({})"),
    ("tpub", "p2wpkh", "wpkh({})"),
]


@pytest.mark.litecoind
def test_a_node_gives_the_same_addresses_for_the_same_key():
    with Litecoind() as node:
        for prefix, script, descriptor in SCRIPTS:
            derivation = read_derivation(
                LITECOIN_REGTEST.chain, under(PUBLIC[prefix], UPUB), script
            )
            described = node.ask("getdescriptorinfo", descriptor.format(f"{TPUB}/0/*"))
            theirs = node.ask("deriveaddresses", described["descriptor"], [0, 20])
            ours = [derive_address(derivation, index).display for index in range(21)]
            assert ours == theirs, descriptor
            known = node.ask("validateaddress", ours[0])
            assert known["scriptPubKey"] == derive_address(derivation, 0).raw.hex()
