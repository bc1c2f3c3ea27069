"""Extended public keys: what a wallet exports, read and checked. Derives nothing (`chains.child_keys`).

Reads text, gives `ExtendedKey`; called by the registry for settings. What may be a secret comes here by
mistake (an extended private key, a seed's words), so no error repeats anything of the text but a prefix
that is known to be public, and every error is raised without the one that it stands for.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, Literal

import base58
from msgspec import Struct

from schemas.caip import ChainName

#: The kinds of output script that a key is paid at; EVM chains have no such thing.
Script = Literal["p2pkh", "p2sh-p2wpkh", "p2wpkh", "p2tr"]

#: Indexes from here on are hardened: only the private key derives them. Source: BIP 32.
HARDENED: Final = 2**31
#: Of m/purpose'/coin'/account'. Source: BIP 44.
ACCOUNT_DEPTH: Final = 3

_BYTES: Final = 78
#: The prime of secp256k1. Source: SEC 2, version 2.0, section 2.4.1.
PRIME: Final = 2**256 - 2**32 - 977
_TEXT_MAX: Final = 130

#: Wallet import format: version, key, perhaps 0x01. Source: chainparams.cpp of bitcoin, litecoin and
#: dogecoin (`chains.utxo.networks`), SECRET_KEY.
_WIF_VERSIONS: Final = frozenset({0x80, 0xEF, 0xB0, 0x9E, 0xF1})
_WIF_BYTES: Final = (33, 34)
_HEX_KEY: Final = re.compile(r"(0x)?[0-9a-f]{64}", re.ASCII | re.IGNORECASE)
_WORDS_MIN: Final = 12
#: What private extended keys of any chain begin with, also where a letter of them is wrong.
_PRIVATE_START: Final = re.compile(r".{1,3}(prv|tpv|gpv)", re.DOTALL)


class Prefix(Struct, frozen=True):
    """What four version bytes say. `script` None: not for addresses of one key."""

    text: str
    owner: str
    script: Script | None


_MULTISIG: Final = "several keys together (multisignature)"

#: **Source**: SLIP-0132 (satoshilabs/slips 06ae8f9); `dgub` is EXT_PUBLIC_KEY of dogecoin d090279,
#: src/chainparams.cpp, `tpub` that of all test networks in `chains.utxo.networks`.
_PUBLIC: Final = {
    0x0488B21E: Prefix("xpub", "Bitcoin and EVM chains", "p2pkh"),
    0x049D7CB2: Prefix("ypub", "Bitcoin", "p2sh-p2wpkh"),
    0x04B24746: Prefix("zpub", "Bitcoin", "p2wpkh"),
    0x0295B43F: Prefix("Ypub", _MULTISIG, None),
    0x02AA7ED3: Prefix("Zpub", _MULTISIG, None),
    0x043587CF: Prefix("tpub", "test networks", "p2pkh"),
    0x044A5262: Prefix("upub", "test networks", "p2sh-p2wpkh"),
    0x045F1CF6: Prefix("vpub", "test networks", "p2wpkh"),
    0x024289EF: Prefix("Upub", _MULTISIG, None),
    0x02575483: Prefix("Vpub", _MULTISIG, None),
    0x019DA462: Prefix("Ltub", "Litecoin", "p2pkh"),
    0x01B26EF6: Prefix("Mtub", "Litecoin", "p2sh-p2wpkh"),
    0x0436F6E1: Prefix("ttub", "Litecoin's test networks", "p2pkh"),
    0x02FACAFD: Prefix("dgub", "Dogecoin", "p2pkh"),
}

_PRIVATE: Final = (
    "is a private key; whoever has it takes the money, and this service needs none. It is not shown "
    "here; take it out of the settings and wherever they were copied, and move what it holds to a new "
    "wallet. Expected the extended public key of the account (xpub…, zpub…), which wallets show under "
    "another name"
)


class ExtendedKeyError(ValueError):
    """A text is no extended public key that addresses can be derived from."""


class ExtendedKey(Struct, frozen=True):
    """An extended public key. `public_key` is compressed (33 bytes), `chain_code` 32 bytes.

    `child_number` is the last step of its path; from `HARDENED` on it is written with a '.
    """

    prefix: Prefix
    depth: int
    child_number: int
    chain_code: bytes
    public_key: bytes

    @property
    def name(self) -> str:
        """The key's own name: the same key has it under every prefix, and two keys never share it."""
        return hashlib.sha256(self.public_key + self.chain_code).hexdigest()[:32]

    def __repr__(self) -> str:
        # Who has the key sees every address of the shop.
        return f"ExtendedKey({self.prefix.text}…)"


