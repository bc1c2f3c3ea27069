"""Other readers agree on the blocks that they can read."""

import bitcoin.core
import pytest

from chains.utxo.block import read_block
from chains.utxo.merkle import shown
from chains.utxo.rules import BITCOIN
from tests.parts.chain_data import chain_file
from tests.parts.utxo_blocks import Everything

BLOCKS = ["block-169482.bin", "block-227836.bin", "block-481829.bin", "block-702861.bin"]


@pytest.mark.parametrize("file", BLOCKS)
def test_python_bitcoinlib_reads_the_same(file):
    data = chain_file(f"bitcoin/{file}").read_bytes()
    found = read_block(data, BITCOIN, Everything())
    block = bitcoin.core.CBlock.deserialize(data)
    assert [tx.GetTxid() for tx in block.vtx] == found.txids
    assert [(one.amount, one.script) for one in found.paid] == [
        (out.nValue, bytes(out.scriptPubKey)) for tx in block.vtx for out in tx.vout
    ]
    assert shown(block.hashPrevBlock) == found.header.parent_hash
    assert {
        (shown(spent.prevout.hash), spent.prevout.n) for tx in block.vtx[1:] for spent in tx.vin
    } == {(name.split(":")[0], int(name.split(":")[1])) for name in found.spent}


@pytest.mark.parametrize("file", BLOCKS[:2])
def test_bitcoinlib_reads_the_same(file, tmp_path, monkeypatch):
    monkeypatch.setenv("BCL_DATA_DIR", str(tmp_path))
    from bitcoinlib.blocks import Block

    data = chain_file(f"bitcoin/{file}").read_bytes()
    found = read_block(data, BITCOIN, Everything())
    block = Block.parse(data, parse_transactions=True)
    assert [tx.txid for tx in block.transactions] == [shown(txid) for txid in found.txids]
    assert [(one.amount, one.script) for one in found.paid] == [
        (out.value, out.lock_script) for tx in block.transactions for out in tx.outputs
    ]
