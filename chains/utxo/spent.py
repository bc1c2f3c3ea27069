"""Which transaction of a block spent which output: made when it is first asked for.

The loop asks only while something is lost in a reorganisation, and a block spends thousands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from chains.utxo.merkle import HASH_BYTES, shown
from chains.utxo.sizes import read_size
from chains.utxo.transactions import OUTPOINT_BYTES, SEQUENCE_BYTES

#: A transaction of thousands of inputs must fit into a message several times over. One spent input is
#: enough to prove that it cannot come back; of one that is longer only these are followed.
SPENDS_MAX: Final = 1_000
#: Every output to us is a message of its own that names what its transaction spends. A standard
#: transaction may have a thousand inputs and a thousand outputs at once, and would become 70 MB of
#: messages: so many outpoints are named by all of its outputs together.
_NAMED_BY_ALL_MAX: Final = 20_000


def spends_max(outputs: int) -> int:
    """Give how many outpoints a transfer names, one at least. It hangs on the transaction alone."""
    return max(1, min(SPENDS_MAX, _NAMED_BY_ALL_MAX // outputs))


def outpoints_at(data: bytes, at: int, *, at_most: int | None = None) -> list[str]:
    """Give what the inputs that begin at a place spend, as `<txid>:<n>`, of bytes that were walked."""
    count, at = read_size(data, at)
    found = []
    for _ in range(count if at_most is None else min(count, at_most)):
        index = int.from_bytes(data[at + HASH_BYTES : at + OUTPOINT_BYTES], "little")
        found.append(f"{shown(data[at : at + HASH_BYTES])}:{index}")
        length, at = read_size(data, at + OUTPOINT_BYTES)
        at += length + SEQUENCE_BYTES
    return found


class SpentOutpoints(Mapping[str, str]):
    """A block's spent outputs, `<txid>:<n>` to the id of the transaction that spent it."""

    def __init__(self, data: bytes, inputs_at: Sequence[int], txids: Sequence[bytes]) -> None:
        self._bytes: tuple[bytes, Sequence[int], Sequence[bytes]] | None = (data, inputs_at, txids)
        self._made: dict[str, str] = {}

    def __getitem__(self, outpoint: str) -> str:
        return self._all()[outpoint]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, str]:
        if self._bytes is not None:
            data, inputs_at, txids = self._bytes
            # The first transaction makes coins and spends nothing.
            for at, txid in zip(inputs_at[1:], txids[1:], strict=True):
                self._made.update(dict.fromkeys(outpoints_at(data, at), shown(txid)))
            self._bytes = None
        return self._made
