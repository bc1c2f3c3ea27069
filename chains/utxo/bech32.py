"""bech32 and bech32m: what a segregated witness output's address is written in.

Pure. Reads text, gives the human-readable part, the witness version and the program, and back.
Knows no network: `chains.utxo.address` says whose the human-readable part is.

Ours, because none of the libraries fits: bitcoinlib takes a second to import, writes into the home
folder and says no reason that a shop could act on; `bech32` has no bech32m; `bech32m` imports a name
that Python is taking away.

**Source**: BIP 173 (bitcoin/bips 01111ed), BIP 350 (0310d9e), BIP 141 for the lengths of programs.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import reduce
from operator import xor
from typing import Final

from msgspec import Struct

from chains.addresses import AddressError

_CHARACTERS: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_VALUES: Final = {character: value for value, character in enumerate(_CHARACTERS)}
_GENERATORS: Final = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
#: What five bits that leave at the top add to the rest: the generators of those that are set.
_CARRIES: Final = tuple(
    reduce(xor, (each for place, each in enumerate(_GENERATORS) if top >> place & 1), 0)
    for top in range(32)
)

#: Base 32 as Python reads it, so that a whole program is one call.
_TO_BASE_32: Final = str.maketrans(_CHARACTERS, "0123456789abcdefghijklmnopqrstuv")
_WRITTEN: Final = re.compile(f"[{_CHARACTERS}]+", re.ASCII)

TEXT_MAX: Final = 90
_CHECKSUM_CHARACTERS: Final = 6
_VERSION_MAX: Final = 16
_PROGRAM_BYTES: Final = range(2, 41)
#: A version 0 program is the hash of a key or of a script. Source: BIP 141.
_PROGRAM_BYTES_V0: Final = (20, 32)
#: Bits behind the last byte: five would be a value too many.
_SPARE_BITS_MAX: Final = 4


class Checksum(IntEnum):
    """Which of the two checksums a text carries: the number is what a right one leaves over."""

    BECH32 = 1
    BECH32M = 0x2BC830A3


class Witness(Struct, frozen=True):
    """A witness program under the human-readable part that it was written with."""

    hrp: str
    version: int
    program: bytes


def read_witness(text: str) -> Witness:
    """Read a segregated witness address of any network.

    **Raises**: `AddressError` `address_checksum` where letters were changed, also where the checksum is
    of the wrong kind for its version; `address_malformed` for everything else.
    """
    hrp, values, checksum = read_text(text)
    if not values:
        raise _malformed(text, "has no witness version")
    version = values[0]
    if version > _VERSION_MAX:
        raise _malformed(text, f"has witness version {version}; there are 0 to {_VERSION_MAX}")
    expected = Checksum.BECH32 if version == 0 else Checksum.BECH32M
    if checksum is not expected:
        sentence = (
            f"{text} has the checksum of {checksum.name.lower()}; "
            f"witness version {version} needs that of {expected.name.lower()}"
        )
        raise AddressError("address_checksum", sentence)
    program = _bytes_of(values[1:], text)
    if len(program) not in (_PROGRAM_BYTES_V0 if version == 0 else _PROGRAM_BYTES):
        raise _malformed(text, f"has {len(program)} bytes, which version {version} has not")
    return Witness(hrp, version, program)


def write_witness(hrp: str, version: int, program: bytes) -> str:
    """Write a segregated witness address, in lower case. The program's length is the caller's to know."""
    checksum = Checksum.BECH32 if version == 0 else Checksum.BECH32M
    return write_text(hrp, bytes([version, *_values_of(program)]), checksum)


def program_of_key(digits: str) -> bytes:
    """Give the program of what stands between the version and the checksum of an address of our own.

    Nothing is checked but the shape. **Raises**: ValueError.
    """
    spare = len(digits) * 5 % 8
    if spare > _SPARE_BITS_MAX or not _WRITTEN.fullmatch(digits):
        message = f"expected a witness program, found {digits[:100]!r}"
        raise ValueError(message)
    return (int(digits.translate(_TO_BASE_32), 32) >> spare).to_bytes(len(digits) * 5 // 8, "big")


def read_text(text: str) -> tuple[str, bytes, Checksum]:
    """Read any bech32 text: human-readable part, values of 5 bits, and which checksum is right.

    **Raises**: `AddressError` `address_malformed` or `address_checksum`.
    """
    if len(text) > TEXT_MAX:
        raise _malformed(text, f"has {len(text)} characters; at most {TEXT_MAX} are written")
    if not all(33 <= ord(character) <= 126 for character in text):
        raise _malformed(text, "has characters that no keyboard key writes")
    if text not in {text.lower(), text.upper()}:
        raise _malformed(text, "mixes capital and small letters")
    hrp, _, rest = text.lower().rpartition("1")
    if not hrp or len(rest) < _CHECKSUM_CHARACTERS:
        raise _malformed(text, "has no 1 between a prefix and six characters at least")
    values = bytes(_VALUES.get(character, 255) for character in rest)
    if 255 in values:
        raise _malformed(text, f"has {rest[values.index(255)]!r}, which is not written here")
    rest_of_division = _remainder(hrp, values)
    if rest_of_division not in set(Checksum):
        sentence = f"the checksum of {text} is wrong: letters or digits were changed"
        raise AddressError("address_checksum", sentence)
    return hrp, values[:-_CHECKSUM_CHARACTERS], Checksum(rest_of_division)


def write_text(hrp: str, values: bytes, checksum: Checksum) -> str:
    """Write any bech32 text of values of 5 bits, in lower case."""
    left_over = _remainder(hrp, values + bytes(_CHECKSUM_CHARACTERS)) ^ checksum
    check = bytes(left_over >> 5 * place & 31 for place in reversed(range(_CHECKSUM_CHARACTERS)))
    return f"{hrp}1{''.join(_CHARACTERS[value] for value in values + check)}"


def _remainder(hrp: str, values: bytes) -> int:
    """Divide by the code's polynomial."""
    expanded = bytes([*(ord(c) >> 5 for c in hrp), 0, *(ord(c) & 31 for c in hrp)])
    found = 1
    for value in expanded + values:
        found = (found & 0x1FFFFFF) << 5 ^ value ^ _CARRIES[found >> 25]
    return found


def _bytes_of(values: bytes, text: str) -> bytes:
    """Join values of 5 bits to bytes. The rest must be less than a value, and zero."""
    number = 0
    for value in values:
        number = number << 5 | value
    spare = len(values) * 5 % 8
    if spare > _SPARE_BITS_MAX or number & ((1 << spare) - 1):
        raise _malformed(text, "ends in bits that belong to no byte")
    return (number >> spare).to_bytes(len(values) * 5 // 8, "big")


def _values_of(program: bytes) -> bytes:
    """Cut bytes into values of 5 bits, the last filled up with zeros."""
    count = -(-len(program) * 8 // 5)
    number = int.from_bytes(program, "big") << count * 5 - len(program) * 8
    return bytes(number >> 5 * place & 31 for place in reversed(range(count)))


def _malformed(text: str, what: str) -> AddressError:
    return AddressError("address_malformed", f"{text[:100]!r} {what}")
