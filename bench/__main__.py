# SPDX-License-Identifier: Apache-2.0
"""Measures one installation for `versions`: `python -m busq.bench --peers busq --workloads one_to_one --json FILE`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .plan import WORKLOADS
from .runner import available, run


def main() -> None:
    """Run, and write the result."""
    parser = argparse.ArgumentParser(prog="python -m busq.bench")
    parser.add_argument("--peers", nargs="*", choices=list(available()))
    parser.add_argument("--workloads", nargs="*", choices=list(WORKLOADS))
    parser.add_argument("--sizes", nargs="*", type=int, metavar="BYTES")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    result = run(options.peers, options.workloads, options.sizes, options.repeats, options.seconds)
    options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
