# SPDX-License-Identifier: Apache-2.0
"""Looks at one bus, several of them: with more than one, a wait that lasts differs from one that has just ended.

The facts come from three places: the bus shows which peers wait and what stands in the queues, the kernel's locks show
which of them live, and /proc shows what their processes are doing (`processes`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import busq
from busq._port.arguments import as_utf8
from busq._port.group_members import seen_in
from busq.groups import View
from busq.ops import leftovers
from busq.ops.processes import Process, process_of

__all__ = ["UNNOTICED", "Looks", "Peer"]

# A wait shorter than this is traffic, not trouble.
WAIT_S_MIN = 0.1
UNNOTICED = "dead, unnoticed"

Peer = dict[str, Any]  # as in `Bus.stats()`


class Looks:
    """One bus, and what was seen of it."""

    def __init__(self, name: str) -> None:
        self.name = as_utf8(name)
        self.error: OSError | busq.BusqError | None = None  # it can't be looked at
        self.stats: dict[str, Any] = {}
        self.peers: dict[int, Peer] = {}  # by slot, as in the last look
        self.processes: dict[int, Process] = {}
        self.views: dict[str, View] = {}
        self.seen: dict[str, dict[int, int]] = {}  # by group and slot: the last view that was delivered there
        self.unnoticed: list[Peer] = []  # dead, and not buried when they were seen first
        self.buried = self.helped = 0
        self.repairs = False
        self._bus: busq.Bus | None = None
        self._file: os.stat_result | None = None
        self._looks: list[dict[int, Peer]] = []

    def open(self, *, repair: bool) -> None:
        """Open the bus, or keep the error; with `repair`, bury the peers that died unnoticed."""
        with self._giving_up():
            self._bus = busq.Bus.open(self.name)
            with contextlib.suppress(FileNotFoundError):
                self._file = os.stat(leftovers.path_of(self.name))
            self.repairs = repair
            self.unnoticed = [peer for peer in self._bus.stats()["peers"] if peer["state"] == UNNOTICED]
            if repair:
                self._repair(self._bus)

    @contextlib.contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Look no further at a bus that turns out to be damaged."""
        try:
            yield
        except (OSError, busq.BusqError) as error:
            self._bus = None
            self.error = error

    def _repair(self, bus: busq.Bus) -> None:
        done = bus.repair()
        self.buried += done.buried
        self.helped += done.helped

    def look(self, *, is_last: bool) -> None:
        """Look once more; at the groups with the last look alone."""
        if self._bus is None:
            return
        with self._giving_up():
            if is_last:  # before the peers: one that enters after the look at them would be a member that is gone
                self.views = self._bus.groups()
            self.stats = self._bus.stats()
            self._looks.append({peer["slot"]: peer for peer in self.stats["peers"]})
            if is_last:
                self.seen = seen_in(self._bus._raw(), self._looks[-1])

    def end(self) -> None:
        """Notice which peers have died meanwhile, look at the processes, and close the bus."""
        if self._bus is None:
            return
        known = {peer["slot"] for peer in self.unnoticed}
        late = [peer for peer in self._looks[-1].values() if peer["state"] == UNNOTICED and peer["slot"] not in known]
        self.unnoticed += late
        if late and self.repairs:
            self._repair(self._bus)
            self.look(is_last=True)
        self.peers = self._looks[-1]
        self.processes = {slot: process_of(peer, self._file) for slot, peer in self.peers.items()}
        if self._bus is not None:
            self._bus.close()

    # ---- what follows from several looks ----

    def _looks_at(self, slot: int) -> list[Peer]:
        """Return all looks at the peer that has a slot now."""
        joined_s = self.peers[slot]["joined_s"]
        return [look[slot] for look in self._looks if slot in look and look[slot]["joined_s"] == joined_s]

    def waits(self, slot: int) -> tuple[str, int | None, float] | None:
        """Return what a peer has waited for in most looks, for which slot, and for how long at least."""
        looks = [(peer["waits"], peer["waits_for_slot"], peer["waited_s"]) for peer in self._looks_at(slot)]
        for kind, target in {(kind, target) for kind, target, _ in looks if kind is not None}:
            times_s = [waited_s for *what, waited_s in looks if what == [kind, target]]
            if 2 * len(times_s) > len(looks):
                return kind, target, max(times_s)
        return None

    def is_moving(self, slot: int) -> bool:
        """Return whether a peer has received something between the looks."""
        return len({peer["received"] for peer in self._looks_at(slot)}) > 1

    def room_edges(self) -> dict[int, tuple[int, float]]:
        """Return which peers have waited for room, in which queue, and for how long."""
        edges = {}
        for slot, peer in self.peers.items():
            waits = self.waits(slot) if peer["alive"] else None
            if waits and waits[0] == "room" and waits[1] in self.peers and waits[2] >= WAIT_S_MIN:
                edges[slot] = (waits[1], waits[2])
        return edges

    def cycles(self) -> list[list[int]]:
        """Return peers that wait for room in each other's queues, round and round, while none of them receives."""
        edges = self.room_edges()
        cycles: list[list[int]] = []
        done: set[int] = set()
        for start in edges:
            path: list[int] = []
            slot = start
            while slot in edges and slot not in done and slot not in path:
                path.append(slot)
                slot = edges[slot][0]
            if slot in path:
                cycle = path[path.index(slot) :]
                if not any(self.is_moving(member) for member in cycle):
                    cycles.append(cycle)
            done.update(path)
        return cycles
