# SPDX-License-Identifier: Apache-2.0
"""All that drives orders, with one interface for tests: play a random workload, and report what came of it."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import plays
from conftest import PATIENCE_S

import busq
from busq import sim
from busq.lab.execution import judge
from busq.spec import PROPERTIES, History, Verdict

DRAWS = (plays.to_one_other, plays.to_some, plays.to_all_others)


@dataclass(frozen=True)
class Outcome:
    """`is_complete`: all was sent, and delivered or (where the order reports it) dropped; `story`: how to replay it."""

    verdicts: dict[str, Verdict]
    is_complete: bool
    story: str

    def broken(self, properties: frozenset[str]) -> dict[str, str]:
        return {name: one.text for name, one in self.verdicts.items() if name in properties and not one.ok}


# ---- the stage: whatever arrives next ----


def on_stage(order: str, seed: int) -> Outcome:
    """A few processes, a few messages, packets in any order that the channels allow."""
    chance = random.Random(seed)
    processes, draw = chance.randint(2, 5), chance.choice(DRAWS)
    stage = plays.play(order, processes, seed, messages=chance.randint(2, 24), draw=draw)
    return Outcome(stage.judge(), stage.is_quiet, f"on_stage({order!r}, {seed})")


# ---- the simulator: a network with faults ----


def in_simulator(order: str, seed: int) -> Outcome:
    """A network on which packets are late, come twice, overtake each other, and for a while do not get through."""
    chance = random.Random(seed)
    processes = chance.randint(2, 8)
    partition = sim.Partition(
        begin_s=0.02, end_s=0.2, side=chance.sample(range(processes), chance.randint(1, processes))
    )
    servers = max(1, processes // 4)
    workload = chance.choice(("random", "ring", "hotspot", "client-server"))
    config = sim.Config(
        order=order,
        processes=processes,
        messages_per_process=chance.randint(1, 30),
        interval_s=chance.choice((0.0, 0.001, 0.02)),
        workload=workload,
        fan_out=chance.randint(1, servers if workload == "client-server" else processes - 1),
        hotspot_share=servers / processes,
        bandwidth_bytes_per_s=chance.choice((2e4, 1e9)),
        patience_s=10,  # of fifo:on_gap=skip: longer than anything is late
        seed=seed,
        faults=sim.Faults(
            jitter_s=chance.choice((0.0, 0.01)),
            reordered_share=0.3,
            reordered_s=0.05,
            doubled_share=0.2,
            doubled_s=0.05,
            partitions=[partition] if chance.random() < 0.5 else [],
        ),
        judge=True,
    )
    result = sim.run(config)
    is_complete = result.unsent == 0 and result.deliveries == result.copies
    return Outcome(dict(result.verdicts), is_complete, f"in_simulator({order!r}, {seed})")


# ---- live: processes, and a network that shuffles ----

LIVE_PROCESSES = 3
LIVE_MESSAGES = 10
SHUFFLE_MS = 2


def live_plan(seed: int) -> list[list[list[int]]]:
    """By process: the destinations of its messages."""
    chance = random.Random(seed)
    n = LIVE_PROCESSES
    return [[chance.choice(DRAWS)(chance, n, me) for _ in range(LIVE_MESSAGES)] for me in range(n)]


def live_member(
    bus_name: str, me: int, seed: int, plan: list[list[list[int]]], barrier: Any
) -> tuple[list[tuple[str, int, tuple[int, ...]]], int]:
    """One process: sends and receives at random, until it has everything.

    Returns its log, (what, message, destinations) with copies and their multicasts as names, and how many it received.
    """
    chance = random.Random(f"{seed} {me}")
    with busq.Bus.open(bus_name) as bus, bus.join(f"p{me}") as peer:
        barrier.wait(PATIENCE_S)
        if hasattr(peer, "_journal_start"):
            peer._journal_start()
        barrier.wait(PATIENCE_S)
        log: list[tuple[str, int, tuple[int, ...]]] = []
        todo = [(to, name) for name, to in enumerate(plan[me], me << 32 | 1)]
        expected = sum(me in to for sends in plan for to in sends)
        received = 0
        while todo or received < expected:
            if todo and (received == expected or chance.random() < 0.5):
                to, name = todo.pop(0)
                log.append(("send", name, tuple(to)))
                peer.send([f"p{one}" for one in to], name.to_bytes(8, "little"), timeout=PATIENCE_S)
                continue
            try:
                message = peer.recv(timeout=0 if todo else PATIENCE_S)
            except busq.Empty:
                assert todo, f"{received} of {expected} messages came"
                continue
            log.append(("deliver", int.from_bytes(message.data, "little"), ()))
            received += 1
        barrier.wait(PATIENCE_S)
        if hasattr(peer, "_journal"):
            numbers = {peer._number_of(f"p{one}"): one for one in range(LIVE_PROCESSES)}
            log = read_journal(peer._journal(), numbers)
        barrier.wait(PATIENCE_S)
    return log, received


def read_journal(journal: Any, numbers: dict[int, int]) -> list[tuple[str, int, tuple[int, ...]]]:
    """The log of what the order did: its send events are not the application's calls."""
    log: list[tuple[str, int, tuple[int, ...]]] = []
    columns = zip(*(journal[name] for name in ("deliver", "message", "process", "multicast")), strict=True)
    for is_delivery, message, process, multicast in columns:
        if is_delivery:
            log.append(("deliver", message, (multicast,)))
        else:
            log.append(("send", message, (multicast, numbers[process])))
    return log


def tell(logs: list[list[tuple[str, int, tuple[int, ...]]]], whole: bool) -> History:
    """The history of copies, or of whole multicasts, from the journals of an order."""
    to: dict[int, list[int]] = {}
    for log in logs:
        for what, message, rest in log:
            if what == "send":
                to.setdefault(rest[0] if whole else message, []).append(rest[1])
    history = History(LIVE_PROCESSES)
    seen: set[int] = set()
    for process, log in enumerate(logs):
        for what, message, rest in log:
            name = rest[0] if whole else message
            if what == "deliver":
                history.deliver(process, name)
            elif name not in seen:
                seen.add(name)
                history.send(process, name, to[name])
    return history


def tell_calls(logs: list[list[tuple[str, int, tuple[int, ...]]]]) -> History:
    """The history of the application's own calls: what bus1 promises is true of them."""
    history = History(LIVE_PROCESSES)
    for process, log in enumerate(logs):
        for what, message, to in log:
            if what == "send":
                history.send(process, message, to)
            else:
                history.deliver(process, message)
    return history


def live(order: str, seed: int, make_bus: Callable[..., busq.Bus], fork: Callable[..., Any]) -> Outcome:
    """Processes on a bus whose packets are shuffled; judged by what the order itself wrote down."""
    plan = live_plan(seed)
    bus = make_bus(order=order, peers=LIVE_PROCESSES, capacity=256)
    barrier = multiprocessing.get_context("fork").Barrier(LIVE_PROCESSES)
    children = [fork(live_member, bus.name, me, seed, plan, barrier) for me in range(LIVE_PROCESSES)]
    results = [child.result() for child in children]
    logs = [log for log, _ in results]
    copies = sum(len(to) for sends in plan for to in sends)
    is_complete = sum(received for _, received in results) == copies
    has_journal = order != "bus1"  # with options it is the message form, which has one
    if has_journal:
        verdicts = judge(lambda whole: tell(logs, whole), True, PROPERTIES, lambda message: f"m{message}")
    else:
        verdicts = tell_calls(logs).judge()
    return Outcome(verdicts, is_complete, f"live({order!r}, {seed})")
