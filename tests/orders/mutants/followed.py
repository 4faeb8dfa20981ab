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
from mutants.multicast import MUTANTS as OF_THE_SEARCH  # noqa: E402
from mutants.multicast import Mutant, Workshop, read  # noqa: E402

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
    *read("followed.txt"),
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
