# SPDX-License-Identifier: Apache-2.0
"""The benchmarks without the command line of busq: `python -m busq.bench`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .lines import passed
from .picture import draw
from .plan import WORKLOADS
from .report import print_report, progress
from .runner import available, run


def main() -> int:
    """Run and print the tables; 1 if busq failed, lost a message or missed a line."""
    parser = argparse.ArgumentParser(prog="python -m busq.bench", description="Measure busq and its peers in one run.")
    parser.add_argument("--peers", nargs="*", choices=list(available()), metavar="PEER", help=", ".join(available()))
    parser.add_argument(
        "--workloads", nargs="*", choices=list(WORKLOADS), metavar="WORKLOAD", help=", ".join(WORKLOADS)
    )
    parser.add_argument("--sizes", nargs="*", type=int, metavar="BYTES")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring, per case and repeat")
    parser.add_argument("--busy", type=int, default=0, help="measure once more beside so many busy processes")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--picture", type=Path, metavar="FILE")
    options = parser.parse_args()

    settings = (options.sizes, options.repeats, options.seconds, progress(), options.busy)
    result = run(options.peers, options.workloads, *settings)
    print_report(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.picture:
        draw(result, options.picture)
    return 0 if passed(result) else 1


if __name__ == "__main__":
    sys.exit(main())
