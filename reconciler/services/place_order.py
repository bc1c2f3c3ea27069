"""Open an order: check, take an address or an amount, freeze the terms, ask to watch, tell."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec import Raw

from chains.addresses import Address, AddressError
from chains.catalog import Asset
from chains.registry import check_deposit_address, parse_address, payment_uri
from reconciler.kernel.percents import format_percent
from reconciler.matcher import candidate_amounts
from reconciler.matcher.amounts import steps_within
from reconciler.matcher.match import reservation_since
from reconciler.model.order import OrderDecisions, Terms
from reconciler.model.policy import Route
from reconciler.services.derive_address import Taken, is_shared, take_address
from reconciler.services.incoming import Incoming, journal_body
from reconciler.services.judge import catch_up, judge
from reconciler.services.ledger import Ledger, OrderEntry
from reconciler.services.refused import RefusedError
from reconciler.services.state import OrderState, encode_state
from reconciler.storage import reads, writes
from reconciler.storage.rows import AddressRow, DerivationRow, OrderRow, ReservationRow
from reconciler.stream.topics import watchlist_topic
from schemas.amounts import AmountError, BaseUnits, parse_base_units, parse_decimal_amount
from schemas.caip import Family, family_of
from schemas.codes import Phase, Rejection
from schemas.commands import AmendOrder, PlaceOrder
from schemas.envelope import derived_id
from schemas.requests import DerivedFrom, WatchAddress
from schemas.values import OrderReference


async def place_order(ledger: Ledger, item: Incoming, command: PlaceOrder, seq: int) -> OrderEntry:
    """Place an order. **Raises**: `RefusedError`, before anything is changed."""
    route = _route(ledger.context.routes, command)
    asset = ledger.context.catalogue.asset(route.asset)
    asked = amount_of(command, asset)
    check_minimum(route, asked)
    if command.reference in ledger.orders:
        raise RefusedError(Rejection.REFERENCE_IN_USE, f"Found {command.reference}.")
    check_lines(command.lines, bytes_max=ledger.context.lines_bytes_max)
    decisions = await _by_siblings(ledger, command)
    address, taken = await _address(ledger, route, asset, command)
    row, news = await _address_row(ledger, route, address, command, item)
    due = asked
    if route.mode == "shared":
        due = await reserve_amount(ledger, item, route, row, asked, command.reference)
    secret = ledger.context.secret
    terms = _terms(secret, item, command, route, asset, row, asked=asked, due=due)
    if taken and taken.is_new:
        ledger.add_derivation(taken.row)
    if news:
        ledger.add_address(row)
        _ask_to_watch(ledger, row, item, taken.row if taken else None)
    state = OrderState(terms=terms, decisions=decisions)
    entry = ledger.add_order(_order_row(ledger, terms, row), state)
    await ledger.load_lanes([entry.row.lane])
    lane = ledger.lane_of(entry)
    journal_command(ledger, entry, item, seq)
    await judge(ledger, entry, lane.moment(seq=seq, recorded_at=item.recorded_at, verdicts=False))
    return entry


async def _by_siblings(ledger: Ledger, command: PlaceOrder) -> OrderDecisions:
    """Say whether the purchase is paid already: then its new order ends as its open ones did."""
    if command.purchase is None:
        return OrderDecisions()
    siblings = await ledger.load_purchase(command.purchase)
    for sibling in siblings:
        await catch_up(ledger, sibling)
    paid = any(s.state.status and s.state.status.phase is Phase.CONFIRMED for s in siblings)
    return OrderDecisions(sibling_confirmed=paid)


def amount_of(command: PlaceOrder | AmendOrder, asset: Asset) -> BaseUnits:
    """Read the amount, in base units or in the asset's scale. **Raises**: `RefusedError` by name."""
    if (command.amount is None) == (command.amount_decimal is None):
        raise RefusedError(Rejection.AMOUNT_MISSING)
    try:
        if command.amount is not None:
            amount = parse_base_units(command.amount)
        else:
            amount = parse_decimal_amount(command.amount_decimal or "", asset.decimals)
    except AmountError as error:
        raise RefusedError(Rejection(error.code), f"{error}.") from error
    if amount == 0:
        raise RefusedError(Rejection.AMOUNT_ZERO)
    if amount > asset.amount_max_base_units:
        detail = f"Expected at most {asset.amount_max} base units, found {amount}."
        raise RefusedError(Rejection.AMOUNT_TOO_LARGE, detail)
    return amount


def check_minimum(route: Route | None, asked: BaseUnits) -> None:
    """Refuse an amount below what the route takes; a route that settings dropped has no word in it."""
    if route is not None and asked < route.minimum:
        detail = f"Expected at least {route.minimum} base units, found {asked}."
        raise RefusedError(Rejection.AMOUNT_BELOW_MINIMUM, detail)


