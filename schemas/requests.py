"""What the meaning asks of the watchers: addresses to watch, transactions to look up, spans to read.

Topics `watchlist.<family>` (compacted, keyed by address) and `requests.<chain>`.
"""

from __future__ import annotations

from schemas.caip import AssetId, ChainId
from schemas.facts import FoundBy
from schemas.values import Height, Instant, Message, ShortText


class WatchAddress(Message, frozen=True):
    """Watch an address on every configured chain of its family, back to `since`; for ever."""

    family: ShortText
    address: ShortText
    since: Instant


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
