"""From a node's answers to the transfers that reach watched addresses.

Pure and synchronous: reads decoded answers, writes `TransferSeen`; asks no node and keeps nothing.
Effects only: a log of a listed contract in a successful receipt, the root frame of a successful
transaction, inner frames whose ancestors all succeeded. Names, symbols, calldata and the `removed`
flag decide nothing.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct, field

from chains.errors import AnswerRefused
from chains.evm import words
from chains.evm.address import display
from chains.evm.frames import Move
from chains.evm.listed import Listed
from chains.evm.wire import Log, Receipt, Transaction
from chains.port import WatchedAddresses
from schemas.amounts import BaseUnits
from schemas.caip import AssetName
from schemas.facts import Evidence, FoundBy, TransferSeen
from schemas.facts import Leg as EvidenceLeg
from schemas.values import BlockRef, transfer_id

_TOPICS_OF_TOKEN: Final = 3
_TOPICS_OF_NFT: Final = 4
_WORD_CHARACTERS: Final = 66
_ADDRESS_BEGINS: Final = 26
_PADDING: Final = "0" * 24
_ADDRESS_BYTES: Final = 20
_ZERO_VALUES: Final = frozenset({"0x0", "0x", "0x00"})
#: The types whose root frame is the transaction itself; a rollup's own types are told in their ways.
_PLAIN_TYPES: Final = frozenset({None, "0x0", "0x1", "0x2", "0x3", "0x4"})
#: One transaction may hold thousands of movements; people need to see the shape, not all of them.
GROSS_LEGS_MAX: Final = 50
#: Whoever pays chooses how deep: some hundred frames fit into a transaction's gas. **Units**: characters.
PATH_CHARACTERS_MAX: Final = 64


class Leg(Struct, gc=False):
    """One movement inside a transaction. **Units**: `amount` in base units of `asset`."""

    position: str
    asset: AssetName
    sender: bytes
    to: bytes
    amount: int
    block_log_index: int | None = None


class Credit(Struct):
    """What a leg is worth to its receiver, and the legs that made it less than it says."""

    leg: Leg
    amount: int
    gross: Sequence[Leg] = ()
    gross_left_out: int = 0


class Reading(Struct, kw_only=True):
    """One reading of one block: what to look for, and what to write beside what is found.

    `net` reduces what an address receives by what it sends on in the same transaction. `ignored` and
    `recipients` are filled on the way.
    """

    listed: Listed
    watched: WatchedAddresses
    block: BlockRef
    seen_at: datetime
    node: str
    method: str
    found_by: FoundBy = FoundBy.WATCH
    net: bool = True
    ignored: Counter[str] = field(default_factory=Counter)
    recipients: set[bytes] = field(default_factory=set)


def token_hits(logs: Sequence[Log], reading: Reading) -> list[int]:
    """Give the places of logs that move a listed token to a watched address. The hot path.

    Nothing is built for a log that does not concern us: some 200 logs of a busy block are other
    people's. **Raises**: `AnswerRefused` where a listed contract's log is no hex.
    """
    tokens, watched, recipients = reading.listed.tokens, reading.watched, reading.recipients
    transfer, hits = words.TRANSFER_TOPIC, []
    for place, log in enumerate(logs):
        topics = log.topics
        if len(topics) != _TOPICS_OF_TOKEN:
            if len(topics) == _TOPICS_OF_NFT:
                _count_nft(topics, reading)
            continue
        if topics[0] != transfer and topics[0].lower() != transfer:
            continue
        to_text = topics[2]
        if log.address not in tokens and log.address.lower() not in tokens:
            _count_unlisted(log, reading)
            continue
        try:
            to = bytes.fromhex(to_text[_ADDRESS_BEGINS:])
        except ValueError:
            to = b""
        if len(to) != _ADDRESS_BYTES or len(to_text) != _WORD_CHARACTERS:
            message = f"expected a topic of 32 bytes, found {to_text[:80]!r}"
            raise AnswerRefused(message)
        recipients.add(to)
        if to in watched:
            if _is_transfer(log):
                hits.append(place)
            else:
                reading.ignored["malformed_log"] += 1
    return hits


def _count_nft(topics: Sequence[str], reading: Reading) -> None:
    """Count an ERC-721 transfer to us: same topic0, a token id in the fourth topic (CH-T01)."""
    if topics[0].lower() == words.TRANSFER_TOPIC and _party(topics[2]) in reading.watched:
        reading.ignored["not_fungible"] += 1


def _count_unlisted(log: Log, reading: Reading) -> None:
    """Count a look-alike's log, or one by which the chain repeats a move of its coin (CH-F02, T06)."""
    if _party(log.topics[2]) in reading.watched:
        mirror = log.address.lower() in reading.listed.mirrors
        reading.ignored["coin_mirror" if mirror else "unlisted_contract"] += 1


