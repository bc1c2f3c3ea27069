"""Blocks of Bitcoin-like chains made by hand: small, with every shape that a transaction has, and with work
that takes two tries.
"""

from __future__ import annotations

import struct

from msgspec.structs import replace

from chains.utxo.rules import BITCOIN, DOGECOIN, LITECOIN, BlockRules
from tests.parts.utxo_reference import In, Out, Tx, number, root_of, sized, twice

EASY_BITS = 0x207FFFFF
_EASY = {"work": "sha256d", "target_max": 2**255 - 1, "coinbase_height_from": 1}
EASY_BITCOIN = replace(BITCOIN, **_EASY)
EASY_LITECOIN = replace(LITECOIN, **_EASY)
EASY_DOGECOIN = replace(DOGECOIN, **_EASY)

NOTHING = bytes(32) + b"\xff" * 4
P2PKH = bytes.fromhex("76a914") + b"\x11" * 20 + bytes.fromhex("88ac")
P2SH = bytes.fromhex("a914") + b"\x22" * 20 + b"\x87"
P2WPKH = b"\x00\x14" + b"\x33" * 20
P2TR = b"\x51\x20" + b"\x44" * 32
HOG_ADDRESS = b"\x58\x20" + b"\x55" * 32
PEG_IN = b"\x59\x20" + b"\x66" * 32


class Everything:
    """Watches every script there is."""

    def __contains__(self, script: object, /) -> bool:
        return True

    def __len__(self) -> int:
        return 0


def outpoint(n: int, index: int = 0) -> bytes:
    return twice(struct.pack("<Q", n)) + struct.pack("<I", index)


def pay(*spends: bytes, to: list[tuple[int, bytes]], witness: bool = False, flags: int = 0) -> Tx:
    inputs = [
        In(
            spent,
            b"" if witness else b"\x47" * 71,
            b"\xfd\xff\xff\xff",
            [b"\x30" * 71, b"\x02" * 33],
        )
        for spent in spends
    ]
    outputs = [Out(amount, script) for amount, script in to]
    return Tx(struct.pack("<i", 2), inputs, outputs, bytes(4), flags | witness)


def coinbase(height: int, amount: int = 5_000_000_000, *, witness: bool = False) -> Tx:
    wide = (height.bit_length() + 8) // 8
    script = bytes([wide]) + height.to_bytes(wide, "little") + b"/made/"
    found = Tx(
        struct.pack("<i", 1),
        [In(NOTHING, script, b"\xff" * 4, [bytes(32)])],
        [Out(amount, P2PKH), Out(0, b"\x6a\x04abcd")],
        bytes(4),
    )
    found.flags = int(witness)
    return found


def header_over(root: bytes, *, version: int = 0x2000_0000, bits: int = EASY_BITS) -> bytes:
    return struct.pack("<i32s32sIII", version, b"\x77" * 32, root, 1_700_000_000, bits, 0)


def work_on(header: bytes) -> bytes:
    """Find a nonce; every second one will do."""
    for nonce in range(1_000):
        header = header[:76] + struct.pack("<I", nonce)
        if header_work(header) < 2**255 - 2**232:
            return header
    raise RuntimeError


def header_work(header: bytes) -> int:
    return int.from_bytes(twice(header), "little")


def block_of(txs: list[Tx], *, version: int = 0x2000_0000, after: bytes = b"") -> bytes:
    root = root_of([tx.txid() for tx in txs])
    body = number(len(txs)) + b"".join(tx.full() for tx in txs)
    if version & 0x100:
        header = header_over(root, version=version)
        return header + merged_work(header) + body + after
    return work_on(header_over(root, version=version)) + body + after


