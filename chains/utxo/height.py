"""The height that a coinbase names (BIP 34).

Pure. A raw block says nowhere else how high it stands.
"""

from __future__ import annotations

from typing import Final

from chains.utxo.rules import BlockRules
from chains.utxo.sizes import read_size
from chains.utxo.transactions import OUTPOINT_BYTES

#: Heights of one to five bytes are pushed with their length before them.
_PUSHED_MAX: Final = 5
_VERSION_MIN: Final = 2
_SIGN: Final = 0x80


def height_in_coinbase(data: bytes, inputs_at: int, version: int, rules: BlockRules) -> int | None:
    """Give the height in the script of a walked coinbase; None where it need not be one.

    Numbers below the first height that must be named are no word of it: what stood there before was
    free. **Source**: BIP 34; Bitcoin Core script/script.h, CScriptNum.
    """
    _, first_at = read_size(data, inputs_at)
    length, at = read_size(data, first_at + OUTPOINT_BYTES)
    width = data[at] if length else 0
    pushed = data[at + 1 : at + 1 + width]
    if version < _VERSION_MIN or not 0 < width <= min(_PUSHED_MAX, length - 1):
        return None
    if pushed[-1] & _SIGN:
        return None
    height = int.from_bytes(pushed, "little")
    return height if height >= rules.coinbase_height_from else None
