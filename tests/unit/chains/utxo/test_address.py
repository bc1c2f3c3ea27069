"""What people write, to an output script and back, on every network (CH-R13, CH-F02)."""

import json
import string

import base58
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chains.addresses import AddressError
from chains.utxo.address import address_of_script, parse, raw_of_key, refuse_unspendable
from chains.utxo.bech32 import write_witness
from chains.utxo.networks import (
    BITCOIN,
    BITCOIN_REGTEST,
    BITCOIN_SIGNET,
    BITCOIN_TESTNET3,
    BITCOIN_TESTNET4,
    DOGECOIN_REGTEST,
    DOGECOIN_TESTNET,
    LITECOIN,
    LITECOIN_REGTEST,
    LITECOIN_TESTNET,
    NETWORKS,
)
from tests.parts.chain_data import chain_file

P2PKH = "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"
P2WPKH = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
P2WSH = "bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3"
P2TR = "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"
HASH = "751e76e8199196d454941c45d1b3a323f1433bd6"

#: network, what is written, the script it is. The genesis block's key; Bitcoin Core's
#: base58_keys_valid.json; BIP 173; BIP 350; BIP 341's wallet vectors; BIP 86's vectors.
VECTORS = [
    (
        BITCOIN,
        "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
        "76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac",
    ),
    (
        BITCOIN,
        "1AGNa15ZQXAZUgFiqJ2i7Z2DPU2J6hW62i",
        "76a91465a16059864a2fdbc7c99a4723a8395bc6f188eb88ac",
    ),
    (
        BITCOIN,
        "3CMNFxN1oHBc4R1EpboAL5yzHGgE611Xou",
        "a91474f209f6ea907e2ea48f74fae05782ae8a66525787",
    ),
    (
        BITCOIN_TESTNET3,
        "mo9ncXisMeAoXwqcV5EWuyncbmCcQN4rVs",
        "76a91453c0307d6851aa0ce7825ba883c6bd9ad242b48688ac",
    ),
    (
        BITCOIN_TESTNET3,
        "2N2JD6wb56AfK4tfmM6PwdVmoYk2dCKf4Br",
        "a9146349a418fc4578d10a372b54b45c280cc8c4382f87",
    ),
    (BITCOIN, "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4", f"0014{HASH}"),
    (BITCOIN, P2WPKH, f"0014{HASH}"),
    (
        BITCOIN_TESTNET3,
        "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7",
        "00201863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262",
    ),
    (
        BITCOIN_SIGNET,
        "tb1qqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesrxh6hy",
        "0020000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433",
    ),
    (
        BITCOIN_TESTNET4,
        "tb1pqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesf3hn0c",
        "5120000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433",
    ),
    (BITCOIN, P2TR, "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"),
    (
        BITCOIN,
        "bc1p2wsldez5mud2yam29q22wgfh9439spgduvct83k3pm50fcxa5dps59h4z5",
        "512053a1f6e454df1aa2776a2814a721372d6258050de330b3c6d10ee8f4e0dda343",
    ),
    (
        BITCOIN,
        "bc1pz37fc4cn9ah8anwm4xqqhvxygjf9rjf2resrw8h8w4tmvcs0863sa2e586",
        "5120147c9c57132f6e7ecddba9800bb0c4449251c92a1e60371ee77557b6620f3ea3",
    ),
    (
        BITCOIN,
        "bc1punvppl2stp38f7kwv2u2spltjuvuaayuqsthe34hd2dyy5w4g58qqfuag5",
        "5120e4d810fd50586274face62b8a807eb9719cef49c04177cc6b76a9a4251d5450e",
    ),
    (
        BITCOIN,
        "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr",
        "5120a60869f0dbcf1dc659c9cecbaf8050135ea9e8cdc487053f1dc6880949dc684c",
    ),
]


@pytest.mark.parametrize(("network", "text", "script"), VECTORS)
def test_an_address_is_its_output_script(network, text, script):
    found = parse(network, f"  {text}\n")
    assert found.raw.hex() == script
    assert found.key == found.display
    assert found.key == (text.lower() if network.hrp and "1Q" in text[:5] else text)
    assert address_of_script(network, found.raw) == found
    assert raw_of_key(network, found.key) == found.raw


