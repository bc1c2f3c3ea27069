"""What a wallet exports: read where it is public and fits the chain, refused by name where it does not."""

import traceback

import base58
import pytest
from bip_utils import Bip39SeedGenerator, Bip44, Bip44Coins

from chains.extended_keys import ExtendedKeyError, read
from chains.registry import read_derivation
from chains.utxo.networks import (
    BITCOIN,
    BITCOIN_REGTEST,
    BITCOIN_TESTNET3,
    DOGECOIN,
    LITECOIN,
    LITECOIN_TESTNET,
)
from schemas.caip import ChainName

ETHEREUM = ChainName("eip155:1")
SEED = Bip39SeedGenerator(" ".join(["abandon"] * 11 + ["about"])).Generate()
ACCOUNT = Bip44.FromSeed(SEED, Bip44Coins.BITCOIN).Purpose().Coin().Account(0)
XPUB = ACCOUNT.PublicKey().ToExtended()
XPRV = ACCOUNT.PrivateKey().ToExtended()

#: Version bytes. Source: SLIP-0132; dgub and dgpv: dogecoin, src/chainparams.cpp.
PUBLIC = {
    "xpub": 0x0488B21E,
    "ypub": 0x049D7CB2,
    "zpub": 0x04B24746,
    "Ypub": 0x0295B43F,
    "Zpub": 0x02AA7ED3,
    "tpub": 0x043587CF,
    "upub": 0x044A5262,
    "vpub": 0x045F1CF6,
    "Ltub": 0x019DA462,
    "Mtub": 0x01B26EF6,
    "ttub": 0x0436F6E1,
    "dgub": 0x02FACAFD,
}
PRIVATE = {
    "xprv": 0x0488ADE4,
    "yprv": 0x049D7878,
    "zprv": 0x04B2430C,
    "Yprv": 0x0295B005,
    "Zprv": 0x02AA7A99,
    "tprv": 0x04358394,
    "uprv": 0x044A4E28,
    "vprv": 0x045F18BC,
    "Ltpv": 0x019D9CFE,
    "Mtpv": 0x01B26792,
    "ttpv": 0x0436EF7D,
    "dgpv": 0x02FAC398,
}


def under(version: int, key: str = XPUB) -> str:
    """Write the same key under other version bytes."""
    data = base58.b58decode_check(key)
    return base58.b58encode_check(version.to_bytes(4, "big") + data[4:]).decode()


def changed(start: int, new: bytes, key: str = XPUB) -> str:
    """Write a key with other bytes at a place, and a checksum that fits."""
    data = bytearray(base58.b58decode_check(key))
    data[start : start + len(new)] = new
    return base58.b58encode_check(bytes(data)).decode()


def test_a_key_is_the_same_key_under_every_prefix_and_no_other():
    names = {read(under(v)).name for p, v in PUBLIC.items() if p not in {"Ypub", "Zpub"}}
    assert names == {read(XPUB).name}
    other = Bip44.FromSeed(SEED, Bip44Coins.BITCOIN).Purpose().Coin().Account(1)
    assert read(other.PublicKey().ToExtended()).name != read(XPUB).name
    chain_code = read(changed(13, bytes(32)))
    assert chain_code.public_key == read(XPUB).public_key
    assert chain_code.name != read(XPUB).name, "the chain code makes the children"


