"""What stays and what goes when a devnet reorganises, and what comes back when it flips back."""

from __future__ import annotations

import pytest

from chains.devnet.calls import How
from chains.devnet.chain import DevnetChain
from chains.devnet.execution import Rules
from chains.devnet.hexadecimal import ScriptError, hash_bytes
from chains.devnet.world import Seed

PAYER, SHOP = "0x" + "aa" * 20, "0x" + "11" * 20
OTHER = "0x" + "cc" * 20


@pytest.fixture
def chain() -> DevnetChain:
    return DevnetChain(Seed(chain_id=1), Rules())


def height_of(chain: DevnetChain, tx: str) -> int | None:
    found = chain.world.find(hash_bytes(tx), chain.world.tree.head)
    return None if found is None else found[0].height


def test_every_block_names_the_block_before_it(chain: DevnetChain):
    chain.mine(20)
    for height in range(1, 21):
        assert chain.block(height).parent_hash == chain.block(height - 1).hash


def test_reorganisation_keeps_the_money_and_changes_every_hash_above_the_fork(chain: DevnetChain):
    chain.mine(3)
    tx = chain.pay_coin(PAYER, SHOP, 7)
    chain.mine()
    chain.mine()
    before = [chain.block(height).hash for height in range(6)]
    chain.reorganise(2)
    after = [chain.block(height).hash for height in range(6)]
    assert chain.height == 6
    assert before[:4] == after[:4]
    assert not set(before[4:]) & set(after[4:])
    assert height_of(chain, tx) == 4
    assert chain.balance(SHOP) == 7


def test_omitted_payment_waits_and_is_mined_again_with_the_same_hash(chain: DevnetChain):
    tx = chain.pay_coin(PAYER, SHOP, 7)
    chain.mine()
    chain.reorganise(1, omit=[tx])
    assert height_of(chain, tx) is None
    assert chain.balance(SHOP) == 0
    assert hash_bytes(tx) in chain.mempool
    chain.mine()
    assert height_of(chain, tx) == 3
    assert chain.balance(SHOP) == 7


def test_dropped_payment_never_comes_back(chain: DevnetChain):
    tx = chain.pay_coin(PAYER, SHOP, 7)
    chain.mine()
    chain.reorganise(1, drop=[tx])
    chain.mine(3)
    assert height_of(chain, tx) is None
    assert len(chain.mempool) == 0


def test_payment_is_placed_in_another_block_of_the_new_branch(chain: DevnetChain):
    tx = chain.pay_coin(PAYER, SHOP, 7)
    chain.mine()
    chain.reorganise(1, length=3, place={tx: 2})
    assert height_of(chain, tx) == 3
    assert chain.balance(SHOP) == 7


def test_double_spend_takes_the_place_and_the_first_payment_is_impossible(chain: DevnetChain):
    first = chain.pay_coin(PAYER, SHOP, 7)
    chain.mine()
    second = chain.pay_coin(PAYER, OTHER, 7, How(nonce=0, hold=True))
    chain.reorganise(1, omit=[first], place={second: 0})
    assert height_of(chain, first) is None
    assert hash_bytes(first) not in chain.mempool
    assert (chain.balance(SHOP), chain.balance(OTHER)) == (0, 7)


def test_payment_is_not_placed_before_the_one_that_its_nonce_follows(chain: DevnetChain):
    first, second = chain.pay_coin(PAYER, SHOP, 7), chain.pay_coin(PAYER, SHOP, 8)
    before = chain.mine()
    with pytest.raises(ScriptError, match="cannot be mined there"):
        chain.reorganise(1, omit=[first], place={second: 0})
    assert chain.block() == before


def test_bridge_transaction_stays_outside_of_the_roots_on_the_new_branch(chain: DevnetChain):
    token = chain.deploy_token("USDC", 6)
    tx = chain.bridge_in(token, SHOP, 7)
    chain.mine()
    chain.reorganise(1)
    block, one = chain.world.find(hash_bytes(tx), chain.world.tree.head)
    assert (block.height, one.bridge, block.rooted) == (1, True, ())
    assert chain.balance(SHOP, token) == 7


