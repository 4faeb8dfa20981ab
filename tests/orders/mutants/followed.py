# SPDX-License-Identifier: Apache-2.0
"""Is the code still the model's where it is broken?  Follows the search of mutants of the core: each has to be refused.

    python tests/orders/mutants/followed.py DIRECTORY [MUTANT...]

builds in DIRECTORY.  Each mutant is followed (busq.lab.proof.follow) through the scenes whose names contain what stands
beside it, along all schedules that the search finds, until a step is refused; which, and by what schedule, is shown.
Ends with 0 only if all are.
"""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
for folder in (TESTS, TESTS / "orders"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from busq.lab.proof.follow import follow, scenes_of  # noqa: E402
from mutants.multicast import COMMIT, LOOK, MULTICAST, RECEIVE, Mutant, Workshop, mutant  # noqa: E402
from mutants.multicast import MUTANTS as OF_THE_SEARCH  # noqa: E402

# These the search refuses too, by what comes of them in the end.
KNOWN = (
    "ACCEPT_EQUAL",
    "SEAL_AT_MAXIMUM",
    "COMMIT_BEFORE_SYNC",
    "ATTEMPT_NOT_CHECKED",
    "TAIL_NOT_READ",
    "COMMIT_BY_STORE",
    "COMPLETE_WITHOUT_SYNC",
)

MUTANTS = [
    *(one for one in OF_THE_SEARCH if one.name in KNOWN),
    mutant(
        "LATE_IN_PLACE",
        "a late message is delivered where it stands",
        "two senders, the same two receivers, proposals lost",
        LOOK,
        ("found->key.timestamp == record->proposal;\n", "found->key.timestamp >= record->proposal;\n"),
        compiled=RECEIVE,
    ),
    mutant(
        "HEAP_FIRST",
        "the least of the heap goes before what stands at the front, whatever their keys",
        "two senders, the same two receivers, proposals lost",
        LOOK,
        ("  return busq_key_less(least->key, next->key);", "  return least->key.timestamp != next->key.timestamp;"),
        compiled=RECEIVE,
    ),
    mutant(
        "OPEN_PASSED",
        "the reader goes past what is not committed",
        "two senders, the same two receivers",
        RECEIVE,
        (
            "    case BUSQ_LOOK_NOTHING:\n    case BUSQ_LOOK_BLOCKED:\n",
            "    case BUSQ_LOOK_BLOCKED:\n"
            "      position_done(peer, peer->receiver.scan++);\n"
            "      continue;\n"
            "    case BUSQ_LOOK_NOTHING:\n",
        ),
    ),
    mutant(
        "HOLE_PASSED",
        "the reader goes past a hole that it has not skipped",
        "two senders, the same two receivers",
        RECEIVE,
        (
            "    case BUSQ_LOOK_NOTHING:\n    case BUSQ_LOOK_BLOCKED:\n",
            "    case BUSQ_LOOK_NOTHING:\n"
            "      if (busq_ring_tail(&peer->receiver.ring) != peer->receiver.scan) {\n"
            "        position_done(peer, peer->receiver.scan++);\n"
            "        continue;\n"
            "      }\n"
            "      __attribute__((fallthrough));\n"
            "    case BUSQ_LOOK_BLOCKED:\n",
        ),
    ),
    mutant(
        "LOST_IGNORED",
        "the sender commits at a proposal that a queue has refused",
        "two senders, the same two receivers, proposals lost",
        MULTICAST,
        ("  if (BUSQ_LIKELY(!self->is_lost)) {\n", "  if (true) {\n"),
    ),
    mutant(
        "PUT_OFF_BLINDLY",
        "a helper puts a message off by a store, whatever has become of it",
        "one multicast, the sender may be stopped",
        COMMIT,
        (
            "    (void)busq_pair_cas(&record->state, &seen, (busq_pair){seen.lo + BUSQ_TAG_NEXT_ATTEMPT, 0});\n",
            "    busq_pair now = busq_pair_load(&record->state);\n"
            "    (void)busq_pair_cas(&record->state, &now, (busq_pair){seen.lo + BUSQ_TAG_NEXT_ATTEMPT, 0});\n",
        ),
    ),
    mutant(
        "CLOCK_LEFT",
        "a position is taken without taking the clock to the proposal",
        "two senders, the same two receivers",
        "queue/ring.h",
        ("{accepted ? timestamp : seen.lo, seen.hi + 1};", "{seen.lo, seen.hi + 1};"),
        compiled=MULTICAST,
    ),
]


def judge(workshop: Workshop, broken: Mutant) -> bool:
    print(f"==== {broken.name}: {broken.slip}", flush=True)
    program, edges = workshop.build(broken), 0
    for scene in scenes_of(program):
        if broken.scene in scene:
            followed = follow(program, scene)
            edges += followed.edges
            if followed.refusal:
                print(f"refused after {edges:,} steps, in {scene!r}: {followed.refusal.reason}")
                print(f"  {followed.refusal.schedule}", flush=True)
                return True
    print(f"NOT REFUSED in {edges:,} steps", flush=True)
    return False


def main(directory: str, *names: str) -> int:
    workshop = Workshop(Path(directory).resolve())
    workshop.directory.mkdir(parents=True, exist_ok=True)
    unknown = set(names) - {one.name for one in MUTANTS}
    if unknown:
        raise SystemExit(
            f"no mutant is called {', '.join(sorted(unknown))}; there are {', '.join(m.name for m in MUTANTS)}"
        )
    results = [judge(workshop, one) for one in MUTANTS if not names or one.name in names]
    print(f"{results.count(True)} of {len(results)} refused")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
