# SPDX-License-Identifier: Apache-2.0
"""The plan of a check: its bound, its network, its properties and its limits, checked and with their defaults."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from busq import orders
from busq._native import lib
from busq._port.arguments import integer
from busq._util import arguments
from busq.lab.check.result import ASKED, BEYOND
from busq.lab.check.witness import NAMES, NETWORKS
from busq.lab.nodes import BY_NODES
from busq.lab.observers import PROPERTIES

__all__ = [
    *("ALL", "APPLICATIONS", "BITS", "REDUCTIONS", "SEARCHES", "Plan"),
    *("bears_doubled", "has_its_network", "memory_of", "plan"),
]

REDUCTIONS = {
    "late-submits": lib.BUSQ_CHECK_LATE_SUBMITS,
    "quiet-packets": lib.BUSQ_CHECK_QUIET_PACKETS,
    "symmetry": lib.BUSQ_CHECK_SYMMETRY,
    "silent-packets": lib.BUSQ_CHECK_SILENT_PACKETS,
    "forgetting": lib.BUSQ_CHECK_FORGETTING,
}
_MORTAL = ("silent-packets", "forgetting")  # where processes die, of a free application; the others where none does
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
BITS |= {
    "c2": 1 << lib.BUSQ_PROPERTY_C2,
    "mysterious": 1 << lib.BUSQ_PROPERTY_MYSTERIOUS,
    "mailbox": 1 << lib.BUSQ_CHECK_MAILBOX,
    "1-n": 1 << lib.BUSQ_CHECK_ONE_TO_N,
    "n-n": 1 << lib.BUSQ_CHECK_N_TO_N,
}

Destinations = Sequence[Sequence[Iterable[int]]]

_SAME = {"c1": "causal", "c3": "causal"}
_SAFETY = ("lost", "duplicated", "phantom", "fifo", "causal")
_AGREEMENT = ("consistent", "total")
_MEMORY_BYTES_MAX = 16 << 30
_MEMORY_BYTES_MIN = 1 << 20
_DISK_BYTES_MIN, _DISK_BYTES_MAX = 1 << 24, 1 << 42
_FREE_SHARE = 10  # of what is free on a disk, the part that stays free
_WALKS = 10_000
_DEPTH_MAX = 2048  # steps of an execution: what goes on beyond that is taken for endless
_LOSSY = "fifo:on_gap=skip"
_MORTALS_MAX = 4  # processes, where some die
# Deaths may take these, and with what: a process that waits for ever keeps the messages that it waits for.
_BY_DEATHS = {"lost": "lost", "agreement": "agreement", "uniform": "uniform", "stuck": "stuck", "kept": "stuck"}


@dataclass(frozen=True)
class Plan:
    """The plan of a check, made of the arguments of `busq.check.run`."""

    order: orders.Order
    protocol: str
    processes: int
    messages: int  # of each process, or of the one with most
    messages_each: tuple[int, ...]  # of each, where they differ
    fan_out: int
    application: str
    network: str
    doubled: int
    lost: int
    crashes: int
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
    disk: str  # a directory, or nothing
    disk_space: int
    seconds: float


def plan(
    protocol: str,
    processes: int,
    messages: int | Sequence[int],
    *,
    memory: int | None,
    disk: str | os.PathLike[str] | None,
    disk_space: int | None,
    **options: Any,
) -> Plan:
    """Make a plan of the arguments of `busq.check.run`; ValueError for what cannot be."""
    order, settings = orders.parse(arguments.text("protocol", protocol))
    arguments.whole("processes", processes, 2, len(NAMES))
    messages, each = _messages(messages, processes)
    fan_out = _fan_out(order, processes, options.pop("fan_out"), options["to_self"])
    is_walk = options["walks"] is not None or options["search"] == "walk"
    search = "walk" if is_walk else options["search"]
    _check_search(options.pop("search"), has_walks=options["walks"] is not None)
    directory, space = _disk(disk, disk_space, search)
    arguments.choice("application", options["application"], APPLICATIONS)
    if options["network"] is None:
        options["network"] = "fifo" if order.needs_fifo(settings) else "unordered"
    arguments.choice("network", options["network"], NETWORKS)
    arguments.whole("doubled", options["doubled"], 0, 100)
    arguments.whole("lost", options["lost"], 0, 100)
    if options["lost"] and protocol not in ("none", _LOSSY):
        raise ValueError(
            f"lost is {options['lost']}: expected 0, as {protocol} would wait for what is lost; "
            f"only none and {_LOSSY} go on without"
        )
    kept = _kept_under_crashes(order, settings, processes, **options)
    walks, depth, seconds = options.pop("walks"), options.pop("depth"), options.pop("seconds")
    threads = options.pop("threads")
    seconds = math.inf if seconds is None else arguments.number("seconds", seconds, "a number, or None for no limit")
    if not seconds > 0:
        raise ValueError(f"seconds is {seconds}: expected more than 0")
    arguments.whole("seed", options["seed"], 0, 2**63 - 1)
    asked = _asked(options.pop("properties"))
    known = _known(order, settings, options["application"], asked or (), mortal=options["crashes"] > 0)
    owed = _owed(order, protocol, options["doubled"], options["lost"], kept)
    owed += ("side",) if owed and order.side_channels and "side" in known else ()
    owed += tuple(name for name in BY_NODES if owed and name in known)
    asked_reductions = options.pop("reductions")
    given = _destinations(options.pop("destinations"), processes, messages, each, fan_out, options["to_self"])
    if options.pop("broadcast"):
        given = _everybody(order, processes, messages, fan_out, options["to_self"], given)
    return Plan(
        order=order,
        protocol=protocol,
        processes=processes,
        messages=messages,
        messages_each=each,
        fan_out=fan_out,
        claimed=owed if has_its_network(protocol, options["network"]) else (),
        judged=_judged(order, owed, known, asked, kept),
        known=known,
        reductions=_reductions(asked_reductions, mortal=options["crashes"] > 0, application=options["application"]),
        search=search,
        walks=arguments.whole("walks", walks, 1, 10**15) if walks is not None else _WALKS,
        depth=arguments.whole("depth", depth, 1, _DEPTH_MAX) if depth is not None else 0,
        threads=arguments.whole("threads", threads, 1, 64) if threads is not None else _cores(),
        memory=memory_of(memory),
        disk=directory,
        disk_space=space,
        seconds=seconds,
        destinations=given,
        **options,
    )


def _check_search(search: Any, *, has_walks: bool) -> None:
    arguments.choice("search", search, SEARCHES)
    if has_walks and search not in ("auto", "walk"):
        raise ValueError(f"search is {search!r}, and walks are asked for: expected one of both")


def _messages(asked: int | Sequence[int], processes: int) -> tuple[int, tuple[int, ...]]:
    """How many of each process, or of the one with most; and of each, where they differ."""
    most = 32 // processes
    if isinstance(asked, Sequence) and not isinstance(asked, str | bytes):
        each = tuple(arguments.whole("messages", one, 0, most) for one in asked)
        if len(each) != processes or not any(each):
            raise ValueError(f"messages is {list(each)}: expected one number for each of {processes}, not all 0")
        return max(each), each if min(each) < max(each) else ()
    return arguments.whole("messages", asked, 1, most, f", 32 of {processes} processes together"), ()


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
    return arguments.whole("fan_out", asked, 1, most)


def _destinations(
    given: Destinations | None, processes: int, messages: int, each: tuple[int, ...], fan_out: int, to_self: bool
) -> tuple[int, ...]:
    if given is None:
        return ()
    arguments.typed("destinations", given, Sequence, "a sequence for each process, of a set for each message")
    for process, some in enumerate(arguments.each_typed("destinations", given, Sequence, "a sequence of sets")):
        arguments.each_typed(f"destinations[{process}]", some, Iterable, "a set of processes, by their indices")
    counts = each or (messages,) * processes
    if [len(one) for one in given] != list(counts):
        counted = f"{list(counts)} sets of processes for the" if each else f"{messages} sets of processes for each of"
        raise ValueError(f"destinations: expected {counted} {processes} processes")
    sets = []
    for process, some in enumerate(given):
        for number, to in enumerate(some):
            members = {integer(f"a process of destinations[{process}][{number}]", one) for one in to}
            possible = set(range(processes)) - (set() if to_self else {process})
            if not members or not members <= possible or len(members) > fan_out:
                raise ValueError(
                    f"destinations[{process}][{number}] is {sorted(members)}: expected 1 to {fan_out} of the processes "
                    f"{sorted(possible)}"
                )
            sets.append(sum(1 << one for one in members))
        sets += [0] * (messages - counts[process])
    return tuple(sets)


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


def _kept_under_crashes(
    order: orders.Order,
    settings: int,
    processes: int,
    *,
    crashes: Any,
    doubled: int,
    lost: int,
    application: str,
    **_: Any,
) -> frozenset[str]:
    """Of what deaths may take, what is kept."""
    arguments.whole("crashes", crashes, 0, processes - 1)
    if not crashes:
        return frozenset(_BY_DEATHS)
    if processes > _MORTALS_MAX or doubled or lost or application == "job":
        raise ValueError(
            f"crashes is {crashes}: expected 0, or {_MORTALS_MAX} processes at most, no doubled or lost packet, no job"
        )
    return order.under_crashes(settings, processes, crashes)


def _owed(order: orders.Order, protocol: str, doubled: int, lost: int, kept: frozenset[str]) -> tuple[str, ...]:
    """The promises of the order where packets are doubled or lost or processes die, if channels do what it needs."""
    if doubled and not bears_doubled(protocol):
        return ()
    gives_up = lost > 0 or protocol == _LOSSY or "lost" not in kept  # what is lost is lost
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
    order, options = orders.parse(protocol)
    return network == "fifo" or not order.needs_fifo(options)


def _asked(given: Iterable[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    chosen = tuple(_SAME.get(name, name) for name in arguments.names("properties", given))
    for name in chosen:
        if name not in BITS:
            raise ValueError(f"properties: {name!r} is none: expected {', '.join((*BITS, *_SAME))}")
    return chosen


def _known(
    order: orders.Order, settings: int, application: str, asked: tuple[str, ...], *, mortal: bool
) -> tuple[str, ...]:
    """The properties in the model: the common ones, those promised or asked for, and `side` under "side"."""
    if "side" in asked and application != "side":
        raise ValueError("properties: 'side' is judged where the application is 'side'")
    some = {*_SAFETY, *asked, *(("synchronous",) if "synchronous" in order.claims else ())}
    some |= set(_AGREEMENT if order.claims & set(_AGREEMENT) else ())
    if not mortal and (strange := sorted({"agreement", "uniform"} & set(asked))):
        raise ValueError(f"properties: {strange[0]!r} is judged where crashes is more than 0")
    left_out = {"side"} if application != "side" else set()
    left_out |= set() if mortal else {"agreement", "uniform"}
    if settings & lib.BUSQ_ORDER_NODES == 0:
        left_out |= set(BY_NODES)
        if strange := sorted(set(BY_NODES) & set(asked)):
            raise ValueError(f"properties: {strange[0]!r} is judged of orders with nodes: bus1:nodes=one")
    left_out |= {"endless"} if asked and "endless" not in asked else set()  # it takes a search of its own
    beyond = (name for name in BEYOND if name not in left_out)
    return (*(name for name in (*PROPERTIES, *ASKED) if name in some), *beyond)


def _judged(
    order: orders.Order,
    owed: tuple[str, ...],
    known: tuple[str, ...],
    asked: tuple[str, ...] | None,
    kept: frozenset[str],
) -> tuple[str, ...]:
    if asked is not None:
        return tuple(name for name in known if name in asked)
    is_genuine = not (order.whole_group or order.coordinated or order.replicated)
    left_out = {name for name, with_it in _BY_DEATHS.items() if with_it not in kept} | (
        set() if is_genuine else {"genuine"}
    )
    return tuple(name for name in known if owed and (name in owed or name in BEYOND) and name not in left_out)


def _reductions(asked: Iterable[str], *, mortal: bool, application: str) -> tuple[str, ...]:
    """Those that are asked for; of all of them those that fit."""
    chosen = set(arguments.names("reductions", asked))
    strange = sorted(chosen - set(REDUCTIONS))
    if strange:
        raise ValueError(f"reductions: {strange[0]!r} is none: expected {', '.join(REDUCTIONS)}")
    fit = {name for name in REDUCTIONS if (name in _MORTAL) == mortal and (not mortal or application == "free")}
    if chosen != set(REDUCTIONS) and (strange := sorted(chosen - fit)):
        raise ValueError(f"reductions: {strange[0]!r} is not for this: expected {', '.join(sorted(fit)) or 'none'}")
    return tuple(name for name in REDUCTIONS if name in chosen & fit)


def _disk(given: str | os.PathLike[str] | None, space: int | None, search: str) -> tuple[str, int]:
    """The directory for what memory has no room for, and how much may lie there."""
    if given is None:
        if space is not None:
            raise ValueError(f"disk_space is {space!r}: expected None without a disk")
        return "", 0
    directory = arguments.path("disk", given)
    if search not in ("auto", "breadth"):
        raise ValueError(f"disk is {directory!r}, and search is {search!r}: expected auto or breadth with a disk")
    if not directory:
        raise ValueError("disk is '': expected a directory")
    try:
        tempfile.TemporaryFile(dir=directory).close()
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"disk is {directory!r}: expected a directory that files can be written to ({why})") from None
    if space is None:
        free = shutil.disk_usage(directory).free
        return directory, min(max(free - free // _FREE_SHARE, _DISK_BYTES_MIN), _DISK_BYTES_MAX)
    return directory, arguments.whole("disk_space", space, _DISK_BYTES_MIN, _DISK_BYTES_MAX)


def _cores() -> int:
    return min(64, len(os.sched_getaffinity(0)))


def memory_of(asked: int | None) -> int:
    """Return how many bytes a search may take: as many as are asked for, or half of what is free."""
    import psutil

    machine = psutil.virtual_memory()
    if asked is None:
        return int(max(_MEMORY_BYTES_MIN, min(machine.available // 2, _MEMORY_BYTES_MAX)))
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < _MEMORY_BYTES_MIN:
        raise ValueError(f"memory is {asked!r}: expected bytes, 1 MiB ({_MEMORY_BYTES_MIN}) at least")
    if asked > machine.total:
        raise ValueError(f"memory is {asked:,} bytes: the machine has {machine.total:,}")
    return asked
