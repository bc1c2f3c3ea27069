"""A fact about an address of ours: that it is one, and its entry in the journal of the address."""

from __future__ import annotations

from chains.addresses import canonical_key
from chains.catalog import CatalogueError
from reconciler.services.incoming import Incoming, journal_body
from reconciler.services.ledger import Ledger
from reconciler.services.unreadable import UnappliableError
from reconciler.storage.rows import AddressRow
from schemas.caip import AssetName, ChainName, family_of


def require_listed(ledger: Ledger, asset: AssetName) -> None:
    """Refuse an asset that the catalogue does not have. **Raises**: `UnappliableError`."""
    try:
        ledger.context.catalogue.asset(asset)
    except CatalogueError as error:
        raise UnappliableError(str(error)) from error


def require_ours(ledger: Ledger, chain: ChainName, address: str) -> None:
    """Refuse an address that is not ours; those of the batch are loaded. **Raises**: `UnappliableError`."""
    if (family_of(chain), canonical_key(chain, address)) not in ledger.addresses:
        sentence = f"{address} is no address of ours"
        raise UnappliableError(sentence)


def journal_at_address(ledger: Ledger, address: AddressRow, item: Incoming, seq: int) -> None:
    """Write a fact into the chain of its address."""
    ledger.touch_address(address)
    ledger.journal.add(
        seq=seq,
        head=address,
        chain_key=f"address/{address.family}/{address.key}",
        kind="fact",
        recorded_at=item.recorded_at,
        body=journal_body(item),
    )
