"""The real nodes of Bitcoin-like chains that tests are given, and that our reader reads what they made.

Both take the same hand-made blocks and transactions, so every test runs on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from chains.utxo.block import RawBlock, read_block
from chains.utxo.merkle import shown
from chains.utxo.rules import rules_of
from tests.parts.btcd.node import Btcd
from tests.parts.litecoind.hidden import HiddenMoney
from tests.parts.litecoind.node import Litecoind
from tests.parts.ports import HOST
from tests.parts.utxo_blocks import Everything
from tests.parts.utxo_node import NodeRefused, UtxoNode
from tests.parts.utxo_purse import ANYONE, FINAL, Pay, coins_of, name_of, spend
from tests.parts.utxo_script import UtxoScript

NODES = {"litecoind": Litecoind, "btcd": Btcd}
EACH = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in NODES]
COIN = 10**8


@pytest.fixture(params=EACH)
def node(request: pytest.FixtureRequest) -> Iterator[UtxoNode]:
    with NODES[request.param]() as node:
        yield node


@pytest.fixture
def script(node: UtxoNode) -> UtxoScript:
    return UtxoScript(node)


def read(node: UtxoNode, block_hash: str) -> RawBlock:
    return read_block(node.raw_block(block_hash), rules_of(node.network.chain), Everything())


def ids_of(block: RawBlock) -> list[str]:
    return [shown(txid) for txid in block.txids]


# The node


def test_node_is_the_chain_that_it_says_and_mines_nothing_by_itself(script: UtxoScript):
    begin = script.height()
    assert script.ask("getblockhash", 0) == script.network.genesis_hash
    script.pay_coin(script.new_address(), COIN)
    assert script.height() == begin
    script.mine(2)
    assert (script.height(), script.node.waiting) == (begin + 2, [])


def test_every_run_begins_with_the_same_blocks(script: UtxoScript):
    with type(script.node)() as other:
        assert UtxoScript(other).tip() == script.tip()


def test_errors_of_the_node_come_out_in_its_own_words(node: UtxoNode):
    with pytest.raises(NodeRefused, match="Method not found") as refused:
        node.ask("dowhatimean")
    assert refused.value.code == -32601
    with pytest.raises(NodeRefused, match="Block not found"):
        node.ask("getblockheader", "12" * 32)


def test_node_wants_its_password(node: UtxoNode):
    with pytest.raises(HTTPError, match="401"):
        urlopen(f"http://{HOST}:{node.port}/", b"{}", timeout=5)


def test_frozen_node_accepts_and_never_answers(node: UtxoNode, monkeypatch):
    monkeypatch.setattr("tests.parts.utxo_node.CALL_TIMEOUT_S", 0.2)
    node.freeze()
    with pytest.raises((TimeoutError, URLError)):
        node.ask("getblockcount")
    node.thaw()
    monkeypatch.undo()
    assert node.height == 0


def test_node_that_was_restarted_has_its_chain_and_an_empty_mempool(script: UtxoScript):
    script.mine(3)
    top = script.tip()
    script.pay_coin(script.new_address(), COIN)
    script.restart()
    assert (script.tip(), script.node.waiting) == (top, [])


@pytest.mark.litecoind
def test_litecoind_keeps_its_chain_when_it_is_stopped():
    with Litecoind() as node:
        top = UtxoScript(node).tip()
        node.stop()
        node.start()
        assert node.ask("getbestblockhash") == top.hash


def test_node_that_was_killed_is_gone_until_it_starts_again(node: UtxoNode):
    node.kill()
    with pytest.raises(URLError):
        node.ask("getblockcount")
    node.start()
    assert node.height == 0


# Payments that wait


def test_payment_waits_until_it_is_mined(script: UtxoScript):
    ours = script.new_old_address()
    tx = script.pay_coin(ours, 70 * COIN)
    assert script.node.waiting == [tx]
    script.mine()
    (paid, _) = script.tip().txs[0].outputs
    assert (paid.amount, paid.script) == (70 * COIN, script.raw_of(ours))
    assert script.ask("gettxout", tx, 0, False)["confirmations"] == 1


def test_replacement_takes_the_place_of_what_it_replaces(script: UtxoScript):
    ours = script.new_address()
    first = script.pay_coin(ours, COIN)
    second = script.replace(first, (ours, COIN), (script.new_address(), 5))
    assert script.node.waiting == [second]
    third = script.replace(second)
    assert script.node.waiting == [third]
    with pytest.raises(NodeRefused, match="insufficient fee"):
        script.send(script.transactions[first])


def test_payment_that_does_not_say_so_is_not_replaced(script: UtxoScript):
    tx = script.pay_coin(script.new_address(), COIN, sequence=FINAL)
    with pytest.raises(NodeRefused, match=r"txn-mempool-conflict|already spent"):
        script.replace(tx)
    assert script.node.waiting == [tx]


def test_block_may_hold_a_double_spend_and_the_mempool_forgets_the_other(script: UtxoScript):
    tx = script.pay_coin(script.new_address(), COIN, sequence=FINAL)
    block = script.mine_only(script.conflict(tx))
    assert script.tip() == block
    assert script.node.waiting == []


def test_child_waits_behind_its_parent_and_both_are_mined(script: UtxoScript):
    parent = script.pay_coin(script.new_address(), 10)
    change = coins_of(script.transactions[parent])
    child = script.send(script.make([Pay(ANYONE, 5)], coins=change))
    script.mine()
    assert [name_of(tx) for tx in script.tip().txs] == [parent, child]


# Blocks, and our reader of them


def test_our_reader_reads_every_shape_of_payment_as_the_node_tells_it(script: UtxoScript):
    ours = script.new_address()
    many = script.pay_many([(ours, 1), (ours, 1), (script.new_old_address(), 546), (ours, 0)])
    data = script.make([Pay(b"\x6a\x04data", 0), Pay(script.raw_of(ours), 7)])
    script.send(data)
    witness = script.pay_coin(ours, 2 * COIN, witness=True)
    script.mine()
    block_hash = script.ask("getbestblockhash")
    block, told = read(script.node, block_hash), script.ask("getblock", block_hash, 1)
    assert block.header.hash == block_hash
    assert block.header.parent_hash == told["previousblockhash"]
    assert ids_of(block) == told["tx"]
    assert set(told["tx"][1:]) == {many, name_of(data), witness}
    paid = {(one.txid, one.index): one.amount for one in block.paid}
    assert [paid[many, n] for n in range(4)] == [1, 1, 546, 0]
    assert (paid[name_of(data), 1], paid[witness, 0]) == (7, 2 * COIN)
    assert block.spent[script.coins_behind(witness)[0].name] == witness


def test_every_block_of_the_beginning_is_read_and_follows_the_one_before(script: UtxoScript):
    before = script.network.genesis_hash
    for height in range(1, script.height() + 1):
        block = read(script.node, script.ask("getblockhash", height))
        assert block.header.parent_hash == before
        before = block.header.hash


def test_coinbase_pays_whom_the_story_says(script: UtxoScript):
    ours = script.raw_of(script.new_address())
    made = script.mine_only(to=[Pay(ours, COIN)])
    (paid,) = (one for one in read(script.node, made.hash).paid if one.script == ours)
    assert (paid.amount, paid.coinbase) == (COIN, True)


def test_block_that_creates_money_is_taken_by_no_node(script: UtxoScript):
    with pytest.raises(NodeRefused, match=r"bad-cb-amount|coinbase transaction"):
        script.mine_only(to=[Pay(ANYONE, 51 * COIN)])
    forged = spend(script.take(1), [], fee=0)
    forged.outputs[0].amount *= 2
    with pytest.raises(NodeRefused, match=r"bad-txns-in-belowout|total value"):
        script.mine_only(forged)


# Reorganisations


def test_reorganised_payment_waits_again_or_is_mined_elsewhere(script: UtxoScript):
    kept, lost = (script.pay_coin(script.new_address(), COIN) for _ in range(2))
    script.mine(2)
    top = script.height()
    script.reorganise(2, again=[(kept, 1)])
    assert (script.height(), script.node.waiting) == (top + 1, [lost])
    assert [name_of(tx) for tx in script.below(1).txs] == [kept]


def test_payment_that_the_new_branch_spends_otherwise_never_comes_back(script: UtxoScript):
    tx = script.pay_coin(script.new_address(), COIN)
    script.mine()
    script.reorganise(1, again=[(script.conflict(tx), 0)])
    assert script.node.waiting == []


def test_branch_with_no_more_work_is_kept_and_wins_by_the_next_block(script: UtxoScript):
    script.mine()
    top = script.tip()
    first, second = script.branch(script.below(1), [[], []])
    script.give(first)
    assert script.tip() == top
    assert script.node.raw_block(first.hash) == first.raw
    script.give(second)
    assert script.tip() == second


def test_chain_goes_back_to_a_branch_that_it_had_left(script: UtxoScript):
    tx = script.pay_coin(script.new_address(), COIN)
    script.mine(2)
    left = script.tip()
    script.reorganise(2)
    assert script.node.waiting == [tx]
    script.give(*script.branch(left, [[], []]))
    assert (script.below(2), script.node.waiting) == (left, [])


def test_operator_rewinds_a_node_and_takes_it_back(script: UtxoScript):
    script.mine(3)
    top = script.height()
    lowest = script.rewind(2)
    assert script.height() == top - 2
    script.forgive(lowest)
    assert script.height() == top


# Litecoin's extension blocks, which only a node's own wallet makes


@pytest.mark.litecoind
def test_money_that_leaves_the_extension_block_is_read_where_it_comes_out():
    with Litecoind(wallet=True) as node:
        hidden = HiddenMoney(node)
        first, told_first = read(node, hidden.entered), node.ask("getblock", hidden.entered, 1)
        hidden.pay_from_hidden(node.ask("getnewaddress"), 0.7)
        left = hidden.mine()
        second, told = read(node, left), node.ask("getblock", left, 1)
    assert first.extension_bytes > 0
    assert ids_of(first) == told_first["tx"]
    assert hidden.entering in ids_of(first)
    assert len(told["mweb"]["inputs"]) == 1
    assert ids_of(second) == told["tx"]
    (paid,) = (one for one in second.paid if one.amount == 70_000_000)
    assert paid.txid == told["tx"][-1]
    assert paid.spends[0] == f"{ids_of(first)[-1]}:0"
