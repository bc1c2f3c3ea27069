"""The scripted UTXO chain's bytes, read back by the reader of the product and by another one."""

from __future__ import annotations

import time

import pytest

from chains.devnet.hexadecimal import ScriptError
from chains.devnet.utxo.chain import Pay, Spend, UtxoChain
from chains.devnet.utxo.dialogue import reply_to
from chains.devnet.utxo.genesis import NETWORKS
from chains.devnet.utxo.node import UtxoNode
from chains.devnet.utxo.transactions import read_transaction
from chains.devnet.utxo.world import START_TIME, UtxoSeed
from chains.errors import AnswerRefused
from chains.utxo.address import parse
from chains.utxo.block import read_block
from chains.utxo.node_block import read_node_block
from tests.parts.utxo_blocks import Everything
from tests.parts.utxo_devnet import said
from tests.parts.utxo_reference import read_reference

COIN = 10**8


@pytest.fixture(params=sorted(NETWORKS))
def chain(request: pytest.FixtureRequest) -> UtxoChain:
    return UtxoChain(UtxoSeed(network=request.param))


def tell_a_story(chain: UtxoChain) -> str:
    """Blocks with every kind of payment; give the address of all."""
    shop = chain.new_address("shop")
    paid = [chain.pay_coin(shop, n * COIN) for n in range(1, 4)]
    chain.mine()
    chain.pay_many([Pay(shop, 5), Pay(chain.new_address("other", "p2sh"), 7), Pay(shop, 0)])
    chain.pay_coin("script:6a026869", 0)
    chain.pay_coin(shop, 9, Spend(inputs=(f"{paid[0]}:0",), fee=0))
    chain.mine(pay_to=shop)
    chain.replace(chain.pay_coin(shop, 11), [Pay(shop, 12)])
    chain.mine(3)
    chain.reorganise(2)
    return shop


def test_first_block_is_the_one_of_the_network(chain: UtxoChain):
    genesis = chain.world.tree.at(0)
    assert genesis is not None
    network = NETWORKS[chain.name]
    assert genesis.hash[::-1].hex() == network.genesis_hash
    found = read_block(genesis.raw, chain.world.rules, Everything())
    assert found.header.hash == network.genesis_hash


def test_every_block_is_accepted_by_the_reader_and_written_again_by_another(chain: UtxoChain):
    shop = tell_a_story(chain)
    watched = frozenset({parse(chain.world.network, shop).raw})
    amounts = []
    for height in range(chain.height + 1):
        block = chain.world.tree.at(height)
        assert block is not None
        found = read_block(block.raw, chain.world.rules, watched)
        assert found.header.hash == chain.block(height).hash
        assert found.header.parent_hash == chain.block(height).parent_hash or height == 0
        assert [txid[::-1].hex() for txid in found.txids[1:]] == list(
            chain.block(height).transactions
        )
        amounts += [(one.amount, one.coinbase) for one in found.paid]
        assert read_reference(block.raw, merged=False).full() == block.raw
    expected = [COIN, 2 * COIN, 3 * COIN, 50 * COIN, 5, 0, 9, 12]
    assert sorted(amounts) == sorted((amount, amount == 50 * COIN) for amount in expected)


def test_every_block_as_json_is_the_same_block(chain: UtxoChain):
    shop = tell_a_story(chain)
    node = UtxoNode(chain, "a")
    watched = frozenset({parse(chain.world.network, shop).raw})
    for height in range(chain.height + 1):
        block = chain.world.tree.at(height)
        assert block is not None
        asking = f'{{"method":"getblock","params":["{chain.block(height).hash}",2],"id":1}}'
        body = reply_to(node, asking.encode()).body
        assert body is not None
        content = body[len(b'{"result":') : body.index(b',"error":null')]
        found, told = read_node_block(content, chain.world.rules, watched)
        raw = read_block(block.raw, chain.world.rules, watched)
        assert (told, found.header, found.paid) == (height, raw.header, raw.paid)


def test_transaction_is_read_back_from_its_bytes(chain: UtxoChain):
    tell_a_story(chain)
    for tx in chain.world.transactions.values():
        again = read_transaction(tx.raw)
        assert (again.txid, again.wide_id, again.raw) == (tx.txid, tx.wide_id, tx.raw)
        for broken in (tx.raw[:-1], tx.raw + b"\0", b"", tx.raw[:40]):
            with pytest.raises(ScriptError):
                read_transaction(broken)


def test_block_without_enough_work_is_refused_and_does_not_become_the_chain(chain: UtxoChain):
    head = chain.block().hash
    aside = chain.mine_aside(worked=False)
    assert chain.block().hash == head
    node = UtxoNode(chain, "a")
    node.set(on_block=aside.hash)
    assert said(node, "getbestblockhash")["result"] == aside.hash
    raw = bytes.fromhex(said(node, "getblock", aside.hash, 0)["result"])
    with pytest.raises(AnswerRefused, match="work"):
        read_block(raw, chain.world.rules, Everything())


def test_block_times_are_above_the_median_and_may_lie_before_the_parents():
    chain = UtxoChain(UtxoSeed(block_time_s=60))
    assert chain.block().time == START_TIME
    chain.mine(11)
    assert chain.block().time == START_TIME + 11 * 60
    times = [chain.block(height).time for height in range(2, 13)]
    median = sorted(times)[5]
    with pytest.raises(ScriptError, match="median"):
        chain.mine(time=median)
    assert chain.mine(time=median + 1).time < chain.block(12).time


def test_clock_gives_times_unless_it_runs_back():
    now = [START_TIME + 5]
    chain = UtxoChain(UtxoSeed(clock=lambda: now[0]))
    chain.mine(3)
    now[0] += 1_000
    assert chain.mine().time == START_TIME + 1_005
    now[0] = 5
    head = chain.world.tree.head
    assert chain.mine().time == head.median_time + 1


def test_unknown_network_is_refused_by_name():
    with pytest.raises(ScriptError, match="dogecoin-regtest, found 'mainnet'"):
        UtxoChain(UtxoSeed(network="mainnet"))


def test_block_of_five_payments_is_made_in_less_than_three_milliseconds():
    """The simulator makes thousands; the fastest of many, since the machine may be busy."""
    chain = UtxoChain(UtxoSeed())
    shop = chain.new_address("shop")
    fastest_s = 1.0
    for _ in range(50):
        begun = time.perf_counter()
        for _ in range(5):
            chain.pay_coin(shop, COIN)
        chain.mine()
        fastest_s = min(fastest_s, time.perf_counter() - begun)
    assert fastest_s < 0.003
