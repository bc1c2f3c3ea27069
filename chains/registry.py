"""CAIP-2 name to implementation; the only file that knows every chain.

Reads names and text, gives addresses, transaction ids, payment links and sources; talks to no node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from chains.addresses import Address
from chains.catalog import Asset, Catalogue, CatalogueError
from chains.child_keys import receiving_key
from chains.clock import Clock, SystemClock
from chains.evm import address as evm_address
from chains.evm import derived as evm_derived
from chains.evm import words as evm_words
from chains.evm.source import EvmSource
from chains.extended_keys import ACCOUNT_DEPTH, HARDENED, Derivation, ExtendedKeyError, Script, read
from chains.http_node import NodeLimits
from chains.observe import Observer, nobody
from chains.port import ChainSource
from chains.typed import find_hash
from chains.utxo import address as utxo_address
from chains.utxo import derived as utxo_derived
from chains.utxo.esplora import SCHEME
from chains.utxo.networks import NAMESPACE, NETWORKS, Network
from chains.utxo.source import UtxoSource
from schemas.amounts import AmountError, BaseUnits, format_decimal_amount
from schemas.caip import AssetName, ChainName, asset_reference

_EVM: Final = "eip155"
_READ: Final = (_EVM, NAMESPACE)

#: Wallets keep every EVM chain below Ethereum's number.
_EVM_COIN: Final = 60
_COINS: Final = {"bitcoin": 0, "litecoin": 2, "dogecoin": 3}
_TEST_COIN: Final = 1
_PURPOSES: Final = {None: 44, "p2pkh": 44, "p2sh-p2wpkh": 49, "p2wpkh": 84, "p2tr": 86}


def parse_address(chain: ChainName, text: str) -> Address:
    """Read an address as a person or a shop wrote it.

    **Raises**: `AddressError` `address_malformed`, `address_checksum` or `address_wrong_chain`;
    `CatalogueError` for a chain that no code here reads.
    """
    network = _network(chain)
    return evm_address.parse(text) if network is None else utxo_address.parse(network, text)


def raw_of_key(chain: ChainName, key: str) -> bytes:
    """Give an address's bytes from the canonical key that we wrote ourselves: no hashing.

    A watcher reads a million of them at its start. **Raises**: `AddressError`, `CatalogueError`.
    """
    network = _network(chain)
    if network is None:
        return evm_address.raw_of_key(key)
    return utxo_address.raw_of_key(network, key)


def check_deposit_address(asset: Asset, address: Address) -> None:
    """Refuse an address at which this asset would be lost: the token's own contract, a script that
    nobody has the key of.

    **Raises**: `AddressError` `address_malformed`.
    """
    network = _network(asset.chain)
    if network is not None:
        utxo_address.refuse_unspendable(network, address)
    elif not asset.is_coin:
        evm_address.refuse_own_contract(address, contract_of(asset.name_id))


def read_derivation(chain: ChainName, text: str, script: Script | None = None) -> Derivation:
    """Read an extended public key from which a chain's addresses are derived.

    `script` is what the settings say beside it; on a Bitcoin-like chain it is else the key's own.

    **Raises**: `ExtendedKeyError`, whose sentence repeats nothing of a private key; `CatalogueError` as
    `parse_address`.
    """
    network, key = _network(chain), read(text)
    if network is None:
        evm_derived.check(key, script)
        return Derivation(chain, key, None)
    return Derivation(chain, key, utxo_derived.choose_script(network, key, script))


def derive_address(derivation: Derivation, index: int) -> Address:
    """Give the address 0/`index` below a key; some milliseconds, and a second for the first one."""
    network = _network(derivation.chain)
    public_key = receiving_key(derivation.key, index)
    if network is None:
        return evm_derived.address(public_key)
    if derivation.script is None:
        raise ExtendedKeyError(f"{network.name} needs a script")
    return utxo_derived.address(network, derivation.script, public_key)


def path_of(derivation: Derivation) -> str:
    """Write where wallets keep such a key; a key itself only tells its depth and its last step.

    **Source**: BIP 44, 49, 84 and 86 for the purpose; SLIP-0044 for the coin, 1 on test networks.
    """
    key = derivation.key
    if key.depth != ACCOUNT_DEPTH or key.child_number < HARDENED:
        steps = "1 step" if key.depth == 1 else f"{key.depth} steps"
        return "m" if key.depth == 0 else f"a key {steps} below the seed"
    network = _network(derivation.chain)
    coin = _EVM_COIN if network is None else _COINS[network.uri_scheme]
    if network is not None and network.test:
        coin = _TEST_COIN
    purpose = _PURPOSES[derivation.script]
    return f"m/{purpose}'/{coin}'/{key.child_number - HARDENED}'"


def contract_of(asset: AssetName) -> bytes:
    """Give the 20 bytes of an EVM token's contract."""
    return bytes.fromhex(asset_reference(asset)[2:])


