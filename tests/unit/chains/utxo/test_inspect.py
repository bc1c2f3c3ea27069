"""`inspect` on every real block: what is given and what is counted are all its outputs and all its money."""

import json
from datetime import UTC, datetime

import pytest

from chains.catalog import load_catalogue
from chains.errors import AnswerRefused
from chains.inspect import inspect_block
from chains.registry import parse_address
from chains.utxo.address import address_of_script
from chains.utxo.block import read_block
from chains.utxo.file import read_file
from chains.utxo.merkle import shown
from chains.utxo.networks import NETWORKS
from chains.utxo.pays import Telling, kind_of, transfers_of
from reconciler.cli import run
from schemas.caip import AssetName, ChainName
from schemas.codec import decode_as
from schemas.facts import TransferSeen
from schemas.values import split_transfer_id
from tests.parts.chain_data import chain_file, facts_of
from tests.parts.utxo_blocks import (
    EASY_BITCOIN,
    HOG_ADDRESS,
    P2PKH,
    PEG_IN,
    Everything,
    block_of,
    coinbase,
    outpoint,
    pay,
)

CATALOGUE = load_catalogue()
CHAINS = {
    "bitcoin": ChainName("bip122:000000000019d6689c085ae165831e93"),
    "litecoin": ChainName("bip122:12a765e31ffd4059bada1e25190f6e98"),
    "dogecoin": ChainName("bip122:1a91e3dace36e2be3bf030a65679fe82"),
}
FILES = [
    ("bitcoin", "block-702861.bin"),
    ("bitcoin", "block-169482.bin"),
    ("bitcoin", "block-227836.bin"),
    ("bitcoin", "block-383616.bin"),
    ("bitcoin", "block-481829.bin"),
    ("bitcoin", "getblock-v2-766390.json"),
    ("bitcoin", "getblock-v2-200000.json"),
    ("litecoin", "block-2265985.bin"),
    ("litecoin", "getblock-2383207.json"),
    ("litecoin", "getblock-2383206.json"),
    ("dogecoin", "block-12345.bin"),
    ("dogecoin", "block-371337.bin"),
    ("dogecoin", "block-567890.bin"),
]
#: Block 371337 of Dogecoin pays its miner by a bare key.
PAID_WITHOUT_COINBASE = 16_466_906_150_001
#: Output types as nodes name them, that have no address here.
WITHOUT = {
    "nulldata": "op_return",
    "pubkey": "public_key",
    "multisig": "bare_multisig",
    "witness_mweb_hogaddr": "unknown_witness",
    "witness_mweb_pegin": "unknown_witness",
}


def outputs_of(coin: str, file: str, content: bytes) -> tuple[int, int]:
    """Give how many outputs a block has and what they add up to, as SOURCES.md or the JSON say."""
    facts = facts_of(coin, file)
    if "nout" in facts:
        return facts["nout"], facts["sum_of_outputs_sat"]
    total = facts.get("sum_of_outputs_sat")
    count = sum(len(tx["vout"]) for tx in json.loads(content)["tx"])
    return count, total or int(facts["sum_of_outputs_btc"].replace(".", ""))


@pytest.mark.parametrize(("coin", "file"), FILES)
def test_all_outputs_are_given_or_counted(coin, file):
    content, facts = chain_file(f"{coin}/{file}").read_bytes(), facts_of(coin, file)
    chain = CHAINS[coin]
    found = inspect_block(content, chain, CATALOGUE, None, height=facts["height"])
    count, total = outputs_of(coin, file, content)
    assert len(found.transfers) + sum(found.ignored.values()) == count
    pays = read_file(
        content, chain, AssetName(CATALOGUE.chain(chain).coin), Everything(), facts["height"]
    )
    assert pays.block.amount == total
    left_out = sum(
        one.amount
        for one in pays.block.paid
        if address_of_script(NETWORKS[chain], one.script) is None
    )
    assert sum(seen.amount for seen in found.transfers) + left_out == total
    assert all(seen.block is not None for seen in found.transfers)
    assert {(seen.block.height, seen.block.hash) for seen in found.transfers if seen.block} == {
        (facts["height"], facts["hash"])
    }
    assert len({seen.transfer for seen in found.transfers}) == len(found.transfers)
    assert all(seen.asset == CATALOGUE.chain(chain).coin for seen in found.transfers)
    coinbase = shown(pays.block.txids[0])
    for seen in found.transfers:
        assert seen.coinbase == (split_transfer_id(seen.transfer)[1] == coinbase)
        assert seen.coinbase == (not seen.spends)


