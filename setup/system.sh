#!/usr/bin/env bash
# Installs what the real parts of the tests are made of, where it is missing.
# Not to be had: in CI a failure; elsewhere a sentence, and the tests that need it are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need java default-jdk-headless
need mvn maven
need node nodejs
need npm npm
need go golang-go
need litecoind litecoind
compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null || need postgres postgresql
[ ${#missing[@]} = 0 ] && exit 0
setup/apt.sh "${missing[@]}" && exit 0
[ "${CI:-}" = true ] && exit 1
echo "system: without ${missing[*]} the tests that need them are skipped" >&2
