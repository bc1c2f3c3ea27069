"""Addresses of published keys are the published ones, and any key's are those of another library."""

import os
import random
import subprocess
import sys

import pytest
from bip_utils import (
    Bip32Slip10Secp256k1,
    Bip39SeedGenerator,
    Bip44,
    Bip44Changes,
    Bip44Coins,
    Bip49,
    Bip49Coins,
    Bip84,
    Bip84Coins,
    Bip86,
    Bip86Coins,
    CoinsConf,
)

from chains.child_keys import receiving_key
from chains.extended_keys import HARDENED, read
from chains.registry import derive_address, parse_address, path_of, read_derivation
from chains.utxo.networks import (
    BITCOIN,
    BITCOIN_TESTNET3,
    DOGECOIN,
    LITECOIN,
    LITECOIN_TESTNET,
)
from schemas.caip import ChainName
from tests.unit.chains.test_extended_keys import PUBLIC, changed, under

ETHEREUM = ChainName("eip155:1")
POLYGON = ChainName("eip155:137")
ABANDON = Bip39SeedGenerator(" ".join(["abandon"] * 11 + ["about"])).Generate()
JUNK = Bip39SeedGenerator(" ".join(["test"] * 11 + ["junk"])).Generate()

XPUB = (
    "xpub6BosfCnifzxcFwrSzQiqu2DBVTshkCXacvNsWGYJVVhhawA7d4R5WSWGFNbi8Aw6ZRc1brxMyWMzG3DSSSSoekkudhUd9"
    "yLb6qx39T9nMdj"
)
YPUB = (
    "ypub6Ww3ibxVfGzLrAH1PNcjyAWenMTbbAosGNB6VvmSEgytSER9azLDWCxoJwW7Ke7icmizBMXrzBx9979FfaHxHcrArf3zb"
    "eJJJUZPf663zsP"
)
ZPUB = (
    "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKs"
    "AYz2oz2AGutZYs"
)
UPUB = (
    "upub5EFU65HtV5TeiSHmZZm7FUffBGy8UKeqp7vw43jYbvZPpoVsgU93oac7Wk3u6moKegAEWtGNF8DehrnHtv21XXEMYRUoc"
    "HqguyjknFHYfgY"
)
XPUB_86 = (
    "xpub6BgBgsespWvERF3LHQu6CnqdvfEvtMcQjYrcRzx53QJjSxarj2afYWcLteoGVky7D3UKDP9QyrLprQ3VCECoY49yfdDEH"
    "GCtMMj92pReUsQ"
)
#: m/44'/60'/0' of "test … junk", whose first accounts every development node has.
XPUB_60 = (
    "xpub6Ce9NcJvTk36xtLSrJLZqE7wtgA5deCeYs7rSQtreh4cj6ByPtrg9sD7V2FNFLPnf8heNP3FGkeV9qwfzvZNSd54JoNXV"
    "sXFYSYwHsnJxqP"
)

PUBLISHED = [
    # source, chain, key, script, addresses of 0/0, 0/1, …
    ("SLIP-0132", BITCOIN.chain, XPUB, None, ["1LqBGSKuX5yYUonjxT5qGfpUsXKYYWeabA"]),
    ("SLIP-0132", BITCOIN.chain, YPUB, None, ["37VucYSaXLCAsxYyAPfbSi9eh4iEcbShgf"]),
    (
        "BIP 84",
        BITCOIN.chain,
        ZPUB,
        None,
        [
            "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu",
            "bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g",
        ],
    ),
    ("BIP 49", BITCOIN_TESTNET3.chain, UPUB, None, ["2Mww8dCYPUpKHofjgcXcBCEGmniw9CoaiD2"]),
    (
        "BIP 86",
        BITCOIN.chain,
        XPUB_86,
        "p2tr",
        [
            "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr",
            "bc1p4qhjn9zdvkux4e44uhx8tc55attvtyu358kutcqkudyccelu0was9fqzwh",
        ],
    ),
    (
        "Foundry, anvil's accounts",
        ETHEREUM,
        XPUB_60,
        None,
        [
            "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
            "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
            "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
        ],
    ),
]


@pytest.mark.parametrize(("source", "chain", "key", "script", "addresses"), PUBLISHED)
def test_published_keys_give_the_published_addresses(source, chain, key, script, addresses):
    derivation = read_derivation(chain, key, script)
    found = [derive_address(derivation, index) for index in range(len(addresses))]
    assert [address.display for address in found] == addresses
    assert [parse_address(chain, text) for text in addresses] == found


def test_the_step_below_a_key_is_that_of_bip_32():
    """Test vector 2 has a step that needs no private key: m to m/0."""
    master = (
        "xpub661MyMwAqRbcFW31YEwpkMuc5THy2PSt5bDMsktWQcFF8syAmRUapSCGu8ED9W6oDMSgv6Zz8idoc4a6mr8BDzTJY"
        "47LJhkJ8UB7WEGuduB"
    )
    child = (
        "xpub69H7F5d8KSRgmmdJg2KhpAK8SR3DjMwAdkxj3ZuxV27CprR9LgpeyGmXUbC6wb7ERfvrnKZjXoUmmDznezpbZb7ap"
        "6r1D3tgFxHmwMkQTPH"
    )
    theirs = Bip32Slip10Secp256k1.FromExtendedKey(child).ChildKey(7).PublicKey().RawCompressed()
    assert receiving_key(read(master), 7) == theirs.ToBytes()


