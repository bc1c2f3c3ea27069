#!/usr/bin/env bash
# Brings anvil and the compiled test contracts into .parts/anvil, once per lock file and source.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
parts="$here/../../../.parts/anvil"
made_of() { cat "$here"/package-lock.json "$here"/contracts.sol "$here"/compile.js; }
if [ -f "$parts/made-of" ] && made_of | cmp -s - "$parts/made-of"; then
  exit 0
fi
if ! command -v npm >/dev/null; then
  echo "anvil: needs npm; install nodejs and npm (make system)" >&2
  exit 1
fi
rm -rf "$parts"
mkdir -p "$parts"
cp "$here/package.json" "$here/package-lock.json" "$parts"
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
