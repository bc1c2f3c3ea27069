from datetime import timedelta

import pytest

from chains.registry import derive_address
from reconciler.cli import run
from reconciler.config import SettingsError, load_settings
from reconciler.config.reading import Reader
from reconciler.config.settings import APPEND_LASTS_MAX, make_settings
from reconciler.model.policy import FinalityTier
from reconciler.stream import kafka_writer, sql
from schemas.amounts import BaseUnits
from schemas.caip import ChainName
from tests.parts.derived import KEY
from tests.parts.service import write_settings
from tests.parts.settings import (
    CATALOGUE,
    CHAIN,
    OTHER_CHAIN,
    SETTINGS,
    SHARED_ADDRESS,
    TOKEN,
    UTXO_CHAIN,
    settings_of,
)
from tests.unit.chains.test_extended_keys import SECRETS


def refusal(text, tmp_path, environment=None):
    with pytest.raises(SettingsError) as refused:
        settings_of(text, tmp_path, environment)
    return str(refused.value)


def changed(old, new):
    assert SETTINGS.count(old) == 1
    return SETTINGS.replace(old, new)


def given(new):
    return changed('deposit = { mode = "given" }', new)


def test_the_least_file_takes_every_default_of_the_design(tmp_path):
    settings = settings_of(SETTINGS, tmp_path)
    route = settings.routes()["tusd-one"]
    assert (route.chain, route.asset, route.mode) == (CHAIN, TOKEN, "given")
    policy = route.policy
    assert policy.tiers == (
        FinalityTier(up_to=BaseUnits(50_000_000), depth=3),
        FinalityTier(up_to=None, depth=None),
    )
    assert (policy.quote_s, policy.claim_extension_s, policy.claim_patience_s) == (3600, 1200, 1200)
    assert (policy.retracted_patience_s, policy.pending_patience_s) == (600, 7200)
    assert policy.not_watched_after_s == 120
    assert (policy.grace_s, policy.late_revive_within_s) == (30 * 86_400, None)
    assert policy.flag_by_address
    assert policy.flag_by_reserved_amount
    assert (policy.tolerance.under_ppm, policy.tolerance.under_max) == (0, None)
    assert (policy.claims_max, policy.implausible_times) == (3, 100)
    assert (policy.decimals, policy.stable, policy.dust) == (6, True, 10_000)
    assert route.minimum == 10_000
    assert settings.lanes() == {CHAIN: 1}
    assert settings.reorganisation_limit(CHAIN) == 64


def test_topics_are_kept_as_long_as_the_settings_say(tmp_path):
    settings = settings_of(
        SETTINGS.replace("[catalogue]", "[stream]\nkept = { transfers = '60d' }\n[catalogue]"),
        tmp_path,
    )
    specs = {spec.name: spec for spec in settings.topic_specs()}
    assert specs["transfers.eip155-313371"].retention_s == 60 * 86_400
    assert specs["orders"].retention_s == 14 * 86_400
    assert specs["watchlist.eip155"].retention_s is None


def test_patience_is_longer_where_blocks_are_slow(tmp_path):
    text = SETTINGS + (
        f'[chains."{UTXO_CHAIN}"]\nrpc = ["http://127.0.0.1:8332"]\n'
        '[[routes]]\nname = "coin"\ndeposit = { mode = "given" }\nfinality = [{ depth = 2 }]\n'
        f'asset = "{UTXO_CHAIN}/slip44:1"\n'
    )
    policy = settings_of(text, tmp_path).routes()["coin"].policy
    assert (policy.retracted_patience_s, policy.pending_patience_s) == (3600, 21_600)


BITCOIN, LITECOIN, DOGECOIN = "bitcoin", "litecoin", "dogecoin"
COINS = {
    BITCOIN: "bip122:000000000019d6689c085ae165831e93/slip44:0",
    LITECOIN: "bip122:12a765e31ffd4059bada1e25190f6e98/slip44:2",
    DOGECOIN: "bip122:1a91e3dace36e2be3bf030a65679fe82/slip44:3",
}


