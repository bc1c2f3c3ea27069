"""Addresses of Bitcoin-like chains from public keys: which script a key is paid at, and its bytes.

Reads keys, writes `Address`. The prefix of an extended key says the script, or the settings do where
wallets give one prefix for several (xpub for BIP 84 and BIP 86).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

from chains.addresses import Address
from chains.child_keys import add_to_point, hash160
from chains.extended_keys import ExtendedKey, ExtendedKeyError, Script
from chains.utxo.address import address_of_script
from chains.utxo.networks import LITECOIN, Network

#: Prefixes that also stand for other scripts than their own.
_PLAIN: Final = frozenset({"xpub", "tpub", "Ltub", "ttub"})

_BITCOIN: Final = ("xpub", "ypub", "zpub")
_LITECOIN: Final = ("Ltub", "Mtub")
#: Litecoin's wallets give these as well, though SLIP-0132 has them for Bitcoin alone.
#: Source: litecoin 17f16ce, src/chainparams.cpp, EXT_PUBLIC_KEY (xpub).
_LITECOIN_BY_CUSTOM: Final = _BITCOIN
_DOGECOIN: Final = ("dgub",)
_TEST: Final = ("tpub", "upub", "vpub")
_BY_SCHEME: Final[Mapping[tuple[str, bool], tuple[str, ...]]] = {
    ("bitcoin", False): _BITCOIN,
    ("litecoin", False): _LITECOIN,
    ("dogecoin", False): _DOGECOIN,
    ("bitcoin", True): _TEST,
    ("litecoin", True): (*_TEST, "ttub"),
    ("dogecoin", True): ("tpub",),
}


def choose_script(network: Network, key: ExtendedKey, script: Script | None) -> Script:
    """Tell which script the addresses of a key have.

    **Raises**: `ExtendedKeyError` for a key of another network, a script that contradicts its prefix, or
    one that the network does not have.
    """
    prefix = key.prefix
    _refuse_other_network(network, key, is_named=script is not None)
    own = prefix.script
    if own is None:
        raise ExtendedKeyError(f"{prefix.text} is a prefix of {prefix.owner}")
    if script is not None and script != own and prefix.text not in _PLAIN:
        raise ExtendedKeyError(f"{prefix.text} says {own}, and script says {script}")
    chosen = script or own
    if network.hrp is None and chosen != "p2pkh":
        raise ExtendedKeyError(f"{network.name} has no {chosen}; leave out script")
    return chosen


def address(network: Network, script: Script, public_key: bytes) -> Address:
    """Give a compressed key's address."""
    found = address_of_script(network, _SCRIPTS[script](public_key))
    if found is None:
        raise ExtendedKeyError(f"{network.name} has no address for {script}")
    return found


def _refuse_other_network(network: Network, key: ExtendedKey, *, is_named: bool) -> None:
    prefix = key.prefix
    ours = _BY_SCHEME[network.uri_scheme, network.test]
    if prefix.text in ours:
        return
    if network == LITECOIN and prefix.text in _LITECOIN_BY_CUSTOM:
        if is_named:
            return
        raise ExtendedKeyError(
            f"{prefix.text} is a prefix of {prefix.owner}; where a wallet of {network.name} gives it, "
            "name the script beside it"
        )
    raise ExtendedKeyError(
        f"{prefix.text} is a prefix of {prefix.owner}; {network.name} has {', '.join(ours)}"
    )


def _p2pkh(public_key: bytes) -> bytes:
    """**Source**: BIP 44."""
    return b"\x76\xa9\x14" + hash160(public_key) + b"\x88\xac"


def _p2wpkh(public_key: bytes) -> bytes:
    """**Source**: BIP 84, BIP 141."""
    return b"\x00\x14" + hash160(public_key)


def _p2sh_p2wpkh(public_key: bytes) -> bytes:
    """**Source**: BIP 49."""
    return b"\xa9\x14" + hash160(_p2wpkh(public_key)) + b"\x87"


def _p2tr(public_key: bytes) -> bytes:
    """Tweak the key by its own hash: there is no script beside it. **Source**: BIP 86, BIP 341."""
    tag = hashlib.sha256(b"TapTweak").digest()
    tweak = hashlib.sha256(tag + tag + public_key[1:]).digest()
    x = add_to_point(int.from_bytes(public_key[1:], "big"), int.from_bytes(tweak, "big"))
    return b"\x51\x20" + x.to_bytes(32, "big")


_SCRIPTS: Final[Mapping[Script, Callable[[bytes], bytes]]] = {
    "p2pkh": _p2pkh,
    "p2sh-p2wpkh": _p2sh_p2wpkh,
    "p2wpkh": _p2wpkh,
    "p2tr": _p2tr,
}
