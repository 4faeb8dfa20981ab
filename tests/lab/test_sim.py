# SPDX-License-Identifier: Apache-2.0
"""The simulator: times that can be computed by hand, workloads and faults as they are defined, literal references.

The simple network of most tests: 96 bytes take 1 ms, a control packet of 32 bytes 333,333 ns, and every packet 5 ms
more.
"""

from __future__ import annotations

import itertools
import random
import re
import signal
import statistics
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import simpy_model

import busq.orders
from busq.execution import Event, Execution
from busq.lab.workload import Builder, Schedule
from busq.sim import WORKLOADS, Config, Faults, Partition, Result, run

CONTROL_NS = 333_333
IN_USE = [name for name, order in busq.orders.ORDERS.items() if not order.laboratory]
POINT_TO_POINT = [name for name in IN_USE if busq.orders.ORDERS[name].point_to_point]


def simple(order: str, **fields: Any) -> Result:
    defaults = {"processes": 2, "messages_per_process": 1, "interval_s": 0.001, "bandwidth_bytes_per_s": 96_000}
    return run(Config(order=order, **(defaults | fields)))


def recorded(order: str, **fields: Any) -> Execution:
    execution = simple(order, record=True, **fields).execution
    assert execution is not None
    return execution


def events(execution: Execution, kind: str) -> list[Event]:
    return [event for event in execution.events if event.kind == kind]


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


# ---- by hand ----


def test_a_packet_takes_its_bytes_and_then_the_delay() -> None:
    result = simple("none")
    assert ns(result.execution_time_s) == 6_000_000
    assert ns(result.latency_mean_s) == ns(result.latency_max_s) == 6_000_000
    assert result.latency_p50_s == pytest.approx(0.006, rel=1 / 2048)
    assert (result.packets, result.bytes) == ({"data": 2}, {"data": 192})
    assert (result.messages, result.copies, result.deliveries, result.events) == (2, 2, 2, 4)


def test_an_uplink_carries_one_packet_at_a_time() -> None:
    result = simple("none", processes=3, fan_out=2)
    assert ns(result.execution_time_s) == 7_000_000
    assert ns(result.latency_mean_s) == 6_500_000
    again = simple("none", messages_per_process=3, interval_s=0)
    assert ns(again.latency_mean_s) == 7_000_000


def test_mfss_sends_the_next_message_when_the_last_one_is_acknowledged() -> None:
    result = simple("mfss", messages_per_process=2, interval_s=0.001)
    acknowledged_ns = 6_000_000 + CONTROL_NS + 5_000_000
    second_ns = acknowledged_ns + 6_000_000
    assert ns(result.latency_max_s) == second_ns - 1_000_000
    assert ns(result.execution_time_s) == second_ns + CONTROL_NS + 5_000_000
    assert result.waiting_max == 2
    assert result.packets == {"data": 4, "ack": 4}


def test_cykas_keeps_its_receiver_silent_from_the_eager_message_to_the_telling() -> None:
    execution = recorded("cykas", processes=3, workload="ring", fan_out=2)
    secret, opened = events(execution, "secret"), events(execution, "open")
    told_ns = 7_000_000 + CONTROL_NS + 5_000_000 + CONTROL_NS + 5_000_000
    assert [ns(event.time_s) for event in secret] == [7_000_000] * 3
    assert [ns(event.time_s) for event in opened] == [told_ns] * 3
    result = simple("cykas", processes=3, workload="ring", fan_out=2)
    assert ns(result.secret_s) == 3 * (told_ns - 7_000_000)
    assert ns(result.execution_time_s) == told_ns
    assert result.packets == {"normal": 3, "eager": 3, "ack": 6, "yct": 3, "flush": 0}


def test_a_process_runs_one_job_at_a_time() -> None:
    result = simple("none", messages_per_process=2, job_share=1, job_mean_s=0.010)
    assert result.jobs == 4
    assert ns(result.execution_time_s) == 26_000_000  # delivered at 6 and 7 ms
    assert ns(result.job_start_mean_s) == (6_000_000 + 16_000_000) // 2
    assert ns(result.job_wait_mean_s) == (6_000_000 + 15_000_000) // 2


def test_sends_go_on_during_a_job_unless_jobs_block_them() -> None:
    jobs = {"messages_per_process": 2, "interval_s": 0.007, "job_share": 1, "job_mean_s": 0.010}
    assert ns(simple("none", **jobs).execution_time_s) == 26_000_000  # delivered at 13 ms, during the first job
    assert ns(simple("none", job_blocks_sends=True, **jobs).execution_time_s) == 32_000_000  # sent at 16 ms


def test_where_a_job_blocks_all_what_arrives_waits_for_its_end() -> None:
    jobs = {"messages_per_process": 2, "interval_s": 0.001, "job_share": 1, "job_mean_s": 0.010}
    assert ns(simple("none", **jobs).communication_s) == 7_000_000  # the second message, during the first job
    waits = simple("none", job_blocks_all=True, **jobs)
    assert ns(waits.communication_s) == 16_000_000
    assert ns(waits.execution_time_s) == 26_000_000
    assert waits.events == simple("none", **jobs).events


def test_where_a_job_blocks_all_an_acknowledgement_waits_like_a_message() -> None:
    jobs = {"messages_per_process": 2, "interval_s": 0, "job_share": 1, "job_mean_s": 0.010, "control_bytes": 0}
    assert ns(simple("mfss", **jobs).communication_s) == 22_000_000  # 6 ms and 5 ms, twice
    execution = recorded("mfss", job_blocks_all=True, processes=2, **jobs)
    mine = [
        (event.kind, ns(event.time_s))
        for event in execution.events
        if event.process == 0 and event.kind in ("receive", "deliver", "job", "rest")
    ]
    assert mine == [
        ("receive", 6_000_000),
        ("deliver", 6_000_000),
        ("job", 6_000_000),
        ("rest", 16_000_000),
        ("receive", 16_000_000),  # the ACK, which came at 11 ms; it lets the second message go
        ("receive", 22_000_000),
        ("deliver", 22_000_000),
        ("job", 22_000_000),
        ("rest", 32_000_000),
        ("receive", 32_000_000),
    ]


