"""What each scripted payment moves, logs and shows to a tracer."""

from __future__ import annotations

import pytest

from chains.devnet.answers import receipt_answer
from chains.devnet.calls import Call, How, Payment, RawLog, Step, TokenMove
from chains.devnet.chain import ZERO, DevnetChain
from chains.devnet.execution import MIRROR_ADDRESS, SYSTEM_ADDRESS, Rules
from chains.devnet.hexadecimal import data
from chains.devnet.scripted import TRANSFER_TOPIC, FrameKind
from chains.devnet.tokens import TokenKind
from chains.devnet.traces import call_tracer_answer, flat_traces_answer
from chains.devnet.world import Seed

PAYER, SHOP, WALLET = "0x" + "aa" * 20, "0x" + "11" * 20, "0x" + "bb" * 20
T0 = data(TRANSFER_TOPIC)


@pytest.fixture
def chain() -> DevnetChain:
    return DevnetChain(Seed(chain_id=137), Rules())


def mined(chain: DevnetChain) -> list[dict]:
    chain.mine()
    block = chain.world.tree.head
    return [receipt_answer(block, one) for one in block.executed]


def pad(address: str) -> str:
    return "0x" + address[2:].rjust(64, "0")


def test_token_payment_logs_one_transfer_and_moves_it(chain: DevnetChain):
    token = chain.deploy_token("USDT", 6)
    chain.pay_token(token, PAYER, SHOP, 25_000_000)
    (receipt,) = mined(chain)
    (log,) = receipt["logs"]
    assert log["topics"] == [T0, pad(PAYER), pad(SHOP)]
    assert int(log["data"], 16) == 25_000_000
    assert chain.balance(SHOP, token) == 25_000_000


def test_token_that_returns_false_succeeds_without_log_or_money(chain: DevnetChain):
    token = chain.deploy_token("OLD", 18, kind=TokenKind.RETURNS_FALSE)
    chain.pay_token(token, PAYER, SHOP, 100)
    (receipt,) = mined(chain)
    assert (receipt["status"], receipt["logs"]) == ("0x1", [])
    assert chain.balance(SHOP, token) == 0


def test_fee_on_transfer_logs_net_and_fee(chain: DevnetChain):
    token = chain.deploy_token(
        "FEE", 6, kind=TokenKind.FEE_ON_TRANSFER, fee_basis_points=10, fee_to=WALLET
    )
    chain.pay_token(token, PAYER, SHOP, 100_000_000)
    (receipt,) = mined(chain)
    assert [int(log["data"], 16) for log in receipt["logs"]] == [99_900_000, 100_000]
    assert chain.balance(SHOP, token) == 99_900_000


def test_hidden_fee_logs_the_gross_amount_and_moves_less(chain: DevnetChain):
    token = chain.deploy_token("BAD", 6, kind=TokenKind.HIDDEN_FEE, fee_basis_points=100)
    chain.pay_token(token, PAYER, SHOP, 100_000_000)
    (receipt,) = mined(chain)
    assert [int(log["data"], 16) for log in receipt["logs"]] == [100_000_000]
    assert chain.balance(SHOP, token) == 99_000_000


def test_nft_has_its_id_in_a_fourth_topic_and_no_data(chain: DevnetChain):
    token = chain.deploy_token("NFT", 0, kind=TokenKind.NFT)
    chain.pay_token(token, PAYER, SHOP, 0x29D)
    (log,) = mined(chain)[0]["logs"]
    assert log["topics"] == [T0, pad(PAYER), pad(SHOP), pad("0x29d")]
    assert log["data"] == "0x"


def test_stranger_moves_zero_of_somebody_elses_token(chain: DevnetChain):
    token = chain.deploy_token("USDC", 6)
    chain.transfer_from(token, WALLET, PAYER, SHOP, 0)
    (receipt,) = mined(chain)
    assert receipt["from"] == WALLET
    assert int(receipt["logs"][0]["data"], 16) == 0


def test_mint_comes_from_the_zero_address(chain: DevnetChain):
    token = chain.deploy_token("USDC", 6)
    chain.mint_token(token, WALLET, SHOP, 5)
    (log,) = mined(chain)[0]["logs"]
    assert log["topics"][1] == pad(ZERO)
    assert chain.balance(SHOP, token) == 5


def test_two_equal_legs_of_one_batch_are_two_logs_and_the_coin_moves_inside(chain: DevnetChain):
    token = chain.deploy_token("USDC", 6)
    legs = [Payment(to=SHOP, amount=9, token=token)] * 2 + [Payment(to=SHOP, amount=4)]
    chain.pay_many(PAYER, legs, contract=WALLET)
    (receipt,) = mined(chain)
    assert [int(log["data"], 16) for log in receipt["logs"]] == [9, 9]
    assert chain.balance(SHOP, token) == 18
    assert chain.balance(SHOP) == 4


