"""The promises of `chains.port.ChainSource`, kept by every source on every kind of node.

The suite is written in the words of `tests.parts.chain_scripts`. A chain of another family joins with
a script of its own and a row in `STANDS`; what only chains with tokens can show stands apart below.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from chains.errors import CatalogueDiffers, NodeBehind, Retryable, WrongChain
from schemas.facts import LookedUpState, TransactionLookedUp
from tests.parts.chain_scripts import FINALITY_LAG, ChainScript, Leg
from tests.parts.chain_stand import (
    Stand,
    on_anvil,
    on_devnet,
    source_of,
    standing,
    told,
    watching,
)
from tests.parts.listing import chain_name, coin_of, token_of

UNKNOWN = "0x" + "12" * 32

#: Every way of reading has its row: all receipts at once or single ones, either dialect of traces.
STANDS: dict[str, Callable[[], AbstractAsyncContextManager[ChainScript]]] = {
    "devnet": on_devnet,
    "devnet-without-block-receipts": lambda: on_devnet(block_receipts=False),
    "devnet-with-flat-traces": lambda: on_devnet(call_tracer=False),
    "devnet-in-other-letter-case": lambda: on_devnet(
        upper_case_topics=True, checksummed_addresses=True
    ),
    "anvil": on_anvil,
}


@pytest.fixture(
    params=[
        pytest.param(name, marks=[pytest.mark.anvil] if name == "anvil" else []) for name in STANDS
    ]
)
async def stand(request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    async with STANDS[request.param]() as script:
        script.mine()
        async with standing(script) as stand:
            yield stand


# Who it is


async def test_another_chain_behind_the_url_is_refused_and_both_are_named(stand: Stand):
    wrong = source_of(stand.script, chain_id=99)
    with pytest.raises(WrongChain, match=r"99\D.*31337"):
        await wrong.start()
    await wrong.close()


async def test_the_right_chain_is_identified_again_and_again(stand: Stand):
    assert stand.source.chain == chain_name(stand.script.chain_id)
    await stand.source.identify()
    await stand.source.identify()


async def test_other_decimals_than_the_catalogues_stop_the_start(stand: Stand):
    wrong = source_of(stand.script, decimals=18)
    with pytest.raises(CatalogueDiffers, match="expected 18 decimals, found 6"):
        await wrong.start()
    await wrong.close()


# Heads and headers


async def test_head_is_the_header_at_its_height_and_by_its_hash(stand: Stand):
    stand.script.mine(3)
    head = await stand.source.head()
    assert head.header.height == stand.script.height()
    assert await stand.source.header_at(head.header.height) == head.header
    assert await stand.source.header_by_hash(head.header.hash) == head.header


async def test_every_header_names_the_one_before_it_and_time_never_runs_back(stand: Stand):
    stand.script.mine(4)
    headers = [await stand.header(height) for height in range(stand.script.height() + 1)]
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
    assert await stand.source.header_by_hash(UNKNOWN) is None


async def test_finalized_height_follows_the_chains_own_notion(stand: Stand):
    stand.script.mine(8)
    head = await stand.source.head()
    assert head.finalized_height == head.header.height - FINALITY_LAG
    stand.script.mine()
    assert (await stand.source.head()).finalized_height == head.finalized_height + 1


# Whole blocks


async def test_empty_block_pays_nobody(stand: Stand):
    stand.script.mine()
    read = await stand.read(stand.script.new_address())
    assert (list(read.transfers), read.recipients) == ([], frozenset())


async def test_coin_payment_is_seen_with_its_block_sender_and_evidence(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 123)
    stand.script.mine()
    header = await stand.header()
    read = await stand.read(ours)
    (seen,) = read.transfers
    assert read.header == header
    assert seen.transfer == f"{stand.source.chain}/{tx}/value"
    assert (seen.asset, seen.to, int(seen.amount)) == (coin_of(stand.script.chain_id), ours, 123)
    assert seen.block is not None
    assert (seen.block.height, seen.block.hash, seen.block.time) == (
        header.height,
        header.hash,
        header.time,
    )
    assert seen.sender.startswith("0x")
    assert seen.evidence.method
    assert watching(ours) <= read.recipients


async def test_money_for_others_is_no_transfer_and_its_receiver_is_remembered(stand: Stand):
    others = stand.script.new_address()
    stand.script.pay_coin(others, 123)
    stand.script.mine()
    read = await stand.read(stand.script.new_address())
    assert list(read.transfers) == []
    assert watching(others) <= read.recipients


async def test_failed_transaction_with_value_pays_nothing(stand: Stand):
    refuser, _ = stand.script.pay_refused(5)
    stand.script.mine()
    read = await stand.read(refuser)
    assert list(read.transfers) == []
    assert sum(read.ignored.values()) == 1


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
    ours, first = stand.script.new_address(), stand.script.height() + 1
    for amount in range(1, 8):
        stand.script.pay_coin(ours, amount)
        stand.script.mine(1 + amount % 3)
    stand.script.mine(FINALITY_LAG)
    last = await stand.header((await stand.source.head()).finalized_height)
    ranged = await stand.source.read_range(first, last, watching(ours))
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
    before = await stand.source.read_block(header, watching(ours))
    stand.script.reorganise(1)
    try:
        after = await stand.source.read_block(header, watching(ours))
    except Retryable:
        return
    assert after.transfers == before.transfers


async def test_one_node_alone_is_no_second_opinion(stand: Stand):
    assert not await stand.source.agree(await stand.header())


# Looking up what a customer named


async def looked_up(stand: Stand, tx: str, *ours: str) -> TransactionLookedUp:
    return await stand.source.look_up(tx, watching(*ours))


async def test_unknown_transaction_is_looked_up_as_unknown(stand: Stand):
    answer = await looked_up(stand, UNKNOWN)
    assert (answer.state, answer.tx, answer.block) == (LookedUpState.UNKNOWN, UNKNOWN, None)
    assert answer.chain == stand.source.chain
    assert answer.request == ""


async def test_waiting_transaction_is_pending_and_then_included(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5)
    assert (await looked_up(stand, tx, ours)).state is LookedUpState.PENDING
    stand.script.mine()
    answer = await looked_up(stand, tx, ours)
    assert answer.state is LookedUpState.INCLUDED
    assert list(answer.pays) == [f"{stand.source.chain}/{tx}/value"]
    assert answer.block is not None
    assert answer.block.hash == (await stand.header()).hash


async def test_transaction_id_is_found_in_any_letter_case(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5)
    stand.script.mine()
    answer = await looked_up(stand, "0x" + tx[2:].upper(), ours)
    assert answer.state is LookedUpState.INCLUDED


async def test_failed_transaction_is_looked_up_as_failed_and_pays_nothing(stand: Stand):
    refuser, tx = stand.script.pay_refused(5)
    stand.script.mine()
    answer = await looked_up(stand, tx, refuser)
    assert (answer.state, answer.pays) == (LookedUpState.FAILED, ())


async def test_transaction_to_others_is_included_and_pays_us_nothing(stand: Stand):
    tx = stand.script.pay_coin(stand.script.new_address(), 5)
    stand.script.mine()
    answer = await looked_up(stand, tx, stand.script.new_address())
    assert (answer.state, answer.pays) == (LookedUpState.INCLUDED, ())


async def test_transaction_that_a_reorganisation_took_is_no_longer_included(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_coin(ours, 5)
    stand.script.mine()
    stand.script.reorganise(1)
    assert (await looked_up(stand, tx, ours)).state is not LookedUpState.INCLUDED


# The rest of the promise


async def test_history_reaches_blocks_that_are_there(stand: Stand):
    stand.script.pay_coin(stand.script.new_address(), 5)
    stand.script.mine()
    assert await stand.source.history_reaches(stand.script.height())


async def test_waiting_for_a_change_ends_in_time_and_never_raises(stand: Stand):
    await stand.source.wait_for_change(0.01)


async def test_node_that_is_gone_is_an_error_and_never_nothing(stand: Stand):
    gone = source_of(stand.script, urls=["http://127.0.0.1:9"])
    for ask in (gone.start, gone.head, gone.identify):
        with pytest.raises(Retryable):
            await ask()
    with pytest.raises(Retryable):
        await gone.header_by_hash(UNKNOWN)
    with pytest.raises(Retryable):
        await gone.look_up(UNKNOWN, frozenset())
    await gone.close()


# What an address holds


async def test_balance_is_that_after_the_block_and_not_a_later_one(stand: Stand):
    ours = stand.script.new_address()
    coin = coin_of(stand.script.chain_id)
    before = await stand.header()
    stand.script.pay_coin(ours, 123)
    stand.script.mine()
    paid = await stand.header()
    stand.script.pay_coin(ours, 1)
    stand.script.mine()
    held = [await stand.source.balance_at(coin, ours, header) for header in (before, paid)]
    assert held == [0, 123]
    assert await stand.source.balance_at(coin, ours.lower(), await stand.header()) == 124


async def test_balance_of_a_block_that_left_the_chain_is_refused(stand: Stand):
    ours = stand.script.new_address()
    stand.script.mine(2)
    gone = await stand.header()
    stand.script.reorganise(1)
    with pytest.raises(Retryable):
        await stand.source.balance_at(coin_of(stand.script.chain_id), ours, gone)


# Chains with contracts: tokens and inner calls


async def test_token_balance_is_that_of_the_listed_contract(stand: Stand):
    ours = stand.script.new_address()
    token = token_of(stand.script.chain_id, stand.script.token)
    stand.script.pay_token(ours, 25_000_000)
    stand.script.mine()
    assert await stand.source.balance_at(token, ours, await stand.header()) == 25_000_000
    assert (
        await stand.source.balance_at(token, stand.script.new_address(), await stand.header()) == 0
    )


async def test_coin_of_an_inner_call_is_in_the_balance_whoever_traces(stand: Stand):
    ours = stand.script.new_address()
    stand.script.pay_inside(ours, 5)
    stand.script.mine()
    coin = coin_of(stand.script.chain_id)
    assert await stand.source.balance_at(coin, ours, await stand.header()) == 5


async def test_token_payment_is_the_first_log_of_its_own_receipt(stand: Stand):
    ours = stand.script.new_address()
    stand.script.pay_token(stand.script.new_address(), 1)
    tx = stand.script.pay_token(ours, 25_000_000)
    stand.script.mine()
    (seen,) = (await stand.read(ours)).transfers
    assert seen.transfer == f"{stand.source.chain}/{tx}/log:0"
    assert seen.asset == token_of(stand.script.chain_id, stand.script.token)
    assert int(seen.amount) == 25_000_000


async def test_minted_token_is_a_payment(stand: Stand):
    ours = stand.script.new_address()
    stand.script.mint(ours, 7)
    stand.script.mine()
    assert [told(one) for one in (await stand.read(ours)).transfers] == [("log:0", ours, 7)]


async def test_unlisted_token_and_zero_token_pay_nothing(stand: Stand):
    ours = stand.script.new_address()
    stand.script.pay_unlisted(ours, 25_000_000)
    stand.script.pay_token(ours, 0)
    stand.script.mine()
    assert list((await stand.read(ours)).transfers) == []


async def test_unlisted_token_is_looked_up_as_included_and_paying_nothing(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_unlisted(ours, 25_000_000)
    stand.script.mine()
    answer = await looked_up(stand, tx, ours)
    assert (answer.state, answer.pays) == (LookedUpState.INCLUDED, ())


async def test_coin_of_an_inner_call_is_seen_at_its_place_in_the_tree(stand: Stand):
    ours = stand.script.new_address()
    tx = stand.script.pay_inside(ours, 9)
    stand.script.mine()
    assert stand.source.blind_spots() == []
    (seen,) = (await stand.read(ours)).transfers
    assert seen.transfer == f"{stand.source.chain}/{tx}/call:0"
    assert int(seen.amount) == 9


async def test_inner_call_under_a_failed_frame_pays_nothing(stand: Stand):
    ours = stand.script.new_address()
    stand.script.pay_in_vain(ours, 9)
    stand.script.mine()
    assert list((await stand.read(ours)).transfers) == []


async def test_equal_payments_in_one_transaction_are_all_seen_and_apart(stand: Stand):
    ours, token = stand.script.new_address(), stand.script.token
    legs = [Leg(ours, 9, token), Leg(ours, 9, token), Leg(ours, 4), Leg(ours, 4)]
    stand.script.pay_many(legs)
    stand.script.mine()
    seen = [told(one) for one in (await stand.read(ours)).transfers]
    assert sorted(seen) == sorted(
        [("log:0", ours, 9), ("log:1", ours, 9), ("call:2", ours, 4), ("call:3", ours, 4)]
    )


async def test_contract_of_ours_that_sends_half_on_received_the_other_half(stand: Stand):
    onward = stand.script.new_address()
    ours = stand.script.new_forwarder(onward)
    stand.script.pay_coin(ours, 100)
    stand.script.mine()
    (seen,) = (await stand.read(ours)).transfers
    assert int(seen.amount) == 50
    assert {int(leg.amount) for leg in seen.evidence.gross_legs} == {100, 50}


async def test_range_with_tokens_inner_calls_and_failures_equals_its_blocks(stand: Stand):
    ours, first = stand.script.new_address(), stand.script.height() + 1
    stand.script.pay_token(ours, 1)
    stand.script.pay_inside(ours, 2)
    stand.script.mine()
    stand.script.pay_in_vain(ours, 3)
    stand.script.pay_unlisted(ours, 4)
    stand.script.mine()
    stand.script.pay_many([Leg(ours, 5), Leg(ours, 6, stand.script.token)])
    stand.script.mint(ours, 7)
    stand.script.mine(1 + FINALITY_LAG)
    last = await stand.header((await stand.source.head()).finalized_height)
    ranged = await stand.source.read_range(first, last, watching(ours))
    single = [
        seen
        for height in range(first, last.height + 1)
        for seen in (await stand.read(ours, height=height)).transfers
    ]
    assert sorted(int(one.amount) for one in single) == [1, 2, 5, 6, 7]
    assert sorted(map(told, ranged.transfers)) == sorted(map(told, single))