@pytest.mark.parametrize("order", ["none", "mfss", "cykas", "causal-matrix", "bus1", "token", "sequencer", "sync"])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_jobs_block_all_is_delivered_in_the_order_that_is_claimed(order: str, seed: int) -> None:
    """... and nothing happens at a process while a job of its own runs."""
    fields = {"processes": 6, "messages_per_process": 20, "interval_s": 0.002, "job_share": 0.3, "job_mean_s": 0.005}
    result = run(Config(order=order, seed=seed, job_blocks_all=True, judge=True, record=True, **fields))
    assert result.ok
    assert (result.unsent, result.deliveries) == (0, 120)
    begins: dict[int, float] = {}
    jobs: dict[int, list[tuple[float, float]]] = {}
    assert result.execution is not None
    for event in result.execution.events:
        if event.kind == "job":
            begins[event.process] = event.time_s
        elif event.kind == "rest":
            jobs.setdefault(event.process, []).append((begins[event.process], event.time_s))
    assert jobs
    for event in result.execution.events:
        if event.kind in ("receive", "submit"):
            assert not any(begin < event.time_s < end for begin, end in jobs.get(event.process, ())), event


def test_at_a_rendezvous_the_next_send_waits_for_the_end_of_the_last() -> None:
    execution = recorded("sync", processes=3, workload="ring", messages_per_process=3, interval_s=0)
    for process in range(3):
        mine = [
            event.kind for event in execution.events if event.process == process and event.kind in ("submit", "done")
        ]
        assert mine == ["submit", "done"] * 3


def test_an_order_that_gets_stuck_leaves_messages_unsent_and_is_not_ok() -> None:
    stuck = simple("sync-naive", messages_per_process=2)
    assert stuck.unsent > 0
    assert not stuck.ok
    assert simple("sync", messages_per_process=2).unsent == 0


# ---- the same network for all ----


def arrivals_ns(execution: Execution, config: Config) -> dict[int, int]:
    """When each packet arrives, computed again from the times at which packets were given to their uplinks."""
    order = busq.orders.ORDERS[execution.order]
    n = config.processes
    entries = {"none": 0, "vector": n, "matrix": n * n}[order.clock]
    full = config.header_bytes + config.payload_bytes + entries * config.clock_entry_bytes
    free_ns: Counter[int] = Counter()
    found = {}
    for event in events(execution, "send"):
        size_bytes = full if event.what in order.payload_kinds else config.control_bytes
        begin_ns = max(ns(event.time_s), free_ns[event.process])
        free_ns[event.process] = begin_ns + round(size_bytes * 1e9 / config.bandwidth_bytes_per_s)
        found[event.packet] = free_ns[event.process] + ns(config.propagation_delay_s)
    return found


@pytest.mark.parametrize("name", [name for name in IN_USE if busq.orders.ORDERS[name].clock != "list"])
def test_every_packet_of_every_order_arrives_when_the_network_says(name: str) -> None:
    config = Config(order=name, processes=6, messages_per_process=15, fan_out=2, interval_s=0.004, record=True, seed=3)
    result = run(config)
    execution = result.execution
    assert execution is not None
    received = {event.packet: ns(event.time_s) for event in events(execution, "receive")}
    assert received == arrivals_ns(execution, config)
    assert Counter(event.what for event in events(execution, "send")) == Counter(result.packets)
    assert result.unsent == 0


@pytest.mark.parametrize(("name", "entries"), [("none", 0), ("causal-vector", 7), ("causal-matrix", 49)])
def test_a_packet_with_a_payload_carries_header_payload_and_clock(name: str, entries: int) -> None:
    sizes = {"payload_bytes": 100, "header_bytes": 20, "clock_entry_bytes": 4, "control_bytes": 9}
    result = simple(name, processes=7, messages_per_process=4, **sizes)
    assert result.bytes["data"] == result.packets["data"] * (120 + 4 * entries)
    assert simple("mfss", **sizes).bytes == {"data": 2 * 120, "ack": 2 * 9}


# ---- determinism ----


def test_the_same_configuration_gives_the_same_result_and_another_seed_another_one() -> None:
    faults = Faults(jitter_s=0.002, reordered_share=0.1, reordered_s=0.01, doubled_share=0.1, doubled_s=0.01)
    config = Config(
        order="cykas",
        processes=12,
        job_share=0.3,
        job_mean_s=0.01,
        job_spread_s=0.004,
        faults=faults,
        record=True,
        seed=9,
    )
    assert run(config) == run(config)
    assert run(config).execution != run(replace(config, seed=10)).execution


@pytest.mark.parametrize("workload", ["random", "hotspot", "ring"])
def test_every_order_gets_the_same_sends_and_the_same_jobs(workload: str) -> None:
    fields = {"processes": 8, "messages_per_process": 20, "workload": workload, "hotspot_share": 0.25, "seed": 5}
    fields |= {"job_share": 0.2, "job_mean_s": 0.003, "job_spread_s": 0.001, "staggered": True}
    programs = []
    for name in ("none", "mfss", "cykas", "skeen"):
        execution = recorded(name, **fields)
        length_ns: Counter[tuple[int, int]] = Counter()
        for event in execution.events:
            if event.kind in ("job", "rest"):
                length_ns[event.process, event.message] += ns(event.time_s) * (1 if event.kind == "rest" else -1)
        sends = {event.message: ns(event.time_s) for event in events(execution, "submit")}
        programs.append((sends, dict(execution.destinations), dict(length_ns)))
    assert all(program == programs[0] for program in programs)
    assert len(programs[0][2]) > 0


