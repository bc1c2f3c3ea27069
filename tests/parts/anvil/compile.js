// Compiles contracts.sol with the solc that setup.sh installed; prints {name: creation bytecode}.
const fs = require("fs");
const [source, modules] = process.argv.slice(2);
const solc = require(`${modules}/solc`);
const input = {
  language: "Solidity",
  sources: { "contracts.sol": { content: fs.readFileSync(source, "utf8") } },
  settings: {
    evmVersion: "paris",
    optimizer: { enabled: true },
    outputSelection: { "*": { "*": ["evm.bytecode.object"] } },
  },
};
const output = JSON.parse(solc.compile(JSON.stringify(input)));
const errors = (output.errors || []).filter((error) => error.severity === "error");
if (errors.length > 0) {
  console.error(errors.map((error) => error.formattedMessage).join("\n"));
  process.exit(1);
}
const code = {};
for (const [name, contract] of Object.entries(output.contracts["contracts.sol"])) {
  code[name] = "0x" + contract.evm.bytecode.object;
}
console.log(JSON.stringify(code, null, 1));