@pytest.mark.parametrize(
    ("network", "name"),
    [
        (BITCOIN, "bitcoin/getblock-v2-200000.json"),
        (BITCOIN, "bitcoin/getblock-v2-766390.json"),
        (LITECOIN, "litecoin/getblock-2383206.json"),
        (LITECOIN, "litecoin/getblock-2383207.json"),
    ],
)
def test_every_output_of_a_real_block_has_the_address_that_a_node_gives_it(network, name):
    """But one: nodes of that time named bare keys by their hash, which is another script."""
    seen = 0
    for spent in json.loads(chain_file(name).read_text())["tx"]:
        for output in spent["vout"]:
            script = output["scriptPubKey"]
            theirs = script.get("address") or (script.get("addresses") or [None])[0]
            found = address_of_script(network, bytes.fromhex(script["hex"]))
            if script["type"] in {"pubkey", "multisig"}:
                theirs = None
            assert (found.display if found else None) == theirs
            if found is not None:
                assert parse(network, found.display) == found
                assert raw_of_key(network, found.key) == found.raw
                seen += 1
    assert seen > 10


@pytest.mark.parametrize(
    ("start", "hashed"), [("LTC1", b"\x57\x62\x7e"), ("LTc1", b"\x5b\xec\x9a")]
)
def test_litecoins_addresses_that_begin_like_bech32_are_read(start, hashed):
    """One P2PKH address in 40,000 begins so; a watcher writes a payment to it and must read it again."""
    script = b"\x76\xa9\x14" + hashed + bytes(17) + b"\x88\xac"
    found = address_of_script(LITECOIN, script)
    assert found.display.startswith(start)
    assert parse(LITECOIN, found.display) == found
    assert raw_of_key(LITECOIN, found.key) == script
    for changed in (found.display.upper(), found.display.lower()):
        with pytest.raises(AddressError):
            parse(LITECOIN, changed)


def test_litecoins_old_script_addresses_are_read_and_written_anew():
    old = "3CMNFxN1oHBc4R1EpboAL5yzHGgE611Xou"
    found = parse(LITECOIN, old)
    assert found.raw == parse(BITCOIN, old).raw
    assert found.display.startswith("M")
    assert parse(LITECOIN, found.display) == found
    with pytest.raises(AddressError, match="is an address of Litecoin, not of Bitcoin"):
        parse(BITCOIN, found.display)
    old = "2N2JD6wb56AfK4tfmM6PwdVmoYk2dCKf4Br"
    for network in (LITECOIN_TESTNET, LITECOIN_REGTEST):
        assert parse(network, old).display.startswith("Q")
        with pytest.raises(AddressError, match="expected a canonical address"):
            raw_of_key(network, old)


REFUSED = [
    ("", "address_malformed", "expected an address of Bitcoin, found ''"),
    ("satoshi", "address_malformed", "found 'satoshi'"),
    (f"bitcoin:{P2PKH}", "address_malformed", "found 'bitcoin:"),
    (P2PKH[:-1], "address_checksum", "letters or digits were changed"),
    (P2PKH + "1", "address_checksum", "letters or digits were changed"),
    (P2PKH.replace("B", "8", 1), "address_checksum", "letters or digits were changed"),
    (P2PKH.lower(), "address_checksum", "letters or digits were changed"),
    (P2WPKH[:-1] + "5", "address_checksum", "letters or digits were changed"),
    (P2WPKH[:-1] + "T4", "address_malformed", "mixes capital and small letters"),
    (P2WPKH.replace("bc1", "bc1b"), "address_malformed", "'b', which is not written here"),
    # BIP 173 and BIP 350: another prefix
    ("tc1qw508d6qejxtdg4y5r3zarvary0c5xw7kg3g4ty", "address_wrong_chain", "prefix tc"),
    (
        "tc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq5zuyut",
        "address_wrong_chain",
        "prefix tc",
    ),
    # readable, but nobody has rules for them
    ("BC1SW50QGDZ25J", "address_malformed", "anybody could take"),
    ("bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs", "address_malformed", "anybody could take"),
    (
        "bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y",
        "address_malformed",
        "anybody could take",
    ),
    (write_witness("bc", 1, b"\x4e\x73"), "address_malformed", "anybody could take"),
    # other chains
    ("DBcZSePDaMMduBMLymWHXhkE5ArFEvkagU", "address_wrong_chain", "address of Dogecoin, not of"),
    (
        "ltc1q8c6fshw2dlwun7ekn9qwf37cu2rn755u9ym7p0",
        "address_wrong_chain",
        "address of Litecoin, not of",
    ),
    (
        "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7",
        "address_wrong_chain",
        "Bitcoin testnet3 or Bitcoin testnet4 or Bitcoin signet, not of Bitcoin",
    ),
    ("mo9ncXisMeAoXwqcV5EWuyncbmCcQN4rVs", "address_wrong_chain", "address of Bitcoin testnet3"),
    ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "address_wrong_chain", "an EVM chain"),
    ("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "address_wrong_chain", "address of Tron"),
    ("rPEPPER7kfTD9w2To4CQk6UCfuHM9c6GDY", "address_wrong_chain", "XRP Ledger"),
    ("Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB", "address_wrong_chain", "another chain"),
    ("cosmos1" + "q" * 38, "address_malformed", "expected an address of Bitcoin"),
    ("ltcmweb1" + "q" * 70, "address_malformed", "hides what it is paid"),
    (base58.b58encode_check(b"\x7b" + bytes(20)).decode(), "address_wrong_chain", "version 123"),
    (base58.b58encode_check(b"\x00" + bytes(18)).decode(), "address_malformed", "found 19"),
]


