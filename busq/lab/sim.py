# SPDX-License-Identifier: Apache-2.0
"""The simulator: an ordering protocol on a network that can be described, under a workload that can be repeated.

Each process has an uplink that carries one packet at a time at `bandwidth_bytes_per_s`, first come first served; after
`propagation_delay_s` more the packet is at its receiver.  A packet with a payload has `header_bytes + payload_bytes`,
and `clock_entry_bytes` for every entry of the clock that its order needs (n for a vector, n squared for a matrix);
every other packet has `control_bytes`.  With `downlink_bytes_per_s` a packet then goes through the downlink of its
receiver likewise, whole, first come first served.  What runs is the compiled code of the order itself, in simulated
nanoseconds.

A delivered message may cause a job.  A process runs one job at a time, in the order in which they were caused; packets
come and go meanwhile, unless the job blocks sends, or all (`Config`).  Under the same seed every order gets the same
sends and the same jobs.

>>> result = run(Config(order="mfss", processes=10, messages_per_process=20, seed=1, judge=True))
>>> result.ok, result.messages, result.deliveries, result.packets
(True, 200, 200, {'data': 200, 'ack': 200})
>>> faster = run(Config(order="cykas", processes=10, messages_per_process=20, seed=1))
>>> faster.latency_mean_s < result.latency_mean_s
True
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from busq import orders
from busq._native import ffi, lib
from busq._port.through_cffi import check, held, owned
from busq._util import arguments
from busq.lab.deaths import judged_by_deaths
from busq.lab.execution import KINDS, Execution, event_of, judge
from busq.lab.network import WORKLOADS, Config, Crash, Faults, Partition
from busq.lab.observers import PROPERTIES, History, Verdict, core_of
from busq.lab.workload import Schedule

__all__ = ["WORKLOADS", "Config", "Crash", "Faults", "Partition", "Result", "run"]

_WORKLOADS = {name: getattr(lib, f"BUSQ_SIM_{name.replace('-', '_').upper()}") for name in WORKLOADS}
_KINDS = {getattr(lib, f"BUSQ_SIM_{kind.upper()}"): kind for kind in KINDS}
_SLICE_NS = 20_000_000  # how long a run goes on before it looks for Ctrl-C


@dataclass(frozen=True)
class Result:
    """The result of a run.  Times in seconds of the simulation.

    `execution_time_s` is when the last thing happened, jobs included; `communication_s` when the last packet arrived,
    which is what the Cykas paper calls the execution time ("time to complete all protocol communications"). A latency
    counts from the time at which the program wants a message sent to its delivery. `job_start_mean_s` is the mean time
    at which jobs began, from the beginning of the run (what the Cykas paper's average job start time is taken to be, as
    its speedup follows that of the execution), without those that a process died before; `job_wait_mean_s` the mean
    time to the beginning of a job, counted as latencies are. `packets` and `bytes` are by kind of packet.
    `uplink_busiest` is the process that had to send most bytes, `uplink_busiest_share` how much of `communication_s`
    that took; `downlink_busiest` and its share likewise for what was sent to it (without `downlink_bytes_per_s`: how
    much of the time a downlink as fast as the uplinks would have needed, above 1 where it could not have kept up).
    `secret_s` adds up how long processes could not send because of secrets. `waiting_max` and `held_max` are the most
    messages that any process had unfinished, and held back.

    `messages` are sends of the programs, `copies` their destinations together; `unsent` is what living processes never
    sent (messages, or sends of a program): more than 0 where an order got stuck.  `events` are submits, packets that
    arrived, alarms, ends of jobs and news of deaths.  `deaths` are the processes that died, by their numbers, and when.
    `dropped` counts what an order will not deliver where it came, `packets_lost`, `packets_doubled` and
    `packets_refused` what the faults did (refused: copies that an order could not take).

    `verdicts` are those of the observers where `judge` was set: consistent and total on whole multicasts, all others on
    messages as the order knows them.  Where processes die, "lost", "agreement", "uniform" and "stuck" are those of
    `busq.orders.Order.under_crashes`.  `ok`: nothing stayed unsent, unless processes died and the order may get stuck
    then, and what the order claims holds as far as it was judged.
    """

    config: Config
    ok: bool
    execution_time_s: float
    communication_s: float
    latency_mean_s: float
    latency_p50_s: float
    latency_p99_s: float
    latency_max_s: float
    jobs: int
    job_start_mean_s: float
    job_wait_mean_s: float
    packets: Mapping[str, int]
    bytes: Mapping[str, int]
    uplink_busiest: int
    uplink_busiest_share: float
    downlink_busiest: int
    downlink_busiest_share: float
    secret_s: float
    waiting_max: int
    held_max: int
    events: int
    messages: int
    copies: int
    deliveries: int
    unsent: int
    dropped: int
    packets_lost: int
    packets_doubled: int
    packets_refused: int
    deaths: Mapping[int, float] = field(default_factory=dict)
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    execution: Execution | None = None

    def as_json(self) -> dict[str, Any]:
        """Return what the command line prints: plain numbers, texts and dictionaries.

        >>> result = run(Config(order="none", processes=2, messages_per_process=1, judge=True))
        >>> result.as_json()["verdicts"]["lost"]
        {'ok': True, 'count': 0, 'claimed': True}
        """
        claims = self.config.claims
        plain = {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in ("config", "verdicts", "execution", "packets", "bytes", "deaths")
        }
        return {
            **plain,
            **{name: getattr(self.config, name) for name in ("order", "processes", "seed")},
            "packets": dict(self.packets),
            "bytes": dict(self.bytes),
            "deaths": [{"process": process, "at_s": at_s} for process, at_s in self.deaths.items()],
            "verdicts": {
                name: {"ok": verdict.ok, "count": verdict.count, "claimed": name in claims}
                for name, verdict in self.verdicts.items()
            },
        }


def run(config: Config) -> Result:
    """Simulate until nothing is left to happen.

    Errors: NoSpace where memory runs out, ValueError for more than 146 years of simulated time.  Ctrl-C ends a run
    within a tenth of a second, or, while observers judge, when they are done.  Costs some 0.1 to 0.3 us per event (an
    order with clocks: more), and memory for the states of the processes and some 100 bytes per message.

    >>> result = run(Config(order="fifo", processes=2, messages_per_process=1, bandwidth_bytes_per_s=96_000))
    >>> result.execution_time_s  # 96 bytes take 1 ms, and 5 ms to arrive
    0.006
    """
    arguments.typed("config", config, Config, "busq.sim.Config, as in Config(order='fifo')")
    return _Run(config).result()


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


class _Run:
    """A simulation in the core, with everything that it points to."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._order = orders.parse(config.order)[0]
        self._coordinator = config.coordinator_at if self._order.coordinated else 0
        names = config.schedule.participants if config.schedule is not None else None
        names = names or tuple(f"p{process}" for process in range(config.processes))
        self._names = tuple(names[self._renamed(process)] for process in range(config.processes))
        self._kept: list[Any] = []  # what the core points to
        self._copies = History(self._names) if config.judge else None
        self._wholes = History(self._names) if config.judge and self._has_copies() else None
        owner = owned("busq_sim")
        check(lib.busq_sim_new(self._raw_config(), owner))
        self._sim = held(owner)

    def _renamed(self, process: int) -> int:
        """The number of a process in the core, where the coordinator is process 0, and the other way round."""
        return {0: self._coordinator, self._coordinator: 0}.get(process, process)

    def _has_copies(self) -> bool:
        """Whether the order knows a multicast as several messages."""
        schedule = self._config.schedule
        most = self._config.fan_out if schedule is None else schedule.copies - len(schedule) + 1
        return self._order.point_to_point and most > 1

    def _keep(self, pointer: Any) -> Any:
        self._kept.append(pointer)
        return pointer

    def _raw_config(self) -> Any:
        config = self._config
        raw = self._keep(ffi.new("busq_sim_config *"))
        for name in _PLAIN:
            setattr(raw, name, getattr(config, name))
        raw.order = self._keep(ffi.new("char[]", config.order.encode()))
        raw.workload = _WORKLOADS[config.workload]
        raw.coordinator = self._coordinator
        raw.is_staggered = config.staggered
        raw.is_recorded = config.record
        raw.interval_ns = _ns(config.interval_s)
        raw.propagation_delay_ns = _ns(config.propagation_delay_s)
        raw.job_mean_ns = config.job_mean_s * 1e9
        raw.job_spread_ns = config.job_spread_s * 1e9
        raw.patience_ns = _ns(config.patience_s)
        raw.notice_ns = _ns(config.notice_s)
        crashes = [(_ns(one.at_s), self._renamed(one.process), one.effects) for one in config.deaths]
        raw.crashes, raw.n_crashes = self._keep(ffi.new("busq_sim_crash[]", crashes)), len(crashes)
        raw.copies = ffi.NULL if self._copies is None else core_of(self._copies)
        raw.wholes = ffi.NULL if self._wholes is None else core_of(self._wholes)
        self._set_faults(raw.faults)
        if config.schedule is not None:
            self._set_trace(raw, config.schedule)
        return raw

    def _set_faults(self, raw: Any) -> None:
        faults = self._config.faults
        raw.jitter_ns = _ns(faults.jitter_s)
        raw.reordered_share, raw.reordered_ns = faults.reordered_share, _ns(faults.reordered_s)
        raw.doubled_share, raw.doubled_ns = faults.doubled_share, _ns(faults.doubled_s)
        raw.lost_share = faults.lost_share
        raw.lets_copies_pass = faults.lets_copies_pass
        partitions = list(faults.partitions)
        raw.n_partitions = len(partitions)
        raw.partitions = self._keep(ffi.new("busq_sim_partition[]", len(partitions)))
        for place, partition in enumerate(partitions):
            side = [self._renamed(process) for process in partition.side]
            one = raw.partitions[place]
            one.begin_ns, one.end_ns = _ns(partition.begin_s), _ns(partition.end_s)
            one.side, one.n_side = self._keep(ffi.new("uint32_t[]", side)), len(side)

    def _set_trace(self, raw: Any, schedule: Schedule) -> None:
        n = len(schedule)
        rows = (len(schedule.times_s), len(schedule.senders), len(schedule.sizes_bytes), len(schedule.starts) - 1)
        if len(schedule.afters) not in (0, n):
            raise ValueError(
                f"a schedule of {n} messages, {len(schedule.afters)} of which may wait: expected all or none"
            )
        if rows != (n, n, n, n) or schedule.starts[-1] != len(schedule.recipients):
            raise ValueError(
                f"a schedule of {rows[0]} times, {rows[1]} senders, {rows[2]} sizes, {rows[3]} lists of recipients and "
                f"{len(schedule.recipients)} recipients: expected a time, a sender, a size and a list for each message"
            )
        raw.n_trace = n
        raw.trace_times_s = self._column(schedule.times_s, "double[]")
        raw.trace_senders = self._column(schedule.senders, "uint32_t[]")
        raw.trace_starts = self._column(schedule.starts, "uint64_t[]")
        raw.trace_recipients = self._column(schedule.recipients, "uint32_t[]")
        raw.trace_sizes_bytes = self._column(schedule.sizes_bytes, "uint64_t[]")
        raw.trace_afters = self._column(schedule.afters, "uint32_t[]") if any(schedule.afters) else ffi.NULL

    def _column(self, values: array[int] | array[float], ctype: str) -> Any:
        if memoryview(values).itemsize != ffi.sizeof(ctype[:-2]):
            raise ValueError(
                f"a column of a schedule has {memoryview(values).itemsize} bytes per item: expected {ctype}"
            )
        return self._keep(ffi.from_buffer(ctype, values))

    # ---- what came of it ----

    def result(self) -> Result:
        while True:
            outcome = lib.busq_sim_advance(self._sim, _SLICE_NS)
            if outcome != lib.BUSQ_INTERRUPTED:
                break
        check(outcome)
        facts = ffi.new("busq_sim_facts *")
        lib.busq_sim_examine(self._sim, facts)
        packets, sizes_bytes = self._traffic(facts.n_kinds)
        dead = self._dead()
        verdicts = self._verdicts(dead, facts.waits)
        may_stick = bool(self._config.deaths) and "stuck" not in self._config.claims
        holds = all(verdict.ok for name, verdict in verdicts.items() if name in self._config.claims)
        return Result(
            config=self._config,
            ok=(facts.unsent == 0 or may_stick) and holds,
            **{name: getattr(facts, field) / 1e9 for name, field in _TIMES.items()},
            **{name: getattr(facts, name) for name in _COUNTS},
            messages=facts.sends,
            packets=packets,
            bytes=sizes_bytes,
            uplink_busiest=self._renamed(facts.uplink_busiest),
            uplink_busiest_share=self._share(facts, facts.uplink_busiest_bytes, self._config.bandwidth_bytes_per_s),
            downlink_busiest=self._renamed(facts.downlink_busiest),
            downlink_busiest_share=self._share(
                facts,
                facts.downlink_busiest_bytes,
                self._config.downlink_bytes_per_s or self._config.bandwidth_bytes_per_s,
            ),
            deaths={self._renamed(process): at_s for process, at_s in dead.items()},
            verdicts=verdicts,
            execution=self._execution() if self._config.record else None,
        )

    @staticmethod
    def _share(facts: Any, sent_bytes: int, bytes_per_s: float) -> float:
        """How much of the time of communication a link needs for so many bytes."""
        return sent_bytes / bytes_per_s * 1e9 / facts.communication_ns if facts.communication_ns else 0.0

    def _traffic(self, n_kinds: int) -> tuple[dict[str, int], dict[str, int]]:
        name, n_packets, n_bytes = ffi.new("char const **"), ffi.new("uint64_t *"), ffi.new("uint64_t *")
        packets, sizes_bytes = {}, {}
        for kind in range(n_kinds):
            check(lib.busq_sim_examine_kind(self._sim, kind, name, n_packets, n_bytes))
            text = ffi.string(name[0]).decode()
            packets[text], sizes_bytes[text] = n_packets[0], n_bytes[0]
        return packets, sizes_bytes

    def _dead(self) -> dict[int, float]:
        """The processes that have died, by their numbers in the core, and when."""
        died_ns = ffi.new("uint64_t *")
        crashed = (self._renamed(one.process) for one in self._config.deaths)
        return {
            one: died_ns[0] / 1e9
            for one in crashed
            if lib.busq_sim_examine_death(self._sim, one, died_ns) == lib.BUSQ_OK
        }

    def _verdicts(self, dead: Mapping[int, float], waits: int) -> dict[str, Verdict]:
        copies, wholes = self._copies, self._wholes
        if copies is None:
            return {}
        label = Execution(self._config.order, self._names, ()).label
        verdicts = judge(
            lambda whole: wholes if whole and wholes is not None else copies, wholes is not None, PROPERTIES, label
        )
        if self._config.deaths:
            text = f"{waits} messages of the living wait for ever" if waits else "none of the living waits for ever"
            verdicts |= {**judged_by_deaths(copies, dead, label), "stuck": Verdict(not waits, waits, None, text)}
        return verdicts

    def _execution(self) -> Execution:
        count = ffi.new("size_t *")
        events = lib.busq_sim_events(self._sim, count)
        raws = [events[place] for place in range(count[0])]
        raws.sort(key=lambda raw: raw.time_ns)  # jobs are known before they begin
        destinations = {raw.message: self._destinations(raw.message) for raw in raws if raw.kind == lib.BUSQ_SIM_SUBMIT}
        multicasts = {raw.message: raw.send for raw in raws if raw.kind == lib.BUSQ_SIM_SUBMIT}
        return Execution(
            order=self._config.order,
            processes=self._names,
            events=tuple(event_of(raw, raw.time_ns / 1e9, _KINDS[raw.kind], self._order.kinds) for raw in raws),
            destinations=destinations,
            multicasts=multicasts if self._has_copies() else {},
        )

    def _destinations(self, message: int) -> tuple[int, ...]:
        to, count = ffi.new("uint32_t const **"), ffi.new("uint32_t *")
        check(lib.busq_sim_destinations(self._sim, message, to, count))
        return tuple(to[0][place] for place in range(count[0]))


_PLAIN = (
    *("processes", "messages_per_process", "bandwidth_bytes_per_s", "downlink_bytes_per_s", "dependent_share"),
    *("payload_bytes", "header_bytes", "control_bytes", "clock_entry_bytes", "fan_out", "job_blocks_sends"),
    *("job_blocks_all", "hotspot_share", "hotspot_draw", "job_share", "seed"),
)
# The part of a result that the core knows: times, by their fields, and counts.
_TIMES = {"execution_time_s": "execution_ns"} | {
    f"{name}_s": f"{name}_ns"
    for name in (
        *("communication", "job_start_mean", "job_wait_mean", "secret"),
        *("latency_mean", "latency_p50", "latency_p99", "latency_max"),
    )
}
_COUNTS = (
    *("jobs", "waiting_max", "held_max", "events", "copies", "deliveries", "unsent", "dropped"),
    *("packets_lost", "packets_doubled", "packets_refused"),
)
