#!/usr/bin/env bash
# Brings anvil and the compiled test contracts into .parts/anvil, once per lock file and source.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
parts="$here/../../../.parts/anvil"
made_of() { cat "$here"/setup.sh "$here"/package-lock.json "$here"/contracts.sol "$here"/compile.js; }
if [ -f "$parts/made-of" ] && made_of | cmp -s - "$parts/made-of"; then
  exit 0
fi
if ! command -v npm >/dev/null; then
  echo "anvil: needs npm; install nodejs and npm (make system)" >&2
  exit 1
fi
rm -rf "$parts"
mkdir -p "$parts"
cp "$here/package.json" "$parts"
# The node is a binary that needs no Node.js, but its package asks for version 20 and is left out
# silently where there is an older one (Debian 12 has 18): the lock is used without such wishes.
node -e '
  const lock = JSON.parse(require("fs").readFileSync(0));
  for (const each of Object.values(lock.packages)) delete each.engines;
  console.log(JSON.stringify(lock));
' <"$here/package-lock.json" >"$parts/package-lock.json"
echo "anvil: fetching anvil and solc through npm" >&2
# Three tries: a registry that times out once is no reason to fail.
for try in 1 2 3; do
  # without scripts: the binary lies in the package, its script would look for it elsewhere
  if npm ci --prefix "$parts" --ignore-scripts --no-audit --no-fund --loglevel=error >&2; then
    node "$here/compile.js" "$here/contracts.sol" "$parts/node_modules" >"$parts/contracts.json"
    made_of >"$parts/made-of"
    exit 0
  fi
  echo "anvil: try $try failed" >&2
done
exit 1
