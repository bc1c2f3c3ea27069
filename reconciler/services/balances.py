"""The second look at an address: whether what it holds agrees with the transfers that we know.

A rise that no transfer explains holds the orders of the address until it is explained, by a transfer
that is found after all or by a person. A fall says nothing, also not of a rise that was seen before
it: the shop takes its money away, whether or not we knew of it.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from chains.addresses import canonical_key
from reconciler.services.coverage import wake_everywhere
from reconciler.services.desk import Cause, close_exception, open_exception
from reconciler.services.incoming import Incoming
from reconciler.services.judge import catch_up, judge
from reconciler.services.known import journal_at_address, require_listed, require_ours
from reconciler.services.ledger import AddressKey, Ledger, OrderEntry
from reconciler.services.unreadable import UnappliableError, drain_address
from reconciler.storage import reads, tables
from reconciler.storage.bulk import upsert
from reconciler.storage.rows import AddressRow, BalanceRow
from reconciler.stream.promise import Lane
from schemas.amounts import BaseUnits
from schemas.caip import ChainName, chain_of, family_of
from schemas.codes import Attention, ExceptionKind
from schemas.facts import BalanceSeen

_KEYS = ("address_key", "family", "asset")


def subject_of(address: AddressRow, asset: str) -> str:
    """Name what an exception about a balance is about: there is one an address and asset."""
    return f"{address.display}/{asset}"


def address_of_subject(subject: str, chain: ChainName) -> AddressKey:
    """Give the address that an exception about a balance speaks of."""
    return str(family_of(chain)), canonical_key(chain, subject.partition("/")[0])


async def apply_balance(
    ledger: Ledger, lane: Lane, item: Incoming, fact: BalanceSeen, seq: int
) -> None:
    """Compare what an address holds with what came since it was last explained.

    What our own coverage does not reach yet, or an address that is not searched back, says nothing.
    """
    _check(ledger, fact)
    family = family_of(fact.chain)
    address = ledger.addresses[family, canonical_key(fact.chain, fact.address)]
    if lane.name != ledger.context.lane_of(fact.chain, address.key):
        return  # how far another lane was read says nothing of what came to this address
    if not address.is_covered(fact.chain) or not await _is_read(ledger, lane, fact):
        return
    entry = ledger.orders.get(address.owner) if address.owner else None
    if entry is not None:
        await catch_up(ledger, entry)
    elif address.owner is None:
        await drain_address(ledger, address)
    await ledger.flush()  # what this batch brought is counted too
    before = await reads.balance(ledger.work, family, address.key, fact.asset)
    if before is not None and fact.block.height <= before.seen_height:
        return
    row = await _compared(ledger, address, before, fact)
    await upsert(ledger.work.connection, tables.balances, [row], keys=_KEYS)
    await _note(ledger, address, row, item)
    if entry is not None and before is not None and row.unexplained is None:
        _note_looked(entry, row)
    await _journal_and_judge(ledger, item, address, entry, seq)


def _check(ledger: Ledger, fact: BalanceSeen) -> None:
    """Refuse what makes no sense before anything is changed."""
    if chain_of(fact.asset) != fact.chain:
        sentence = f"chain {fact.chain} and asset {fact.asset} differ"
        raise UnappliableError(sentence)
    require_listed(ledger, fact.asset)
    require_ours(ledger, fact.chain, fact.address)


async def _is_read(ledger: Ledger, lane: Lane, fact: BalanceSeen) -> bool:
    """Tell whether the block is one that this lane has passed, on its own line."""
    row = ledger.lanes[lane.name].row
    if row.held is not None or row.height is None or row.height < fact.block.height:
        return False
    await ledger.flush()
    line = await reads.line_hashes(ledger.work, lane.name, {fact.block.height})
    return line.get(fact.block.height, fact.block.hash) == fact.block.hash


async def _compared(
    ledger: Ledger, address: AddressRow, before: BalanceRow | None, fact: BalanceSeen
) -> BalanceRow:
    """Say how the balance stands now. The first sight is what others are compared with."""
    now = BalanceRow(
        address_key=address.key,
        family=address.family,
        asset=fact.asset,
        chain=fact.chain,
        height=fact.block.height,
        time=fact.block.time,
        balance=fact.balance,
        seen_height=fact.block.height,
        seen_time=fact.block.time,
        seen_balance=fact.balance,
    )
    if before is None:
        return now
    received = await reads.received_between(ledger.work, before, upto=fact.block.height)
    unexplained = fact.balance - before.balance - received
    standing = await _still_unexplained(ledger, before)
    if standing > max(unexplained, 0):
        return msgspec.structs.replace(before, unexplained=BaseUnits(standing))
    if unexplained <= 0:
        return now
    return msgspec.structs.replace(
        now,
        height=before.height,
        time=before.time,
        balance=before.balance,
        unexplained=BaseUnits(unexplained),
    )


async def _still_unexplained(ledger: Ledger, before: BalanceRow) -> int:
    """Compare the last sight anew, if it was not explained: what was missing may be known by now."""
    if before.unexplained is None:
        return 0
    received = await reads.received_between(ledger.work, before, upto=before.seen_height)
    return before.seen_balance - before.balance - received


async def _note(ledger: Ledger, address: AddressRow, row: BalanceRow, item: Incoming) -> None:
    """Keep the address's attention and the exception true."""
    subject = subject_of(address, row.asset)
    if row.unexplained is None:
        kind = ExceptionKind.BALANCE_DIFFERS
        await close_exception(ledger, kind, subject, item.recorded_at, why="explained")
    else:
        cause = Cause(
            kind=ExceptionKind.BALANCE_DIFFERS,
            subject=subject,
            chain=row.chain,
            asset=row.asset,
            amount=row.unexplained,
            order=address.owner,
            note=f"blocks {row.height + 1} to {row.seen_height}",
        )
        await open_exception(ledger, cause, item.recorded_at)
    await note_unexplained(ledger, address)


