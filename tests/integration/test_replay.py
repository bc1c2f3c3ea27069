"""Recorded traffic through the present rules: the same file gives the same bytes, each time."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from reconciler.cli import run
from schemas.amounts import BaseUnits
from schemas.codec import encode, kind_name
from schemas.commands import ClaimPaid, PlaceOrder
from schemas.facts import AddressCovered, Evidence, FoundBy, TransferSeen, Watermark
from schemas.values import BlockRef, transfer_id
from tests.parts.scripted_loop import address_number
from tests.parts.service import write_settings
from tests.parts.settings import CHAIN, SETTINGS, TOKEN

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
OURS = address_number(1)
TOPIC = "transfers.eip155-313371"


def line(topic, key, message, minutes, **more):
    time = (START + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")
    value = json.loads(encode(message))
    fields = {"topic": topic, "key": key, "type": kind_name(message), "time": time, "value": value}
    return json.dumps(fields | more) + "\n"


def block(height):
    return BlockRef(height=height, hash=f"0x{height:x}", time=START + timedelta(minutes=height))


def watermark(height, **more):
    mark = Watermark(
        chain=CHAIN,
        from_height=height,
        height=height,
        hash=f"0x{height:x}",
        parent_hash=f"0x{height - 1:x}",
        time=START + timedelta(minutes=height),
        finalized_height=0,
        read_at=START + timedelta(minutes=height),
        log_id="log-1",
        watchlist_upto=0,
    )
    return line(TOPIC, CHAIN, mark, height, **more)


def story(upto=10):
    """An order at minute 1, money in block 5, a block every minute."""
    place = PlaceOrder(
        idempotency_key="k1",
        reference="o-1",
        route="tusd-one",
        amount="25000000",
        address=OURS,
    )
    covered = AddressCovered(chain=CHAIN, address=OURS, from_height=1, from_time=START)
    seen = TransferSeen(
        transfer=transfer_id(CHAIN, "0x1", "log:0"),
        chain=CHAIN,
        asset=TOKEN,
        sender="",
        to=OURS,
        amount=BaseUnits(25_000_000),
        block=block(5),
        first_seen_at=block(5).time,
        evidence=Evidence(method="receipts"),
        found_by=FoundBy.WATCH,
    )
    claim = ClaimPaid(idempotency_key="k2", reference="o-1")
    return (
        [watermark(1), line("orders", "o-1", place, 1), line(TOPIC, OURS, covered, 1)]
        + [watermark(height) for height in range(2, 5)]
        + [line("orders", "o-1", claim, 4), line(TOPIC, OURS, seen, 5)]
        + [watermark(height) for height in range(5, upto)]
    )


@pytest.fixture
def replayed(tmp_path, capsys):
    def replay(lines, *, text=SETTINGS):
        path = write_settings(tmp_path, text=text)
        file = tmp_path / "messages.jsonl"
        file.write_text("".join(lines))
        code = run(["replay", str(file), "--config", str(path)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return replay


def lines_only(out):
    """What the command printed, without log lines of a test run that set no logs up."""
    return [text for text in out.splitlines() if text.startswith('{"topic"')]


def test_events_come_out_in_the_form_that_messages_go_in(replayed):
    code, out, _ = replayed(story())
    assert code == 0
    found = [json.loads(text) for text in lines_only(out)]
    assert [each["type"] for each in found] == [
        "payment.awaiting",
        "payment.claimed",
        "payment.detected",
        "payment.confirmed",
    ]
    assert {each["topic"] for each in found} == {"payment-events"}
    assert {each["key"] for each in found} == {"o-1"}
    assert [each["value"]["sequence"] for each in found] == [1, 2, 3, 4]
    assert found[-1]["time"] == "2026-11-30T12:07:00Z", "three deep at block 7"


def test_the_same_file_gives_the_same_bytes_each_time(replayed):
    first = lines_only(replayed(story())[1])
    assert first == lines_only(replayed(story())[1])
    assert first == lines_only(replayed(story())[1])


def test_another_policy_shows_what_it_would_have_done(replayed):
    text = SETTINGS.replace("depth = 3", "depth = 40")
    found = [json.loads(each) for each in lines_only(replayed(story(upto=60), text=text)[1])]
    confirmed = next(each for each in found if each["type"] == "payment.confirmed")
    assert confirmed["time"] == "2026-11-30T12:44:00Z"


def test_with_three_lanes_the_events_are_the_same(replayed):
    one = lines_only(replayed(story())[1])
    three = lines_only(replayed(story(), text=SETTINGS.replace("rpc =", "lanes = 3\nrpc ="))[1])
    assert three == one


def test_a_line_may_say_its_lane_and_how_far_orders_were_applied(replayed):
    lines = [
        watermark(height, partition=0, inbox_until="2026-11-30T12:00:00Z")
        for height in range(1, 120)
    ]
    code, out, _ = replayed([lines[0], *story()[1:3], *lines[1:]])
    assert code == 0
    assert [json.loads(each)["type"] for each in lines_only(out)] == ["payment.awaiting"], (
        "orders were applied up to noon only, so that nothing can have ended"
    )


def test_an_order_that_nobody_pays_ends_by_the_files_own_order(replayed):
    out = lines_only(replayed([*story()[:6], *(watermark(h) for h in range(5, 120))])[1])
    assert json.loads(out[-1])["type"] == "payment.expired"


def test_what_only_tells_what_came_out_is_passed_over(replayed):
    out = replayed(story())[1]
    code, again, err = replayed([*story(), *(text + "\n" for text in lines_only(out))])
    assert code == 0
    assert lines_only(again) == lines_only(out)
    assert "passed over: 4 of payment-events" in err


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("{\n", ["line 4"]),
        ("\n", ["line 4"]),
        ('{"topic":"orders"}\n', ["line 4", "key"]),
        (watermark(2, partition=7), ["line 4", "found 7", TOPIC]),
        (watermark(2).replace("Z", ""), ["line 4", "$.time"]),
    ],
)
def test_a_line_that_is_none_is_named_by_its_number(replayed, bad, words):
    code, _, err = replayed([*story()[:3], bad])
    assert code == 2
    for word in words:
        assert word in err


def test_nothing_of_the_service_is_touched(replayed, tmp_path):
    replayed(story())
    assert not list(tmp_path.glob("*.db*"))


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    path = write_settings(tmp_path)
    assert run(["replay", str(tmp_path / "none.jsonl"), "--config", str(path)]) == 2
    assert "none.jsonl" in capsys.readouterr().err


def test_refused_commands_are_told_with_their_line_and_nothing_stops(replayed):
    unknown = PlaceOrder(idempotency_key="k9", reference="o-9", route="nowhere", amount="1")
    junk = line("orders", "o-8", ClaimPaid(idempotency_key="k8", reference="o-8"), 4)
    lines = story()
    lines[4:4] = [
        line("orders", "o-9", unknown, 4),
        junk.replace("ClaimPaid", "ClaimGuessed"),
        junk,
    ]
    code, out, err = replayed(lines)
    assert code == 0
    assert lines_only(out) == lines_only(replayed(story())[1])
    assert "line 5: unknown_route: " in err
    assert "line 6: unknown_type: " in err
    assert "line 7: unknown_order: " in err, "its order never came"


def test_a_claim_above_its_order_waits_for_it(replayed):
    lines = story()
    claim = lines.pop(6)
    assert "ClaimPaid" in claim
    lines.insert(0, claim.replace("12:04", "12:00"))
    code, out, err = replayed(lines)
    assert code == 0
    assert "line 1" not in err
    assert [json.loads(each)["type"] for each in lines_only(out)][:2] == [
        "payment.awaiting",
        "payment.claimed",
    ]


def test_nothing_is_printed_after_a_bad_line(replayed):
    lines = story()
    code, out, err = replayed([*lines[:5], "no line at all\n", *lines[5:]])
    assert code == 2
    assert "line 6" in err
    kinds = [json.loads(each)["type"] for each in lines_only(out)]
    assert kinds == ["payment.awaiting"]


@pytest.mark.parametrize(
    ("topic", "type_name", "words"),
    [
        ("transfers.eip155-999", "Watermark", ["line 2", "transfers.eip155-999", TOPIC]),
        (TOPIC, "TransferSeem", ["line 2", "TransferSeen", "TransferSeem"]),
    ],
)
def test_facts_that_would_be_lost_are_refused(replayed, topic, type_name, words):
    strange = json.loads(watermark(2)) | {"topic": topic, "type": type_name}
    code, _, err = replayed([watermark(1), json.dumps(strange) + "\n"])
    assert code == 2
    for word in words:
        assert word in err


def test_without_a_word_on_the_inbox_the_later_of_reading_and_recording_counts(replayed):
    """The block is of minute 200 and was read then; the log says that it took it at minute 2."""
    early = json.loads(watermark(200, partition=0)) | {"time": "2026-11-30T12:02:00Z"}
    early["value"] |= {"from_height": 2, "parent_hash": "0x1"}
    code, out, _ = replayed([*story()[:3], json.dumps(early) + "\n"])
    assert code == 0
    assert json.loads(lines_only(out)[-1])["type"] == "payment.expired"
    code, out, _ = replayed([*story()[:3], json.dumps(early | {"inbox_until": None}) + "\n"])
    assert json.loads(lines_only(out)[-1])["type"] == "payment.awaiting"
