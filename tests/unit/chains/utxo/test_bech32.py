"""Every vector of BIP 173 and BIP 350, and every single changed character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chains.addresses import AddressError
from chains.utxo.bech32 import Checksum, read_text, read_witness, write_text, write_witness

MALFORMED, CHECKSUM = "address_malformed", "address_checksum"

#: BIP 173, "The following strings are valid Bech32"
BECH32 = [
    "A12UEL5L",
    "a12uel5l",
    "an83characterlonghumanreadablepartthatcontainsthenumber1andtheexcludedcharactersbio1tt5tgs",
    "abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw",
    "11qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqc8247j",
    "split1checkupstagehandshakeupstreamerranterredcaperred2y9e3w",
    "?1ezyfcl",
]
#: BIP 350, "The following strings are valid Bech32m"
BECH32M = [
    "A1LQFN3A",
    "a1lqfn3a",
    "an83characterlonghumanreadablepartthatcontainsthetheexcludedcharactersbioandnumber11sg7hg6",
    "abcdef1l7aum6echk45nj3s0wdvt2fg8x9yrzpqzd3ryx",
    "11llllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllludsr8",
    "split1checkupstagehandshakeupstreamerranterredcaperredlc445v",
    "?1v759aa",
]


@pytest.mark.parametrize(
    ("text", "kind"),
    [(text, Checksum.BECH32) for text in BECH32] + [(text, Checksum.BECH32M) for text in BECH32M],
)
def test_a_valid_text_is_read_and_written_back(text, kind):
    hrp, values, checksum = read_text(text)
    assert checksum is kind
    assert write_text(hrp, values, checksum) == text.lower()


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        # BIP 173, "not valid Bech32"
        ("\x201nwldj5", MALFORMED),
        ("\x7f1axkwrx", MALFORMED),
        ("\x801eym55h", MALFORMED),
        (
            "an84characterslonghumanreadablepartthatcontainsthenumber1andtheexcludedcharactersbio1569pvx",
            MALFORMED,
        ),
        ("pzry9x0s0muk", MALFORMED),
        ("1pzry9x0s0muk", MALFORMED),
        ("x1b4n0q5v", MALFORMED),
        ("li1dgmt3", MALFORMED),
        ("de1lg7wt\xff", MALFORMED),
        ("A1G7SGD8", CHECKSUM),
        ("10a06t8", MALFORMED),
        ("1qzzfhee", MALFORMED),
        # BIP 350, "not valid Bech32m"
        ("\x201xj0phk", MALFORMED),
        ("\x7f1g6xzxy", MALFORMED),
        ("\x801vctc34", MALFORMED),
        (
            "an84characterslonghumanreadablepartthatcontainsthetheexcludedcharactersbioandnumber11d6pts4",
            MALFORMED,
        ),
        ("qyrz8wqd2c9m", MALFORMED),
        ("1qyrz8wqd2c9m", MALFORMED),
        ("y1b0jsk6g", MALFORMED),
        ("lt1igcx5c0", MALFORMED),
        ("in1muywd", MALFORMED),
        ("mm1crxm3i", MALFORMED),
        ("au1s5cgom", MALFORMED),
        ("M1VUXWEZ", CHECKSUM),
        ("16plkw9", MALFORMED),
        ("1p2gdwpf", MALFORMED),
    ],
)
def test_a_text_that_is_none_is_refused_by_name(text, refusal):
    with pytest.raises(AddressError) as caught:
        read_text(text)
    assert caught.value.code == refusal


#: BIP 350, "valid segwit addresses and the scriptPubKey", with version and program instead
WITNESSES = [
    (
        "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4",
        "bc",
        0,
        "751e76e8199196d454941c45d1b3a323f1433bd6",
    ),
    (
        "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7",
        "tb",
        0,
        "1863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262",
    ),
    (
        "bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y",
        "bc",
        1,
        "751e76e8199196d454941c45d1b3a323f1433bd6751e76e8199196d454941c45d1b3a323f1433bd6",
    ),
    ("BC1SW50QGDZ25J", "bc", 16, "751e"),
    ("bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs", "bc", 2, "751e76e8199196d454941c45d1b3a323"),
    (
        "tb1qqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesrxh6hy",
        "tb",
        0,
        "000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433",
    ),
    (
        "tb1pqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesf3hn0c",
        "tb",
        1,
        "000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433",
    ),
    (
        "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
        "bc",
        1,
        "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
    ),
]


@pytest.mark.parametrize(("text", "hrp", "version", "program"), WITNESSES)
def test_a_witness_is_read_whatever_its_version(text, hrp, version, program):
    found = read_witness(text)
    assert (found.hrp, found.version, found.program.hex()) == (hrp, version, program)
    assert write_witness(hrp, version, found.program) == text.lower()


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        # BIP 173, "invalid segwit addresses"; those with another prefix are the network's to refuse
        ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5", CHECKSUM),
        ("BC13W508D6QEJXTDG4Y5R3ZARVARY0C5XW7KN40WF2", MALFORMED),
        ("bc1rw5uspcuh", CHECKSUM),
        (
            "bc10w508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kw5rljs90",
            CHECKSUM,
        ),
        ("BC1QR508D6QEJXTDG4Y5R3ZARVARYV98GJ9P", MALFORMED),
        ("tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sL5k7", MALFORMED),
        ("bc1zw508d6qejxtdg4y5r3zarvaryvqyzf3du", CHECKSUM),
        ("tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3pjxtptv", MALFORMED),
        ("bc1gmk9yu", MALFORMED),
        # BIP 173's valid ones above version 0, which BIP 350 took away
        ("bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7k7grplx", CHECKSUM),
        ("BC1SW50QA3JX3S", CHECKSUM),
        ("bc1zw508d6qejxtdg4y5r3zarvaryvg6kdaj", CHECKSUM),
        # BIP 350, "invalid segwit addresses"
        ("bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd", CHECKSUM),
        ("tb1z0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqglt7rf", CHECKSUM),
        ("BC1S0XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ54WELL", CHECKSUM),
        ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh", CHECKSUM),
        ("tb1q0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq24jc47", CHECKSUM),
        ("bc1p38j9r5y49hruaue7wxjce0updqjuyyx0kh56v8s25huc6995vvpql3jow4", MALFORMED),
        ("BC130XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ7ZWS8R", MALFORMED),
        ("bc1pw5dgrnzv", MALFORMED),
        (
            "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v8n0nx0muaewav253zgeav",
            MALFORMED,
        ),
        ("tb1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq47Zagq", MALFORMED),
        ("bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v07qwwzcrf", MALFORMED),
        ("tb1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vpggkg4j", MALFORMED),
    ],
)
def test_an_address_that_is_none_is_refused_by_name(text, refusal):
    with pytest.raises(AddressError) as caught:
        read_witness(text)
    assert caught.value.code == refusal


def test_a_checksum_of_the_wrong_kind_is_named():
    with pytest.raises(AddressError, match=r"has the checksum of bech32; .* needs that of bech32m"):
        read_witness("bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd")


@given(
    hrp=st.sampled_from(["bc", "tb", "bcrt", "ltc", "tltc", "rltc"]),
    version=st.integers(1, 16),
    program=st.binary(min_size=2, max_size=40),
)
def test_every_witness_comes_back_from_its_text(hrp, version, program):
    found = read_witness(write_witness(hrp, version, program))
    assert (found.hrp, found.version, found.program) == (hrp, version, program)
