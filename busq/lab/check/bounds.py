# SPDX-License-Identifier: Apache-2.0
"""The tables of the documentation: what the Cykas paper has measured, and the bound at which each order is searched."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ORDERS", "PAPER_RATE", "RATE", "TABLE_1", "Bound", "Paper"]


@dataclass(frozen=True)
class Bound:
    """An order, and how much of it is searched.

    `messages` are those of each process, `fan_out` the most destinations of one, `to_self`: their sender among them.
    `unreduced`: the bound without reductions, where the same one would take too long; `breaks`: whether the order
    breaks a promise there.
    """

    order: str
    processes: int
    messages: int
    fan_out: int = 1
    unreduced: tuple[int, int] | None = None
    breaks: bool = False
    application: str = "free"
    to_self: bool = False

    @property
    def bare(self) -> tuple[int, int]:
        """Processes and messages without reductions."""
        return self.unreduced or (self.processes, self.messages)


@dataclass(frozen=True)
class Paper:
    """A row of the paper's Table 1: states in millions, depth, and seconds on 96 threads."""

    name: str
    bound: Bound
    total_millions: int
    unique_millions: int
    max_depth: int
    seconds: int


# Table 1 of the Cykas paper: 3 processes with 3 messages each, Stateright, 96 threads.
TABLE_1 = (
    Paper("MFSS", Bound("mfss", 3, 3), 1_543, 527, 37, 163),
    Paper("Cykas, telling", Bound("cykas-telling", 3, 3, breaks=True), 44, 13, 43, 5),
    Paper("Cykas", Bound("cykas", 3, 3), 5_974, 1_945, 49, 709),
)
# 1,945 million states in 709 s on 96 threads.
PAPER_RATE = TABLE_1[2].unique_millions * 1e6 / TABLE_1[2].seconds / 96
# Where the rate is measured, without reductions.
RATE = Bound("cykas", 3, 2)

# Large bounds that two cores and 16 GiB get through in some minutes.  Whatever an order claims could break at one of
# these: that two processes deliver in opposite orders takes two messages which both get.
ORDERS = (
    Bound("none", 3, 2),
    Bound("fifo", 3, 3, unreduced=(3, 2)),
    Bound("fifo-ack", 3, 2),
    Bound("causal-vector", 4, 1, 3, unreduced=(3, 1)),
    Bound("causal-vector", 2, 3),
    Bound("prc", 3, 1, 2),
    Bound("prc", 2, 3),
    Bound("causal-matrix", 3, 2, 2),
    Bound("ses", 3, 2),
    Bound("ses", 4, 1, 2),
    Bound("ks", 3, 2),
    Bound("ks", 4, 1, 2),
    Bound("mfss", 3, 3),
    Bound("mfss", 4, 2, unreduced=(4, 1)),
    Bound("cykas", 3, 3, unreduced=(3, 2)),
    Bound("cykas", 4, 2, unreduced=(4, 1)),
    Bound("sync", 4, 2, unreduced=(3, 3)),
    Bound("sequencer", 3, 2, 2),
    Bound("sequencer", 2, 2, 2, to_self=True),
    Bound("token", 3, 1, 2),
    Bound("token", 2, 2, 2, to_self=True),
    Bound("token:delivery=safe", 2, 2),
    Bound("token:delivery=safe", 2, 1, 2, to_self=True),
    Bound("lamport", 3, 1, 2),
    Bound("lamport", 2, 5, unreduced=(2, 4)),
    Bound("lamport", 2, 2, 2, to_self=True),
    Bound("lamport:ack=all", 3, 1, 2),
    Bound("lamport:ack=all", 2, 2, 2, to_self=True),
    Bound("skeen", 3, 1, 2),
    Bound("skeen", 2, 3),
    Bound("skeen", 2, 2, 2, to_self=True),
    Bound("skeen", 3, 1, 3, to_self=True),
    Bound("wbam", 3, 1, 2),
    Bound("wbam", 2, 2, 2, to_self=True),
    Bound("wbam:group=1", 3, 1, 2),
    Bound("wbam:group=1", 2, 2, 2, to_self=True),
    Bound("abcast", 3, 1, 2),
    Bound("abcast", 2, 2, 2, to_self=True),
    Bound("bus1", 3, 1, 2),
    Bound("bus1", 2, 4),
    Bound("bus1", 2, 2, 2, to_self=True),
    Bound("bus1:nodes=one", 2, 2, 2, to_self=True),
    Bound("cykas-telling", 3, 3, breaks=True),
    Bound("lamport-literal", 3, 1, 2, breaks=True),
    Bound("sync-naive", 3, 2, breaks=True),
)
