# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What .ci/run and .ci/deep have in common: sourced by them.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'jobs -p | xargs -r kill 2>/dev/null; rm -rf "$work"' EXIT
# Where the machine sets it, each of a dozen calls of pytest would compile all tests anew, a quarter of a minute for every worker.
unset PYTHONDONTWRITEBYTECODE
# What is started side by side prints its titles here at once.
exec 3>&1

# Wall time so far, and processor time; where functions run side by side, the time of this one.
title() {
  local stat text
  read -r -a stat <"/proc/$BASHPID/stat"
  text=$(printf '=== %s (%d s; %d s of processor)' "$1" "$SECONDS" $(((stat[15] + stat[16]) / $(getconf CLK_TCK))))
  printf '\n%s\n' "$text"
  [ "$BASHPID" = "$$" ] || printf '%s\n' "$text" >&3
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

# c_tests NAME [CMAKE OPTION ...]: configure tests/c, build what is not excluded, and run it.  The search through interleavings,
# and the kills and stops of real processes, run once, natively, under pytest; here they would take minutes per build and say the
# same.  So does the long run (stress), but under threads.
c_tests() {
  local build="$work/$1" exclude="${EXCLUDE:-explore|crash}" programs
  title "C tests: $1"
  cmake -S csrc -B "$build" -DBUSQ_PYTHON=OFF -DBUSQ_TESTS=ON -DBUSQ_WERROR=ON "${@:2}" >"$build.log" 2>&1 ||
    { tail -20 "$build.log"; return 1; }
  mapfile -t programs < <(ctest --test-dir "$build" -N --exclude-regex "$exclude" | sed -n 's/^ *Test *#[0-9]*: *//p')
  cmake --build "$build" -j2 --target "${programs[@]}" stress >>"$build.log" 2>&1 ||
    { grep -E 'error|warning' "$build.log" | head -20; return 1; }
  (cd "$build" && ctest -j2 --output-on-failure --timeout 900 --exclude-regex "$exclude")
}

# side_by_side FUNCTION ...: run them at the same time; what each has printed comes when all have ended.  What failed comes last, and
# its names once more at the very end: of a long output, often only that is kept.
side_by_side() {
  local number name pids=() failed=()
  for name in "$@"; do
    { set -e; "$name"; } >"$work/$name.log" 2>&1 &
    pids+=($!)
  done
  for number in "${!pids[@]}"; do
    name="${*:number+1:1}"
    if wait "${pids[number]}"; then cat "$work/$name.log"; else failed+=("$name"); fi
  done
  [ ${#failed[@]} -gt 0 ] || return 0
  for name in "${failed[@]}"; do cat "$work/$name.log"; done
  for name in "${failed[@]}"; do
    printf '\n=== failed: %s, in:%s' "$name" "$(grep '^=== ' "$work/$name.log" | tail -n 1 | cut -c 4-)"
    grep -E '^(FAILED|ERROR|E  |error:|.*\(Failed\)|.*\*\*\*)' "$work/$name.log" | tail -n 20 | cut -c 1-300 | sed '1s/^/\n/' || true
  done
  printf '\n'
  return 1
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