def merged_work(
    header: bytes,
    *,
    height: int = 2,
    nonce: int = 7,
    magic: bytes = b"\xfa\xbemm",
    before: bytes = b"\x03abc",
    witness: bool = False,
    parent_version: int = 0x2000_0000,
    size: int | None = None,
    slot: int | None = None,
    behind: bytes = b"/",
    cut: int | None = None,
) -> bytes:
    """Do the work for a header on a parent's block of three transactions."""
    if slot is None:
        slot = expected_slot(nonce, 0x62, height)
    beside = [bytes([n]) * 32 for n in range(1, height + 1)]
    root = climb(twice(header), beside, slot)
    told = magic + root[::-1] + struct.pack("<II", size or 1 << height, nonce) + behind
    parent = coinbase(1, 1_250_000_000, witness=witness)
    parent.inputs[0].script = (before + told)[:cut]
    others = [b"\x88" * 32, b"\x99" * 32]
    worked = work_on(
        header_over(root_of([parent.txid(), others[0], others[1]]), version=parent_version)
    )
    way = [others[0], twice(others[1] * 2)]
    return (
        parent.full()
        + bytes(32)
        + number(len(way))
        + b"".join(way)
        + struct.pack("<I", 0)
        + number(height)
        + b"".join(beside)
        + struct.pack("<I", slot)
        + worked
    )


def expected_slot(nonce: int, chain_id: int, height: int) -> int:
    rand = (nonce * 1103515245 + 12345) % 2**32
    rand = ((rand + chain_id) * 1103515245 + 12345) % 2**32
    return rand % (1 << height)


def climb(leaf: bytes, beside: list[bytes], slot: int) -> bytes:
    for n, other in enumerate(beside):
        leaf = twice(other + leaf if slot >> n & 1 else leaf + other)
    return leaf


def extension() -> bytes:
    """An extension block with an input, outputs and kernels of every feature."""
    header = b"\x8a\x92\x03" + b"\xaa" * 160 + b"\x87\x05" + b"\x81\x00"
    spent = b"\x03" + b"\xbb" * 32 + b"\x02" * 99 + sized(b"extra") + b"\xcc" * 64
    plain = b"\x08" * 99 + b"\x01" + b"\x03" * 58 + b"\xdd" * 675 + b"\xcc" * 64
    other = b"\x08" * 99 + b"\x02" + sized(b"x" * 300) + b"\xdd" * 675 + b"\xcc" * 64
    out = b"\x04" + number(2) + (b"\x86\x10" + sized(P2PKH)) * 2
    kernel = b"\x3f\x10\x20" + out[1:] + b"\x05" + b"\x02" * 33 + sized(b"e") + b"\x09" * 33
    kernels = kernel + b"\xcc" * 64 + b"\x00" + b"\x09" * 33 + b"\xcc" * 64
    return b"\x01" + header + b"\x01" + spent + b"\x02" + plain + other + b"\x02" + kernels


def made_blocks() -> list[tuple[BlockRules, bytes]]:
    """One block of every kind, with the rules that it keeps."""
    plain = pay(outpoint(1), outpoint(2, 3), to=[(10**8, P2PKH), (5, P2SH), (0, b"")])
    segwit = pay(
        outpoint(4), to=[(7, P2WPKH), (9, P2TR), (3, b"\x6a" + b"\x4c" * 300)], witness=True
    )
    pegged_in = pay(outpoint(5), to=[(11, PEG_IN)], witness=True)
    hog = pay(
        outpoint(6), pegged_in.txid() + bytes(4), to=[(50, HOG_ADDRESS), (3, P2WPKH)], flags=8
    )
    for one in hog.inputs:
        one.script, one.witness = b"", []
    many = pay(*(outpoint(n) for n in range(300)), to=[(n, P2PKH) for n in range(260)])
    for one in many.inputs:
        one.script = b""
    return [
        (EASY_BITCOIN, block_of([coinbase(300)])),
        (EASY_BITCOIN, block_of([coinbase(301, witness=True), plain, segwit])),
        (EASY_BITCOIN, block_of([coinbase(70_000), many])),
        (EASY_LITECOIN, block_of([coinbase(5), segwit, pegged_in, hog], after=extension())),
        (EASY_LITECOIN, block_of([coinbase(6), plain])),
        (EASY_DOGECOIN, block_of([coinbase(7), plain], version=1)),
        (EASY_DOGECOIN, block_of([coinbase(8), plain, plain_again()], version=0x0062_0102)),
    ]


def plain_again() -> Tx:
    return pay(outpoint(8), to=[(12, P2PKH)])
