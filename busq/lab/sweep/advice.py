# SPDX-License-Identifier: Apache-2.0
"""Which order to take: all that give what is demanded, simulated under the same workload, and ranked."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from busq import orders
from busq.lab.sim import Config, Result
from busq.lab.sweep.cost import packets_expected, too_many
from busq.lab.sweep.flow import Progress
from busq.lab.sweep.paper_figures import LeftOut
from busq.lab.sweep.pool import run_all
from busq.lab.workload import by_traffic
from busq.orders import Order

__all__ = ["GUARANTEES", "RANKINGS", "Advice", "Candidate", "Place", "advise", "candidates", "place_name", "places"]

GUARANTEES = ("fifo", "causal", "consistent", "total", "synchronous")
RANKINGS = ("latency", "time", "packets", "bytes")
PACKETS_MAX = 50_000_000  # in all runs of an order; they take up to a minute
NEARLY = 1.02  # as good as the best
MUCH = 1.5  # worth mentioning
BUSY = 0.8  # of the time


@dataclass(frozen=True)
class Place:
    """An order with its coordinator at another process: means over seeds."""

    process: int
    what: str  # a client, a server, ...
    results: tuple[Result, ...]

    def as_json(self) -> dict[str, Any]:
        """Return where, and the figures that orders are ranked by, of all seeds together."""
        return {
            "process": self.process,
            "what": self.what,
            "latency_s_mean": _mean(self.results, "latency_mean_s"),
            "execution_time_s": _mean(self.results, "execution_time_s"),
            "packets_per_message": _per_message(self.results, "packets"),
            "bytes_per_message": _per_message(self.results, "bytes"),
        }


def _per_message(results: Sequence[Result], name: str) -> float:
    return statistics.fmean(sum(getattr(result, name).values()) / max(1, result.messages) for result in results)


def _mean(results: Sequence[Result], name: str) -> float:
    return statistics.fmean(getattr(result, name) for result in results)


class _Mean:
    """A figure of a candidate: the mean over its seeds."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, candidate: Candidate, _: type[Candidate]) -> float:
        return _mean(candidate.results, self._name)


def place_name(config: Config, process: int) -> str:
    """What a process is in a workload, in words.

    >>> place_name(Config(order="sequencer", processes=10, workload="client-server"), 0)
    'a server'
    """
    if config.schedule is not None:
        ranks = by_traffic(config.schedule)
        words = {ranks[0]: "the busiest participant", ranks[-1]: "the least busy participant"}
        return words.get(process, f"participant {config.schedule.participants[process]}")
    others = {"client-server": ("a server", "a client"), "hotspot": ("a hotspot", "no hotspot")}
    is_first, is_other = others.get(config.workload, ("", "one like all others"))
    return is_first if process < config.singled_out else is_other


def places(config: Config) -> tuple[int, ...]:
    """Return where else the coordinator could sit: at processes unlike the one where it is, where there are any.

    >>> places(Config(order="sequencer", processes=10, workload="client-server"))
    (0,)
    >>> places(Config(order="sequencer", processes=10))
    (9,)
    """
    here = config.coordinator_at
    if config.schedule is not None:
        ranks = by_traffic(config.schedule)
        return tuple(dict.fromkeys(process for process in (ranks[0], ranks[-1]) if process != here))
    first, last = 0, config.processes - 1
    if 0 < config.singled_out < config.processes:
        return (first,) if here >= config.singled_out else (last,)
    return (last,) if here != last else (first,)


