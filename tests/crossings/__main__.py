# SPDX-License-Identifier: Apache-2.0
"""The table, or a part of it; random walks, as many as one likes; or one walk again.

PYTHONPATH=tests python -m crossings table [FEATURE,...] [EVENT,...] [--seed N]
PYTHONPATH=tests python -m crossings walks N [--seed N]
PYTHONPATH=tests python -m crossings walk SEED

BUSQ_TEST_LOAD=busy, stopped or kills has the machine, or each bus, under a load (loads.py).
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import shutil
import signal
import sys
import tempfile
import time

import watchdog_process
from crossings import expected, loads
from crossings.cell import run
from crossings.columns import EVENTS
from crossings.features import FEATURES
from crossings.ledger import Wrong
from crossings.run_walks import run_walks
from crossings.walks import Walk


def table(options: argparse.Namespace) -> int:
    n_wrong = 0
    for feature in options.feature.split(",") if options.feature else FEATURES:
        for event in options.event.split(",") if options.event else EVENTS:
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


def walks(options: argparse.Namespace) -> int:
    seed = random.SystemRandom().getrandbits(40) if options.seed is None else options.seed
    wrong = run_walks(options.count, seed, sys.stderr)
    print(f"{options.count:,} walks from seed {seed}: {len(wrong)} faults")
    return 1 if wrong else 0


def walk(options: argparse.Namespace) -> int:
    faulthandler.register(watchdog_process.STACKS)
    one = Walk(options.seed)
    one.run()
    print(one)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("table")
    one.add_argument("feature", nargs="?", default="")
    one.add_argument("event", nargs="?", default="")
    one.add_argument("--seed", type=int, default=None)
    one.set_defaults(do=table)
    one = commands.add_parser("walks")
    one.add_argument("count", type=int)
    one.add_argument("--seed", type=int, default=None)
    one.set_defaults(do=walks)
    one = commands.add_parser("walk")
    one.add_argument("seed", type=int)
    one.set_defaults(do=walk)
    options = parser.parse_args()
    with loads.load():
        return int(options.do(options))


if __name__ == "__main__":
    directory = tempfile.mkdtemp(
        prefix=f"busq-crossings-{os.getpid()}-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None
    )
    os.environ["BUSQ_DIR"] = directory
    owner = os.getpid()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what was made is removed
    try:
        sys.exit(main())
    finally:
        if os.getpid() == owner:
            shutil.rmtree(directory, ignore_errors=True)