def check_lines(lines: Raw, *, bytes_max: int) -> None:
    """Refuse lines that are larger than we carry, or that would make an event nobody can read."""
    try:
        bytes(lines).decode()
    except UnicodeDecodeError as error:
        raise RefusedError(Rejection.UNREADABLE, f"The lines are not UTF-8: {error}.") from error
    size = len(memoryview(lines))
    if size > bytes_max:
        detail = f"Expected at most {bytes_max} bytes, found {size}."
        raise RefusedError(Rejection.LINES_TOO_LARGE, detail)


def on_one_line(lines: Raw) -> Raw:
    """Take the line breaks out: an event is one line of a recording. Says the same."""
    data = bytes(lines)
    if b"\n" not in data and b"\r" not in data:
        return lines.copy()
    return Raw(msgspec.json.format(data, indent=-1))


def journal_command(ledger: Ledger, entry: OrderEntry, item: Incoming, seq: int) -> None:
    """Write a command into its order's chain, as it came."""
    entry.dirty = True
    ledger.journal.add(
        seq=seq,
        head=entry.row,
        chain_key=f"order/{entry.row.reference}",
        kind="command",
        recorded_at=item.recorded_at,
        body=journal_body(item),
    )


def _route(routes: Mapping[str, Route], command: PlaceOrder) -> Route:
    route = routes.get(command.route)
    if route is None:
        known = ", ".join(sorted(routes))
        raise RefusedError(
            Rejection.UNKNOWN_ROUTE, f"Expected one of {known}, found {command.route!r}."
        )
    if route.closed:
        raise RefusedError(Rejection.ROUTE_CLOSED, f"Found {route.name}.")
    return route


async def _address(
    ledger: Ledger, route: Route, asset: Asset, command: PlaceOrder
) -> tuple[Address, Taken | None]:
    """Find the address that the order will be paid to; a derived one comes with its index."""
    if route.mode == "given":
        return _given_address(route, asset, command), None
    if command.address is not None:
        raise RefusedError(Rejection.ADDRESS_NOT_TAKEN)
    if route.mode == "derived":
        taken = await take_address(ledger, route, command.reference)
        return taken.address, taken
    return parse_address(route.chain, route.shared_address or ""), None


def _given_address(route: Route, asset: Asset, command: PlaceOrder) -> Address:
    if command.address is None:
        raise RefusedError(Rejection.ADDRESS_MISSING)
    try:
        address = parse_address(route.chain, command.address)
        check_deposit_address(asset, address)
    except AddressError as error:
        raise RefusedError(Rejection(error.code), f"{error}.") from error
    return address


async def _address_row(
    ledger: Ledger, route: Route, address: Address, command: PlaceOrder, item: Incoming
) -> tuple[AddressRow, bool]:
    """Give the address's row and whether it is new. **Raises**: `RefusedError` `address_in_use`."""
    family = family_of(route.chain)
    await ledger.lock_addresses([(family, address.key)])
    row = ledger.addresses.get((family, address.key))
    if row is not None:
        if route.mode != "shared" or row.owner is not None:
            raise RefusedError(Rejection.ADDRESS_IN_USE, f"Found {address.display}.")
        return row, False
    if route.mode == "given" and is_shared(ledger.context, (family, address.key)):
        raise RefusedError(Rejection.ADDRESS_IN_USE, f"Found {address.display}.")
    since = reservation_since(item.recorded_at, route.policy.clock_slack_s)
    return (
        AddressRow(
            family=family,
            key=address.key,
            display=address.display,
            owner=None if route.mode == "shared" else command.reference,
            watched_since=since,
        ),
        True,
    )


async def reserve_amount(
    ledger: Ledger,
    item: Incoming,
    route: Route,
    address: AddressRow,
    asked: BaseUnits,
    reference: str,
) -> BaseUnits:
    """Take a free amount on a shared address for the order's whole match span.

    Amounts whose span is over by coverage time are free again. The address's row is locked; the
    unique index is what makes it true.
    """
    until = await _matched_until(ledger, route, address)
    taken = await _taken_amounts(ledger, route, address, until)
    policy, step = route.policy, route.step or 1
    steps = steps_within(asked, step, route.steps_max, more_ppm=route.more_ppm)
    for amount in candidate_amounts(
        asked, step, steps, reference=reference, key=ledger.context.secret
    ):
        if amount in taken or amount > policy.amount_max:
            continue
        span_s = policy.quote_s + policy.grace_s
        span_s += max(policy.claim_extension_s, policy.claim_extension_known_s)
        row = ReservationRow(
            family=address.family,
            address_key=address.key,
            chain=route.chain,
            asset=route.asset,
            amount=amount,
            order_ref=reference,
            since=reservation_since(item.recorded_at, policy.clock_slack_s),
            match_end=item.recorded_at + timedelta(seconds=span_s),
        )
        await _free_amounts(ledger, route, address, until)
        ledger.reservations.append(row)
        ledger.add_new("reservations", row)
        return amount
    detail = (
        f"All {steps} steps of {step} above {asked} are taken."
        if steps
        else f"Not even one step of {step} is within {format_percent(route.more_ppm)} of {asked}."
    )
    raise RefusedError(Rejection.NO_FREE_AMOUNT, detail)


