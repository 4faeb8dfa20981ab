# SPDX-License-Identifier: Apache-2.0
"""One crossing of the table: a feature, and what happens to it."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from pathlib import Path
from typing import Any

from crossings.apart import run_apart
from crossings.columns import EVENTS
from crossings.event import Skipped
from crossings.expected import Absent, Raises, Verdict, Works, expected
from crossings.features import make
from crossings.ledger import Wrong, expect
from crossings.play import Play
from crossings.session import PATIENCE_S, Session

import busq

DEADLINE_S = 100.0


def run(feature: str, event: str, seed: int) -> str:
    """Run a crossing in a process of its own, and hold it against what is expected; what it came to."""
    verdict = expected(feature, event)
    if isinstance(verdict, Absent):
        return f"does not exist: {verdict.reason}"
    error = run_apart(lambda: cross(feature, event, seed), f"{feature} x {event} (seed {seed})", DEADLINE_S)
    if error is not None and error[0] == "Skipped":
        return f"skipped: {error[1]}"
    hold(verdict, error)
    return "works" if error is None else f"raises {error[0]}: {error[1]}"


def hold(verdict: Verdict, error: tuple[str, str] | None) -> None:
    if error is None:
        expect(isinstance(verdict, Works), f"works, instead of {verdict}")
        return
    shown = f"{error[0]}: {error[1]}"
    if not isinstance(verdict, Raises):
        raise Wrong(f"raises {shown}, instead of {verdict}")
    is_so = error[0] == verdict.error and verdict.text in error[1]
    expect(is_so, f"raises {shown}, instead of {verdict.error}: ...{verdict.text}...")


def cross(feature: str, event: str, seed: int) -> tuple[str, str] | None:
    """Let the event strike; returns the name and the text of the error that its victim got, if it got one."""
    strike = EVENTS[event](seed)
    before = descriptors() + strike.leaves
    session = Session(make(feature), **strike.options)
    try:
        play = Play(session)
        try:
            error = strike.strike(play)
        except Skipped as skipped:
            error = skipped
        play.finish()
        told = None if error is None else (type(error).__name__, str(error))
        del error, play
        check_whole(session)
    finally:
        with contextlib.suppress(FileNotFoundError):
            busq.Bus.unlink(session.bus.name)
    session.bus.close()
    check_nothing_left(session, before)
    return told


def check_whole(session: Session) -> None:
    """The bus is as it was at the beginning: nothing in its queues, and room for the largest message."""
    gc.collect()
    bus = session.bus
    end_s = time.monotonic() + PATIENCE_S
    while left := bus.peers():  # a thread that puts ends by itself, and a neighbour with the process that began it
        expect(time.monotonic() < end_s, f"still there: {left}")
        time.sleep(0.001)
    bus.collect()
    left_over = {facts["name"]: facts["depth"] for facts in bus.stats()["peers"] if facts["depth"]}
    expect(not left_over, f"left in queues: {left_over}")
    with bus.join("last") as last:
        arena = bus.stats()["arena_bytes"]
        last.send("last", bytes(arena), timeout=0)
        expect(len(last.recv(timeout=0).data) == arena, "the largest message is another one")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def check_nothing_left(session: Session, before: int) -> None:
    """Nothing of the session is open in this process."""
    name = session.bus.name
    gc.collect()
    expect(descriptors() <= before, f"{descriptors() - before} descriptors are left open: {open_files()}")
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if name in line]
    expect(not mapped, f"still mapped: {mapped}")


def open_files() -> list[Any]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return found
