"""What an address is, on any chain."""

from __future__ import annotations

from msgspec import Struct

from schemas.caip import ChainName


class Address(Struct, frozen=True):
    """An address of one family.

    `raw` is what the chain compares (EVM: 20 bytes; UTXO: the output script); `key` the canonical
    text that keys a topic (EVM: lower-case hex); `display` what people see (EVM: EIP-55).
    """

    raw: bytes
    key: str
    display: str


class AddressError(ValueError):
    """A text is not an address of the chain. `code` is a rejection code of `schemas.codes`."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def canonical_key(chain: ChainName, display: str) -> str:
    """Give the key form of an address that is known to be good: a fact's own, not a person's.

    EVM addresses are compared without their case; every other chain's text is exact.
    """
    return display.lower() if chain.startswith("eip155:") else display
