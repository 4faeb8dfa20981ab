# SPDX-License-Identifier: Apache-2.0
"""The machine on which something is measured."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping
from typing import Any

from .peers.base import Adapter


def describe(peers: Mapping[str, Adapter]) -> dict[str, Any]:
    """The machine, the time and the versions of what is measured."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "time_utc": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "load_before": load(),
        "versions": {name: peer.version() for name, peer in peers.items() if peer.missing() is None},
    }


def line(described: dict[str, Any]) -> str:
    """The same for people, with all versions: what is old is seen at once."""
    versions = ", ".join(f"{name} {version}" for name, version in described["versions"].items())
    return (
        f"{described['cpu']}, {described['cores']} cores, Linux {described['kernel']}, Python {described['python']}; "
        f"load {described['load_before']:.2f}; {versions};"
    )


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
