# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What .ci/run and .ci/deep have in common: sourced by them.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Wall time so far, and processor time.
title() {
  local stat
  read -r -a stat <"/proc/$$/stat"
  printf '\n=== %s (%d s; %d s of processor)\n' "$1" "$SECONDS" $(((stat[15] + stat[16]) / $(getconf CLK_TCK)))
}

# Debian's packages that are not on the machine yet; without root, what needs them is skipped and said so.
need() {
  local missing=()
  for package in "$@"; do
    dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  [ "$(id -u)" -eq 0 ] || { echo "skipped: needs ${missing[*]}"; return 1; }
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } \
    >"$work/apt.log" 2>&1 || { tail -5 "$work/apt.log"; echo "skipped: could not install ${missing[*]}"; return 1; }
}

# c_tests NAME [CMAKE OPTION ...]: configure, build and run tests/c.  The search through interleavings, and the kills and stops of
# real processes, run once, natively, under pytest; here they would take minutes per build and say the same.  So does the long
# run (stress), but under threads.
c_tests() {
  local build="$work/$1"
  title "C tests: $1"
  cmake -S csrc -B "$build" -DBUSQ_PYTHON=OFF -DBUSQ_TESTS=ON -DBUSQ_WERROR=ON "${@:2}" >"$build.log" 2>&1 ||
    { tail -20 "$build.log"; return 1; }
  cmake --build "$build" -j2 >>"$build.log" 2>&1 || { grep -E 'error|warning' "$build.log" | head -20; return 1; }
  (cd "$build" && ctest -j2 --output-on-failure --timeout 600 --exclude-regex "${EXCLUDE:-explore|crash}")
}

# A fresh environment with the library in it.
fresh_environment() {
  python3 -m venv "$work/venv"
  . "$work/venv/bin/activate"
}

# Two in one, where clang is to be had: its warnings, and its sanitizers.
clang=()
want_clang() {
  if need clang libclang-rt-14-dev; then clang=(-DCMAKE_C_COMPILER=clang); fi
}
