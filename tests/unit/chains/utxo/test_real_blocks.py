"""Every real block gives exactly the counts, sums and roots that its SOURCES.md states."""

import json
import re

import pytest

from chains.answers import decode
from chains.errors import AnswerRefused
from chains.utxo import auxpow
from chains.utxo.block import read_block
from chains.utxo.header import read_header
from chains.utxo.merkle import merkle_root, shown
from chains.utxo.node_block import NodeBlock, header_of, read_node_block
from chains.utxo.rules import BITCOIN, DOGECOIN, LITECOIN
from tests.parts.chain_data import chain_file, facts_of
from tests.parts.utxo_blocks import Everything
from tests.parts.utxo_fuzz import require_true
from tests.parts.utxo_reference import read_reference

RULES = {"bitcoin": BITCOIN, "litecoin": LITECOIN, "dogecoin": DOGECOIN}
RAW = [
    ("bitcoin", "block-702861.bin"),
    ("bitcoin", "block-169482.bin"),
    ("bitcoin", "block-227836.bin"),
    ("bitcoin", "block-383616.bin"),
    ("bitcoin", "block-481829.bin"),
    ("litecoin", "block-2265985.bin"),
    ("dogecoin", "block-12345.bin"),
    ("dogecoin", "block-371337.bin"),
    ("dogecoin", "block-567890.bin"),
]
JSON = [
    ("bitcoin", "getblock-v2-766390.json"),
    ("bitcoin", "getblock-v2-200000.json"),
    ("litecoin", "getblock-2383207.json"),
    ("litecoin", "getblock-2383206.json"),
]
#: Heights that a coinbase had to name when the block was mined.
NAMED = {"block-702861.bin", "block-383616.bin", "block-481829.bin", "block-2265985.bin"}


@pytest.mark.parametrize(("coin", "file"), RAW)
def test_a_raw_block_is_what_sources_say(coin, file):
    data, facts = chain_file(f"{coin}/{file}").read_bytes(), facts_of(coin, file)
    found = read_block(data, RULES[coin], Everything())
    header = found.header
    assert (header.hash, header.version, header.time_s) == (
        facts["hash"], facts["version"], facts["time"],
    )  # fmt: skip
    assert shown(header.merkle_root) == shown(merkle_root(found.txids)) == facts["merkleroot"]
    assert (len(found.txids), found.outputs, len(found.paid)) == (
        facts["ntx"], facts["nout"], facts["nout"],
    )  # fmt: skip
    assert found.amount == sum(one.amount for one in found.paid) == facts["sum_of_outputs_sat"]
    assert found.extension_bytes == facts.get("bytes_after_last_tx(MWEB extension block)", 0)
    assert shown(found.txids[1]) == facts["first_non_coinbase_txid"]
    assert (
        sum(len(script) == 22 and script[:2] == b"\0\x14" for script in _scripts(found))
        == (facts["p2wpkh_out"])
    )
    largest = sorted(found.paid, key=lambda one: -one.amount)[:3]
    assert [f"{one.txid}:{one.index} = {one.amount} sat" for one in largest] == (
        facts["largest_outputs"]
    )
    assert found.height == (facts["height"] if file in NAMED else None)


def _scripts(found):
    return [one.script for one in found.paid]


@pytest.mark.parametrize(("coin", "file"), RAW)
def test_a_raw_block_is_what_the_obvious_reader_reads(coin, file):
    data, rules = chain_file(f"{coin}/{file}").read_bytes(), RULES[coin]
    found = read_block(data, rules, Everything())
    require_true(found, read_reference(data, merged=rules.auxpow_chain_id is not None), data)
    assert found.scripts == set(_scripts(found))


@pytest.mark.parametrize(("coin", "file"), RAW)
def test_only_what_is_watched_is_given_with_what_it_spends(coin, file):
    data, rules = chain_file(f"{coin}/{file}").read_bytes(), RULES[coin]
    everything = read_block(data, rules, Everything())
    watched = frozenset(sorted(everything.scripts)[::7])
    found = read_block(data, rules, watched)
    assert found.paid == [one for one in everything.paid if one.script in watched]
    assert found.scripts == everything.scripts
    for one in found.paid:
        assert [found.spent[outpoint] for outpoint in one.spends] == [one.txid] * len(one.spends)
        assert one.coinbase == (not one.spends) == (one.txid == shown(found.txids[0]))


@pytest.mark.parametrize(("coin", "file"), RAW)
def test_work_of_a_spoilt_header_is_no_work(coin, file):
    data = chain_file(f"{coin}/{file}").read_bytes()
    spoilt = data[:70] + bytes([data[70] ^ 1]) + data[71:]
    with pytest.raises(AnswerRefused):
        read_block(spoilt, RULES[coin], frozenset())


@pytest.mark.parametrize(("coin", "file"), JSON)
def test_a_node_s_json_is_what_sources_say(coin, file):
    content, facts = chain_file(f"{coin}/{file}").read_bytes(), facts_of(coin, file)
    found, height = read_node_block(content, RULES[coin], Everything())
    assert (height, found.header.hash) == (facts["height"], facts["hash"])
    assert len(found.txids) == facts["nTx"]
    stated = facts.get("sum_of_outputs_sat")
    if stated is None:
        stated = int(facts["sum_of_outputs_btc"].replace(".", ""))
    assert found.amount == stated
    if "output_types" in facts:
        assert found.outputs == sum(facts["output_types"].values())
    if "coinbase_txid" in facts:
        assert shown(found.txids[0]) == facts["coinbase_txid"]


@pytest.mark.parametrize(("coin", "file"), JSON)
def test_without_hex_the_same_is_written_from_what_is_told(coin, file):
    content = chain_file(f"{coin}/{file}").read_bytes()
    told = json.loads(content, parse_float=lambda text: f"@{text}@")
    for one in told["tx"]:
        del one["hex"]
    bare = re.sub(r'"@(.*?)@"', r"\1", json.dumps(told)).encode()
    assert b'"hex": "0' not in bare.split(b'"vout"')[0]
    full, found = (read_node_block(text, RULES[coin], Everything())[0] for text in (content, bare))
    assert (found.txids, found.paid, found.amount) == (full.txids, full.paid, full.amount)


def test_a_merge_mined_block_without_transactions_has_its_ids_and_its_work_checked():
    file = "getblock-4505707.json"
    content, facts = chain_file(f"dogecoin/{file}").read_bytes(), facts_of("dogecoin", file)
    told = decode(content, NodeBlock)
    ids = [bytes.fromhex(txid)[::-1] for txid in told.tx]
    raw = header_of(told)
    header = read_header(raw)
    assert (header.hash, len(ids)) == (facts["hash"], facts["nTx"])
    assert merkle_root(ids) == header.merkle_root
    assert auxpow.past_merged_work(raw, 80, header, DOGECOIN) == len(raw)
    with pytest.raises(AnswerRefused, match="verbosity 2"):
        read_node_block(content, DOGECOIN, Everything())
