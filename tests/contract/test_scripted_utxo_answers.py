"""What the scripted Bitcoin node answers has the shape of what a real one answers, and its words.

litecoind is of Bitcoin Core 0.21; the scripted node speaks as 27 does. What changed between them, and
what Litecoin added, is named here, and nothing else may differ.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from chains.devnet import Devnet
from tests.parts.litecoind.node import Litecoind
from tests.parts.utxo_devnet import DevnetUtxoScript, asked, refusal
from tests.parts.utxo_node import NodeRefused
from tests.parts.utxo_script import UtxoScript

pytestmark = pytest.mark.litecoind

Ask = Callable[..., Any]
UNKNOWN = "12" * 32
#: Fields that one of both has: since 0.21 Core gives one address and what a transaction paid for its place,
#: and no list of rules; outputs in the extension block are Litecoin's own. Witnesses are the payer's affair.
DIFFERENT = {
    "reqSigs", "addresses", "address", "fee", "softforks", "ismweb", "txinwitness",
}  # fmt: skip


@pytest.fixture(scope="module")
def real() -> Iterator[UtxoScript]:
    with Litecoind() as node:
        script = UtxoScript(node)
        script.mine()
        yield script


@pytest.fixture
async def scripted() -> AsyncIterator[DevnetUtxoScript]:
    async with Devnet() as devnet:
        yield DevnetUtxoScript(devnet, "litecoin-regtest")


def fields(value: Any, path: str = "") -> set[str]:
    """Name every field and the type of what stands in it; of a list its last row counts."""
    if isinstance(value, dict):
        inner = [fields(one, f"{path}/{name}") for name, one in value.items()]
        return set().union(*inner) if inner else set()
    if isinstance(value, list):
        return fields(value[-1], f"{path}[]") if value else set()
    kind = "number" if isinstance(value, int | float) else type(value).__name__
    return set() if DIFFERENT & set(path.replace("[]", "").split("/")) else {f"{path} {kind}"}


def story(script: UtxoScript | DevnetUtxoScript, ask: Ask) -> dict[str, set[str]]:
    tx = script.pay_coin(script.new_address(), 50_000)
    found = {"waiting": ask("getrawtransaction", tx, 1)}
    script.mine()
    best = ask("getbestblockhash")
    found |= {
        "header": ask("getblockheader", best, True),
        "ids": ask("getblock", best, 1),
        "block": ask("getblock", best, 2),
        "within": ask("getrawtransaction", tx, 1, best),
        "output": ask("gettxout", tx, 0, False),
        "chain": ask("getblockchaininfo"),
        "first": ask("getblockheader", ask("getblockhash", 0)),
    }
    found["chain"].pop("time", None)  # that of the best block, since Core 23
    return {name: fields(answer) for name, answer in found.items()}


def test_every_answer_has_the_fields_of_a_real_node(
    real: UtxoScript, scripted: DevnetUtxoScript
) -> None:
    def ask(method: str, *params: Any) -> Any:
        return asked(scripted.node, method, *params)

    assert story(scripted, ask) == story(real, real.ask)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("getblock", ["12"]),
        ("getblock", ["zz" * 32]),
        ("getblock", [UNKNOWN, 0]),
        ("getblockheader", [UNKNOWN]),
        ("getblockhash", [99_999]),
        ("getblockhash", [-1]),
        ("getrawtransaction", [UNKNOWN, 0]),
        ("getrawtransaction", ["12"]),
        ("getrawtransaction", [UNKNOWN, 0, UNKNOWN]),
        ("sendrawtransaction", ["00"]),
        ("getblocks", []),
    ],
)
def test_every_error_has_the_code_and_words_of_a_real_node(
    real: UtxoScript, scripted: DevnetUtxoScript, method: str, params: list[Any]
) -> None:
    with pytest.raises(NodeRefused) as refused:
        real.ask(method, *params)
    told = refusal(scripted.node, method, *params)
    assert told["code"] == refused.value.code
    assert told["message"] in str(refused.value)
