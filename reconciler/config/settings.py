"""The settings that the processes use: the file's tables, the catalogue, and the routes made of them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from chains.catalog import Catalogue, CatalogueError, load_catalogue
from chains.registry import node_schemes, require_reader
from reconciler.config.reading import Reader
from reconciler.config.routes import (
    AddressReader,
    RouteRefused,
    deposit_address,
    make_route,
    whole_seconds,
)
from reconciler.config.secrets import Secret
from reconciler.config.tables import SettingsFile
from reconciler.kernel.spans import format_span
from reconciler.model.policy import Route
from reconciler.stream import topics
from reconciler.stream.promise import TopicSpec
from schemas.caip import CaipError, ChainName, Family, family_of, parse_chain

_GAPS_MAX: Final = 12
_AHEAD_S: Final = 15

#: 32 hex digits are 128 bits, which nobody guesses.
KEY_CHARACTERS_MIN: Final = 32
#: An Ed25519 seed.
_SEED: Final = re.compile(r"[0-9a-fA-F]{64}")

#: How long an append may last, by the kind of stream. **Source**: `APPEND_TIMEOUT_S` of each.
APPEND_LASTS_MAX: Final = {"kafka": timedelta(seconds=20), "sql": timedelta(seconds=30)}

SQLITE: Final = "sqlite+aiosqlite"
POSTGRESQL: Final = "postgresql+asyncpg"
#: Schemes of what takes no password, no path and no usual port.
_BARE: Final = frozenset({"zmq+tcp"})
_DATABASES: Final = (SQLITE, POSTGRESQL)


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that the one who runs the service decides. `file` holds the tables as written.

    `seals` is the file to which seals are appended, if any.
    """

    file: SettingsFile
    catalogue: Catalogue
    made_routes: dict[str, Route]
    seals: Path | None = None

    def routes(self) -> dict[str, Route]:
        """Give the routes by name."""
        return self.made_routes

    def chains(self) -> list[ChainName]:
        """Give the configured chains, in the order of the file."""
        return [ChainName(name) for name in self.file.chains]

    def families(self) -> list[Family]:
        """Give the families of the configured chains."""
        return sorted({family_of(chain) for chain in self.chains()})

    def lanes(self) -> dict[ChainName, int]:
        """Give the number of lanes of each chain."""
        return {ChainName(name): chain.lanes for name, chain in self.file.chains.items()}

    def head_age_max(self, chain: ChainName) -> timedelta:
        """Give how old the newest block may be: what the settings allow, or twelve usual gaps.

        Blocks found by chance are often late: a gap of twelve comes once in some years. Where a chain's time
        is the median of its last blocks, it lies as far back as the catalogue's slack.
        """
        entry = self.catalogue.chain(chain)
        gaps = timedelta(seconds=_GAPS_MAX * float(entry.block_time_s))
        slack = timedelta(seconds=self.block_ahead_max(chain))
        usual = gaps if entry.coverage_time == "header" else gaps + slack
        return max(self.file.health.head_age_max, usual)

    def block_ahead_max(self, chain: ChainName) -> int:
        """Give how many seconds a block's time may lie ahead of a right clock.

        Source: geth refuses blocks 15 s ahead; Bitcoin Core those 2 h ahead (MAX_FUTURE_BLOCK_TIME), which
        is what the catalogue has as the slack of chains like it.
        """
        entry = self.catalogue.chain(chain)
        return _AHEAD_S if entry.coverage_time == "header" else entry.clock_slack_s

    def reorganisation_limit(self, chain: ChainName) -> int:
        """Give the number of blocks that a chain's watcher takes back by itself."""
        own = self.file.chains[chain].reorganisation_limit
        return own or self.catalogue.chain(chain).reorganisation_limit

    def topic_specs(self) -> list[TopicSpec]:
        """Give every topic of this service as it has to be set up."""
        stream = self.file.stream
        kept = {
            topics.ORDERS: stream.kept.orders,
            topics.ORDERS_REJECTED: stream.kept.orders_rejected,
            topics.PAYMENT_EVENTS: stream.kept.payment_events,
        }
        for chain in self.chains():
            kept[topics.transfers_topic(chain)] = stream.kept.transfers
            kept[topics.requests_topic(chain)] = stream.kept.requests
        specs = topics.topic_specs(
            self.lanes(),
            self.families(),
            orders_partitions=stream.orders_partitions,
            events_partitions=stream.events_partitions,
        )
        return [_kept(spec, kept.get(spec.name)) for spec in specs]


