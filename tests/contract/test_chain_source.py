"""The promises of `chains.port.ChainSource`, kept by every source on every kind of node.

The suite is written in the words of `tests.parts.chain_scripts`. A chain of another family joins with
a script of its own and a row in `chain_stand.STANDS`; what only one family can show stands beside it, in
`test_evm_source.py` and `test_utxo_source.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest

from chains.errors import NodeBehind, Retryable, WrongChain
from schemas.facts import LookedUpState
from tests.parts.chain_stand import STANDS, Stand, rows, source_of, standing_on, told

#: So many blocks below the head a story looks back at most.
BACK = 12


@pytest.fixture(params=rows(STANDS))
async def stand(request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    async with standing_on(request.param) as stand:
        yield stand


# Who it is


async def test_another_chain_behind_the_url_is_refused_and_both_are_named(stand: Stand):
    script = stand.script
    wrong = source_of(script, chain=script.stranger)
    expected, found = script.identity_of(script.stranger), script.identity_of(script.chain)
    with pytest.raises(WrongChain, match=rf"\b{expected}\b.*\b{found}\b"):
        await wrong.start()
    await wrong.close()


async def test_the_right_chain_is_identified_again_and_again(stand: Stand):
    assert stand.source.chain == stand.script.chain
    await stand.source.identify()
    await stand.source.identify()


# Heads and headers


async def test_head_is_the_header_at_its_height_and_by_its_hash(stand: Stand):
    stand.script.mine(3)
    head = await stand.source.head()
    assert head.header.height == stand.script.height()
    assert await stand.source.header_at(head.header.height) == head.header
    assert await stand.source.header_by_hash(head.header.hash) == head.header


async def test_every_header_names_the_one_before_it_and_time_never_runs_back(stand: Stand):
    stand.script.mine(4)
    top = stand.script.height()
    headers = [await stand.header(height) for height in range(max(0, top - BACK), top + 1)]
    for before, after in itertools.pairwise(headers):
        assert after.parent_hash == before.hash
        assert after.height == before.height + 1
        assert after.time >= before.time
        assert after.coverage_time >= before.coverage_time
    assert all(header.time.tzinfo is not None for header in headers)
    assert all(header.hash == header.hash.lower() for header in headers)


async def test_block_that_is_not_there_yet_is_not_nothing_but_behind(stand: Stand):
    with pytest.raises(NodeBehind):
        await stand.source.header_at(stand.script.height() + 1)


async def test_hash_that_no_node_knows_has_no_header(stand: Stand):
    assert await stand.source.header_by_hash(stand.script.unknown) is None


async def test_head_tells_how_deep_the_chain_itself_calls_blocks_final(stand: Stand):
    stand.script.mine(8)
    head = await stand.source.head()
    lag = stand.script.finality_lag
    assert head.finalized_height == (head.header.height - lag if lag else 0)


# Whole blocks


async def test_empty_block_pays_nobody(stand: Stand):
    stand.script.mine()
    ours = stand.script.new_address()
    read = await stand.read(ours)
    assert list(read.transfers) == []
    assert stand.watching(ours).isdisjoint(read.recipients)


async def test_coin_payment_is_seen_with_its_block_and_evidence(stand: Stand):
    script, ours = stand.script, stand.script.new_address()
    tx = script.pay_coin(ours, 123)
    script.mine()
    header = await stand.header()
    read = await stand.read(ours)
    (seen,) = read.transfers
    assert read.header == header
    assert seen.transfer == f"{stand.source.chain}/{tx}/{script.coin_position}"
    assert (seen.asset, seen.to, int(seen.amount)) == (script.coin, ours, 123)
    assert seen.block is not None
    assert (seen.block.height, seen.block.hash, seen.block.time) == (
        header.height,
        header.hash,
        header.time,
    )
    assert seen.evidence.method
    assert stand.watching(ours) <= read.recipients


async def test_money_for_others_is_no_transfer_and_its_receiver_is_remembered(stand: Stand):
    others = stand.script.new_address()
    stand.script.pay_coin(others, 123)
    stand.script.mine()
    read = await stand.read(stand.script.new_address())
    assert list(read.transfers) == []
    assert stand.watching(others) <= read.recipients


async def test_zero_coin_is_counted_and_dropped(stand: Stand):
    ours = stand.script.new_address()
    stand.script.pay_coin(ours, 0)
    stand.script.mine()
    assert list((await stand.read(ours)).transfers) == []


async def test_the_same_question_gives_the_same_answer(stand: Stand):
    ours = stand.script.new_address()
    stand.script.pay_coin(ours, 5)
    stand.script.mine()
    assert await stand.read(ours) == await stand.read(ours)
    assert await stand.source.head() == await stand.source.head()


async def test_range_below_finality_equals_its_blocks_one_by_one(stand: Stand):
    script, ours, first = stand.script, stand.script.new_address(), stand.script.height() + 1
    for amount in range(1, 8):
        script.pay_coin(ours, amount)
        script.mine(1 + amount % 3)
    script.mine(script.finality_lag)
    last = await stand.header(script.height() - script.finality_lag)
    ranged = await stand.source.read_range(first, last, stand.watching(ours))
    single = [
        seen
        for height in range(first, last.height + 1)
        for seen in (await stand.read(ours, height=height)).transfers
    ]
    assert len(single) == 7
    assert [(told(one), one.block) for one in ranged.transfers] == [
        (told(one), one.block) for one in single
    ]
    assert (ranged.header, ranged.recipients) == (last, frozenset())


# Reorganisations


async def test_reorganisation_shows_in_hashes_from_the_fork_up(stand: Stand):
    stand.script.mine(4)
    top = stand.script.height()
    before = [await stand.header(height) for height in range(top - 3, top + 1)]
    stand.script.reorganise(2)
    after = [await stand.header(height) for height in range(top - 3, top + 1)]
    assert before[:2] == after[:2]
    assert before[2].hash != after[2].hash
    assert after[2].parent_hash == before[1].hash
    assert after[3].parent_hash == after[2].hash


async def test_payment_that_is_mined_again_keeps_its_id_and_moves_its_block(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5)
    stand.script.mine(2)
    top = stand.script.height()
    (before,) = (await stand.read(ours, height=top - 1)).transfers
    stand.script.reorganise(2, again=[(tx, 1)])
    assert list((await stand.read(ours, height=top - 1)).transfers) == []
    (after,) = (await stand.read(ours, height=top)).transfers
    assert after.transfer == before.transfer
    assert after.block != before.block


async def test_block_that_left_the_chain_is_told_whole_or_not_at_all(stand: Stand):
    ours = stand.script.new_address()
    stand.script.pay_coin(ours, 5)
    stand.script.mine()
    header = await stand.header()
    before = await stand.source.read_block(header, stand.watching(ours))
    stand.script.reorganise(1)
    try:
        after = await stand.source.read_block(header, stand.watching(ours))
    except Retryable:
        return
    assert after.transfers == before.transfers


async def test_one_node_alone_is_no_second_opinion(stand: Stand):
    assert not await stand.source.agree(await stand.header())


# Looking up what a customer named


async def test_unknown_transaction_is_looked_up_as_unknown(stand: Stand):
    unknown = stand.script.unknown
    answer = await stand.look_up(unknown)
    assert (answer.state, answer.tx, answer.block) == (LookedUpState.UNKNOWN, unknown, None)
    assert answer.chain == stand.source.chain
    assert answer.request == ""


async def test_waiting_transaction_is_pending_and_then_included(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5)
    assert (await stand.look_up(tx, ours)).state is LookedUpState.PENDING
    stand.script.mine()
    answer = await stand.look_up(tx, ours)
    assert answer.state is LookedUpState.INCLUDED
    assert list(answer.pays) == [f"{stand.source.chain}/{tx}/{stand.script.coin_position}"]
    assert answer.block is not None
    assert answer.block.hash == (await stand.header()).hash


async def test_transaction_id_is_found_in_any_letter_case(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5)
    stand.script.mine()
    answer = await stand.look_up(stand.script.loud(tx), ours)
    assert (answer.state, answer.tx) == (LookedUpState.INCLUDED, tx)


async def test_transaction_to_others_is_included_and_pays_us_nothing(stand: Stand):
    tx = stand.script.pay_coin(stand.script.new_address(), 5)
    stand.script.mine()
    answer = await stand.look_up(tx, stand.script.new_address())
    assert (answer.state, answer.pays) == (LookedUpState.INCLUDED, ())


async def test_transaction_that_a_reorganisation_took_is_no_longer_included(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5)
    stand.script.mine()
    stand.script.reorganise(1)
    assert (await stand.look_up(tx, ours)).state is not LookedUpState.INCLUDED


# The rest of the promise


async def test_history_reaches_blocks_that_are_there(stand: Stand):
    stand.script.pay_coin(stand.script.new_address(), 5)
    stand.script.mine()
    assert await stand.source.history_reaches(stand.script.height())


async def test_mempool_is_told_where_it_is_said_to_be_shown(stand: Stand):
    found = await stand.source.pending(frozenset(), ())
    assert (found is not None) is stand.source.shows_mempool


async def test_waiting_for_a_change_ends_in_time_and_never_raises(stand: Stand):
    await stand.source.wait_for_change(0.01)


async def test_node_that_is_gone_is_an_error_and_never_nothing(stand: Stand):
    gone = source_of(stand.script, urls=["http://127.0.0.1:9"])
    for ask in (gone.start, gone.head, gone.identify):
        with pytest.raises(Retryable):
            await ask()
    with pytest.raises(Retryable):
        await gone.header_by_hash(stand.script.unknown)
    with pytest.raises(Retryable):
        await gone.look_up(stand.script.unknown, frozenset())
    await gone.close()
