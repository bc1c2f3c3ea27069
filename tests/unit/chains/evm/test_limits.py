"""Whoever pays writes the transaction: however large it is, what we say of it has a largest size."""

from __future__ import annotations

from datetime import UTC, datetime

from chains.catalog import load_catalogue
from chains.evm.frames import moves_of
from chains.evm.listed import listed_on
from chains.evm.parse import (
    GROSS_LEGS_MAX,
    PATH_CHARACTERS_MAX,
    Reading,
    inner_position,
    transfers_in,
)
from chains.evm.wire import CallFrame, Log, Receipt, Transaction
from chains.evm.words import TRANSFER_TOPIC
from chains.told import TOLD_MAX, told
from reconciler.stream.promise import MESSAGE_BYTES_MAX
from schemas.caip import ChainName
from schemas.codec import decode_as, encode
from schemas.facts import LookedUpState, TransactionLookedUp, TransferSeen
from schemas.values import BlockRef

CHAIN = ChainName("eip155:1")
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
USDT = "0xdac17f958d2ee523a2206206994597c13d831ec7"
TX = f"0x{'a' * 64}"
STRANGER, OURS, ALSO_OURS = (f"0x{number:040x}" for number in (0x57, 0x0A, 0x0B))


def reading(*watched: str) -> Reading:
    return Reading(
        listed=listed_on(CHAIN, load_catalogue()),
        watched=frozenset(bytes.fromhex(text[2:]) for text in watched),
        block=BlockRef(height=1, hash=f"0x{'b' * 64}", time=NOON),
        seen_at=NOON,
        node="node.example",
        method="receipts",
    )


def log(sender: str, to: str, amount: int) -> Log:
    topics = [TRANSFER_TOPIC, f"0x{sender[2:]:0>64}", f"0x{to[2:]:0>64}"]
    return Log(address=USDT, topics=topics, data=f"0x{amount:064x}")


def seen_in(logs: list[Log], tree: CallFrame | None = None, *, to: str = OURS) -> list:
    transaction = Transaction(hash=TX, from_=STRANGER, to=STRANGER)
    receipt = Receipt(
        transaction_hash=TX, block_hash="", cumulative_gas_used="0x0", logs=logs, status="0x1"
    )
    moves = moves_of(tree) if tree else []
    return transfers_in(transaction, receipt, moves, reading(to, ALSO_OURS))


def test_evidence_of_thousands_of_legs_keeps_the_largest_in_their_order_and_counts_the_rest():
    arrived = [log(STRANGER, OURS, 10_000 + number) for number in range(5_000)]
    sent = [log(OURS, STRANGER, 1) for _ in range(4_000)]
    sent[2_000] = log(OURS, STRANGER, 9_000)
    found = seen_in([*arrived, *sent])
    evidence = [seen.evidence for seen in found if seen.evidence.gross_legs]
    assert len(evidence) == 1
    legs = evidence[0].gross_legs
    assert len(legs) == GROSS_LEGS_MAX
    assert [leg.amount for leg in legs] == list(range(14_950, 15_000))
    assert evidence[0].gross_legs_left_out == 9_000 - GROSS_LEGS_MAX
    assert max(len(encode(seen)) for seen in found) < 50_000


def test_a_few_legs_are_all_there_and_none_is_left_out():
    (seen,) = seen_in([log(STRANGER, OURS, 5), log(OURS, STRANGER, 2)])
    assert seen.amount == 3
    assert [leg.amount for leg in seen.evidence.gross_legs] == [5, 2]
    assert seen.evidence.gross_legs_left_out == 0


def nested(depth: int, *, calls_before: int) -> CallFrame:
    """A payment so deep inside other calls, each made after some others."""
    frame = CallFrame(type="CALL", from_=STRANGER, to=OURS, value="0x5")
    for _ in range(depth):
        others = [CallFrame(type="CALL", from_=STRANGER, to=STRANGER)] * calls_before
        frame = CallFrame(type="CALL", from_=STRANGER, to=STRANGER, calls=[*others, frame])
    return frame


def test_a_payment_hundreds_of_calls_deep_has_a_name_that_fits():
    (seen,) = seen_in([], nested(700, calls_before=11))
    (other,) = seen_in([], nested(701, calls_before=11))
    assert seen.transfer != other.transfer
    assert decode_as(TransferSeen, encode(seen)) == seen
    assert seen == seen_in([], nested(700, calls_before=11))[0]


def test_only_a_path_that_is_too_long_gives_way_to_a_number():
    longest = "0." * (PATH_CHARACTERS_MAX // 2 - 1) + "12"
    assert len(longest) == PATH_CHARACTERS_MAX
    assert inner_position(longest) == f"call:{longest}"
    assert len(inner_position(f"{longest}3")) == len("call:") + 40


def test_an_answer_about_thousands_of_payments_names_one_of_every_address_first():
    many = [log(STRANGER, OURS, 1) for _ in range(8_000)]
    found = seen_in([*many, log(STRANGER, ALSO_OURS, 1)])
    names = told(found)
    assert len(names) == TOLD_MAX
    assert names[:3] == (found[0].transfer, found[-1].transfer, found[1].transfer)
    answer = TransactionLookedUp(
        request="r" * 256,
        chain=CHAIN,
        tx=TX,
        state=LookedUpState.INCLUDED,
        pays=tuple("x" * 256 for _ in names),
    )
    assert len(encode(answer)) < MESSAGE_BYTES_MAX // 2
