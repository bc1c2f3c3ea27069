import itertools
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from reconciler.config import SettingsError, load_settings
from reconciler.config.reading import Reader, settings_paths
from reconciler.config.tables import SettingsFile
from tests.parts.derived import KEY, OTHER_KEY

EXAMPLE = Path(__file__).parents[3] / "deploy" / "settings.example.toml"
ENVIRONMENT = {
    "DATABASE_PASSWORD": "hunter2",
    "NODE_A_KEY": "hunter2",
    "RECONCILER_HASHING_KEY": "hunter2" * 5,
    "RECONCILER_SEALING_KEY": "5ea1" * 16,
    "BITCOIND_PASSWORD": "hunter2",
    "ETH_XPUB": KEY,
    "BTC_XPUB": OTHER_KEY,
}


def paths_in(value, path=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            below = f"{path}.{key}" if path else key
            yield from paths_in(inner, ("chains.*" if path == "chains" else below))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from paths_in(inner, f"{path}[]")
    else:
        yield path


def everything():
    """The example with its commented-out settings, which are written `#key = value`."""
    return tomllib.loads(re.sub(r"(?m)^#(?=[a-z_]+ = )", "", EXAMPLE.read_text()))


def test_every_setting_of_the_code_stands_in_the_example_and_no_other():
    known = set(settings_paths(msgspec.inspect.type_info(SettingsFile)))
    shown = set(paths_in(everything())) - {"routes[].deposit.mode"}
    assert shown == known


def test_every_setting_has_a_sentence_above_it():
    lines = EXAMPLE.read_text().splitlines()
    explained = set()
    for above, line in itertools.pairwise(lines):
        key = re.match(r"#?([a-z_]+) = ", line)
        if key and above.startswith("# ") and above.endswith((".", "….")):
            explained.add(key[1])
            explained.update(re.findall(r"`([a-z_]+)`", above))
    leaves = {path.rpartition(".")[2].removesuffix("[]") for path in paths_in(everything())}
    assert leaves - explained == set()


def test_the_example_loads():
    settings = load_settings(EXAMPLE, ENVIRONMENT)
    assert set(settings.routes()) == {"usdt-ethereum", "usdc-ethereum", "ether", "bitcoin"}
    assert settings.routes()["usdc-ethereum"].mode == "shared"
    assert settings.routes()["ether"].mode == "derived"
    assert "hunter2" not in repr(settings)
    assert settings.routes()["bitcoin"].derivation.script == "p2wpkh"
    assert KEY not in repr(settings)
    assert OTHER_KEY not in repr(settings)


def test_a_shared_address_with_a_wrong_checksum_is_refused(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text(EXAMPLE.read_text().replace("0xd8dA6BF2", "0xD8dA6BF2"))
    with pytest.raises(SettingsError, match=r"usdc-ethereum\).deposit.address: .*checksum"):
        load_settings(path, ENVIRONMENT)


def test_a_token_cannot_be_received_at_its_own_contract(tmp_path):
    path = tmp_path / "settings.toml"
    contract = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
    shared = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
    path.write_text(EXAMPLE.read_text().replace(shared, contract))
    with pytest.raises(SettingsError, match=r"usdc-ethereum\)\.deposit\.address: .*contract"):
        load_settings(path, ENVIRONMENT)


def test_the_example_shows_the_defaults():
    file = Reader(ENVIRONMENT).read(EXAMPLE.read_text())
    route, chain = file.routes[0], file.chains["eip155:1"]
    shown = [file, file.database, file.stream.kept, chain, route]
    shown += [getattr(file, name) for name in SECTIONS]
    for table in shown:
        for field in msgspec.structs.fields(type(table)):
            if field.required or f"{type(table).__name__}.{field.name}" in SHOWN_OTHERWISE:
                continue
            assert getattr(table, field.name) == field_default(field), field.name


SECTIONS = ["stream", "server", "health", "log", "catalogue", "watch", "intake", "relay"]
#: What has no default that could stand in a file, or where an example says more than the default.
SHOWN_OTHERWISE = {
    "Chain.ws",
    "Chain.start_at",
    "RouteTable.tolerance",
    "RouteTable.minimum",
    "RouteTable.retracted_patience",
    "RouteTable.pending_patience",
    "RouteTable.coinbase_depth",
}


def field_default(field):
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