@dataclass(frozen=True)
class Candidate:
    """An order, and what it cost: means over seeds."""

    order: str
    results: tuple[Result, ...]
    config: Config
    elsewhere: tuple[Place, ...] = ()  # with the coordinator somewhere else

    latency_s = _Mean("latency_mean_s")  # from the application's send to the delivery
    latency_p99_s = _Mean("latency_p99_s")  # 99 of 100 deliveries do not exceed it
    time_s = _Mean("execution_time_s")
    communication_s = _Mean("communication_s")  # until the last packet
    uplink_busiest_share = _Mean("uplink_busiest_share")  # how much of the time the busiest uplink was busy
    downlink_busiest_share = _Mean("downlink_busiest_share")  # or would have been with the uplinks' bandwidth

    @property
    def is_sound(self) -> bool:
        """Whether everything that the order claims held in every run."""
        return not self.broken

    @property
    def broken(self) -> tuple[str, ...]:
        """The claims that it did not keep; "unsent" where it got stuck."""
        claims = orders.parse(self.order)[0].claims
        verdicts = [one for result in self.results for one in result.verdicts.items()]
        broken = [name for name, verdict in verdicts if name in claims and not verdict.ok]
        return tuple(dict.fromkeys(["unsent"] * any(result.unsent for result in self.results) + broken))

    @property
    def job_start_s(self) -> float | None:
        """Mean time at which jobs began; None without jobs."""
        return _mean(self.results, "job_start_mean_s") if all(result.jobs for result in self.results) else None

    @property
    def packets(self) -> float:
        """Per message."""
        return _per_message(self.results, "packets")

    @property
    def bytes(self) -> float:
        """Per message, with headers and clocks."""
        return _per_message(self.results, "bytes")

    @property
    def coordinator(self) -> int | None:
        """Which process coordinates; None where none does."""
        return self.config.coordinator_at if orders.parse(self.order)[0].coordinated else None

    @property
    def uplink_share(self) -> float:
        """How much of the time the uplinks were busy, in the mean."""
        room = self.config.processes * self.config.bandwidth_bytes_per_s
        return statistics.fmean(
            sum(result.bytes.values()) / (room * result.communication_s) if result.communication_s else 0.0
            for result in self.results
        )

    @property
    def waiting_max(self) -> int:
        """Most messages that waited at a sender."""
        return max(result.waiting_max for result in self.results)

    @property
    def held_max(self) -> int:
        """Most messages that were held back at a receiver."""
        return max(result.held_max for result in self.results)

    @property
    def secret_share(self) -> float:
        """Of all processes' time, what they spent unable to send because of a secret."""
        return statistics.fmean(
            result.secret_s / (result.communication_s * self.config.processes) if result.communication_s else 0.0
            for result in self.results
        )

    def rank(self, by: str) -> float:
        """Return the figure to rank by; smaller is better."""
        return {"latency": self.latency_s, "time": self.time_s, "packets": self.packets, "bytes": self.bytes}[by]

    def as_json(self) -> dict[str, Any]:
        """Return all figures."""
        return {
            "order": self.order,
            "ok": self.is_sound,
            "latency_s_mean": self.latency_s,
            "latency_s_p99": self.latency_p99_s,
            "execution_time_s": self.time_s,
            "communication_s": self.communication_s,
            "packets_per_message": self.packets,
            "bytes_per_message": self.bytes,
            "uplink_share": self.uplink_share,
            **{name: getattr(self, name) for name in ("uplink_busiest_share", "downlink_busiest_share")},
            "coordinator": self.coordinator,
            "coordinator_elsewhere": [place.as_json() for place in self.elsewhere],
            **{name: getattr(self, name) for name in ("waiting_max", "held_max", "secret_share")},
        }


