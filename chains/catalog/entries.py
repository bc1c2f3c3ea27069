"""The catalogue's rows and its reader."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from schemas.amounts import AmountError, parse_base_units
from schemas.caip import AssetName, ChainName, asset_kind, chain_of, parse_asset, parse_chain


class CatalogueError(ValueError):
    """A row of the catalogue is impossible; names the row."""


class AssetClass(StrEnum):
    """Whether the price of a late payment is still the agreed one."""

    STABLE = "stable"
    VOLATILE = "volatile"


#: Chains of outputs, where a token would be a meaning that others give to them.
_WITHOUT_TOKENS: Final = "bip122:"

Digits = Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]{0,77})$")]


class Asset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One asset. **Units**: `dust` and `amount_max` in base units, as digits.

    `offered` is false for what we know and watch but no route may take (bridged twins that a shop
    has not asked for are still offered; contracts that mirror the coin, and tokens that take a fee
    or rebase, are not). Below `dust` a transfer is kept and not counted unless it completes a sum;
    above `amount_max` it is not believed. `log_shape` names how its Transfer log differs from
    ERC-20's, where it does: the coin of a chain of contracts has none of its own (`native`), a chain
    without contracts has no logs at all (`none`).
    """

    id: str
    symbol: str
    name: str
    decimals: Annotated[int, Meta(ge=0, le=36)]
    asset_class: AssetClass
    dust: Digits
    amount_max: Digits
    offered: bool = True
    log_shape: Literal["erc20", "native", "none"] = "erc20"
    source: str
    verified_at: str

    @property
    def name_id(self) -> AssetName:
        """The CAIP-19 name."""
        return AssetName(self.id)

    @property
    def chain(self) -> ChainName:
        """The chain it lives on."""
        return chain_of(self.name_id)

    @property
    def is_coin(self) -> bool:
        """Tell whether it is the chain's own coin."""
        return asset_kind(self.name_id) == "slip44"

    @property
    def dust_base_units(self) -> int:
        """The least amount that counts by itself."""
        return parse_base_units(self.dust)

    @property
    def amount_max_base_units(self) -> int:
        """The greatest amount that is believed."""
        return parse_base_units(self.amount_max)


class ChainEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One chain.

    `least_depth`: the smallest depth that a route may ask for. `reorganisation_limit`: blocks that
    the watcher takes back by itself. `clock_slack_s`: how far a block's time may lie behind the true
    one. `finalized`: whether nodes have a notion of finality of their own. `receipts_root`: how
    receipts hash to the header's root: `standard`, `without_bridge_receipts` (Polygon keeps state-sync
    receipts outside it) or `none` (not checkable, or a chain that has no receipts). `coverage_time`: what
    a chain's time is read from, where a block's own need not rise. `settled_depth`: how deep a block lies that
    second looks take for final, on a chain that has no such notion (0: the reorganisation limit); no
    payment becomes final by it.
    """

    id: str
    name: str
    coin: str
    block_time_s: str
    least_depth: Annotated[int, Meta(ge=1)]
    reorganisation_limit: Annotated[int, Meta(ge=1)]
    clock_slack_s: Annotated[int, Meta(ge=0)]
    finalized: bool
    receipts_root: Literal["standard", "without_bridge_receipts", "none"] = "standard"
    coverage_time: Literal["header", "median_time_past"] = "header"
    settled_depth: Annotated[int, Meta(ge=0)] = 0
    test_chain: bool = False
    source: str
    verified_at: str

    @property
    def name_id(self) -> ChainName:
        """The CAIP-2 name."""
        return ChainName(self.id)

    def settled_height(self, head_height: int, finalized_height: int) -> int:
        """Give the newest block that second looks take for final; 0 where there is none yet."""
        if self.finalized:
            return finalized_height
        return max(0, head_height - (self.settled_depth or self.reorganisation_limit))


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    chain: list[ChainEntry] = []
    asset: list[Asset] = []


class Catalogue:
    """All chains and assets that we know. Unknown is an error with the name in it, never a guess."""

    def __init__(self, chains: Iterable[ChainEntry], assets: Iterable[Asset]) -> None:
        self._chains: dict[ChainName, ChainEntry] = {}
        self._assets: dict[AssetName, Asset] = {}
        self._by_chain: dict[ChainName, list[Asset]] = {}
        for chain in chains:
            self._add_chain(chain)
        for asset in assets:
            self._add_asset(asset)
        for entry in self._chains.values():
            if entry.coin not in self._assets:
                message = f"chain {entry.id}: its coin {entry.coin} is not in the catalogue"
                raise CatalogueError(message)

    @property
    def chains(self) -> Mapping[ChainName, ChainEntry]:
        """All chains by name."""
        return self._chains

    def chain(self, name: ChainName) -> ChainEntry:
        """Give a chain. **Raises**: `CatalogueError`."""
        if name not in self._chains:
            message = f"chain {name} is not in the catalogue"
            raise CatalogueError(message)
        return self._chains[name]

    def asset(self, name: AssetName) -> Asset:
        """Give an asset. **Raises**: `CatalogueError`."""
        if name not in self._assets:
            message = f"asset {name} is not in the catalogue"
            raise CatalogueError(message)
        return self._assets[name]

    def assets_of(self, chain: ChainName) -> list[Asset]:
        """Give every known asset of a chain, its coin first."""
        return self._by_chain.get(chain, [])

    def with_more(self, chains: Iterable[ChainEntry], assets: Iterable[Asset]) -> Catalogue:
        """Give a catalogue with rows added; a row may not replace one that is there."""
        return Catalogue([*self._chains.values(), *chains], [*self._assets.values(), *assets])

    def _add_chain(self, entry: ChainEntry) -> None:
        if parse_chain(entry.id) != entry.id or entry.name_id in self._chains:
            message = f"chain {entry.id}: not canonical, or listed twice"
            raise CatalogueError(message)
        self._chains[entry.name_id] = entry

    def _add_asset(self, asset: Asset) -> None:
        known = {name.lower() for name in self._assets}
        if parse_asset(asset.id) != asset.id or asset.id.lower() in known:
            message = f"asset {asset.id}: not canonical, or listed twice"
            raise CatalogueError(message)
        if asset.chain not in self._chains:
            message = f"asset {asset.id}: its chain is not in the catalogue"
            raise CatalogueError(message)
        if asset.chain.startswith(_WITHOUT_TOKENS) and not asset.is_coin:
            message = f"asset {asset.id}: only the chain's coin can be watched there"
            raise CatalogueError(message)
        if not 0 < asset.dust_base_units < asset.amount_max_base_units:
            message = f"asset {asset.id}: dust must be above zero and below amount_max"
            raise CatalogueError(message)
        self._assets[asset.name_id] = asset
        rows = self._by_chain.setdefault(asset.chain, [])
        rows.insert(0, asset) if asset.is_coin else rows.append(asset)


def load_catalogue(extra: Path | None = None) -> Catalogue:
    """Read the rows that we ship, and a shop's own file.

    **Raises**: `CatalogueError` naming the file and what is wrong in it.
    """
    shipped = files("chains.catalog")
    found = [
        _read(entry.name, entry.read_text())
        for entry in sorted(
            (e for e in shipped.iterdir() if e.name.endswith(".toml")), key=lambda e: e.name
        )
    ]
    if extra is not None:
        found.append(_read(str(extra), extra.read_text()))
    return Catalogue(
        [chain for file in found for chain in file.chain],
        [asset for file in found for asset in file.asset],
    )


def _read(name: str, text: str) -> _File:
    try:
        return msgspec.convert(tomllib.loads(text), _File)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, AmountError) as error:
        message = f"{name}: {error}"
        raise CatalogueError(message) from error
