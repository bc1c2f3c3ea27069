"""The scripting verbs of one UTXO chain: payments of every shape, and those that compete.

Builds transactions and hands them to the mempools of `MinedUtxoChain`. Everything it takes and gives
is plain (text, numbers, structs), so that the same verbs are reached over `POST /control`. Amounts are
satoshi; every paying verb gives the transaction's id and takes a `Spend`.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, Literal

from msgspec import Struct

from chains.devnet.hexadecimal import ScriptError
from chains.devnet.utxo.mining import MinedUtxoChain
from chains.devnet.utxo.transactions import (
    Input,
    Output,
    Transaction,
    hash_bytes,
    make_transaction,
    outpoint_of,
    outpoint_text,
    spend,
)
from chains.utxo.address import address_of_script
from chains.utxo.merkle import shown

OUTPUTS_MAX: Final = 10_000
FEE: Final = 1_000
_REPLACEABLE: Final = 0xFFFF_FFFD
_FOR_GOOD: Final = 0xFFFF_FFFE
_BEFORE: Final = {"p2pkh": "76a914", "p2sh": "a914", "p2wpkh": "0014", "p2wsh": "0020"}
_BEHIND: Final = {"p2pkh": "88ac", "p2sh": "87"}


class Pay(Struct, frozen=True):
    """One output: `to` is an address, or `script:<hex>`. **Units**: satoshi."""

    to: str
    amount: int


class Spend(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a payment is made. **Units**: `fee` in satoshi.

    `inputs` are outpoints to spend (`<txid>:<n>`), anybody's; without any, the customers' coins. What
    is over goes back to the customers. `replaceable` is BIP 125's mark. `hold`: nobody hears of it, it
    is there for `mine` and `place`.
    """

    inputs: tuple[str, ...] = ()
    fee: int = FEE
    replaceable: bool = True
    hold: bool = False


PLAIN_SPEND: Final = Spend()


class UtxoChain(MinedUtxoChain):
    """A chain that does what a script says."""

    def new_address(
        self, name: str, kind: Literal["p2pkh", "p2sh", "p2wpkh", "p2wsh"] = "p2pkh"
    ) -> str:
        """Give the address of a name. The same name and kind, the same address."""
        digest = sha256(self.name.encode() + name.encode()).digest()
        program = digest if kind == "p2wsh" else digest[:20]
        script = _BEFORE[kind] + program.hex() + _BEHIND.get(kind, "")
        found = address_of_script(self.world.network, bytes.fromhex(script))
        if found is None:
            message = f"{self.name} has no addresses of the kind {kind}"
            raise ScriptError(message)
        return found.display

    def pay_coin(self, to: str, amount: int, how: Spend = PLAIN_SPEND) -> str:
        """Pay one address. Its output is the first."""
        return self.pay_many([Pay(to, amount)], how)

    def pay_many(self, payments: Sequence[Pay], how: Spend = PLAIN_SPEND) -> str:
        """Pay several outputs by one transaction, in this order; change is the last."""
        outputs = self._outputs(payments)
        needed = sum(one.amount for one in outputs) + how.fee
        outpoints = [outpoint_of(one) for one in how.inputs] or self.wallet.take(needed)
        inputs = [self._input(one, replaceable=how.replaceable) for one in outpoints]
        return self.submit(self._balanced(inputs, outputs, how.fee), hold=how.hold)

    def replace(
        self,
        txid: str,
        payments: Sequence[Pay] | None = None,
        *,
        fee: int | None = None,
        replaceable: bool = True,
        hold: bool = False,
    ) -> str:
        """Spend what another transaction spends: a raised fee (the same payments, less change), or a
        double spend.

        Without `fee`, as much more than before as nodes want to see. It waits in the other's place,
        unless it is held or refused.
        """
        old = self._known(txid)
        script = self.wallet.script
        kept = [one for one in old.outputs if one.script != script]
        outputs = kept if payments is None else self._outputs(payments)
        raised = self.world.fee(old) + FEE if fee is None else fee
        inputs = [self._input(one, replaceable=replaceable) for one in old.spends]
        return self.submit(self._balanced(inputs, outputs, raised), hold=hold)

    def evict(self, txid: str) -> None:
        """Let the miners forget a waiting transaction; a node of its own forgets by `UtxoNode.evict`."""
        self.mempool.evict(hash_bytes(txid))

    def outpoints(self, txid: str) -> list[str]:
        """Give what a transaction spends."""
        return [outpoint_text(one) for one in self._known(txid).spends]

    def raw(self, txid: str) -> str:
        """Give a transaction's bytes."""
        return self._known(txid).raw.hex()

    def depth(self, txid: str) -> int:
        """Tell how many blocks of the chain hold a transaction or stand upon it; 0: none does."""
        block = self.world.find(hash_bytes(txid), self.world.tree.head)
        return 0 if block is None else self.height - block.height + 1

    def waiting(self) -> list[str]:
        """Give what waits at the miners'."""
        return [shown(tx.txid) for tx in self.mempool]

    def _balanced(
        self, inputs: Sequence[Input], outputs: Sequence[Output], fee: int
    ) -> Transaction:
        spent = 0
        for one in inputs:
            output = self.world.output(one.outpoint)
            spent += 0 if output is None else output.amount
        change = spent - fee - sum(one.amount for one in outputs)
        back = [Output(change, self.wallet.script)] if change > 0 else []
        return make_transaction(inputs, [*outputs, *back])

    def _input(self, outpoint: bytes, *, replaceable: bool) -> Input:
        output = self.world.output(outpoint)
        if output is None:
            message = f"there is no output {outpoint_text(outpoint)}"
            raise ScriptError(message)
        sequence = _REPLACEABLE if replaceable else _FOR_GOOD
        return spend(outpoint, output.script, sequence=sequence)

    def _outputs(self, payments: Sequence[Pay]) -> list[Output]:
        if not 1 <= len(payments) <= OUTPUTS_MAX:
            message = f"expected 1 to {OUTPUTS_MAX} outputs, found {len(payments)}"
            raise ScriptError(message)
        return [Output(self._amount(one.amount), self.script_of(one.to)) for one in payments]

    def _amount(self, amount: int) -> int:
        if not 0 <= amount <= self.world.rules.money_max:
            message = f"expected an amount of {self.name}, found {amount}"
            raise ScriptError(message)
        return amount
