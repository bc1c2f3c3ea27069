"""The table of guards to break: where each stands, and what is put in its place.

A substitution must fit the code exactly once; a test says so when the code has moved on. It is then
written anew: the guard is still there, or there is a reason why it no longer has to be.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Mutant(Struct, frozen=True, kw_only=True):
    """One broken guard. `old` stands once in the module and becomes `new`.

    `utxo`: it stands in what only seeds of Bitcoin-like chains meet, a quarter of all.
    """

    name: str
    module: str
    broken: str
    old: str
    new: str
    utxo: bool = False


MUTANTS: Final[tuple[Mutant, ...]] = (
    # --- chains: what the nodes say ---
    Mutant(
        name="parent-not-compared",
        module="chains.follow",
        broken="a block counts as following ours whoever its parent is",
        old="if header.parent_hash == tip.hash:\n            self._held = None",
        new="if True:\n            self._held = None",
    ),
    Mutant(
        name="receipts-root-not-checked",
        module="chains.evm.checks",
        broken="receipts are believed without the header's root",
        old='    if rule == "none":\n        return\n    expected = words.hash_text(block.receipts_root',
        new="    if rule:\n        return\n    expected = words.hash_text(block.receipts_root",
    ),
    Mutant(
        name="back-scan-forgotten",
        module="chains.side_work",
        broken="the watermark says that open back-scans are done: a restart forgets them",
        old="return min([self._read_upto_offset, *open_offsets])",
        new="return self._read_upto_offset",
    ),
    # --- intake ---
    Mutant(
        name="position-not-moved",
        module="reconciler.services.apply_facts",
        broken="facts are applied without moving the position in the same transaction",
        old="        await move_position(work, batch, held=held)\n",
        new="        if held is None:\n            await move_position(work, batch, held=held)\n",
    ),
    Mutant(
        name="inbox-not-waited-for",
        module="reconciler.services.coverage",
        broken="orders end by chain time alone, whatever waits in our own inbox",
        old="decided_until = None if inbox_until is None else min(message.time, inbox_until)",
        new="decided_until = message.time",
    ),
    Mutant(
        name="retraction-ignored",
        module="reconciler.services.coverage",
        broken="transfers of a retracted block stay where they were",
        old="        row.state, row.retracted_at = TransferState.RETRACTED, retracted_at\n",
        new="        row.retracted_at = retracted_at\n",
    ),
    Mutant(
        name="coverage-not-lowered",
        module="reconciler.services.coverage",
        broken="a retraction leaves coverage where it was",
        old="    await _lower(ledger, view, message)\n",
        new="",
    ),
    Mutant(
        name="repeat-adds-up",
        module="reconciler.services.apply_commands",
        broken="the same idempotency key is carried out again",
        old="known = self.commands.get(",
        new="known = {}.get(",
    ),
    # --- verdicts ---
    Mutant(
        name="one-block-too-early",
        module="reconciler.lifecycle.finality",
        broken="a transfer is final one block before its depth",
        old="if required is not None and depth < required:",
        new="if required is not None and depth < required - 1:",
    ),
    Mutant(
        name="finalized-not-asked",
        module="reconciler.lifecycle.finality",
        broken="the chain's own finality is not waited for",
        old="return tier.depth is not None or moment.finalized_height >= transfer.block.height",
        new="return True",
    ),
    Mutant(
        name="split-lowers-depth",
        module="reconciler.lifecycle.finality",
        broken="the depth is chosen by the part, not by what is due",
        old="return tier_for(terms.policy, max(terms.due, order_sum, transfer.tx_total))",
        new="return tier_for(terms.policy, transfer.amount)",
    ),
    Mutant(
        name="never-reversed",
        module="reconciler.lifecycle.phases",
        broken="a confirmed order stays so when its money is gone",
        old="    if enough or not moment.verdicts:\n",
        new="    if True:\n",
    ),
    Mutant(
        name="pending-holds-nothing",
        module="reconciler.lifecycle.phases",
        broken="an order ends while money in time is pending",
        old="    return any(until is None or until <= limit for limit in limits)",
        new="    return not limits and until is None",
    ),
    Mutant(
        name="claim-extends-nothing",
        module="reconciler.model.order",
        broken="a claim in time earns no extension",
        old="    if not earned:\n        return terms.deadline",
        new="    if earned or not earned:\n        return terms.deadline",
    ),
    Mutant(
        name="late-counts",
        module="reconciler.lifecycle.counting",
        broken="money after the end counts like money in time",
        old="    if transfer.first_time > end:\n        return False\n",
        new="",
    ),
    Mutant(
        name="wrong-asset-counts",
        module="reconciler.lifecycle.counting",
        broken="money in another asset counts",
        old="    if transfer.asset != terms.asset:\n        return Attention.WRONG_ASSET\n",
        new="",
    ),
    Mutant(
        name="too-tolerant",
        module="reconciler.model.order",
        broken="ten times the agreed tolerance is enough",
        old="share = self.due * tolerance.under_ppm // 1_000_000",
        new="share = self.due * tolerance.under_ppm // 100_000",
    ),
    # --- matching ---
    Mutant(
        name="any-amount-fits",
        module="reconciler.matcher.match",
        broken="on a shared address the amount does not matter",
        old="        and reservation.amount == question.amount\n",
        new="",
    ),
    Mutant(
        name="siblings-stay-open",
        module="reconciler.services.judge",
        broken="the other orders of a paid purchase stay open",
        old="    if EventKind.CONFIRMED in kinds:\n        await _cancel_siblings",
        new="    if False:\n        await _cancel_siblings",
    ),
    Mutant(
        name="stray-money-unsaid",
        module="reconciler.services.matching",
        broken="money that no order explains opens no exception",
        old="    await open_exception(ledger, cause, item.recorded_at)",
        new="    return",
    ),
    Mutant(
        name="late-money-unsaid",
        module="reconciler.services.judge",
        broken="late money on an order opens no exception",
        old="kind = ExceptionKind.PAID_TWICE if twice else ExceptionKind.LATE",
        new="kind = None",
    ),
    # --- relay ---
    Mutant(
        name="number-not-given-again",
        module="reconciler.storage.outbox",
        broken="a batch whose number was committed unheard is overtaken by the next",
        old="    under_way = await numbered(work, shard)\n",
        new="    under_way = []\n",
    ),
    Mutant(
        name="settled-by-sending-again",
        module="reconciler.relay.relay",
        broken="a relay sends again what had arrived before it died",
        old="            if number <= last:\n",
        new="            if False:\n",
    ),
    Mutant(
        name="settled-by-marking",
        module="reconciler.relay.relay",
        broken="a relay takes for sent what it had only numbered",
        old="            if number <= last:\n",
        new="            if True:\n",
    ),
    Mutant(
        name="outbox-out-of-order",
        module="reconciler.storage.outbox",
        broken="the messages of a batch leave in another order",
        old="        .where(unsent.c.shard == shard, unsent.c.batch == batch)\n        .order_by(outbox.c.id)\n",
        new="        .where(unsent.c.shard == shard, unsent.c.batch == batch)\n        .order_by(outbox.c.id.desc())\n",
    ),
    # --- Bitcoin-like chains ---
    Mutant(
        name="utxo-other-block-believed",
        module="chains.utxo.source",
        broken="another block than the one that was asked for is believed",
        old="        if block.header.hash != header.hash:",
        new="        if block.header.hash == header.parent_hash + header.hash:",
        utxo=True,
    ),
    Mutant(
        name="mined-rival-not-noticed",
        module="chains.unmined",
        broken="a block that spends what a payment would spend drops nothing",
        old="        for outpoint in self.contested_by(taken):",
        new="        for outpoint in list[str]():",
        utxo=True,
    ),
    Mutant(
        name="block-time-covers",
        module="chains.utxo.headers",
        broken="a chain is as far as its newest block says, and not as the median of eleven",
        old="        coverage_time=_time(times[len(times) // 2]),",
        new="        coverage_time=_time(max(times)),",
        utxo=True,
    ),
)
