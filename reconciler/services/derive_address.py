"""Give an order the next address of its route's extended public key.

One index per key over all routes and chains: the key's own name counts, which is the same under every
prefix. What gives it out holds the key's lock until the commit, and the primary key of `derivations` is
what makes it true. An order that the log remembers from before a restore gets the address again that it
had (`reconciler.services.recall_addresses`).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from chains.addresses import Address
from chains.extended_keys import HARDENED, Derivation
from chains.registry import derive_address, parse_address
from reconciler.kernel.checks import InvariantBroken
from reconciler.model.policy import Route
from reconciler.services.context import ServiceContext
from reconciler.services.ledger import AddressKey, Ledger
from reconciler.services.refused import RefusedError
from reconciler.storage.rows import DerivationRow
from schemas.caip import family_of
from schemas.codes import Rejection

#: Addresses in use that are passed over for one order: some milliseconds each, under the key's lock.
PASSED_OVER_MAX: Final = 100


class Taken(Struct, frozen=True):
    """An address for an order, and its index. `is_new`: nobody had it before, not this order either."""

    address: Address
    row: DerivationRow
    is_new: bool


def derivation_of(route: Route) -> Derivation:
    """Give the key of a route that derives addresses."""
    if route.derivation is None:
        message = f"route {route.name} derives addresses and has no key"
        raise InvariantBroken(message)
    return route.derivation


def name_of_lock(key: str) -> str:
    """Name the lock under which the indexes of a key are given out."""
    return f"derivation/{key}"


async def take_address(ledger: Ledger, route: Route, reference: str) -> Taken:
    """Find the order's address; nothing is changed. **Raises**: `RefusedError` `no_free_address`.

    An address in use is passed over: the shop may have sent it with an order of another route.
    """
    derivation = derivation_of(route)
    key = derivation.key.name
    again = ledger.index_of(key, reference)
    first = max(await ledger.next_index(key), route.first_index)
    fresh = range(first, min(first + PASSED_OVER_MAX, HARDENED))
    for index in fresh if again is None else (again, *fresh):
        address = derive_address(derivation, index)
        if not await _is_in_use(ledger, route, address):
            row = DerivationRow(key=key, index=index, order_ref=reference)
            return Taken(address, row, is_new=index != again)
    detail = f"Looked at {len(fresh)} from index {first}; a higher first_index begins elsewhere."
    raise RefusedError(Rejection.NO_FREE_ADDRESS, detail)


async def _is_in_use(ledger: Ledger, route: Route, address: Address) -> bool:
    """Tell whether an address has a row, or is one that a route shares. It is locked from here on."""
    place: AddressKey = (family_of(route.chain), address.key)
    await ledger.work.lock_names([f"address/{place[0]}/{place[1]}"])
    await ledger.lock_addresses([place])
    return place in ledger.addresses or is_shared(ledger.context, place)


def is_shared(context: ServiceContext, place: AddressKey) -> bool:
    """Tell whether a route shares this address, though no order has used it yet."""
    return any(
        route.shared_address is not None
        and family_of(route.chain) == place[0]
        and parse_address(route.chain, route.shared_address).key == place[1]
        for route in context.routes.values()
    )