@pytest.mark.parametrize(("text", "code", "words"), REFUSED)
def test_what_is_no_address_of_the_network_is_refused_by_name(text, code, words):
    with pytest.raises(AddressError) as caught:
        parse(BITCOIN, text)
    assert caught.value.code == code
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "secret",
    [
        base58.b58encode_check(b"\x80" + bytes(range(32)) + b"\x01").decode(),
        base58.b58encode_check(b"\x80" + bytes(range(32))).decode() + "x",
        base58.b58encode_check(bytes.fromhex("0488ade4") + bytes(range(74))).decode(),
        bytes(range(32)).hex(),
        "0x" + bytes(range(32)).hex().upper(),
        "abandon abandon abandon abandon abandon about",
    ],
)
def test_what_may_be_a_private_key_is_refused_and_never_repeated(secret):
    with pytest.raises(AddressError) as caught:
        parse(BITCOIN, secret)
    assert caught.value.code == "address_malformed"
    assert secret[:12] not in str(caught.value)
    assert "may be a private key" in str(caught.value)


def scripts_of(hash20: bytes, hash32: bytes) -> list[bytes]:
    return [
        b"\x76\xa9\x14" + hash20 + b"\x88\xac",
        b"\xa9\x14" + hash20 + b"\x87",
        b"\x00\x14" + hash20,
        b"\x00\x20" + hash32,
        b"\x51\x20" + hash32,
    ]


#: Who writes the same text for the same script, so that nobody can tell them apart.
SAME_VERSIONS = [
    {BITCOIN_TESTNET3, BITCOIN_TESTNET4, BITCOIN_SIGNET, BITCOIN_REGTEST, DOGECOIN_REGTEST},
    {LITECOIN_TESTNET, LITECOIN_REGTEST},
]
SAME_PREFIX = {BITCOIN_TESTNET3, BITCOIN_TESTNET4, BITCOIN_SIGNET}
#: reader, writer, script: what cannot be told apart and is read all the same.
KEYS_OF_TEST_NETWORKS = SAME_VERSIONS[0] | SAME_VERSIONS[1]
SCRIPTS_OF_TEST_NETWORKS = SAME_VERSIONS[0] | {DOGECOIN_TESTNET}


def cannot_be_told_apart(reader, writer, kind):
    if kind == 0:
        return {reader, writer} <= KEYS_OF_TEST_NETWORKS
    if kind == 1:
        old = writer in SCRIPTS_OF_TEST_NETWORKS and reader in SAME_VERSIONS[1]
        same = {reader, writer} <= SCRIPTS_OF_TEST_NETWORKS or {reader, writer} <= SAME_VERSIONS[1]
        return same or old or (reader, writer) == (LITECOIN, BITCOIN)
    return {reader, writer} <= SAME_PREFIX


@pytest.mark.parametrize("writer", NETWORKS.values(), ids=lambda network: network.name)
@pytest.mark.parametrize("reader", NETWORKS.values(), ids=lambda network: network.name)
def test_no_network_takes_an_address_of_another_unless_nobody_can_tell(reader, writer):
    for kind, script in enumerate(scripts_of(bytes(range(20)), bytes(range(32)))):
        written = address_of_script(writer, script)
        if written is None:
            assert writer.hrp is None
            assert kind > 1
        elif reader is writer or cannot_be_told_apart(reader, writer, kind):
            assert parse(reader, written.display).raw == script
        else:
            with pytest.raises(AddressError) as caught:
                parse(reader, written.display)
            assert caught.value.code == "address_wrong_chain"
            assert writer.name in str(caught.value)
            assert f"not of {reader.name}" in str(caught.value)


