# SPDX-License-Identifier: Apache-2.0
"""Large arrays from one process to each of four, through the queues of several packages.  `python bench/arrays.py`.

Each receiver looks at the first and the last number of each array, and drops it.  The peers take turns, in each repeat
in another order; the figure is the median of the repeats, in arrays per second, of which each comes to all receivers.
Those that are not installed are left out, and named.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import busq

RECEIVERS = 4
HELD = 8  # arrays that a queue holds

Put = Callable[[Any], None]
Get = Callable[[], Any]


class Ends(NamedTuple):
    """What puts an array into all queues, and what each receiver gets it with."""

    put: Put
    gets: list[Get]
    close: Callable[[], None] = lambda: None
    settle: Callable[[], None] = lambda: None


def _one_by_one(queues: list[Any], close: Callable[[], None] = lambda: None) -> Ends:
    def put(array: Any) -> None:
        for queue in queues:
            queue.put(array)

    return Ends(put, [queue.get for queue in queues], close)


def _busq(views: bool) -> Ends:
    queues = [busq.Queue(HELD, views=views) for _ in range(RECEIVERS)]

    def put(array: Any) -> None:
        busq.put_all(queues, array)

    return Ends(put, [queue.get for queue in queues])


def _multiprocessing(size_bytes: int) -> Ends:
    return _one_by_one([multiprocessing.get_context("fork").Queue(HELD) for _ in range(RECEIVERS)])


def _torch(size_bytes: int) -> Ends:
    torch: Any = importlib.import_module("torch")
    context = importlib.import_module("torch.multiprocessing").get_context("fork")
    queues = [context.Queue(HELD) for _ in range(RECEIVERS)]

    def put(array: Any) -> None:
        tensor = torch.from_numpy(array.copy()).share_memory_()  # what is put later must be another one
        for queue in queues:
            queue.put(tensor)

    return Ends(put, [lambda queue=queue: queue.get().numpy() for queue in queues])


def _dejaq(size_bytes: int) -> Ends:
    make: Any = importlib.import_module("dejaq").DejaQueue
    return _one_by_one([make(buffer_bytes=HELD * (size_bytes + 4096)) for _ in range(RECEIVERS)])


def _py_sharedmemory(size_bytes: int) -> Ends:
    make: Any = importlib.import_module("py_sharedmemory").create_shared_memory_pair
    context = multiprocessing.get_context("fork")
    pairs = [make(capacity=HELD, ctx=context) for _ in range(RECEIVERS)]

    def put(array: Any) -> None:
        for sender, _ in pairs:
            sender.put(array)

    def settle() -> None:
        for sender, _ in pairs:
            sender.wait_for_all_ack()

    def close() -> None:
        for sender, _ in pairs:
            sender.close()

    return Ends(put, [receiver.get for _, receiver in pairs], close, settle)


PEERS: dict[str, tuple[str | None, Callable[[int], Ends]]] = {
    "busq, views": (None, lambda size_bytes: _busq(True)),
    "busq": (None, lambda size_bytes: _busq(False)),
    "multiprocessing": (None, _multiprocessing),
    "torch.multiprocessing": ("torch", _torch),
    "dejaq": ("dejaq", _dejaq),
    "py-sharedmemory": ("py_sharedmemory", _py_sharedmemory),
}


def _receive(get: Get, count: int, done: Any) -> None:
    for number in range(count):
        array = get()
        assert array[0] == array[-1] == number, f"{array[0]} and {array[-1]} instead of {number}"
        del array
        if number == 0:
            done.put("begun")
    done.put("done")


def measure(make: Callable[[int], Ends], size_bytes: int, count: int) -> float:
    """Return arrays per second, from the second one on."""
    context = multiprocessing.get_context("fork")
    ends, done = make(size_bytes), context.Queue()
    array = np.zeros(size_bytes // 8)
    receivers = [context.Process(target=_receive, args=(get, count, done), daemon=True) for get in ends.gets]
    for receiver in receivers:
        receiver.start()
    ends.put(array)
    for _ in receivers:
        assert done.get(timeout=60) == "begun"
    begin_s = time.perf_counter()
    for number in range(1, count):
        array[0] = array[-1] = number
        ends.put(array if make is not _multiprocessing else array.copy())  # its thread pickles it later
    for _ in receivers:
        assert done.get(timeout=60) == "done"
    seconds = time.perf_counter() - begin_s
    ends.settle()
    for receiver in receivers:
        receiver.join(60)
    ends.close()
    return (count - 1) / seconds


def compare(peers: list[str], mebibytes: int, repeats: int) -> dict[str, list[float]]:
    """Return what each peer has come to in each repeat."""
    rates: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(repeats):
        for name in random.sample(peers, len(peers)):
            rates[name].append(measure(PEERS[name][1], mebibytes << 20, max(20, 400 // mebibytes)))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return rates


def main() -> None:
    """Measure, and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--mebibytes", nargs="*", type=int, default=[1, 16])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    needed = {name: PEERS[name][0] for name in options.peers}
    missing = [name for name, module in needed.items() if module and not importlib.util.find_spec(module)]
    chosen = [name for name in options.peers if name not in missing]
    points = {size: compare(chosen, size, options.repeats) for size in options.mebibytes}
    if options.json:
        print(json.dumps({"arrays_per_s": points, "missing": missing}))
        return
    for mebibytes, rates in points.items():
        base = statistics.median(rates.get("multiprocessing") or rates[chosen[0]])
        for name, found in rates.items():
            median = statistics.median(found)
            spread = f"({min(found):.0f} to {max(found):.0f})"
            print(f"{mebibytes:3} MiB  {name:22} {median:9.0f} /s  {median / base:6.1f}x  {spread}")
    if missing:
        print("not installed:", *missing)


if __name__ == "__main__":
    main()
