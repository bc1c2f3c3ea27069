#!/usr/bin/env bash
# Installs packages of the system: as root, or through sudo. Says what to do where it may not.
set -euo pipefail
if ! command -v apt-get >/dev/null; then
  echo "system: no apt-get here; please install the equivalents of: $*" >&2
  exit 1
fi
if [ "$(id -u)" = 0 ]; then
  as_root=()
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
  as_root=(sudo)
else
  echo "system: not root; please have these installed: apt-get install $*" >&2
  exit 1
fi
echo "system: installing $*" >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "$@" >&2
