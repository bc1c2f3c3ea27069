"""The settings file as it is written: one struct a table, every default is DESIGN's value.

Texts that need the catalogue to be understood (amounts, assets, addresses) stay texts here and are
judged in `reconciler.config.routes`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from reconciler.config.secrets import Secret
from reconciler.kernel.spans import Span, parse_span
from schemas.caip import END

Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Name = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9-]*" + END)]


class Table(Struct, frozen=True, kw_only=True):
    """What every table is. Unknown keys are refused before one is made."""


class Database(Table, frozen=True):
    """Where we remember."""

    url: Secret
    busy_timeout: Span = parse_span("5s")
    connections: Annotated[int, Meta(ge=1, le=100)] = 10


class Keys(Table, frozen=True):
    """What only this service knows."""

    hashing: Secret
    sealing: Secret | None = None


class Journal(Table, frozen=True):
    """How the journal is closed against changes."""

    seal_every: Span = parse_span("60s")
    seals: str | None = None


class Kept(Table, frozen=True):
    """How long each topic keeps its messages."""

    orders: Span = parse_span("14d")
    orders_rejected: Span = parse_span("14d")
    requests: Span = parse_span("7d")
    transfers: Span = parse_span("30d")
    payment_events: Span = parse_span("90d")


class Stream(Table, frozen=True):
    """What carries messages between processes."""

    kind: Literal["sql", "kafka"] = "sql"
    bootstrap: str = "localhost:9092"
    prefix: Annotated[str, Meta(max_length=64, pattern=r"^([a-z0-9][a-z0-9.-]*)?" + END)] = ""
    session: Span = parse_span("10s")
    clean_every: Span = parse_span("60s")
    replicas: Annotated[int, Meta(ge=1, le=15)] | None = None
    tls: bool = False
    tls_authority: str | None = None
    sasl: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    username: str | None = None
    password: Secret | None = None
    orders_partitions: Annotated[int, Meta(ge=1, le=100)] = 3
    events_partitions: Annotated[int, Meta(ge=1, le=100)] = 6
    kept: Kept = Kept()


class Server(Table, frozen=True):
    """Where a process answers `/healthz`, `/readyz` and `/metrics`."""

    host: str = "127.0.0.1"
    port: Port = 8080


class Health(Table, frozen=True):
    """When a process says that it is not ready."""

    head_age_max: Span = parse_span("5m")
    lane_stuck_after: Span = parse_span("60s")


class Log(Table, frozen=True):
    """What is logged."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class CatalogueFile(Table, frozen=True):
    """Chains and assets beside those that we ship."""

    extra: str | None = None


class Watch(Table, frozen=True):
    """How watchers read chains."""

    identify_every: Span = parse_span("60s")
    watermark_every: Span = parse_span("1s")
    watermark_again_every: Span = parse_span("30s")
    back_scan_max: Span = parse_span("24h")
    requests_again: Span = parse_span("1h")
    look_ups_per_minute: Annotated[int, Meta(ge=1, le=6_000)] = 60


class Intake(Table, frozen=True):
    """How facts and commands are applied."""

    batch_max: Annotated[int, Meta(ge=1, le=1_000)] = 250
    batch_shared_max: Annotated[int, Meta(ge=1, le=1_000)] = 50
    sweep_max: Annotated[int, Meta(ge=1, le=1_000)] = 200
    clock_slack: Span = parse_span("30s")
    blind_after: Span = parse_span("3m")
    unknown_reference_patience: Span = parse_span("10m")
    uncovered_patience: Span = parse_span("2m")
    lines_bytes_max: Annotated[int, Meta(ge=2, le=262_144)] = 16_384


class Audit(Table, frozen=True):
    """How the second look works. `patience`: how long an order that is over without money waits for it.

    None where no audit runs: nothing waits.
    """

    patience: Span | None = None
    back: Span = parse_span("48h")
    round_every: Span = parse_span("60s")
    moved_every: Span = parse_span("24h")


