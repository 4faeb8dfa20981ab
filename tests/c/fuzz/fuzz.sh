#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes what reads shared memory: attaching to a file that may hold anything, and using a bus whose words change.
#
#     tests/c/fuzz/fuzz.sh DIRECTORY SECONDS [TARGET...]
#
# Builds in DIRECTORY with clang, then runs the targets (attach, receive) side by side for SECONDS, from the inputs in
# tests/c/fuzz/corpus and what earlier runs in the same DIRECTORY have found worth keeping.  Prints executions and new inputs, one line
# per target.
# Ends with 1 if something was found; DIRECTORY then holds the input (TARGET-crash-..., TARGET-timeout-...) and the
# report (TARGET.log).  To keep a finding from coming back, put the input into tests/c/fuzz/corpus/TARGET:
#
#     DIRECTORY/build/fuzz_TARGET_fuzzer DIRECTORY/TARGET-crash-...                        shows it again
#     DIRECTORY/build/fuzz_TARGET_fuzzer -minimize_crash=1 -runs=100000 DIRECTORY/...      makes it smaller
set -u

here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: fuzz.sh DIRECTORY SECONDS [TARGET...]}
seconds=${2:?usage: fuzz.sh DIRECTORY SECONDS [TARGET...]}
shift 2
[ $# -gt 0 ] || set -- attach receive
mkdir -p "$directory" || exit 2
directory=$(cd "$directory" && pwd)
failures=0

run_cmake() {
  if command -v cmake >/dev/null 2>&1; then cmake "$@"; else python3 -m cmake "$@"; fi
}

{
  run_cmake -S "$here/../../../csrc" -B "$directory/build" -DCMAKE_C_COMPILER="${CC:-clang}" -DBUSQ_PYTHON=OFF -DBUSQ_FUZZ=ON &&
    run_cmake --build "$directory/build" --parallel --target fuzz_attach_fuzzer --target fuzz_receive_fuzzer
} >"$directory/build.log" 2>&1 || { tail -20 "$directory/build.log"; exit 2; }

fuzz() {
  target=$1
  mkdir -p "$directory/$target"
  "$directory/build/fuzz_${target}_fuzzer" -max_total_time="$seconds" -timeout=10 -max_len=400 -print_final_stats=1 \
    -artifact_prefix="$directory/$target-" "$directory/$target" "$here/corpus/$target" >"$directory/$target.log" 2>&1
  status=$?
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$directory/$target.log")
  kept=$(find "$directory/$target" -type f | wc -l)
  if [ $status -eq 0 ]; then
    echo "$target: ${executions:-0} executions in $seconds s, nothing found; $kept inputs kept"
  else
    echo "$target: FOUND something after ${executions:-?} executions (status $status):"
    grep -m 3 -E 'ERROR|SUMMARY|runtime error|hangs|not a busq_result|without' "$directory/$target.log"
  fi
  return $status
}

# Each on a core of its own.
jobs=
for target in "$@"; do
  fuzz "$target" &
  jobs="$jobs $!"
done
for job in $jobs; do
  wait "$job" || failures=1
done
exit $failures