WIF = "5KYZdUEo39z3FPrtuX2QbbwGnNP5zTd7yyr2SC1j299sBCnWjss"
WIF_COMPRESSED = "L4rK1yDtCWekvXuE6oXD9jCYfFNV2cWRpVuPLBcCU2z8TrisoyY1"
SECRETS = [
    *(under(version, XPRV) for version in PRIVATE.values()),
    f"  {XPRV}\n",
    XPRV[:-1] + "1",
    XPRV[:-9],
    under(PUBLIC["xpub"], XPRV),
    WIF,
    WIF_COMPRESSED,
    " ".join(["abandon"] * 11 + ["about"]),
    " ".join(["zoo"] * 23 + ["vote"]),
    "1e99423a4ed27608a15a2616a2b0e9e52ced330ac530edcc32c8ffc6a526aedd",
    "0x1E99423A4ED27608A15A2616A2B0E9E52CED330AC530EDCC32C8FFC6A526AEDD",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("chain", [ETHEREUM, BITCOIN.chain, DOGECOIN.chain])
def test_a_private_key_is_refused_with_the_reason_and_never_repeated(chain, secret):
    with pytest.raises(ExtendedKeyError) as caught:
        read_derivation(chain, secret)
    said = "".join(traceback.format_exception(caught.value))
    assert "private key" in str(caught.value)
    assert "no private key" not in str(caught.value)
    for start in range(0, len(secret.strip()) - 8, 4):
        assert secret.strip()[start : start + 8] not in said.replace("extended public key", "")


REFUSED = [
    # why, the text, what the sentence says. Most are test vector 5 of BIP 32.
    ("nothing", "", "0 characters"),
    ("no key", "hello", "5 characters"),
    ("no ASCII", "xpub“é", "6 characters"),
    ("one letter wrong", XPUB[:-1] + ("1" if XPUB[-1] != "1" else "2"), "checksum is wrong"),
    ("cut", XPUB[:-1], "checksum is wrong"),
    ("an address", "1LqBGSKuX5yYUonjxT5qGfpUsXKYYWeabA", "21 bytes"),
    ("a descriptor", f"wpkh({XPUB}/0/*)", "checksum is wrong"),
    ("a megabyte", "x" * 1_000_000, "checksum is wrong"),
    ("unknown version", changed(0, bytes(4)), "00000000"),
    ("uncompressed key", changed(45, b"\x04"), "no point"),
    ("no such prefix", changed(45, b"\x01"), "no point"),
    ("off the curve", changed(45, b"\x02" + (5).to_bytes(32, "big")), "no point"),
    ("beyond the field", changed(45, b"\x02" + b"\xff" * 32), "no point"),
    ("master with a parent", changed(4, b"\0\0\0\0\1\0\0\0\0"), "master"),
    ("master with a number", changed(4, b"\0\0\0\0\0\0\0\0\1"), "master"),
    ("a chain's key", changed(4, b"\4"), "4 steps"),
    ("an address' key", changed(4, b"\5"), "5 steps"),
    ("multisignature", under(PUBLIC["Zpub"]), "multisignature"),
]


@pytest.mark.parametrize(("text", "sentence"), [pytest.param(t, s, id=i) for i, t, s in REFUSED])
def test_what_is_no_key_of_an_account_is_refused_with_what_was_found(text, sentence):
    with pytest.raises(ExtendedKeyError, match=sentence) as caught:
        read(text)
    assert len(str(caught.value)) < 300


FITS = [
    # chain, prefix, what the settings say, the script of the addresses or None where it is refused
    (ETHEREUM, "xpub", None, ""),
    (ETHEREUM, "xpub", "p2wpkh", None),
    (ETHEREUM, "ypub", None, None),
    (ETHEREUM, "tpub", None, None),
    (ETHEREUM, "dgub", None, None),
    (BITCOIN.chain, "xpub", None, "p2pkh"),
    (BITCOIN.chain, "xpub", "p2wpkh", "p2wpkh"),
    (BITCOIN.chain, "xpub", "p2tr", "p2tr"),
    (BITCOIN.chain, "xpub", "p2sh-p2wpkh", "p2sh-p2wpkh"),
    (BITCOIN.chain, "ypub", None, "p2sh-p2wpkh"),
    (BITCOIN.chain, "ypub", "p2sh-p2wpkh", "p2sh-p2wpkh"),
    (BITCOIN.chain, "ypub", "p2wpkh", None),
    (BITCOIN.chain, "zpub", None, "p2wpkh"),
    (BITCOIN.chain, "zpub", "p2tr", None),
    (BITCOIN.chain, "zpub", "p2pkh", None),
    (BITCOIN.chain, "tpub", None, None),
    (BITCOIN.chain, "vpub", "p2wpkh", None),
    (BITCOIN.chain, "Ltub", None, None),
    (BITCOIN.chain, "dgub", None, None),
    (BITCOIN_TESTNET3.chain, "tpub", None, "p2pkh"),
    (BITCOIN_TESTNET3.chain, "upub", None, "p2sh-p2wpkh"),
    (BITCOIN_REGTEST.chain, "vpub", None, "p2wpkh"),
    (BITCOIN_REGTEST.chain, "tpub", "p2tr", "p2tr"),
    (BITCOIN_TESTNET3.chain, "xpub", None, None),
    (BITCOIN_TESTNET3.chain, "ttub", None, None),
    (LITECOIN.chain, "Ltub", None, "p2pkh"),
    (LITECOIN.chain, "Ltub", "p2wpkh", "p2wpkh"),
    (LITECOIN.chain, "Mtub", None, "p2sh-p2wpkh"),
    (LITECOIN.chain, "Mtub", "p2pkh", None),
    (LITECOIN.chain, "xpub", None, None),
    (LITECOIN.chain, "zpub", None, None),
    (LITECOIN.chain, "zpub", "p2wpkh", "p2wpkh"),
    (LITECOIN.chain, "zpub", "p2tr", None),
    (LITECOIN.chain, "xpub", "p2pkh", "p2pkh"),
    (LITECOIN.chain, "ttub", None, None),
    (LITECOIN.chain, "dgub", None, None),
    (LITECOIN_TESTNET.chain, "ttub", None, "p2pkh"),
    (LITECOIN_TESTNET.chain, "Ltub", None, None),
    (DOGECOIN.chain, "dgub", None, "p2pkh"),
    (DOGECOIN.chain, "dgub", "p2pkh", "p2pkh"),
    (DOGECOIN.chain, "dgub", "p2wpkh", None),
    (DOGECOIN.chain, "xpub", None, None),
    (DOGECOIN.chain, "xpub", "p2pkh", None),
]


@pytest.mark.parametrize(("chain", "prefix", "script", "chosen"), FITS)
def test_prefix_and_script_say_the_address_or_are_refused_where_they_contradict(
    chain, prefix, script, chosen
):
    text = under(PUBLIC[prefix])
    if chosen is not None:
        assert (read_derivation(chain, text, script).script or "") == chosen
        return
    with pytest.raises(ExtendedKeyError) as caught:
        read_derivation(chain, text, script)
    assert prefix in str(caught.value) or str(script) in str(caught.value)


def test_a_key_of_another_network_is_refused_with_both_names():
    with pytest.raises(ExtendedKeyError, match=r"Ltub is a prefix of Litecoin; Bitcoin has xpub"):
        read_derivation(BITCOIN.chain, under(PUBLIC["Ltub"]))
    with pytest.raises(ExtendedKeyError, match=r"tpub is a prefix of test networks; Bitcoin has"):
        read_derivation(BITCOIN.chain, under(PUBLIC["tpub"]))


def test_a_key_is_not_shown_where_it_is_logged():
    derivation = read_derivation(BITCOIN.chain, XPUB)
    assert XPUB not in repr(derivation)
    assert derivation.key.public_key.hex() not in repr(derivation)
    assert repr(derivation.key.chain_code) not in repr(derivation)
