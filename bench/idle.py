# SPDX-License-Identifier: Apache-2.0
"""What a process that waits costs: how often it wakes up.  `python bench/idle.py`, or `--kinds recv room --json`.

A process of its own waits in each way, in so many threads or tasks.  Its voluntary context switches are counted, of all
its threads, over some seconds after it has settled; nothing happens meanwhile.  (A thread that waits without a timeout
of its own, in `threading.Lock`, has none; the main thread waits in such a one.)
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import busq

SMALL, LARGE = b"x", bytes(60_000)  # the queue is full of these, and the memory of those


def _fill(peer: Any, data: bytes) -> None:
    """Send to "stopped", which receives nothing, until there is no room for more of these."""
    with contextlib.suppress(busq.Full):
        while True:
            peer.send("stopped", data, timeout=0)


def _nothing(peer: Any) -> None:
    pass


def _watch(peer: Any) -> None:
    peer.watch("stopped")
    peer.recv(timeout=0)


def _enter(peer: Any) -> None:
    peer.enter("idlers")
    peer.recv(timeout=0)


def _hold(peer: Any) -> None:
    """Have a node, and a handle that another peer holds."""
    node = peer.node()
    peer.send("stopped", b"", handles=[node.handle])


# How it begins, what it joins with, and what a thread of it waits for.
KINDS: dict[str, tuple[Callable[[Any], None], dict[str, Any], Callable[[Any], Any]]] = {
    "recv": (_nothing, {}, lambda peer: peer.recv()),
    "recv, one of several readers": (_nothing, {"shared": True}, lambda peer: peer.recv()),
    "recv of a watcher": (_watch, {}, lambda peer: peer.recv()),
    "recv of a member of a group": (_enter, {}, lambda peer: peer.recv()),
    "recv of an owner of a node": (_hold, {}, lambda peer: peer.recv()),
    "room": (lambda peer: _fill(peer, SMALL), {}, lambda peer: peer.send("stopped", SMALL)),
    "memory": (lambda peer: _fill(peer, LARGE), {}, lambda peer: peer.send("stopped", LARGE)),
    "ask": (_nothing, {}, lambda peer: peer.ask("silent", b"x")),
    "ask of a shared queue": (_nothing, {}, lambda peer: peer.ask("silent readers", b"x")),
}


def _threads(peer: Any, wait: Callable[[Any], Any], waiters: int) -> None:
    threading.stack_size(256 << 10)
    for _ in range(waiters):
        threading.Thread(target=wait, args=(peer,), daemon=True).start()


async def _tasks(bus: busq.Bus, kind: str, waiters: int, ready: Any) -> None:
    begin, how, wait = KINDS[kind]
    async with busq.aio.join(bus, "idlers" if how else "idler", **how) as peer:
        begin(peer._peer)
        waiting = [asyncio.create_task(wait(peer)) for _ in range(waiters)]
        ready.set()
        await asyncio.gather(*waiting)


def _idler(bus: busq.Bus, kind: str, loop: bool, waiters: int, ready: Any) -> None:
    if loop:
        asyncio.run(_tasks(bus, kind, waiters, ready))
        return
    begin, how, wait = KINDS[kind]
    peer = bus.join("idlers" if how else "idler", **how)
    begin(peer)
    _threads(peer, wait, waiters)
    ready.set()
    threading.Event().wait()


def _switches(pid: int) -> int:
    count = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                count += int(line.split()[1])
    return count


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(kind: str, loop: bool, waiters: int, settle_s: float, seconds: float) -> dict[str, Any]:
    """Return how often all waiters together woke up in a second."""
    name = f"idle-{os.getpid()}"
    bus = busq.Bus.create(name, peers=16, capacity=1024, arena=4 << 20)
    peers = [bus.join("stopped"), bus.join("silent")]
    shared = bus.join("silent readers", shared=True)
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    idler = context.Process(target=_idler, args=(bus, kind, loop, waiters, ready), daemon=True)
    idler.start()
    try:
        ready.wait()
        time.sleep(settle_s)
        assert idler.is_alive(), f"{kind}: it has ended"
        before, cpu_s = _switches(idler.pid or 0), _cpu_s(idler.pid or 0)
        time.sleep(seconds)
        count, cpu_s = _switches(idler.pid or 0) - before, _cpu_s(idler.pid or 0) - cpu_s
    finally:
        idler.kill()
        idler.join()
        for peer in [*peers, shared]:
            peer.close()
        busq.Bus.unlink(name)
    return {
        "kind": kind,
        "by": "task" if loop else "thread",
        "waiters": waiters,
        "wakeups_per_s": count / seconds,
        "cpu_percent": 100 * cpu_s / seconds,
    }


def main() -> None:
    """Measure, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--by", nargs="*", choices=["thread", "task"], default=["thread", "task"])
    parser.add_argument("--waiters", nargs="*", type=int, default=[1, 30, 1000])
    parser.add_argument("--settle", type=float, default=5.0, metavar="SECONDS")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    points = []
    for kind in options.kinds:
        for by in options.by:
            for waiters in options.waiters:
                point = measure(kind, by == "task", waiters, options.settle, options.seconds)
                points.append(point)
                if not options.json:
                    print(
                        f"{kind:30} {by:7} {waiters:6} {point['wakeups_per_s']:9.1f} /s {point['cpu_percent']:6.2f} %",
                        flush=True,
                    )
    if options.json:
        print(json.dumps({"points": points}))


if __name__ == "__main__":
    main()