def parse_transaction_id(chain: ChainName, text: str) -> str | None:
    """Read a transaction id out of what a customer typed (any case, no 0x, an explorer's URL).

    Gives the form in which the chain writes it, with 0x on EVM alone, or None for junk. **Raises**:
    `CatalogueError` as `parse_address`.
    """
    if _network(chain) is None:
        return evm_words.find_transaction_id(text)
    return find_hash(text)


def coinbase_maturity(chain: ChainName) -> int:
    """Give after how many blocks the network lets an output of a coinbase transaction be spent.

    Zero where there is no such rule, or none that is known.
    """
    network = NETWORKS.get(chain)
    return 0 if network is None else network.coinbase_maturity


def payment_uri(asset: Asset, address: Address, amount_base_units: int) -> str:
    """Write what a wallet opens: ERC-681 on EVM, else BIP 321 in the words that BIP 21 has too.

    On EVM the amount is in base units, on the others in the coin; exact, and without an exponent.

    **Raises**: `AmountError` for an amount that no chain can hold; `CatalogueError` as above.
    **Source**: ERC-681 (ethereum/ERCs, read 2026-08-22); the scheme is `ethereum:` on every EVM
    chain and `@chain_id` is always written, so that a wallet on another network does not guess.
    BIP 321 (bitcoin/bips); `litecoin:` and `dogecoin:` are the same by custom.
    """
    network = _network(asset.chain)
    amount = int(BaseUnits(amount_base_units))
    if network is not None:
        return _coin_uri(network, asset, address, amount)
    chain_id = asset.chain.partition(":")[2]
    if asset.is_coin:
        return f"ethereum:{address.display}@{chain_id}?value={amount}"
    contract = asset_reference(asset.name_id)
    return f"ethereum:{contract}@{chain_id}/transfer?address={address.display}&uint256={amount}"


def require_reader(chain: ChainName) -> None:
    """Refuse a chain that no code here reads. **Raises**: `CatalogueError`."""
    _network(chain)


def node_schemes(chain: ChainName) -> tuple[Sequence[str], Sequence[str]]:
    """Give how the URLs of a chain's nodes begin, and of what pushes new heads.

    **Raises**: `CatalogueError`.
    """
    if _network(chain) is None:
        return ("http", "https"), ("ws", "wss")
    return ("http", "https", f"{SCHEME}http", f"{SCHEME}https"), ("zmq+tcp",)


def tells_balances(chain: ChainName, urls: Sequence[str]) -> bool:
    """Tell whether one of these nodes can be asked what an address holds. **Raises**: `CatalogueError`."""
    return _network(chain) is None or any(url.startswith(SCHEME) for url in urls)


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
    """Make the source of a chain from its nodes' URLs, and of what pushes new heads (`node_schemes`).

    Nothing is asked before `start`. **Raises**: `CatalogueError` for a chain that is unknown; ValueError
    for a URL that is none.
    """
    kind: type[EvmSource | UtxoSource] = EvmSource if _network(chain) is None else UtxoSource
    return kind(
        chain=chain,
        urls=urls,
        catalogue=catalogue,
        clock=clock or SystemClock(),
        observer=observer,
        limits=limits,
        poll_interval_s=poll_interval_s,
    )


def _network(chain: ChainName) -> Network | None:
    """Give the network of a Bitcoin-like chain; None for an EVM chain. **Raises**: `CatalogueError`."""
    namespace = chain.partition(":")[0]
    if namespace == _EVM:
        return None
    if namespace != NAMESPACE:
        known = ", ".join(_READ)
        message = f"chain {chain}: no reader for {namespace} chains; there is one for {known}"
        raise CatalogueError(message)
    network = NETWORKS.get(chain)
    if network is None:
        known = ", ".join(each.name for each in NETWORKS.values())
        message = f"chain {chain}: no network is known by this name; there are {known}"
        raise CatalogueError(message)
    return network


def _coin_uri(network: Network, asset: Asset, address: Address, amount: int) -> str:
    if amount > network.money_max:
        sentence = f"no output of {network.name} holds {amount}; {network.money_max} is the most"
        raise AmountError("amount_too_large", sentence)
    decimal = format_decimal_amount(amount, asset.decimals)
    if asset.decimals:
        decimal = decimal.rstrip("0").removesuffix(".")
    return f"{network.uri_scheme}:{address.display}?amount={decimal}"
