"""A block's header, and the work in it.

Pure. Whether `bits` are what the chain demanded at this height only the headers before can say; here
the work is held against what the header itself claims, and the claim against the chain's limit.
"""

from __future__ import annotations

import hashlib
from struct import Struct as Layout
from typing import Final

from msgspec import Struct

from chains.errors import AnswerRefused
from chains.utxo.merkle import double_sha256, shown
from chains.utxo.rules import BlockRules

HEADER_BYTES: Final = 80
#: The nonce is the last of its six fields.
NONCE_AT: Final = 76
_LAYOUT: Final = Layout("<i32s32sIII")
_SIGN: Final = 0x0080_0000
_SCRYPT_N: Final = 1024


class RawHeader(Struct, frozen=True, kw_only=True):
    """One header. `hash` and `parent_hash` as people see them, `merkle_root` as bytes on the wire.

    **Units**: `time_s` in seconds since 1970.
    """

    hash: str
    parent_hash: str
    version: int
    merkle_root: bytes
    time_s: int
    bits: int


def read_header(data: bytes) -> RawHeader:
    """Read the first 80 bytes. **Raises**: `AnswerRefused` where there are fewer."""
    if len(data) < HEADER_BYTES:
        message = f"expected a header of {HEADER_BYTES} bytes, found {len(data)}"
        raise AnswerRefused(message)
    version, parent, root, time_s, bits, _ = _LAYOUT.unpack_from(data)
    return RawHeader(
        hash=shown(double_sha256(data[:HEADER_BYTES])),
        parent_hash=shown(parent),
        version=version,
        merkle_root=root,
        time_s=time_s,
        bits=bits,
    )


def write_header(
    *, version: int, parent: bytes, merkle_root: bytes, time_s: int, bits: int, nonce: int
) -> bytes:
    """Write a header from its fields, hashes as bytes on the wire."""
    return _LAYOUT.pack(version, parent, merkle_root, time_s, bits, nonce)


def require_work(worked: bytes, bits: int, rules: BlockRules) -> None:
    """Hold the 80 bytes that were worked on (the block's own, or its parent's) against a target.

    **Raises**: `AnswerRefused`.
    """
    target = target_of(bits, rules)
    found = int.from_bytes(work_hash(worked, rules), "little")
    if found > target:
        message = f"the header's work is {found:064x}, its bits {bits:08x} ask for {target:064x}"
        raise AnswerRefused(message)


def work_hash(worked: bytes, rules: BlockRules) -> bytes:
    """Hash 80 bytes as the chain's miners do."""
    if rules.work == "sha256d":
        return double_sha256(worked)
    return hashlib.scrypt(worked, salt=worked, n=_SCRYPT_N, r=1, p=1, dklen=32)


def target_of(bits: int, rules: BlockRules) -> int:
    """Give the number that `bits` stand for.

    **Raises**: `AnswerRefused` for one that is negative, zero, or easier than the chain allows.
    **Source**: Bitcoin Core pow.cpp CheckProofOfWork, arith_uint256.cpp SetCompact.
    """
    exponent, mantissa = bits >> 24, bits & (_SIGN - 1)
    shift = 8 * (exponent - 3)
    target = mantissa << shift if shift >= 0 else mantissa >> -shift
    if bits & _SIGN or not 0 < target <= rules.target_max:
        message = f"bits {bits:08x} name no target of {rules.coin}"
        raise AnswerRefused(message)
    return target


def may_follow(bits: int, parent_bits: int, height: int, rules: BlockRules) -> bool:
    """Tell whether a block at a height may name these bits after its parent's.

    Work cannot be faked, but an easy target could be claimed: this bounds how fast it falls. Whether it is
    the one that the chain demands takes the headers of weeks, which nodes check. True where nothing is
    known of the chain's rule. **Source**: Bitcoin Core pow.cpp, PermittedDifficultyTransition.
    """
    rule = rules.retarget
    if rule is None or height < rule.since:
        return True
    if height % rule.every:
        return bits == parent_bits
    most = target_of(parent_bits, rules) * rule.easier[0] // rule.easier[1]
    return target_of(bits, rules) <= most