def _party(topic: str) -> bytes:
    try:
        return bytes.fromhex(topic[_ADDRESS_BEGINS:])
    except ValueError:
        return b""


def transfers_of_block(
    entries: Iterable[tuple[Transaction, Receipt, Sequence[Move] | None]], reading: Reading
) -> list[TransferSeen]:
    """Give what a block pays to watched addresses, from all its transactions with their receipts."""
    found: list[TransferSeen] = []
    for transaction, receipt, moves in entries:
        if pays(transaction, receipt, moves, reading):
            found += transfers_in(transaction, receipt, moves, reading)
    return found


def pays(
    transaction: Transaction, receipt: Receipt, moves: Sequence[Move] | None, reading: Reading
) -> bool:
    """Tell whether a transaction moves anything to a watched address, before its legs are built."""
    native = native_hit(transaction, receipt.contract_address, reading)
    if not succeeded(receipt):
        reading.ignored["failed_transaction"] += native
        return False
    hits = token_hits(receipt.logs, reading)
    inner = inner_hits(moves or (), reading)
    return bool(hits) or native or inner


def native_hit(transaction: Transaction, created: str | None, reading: Reading) -> bool:
    """Tell whether a transaction's own value goes to a watched address (or to one it creates)."""
    if transaction.value in _ZERO_VALUES:
        if transaction.to and words.address(transaction.to) in reading.watched:
            reading.ignored["zero_value"] += 1
        return False
    receiver = transaction.to or created
    if receiver is None:
        return False
    to = words.address(receiver)
    reading.recipients.add(to)
    return to in reading.watched


def inner_hits(moves: Iterable[Move], reading: Reading) -> bool:
    """Tell whether an inner call pays a watched address, and note all who are paid."""
    paid = [move.to for move in moves if move.path]
    reading.recipients.update(paid)
    return any(to in reading.watched for to in paid)


def transfers_in(
    transaction: Transaction, receipt: Receipt, moves: Sequence[Move] | None, reading: Reading
) -> list[TransferSeen]:
    """Give what one transaction pays to watched addresses, from its own receipt and its frames.

    `moves` is None where no node traces. **Raises**: `AnswerRefused` where the frames tell another
    story than the transaction, or the receipt does not say whether it succeeded.
    """
    if not succeeded(receipt):
        return []
    legs = legs_of(transaction, receipt, moves, reading.listed)
    tx = words.hash_text(transaction.hash)
    return [_write(credit, tx, transaction, reading) for credit in settle(legs, reading)]


def succeeded(receipt: Receipt) -> bool:
    """Tell a successful transaction. Receipts before Byzantium do not say, so those never pay.

    **Raises**: `AnswerRefused` for a receipt that says nothing at all.
    """
    if receipt.status is None and receipt.root is None:
        message = f"the receipt of {receipt.transaction_hash} has no status"
        raise AnswerRefused(message)
    return receipt.status is not None and words.integer(receipt.status) == 1


def legs_of(
    transaction: Transaction, receipt: Receipt, moves: Sequence[Move] | None, listed: Listed
) -> list[Leg]:
    """Give every movement of known assets in a successful transaction, in its order."""
    legs = _coin_legs(transaction, receipt, moves, listed)
    for place, log in enumerate(receipt.logs):
        asset = listed.tokens.get(log.address.lower())
        if asset is not None and _is_transfer(log):
            legs.append(_token_leg(place, log, asset))
    return legs


def _is_transfer(log: Log) -> bool:
    """Tell an ERC-20 transfer: three topics and one word of data."""
    topics = log.topics
    return (
        len(topics) == _TOPICS_OF_TOKEN
        and topics[0].lower() == words.TRANSFER_TOPIC
        and len(log.data) == _WORD_CHARACTERS
        and all(
            len(topic) == _WORD_CHARACTERS and topic[2:_ADDRESS_BEGINS] == _PADDING
            for topic in topics[1:]
        )
    )


def _token_leg(place: int, log: Log, asset: AssetName) -> Leg:
    return Leg(
        position=f"log:{place}",
        asset=asset,
        sender=words.raw(log.topics[1])[-_ADDRESS_BYTES:],
        to=words.raw(log.topics[2])[-_ADDRESS_BYTES:],
        amount=words.integer(log.data),
        block_log_index=None if log.log_index is None else words.integer(log.log_index),
    )


