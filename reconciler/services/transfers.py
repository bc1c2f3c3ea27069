"""What happens to a transfer: seen, moved to another block, dropped. One id, one row, for ever."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from chains.addresses import canonical_key
from chains.registry import parse_transaction_id
from reconciler.matcher import Share
from reconciler.services.claims import settle_claims
from reconciler.services.incoming import Incoming, journal_body
from reconciler.services.judge import catch_up_all, judge
from reconciler.services.known import journal_at_address, require_listed, require_ours
from reconciler.services.ledger import Ledger
from reconciler.services.matching import find_match, give_by_match, keep_own_exception
from reconciler.services.unreadable import UnappliableError
from reconciler.storage.rows import TransferRow
from reconciler.stream.promise import Lane
from schemas.amounts import AMOUNT_LIMIT, BaseUnits
from schemas.caip import ChainName, chain_of, family_of
from schemas.codes import MatchRule, TransferState
from schemas.facts import TransferDropped, TransferSeen
from schemas.values import OrderReference, split_transfer_id

#: What a column holds; no chain comes near.
_HEIGHT_MAX: Final = 2**63 - 1
#: Announcements of what waits come every ten minutes; nearer ones are repeats of a restart.
_HEARD_EVERY: Final = timedelta(minutes=5)
_ON_CHAIN = frozenset({TransferState.INCLUDED, TransferState.FINAL})


async def apply_seen(
    ledger: Ledger, lane: Lane, item: Incoming, fact: TransferSeen, seq: int
) -> None:
    """Apply a sighting: new money, a move to another block, or nothing new.

    Every order that it may touch is caught up before anything is changed. Zero is no money: anybody
    can make a token say that it moved none.
    """
    if fact.amount == 0:
        return
    _check(ledger, fact)
    row = ledger.transfers.get(fact.transfer)
    if row is not None and _is_repeat(row, fact, item.recorded_at):
        return
    touched = set(ledger.owners_of(fact.transfer))
    tx = split_transfer_id(fact.transfer)[1]
    await catch_up_all(ledger, touched | _bystanders(ledger, fact.chain, tx, fact.to))
    if row is None:
        row = _new_row(lane, item, fact, seq)
        await _take_over(ledger, row, item)
    else:
        _move(ledger, row, fact)
        if fact.block is None:
            row.heard_at = max(row.heard_at, item.recorded_at)
    ledger.put_transfer(row)
    touched |= _add_up_tx(ledger, row)
    if not ledger.owners_of(row.transfer):
        match = await find_match(ledger, row)
        await _catch_up_loaded(ledger, {share.order for share in match.shares})
        await give_by_match(ledger, row, match, item)
    owners = set(ledger.owners_of(row.transfer))
    touched |= owners | _settle_claimants(ledger, row.tx)
    _journal(ledger, row, item, seq, sorted(owners))
    await _judge_all(ledger, touched, item, seq)


async def apply_dropped(ledger: Ledger, item: Incoming, fact: TransferDropped, seq: int) -> None:
    """Apply that a transfer can no longer be mined. One that stands in a block stays there."""
    row = ledger.transfers.get(fact.transfer)
    if row is None or row.state in _ON_CHAIN or row.state == TransferState.DROPPED:
        return
    owners = set(ledger.owners_of(row.transfer))
    await catch_up_all(ledger, owners | _bystanders(ledger, fact.chain, row.tx, fact.to))
    await _drop(ledger, row, item)
    touched = owners | _add_up_tx(ledger, row) | _settle_claimants(ledger, row.tx)
    _journal(ledger, row, item, seq, sorted(owners))
    await _judge_all(ledger, touched, item, seq)


async def _drop(ledger: Ledger, row: TransferRow, item: Incoming) -> None:
    row.state = TransferState.DROPPED
    row.retracted_at = None
    row.height = row.block_hash = row.block_time = None
    ledger.put_transfer(row)
    if not ledger.owners_of(row.transfer):
        await keep_own_exception(ledger, row, await find_match(ledger, row), item)


def _bystanders(ledger: Ledger, chain: ChainName, tx: str, to: str) -> set[str]:
    """Name the orders that a sighting may touch beside its own: the address's, those that the same
    transaction pays, those whose customer named it.
    """
    address = ledger.addresses.get((family_of(chain), canonical_key(chain, to)))
    found = {address.owner} if address is not None and address.owner is not None else set()
    for other in ledger.transfers_of_tx(chain, tx):
        found |= set(ledger.owners_of(other.transfer))
    found |= {claim.order_ref for claim in ledger.claims_seen if claim.tx == tx}
    return found & ledger.orders.keys()


def _settle_claimants(ledger: Ledger, tx: str) -> set[str]:
    """End the claims that name a transaction; gives the orders for which that is news."""
    news = set()
    for reference in {claim.order_ref for claim in ledger.claims_seen if claim.tx == tx}:
        entry = ledger.orders.get(reference)
        if entry is None:
            continue
        before = entry.state.claims
        settle_claims(ledger, entry)
        if entry.state.claims != before:
            news.add(reference)
    return news


async def _take_over(ledger: Ledger, row: TransferRow, item: Incoming) -> None:
    """Take over what is known of the same money at another position of the same transaction.

    A transaction that is mined again may log its movements elsewhere in its receipt. When it was first
    seen, that it was final, and what a person decided about it stay true; the old position is empty.
    """
    old = next(
        (
            other
            for other in ledger.transfers_of_tx(row.chain, row.tx)
            if other.state == TransferState.RETRACTED
            and (other.asset, other.address_key) == (row.asset, row.address_key)
            and other.amount == row.amount
        ),
        None,
    )
    if old is None:
        return
    row.first_time = min(row.first_time, old.first_time)
    row.was_final, row.rejected_from, row.disposed = (
        old.was_final,
        old.rejected_from,
        old.disposed,
    )
    shares = [
        Share(OrderReference(share.order_ref), share.share)
        for share in ledger.shares_of(old.transfer)
    ]
    ledger.put_transfer(row)
    await _drop(ledger, old, item)
    if old.decided:
        await give_by_match(ledger, row, await find_match(ledger, row, shares), item)


def why_unappliable(ledger: Ledger, fact: TransferSeen) -> str | None:
    """Say why a sighting makes no sense, or None. Its address is read, if it is ours."""
    try:
        _check(ledger, fact)
    except UnappliableError as error:
        return str(error)
    return None


def _check(ledger: Ledger, fact: TransferSeen) -> None:
    """Refuse what makes no sense before anything is changed."""
    chain, tx, _ = split_transfer_id(fact.transfer)
    if parse_transaction_id(fact.chain, tx) not in {None, tx}:
        # A second spelling would be a second identity of the same money (CH-R12).
        sentence = f"transaction {tx} is not written as this chain's are"
        raise UnappliableError(sentence)
    if chain != fact.chain or chain_of(fact.asset) != fact.chain:
        sentence = f"chain {fact.chain}, transfer {fact.transfer} and asset {fact.asset} differ"
        raise UnappliableError(sentence)
    require_listed(ledger, fact.asset)
    if fact.block is not None and fact.block.height > _HEIGHT_MAX:
        sentence = f"height {fact.block.height} is none of a block"
        raise UnappliableError(sentence)
    require_ours(ledger, fact.chain, fact.to)


def _is_repeat(row: TransferRow, fact: TransferSeen, recorded_at: datetime) -> bool:
    """Tell whether a sighting says nothing new: that money still waits is news now and then."""
    if fact.block is None:
        fresh = recorded_at < row.heard_at + _HEARD_EVERY
        return row.state in _ON_CHAIN or (row.state == TransferState.SEEN and fresh)
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
    # Only chooses a tier, and no tier is higher than this: what cannot be one amount is as good.
    total = BaseUnits(min(sum(other.amount for other in same), AMOUNT_LIMIT - 1))
    touched: set[str] = set()
    for other in same:
        if other.tx_total != total:
            other.tx_total = total
            ledger.put_transfer(other)
            touched |= set(ledger.owners_of(other.transfer))
    return touched


async def _catch_up_loaded(ledger: Ledger, references: set[str]) -> None:
    """Catch up orders that the match found, before they get the money."""
    await ledger.load_orders(references)
    await catch_up_all(ledger, references)


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
    journal_at_address(ledger, ledger.addresses[row.family, row.address_key], item, seq)
