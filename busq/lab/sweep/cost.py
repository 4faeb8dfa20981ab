# SPDX-License-Identifier: Apache-2.0
"""What a simulation will cost: packets, work, memory."""

from __future__ import annotations

import functools
import math

from busq import orders
from busq.lab.sim import Config, run

__all__ = ["memory_bytes", "packets_expected", "too_many", "work_expected"]

PROBES = (8, 16)  # processes of the small runs that show how packets grow
BYTES_PER_MESSAGE = 200


def packets_expected(order: str, processes: int, messages: int) -> float:
    """Return about how many packets a run with `messages` messages to one receiver each will need.

    Extrapolated from two small runs; takes milliseconds.

    >>> 0.9 < packets_expected("mfss", 1000, 50) / 100 < 1.1
    True
    """
    few, more = (_packets_per_message(order, n) for n in PROBES)
    power = math.log(more / few) / math.log(PROBES[1] / PROBES[0])
    return float(messages * more * (processes / PROBES[1]) ** max(0.0, power))


@functools.cache
def _packets_per_message(order: str, processes: int) -> float:
    result = run(Config(order=order, processes=processes, messages_per_process=20, interval_s=0.0))
    return sum(result.packets.values()) / result.messages


def too_many(packets: float, limit: float) -> str:
    """Why something is left out."""
    return f"about {packets / 1e6:,.3g} million packets, more than {limit / 1e6:,.3g} million"


def work_expected(one: Config) -> tuple[float, float]:
    """Return about how many packets a simulation has, and its work: packets, and what is done on clocks."""
    order = orders.parse(one.order)[0]
    n = one.processes
    sends = n * one.messages_per_process
    copies = sends if order.whole_group else sends * one.fan_out
    packets = packets_expected(one.order, n, copies)
    clock = {"none": 0.0, "vector": n / 100, "matrix": n**2 / 1000, "list": n**2 / 25}[order.clock]
    return packets, packets + copies * clock


def memory_bytes(config: Config) -> float:
    """Return how much memory a simulation may take: with matrix clocks mostly that of n clocks of n x n entries.

    Where each message has a list of its own, that of all messages at once.

    >>> from busq.lab.sim import Config
    >>> round(memory_bytes(Config(order="causal-matrix", processes=500)) / 2**20)
    582
    """
    n = float(config.processes)
    clock = orders.parse(config.order)[0].clock
    words = {"none": n, "vector": n * n, "matrix": n**3, "list": 3 * n**3}[clock]
    words += n**3 * config.messages_per_process * (clock == "list")
    return 4 * words + (BYTES_PER_MESSAGE + 4 * (words > n) * n) * n * config.messages_per_process
