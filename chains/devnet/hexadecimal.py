"""How a node writes numbers, hashes and addresses, and how a script may write them.

Reads text, gives bytes and back. Knows nothing of blocks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from eth_hash.auto import keccak as _keccak
from eth_utils.address import to_checksum_address

ZERO_ADDRESS: Final = bytes(20)


class ScriptError(ValueError):
    """A script asks for something that no chain could do; says what was found."""


def keccak(content: bytes) -> bytes:
    """Hash with Keccak-256."""
    return bytes(_keccak(content))


def quantity(number: int) -> str:
    """Write a number as JSON-RPC does: no leading zeros."""
    return hex(number)


def data(content: bytes) -> str:
    """Write bytes as JSON-RPC does."""
    return "0x" + content.hex()


def bytes_of(text: str, *, length: int | None = None) -> bytes:
    """Read `0x…` in any letter case. **Raises**: `ScriptError` naming the length it expected."""
    content = _content(text)
    if content is None or length not in {None, len(content)}:
        expected = "bytes" if length is None else f"{length} bytes"
        message = f"expected {expected} as 0x…, found {text[:100]!r}"
        raise ScriptError(message)
    return content


def _content(text: str) -> bytes | None:
    if text[:2] not in {"0x", "0X"}:
        return None
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        return None


@lru_cache(maxsize=65_536)
def address_bytes(text: str) -> bytes:
    """Read an address in any letter case. **Raises**: `ScriptError`."""
    return bytes_of(text, length=20)


def hash_bytes(text: str) -> bytes:
    """Read a 32-byte hash in any letter case. **Raises**: `ScriptError`."""
    return bytes_of(text, length=32)


@lru_cache(maxsize=65_536)
def checksummed(address: bytes) -> str:
    """Write an address with its EIP-55 checksum."""
    return str(to_checksum_address(address))


def word(value: int | bytes) -> bytes:
    """Pad a number or an address to 32 bytes, as the ABI does."""
    return value.to_bytes(32, "big") if isinstance(value, int) else value.rjust(32, b"\0")