# ---- workloads ----


def destinations_of(execution: Execution) -> Iterator[tuple[int, int]]:
    for message, destinations in execution.destinations.items():
        for destination in destinations:
            yield message >> 32, destination


def test_random_sends_go_to_all_others_alike() -> None:
    drawn = Counter(destinations_of(recorded("none", processes=5, messages_per_process=4000, seed=2)))
    assert set(drawn) == {(a, b) for a in range(5) for b in range(5) if a != b}
    for count in drawn.values():  # mean 1000, deviation 27
        assert 850 < count < 1150


@pytest.mark.parametrize("fan_out", [2, 5, 18, 19])
def test_destinations_of_a_multicast_are_different_others(fan_out: int) -> None:
    for workload in ("random", "hotspot"):
        execution = recorded(
            "none", processes=20, fan_out=fan_out, messages_per_process=30, workload=workload, hotspot_share=0.2
        )
        assert len(execution.destinations) == 600
        for message, destinations in execution.destinations.items():
            assert len(set(destinations)) == fan_out
            assert message >> 32 not in destinations


def test_hotspots_draw_their_share() -> None:
    execution = recorded("none", processes=20, workload="hotspot", hotspot_share=0.1, messages_per_process=500, seed=1)
    drawn = Counter(to for _, to in destinations_of(execution))
    assert (drawn[0] + drawn[1]) / 10_000 == pytest.approx(0.8, abs=0.02)
    assert min(drawn.values()) > 0
    uniform = recorded("none", processes=20, workload="hotspot", hotspot_share=0, messages_per_process=500, seed=1)
    assert max(Counter(to for _, to in destinations_of(uniform)).values()) < 650  # mean 500, deviation 22


def test_in_a_ring_everybody_sends_to_the_next() -> None:
    assert set(destinations_of(recorded("none", processes=4, workload="ring"))) == {(0, 1), (1, 2), (2, 3), (3, 0)}


@pytest.mark.parametrize("order", ["fifo", "mfss", "causal-matrix", "skeen"])
def test_servers_answer_each_request_when_it_is_delivered(order: str) -> None:
    execution = recorded(order, processes=10, workload="client-server", hotspot_share=0.2, messages_per_process=7)
    requests = [(to, sender) for sender, to in destinations_of(execution) if sender >= 2]
    answers = [(sender, to) for sender, to in destinations_of(execution) if sender < 2]
    assert Counter(requests) == Counter(answers)
    assert len(answers) == 8 * 7
    assert all(client % 2 == server for server, client in answers)
    asked = [event.time_s for event in events(execution, "deliver") if event.process < 2]
    answered = [event.time_s for event in events(execution, "submit") if event.process < 2]
    assert asked == answered


def letters() -> Schedule:
    builder = Builder("letters")
    builder.add("1", 100.0, "ann", ["bob", "cleo"], 64)
    builder.add("2", 100.5, "bob", ["ann"], 160)
    builder.add("3", 100.5, "cleo", ["cleo", "ann"], 64)
    return builder.build()


def test_a_trace_is_sent_at_its_times_with_its_sizes() -> None:
    fields = {"workload": "trace", "schedule": letters(), "bandwidth_bytes_per_s": 96_000}
    result = run(Config(order="none", record=True, judge=True, **fields))
    assert result.execution is not None
    assert result.execution.processes == ("ann", "bob", "cleo")
    assert [(ns(e.time_s), e.process) for e in events(result.execution, "submit")] == [
        (0, 0),
        (500000000, 1),
        (500000000, 2),
    ]
    delivered = sorted((ns(event.time_s), event.process) for event in events(result.execution, "deliver"))
    assert delivered == [(6_000_000, 1), (7_000_000, 2), (500_000_000, 2), (506_000_000, 0), (507_000_000, 0)]
    assert result.bytes == {"data": 3 * 96 + 192}
    assert (result.ok, result.messages, result.copies, result.deliveries) == (True, 3, 5, 5)


@pytest.mark.parametrize("order", IN_USE)
def test_every_order_delivers_a_trace_with_messages_to_oneself(order: str) -> None:
    result = run(Config(order=order, workload="trace", schedule=letters(), judge=True))
    assert (result.ok, result.messages, result.deliveries) == (True, 3, 5)


def test_intervals_are_kept_and_staggered_processes_begin_within_the_first() -> None:
    for staggered in (False, True):
        execution = recorded("none", processes=30, interval_s=0.02, messages_per_process=3, staggered=staggered)
        times_ns = defaultdict(list)
        for event in events(execution, "submit"):
            times_ns[event.process].append(ns(event.time_s))
        starts = {times[0] for times in times_ns.values()}
        assert all(b - a == 20_000_000 for times in times_ns.values() for a, b in itertools.pairwise(times))
        assert (len(starts) > 20) == staggered
        assert max(starts) < 20_000_000


def test_jobs_come_as_often_and_take_as_long_as_configured() -> None:
    fields = {"processes": 10, "messages_per_process": 1000, "job_share": 0.2, "job_mean_s": 0.025}
    for spread_s in (0.0, 0.005):
        execution = recorded("none", job_spread_s=spread_s, **fields)
        rests = {(event.process, event.message): event.time_s for event in events(execution, "rest")}
        lengths = [rests[event.process, event.message] - event.time_s for event in events(execution, "job")]
        assert len(lengths) == pytest.approx(2000, abs=200)
        mean = sum(lengths) / len(lengths)
        deviation = (sum((length - mean) ** 2 for length in lengths) / len(lengths)) ** 0.5
        assert mean == pytest.approx(0.025, abs=0.001)
        assert deviation == pytest.approx(spread_s, abs=0.0005)


# ---- when an execution ends ----


