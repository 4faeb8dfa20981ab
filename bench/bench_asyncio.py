# SPDX-License-Identifier: Apache-2.0
"""What does a message cost in an event loop?

    python -m busq.bench.bench_asyncio --json asyncio.json

Two processes, an event loop in each, one message of 64 bytes per `await`: round trips, and messages one way.  The
statements of each peer are those that its user would write; they are put into the loops before these are compiled.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import importlib.metadata
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

import busq

from . import machine
from .report import progress

DATA = bytes(range(64))
FIGURES = ("rtt_us_p50", "rtt_us_p99", "one_way_us")
PATIENCE_S = 60.0


# ---- the libraries that are compared ----


@dataclass(frozen=True)
class Kind:
    """One library: how an end is opened, and the statements that send `data` and receive `answer`."""

    package: str
    open: Callable[[str, bool], contextlib.AbstractAsyncContextManager[Any]]
    send: str
    recv: str


@contextlib.asynccontextmanager
async def open_busq(place: str, is_server: bool) -> AsyncIterator[Any]:
    mine, other = ("server", "client") if is_server else ("client", "server")
    async with busq.aio.join(place, mine) as peer:
        while other not in peer.bus.peers():
            await asyncio.sleep(0.001)
        yield peer


@contextlib.asynccontextmanager
async def open_pyzmq(place: str, is_server: bool) -> AsyncIterator[Any]:
    zmq = importlib.import_module("zmq")
    context = importlib.import_module("zmq.asyncio").Context()
    socket = context.socket(zmq.PAIR)
    (socket.bind if is_server else socket.connect)(f"ipc://{place}")
    yield socket
    socket.close(linger=1000)
    context.term()


@contextlib.asynccontextmanager
async def open_socket(place: str, is_server: bool) -> AsyncIterator[Any]:
    if is_server:
        there: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        server = await asyncio.start_unix_server(lambda reader, writer: there.set_result((reader, writer)), place)
        reader, writer = await there
    else:
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(place)
                break
            except OSError:  # it does not listen yet
                await asyncio.sleep(0.001)
    yield reader, writer
    await writer.drain()
    writer.close()
    if is_server:
        server.close()


KINDS = {
    "busq": Kind("busq", open_busq, "await peer.send(other, data)", "answer = (await peer.recv()).data"),
    "pyzmq": Kind("pyzmq", open_pyzmq, "await peer.send(data)", "answer = await peer.recv()"),
    # No messages, and the least that asyncio takes to carry bytes.
    "a Unix socket": Kind(
        "", open_socket, "peer[1].write(data); await peer[1].drain()", "answer = await peer[0].readexactly(64)"
    ),
}
LOOPS = ("asyncio", "uvloop")

ROUND_TRIP = {
    False: """
        for _ in range(100):
            {send}
            {recv}
        for _ in range(count):
            began = now()
            {send}
            {recv}
            note(now() - began)
        """,
    True: """
        for _ in range(count + 100):
            {recv}
            data = answer
            {send}
        """,
}
ONE_WAY = {
    False: """
        {recv}
        began = now()
        for _ in range(count):
            {send}
        {recv}
        note((now() - began) / count)
        """,
    True: """
        {send}
        for _ in range(count):
            {recv}
        {send}
        """,
}


def compiled(text: str, kind: Kind) -> Callable[..., Any]:
    """Make a coroutine function of a loop and a peer's own statements."""
    body = textwrap.dedent(text).strip().format(send=kind.send, recv=kind.recv)
    namespace: dict[str, Any] = {"now": time.perf_counter}
    head = "async def main(peer, other, data, count, note):\n"
    exec(compile(head + textwrap.indent(body, "    "), "<loop>", "exec"), namespace)
    main: Callable[..., Any] = namespace["main"]
    return main


def in_loop(loop: str, main: Callable[[], Any]) -> None:
    """Run a coroutine in a new event loop of that kind."""
    made = importlib.import_module("uvloop").new_event_loop() if loop == "uvloop" else asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    try:
        made.run_until_complete(main())
    finally:
        made.close()


def one_end(
    kind: Kind, loop: str, text: dict[bool, str], place: str, is_server: bool, count: int, noted_to: Any = None
) -> None:
    """Run one side, and hand over the times that it noted, in seconds, or why it failed."""
    noted: list[float] = []

    async def main() -> None:
        async with kind.open(place, is_server) as peer:
            await run(peer, "client" if is_server else "server", DATA, count, noted.append)

    try:
        run = compiled(text[is_server], kind)
        in_loop(loop, main)
    except Exception as error:
        if noted_to is None:
            raise
        noted_to.send(f"{type(error).__name__}: {error}")
    else:
        if noted_to is not None:
            noted_to.send(noted)


