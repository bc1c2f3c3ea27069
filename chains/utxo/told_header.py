"""A header as nodes tell it in JSON, made into the bytes that it stands for.

Pure. Nothing in it is believed: what the bytes hash to is compared by whoever asked.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from chains.errors import AnswerRefused
from chains.utxo.header import HEADER_BYTES, NONCE_AT, read_header, write_header
from chains.utxo.merkle import HASH_BYTES, shown

Word = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]
Version = Annotated[int, Meta(ge=-(2**31), le=2**32 - 1)]
Height = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class ToldHeader(Struct, kw_only=True):
    """The fields that are read. `parent` is missing where the chain begins."""

    hash: str
    height: Height
    version: Version
    merkle_root: str = field(name="merkleroot")
    time: Word
    bits: str
    nonce: Word
    parent: str | None = field(default=None, name="previousblockhash")


def header_bytes(told: ToldHeader) -> bytes:
    """Write a header's 80 bytes. **Raises**: `AnswerRefused` where they cannot be."""
    return write_header(
        version=signed_version(told.version),
        parent=digest_of(told.parent) if told.parent else bytes(HASH_BYTES),
        merkle_root=digest_of(told.merkle_root),
        time_s=told.time,
        bits=int.from_bytes(bytes_of(told.bits)[:4].rjust(4, b"\0"), "big"),
        nonce=told.nonce,
    )


def told_of(data: bytes, height: int) -> ToldHeader:
    """Tell 80 bytes as a node would. **Raises**: `AnswerRefused` where there are fewer."""
    header = read_header(data)
    return ToldHeader(
        hash=header.hash,
        height=height,
        version=header.version,
        merkle_root=shown(header.merkle_root),
        time=header.time_s,
        bits=f"{header.bits:08x}",
        nonce=int.from_bytes(data[NONCE_AT:HEADER_BYTES], "little"),
        parent=header.parent_hash,
    )


def signed_version(version: int) -> int:
    """Give a version as the wire has it: newer nodes write it without a sign."""
    return version - 2**32 if version >= 2**31 else version


def hash_of(text: str) -> str:
    """Give a hash in its one form. **Raises**: `AnswerRefused` for what is none."""
    return shown(digest_of(text))


def digest_of(text: str) -> bytes:
    """Give a hash's bytes on the wire for what people see. **Raises**: `AnswerRefused`."""
    found = bytes_of(text)
    if len(found) != HASH_BYTES:
        message = f"expected a hash of {HASH_BYTES} bytes, found {text[:80]!r}"
        raise AnswerRefused(message)
    return found[::-1]


def bytes_of(text: str) -> bytes:
    """Give the bytes of hex text. **Raises**: `AnswerRefused`."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        message = f"expected hex, found {text[:80]!r}"
        raise AnswerRefused(message) from None