def test_communication_ends_with_the_last_packet_and_an_execution_with_the_last_job() -> None:
    """ "For each execution, we measure total execution time (i.e., time to complete all protocol communications) ..."
    (Cykas paper, 5.1)"""
    fields = {"bandwidth_bytes_per_s": 96_000, "messages_per_process": 1, "job_share": 1, "job_mean_s": 0.5}
    result = run(Config(order="none", processes=2, **fields))
    assert ns(result.communication_s) == 6_000_000  # 96 bytes take 1 ms, and 5 ms to arrive
    assert ns(result.execution_time_s) == 506_000_000
    assert result.as_json()["communication_s"] == result.communication_s


@pytest.mark.parametrize("blocks", [False, True])
def test_jobs_delay_communication_only_where_they_block_sends(blocks: bool) -> None:
    fields = {"processes": 10, "messages_per_process": 20, "job_share": 0.3, "job_blocks_sends": blocks}
    lengths_s = (0.001, 0.1, 1.0)
    ends_s = [run(Config(order="cykas", job_mean_s=length_s, **fields)).communication_s for length_s in lengths_s]
    assert (len(set(ends_s)) == 3) == blocks
    assert (len(set(ends_s)) == 1) != blocks


# ---- sends that depend on what was received ----


def relay(after: int) -> Schedule:
    """Ann writes to bob at once; bob, about to write to cleo at the same time, waits for so many messages."""
    builder = Builder("relay")
    builder.add("1", 0.0, "ann", ["bob"], 64)
    builder.add("2", 0.0, "bob", ["cleo"], 64, after)
    return builder.build()


def test_a_send_waits_until_its_process_has_received_so_many() -> None:
    """ "We represent message-passing programs as partially-ordered sets of message send events, then simulate
    execution of these programs using each of the protocols."  (Cykas paper, 5.1)"""
    for after, sent_ns in ((0, 0), (1, 6_000_000)):
        config = Config(
            order="none", workload="trace", schedule=relay(after), bandwidth_bytes_per_s=96_000, record=True
        )
        result = run(config)
        assert result.execution is not None
        assert [ns(event.time_s) for event in events(result.execution, "submit")] == [0, sent_ns]
        assert ns(result.communication_s) == sent_ns + 6_000_000
        assert ns(result.latency_max_s) == 6_000_000  # a latency begins when the program can want the message sent


def test_a_program_that_waits_for_ever_is_refused_and_says_where() -> None:
    with pytest.raises(ValueError, match=r"message 1 of the trace waits until its sender has received 2: .* 1 before"):
        run(Config(order="none", workload="trace", schedule=relay(2)))
    builder = Builder("circle")
    builder.add("1", 0.0, "ann", ["bob"], 64, 1)
    builder.add("2", 0.0, "bob", ["ann"], 64, 1)
    with pytest.raises(ValueError, match="waits until its sender has received 1"):
        run(Config(order="none", workload="trace", schedule=builder.build()))
    with pytest.raises(ValueError, match="would wait for ever for what is lost"):
        Config(order="none", dependent_share=0.5, faults=Faults(lost_share=0.1))


@pytest.mark.parametrize("order", IN_USE)
@pytest.mark.parametrize("workload", ["random", "hotspot", "client-server", "ring"])
def test_dependent_sends_wait_for_everything_of_earlier_rounds_under_every_order(order: str, workload: str) -> None:
    fields = {"processes": 7, "messages_per_process": 6, "workload": workload, "hotspot_share": 0.3, "seed": 4}
    config = Config(order=order, dependent_share=1.0, judge=True, record=True, job_share=0.2, job_mean_s=0.01, **fields)
    result = run(config)
    assert result.ok
    assert result.unsent == 0
    execution = result.execution
    assert execution is not None
    names = [int(name[1:]) for name in execution.processes]
    servers = {place for place, name in enumerate(names) if workload == "client-server" and name < 2}
    round_of = {}
    for event in events(execution, "submit"):
        round_of[event.message] = sum(other >> 32 == event.process for other in round_of)
    sent_to: Counter[tuple[int, int]] = Counter()  # process, round
    for sender, to, place in ((m >> 32, to, round_of[m]) for m in round_of for to in execution.destinations[m]):
        if sender not in servers:
            sent_to[to, place] += 1
            sent_to[sender, place] += to in servers
    received: Counter[int] = Counter()
    waits = 0
    for event in execution.events:
        if event.kind == "deliver":
            received[event.process] += 1
        elif event.kind == "submit" and event.process not in servers:
            due = sum(sent_to[event.process, place] for place in range(round_of[event.message]))
            assert received[event.process] >= due
            waits += due > 0
    assert waits > 0


def test_every_order_gets_the_same_dependent_programs() -> None:
    fields = {"processes": 8, "messages_per_process": 20, "dependent_share": 0.5, "seed": 5, "record": True}
    found = [
        run(Config(order=name, **fields)).execution for name in ("none", "mfss", "cykas", "causal-matrix", "skeen")
    ]
    assert all(execution is not None and execution.destinations == found[0].destinations for execution in found)
    assert run(Config(order="cykas", **fields)) == run(Config(order="cykas", **fields))


# ---- downlinks, and the process with most to carry ----


def gathering() -> Schedule:
    builder = Builder("gathering", ["hub", "ann", "bob", "cleo"])
    for name in ("ann", "bob", "cleo"):
        builder.add(name, 0.0, name, ["hub"], 64)
    return builder.build()


