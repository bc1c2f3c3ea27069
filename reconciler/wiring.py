"""The composition root: from settings to the parts that a process is made of.

The only place that knows which implementation stands behind a promise. Opens and closes; decides
nothing.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncEngine

from chains.catalog import CatalogueError
from chains.child_keys import warm_up
from chains.errors import NoCheckpoint
from chains.follow import Follower, FollowSettings
from chains.http_node import NodeLimits
from chains.observe import Observer
from chains.port import ChainSource, Checkpoint, FollowLoop, FollowStatus, LogMemory
from chains.registry import open_source, tells_balances
from reconciler.audit.ask import Asker
from reconciler.audit.look import LookTerms, SecondLook
from reconciler.config import Settings
from reconciler.config.tables import Stream as StreamTable
from reconciler.intake.intake import Intake, IntakeTerms
from reconciler.intake.sealer import SealingTerms
from reconciler.kernel.clock import Clock
from reconciler.kernel.refusals import Refusal
from reconciler.observability.health import Health
from reconciler.observability.metrics import Meters
from reconciler.observability.stopping import Job
from reconciler.relay.relay import Relay
from reconciler.services.context import ServiceContext
from reconciler.services.start_check import is_older_than_seals, missing_settings
from reconciler.storage.asking import DatabaseUnreachable
from reconciler.storage.engine import make_engine
from reconciler.storage.schema_version import check_schema
from reconciler.storage.seal_file import SealFileError
from reconciler.storage.seals import SealingKey
from reconciler.storage.unit_of_work import Store
from reconciler.stream import topics
from reconciler.stream.promise import Stream, TopicsDiffer, TopicSpec
from reconciler.stream.sql import SqlStream
from reconciler.watch.observer import observer_of
from reconciler.watch.watcher import Watcher, WatchTerms
from schemas.caip import ChainName, family_of


class Parts(Struct, frozen=True, kw_only=True):
    """What the doors of one process share."""

    settings: Settings
    store: Store
    stream: Stream
    clock: Clock
    meters: Meters
    health: Health


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[AsyncEngine]:
    """Open the database. Nothing is asked of it yet."""
    table = settings.file.database
    engine = make_engine(
        table.url.reveal(),
        connections=table.connections,
        busy_timeout_ms=table.busy_timeout // timedelta(milliseconds=1),
    )
    try:
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[AsyncEngine]:
    """Open a database that has this program's tables.

    **Raises**: `SchemaDiffers`; `DatabaseUnreachable`.
    """
    async with open_engine(settings) as engine:
        await _refuse_other_tables(engine)
        yield engine


@asynccontextmanager
async def open_stream(settings: Settings, engine: AsyncEngine) -> AsyncIterator[Stream]:
    """Open the log that the settings name, started. **Raises**: `StreamUnavailable`."""
    stream = _stream(settings, engine)
    try:
        await stream.start()
        yield stream
    finally:
        await stream.close()


@asynccontextmanager
async def open_parts(settings: Settings, *, clock: Clock) -> AsyncIterator[Parts]:
    """Open what a process needs, and refuse to start where tables, log or orders say otherwise.

    **Raises**: `SchemaDiffers`; `TopicsDiffer`; `Refusal` when open orders use a route that settings no longer have;
    `DatabaseUnreachable`; `StreamUnavailable`.
    """
    async with open_database(settings) as engine, open_stream(settings, engine) as stream:
        await _refuse_other_topics(settings, stream)
        store = Store(engine)
        await _refuse_lost_routes(settings, store)
        await _refuse_lost_addresses(settings, store)
        yield Parts(
            settings=settings,
            store=store,
            stream=stream,
            clock=clock,
            meters=Meters(),
            health=Health(),
        )


def context_of(settings: Settings) -> ServiceContext:
    """Give the services what they need to know of the settings."""
    return ServiceContext(
        catalogue=settings.catalogue,
        routes=settings.routes(),
        lanes=settings.lanes(),
        secret=settings.file.keys.hashing.reveal().encode(),
        orders_partitions=settings.file.stream.orders_partitions,
        relay_shards=settings.file.relay.shards,
        parked_for=settings.file.intake.unknown_reference_patience,
        lines_bytes_max=settings.file.intake.lines_bytes_max,
    )


def intake_of(parts: Parts) -> Intake:
    """Make the intake of a process. A second passes where routes derive addresses: see `warm_up`."""
    context = context_of(parts.settings)
    if context.derives:
        warm_up()
    table, journal = parts.settings.file.intake, parts.settings.file.journal
    sealing = parts.settings.file.keys.sealing
    return Intake(
        IntakeTerms(
            clock_slack=table.clock_slack,
            blind_after=table.blind_after,
            stuck_after=parts.settings.file.health.lane_stuck_after,
            batch_max=table.batch_max,
            batch_shared_max=table.batch_shared_max,
            sweep_max=table.sweep_max,
        ),
        store=parts.store,
        context=context,
        stream=parts.stream,
        clock=parts.clock,
        meters=parts.meters,
        health=parts.health,
        sealing=SealingTerms(
            every=journal.seal_every,
            key=None if sealing is None else SealingKey(sealing.reveal()),
            file=parts.settings.seals,
        ),
    )


def relay_of(parts: Parts, shard: int) -> Relay:
    """Make the relay of one shard of the outbox."""
    return Relay(
        shard,
        store=parts.store,
        stream=parts.stream,
        specs={spec.name: spec for spec in parts.settings.topic_specs()},
        clock=parts.clock,
        meters=parts.meters,
        batch_max=parts.settings.file.relay.batch_max,
    )


def watcher_of(parts: Parts, chain: ChainName) -> tuple[Watcher, ChainSource]:
    """Make the watcher of a chain, and the source that it reads; who runs it closes the source.

    **Raises**: `Refusal` as `source_of`.
    """
    settings = parts.settings
    observer = observer_of(parts.meters)
    source = source_of(settings, chain, clock=parts.clock, observer=observer)
    table, paces = settings.file.chains[chain], settings.file.watch
    entry = msgspec.structs.replace(
        settings.catalogue.chain(chain), reorganisation_limit=settings.reorganisation_limit(chain)
    )
    follow_settings = FollowSettings(
        empty_watermark_s=paces.watermark_every.total_seconds(),
        resend_s=paces.watermark_again_every.total_seconds(),
        identify_s=paces.identify_every.total_seconds(),
        back_scan_s_max=paces.back_scan_max.total_seconds(),
        look_ups_a_minute=paces.look_ups_per_minute,
    )

    def follow(checkpoint: Checkpoint | None, log_id: str, log: LogMemory) -> FollowLoop:
        return Follower(
            source,
            entry=entry,
            checkpoint=checkpoint,
            log_id=log_id,
            start_at=table.start_at,
            log=log,
            clock=parts.clock,
            observer=observer,
            settings=follow_settings,
        )

    watcher = Watcher(
        WatchTerms(
            chain=chain,
            lanes=table.lanes,
            reorganisation_limit=entry.reorganisation_limit,
            requests_again=paces.requests_again,
            head_age_max=settings.head_age_max(chain),
            specs=_specs_of(settings, chain),
        ),
        stream=parts.stream,
        follow=follow,
        make_log_id=lambda: uuid4().hex[:12],
        clock=parts.clock,
        meters=parts.meters,
    )
    return watcher, source


def watch_job_of(parts: Parts, chain: ChainName) -> tuple[Job, Callable[[], FollowStatus | None]]:
    """Give the watcher of a chain as a job, with its checks; and what tells where it stands."""
    watcher, source = watcher_of(parts, chain)
    parts.health.register(f"head {chain}", watcher.head_age)
    parts.health.register(f"watch {chain}", watcher.verdict)

    async def run() -> None:
        try:
            await watcher.run()
        except NoCheckpoint as error:
            raise Refusal(f'chains."{chain}".start_at: {error}') from None
        finally:
            await source.close()

    return run, watcher.status


def second_look_jobs_of(parts: Parts, chains: Sequence[ChainName]) -> dict[str, Job]:
    """Give a second look at each chain as a job, with its check."""
    jobs: dict[str, Job] = {}
    for chain in chains:
        look = second_look_of(parts, chain)
        parts.health.register(f"audit {chain}", look.verdict)
        jobs[f"audit {chain}"] = look.run
    return jobs


def second_look_of(parts: Parts, chain: ChainName) -> SecondLook:
    """Make the second look at a chain, over nodes of its own or the watcher's, last first."""
    settings = parts.settings
    table, audit = settings.file.chains[chain], settings.file.audit
    urls = [url.reveal() for url in table.second_rpc or reversed(table.rpc)]
    source = source_of(
        settings, chain, clock=parts.clock, observer=observer_of(parts.meters), urls=urls
    )
    return SecondLook(
        LookTerms(
            chain=chain,
            lanes=table.lanes,
            entry=settings.catalogue.chain(chain),
            patience=audit.patience,
            back=audit.back,
            round_every=audit.round_every,
            moved_every=audit.moved_every,
            balances=tells_balances(chain, [url.reveal() for url in table.rpc]),
        ),
        source=source,
        store=parts.store,
        asker=Asker(parts.stream, chain, parts.clock, parts.meters),
        clock=parts.clock,
        meters=parts.meters,
    )