def test_flip_back_gives_the_old_blocks_and_balances_and_flips_again(chain: DevnetChain):
    tx = chain.pay_coin(PAYER, SHOP, 7)
    old = chain.mine()
    new = chain.reorganise(1, drop=[tx])
    assert chain.flip_back() == old
    assert chain.balance(SHOP) == 7
    assert chain.flip_back() == new
    assert chain.balance(SHOP) == 0


def test_rewind_shortens_the_chain_and_its_money_waits_again(chain: DevnetChain):
    tx = chain.pay_coin(PAYER, SHOP, 7)
    chain.mine(3)
    chain.rewind(3)
    assert chain.height == 0
    assert hash_bytes(tx) in chain.mempool


def test_balances_are_told_at_every_height_of_the_branch_that_is_asked(chain: DevnetChain):
    for _ in range(3):
        chain.pay_coin(PAYER, SHOP, 1)
        chain.mine()
    left = chain.world.tree.head
    chain.reorganise(3, drop=[*chain.block(2).transactions, *chain.block(3).transactions])
    key = ("coin", bytes.fromhex("11" * 20))
    tree, ledger = chain.world.tree, chain.world.ledger
    assert [ledger.number(key, tree.ancestor(left, height)) for height in range(4)] == [0, 1, 2, 3]
    assert [ledger.number(key, tree.at(height)) for height in range(5)] == [0, 1, 1, 1, 1]


def test_reorganisation_below_finality_is_refused_unless_it_is_meant(chain: DevnetChain):
    chain.mine(5)
    chain.finalize(4)
    with pytest.raises(ScriptError, match="finalized height 4"):
        chain.reorganise(2)
    assert chain.reorganise(2, beyond_finalized=True).height == 6


@pytest.mark.parametrize(
    ("lag", "told", "height", "finalized", "safe"),
    [(64, None, 10, 0, 0), (2, None, 10, 8, 8), (None, None, 10, None, None), (None, 7, 10, 7, 7)],
)
def test_finality_follows_the_head_or_what_the_script_says(
    chain: DevnetChain, lag, told, height, finalized, safe
):
    chain.mine(height)
    chain.finality_lag(lag)
    if told is not None:
        chain.finalize(told)
    assert (chain.finalized_height, chain.safe_height) == (finalized, safe)


def test_finality_does_not_go_back_with_the_head(chain: DevnetChain):
    chain.finality_lag(2)
    chain.mine(10)
    chain.rewind(2)
    assert (chain.height, chain.finalized_height) == (8, 8)
    chain.mine()
    assert chain.finalized_height == 8


def test_replacement_takes_the_place_of_a_waiting_transaction(chain: DevnetChain):
    first = chain.pay_coin(PAYER, SHOP, 7)
    second = chain.pay_coin(PAYER, OTHER, 7, How(nonce=0))
    chain.mine()
    assert height_of(chain, first) is None
    assert height_of(chain, second) == 1


def test_block_time_is_chosen_and_never_before_its_parent():
    clock = iter([1_700_000_100, 1_700_000_050])
    chain = DevnetChain(Seed(chain_id=1, clock=lambda: next(clock)), Rules())
    assert chain.mine().time == 1_700_000_100
    assert chain.mine().time == 1_700_000_101
    assert chain.mine(time=1_800_000_000).time == 1_800_000_000
    with pytest.raises(ScriptError, match="before its parent"):
        chain.mine(time=1)


def test_listener_hears_of_what_left_newest_first_and_what_joined_oldest_first(chain: DevnetChain):
    heard = []
    chain.mine(3)
    chain.listeners.append(heard.append)
    chain.reorganise(2)
    (change,) = heard
    assert [block.height for block in change.removed] == [3, 2]
    assert [block.height for block in change.added] == [2, 3, 4]


def test_payer_without_money_is_refused_where_the_chain_is_not_generous():
    chain = DevnetChain(Seed(chain_id=1), Rules(generous=False))
    tx = chain.pay_coin(PAYER, SHOP, 7)
    chain.mine()
    assert height_of(chain, tx) is None
    chain.give_coin(PAYER, 10**18)
    chain.mine()
    assert height_of(chain, tx) == 2
