# SPDX-License-Identifier: Apache-2.0
"""The table, or a part of it: `PYTHONPATH=tests python -m crossings table [FEATURE] [EVENT] [--seed N]`."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time

from crossings import expected
from crossings.cell import run
from crossings.columns import EVENTS
from crossings.features import FEATURES
from crossings.ledger import Wrong


def table(options: argparse.Namespace) -> int:
    n_wrong = 0
    names = options.feature.replace("-", " ").split(",") if options.feature else FEATURES
    for feature in names:
        for event in options.event.replace("-", " ").split(",") if options.event else EVENTS:
            seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
            begin_s = time.monotonic()
            fault, sometimes = (table.get((feature, event)) for table in (expected.FAULTS, expected.SOMETIMES))
            try:
                came_to = run(feature, event, seed)
                is_wrong = fault is not None
            except Wrong as error:
                is_wrong = fault is None and sometimes is None
                came_to = f"{'WRONG' if is_wrong else 'FAULT'} {error}"
            n_wrong += is_wrong
            print(f"{feature} x {event}: {came_to}  [{time.monotonic() - begin_s:.2f} s]", flush=True)
    return 1 if n_wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["table"])
    parser.add_argument("feature", nargs="?", default="")
    parser.add_argument("event", nargs="?", default="")
    parser.add_argument("--seed", type=int, default=None)
    return table(parser.parse_args())


if __name__ == "__main__":
    os.environ.setdefault("BUSQ_DIR", "/dev/shm")
    sys.exit(main())