def apply_and_send_jobs_of(parts: Parts) -> dict[str, Job]:
    """Give one intake and all relays as jobs, with their checks."""
    jobs: dict[str, Job] = {"intake": intake_of(parts).run}
    for shard in range(parts.settings.file.relay.shards):
        relay = relay_of(parts, shard)
        parts.health.register(relay.name, relay.verdict)
        jobs[relay.name] = relay.run
    return jobs


def source_of(
    settings: Settings,
    chain: ChainName,
    *,
    clock: Clock,
    observer: Observer,
    urls: Sequence[str] | None = None,
) -> ChainSource:
    """Make the source of a chain, over all its nodes or some of them. Not started.

    **Raises**: `Refusal` for a chain that no code reads, or a catalogue that would count twice.
    """
    table = settings.file.chains[chain]
    all_urls = [url.reveal() for url in (*table.rpc, *table.ws)]
    limits = NodeLimits(
        timeout_s=table.request_timeout.total_seconds(),
        connect_timeout_s=table.connect_timeout.total_seconds(),
        answer_bytes_max=table.answer_bytes_max,
        requests_max=table.requests_at_once,
        batch_max=table.batch_max,
    )
    try:
        return open_source(
            chain,
            all_urls if urls is None else urls,
            catalogue=settings.catalogue,
            clock=clock,
            observer=observer,
            limits=limits,
            poll_interval_s=table.poll_interval.total_seconds() if table.poll_interval else None,
        )
    except CatalogueError as error:
        raise Refusal(f'chains."{chain}": {error}') from None