class Derivation(Struct, frozen=True):
    """How addresses of a chain are made of a key: 0/index, paid at this script (None on EVM chains)."""

    chain: ChainName
    key: ExtendedKey
    script: Script | None


def read(text: str) -> ExtendedKey:
    """Read an extended public key of an account, or of a key above one.

    Wallets export m/purpose'/coin'/account' (depth 3); Electrum's own seeds give m or m/0'. Deeper ones
    are refused: their children are no addresses that a wallet looks at.

    **Raises**: `ExtendedKeyError`. **Source**: BIP 32 (serialization; test vector 5 lists what is refused).
    """
    found = text.strip()
    data = _decoded(found)
    version = int.from_bytes(data[:4], "big")
    prefix = _PUBLIC.get(version)
    if data[45] == 0 or _PRIVATE_START.match(found):
        raise ExtendedKeyError(f"this {_PRIVATE}")
    if prefix is None:
        raise ExtendedKeyError(
            f"its version bytes {version:08x} are of no chain that is known here; {_expected()}"
        )
    key = ExtendedKey(
        prefix=prefix,
        depth=data[4],
        child_number=int.from_bytes(data[9:13], "big"),
        chain_code=data[13:45],
        public_key=data[45:],
    )
    _refuse_impossible(key, parent=data[5:9])
    return key


def may_be_private(text: str, data: bytes = b"") -> bool:
    """Tell an extended private key, a wallet's export, a bare key or the words of a seed.

    `data` is what the text says in base 58, where it does.
    """
    found = text.strip()
    is_wif = len(data) in _WIF_BYTES and data[0] in _WIF_VERSIONS
    is_seed = len(found.split()) >= _WORDS_MIN
    return bool(is_wif or is_seed or _HEX_KEY.fullmatch(found) or _PRIVATE_START.match(found))


def lift(public_key: bytes) -> tuple[int, int] | None:
    """Give the point of a compressed key; None where there is none. **Source**: SEC 1, section 2.3.4."""
    sign, x = public_key[0], int.from_bytes(public_key[1:], "big")
    if sign not in {2, 3} or x >= PRIME:
        return None
    square = (pow(x, 3, PRIME) + 7) % PRIME
    y = pow(square, (PRIME + 1) // 4, PRIME)
    if y * y % PRIME != square:
        return None
    return x, y if y % 2 == sign % 2 else PRIME - y


def _decoded(found: str) -> bytes:
    try:
        data = base58.b58decode_check(found) if len(found) <= _TEXT_MAX else b""
    except ValueError:
        data = b""
    if len(data) == _BYTES:
        return data
    if may_be_private(found, data):
        raise ExtendedKeyError(f"this {_PRIVATE}")
    if data:
        raise ExtendedKeyError(f"found {len(data)} bytes where it has {_BYTES}; {_expected()}")
    sentence = "letters or digits were changed, or it is none at all"
    raise ExtendedKeyError(f"found {len(found)} characters whose checksum is wrong: {sentence}")


def _refuse_impossible(key: ExtendedKey, *, parent: bytes) -> None:
    if key.prefix.script is None:
        raise ExtendedKeyError(
            f"{key.prefix.text} is a prefix of {key.prefix.owner}; {_expected()}"
        )
    if lift(key.public_key) is None:
        raise ExtendedKeyError("its public key is no point of the curve")
    if key.depth == 0 and (any(parent) or key.child_number):
        raise ExtendedKeyError("it says that it is a master key and names a parent")
    if key.depth > ACCOUNT_DEPTH:
        raise ExtendedKeyError(
            f"it stands {key.depth} steps below the seed and an account's key stands "
            f"{ACCOUNT_DEPTH} (m/84'/0'/0'); no wallet would look at the addresses below it"
        )


def _expected() -> str:
    return "expected the extended public key of an account (xpub…, ypub…, zpub…)"
