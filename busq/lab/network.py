# SPDX-License-Identifier: Apache-2.0
"""What is simulated: a network and its faults, a workload, and programs, checked before a run begins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from busq import orders
from busq._util import arguments
from busq.lab.crashes import Crash, drawn
from busq.lab.workload import Schedule, by_traffic

__all__ = ["WORKLOADS", "Config", "Crash", "Faults", "Partition"]

WORKLOADS = ("random", "hotspot", "ring", "client-server", "trace")
_SECONDS_MAX = 1e9
_STAND_LOSSES = ("none", "fifo:on_gap=skip")
_SEED_MAX = 2**64 - 1
_BYTES_MAX = 2**30


@dataclass(frozen=True, kw_only=True)
class Partition:
    """From `begin_s` until `end_s` (seconds) no packet sets out from the processes of `side` to the others, or back.

    Packets that left before arrive; those that would have left meanwhile leave at the end: the network repeats them.

    >>> Partition(begin_s=1, end_s=2, side=[0, 1]).side
    (0, 1)
    """

    begin_s: float
    end_s: float
    side: Iterable[int]

    def __post_init__(self) -> None:
        _check_number("begin_s", self.begin_s, 0, _SECONDS_MAX)
        _check_number("end_s", self.end_s, 0, _SECONDS_MAX)
        if self.end_s < self.begin_s:
            raise ValueError(f"a partition from {self.begin_s} to {self.end_s} s: expected an end after its beginning")
        _check_type("side", self.side, Iterable)
        object.__setattr__(self, "side", tuple(self.side))
        for place, process in enumerate(self.side):
            _check_type(f"side[{place}]", process, int)


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Faults of the network; without any argument there are none.  Times in seconds, shares from 0 to 1.

    `jitter_s`: every packet takes up to so much longer.  `reordered_share` of the packets are held up for up to
    `reordered_s`, so that later ones overtake them.  `doubled_share` of the packets come twice, the second time up to
    `doubled_s` later; the receiver's transport throws the second one away, unless `lets_copies_pass`: then the order
    gets both (only where messages carry no clock).  `lost_share` of the packets never come; only `none` and
    `fifo:on_gap=skip` go on without them.  Channels of orders that need them in order keep it under all of this.

    >>> Faults(jitter_s=0.001).jitter_s
    0.001
    """

    jitter_s: float = 0.0
    reordered_share: float = 0.0
    reordered_s: float = 0.0
    doubled_share: float = 0.0
    doubled_s: float = 0.0
    lets_copies_pass: bool = False
    lost_share: float = 0.0
    partitions: Iterable[Partition] = ()

    def __post_init__(self) -> None:
        for name in ("jitter_s", "reordered_s", "doubled_s"):
            _check_number(name, getattr(self, name), 0, _SECONDS_MAX)
        for name in ("reordered_share", "doubled_share", "lost_share"):
            _check_number(name, getattr(self, name), 0, 1)
        _check_flag("lets_copies_pass", self.lets_copies_pass)
        _check_type("partitions", self.partitions, Iterable)
        object.__setattr__(self, "partitions", tuple(self.partitions))
        for place, partition in enumerate(self.partitions):
            _check_type(f"partitions[{place}]", partition, Partition)


