"""What happens to a transfer: seen, moved to another block, dropped. One id, one row, for ever."""

from __future__ import annotations

from collections.abc import Sequence

from chains.addresses import canonical_key
from chains.catalog import CatalogueError
from reconciler.services.claims import settle_claims
from reconciler.services.incoming import Incoming, journal_body
from reconciler.services.judge import catch_up, judge
from reconciler.services.ledger import Ledger
from reconciler.services.matching import find_match, give_by_match, keep_own_exception
from reconciler.services.unreadable import UnappliableError
from reconciler.storage.rows import TransferRow
from reconciler.stream.promise import Lane
from schemas.amounts import ZERO, BaseUnits
from schemas.caip import chain_of, family_of
from schemas.codes import MatchRule, TransferState
from schemas.facts import TransferDropped, TransferSeen
from schemas.values import split_transfer_id

_ON_CHAIN = frozenset({TransferState.INCLUDED, TransferState.FINAL})


async def apply_seen(
    ledger: Ledger, lane: Lane, item: Incoming, fact: TransferSeen, seq: int
) -> None:
    """Apply a sighting: new money, a move to another block, or nothing new."""
    _check(ledger, fact)
    row = ledger.transfers.get(fact.transfer)
    if row is not None and _is_repeat(row, fact):
        return
    touched = set(ledger.owners_of(fact.transfer))
    if row is None:
        row = _new_row(lane, item, fact, seq)
        touched |= await _catch_up_candidates(ledger, row, touched)
        ledger.put_transfer(row)
    else:
        await _catch_up_all(ledger, touched)
        _move(ledger, row, fact)
        ledger.put_transfer(row)
    touched |= _add_up_tx(ledger, row)
    if not ledger.owners_of(row.transfer):
        await give_by_match(ledger, row, await find_match(ledger, row), item)
    owners = set(ledger.owners_of(row.transfer))
    await _catch_up_all(ledger, (touched | owners) - touched)
    _journal(ledger, row, item, seq, sorted(owners))
    await _judge_all(ledger, touched | owners, item, seq)


async def apply_dropped(ledger: Ledger, item: Incoming, fact: TransferDropped, seq: int) -> None:
    """Apply that a transfer can no longer be mined. One that stands in a block stays there."""
    row = ledger.transfers.get(fact.transfer)
    if row is None or row.state in _ON_CHAIN or row.state == TransferState.DROPPED:
        return
    owners = set(ledger.owners_of(row.transfer))
    await _catch_up_all(ledger, owners)
    row.state = TransferState.DROPPED
    row.retracted_at = None
    row.height = row.block_hash = row.block_time = None
    ledger.put_transfer(row)
    if not owners:
        await keep_own_exception(ledger, row, await find_match(ledger, row), item)
    touched = owners | _add_up_tx(ledger, row)
    _journal(ledger, row, item, seq, sorted(owners))
    await _judge_all(ledger, touched, item, seq)


def _check(ledger: Ledger, fact: TransferSeen) -> None:
    """Refuse what makes no sense before anything is changed."""
    chain, _, _ = split_transfer_id(fact.transfer)
    if chain != fact.chain or chain_of(fact.asset) != fact.chain:
        sentence = f"chain {fact.chain}, transfer {fact.transfer} and asset {fact.asset} differ"
        raise UnappliableError(sentence)
    try:
        ledger.context.catalogue.asset(fact.asset)
    except CatalogueError as error:
        raise UnappliableError(str(error)) from error
    if fact.amount == 0:
        sentence = "a transfer of zero is no transfer"
        raise UnappliableError(sentence)
    key = (family_of(fact.chain), canonical_key(fact.chain, fact.to))
    if key not in ledger.addresses:
        sentence = f"{fact.to} is no address of ours"
        raise UnappliableError(sentence)


def _is_repeat(row: TransferRow, fact: TransferSeen) -> bool:
    """Tell whether a sighting says nothing new."""
    if fact.block is None:
        return row.state in _ON_CHAIN or row.state == TransferState.SEEN
    same_place = (row.height, row.block_hash) == (fact.block.height, fact.block.hash)
    return row.state in _ON_CHAIN and same_place and _is_same_money(row, fact)


def _is_same_money(row: TransferRow, fact: TransferSeen) -> bool:
    key = canonical_key(fact.chain, fact.to)
    return (row.asset, row.address_key, row.amount) == (fact.asset, key, fact.amount)