def _stream(settings: Settings, engine: AsyncEngine) -> Stream:
    table = settings.file.stream
    if table.kind == "kafka":
        # The client is loaded where it is used: most shops start without it.
        from reconciler.stream.kafka import KafkaStream

        return KafkaStream(
            table.bootstrap,
            prefix=table.prefix,
            options=_login(table),
            replicas=table.replicas,
            session_s=table.session.total_seconds(),
        )
    return SqlStream(
        engine,
        clean_interval_s=table.clean_every.total_seconds(),
        lease_s=table.session.total_seconds(),
    )


def _login(table: StreamTable) -> Mapping[str, Any]:
    """Say how clients of the cluster connect: in the clear or by TLS, with or without a password.

    **Raises**: `Refusal` when the authority's certificates cannot be read.
    """
    ways = {
        (False, False): "PLAINTEXT",
        (True, False): "SSL",
        (False, True): "SASL_PLAINTEXT",
        (True, True): "SASL_SSL",
    }
    options: dict[str, Any] = {"security_protocol": ways[table.tls, table.sasl is not None]}
    if table.tls:
        try:
            options["ssl_context"] = ssl.create_default_context(cafile=table.tls_authority)
        except OSError as error:
            raise Refusal(f"stream.tls_authority: {table.tls_authority}: {error}") from None
    if table.sasl is not None and table.username is not None and table.password is not None:
        options["sasl_mechanism"] = table.sasl
        options["sasl_plain_username"] = table.username
        options["sasl_plain_password"] = table.password.reveal()
    return options


def _specs_of(settings: Settings, chain: ChainName) -> tuple[TopicSpec, ...]:
    """Give the topics that one chain's watcher reads and writes."""
    names = {
        topics.transfers_topic(chain),
        topics.requests_topic(chain),
        topics.watchlist_topic(family_of(chain)),
    }
    return tuple(spec for spec in settings.topic_specs() if spec.name in names)


async def _refuse_other_topics(settings: Settings, stream: Stream) -> None:
    differences = await stream.compare_topics(settings.topic_specs())
    if differences:
        message = f"{'; '.join(differences)}; see reconciler migrate"
        raise TopicsDiffer(message)


async def _refuse_other_tables(engine: AsyncEngine) -> None:
    try:
        await check_schema(engine)
    except DatabaseUnreachable as error:
        raise DatabaseUnreachable(f"database.url: {error}") from None


async def _refuse_lost_routes(settings: Settings, store: Store) -> None:
    """Refuse settings under which an open order could not be watched or matched to its end."""
    missing = await missing_settings(store, context_of(settings))
    if missing:
        raise Refusal("; ".join(missing))


async def _refuse_lost_addresses(settings: Settings, store: Store) -> None:
    """Refuse to hand addresses out of a restored database where the log was restored with it.

    Kafka remembers which were handed out (`reconciler.intake.recall`); tables of the same database do
    not, and only the file of seals shows that they were put back.
    """
    derived = [route.name for route in settings.routes().values() if route.mode == "derived"]
    if settings.file.stream.kind != "sql" or settings.seals is None or not derived:
        return
    try:
        if not await is_older_than_seals(store, settings.seals):
            return
    except SealFileError as error:
        raise Refusal(f"journal.seals: {error}") from None
    raise Refusal(
        f"{settings.seals} ends with a seal that the database does not have: it was restored from a "
        f"backup, and so was its log, so that addresses of {', '.join(derived)} would be handed out "
        "again. Set deposit.first_index of these routes above every index that was handed out since, "
        "keep the file elsewhere, and start again"
    )
