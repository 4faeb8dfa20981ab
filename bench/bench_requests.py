# SPDX-License-Identifier: Apache-2.0
"""How long does a request take, beside two messages one way?

    python -m busq.bench.bench_requests [--count N]

Prints the median and the 99th percentile in microseconds, one JSON object per line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections.abc import Callable

import busq


def answer(name: str, is_asked: bool) -> None:
    """Be the other end, in a process of its own."""
    with busq.Bus.open(name).join("server") as server:
        for message in server:
            if is_asked:
                message.reply(message.data)
            else:
                server.send("client", message.data)


def measure(call: Callable[[], object], count: int) -> dict[str, float]:
    times = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    times.sort()
    return {"rtt_us_p50": times[count // 2] / 1e3, "rtt_us_p99": times[count * 99 // 100] / 1e3}


def run(way: str, size_bytes: int, count: int) -> dict[str, object]:
    name = f"bench-requests-{os.getpid()}"
    with busq.Bus.create(name) as bus, bus.join("client") as client:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(busq.BusqError):
                answer(name, way == "ask")
            os._exit(0)
        try:
            bus.wait_for("server", timeout=30)
            data = bytes(size_bytes)

            def send_and_receive() -> None:
                client.send("server", data)
                client.recv()

            found = measure(send_and_receive if way == "send" else lambda: client.ask("server", data), count)
            bus.shutdown()
        finally:
            busq.Bus.unlink(name)
            os.waitpid(child, 0)
    return {"way": way, "size_bytes": size_bytes, **found}


def main() -> None:
    """Measure both ways."""
    parser = argparse.ArgumentParser(
        prog="python -m busq.bench.bench_requests",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=20_000, help="round trips of each kind")
    count = parser.parse_args().count
    for size_bytes in (64, 2000, 65_536):
        for way in ("send", "ask"):
            print(json.dumps(run(way, size_bytes, count)), flush=True)


if __name__ == "__main__":
    main()
