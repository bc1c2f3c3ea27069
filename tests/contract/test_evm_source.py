"""What sources of chains with contracts show besides: tokens, inner calls, failures, finality, balances.

On every way of reading that the devnet has, and on anvil. What all chains promise is in
`test_chain_source.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from chains.errors import CatalogueDiffers, Retryable
from schemas.facts import LookedUpState
from tests.parts.chain_scripts import FINALITY_LAG, Leg
from tests.parts.chain_stand import EVM_STANDS, Stand, rows, source_of, standing_on, told
from tests.parts.listing import catalogue_of, coin_of, token_of


@pytest.fixture(params=rows(EVM_STANDS))
async def stand(request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    async with standing_on(request.param) as stand:
        yield stand


# The chain and its blocks


async def test_other_decimals_than_the_catalogues_stop_the_start(stand: Stand):
    script = stand.script
    listed = catalogue_of(script.chain_id, script.token, decimals=18)
    wrong = source_of(script, catalogue=listed)
    with pytest.raises(CatalogueDiffers, match="expected 18 decimals, found 6"):
        await wrong.start()
    await wrong.close()


async def test_finalized_height_follows_the_chains_own_notion(stand: Stand):
    stand.script.mine(8)
    head = await stand.source.head()
    assert head.finalized_height == head.header.height - FINALITY_LAG
    stand.script.mine()
    assert (await stand.source.head()).finalized_height == head.finalized_height + 1


async def test_empty_block_credits_nobody_at_all(stand: Stand):
    stand.script.mine()
    assert (await stand.read(stand.script.new_address())).recipients == frozenset()


async def test_coin_is_seen_with_its_sender(stand: Stand):
    ours = stand.script.new_address()
    stand.script.pay_coin(ours, 123)
    stand.script.mine()
    (seen,) = (await stand.read(ours)).transfers
    assert seen.sender.startswith("0x")


async def test_failed_transaction_with_value_pays_nothing(stand: Stand):
    refuser, _ = stand.script.pay_refused(5)
    stand.script.mine()
    read = await stand.read(refuser)
    assert list(read.transfers) == []
    assert sum(read.ignored.values()) == 1


async def test_failed_transaction_is_looked_up_as_failed_and_pays_nothing(stand: Stand):
    refuser, tx = stand.script.pay_refused(5)
    stand.script.mine()
    answer = await stand.look_up(tx, refuser)
    assert (answer.state, answer.pays) == (LookedUpState.FAILED, ())


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
    answer = await stand.look_up(tx, ours)
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
    ranged = await stand.source.read_range(first, last, stand.watching(ours))
    single = [
        seen
        for height in range(first, last.height + 1)
        for seen in (await stand.read(ours, height=height)).transfers
    ]
    assert sorted(int(one.amount) for one in single) == [1, 2, 5, 6, 7]
    assert sorted(map(told, ranged.transfers)) == sorted(map(told, single))
