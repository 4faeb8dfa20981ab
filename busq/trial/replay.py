# SPDX-License-Identifier: Apache-2.0
"""Replays a schedule on a bus, between real processes, and lets the observers judge what happened.

Every participant of the schedule is a peer; a process hosts many of them.  Folded, the participants that a process
hosts share one peer.  The conductor, the process that calls `run`, starts the others, lets them all go at once, watches
them, and collects what each wrote down for itself (`crew`).  It is no part of what it measures: no message passes
through it.

Nothing is left behind: the bus is removed when `run` ends, however it ends; if the conductor is killed, its processes
notice and remove it.  A process that dies, stands still or reports damage is named.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import busq
from busq import orders
from busq.lab import execution
from busq.lab.examples import verdicts
from busq.lab.observers import PROPERTIES, History, Verdict
from busq.lab.workload import Schedule
from busq.trial.crew import PATIENCE_S, Progress, ReplayError, own_bus
from busq.trial.host import NATIVE, Cost, Counter, HostReport, Journal, Log, Part

if TYPE_CHECKING:
    from busq.trace.recorder import Recording

__all__ = ["PERCENTILES", "Outcome", "ReplayError", "fold", "percentile", "run"]

OF_MULTICASTS = ("consistent", "total")  # asked about whole multicasts, also where their copies are messages

ARENA_BYTES_MIN = 16 << 20
SHUFFLE_MS = 2.0
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9, "max": 100.0}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a replay: what it was, how fast it went, and the verdicts of the observers."""

    schedule: Schedule  # as it was sent: folded, its participants are the processes
    participants: int  # of the schedule as it was given
    is_folded: bool
    order: str
    processes: int
    capacity: int
    arena_bytes: int
    pace: float | None
    messages: int  # sent
    deliveries: int
    seconds: float  # from the first send to the last delivery
    latencies_ns: list[int]  # from the first try to send to the return of recv; sorted
    verdicts: dict[str, Verdict]
    logs: dict[int, Log]
    cost: Cost
    late: int  # multicasts whose first timestamp was overtaken, and that were given another one
    full: int  # tries to send that found no room
    damaged: int
    behind_s_max: float  # how far a send fell behind the pace
    faults: tuple[str, ...]  # what is wrong beside the verdicts: damage, standstill
    recording: Recording | None = None

    @property
    def claims(self) -> frozenset[str]:
        """The properties that the order promises."""
        return orders.parse(self.order)[0].claims

    @property
    def broken(self) -> list[str]:
        """The properties that the order promises and did not keep."""
        return verdicts.broken(self.order, self.verdicts)

    @property
    def ok(self) -> bool:
        """Every claimed property holds, and nothing else went wrong."""
        return not self.faults and not self.broken

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as one object, units in the keys."""
        return {
            "ok": self.ok,
            **{name: getattr(self, name) for name in ("order", "participants", "processes")},
            "folded": self.is_folded,
            **{name: getattr(self, name) for name in ("capacity", "arena_bytes", "pace")},
            "scheduled_messages": len(self.schedule),
            "scheduled_deliveries": self.schedule.copies,
            "messages": self.messages,
            "deliveries": self.deliveries,
            **self.figures(),
            "behind_s_max": self.behind_s_max if self.pace else None,
            "late_multicasts": self.late,
            "sends_without_room": self.full,
            "damaged": self.damaged,
            "faults": list(self.faults),
            "verdicts": verdicts.as_json(self.order, self.verdicts),
        }

    def figures(self) -> dict[str, float | None]:
        """Return how fast it went and what a message cost in the mean, units in the keys; None where nothing went."""
        latencies_us = {
            f"latency_us_{name}": percentile(self.latencies_ns, share) / 1e3 if self.latencies_ns else None
            for name, share in PERCENTILES.items()
        }
        spent = {
            "packets_per_message": self.cost.packets,
            "bytes_per_message": self.cost.bytes,
            "wakeups_per_message": self.cost.wakeups,
            "cpu_us_per_message": self.cost.cpu_s * 1e6,
        }
        return {
            "seconds": self.seconds,
            "messages_per_s": self.messages / self.seconds if self.seconds else None,
            "deliveries_per_s": self.deliveries / self.seconds if self.seconds else None,
            **latencies_us,
            **{name: figure / self.messages if self.messages else None for name, figure in spent.items()},
        }


def percentile(ascending: Sequence[int], share: float) -> int:
    """Return the smallest value that at least `share` percent of the values do not exceed.

    >>> percentile([1, 2, 3, 4], 50), percentile([1, 2, 3, 4], 99), percentile([1, 2, 3, 4], 100)
    (2, 4, 4)
    """
    return ascending[max(0, math.ceil(len(ascending) * share / 100) - 1)]


def run(
    schedule: Schedule,
    *,
    processes: int = 4,
    capacity: int = 1024,
    arena: int | None = None,
    pace: float | None = None,
    order: str = "bus1",
    folded: bool | None = None,
    shuffle: int | None = None,
    shuffle_ms: float = SHUFFLE_MS,
    name: str = "replay",
    patience_s: float = PATIENCE_S,
    progress: Progress | None = None,
    record: str | None = None,
) -> Outcome:
    """Replay a schedule and judge the execution.

    Parameters: `processes`, at most one per participant is used; `capacity`, messages that a queue holds;
    `arena`, bytes for messages on their way (None: enough for four of the largest, at least 16 MiB); `pace`, 1
    for the speed of the schedule, 1e6 for a million times that, None for as fast as it goes; `order`, how messages are
    ordered; `folded`, whether the participants that a process hosts share one peer (None: yes, but for `bus1`);
    `shuffle`, a seed with which packets are made to overtake each other (`bus1` sends none), being held back for up to
    `shuffle_ms` milliseconds; `name`, with which the bus's name begins; `patience_s`, how long nothing may move before
    the replay is given up and judged as it stands, not counting time in which its processes run, or want a processor
    and have none; `progress`, called now and then with the numbers of messages sent
    and received so far; `record`, a directory for a trace of it (`busq.trace`), in a folder named after the order.

    Errors: ReplayError when a process dies or is stuck; ValueError, NoSpace.  Cost: about 0.3 s to start, some 10 us
    per delivery, more where the order sends packets.

    >>> from busq.lab.workload import skewed
    >>> outcome = run(skewed(200), processes=2)
    >>> outcome.ok, outcome.messages
    (True, 200)
    """
    if processes < 1 or (pace is not None and not 0 < pace < math.inf):
        raise ValueError(f"processes={processes}, pace={pace}: expected 1 or more, and None or more than 0")
    if schedule.afters:
        raise ValueError(
            "sends that wait until something was received (the column after) are for busq sim; expected none"
        )
    traits, _ = orders.parse(order)
    is_native = traits.name == NATIVE
    if is_native and shuffle is not None:
        raise ValueError(f"order {order} sends no packets that could overtake each other; expected shuffle=None")
    if shuffle is not None and not (shuffle >= 0 and 0 < shuffle_ms < math.inf):
        raise ValueError(f"shuffle={shuffle}, shuffle_ms={shuffle_ms}: expected 0 or more, and more than 0")
    depth = None if shuffle is None else f"{shuffle}:{shuffle_ms:f}"
    is_folded = not is_native if folded is None else folded
    sent = fold(schedule, processes) if is_folded else schedule
    shares = _share_out(sent, processes)
    largest_bytes = max(sent.sizes_bytes)
    arena_bytes = max(ARENA_BYTES_MIN, 4 * largest_bytes) if arena is None else arena
    if largest_bytes > arena_bytes:
        raise ValueError(f"arena={arena_bytes}: the largest message has {largest_bytes} bytes, and must fit")
    bus_name = f"{name}-{os.getpid()}-{os.urandom(2).hex()}"
    sizes: dict[str, Any] = {"peers": len(sent.participants), "capacity": capacity, "arena": arena_bytes}
    if is_native:
        sizes["peers"] += 1  # for `crew`, which cleans up
    with own_bus(bus_name, order, sizes) as (bus, crew), _recording(bus, record, order) as recording:
        crew.start([Part(bus_name, sent, share, pace, order, depth) for share in shares])
        crew.gather("joined", patience_s)
        crew.send_all(time.monotonic_ns())
        standstill = crew.watch(sent, patience_s, progress)
        crew.send_all("stop")
        reports: list[HostReport] = crew.gather(HostReport, patience_s, standstill)
        late = sum(facts["late"] for facts in bus.stats()["peers"])
        crew.send_all("bye")
        full = crew.total(Counter.FULL)
    return Outcome(
        schedule=sent,
        participants=len(schedule.participants),
        is_folded=is_folded,
        order=order,
        processes=len(shares),
        capacity=capacity,
        arena_bytes=arena_bytes,
        pace=pace,
        late=late,
        full=full,
        recording=recording,
        **_evaluate(sent, traits, reports, standstill),
    )


def fold(schedule: Schedule, processes: int) -> Schedule:
    """Return the schedule of the processes: what each participant sends and receives, the process that hosts it does.

    A message goes once to every process that hosts a recipient of it, perhaps to the sender itself.  Cost: about 1 us
    per delivery.

    >>> from busq.lab.workload import skewed
    >>> schedule = fold(skewed(1000), 2)
    >>> schedule.participants, len(schedule), schedule.copies < skewed(1000).copies
    (('p0', 'p1'), 1000, True)
    """
    shares = _share_out(schedule, processes)
    host_of = {person: number for number, share in enumerate(shares) for person in share}
    starts, recipients = array("Q", [0]), array("I")
    for message in range(len(schedule)):
        recipients.extend(dict.fromkeys(host_of[person] for person in schedule.to(message)))
        starts.append(len(recipients))
    return Schedule(
        tuple(f"p{number}" for number in range(len(shares))),
        schedule.times_s,
        array("I", (host_of[person] for person in schedule.senders)),
        starts,
        recipients,
        schedule.sizes_bytes,
    )


def _evaluate(
    schedule: Schedule, order: orders.Order, reports: Sequence[HostReport], standstill: str | None
) -> dict[str, Any]:
    """Sum up the reports of all processes: the part of an Outcome that is about what happened."""
    logs = {index: log for report in reports for index, log in report.logs.items()}
    facts = _history(schedule, logs).facts()
    first_ns = min((report.first_ns for report in reports if report.first_ns), default=0)
    last_ns = max((report.last_ns for report in reports if report.last_ns), default=0)
    damaged = sum(report.damaged for report in reports)
    damage = "; ".join([text for report in reports for text in report.damage][:3])
    faults = [standstill, f"{damaged} damaged: {damage}" if damaged else None]
    return {
        "messages": facts.messages,
        "deliveries": facts.deliveries,
        "seconds": max(0, last_ns - first_ns) / 1e9,
        "latencies_ns": sorted(itertools.chain.from_iterable(log.latencies_ns for log in logs.values())),
        "verdicts": _judge(schedule, order, logs, [report.journals for report in reports]),
        "logs": logs,
        "cost": Cost.sum(report.cost for report in reports),
        "damaged": damaged,
        "behind_s_max": max(report.behind_ns_max for report in reports) / 1e9,
        "faults": tuple(fault for fault in faults if fault),
    }


# ---- verdicts ----


def _judge(
    schedule: Schedule, order: orders.Order, logs: dict[int, Log], journals: Sequence[dict[int, Journal]]
) -> dict[str, Verdict]:
    """The verdicts on what the participants wrote down.

    Where an order sends a multicast as a message for each destination, these are what may get lost or be overtaken;
    whether receivers agree is still asked about whole multicasts.  A rendezvous ends when the order delivers, and the
    participant may look at its queue later: so whether it was one is asked about what the order did.
    """
    whole = _history(schedule, logs)
    judged = whole.judge()
    if order.point_to_point:
        copies = _history_of_copies(schedule, logs)
        judged |= copies.judge([name for name in PROPERTIES if name not in OF_MULTICASTS])
    if "synchronous" in order.claims:
        entries = {process: journal for each in journals for process, journal in each.items()}
        judged |= _history_of_journals(len(schedule.participants), entries).judge(["synchronous"])
    return {name: judged[name] for name in PROPERTIES}


def _history_of_journals(processes: int, journals: dict[int, Journal]) -> History:
    """The history of what a rendezvous did, which sends to one destination at a time."""
    history = History(processes)
    for process, journal in journals.items():
        kinds = bytearray(1 - deliver for deliver in journal["deliver"])
        destinations = array("I", itertools.compress(journal["process"], kinds))
        history.extend(process, kinds, journal["message"], array("I", [1]) * len(destinations), destinations)
    return history


def _history(schedule: Schedule, logs: dict[int, Log]) -> History:
    history = History(schedule.participants)
    for index, log in logs.items():
        log.add_to(history, index)
    return history


def _history_of_copies(schedule: Schedule, logs: dict[int, Log]) -> History:
    """The history in which every copy is a message of its own, named by its place in the list of all recipients."""
    history = History(schedule.participants)
    names: list[dict[int, int]] = [{} for _ in schedule.participants]  # by receiver and message
    for message in range(len(schedule)):
        for copy, receiver in enumerate(schedule.to(message), schedule.starts[message]):
            names[receiver][message] = copy
    for index, log in logs.items():
        copies = execution.Log()
        for kind, message in zip(log.kinds, log.messages, strict=True):
            if kind:
                for copy, receiver in enumerate(schedule.to(message), schedule.starts[message]):
                    copies.send(copy, (receiver,))
            else:
                copies.deliver(names[index].get(message, schedule.copies + message))  # it was not sent here
        copies.add_to(history, index)
    return history


def _share_out(schedule: Schedule, processes: int) -> list[tuple[int, ...]]:
    """Deal the participants out, the busiest first, each to the process that has the least to do."""
    work = [0] * len(schedule.participants)
    for person in itertools.chain(schedule.senders, schedule.recipients):
        work[person] += 1
    shares: list[list[int]] = [[] for _ in range(min(processes, len(work)))]
    load = [0] * len(shares)
    for person in sorted(range(len(work)), key=lambda person: -work[person]):
        lightest = min(range(len(shares)), key=lambda share: (load[share], len(shares[share])))
        shares[lightest].append(person)
        load[lightest] += work[person]
    return [tuple(share) for share in shares]


@contextlib.contextmanager
def _recording(bus: busq.Bus, directory: str | None, order: str) -> Iterator[Recording | None]:
    """Record the bus while the block runs, if that is wanted."""
    if directory is None:
        yield None
        return
    from busq.trace.recorder import Recorder

    with Recorder(bus, directory, run=order) as recorder:
        yield recorder.recording