class Relay(Table, frozen=True):
    """How events leave."""

    shards: Annotated[int, Meta(ge=1, le=64)] = 1
    batch_max: Annotated[int, Meta(ge=1, le=5_000)] = 500


class Chain(Table, frozen=True):
    """One chain and the nodes through which we see it."""

    rpc: Annotated[list[Secret], Meta(min_length=1, max_length=16)]
    ws: Annotated[list[Secret], Meta(max_length=16)] = field(default_factory=list)
    second_rpc: Annotated[list[Secret], Meta(max_length=16)] = field(default_factory=list)
    start_at: NotNegative | None = None
    lanes: Annotated[int, Meta(ge=1, le=64)] = 1
    poll_interval: Span | None = None
    request_timeout: Span = parse_span("20s")
    connect_timeout: Span = parse_span("5s")
    requests_at_once: Annotated[int, Meta(ge=1, le=256)] = 8
    batch_max: Annotated[int, Meta(ge=1, le=1_000)] = 50
    answer_bytes_max: Annotated[int, Meta(ge=1_048_576, le=4_294_967_296)] = 268_435_456
    reorganisation_limit: Positive | None = None


class Derived(Table, frozen=True, tag="derived", tag_field="mode"):
    """One address an order, from an extended public key. `script` where its prefix does not say it.

    `first_index`: the least index that is given out; wallets count addresses from 0.
    """

    xpub: Secret
    script: Literal["p2pkh", "p2sh-p2wpkh", "p2wpkh", "p2tr"] | None = None
    first_index: Annotated[int, Meta(ge=0, lt=2**31)] = 0


class Given(Table, frozen=True, tag="given", tag_field="mode"):
    """The shop sends an address with each order."""


class Shared(Table, frozen=True, tag="shared", tag_field="mode"):
    """One address for many orders, told apart by reserved amounts. `step` is in the asset.

    `more_max`: what is asked above the price is never more than this share of it.
    """

    address: str
    step: str
    steps_max: Annotated[int, Meta(ge=1, le=100_000)] = 999
    more_max: str = "1%"


class Tier(Table, frozen=True):
    """How deep is final up to an amount. `up_to` is in the asset; the last tier has none."""

    up_to: str | None = None
    depth: NotNegative | None = None
    rule: Literal["finalized"] | None = None


class Tolerance(Table, frozen=True):
    """How much too little still confirms, and how much too much needs a person; in the asset."""

    under: str = "0"
    under_max: str | None = None
    excess_max: str = "0"


class RouteTable(Table, frozen=True):
    """One way to pay. Spans that are None take the chain's own default."""

    name: Name
    asset: str
    deposit: Derived | Given | Shared
    finality: Annotated[list[Tier], Meta(min_length=1, max_length=10)]
    tolerance: Tolerance = Tolerance()
    minimum: str | None = None
    quote: Span = parse_span("60m")
    claim_extension: Span = parse_span("20m")
    claim_extension_known: Span = parse_span("20m")
    claim_patience: Span = parse_span("20m")
    late: str = "review"
    grace: Span = parse_span("30d")
    retracted_patience: Span | None = None
    pending_patience: Span | None = None
    mempool_patience: Span = parse_span("30m")
    flag_by_address: bool = True
    flag_by_reserved_amount: bool = True
    claims_max: Annotated[int, Meta(ge=0, le=20)] = 3
    implausible_times: Annotated[int, Meta(ge=2, le=1_000_000)] = 100
    coinbase_depth: Annotated[int, Meta(ge=101)] | None = None
    closed: bool = False


class SettingsFile(Table, frozen=True):
    """The whole file."""

    database: Database
    keys: Keys
    chains: Annotated[dict[str, Chain], Meta(min_length=1, max_length=64)]
    routes: Annotated[list[RouteTable], Meta(min_length=1, max_length=1_000)]
    journal: Journal = Journal()
    stream: Stream = Stream()
    server: Server = Server()
    health: Health = Health()
    log: Log = Log()
    catalogue: CatalogueFile = CatalogueFile()
    watch: Watch = Watch()
    intake: Intake = Intake()
    relay: Relay = Relay()
    audit: Audit = Audit()