async def _matched_until(ledger: Ledger, route: Route, address: AddressRow) -> datetime | None:
    """Give the instant before which a match span is over."""
    lane = ledger.context.lane_of(route.chain, address.key)
    await ledger.load_lanes([lane])
    return ledger.lanes[lane].row.decided_until


async def _taken_amounts(
    ledger: Ledger, route: Route, address: AddressRow, until: datetime | None
) -> set[BaseUnits]:
    """Give the amounts that others wait for. Changes nothing: the order may still be refused."""
    key = (address.family, address.key)
    stored = await reads.live_reservations(ledger.work, [key])
    fresh = (row for row in ledger.reservations if (row.family, row.address_key) == key)
    return {row.amount for row in (*stored, *fresh) if not _is_over(row, route, until)}


def _is_over(row: ReservationRow, route: Route, until: datetime | None) -> bool:
    return row.chain == route.chain and until is not None and row.match_end < until


async def _free_amounts(
    ledger: Ledger, route: Route, address: AddressRow, until: datetime | None
) -> None:
    """Give back the amounts whose match span is over, so that one of them may be taken."""
    if until is None:
        return
    await writes.free_reservations(
        ledger.work, address.family, address.key, chain=route.chain, until=until
    )
    ledger.reservations = [
        row
        for row in ledger.reservations
        if row.address_key != address.key or not _is_over(row, route, until)
    ]


def _terms(
    secret: bytes,
    item: Incoming,
    command: PlaceOrder,
    route: Route,
    asset: Asset,
    address: AddressRow,
    *,
    asked: BaseUnits,
    due: BaseUnits,
) -> Terms:
    parsed = parse_address(route.chain, address.display)
    return Terms(
        version=1,
        reference=command.reference,
        purchase=command.purchase,
        route=route.name,
        mode=route.mode,
        chain=route.chain,
        asset=route.asset,
        address=address.display,
        address_key=address.key,
        asked=asked,
        due=due,
        placed_at=item.recorded_at,
        deadline=item.recorded_at + route.policy.quote,
        policy=route.policy,
        payment_uri=payment_uri(asset, parsed, due),
        page_token=page_token(secret, command.reference),
        fiat=command.fiat,
        lines=on_one_line(command.lines),
    )


def page_token(secret: bytes, reference: str) -> str:
    """Compute the capability of the payment page: 160 bits that only the secret's owner can make."""
    digest = hmac.new(secret, f"page/{reference}".encode(), hashlib.sha256).digest()
    return base64.b32encode(digest[:20]).decode().lower()


def _order_row(ledger: Ledger, terms: Terms, address: AddressRow) -> OrderRow:
    return OrderRow(
        reference=terms.reference,
        purchase=terms.purchase,
        route=terms.route,
        chain=terms.chain,
        asset=terms.asset,
        lane=ledger.context.lane_of(terms.chain, address.key),
        family=address.family,
        address_key=address.key,
        phase=Phase.AWAITING_PAYMENT,
        is_open=True,
        sequence=0,
        assessed_seq=0,
        due_time=None,
        due_height=None,
        due_finalized=None,
        waits=False,
        page_token=terms.page_token,
        placed_at=terms.placed_at,
        state=encode_state(OrderState(terms=terms)),
    )


def _ask_to_watch(
    ledger: Ledger, row: AddressRow, item: Incoming, derived: DerivationRow | None
) -> None:
    """Ask the watchers. A derived address never leaves for the shop before the log has its index."""
    source = None
    if derived is not None:
        source = DerivedFrom(
            key=derived.key, index=derived.index, order=OrderReference(derived.order_ref)
        )
    message = WatchAddress(
        family=row.family, address=row.display, since=row.watched_since, derived=source
    )
    ledger.send(
        topic=watchlist_topic(Family(row.family)),
        key=row.key,
        message=message,
        event_id=derived_id("watch", row.family, row.key),
        recorded_at=item.recorded_at,
        subject=row.key,
        with_key=None if derived is None else derived.order_ref,
    )