def on(coin, finality, more=""):
    return SETTINGS + (
        f'[chains."{COINS[coin].partition("/")[0]}"]\nrpc = ["http://127.0.0.1:8332"]\n'
        f'[[routes]]\nname = "{coin}"\ndeposit = {{ mode = "given" }}\n'
        f'asset = "{COINS[coin]}"\nfinality = [{finality}]\n{more}\n'
        '[intake]\nclock_slack = "30s"\n'
    )


#: usual depths by amount, the patience that follows from the chain, where a coinbase can be spent
@pytest.mark.parametrize(
    ("coin", "finality", "depths", "pending_s", "coinbase_depth"),
    [
        (
            BITCOIN,
            '{ up_to = "0.01", depth = 1 }, { up_to = "1", depth = 3 }, { depth = 6 }',
            [(1_000_000, 1), (100_000_000, 3), (None, 6)],
            86_400,
            101,
        ),
        (
            LITECOIN,
            '{ up_to = "50", depth = 6 }, { depth = 12 }',
            [(5_000_000_000, 6), (None, 12)],
            21_600,
            101,
        ),
        (
            DOGECOIN,
            '{ up_to = "5000", depth = 20 }, { depth = 40 }',
            [(500_000_000_000, 20), (None, 40)],
            21_600,
            241,
        ),
    ],
)
def test_bitcoin_like_routes_have_tiers_by_amount_and_wait_an_hour_for_lost_blocks(
    tmp_path, coin, finality, depths, pending_s, coinbase_depth
):
    settings = settings_of(on(coin, finality), tmp_path)
    policy = settings.routes()[coin].policy
    chain = settings.catalogue.chain(COINS[coin].partition("/")[0])
    assert pending_s > 1.4 * coinbase_depth * float(chain.block_time_s), "it matures before the end"
    assert [(tier.up_to, tier.depth) for tier in policy.tiers] == depths
    assert (policy.retracted_patience_s, policy.pending_patience_s) == (3_600, pending_s)
    assert policy.coinbase_depth == coinbase_depth
    assert (policy.decimals, policy.stable) == (8, False)


@pytest.mark.parametrize(
    ("coin", "finality", "more", "words"),
    [
        (BITCOIN, "{ depth = 0 }", "", "at least 1, the least depth of Bitcoin"),
        (LITECOIN, "{ depth = 3 }", "", "at least 4, the least depth of Litecoin"),
        (DOGECOIN, "{ depth = 9 }", "", "at least 10, the least depth of Dogecoin"),
        (BITCOIN, '{ rule = "finalized" }', "", "no finality of its own; use depth"),
        (DOGECOIN, "{ depth = 20 }", "coinbase_depth = 240", "at least 241, from where Dogecoin"),
    ],
)
def test_what_a_bitcoin_like_chain_cannot_give_is_refused(tmp_path, coin, finality, more, words):
    assert words in refusal(on(coin, finality, more), tmp_path)


def test_a_shared_route_has_its_address_step_and_steps(tmp_path):
    text = given(
        f'deposit = {{ mode = "shared", address = "{SHARED_ADDRESS}", step = "0.01", steps_max = 9 }}'
    )
    route = settings_of(text, tmp_path).routes()["tusd-one"]
    assert (route.shared_address, route.step, route.steps_max) == (SHARED_ADDRESS, 10_000, 9)
    assert route.more_ppm == 10_000, "one percent"
    assert route.minimum == 10_000_000, "of which one percent is ten steps"


def test_a_shared_route_may_ask_for_less_where_its_steps_are_finer_or_its_settings_say_so(tmp_path):
    fine = given(SHARED.replace("0.01", "0.0001"))
    assert settings_of(fine, tmp_path).routes()["tusd-one"].minimum == 100_000
    own = given(SHARED + '\nminimum = "2"')
    assert settings_of(own, tmp_path).routes()["tusd-one"].minimum == 2_000_000


