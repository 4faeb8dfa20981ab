# SPDX-License-Identifier: Apache-2.0
"""How long does a process wait because another died with many messages in its queues that were not received yet?

A process sends `waiting` messages to one receiver (or to two at once), none of which is received, and is killed. Then
the survivors do each operation once, and the first of each is timed: sending to the dead, to its receiver and to
others without waiting, receiving, joining under a new name and under that of the dead, resuming the dead, removing the
bus. Last, the receiver itself is killed and its name is joined anew, which drops what it had not received.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from .peers.base import load

RECORD_BYTES_MAX = 128  # a message of a few bytes with its head, rounded up; twice, for the survivors
VICTIM = """
import sys, busq
bus = busq.Bus.open(sys.argv[1])
with bus.join("victim") as victim:
    to = sys.argv[3].split()
    for number in range(int(sys.argv[2])):
        victim.send(to, b"%d" % number)
    print("sent", flush=True)
    sys.stdin.read()
"""
IDLER = """
import sys, busq
with busq.Bus.open(sys.argv[1]).join("reader"):
    print("here", flush=True)
    sys.stdin.read()
"""


def measure(bus_name: str, waiting: int, receivers: int) -> dict[str, Any]:
    """Milliseconds that each operation took, at `waiting` messages that were not received."""
    busq = load("busq")
    arena_bytes = max(16 << 20, 2 * waiting * RECORD_BYTES_MAX)
    bus = busq.Bus.create(bus_name, peers=16, capacity=waiting + 1024, arena=arena_bytes)
    took_ms: dict[str, float] = {}

    def timed(what: str, operation: Callable[[], Any]) -> Any:
        begin_ns = time.monotonic_ns()
        try:
            return operation()
        except (busq.PeerDead, busq.Empty):
            return None
        finally:
            took_ms[what] = (time.monotonic_ns() - begin_ns) / 1e6

    reader = _start(IDLER, bus_name)
    receiver, other, third = bus.join("receiver"), bus.join("other"), bus.join("third")
    victim = _start(VICTIM, bus_name, str(waiting), ("receiver", "receiver reader")[receivers - 1])
    other.send("victim", b"known")
    _kill(victim)
    timed("send to the dead, timeout=0", lambda: other.send("victim", b"x", timeout=0))
    timed("send to its receiver, timeout=0", lambda: other.send("receiver", b"x", timeout=0))
    timed("send to another, timeout=0", lambda: other.send("third", b"x", timeout=0))
    timed("recv", lambda: receiver.recv(timeout=0))
    timed("recv that sleeps 1 ms", lambda: third.recv(timeout=0) and third.recv(timeout=0.001))
    new = timed("join", lambda: bus.join("new"))
    successor = timed("resume the dead sender", lambda: bus.join("victim", resume=True))
    timed("close the successor", successor.close)
    timed("join under the name of the dead", lambda: bus.join("victim")).close()
    timed("repair", bus.repair)
    for _ in range(waiting // 2):
        other.send("reader", b"x", timeout=0)
    _kill(reader)
    timed("send to a dead receiver, timeout=0", lambda: other.send("reader", b"x", timeout=0))
    timed("resume a dead receiver", lambda: bus.join("reader", resume=True)).close()
    timed("join under the name of a dead receiver", lambda: bus.join("reader")).close()
    for peer in (new, receiver, other, third):
        peer.close()
    timed("unlink", lambda: busq.Bus.unlink(bus_name))
    return {"waiting": waiting, "receivers": receivers, "took_ms": took_ms}


def _start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", program, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    if not process.stdout.readline():
        raise RuntimeError(f"{arguments} ended with {process.wait()} before it was ready")
    return process


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, nargs="+", default=[10**4, 10**5, 10**6], metavar="N")
    parser.add_argument("--receivers", type=int, choices=(1, 2), default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    points = [measure(f"burial-{os.getpid()}", waiting, options.receivers) for waiting in options.waiting]
    if options.json:
        print(json.dumps({"points": points}, indent=1))
        return 0
    print(f"{'longest wait, ms':42}" + "".join(f"{point['waiting']:>12,}" for point in points))
    for what in points[0]["took_ms"]:
        print(f"{what:42}" + "".join(f"{point['took_ms'][what]:12.3f}" for point in points))
    return 0


if __name__ == "__main__":
    sys.exit(main())
