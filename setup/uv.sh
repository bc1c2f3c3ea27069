#!/usr/bin/env bash
# Prints the path of uv and, where there is none, first brings it into .tools in this clone.
# Ways, in order: uv on PATH; .tools; python3 -m venv; pip install --target; apt-get, then again.
set -euo pipefail
cd "$(dirname "$0")/.."
want="uv>=0.9,<1"

say() { echo "uv: $*" >&2; }

find_uv() {
  local each
  for each in "$(command -v uv || true)" .tools/venv/bin/uv .tools/target/bin/uv; do
    if [ -n "$each" ] && "$each" --version >/dev/null 2>&1; then
      case "$each" in /*) echo "$each" ;; *) echo "$PWD/$each" ;; esac
      return 0
    fi
  done
  return 1
}

find_python() {
  local each
  for each in python3 python3.11 python3.12 python3.13 python3.14; do
    if "$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$each"
      return 0
    fi
  done
  say "Python 3.11 or newer is missing"
  return 1
}

through_venv() {
  rm -rf .tools/venv
  "$1" -m venv .tools/venv >/dev/null 2>&1 && .tools/venv/bin/python -m pip install -q "$want" >&2
}

through_pip() {
  rm -rf .tools/target
  "$1" -m pip --version >/dev/null 2>&1 && "$1" -m pip install -q --target .tools/target "$want" >&2
}

find_uv && exit 0
python=$(find_python)
mkdir -p .tools
say "bringing uv into .tools"
if through_venv "$python" && find_uv; then exit 0; fi
if through_pip "$python" && find_uv; then exit 0; fi
say "this Python has neither venv nor pip; asking the system for python3-venv"
setup/apt.sh python3-venv || {
  say "please install python3-venv, or python3-pip, or uv itself, and try again"
  exit 1
}
if through_venv "$python" && find_uv; then exit 0; fi
# The package belongs to Debian's own Python, which may be another one than the first on PATH.
if through_venv /usr/bin/python3 && find_uv; then exit 0; fi
say "uv could not be brought in; please install it and try again"
exit 1
