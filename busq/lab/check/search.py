# SPDX-License-Identifier: Apache-2.0
"""One search in the core: it runs until it is over, out of time, or interrupted, and reports what it has seen."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from busq import orders
from busq._native import ffi, lib
from busq._port.through_cffi import check, held, owned
from busq.errors import NoSpace
from busq.lab.check.plan import APPLICATIONS, BITS, REDUCTIONS, SEARCHES, Plan
from busq.lab.check.result import Progress, Search, Transition
from busq.lab.check.witness import KINDS, OF_PACKETS, Step

__all__ = ["SAMPLE", "CoreSearch"]

SAMPLE = "random executions are a sample"
_SLICE_NS = 20_000_000  # how long a search goes on before it looks for Ctrl-C
_IN_CORE = SEARCHES[1:]  # as the core numbers them
_COUNTS = ("no", "one", "several")


class CoreSearch:
    """A search in the core: runs until it is over, out of time, or interrupted."""

    def __init__(
        self,
        plan: Plan,
        search: str,
        reductions: Sequence[str],
        end_s: float,
        judged: Iterable[str],
        *,
        counts_moves: bool = False,
    ) -> None:
        self.search = search
        self.counts_moves = counts_moves
        self.reductions = tuple(reductions)
        self.is_late = False
        self.outgrown = ""  # why the model had no room for an execution
        self._plan = plan
        self._end_s = end_s
        self._began_s = time.monotonic()
        self._destinations = ffi.new("uint32_t[]", list(plan.destinations)) if plan.destinations else ffi.NULL
        self._counts = ffi.new("uint32_t[]", list(plan.messages_each)) if plan.messages_each else ffi.NULL
        config = ffi.new("busq_check_config *")
        config.processes, config.messages, config.fan_out_max = plan.processes, plan.messages, plan.fan_out
        config.behaviour = APPLICATIONS[plan.application]
        config.channels = lib.BUSQ_CHANNELS_FIFO if plan.network == "fifo" else lib.BUSQ_CHANNELS_UNORDERED
        config.doubled_max, config.lost_max, config.crashes_max = plan.doubled, plan.lost, plan.crashes
        config.search = _IN_CORE.index(search)
        config.reductions = sum(REDUCTIONS[name] for name in reductions)
        config.threads, config.memory_bytes, config.depth_max = plan.threads, plan.memory, plan.depth
        self._disk = ffi.new("char[]", os.fsencode(plan.disk)) if plan.disk else ffi.NULL
        config.directory, config.disk_bytes = self._disk, plan.disk_space
        config.judged = sum(BITS[name] for name in judged)
        config.walks, config.seed = plan.walks if search == "walk" else 0, plan.seed
        config.with_self, config.counts_moves = plan.to_self, counts_moves
        config.destinations = self._destinations
        config.counts = self._counts
        owner = owned("busq_check")
        check(lib.busq_check_new(plan.protocol.encode(), config, owner))
        self._check = held(owner)
        self.facts = ffi.new("busq_check_facts *")
        self.seconds = 0.0

    def run(self, progress: Callable[[Progress], None] | None) -> None:
        """Wait for the end, at most until the time is over; Ctrl-C leaves the facts as they are then."""
        shown_s = self._began_s
        try:
            while True:
                outcome = lib.busq_check_advance(self._check, _SLICE_NS)
                now_s = time.monotonic()
                if outcome != lib.BUSQ_INTERRUPTED:
                    self._check_outcome(outcome)
                    return
                self.is_late = now_s >= self._end_s
                if self.is_late:
                    return
                if progress is not None and now_s - shown_s >= 0.1:
                    shown_s = now_s
                    progress(self.progress())
        finally:
            self._look()

    def _check_outcome(self, outcome: int) -> None:
        try:
            check(outcome)
        except NoSpace as error:  # for so many packets in flight; what was seen stays
            self.outgrown = (error.strerror or str(error)).replace(f" of {self._plan.order.name} ", " ")

    def _look(self) -> None:
        self.seconds = time.monotonic() - self._began_s
        lib.busq_check_examine(self._check, self.facts)

    def progress(self) -> Progress:
        """Return how far it is now."""
        self._look()
        facts = self.facts
        return Progress(
            self.search,
            facts.unique,
            facts.total,
            facts.ends,
            facts.depth or facts.depth_max,
            facts.memory_bytes,
            facts.disk_bytes,
            self.seconds,
            facts.unique / max(self.seconds, 1e-9),
        )

    def close(self) -> None:
        """End the threads, and give the memory back."""
        ffi.release(self._check)

    @property
    def is_complete(self) -> bool:
        """Whether it has seen everything."""
        return bool(self.facts.is_complete) and not self.is_late and not self.outgrown

    @property
    def is_contradicted(self) -> bool:
        """Whether it came to its end, and yet has shown nothing."""
        facts = self.facts
        is_through = facts.is_over and not (facts.is_full or self.is_late or self.outgrown)
        return bool(facts.contradicted and is_through)

    def witness(self) -> tuple[tuple[str, ...], tuple[Step, ...]] | None:
        """The names of what is broken, and the steps to it."""
        if not self.facts.is_over:
            return None
        count, faults = ffi.new("size_t *"), ffi.new("uint32_t *")
        raw = lib.busq_check_witness(self._check, count, faults)
        if raw == ffi.NULL:
            return None
        steps = _named([raw[place] for place in range(count[0])], self._plan.order)
        return tuple(name for name, bit in BITS.items() if faults[0] & bit), tuple(steps)

    @property
    def seed(self) -> int | None:
        """Of the random execution that the witness is."""
        return int(self.facts.witness_seed) if self.search == "walk" else None

    def transitions(self) -> Iterator[Transition]:
        """Return the kinds of transitions that it met."""
        raw, place = ffi.new("busq_check_transition *"), 0
        while lib.busq_check_examine_transition(self._check, place, raw) == lib.BUSQ_OK:
            yield _transition(raw, self._plan.order)
            place += 1

    def unexplored(self, witness: bool, interrupted: bool) -> str:
        """Why not everything was seen, in words."""
        facts = self.facts
        if self.is_complete:
            return ""
        if witness:
            return "the search ended at the violation"
        if interrupted:
            return "it was interrupted"
        if self.outgrown:
            return self.outgrown
        if self.is_contradicted:
            return "what its reductions take for granted was found wrong"
        if facts.is_full and facts.disk_error:
            why = "" if facts.disk_error == errno.ENOSPC else f": {os.strerror(facts.disk_error)}"
            return f"the disk was full ({_size(facts.disk_bytes)} in {self._plan.disk}{why})"
        if facts.is_full:
            return f"the memory was full ({_size(self._plan.memory)})"
        if self.is_late:
            return f"the time was over ({self._plan.seconds:g} s)"
        if self.search == "walk":
            cut = f"{facts.left_out:,} of them were cut off after {self._plan.depth} steps"
            return cut if facts.left_out else SAMPLE
        if facts.left_out:
            return f"what comes after {self._plan.depth} steps was left out, at {facts.left_out:,} states"
        return "the search was cut short"

    def as_search(self, witness: bool, interrupted: bool) -> Search:
        """Return its figures."""
        facts = self.facts
        return Search(
            search=self.search,
            counts_moves=self.counts_moves,
            reductions=self.reductions,
            unique_states=facts.unique,
            total_states=facts.total,
            ends=facts.ends,
            max_depth=facts.depth_max,
            seconds=self.seconds,
            rate=facts.unique / max(self.seconds, 1e-9),
            complete=self.is_complete and self.search != "walk",
            unexplored=self.unexplored(witness, interrupted),
            memory_bytes=facts.memory_bytes,
            disk_bytes=facts.disk_bytes,
            missed_expected=facts.missed_expected,
            contradicted=facts.contradicted,
        )


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count < 1 << 30 else f"{count / 2**30:,.3g} GiB"


def _transition(raw: Any, order: orders.Order) -> Transition:
    event = KINDS[raw.event]
    if event == "receive":
        event += f" {order.kinds[raw.what]}"
    effects = []
    if raw.is_refused:
        effects.append("is refused")
    if raw.sends:
        effects.append(
            "sends " + " and ".join(kind for place, kind in enumerate(order.kinds) if raw.sends >> place & 1)
        )
    for verb, count in (("delivers", raw.n_delivered), ("drops", raw.n_dropped), ("is done with", raw.n_done)):
        if count:
            effects.append(f"{verb} {_COUNTS[min(count, 2)]}")
    if event == "submit" and not raw.n_sent and not raw.is_refused:
        effects.append("waits")
    elif event != "submit" and raw.n_sent:
        effects.append("several are sent" if raw.n_sent > 1 else "one is sent")
    return Transition(event, ", ".join(effects) or "nothing", raw.count)


def _named(raw: Iterable[Any], order: orders.Order) -> Iterator[Step]:
    """The steps, with names for messages in the order in which they are submitted."""
    labels: dict[int, str] = {}
    for one in raw:
        kind = KINDS[one.kind]
        is_submit = kind in ("submit", "end job") and one.destinations
        if is_submit:
            labels[one.message] = f"m{len(labels) + 1}"
        is_packet = kind in OF_PACKETS
        yield Step(
            kind=kind,
            process=one.process,
            message=labels.get(one.message, "") if is_submit or is_packet else "",
            to=tuple(place for place in range(32) if one.destinations >> place & 1) if is_submit else (),
            what=order.kinds[one.what] if is_packet else "",
            sender=getattr(one, "from") if is_packet or kind == "learn" else -1,
            stamp=one.stamp if is_packet else 0,
            note=one.note if is_packet else 0,
            cut=one.cut,
            first=one.first,
        )
