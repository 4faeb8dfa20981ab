# SPDX-License-Identifier: Apache-2.0
"""Processes in different time namespaces share a bus: their monotonic clocks are days apart, and none is misled.

One side runs under unshare(1), eleven days ahead.  That takes root, and a kernel with time namespaces; elsewhere all of
this is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import TESTS, wait_until

import busq

AHEAD_S = 1_000_000
UNSHARE = ["unshare", "--time", "--monotonic", str(AHEAD_S), "--boottime", str(AHEAD_S), "--fork", "--kill-child"]
PRELUDE = """
import busq, json, sys, time
from test_time_namespaces import waited_s
bus = busq.Bus.open(sys.argv[1])
"""


def _can_unshare() -> bool:
    if not shutil.which("unshare"):
        return False
    done = subprocess.run([*UNSHARE, "true"], capture_output=True, check=False)
    return done.returncode == 0


pytestmark = pytest.mark.skipif(not _can_unshare(), reason="needs unshare(1) and the right to make time namespaces")

Inside = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def inside(bus: busq.Bus) -> Iterator[Inside]:
    """inside(code): a process eleven days ahead, with `bus` open; ended with the test."""
    running: list[subprocess.Popen[str]] = []

    def start(code: str) -> subprocess.Popen[str]:
        command = [*UNSHARE, sys.executable, "-c", PRELUDE + code, bus.name]
        environment = os.environ | {"PYTHONPATH": f"{TESTS}{os.pathsep}{Path(__file__).parent}"}
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=TESTS, env=environment))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def told(process: subprocess.Popen[str]) -> Any:
    """What the process has printed, when it has ended well."""
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return json.loads(output)


def waited_s(bus: busq.Bus, name: str) -> float:
    """For how long a peer waits by now, as soon as it does; between two slices it does not, for a moment."""
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        for peer in bus.stats()["peers"]:
            if peer["name"] == name and peer["waits"] and peer["waited_s"]:
                return float(peer["waited_s"])
        time.sleep(0.001)
    raise AssertionError(f"{name!r} was never seen to wait for longer than no time at all")


def test_the_clock_inside_is_ahead(inside: Inside) -> None:
    assert told(inside("print(time.monotonic())")) > time.monotonic() + AHEAD_S / 2


def test_messages_go_both_ways(bus: busq.Bus, inside: Inside) -> None:
    with bus.join("out") as out:
        process = inside("peer = bus.join('in')\nfor m in peer: peer.send('out', b're: ' + m.data)")
        wait_until(lambda: "in" in bus.peers(), timeout=60)
        for number in range(100):
            out.send(["in", "out"], b"%d" % number)
            assert {out.recv(timeout=60).data, out.recv(timeout=60).data} == {b"%d" % number, b"re: %d" % number}
        bus.shutdown()
        assert process.wait(60) == 0


def test_how_long_somebody_waits_is_told_alike_on_both_sides(bus: busq.Bus, inside: Inside) -> None:
    with bus.join("out") as out, bus.join("other") as other:
        inside("bus.join('in').recv()")
        assert waited_s(bus, "in") < AHEAD_S / 2
        waiting = threading.Thread(target=out.recv)
        waiting.start()
        assert told(inside("print(waited_s(bus, 'out'))")) < AHEAD_S / 2
        other.send("out", b"")
        waiting.join(60)


def test_the_last_one_of_a_name_is_resumed_not_the_one_whose_clock_was_ahead(bus: busq.Bus, inside: Inside) -> None:
    with bus.join("keeper") as keeper:
        # What keeper does not receive keeps the first "x", and when it began, in its slot.
        assert told(inside("x = bus.join('x'); x.send('keeper', b'1'); x.close(); print(1)")) == 1
        second = bus.join("x")
        keeper.send("x", b"for the second")
        second.close()
        with bus.join("x", resume=True) as resumed:
            assert resumed.recv(timeout=0).data == b"for the second"


def test_a_recording_of_both_sides_has_one_clock(bus: busq.Bus, inside: Inside, tmp_path: Path) -> None:
    record = pytest.importorskip("busq.trace.recorder")
    parquet = pytest.importorskip("pyarrow.parquet")
    from busq.audit import audit

    trace = tmp_path / "trace"
    with record.Recorder(bus, trace), bus.join("out") as out:
        process = inside("peer = bus.join('in')\nfor m in peer: time.sleep(0.01); peer.send('out', m.data)")
        wait_until(lambda: "in" in bus.peers(), timeout=60)
        for number in range(20):
            time.sleep(0.01)
            out.send("in", b"%d" % number)
            out.recv(timeout=60)
        bus.shutdown()
        assert process.wait(60) == 0
    times = [
        moment
        for path in trace.rglob("*.parquet")
        for moment in parquet.read_table(path)["time_ns"].to_pylist()
        if moment is not None
    ]
    assert len(times) > 60
    assert max(times) - min(times) < AHEAD_S / 2 * 1e9
    assert audit(trace).ok