PEERS = [
    # chain, version bytes or None for the peer's own prefix, script that the settings name, peer
    (BITCOIN.chain, None, None, Bip44, Bip44Coins.BITCOIN),
    (BITCOIN.chain, None, None, Bip49, Bip49Coins.BITCOIN),
    (BITCOIN.chain, None, None, Bip84, Bip84Coins.BITCOIN),
    (BITCOIN.chain, PUBLIC["xpub"], "p2wpkh", Bip84, Bip84Coins.BITCOIN),
    (BITCOIN.chain, None, "p2tr", Bip86, Bip86Coins.BITCOIN),
    (BITCOIN_TESTNET3.chain, None, None, Bip84, Bip84Coins.BITCOIN_TESTNET),
    (LITECOIN.chain, PUBLIC["Ltub"], None, Bip44, Bip44Coins.LITECOIN),
    (LITECOIN.chain, PUBLIC["Mtub"], None, Bip49, Bip49Coins.LITECOIN),
    (LITECOIN.chain, None, "p2wpkh", Bip84, Bip84Coins.LITECOIN),
    (LITECOIN_TESTNET.chain, None, None, Bip44, Bip44Coins.LITECOIN_TESTNET),
    (LITECOIN_TESTNET.chain, None, "p2wpkh", Bip84, Bip84Coins.LITECOIN_TESTNET),
    (DOGECOIN.chain, None, None, Bip44, Bip44Coins.DOGECOIN),
    (ETHEREUM, None, None, Bip44, Bip44Coins.ETHEREUM),
    (POLYGON, None, None, Bip44, Bip44Coins.POLYGON),
]


@pytest.mark.parametrize(("chain", "version", "script", "peer", "coin"), PEERS)
def test_any_key_gives_the_addresses_of_another_library(chain, version, script, peer, coin):
    drawn = random.Random(str((chain, coin)))
    for seed in (ABANDON, JUNK, drawn.randbytes(64)):
        account = peer.FromSeed(seed, coin).Purpose().Coin().Account(drawn.randrange(9))
        text = account.PublicKey().ToExtended()
        derivation = read_derivation(chain, under(version, text) if version else text, script)
        theirs = account.Change(Bip44Changes.CHAIN_EXT)
        for index in (0, 1, 19, drawn.randrange(HARDENED), HARDENED - 1):
            expected = theirs.AddressIndex(index).PublicKey().ToAddress()
            assert derive_address(derivation, index).display == expected, index


def test_the_peers_of_litecoin_write_scripts_as_litecoin_does_now():
    """Else the comparison above would hold for addresses that nobody shows."""
    assert CoinsConf.LitecoinMainNet.ParamByKey("p2sh_std_net_ver") == b"\x32"


@pytest.mark.parametrize(
    ("chain", "key", "script", "path"),
    [
        (BITCOIN.chain, XPUB, None, "m/44'/0'/0'"),
        (BITCOIN.chain, YPUB, None, "m/49'/0'/0'"),
        (BITCOIN.chain, ZPUB, None, "m/84'/0'/0'"),
        (BITCOIN.chain, XPUB_86, "p2tr", "m/86'/0'/0'"),
        (BITCOIN_TESTNET3.chain, UPUB, None, "m/49'/1'/0'"),
        (LITECOIN.chain, ZPUB, "p2wpkh", "m/84'/2'/0'"),
        (DOGECOIN.chain, under(PUBLIC["dgub"], XPUB), None, "m/44'/3'/0'"),
        (POLYGON, XPUB_60, None, "m/44'/60'/0'"),
        (BITCOIN.chain, changed(4, b"\0" * 9, XPUB), None, "m"),
        (BITCOIN.chain, changed(4, b"\1", ZPUB), None, "a key 1 step below the seed"),
        (BITCOIN.chain, changed(9, b"\0\0\0\0", XPUB), None, "a key 3 steps below the seed"),
    ],
)
def test_the_path_is_where_wallets_keep_such_a_key(chain, key, script, path):
    assert path_of(read_derivation(chain, key, script)) == path


@pytest.mark.parametrize("index", [-1, HARDENED, HARDENED + 1])
def test_an_index_that_no_wallet_derives_is_refused(index):
    with pytest.raises(ValueError, match="expected an index below"):
        derive_address(read_derivation(BITCOIN.chain, XPUB), index)


def test_the_library_leaves_nothing_in_the_home_folder(tmp_path):
    """It would write its settings, a log and a folder for databases there."""
    code = (
        "import os, sys, tempfile\n"
        "from chains import registry\n"
        "assert 'bitcoinlib' not in sys.modules, 'imported before a key is derived'\n"
        "key = registry.read_derivation('eip155:1', sys.argv[1])\n"
        "assert 'bitcoinlib' not in sys.modules, 'imported to read a key'\n"
        "print(registry.derive_address(key, 0).display)\n"
        "assert 'BCL_DATA_DIR' not in os.environ\n"
        "assert not os.listdir(tempfile.gettempdir())\n"
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {k: v for k, v in os.environ.items() if k != "BCL_DATA_DIR"}
    environment |= {"HOME": str(tmp_path / "home"), "TMPDIR": str(scratch)}
    done = subprocess.run(
        [sys.executable, "-c", code, XPUB_60],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", done.stderr
    assert not (tmp_path / "home").exists()
