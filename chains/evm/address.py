"""EVM addresses: what people write, to 20 bytes and back.

Reads text, writes `Address`; asks no node. Called by the registry for orders, claims and settings,
and by the parser to write what it found in display form.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from eth_utils.address import to_checksum_address

from chains.addresses import Address, AddressError
from chains.extended_keys import may_be_private

ADDRESS_BYTES: Final = 20

#: Contracts that write a Transfer log beside every move of the chain's own coin. Counting the log
#: and the move would credit one payment twice, so they are never listed and never parsed.
#: Source: Polygon's POL system contract; EIP-7708 SYSTEM_ADDRESS; OP legacy ERC-20 ETH predeploy.
COIN_MIRRORS: Final = frozenset(
    bytes.fromhex(text)
    for text in (
        "0000000000000000000000000000000000001010",
        "fffffffffffffffffffffffffffffffffffffffe",
        "deaddeaddeaddeaddeaddeaddeaddeaddead0000",
    )
)

#: Precompiles and system contracts live in the first 2^16 numbers: 0x01 to 0x11 and 0x100 on
#: Ethereum, 0x64 to 0xff on Arbitrum, 0x1000 upward on BSC and Polygon. Zero is the burn address.
_SYSTEM_PREFIX: Final = bytes(18)

_SHAPE: Final = re.compile(r"0[xX][0-9a-fA-F]{40}", re.ASCII)
_KEY: Final = re.compile(r"0x[0-9a-f]{40}", re.ASCII)
_HEX: Final = re.compile(r"(0[xX])?[0-9a-fA-F]*", re.ASCII)
#: Bitcoin, Litecoin and their test networks write segwit outputs this way (BIP 173, BIP 350).
_BECH32: Final = re.compile(r"(bc|tb|bcrt|ltc|tltc|rltc)1[02-9ac-hj-np-z]{6,87}", re.IGNORECASE)
#: Bitcoin, Litecoin, Dogecoin, Tron, Solana and XRP all write base 58, of 25 to 44 characters.
_BASE58: Final = re.compile(r"[1-9A-HJ-NP-Za-km-z]{25,44}", re.ASCII)


def parse(text: str) -> Address:
    """Read an address; all-lower and all-upper letters carry no checksum, mixed ones must be right.

    **Raises**: `AddressError` `address_malformed`, `address_checksum`, `address_wrong_chain`.
    **Source**: EIP-55 (read 2026-08-22).
    """
    found = text.strip()
    if not _SHAPE.fullmatch(found):
        raise _refusal(found)
    digits = found[2:]
    address = from_bytes(bytes.fromhex(digits))
    if digits not in {digits.lower(), digits.upper()} and address.display[2:] != digits:
        sentence = f"the checksum of {found} is wrong: letters or digits were changed"
        raise AddressError("address_checksum", sentence)
    if address.raw.startswith(_SYSTEM_PREFIX) or address.raw in COIN_MIRRORS:
        sentence = f"{found} belongs to the chain itself; money sent there is lost"
        raise AddressError("address_malformed", sentence)
    return address


def refuse_own_contract(address: Address, contract: bytes) -> None:
    """Refuse a token's own contract as the place to pay to. **Raises**: `AddressError`."""
    if address.raw == contract:
        sentence = f"{address.display} is the token's own contract; money sent there is lost"
        raise AddressError("address_malformed", sentence)


def raw_of_key(key: str) -> bytes:
    """Read a key back: `0x` and 40 lower-case hex digits. **Raises**: `AddressError`."""
    if not _KEY.fullmatch(key):
        sentence = f"expected 0x and 40 lower-case hex digits, found {key[:100]!r}"
        raise AddressError("address_malformed", sentence)
    return bytes.fromhex(key[2:])


def from_bytes(raw: bytes) -> Address:
    """Give the address of 20 bytes that came from the chain itself."""
    return Address(raw=raw, key=f"0x{raw.hex()}", display=display(raw))


@lru_cache(maxsize=65_536)
def display(raw: bytes) -> str:
    """Write 20 bytes as EIP-55. Kept, because the same parties come again and hashing is slow."""
    return str(to_checksum_address(raw))


def _refusal(found: str) -> AddressError:
    if may_be_private(found):
        sentence = (
            f"expected 0x and 40 hex digits, found {len(found)} characters, not shown because they may "
            "be a private key"
        )
        return AddressError("address_malformed", sentence)
    shown = found[:100]
    if _HEX.fullmatch(found):
        sentence = f"expected 0x and 40 hex digits, found {len(found)} characters: {shown!r}"
        return AddressError("address_malformed", sentence)
    if _BECH32.fullmatch(found) or _BASE58.fullmatch(found):
        sentence = (
            f"expected an EVM address (0x and 40 hex digits), found {shown!r} of another chain"
        )
        return AddressError("address_wrong_chain", sentence)
    return AddressError("address_malformed", f"expected 0x and 40 hex digits, found {shown!r}")
