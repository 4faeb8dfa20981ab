#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Are the tests any good?  Builds the core with one step broken on purpose, once for each of the mutants below, and shows
# the schedule by which the search through interleavings notices, access by access.
#
#     tests/c/mutants.sh DIRECTORY [MUTANT...]
#
# Builds in DIRECTORY.  Without names: all scenes on the core as it is, which must pass, and then every mutant, each of
# which must be caught in the scene that stands beside it.  Ends with 0 only then.  CC chooses the compiler.
set -u

# name | scene | what is broken
mutants='
ACCEPT_EQUAL|two senders, the same two receivers|a proposal equal to the clock is accepted
SEAL_AT_MAXIMUM|two senders, the same two receivers|sealed at the highest clock seen, not above it
COMMIT_BEFORE_SYNC|a side channel|committed before every clock has reached the timestamp
HOLE_NOT_SKIPPED|one sender, one receiver, anybody may be killed|a reader waits for ever for what fills a hole
BIT_BEFORE_READ|still looks at the last message|released before the reader has read it
WAKE_BEFORE_COMMIT|one receiver, who sleeps and is woken|the sender looks for sleepers before its message can be received
SLEEP_WITHOUT_LOOKING|one receiver, who sleeps and is woken|a reader does not look again between raising its flag and sleeping
ATTEMPT_NOT_CHECKED|one multicast, the sender may be stopped|a reference of an attempt that was put off counts
SEQUENCE_NOT_CHECKED|one multicast, the sender may be stopped|a reference counts whatever the record now holds
TAIL_NOT_READ|two senders, the same two receivers, proposals lost|a late message is delivered without reading the tail again
COMMIT_BY_STORE|one multicast, the sender may be stopped|the owner commits without finding out that it was put off
SEALED_LEFT|one multicast, proposal lost, the sender may be killed|nobody commits what a dead sender has sealed
COMPLETE_WITHOUT_SYNC|a sender who dies anywhere, then a side channel|who completes a message does not raise the clocks
HEAD_BEFORE_MARK|one multicast, a receiver may be killed|the position is given back before the message is released
'

here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: mutants.sh DIRECTORY [MUTANT...]}
shift
[ $# -gt 0 ] || set -- NONE $(echo "$mutants" | sed -n 's/|.*//p')
mkdir -p "$directory" || exit 2
failures=0

run_cmake() {
  if command -v cmake >/dev/null 2>&1; then cmake "$@"; else python3 -m cmake "$@"; fi
}

# build NAME: the search, in $directory/NAME
build() {
  mutant=$1
  optimise=-O1 # builds quicker, and mutants are caught quickly
  [ "$mutant" = NONE ] && mutant= && optimise=-O3
  run_cmake -S "$here/../../csrc" -B "$directory/$1" -DBUSQ_TESTS=ON -DBUSQ_PYTHON=OFF -DBUSQ_MUTANT="$mutant" \
    -DCMAKE_BUILD_TYPE=Mutant -DCMAKE_C_FLAGS_MUTANT="$optimise -DNDEBUG" >"$directory/$1.log" 2>&1 &&
    run_cmake --build "$directory/$1" --parallel --target test_explore_steps >>"$directory/$1.log" 2>&1 &&
    return 0
  cat "$directory/$1.log"
  exit 2
}

for name in "$@"; do
  build "$name"
  program=$directory/$name/test_explore_steps
  if [ "$name" = NONE ]; then
    echo "==== nothing is broken"
    "$program" || { echo "FAILS, though nothing is broken"; failures=1; }
    continue
  fi
  line=$(echo "$mutants" | grep "^$name|") || { echo "no mutant is called $name"; exit 2; }
  scene=$(echo "$line" | cut -d'|' -f2)
  echo "==== $name: $(echo "$line" | cut -d'|' -f3)"
  if "$program" --first "$scene" >"$directory/$name.search" 2>&1; then
    echo "NOT CAUGHT"
    cat "$directory/$name.search"
    failures=1
  else
    sed -n '/^BAD/,$p' "$directory/$name.search"
    grep -q '^BAD' "$directory/$name.search" || { cat "$directory/$name.search"; failures=1; }
  fi
done
exit $failures
