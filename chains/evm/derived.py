"""EVM addresses from public keys of a wallet's account (m/44'/60'/0')."""

from __future__ import annotations

from eth_utils.crypto import keccak

from chains.addresses import Address
from chains.evm.address import ADDRESS_BYTES, from_bytes
from chains.extended_keys import ExtendedKey, ExtendedKeyError, lift

_PREFIX = "xpub"


def check(key: ExtendedKey, script: str | None) -> None:
    """Refuse a key or a script that is none of EVM chains. **Raises**: `ExtendedKeyError`."""
    if key.prefix.text != _PREFIX:
        raise ExtendedKeyError(
            f"{key.prefix.text} is a prefix of {key.prefix.owner}; EVM wallets give {_PREFIX}, for test "
            "networks too"
        )
    if script is not None:
        raise ExtendedKeyError(f"EVM chains have no script; leave out script = {script!r}")


def address(public_key: bytes) -> Address:
    """Give the address of a compressed key: the last 20 bytes of the hash of its point.

    **Raises**: `ExtendedKeyError` for no point of the curve. **Source**: Ethereum yellow paper, appendix F.
    """
    point = lift(public_key)
    if point is None:
        raise ExtendedKeyError("a public key is no point of the curve")
    hashed = keccak(b"".join(part.to_bytes(32, "big") for part in point))
    return from_bytes(hashed[-ADDRESS_BYTES:])
