"""From a route's table to the route: amounts in base units, policy complete, impossible ones refused.

Pure: the catalogue and the address reader are given. Raises `RouteRefused`, which names the key
below the route; `reconciler.config.settings` says which route it was.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from chains import registry
from chains.addresses import Address, AddressError
from chains.catalog import Asset, AssetClass, Catalogue, CatalogueError, ChainEntry
from chains.extended_keys import Derivation, ExtendedKeyError
from reconciler.config.tables import Chain, Derived, RouteTable, Shared, Tier
from reconciler.config.tables import Tolerance as ToleranceTable
from reconciler.kernel.percents import PPM, format_percent, is_percent, parse_percent_ppm
from reconciler.kernel.spans import format_span, parse_span
from reconciler.matcher.amounts import is_power_of_ten
from reconciler.model.policy import (
    TOLERANCE_PPM_MAX,
    FinalityTier,
    Route,
    RoutePolicy,
    Tolerance,
)
from schemas.amounts import (
    ZERO,
    AmountError,
    BaseUnits,
    format_decimal_amount,
    parse_decimal_amount,
)
from schemas.caip import AssetName, CaipError, ChainName, parse_asset

AddressReader = Callable[[Asset, str], Address]

#: Where one block says little, what left a block is waited for longer, and so is what is pending.
#: Source: DESIGN section 7, "Verdicts only at a watermark" and "Clock".
_UTXO: Final = "bip122:"
_BITCOIN: Final = "bip122:000000000019d6689c085ae165831e93"
_RETRACTED_PATIENCE: Final = timedelta(minutes=10)
_RETRACTED_PATIENCE_UTXO: Final = timedelta(hours=1)
_PENDING_PATIENCE: Final = timedelta(hours=2)
#: Longer than an output of a coinbase takes to mature: 16.8 h on Bitcoin, 4.2 on Litecoin, 4 on Dogecoin.
_PENDING_PATIENCE_UTXO: Final = timedelta(hours=6)
_PENDING_PATIENCE_BITCOIN: Final = timedelta(hours=24)

#: Bitcoin's, which no chain undercuts here. Source: Bitcoin Core, consensus/consensus.h.
_COINBASE_DEPTH: Final = 101

#: On a shared address the least price has room for so many steps, unless `minimum` says otherwise.
_STEPS_LEAST: Final = 10

_LATE = re.compile(r"revive within ([0-9a-z]+)", re.ASCII)


class RouteRefused(ValueError):
    """A route is impossible. `key` is the setting below the route that is to be mended."""

    def __init__(self, key: str, sentence: str) -> None:
        super().__init__(sentence)
        self.key = key


def deposit_address(asset: Asset, text: str) -> Address:
    """Read an address at which this asset can be received.

    **Raises**: `AddressError`; `CatalogueError` for a chain that no code here reads.
    """
    address = registry.parse_address(asset.chain, text)
    registry.check_deposit_address(asset, address)
    return address


def make_route(
    table: RouteTable,
    *,
    catalogue: Catalogue,
    chains: Mapping[str, Chain],
    read_address: AddressReader,
    not_watched_after_s: int,
    second_look_s: int = 0,
) -> Route:
    """Make the route of a table. **Raises**: `RouteRefused`.

    `not_watched_after_s`: how long an order's address may stay unsearched, which is the intake's to
    say and the same for every route. `second_look_s`: how long an end waits for the audit.
    """
    asset = _asset(table.asset, catalogue)
    if asset.chain not in chains:
        raise RouteRefused("asset", f'its chain has no table [chains."{asset.chain}"]')
    derived = table.deposit if isinstance(table.deposit, Derived) else None
    shared = table.deposit if isinstance(table.deposit, Shared) else None
    return Route(
        name=table.name,
        chain=asset.chain,
        asset=asset.name_id,
        mode="derived" if derived else "shared" if shared else "given",
        policy=_policy(
            table,
            asset,
            catalogue.chain(asset.chain),
            not_watched_after_s=not_watched_after_s,
            second_look_s=second_look_s if _tells_balances(asset, chains) else 0,
        ),
        minimum=_minimum(table.minimum, asset, shared),
        derivation=_derivation(derived, asset) if derived else None,
        first_index=derived.first_index if derived else 0,
        shared_address=_shared_address(shared, asset, read_address) if shared else None,
        step=_step(shared, asset) if shared else None,
        steps_max=shared.steps_max if shared else 0,
        more_ppm=_more_ppm(shared) if shared else 0,
        closed=table.closed,
    )


def _tells_balances(asset: Asset, chains: Mapping[str, Chain]) -> bool:
    """Tell whether somebody can be asked what an address holds: else no end waits for the answer."""
    urls = [url.reveal() for url in chains[asset.chain].rpc]
    return registry.tells_balances(asset.chain, urls)


def _asset(text: str, catalogue: Catalogue) -> Asset:
    try:
        name = parse_asset(text)
    except CaipError as error:
        raise RouteRefused("asset", str(error)) from None
    known = {
        row.id: row for chain in catalogue.chains for row in catalogue.assets_of(ChainName(chain))
    }
    asset = known.get(name)
    if asset is None:
        raise RouteRefused("asset", _unlisted(name, list(known)))
    if not asset.offered:
        raise RouteRefused("asset", f"{asset.id} ({asset.name}) is watched but may not be offered")
    return asset


def _unlisted(name: AssetName, known: list[str]) -> str:
    """Say that an asset is unlisted; only a difference in letter case earns a suggestion.

    Two contracts are never nearly the same, so the nearest spelling of another one is no help.
    """
    same = [row for row in known if row.lower() == name.lower()]
    if same:
        return f"{name} is not in the catalogue; did you mean {same[0]}?"
    chain = name.partition("/")[0]
    chains = sorted({row.partition("/")[0] for row in known})
    if chain not in chains:
        near = difflib.get_close_matches(chain, chains, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"chain {chain} is not in the catalogue{hint}"
    return f"{name} is not in the catalogue; list it in the file of catalogue.extra first"


def _policy(
    table: RouteTable,
    asset: Asset,
    chain: ChainEntry,
    *,
    not_watched_after_s: int,
    second_look_s: int,
) -> RoutePolicy:
    utxo, bitcoin = chain.id.startswith(_UTXO), chain.id == _BITCOIN
    retracted = _RETRACTED_PATIENCE_UTXO if utxo else _RETRACTED_PATIENCE
    slow = _PENDING_PATIENCE_BITCOIN if bitcoin else _PENDING_PATIENCE_UTXO
    pending = slow if utxo else _PENDING_PATIENCE
    late = _late(table.late)
    return RoutePolicy(
        decimals=asset.decimals,
        stable=asset.asset_class is AssetClass.STABLE,
        dust=BaseUnits(asset.dust_base_units),
        amount_max=BaseUnits(asset.amount_max_base_units),
        tiers=_tiers(table.finality, asset, chain),
        tolerance=_tolerance(table.tolerance, asset, shared=isinstance(table.deposit, Shared)),
        quote_s=whole_seconds("quote", table.quote),
        claim_extension_s=whole_seconds("claim_extension", table.claim_extension),
        claim_extension_known_s=_extension_known(table),
        claim_patience_s=whole_seconds("claim_patience", table.claim_patience),
        retracted_patience_s=whole_seconds(
            "retracted_patience", table.retracted_patience or retracted
        ),
        pending_patience_s=whole_seconds("pending_patience", table.pending_patience or pending),
        mempool_patience_s=whole_seconds("mempool_patience", table.mempool_patience),
        grace_s=whole_seconds("grace", table.grace),
        clock_slack_s=chain.clock_slack_s,
        not_watched_after_s=not_watched_after_s,
        second_look_s=second_look_s,
        late_revive_within_s=None if late is None else whole_seconds("late", late),
        flag_by_address=table.flag_by_address,
        flag_by_reserved_amount=table.flag_by_reserved_amount,
        claims_max=table.claims_max,
        implausible_times=table.implausible_times,
        coinbase_depth=_coinbase_depth(table, chain),
    )


def _coinbase_depth(table: RouteTable, chain: ChainEntry) -> int:
    """Give how deep an output of a coinbase has to be: no less than where it can be spent at all."""
    least = max(_COINBASE_DEPTH, registry.coinbase_maturity(chain.name_id) + 1)
    depth = least if table.coinbase_depth is None else table.coinbase_depth
    if depth < least:
        raise RouteRefused(
            "coinbase_depth",
            f"expected at least {least}, from where {chain.name} lets it be spent, found {depth}",
        )
    return depth


def whole_seconds(key: str, span: timedelta) -> int:
    """Give a span in whole seconds, which is how finely orders are judged. **Raises**: `RouteRefused`."""
    if span % timedelta(seconds=1):
        raise RouteRefused(key, f"expected whole seconds, found {format_span(span)}")
    return span // timedelta(seconds=1)


def _extension_known(table: RouteTable) -> int:
    if table.claim_extension_known < table.claim_extension:
        raise RouteRefused(
            "claim_extension_known",
            f"expected at least claim_extension ({format_span(table.claim_extension)}), "
            f"found {format_span(table.claim_extension_known)}",
        )
    return whole_seconds("claim_extension_known", table.claim_extension_known)


def _late(text: str) -> timedelta | None:
    if text == "review":
        return None
    found = _LATE.fullmatch(text)
    if not found:
        raise RouteRefused("late", f"expected 'review' or 'revive within 24h', found {text[:40]!r}")
    try:
        return parse_span(found[1])
    except ValueError as error:
        raise RouteRefused("late", str(error)) from None


def _tiers(tiers: list[Tier], asset: Asset, chain: ChainEntry) -> tuple[FinalityTier, ...]:
    made: list[FinalityTier] = []
    for number, tier in enumerate(tiers):
        key = f"finality[{number}]"
        is_last = number == len(tiers) - 1
        depth = _depth(key, tier, chain)
        if is_last != (tier.up_to is None):
            expected = "no up_to on the last tier" if is_last else "up_to on all but the last tier"
            raise RouteRefused(key, f"expected {expected}")
        up_to = None if tier.up_to is None else _up_to(f"{key}.up_to", tier.up_to, asset)
        _refuse_weaker(key, up_to, depth, made)
        made.append(FinalityTier(up_to=up_to, depth=depth))
    return tuple(made)


def _up_to(key: str, text: str, asset: Asset) -> BaseUnits:
    amount = _amount(key, text, asset)
    if not amount:
        raise RouteRefused(key, "expected an amount above zero: no transfer is as small as this")
    return amount


def _depth(key: str, tier: Tier, chain: ChainEntry) -> int | None:
    if (tier.depth is None) == (tier.rule is None):
        raise RouteRefused(key, "expected exactly one of depth and rule")
    if tier.depth is None:
        if not chain.finalized:
            raise RouteRefused(f"{key}.rule", f"{chain.name} has no finality of its own; use depth")
        return None
    if tier.depth < max(chain.least_depth, 1):
        raise RouteRefused(
            f"{key}.depth",
            f"expected at least {max(chain.least_depth, 1)}, the least depth of {chain.name}, "
            f"found {tier.depth}",
        )
    return tier.depth


def _refuse_weaker(
    key: str, up_to: BaseUnits | None, depth: int | None, before: list[FinalityTier]
) -> None:
    """Refuse a tier that gives a larger amount less certainty than a smaller one has."""
    if not before:
        return
    last = before[-1]
    if up_to is not None and last.up_to is not None and up_to <= last.up_to:
        raise RouteRefused(f"{key}.up_to", "expected amounts that rise from tier to tier")
    if last.depth is None:
        raise RouteRefused(key, "no tier may follow rule 'finalized', which is the strongest")
    if depth is not None and depth < last.depth:
        raise RouteRefused(
            f"{key}.depth", f"a larger amount may not be final earlier: {depth} < {last.depth}"
        )


def _tolerance(table: ToleranceTable, asset: Asset, *, shared: bool) -> Tolerance:
    excess_max = _amount("tolerance.excess_max", table.excess_max, asset)
    under_ppm, under_max = _under(table, asset)
    if shared and under_ppm and under_max != ZERO:
        raise RouteRefused(
            "tolerance.under", "expected 0: on a shared address the amount tells orders apart"
        )
    return Tolerance(
        under_ppm=under_ppm,
        under_max=under_max,
        excess_max=excess_max or None,
    )


def _under(table: ToleranceTable, asset: Asset) -> tuple[int, BaseUnits | None]:
    """Read `under`: a percent, or an amount that then never exceeds the greatest percent."""
    if not is_percent(table.under):
        if table.under_max is not None:
            raise RouteRefused("tolerance.under_max", "expected only beside a percent in under")
        amount = _amount("tolerance.under", table.under, asset)
        return (TOLERANCE_PPM_MAX, amount) if amount else (0, None)
    try:
        ppm = parse_percent_ppm(table.under)
    except ValueError as error:
        raise RouteRefused("tolerance.under", str(error)) from None
    if ppm > TOLERANCE_PPM_MAX:
        limit = format_percent(TOLERANCE_PPM_MAX)
        raise RouteRefused("tolerance.under", f"expected at most {limit}, found {table.under}")
    if table.under_max is None:
        return ppm, None
    return ppm, _amount("tolerance.under_max", table.under_max, asset)


def _minimum(text: str | None, asset: Asset, shared: Shared | None) -> BaseUnits:
    """Read the least amount that an order may ask for; it defaults to what counts by itself, and on a
    shared address to what leaves room to tell some orders of one price apart.
    """
    if text is None:
        steps = 0 if shared is None else _STEPS_LEAST * _step(shared, asset)
        for_steps = 0 if shared is None else -(-steps * PPM // _more_ppm(shared))
        return BaseUnits(max(asset.dust_base_units, for_steps))
    minimum = _amount("minimum", text, asset)
    if not asset.dust_base_units <= minimum <= asset.amount_max_base_units:
        least = format_decimal_amount(asset.dust_base_units, asset.decimals)
        most = format_decimal_amount(asset.amount_max_base_units, asset.decimals)
        raise RouteRefused("minimum", f"expected {least} to {most} {asset.symbol}, found {text!r}")
    return minimum


def _derivation(deposit: Derived, asset: Asset) -> Derivation:
    try:
        return registry.read_derivation(asset.chain, deposit.xpub.reveal(), deposit.script)
    except (ExtendedKeyError, CatalogueError) as error:
        raise RouteRefused("deposit.xpub", str(error)) from None


def _shared_address(deposit: Shared, asset: Asset, read_address: AddressReader) -> str:
    try:
        return read_address(asset, deposit.address).display
    except (AddressError, CatalogueError) as error:
        raise RouteRefused("deposit.address", str(error)) from None


def _step(deposit: Shared, asset: Asset) -> BaseUnits:
    step = _amount("deposit.step", deposit.step, asset)
    if not step:
        raise RouteRefused("deposit.step", "expected an amount above zero")
    if not is_power_of_ten(step):
        sentence = f"expected a power of ten such as 0.01, found {deposit.step!r}"
        raise RouteRefused("deposit.step", sentence)
    return step


def _more_ppm(deposit: Shared) -> int:
    try:
        ppm = parse_percent_ppm(deposit.more_max)
    except ValueError as error:
        raise RouteRefused("deposit.more_max", str(error)) from None
    if not ppm:
        sentence = "expected more than 0%: orders of one price are told apart by what is above it"
        raise RouteRefused("deposit.more_max", sentence)
    return ppm


def _amount(key: str, text: str, asset: Asset) -> BaseUnits:
    try:
        return parse_decimal_amount(text, asset.decimals)
    except AmountError as error:
        raise RouteRefused(key, f"{error} ({asset.symbol})") from None
