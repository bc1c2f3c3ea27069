"""CAIP-2 name to implementation; the only file that knows every chain."""

from __future__ import annotations

from chains.addresses import Address
from chains.catalog import Asset
from schemas.caip import ChainName


def parse_address(chain: ChainName, text: str) -> Address:
    """Read an address as a person or a shop wrote it.

    **Raises**: `AddressError` `address_malformed`, `address_checksum` or `address_wrong_chain`.
    """
    raise NotImplementedError


def parse_transaction_id(chain: ChainName, text: str) -> str | None:
    """Read a transaction id out of what a customer typed (any case, no 0x, an explorer's URL).

    Gives the canonical form, or None for junk.
    """
    raise NotImplementedError


def payment_uri(asset: Asset, address: Address, amount_base_units: int) -> str:
    """Write what a wallet opens: ERC-681 on EVM, BIP 321 on UTXO chains."""
    raise NotImplementedError