async def note_unexplained(ledger: Ledger, address: AddressRow) -> None:
    """Say on the address whether anything that it holds is unexplained."""
    stands = await reads.is_unexplained(ledger.work, address.family, address.key)
    address.note(Attention.BALANCE_DIFFERS.value, stands=stands)
    ledger.touch_address(address)


def _note_looked(entry: OrderEntry, row: BalanceRow) -> None:
    if row.asset == entry.state.terms.asset:
        entry.change(looked_until=row.time)


async def _journal_and_judge(
    ledger: Ledger,
    item: Incoming,
    address: AddressRow,
    entry: OrderEntry | None,
    seq: int,
) -> None:
    journal_at_address(ledger, address, item, seq)
    if entry is None:
        await wake_everywhere(ledger, address, seq)
        return
    own = ledger.lane_of(entry)
    await judge(ledger, entry, own.moment(seq=seq, recorded_at=item.recorded_at, verdicts=False))


async def settle_balance(
    ledger: Ledger, subject: str, chain: ChainName, seq: int, at: datetime
) -> list[str]:
    """A person has explained what an address holds: it is what others are compared with from now.

    Gives the orders that must be judged again.
    """
    asset = subject.partition("/")[2]
    key = address_of_subject(subject, chain)
    await ledger.lock_addresses([key])
    address = ledger.addresses.get(key)
    row = await reads.balance(ledger.work, *key, asset)
    if address is None or row is None:
        return []
    if address.owner is not None:
        await ledger.load_orders([address.owner])
        await catch_up(ledger, ledger.orders[address.owner])
    else:
        await drain_address(ledger, address)
    explained = msgspec.structs.replace(
        row,
        height=row.seen_height,
        time=row.seen_time,
        balance=row.seen_balance,
        unexplained=None,
    )
    await upsert(ledger.work.connection, tables.balances, [explained], keys=_KEYS)
    await note_unexplained(ledger, address)
    await close_exception(ledger, ExceptionKind.BALANCE_DIFFERS, subject, at, why="explained")
    if address.owner is None:
        await wake_everywhere(ledger, address, seq)
        return []
    _note_looked(ledger.orders[address.owner], explained)
    return [address.owner]