@pytest.mark.parametrize(
    ("under", "ppm", "most"),
    [
        ('under = "0.5%", under_max = "2"', 5_000, 2_000_000),
        ('under = "5%"', 50_000, None),
        # An amount alone is still never more than the greatest percent that a route may give.
        ('under = "2"', 50_000, 2_000_000),
        ('under = "0"', 0, None),
        ('under = "0%"', 0, None),
    ],
)
def test_a_percent_needs_its_sign_and_a_bare_number_is_an_amount(under, ppm, most, tmp_path):
    text = SETTINGS + f"tolerance = {{ {under} }}\n"
    tolerance = settings_of(text, tmp_path).routes()["tusd-one"].policy.tolerance
    assert (tolerance.under_ppm, tolerance.under_max) == (ppm, most)


def test_the_intakes_patience_for_an_unsearched_address_stands_in_every_policy(tmp_path):
    text = SETTINGS.replace("[catalogue]", '[intake]\nuncovered_patience = "5m"\n[catalogue]')
    assert settings_of(text, tmp_path).routes()["tusd-one"].policy.not_watched_after_s == 300


def test_a_derived_route_has_a_key_and_the_terms_of_an_own_address(tmp_path):
    text = given(f'deposit = {{ mode = "derived", xpub = "{KEY}", first_index = 9 }}')
    settings = settings_of(text, tmp_path)
    route = settings.routes()["tusd-one"]
    assert (route.mode, route.first_index, route.shared_address) == ("derived", 9, None)
    assert derive_address(route.derivation, 0).display == SHARED_ADDRESS, "anvil's first account"
    assert route.policy == settings_of(SETTINGS, tmp_path).routes()["tusd-one"].policy
    assert KEY not in repr(settings)
    assert KEY[-20:] not in repr(settings)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("variable", [False, True])