def test_a_downlink_lets_one_packet_through_at_a_time() -> None:
    fields = {"workload": "trace", "schedule": gathering(), "bandwidth_bytes_per_s": 96_000, "record": True}
    for downlink, arrivals_ms in ((0.0, [6, 6, 6]), (48_000.0, [8, 10, 12])):
        result = run(Config(order="none", downlink_bytes_per_s=downlink, **fields))
        assert result.execution is not None
        assert [ns(event.time_s) // 1_000_000 for event in events(result.execution, "deliver")] == arrivals_ms
    assert result.downlink_busiest == 0
    assert result.downlink_busiest_share == pytest.approx(3 * 96 / 48_000 / 0.012)
    assert result.uplink_busiest_share == pytest.approx(96 / 96_000 / 0.012)


@pytest.mark.parametrize("order", IN_USE)
def test_every_order_keeps_its_promise_behind_slow_downlinks_under_faults(order: str, seed: int) -> None:
    faults = Faults(jitter_s=0.01, reordered_share=0.2, reordered_s=0.02, doubled_share=0.2, doubled_s=0.02)
    fields = {"processes": 6, "messages_per_process": 20, "fan_out": 2, "judge": True, "faults": faults, "seed": seed}
    result = run(Config(order=order, downlink_bytes_per_s=10_000, **fields))
    assert result.ok, f"seed {seed}"


# ---- coordinators ----


@pytest.mark.parametrize(("workload", "at"), [("random", 0), ("ring", 0), ("hotspot", 2), ("client-server", 2)])
def test_a_coordinator_sits_on_no_process_that_the_workload_singles_out(workload: str, at: int) -> None:
    fields = {"order": "sequencer", "processes": 10, "workload": workload, "hotspot_share": 0.2, "seed": 3}
    assert Config(**fields).coordinator_at == at
    result = run(Config(judge=True, **fields))
    assert result == replace(run(Config(coordinator=at, judge=True, **fields)), config=result.config)
    assert result.ok
    assert result.uplink_busiest == at


@pytest.mark.parametrize("at", [0, 1, 2])
def test_the_names_of_a_schedule_stay_those_of_their_messages_wherever_the_coordinator_sits(at: int) -> None:
    result = run(
        Config(order="sequencer", workload="trace", schedule=letters(), coordinator=at, record=True, judge=True)
    )
    execution = result.execution
    assert execution is not None
    assert result.ok
    sent = Counter(
        (execution.processes[message >> 32], tuple(execution.processes[to] for to in destinations))
        for message, destinations in execution.destinations.items()
    )
    assert sent == Counter([("ann", ("bob", "cleo")), ("bob", ("ann",)), ("cleo", ("cleo", "ann"))])
    packets = {execution.processes[event.process] for event in events(execution, "receive") if event.what == "request"}
    assert packets == {("ann", "bob", "cleo")[at]}


def test_the_coordinator_moves_nothing_under_an_order_that_has_none() -> None:
    first, second = (run(Config(order="mfss", processes=10, coordinator=at, record=True)) for at in (0, 7))
    assert first == replace(second, config=first.config)


def test_a_sequencer_on_the_server_is_better_than_one_beside_it() -> None:
    fields = {"order": "sequencer", "workload": "client-server", "processes": 20, "bandwidth_bytes_per_s": 1e6}
    on_the_server, fair = run(Config(coordinator=0, **fields)), run(Config(**fields))
    assert on_the_server.latency_mean_s < fair.latency_mean_s
    assert sum(on_the_server.packets.values()) < sum(fair.packets.values())


# ---- faults ----


def test_jitter_delays_packets_up_to_its_bound_and_lets_them_overtake() -> None:
    fields = {"processes": 4, "messages_per_process": 500, "interval_s": 0.002}
    config = Config(order="none", bandwidth_bytes_per_s=96_000, record=True, faults=Faults(jitter_s=0.010), **fields)
    execution = run(config).execution
    assert execution is not None
    due_ns = arrivals_ns(execution, config)
    late_ns = [ns(event.time_s) - due_ns[event.packet] for event in events(execution, "receive")]
    assert len(late_ns) == 2000
    assert 0 <= min(late_ns) < 500_000
    assert 9_500_000 < max(late_ns) <= 10_000_000
    assert sum(late_ns) / 2000 == pytest.approx(5_000_000, rel=0.1)


HELD_UP = Faults(reordered_share=0.3, reordered_s=0.05)


def test_reordering_breaks_what_does_not_claim_fifo() -> None:
    fields = {"processes": 3, "messages_per_process": 200, "judge": True, "faults": HELD_UP}
    unordered, ordered = simple("none", **fields), simple("fifo", **fields)
    assert unordered.ok  # it claims nothing that was broken
    assert not unordered.verdicts["fifo"].ok
    assert ordered.ok
    assert ordered.verdicts["fifo"].ok
    assert ordered.held_max > 0


@pytest.mark.parametrize("name", [name for name in IN_USE if busq.orders.ORDERS[name].fifo_channels])
def test_channels_that_keep_the_order_keep_it_under_faults(name: str) -> None:
    execution = recorded(
        name, processes=4, messages_per_process=20, faults=replace(HELD_UP, jitter_s=0.01, doubled_share=0.2)
    )
    channels = defaultdict(list)
    for event in events(execution, "receive"):
        channels[event.peer, event.process].append(event.packet)
    assert all(packets == sorted(packets) for packets in channels.values())


def test_the_transport_throws_away_what_comes_twice() -> None:
    faults = Faults(doubled_share=0.4, doubled_s=0.02)
    result = simple("mfss", processes=5, messages_per_process=50, faults=faults, judge=True)
    assert result.ok
    assert result.packets_doubled > 100
    assert result.deliveries == result.copies == 250


def test_copies_that_pass_are_doubled_by_none_dropped_by_fifo_and_refused_by_mfss() -> None:
    faults = Faults(doubled_share=0.4, doubled_s=0.02, lets_copies_pass=True)
    fields = {"processes": 5, "messages_per_process": 50, "faults": faults, "judge": True}
    none, fifo, mfss = simple("none", **fields), simple("fifo", **fields), simple("mfss", **fields)
    assert none.verdicts["duplicated"].count == none.packets_doubled > 0
    assert not none.ok
    assert fifo.ok
    assert fifo.dropped == fifo.packets_doubled > 0
    assert mfss.packets_refused > 0


def test_a_partition_holds_up_what_crosses_it_until_its_end() -> None:
    faults = Faults(partitions=[Partition(begin_s=0.010, end_s=0.050, side=[0, 1])])
    fields = {"processes": 4, "messages_per_process": 40, "interval_s": 0.002}
    config = Config(order="none", bandwidth_bytes_per_s=96_000, record=True, judge=True, faults=faults, **fields)
    result = run(config)
    assert result.ok
    assert result.execution is not None
    due_ns = arrivals_ns(result.execution, config)
    n_held = 0
    for event in events(result.execution, "receive"):
        left_ns = due_ns[event.packet] - 5_000_000
        is_held = (event.peer < 2) != (event.process < 2) and 10_000_000 <= left_ns < 50_000_000
        assert ns(event.time_s) == (55_000_000 if is_held else due_ns[event.packet])
        n_held += is_held
    assert n_held > 10


def test_fifo_goes_on_without_what_was_lost_if_it_may() -> None:
    faults = Faults(lost_share=0.1)
    result = simple(
        "fifo:on_gap=skip", processes=3, messages_per_process=200, faults=faults, judge=True, patience_s=0.02
    )
    assert result.packets_lost > 20
    assert result.deliveries == result.copies - result.packets_lost == 600 - result.verdicts["lost"].count
    assert result.verdicts["fifo"].ok


@pytest.mark.parametrize("name", IN_USE)
def test_every_order_keeps_what_it_claims_on_a_bad_network(name: str) -> None:
    faults = Faults(
        jitter_s=0.01,
        reordered_share=0.2,
        reordered_s=0.03,
        doubled_share=0.1,
        partitions=[Partition(begin_s=0.02, end_s=0.06, side=[0, 1, 2])],
    )
    for seed in range(3):
        print(f"seed {seed}")
        config = Config(
            order=name,
            processes=7,
            messages_per_process=30,
            interval_s=0.003,
            fan_out=3,
            faults=faults,
            seed=seed,
            judge=True,
        )
        result = run(config)
        assert result.ok, result.verdicts
        assert result.deliveries == result.copies == 630


# ---- matrix clocks, kept row by row, against literal matrices ----


def literal_deliveries(execution: Execution) -> Iterator[tuple[int, set[int], set[int]]]:
    """Replays an execution with a whole matrix per process and per message: Raynal, Schiper and Toueg to the letter.

    Gives, for each packet that was received, the process, what the rules deliver then and what was delivered.
    """
    n = len(execution.processes)
    known = [[[0] * n for _ in range(n)] for _ in range(n)]
    clocks: dict[int, list[list[int]]] = {}
    waiting: list[list[int]] = [[] for _ in range(n)]
    steps = [event for event in execution.events if event.kind in ("sent", "receive", "deliver")]
    for place, event in enumerate(steps):
        me = event.process
        if event.kind == "sent":
            for to in execution.destinations[event.message]:
                known[me][me][to] += 1
            clocks[event.message] = [list(row) for row in known[me]]
        elif event.kind == "receive":
            waiting[me].append(event.message)
            expected = set(deliver_all(me, known[me], clocks, waiting[me]))
            after = itertools.takewhile(lambda later: later.kind == "deliver", steps[place + 1 :])
            yield me, expected, {later.message for later in after}


def deliver_all(
    me: int, mine: list[list[int]], clocks: dict[int, list[list[int]]], waiting: list[int]
) -> Iterator[int]:
    found = True
    while found:
        found = False
        for message in list(waiting):
            sender, clock = message >> 32, clocks[message]
            if clock[sender][me] != mine[sender][me] + 1:
                continue
            if any(clock[k][me] > mine[k][me] for k in range(len(mine)) if k != sender):
                continue
            waiting.remove(message)
            for row, other in zip(mine, clock, strict=True):
                row[:] = map(max, row, other)
            yield message
            found = True


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_are_shared_say_what_whole_matrices_say(seed: int) -> None:
    for number in range(10):  # 1 in 100 holds back no more than three at a time
        draw = random.Random(seed + number)
        processes, fan_out = draw.randint(3, 7), draw.randint(1, 2)
        print(f"seed {seed + number}: {processes} processes, fan-out {fan_out}")
        faults = Faults(jitter_s=0.02, reordered_share=0.3, reordered_s=0.05)
        fields = {"messages_per_process": 40, "fan_out": fan_out, "faults": faults, "seed": seed + number}
        result = simple("causal-matrix", record=True, interval_s=0.002, processes=processes, **fields)
        assert result.execution is not None
        n_late = 0
        for _, expected, delivered in literal_deliveries(result.execution):
            assert delivered == expected
            n_late += len(expected) != 1
        assert n_late > 10
        if result.held_max > 3:
            break
    assert result.held_max > 3


# ---- judging, recording ----


def test_multicasts_of_point_to_point_orders_are_judged_whole_where_that_matters() -> None:
    result = simple("fifo", processes=4, messages_per_process=30, fan_out=2, judge=True, faults=HELD_UP)
    assert (result.messages, result.copies, result.deliveries) == (120, 240, 240)
    assert result.verdicts["consistent"].count > 0
    assert list(result.verdicts)[:3] == ["lost", "duplicated", "phantom"]


@pytest.mark.parametrize("name", ["fifo", "cykas", "causal-matrix", "skeen"])
def test_what_was_recorded_is_judged_as_the_run_was(name: str) -> None:
    result = simple(name, processes=4, messages_per_process=30, fan_out=2, judge=True, record=True, faults=HELD_UP)
    assert result.execution is not None
    assert {key: verdict.count for key, verdict in result.execution.judge().items()} == {
        key: verdict.count for key, verdict in result.verdicts.items()
    }


def test_a_run_that_is_neither_judged_nor_recorded_gives_the_same_figures() -> None:
    fields = {"processes": 10, "messages_per_process": 20, "fan_out": 2, "job_share": 0.5, "job_mean_s": 0.01}
    for name in ("cykas", "causal-vector", "lamport"):
        plain = simple(name, **fields).as_json()
        full = simple(name, judge=True, record=True, **fields).as_json()
        assert {key: full[key] for key in plain if key != "verdicts"} == {
            key: plain[key] for key in plain if key != "verdicts"
        }
        assert all(set(verdict) == {"ok", "count", "claimed"} for verdict in full["verdicts"].values())


def test_thousands_of_processes_where_metadata_is_bounded() -> None:
    for name in ("none", "fifo-ack", "mfss", "cykas"):
        result = run(Config(order=name, processes=3000, messages_per_process=5))
        assert (result.deliveries, result.unsent) == (15_000, 0)


def test_a_total_order_has_room_for_the_answers_of_several_servers_to_each_request() -> None:
    result = run(
        Config(order="lamport", processes=8, workload="client-server", hotspot_share=0.25, fan_out=2, interval_s=0.001)
    )
    assert result.deliveries == result.copies == 6 * 2 * 2 * result.config.messages_per_process


@pytest.mark.thread_unsafe(reason="signals come to the main thread")
def test_a_run_can_be_interrupted() -> None:
    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 (the signal may come at once)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            run(Config(order="mfss", processes=2, messages_per_process=100_000_000, interval_s=0))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


# ---- what is refused ----

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"order": "fast"}, "order 'fast': expected one of"),
    ({"processes": 1}, "processes is 1: expected 2 to 65536"),
    ({"messages_per_process": 0}, "messages_per_process is 0"),
    ({"interval_s": -1}, "interval_s is -1"),
    ({"interval_s": float("nan")}, "interval_s is nan"),
    ({"bandwidth_bytes_per_s": 0}, "bandwidth_bytes_per_s is 0"),
    ({"bandwidth_bytes_per_s": float("inf")}, "bandwidth_bytes_per_s is inf"),
    ({"payload_bytes": 1.5}, "payload_bytes is 1.5"),
    ({"workload": "burst"}, f"expected one of {', '.join(WORKLOADS)}"),
    ({"workload": "trace"}, "a schedule and the workload 'trace' belong together"),
    ({"schedule": letters()}, "a schedule and the workload 'trace' belong together"),
    ({"fan_out": 10}, "fan_out is 10: expected 1 to 9"),
    ({"fan_out": 3, "workload": "client-server", "hotspot_share": 0.2}, "fan_out is 3: expected 1 to 2"),
    ({"workload": "client-server", "hotspot_share": 1}, "expected to leave a client"),
    ({"hotspot_share": 1.1}, "hotspot_share is 1.1"),
    ({"job_share": -0.1}, "job_share is -0.1"),
    ({"seed": -1}, "seed is -1"),
    ({"order": "causal-matrix", "processes": 20_000}, "does not fit into a packet"),
    ({"order": "mfss", "faults": Faults(lost_share=0.1)}, "lost_share is 0.1: expected 0"),
    ({"order": "causal-matrix", "faults": Faults(lets_copies_pass=True)}, "lets_copies_pass"),
    ({"faults": Faults(partitions=[Partition(begin_s=0, end_s=1, side=[10])])}, "a process of a partition is 10"),
    ({"order": 5}, "order is 5: expected str"),
    ({"workload": "trace", "schedule": letters(), "fan_out": "x"}, "fan_out is 'x'"),
    ({"faults": None}, "faults is None: expected Faults"),
    ({"staggered": "yes"}, "staggered is 'yes': expected True or False"),
]


