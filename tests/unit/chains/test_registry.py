import pytest

from chains.addresses import AddressError
from chains.catalog import CatalogueError, load_catalogue
from chains.registry import (
    check_deposit_address,
    coinbase_maturity,
    open_source,
    parse_address,
    parse_transaction_id,
    payment_uri,
    raw_of_key,
    require_reader,
)
from chains.utxo.networks import BITCOIN, DOGECOIN, LITECOIN, NETWORKS
from schemas.amounts import AmountError
from schemas.caip import AssetName, ChainName

ETHEREUM = ChainName("eip155:1")
CATALOGUE = load_catalogue()
USDT = CATALOGUE.asset(AssetName("eip155:1/erc20:0xdAC17F958D2ee523a2206206994597C13D831ec7"))
ETHER = CATALOGUE.asset(AssetName("eip155:1/slip44:60"))
PAY = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
HASH = "0x2692169afac1d219448b861efb30fc71bf6b0ab6a4e95c31c827bfae4d9f3356"

#: what was typed, what it is: EIP-55 vectors and every refusal (CH-R13, CH-F02)
ADDRESSES = [
    (PAY, None),
    (PAY.lower(), None),
    ("0X" + PAY[2:].upper(), None),
    (f"  {PAY}\n", None),
    ("0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", None),
    ("0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "address_checksum"),
    ("0x5aAeb6053f3e94c9b9a09f33669435e7ef1beaed", "address_checksum"),
    ("", "address_malformed"),
    (PAY[2:], "address_malformed"),
    (PAY[:-1], "address_malformed"),
    (PAY + "0", "address_malformed"),
    (HASH, "address_malformed"),
    ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeg", "address_malformed"),
    ("vitalik.eth", "address_malformed"),
    ("0x" + "0" * 40, "address_malformed"),
    ("0x" + "0" * 39 + "1", "address_malformed"),
    ("0x" + "0" * 37 + "100", "address_malformed"),
    ("0x" + "0" * 36 + "1010", "address_malformed"),
    ("0xfffffffffffffffffffffffffffffffffffffffe", "address_malformed"),
    ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "address_wrong_chain"),
    ("BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4", "address_wrong_chain"),
    ("ltc1q8c6fshw2dlwun7ekn9qwf37cu2rn755u9ym7p0", "address_wrong_chain"),
    ("1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", "address_wrong_chain"),
    ("DBcZSePDaMMduBMLymWHXhkE5ArFEvkagU", "address_wrong_chain"),
    ("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "address_wrong_chain"),
    ("Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB", "address_wrong_chain"),
    ("rPEPPER7kfTD9w2To4CQk6UCfuHM9c6GDY", "address_wrong_chain"),
]


@pytest.mark.parametrize(("text", "refusal"), ADDRESSES)
def test_an_address_is_read_or_refused_by_name(text, refusal):
    if refusal is None:
        found = parse_address(ETHEREUM, text)
        assert found.display.lower() == text.strip().lower()
        assert found.key == found.display.lower()
        assert found.raw.hex() == found.key[2:]
    else:
        with pytest.raises(AddressError) as caught:
            parse_address(ETHEREUM, text)
        assert caught.value.code == refusal


def test_all_ways_to_write_an_address_give_the_same_address():
    written = [PAY, PAY.lower(), "0X" + PAY[2:].upper()]
    assert len({parse_address(ETHEREUM, text) for text in written}) == 1


def test_a_tokens_own_contract_is_no_place_to_pay_that_token_to():
    contract = parse_address(ETHEREUM, "0xdAC17F958D2ee523a2206206994597C13D831ec7")
    with pytest.raises(AddressError) as caught:
        check_deposit_address(USDT, contract)
    assert caught.value.code == "address_malformed"
    check_deposit_address(ETHER, contract)
    check_deposit_address(USDT, parse_address(ETHEREUM, PAY))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (HASH, HASH),
        (HASH[2:], HASH),
        (HASH.upper(), HASH),
        (f"https://etherscan.io/tx/{HASH}#eventlog", HASH),
        (f" my tx: {HASH[2:].upper()} thanks {HASH}", HASH),
        ("", None),
        (HASH[:-1], None),
        (HASH + "0", None),
        (f"{HASH} {HASH[:-1]}7", None),
        (PAY, None),
        ("x" * 3_000 + HASH, None),
    ],
)
def test_a_transaction_id_is_found_in_what_a_customer_typed(text, found):
    assert parse_transaction_id(ETHEREUM, text) == found


def test_payment_links_name_the_chain_the_contract_and_whole_base_units():
    to = parse_address(ETHEREUM, PAY)
    assert payment_uri(ETHER, to, 2_014 * 10**15) == (f"ethereum:{PAY}@1?value=2014000000000000000")
    assert payment_uri(USDT, to, 12_345_678) == (
        f"ethereum:0xdAC17F958D2ee523a2206206994597C13D831ec7@1/transfer?address={PAY}&uint256=12345678"
    )
    with pytest.raises(AmountError):
        payment_uri(USDT, to, -1)
    with pytest.raises(AmountError):
        payment_uri(USDT, to, 2**256)