@given(
    network=st.sampled_from(list(NETWORKS.values())),
    hash20=st.binary(min_size=20, max_size=20),
    hash32=st.binary(min_size=32, max_size=32),
)
def test_every_script_comes_back_from_its_text(network, hash20, hash32):
    for kind, script in enumerate(scripts_of(hash20, hash32)):
        found = address_of_script(network, script)
        if network.hrp is None and kind > 1:
            assert found is None
        else:
            assert found.raw == script
            assert parse(network, found.display) == found
            assert parse(network, found.display.upper() if kind > 1 else found.display) == found
            assert raw_of_key(network, found.key) == script


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """bitcoinlib, which writes into the folder that this variable names, and else into the home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BCL_DATA_DIR", str(tmp_path_factory.mktemp("bitcoinlib")))
        return pytest.importorskip("bitcoinlib.encoding")


def test_bitcoinlib_writes_the_same_texts(theirs):
    @given(hash20=st.binary(min_size=20, max_size=20), hash32=st.binary(min_size=32, max_size=32))
    def check(hash20, hash32):
        scripts = scripts_of(hash20, hash32)
        for network in NETWORKS.values():
            texts = [
                theirs.pubkeyhash_to_addr_base58(hash20, bytes([network.p2pkh])),
                theirs.pubkeyhash_to_addr_base58(hash20, bytes([network.p2sh[0]])),
            ]
            if network.hrp is not None:
                texts += [
                    theirs.pubkeyhash_to_addr_bech32(program, network.hrp, version)
                    for version, program in ((0, hash20), (0, hash32), (1, hash32))
                ]
            for script, text in zip(scripts, texts, strict=False):
                assert address_of_script(network, script).display == text
                assert parse(network, text).raw == script
                assert theirs.addr_to_pubkeyhash(text) in script

    check()


@pytest.mark.parametrize("text", [P2PKH, "3CMNFxN1oHBc4R1EpboAL5yzHGgE611Xou", P2WPKH, P2WSH, P2TR])
def test_one_changed_character_is_always_refused(text):
    for place, right in enumerate(text):
        for wrong in string.ascii_letters + string.digits:
            if wrong == right:
                continue
            with pytest.raises(AddressError):
                parse(BITCOIN, text[:place] + wrong + text[place + 1 :])
        with pytest.raises(AddressError):
            parse(BITCOIN, text[:place] + text[place + 1 :])
        with pytest.raises(AddressError):
            parse(BITCOIN, text[:place] + right + text[place:])


@pytest.mark.parametrize(
    "script",
    [
        "",
        "6a0568656c6c6f",
        "2103" + "11" * 32 + "ac",
        "51" + "2103" + "11" * 32 + "51ae",
        "51024e73",
        "5220" + "11" * 32,
        "5114" + "11" * 20,
        "0013" + "11" * 19,
        "0014" + "11" * 21,
        "76a914" + "11" * 19 + "88ac",
        "76a914" + "11" * 21 + "88ac",
        "76a914" + "11" * 20 + "88ad",
        "a914" + "11" * 20 + "88",
        "a914" + "11" * 21 + "87",
        "5820" + "11" * 32,
    ],
    ids=lambda script: script[:12],
)
def test_other_scripts_have_no_address(script):
    for network in NETWORKS.values():
        assert address_of_script(network, bytes.fromhex(script)) is None


@pytest.mark.parametrize(
    "key",
    [
        "",
        "1",
        "bc1",
        "bc1q",
        f"1{P2PKH}",
        f"{P2PKH} ",
        P2PKH[1:],
        P2WPKH.upper(),
        P2WPKH[:-1],
        P2WPKH + "q",
        P2WPKH.replace("bc1q", "bc1z"),
        P2WPKH.replace("w508", "w5b8"),
        P2WPKH.replace("w508", "w5_8"),
        P2TR.replace("bc1p", "bc1q1"),
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "mo9ncXisMeAoXwqcV5EWuyncbmCcQN4rVs",
        "3" * 60,
        "ltc1q8c6fshw2dlwun7ekn9qwf37cu2rn755u9ym7p0",
    ],
)
def test_a_key_that_we_would_not_have_written_is_refused(key):
    with pytest.raises(AddressError) as caught:
        raw_of_key(BITCOIN, key)
    assert caught.value.code == "address_malformed"


def test_a_key_with_ones_in_front_keeps_its_zeros():
    text = "1111111111111111111114oLvT2"
    assert raw_of_key(BITCOIN, text) == parse(BITCOIN, text).raw


@pytest.mark.parametrize(
    "script",
    [
        "76a914" + "00" * 20 + "88ac",
        "a914" + "00" * 20 + "87",
        "0014" + "00" * 20,
        "0020" + "00" * 32,
        "5120" + "00" * 32,
        # BIP 340's vectors 5 and 14: not on the curve, and not below its prime
        "5120eefdea4cdb677750a420fee807eacf21eb9898ae79b9768766e4faa04a2d4a34",
        "5120fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc30",
    ],
)
def test_an_address_that_nobody_has_the_key_of_is_no_place_to_be_paid_at(script):
    found = address_of_script(BITCOIN, bytes.fromhex(script))
    with pytest.raises(AddressError, match="has no key; money sent there is lost"):
        refuse_unspendable(BITCOIN, found)


@pytest.mark.parametrize(("network", "text", "script"), VECTORS)
def test_a_real_address_is_a_place_to_be_paid_at(network, text, script):
    if script != "5120000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433":
        refuse_unspendable(network, parse(network, text))