@pytest.mark.parametrize(("fields", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_a_configuration_that_makes_no_sense_is_refused_with_a_reason(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as found:
        run(Config(**({"order": "none", "processes": 10} | fields)))
    assert text in str(found.value)


def handmade(**columns: Any) -> Schedule:
    """Two messages from p0, changed."""
    fields: dict[str, Any] = {
        "participants": ("p0", "p1", "p2"),
        "times_s": array("d", [0, 1]),
        "senders": array("I", [0, 0]),
        "starts": array("Q", [0, 2, 3]),
        "recipients": array("I", [1, 2, 1]),
        "sizes_bytes": array("Q", [64, 64]),
    }
    return Schedule(**(fields | columns))


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"recipients": array("I", [1, 1, 2])}, "message 0 of the trace goes to process 1 twice"),
        ({"recipients": array("I", [1, 7, 2])}, "message 0 of the trace goes to process 7: there are 3"),
        ({"recipients": array("I", [1, 2])}, "and 2 recipients: expected a time, a sender, a size and a list"),
        ({"times_s": array("d", [0])}, "a schedule of 1 times, 2 senders"),
        ({"times_s": array("d", [0, 1e15])}, "message 1 of the trace comes at 1e"),
        ({"times_s": array("d", [0, float("inf")])}, "message 1 of the trace comes at inf s"),
        ({"times_s": array("d", [0, float("nan")])}, "message 1 of the trace comes at -?nan s"),
        ({"times_s": array("d", [1, 0])}, "message 1 of the trace comes before the one before it"),
        ({"senders": array("Q", [0, 0])}, "a column of a schedule has 8 bytes per item: expected uint32_t"),
    ],
)
def test_a_schedule_made_by_hand_is_checked(columns: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        run(Config(order="causal-matrix", workload="trace", schedule=handmade(**columns)))


def test_faults_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^partitions\[0\] is 1: expected Partition"):
        Faults(partitions=[1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="partitions is 5: expected Iterable"):
        Faults(partitions=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="side is None: expected Iterable"):
        Partition(begin_s=0, end_s=1, side=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="doubled_share is 2"):
        Faults(doubled_share=2)
    with pytest.raises(ValueError, match="an end after its beginning"):
        Partition(begin_s=2, end_s=1, side=[0])


def test_a_model_in_another_library_comes_to_the_same_times() -> None:
    pytest.importorskip("simpy")
    programs = simpy_model.draw(10, 20, interval_ns=1_000_000, seed=1)
    config = simpy_model.config_of(programs)
    result, model = run(config), simpy_model.Model(config, programs)
    model.run()
    assert result.events == 3 * 200
    assert len(model.latencies_ns) == result.deliveries
    assert model.last_ns == pytest.approx(result.execution_time_s * 1e9, abs=0.5)
    assert statistics.fmean(model.latencies_ns) == pytest.approx(result.latency_mean_s * 1e9, abs=0.5)
    assert max(model.latencies_ns) == pytest.approx(result.latency_max_s * 1e9, abs=0.5)


def test_hours_of_latency_over_a_million_deliveries_add_up() -> None:
    result = run(Config(order="none", processes=100, fan_out=99, bandwidth_bytes_per_s=20.0, judge=False))
    assert result.latency_mean_s * result.deliveries > 2**64 / 1e9  # does not fit into 64 bits of nanoseconds
    assert result.latency_p50_s / 2 < result.latency_mean_s < result.latency_p50_s * 2


@pytest.mark.parametrize(
    "fields",
    [
        {"propagation_delay_s": 1e9},
        {"bandwidth_bytes_per_s": 1e-3, "payload_bytes": 2**30},
        {"job_share": 1, "job_mean_s": 1e9},
    ],
    ids=["propagation", "bandwidth", "jobs"],
)
def test_a_simulation_that_would_take_centuries_ends_with_a_reason(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="more than 146 years"):
        run(Config(**({"order": "mfss", "processes": 2, "messages_per_process": 50} | fields)))


@pytest.mark.parametrize("order", [name for name, order in busq.orders.ORDERS.items() if order.clock == "none"])
@pytest.mark.parametrize("workload", ["random", "client-server"])
def test_copies_that_an_order_cannot_take_are_counted_and_end_nothing(order: str, workload: str) -> None:
    for seed in range(10):
        faults = Faults(doubled_share=0.3, doubled_s=0.05, reordered_share=0.3, reordered_s=0.05, lets_copies_pass=True)
        fields = {"processes": 5, "messages_per_process": 10, "hotspot_share": 0.2, "workload": workload}
        run(Config(order=order, seed=seed, faults=faults, **fields))


def test_fifo_stands_copies() -> None:
    for seed in range(30):
        faults = Faults(doubled_share=0.3, doubled_s=0.05, reordered_share=0.3, reordered_s=0.05, lets_copies_pass=True)
        result = run(Config(order="fifo", processes=5, messages_per_process=20, seed=seed, faults=faults))
        assert result.ok, seed


@pytest.mark.parametrize("order", ["none", "fifo:on_gap=skip"])
def test_what_the_network_loses_is_not_held_against_an_order_that_goes_on(order: str) -> None:
    result = run(Config(order=order, processes=5, judge=True, seed=1, faults=Faults(lost_share=0.1)))
    assert result.verdicts["lost"].count == result.packets_lost + result.dropped > 0
    assert result.ok
    assert result.as_json()["verdicts"]["lost"]["claimed"] is False


def test_verdicts_call_messages_by_process_and_number() -> None:
    faults = Faults(reordered_share=0.5, reordered_s=0.05)
    result = run(Config(order="none", processes=3, judge=True, seed=1, faults=faults))
    assert re.search(r"p\d delivered p\d\.\d+ before p\d\.\d+", result.verdicts["fifo"].text)


def test_no_gap_is_waited_for_longer_than_twice_the_patience_however_many_there_are() -> None:
    fields = {"processes": 2, "messages_per_process": 100, "interval_s": 0.0, "bandwidth_bytes_per_s": 1e7}
    result = run(Config(order="fifo:on_gap=skip", faults=Faults(lost_share=0.3), patience_s=1.0, **fields))
    assert result.packets_lost > 10
    assert 1.0 <= result.latency_max_s < 2.1


# ---- what the options of bus1 save ----


def blocked_s(found: Result) -> float:
    """How long messages wait in the queues of their receivers, all together: for a block before them."""
    came: dict[tuple[int, int], float] = {}
    waited = 0.0
    assert found.execution is not None
    for event in found.execution.events:
        if event.kind == "receive" and event.what in ("queue", "unicast"):
            came[event.message, event.process] = event.time_s
        elif event.kind == "deliver":
            waited += event.time_s - came[event.message, event.process]
    return waited


def with_jitter(order: str, fan_out: int) -> list[Result]:
    return [
        run(
            Config(
                order=order,
                processes=10,
                messages_per_process=100,
                interval_s=0.2,
                fan_out=fan_out,
                bandwidth_bytes_per_s=1e6,
                staggered=True,
                faults=Faults(jitter_s=0.02),
                seed=seed,
                judge=True,
                record=True,
            )
        )
        for seed in (1, 2, 3)
    ]


def test_a_unicast_of_bus1_without_a_block_takes_two_packets_of_five_and_a_fifth_of_the_time() -> None:
    plain, direct = with_jitter("bus1", 1), with_jitter("bus1:unicast=direct", 1)
    assert all(found.ok for found in (*plain, *direct))
    assert [sum(found.packets.values()) for found in plain] == [5000] * 3
    assert [sum(found.packets.values()) for found in direct] == [2000] * 3
    assert all(short.latency_mean_s < found.latency_mean_s / 4 for short, found in zip(direct, plain, strict=True))


def test_a_block_at_the_best_estimate_blocks_for_a_shorter_time() -> None:
    plain, best = with_jitter("bus1", 1), with_jitter("bus1:estimate=best", 1)
    assert all(found.ok for found in best)
    assert all(found.packets == other.packets for found, other in zip(best, plain, strict=True))
    assert sum(map(blocked_s, best)) < 0.95 * sum(map(blocked_s, plain))
