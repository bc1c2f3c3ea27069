"""The scripting verbs of one chain: accounts, tokens, payments of every shape.

Builds transactions and hands them to the mempool of `MinedChain`. Everything it takes and gives is
plain (text, numbers, structs), so that the same verbs are reached over `POST /control`. Addresses are
`0x…` in any letter case; amounts are base units; every paying verb gives the transaction's hash and
takes a `How`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from chains.devnet.calls import PLAINLY, ZERO, Call, How, Payment, Step, TokenMove
from chains.devnet.encoding import created_address
from chains.devnet.hexadecimal import (
    ZERO_ADDRESS,
    ScriptError,
    address_bytes,
    bytes_of,
    checksummed,
    hash_bytes,
    keccak,
    word,
)
from chains.devnet.ledger import coin_key
from chains.devnet.mining import MinedChain
from chains.devnet.scripted import Emit, Frame, Log, MoveToken, Transaction
from chains.devnet.signing import make_transaction
from chains.devnet.tokens import Token, TokenKind, balance_key

COIN: Final = 10**18
TRANSFER_CALL: Final = bytes.fromhex("a9059cbb")
TRANSFER_FROM_CALL: Final = bytes.fromhex("23b872dd")
CONTRACT_CODE: Final = bytes.fromhex("6080604052")
AMOUNT_LIMIT: Final = 2**256
STEPS_MAX: Final = 10_000


class DevnetChain(MinedChain):
    """A chain that does what a script says."""

    def account(self, name: str, *, coin: int = 1_000 * COIN) -> str:
        """Give the address of a named account, with coin in it. The same name, the same address."""
        address = keccak(word(self.chain_id) + name.encode())[12:]
        missing = coin - self.world.ledger.given(coin_key(address))
        self.world.ledger.give(coin_key(address), max(0, missing))
        return checksummed(address)

    def give_coin(self, to: str, amount: int) -> None:
        """Give coin out of nowhere, without a transaction, on every branch and at every height."""
        self.world.ledger.give(coin_key(address_bytes(to)), _amount(amount))

    def give_token(self, token: str, to: str, amount: int) -> None:
        """Give a token out of nowhere, without a transaction or log."""
        key = balance_key(self._token(token).address, address_bytes(to))
        self.world.ledger.give(key, _amount(amount))

    def set_code(self, address: str, code: str = "0x6080604052") -> None:
        """Make an account a contract (or an EIP-7702 delegate) out of nowhere; `0x` undoes it."""
        self.world.ledger.give_code(address_bytes(address), bytes_of(code))

    def deploy_token(
        self,
        symbol: str,
        decimals: int,
        *,
        address: str | None = None,
        name: str = "",
        kind: TokenKind = TokenKind.STANDARD,
        fee_basis_points: int = 0,
        fee_to: str = ZERO,
        symbol_is_bytes32: bool = False,
    ) -> str:
        """Put a token at an address (a listed one, or one worked out from the symbol)."""
        made_up = created_address(keccak(symbol.encode())[12:], len(self.world.tokens))
        token = Token(
            address=made_up if address is None else address_bytes(address),
            symbol=symbol,
            name=name or symbol,
            decimals=decimals,
            kind=kind,
            fee_basis_points=fee_basis_points,
            fee_to=address_bytes(fee_to),
            symbol_is_bytes32=symbol_is_bytes32,
        )
        self.world.tokens[token.address] = token
        self.world.ledger.give_code(token.address, CONTRACT_CODE)
        return checksummed(token.address)

    def pay_coin(self, sender: str, to: str, amount: int, how: How = PLAINLY) -> str:
        """Send the chain's coin."""
        return self._send(sender, Frame(to=address_bytes(to), value=_amount(amount)), how)

    def pay_token(self, token: str, sender: str, to: str, amount: int, how: How = PLAINLY) -> str:
        """Send a token. What comes of it is the token's affair."""
        move = TokenMove(token=token, owner=sender, to=to, amount=amount)
        call = TRANSFER_CALL + word(address_bytes(to)) + word(_amount(amount))
        return self._send(sender, self._token_frame(move, call), how)

    def transfer_from(
        self, token: str, operator: str, owner: str, to: str, amount: int, how: How = PLAINLY
    ) -> str:
        """Move somebody's token: a stranger may, as long as the amount is zero."""
        move = TokenMove(token=token, owner=owner, to=to, amount=amount)
        parties = word(address_bytes(owner)) + word(address_bytes(to))
        call = TRANSFER_FROM_CALL + parties + word(_amount(amount))
        return self._send(operator, self._token_frame(move, call), how)

    def mint_token(
        self, token: str, operator: str, to: str, amount: int, how: How = PLAINLY
    ) -> str:
        """Mint a token to somebody: a transfer from the zero address."""
        return self.transfer_from(token, operator, ZERO, to, amount, how)

    def pay_many(
        self, sender: str, payments: Sequence[Payment], contract: str, how: How = PLAINLY
    ) -> str:
        """Pay many in one transaction, through a contract that the sender calls with the coin."""
        steps: list[Step] = []
        for one in payments:
            if one.token is None:
                steps.append(Step(call=Call(to=one.to, value=one.amount)))
            else:
                move = TokenMove(token=one.token, owner=contract, to=one.to, amount=one.amount)
                steps.append(Step(call=Call(to=one.token, steps=(Step(move=move),))))
        coin = sum(one.amount for one in payments if one.token is None)
        return self.send(sender, Call(to=contract, value=coin, steps=tuple(steps)), how)

    def pay_inside(
        self, sender: str, contract: str, to: str, amount: int, how: How = PLAINLY
    ) -> str:
        """Let a contract pay coin by an inner call; the transaction itself carries none."""
        inner = Call(to=to, value=amount)
        return self.send(sender, Call(to=contract, steps=(Step(call=inner),)), how)

    def send(self, sender: str, call: Call, how: How = PLAINLY) -> str:
        """Send any call tree at all."""
        return self._send(sender, self._frame(call), how)

    def bridge_in(self, token: str, to: str, amount: int) -> str:
        """Mint by a bridge's own transaction, which stands outside of the next block's roots."""
        move = TokenMove(token=token, owner=ZERO, to=to, amount=_amount(amount))
        frame = self._frame(Call(to=ZERO, steps=(Step(move=move),)))
        return self.bridge(self._transaction(ZERO_ADDRESS, frame, How(type=0, gas_limit=0)))

    def balance(self, address: str, token: str | None = None) -> int:
        """Tell what an account has at the head. **Units**: base units."""
        owner = address_bytes(address)
        key = coin_key(owner) if token is None else balance_key(self._token(token).address, owner)
        return self.world.ledger.number(key, self.world.tree.head)

    def _send(self, sender: str, root: Frame, how: How) -> str:
        tx = self._transaction(address_bytes(sender), root, how)
        return self.submit(tx, hold=how.hold)

    def _transaction(self, sender: bytes, root: Frame, how: How) -> Transaction:
        nonce = self.next_nonce(sender) if how.nonce is None else how.nonce
        return make_transaction(self.chain_id, sender, nonce, root, how)

    def _token_frame(self, move: TokenMove, call: bytes) -> Frame:
        frame = self._frame(Call(to=move.token, steps=(Step(move=move),)))
        return Frame(to=frame.to, input=call, steps=frame.steps)

    def _frame(self, call: Call) -> Frame:
        if len(call.steps) > STEPS_MAX:
            message = f"expected at most {STEPS_MAX} steps in a call, found {len(call.steps)}"
            raise ScriptError(message)
        return Frame(
            kind=call.kind,
            to=address_bytes(call.to),
            value=_amount(call.value),
            input=bytes_of(call.input),
            steps=tuple(self._step(step) for step in call.steps),
            fails=call.fails,
        )

    def _step(self, step: Step) -> Frame | MoveToken | Emit:
        if step.call is not None:
            return self._frame(step.call)
        if step.move is not None:
            move = step.move
            return MoveToken(
                self._token(move.token).address,
                address_bytes(move.owner),
                address_bytes(move.to),
                _amount(move.amount),
            )
        if step.log is not None:
            log = step.log
            topics = tuple(hash_bytes(topic) for topic in log.topics)
            return Emit(Log(address_bytes(log.address), topics, bytes_of(log.data)))
        message = "a step needs a call, a move or a log"
        raise ScriptError(message)

    def _token(self, address: str) -> Token:
        token = self.world.tokens.get(address_bytes(address))
        if token is None:
            message = f"chain {self.chain_id} has no token at {address}; deploy it first"
            raise ScriptError(message)
        return token


def _amount(amount: int) -> int:
    if not 0 <= amount < AMOUNT_LIMIT:
        message = f"expected an amount from 0 to 2^256 - 1, found {amount}"
        raise ScriptError(message)
    return amount