def test_a_private_key_in_the_settings_is_refused_and_stands_in_no_output(
    variable, secret, tmp_path, capsys, caplog
):
    """Neither on the screen nor in a log, where it was written and where it came from the environment."""
    shown = "${SHOP_KEY}" if variable else secret.strip()
    path = write_settings(
        tmp_path, text=given(f'deposit = {{ mode = "derived", xpub = "{shown}" }}')
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOP_KEY", secret)
        assert run(["doctor", "--config", str(path)]) == 2
    told = capsys.readouterr()
    said = told.out + told.err + caplog.text
    assert "routes[0] (tusd-one).deposit.xpub: this is a private key" in said
    bare = secret.strip()
    assert not any(bare[start : start + 10] in said for start in range(0, len(bare) - 10, 5))


def test_a_private_key_in_the_place_of_an_address_is_not_repeated(tmp_path):
    secret = SECRETS[0]
    text = given(f'deposit = {{ mode = "shared", address = "{secret}", step = "0.01" }}')
    (tmp_path / "catalogue.toml").write_text(CATALOGUE)
    with pytest.raises(SettingsError, match="private key") as refused:
        make_settings(text, reader=Reader({}), beside=tmp_path)
    assert secret[:12] not in str(refused.value)


def test_late_money_may_revive_an_order(tmp_path):
    text = SETTINGS + 'late = "revive within 24h"\n'
    assert settings_of(text, tmp_path).routes()["tusd-one"].policy.late_revive_within_s == 86_400


def test_the_environment_fills_any_text(tmp_path):
    text = changed('"http://127.0.0.1:8545"', '"https://node.example/${NODE_KEY}"')
    settings = settings_of(text, tmp_path, {"NODE_KEY": "s3cr3t-key"})
    url = settings.file.chains[CHAIN].rpc[0]
    assert url.reveal() == "https://node.example/s3cr3t-key"
    assert "s3cr3t" not in repr(settings)
    assert "reconciler.db" not in repr(settings)


#: Not only chains that nobody loses money on.
WITH_MONEY = SETTINGS + '[chains."eip155:1"]\nrpc = ["https://node.example"]\n'
KAFKA = '[stream]\nkind = "kafka"\nbootstrap = "localhost:9092"\n'
SLACK = ["intake.clock_slack", "expected at least", "overlooked"]

IMPOSSIBLE = [
    # what is wrong, the changed text, what the sentence has to say
    ("unknown top table", SETTINGS + "[strem]\nkind = 'sql'\n", ["strem", "mean stream"]),
    ("unknown key", SETTINGS + "tolerence = {}\n", ["routes[0].tolerence", "mean tolerance"]),
    ("unknown inner key", SETTINGS + "tolerance = { undr = '1%' }\n", ["tolerance.undr", "under"]),
    ("unknown chain key", changed("rpc =", "lane = 1\nrpc ="), [f'"{CHAIN}".lane', "mean lanes"]),
    (
        "unknown deposit key",
        given('deposit = { mode = "given", adress = "0x" }'),
        ["deposit.adress", "known here are"],
    ),
    ("no such mode", given('deposit = { mode = "shard" }'), ["routes[0].deposit.mode", "shard"]),
    (
        "no extended key",
        given('deposit = { mode = "derived", xpub = "xpub6C" }'),
        ["tusd-one", "deposit.xpub", "checksum"],
    ),
    (
        "no such script",
        given(f'deposit = {{ mode = "derived", xpub = "{KEY}", script = "p2sh" }}'),
        ["routes[0].deposit.script", "p2sh"],
    ),
    (
        "a script where there is none",
        given(f'deposit = {{ mode = "derived", xpub = "{KEY}", script = "p2wpkh" }}'),
        ["tusd-one", "deposit.xpub", "EVM", "p2wpkh"],
    ),
    (
        "an index that is hardened",
        given(f'deposit = {{ mode = "derived", xpub = "{KEY}", first_index = 2147483648 }}'),
        ["routes[0].deposit.first_index"],
    ),
    ("bare span", SETTINGS + 'quote = "60"\n', ["routes[0].quote", "60m", "'60'"]),
    (
        "number as span",
        SETTINGS + "quote = 60\n",
        ["routes[0].quote", "expected a text", "a whole number"],
    ),
    ("broken span", SETTINGS + 'quote = "1.5h"\n', ["routes[0].quote", "1.5h"]),
    ("zero span", SETTINGS + 'grace = "0d"\n', ["routes[0].grace", "0d"]),
    ("span finer than a second", SETTINGS + 'quote = "1500ms"\n', ["quote", "whole seconds"]),
    (
        "patience finer than a second",
        SETTINGS.replace("[catalogue]", '[intake]\nuncovered_patience = "1500ms"\n[catalogue]'),
        ["intake.uncovered_patience", "whole seconds", "1500ms"],
    ),
    (
        "known extension shorter",
        SETTINGS + 'claim_extension_known = "1m"\n',
        ["claim_extension_known", "20m", "1m"],
    ),
    ("no amount below a tier", changed('"50"', '"0"'), ["finality[0].up_to", "above zero"]),
    ("a slack that overlooks claims", WITH_MONEY + '[intake]\nclock_slack = "1s"\n', SLACK),
    ("a slack for Kafka's appends", WITH_MONEY + KAFKA + '[intake]\nclock_slack = "19s"\n', SLACK),
    (
        "blind before a quiet chain has spoken",
        SETTINGS + '[intake]\nblind_after = "30s"\n',
        ["intake.blind_after", "watch.watermark_again_every (30s)", "found 30s"],
    ),
    ("depth 0", changed("depth = 3", "depth = 0"), ["finality[0].depth", "at least 2", "found 0"]),
    ("depth too small", changed("depth = 3", "depth = 1"), ["least depth of One", "found 1"]),
    ("negative depth", changed("depth = 3", "depth = -3"), ["finality[0].depth", ">= 0"]),
    ("no tier", changed(SETTINGS[SETTINGS.index("finality") :], "finality = []"), ["finality"]),
    ("both depth and rule", changed("depth = 3", "depth = 3, rule = 'finalized'"), ["exactly one"]),
    ("unknown rule", changed('"finalized"', '"safe"'), ["finality[1].rule", "safe"]),
    ("open first tier", changed('up_to = "50", ', ""), ["finality[0]", "all but the last"]),
    (
        "closed last tier",
        changed('{ rule = "finalized" }', '{ up_to = "90", rule = "finalized" }'),
        ["finality[1]", "no up_to on the last"],
    ),
    (
        "falling amounts",
        changed("depth = 3 }", 'depth = 3 }, { up_to = "50", depth = 4 }'),
        ["finality[1].up_to", "rise"],
    ),
    (
        "falling depth",
        changed("depth = 3 }", 'depth = 3 }, { up_to = "90", depth = 2 }'),
        ["finality[1].depth", "2 < 3"],
    ),
    (
        "depth after finalized",
        changed("depth = 3 }", "rule = 'finalized' }"),
        ["finality[1]", "strongest"],
    ),
    ("finer than a base unit", changed('"50"', '"0.0000001"'), ["finality[0].up_to", "6 decimals"]),
    ("amount as number", changed('"50"', "50"), ["finality[0].up_to", "a text", "a whole number"]),
    ("tolerance above 5 %", SETTINGS + "tolerance = { under = '5.1%' }\n", ["at most 5%", "5.1%"]),
    ("tolerance negative", SETTINGS + "tolerance = { under = '-1' }\n", ["tolerance.under", "-1"]),
    (
        "two amounts",
        SETTINGS + "tolerance = { under = '1', under_max = '2' }\n",
        ["tolerance.under_max", "percent"],
    ),
    (
        "excess finer than a base unit",
        SETTINGS + "tolerance = { excess_max = '0.0000001' }\n",
        ["tolerance.excess_max", "6 decimals", "TUSD"],
    ),
    ("minimum below dust", SETTINGS + "minimum = '0.001'\n", ["minimum", "0.010000", "TUSD"]),
    ("no such late rule", SETTINGS + "late = 'revive'\n", ["late", "revive within 24h"]),
    ("late without a unit", SETTINGS + "late = 'revive within 24'\n", ["late", "24"]),
    ("not an asset", changed(TOKEN, "USDT"), ["asset", "CAIP-19", "USDT"]),
    ("unlisted asset", changed(TOKEN[-4:], "0000"), ["asset", "not in the catalogue"]),
    ("other letter case", changed(TOKEN, TOKEN.lower()), ["mean " + TOKEN]),
    (
        "not offered",
        changed(TOKEN, f"{CHAIN}/erc20:0x1111111111111111111111111111111111111111"),
        ["asset", "may not be offered"],
    ),
    (
        "asset of a chain that is not configured",
        changed(TOKEN, f"{OTHER_CHAIN}/slip44:1"),
        ["asset", f'[chains."{OTHER_CHAIN}"]'],
    ),
    ("unlisted chain", changed(f'[chains."{CHAIN}"]', '[chains."eip155:999"]'), ["eip155:999"]),
    ("not a chain", changed(f'[chains."{CHAIN}"]', '[chains."Ethereum"]'), ["CAIP-2", "Ethereum"]),
    ("no node", changed('["http://127.0.0.1:8545"]', "[]"), [f'chains."{CHAIN}".rpc', "length"]),
    ("no URL", changed("http://127.0.0.1:8545", "127.0.0.1"), ["rpc[0]", "http://"]),
    ("ws for rpc", changed("http://127", "ws://127"), ["rpc[0]", "http://"]),
    (
        "one node twice",
        changed('["http://127.0.0.1:8545"]', '["http://a:1", "http://a:1"]'),
        ["rpc", "twice"],
    ),
    ("no lanes", changed("rpc =", "lanes = 0\nrpc ="), [f'chains."{CHAIN}".lanes', ">= 1"]),
    ("negative start", changed("rpc =", "start_at = -1\nrpc ="), ["start_at", ">= 0"]),
    ("same name twice", SETTINGS + SETTINGS[SETTINGS.index("[[routes]]") :], ["another route"]),
    ("bad name", changed('"tusd-one"', '"TUSD one"'), ["routes[0].name"]),
    ("no routes", SETTINGS[: SETTINGS.index("[[routes]]")], ["routes"]),
    ("no database", changed("[database]\n", "[server]\n"), ["server.url", "unknown"]),
    ("other database", changed("sqlite+aiosqlite", "mysql"), ["database.url", "sqlite+aiosqlite"]),
    ("memory", changed("/reconciler.db", "/:memory:"), ["database.url", "forgets"]),
    ("short key", changed("0123456789abcdef0123", "0123"), ["keys.hashing", "at least 32"]),
    (
        "short seed",
        changed("[catalogue]", "sealing = 'abcd'\n[catalogue]"),
        ["keys.sealing", "64 hexadecimal digits"],
    ),
    ("no TOML", SETTINGS + "quote = \n", ["not TOML"]),
    (
        "unknown stream",
        SETTINGS + "[stream]\nkind = 'kafak'\n",
        ["stream.kind", "one of kafka, sql", "kafak"],
    ),
    (
        "no broker",
        SETTINGS + "[stream]\nkind = 'kafka'\nbootstrap = ''\n",
        ["stream.bootstrap", "host:port"],
    ),
]


IMPOSSIBLE += [
    (what, SETTINGS + f"[stream]\nkind = 'kafka'\n{stream}\n", words)
    for what, stream, words in [
        ("sasl alone", "sasl = 'PLAIN'", ["stream.sasl", "username and password"]),
        ("password alone", "password = 'x'", ["stream.password", "sasl"]),
        (
            "password in the clear",
            "sasl = 'PLAIN'\nusername = 'u'\npassword = 'x'",
            ["stream.tls", "in the clear"],
        ),
        ("authority without tls", "tls_authority = 'ca.pem'", ["stream.tls_authority"]),
        ("unknown sasl", "sasl = 'GSSAPI'", ["stream.sasl", "SCRAM-SHA-256", "GSSAPI"]),
    ]
]


@pytest.mark.parametrize(
    ("text", "words"), [row[1:] for row in IMPOSSIBLE], ids=[row[0] for row in IMPOSSIBLE]
)
def test_impossible_settings_are_refused_with_the_key_and_the_reason(text, words, tmp_path):
    sentence = refusal(text, tmp_path)
    for word in words:
        assert word in sentence, sentence
    assert " got " not in sentence


SHARED = f'deposit = {{ mode = "shared", address = "{SHARED_ADDRESS}", step = "0.01" }}'


@pytest.mark.parametrize(
    ("deposit", "words"),
    [
        (SHARED.replace("0.01", "0"), ["deposit.step", "above zero"]),
        (SHARED.replace("0.01", "0.05"), ["deposit.step", "power of ten", "0.05"]),
        (SHARED.replace("0.01", "0.0000001"), ["deposit.step", "6 decimals"]),
        (SHARED.replace(SHARED_ADDRESS, "0x12"), ["deposit.address", "0x12"]),
        (SHARED.replace(" }", ', more_max = "0%" }'), ["deposit.more_max", "more than 0%"]),
        (SHARED.replace(" }", ', more_max = "2" }'), ["deposit.more_max", "such as 0.5%"]),
        (SHARED + "\ntolerance = { under = '1%' }", ["tolerance.under", "shared"]),
        (SHARED.replace("step", "stepp"), ["deposit.stepp", "mean step"]),
        (SHARED.replace('step = "0.01"', "steps_max = 0"), ["deposit"]),
    ],
)
def test_shared_addresses_have_rules_of_their_own(deposit, words, tmp_path):
    sentence = refusal(given(deposit), tmp_path)
    for word in words:
        assert word in sentence, sentence


def test_the_same_bytes_are_not_shared_in_two_families(tmp_path):
    text = given(SHARED) + (
        f'[chains."{UTXO_CHAIN}"]\nrpc = ["http://127.0.0.1:8332"]\n'
        f'[[routes]]\nname = "coin"\nfinality = [{{ depth = 2 }}]\n{SHARED}\n'
        f'asset = "{UTXO_CHAIN}/slip44:1"\n'
    )
    sentence = refusal(text, tmp_path)
    assert "routes (coin).deposit.address" in sentence
    assert "tusd-one" in sentence


def test_two_routes_of_one_family_may_share_an_address(tmp_path):
    text = given(SHARED) + (
        f'[chains."{OTHER_CHAIN}"]\nrpc = ["http://127.0.0.1:8546"]\n'
        f'[[routes]]\nname = "coin"\nfinality = [{{ depth = 2 }}]\n{SHARED}\n'
        f'asset = "{OTHER_CHAIN}/slip44:1"\n'
    )
    assert set(settings_of(text, tmp_path).routes()) == {"tusd-one", "coin"}


def test_a_missing_variable_is_named_with_its_key(tmp_path):
    text = changed("http://127.0.0.1:8545", "https://node.example/${NODE_KEY}")
    for environment in ({}, {"NODE_KEY": ""}):
        sentence = refusal(text, tmp_path, environment)
        assert f'chains."{CHAIN}".rpc[0]' in sentence
        assert "NODE_KEY is not set" in sentence


def test_a_half_written_variable_is_refused(tmp_path):
    assert "${NAME}" in refusal(changed("127.0.0.1:8545", "${NODE-KEY}"), tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        SETTINGS + 'quote = "${LEAK}"\n',
        SETTINGS + 'late = "${LEAK}"\n',
        SETTINGS + "minimum = '${LEAK}'\n",
        SETTINGS + "tolerance = { under = '${LEAK}' }\n",
        changed(TOKEN, "${LEAK}"),
        changed("http://127.0.0.1:8545", "${LEAK}"),
        changed("sqlite+aiosqlite:///reconciler.db", "${LEAK}"),
        changed('"tusd-one"', '"${LEAK} "'),
        changed('"given"', '"${LEAK}"'),
        given(SHARED.replace(SHARED_ADDRESS, "${LEAK}")),
        SETTINGS + "[stream]\nkind = '${LEAK}'\n",
        SETTINGS + "[catalogue2]\nextra = '${LEAK}'\n",
        changed('"catalogue.toml"', '"${LEAK}.toml"'),
    ],
)
@pytest.mark.parametrize("secret", ["hunter2-correct-horse", "pa'ss\\wo\nrd" * 30])
def test_a_refusal_never_shows_what_came_from_the_environment(text, secret, tmp_path):
    sentence = refusal(text, tmp_path, {"LEAK": secret})
    assert secret[:12] not in sentence
    assert repr(secret)[1:13] not in sentence


