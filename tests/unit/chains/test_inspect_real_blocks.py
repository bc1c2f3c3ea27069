"""Every real block gives exactly the totals that its SOURCES.md states."""

from collections import Counter, defaultdict

import pytest

from chains.catalog import load_catalogue
from chains.inspect import inspect_block
from schemas.caip import AssetName, ChainName
from schemas.values import split_transfer_id
from tests.parts.chain_data import chain_file, facts_of

CATALOGUE = load_catalogue()
BLOCKS = [
    ("ethereum", "eip155:1", "block-17053184.json"),
    ("ethereum", "eip155:1", "block-11098450.json"),
    ("ethereum", "eip155:1", "block-15753009.json"),
    ("ethereum", "eip155:1", "block-7280016.json"),
    ("ethereum", "eip155:1", "block-18000000.json"),
    ("polygon", "eip155:137", "block-38102393.json"),
    ("arbitrum", "eip155:42161", "block-150000000.json"),
]


def _symbol(asset: str) -> str:
    return CATALOGUE.asset(AssetName(asset)).symbol


@pytest.mark.parametrize(("folder", "chain", "file"), BLOCKS)
def test_totals_equal_sources(folder, chain, file):
    facts = facts_of(folder, file)
    found = inspect_block(
        chain_file(f"{folder}/{file}").read_bytes(), ChainName(chain), CATALOGUE, None
    )
    totals, counts = defaultdict(int), Counter()
    largest = defaultdict(int)
    for seen in found.transfers:
        kind = split_transfer_id(seen.transfer)[2].partition(":")[0]
        key = {"log": _symbol(seen.asset)}.get(kind, kind)
        totals[key] += seen.amount
        counts[key] += 1
        largest[key] = max(largest[key], seen.amount)
        assert seen.amount > 0
        assert seen.block is not None
        assert seen.block.hash == facts["hash"]
    assert totals["value"] == int(facts["native_value_total_wei"])
    assert counts["value"] == facts["native_value_txs"]
    assert totals["call"] == int(facts.get("internal_value_total_wei", 0))
    assert counts["call"] == facts.get("internal_value_calls", 0)
    stated = facts["tokens"]
    assert {key for key in totals if totals[key] and key not in {"value", "call"}} == set(stated)
    for symbol, fact in stated.items():
        assert totals[symbol] == int(fact["total_base_units"])
        assert largest[symbol] == int(fact["max_base_units"])
        assert counts[symbol] == fact["transfers"] - fact["zero_value"]
    assert len({seen.transfer for seen in found.transfers}) == len(found.transfers)
