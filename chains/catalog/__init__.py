"""Chains and assets as data: decimals, classes, limits, each row with its source and date.

Reads the TOML files beside it and a shop's own; decides nothing.
"""

from chains.catalog.entries import (
    Asset,
    AssetClass,
    Catalogue,
    CatalogueError,
    ChainEntry,
    load_catalogue,
)

__all__ = ["Asset", "AssetClass", "Catalogue", "CatalogueError", "ChainEntry", "load_catalogue"]
