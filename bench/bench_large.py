# SPDX-License-Identifier: Apache-2.0
"""What does a large message cost both ends together, by copy and without one?

    python -m busq.bench.bench_large --json large.json

One process is sender and receiver, so that nothing waits and what is measured is the work: that of sending one message
and of looking at it, in processor time, which others on the machine disturb least.  The ways, alike for all that
are compared:

    lend      memory of the message is borrowed, sent and received, and neither end looks at it
    in place  the same; the sender writes a byte through a view of it, the receiver reads one
    one copy  bytes are copied in; the receiver reads one in place
    copies    bytes are copied in, and copied out
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

import busq

from . import machine
from .peers.base import load
from .peers.iceoryx import READ_ONLY, IceoryxAdapter, viewer
from .peers.ours import BusqAdapter
from .report import progress

SIZES_BYTES = (4_096, 65_536, 262_144, 1 << 20, 4 << 20)
WAYS = ("lend", "in place", "one copy", "copies")
ROUNDS_BYTES = 64 << 20  # copied in one measurement, at least
READ_WRITE = 0x200  # PyBUF_WRITE

Ways = dict[str, Callable[[], Any]]


def ways_of_busq(peer: busq.Peer, data: bytes) -> Ways:
    """What busq offers: the calls of both ends."""
    size = len(data)

    def lend() -> Any:
        draft = peer.reserve(size)
        draft.send("itself")
        return peer.recv()

    def in_place() -> int:
        with peer.reserve(size) as draft:
            draft.buffer[0] = 1
            draft.send("itself")
        with peer.recv().view() as view:
            return view[0]

    def one_copy() -> int:
        peer.send("itself", data)
        with peer.recv().view() as view:
            return view[0]

    def copies() -> bytes:
        peer.send("itself", data)
        return peer.recv().data

    return {"lend": lend, "in place": in_place, "one copy": one_copy, "copies": copies}


def ways_of_iceoryx(publisher: Any, subscriber: Any, data: bytes) -> Ways:
    """The same of iceoryx2."""
    size, view_of, memmove, string_at = len(data), viewer(), ctypes.memmove, ctypes.string_at

    def lend() -> Any:
        publisher.loan_slice_uninit(size).assume_init().send()
        return subscriber.receive()

    def in_place() -> int:
        slot = publisher.loan_slice_uninit(size)
        view_of(slot.payload_ptr, size, READ_WRITE)[0] = 1
        slot.assume_init().send()
        sample = subscriber.receive()
        read: int = view_of(sample.payload_ptr, sample.header.number_of_elements, READ_ONLY)[0]
        return read

    def one_copy() -> int:
        slot = publisher.loan_slice_uninit(size)
        memmove(slot.payload_ptr, data, size)
        slot.assume_init().send()
        sample = subscriber.receive()
        read: int = view_of(sample.payload_ptr, sample.header.number_of_elements, READ_ONLY)[0]
        return read

    def copies() -> bytes:
        slot = publisher.loan_slice_uninit(size)
        memmove(slot.payload_ptr, data, size)
        slot.assume_init().send()
        sample = subscriber.receive()
        return string_at(sample.payload_ptr, sample.header.number_of_elements)

    return {"lend": lend, "in place": in_place, "one copy": one_copy, "copies": copies}


class Busq:
    """A bus with one peer."""

    def __init__(self, size_bytes: int) -> None:
        self._name = f"bench-large-{os.getpid()}-{size_bytes}"
        self._bus = busq.Bus.create(self._name, peers=8, arena=64 << 20)
        self._peer = self._bus.join("itself")
        self.ways = ways_of_busq(self._peer, bytes(range(256)) * (size_bytes // 256))

    def close(self) -> None:
        """Remove it."""
        self._peer.close()
        busq.Bus.unlink(self._name)


class Iceoryx:
    """A service with a publisher and a subscriber."""

    def __init__(self, size_bytes: int) -> None:
        iox: Any = load("iceoryx2")
        iox.set_log_level(iox.LogLevel.Error)
        self._token, self._root = f"large{os.getpid()}", tempfile.mkdtemp()
        config = iox.config.default()
        config.global_cfg.prefix = iox.FileName.new(self._token + "_")
        config.global_cfg.root_path = iox.Path.new(self._root)
        builder = iox.NodeBuilder.new().config(config).signal_handling_mode(iox.SignalHandlingMode.Disabled)
        self._node = builder.create(iox.ServiceType.Ipc)
        self._service = (
            self._node.service_builder(iox.ServiceName.new(f"large-{size_bytes}"))
            .publish_subscribe(iox.Slice[ctypes.c_uint8])
            .max_publishers(1)
            .max_subscribers(1)
            .enable_safe_overflow(False)
            .subscriber_max_buffer_size(16)
            .subscriber_max_borrowed_samples(4)
            .history_size(0)
            .open_or_create()
        )
        self._subscriber = self._service.subscriber_builder().create()
        publisher = self._service.publisher_builder().initial_max_slice_len(size_bytes).max_loaned_samples(1)
        self._publisher = publisher.create()
        self.ways = ways_of_iceoryx(self._publisher, self._subscriber, bytes(range(256)) * (size_bytes // 256))

    def close(self) -> None:
        """Remove it, and what it leaves."""
        self.ways = {}
        self._subscriber.delete()
        self._publisher.delete()
        del self._service, self._node
        shutil.rmtree(self._root, ignore_errors=True)
        IceoryxAdapter().sweep(self._token)


PEERS: dict[str, Callable[[int], Any]] = {"busq": Busq, "iceoryx2": Iceoryx}


def seconds_of(call: Callable[[], Any], count: int) -> float:
    """How much processor time one call takes; what it returns is dropped before the next."""
    call()
    began_s = time.thread_time()
    for _ in range(count):
        call()
    return (time.thread_time() - began_s) / count


def measure_size(size_bytes: int, repeats: int, tell: Callable[[int], None]) -> list[dict[str, Any]]:
    """All peers and ways in turn, each as often as asked for; a point for each."""
    count = max(300, ROUNDS_BYTES // size_bytes // 8)
    worlds, failed = {}, {}
    for name, make in PEERS.items():
        try:
            worlds[name] = make(size_bytes)
        except Exception as error:  # shown as failed, and not left out
            failed[name] = f"{type(error).__name__}: {error}"
    times: dict[tuple[str, str], list[float]] = {(name, way): [] for name in worlds for way in WAYS}
    for number in range(repeats):
        tell(number)
        for name, way in times:
            times[name, way].append(seconds_of(worlds[name].ways[way], count) * 1e6)
    for world in worlds.values():
        world.close()
    points = [
        {
            "peer": name,
            "way": way,
            "size_bytes": size_bytes,
            "both_ends_us": statistics.median(all_us),
            "repeats_us": all_us,
        }
        for (name, way), all_us in times.items()
    ]
    return points + [
        {"peer": name, "way": way, "size_bytes": size_bytes, "failed": failed[name]} for name in failed for way in WAYS
    ]


def run(repeats: int) -> dict[str, Any]:
    """Measure everything."""
    tell = progress()
    points: list[dict[str, Any]] = []
    for place, size_bytes in enumerate(SIZES_BYTES):

        def said(number: int, place: int = place, size_bytes: int = size_bytes) -> None:
            if tell is not None:
                tell(place * repeats + number + 1, repeats * len(SIZES_BYTES), f"{size_bytes} bytes")

        points += measure_size(size_bytes, repeats, said)
    adapters = {"busq": BusqAdapter(), "iceoryx2": IceoryxAdapter()}
    return {"machine": machine.describe(adapters), "repeats": repeats, "points": points}


def table(result: dict[str, Any]) -> Table:
    """Microseconds for both ends, by size."""
    made = Table(title="Both ends together, µs, median", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("way", "peer"):
        made.add_column(column)
    for size_bytes in SIZES_BYTES:
        made.add_column(f"{size_bytes // 1024:,} KiB", justify="right")
    for way in WAYS:
        for name in PEERS:
            row = [p for p in result["points"] if (p["peer"], p["way"]) == (name, way)]
            made.add_row(way, name, *("failed" if "failed" in p else f"{p['both_ends_us']:.3g}" for p in row))
    return made


def main() -> int:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(prog="python -m busq.bench.bench_large", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    result = run(options.repeats)
    Console().print(machine.line(result["machine"]), f"medians of {options.repeats} interleaved repeats")
    Console().print(table(result))
    for peer, reason in {point["peer"]: point["failed"] for point in result["points"] if "failed" in point}.items():
        print(f"{peer}: {reason}", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
