import pytest

from chains.port import Step
from reconciler.stream.promise import Lane, partition_of
from reconciler.stream.topics import transfers_topic
from reconciler.watch.publishing import messages_of
from schemas.codec import FACT_KINDS, decode
from schemas.envelope import from_headers
from schemas.facts import AddressCovered, LookedUpState, TransactionLookedUp, TransferDropped
from schemas.values import transfer_id
from tests.parts.scripted_loop import CHAIN, NOON, address_number, retracted, seen, watermark

TOPIC = transfers_topic(CHAIN)


def published(*facts, lanes=3):
    return messages_of(Step(facts=facts), CHAIN, lanes=lanes, now=NOON)


def test_a_fact_about_an_address_goes_to_the_lane_of_that_address_alone():
    for number in range(20):
        address = address_number(number)
        (message,) = published(seen(number, address, 5))
        assert message.key == address.encode()
        assert message.lane == Lane(TOPIC, partition_of(address.encode(), 3))


def test_the_key_is_canonical_whatever_letters_the_fact_shows():
    shown = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
    (message,) = published(seen(1, shown, 5))
    assert message.key == shown.lower().encode()


@pytest.mark.parametrize(
    "fact",
    [
        watermark(5),
        retracted(5),
        TransactionLookedUp(request="r", chain=CHAIN, tx="0x1", state=LookedUpState.UNKNOWN),
    ],
)
def test_what_speaks_for_the_whole_chain_goes_to_every_lane(fact):
    assert [message.lane.partition for message in published(fact)] == [0, 1, 2]


def test_every_lane_has_the_order_of_the_step():
    facts = [retracted(6), retracted(5)]
    facts += [seen(number, address_number(number), 5, branch="b") for number in range(9)]
    facts += [watermark(5, branch="b")]
    for partition in range(3):
        lane = [m for m in published(*facts) if m.lane.partition == partition]
        decoded = [
            decode(from_headers(m.headers, default_time=NOON).type, m.value, FACT_KINDS)
            for m in lane
        ]
        assert decoded == [fact for fact in facts if fact in decoded]
        assert decoded[0] == facts[0]
        assert decoded[-1] == facts[-1]


def test_the_same_fact_has_the_same_id_whenever_it_is_published():
    def identity(fact):
        return from_headers(published(fact)[0].headers, default_time=NOON).id

    address = address_number(1)
    dropped = TransferDropped(
        transfer=transfer_id(CHAIN, "0x1", "value"),
        chain=CHAIN,
        to=address,
        replaced_by=None,
        reason="nonce_used",
    )
    covered = AddressCovered(chain=CHAIN, address=address, from_height=3, from_time=NOON)
    facts = [
        seen(1, address, 5),
        seen(2, address, 5),
        seen(1, address, 6),
        seen(1, address, 5, branch="b"),
        dropped,
        covered,
        retracted(5),
        retracted(6),
        watermark(5),
        watermark(6),
        watermark(6, upto=1),
        watermark(6, from_height=5),
        watermark(6, log_id="log-2"),
    ]
    identities = [identity(fact) for fact in facts]
    assert identities == [identity(fact) for fact in facts]
    assert len(set(identities)) == len(facts)


def test_headers_are_those_of_a_cloud_event():
    (message,) = published(seen(1, address_number(1), 5), lanes=1)
    headers = dict(message.headers)
    assert headers["ce_type"] == b"TransferSeen"
    assert headers["ce_specversion"] == b"1.0"
    assert headers["ce_subject"] == address_number(1).encode()
    assert headers["ce_time"] == b"2026-11-30T12:00:00Z"
