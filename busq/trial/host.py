# SPDX-License-Identifier: Apache-2.0
"""One process of a replay: it hosts participants, each a peer of its own, in one loop without threads.

The loop never blocks in a call of the bus, but for rendezvous, which others end.  It sends what is due; where a
receiver's queue is full, it goes on receiving for all of its peers before it tries again, so that processes that wait
for room in each other's queues cannot wait in a circle.

Every participant writes down privately what it sent and received, in program order: a send before the call that
sends, a delivery after the call that returned it.  The observers learn nothing else.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import select
import struct
import time
import traceback
import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from multiprocessing.connection import Connection
from typing import Any

import busq
from busq._port.deadline import Deadline
from busq._util.processes import open_words
from busq.lab import execution
from busq.lab.workload import Schedule
from busq.ordered import OrderedPeer
from busq.orders import parse

__all__ = [
    "COUNTERS",
    "NATIVE",
    "Cost",
    "Counter",
    "HostReport",
    "Journal",
    "Log",
    "Part",
    "host",
    "make_payload",
    "read_payload",
]

NATIVE = "bus1"  # the order that a bus keeps by itself, without packets

_CHECKSUM = struct.Struct("<I")
_BODY = struct.Struct("<QQ")  # the message, and when its sender first tried to send it, in ns of CLOCK_MONOTONIC
PAYLOAD_BYTES_MIN = _CHECKSUM.size + _BODY.size

_NOISE = random.Random(0).randbytes(1 << 16)

BURST = 16  # sends between two looks at the own queues
ROUNDS = 64  # looks at the own queues between two bursts, while there is something in them
YIELDS = 16
NAP_S_MIN = 2e-5
NAP_S_MAX = 1e-3
IDLE_S = 0.05


class Counter(IntEnum):
    """The shared counters of a process, which has room for `COUNTERS`: one line of the cache."""

    SENT = 0
    DELIVERED = 1
    FULL = 2  # how often a send found no room
    WAITING = 3  # 1 while it wants to send and finds no room, or waits for a rendezvous


COUNTERS = 8


@dataclass(frozen=True)
class Part:
    """The task of one process: the participants that it hosts, at what pace (None: at once), in which order."""

    bus: str
    schedule: Schedule
    hosted: tuple[int, ...]
    pace: float | None
    order: str
    shuffle: str | None  # how packets are made to overtake each other: "seed:milliseconds"


class Log(execution.Log):
    """The log of one participant, and latencies."""

    def __init__(self) -> None:
        super().__init__()
        self.latencies_ns = array("Q")


@dataclass(frozen=True)
class Cost:
    """The cost of an execution, or of one process of it.

    A packet is what is put into one queue of the bus: where the bus itself orders messages, a copy of a message; else
    what the order sends, acknowledgements and the like included.
    """

    packets: int = 0
    bytes: int = 0  # copied into the bus's memory for them, a multicast's payload once for each time it is copied
    wakeups: int = 0  # how often a thread slept and was woken, as the kernel counts it
    cpu_s: float = 0.0  # of the processor, by all threads

    @staticmethod
    def sum(costs: Iterable[Cost]) -> Cost:
        """Return what all of them come to."""
        rows = [(cost.packets, cost.bytes, cost.wakeups, cost.cpu_s) for cost in costs]
        return Cost(*(sum(column) for column in zip(*rows, strict=True)))


# The journal of the order itself, in its own order: the columns that `busq.ordered.OrderedPeer` keeps.
Journal = dict[str, "array[int]"]


@dataclass
class HostReport:
    """The report of one process at the end."""

    logs: dict[int, Log]
    damage: list[str]
    damaged: int
    first_ns: int
    last_ns: int
    behind_ns_max: int
    cost: Cost = field(default_factory=Cost)
    journals: dict[int, Journal] = field(default_factory=dict)  # by number in the group


def make_payload(message: int, size_bytes: int, now_ns: int) -> bytes:
    """Return a payload of this size, at least 20 bytes, that carries its own checksum.

    >>> read_payload(make_payload(7, 64, 12345))
    (7, 12345)
    """
    filler_bytes = max(0, size_bytes - PAYLOAD_BYTES_MIN)
    start = message * 61 % 4096
    noise = _NOISE
    if start + filler_bytes > len(noise):
        noise = noise * ((start + filler_bytes) // len(noise) + 1)
    body = _BODY.pack(message, now_ns) + noise[start : start + filler_bytes]
    return _CHECKSUM.pack(zlib.crc32(body)) + body


def read_payload(payload: bytes | memoryview) -> tuple[int, int] | None:
    """Return the message and the time in a payload, or None if it is damaged.  Cost: 0.5 us and 1 ns per byte.

    >>> read_payload(b"x" * 64) is None
    True
    """
    if len(payload) < PAYLOAD_BYTES_MIN or zlib.crc32(payload[_CHECKSUM.size :]) != _CHECKSUM.unpack_from(payload)[0]:
        return None
    message, now_ns = _BODY.unpack_from(payload, _CHECKSUM.size)
    return message, now_ns


class _PatientPeer(OrderedPeer):
    """A peer whose sends, where they are a rendezvous, refuse at once what finds no room, and else wait for the end.

    Waiting for room in a call could be waiting in a circle; waiting for the end of a rendezvous is not, because the
    receiver's progress thread delivers while its application waits for something else.
    """

    def _finish(self, ticket: Any, deadline: Deadline) -> None:
        super()._finish(ticket, Deadline(None))


class _Participant:
    """A hosted participant: its peer and its log."""

    __slots__ = ("index", "log", "peer")

    def __init__(self, index: int, peer: busq.Peer | OrderedPeer) -> None:
        self.index = index
        self.peer = peer
        self.log = Log()


class _Host:
    def __init__(self, part: Part, control: Connection[Any, Any], counters: memoryview) -> None:
        self._schedule = part.schedule
        self._pace = part.pace
        self._control = control
        self._counters = counters
        self._bus = busq.Bus.open(part.bus)
        self._order = parse(part.order)[0]
        self._hosted = {index: _Participant(index, self._join(part, index)) for index in part.hosted}
        self._mine = array("Q", (i for i, sender in enumerate(part.schedule.senders) if sender in self._hosted))
        self._next = 0
        self._payload: bytes | None = None  # of the message that is tried now
        self._expected = sum(recipient in self._hosted for recipient in part.schedule.recipients)
        self._has_finished = False
        self._is_stopped = False
        self._start_ns = 0
        self._yields = 0
        self._delivered = self._full = 0
        self._packets = self._bytes = 0  # of the bus's own order
        self.report = HostReport({index: member.log for index, member in self._hosted.items()}, [], 0, 0, 0, 0)
        self._poll = select.epoll()
        self._by_fd = {member.peer.fileno(): member for member in self._hosted.values()}
        for fd in (control.fileno(), *self._by_fd):
            self._poll.register(fd, select.EPOLLIN)

    def _join(self, part: Part, index: int) -> busq.Peer | OrderedPeer:
        name = part.schedule.participants[index]
        if self._order.name == NATIVE:
            return self._bus.join(name)
        peer = _PatientPeer(self._bus, name, part.order, shuffle=part.shuffle or "")
        if "synchronous" in self._order.claims:
            peer._journal_start()
        return peer

    # ---- the loop ----

    def run(self, start_ns: int) -> None:
        """Send and receive until the other end sends "stop"."""
        self._start_ns = idle_ns = start_ns
        before = resource.getrusage(resource.RUSAGE_SELF)
        while not self._is_stopped:
            sent = self._send_due()
            self._report_finish()
            received = self._receive(self._patience_s(sent))
            if sent or received:
                self._yields = 0
                idle_ns = time.monotonic_ns()
            elif time.monotonic_ns() - idle_ns > IDLE_S * 1e9:
                received = self._sweep()
                idle_ns = time.monotonic_ns()
            for _ in range(ROUNDS):  # what has come goes before what is sent next, or queues would only ever be full
                if not received:
                    break
                received = self._receive(0)
        self.report.cost = self._cost_since(before)
        while self._sweep():
            pass
        if "synchronous" in self._order.claims:
            self.report.journals = {peer.order_stats()["process"]: peer._journal() for peer in self._ordered_peers()}

    def _ordered_peers(self) -> list[OrderedPeer]:
        return [member.peer for member in self._hosted.values() if isinstance(member.peer, OrderedPeer)]

    def _cost_since(self, before: resource.struct_rusage) -> Cost:
        """Return what this process has spent; packets since it joined, for others may have begun before us."""
        packets, packets_bytes = self._packets, self._bytes
        for peer in self._ordered_peers():
            stats = peer.order_stats()
            packets += sum(stats["packets_sent"].values())
            packets_bytes += stats["bytes_sent"]
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = usage.ru_utime + usage.ru_stime - before.ru_utime - before.ru_stime
        return Cost(packets, packets_bytes, usage.ru_nvcsw - before.ru_nvcsw, cpu_s)

    def _sweep(self) -> int:
        """Look at every queue, announced or not: a sender that died, or ran out of descriptors, wakes no receiver."""
        return sum(self._receive_one(member) for member in self._hosted.values())

    def _report_finish(self) -> None:
        if not self._has_finished and self._next == len(self._mine) and self._delivered >= self._expected:
            self._has_finished = True
            self._control.send("finished")

    def _patience_s(self, sent: int) -> float:
        """How long the loop may wait for a message now."""
        if sent == BURST:
            return 0
        if self._next == len(self._mine):
            return IDLE_S
        if self._payload is not None:
            return 0 if sent else self._nap()
        ahead_ms = (self._due_ns() - time.monotonic_ns()) // 1_000_000  # polling has a resolution of a millisecond
        return min(ahead_ms / 1e3, IDLE_S) if ahead_ms > 0 else self._nap(NAP_S_MIN)

    def _nap(self, longest_s: float = NAP_S_MAX) -> float:
        """Wait for room, which nothing announces: give way, then doze, a little longer each time."""
        self._yields += 1
        if self._yields <= YIELDS:
            os.sched_yield()
        else:
            time.sleep(min(longest_s, NAP_S_MIN * (self._yields - YIELDS)))
        return 0

    # ---- sending ----

    def _due_ns(self) -> int:
        if self._pace is None:
            return self._start_ns
        times_s = self._schedule.times_s
        return self._start_ns + int((times_s[self._mine[self._next]] - times_s[0]) * 1e9 / self._pace)

    def _send_due(self) -> int:
        """Send up to a burst of what is due; end early where there is no room."""
        for sent in range(BURST):
            if self._next == len(self._mine):
                return sent
            if self._pace is not None and self._payload is None:
                behind_ns = time.monotonic_ns() - self._due_ns()
                if behind_ns < 0:
                    return sent
                self.report.behind_ns_max = max(self.report.behind_ns_max, behind_ns)
            if not self._send_next():
                return sent
        return BURST

    def _send_next(self) -> bool:
        schedule, message = self._schedule, self._mine[self._next]
        to = schedule.to(message)
        member = self._hosted[schedule.senders[message]]
        if self._payload is None:
            now_ns = time.monotonic_ns()
            self._payload = make_payload(message, schedule.sizes_bytes[message], now_ns)
            self.report.first_ns = self.report.first_ns or now_ns
        log = member.log
        log.kinds.append(1)
        log.messages.append(message)
        if self._order.rendezvous:
            self._counters[Counter.WAITING] = 1  # perhaps for ever
        try:
            member.peer.send([schedule.participants[index] for index in to], self._payload, timeout=0)
        except busq.Full:
            # Nothing was sent: whatever is received before the next try comes before it.
            log.kinds.pop()
            log.messages.pop()
            self._full += 1
            self._counters[Counter.FULL] = self._full
            self._counters[Counter.WAITING] = 1
            return False
        if self._order.name == NATIVE:
            self._packets += len(to)
            self._bytes += len(self._payload)
        log.counts.append(len(to))
        log.destinations.extend(to)
        self._payload = None
        self._next += 1
        self._counters[Counter.SENT] = self._next
        self._counters[Counter.WAITING] = 0
        return True

    # ---- receiving ----

    def _receive(self, patience_s: float) -> int:
        """Take one message from every peer that has some; mind the other end."""
        received = 0
        for fd, _ in self._poll.poll(patience_s):
            member = self._by_fd.get(fd)
            if member is None:
                self._is_stopped = self._control.recv() == "stop"
            else:
                received += self._receive_one(member)
        return received

    def _receive_one(self, member: _Participant) -> bool:
        try:
            message = member.peer.recv(0)
        except busq.Empty:
            return False
        now_ns = time.monotonic_ns()
        self.report.last_ns = now_ns
        with message.view() as payload:
            read = read_payload(payload)
            size_bytes = payload.nbytes
        self._delivered += 1
        self._counters[Counter.DELIVERED] = self._delivered
        fault = self._fault(read, size_bytes, message.sender)
        if fault or read is None:
            self.report.damaged += 1
            if len(self.report.damage) < 3:
                self.report.damage.append(f"{member.peer.name} received {fault}")
            return True
        log = member.log
        log.kinds.append(0)
        log.messages.append(read[0])
        log.latencies_ns.append(max(0, now_ns - read[1]))
        return True

    def _fault(self, fault: tuple[int, int] | None, size_bytes: int, sender: str) -> str | None:
        """Return the fault of a payload, compared with the schedule."""
        if fault is None:
            return f"{size_bytes} bytes from {sender} with a wrong checksum"
        schedule, message = self._schedule, fault[0]
        if message >= len(schedule):
            return f"message {message} from {sender}; there are {len(schedule)}"
        expected_bytes = max(PAYLOAD_BYTES_MIN, schedule.sizes_bytes[message])
        expected_sender = schedule.participants[schedule.senders[message]]
        if size_bytes != expected_bytes or sender != expected_sender:
            expected = f"{expected_bytes} bytes from {expected_sender}"
            return f"message {message} with {size_bytes} bytes from {sender}; expected {expected}"
        return None

    def close(self) -> None:
        """Leave the bus with all peers."""
        for member in self._hosted.values():
            member.peer.close()
        self._bus.close()


def _raise_file_limit() -> None:
    """Allow more descriptors: a peer costs a few, and so does each peer that it wakes."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _serve(control: Connection[Any, Any], counters: memoryview) -> None:
    part: Part = control.recv()
    hosting = _Host(part, control, counters)
    try:
        control.send("joined")
        hosting.run(control.recv())
        control.send(hosting.report)
        control.recv()  # "bye": until then no sender may find a receiver gone
    finally:
        hosting.close()


def host(control_fd: str, counters_fd: str, number: str, bus: str) -> None:
    """Run as one process of a replay.

    Given are the descriptor of a connection, that of the shared counters, which of these are ours, and the name of the
    bus.
    """
    control: Connection[Any, Any] = Connection(int(control_fd))
    first = int(number) * COUNTERS
    counters = open_words(counters_fd)[first : first + COUNTERS]
    _raise_file_limit()
    try:
        _serve(control, counters)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        # The conductor has ended, and perhaps no other process is left to remove the bus.
        with contextlib.suppress(FileNotFoundError):
            busq.Bus.unlink(bus)
    except Exception as error:
        expected = isinstance(error, (busq.BusqError, OSError, ValueError))
        text = f"{type(error).__name__}: {error}" if expected else traceback.format_exc()
        with contextlib.suppress(OSError):
            control.send(RuntimeError(text))
        raise SystemExit(1) from None
