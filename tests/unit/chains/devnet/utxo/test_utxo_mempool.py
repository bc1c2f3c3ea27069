"""What waits, what takes another's place, and what a reorganisation brings back or makes impossible."""

from __future__ import annotations

import pytest

from chains.devnet.hexadecimal import ScriptError
from chains.devnet.utxo.chain import Pay, Spend, UtxoChain
from chains.devnet.utxo.node import UtxoNode
from chains.devnet.utxo.world import UtxoSeed
from tests.parts.utxo_devnet import asked, refusal

COIN = 10**8


@pytest.fixture
def chain() -> UtxoChain:
    return UtxoChain(UtxoSeed())


@pytest.fixture
def node(chain: UtxoChain) -> UtxoNode:
    return UtxoNode(chain, "a")


@pytest.fixture
def shop(chain: UtxoChain) -> str:
    return chain.new_address("shop")


def waits(node: UtxoNode) -> set[str]:
    return set(asked(node, "getrawmempool"))


def test_payments_do_not_compete_and_are_mined_together(chain: UtxoChain, shop: str):
    paid = [chain.pay_coin(shop, COIN) for _ in range(20)]
    assert chain.waiting() == paid
    assert set(chain.mine().transactions) == set(paid)
    assert chain.waiting() == []


def test_amount_above_one_coin_of_the_wallet_is_paid_of_several(chain: UtxoChain, shop: str):
    tx = chain.pay_coin(shop, 25_000 * COIN)
    assert len(chain.outpoints(tx)) == 3
    with pytest.raises(ScriptError, match="left on this branch"):
        chain.pay_coin(shop, 20_000_000 * COIN)
    chain.pay_coin(shop, COIN)


