"""What pays us and what only looks so: the cases of fakes, tokens and decodes, one block each."""

from __future__ import annotations

import pytest

from chains.catalog import Asset, CatalogueError, load_catalogue
from chains.errors import AnswerRefused
from chains.evm import parse
from chains.evm.frames import Move
from chains.evm.listed import listed_on
from schemas.caip import ChainName
from tests.parts.evm_answers import (
    ATTACKER,
    NOBODY,
    PAY,
    PAYER,
    T0,
    TX,
    US,
    USDC,
    USDT,
    log,
    pad,
    reading,
    receipt,
    transaction,
    word,
)

FORWARDER = "0x2222222222222222222222222222222222222222"


def seen(reading_, tx, receipt_, moves=None):
    found = parse.transfers_of_block([(tx, receipt_, moves)], reading_)
    return [(one.transfer.rpartition("/")[2], int(one.amount)) for one in found]


def test_a_false_return_with_status_1_and_no_log_pays_nothing():
    """CH-F01."""
    calldata = transaction(to=USDT)
    assert seen(reading(), calldata, receipt()) == []


def test_a_look_alike_token_pays_nothing_and_is_counted():
    """CH-F02."""
    at = reading(chain="eip155:56")
    fake = log(address="0x6d8bcb1fa9fb81002ea0653b87b365389b217293", amount=10 * 10**18)
    assert seen(at, transaction(), receipt(fake)) == []
    assert at.ignored == {"unlisted_contract": 1}


def test_a_zero_transfer_by_a_stranger_pays_nothing_and_is_counted():
    """CH-F03."""
    at = reading()
    poisoned = receipt(log(amount=0, address=USDC))
    assert seen(at, transaction(from_=ATTACKER), poisoned) == []
    assert at.ignored == {"zero_value": 1}


def test_a_failed_transaction_pays_nothing_whatever_it_carries():
    """CH-F05."""
    at = reading()
    failed = receipt(log(amount=5), status="0x0")
    assert seen(at, transaction(to=PAY, value="0x16345785d8a0000"), failed) == []
    assert at.ignored == {"failed_transaction": 1}


def test_an_nft_is_ignored_and_the_other_logs_still_count():
    """CH-T01."""
    at = reading()
    nft = log(
        address="0xd112f302969901fedd28756efe8170b80c746ccc",
        topics=[T0, pad(PAYER), pad(PAY), word(669)],
        data="0x",
    )
    assert seen(at, transaction(), receipt(nft, log(amount=3))) == [("log:1", 3)]
    assert at.ignored == {"not_fungible": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"topics": [T0.upper().replace("0X", "0x"), pad(PAYER), pad(PAY)]},
        {"topics": [T0.upper(), pad(PAYER).upper(), pad(PAY).upper()]},
        {"address": "0xdAC17F958D2ee523a2206206994597C13D831ec7"},
        {"address": USDT.upper()},
        {"data": word(255).upper()},
    ],
)
def test_letter_case_of_the_node_changes_nothing(change):
    """CH-T02, CH-R12, CH-R13."""
    at = reading()
    assert seen(at, transaction(), receipt(log(amount=255, **{"data": word(255), **change}))) == [
        ("log:0", 255)
    ]


def test_of_a_fee_on_transfer_only_our_leg_counts():
    """CH-T04."""
    both = receipt(log(amount=99_900_000), log(to=ATTACKER, amount=100_000))
    assert seen(reading(), transaction(), both) == [("log:0", 99_900_000)]


def test_equal_transfers_of_one_transaction_are_as_many_payments():
    """CH-T05."""
    many = receipt(*(log(amount=1_314) for _ in range(150)))
    found = seen(reading(), transaction(), many)
    assert found == [(f"log:{place}", 1_314) for place in range(150)]


@pytest.mark.parametrize(
    ("chain", "mirror"),
    [
        ("eip155:137", "0x0000000000000000000000000000000000001010"),
        ("eip155:1", "0xfffffffffffffffffffffffffffffffffffffffe"),
    ],
)
def test_a_log_that_repeats_a_move_of_the_coin_is_not_credited_beside_it(chain, mirror):
    """CH-T06, EIP-7708."""
    at = reading(chain=chain)
    moved = receipt(log(address=mirror, amount=10**17))
    assert seen(at, transaction(to=PAY, value=hex(10**17)), moved) == [("value", 10**17)]
    assert at.ignored == {"coin_mirror": 1}


def test_a_contract_that_mirrors_the_coin_cannot_be_listed():
    mirror = Asset(
        id="eip155:137/erc20:0x0000000000000000000000000000000000001010",
        symbol="POL",
        name="the coin again",
        decimals=18,
        asset_class="volatile",
        dust="1",
        amount_max="10",
        source="a test",
        verified_at="2026-11-30",
    )
    with pytest.raises(CatalogueError, match="mirrors the chain's coin"):
        listed_on(ChainName("eip155:137"), load_catalogue().with_more([], [mirror]))


def test_a_mint_to_us_pays_and_a_burn_from_us_takes_nothing_from_it():
    """CH-T07."""
    minted = receipt(log(sender=NOBODY, amount=25_000_000, address=USDC))
    assert seen(reading(), transaction(), minted) == [("log:0", 25_000_000)]
    burnt = receipt(log(sender=PAY, to=NOBODY, amount=25_000_000))
    assert seen(reading(), transaction(from_=PAY), burnt) == []


