# SPDX-License-Identifier: Apache-2.0
"""Simulations drawn at random: what is sent, and a network with faults."""

from __future__ import annotations

import random
from typing import Any

from busq import sim


def traffic(chance: random.Random, processes: int) -> dict[str, Any]:
    """A few messages of each process, on a slow or a fast network, as options of `sim.Config`."""
    return {
        "messages_per_process": chance.randint(1, 8),
        "interval_s": chance.choice((0.0, 0.001, 0.02)),
        "workload": chance.choice(("random", "ring")),
        "fan_out": chance.randint(1, processes - 1),
        "bandwidth_bytes_per_s": chance.choice((2e4, 1e6, 1e9)),
    }


def faults(chance: random.Random) -> sim.Faults:
    """Packets that are late, overtaken or doubled, but not lost."""
    return sim.Faults(
        jitter_s=chance.choice((0.0, 0.01)),
        reordered_share=chance.choice((0, 0.3)),
        reordered_s=0.05,
        doubled_share=chance.choice((0, 0.2)),
        doubled_s=0.05,
    )
