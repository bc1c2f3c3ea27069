"""Play a transaction's script on the ledger: what moves, what fails, what is logged.

Reads and writes a `Sheet`; gives an `Executed`. Undoes what failed, as the EVM does. Knows nothing of
branches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from chains.devnet.blocks import BASE_FEE, Executed, Trace
from chains.devnet.encoding import DEPOSIT_TYPE, created_address, delegation_code
from chains.devnet.hexadecimal import ZERO_ADDRESS, bytes_of, keccak, word
from chains.devnet.ledger import Sheet, coin_key, nonce_key
from chains.devnet.scripted import (
    Emit,
    Frame,
    FrameKind,
    Log,
    MoveToken,
    Transaction,
    transfer_log,
)
from chains.devnet.tokens import Token, TokenKind, balance_key, move

#: EIP-7708: the address whose Transfer log tells of a move of coin.
SYSTEM_ADDRESS: Final = bytes_of("0xfffffffffffffffffffffffffffffffffffffffe")
#: Polygon's contract that mirrors the chain's coin.
MIRROR_ADDRESS: Final = bytes_of("0x0000000000000000000000000000000000001010")
MIRROR_TOPIC: Final = keccak(
    b"LogTransfer(address,address,address,uint256,uint256,uint256,uint256,uint256)"
)
CREATES: Final = frozenset({FrameKind.CREATE, FrameKind.CREATE2})
#: Frames that carry no value of their own.
BORROWS: Final = frozenset({FrameKind.DELEGATECALL, FrameKind.CALLCODE, FrameKind.STATICCALL})
GAS_PLAIN: Final = 21_000
GAS_FRAME: Final = 9_000
GAS_LOG: Final = 1_756
#: Tokens whose payers are topped up; the one that returns false is there to be short of money.
_GIVEN_FREELY: Final = frozenset(TokenKind) - {TokenKind.RETURNS_FALSE, TokenKind.NFT}
CREATED_CODE: Final = bytes_of("0x6080604052")


class Rules(Struct, frozen=True, kw_only=True):
    """How this chain differs from the next.

    `generous`: a payer without enough is given the rest. `coin_logs`: EIP-7708. `mirror_logs`: the
    chain's coin is also logged by a contract (Polygon).
    """

    generous: bool = True
    coin_logs: bool = False
    mirror_logs: bool = False


class Executor:
    """Executes transactions one after the other on one sheet: one block."""

    def __init__(self, sheet: Sheet, tokens: Mapping[bytes, Token], rules: Rules) -> None:
        self._sheet = sheet
        self._tokens = tokens
        self._rules = rules
        self._logs: list[Log] = []
        self._frames = 0
        self._log_index = 0
        self._gas = 0
        self._index = 0

    def execute(self, tx: Transaction, *, bridge: bool = False) -> Executed:
        """Play one transaction; the sender pays gas and uses its nonce even when it fails."""
        self._logs, self._frames = [], 0
        fee = 0 if bridge or tx.type == DEPOSIT_TYPE else min(tx.fee_max, BASE_FEE + tx.tip_max)
        self._fund(tx.sender, tx.root.value + fee * tx.gas_limit)
        self._sheet.change(nonce_key(tx.sender), 1)
        for delegate in tx.authorizations:
            self._sheet.set_code(tx.sender, delegation_code(delegate))
        address = created_address(tx.sender, tx.nonce)
        trace = self._enter(tx.root, sender=tx.sender, created=address)
        gas_used = self._gas_used(tx, bridge=bridge)
        trace.gas_used = gas_used
        self._sheet.change(coin_key(tx.sender), -fee * gas_used)
        return self._closed(tx, trace, gas_used=gas_used, fee=fee, bridge=bridge)

    def _closed(
        self, tx: Transaction, trace: Trace, *, gas_used: int, fee: int, bridge: bool
    ) -> Executed:
        self._gas += gas_used
        executed = Executed(
            transaction=tx,
            index=self._index,
            status=0 if trace.error else 1,
            gas_used=gas_used,
            cumulative_gas=self._gas,
            fee=fee,
            logs=tuple(self._logs),
            log_index=self._log_index,
            trace=trace,
            contract=trace.to if trace.kind in CREATES else None,
            bridge=bridge,
        )
        self._index += 1
        self._log_index += len(self._logs)
        return executed

    def _gas_used(self, tx: Transaction, *, bridge: bool) -> int:
        if bridge:
            return 0
        used = GAS_PLAIN + GAS_FRAME * (self._frames - 1) + GAS_LOG * len(self._logs)
        return min(tx.gas_limit, used)

    def _enter(
        self, frame: Frame, *, sender: bytes, created: bytes = b"", lent_value: int = 0
    ) -> Trace:
        """Play a frame. `sender` is whose storage and coin the code above it acted on."""
        self._frames += 1
        mark, logged = self._sheet.mark(), len(self._logs)
        borrows = frame.kind in BORROWS
        trace = Trace(
            kind=frame.kind,
            sender=sender,
            to=created if frame.kind in CREATES else frame.to,
            value=lent_value if borrows else self._value_of(frame, sender),
            input=frame.input,
            calls=[],
        )
        error = None if borrows else self._move_coin(trace)
        if error is None and frame.kind in CREATES:
            self._sheet.set_code(trace.to, CREATED_CODE)
            trace.output = CREATED_CODE
        acting = sender if frame.kind in {FrameKind.DELEGATECALL, FrameKind.CALLCODE} else trace.to
        error = error or self._play(frame, trace, acting)
        if error is not None:
            self._sheet.tear_off(mark)
            del self._logs[logged:]
            trace.error = error
        return trace

    def _play(self, frame: Frame, trace: Trace, acting: bytes) -> str | None:
        for count, step in enumerate(frame.steps):
            if isinstance(step, Emit):
                self._logs.append(step.log)
            elif isinstance(step, MoveToken):
                error = self._move_token(step, trace)
                if error is not None:
                    return error
            else:
                salt = word(self._frames * 1_000 + count)
                created = keccak(acting + salt)[12:]
                child = self._enter(step, sender=acting, created=created, lent_value=trace.value)
                child.gas_used = 0 if child.kind is FrameKind.SELFDESTRUCT else GAS_FRAME
                trace.calls.append(child)
        return frame.fails

    def _value_of(self, frame: Frame, sender: bytes) -> int:
        if frame.kind is FrameKind.SELFDESTRUCT:
            return self._sheet.number(coin_key(sender))
        return frame.value

    def _move_coin(self, trace: Trace) -> str | None:
        if not trace.value:
            return None
        if trace.kind is not FrameKind.SELFDESTRUCT:
            self._fund(trace.sender, trace.value)
        if self._sheet.number(coin_key(trace.sender)) < trace.value:
            return "insufficient balance for transfer"
        self._sheet.change(coin_key(trace.sender), -trace.value)
        self._sheet.change(coin_key(trace.to), trace.value)
        if trace.sender != trace.to:
            self._log_coin(trace)
        return None

    def _log_coin(self, trace: Trace) -> None:
        if self._rules.coin_logs:
            log = transfer_log(SYSTEM_ADDRESS, trace.sender, trace.to, trace.value)
            self._logs.append(log)
        if self._rules.mirror_logs:
            topics = (MIRROR_TOPIC, word(MIRROR_ADDRESS), word(trace.sender), word(trace.to))
            after = [self._sheet.number(coin_key(one)) for one in (trace.sender, trace.to)]
            before = [after[0] + trace.value, after[1] - trace.value]
            amounts = b"".join(word(amount) for amount in (trace.value, *before, *after))
            self._logs.append(Log(MIRROR_ADDRESS, topics, amounts))
            self._logs.append(transfer_log(MIRROR_ADDRESS, trace.sender, trace.to, trace.value))

    def _move_token(self, step: MoveToken, trace: Trace) -> str | None:
        token = self._tokens[step.token]
        if self._rules.generous and token.kind in _GIVEN_FREELY and step.owner != ZERO_ADDRESS:
            key = balance_key(token.address, step.owner)
            self._sheet.give(key, max(0, step.amount - self._sheet.number(key)))
        outcome = move(token, step, self._sheet)
        if outcome.reverts:
            return "execution reverted"
        trace.output = outcome.answer
        self._logs.extend(outcome.logs)
        return None

    def _fund(self, address: bytes, needed: int) -> None:
        missing = needed - self._sheet.number(coin_key(address))
        if self._rules.generous and missing > 0:
            self._sheet.give(coin_key(address), missing)
