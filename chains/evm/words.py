"""Words of the EVM's JSON: hex numbers, hashes, topics. Bytes and integers from the first step on.

Pure. Nodes differ in letter case, in `0x` and `0X`, and in padding; nothing behind this file sees it.
"""

from __future__ import annotations

from typing import Final

from chains.errors import AnswerRefused
from chains.typed import find_hash

#: keccak256("Transfer(address,address,uint256)"): ERC-20, ERC-721 and EIP-7708 share it.
TRANSFER_TOPIC: Final = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"

HASH_CHARACTERS: Final = 66
_ADDRESS_CHARACTERS: Final = 42


def integer(text: str) -> int:
    """Read a hex number. **Raises**: `AnswerRefused` for anything that is not 0x and hex digits."""
    if text[:2] in {"0x", "0X"} and text[2:].isalnum() and text.isascii():
        try:
            return int(text, 16)
        except ValueError:
            pass
    message = f"expected a hex number, found {text[:80]!r}"
    raise AnswerRefused(message)


def raw(text: str) -> bytes:
    """Read hex bytes of any length. **Raises**: `AnswerRefused`."""
    if text[:2] in {"0x", "0X"} and text.isascii() and not any(map(str.isspace, text)):
        try:
            return bytes.fromhex(text[2:])
        except ValueError:
            pass
    message = f"expected hex bytes, found {text[:80]!r}"
    raise AnswerRefused(message)


def address(text: str) -> bytes:
    """Read 20 bytes, or the empty text's absence. **Raises**: `AnswerRefused`."""
    found = raw(text) if len(text) == _ADDRESS_CHARACTERS else b""
    if not found:
        message = f"expected an address, found {text[:80]!r}"
        raise AnswerRefused(message)
    return found


def hash_text(text: str) -> str:
    """Write a 32-byte hash in the one form that we compare: 0x and lower case."""
    if len(text) != HASH_CHARACTERS:
        message = f"expected a hash of 32 bytes, found {text[:80]!r}"
        raise AnswerRefused(message)
    return f"0x{raw(text).hex()}"


def find_transaction_id(text: str) -> str | None:
    """Find the one 32-byte hash in what a person typed; None when there is none, or several."""
    found = find_hash(text)
    return None if found is None else f"0x{found}"
