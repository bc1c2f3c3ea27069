"""What a seed says about its run: how the service is set up and what will go wrong.

Every seed switches most faults off and a few on ("swarm"): a run in which everything happens at once
hides what two faults alone would show. Drawn before anything runs, so that it can be printed.
"""

from __future__ import annotations

from random import Random

from msgspec import Struct

#: **Units**: seconds of virtual time since the start.
PLACED_UNTIL_S = 50.0
FAULTS_UNTIL_S = 170.0
#: Who is not done by then never will be.
ENDS_AT_S = 1_500.0


class Faults(Struct, frozen=True, kw_only=True):
    """How often something goes wrong. `…_every_s` is a mean span, zero is never; shares are of one.

    **Units**: in the names.
    """

    reorganise_every_s: float = 0.0
    reorganise_depth_max: int = 3
    flip_back: bool = False
    replace_share: float = 0.0
    node_every_s: float = 0.0
    lie_every_s: float = 0.0
    slow_answer_share: float = 0.0
    chain_stalls_every_s: float = 0.0
    kill_every_s: float = 0.0
    dies_share: float = 0.0
    pause_every_s: float = 0.0
    double_every_s: float = 0.0
    log_down_every_s: float = 0.0
    log_refuses_share: float = 0.0
    log_slow_share: float = 0.0
    unknown_outcome_share: float = 0.0
    rebalance_every_s: float = 0.0
    clock_jumps_every_s: float = 0.0
    database_busy_share: float = 0.0
    database_lost_share: float = 0.0
    commit_unknown_share: float = 0.0


class Plan(Struct, frozen=True, kw_only=True):
    """One run. `yield_share`: of all statements, before how many others may run. `utxo`: its chains are
    Bitcoin-like ones.
    """

    seed: int
    shuffled: bool
    yield_share: float
    chains: int
    lanes: int
    orders_partitions: int
    events_partitions: int
    shards: int
    intakes: int
    all_in_one: bool
    orders: int
    shared_share: float
    purchase_share: float
    operator_every_s: float
    repeat_share: float
    reorganisation_limit: int
    finality_lag: int
    late_revives: bool
    flag_by_address: bool
    watermark_every_s: int
    impatient_share: float
    batch_max: int
    relay_batch_max: int
    block_s: float
    faults: Faults
    utxo: bool


def plan_of(seed: int) -> Plan:
    """Draw a plan. The same seed, the same plan."""
    lot = Random(f"plan/{seed}")
    intakes = lot.choice((1, 1, 2))
    return Plan(
        seed=seed,
        shuffled=lot.random() < 0.7,
        yield_share=lot.choice((0.0, 0.0, 0.02, 0.1)),
        chains=lot.choice((1, 1, 1, 2)),
        lanes=lot.choice((1, 1, 2)),
        orders_partitions=lot.choice((1, 1, 2)),
        events_partitions=lot.choice((1, 2)),
        shards=lot.choice((1, 1, 2)),
        intakes=intakes,
        all_in_one=intakes == 1 and lot.random() < 0.4,
        orders=lot.choice((1, 2, 3, 3, 4)),
        shared_share=lot.choice((0.0, 0.3, 0.7)),
        purchase_share=lot.choice((0.0, 0.0, 0.5)),
        operator_every_s=lot.choice((0.0, 0.0, 10.0, 30.0)),
        repeat_share=lot.choice((0.0, 0.2, 0.5)),
        reorganisation_limit=lot.choice((3, 64)),
        finality_lag=lot.choice((6, 10)),
        late_revives=lot.random() < 0.2,
        flag_by_address=lot.random() < 0.8,
        watermark_every_s=lot.choice((1, 1, 14)),
        impatient_share=lot.choice((0.0, 0.5)),
        batch_max=lot.choice((1, 4, 250, 250)),
        relay_batch_max=lot.choice((1, 500, 500)),
        block_s=lot.choice((5.0, 8.0)),
        faults=_faults(lot),
        # drawn last: a seed of EVM chains is the run that it was before there were others
        utxo=lot.random() < 0.25,
    )


def _faults(lot: Random) -> Faults:
    """Switch each fault on in about a third of the runs; one run in ten has none."""
    if lot.random() < 0.1:
        return Faults()

    def at_times(*values: float) -> float:
        return lot.choice(values) if lot.random() < 0.35 else 0.0

    return Faults(
        reorganise_every_s=at_times(12.0, 30.0) or at_times(20.0),
        reorganise_depth_max=lot.choice((1, 3, 6)),
        flip_back=lot.random() < 0.5,
        replace_share=lot.choice((0.0, 0.3)),
        node_every_s=at_times(10.0, 30.0),
        lie_every_s=at_times(5.0, 15.0),
        slow_answer_share=at_times(0.02, 0.1),
        chain_stalls_every_s=at_times(60.0),
        kill_every_s=at_times(15.0, 40.0) or at_times(30.0),
        dies_share=at_times(0.001, 0.004),
        pause_every_s=at_times(25.0),
        double_every_s=at_times(40.0),
        log_down_every_s=at_times(25.0, 60.0),
        log_refuses_share=at_times(0.01, 0.05),
        log_slow_share=at_times(0.03, 0.1),
        unknown_outcome_share=at_times(0.02, 0.1),
        rebalance_every_s=at_times(10.0, 30.0),
        clock_jumps_every_s=at_times(20.0),
        database_busy_share=at_times(0.02, 0.1),
        database_lost_share=at_times(0.002, 0.01),
        commit_unknown_share=at_times(0.01, 0.05),
    )
