"""What is exported: one function a kind, from the database's rows to those of a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from msgspec import Struct

from chains.catalog import Catalogue, CatalogueError
from chains.registry import parse_address
from reconciler.exports.files import Row
from reconciler.model.order import open_until
from reconciler.services.state import decode_state
from reconciler.storage import reads
from reconciler.storage.pages import Narrowed, pages
from reconciler.storage.rows import ExceptionRow, OrderRow, TransferRow
from reconciler.storage.unit_of_work import Work
from schemas.amounts import format_decimal_amount
from schemas.caip import AssetName, ChainName
from schemas.codec import decode_as
from schemas.events import PaymentException

#: An order's reference, and how much of a transfer is its own.
_Share = tuple[str, int]


class Export(Struct, frozen=True, kw_only=True):
    """One kind: its columns in order, its rows, and the column that says when a row came."""

    columns: tuple[str, ...]
    rows: Callable[[Work, Catalogue, Narrowed | None], AsyncIterator[Row]]
    time: str


async def order_rows(
    work: Work, _catalogue: Catalogue, narrowed: Narrowed | None = None
) -> AsyncIterator[Row]:
    """Give every order with its judgement, in the order of references."""
    async for page in pages(work, OrderRow, "orders", "reference", narrowed=narrowed):
        for row in page:
            yield _order(row)


async def transfer_rows(
    work: Work, catalogue: Catalogue, narrowed: Narrowed | None = None
) -> AsyncIterator[Row]:
    """Give every transfer with the orders that it was given to and counts for, in the order of ids.

    What is counted is the order's last judgement: all that counts for an order, final and pending,
    is what `order_rows` gives as its received sums.
    """
    async for page in pages(work, TransferRow, "transfers", "transfer", narrowed=narrowed):
        given: dict[str, list[_Share]] = defaultdict(list)
        counted: dict[str, list[_Share]] = defaultdict(list)
        shares = await reads.shares_of_transfers(work, [row.transfer for row in page])
        count_for = await _counted_of(work, {share.order_ref for share in shares})
        for share in shares:
            part = (share.order_ref, int(share.share))
            given[share.transfer].append(part)
            if share.transfer in count_for[share.order_ref]:
                counted[share.transfer].append(part)
        for row in page:
            name = row.transfer
            yield _transfer(row, sorted(given[name]), sorted(counted[name]), catalogue)


async def _counted_of(work: Work, references: set[str]) -> dict[str, frozenset[str]]:
    """Tell which transfers count for each of these orders."""
    found: dict[str, frozenset[str]] = {}
    for reference, row in (await reads.orders(work, references)).items():
        status = decode_state(row.state).status
        found[reference] = frozenset(status.counted if status else ())
    return found


async def exception_rows(
    work: Work, catalogue: Catalogue, narrowed: Narrowed | None = None
) -> AsyncIterator[Row]:
    """Give every exception, open or closed, in the order of ids."""
    async for page in pages(work, ExceptionRow, "exceptions", "exception", narrowed=narrowed):
        for row in page:
            yield _exception(decode_as(PaymentException, row.body), catalogue)


def _order(row: OrderRow) -> Row:
    state = decode_state(row.state)
    terms, status = state.terms, state.status
    decimals = terms.policy.decimals
    sums = {
        name: getattr(status, name) if status else None
        for name in ("received_final", "received_pending", "missing", "excess")
    }
    fiat = terms.fiat
    return {
        "reference": row.reference,
        "purchase": row.purchase,
        "route": row.route,
        "chain": row.chain,
        "asset": row.asset,
        "decimals": decimals,
        "address": terms.address,
        "phase": row.phase,
        "amount_state": status.amount_state if status else None,
        "attention": list(status.attention) if status else [],
        "reason": status.reason if status else "",
        "asked": terms.asked,
        "due": terms.due,
        **sums,
        "due_decimal": format_decimal_amount(terms.due, decimals),
        "received_final_decimal": _decimal(sums["received_final"], decimals),
        "placed_at": row.placed_at,
        "deadline": terms.deadline,
        "open_until": open_until(terms, state.claims),
        "ended_at": status.ended_at if status else None,
        "events": row.sequence,
        "fiat_currency": fiat.currency if fiat else None,
        "fiat_amount": fiat.amount if fiat else None,
        "fiat_rate": fiat.rate if fiat else None,
        "fiat_rate_source": fiat.rate_source if fiat else None,
        "fiat_rate_at": fiat.rate_at if fiat else None,
        "lines": terms.lines,
    }


def _transfer(
    row: TransferRow, given: list[_Share], counted: list[_Share], catalogue: Catalogue
) -> Row:
    decimals = _decimals(row.asset, catalogue)
    total = sum(amount for _, amount in counted)
    return {
        "transfer": row.transfer,
        "chain": row.chain,
        "transaction": row.tx,
        "asset": row.asset,
        "decimals": decimals,
        "address": parse_address(ChainName(row.chain), row.address_key).display,
        "sender": row.sender,
        "amount": row.amount,
        "amount_decimal": _decimal(row.amount, decimals),
        "state": row.state,
        "was_final": row.was_final,
        "height": row.height,
        "block_hash": row.block_hash,
        "block_time": row.block_time,
        "first_seen_at": row.first_time,
        "rule": row.rule,
        "reason": row.reason,
        "given_to": [f"{order}={amount}" for order, amount in given],
        "counted": total,
        "counted_decimal": _decimal(total, decimals),
        "counted_for": [f"{order}={amount}" for order, amount in counted],
        "exception": row.open_kind,
        "disposed": row.disposed,
    }


def _exception(found: PaymentException, catalogue: Catalogue) -> Row:
    decimals = None if found.asset is None else _decimals(found.asset, catalogue)
    return {
        "exception": found.exception,
        "kind": found.kind,
        "subject": found.subject,
        "open": found.open,
        "revision": found.revision,
        "sentence": found.sentence,
        "chain": found.chain,
        "asset": found.asset,
        "decimals": decimals,
        "amount": found.amount,
        "amount_decimal": _decimal(found.amount, decimals),
        "transfer": found.transfer,
        "order": found.order,
        "suggestions": [f"{s.order}: {s.reason}" for s in found.suggestions],
        "opened_at": found.opened_at,
        "closed_at": found.closed_at,
        "closed_by": found.closed_by,
    }


def _decimals(asset: str, catalogue: Catalogue) -> int | None:
    """Give an asset's scale; None for one that the catalogue no longer lists."""
    try:
        return catalogue.asset(AssetName(asset)).decimals
    except CatalogueError:
        return None


