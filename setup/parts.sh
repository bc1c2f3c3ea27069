#!/usr/bin/env bash
# Brings the real parts of the tests into .parts: every tests/parts/*/setup.sh does one of them.
set -euo pipefail
cd "$(dirname "$0")/.."
for script in tests/parts/*/setup.sh; do
  if ! "$script"; then
    [ "${CI:-}" = true ] && exit 1
    echo "parts: $script failed; the tests that need this part are skipped" >&2
  fi
done
