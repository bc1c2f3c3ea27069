"""The exceptions desk: opens, updates and closes exceptions, one per (kind, subject).

An exception closes by itself when its cause is gone. One that a person settled stays closed while its
cause stays, and may open again only after the cause was gone.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from reconciler.services.ledger import Ledger
from reconciler.storage.rows import ExceptionRow
from reconciler.stream.topics import PAYMENT_EXCEPTIONS
from schemas.amounts import BaseUnits
from schemas.caip import AssetName, ChainName
from schemas.codec import decode_as, encode
from schemas.codes import ExceptionKind, sentences
from schemas.envelope import derived_id
from schemas.events import PaymentException, Suggestion
from schemas.values import LONG_TEXT_MAX, OrderReference, TransferName, cut


class Cause(Struct, frozen=True, kw_only=True):
    """What an exception is about, as far as it is known."""

    kind: ExceptionKind
    subject: str
    chain: str | None = None
    asset: str | None = None
    amount: int | None = None
    transfer: str | None = None
    order: str | None = None
    suggestions: tuple[Suggestion, ...] = ()
    note: str = ""


def exception_id(kind: ExceptionKind, subject: str) -> str:
    """Compute an exception's id from what it is about."""
    return derived_id("exception", kind, subject)


async def open_exception(ledger: Ledger, cause: Cause, at: datetime) -> None:
    """Open an exception, or tell what is new of an open one; a repeat changes nothing."""
    name = exception_id(cause.kind, cause.subject)
    row = await ledger.exception(name)
    if row is not None and row.settled:
        return
    opened_at = row.opened_at if row is not None and row.open else at
    revision = 1 if row is None else row.revision + 1
    body = _body(cause, name, opened_at=opened_at, revision=revision)
    if row is not None and row.open and _same(row, body):
        return
    _put(ledger, row, cause.kind, body, settled=False, at=at)


async def close_exception(
    ledger: Ledger, kind: ExceptionKind, subject: str, at: datetime, *, why: str
) -> None:
    """Close an exception whose cause is gone; a settled one may open again from now on."""
    row = await ledger.exception(exception_id(kind, subject))
    if row is None:
        return
    if not row.open:
        if row.settled:
            row.settled = False
            ledger.put_exception(row)
        return
    _put(ledger, row, kind, _closed(row, at, why), settled=False, at=at)


async def settle_exception(ledger: Ledger, name: str, at: datetime, *, by: str) -> bool:
    """Close an exception by a person's word while its cause stays. False when it is not open."""
    row = await ledger.exception(name)
    if row is None or not row.open:
        return False
    _put(ledger, row, ExceptionKind(row.kind), _closed(row, at, by), settled=True, at=at)
    return True


def _body(cause: Cause, name: str, *, opened_at: datetime, revision: int) -> PaymentException:
    return PaymentException(
        exception=name,
        kind=cause.kind,
        subject=cause.subject,
        open=True,
        revision=revision,
        sentence=cut(sentences(cause.kind, cause.note), LONG_TEXT_MAX),
        chain=ChainName(cause.chain) if cause.chain else None,
        asset=AssetName(cause.asset) if cause.asset else None,
        amount=None if cause.amount is None else BaseUnits(cause.amount),
        transfer=TransferName(cause.transfer) if cause.transfer else None,
        order=OrderReference(cause.order) if cause.order else None,
        suggestions=cause.suggestions,
        opened_at=opened_at,
        closed_at=None,
        closed_by=None,
    )


def _same(row: ExceptionRow, body: PaymentException) -> bool:
    """Tell whether only the revision would differ."""
    known = decode_as(PaymentException, row.body)
    return known == msgspec.structs.replace(body, revision=known.revision)


def _closed(row: ExceptionRow, at: datetime, by: str) -> PaymentException:
    known = decode_as(PaymentException, row.body)
    return msgspec.structs.replace(
        known,
        open=False,
        revision=row.revision + 1,
        closed_at=at,
        closed_by=cut(by, LONG_TEXT_MAX),
    )


def _put(
    ledger: Ledger,
    row: ExceptionRow | None,
    kind: ExceptionKind,
    body: PaymentException,
    *,
    settled: bool,
    at: datetime,
) -> None:
    ledger.put_exception(
        ExceptionRow(
            exception=body.exception,
            kind=kind,
            subject=body.subject,
            order_ref=body.order,
            transfer=body.transfer,
            chain=body.chain,
            open=body.open,
            settled=settled,
            revision=body.revision,
            opened_at=body.opened_at if row is None else min(row.opened_at, body.opened_at),
            body=encode(body),
        )
    )
    ledger.send(
        topic=PAYMENT_EXCEPTIONS,
        key=body.exception,
        message=body,
        event_id=derived_id("exception", body.exception, str(body.revision)),
        recorded_at=at,
        subject=body.subject,
    )