def test_replacement_takes_the_place_and_everything_that_was_spent_of_it(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    first = chain.pay_coin(shop, COIN)
    child = chain.pay_coin(shop, COIN - 1_000, Spend(inputs=(f"{first}:0",)))
    assert waits(node) == {first, child}
    second = chain.replace(first, fee=10_000)
    assert waits(node) == set(chain.waiting()) == {second}
    assert chain.outpoints(first) == chain.outpoints(second)
    assert chain.mine().transactions == (second,)


def test_conflict_without_the_mark_or_the_fee_is_refused(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    for_good = chain.pay_coin(shop, COIN, Spend(replaceable=False))
    rival = chain.raw(chain.replace(for_good, [Pay(shop, 1)], hold=True))
    assert refusal(node, "sendrawtransaction", rival) == {
        "code": -26,
        "message": "txn-mempool-conflict",
    }
    node.set(full_rbf=True)
    assert asked(node, "sendrawtransaction", rival) in waits(node)
    cheap = chain.pay_coin(shop, COIN, Spend(fee=5_000))
    with pytest.raises(ScriptError, match="insufficient fee"):
        chain.replace(cheap, [Pay(shop, 1)], fee=5_000)
    assert cheap in chain.waiting()


def test_replacement_must_pay_more_than_all_that_it_throws_out(chain: UtxoChain, shop: str):
    first = chain.pay_coin(shop, COIN, Spend(fee=1_000))
    chain.pay_coin(shop, COIN - 9_000, Spend(inputs=(f"{first}:0",), fee=9_000))
    with pytest.raises(ScriptError, match="10000 <= 10000"):
        chain.replace(first, fee=10_000)
    assert len(chain.waiting()) == 2


def test_mining_a_double_spend_drops_what_waited_with_all_that_was_spent_of_it(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    first = chain.pay_coin(shop, COIN)
    chain.pay_coin(shop, COIN - 1_000, Spend(inputs=(f"{first}:0",)))
    rival = chain.replace(first, [Pay(shop, 5)], hold=True)
    stays = chain.pay_coin(shop, 3)
    chain.mine(transactions=[rival])
    assert waits(node) == set(chain.waiting()) == {stays}
    with pytest.raises(ScriptError, match="missingorspent"):
        chain.submit(chain.world.known(bytes.fromhex(first)[::-1]))


def test_child_is_mined_behind_its_parent_though_it_came_first(chain: UtxoChain, shop: str):
    parent = chain.pay_coin(shop, COIN)
    child = chain.pay_coin(shop, 5, Spend(inputs=(f"{parent}:0",)))
    assert chain.mine(transactions=[child, parent]).transactions == (parent, child)
    chain.rewind(1)
    assert chain.waiting() == [parent, child]


def test_child_still_waits_when_its_parent_is_mined(chain: UtxoChain, node: UtxoNode, shop: str):
    parent = chain.pay_coin(shop, COIN)
    child = chain.pay_coin(shop, 5, Spend(inputs=(f"{parent}:0",)))
    chain.mine(transactions=[parent])
    assert waits(node) == set(chain.waiting()) == {child}


def test_child_whose_parent_nobody_told_of_waits_until_it_is_told(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    parent = chain.pay_coin(shop, COIN)
    node.evict(parent)
    child = chain.pay_coin(shop, 5, Spend(inputs=(f"{parent}:0",)))
    assert waits(node) == set()
    assert node.hear(parent)
    assert waits(node) == {parent, child}
    node.evict(parent)
    assert not node.hear(child)
    chain.mine(transactions=[parent])
    assert waits(node) == {child}


def test_reorganisation_brings_payments_back_unless_the_new_branch_spends_the_same(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    kept, doomed = chain.pay_coin(shop, 1), chain.pay_coin(shop, 2)
    rival = chain.replace(doomed, [Pay(chain.new_address("thief"), 2)], hold=True)
    chain.mine()
    chain.reorganise(1, omit=[kept], place={rival: 0})
    assert waits(node) == set(chain.waiting()) == {kept}
    assert (chain.depth(rival), chain.depth(doomed)) == (2, 0)
    chain.mine(2)
    assert chain.depth(kept) == 2
    chain.flip_back()
    assert (chain.depth(doomed), chain.depth(kept), chain.depth(rival)) == (1, 1, 0)
    assert waits(node) == set(chain.waiting()) == set()


def test_dropped_payment_never_comes_back_and_takes_its_children_along(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    parent = chain.pay_coin(shop, COIN)
    chain.mine()
    child = chain.pay_coin(shop, 5, Spend(inputs=(f"{parent}:0",)))
    assert waits(node) == {child}
    chain.reorganise(1, drop=[parent])
    assert waits(node) == set(chain.waiting()) == set()
    assert chain.announce(parent)
    assert waits(node) == {parent}


def test_dropped_payment_is_forgotten_by_a_node_that_never_saw_it_mined(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    tx = chain.pay_coin(shop, COIN)
    node.set(on_block=chain.block().hash)
    chain.mine()
    assert waits(node) == {tx}
    chain.reorganise(1, drop=[tx])
    node.set(on_block=None)
    assert waits(node) == set()
    assert chain.announce(tx)
    assert waits(node) == {tx}


def test_coinbase_that_was_spent_and_is_taken_back_takes_the_payment_along(
    chain: UtxoChain, shop: str
):
    chain.mine(pay_to=shop)
    block = chain.world.tree.head
    made = block.transactions[0].txid[::-1].hex()
    spent = chain.pay_coin(chain.new_address("other"), COIN, Spend(inputs=(f"{made}:0",)))
    assert chain.waiting() == [spent]
    chain.reorganise(1)
    assert chain.waiting() == []
    assert not chain.announce(spent)
    chain.flip_back()
    assert chain.announce(spent)


def test_payment_is_placed_in_another_block_of_the_new_branch(chain: UtxoChain, shop: str):
    tx = chain.pay_coin(shop, 7)
    chain.mine()
    chain.reorganise(1, length=3, place={tx: 2})
    assert chain.depth(tx) == 1
    assert chain.height == 4


def test_evicted_payment_is_gone_at_that_node_until_it_is_told_again(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    other = UtxoNode(chain, "b")
    tx = chain.pay_coin(shop, 7)
    node.evict(tx)
    assert (waits(node), waits(other)) == (set(), {tx})
    assert node.hear(tx)
    assert waits(node) == {tx}
    chain.evict(tx)
    assert chain.mine().transactions == ()
    assert waits(other) == {tx}
    assert chain.announce(tx)
    assert chain.mine().transactions == (tx,)


def test_node_that_hears_nothing_has_nothing_and_a_new_one_has_what_the_miners_have(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    node.set(hears=False)
    tx = chain.pay_coin(shop, 7)
    assert waits(node) == set()
    assert waits(UtxoNode(chain, "b")) == {tx}


def test_lagging_node_still_has_waiting_what_others_mined(
    chain: UtxoChain, node: UtxoNode, shop: str
):
    tx = chain.pay_coin(shop, 7)
    node.set(lag=1)
    chain.mine()
    assert waits(node) == {tx}
    chain.mine()
    assert waits(node) == set()
    node.set(lag=2)
    assert waits(node) == {tx}


def test_restart_empties_the_mempool(chain: UtxoChain, node: UtxoNode, shop: str):
    chain.pay_coin(shop, 7)
    node.restart()
    assert waits(node) == set()


def test_wallet_is_filled_again_and_never_pays_twice_with_one_coin(chain: UtxoChain, shop: str):
    spent = []
    for _ in range(40):
        spent += [chain.outpoints(chain.pay_coin(shop, 1))[0] for _ in range(30)]
        chain.mine()
    assert len(spent) == len(set(spent)) == 1_200


@pytest.mark.parametrize("depth", [0, -1, 5])
def test_reorganisation_of_impossible_depth_is_refused(chain: UtxoChain, depth: int):
    chain.mine(4)
    with pytest.raises(ScriptError, match="depth of 1 to 4"):
        chain.reorganise(depth)


def test_impossible_payments_are_refused_by_what_is_wrong(chain: UtxoChain, shop: str):
    with pytest.raises(ScriptError, match="pays more than it spends"):
        chain.pay_coin(shop, 2, Spend(inputs=(f"{chain.pay_coin(shop, 1)}:0",), fee=0))
    with pytest.raises(ScriptError, match="no output"):
        chain.pay_coin(shop, 2, Spend(inputs=("ab" * 32 + ":0",)))
    with pytest.raises(ScriptError, match="outpoint"):
        chain.pay_coin(shop, 2, Spend(inputs=("ab:x",)))
    with pytest.raises(ScriptError, match="amount"):
        chain.pay_coin(shop, -1)
    with pytest.raises(ScriptError, match="checksum"):
        chain.pay_coin("mzBc4XEFSdzCDcTxAgf6EZXgsZWpztR", 1)
    with pytest.raises(ScriptError, match="knows no transaction"):
        chain.mine(transactions=["ab" * 32])
