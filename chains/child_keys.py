"""Keys below an extended public key, by bitcoinlib: the only file that imports it.

Reads an `ExtendedKey`, gives public keys; asks nobody. Importing bitcoinlib takes a second and fills a
folder, so it is imported with the first key, or by `warm_up` where a second would be missed, and the
folder is a temporary one. A key takes 1.5 ms (measured).
"""

from __future__ import annotations

import os
import tempfile
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from chains.extended_keys import HARDENED, PRIME, ExtendedKey, lift

#: Where bitcoinlib keeps what we never ask it for.
_FOLDER: Final = "BCL_DATA_DIR"
#: Received payments; change goes to 1. Source: BIP 44.
_RECEIVING: Final = 0
#: A shop has a key or two for each network.
_KEYS_MAX: Final = 256


def warm_up() -> None:
    """Import what the first key needs, where a second does not matter."""
    _keys()


def receiving_key(key: ExtendedKey, index: int) -> bytes:
    """Give the compressed public key of 0/`index` below a key.

    One index in 2^127 has no key, and bitcoinlib then raises. **Source**: BIP 32, CKDpub.
    """
    if not 0 <= index < HARDENED:
        # bitcoinlib itself derives something at 2^31, which no wallet can.
        raise ValueError(f"expected an index below {HARDENED}, found {index}")
    return bytes(_receiving(key.public_key, key.chain_code).child_public(index).public_byte)


def hash160(data: bytes) -> bytes:
    """Hash as P2PKH and P2WPKH do: RIPEMD-160 of SHA-256, also where OpenSSL no longer has it."""
    return bytes(_keys().hash160(data))


def add_to_point(x: int, scalar: int) -> int:
    """Give the x of P + `scalar`·G, where P is the point of even y at `x`. **Source**: BIP 341."""
    even = lift(b"\x02" + x.to_bytes(32, "big"))
    if even is None:
        raise ValueError("no point of the curve has this x")
    more = _keys().ec_point(scalar)
    # P = ±scalar·G has a chance of 2^-255.
    slope = (int(more.y) - even[1]) * pow(int(more.x) - x, -1, PRIME) % PRIME
    return (slope * slope - x - int(more.x)) % PRIME


@lru_cache(maxsize=_KEYS_MAX)
def _receiving(public_key: bytes, chain_code: bytes) -> Any:
    """Give bitcoinlib's key of 0 below a key. Its networks and prefixes are not asked."""
    key = _keys().HDKey(key=public_key, chain=chain_code, is_private=False, witness_type="legacy")
    return key.child_public(_RECEIVING)


@cache
def _keys() -> Any:
    """Import bitcoinlib's keys, without the folder and the log that it makes in the home folder."""
    wanted = os.environ.get(_FOLDER)
    with tempfile.TemporaryDirectory(prefix="bitcoinlib-") as folder:
        Path(folder, "config.ini").write_text(
            "[logs]\nenable_bitcoinlib_logging = False\n", encoding="ascii"
        )
        os.environ[_FOLDER] = folder
        try:
            from bitcoinlib import keys
        finally:
            if wanted is None:
                del os.environ[_FOLDER]
            else:
                os.environ[_FOLDER] = wanted
    return keys
