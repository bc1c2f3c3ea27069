"""From a block's outputs to the transfers that reach addresses of ours.

Pure. Reads what `chains.utxo.block` found, writes `TransferSeen`; asks no node and keeps nothing. An output
is what it is: who paid it, with what fee and by which wallet decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec import Struct, field

from chains.utxo.address import address_of_script
from chains.utxo.block import Paid
from chains.utxo.networks import Network
from schemas.amounts import BaseUnits
from schemas.caip import AssetName
from schemas.facts import Evidence, FoundBy, TransferSeen
from schemas.values import BlockRef, transfer_id

_OP_RETURN: Final = 0x6A
_OP_CHECKSIG: Final = 0xAC
_OP_CHECKMULTISIG: Final = 0xAE
#: How long a key is, and with its length before and an opcode behind it.
_KEYS: Final = {33: 35, 65: 67}
#: OP_0, and OP_1 to OP_16: the versions of a witness, and the numbers of a multisignature.
_NUMBERS: Final = frozenset({0, *range(0x51, 0x61)})
_PROGRAM_BYTES: Final = range(2, 41)


class Telling(Struct, kw_only=True):
    """What to write beside what is found. `block` is None for the mempool; `ignored` is filled on the way."""

    network: Network
    asset: AssetName
    block: BlockRef | None
    seen_at: datetime
    node: str
    method: str = "block"
    found_by: FoundBy = FoundBy.WATCH
    ignored: Counter[str] = field(default_factory=Counter)


def transfers_of(paid: Iterable[Paid], telling: Telling) -> list[TransferSeen]:
    """Give a transfer for each output that has an address and an amount; count the others by reason."""
    found = []
    for one in paid:
        address = address_of_script(telling.network, one.script)
        if address is None:
            telling.ignored[kind_of(one.script)] += 1
        elif not one.amount:
            telling.ignored["zero_value"] += 1
        else:
            found.append(_write(one, address.display, telling))
    return found


def _write(one: Paid, to: str, telling: Telling) -> TransferSeen:
    chain = telling.network.chain
    return TransferSeen(
        transfer=transfer_id(chain, one.txid, f"out:{one.index}"),
        chain=chain,
        asset=telling.asset,
        sender="",
        to=to,
        amount=BaseUnits(one.amount),
        block=telling.block,
        first_seen_at=telling.seen_at,
        evidence=Evidence(method=telling.method, node=telling.node),
        found_by=telling.found_by,
        spends=one.spends,
        coinbase=one.coinbase,
    )


def kind_of(script: bytes) -> str:
    """Name what an output script without an address is: a reason of `ignored`.

    Witness versions that have no rules are among them, Litecoin's doors into its extension block too.
    """
    if not script:
        return "empty_script"
    first, last = script[0], script[-1]
    if first == _OP_RETURN:
        return "op_return"
    if _KEYS.get(first) == len(script) and last == _OP_CHECKSIG:
        return "public_key"
    if first in _NUMBERS and last == _OP_CHECKMULTISIG:
        return "bare_multisig"
    if first in _NUMBERS and len(script) - 2 in _PROGRAM_BYTES and script[1] == len(script) - 2:
        return "unknown_witness"
    return "unknown_script"