@dataclass(frozen=True, kw_only=True)
class Config:
    """One run.  Errors: ValueError names the field, what it was and what was expected.

    `order`: a name with options, as "mfss" or "lamport:ack=all".

    Workload.  Every process sends `messages_per_process` messages to `fan_out` others each, one every `interval_s`, all
    from time 0 on, or, `staggered`, from a random time within the first interval.  "random": every other process is as
    likely as the next.  "hotspot": the first processes, `hotspot_share` of all, draw `hotspot_draw` of the messages.
    "ring": to the next processes.  "client-server": the first processes, `hotspot_share` of all but at least one, are
    servers, which answer each request when it is delivered; a client sends to its own (and, with a `fan_out`, the next
    ones).  "trace": the messages of `schedule`, whose participants are the processes; its times count from its first
    message.

    Programs.  By default a process sends when its time has come.  `dependent_share` of the sends depend on receipts,
    too: send number k then waits until its process has delivered everything that was sent to it by sends
    number 0 to k - 1 of all others.  So programs are partially ordered sets of sends.  A schedule has a column for it.

    `coordinator`: which process an order with a coordinator has for it ("sequencer"); -1: `coordinator_at`, one that
    the workload does not single out.  All others ignore it.

    Jobs.  `job_share` of the messages cause a job where they are delivered; it takes `job_mean_s`, or is drawn from a
    normal distribution around it with deviation `job_spread_s` (never below 0).  With `job_blocks_sends` a process asks
    for nothing to be sent while a job of its own runs; with `job_blocks_all` it does nothing at all: what arrives
    waits, undelivered and unacknowledged, and is taken in its order when the job is over. (The step that begins a job
    is done to its end: the ACK of that message leaves before the job.)

    `downlink_bytes_per_s`: 0 is no limit, as in the Cykas paper.

    Crashes.  `crashes`: those that die, or how many: then the seed draws them, and their times (`deaths`).  What a
    process has handed to its uplink arrives, what comes to it when it is dead is gone.  Where the order has
    on_crash=go-on, each process that lives learns of each death within `notice_s`, or with the last packet of the dead.

    `patience_s` is how long `fifo:on_gap=skip` waits at a gap.  `judge`: observers look at the run.  `record`: every
    event is kept, for `Result.execution` (some 250 bytes and 10 us each).

    >>> Config(order="cykas", processes=1)
    Traceback (most recent call last):
        ...
    ValueError: processes is 1: expected 2 to 65536
    """

    order: str
    processes: int = 100
    messages_per_process: int = 100
    interval_s: float = 0.01
    staggered: bool = False
    bandwidth_bytes_per_s: float = 50_000.0
    downlink_bytes_per_s: float = 0.0
    propagation_delay_s: float = 0.005
    payload_bytes: int = 64
    header_bytes: int = 32
    control_bytes: int = 32
    clock_entry_bytes: int = 8
    workload: str = "random"
    schedule: Schedule | None = None
    fan_out: int = 1
    hotspot_share: float = 0.0
    hotspot_draw: float = 0.8
    dependent_share: float = 0.0
    coordinator: int = -1
    job_share: float = 0.0
    job_mean_s: float = 0.0
    job_spread_s: float = 0.0
    job_blocks_sends: bool = False
    job_blocks_all: bool = False
    crashes: int | Iterable[Crash] = 0
    notice_s: float = 0.02
    patience_s: float = 0.1
    seed: int = 0
    faults: Faults = field(default_factory=Faults)
    judge: bool = False
    record: bool = False

    def __post_init__(self) -> None:
        _check_type("order", self.order, str)
        _check_type("faults", self.faults, Faults)
        _check_type("schedule", self.schedule, Schedule | None)
        for name in ("staggered", "job_blocks_sends", "job_blocks_all", "judge", "record"):
            _check_flag(name, getattr(self, name))
        order = orders.parse(self.order)[0]
        _check_type("workload", self.workload, str)
        if self.workload not in WORKLOADS:
            raise ValueError(f"workload is {self.workload!r}: expected one of {', '.join(WORKLOADS)}")
        if (self.schedule is not None) != (self.workload == "trace"):
            raise ValueError("a schedule and the workload 'trace' belong together: give both or neither")
        if self.schedule is not None:
            object.__setattr__(self, "processes", len(self.schedule.participants))
        for name, (low, high) in _WHOLE_NUMBERS.items():
            arguments.whole(name, getattr(self, name), low, high)
        for name, maximum in _NUMBERS.items():
            _check_number(name, getattr(self, name), 0, maximum)
        _check_number("bandwidth_bytes_per_s", self.bandwidth_bytes_per_s, 1e-3, 1e15)
        if self.downlink_bytes_per_s != 0:
            _check_number("downlink_bytes_per_s", self.downlink_bytes_per_s, 1e-3, 1e15)
        arguments.whole("coordinator", self.coordinator, -1, self.processes - 1)
        self._check_workload()
        self._check_crashes()
        self._check_faults(order)

    @property
    def claims(self) -> frozenset[str]:
        """The promises of the order on this network: not to lose nothing, where packets are lost or gaps are skipped.

        Where processes die, those about order, and those of `busq.orders.Order.under_crashes`.

        >>> "lost" in Config(order="fifo").claims, "lost" in Config(order="fifo:on_gap=skip").claims
        (True, False)
        """
        order, options = orders.parse(self.order)
        kept = order.under_crashes(options, self.processes, len(self.deaths)) if self.deaths else {"lost"}
        may_lose = self.faults.lost_share > 0 or "on_gap=skip" in self.order
        return (order.claims - {"lost"} | kept) - ({"lost"} if may_lose else set())

    @cached_property
    def deaths(self) -> tuple[Crash, ...]:
        """The crashes as they are given, or drawn within the time in which programs send, or uplinks carry that.

        >>> Config(order="fifo", crashes=[Crash(process=2, at_s=0.5)]).deaths
        (Crash(process=2, at_s=0.5, effects=0),)
        >>> len(Config(order="fifo", crashes=2).deaths)
        2
        """
        if not isinstance(self.crashes, int):
            return tuple(self.crashes)
        return drawn(self.crashes, self.processes, self._span_s(), self.seed) if self.crashes else ()

    def _span_s(self) -> float:
        if self.schedule is not None:
            times_s = self.schedule.times_s or (0.0,)
            return times_s[-1] - times_s[0] + self.propagation_delay_s
        packet_s = (self.payload_bytes + self.header_bytes) / self.bandwidth_bytes_per_s
        sends_s = self.messages_per_process * max(self.interval_s, self.fan_out * packet_s)
        return min(sends_s + self.propagation_delay_s, _SECONDS_MAX)

    @property
    def singled_out(self) -> int:
        """How many processes, the first ones, the workload singles out: hotspots, or servers.

        >>> Config(order="sequencer", processes=10, workload="hotspot", hotspot_share=0.2).singled_out
        2
        """
        share = int(self.hotspot_share * self.processes + 0.5)
        return {"hotspot": share, "client-server": max(1, share)}.get(self.workload, 0)

    @property
    def coordinator_at(self) -> int:
        """Which process is the coordinator: `coordinator`, or else one that the workload does not single out.

        That is the first which is no hotspot or server, and in a schedule the one with the median of messages sent and
        received: where a coordinator sits on a server, most of its packets have no way to go.

        >>> Config(order="sequencer", processes=10, workload="client-server").coordinator_at
        1
        """
        if self.coordinator >= 0:
            return self.coordinator
        if self.schedule is not None:
            return by_traffic(self.schedule)[self.processes // 2]
        return self.singled_out if self.singled_out < self.processes else 0

    def _check_workload(self) -> None:
        arguments.whole("fan_out", self.fan_out, 1, 65535)
        if self.dependent_share and self.workload == "trace":
            raise ValueError(
                f"dependent_share is {self.dependent_share}: expected 0, as a schedule says by itself what waits"
            )
        if self.workload == "trace":
            return
        servers = self.singled_out
        if self.workload == "client-server" and servers >= self.processes:
            raise ValueError(f"hotspot_share is {self.hotspot_share}: expected to leave a client among the processes")
        most = servers if self.workload == "client-server" else self.processes - 1
        arguments.whole("fan_out", self.fan_out, 1, most)
        _check_number("messages_per_process x interval_s", self.messages_per_process * self.interval_s, 0, _SECONDS_MAX)

    def _check_crashes(self) -> None:
        if isinstance(self.crashes, int):
            arguments.whole("crashes", self.crashes, 0, self.processes - 1)
            return
        _check_type("crashes", self.crashes, Iterable)
        object.__setattr__(self, "crashes", tuple(self.crashes))
        for place, crash in enumerate(self.deaths):
            _check_type(f"crashes[{place}]", crash, Crash)
            arguments.whole(f"crashes[{place}].process", crash.process, 0, self.processes - 1)
        if len({crash.process for crash in self.deaths}) != len(self.deaths):
            raise ValueError("a process dies twice: expected each once")
        arguments.whole("crashes", len(self.deaths), 0, self.processes - 1)

    def _check_faults(self, order: orders.Order) -> None:
        if self.faults.lost_share and self.order not in _STAND_LOSSES:
            raise ValueError(
                f"lost_share is {self.faults.lost_share}: expected 0, as {self.order} would wait for what is lost; "
                f"only {' and '.join(_STAND_LOSSES)} go on without"
            )
        waits = self.dependent_share > 0 or (self.schedule is not None and any(self.schedule.afters))
        if waits and (self.faults.lost_share or "on_gap=skip" in self.order or self.crashes):
            raise ValueError(
                "sends that wait for deliveries would wait for ever for what is lost, skipped or of the dead"
            )
        if self.faults.lets_copies_pass and self.crashes:
            raise ValueError("lets_copies_pass: nothing of a process that dies may come twice")
        if self.faults.lets_copies_pass and order.clock != "none":
            raise ValueError(f"lets_copies_pass: {self.order} has clocks, and takes no message twice")
        for partition in self.faults.partitions:
            for process in partition.side:
                arguments.whole("a process of a partition", process, 0, self.processes - 1)


_WHOLE_NUMBERS = {
    "processes": (2, 65536),
    "messages_per_process": (1, 2**31 - 1),
    "payload_bytes": (0, _BYTES_MAX),
    "header_bytes": (0, _BYTES_MAX),
    "control_bytes": (0, _BYTES_MAX),
    "clock_entry_bytes": (0, 1024),
    "seed": (0, _SEED_MAX),
}
_NUMBERS = {
    "interval_s": _SECONDS_MAX,
    "propagation_delay_s": _SECONDS_MAX,
    "hotspot_share": 1,
    "hotspot_draw": 1,
    "dependent_share": 1,
    "job_share": 1,
    "job_mean_s": _SECONDS_MAX,
    "job_spread_s": _SECONDS_MAX,
    "patience_s": _SECONDS_MAX,
    "notice_s": _SECONDS_MAX,
}


def _check_type(name: str, value: Any, expected: Any) -> None:
    if not isinstance(value, expected):
        raise ValueError(f"{name} is {value!r}: expected {getattr(expected, '__name__', expected)}")


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}: expected True or False")


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ValueError(f"{name} is {value!r}: expected a number from {low:g} to {high:g}")