def test_a_refusal_leaves_no_secret_in_its_chain_of_causes(tmp_path):
    with pytest.raises(SettingsError) as refused:
        settings_of(SETTINGS + 'quote = "${LEAK}"\n', tmp_path, {"LEAK": "hunter2-horse"})
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_a_chain_written_by_another_of_its_names_is_told_the_canonical_one(tmp_path):
    text = changed(f'[chains."{CHAIN}"]', '[chains."tron:mainnet"]')
    assert "tron:0x2b6653dc" in refusal(text, tmp_path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"nowhere\.toml: there is no such file"):
        load_settings(tmp_path / "nowhere.toml")


def test_a_broken_catalogue_file_is_named_with_its_row(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text(SETTINGS)
    (tmp_path / "catalogue.toml").write_text(CATALOGUE.replace("decimals = 6", "decimals = -6"))
    with pytest.raises(SettingsError, match=r"catalogue\.extra: .*catalogue\.toml.*decimals"):
        load_settings(path)


def test_the_reorganisation_limit_can_be_set_for_a_chain(tmp_path):
    settings = settings_of(changed("rpc =", "reorganisation_limit = 8\nrpc ="), tmp_path)
    assert settings.reorganisation_limit(CHAIN) == 8


def test_a_span_of_a_process_is_a_timedelta(tmp_path):
    settings = settings_of(SETTINGS, tmp_path)
    assert settings.file.stream.session == timedelta(seconds=10)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (WITH_MONEY + '[intake]\nclock_slack = "30s"\n', 30),
        (WITH_MONEY + KAFKA + '[intake]\nclock_slack = "20s"\n', 20),
        (SETTINGS + '[intake]\nclock_slack = "1s"\n', 1),
    ],
    ids=["sql", "kafka", "chains of tests alone"],
)
def test_a_slack_as_long_as_an_append_is_enough(text, seconds, tmp_path):
    assert settings_of(text, tmp_path).file.intake.clock_slack == timedelta(seconds=seconds)


