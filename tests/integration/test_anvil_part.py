"""The anvil that tests are given is real: it mines when it is told to and takes blocks back."""

from __future__ import annotations

from urllib.error import URLError

import pytest

from tests.parts.anvil.node import AnvilNode, AnvilRefused

RECEIVER = "0x" + "11" * 20


def has(anvil: AnvilNode) -> int:
    return int(anvil.ask("eth_getBalance", RECEIVER, "latest"), 16)


@pytest.mark.anvil
def test_blocks_come_on_command_and_leave_on_command(anvil: AnvilNode):
    tx = anvil.send(to=RECEIVER, value=5)
    assert (anvil.height, has(anvil)) == (0, 0)
    anvil.mine(2)
    assert (anvil.height, has(anvil)) == (2, 5)
    anvil.reorganise(2, [(anvil.raw_transaction(tx), 1)])
    assert anvil.ask("eth_getTransactionReceipt", tx)["blockNumber"] == "0x2"
    anvil.rewind(1)
    assert (anvil.height, has(anvil)) == (1, 0)
    anvil.mine(9)
    assert anvil.ask("eth_getBlockByNumber", "finalized", False)["number"] == hex(10 - 4)


@pytest.mark.anvil
def test_errors_of_the_node_come_out_in_its_own_words(anvil: AnvilNode):
    with pytest.raises(AnvilRefused, match="Method not found"):
        anvil.ask("eth_doWhatIMean")


@pytest.mark.anvil
def test_frozen_node_accepts_and_never_answers(anvil: AnvilNode, monkeypatch):
    monkeypatch.setattr("tests.parts.anvil.node.CALL_TIMEOUT_S", 0.2)
    anvil.freeze()
    with pytest.raises((TimeoutError, URLError)):
        anvil.ask("eth_blockNumber")
    anvil.thaw()
    monkeypatch.undo()
    assert anvil.height == 0
