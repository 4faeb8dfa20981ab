#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Are the tests any good?  Builds the core with one step broken on purpose, once for each of the mutants that are
# explained in csrc/shm/multicast.h, and shows which test notices, and how.
#
#     tests/c/mutants.sh DIRECTORY [MUTANT...]
#
# Builds in DIRECTORY.  Without names: the core as it is, which must pass, and then every mutant, each of which must be
# caught by the search through all interleavings or, if that lets it through, by the stress run.  Ends with 0 only then.
# CC chooses the compiler, DELIVERIES the length of the stress run.
set -u

here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: mutants.sh DIRECTORY [MUTANT...]}
shift
[ $# -gt 0 ] || set -- NONE ACCEPT_EQUAL COMMIT_BEFORE_SYNC SEAL_AT_MAXIMUM
deliveries=${DELIVERIES:-2000000}
mkdir -p "$directory" || exit 2
failures=0

run_cmake() {
  if command -v cmake >/dev/null 2>&1; then cmake "$@"; else python3 -m cmake "$@"; fi
}

# build NAME: the search and the stress run, in $directory/NAME
build() {
  mutant=$1
  [ "$mutant" = NONE ] && mutant=
  run_cmake -S "$here/../../csrc" -B "$directory/$1" -DBUSQ_TESTS=ON -DBUSQ_PYTHON=OFF -DBUSQ_MUTANT="$mutant" \
    >"$directory/$1.log" 2>&1 &&
    run_cmake --build "$directory/$1" --parallel --target test_explore_steps --target stress >>"$directory/$1.log" 2>&1 &&
    return 0
  cat "$directory/$1.log"
  exit 2
}

# stress NAME: true if all its runs end well; the last one's words are in $directory/NAME.stress
stress() {
  n_runs=0
  for options in "" "--stale" "--stale --capacity 16" "--threads --capacity 16"; do
    n_runs=$((n_runs + 1))
    # shellcheck disable=SC2086
    "$directory/$1/stress" --deliveries "$deliveries" $options >"$directory/$1.stress" 2>&1 || return 1
  done
}

for name in "$@"; do
  build "$name"
  echo "==== $name"
  "$directory/$name/test_explore_steps" --first >"$directory/$name.search" 2>&1
  searched=$?
  stress "$name"
  stressed=$?
  if [ "$name" = NONE ]; then
    if [ $searched -eq 0 ] && [ $stressed -eq 0 ]; then
      echo "passes: $(grep -c '^ok' "$directory/$name.search") searches and $n_runs stress runs of $deliveries deliveries"
    else
      echo "FAILS, though nothing is broken:"
      cat "$directory/$name.search" "$directory/$name.stress"
      failures=1
    fi
    continue
  fi
  if [ $searched -ne 0 ]; then
    echo "caught by the search through all interleavings:"
    sed -n '/^BAD/,$p' "$directory/$name.search"
  fi
  if [ $stressed -ne 0 ]; then
    echo "caught by the stress run:"
    cat "$directory/$name.stress"
  fi
  if [ $searched -eq 0 ] && [ $stressed -eq 0 ]; then
    echo "NOT CAUGHT"
    failures=1
  fi
done
exit $failures
