# SPDX-License-Identifier: Apache-2.0
"""On what was it measured?"""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from typing import Any

from .peers import ADAPTERS


def describe(peers: Sequence[str]) -> dict[str, Any]:
    """The machine, the time and the versions of `peers`."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "time_utc": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "load_before": load(),
        "versions": {peer: ADAPTERS[peer].version() for peer in peers if ADAPTERS[peer].missing() is None},
    }


def load() -> float:
    """Runnable processes on average over the last minute."""
    return os.getloadavg()[0]


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() in ("model name", "Model"):
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
