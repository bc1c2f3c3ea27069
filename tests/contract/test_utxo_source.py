"""What sources of Bitcoin-like chains show besides: outputs, the mempool, branches, median time.

On litecoind and btcd. What all chains promise is in `test_chain_source.py`, what happens where nodes
lie in `test_utxo_source_lies.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

import pytest

from chains.catalog import load_catalogue
from chains.errors import ChainError, NodeUnavailable, Retryable, Unsupported
from chains.port import BlockRead, ChainSource, Unmined
from chains.registry import open_source
from chains.utxo.address import parse
from chains.utxo.core import CoreClient
from chains.utxo.loose import LooseTransaction
from schemas.facts import LookedUpState
from tests.parts.btcd.node import Btcd
from tests.parts.chain_stand import (
    NOON,
    UTXO_STANDS,
    Stand,
    rows,
    source_of,
    standing,
    standing_on,
    told,
)
from tests.parts.litecoind.hidden import HiddenMoney
from tests.parts.litecoind.node import Litecoind
from tests.parts.utxo_node import PASSWORD, USER, UtxoNode
from tests.parts.utxo_purse import ANYONE, FINAL, Pay, coins_of, name_of
from tests.parts.utxo_script import UtxoScript

COIN = 10**8
HOUR_S = 3_600


@pytest.fixture(params=rows(UTXO_STANDS))
async def stand(request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    async with standing_on(request.param) as stand:
        yield stand


class Pair(NamedTuple):
    """One chain on two nodes, and a source that asks the first one first."""

    script: UtxoScript
    source: ChainSource
    first: UtxoNode
    second: UtxoNode

    def watching(self, *ours: str) -> frozenset[bytes]:
        return frozenset(self.script.raw_of(address) for address in ours)


@pytest.fixture(
    params=[
        pytest.param(kind, id=name, marks=getattr(pytest.mark, name))
        for name, kind in (("litecoind", Litecoind), ("btcd", Btcd))
    ]
)
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    with request.param() as first, request.param() as second:
        script = UtxoScript(first, second)
        script.mine()
        async with standing(script, urls=[first.url, second.url]) as stand:
            yield Pair(script, stand.source, first, second)


@contextlib.contextmanager
def told_alone(script: UtxoScript, node: UtxoNode) -> Iterator[None]:
    """Let one node alone hear what the story does meanwhile."""
    nodes, first = script.nodes, script.node
    script.nodes, script.node = (node,), node
    try:
        yield
    finally:
        script.nodes, script.node = nodes, first


# Who is asked


async def test_node_that_does_not_take_the_password_is_named_without_it(stand: Stand):
    url = stand.script.url.replace(f"{USER}:{PASSWORD}", f"{USER}:guessed")
    wrong = source_of(stand.script, urls=[url])
    with pytest.raises(NodeUnavailable, match="user name and password") as refused:
        await wrong.start()
    assert "guessed" not in str(refused.value)
    await wrong.close()


async def test_node_that_went_away_is_an_error_and_after_its_restart_answers_go_on(stand: Stand):
    stand.script.mine()
    head = await stand.source.head()
    stand.script.node.kill()
    with pytest.raises(Retryable):
        await stand.source.head()
    stand.script.node.start()
    stand.script.tell(stand.script.node, stand.script.blocks[head.header.hash])
    stand.clock.passed_s += HOUR_S
    assert await stand.source.head() == head


async def test_balance_is_nothing_that_these_nodes_tell(stand: Stand):
    with pytest.raises(Unsupported):
        await stand.source.balance_at(
            stand.script.coin, stand.script.new_address(), await stand.header()
        )


async def test_nothing_is_hidden_in_these_chains(stand: Stand):
    assert list(stand.source.blind_spots()) == []


# Time


async def test_coverage_time_is_the_median_that_the_node_tells_and_never_runs_back(stand: Stand):
    script, tip = stand.script, stand.script.tip()
    begin_s = tip.time_s + 1
    for offset in (0, HOUR_S, 5, 9, 7, HOUR_S // 2, 11, 8, 30, 12, 20, 60, HOUR_S, 61):
        (tip,) = script.branch(tip, [[]], time_s=begin_s + offset)
        script.give(tip)
        header = await stand.header()
        told_s = script.ask("getblockchaininfo")["mediantime"]
        assert header.coverage_time.timestamp() == told_s
        assert header.time.timestamp() == tip.time_s
    headers = [await stand.header(tip.height - back) for back in range(14)]
    assert [one.time for one in headers] != sorted((one.time for one in headers), reverse=True)
    covered = [one.coverage_time for one in headers]
    assert covered == sorted(covered, reverse=True)


@pytest.mark.litecoind
async def test_median_of_a_young_chain_is_the_nodes_own():
    async with standing_on(UTXO_STANDS["litecoind"]) as stand:
        for height in (*range(14), stand.script.height()):
            block_hash = stand.script.ask("getblockhash", height)
            told_s = stand.script.ask("getblockheader", block_hash, True)["mediantime"]
            assert (await stand.header(height)).coverage_time.timestamp() == told_s


# Outputs


async def test_every_output_to_an_address_is_a_transfer_and_an_empty_one_is_not(stand: Stand):
    ours, others = stand.script.new_address(), stand.script.new_address()
    tx = stand.script.pay_many([(ours, 5), (ours, 5), (others, 9), (ours, 0), (ours, 7)])
    stand.script.mine()
    read = await stand.read(ours)
    assert [told(one) for one in read.transfers] == [
        ("out:0", ours, 5),
        ("out:1", ours, 5),
        ("out:4", ours, 7),
    ]
    assert read.ignored == {"zero_value": 1}
    answer = await stand.look_up(tx, ours)
    assert list(answer.pays) == [one.transfer for one in read.transfers]


async def test_one_transaction_pays_two_addresses_of_ours(stand: Stand):
    one, other = stand.script.new_address(), stand.script.new_old_address()
    stand.script.pay_many([(other, 7), (one, 5)])
    stand.script.mine()
    seen = [told(each) for each in (await stand.read(one, other)).transfers]
    assert seen == [("out:0", other, 7), ("out:1", one, 5)]


async def test_dust_and_a_fortune_are_counted_to_the_last_unit(stand: Stand):
    ours = stand.script.new_address()
    stand.script.pay_coin(ours, 1)
    stand.script.pay_coin(ours, 40 * COIN + 1)
    stand.script.mine()
    amounts = {int(one.amount) for one in (await stand.read(ours)).transfers}
    assert amounts == {1, 40 * COIN + 1}


async def test_payment_by_a_witness_has_the_id_that_no_witness_changes(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5, witness=True)
    stand.script.mine()
    (seen,) = (await stand.read(ours)).transfers
    assert seen.transfer == f"{stand.source.chain}/{tx}/out:0"
    assert list(seen.spends) == [coin.name for coin in stand.script.coins_behind(tx)]


async def test_block_reward_to_us_is_marked_as_such(stand: Stand):
    ours = stand.script.new_address()
    stand.script.mine_only(to=[Pay(stand.script.raw_of(ours), COIN)])
    (seen,) = (await stand.read(ours)).transfers
    assert (told(seen), seen.coinbase, seen.spends) == (("out:0", ours, COIN), True, ())


async def test_block_says_which_transaction_spent_what(stand: Stand):
    txs = [stand.script.pay_coin(stand.script.new_address(), 60 * COIN) for _ in range(2)]
    stand.script.mine()
    spent = (await stand.read(stand.script.new_address())).spent
    assert dict(spent) == {coin.name: tx for tx in txs for coin in stand.script.coins_behind(tx)}


# Branches


async def test_block_that_left_the_chain_is_still_told_by_its_hash(stand: Stand):
    ours = stand.script.new_address()
    stand.script.pay_coin(ours, 5)
    stand.script.mine(2)
    left = [await stand.header(stand.script.height() - back) for back in (1, 0)]
    before = await stand.source.read_block(left[0], stand.watching(ours))
    stand.script.reorganise(2)
    fresh = source_of(stand.script)
    assert [await fresh.header_by_hash(one.hash) for one in left] == left
    after = await fresh.read_block(left[0], stand.watching(ours))
    assert (after.header, after.transfers) == (before.header, before.transfers)
    await fresh.close()


async def test_branch_that_no_node_follows_is_told_by_hash_and_is_not_the_head(stand: Stand):
    ours, script = stand.script.new_address(), stand.script
    tx = script.pay_coin(ours, 5)
    script.mine()
    (beside,) = script.branch(script.below(1), [[tx]])
    script.give(beside)
    header = await stand.source.header_by_hash(beside.hash)
    assert header is not None
    assert (header.height, header.parent_hash) == (beside.height, beside.parent)
    assert (await stand.source.head()).header.hash == script.tip().hash
    answer = await stand.look_up(tx, ours)
    assert answer.block is not None
    assert answer.block.hash == script.tip().hash


async def test_span_that_ends_in_a_block_of_a_left_branch_is_refused(stand: Stand):
    script = stand.script
    script.mine(6)
    last, first = await stand.header(), script.height() - 5
    script.reorganise(2)
    with pytest.raises(Retryable):
        await stand.source.read_range(first, last, stand.watching(script.new_address()))


async def test_payment_that_the_new_branch_spends_otherwise_is_unknown(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5)
    stand.script.mine()
    assert (await stand.look_up(tx, ours)).state is LookedUpState.INCLUDED
    double_spend = stand.script.conflict(tx)
    stand.script.reorganise(1, again=[(double_spend, 0)])
    await stand.read(ours, height=stand.script.height() - 1)
    assert (await stand.look_up(tx, ours)).state is LookedUpState.UNKNOWN
    answer = await stand.look_up(name_of(double_spend), ours)
    assert (answer.state, answer.pays) == (LookedUpState.INCLUDED, ())


async def test_payment_that_a_reorganisation_took_is_pending_again(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5)
    stand.script.mine()
    stand.script.reorganise(1)
    assert (await stand.look_up(tx, ours)).state is LookedUpState.PENDING
    (seen,) = await pending(stand, ours)
    assert seen.transfer == f"{stand.source.chain}/{tx}/out:0"


async def test_history_reaches_what_is_there_and_not_beyond(stand: Stand):
    assert await stand.source.history_reaches(1)
    assert not await stand.source.history_reaches(stand.script.height() + 1)


# Looking up without an index


async def test_source_that_has_read_nothing_finds_what_is_not_spent_yet(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_many([(stand.script.new_address(), 5), (ours, 6)])
    stand.script.mine(3)
    fresh = source_of(stand.script)
    answer = await fresh.look_up(tx, stand.watching(ours))
    assert answer.state is LookedUpState.INCLUDED
    assert list(answer.pays) == [f"{stand.source.chain}/{tx}/out:1"]
    assert answer.block is not None
    assert answer.block.hash == stand.script.below(2).hash
    await fresh.close()


async def test_payment_whose_outputs_are_all_spent_is_found_where_its_block_was_read(stand: Stand):
    tx, spender = paid_and_spent(stand.script)
    await stand.read(stand.script.new_address(), height=stand.script.height() - 1)
    for each in (tx, spender):
        assert (await stand.look_up(each)).state is LookedUpState.INCLUDED


@pytest.mark.parametrize(
    "kind_and_option",
    [
        pytest.param((Litecoind, "-txindex"), id="litecoind", marks=pytest.mark.litecoind),
        pytest.param((Btcd, "--txindex"), id="btcd", marks=pytest.mark.btcd),
    ],
)
async def test_node_with_an_index_finds_every_payment_of_its_chain(kind_and_option):
    kind, option = kind_and_option
    with kind(option) as node:
        script = UtxoScript(node)
        async with standing(script) as stand:
            tx, _ = paid_and_spent(script)
            script.mine(3)
            answer = await stand.look_up(tx)
            assert answer.state is LookedUpState.INCLUDED
            assert answer.block is not None
            assert answer.block.hash == script.below(4).hash


def paid_and_spent(script: UtxoScript) -> tuple[str, str]:
    """Mine a payment and, a block later, what spends all of it."""
    paid = script.make([Pay(ANYONE, COIN)])
    script.send(paid)
    script.mine()
    spender = script.make([], coins=coins_of(paid))
    script.send(spender)
    script.mine()
    return name_of(paid), name_of(spender)


# The mempool


async def look(stand: Stand, *ours: str, outpoints: tuple[str, ...] = ()) -> Unmined:
    found = await stand.source.pending(stand.watching(*ours), outpoints)
    assert found is not None
    return found


async def pending(stand: Stand, *ours: str):
    return (await look(stand, *ours)).transfers


async def restart(stand: Stand) -> None:
    """Empty the mempool; who was connected finds out."""
    stand.script.restart()
    with contextlib.suppress(Retryable):
        await stand.source.head()
    stand.clock.passed_s += HOUR_S


async def test_empty_mempool_pays_nobody(stand: Stand):
    assert list(await pending(stand, stand.script.new_address())) == []


async def test_waiting_payment_is_seen_as_it_will_be_mined_but_for_its_block(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_many([(ours, 5), (stand.script.new_address(), 6), (ours, 7)])
    waiting = await pending(stand, ours)
    assert [told(one) for one in waiting] == [("out:0", ours, 5), ("out:2", ours, 7)]
    assert {one.block for one in waiting} == {None}
    assert all(
        list(one.spends) == [coin.name for coin in stand.script.coins_behind(tx)] for one in waiting
    )
    stand.script.mine()
    mined = (await stand.read(ours)).transfers
    assert [(one.transfer, one.amount, one.spends) for one in mined] == [
        (one.transfer, one.amount, one.spends) for one in waiting
    ]
    assert list(await pending(stand, ours)) == []


async def test_slow_node_keeps_blocks_waiting_for_no_longer_than_a_look(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
):
    """What a look has no time for is read at the next ones."""
    ours = stand.script.new_address()
    names = [stand.script.pay_coin(ours, amount) for amount in range(1, 5)]
    read = CoreClient.transactions

    async def slowly(
        client: CoreClient, asked: Sequence[str]
    ) -> list[LooseTransaction | ChainError]:
        stand.clock.passed_s += 4.0
        return await read(client, asked)

    monkeypatch.setattr(CoreClient, "transactions", slowly)
    monkeypatch.setattr("chains.utxo.source._PORTION", 1)
    for seen in range(1, len(names) + 1):
        assert len(await pending(stand, ours)) == seen
    assert stand.clock.passed_s < 4.0 * len(names) + 1


async def test_first_sight_is_kept_while_a_payment_waits(stand: Stand):
    ours = stand.script.new_address()
    stand.script.pay_coin(ours, 5)
    (first,) = await pending(stand, ours)
    assert first.first_seen_at == NOON
    later = NOON + timedelta(minutes=5)
    stand.clock.moment = later
    stand.script.pay_coin(ours, 6)
    seen = {int(one.amount): one.first_seen_at for one in await pending(stand, ours)}
    assert seen == {5: NOON, 6: later}


async def test_mined_payment_has_the_first_sight_that_it_had_while_it_waited(stand: Stand):
    """Whatever the loop remembers: more may wait than it announces."""
    ours = stand.script.new_address()
    stand.script.pay_coin(ours, 5)
    await pending(stand, ours)
    stand.clock.moment = NOON + timedelta(minutes=5)
    stand.script.mine()
    await pending(stand, ours)
    (seen,) = (await stand.read(ours)).transfers
    assert seen.first_seen_at == NOON


async def test_address_that_is_watched_later_finds_what_waited_before(stand: Stand):
    one, other = stand.script.new_address(), stand.script.new_address()
    stand.script.pay_many([(one, 5), (other, 6)])
    assert len(await pending(stand, one)) == 1
    assert [told(each)[1] for each in await pending(stand, one, other)] == [one, other]


async def test_replacement_to_others_is_named_by_the_outpoint_that_it_spends(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5)
    (seen,) = await pending(stand, ours)
    replacement = stand.script.replace(tx)
    found = await look(stand, ours, outpoints=seen.spends)
    assert list(found.transfers) == []
    assert dict(found.spent) == dict.fromkeys(seen.spends, replacement)


async def test_replacement_that_pays_us_again_takes_the_others_place(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5)
    (seen,) = await pending(stand, ours)
    replacement = stand.script.replace(tx, (ours, 6))
    found = await look(stand, ours, outpoints=seen.spends)
    (again,) = found.transfers
    assert again.transfer == f"{stand.source.chain}/{replacement}/out:0"
    assert again.spends == seen.spends
    assert dict(found.spent) == dict.fromkeys(seen.spends, replacement)


async def test_replacement_of_a_replacement_is_named_at_once(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5)
    (seen,) = await pending(stand, ours)
    second = stand.script.replace(tx)
    await look(stand, ours, outpoints=seen.spends)
    third = stand.script.replace(second)
    found = await look(stand, ours, outpoints=seen.spends)
    assert dict(found.spent) == dict.fromkeys(seen.spends, third)


async def test_evicted_payment_is_missing_and_nobody_spends_what_it_spent(stand: Stand):
    ours = stand.script.new_address()
    stand.script.pay_coin(ours, 5)
    (seen,) = await pending(stand, ours)
    await restart(stand)
    found = await look(stand, ours, outpoints=seen.spends)
    assert (list(found.transfers), dict(found.spent)) == ([], {})


async def test_evicted_payment_that_comes_back_is_the_same_transfer(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5)
    (before,) = await pending(stand, ours)
    await restart(stand)
    assert list(await pending(stand, ours)) == []
    stand.script.send(stand.script.transactions[tx])
    (after,) = await pending(stand, ours)
    assert (after.transfer, after.spends) == (before.transfer, before.spends)


async def test_double_spend_in_a_block_takes_a_waiting_payment_away(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5, sequence=FINAL)
    (seen,) = await pending(stand, ours)
    double_spend = stand.script.conflict(tx)
    stand.script.mine_only(double_spend)
    assert list(await pending(stand, ours)) == []
    spent = (await stand.read(ours)).spent
    assert {spent[outpoint] for outpoint in seen.spends} == {name_of(double_spend)}


async def test_child_that_pays_us_waits_with_its_parent(stand: Stand):
    ours, script = stand.script.new_address(), stand.script
    parent = script.pay_coin(script.new_address(), 5)
    change = coins_of(script.transactions[parent])
    script.send(script.make([Pay(script.raw_of(ours), 9)], coins=change))
    (seen,) = await pending(stand, ours)
    assert (told(seen), list(seen.spends)) == (("out:0", ours, 9), [change[0].name])


# A second node


async def test_second_node_on_the_same_chain_agrees_and_one_on_another_branch_does_not(pair: Pair):
    script = pair.script
    header = (await pair.source.head()).header
    assert await pair.source.agree(header)
    with told_alone(script, pair.second):
        script.reorganise(1)
    assert not await pair.source.agree(header)


async def test_second_node_that_is_gone_agrees_to_nothing(pair: Pair):
    header = (await pair.source.head()).header
    pair.second.kill()
    assert not await pair.source.agree(header)


async def test_first_node_that_is_gone_leaves_the_second_to_answer(pair: Pair):
    ours = pair.script.new_address()
    pair.script.pay_coin(ours, 5)
    pair.script.mine()
    head = await pair.source.head()
    pair.first.kill()
    assert await pair.source.head() == head
    (seen,) = (await pair.source.read_block(head.header, pair.watching(ours))).transfers
    assert told(seen) == ("out:0", ours, 5)


async def test_second_node_that_never_told_of_a_left_branch_still_looks_up_its_payment(pair: Pair):
    ours, script = pair.script.new_address(), pair.script
    tx = script.pay_coin(ours, 5)
    script.mine(2)
    for height in (script.height() - 1, script.height()):
        await pair.source.read_block(await pair.source.header_at(height), pair.watching(ours))
    script.reorganise(2)
    pair.first.kill()
    answer = await pair.source.look_up(tx, pair.watching(ours))
    assert answer.state is LookedUpState.PENDING
    script.nodes, script.node = (pair.second,), pair.second
    script.mine()
    answer = await pair.source.look_up(tx, pair.watching(ours))
    assert (answer.state, len(answer.pays)) == (LookedUpState.INCLUDED, 1)


async def test_head_that_fell_is_compared_with_that_of_the_other_node(pair: Pair):
    pair.script.mine(3)
    head = await pair.source.head()
    with told_alone(pair.script, pair.first):
        pair.script.rewind(2)
    assert await pair.source.head() == head


async def test_payment_that_only_the_second_node_knows_is_looked_up_there(pair: Pair):
    ours, script = pair.script.new_address(), pair.script
    with told_alone(script, pair.second):
        tx = script.pay_coin(ours, 5)
    answer = await pair.source.look_up(tx, pair.watching(ours))
    assert answer.state is LookedUpState.PENDING


async def test_mempools_that_differ_name_each_others_double_spend(pair: Pair):
    """The second node is asked where the first one fails: each has its own half of the truth."""
    ours, script = pair.script.new_address(), pair.script
    with told_alone(script, pair.first):
        tx = script.pay_coin(ours, 5)
    with told_alone(script, pair.second):
        other = script.send(script.conflict(tx))
    found = await pair.source.pending(pair.watching(ours), ())
    assert found is not None
    (seen,) = found.transfers
    pair.first.kill()
    found = await pair.source.pending(pair.watching(ours), seen.spends)
    assert found is not None
    assert (list(found.transfers), dict(found.spent)) == ([], dict.fromkeys(seen.spends, other))


# Litecoin's extension block


@pytest.mark.litecoind
async def test_money_out_of_the_extension_block_is_seen_when_it_comes_out_and_hides_nothing():
    with Litecoind(wallet=True) as node:
        hidden = HiddenMoney(node)
        ours, openly = (node.ask("getnewaddress") for _ in range(2))
        watched = frozenset(parse(node.network, address).raw for address in (ours, openly))
        source = open_source(node.network.chain, [node.url], catalogue=load_catalogue())
        await source.start()
        hidden.pay_from_hidden(ours, 0.7)
        hidden.pay_openly(openly, 0.3)
        assert len(node.waiting) == 2
        waiting = await source.pending(watched, ())
        assert waiting is not None
        assert [one.to for one in waiting.transfers] == [openly]

        left = hidden.mine()
        read = await read_by_hash(source, left, watched)
        assert {one.to: int(one.amount) for one in read.transfers} == {
            ours: 70_000_000,
            openly: 30_000_000,
        }
        (out,) = (one for one in read.transfers if one.to == ours)
        hog = out.transfer.split("/")[1]
        assert hog == node.ask("getblock", left, 1)["tx"][-1]
        answer = await source.look_up(hog, watched)
        assert (answer.state, list(answer.pays)) == (LookedUpState.INCLUDED, [out.transfer])

        node.ask("invalidateblock", left)
        again = await read_by_hash(source, hidden.mine(), watched)
        assert {one.transfer for one in again.transfers} == {one.transfer for one in read.transfers}
        await source.close()


async def read_by_hash(
    source: ChainSource, block_hash: str, watched: frozenset[bytes]
) -> BlockRead:
    header = await source.header_by_hash(block_hash)
    assert header is not None
    return await source.read_block(header, watched)
