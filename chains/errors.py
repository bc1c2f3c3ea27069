"""What can go wrong between us and a node.

::

    ChainError
    ├── Retryable            ask again, elsewhere if there is an elsewhere; alarm when it lasts
    │   ├── NodeUnavailable      no connection, time-out, HTTP 5xx, a body that is cut off
    │   ├── NodeBusy             HTTP 429 or a rate-limit error; carries retry_after_s
    │   ├── NodeBehind           the node does not have the block that another one announced
    │   └── AnswerRefused        the answer contradicts itself, its block or its root: discarded whole
    ├── Fatal                this process must stop and say why
    │   ├── WrongChain           another chain id or genesis stands behind the URL
    │   ├── CatalogueDiffers     decimals() is not what the catalogue says
    │   └── NoCheckpoint         an empty topic and no start_at: never silently at the head
    ├── HeldReorganisation   deeper than the chain's limit: wait for a second node or a person
    └── Unsupported          the node has no such method; the start says which routes are blind

`AnswerRefused` is retryable because another node, or the same one a moment later, may tell the truth.
"""

from __future__ import annotations


class ChainError(Exception):
    """Anything that chains/ raises on purpose."""


class Retryable(ChainError):
    """The same question may be answered later or elsewhere; nothing may be skipped meanwhile."""


class NodeUnavailable(Retryable):
    """No usable answer came."""


class NodeBusy(Retryable):
    """The node asks us to slow down. `retry_after_s` is what it asked for, or None."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NodeBehind(Retryable):
    """The node does not know a block that exists."""


class AnswerRefused(Retryable):
    """The answer cannot be true."""


class Fatal(ChainError):
    """Going on could credit money of another chain or scale. Stop."""


class WrongChain(Fatal):
    """The node serves another chain than the settings say; names both."""


class CatalogueDiffers(Fatal):
    """A contract answers with other decimals than the catalogue has."""


class NoCheckpoint(Fatal):
    """There is nothing to go on from, and no `start_at` says where to begin."""


class HeldReorganisation(ChainError):
    """A reorganisation is deeper than the chain's limit; confirm and expiry of the chain are held."""


class Unsupported(ChainError):
    """The node does not offer the method."""