def test_failed_transaction_moves_nothing_and_still_costs_gas_and_nonce(chain: DevnetChain):
    chain.give_coin(PAYER, 10**18)
    chain.pay_coin(PAYER, SHOP, 10**17, How(fails="out of gas"))
    (receipt,) = mined(chain)
    assert receipt["status"] == "0x0"
    assert chain.balance(SHOP) == 0
    cost = int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
    assert chain.balance(PAYER) == 10**18 - cost
    assert chain.mined_nonce(bytes.fromhex("aa" * 20)) == 1


def test_failing_inner_frame_undoes_its_own_effects_and_no_others(chain: DevnetChain):
    token = chain.deploy_token("USDC", 6)
    move = Step(move=TokenMove(token=token, owner=PAYER, to=SHOP, amount=3))
    failing = Call(to=WALLET, value=2, steps=(move,), fails="execution reverted")
    working = Call(to=SHOP, value=1)
    chain.send(PAYER, Call(to=WALLET, value=9, steps=(Step(call=failing), Step(call=working))))
    (receipt,) = mined(chain)
    assert (receipt["status"], receipt["logs"]) == ("0x1", [])
    assert (chain.balance(SHOP), chain.balance(SHOP, token)) == (1, 0)
    (tree,) = call_tracer_answer(chain.world.tree.head)
    frames = tree["result"]["calls"]
    assert [(frame.get("error"), frame["value"]) for frame in frames] == [
        ("execution reverted", "0x2"),
        (None, "0x1"),
    ]


def test_delegatecall_shows_its_parents_value_and_acts_for_its_parent(chain: DevnetChain):
    inner = Call(to=SHOP, value=5)
    library = Call(kind=FrameKind.DELEGATECALL, to="0x" + "dd" * 20, steps=(Step(call=inner),))
    static = Call(kind=FrameKind.STATICCALL, to="0x" + "dd" * 20)
    chain.send(PAYER, Call(to=WALLET, value=7, steps=(Step(call=library), Step(call=static))))
    mined(chain)
    (tree,) = call_tracer_answer(chain.world.tree.head)
    delegate, static_frame = tree["result"]["calls"]
    assert (delegate["type"], delegate["value"]) == ("DELEGATECALL", "0x7")
    assert "value" not in static_frame
    assert delegate["calls"][0]["from"] == WALLET
    assert (chain.balance(SHOP), chain.balance(WALLET)) == (5, 2)


def test_selfdestruct_and_create_move_coin_and_show_in_both_tracers(chain: DevnetChain):
    chain.give_coin(WALLET, 8)
    steps = (
        Step(call=Call(kind=FrameKind.CREATE, value=3)),
        Step(call=Call(kind=FrameKind.SELFDESTRUCT, to=SHOP)),
    )
    chain.send(PAYER, Call(to=WALLET, steps=steps))
    mined(chain)
    (tree,) = call_tracer_answer(chain.world.tree.head)
    kinds = [(frame["type"], frame["value"]) for frame in tree["result"]["calls"]]
    assert kinds == [("CREATE", "0x3"), ("SELFDESTRUCT", "0x5")]
    flat = flat_traces_answer(chain.world.tree.head)
    assert [(row["type"], row["traceAddress"]) for row in flat] == [
        ("call", []),
        ("create", [0]),
        ("suicide", [1]),
    ]
    assert (chain.balance(SHOP), chain.balance(WALLET)) == (5, 0)


def test_coin_logs_come_first_and_from_the_system_address_and_die_with_their_frame():
    chain = DevnetChain(Seed(chain_id=1), Rules(coin_logs=True))
    log = Step(log=RawLog(address=WALLET, topics=(T0,)))
    failing = Call(to=SHOP, value=1, fails="execution reverted")
    chain.send(PAYER, Call(to=WALLET, value=2, steps=(log, Step(call=failing))))
    chain.pay_coin(PAYER, PAYER, 5)
    chain.pay_coin(PAYER, SHOP, 0)
    receipts = mined(chain)
    addresses = [log["address"] for log in receipts[0]["logs"]]
    assert addresses == [data(SYSTEM_ADDRESS), WALLET]
    assert [receipt["logs"] for receipt in receipts[1:]] == [[], []]


def test_mirror_contract_logs_the_coin_a_second_time():
    chain = DevnetChain(Seed(chain_id=137), Rules(mirror_logs=True))
    chain.pay_coin(PAYER, SHOP, 10**17)
    (receipt,) = mined(chain)
    assert {log["address"] for log in receipt["logs"]} == {data(MIRROR_ADDRESS)}
    by_topic = {log["topics"][0]: log for log in receipt["logs"]}
    assert by_topic[T0]["topics"][1:] == [pad(PAYER), pad(SHOP)]
    assert int(by_topic[T0]["data"], 16) == 10**17
    # the topic that Polygon's blocks have for a move of POL
    assert "0xe6497e3ee548a3372136af2fcb0696db31fc6cf20260707645068bd3fe97f3c4" in by_topic


def test_delegated_account_has_code_afterwards(chain: DevnetChain):
    chain.pay_coin(PAYER, SHOP, 1, How(type=4, authorizations=(WALLET,)))
    mined(chain)
    code = chain.world.ledger.code(bytes.fromhex("aa" * 20), chain.world.tree.head)
    assert code.hex() == "ef0100" + "bb" * 20
