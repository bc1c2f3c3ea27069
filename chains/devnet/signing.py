"""Make a transaction out of a sender, a script and a way to send it. Pure.

Signatures are made up: `r` and `s` are hashes over the sender and the content.
"""

from __future__ import annotations

from msgspec.structs import replace

from chains.devnet.calls import How
from chains.devnet.encoding import transaction_payload
from chains.devnet.hexadecimal import address_bytes, bytes_of, keccak
from chains.devnet.scripted import Frame, Transaction


def make_transaction(
    chain_id: int, sender: bytes, nonce: int, root: Frame, how: How
) -> Transaction:
    """Give a transaction with its bytes and hash."""
    root = replace(root, input=bytes_of(how.input) or root.input, fails=how.fails or root.fails)
    unsigned = Transaction(
        hash=b"",
        encoded=b"",
        type=how.type,
        chain_id=chain_id,
        nonce=nonce,
        sender=sender,
        root=root,
        gas_limit=how.gas_limit,
        fee_max=how.fee_max,
        tip_max=how.tip_max,
        authorizations=tuple(address_bytes(one) for one in how.authorizations),
        r=0,
        s=0,
        y_parity=0,
    )
    first = keccak(sender + transaction_payload(unsigned, signed=False))
    # 31 bytes: below the order of the curve, as the numbers of a true signature are
    r, s = int.from_bytes(first[:31], "big"), int.from_bytes(keccak(first)[:31], "big")
    signed = replace(unsigned, r=r, s=s)
    encoded = transaction_payload(signed, signed=True)
    return replace(signed, hash=keccak(encoded), encoded=encoded)
