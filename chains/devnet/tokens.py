"""Tokens of a devnet and what they do with a transfer. Pure: reads balances, gives changes and logs.

Only the standard one does what its log says; the others are those that payment watchers fell for.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Protocol

from msgspec import Struct

from chains.devnet.hexadecimal import ZERO_ADDRESS, word
from chains.devnet.scripted import TRANSFER_TOPIC, Log, MoveToken, transfer_log

BASIS_POINTS: Final = 10_000


class TokenKind(StrEnum):
    """How a token behaves.

    `standard`: reverts without the money. `returns_false`: returns false, status 1, no log.
    `fee_on_transfer`: logs net and fee (USDT's switch). `hidden_fee`: logs the gross amount and moves
    less. `nft`: ERC-721, the id stands in a fourth topic.
    """

    STANDARD = "standard"
    RETURNS_FALSE = "returns_false"
    FEE_ON_TRANSFER = "fee_on_transfer"
    HIDDEN_FEE = "hidden_fee"
    NFT = "nft"


class Token(Struct, frozen=True, kw_only=True):
    """One token. `fee_basis_points` is taken from each transfer and goes to `fee_to`."""

    address: bytes
    symbol: str
    name: str
    decimals: int
    kind: TokenKind = TokenKind.STANDARD
    fee_basis_points: int = 0
    fee_to: bytes = ZERO_ADDRESS
    symbol_is_bytes32: bool = False

    def fee_of(self, amount: int) -> int:
        """Give what the token keeps of a transfer, rounded down as the contract does."""
        if self.kind in {TokenKind.FEE_ON_TRANSFER, TokenKind.HIDDEN_FEE}:
            return amount * self.fee_basis_points // BASIS_POINTS
        return 0


class Balances(Protocol):
    """Where balances are kept while a transaction runs."""

    def number(self, key: tuple[object, ...]) -> int:
        """Give what stands there now."""
        ...

    def change(self, key: tuple[object, ...], by: int) -> None:
        """Add to it."""
        ...


class Outcome(Struct, frozen=True):
    """What a token did. `reverts`: the frame fails; `answer`: what the call returns."""

    reverts: bool
    answer: bytes
    logs: tuple[Log, ...] = ()


_TRUE: Final = word(1)
_FALSE: Final = word(0)


def balance_key(token: bytes, owner: bytes) -> tuple[object, ...]:
    """Give the ledger's key of a token balance."""
    return ("token", token, owner)


def move(token: Token, step: MoveToken, balances: Balances) -> Outcome:
    """Carry out one transfer, mint or burn."""
    if token.kind is TokenKind.NFT:
        return _move_nft(token, step)
    if step.owner != ZERO_ADDRESS:
        if balances.number(balance_key(token.address, step.owner)) < step.amount:
            refused = token.kind is TokenKind.RETURNS_FALSE
            return Outcome(reverts=not refused, answer=_FALSE if refused else b"")
        balances.change(balance_key(token.address, step.owner), -step.amount)
    fee = token.fee_of(step.amount)
    balances.change(balance_key(token.address, step.to), step.amount - fee)
    if fee:
        balances.change(balance_key(token.address, token.fee_to), fee)
    return Outcome(reverts=False, answer=_TRUE, logs=_logs(token, step, fee))


def _logs(token: Token, step: MoveToken, fee: int) -> tuple[Log, ...]:
    if token.kind is TokenKind.HIDDEN_FEE or not fee:
        return (transfer_log(token.address, step.owner, step.to, step.amount),)
    return (
        transfer_log(token.address, step.owner, step.to, step.amount - fee),
        transfer_log(token.address, step.owner, token.fee_to, fee),
    )


def _move_nft(token: Token, step: MoveToken) -> Outcome:
    topics = (TRANSFER_TOPIC, word(step.owner), word(step.to), word(step.amount))
    return Outcome(reverts=False, answer=b"", logs=(Log(token.address, topics, b""),))