def _new_row(lane: Lane, item: Incoming, fact: TransferSeen, seq: int) -> TransferRow:
    block = fact.block
    return TransferRow(
        transfer=fact.transfer,
        chain=fact.chain,
        tx=split_transfer_id(fact.transfer)[1],
        asset=fact.asset,
        family=family_of(fact.chain),
        address_key=canonical_key(fact.chain, fact.to),
        lane=lane.name,
        sender=fact.sender,
        amount=fact.amount,
        state=TransferState.INCLUDED if block else TransferState.SEEN,
        height=block.height if block else None,
        block_hash=block.hash if block else None,
        block_time=block.time if block else None,
        first_time=min(block.time, fact.first_seen_at) if block else fact.first_seen_at,
        heard_at=item.recorded_at,
        retracted_at=None,
        was_final=False,
        coinbase=fact.coinbase,
        rule=MatchRule.NONE,
        reason="",
        decided=False,
        rejected_from=None,
        disposed=None,
        open_kind=None,
        tx_total=fact.amount,
        seq=seq,
    )


def _move(ledger: Ledger, row: TransferRow, fact: TransferSeen) -> None:
    """Put a known transfer where the chain has it now; *in time* stays what it first was.

    A transaction that is mined again may move other money at the same position: then whoever had
    it loses it, and it is matched anew.
    """
    block = fact.block
    if not _is_same_money(row, fact):
        ledger.give(row.transfer, [])
        row.decided, row.rejected_from, row.was_final = False, None, False
        row.address_key = canonical_key(fact.chain, fact.to)
    if block is None:
        row.state = TransferState.SEEN
        row.height = row.block_hash = row.block_time = None
    else:
        row.was_final = row.was_final or row.state == TransferState.FINAL
        row.state = TransferState.INCLUDED
        row.height, row.block_hash, row.block_time = block.height, block.hash, block.time
        row.retracted_at = None
    row.amount, row.asset, row.sender = fact.amount, fact.asset, fact.sender


def _add_up_tx(ledger: Ledger, row: TransferRow) -> set[str]:
    """Tell every transfer of a transaction what all of it pays us; gives the orders it touches."""
    same = [
        other
        for other in ledger.transfers_of_tx(row.chain, row.tx)
        if other.asset == row.asset and other.state != TransferState.DROPPED
    ]
    total = BaseUnits(sum((other.amount for other in same), start=ZERO))
    touched: set[str] = set()
    for other in same:
        if other.tx_total != total:
            other.tx_total = total
            ledger.put_transfer(other)
            touched |= set(ledger.owners_of(other.transfer))
    return touched


async def _catch_up_candidates(ledger: Ledger, row: TransferRow, known: set[str]) -> set[str]:
    """Catch up the order of an own address before its money changes."""
    owner = ledger.addresses[row.family, row.address_key].owner
    found = {owner} - known if owner else set()
    await _catch_up_all(ledger, found)
    return found


async def _catch_up_all(ledger: Ledger, references: set[str]) -> None:
    for reference in sorted(references):
        await catch_up(ledger, ledger.orders[reference])


async def _judge_all(ledger: Ledger, references: set[str], item: Incoming, seq: int) -> None:
    for reference in sorted(references):
        entry = ledger.orders[reference]
        settle_claims(ledger, entry)
        lane = ledger.lane_of(entry)
        await judge(
            ledger, entry, lane.moment(seq=seq, recorded_at=item.recorded_at, verdicts=False)
        )


def _journal(
    ledger: Ledger, row: TransferRow, item: Incoming, seq: int, owners: Sequence[str]
) -> None:
    """Write the fact into the chain of its first order, else of its address."""
    if owners:
        entry = ledger.orders[owners[0]]
        entry.dirty = True
        head, chain_key = entry.row, f"order/{entry.row.reference}"
        ledger.journal.add(
            seq=seq,
            head=head,
            chain_key=chain_key,
            kind="fact",
            recorded_at=item.recorded_at,
            body=journal_body(item),
        )
        return
    address = ledger.addresses[row.family, row.address_key]
    ledger.touch_address(address)
    ledger.journal.add(
        seq=seq,
        head=address,
        chain_key=f"address/{address.family}/{address.key}",
        kind="fact",
        recorded_at=item.recorded_at,
        body=journal_body(item),
    )
