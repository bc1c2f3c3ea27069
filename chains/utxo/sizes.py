"""Counts and lengths in raw bytes (CompactSize).

Pure. A reader looks at the first byte by itself, for nearly all are short, and comes here for the
longer ones. Reading beyond the end raises IndexError, which the block's reader turns into a refusal.
"""

from __future__ import annotations

from typing import Final

from chains.errors import AnswerRefused

#: From this first byte on, the number stands in the bytes behind it.
LONG: Final = 0xFD
_BYTES: Final = {0xFD: 2, 0xFE: 4, 0xFF: 8}
_LEAST: Final = {0xFD: 0xFD, 0xFE: 0x1_0000, 0xFF: 0x1_0000_0000}


def read_size(data: bytes, at: int) -> tuple[int, int]:
    """Give the number at a place, and the place behind it.

    **Raises**: `AnswerRefused` where the number is written longer than it must be (the transaction
    would hash to another id here than in a node) or counts more than there are bytes; IndexError
    beyond the end.
    **Source**: Bitcoin Core serialize.h, ReadCompactSize.
    """
    first = data[at]
    if first < LONG:
        return first, at + 1
    end = at + 1 + _BYTES[first]
    found = int.from_bytes(data[at + 1 : end], "little")
    if found < _LEAST[first]:
        message = f"the number {found} at byte {at} is written longer than it must be, or cut off"
        raise AnswerRefused(message)
    if found > len(data) - end:
        message = f"byte {at} counts {found}, but only {max(0, len(data) - end)} bytes follow"
        raise AnswerRefused(message)
    return found, end


def write_size(number: int) -> bytes:
    """Write a number below 2^64 in its one shortest form."""
    if number < LONG:
        return bytes([number])
    first, width = next(row for row in _BYTES.items() if number < 1 << (8 * row[1]))
    return bytes([first]) + number.to_bytes(width, "little")
