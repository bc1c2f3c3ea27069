"""What the meaning asks of the watchers: addresses to watch, transactions to look up, spans to read.

Topics `watchlist.<family>` (compacted, keyed by address) and `requests.<chain>`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from schemas.caip import AssetId, ChainId
from schemas.facts import FoundBy
from schemas.values import Height, Instant, Message, Reference, ShortText


class DerivedFrom(Message, frozen=True):
    """How an address was made, and for whom: 0/`index` of an extended public key.

    `key` names the key without giving it away: who has the key sees every address of the shop. The
    log keeps this for a database that was restored from a backup.
    """

    key: ShortText
    index: Annotated[int, Meta(ge=0, lt=2**31)]
    order: Reference


class WatchAddress(Message, frozen=True):
    """Watch an address on every configured chain of its family, back to `since`; for ever."""

    family: ShortText
    address: ShortText
    since: Instant
    derived: DerivedFrom | None = None


class LookUpTransaction(Message, frozen=True):
    """A customer named this transaction. Asked on every configured chain of the family."""

    request: ShortText
    chain: ChainId
    tx: ShortText


class ReadAgain(Message, frozen=True):
    """Read these blocks once more and publish what is there; repeats are harmless.

    What is found says `found_by`: who asked.
    """

    request: ShortText
    chain: ChainId
    from_height: Height
    to_height: Height
    reason: ShortText
    found_by: FoundBy = FoundBy.READ_AGAIN


class SeeBalance(Message, frozen=True):
    """Ask a node what an address holds of an asset after the newest final block that was read."""

    request: ShortText
    chain: ChainId
    asset: AssetId
    address: ShortText


class ReleaseReorganisation(Message, frozen=True):
    """A person agrees to a reorganisation deeper than the chain's limit."""

    request: ShortText
    chain: ChainId
    actor: ShortText
    reason: ShortText


ChainRequest = LookUpTransaction | ReadAgain | SeeBalance | ReleaseReorganisation