def load_settings(path: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """Read a settings file, its catalogue file beside it, and the environment.

    **Raises**: `SettingsError` with one sentence that names the key.
    """
    reader = Reader(os.environ if environment is None else environment)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        sentence = (
            "there is no such file; --config names another, deploy/settings.example.toml is one"
        )
        raise reader.refusal(str(path), sentence) from None
    except OSError as error:
        raise reader.refusal(str(path), f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise reader.refusal(str(path), f"cannot be read: {error}") from None
    return make_settings(text, reader=reader, beside=path.parent)


def make_settings(
    text: str,
    *,
    reader: Reader,
    beside: Path,
    read_address: AddressReader = deposit_address,
) -> Settings:
    """Make settings of a file's text. `beside` is the folder in which relative paths start."""
    file = reader.read(text)
    try:
        extra = file.catalogue.extra
        catalogue = load_catalogue(None if extra is None else beside / extra)
    except (CatalogueError, OSError) as error:
        raise reader.refusal("catalogue.extra", str(error)) from None
    _refuse_database(file, reader)
    _refuse_stream(file, reader)
    _refuse_keys(file, reader)
    _refuse_chains(file, catalogue, reader)
    _refuse_spans(file, catalogue, reader)
    routes = _routes(file, catalogue, reader, read_address)
    seals = file.journal.seals
    return Settings(
        file=file,
        catalogue=catalogue,
        made_routes=routes,
        seals=None if seals is None else beside / seals,
    )


def _kept(spec: TopicSpec, kept: timedelta | None) -> TopicSpec:
    if kept is None:
        return spec
    return msgspec.structs.replace(spec, retention_s=int(kept.total_seconds()))


def _refuse_database(file: SettingsFile, reader: Reader) -> None:
    scheme, _, rest = file.database.url.reveal().partition("://")
    if scheme not in _DATABASES:
        expected = " or ".join(f"{name}://…" for name in _DATABASES)
        raise reader.refusal("database.url", f"expected {expected}")
    if scheme == SQLITE and rest.lstrip("/").partition("?")[0] in {"", ":memory:"}:
        raise reader.refusal("database.url", "expected a file: memory forgets every payment")


def _refuse_stream(file: SettingsFile, reader: Reader) -> None:
    stream = file.stream
    if stream.kind == "kafka" and not stream.bootstrap.strip():
        raise reader.refusal("stream.bootstrap", "kafka needs at least one host:port")
    if stream.sasl is not None and (stream.username is None or stream.password is None):
        raise reader.refusal("stream.sasl", "expected username and password beside it")
    if stream.sasl is None and stream.password is not None:
        raise reader.refusal(
            "stream.password", "expected sasl beside it, which says how it is sent"
        )
    if stream.password is not None and not stream.tls:
        raise reader.refusal("stream.tls", "expected true: a password is not sent in the clear")
    if stream.tls_authority is not None and not stream.tls:
        raise reader.refusal("stream.tls_authority", "expected only beside tls = true")


def _refuse_spans(file: SettingsFile, catalogue: Catalogue, reader: Reader) -> None:
    """Refuse spans with which a claim in time could be overlooked, or a living chain be called blind.

    A command may become visible as long after its own time as an append may last (decision 11). Chains
    of tests have nothing to lose and no time.
    """
    intake, kind = file.intake, file.stream.kind
    if intake.blind_after <= file.watch.watermark_again_every:
        sentence = (
            f"expected more than watch.watermark_again_every "
            f"({format_span(file.watch.watermark_again_every)}), by which a quiet chain shows that it "
            f"lives, found {format_span(intake.blind_after)}"
        )
        raise reader.refusal("intake.blind_after", sentence)
    if all(catalogue.chain(ChainName(name)).test_chain for name in file.chains):
        return
    least = APPEND_LASTS_MAX[kind]
    if intake.clock_slack < least:
        sentence = (
            f"expected at least {format_span(least)}, as long as an append to the {kind} stream may "
            f"last: a claim made in time could be overlooked, found {format_span(intake.clock_slack)}"
        )
        raise reader.refusal("intake.clock_slack", sentence)


def _refuse_keys(file: SettingsFile, reader: Reader) -> None:
    if len(file.keys.hashing.reveal()) < KEY_CHARACTERS_MIN:
        raise reader.refusal("keys.hashing", f"expected at least {KEY_CHARACTERS_MIN} characters")
    sealing = file.keys.sealing
    if sealing is not None and not _SEED.fullmatch(sealing.reveal()):
        raise reader.refusal("keys.sealing", "expected 64 hexadecimal digits")


def _refuse_chains(file: SettingsFile, catalogue: Catalogue, reader: Reader) -> None:
    for name, chain in file.chains.items():
        path = f'chains."{name}"'
        try:
            canonical = parse_chain(name)
            catalogue.chain(canonical)
            require_reader(canonical)
        except (CaipError, CatalogueError) as error:
            raise reader.refusal(path, str(error)) from None
        if canonical != name:
            raise reader.refusal(path, f"is written {canonical}")
        nodes, pushes = node_schemes(canonical)
        for key, urls, schemes in (
            ("rpc", chain.rpc, nodes),
            ("ws", chain.ws, pushes),
            ("second_rpc", chain.second_rpc, nodes),
        ):
            _refuse_urls(f"{path}.{key}", urls, schemes, reader)


def _refuse_urls(path: str, urls: list[Secret], schemes: Sequence[str], reader: Reader) -> None:
    """Refuse what is no URL of a node, without showing it: keys of providers stand in the path."""
    for number, url in enumerate(urls):
        try:
            parts = urlsplit(url.reveal())
            usable = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
            if parts.scheme in _BARE:
                bare = f"{parts.scheme}://{parts.netloc}"
                usable &= bool(parts.port) and "@" not in bare and url.reveal() == bare
        except ValueError:
            usable = False
        if not usable:
            ends = {scheme: "host:port" if scheme in _BARE else "" for scheme in schemes}
            expected = " or ".join(f"{scheme}://{end}" for scheme, end in ends.items())
            raise reader.refusal(f"{path}[{number}]", f"expected {expected}")
    if len(set(urls)) != len(urls):
        raise reader.refusal(path, "names a node twice: a second node has to be another one")


def _routes(
    file: SettingsFile, catalogue: Catalogue, reader: Reader, read_address: AddressReader
) -> dict[str, Route]:
    made: dict[str, Route] = {}
    not_watched_after_s = _seconds(
        reader, "intake", "uncovered_patience", file.intake.uncovered_patience
    )
    patience = file.audit.patience
    second_look_s = 0 if patience is None else _seconds(reader, "audit", "patience", patience)
    for number, table in enumerate(file.routes):
        path = f"routes[{number}] ({table.name})"
        if table.name in made:
            raise reader.refusal(f"{path}.name", "another route has this name")
        try:
            made[table.name] = make_route(
                table,
                catalogue=catalogue,
                chains=file.chains,
                read_address=read_address,
                not_watched_after_s=not_watched_after_s,
                second_look_s=second_look_s,
            )
        except RouteRefused as error:
            raise reader.refusal(f"{path}.{error.key}", str(error)) from None
    _refuse_families(made, catalogue, reader, read_address)
    return made


def _seconds(reader: Reader, table: str, key: str, span: timedelta) -> int:
    try:
        return whole_seconds(key, span)
    except RouteRefused as error:
        raise reader.refusal(f"{table}.{error.key}", str(error)) from None


def _refuse_families(
    routes: Mapping[str, Route], catalogue: Catalogue, reader: Reader, read_address: AddressReader
) -> None:
    """Refuse bytes that are shared in two families: a person could not tell the orders apart."""
    seen: dict[bytes, tuple[Family, str]] = {}
    for route in routes.values():
        if route.shared_address is None:
            continue
        raw = read_address(catalogue.asset(route.asset), route.shared_address).raw
        family, first = seen.setdefault(raw, (family_of(route.chain), route.name))
        if family != family_of(route.chain):
            raise reader.refusal(
                f"routes ({route.name}).deposit.address",
                f"route {first} shares the same address on another family, {family}",
            )
