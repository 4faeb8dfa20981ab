# SPDX-License-Identifier: Apache-2.0
"""Searching: every execution of an order within a bound, or many random ones."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from busq import _arguments, orders
from busq._core import check, held, integer, owned
from busq._native import ffi, lib
from busq.errors import NoSpace
from busq.lab.check.result import BEYOND, Finding, Progress, Result, Search, Transition
from busq.lab.check.vacuous import Sends, vacuous
from busq.lab.check.witness import KINDS, NAMES, NETWORKS, Counterexample, Step
from busq.lab.observers import PROPERTIES

__all__ = [
    "ALL",
    "APPLICATIONS",
    "NETWORKS",
    "REDUCTIONS",
    "SAMPLE",
    "SEARCHES",
    "Interrupted",
    "bears_doubled",
    "has_its_network",
    "run",
]

REDUCTIONS = {
    "late-submits": lib.BUSQ_CHECK_LATE_SUBMITS,
    "quiet-packets": lib.BUSQ_CHECK_QUIET_PACKETS,
    "symmetry": lib.BUSQ_CHECK_SYMMETRY,
}
ALL: tuple[str, ...] = tuple(REDUCTIONS)
APPLICATIONS = {
    "free": lib.BUSQ_CHECK_FREE,
    "reply": lib.BUSQ_CHECK_REPLY,
    "job": lib.BUSQ_CHECK_JOB,
    "side": lib.BUSQ_CHECK_INFORMED,
}
SEARCHES = ("auto", "depth", "breadth", "walk")
BITS: dict[str, int] = {name: 1 << getattr(lib, f"BUSQ_PROPERTY_{name.upper()}") for name in PROPERTIES} | {
    name: 1 << getattr(lib, f"BUSQ_CHECK_{name.upper()}") for name in BEYOND
}

Destinations = Sequence[Sequence[Iterable[int]]]

_SLICE_NS = 20_000_000  # how long a search goes on before it looks for Ctrl-C
_IN_CORE = SEARCHES[1:]  # as the core numbers them
_SAFETY = ("lost", "duplicated", "phantom", "fifo", "causal")
_AGREEMENT = ("consistent", "total")
_MEMORY_BYTES_MAX = 16 << 30
_MEMORY_BYTES_MIN = 1 << 20
_WALKS = 10_000
_DEPTH_MAX = 2048  # steps of an execution: what goes on beyond that is taken for endless
SAMPLE = "random executions are a sample"
_LOSSY = "fifo:on_gap=skip"
_SMALL_SECONDS = 5.0  # what the search may take that says which transitions there are
_COUNTS = ("no", "one", "several")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a check ran; `result` is what was seen until then."""

    def __init__(self, result: Result) -> None:
        super().__init__("interrupted")
        self.result = result


