# SPDX-License-Identifier: Apache-2.0
"""Recordings of several machines, judged as one run: `busq record` on each, `busq audit --format machines` of all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from bridging import WAIT_S, Machine, data_of, machine, run_busq, server  # noqa: F401  (fixtures)

import busq
from busq.audit import native
from busq.trace import Kind, Recorder, Run, find, machines, read

Make = Callable[..., Machine]


@pytest.fixture
def recorded(machine: Make, tmp_path: Path) -> Path:  # noqa: F811
    """Two machines that send to one group and among themselves, while a bridge is killed in between."""
    here, there = machine("m1"), machine("m2")
    with Recorder(here.bus, tmp_path / "m1"), Recorder(there.bus, tmp_path / "m2"):
        with here.bus.join("alice") as alice, here.bus.join("carl") as carl, there.bus.join("bob") as bob:
            for peer in (alice, carl, bob):
                peer.enter("prices")
            for n in range(20):
                alice.send("carl", b"before %d" % n, timeout=WAIT_S)
                alice.send("@prices", b"%d" % n, timeout=WAIT_S)
                bob.send_many([("@prices", b"%d %d" % (n, k)) for k in range(3)], timeout=WAIT_S)
                if n == 9:
                    there.end()
                    there.begin()
            alice.sync("@prices", timeout=WAIT_S)
            data_of(alice, 80), data_of(carl, 100), data_of(bob, 80)
        for one in (here, there):
            one.end()
    return tmp_path


def runs_in(directory: Path) -> dict[str, Run]:
    return {name: read(directory / name) for name in ("m1", "m2")}


def judged(runs: dict[str, Run]) -> Any:
    (source,) = (replace(run.source, format="machines") for run in list(runs.values())[:1])
    return native.audit(machines.merged(source, runs))


def test_two_machines_are_one_run_in_one_order(recorded: Path) -> None:
    found = run_busq("audit", "--format", "machines", str(recorded / "m1"), str(recorded / "m2"), "--json")
    assert found.returncode == 0, found.stdout + found.stderr
    (run,) = json.loads(found.stdout)["runs"]
    assert {"m1/alice", "m2/bob", "m1/bridge@d", "m2/bridge@d"} <= set(run["processes"])
    verdicts = {name: check["verdict"] for name, check in run["verdicts"].items()}
    for name in ("duplicated", "phantom", "fifo", "causal", "consistent", "lost"):
        assert verdicts[name] == "valid", found.stdout


def test_each_message_is_one_with_receivers_on_both_machines(recorded: Path) -> None:
    (source,) = find([recorded / "m1", recorded / "m2"], format="machines").sources
    run = read(source)
    members = [run.processes.index(name) for name in ("m1/alice", "m1/carl", "m2/bob")]
    wide = {
        message
        for log in run.logs
        for kind, message, to in zip(
            *(log[name].to_pylist() for name in ("kind", "message", "destinations")), strict=True
        )
        if kind == Kind.SEND and set(members) <= set(to)
    }
    assert len(wide) == 81  # and the view in which all of them are
    for member in members:
        assert [one for one in delivered(run.logs[member]) if one in wide] == [
            one for one in delivered(run.logs[members[0]]) if one in wide
        ]


def delivered(log: pa.Table) -> list[int]:
    is_delivery = pc.equal(log["kind"], int(Kind.DELIVER))
    return log["message"].filter(is_delivery).to_pylist()


def changed(run: Run, name: str, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Run:
    at = run.processes.index(name)
    log = pa.Table.from_pylist(change(run.logs[at].to_pylist()), schema=run.logs[at].schema)
    return replace(run, logs=(*run.logs[:at], log, *run.logs[at + 1 :]))


def wide_rows(rows: list[dict[str, Any]], run: Run) -> list[int]:
    """The deliveries in a member's log of what the bridge re-sent."""
    bridge = run.processes.index("bridge@d")
    return [
        at for at, row in enumerate(rows)
        if row["kind"] == Kind.DELIVER and row["message"] >> 32 == bridge and row["members"] is None
    ]  # fmt: skip


def test_an_order_that_differs_on_one_machine_is_found(recorded: Path) -> None:
    runs = runs_in(recorded)

    def swap(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        one, other = wide_rows(rows, runs["m2"])[4:6]
        rows[one]["message"], rows[other]["message"] = rows[other]["message"], rows[one]["message"]
        return rows

    runs["m2"] = changed(runs["m2"], "bob", swap)
    assert judged(runs).checks["consistent"].verdict == "invalid"


def test_what_a_machine_has_left_out_is_lost_and_what_it_repeats_is_doubled(recorded: Path) -> None:
    runs = runs_in(recorded)
    whole = runs["m2"]

    def without_one(name: str, log: pa.Table) -> pa.Table:
        rows = log.to_pylist()
        return pa.Table.from_pylist([row for row in rows if row["message"] != left_out], schema=log.schema)

    bob = whole.processes.index("bob")
    rows = whole.logs[bob].to_pylist()
    left_out = rows[wide_rows(rows, whole)[8]]["message"]
    logs = tuple(without_one(name, log) for name, log in zip(whole.processes, whole.logs, strict=True))
    runs["m2"] = replace(whole, logs=logs)
    found = judged(runs).checks["lost"]
    assert (found.verdict, found.count) == ("invalid", 1)
    assert found.processes[0] == "m2/bridge@d"

    def again(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        at = wide_rows(rows, whole)[8]
        return [*rows[: at + 1], rows[at], *rows[at + 1 :]]

    runs["m2"] = changed(whole, "bob", again)
    assert judged(runs).checks["duplicated"].verdict == "invalid"


def test_recordings_that_are_no_machines_are_refused(tmp_path: Path) -> None:
    with busq.Bus.create("alone") as bus, Recorder(bus, tmp_path / "m1"), bus.join("ann") as ann:
        ann.send("ann", b"")
        ann.recv()
    busq.Bus.unlink("alone")
    found = run_busq("audit", "--format", "machines", str(tmp_path / "m1"))
    assert found.returncode == 2
    assert "expected those of two machines or more" in found.stderr
