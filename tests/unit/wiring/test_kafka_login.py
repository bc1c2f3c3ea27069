"""How the settings say that clients of a Kafka cluster connect."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.config.secrets import Secret
from reconciler.config.tables import Stream
from reconciler.kernel.refusals import Refusal
from reconciler.wiring import _login

USER = {"username": "shop", "password": Secret("hush")}


@pytest.mark.parametrize(
    ("settings", "protocol", "others"),
    [
        ({}, "PLAINTEXT", set()),
        ({"tls": True}, "SSL", {"ssl_context"}),
        (
            {"sasl": "PLAIN", **USER},
            "SASL_PLAINTEXT",
            {"sasl_mechanism", "sasl_plain_username", "sasl_plain_password"},
        ),
        (
            {"tls": True, "sasl": "SCRAM-SHA-512", **USER},
            "SASL_SSL",
            {"ssl_context", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password"},
        ),
    ],
)
def test_login_is_what_the_settings_say(settings, protocol, others) -> None:
    options = _login(msgspec.structs.replace(Stream(kind="kafka"), **settings))
    assert options["security_protocol"] == protocol
    assert set(options) == {"security_protocol", *others}
    assert options.get("sasl_plain_password", "hush") == "hush"


def test_authority_that_cannot_be_read_is_named() -> None:
    with pytest.raises(Refusal, match=r"stream.tls_authority: /nowhere"):
        _login(Stream(kind="kafka", tls=True, tls_authority="/nowhere"))