#: an address of each, whose coin is BTC, LTC, DOGE
COINS = {
    network: CATALOGUE.asset(AssetName(CATALOGUE.chain(network.chain).coin))
    for network in NETWORKS.values()
}
SEGWIT = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
DOGE_TO = "DBcZSePDaMMduBMLymWHXhkE5ArFEvkagU"
LITE_TO = "ltc1q8c6fshw2dlwun7ekn9qwf37cu2rn755u9ym7p0"
TXID = "9b0fc92260312ce44e74ef369f5c66bbf5f8ba9a4c2e5c3ad1bd4f5bf8ef6d1e"


@pytest.mark.parametrize(
    ("network", "text"), [(BITCOIN, SEGWIT.upper()), (LITECOIN, LITE_TO), (DOGECOIN, DOGE_TO)]
)
def test_a_bitcoin_like_address_is_read_by_its_own_network(network, text):
    found = parse_address(network.chain, text)
    assert raw_of_key(network.chain, found.key) == found.raw
    check_deposit_address(COINS[network], found)
    with pytest.raises(AddressError) as caught:
        parse_address(ETHEREUM, text)
    assert caught.value.code == "address_wrong_chain"


def test_an_address_that_nobody_has_the_key_of_is_no_place_to_be_paid_at():
    burnt = parse_address(BITCOIN.chain, "1111111111111111111114oLvT2")
    with pytest.raises(AddressError, match="has no key"):
        check_deposit_address(COINS[BITCOIN], burnt)


@pytest.mark.parametrize(
    "text",
    [
        TXID,
        TXID.upper(),
        f"https://mempool.space/tx/{TXID}#vout=1",
        f"https://blockchair.com/litecoin/transaction/{TXID}?_type=x",
        f"https://dogechain.info/tx/{TXID.upper()}",
        f" my tx {TXID}:1, again {TXID.upper()}",
        f"0x{TXID}",
    ],
)
def test_a_bitcoin_like_transaction_id_is_given_without_0x(text):
    for network in NETWORKS.values():
        assert parse_transaction_id(network.chain, text) == TXID


@pytest.mark.parametrize(
    "text", ["", TXID[:-1], TXID + "0", f"{TXID} {'0' * 64}", SEGWIT, "x" * 3_000 + TXID]
)
def test_what_is_no_transaction_id_is_none(text):
    assert parse_transaction_id(BITCOIN.chain, text) is None


@pytest.mark.parametrize(
    ("network", "to", "amount", "uri"),
    [
        (BITCOIN, SEGWIT, 50_000, f"bitcoin:{SEGWIT}?amount=0.0005"),
        (BITCOIN, SEGWIT.upper(), 1, f"bitcoin:{SEGWIT}?amount=0.00000001"),
        (BITCOIN, SEGWIT, 100_000_000, f"bitcoin:{SEGWIT}?amount=1"),
        (BITCOIN, SEGWIT, 1_000_000_000, f"bitcoin:{SEGWIT}?amount=10"),
        (
            BITCOIN,
            SEGWIT,
            2_099_999_997_690_000,
            f"bitcoin:{SEGWIT}?amount=20999999.9769",
        ),
        (BITCOIN, SEGWIT, 0, f"bitcoin:{SEGWIT}?amount=0"),
        (LITECOIN, LITE_TO, 123_456_789, f"litecoin:{LITE_TO}?amount=1.23456789"),
        (DOGECOIN, DOGE_TO, 10**18, f"dogecoin:{DOGE_TO}?amount=10000000000"),
    ],
)
def test_payment_links_of_bitcoin_like_chains_say_the_coin_without_an_exponent(
    network, to, amount, uri
):
    assert payment_uri(COINS[network], parse_address(network.chain, to), amount) == uri


def test_a_payment_link_asks_for_no_more_than_an_output_can_hold():
    to = parse_address(BITCOIN.chain, SEGWIT)
    for amount in (-1, BITCOIN.money_max + 1):
        with pytest.raises(AmountError):
            payment_uri(COINS[BITCOIN], to, amount)


def test_what_a_block_made_matures_as_its_network_says():
    found = [coinbase_maturity(each.chain) for each in (BITCOIN, LITECOIN, DOGECOIN)]
    assert found == [100, 100, 240]
    assert coinbase_maturity(ETHEREUM) == 0


@pytest.mark.parametrize("network", NETWORKS.values(), ids=lambda network: network.name)
def test_every_network_has_a_source_that_insists_on_it(network):
    source = open_source(network.chain, ["http://127.0.0.1:8332"], catalogue=CATALOGUE)
    assert source.chain == network.chain
    for urls in ([], ["ws://127.0.0.1:8332"], ["127.0.0.1:8332"]):
        with pytest.raises(ValueError, match=r"expected the URL of one node at least, http"):
            open_source(network.chain, urls, catalogue=CATALOGUE)


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        ("tron:0x2b6653dc", "no reader for tron chains; there is one for eip155, bip122"),
        ("bip122:0000000000000000000000000000abcd", "no network is known by this name"),
    ],
)
def test_a_chain_without_a_reader_is_an_error_that_says_so(chain, words):
    for call in (parse_address, raw_of_key, parse_transaction_id):
        with pytest.raises(CatalogueError, match=words):
            call(ChainName(chain), "x")
    with pytest.raises(CatalogueError, match=words):
        require_reader(ChainName(chain))
