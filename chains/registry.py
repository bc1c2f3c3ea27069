"""CAIP-2 name to implementation; the only file that knows every chain.

Reads names and text, gives addresses, transaction ids, payment links and sources; talks to no node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from chains.addresses import Address
from chains.catalog import Asset, Catalogue, CatalogueError
from chains.clock import Clock, SystemClock
from chains.evm import address as evm_address
from chains.evm import words as evm_words
from chains.evm.source import EvmSource
from chains.observe import Observer, nobody
from chains.port import ChainSource
from chains.rpc import NodeLimits
from schemas.amounts import BaseUnits
from schemas.caip import AssetName, ChainName, asset_reference

_READ: Final = ("eip155",)


def parse_address(chain: ChainName, text: str) -> Address:
    """Read an address as a person or a shop wrote it.

    **Raises**: `AddressError` `address_malformed`, `address_checksum` or `address_wrong_chain`;
    `CatalogueError` for a chain that no code here reads.
    """
    _require_known(chain)
    return evm_address.parse(text)


def raw_of_key(chain: ChainName, key: str) -> bytes:
    """Give an address's bytes from the canonical key that we wrote ourselves: no hashing.

    A watcher reads a million of them at its start. **Raises**: `AddressError`, `CatalogueError`.
    """
    _require_known(chain)
    return evm_address.raw_of_key(key)


def check_deposit_address(asset: Asset, address: Address) -> None:
    """Refuse an address at which this asset would be lost: the token's own contract.

    **Raises**: `AddressError` `address_malformed`.
    """
    _require_known(asset.chain)
    if not asset.is_coin:
        evm_address.refuse_own_contract(address, contract_of(asset.name_id))


def contract_of(asset: AssetName) -> bytes:
    """Give the 20 bytes of an EVM token's contract."""
    return bytes.fromhex(asset_reference(asset)[2:])


def parse_transaction_id(chain: ChainName, text: str) -> str | None:
    """Read a transaction id out of what a customer typed (any case, no 0x, an explorer's URL).

    Gives the canonical form, or None for junk. **Raises**: `CatalogueError` as `parse_address`.
    """
    _require_known(chain)
    return evm_words.find_transaction_id(text)


def payment_uri(asset: Asset, address: Address, amount_base_units: int) -> str:
    """Write what a wallet opens: ERC-681 on EVM. The amount is in base units, without exponent.

    **Raises**: `AmountError` for an amount that no chain can hold; `CatalogueError` as above.
    **Source**: ERC-681 (ethereum/ERCs, read 2026-08-22); the scheme is `ethereum:` on every EVM
    chain and `@chain_id` is always written, so that a wallet on another network does not guess.
    """
    _require_known(asset.chain)
    amount = int(BaseUnits(amount_base_units))
    chain_id = asset.chain.partition(":")[2]
    if asset.is_coin:
        return f"ethereum:{address.display}@{chain_id}?value={amount}"
    contract = asset_reference(asset.name_id)
    return f"ethereum:{contract}@{chain_id}/transfer?address={address.display}&uint256={amount}"


def open_source(
    chain: ChainName,
    urls: Sequence[str],
    *,
    catalogue: Catalogue,
    clock: Clock | None = None,
    observer: Observer = nobody,
    limits: NodeLimits | None = None,
    poll_interval_s: float | None = None,
) -> ChainSource:
    """Make the source of a chain from its nodes' URLs (`http(s)://`, and `ws(s)://` for new heads).

    Nothing is asked before `start`. **Raises**: `CatalogueError` for a chain that is unknown or has no
    reader; ValueError for a URL that is none.
    """
    _require_known(chain)
    return EvmSource(
        chain=chain,
        urls=urls,
        catalogue=catalogue,
        clock=clock or SystemClock(),
        observer=observer,
        limits=limits,
        poll_interval_s=poll_interval_s,
    )


def _require_known(chain: ChainName) -> None:
    namespace = chain.partition(":")[0]
    if namespace not in _READ:
        known = ", ".join(_READ)
        message = f"chain {chain}: no reader for {namespace} chains; there is one for {known}"
        raise CatalogueError(message)