def between_two(kind: str, loop: str, text: dict[bool, str], count: int) -> list[float]:
    """Measure one kind in one kind of loop; RuntimeError where it fails.

    Both ends are processes of their own: some libraries can't be forked once they were used.
    """
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "place")
        if kind == "busq":
            place = f"bench-asyncio-{os.getpid()}"
            busq.Bus.create(place, peers=2).close()
        noted_here, noted_there = context.Pipe(duplex=False)
        ends = [
            context.Process(target=one_end, args=(KINDS[kind], loop, text, place, True, count)),
            context.Process(target=one_end, args=(KINDS[kind], loop, text, place, False, count, noted_there)),
        ]
        try:
            for end in ends:
                end.start()
            noted_there.close()
            noted: list[float] | str = noted_here.recv() if noted_here.poll(PATIENCE_S) else "it hangs"
            ends[0].join(PATIENCE_S if isinstance(noted, list) else 0)
        except EOFError:
            noted = f"it died with exit code {ends[1].exitcode}"
        finally:
            for end in ends:
                if end.is_alive():
                    end.kill()
                end.join()
            if kind == "busq":
                busq.Bus.unlink(place)
    if isinstance(noted, str):
        raise RuntimeError(noted)
    return noted


def version_of(package: str) -> str:
    """Return the version that is installed, if one is."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def percentile_us(times_s: list[float], percent: int) -> float:
    """Return a percentile of times, in microseconds."""
    return sorted(times_s)[len(times_s) * percent // 100] * 1e6


def messages_point(kind: str, loop: str, count: int) -> dict[str, Any]:
    """One kind in one kind of loop."""
    point: dict[str, Any] = {"peer": kind, "loop": loop}
    try:
        trips = between_two(kind, loop, ROUND_TRIP, count)
        point["rtt_us_p50"], point["rtt_us_p99"] = percentile_us(trips, 50), percentile_us(trips, 99)
        point["one_way_us"] = between_two(kind, loop, ONE_WAY, count * 10)[0] * 1e6
    except RuntimeError as error:  # shown, not left out
        point["failed"] = str(error)
    return point


def medians(repeats: list[dict[str, Any]]) -> dict[str, Any]:
    """Put the repeats of one point together: medians of its figures, or why it failed."""
    failed = [one for one in repeats if "failed" in one]
    if failed:
        return failed[0]
    return {
        key: statistics.median(one[key] for one in repeats) if isinstance(value, float) else value
        for key, value in repeats[0].items()
    }


def run(repeats: int, count: int) -> dict[str, Any]:
    """Measure everything, each repeat from the first case to the last; medians."""
    cases = [(kind, loop) for loop in LOOPS for kind in KINDS]
    report = progress()
    found: list[list[dict[str, Any]]] = [[] for _ in cases]
    for number in range(repeats * len(cases)):
        kind, loop = cases[number % len(cases)]
        found[number % len(cases)].append(messages_point(kind, loop, count))
        if report is not None:
            report(number + 1, repeats * len(cases), "measured")
    packages = [*(kind.package for kind in KINDS.values() if kind.package), "uvloop"]
    versions = {package: version_of(package) for package in packages}
    return {
        "machine": machine.describe({}) | {"versions": versions},
        "repeats": repeats,
        "points": [medians(one) for one in found],
        "raw": found,
    }


def to_table(result: dict[str, Any]) -> Table:
    """Return the figures as a table."""
    table = Table(title="Between two event loops, 64 bytes per await", title_justify="left", box=box.SIMPLE_HEAD)
    for title in ("", "loop", "round trip, µs", "p99", "one way, µs"):
        table.add_column(title, justify="left" if title in ("", "loop") else "right")
    for point in result["points"]:
        figures = [point["failed"]] if "failed" in point else [f"{point[key]:.1f}" for key in FIGURES]
        table.add_row(point["peer"], point["loop"], *figures)
    return table


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m busq.bench.bench_asyncio", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--count", type=int, default=5_000, help="round trips of each measurement")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    result = run(options.repeats, options.count)
    Console().print(machine.line(result["machine"]), f"medians of {options.repeats} repeats")
    Console().print(to_table(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