def _decimal(amount: Any, decimals: int | None) -> str | None:
    if amount is None or decimals is None:
        return None
    return format_decimal_amount(amount, decimals)


_ORDER_COLUMNS: Final = (
    "reference purchase route chain asset decimals address phase amount_state attention reason asked "
    "due received_final received_pending missing excess due_decimal received_final_decimal placed_at "
    "deadline open_until ended_at events fiat_currency fiat_amount fiat_rate fiat_rate_source "
    "fiat_rate_at lines"
)
_TRANSFER_COLUMNS: Final = (
    "transfer chain transaction asset decimals address sender amount amount_decimal state was_final "
    "height block_hash block_time first_seen_at rule reason given_to counted counted_decimal counted_for "
    "exception disposed"
)
_EXCEPTION_COLUMNS: Final = (
    "exception kind subject open revision sentence chain asset decimals amount amount_decimal transfer "
    "order suggestions opened_at closed_at closed_by"
)

EXPORTS: Final = {
    "orders": Export(columns=tuple(_ORDER_COLUMNS.split()), rows=order_rows, time="placed_at"),
    "transfers": Export(
        columns=tuple(_TRANSFER_COLUMNS.split()), rows=transfer_rows, time="first_time"
    ),
    "exceptions": Export(
        columns=tuple(_EXCEPTION_COLUMNS.split()), rows=exception_rows, time="opened_at"
    ),
}
