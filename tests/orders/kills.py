# SPDX-License-Identifier: Apache-2.0
"""Rounds of processes on a bus under one order, some of which are killed in the middle of what they do; judged.

Each process writes what it sends and receives into memory that outlives it: a send before the call, a delivery after.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import signal
import struct
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field

from conftest import PATIENCE_S

import busq
from busq.lab.deaths import judged_by_deaths
from busq.orders import parse
from busq.spec import History

PROCESSES = 4  # a test may choose another number
MESSAGES = 12  # of each process
ROWS = 256  # of each process, and more than it writes
ROW = struct.Struct("<QII")  # a message, its destinations as a set of bits, and what happened
NONE, SENT, DELIVERED = range(3)
HEAD = struct.Struct("<III")  # rows, whether it has sent all, whether it has failed
AREA = HEAD.size + ROWS * ROW.size


@dataclass
class Memory:
    """The logs of all processes, and a byte in front that ends the round."""

    raw: mmap.mmap = field(default_factory=lambda: mmap.mmap(-1, 1 + PROCESSES * AREA))

    def head(self, process: int) -> tuple[int, int, int]:
        rows, is_done, has_failed = HEAD.unpack_from(self.raw, 1 + process * AREA)
        return rows, is_done, has_failed

    def set_head(self, process: int, rows: int, is_done: int, has_failed: int = 0) -> None:
        HEAD.pack_into(self.raw, 1 + process * AREA, rows, is_done, has_failed)

    def write(self, process: int, row: int, message: int, to: int, what: int) -> None:
        ROW.pack_into(self.raw, 1 + process * AREA + HEAD.size + row * ROW.size, message, to, what)

    def rows(self, process: int) -> Iterator[tuple[int, int, int]]:
        for row in range(self.head(process)[0]):
            message, to, what = ROW.unpack_from(self.raw, 1 + process * AREA + HEAD.size + row * ROW.size)
            yield message, to, what


def destinations_of(to: int) -> list[int]:
    return [process for process in range(PROCESSES) if to >> process & 1]


class Member:
    """A process of a round: sends and receives at random until the round ends."""

    def __init__(self, bus_name: str, me: int, seed: int, memory: Memory, fan_out: int) -> None:
        self._bus_name, self._me, self._memory, self._fan_out = bus_name, me, memory, fan_out
        self._chance = random.Random(f"{seed} {me}")
        self._n_rows = self._n_sent = 0

    def run(self) -> None:
        with busq.Bus.open(self._bus_name) as bus, bus.join(f"p{self._me}") as peer:
            while not self._memory.raw[0]:
                if self._n_sent < MESSAGES and self._chance.random() < 0.4:
                    self._send(peer)
                    continue
                try:
                    message = peer.recv(timeout=0 if self._n_sent < MESSAGES else 0.01)
                except busq.Empty:
                    continue
                self._write(int.from_bytes(message.data, "little"), 0, DELIVERED)

    def _write(self, message: int, to: int, what: int) -> None:
        self._memory.write(self._me, self._n_rows, message, to, what)
        self._n_rows += 1
        self._memory.set_head(self._me, self._n_rows, self._n_sent == MESSAGES)

    def _send(self, peer: busq.Peer) -> None:
        others = [one for one in range(PROCESSES) if one != self._me]
        chosen = self._chance.sample(others, self._chance.randint(1, self._fan_out))
        message, to, row = self._me << 32 | self._n_sent + 1, sum(1 << one for one in chosen), self._n_rows
        self._write(message, to, SENT)
        try:
            peer.send([f"p{one}" for one in chosen], message.to_bytes(8, "little"), timeout=0.01)
        except busq.errors.Unfinished:
            pass  # it is in flight
        except (busq.Full, busq.UnknownPeer):  # others wait for room, too, perhaps here, or have not joined
            self._n_rows = row
            self._memory.set_head(self._me, row, 0)
            return
        except busq.PeerDead:
            self._memory.write(self._me, row, message, to, NONE)
        self._n_sent += 1
        self._memory.set_head(self._me, self._n_rows, self._n_sent == MESSAGES)


def start(member: Member, memory: Memory, me: int) -> int:
    child = os.fork()
    if child:
        return child
    try:
        member.run()
    except BaseException:
        traceback.print_exc()
        memory.set_head(me, memory.head(me)[0], 0, 1)
    finally:
        os._exit(0)


def history_of(memory: Memory) -> History:
    history = History(PROCESSES)
    for process in range(PROCESSES):
        for message, to, what in memory.rows(process):
            if what == SENT:
                history.send(process, message, destinations_of(to))
            elif what == DELIVERED:
                history.deliver(process, message)
    return history


def broken_by_deaths(memory: Memory, dead: set[int], kept: frozenset[str]) -> dict[str, str]:
    verdicts = judged_by_deaths(history_of(memory), dead, lambda message: f"p{message >> 32}.{message & 0xFFFFFFFF}")
    return {name: verdict.text for name, verdict in verdicts.items() if name in kept and not verdict.ok}


def kill(members: list[int], victims: dict[int, int], memory: Memory, chance: random.Random) -> None:
    """Kill each victim when it has written so many rows, and a moment later.

    Mostly another process stands still meanwhile, with a mailbox that fills up: so victims die with packets that they
    could not send, and it finds some of the dead when it goes on.  The second victim may follow as soon as it has
    delivered what the first one has sent last.
    """
    stopped = chance.choice([one for one in range(PROCESSES) if one not in victims])
    order = sorted(victims, key=lambda one: victims[one])
    is_stopping, is_following = chance.random() < 0.8, chance.random() < 0.7
    begun = max(2, victims[order[0]] - chance.randint(0, 4))  # with two rows of one process, all have joined
    reach(memory, order[0], begun, time.monotonic() + PATIENCE_S)
    if is_stopping:
        os.kill(members[stopped], signal.SIGSTOP)
    try:
        for place, victim in enumerate(order):
            if place and is_following:
                follow(memory, victim, order[0], time.monotonic() + 0.01)
            else:
                reach(memory, victim, victims[victim], time.monotonic() + (0.05 if is_stopping else PATIENCE_S))
                moment = time.perf_counter() + chance.random() * chance.choice((0, 0.0001, 0.0005))
                while time.perf_counter() < moment:
                    pass
            os.kill(members[victim], signal.SIGKILL)
            os.waitpid(members[victim], 0)
    finally:
        os.kill(members[stopped], signal.SIGCONT)


def reach(memory: Memory, process: int, rows: int, end: float) -> None:
    while memory.head(process)[0] < rows and time.monotonic() < end:
        pass


def follow(memory: Memory, process: int, dead: int, end: float) -> None:
    """Wait until this process has delivered the last message of the dead, or for a while."""
    last = max((message for message, _, what in memory.rows(dead) if what == SENT), default=0)
    while time.monotonic() < end:
        if any(message == last and what == DELIVERED for message, _, what in memory.rows(process)):
            return


def settle(memory: Memory, dead: set[int], kept: frozenset[str]) -> dict[str, str]:
    """Wait until the living have sent all, and nothing is missing among them; what is broken if that does not come."""
    living = [process for process in range(PROCESSES) if process not in dead]
    end = time.monotonic() + PATIENCE_S
    while True:
        heads = [memory.head(process) for process in living]
        if any(has_failed for _, _, has_failed in heads):
            return {"failed": f"one of {living} has raised an exception"}
        broken = {} if all(is_done for _, is_done, _ in heads) else {"stuck": f"{heads} of {living}"}
        broken = broken or broken_by_deaths(memory, dead, kept)
        if not broken or time.monotonic() > end:
            return broken
        time.sleep(0.003)


def play(bus_name: str, order: str, seed: int, deaths: int = 2) -> tuple[int, dict[str, str]]:
    """One round on this bus: how many were killed, and what was broken of what the order claims, in words."""
    chance = random.Random(seed)
    kind, options = parse(order)
    fan_out = 1 if kind.point_to_point else PROCESSES - 1
    victims = {
        one: chance.randint(1, MESSAGES) for one in chance.sample(range(PROCESSES), chance.choice((1, deaths, deaths)))
    }
    memory = Memory()
    members = [start(Member(bus_name, me, seed, memory, fan_out), memory, me) for me in range(PROCESSES)]
    dead: set[int] = set()
    try:
        kill(members, victims, memory, chance)
        dead = set(victims)
        broken = settle(memory, dead, kind.under_crashes(options, PROCESSES, len(dead)))
    finally:
        memory.raw[0] = 1
        for member in members:
            with contextlib.suppress(ChildProcessError):  # it was killed, and waited for
                os.waitpid(member, 0)
    # A rendezvous promises of what the order does, and that is not what applications see.
    claims = kind.claims - {"lost", "synchronous"}
    for name, verdict in history_of(memory).judge(claims).items():
        if not verdict.ok:
            broken[name] = verdict.text
    return len(victims), broken