def _coin_legs(
    transaction: Transaction, receipt: Receipt, moves: Sequence[Move] | None, listed: Listed
) -> list[Leg]:
    legs = []
    amount = words.integer(transaction.value)
    if amount:
        receiver = words.address(transaction.to or receipt.contract_address or "")
        legs.append(Leg("value", listed.coin, words.address(transaction.from_), receiver, amount))
    if moves is None:
        return legs
    told = [(move.to, move.amount) for move in moves if not move.path]
    if told != [(leg.to, leg.amount) for leg in legs] and transaction.type in _PLAIN_TYPES:
        message = f"the trace of {transaction.hash} moves {told}, the block says {amount}"
        raise AnswerRefused(message)
    inner = [move for move in moves if move.path]
    return legs + [
        Leg(inner_position(move.path), listed.coin, move.sender, move.to, move.amount)
        for move in inner
    ]


def inner_position(path: str) -> str:
    """Name an inner frame's place: its path, or a number made of one that is too long for a name.

    The number has 40 digits, so it is no frame's place: no call makes so many.
    """
    if len(path) > PATH_CHARACTERS_MAX:
        digest = hashlib.sha256(path.encode()).digest()
        path = str(10**39 + int.from_bytes(digest[:16], "big"))
    return f"call:{path}"


def settle(legs: Sequence[Leg], reading: Reading) -> list[Credit]:
    """Give what watched addresses gain: what comes in, less what leaves again in the same transaction.

    The last legs in are reduced first, so that earlier positions keep their amounts; a leg that is
    left with nothing is dropped. Every address gains what the chain's balances say, per asset.
    """
    gains: list[Credit] = []
    groups: defaultdict[tuple[AssetName, bytes], list[Leg]] = defaultdict(list)
    for leg in legs:
        if leg.to not in reading.watched:
            continue
        if leg.amount == 0:
            reading.ignored["zero_value"] += 1
        else:
            groups[leg.asset, leg.to].append(leg)
    sent: defaultdict[tuple[AssetName, bytes], list[Leg]] = defaultdict(list)
    for leg in legs:
        if leg.amount and (leg.asset, leg.sender) in groups:
            sent[leg.asset, leg.sender].append(leg)
    for place, arrived in groups.items():
        gains += _net(arrived, sent[place] if reading.net else [], reading)
    return gains


def _net(arrived: Sequence[Leg], sent: Sequence[Leg], reading: Reading) -> list[Credit]:
    left = sum(leg.amount for leg in sent)
    kept: list[Credit] = []
    for leg in reversed(arrived):
        cut = min(left, leg.amount)
        left -= cut
        if cut == leg.amount:
            reading.ignored["passed_on"] += 1
        else:
            kept.append(Credit(leg, leg.amount - cut))
    if sent and kept:
        gross = [*arrived, *sent]
        kept[0].gross = _largest(gross)
        kept[0].gross_left_out = len(gross) - len(kept[0].gross)
    return kept[::-1]


def _largest(legs: Sequence[Leg]) -> Sequence[Leg]:
    """Give the largest legs that evidence has room for, in the order in which they came."""
    ranked = sorted(range(len(legs)), key=lambda place: (-legs[place].amount, place))
    return [legs[place] for place in sorted(ranked[:GROSS_LEGS_MAX])]


def _write(credit: Credit, tx: str, transaction: Transaction, reading: Reading) -> TransferSeen:
    leg = credit.leg
    sender = display(words.address(transaction.from_))
    nonce = None if transaction.nonce is None else words.integer(transaction.nonce)
    return TransferSeen(
        transfer=transfer_id(reading.listed.chain, tx, leg.position),
        chain=reading.listed.chain,
        asset=leg.asset,
        sender=display(leg.sender),
        to=display(leg.to),
        amount=BaseUnits(credit.amount),
        block=reading.block,
        first_seen_at=reading.seen_at,
        evidence=Evidence(
            method="trace" if leg.position.startswith("call:") else reading.method,
            node=reading.node,
            block_log_index=leg.block_log_index,
            gross_legs=tuple(_evidence(gross) for gross in credit.gross),
            gross_legs_left_out=credit.gross_left_out,
        ),
        found_by=reading.found_by,
        nonce_of=None if nonce is None else f"{sender}:{nonce}",
    )


def _evidence(leg: Leg) -> EvidenceLeg:
    return EvidenceLeg(
        position=leg.position,
        sender=display(leg.sender),
        to=display(leg.to),
        amount=BaseUnits(leg.amount),
    )


def nonces_used(transactions: Iterable[Transaction]) -> dict[str, str]:
    """Give which transaction used each `address:nonce`, in lower case: what can no longer be mined."""
    return {
        f"{transaction.from_.lower()}:{words.integer(transaction.nonce)}": words.hash_text(
            transaction.hash
        )
        for transaction in transactions
        if transaction.nonce is not None
    }