@dataclass(frozen=True)
class Advice:
    """Orders that give what is demanded, the best first."""

    guarantees: tuple[str, ...]
    by: str
    ranked: tuple[Candidate, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def best(self) -> Candidate | None:
        """The first that kept what it claims."""
        return next((candidate for candidate in self.ranked if candidate.is_sound), None)

    @property
    def ok(self) -> bool:
        """Whether there is an order to take, and none broke a promise."""
        return self.best is not None and all(candidate.is_sound for candidate in self.ranked)

    def why(self, candidate: Candidate) -> str:
        """Return what a candidate pays, compared with the best, in words."""
        if candidate.broken:
            return f"broke its promise: {', '.join(candidate.broken)}"
        best = self.best
        assert best is not None
        said = _load(candidate) if candidate is best else _against(candidate, best)
        return "; ".join(_where(candidate) + said) or "hardly different"

    def as_json(self) -> dict[str, Any]:
        """Return the ranking as data."""
        return {
            "ok": self.ok,
            "guarantees": list(self.guarantees),
            "by": self.by,
            "take": self.best.order if self.best else None,
            "points": [candidate.as_json() | {"why": self.why(candidate)} for candidate in self.ranked],
            "left_out": [dict(vars(gap)) for gap in self.left_out],
        }


def _where(one: Candidate) -> list[str]:
    """Where the coordinator sits, and what becomes of the latency where it sits somewhere else."""
    if one.coordinator is None:
        return []
    said = [f"coordinator at process {one.coordinator} ({place_name(one.config, one.coordinator)})"]
    for place in one.elsewhere:
        factor = _mean(place.results, "latency_mean_s") / one.latency_s if one.latency_s else 1.0
        said.append(f"at {place.process} ({place.what}) {factor:.2g} times this latency")
    return [", ".join(said)]


def _load(one: Candidate) -> list[str]:
    """The cost of the best one."""
    said = [f"uplinks {one.uplink_share:.0%} busy, the busiest {one.uplink_busiest_share:.0%}"]
    if one.secret_share > 0.01:
        said.append(f"processes {one.secret_share:.0%} of the time in secret mode")
    return said + _waits(one, 1, 0)


def _waits(one: Candidate, waiting: float, held: float) -> list[str]:
    """The messages that wait at a process, where they are more than so many."""
    waits = [f"up to {one.waiting_max:,} messages wait to be sent"] if one.waiting_max > waiting else []
    return [*waits, *([f"up to {one.held_max:,} are held back"] if one.held_max > held else [])]


def _times(factor: float) -> str:
    return f"{factor:,.0f} times" if factor >= 10 else f"{factor:.1f} times"


def _against(one: Candidate, best: Candidate) -> list[str]:
    said = [
        f"{_times(value / other)} the {what}"
        for what, value, other in (("packets", one.packets, best.packets), ("bytes", one.bytes, best.bytes))
        if other and value / other >= MUCH
    ]
    if one.uplink_share > BUSY:
        said.append(f"uplinks {one.uplink_share:.0%} busy")
    elif one.uplink_busiest_share > BUSY:
        said.append(f"the busiest uplink {one.uplink_busiest_share:.0%} busy")
    if one.downlink_busiest_share > BUSY:
        would = "" if one.config.downlink_bytes_per_s else "would be "
        said.append(f"the busiest downlink {would}{one.downlink_busiest_share:.0%} busy")
    said += _waits(one, MUCH * max(1, best.waiting_max), MUCH * max(1, best.held_max))
    if one.secret_share > 0.05:
        said.append(f"processes {one.secret_share:.0%} of the time in secret mode")
    if not said and one.latency_s >= MUCH * best.latency_s:
        said.append(f"{_times(one.latency_s / best.latency_s)} the latency: packets queue, or take more hops")
    return said


def candidates(guarantees: Sequence[str]) -> list[Order]:
    """Return the orders that promise all of this, without those that are for the laboratory only.

    Errors: ValueError for what is no guarantee.

    >>> "mfss" in [order.name for order in candidates(["causal"])]
    True
    """
    unknown = [name for name in guarantees if name not in GUARANTEES]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: expected some of {', '.join(GUARANTEES)}")
    return [order for order in orders.ORDERS.values() if set(guarantees) <= order.claims and not order.laboratory]


def advise(
    config: Config,
    guarantees: Sequence[str],
    *,
    by: str = "latency",
    seeds: int = 3,
    jobs: int | None = None,
    packets_max: float = PACKETS_MAX,
    progress: Progress | None = None,
) -> Advice:
    """Simulate `config` under every order that promises `guarantees`, and rank them.

    Parameters: `by`, one of RANKINGS; `seeds`, repeats, from the seed of `config` on; `packets_max`, the expected
    packets of all its runs above which an order is left out. Errors: ValueError for what is no guarantee or ranking;
    those of `busq.sim.run`. Cost: that of all the simulations; an order with a coordinator is simulated with that at
    other processes too (`places`), and ranked by where `config` has it.

    >>> from busq.lab.sim import Config
    >>> found = advise(Config(order="none", processes=3, messages_per_process=5), ["causal"], seeds=1, jobs=1)
    >>> found.best.order in [candidate.order for candidate in found.ranked], found.ok
    (True, True)
    """
    if by not in RANKINGS:
        raise ValueError(f"{by}: expected one of {', '.join(RANKINGS)}")
    if config.schedule is not None:
        messages = config.schedule.copies
    else:
        messages = config.processes * config.messages_per_process * config.fan_out
    chosen, gaps = [], []
    for order in candidates(guarantees):
        packets = seeds * packets_expected(order.name, config.processes, messages)
        if packets > packets_max:
            gaps.append(LeftOut(order.name, config.processes, too_many(packets, packets_max)))
        else:
            chosen.append(order.name)
    plans = [replace(config, order=name) for name in chosen]
    moved = [
        replace(plan, coordinator=place)
        for plan in plans
        if orders.parse(plan.order)[0].coordinated
        for place in places(plan)
    ]
    configs = [replace(plan, seed=config.seed + place, judge=True) for plan in plans + moved for place in range(seeds)]
    results = run_all(configs, jobs=jobs, progress=progress)
    runs = [tuple(results[place * seeds : (place + 1) * seeds]) for place in range(len(plans + moved))]
    elsewhere: dict[str, list[Place]] = {}
    for plan, mine in zip(moved, runs[len(plans) :], strict=True):
        place = Place(plan.coordinator, place_name(config, plan.coordinator), mine)
        elsewhere.setdefault(plan.order, []).append(place)
    advised = [
        Candidate(plan.order, mine, config, tuple(elsewhere.get(plan.order, ())))
        for plan, mine in zip(plans, runs, strict=False)
    ]
    advised.sort(key=lambda candidate: (not candidate.is_sound, candidate.rank(by)))
    return Advice(tuple(guarantees), by, tuple(advised), tuple(gaps))