@pytest.mark.parametrize(
    ("coin", "file"), [(coin, file) for coin, file in FILES if file.endswith(".json")]
)
def test_what_is_counted_is_what_the_node_calls_it(coin, file):
    content = chain_file(f"{coin}/{file}").read_bytes()
    found = inspect_block(content, CHAINS[coin], CATALOGUE, None)
    expected: dict[str, int] = {}
    for tx in json.loads(content)["tx"]:
        for one in tx["vout"]:
            kind = WITHOUT.get(one["scriptPubKey"]["type"])
            if kind is not None:
                expected[kind] = expected.get(kind, 0) + 1
    zero = found.ignored.get("zero_value", 0)
    assert found.ignored == expected | ({"zero_value": zero} if zero else {})


def test_an_address_gets_what_is_paid_to_it_and_nothing_else():
    content = chain_file("litecoin/block-2265985.bin").read_bytes()
    chain = CHAINS["litecoin"]
    every = inspect_block(content, chain, CATALOGUE, None).transfers
    to = every[5].to
    found = inspect_block(content, chain, CATALOGUE, [parse_address(chain, to).raw])
    assert found.transfers == [seen for seen in every if seen.to == to]
    assert found.ignored == {}


def test_an_output_of_nothing_is_counted_and_not_given():
    nothing = pay(outpoint(1), to=[(0, P2PKH), (0, b"\x6a"), (5, P2PKH)])
    block = read_block(block_of([coinbase(300, 0), nothing]), EASY_BITCOIN, Everything())
    telling = Telling(
        network=NETWORKS[CHAINS["bitcoin"]],
        asset=AssetName(CATALOGUE.chain(CHAINS["bitcoin"]).coin),
        block=None,
        seen_at=datetime(2026, 11, 30, tzinfo=UTC),
        node="made",
    )
    found = transfers_of(block.paid, telling)
    assert [(seen.amount, split_transfer_id(seen.transfer)[2]) for seen in found] == [(5, "out:2")]
    assert telling.ignored == {"zero_value": 2, "op_return": 2}


def test_an_evm_block_of_another_height_is_refused():
    content = chain_file("arbitrum/block-150000000.json").read_bytes()
    chain = ChainName("eip155:42161")
    assert inspect_block(content, chain, CATALOGUE, None, height=150_000_000).transfers
    with pytest.raises(AnswerRefused, match="not at 150000001"):
        inspect_block(content, chain, CATALOGUE, None, height=150_000_001)


@pytest.mark.parametrize("form", ["raw", "hex", "HEX and spaces"])
def test_the_command_reads_raw_blocks_and_hex(form, tmp_path, capsys):
    content = chain_file("dogecoin/block-371337.bin").read_bytes()
    block = tmp_path / "block"
    block.write_bytes(content)
    if form != "raw":
        block.write_text(content.hex() + "\n" if form == "hex" else f"  {content.hex(' ').upper()}")
    arguments = ["inspect", "--chain", CHAINS["dogecoin"], "--block", str(block), "--all"]
    assert run([*arguments, "--height", "371337"]) == 0
    said = capsys.readouterr()
    lines = [decode_as(TransferSeen, line.encode()) for line in said.out.splitlines()]
    assert len(lines) == 8
    assert sum(line.amount for line in lines) == PAID_WITHOUT_COINBASE
    assert said.err.split("\n")[:1] == ["not counted: 1 public_key"]
    assert run(arguments) == 2
    assert "how high it stands" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("coin", "file", "more", "words"),
    [
        ("dogecoin", "getblock-4505707.json", ["--all"], "verbosity 2"),
        (
            "bitcoin",
            "block-702861.bin",
            ["--all", "--height", "702860"],
            "at height 702861, not at",
        ),
        ("litecoin", "block-702861.bin", ["--all"], "bits"),
    ],
)
def test_the_command_says_why_a_file_is_no_block(coin, file, more, words, capsys):
    folder = "bitcoin" if coin == "litecoin" else coin
    block = str(chain_file(f"{folder}/{file}"))
    assert run(["inspect", "--chain", CHAINS[coin], "--block", block, *more]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert not said.out


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[]", b"00", b"xyz", b"\xff" * 90])
def test_what_is_no_block_at_all_is_refused(content, tmp_path, capsys):
    block = tmp_path / "block"
    block.write_bytes(content)
    arguments = ["inspect", "--chain", CHAINS["bitcoin"], "--block", str(block), "--all"]
    assert run(arguments) == 2
    assert str(block) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("", "empty_script"),
        ("6a", "op_return"),
        ("6a04deadbeef", "op_return"),
        ("21" + "02" * 33 + "ac", "public_key"),
        ("41" + "04" * 65 + "ac", "public_key"),
        ("51" + "21" + "02" * 33 + "51ae", "bare_multisig"),
        (HOG_ADDRESS.hex(), "unknown_witness"),
        (PEG_IN.hex(), "unknown_witness"),
        ("51024e73", "unknown_witness"),
        ("76a914" + "11" * 20 + "88", "unknown_script"),
        ("ff", "unknown_script"),
    ],
)
def test_an_output_without_address_is_named_by_what_it_is(script, kind):
    assert kind_of(bytes.fromhex(script)) == kind