def test_an_inner_call_pays_by_its_path():
    """CH-T08."""
    moves = [Move("0.2", bytes(20), US, 5 * 10**17)]
    assert seen(reading(), transaction(to=FORWARDER), receipt(), moves) == [
        ("call:0.2", 5 * 10**17)
    ]


def test_an_absurd_amount_is_carried_as_it_is():
    """CH-T11: whether it is believed is decided behind the facts."""
    absurd = 2**256 - 2980
    assert seen(reading(), transaction(), receipt(log(amount=absurd))) == [("log:0", absurd)]


@pytest.mark.parametrize(
    "change",
    [
        {"data": "0x"},
        {"data": "0x01"},
        {"data": word(1) + "00"},
        {"topics": [T0, "0x" + "f" * 24 + PAYER[2:], pad(PAY)]},
        {"topics": [T0, pad(PAYER), "0x" + "f" * 24 + PAY[2:]]},
    ],
)
def test_a_listed_contracts_log_of_another_shape_is_counted_and_not_decoded(change):
    at = reading()
    assert seen(at, transaction(), receipt(log(**change))) == []
    assert at.ignored == {"malformed_log": 1}


@pytest.mark.parametrize("topic", ["0x", "0x" + "g" * 64, pad(PAY)[:-1], pad(PAY) + "0"])
def test_a_topic_that_is_no_word_refuses_the_answer(topic):
    with pytest.raises(AnswerRefused):
        seen(reading(), transaction(), receipt(log(topics=[T0, pad(PAYER), topic])))


def test_a_creation_pays_the_address_that_its_receipt_names():
    created = receipt(contract_address=PAY, to=None)
    assert seen(reading(), transaction(to=None, value="0x9"), created) == [("value", 9)]


def test_what_an_address_sends_on_reduces_its_last_leg_and_both_stay_as_evidence():
    at = reading(FORWARDER)
    legs = receipt(
        log(to=FORWARDER, amount=50),
        log(to=FORWARDER, amount=30),
        log(sender=FORWARDER, to=ATTACKER, amount=40),
    )
    found = parse.transfers_of_block([(transaction(), legs, None)], at)
    assert [(one.transfer.rpartition("/")[2], int(one.amount)) for one in found] == [("log:0", 40)]
    gross = found[0].evidence.gross_legs
    assert [(leg.position, int(leg.amount)) for leg in gross] == [
        ("log:0", 50),
        ("log:1", 30),
        ("log:2", 40),
    ]
    assert at.ignored == {"passed_on": 1}


def test_what_is_sent_on_whole_pays_nothing():
    at = reading(FORWARDER)
    moves = [
        Move("", bytes.fromhex(PAYER[2:]), bytes.fromhex(FORWARDER[2:]), 100),
        Move("0", bytes.fromhex(FORWARDER[2:]), bytes.fromhex(ATTACKER[2:]), 100),
    ]
    assert seen(at, transaction(to=FORWARDER, value="0x64"), receipt(), moves) == []
    assert at.ignored == {"passed_on": 1}


def test_a_transfer_to_oneself_pays_nothing():
    own = receipt(log(sender=PAY, to=PAY, amount=7))
    assert seen(reading(), transaction(from_=PAY), own) == []


def test_netting_is_per_asset_and_address():
    at = reading(PAY, FORWARDER)
    both = receipt(
        log(amount=10),
        log(sender=PAY, to=FORWARDER, amount=4),
        log(address=USDC, amount=6),
    )
    assert seen(at, transaction(), both) == [("log:0", 6), ("log:1", 4), ("log:2", 6)]


def test_frames_that_tell_another_story_than_the_transaction_refuse_the_answer():
    moves = [Move("", bytes.fromhex(PAYER[2:]), US, 4)]
    with pytest.raises(AnswerRefused, match="the block says 5"):
        seen(reading(), transaction(to=PAY, value="0x5"), receipt(), moves)


def test_a_receipt_without_status_refuses_the_answer_and_an_old_one_never_pays():
    with pytest.raises(AnswerRefused, match="no status"):
        seen(reading(), transaction(), receipt(log(), status=None))
    assert seen(reading(), transaction(), receipt(log(), status=None, root=word(1))) == []


def test_a_transfer_says_where_it_stands_and_what_cannot_come_back():
    (one,) = parse.transfers_of_block(
        [(transaction(nonce="0xff"), receipt(log(amount=3, log_index="0x1f")), None)], reading()
    )
    assert one.transfer == f"eip155:1/{TX}/log:0"
    assert one.asset == "eip155:1/erc20:0xdAC17F958D2ee523a2206206994597C13D831ec7"
    assert one.to == PAY
    assert one.nonce_of == "0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa:255"
    assert one.evidence.block_log_index == 31
    assert (one.evidence.method, one.evidence.node) == ("receipts", "node.example")


def test_all_who_were_paid_are_named_whether_ours_or_not():
    at = reading()
    seen(at, transaction(to=FORWARDER, value="0x5"), receipt(log(to=ATTACKER)), None)
    assert at.recipients == {bytes.fromhex(FORWARDER[2:]), bytes.fromhex(ATTACKER[2:])}
