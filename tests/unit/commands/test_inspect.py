import json

import pytest

from reconciler.cli import run
from schemas.codec import decode_as
from schemas.facts import TransferSeen
from tests.parts.chain_data import ROOT

BLOCKS = sorted((ROOT / "ethereum").glob("block-*.json"))
needs_data = pytest.mark.skipif(not BLOCKS, reason="no real chain data; set RECONCILER_CHAIN_DATA")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], ["--address", "--all"]),
        (["--all", "--address", "0x12"], ["--address", "--all"]),
        (["--all"], ["block.json", "No such file"]),
        (["--address", "0x12"], ["--address", "0x12"]),
    ],
)
def test_arguments_that_cannot_be_meant(more, words, tmp_path, capsys):
    block = str(tmp_path / "block.json")
    assert run(["inspect", "--chain", "eip155:1", "--block", block, *more]) == 2
    said = capsys.readouterr().err
    for word in words:
        assert word in said


@pytest.mark.parametrize(
    ("chain", "content", "words"),
    [
        ("eip155:1", "{", ["block.json"]),
        ("eip155:1", "{}", ["block.json"]),
        ("eip155:999", "{}", ["eip155:999"]),
        ("Ethereum", "{}", ["CAIP-2"]),
        ("bip122:000000000019d6689c085ae165831e93", "{}", ["block.json", "expected NodeBlock"]),
    ],
)
def test_a_file_or_chain_that_cannot_be_read(chain, content, words, tmp_path, capsys):
    block = tmp_path / "block.json"
    block.write_text(content)
    assert run(["inspect", "--chain", chain, "--block", str(block), "--all"]) == 2
    said = capsys.readouterr().err
    for word in words:
        assert word in said


def test_a_catalogue_that_is_not_there_is_named(tmp_path, capsys):
    block, catalogue = tmp_path / "block.json", tmp_path / "catalogue.toml"
    block.write_text("{}")
    arguments = ["inspect", "--chain", "eip155:1", "--block", str(block), "--all"]
    assert run([*arguments, "--catalogue", str(catalogue)]) == 2
    assert f"--catalogue {catalogue}: No such file" in capsys.readouterr().err


@needs_data
def test_a_real_block_becomes_lines_that_are_transfers(capsys):
    assert run(["inspect", "--chain", "eip155:1", "--block", str(BLOCKS[0]), "--all"]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    transfers = [decode_as(TransferSeen, line.encode()) for line in lines]
    assert transfers
    assert "not counted:" in said.err
    assert "not seen" not in said.err
    to = transfers[0].to
    arguments = ["inspect", "--chain", "eip155:1", "--block", str(BLOCKS[0])]
    assert run([*arguments, "--address", to.lower()]) == 0
    mine = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["to"] for line in mine} == {to}


@needs_data
def test_without_traces_it_is_said_that_inner_calls_are_unseen(tmp_path, capsys):
    """An empty answer would look like a block that pays nothing."""
    content = json.loads(BLOCKS[0].read_text())
    without = {key: content[key] for key in content if key not in {"callTracer", "traceBlock"}}
    block = tmp_path / "block.json"
    block.write_text(json.dumps(without))
    assert run(["inspect", "--chain", "eip155:1", "--block", str(block), "--all"]) == 0
    assert (
        "not seen: what contracts send of the chain's coin in inner calls"
        in capsys.readouterr().err
    )
