"""The compiled token is what its source says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from reconciler.demo import token_code
from tests.parts.anvil.node import PARTS
from tests.parts.need import missing

pytestmark = pytest.mark.anvil
SOURCE = Path(token_code.__file__).with_name("token.sol")
COMPILE = """
const [source, modules] = process.argv.slice(1);
const solc = require(`${modules}/solc`);
const input = {
  language: "Solidity",
  sources: { token: { content: require("fs").readFileSync(source, "utf8") } },
  settings: {
    evmVersion: "paris",
    optimizer: { enabled: true },
    metadata: { appendCBOR: false },
    outputSelection: { "*": { "*": ["evm.bytecode.object"] } },
  },
};
const output = JSON.parse(solc.compile(JSON.stringify(input)));
console.log(JSON.stringify(output.contracts.token.DemoDollar.evm.bytecode.object));
"""


def test_the_code_is_the_source_compiled():
    modules = PARTS / "node_modules"
    if not (modules / "solc").is_dir():
        missing("anvil", "run `make parts` (it needs nodejs and npm: `make system`)")
    command = ["node", "-e", COMPILE, str(SOURCE), str(modules)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == token_code.CREATION_CODE