def test_the_least_slack_is_as_long_as_an_append_may_last():
    found = {"kafka": kafka_writer.APPEND_TIMEOUT_S, "sql": sql.APPEND_TIMEOUT_S}
    assert {kind: span.total_seconds() for kind, span in APPEND_LASTS_MAX.items()} == found


@pytest.mark.parametrize(
    ("nodes", "waits_s"),
    [
        ('"http://127.0.0.1:8332"', 0),
        ('"http://127.0.0.1:8332", "esplora+https://explorer.example/api"', 1_800),
    ],
)
def test_no_end_waits_for_a_balance_that_nobody_tells(tmp_path, nodes, waits_s):
    text = on(BITCOIN, "{ depth = 6 }").replace('"http://127.0.0.1:8332"', nodes)
    routes = settings_of(text + '[audit]\npatience = "30m"\n', tmp_path).routes()
    assert routes[BITCOIN].policy.second_look_s == waits_s
    assert routes["tusd-one"].policy.second_look_s == 1_800


@pytest.mark.parametrize(
    ("key", "url", "words"),
    [
        ("rpc", "esplora+ftp://x", "expected http:// or https:// or esplora+http://"),
        ("ws", "wss://127.0.0.1", "expected zmq+tcp://host:port"),
        ("ws", "zmq+tcp://127.0.0.1", "expected zmq+tcp://host:port"),
        ("ws", "zmq+tcp://127.0.0.1:28332/", "expected zmq+tcp://host:port"),
        ("ws", "zmq+tcp://shop:word@127.0.0.1:28332", "expected zmq+tcp://host:port"),
        ("second_rpc", "zmq+tcp://127.0.0.1:28332", "expected http://"),
    ],
)
def test_nodes_of_bitcoin_like_chains_have_schemes_of_their_own(tmp_path, key, url, words):
    text = on(BITCOIN, "{ depth = 6 }")
    at = 'rpc = ["http://127.0.0.1:8332"]\n'
    if key == "rpc":
        text = text.replace(at, f'rpc = ["{url}"]\n')
    else:
        text = text.replace(at, f'{at}{key} = ["{url}"]\n')
    assert words in refusal(text, tmp_path)


def test_a_head_may_be_as_old_as_its_chains_blocks_are_slow(tmp_path):
    settings = settings_of(on(BITCOIN, "{ depth = 6 }"), tmp_path)
    bitcoin = ChainName(COINS[BITCOIN].partition("/")[0])
    assert settings.head_age_max(bitcoin) == timedelta(hours=4)
    assert settings.head_age_max(ChainName("eip155:313371")) == timedelta(minutes=5)
    assert settings.block_ahead_max(bitcoin) == 7_200
    assert settings.block_ahead_max(ChainName("eip155:313371")) == 15
