# SPDX-License-Identifier: Apache-2.0
"""The pictures of executions: each is what `busq` draws, and its page shows the command."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The file, and the command that draws it, without where to; a play of the laboratory breaks its promise, exit code 1.
_NAIVE = ["check", "groups", "--processes", "3", "--members", "2", "--no-reductions", "--variant"]
PICTURES: dict[str, list[str]] = {
    "figure-1": ["diagram", "figure-1"],
    "figure-1-receiver": ["diagram", "figure-1-receiver"],
    "figure-1-sender": ["diagram", "figure-1-sender"],
    "figure-2-cykas": ["diagram", "figure-2-cykas"],
    "figure-3": ["diagram", "figure-3"],
    "query-reply": ["diagram", "query-reply"],
    "conflict": ["diagram", "conflict"],
    "crossing": ["diagram", "crossing"],
    "deadlock": ["diagram", "deadlock"],
    "skeen": ["diagram", "conflict", "--order", "skeen"],
    "node-end": ["diagram", "node-end", "--no-control"],
    "groups-naive": [*_NAIVE, "naive"],
    "groups-no-look": [*_NAIVE, "no-look"],
}


def _draw(name: str, folder: Path) -> None:
    path = folder / f"{name}.svg"
    where = "--diagram" if PICTURES[name][0] == "check" else "-o"
    command = [sys.executable, "-m", "busq", *PICTURES[name], where, str(path)]
    ran = subprocess.run(
        command, env={**os.environ, "PYTHONSAFEPATH": "1"}, capture_output=True, text=True, timeout=600
    )
    if ran.returncode not in (0, 1) or not path.exists():
        raise RuntimeError(f"{' '.join(command)}: exit code {ran.returncode}: {ran.stderr.strip()}")


def generate(folder: Path) -> None:
    """Draw all pictures."""
    target = folder / "pictures" / "generated"
    target.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda name: _draw(name, target), PICTURES))