def run(
    protocol: str,
    processes: int = 3,
    messages: int = 3,
    *,
    fan_out: int | None = None,
    application: str = "free",
    network: str | None = None,
    doubled: int = 0,
    lost: int = 0,
    to_self: bool = False,
    destinations: Destinations | None = None,
    broadcast: bool = False,
    properties: Iterable[str] | None = None,
    reductions: Iterable[str] = ALL,
    search: str = "auto",
    walks: int | None = None,
    seed: int = 1,
    depth: int | None = None,
    threads: int | None = None,
    memory: int | None = None,
    seconds: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Search every execution of an order within a bound, or, with `walks`, so many random ones.

    `protocol` with its options ("lamport:ack=all"); `processes`, `messages` of each, and `fan_out`, the most
    destinations of a message (by default 1 where the order is point to point, else all others).  Every choice of
    destinations is tried, with `to_self` the sender itself too; or `destinations[p][k]` gives those of message k of
    process p.  `broadcast`: every message goes to all that it may go to.

    `application`: "free", every process sends whenever it likes; "reply", it sends one message, and then answers;
    "job", free, but the first delivery at process 0 begins a job during which it neither sends nor receives; "side",
    free, but all learn by side channels of every delivery anywhere, and `side` is judged, promised or not: nobody
    delivers a message after one whose sender knew of it.
    `network`: "unordered"; "fifo", where channels keep the order; by default what the order needs, and an order that
    needs "fifo" promises nothing without.  It may double and lose so many packets (lose: only where the order bears it;
    double: all but fifo promise nothing then).

    `properties` that are judged, that is, whose violation ends the search: by default (None) what the order claims
    (with the network that it needs), what every order must keep (lost, duplicated, phantom), stuck, refused, buffers,
    endless, kept, and genuine where no third process takes part in a message.  (): all is searched, whatever breaks;
    so it is by default where packets are doubled and the order does not promise to bear that.

    `reductions`: names from ALL, or none.  `search`: "depth" or "breadth" first; "auto" is depth first, and after a
    violation breadth first for the shortest one.  `walks` random executions, the first drawn from `seed`, the next from
    `seed` + 1, and so on.  `depth` bounds the steps of an execution (2048 at most), `threads` are by default as many as
    there are cores, `memory` is in bytes (by default half of what is free, at most 16 GiB), `seconds` bounds the time.
    `progress` is called ten times a second at most.

    Where memory, time, depth or the room for packets is not enough, the result says so, and what was seen until then.
    Ctrl-C, in the main thread, raises Interrupted within some tenths of a second.  Errors: ValueError for what cannot
    be, NoSpace, and what `progress` raises.  Costs about 0.3 to 3 us of processor time and 8 to 16 bytes per state, and
    for the way that a depth-first search is on some KiB per step, which decides in large groups.

    >>> result = run("cykas", processes=3, messages=1)
    >>> result.holds, result.complete, result.verdicts["causal"].claimed
    (True, True, True)
    >>> run("fifo", messages=2, properties=["causal"]).counterexample.faults
    ('causal',)
    """
    plan = _plan(
        protocol,
        processes,
        messages,
        fan_out=fan_out,
        application=application,
        network=network,
        doubled=doubled,
        lost=lost,
        to_self=bool(to_self),
        destinations=destinations,
        broadcast=broadcast,
        properties=properties,
        reductions=reductions,
        search=search,
        walks=walks,
        seed=seed,
        depth=depth,
        threads=threads,
        memory=memory,
        seconds=seconds,
    )
    return _Check(plan, _arguments.callback("progress", progress)).result()


# ---- what is asked for ----


@dataclass(frozen=True)
class _Plan:
    order: orders.Order
    protocol: str
    processes: int
    messages: int
    fan_out: int
    application: str
    network: str
    doubled: int
    lost: int
    to_self: bool
    destinations: tuple[int, ...]  # sets of bits; none: every choice
    claimed: tuple[str, ...]  # what the order promises on this network
    judged: tuple[str, ...]
    known: tuple[str, ...]  # properties that the model looks at
    reductions: tuple[str, ...]
    search: str
    walks: int
    seed: int
    depth: int
    threads: int
    memory: int
    seconds: float


def _plan(protocol: str, processes: int, messages: int, *, memory: int | None, **options: Any) -> _Plan:
    order = orders.parse(_arguments.text("protocol", protocol))[0]
    _check_whole("processes", processes, 2, len(NAMES))
    _check_whole("messages", messages, 1, 32 // processes, f", 32 of {processes} processes together")
    fan_out = _fan_out(order, processes, options.pop("fan_out"), options["to_self"])
    is_walk = options["walks"] is not None or options["search"] == "walk"
    search = "walk" if is_walk else options["search"]
    _check_search(options.pop("search"), has_walks=options["walks"] is not None)
    _arguments.choice("application", options["application"], APPLICATIONS)
    if options["network"] is None:
        options["network"] = "fifo" if order.fifo_channels else "unordered"
    _arguments.choice("network", options["network"], NETWORKS)
    _check_whole("doubled", options["doubled"], 0, 100)
    _check_whole("lost", options["lost"], 0, 100)
    if options["lost"] and protocol not in ("none", _LOSSY):
        raise ValueError(
            f"lost is {options['lost']}: expected 0, as {protocol} would wait for what is lost; "
            f"only none and {_LOSSY} go on without"
        )
    walks, depth, seconds = options.pop("walks"), options.pop("depth"), options.pop("seconds")
    threads = options.pop("threads")
    seconds = math.inf if seconds is None else _arguments.number("seconds", seconds, "a number, or None for no limit")
    if not seconds > 0:
        raise ValueError(f"seconds is {seconds}: expected more than 0")
    _check_whole("seed", options["seed"], 0, 2**63 - 1)
    known = _known(order, options["application"])
    owed = _owed(order, protocol, options["doubled"], options["lost"])
    owed += ("side",) if owed and order.side_channels and "side" in known else ()
    given = _destinations(options.pop("destinations"), processes, messages, fan_out, options["to_self"])
    if options.pop("broadcast"):
        given = _everybody(order, processes, messages, fan_out, options["to_self"], given)
    return _Plan(
        order=order,
        protocol=protocol,
        processes=processes,
        messages=messages,
        fan_out=fan_out,
        claimed=owed if has_its_network(protocol, options["network"]) else (),
        judged=_judged(order, owed, known, options.pop("properties")),
        known=known,
        reductions=_reductions(options.pop("reductions")),
        search=search,
        walks=_check_whole("walks", walks, 1, 10**15) if walks is not None else _WALKS,
        depth=_check_whole("depth", depth, 1, _DEPTH_MAX) if depth is not None else 0,
        threads=_check_whole("threads", threads, 1, 64) if threads is not None else _cores(),
        memory=_memory(memory),
        seconds=seconds,
        destinations=given,
        **options,
    )


def _check_whole(name: str, value: Any, low: int, high: int, why: str = "") -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} is {value!r}: expected {low} to {high}{why}")
    return value


def _check_search(search: Any, *, has_walks: bool) -> None:
    _arguments.choice("search", search, SEARCHES)
    if has_walks and search not in ("auto", "walk"):
        raise ValueError(f"search is {search!r}, and walks are asked for: expected one of both")


def _fan_out(order: orders.Order, processes: int, asked: int | None, to_self: bool) -> int:
    if order.point_to_point and to_self:
        raise ValueError(f"to_self: {order.name} is point to point, and knows no message to oneself")
    if order.point_to_point and asked not in (None, 1):
        raise ValueError(
            f"fan_out is {asked!r}: expected 1, as {order.name} is point to point: a multicast is several messages"
        )
    most = processes if to_self else processes - 1
    if asked is None:
        return 1 if order.point_to_point else most
    return _check_whole("fan_out", asked, 1, most)


def _destinations(
    given: Destinations | None, processes: int, messages: int, fan_out: int, to_self: bool
) -> tuple[int, ...]:
    if given is None:
        return ()
    _arguments.typed("destinations", given, Sequence, "a sequence for each process, of a set for each message")
    for process, some in enumerate(_arguments.each_typed("destinations", given, Sequence, "a sequence of sets")):
        _arguments.each_typed(f"destinations[{process}]", some, Iterable, "a set of processes, by their indices")
    if len(given) != processes or any(len(one) != messages for one in given):
        raise ValueError(f"destinations: expected {messages} sets of processes for each of {processes} processes")
    found = []
    for process, some in enumerate(given):
        for number, to in enumerate(some):
            members = {integer(f"a process of destinations[{process}][{number}]", one) for one in to}
            possible = set(range(processes)) - (set() if to_self else {process})
            if not members or not members <= possible or len(members) > fan_out:
                raise ValueError(
                    f"destinations[{process}][{number}] is {sorted(members)}: expected 1 to {fan_out} of the processes "
                    f"{sorted(possible)}"
                )
            found.append(sum(1 << one for one in members))
    return tuple(found)


def _everybody(
    order: orders.Order, processes: int, messages: int, fan_out: int, to_self: bool, given: tuple[int, ...]
) -> tuple[int, ...]:
    """Destinations of every message of every process: all others, and perhaps itself."""
    if order.point_to_point:
        raise ValueError(f"broadcast: {order.name} is point to point: a multicast is several messages")
    if given or fan_out < processes - 1:
        raise ValueError("broadcast: every message goes to all: expected neither destinations nor a smaller fan_out")
    all_of_them = (1 << processes) - 1
    return tuple(
        all_of_them & ~(0 if to_self else 1 << process) for process in range(processes) for _ in range(messages)
    )


def _owed(order: orders.Order, protocol: str, doubled: int, lost: int) -> tuple[str, ...]:
    """The promises of the order where packets are doubled or lost, if channels do what it needs."""
    if doubled and not bears_doubled(protocol):
        return ()
    gives_up = lost > 0 or protocol == _LOSSY  # what is lost is lost
    return tuple(name for name in PROPERTIES if name in order.claims and not (name == "lost" and gives_up))


def bears_doubled(protocol: str) -> bool:
    """Whether an order promises anything where the network doubles packets.

    >>> bears_doubled("fifo"), bears_doubled("cykas")
    (True, False)
    """
    return orders.parse(protocol)[0].name == "fifo"


def has_its_network(protocol: str, network: str) -> bool:
    """Whether channels do what an order needs: without, it promises nothing.

    >>> has_its_network("lamport", "unordered"), has_its_network("lamport", "fifo")
    (False, True)
    """
    return network == "fifo" or not orders.parse(protocol)[0].fifo_channels


def _known(order: orders.Order, application: str) -> tuple[str, ...]:
    """The properties in the model: beyond the common ones, those that the order promises or somebody is informed of."""
    beyond = tuple(name for name in BEYOND if name != "side" or application == "side")
    if "synchronous" in order.claims:
        return (*_SAFETY, "synchronous", *beyond)
    return (*_SAFETY, *(_AGREEMENT if order.claims & set(_AGREEMENT) else ()), *beyond)


def _judged(
    order: orders.Order, owed: tuple[str, ...], known: tuple[str, ...], asked: Iterable[str] | None
) -> tuple[str, ...]:
    if asked is not None:
        chosen = _arguments.names("properties", asked)
        for name in chosen:
            if name not in BITS:
                raise ValueError(f"properties: {name!r} is none: expected {', '.join(BITS)}")
            if name not in known:
                if name == "side":
                    raise ValueError("properties: 'side' is judged where the application is 'side'")
                raise ValueError(f"properties: {name!r} is judged only of orders that promise it, or agreement")
        return tuple(name for name in known if name in chosen)
    is_genuine = not (order.whole_group or order.coordinated)
    return tuple(
        name for name in known if owed and (name in owed or name in BEYOND) and (name != "genuine" or is_genuine)
    )


def _reductions(asked: Iterable[str]) -> tuple[str, ...]:
    chosen = set(_arguments.names("reductions", asked))
    strange = sorted(chosen - set(REDUCTIONS))
    if strange:
        raise ValueError(f"reductions: {strange[0]!r} is none: expected {', '.join(REDUCTIONS)}")
    return tuple(name for name in REDUCTIONS if name in chosen)


def _cores() -> int:
    return min(64, len(os.sched_getaffinity(0)))


def _memory(asked: int | None) -> int:
    import psutil

    found = psutil.virtual_memory()
    if asked is None:
        return int(max(_MEMORY_BYTES_MIN, min(found.available // 2, _MEMORY_BYTES_MAX)))
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < _MEMORY_BYTES_MIN:
        raise ValueError(f"memory is {asked!r}: expected bytes, 1 MiB ({_MEMORY_BYTES_MIN}) at least")
    if asked > found.total:
        raise ValueError(f"memory is {asked:,} bytes: the machine has {found.total:,}")
    return asked


# ---- one search ----


class _Search:
    """A search in the core: runs until it is over, out of time, or interrupted."""

    def __init__(
        self,
        plan: _Plan,
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
        config = ffi.new("busq_check_config *")
        config.processes, config.messages, config.fan_out_max = plan.processes, plan.messages, plan.fan_out
        config.behaviour = APPLICATIONS[plan.application]
        config.channels = lib.BUSQ_CHANNELS_FIFO if plan.network == "fifo" else lib.BUSQ_CHANNELS_UNORDERED
        config.doubled_max, config.lost_max = plan.doubled, plan.lost
        config.search = _IN_CORE.index(search)
        config.reductions = sum(REDUCTIONS[name] for name in reductions)
        config.threads, config.memory_bytes, config.depth_max = plan.threads, plan.memory, plan.depth
        config.judged = sum(BITS[name] for name in judged)
        config.walks, config.seed = plan.walks if search == "walk" else 0, plan.seed
        config.with_self, config.counts_moves = plan.to_self, counts_moves
        config.destinations = self._destinations
        owner = owned("busq_check")
        check(lib.busq_check_new(plan.protocol.encode(), config, owner))
        self._check = held(owner)
        self.facts = ffi.new("busq_check_facts *")
        self.seconds = 0.0

    def run(self, progress: Callable[[Progress], None] | None) -> None:
        """Wait for the end, at most until the time is over; Ctrl-C leaves the facts as they are then."""
        told_s = self._began_s
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
                if progress is not None and now_s - told_s >= 0.1:
                    told_s = now_s
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
        self._look()
        facts = self.facts
        return Progress(
            self.search,
            facts.unique,
            facts.total,
            facts.ends,
            facts.depth or facts.depth_max,
            facts.memory_bytes,
            self.seconds,
            facts.unique / max(self.seconds, 1e-9),
        )

    def close(self) -> None:
        """End the threads, and give the memory back."""
        ffi.release(self._check)

    @property
    def is_complete(self) -> bool:
        return bool(self.facts.is_complete) and not self.is_late and not self.outgrown

    @property
    def is_contradicted(self) -> bool:
        """Whether it came to its end, and yet has shown nothing."""
        facts = self.facts
        return (
            bool(facts.contradicted and facts.is_over and not facts.is_full) and not self.is_late and not self.outgrown
        )

    def witness(self) -> tuple[tuple[str, ...], list[Any]] | None:
        """The names of what is broken, and the raw steps."""
        if not self.facts.is_over:
            return None
        count, faults = ffi.new("size_t *"), ffi.new("uint32_t *")
        raw = lib.busq_check_witness(self._check, count, faults)
        if raw == ffi.NULL:
            return None
        # The steps are the core's own memory: copied before it is given back.
        copies = [ffi.new("busq_check_step *", raw[place])[0] for place in range(count[0])]
        return tuple(name for name, bit in BITS.items() if faults[0] & bit), copies

    def transitions(self) -> Iterator[Transition]:
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
        if facts.is_full:
            size = self._plan.memory
            return (
                f"the memory was full ({size >> 20} MiB)"
                if size < 1 << 30
                else f"the memory was full ({size / 2**30:,.3g} GiB)"
            )
        if self.is_late:
            return f"the time was over ({self._plan.seconds:g} s)"
        if self.search == "walk":
            cut = f"{facts.left_out:,} of them were cut off after {self._plan.depth} steps"
            return cut if facts.left_out else SAMPLE
        if facts.left_out:
            return f"what comes after {self._plan.depth} steps was left out, at {facts.left_out:,} states"
        return "the search was cut short"

    def as_search(self, witness: bool, interrupted: bool) -> Search:
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
            missed_expected=facts.missed_expected,
            contradicted=facts.contradicted,
        )


def _transition(raw: Any, order: orders.Order) -> Transition:
    event = KINDS[raw.event]
    if event == "receive":
        event += f" {order.kinds[raw.what]}"
    found = []
    if raw.is_refused:
        found.append("is refused")
    if raw.sends:
        found.append("sends " + " and ".join(kind for place, kind in enumerate(order.kinds) if raw.sends >> place & 1))
    for verb, count in (("delivers", raw.n_delivered), ("drops", raw.n_dropped), ("is done with", raw.n_done)):
        if count:
            found.append(f"{verb} {_COUNTS[min(count, 2)]}")
    if event == "submit" and not raw.n_sent and not raw.is_refused:
        found.append("waits")
    elif event != "submit" and raw.n_sent:
        found.append("several are sent" if raw.n_sent > 1 else "one is sent")
    return Transition(event, ", ".join(found) or "nothing", raw.count)


# ---- a whole check ----


class _Check:
    """One search or several, and what they come to together."""

    def __init__(self, plan: _Plan, progress: Callable[[Progress], None] | None) -> None:
        self._plan = plan
        self._progress = progress
        self._began_s = time.monotonic()
        self._end_s = self._began_s + plan.seconds
        self._searches: list[Search] = []
        self._facts: list[Any] = []
        self._example: Counterexample | None = None
        self._missing = ""  # why a further search could not be made that was needed
        self._transitions: tuple[Transition, ...] = ()
        self._small: tuple[Transition, ...] = ()

    def result(self) -> Result:
        plan = self._plan
        try:
            first = {"auto": "depth"}.get(plan.search, plan.search)
            reductions = _bearable(plan.reductions) if first == "breadth" else plan.reductions
            is_contradicted = self._run(first, () if first == "walk" else reductions)
            if is_contradicted:
                reductions = ()
                if self._example is None:
                    self._run_unreduced(first)
            if self._facts[0].may_go_in_circles and self._searches[0].complete:
                self._run_further(first, reductions, counts_moves=True)
            if self._may_be_shorter():
                self._run_further("breadth", _bearable(reductions))
            if plan.search == "walk" and self._example is None:
                with contextlib.suppress(NoSpace):
                    self._search_small()
        except KeyboardInterrupt:
            if not self._facts:
                raise
            raise Interrupted(self._conclude()) from None
        return self._conclude()

    def _run_unreduced(self, kind: str) -> None:
        """Something that the reductions take for granted was found wrong: they have shown nothing.

        Without memory for another search, it stays at that.
        """
        try:
            self._run(kind, ())
        except NoSpace:
            return
        self._searches.insert(0, self._searches.pop())
        self._facts.insert(0, self._facts.pop())

    def _run_further(self, kind: str, reductions: Sequence[str], *, counts_moves: bool = False) -> None:
        """The result of the first search stays where there is no memory for this one."""
        try:
            self._run(kind, reductions, counts_moves=counts_moves)
        except NoSpace:
            if counts_moves:
                self._missing = "whether every execution ends was not seen: there was no memory for another search"

    def _may_be_shorter(self) -> bool:
        """Whether to look for a shorter counterexample; of what has no end, a search breadth first finds none."""
        if self._example is None or self._plan.search != "auto" or self._is_late():
            return False
        return self._example.faults != ("endless",)

    def _is_late(self) -> bool:
        return time.monotonic() >= self._end_s

    def _run(self, kind: str, reductions: Sequence[str], *, counts_moves: bool = False) -> bool:
        """Whether it has shown nothing, because its reductions do not fit the order."""
        plan = self._plan
        search = _Search(plan, kind, reductions, self._end_s, plan.judged, counts_moves=counts_moves)
        is_interrupted = True
        try:
            search.run(self._progress)
            is_interrupted = False
        finally:
            witness = None if is_interrupted else search.witness()
            self._facts.append(search.facts)
            self._searches.append(search.as_search(witness is not None, is_interrupted))
            if kind != "breadth" or not self._transitions:
                self._transitions = tuple(search.transitions())
            if witness is not None:
                self._take(search, *witness)
            search.close()
        return search.is_contradicted

    def _take(self, search: _Search, faults: tuple[str, ...], steps: list[Any]) -> None:
        is_shortest = search.search == "breadth"
        if self._example is not None and len(self._example.steps) <= len(steps) and not is_shortest:
            return
        plan = self._plan
        judged = tuple(name for name in faults if name in plan.judged)
        self._example = Counterexample(
            order=plan.protocol,
            processes=plan.processes,
            messages=plan.messages,
            faults=judged or faults,
            steps=tuple(_named(steps, plan.order)),
            is_shortest=is_shortest,
            application=plan.application,
            network=plan.network,
            doubled=plan.doubled,
            seed=_seed_of(search),
        )

    def _search_small(self) -> None:
        """Which kinds of transitions there are: those of every execution within a small bound."""
        plan = self._plan
        small = replace(
            plan,
            search="depth",
            processes=min(plan.processes, 3),
            messages=min(plan.messages, 2 if plan.order.point_to_point else 1),
            fan_out=min(plan.fan_out, min(plan.processes, 3) - 1),
            destinations=(),
            memory=min(plan.memory, 1 << 28),
        )
        search = _Search(small, "depth", (), min(self._end_s, time.monotonic() + _SMALL_SECONDS), ())
        try:
            search.run(None)
            self._small = tuple(search.transitions())
        finally:
            search.close()

    def _vacuous(self) -> tuple[str, ...]:
        """The properties known to be unbreakable; where packets are doubled, none is known."""
        plan = self._plan
        if plan.doubled:
            return ()
        sends = Sends(plan.processes, plan.messages, plan.fan_out, plan.to_self, plan.destinations)
        return tuple(name for name in vacuous(sends) if name in plan.known)

    def _conclude(self) -> Result:
        plan, first = self._plan, self._searches[0]
        # A search that only shortens a counterexample says nothing about what was seen.
        whole = [one for one in self._searches if one is first or one.counts_moves]
        faults = 0
        for facts in self._facts:
            faults |= facts.faults
        verdicts = {
            name: Finding(not faults & BITS[name], name in plan.claimed, name in plan.judged) for name in plan.known
        }
        is_walk = plan.search == "walk"
        seen = {one.text for one in self._transitions}
        example = self._example
        seconds = time.monotonic() - self._began_s
        return Result(
            order=plan.protocol,
            processes=plan.processes,
            messages=plan.messages,
            fan_out=plan.fan_out,
            application=plan.application,
            network=plan.network,
            doubled=plan.doubled,
            lost=plan.lost,
            to_self=plan.to_self,
            destinations="given" if plan.destinations else "every choice",
            search=plan.search,
            holds=all(one.ok for one in verdicts.values() if one.judged),
            complete=all(one.complete for one in whole) and not self._missing,
            unexplored=next((_why(one) for one in whole if one.unexplored), self._missing),
            unique_states=first.unique_states,
            total_states=first.total_states,
            ends=first.ends,
            max_depth=first.max_depth,
            seconds=seconds,
            rate=first.rate,
            memory_bytes=max(one.memory_bytes for one in self._searches),
            missed_expected=first.missed_expected,
            missed_probability=-math.expm1(-first.missed_expected),
            waiting_max=max(facts.waiting_max for facts in self._facts),
            held_max=max(facts.held_max for facts in self._facts),
            packets_max=max(facts.packets_max for facts in self._facts),
            threads=plan.threads,
            reductions=first.reductions,
            seed=plan.seed if is_walk else None,
            walks=plan.walks if is_walk else None,
            verdicts=verdicts,
            transitions=self._transitions,
            unseen=tuple(one for one in self._small if one.text not in seen),
            covered=sum(one.text in seen for one in self._small),
            searches=tuple(self._searches),
            counterexample=example,
            doubts=example.doubts() if example else (),
            vacuous=self._vacuous(),
        )


def _why(search: Search) -> str:
    if search.counts_moves:
        return f"whether every execution ends was not seen: {search.unexplored}"
    return search.unexplored


def _bearable(reductions: Sequence[str]) -> tuple[str, ...]:
    """Those under which the shortest violation is still among the executions."""
    return tuple(name for name in reductions if name != "quiet-packets")


def _seed_of(search: _Search) -> int | None:
    if search.search != "walk":
        return None
    return int(search.facts.witness_seed)


def _named(raw: Iterable[Any], order: orders.Order) -> Iterator[Step]:
    """The steps, with names for messages in the order in which they are submitted."""
    labels: dict[int, str] = {}
    for one in raw:
        kind = KINDS[one.kind]
        is_submit = kind in ("submit", "end job") and one.destinations
        if is_submit:
            labels[one.message] = f"m{len(labels) + 1}"
        is_packet = kind in ("receive", "lose", "double")
        yield Step(
            kind=kind,
            process=one.process,
            message=labels.get(one.message, "") if is_submit or is_packet else "",
            to=tuple(place for place in range(32) if one.destinations >> place & 1) if is_submit else (),
            what=order.kinds[one.what] if is_packet else "",
            sender=getattr(one, "from") if is_packet else -1,
            stamp=one.stamp if is_packet else 0,
            note=one.note if is_packet else 0,
        )
