"""Litecoin's extension block (MWEB), stepped over.

Pure. Its amounts are hidden and its outputs are nobody's that we watch: what leaves it comes out as an
ordinary output of the block's last transaction (the HogEx), which is read like any other. Its own bytes
are walked to find their end, so that nothing hides behind them; no hash of ours covers them. Features
that are not known yet are passed over as nodes do: they add no bytes, and a miner may set them.

**Source**: Litecoin Core libmw models Block, Header, TxBody, Input, Output, Kernel, PegOutCoin; LIP 0003.
"""

from __future__ import annotations

from typing import Final

from chains.errors import AnswerRefused
from chains.utxo.sizes import read_size

_PRESENT: Final = 1
_HASH: Final = 32
_POINT: Final = 33
_SIGNATURE: Final = 64
_RANGE_PROOF: Final = 675
#: Roots of outputs, kernels and leaves, and the two offsets.
_HEADER_HASHES: Final = 5 * _HASH
#: A key, a view tag, the masked value and nonce.
_STANDARD_FIELDS: Final = _POINT + 1 + 8 + 16
#: A number of 64 bits in groups of seven.
_GROUPS_MAX: Final = 10
_MORE: Final = 0x80


def past_extension(data: bytes, at: int) -> int:
    """Give the place behind the extension block that begins here.

    **Raises**: `AnswerRefused` for what is none; IndexError where the bytes end too early, or a place
    behind their end.
    """
    if data[at] != _PRESENT:
        message = f"expected an extension block at byte {at}, found {data[at]:#04x}"
        raise AnswerRefused(message)
    at = _past_number(data, at + 1) + _HEADER_HASHES
    at = _past_number(data, _past_number(data, at))
    for step in (_past_input, _past_output, _past_kernel):
        count, at = read_size(data, at)
        for _ in range(count):
            at = step(data, at)
    return at


def _past_number(data: bytes, at: int) -> int:
    for place in range(at, at + _GROUPS_MAX):
        if not data[place] & _MORE:
            return place + 1
    message = f"the number at byte {at} does not end"
    raise AnswerRefused(message)


def _past_bytes(data: bytes, at: int) -> int:
    length, at = read_size(data, at)
    return at + length


def _past_input(data: bytes, at: int) -> int:
    features = data[at]
    at += 1 + _HASH + 2 * _POINT
    if features & 1:
        at += _POINT
    if features & 2:
        at = _past_bytes(data, at)
    return at + _SIGNATURE


def _past_output(data: bytes, at: int) -> int:
    at += 3 * _POINT
    features = data[at]
    at += 1
    if features & 1:
        at += _STANDARD_FIELDS
    if features & 2:
        at = _past_bytes(data, at)
    return at + _RANGE_PROOF + _SIGNATURE


def _past_kernel(data: bytes, at: int) -> int:
    features = data[at]
    at += 1
    if features & 1:
        at = _past_number(data, at)
    if features & 2:
        at = _past_number(data, at)
    if features & 4:
        count, at = read_size(data, at)
        for _ in range(count):
            at = _past_bytes(data, _past_number(data, at))
    if features & 8:
        at = _past_number(data, at)
    if features & 16:
        at += _POINT
    if features & 32:
        at = _past_bytes(data, at)
    return at + _POINT + _SIGNATURE
