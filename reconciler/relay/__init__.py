"""The relay: carries the outbox into the log, every message once for a reader of committed data.

Reads and marks the outbox; writes every topic but `orders` and `transfers.<chain>`. Decides nothing.
"""

from reconciler.relay.relay import AnotherRelay, Relay

__all__ = ["AnotherRelay", "Relay"]
