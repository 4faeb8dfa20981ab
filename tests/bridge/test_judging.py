# SPDX-License-Identifier: Apache-2.0
"""Recordings of several machines, judged as one run: `busq record` on each, `busq audit --format machines` of all."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from bridging import WAIT_S, Machine, data_of, need_server, run_busq

import busq
from busq.audit import native
from busq.bench.nats_servers import NatsServer
from busq.trace import Kind, Recorder, Run, find, machines, read


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two machines that send to one group and among themselves, while a bridge is killed in between."""
    need_server()
    folder = tmp_path_factory.mktemp("judging")
    with contextlib.ExitStack() as stack:
        server = NatsServer(folder)
        stack.callback(server.end)
        assert run_busq("bridge", "init", "d", "--storage", "memory", "--server", server.url).returncode == 0
        here, there = Machine(server, "m1"), Machine(server, "m2")
        for one in (here, there):
            stack.callback(one.close)
            one.begin()
        record(here, there, folder)
        yield folder


def record(here: Machine, there: Machine, folder: Path) -> None:
    with Recorder(here.bus, folder / "m1"), Recorder(there.bus, folder / "m2"):
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
            for change in (carl.leave, bob.leave, carl.enter, bob.enter):
                change("prices")
                alice.send("@prices", b"between", timeout=WAIT_S)
            for peer, count in (alice, 4), (carl, 2), (bob, 2):  # the view behind comes to all of them
                data_of(peer, count)
        for one in (here, there):
            one.end()


def runs_in(directory: Path) -> dict[str, Run]:
    return {name: read(directory / name) for name in ("m1", "m2")}


def judged(runs: dict[str, Run]) -> Any:
    (source,) = (replace(run.source, format="machines") for run in list(runs.values())[:1])
    return native.audit(machines.merged(source, runs))


def test_two_machines_are_one_run_in_one_order(recorded: Path) -> None:
    found = run_busq("audit", "--format", "machines", str(recorded / "m1"), str(recorded / "m2"), "--json")
    (run,) = json.loads(found.stdout)["runs"]
    assert {"m1/alice", "m2/bob", "m1/bridge@d", "m2/bridge@d"} <= set(run["processes"])
    verdicts = {name: check["verdict"] for name, check in run["verdicts"].items()}
    for name in ("duplicated", "phantom", "fifo", "causal", "consistent", "views"):
        assert verdicts[name] == "valid", found.stdout
    # A bridge that was ended may have left some of what it has sent to itself.
    is_known = verdicts["lost"] == "valid"
    assert is_known or set(run["verdicts"]["lost"]["processes"]) <= {"m1/bridge@d", "m2/bridge@d"}, found.stdout
    assert (found.returncode, verdicts["lost"]) == ((0, "valid") if is_known else (1, "unknown")), found.stderr


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
    assert len(wide) == 84  # and the views that all of them begin or leave
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


def test_what_is_lost_counts_also_where_a_member_has_died(recorded: Path) -> None:
    runs = runs_in(recorded)
    runs["m2"] = changed(runs["m2"], "bob", lambda rows: [*rows[:-1], rows[-1] | {"kind": Kind.DIE}])
    found = judged(runs)
    assert "died" in {finding.kind for finding in found.findings}
    assert found.checks["lost"].claimed


def test_what_a_machine_has_left_out_is_lost_and_what_it_repeats_is_doubled(recorded: Path) -> None:
    runs = runs_in(recorded)
    whole, left_by_bridges = runs["m2"], judged(runs).checks["lost"].count

    def without_one(name: str, log: pa.Table) -> pa.Table:
        rows = log.to_pylist()
        return pa.Table.from_pylist([row for row in rows if row["message"] != left_out], schema=log.schema)

    bob = whole.processes.index("bob")
    rows = whole.logs[bob].to_pylist()
    left_out = rows[wide_rows(rows, whole)[8]]["message"]
    logs = tuple(without_one(name, log) for name, log in zip(whole.processes, whole.logs, strict=True))
    runs["m2"] = replace(whole, logs=logs)
    found = judged(runs).checks["lost"]
    assert (found.verdict, found.count) == ("invalid", 1 + left_by_bridges)
    assert found.processes[0].endswith("/bridge@d")

    def again(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        at = wide_rows(rows, whole)[8]
        return [*rows[: at + 1], rows[at], *rows[at + 1 :]]

    runs["m2"] = changed(whole, "bob", again)
    assert judged(runs).checks["duplicated"].verdict == "invalid"


def view_faults(run: Run) -> set[str]:
    """By the definitions, of one group: what members do that have not seen its views as the stream has them."""
    views: dict[int, int] = {}  # by message: the view that it is sent in
    members: dict[int, set[int]] = {}
    for log in run.logs:
        for row in log.to_pylist():
            if row["members"] is not None:
                members[row["view"]] = set(row["members"])
            elif row["view"] is not None:
                views[row["message"]] = row["view"]
    seen = {process: walk(delivered_rows(log), views) for process, log in enumerate(run.logs)}
    anywhere = {one for by_view in seen.values() for messages in by_view.values() for one in messages}
    found = set()
    for process, by_view in seen.items():
        numbers = [view for view in by_view if view]
        for before, after in itertools.pairwise(numbers):
            if after <= before or (process in members[before] and after > before + 1):
                found.add("skipped")
            left = {one for one in anywhere if views[one] == before} - set(by_view[before])
            if left and after == before + 1 and process in members[before]:
                found.add("missed")
        for view, messages in by_view.items():
            if numbers and any(views[one] != view for one in messages):
                found.add("outside")
    return found


def delivered_rows(log: pa.Table) -> list[dict[str, Any]]:
    return [row for row in log.to_pylist() if row["kind"] == Kind.DELIVER]


def walk(rows: list[dict[str, Any]], views: dict[int, int]) -> dict[int, list[int]]:
    """By the views of a member, in their order: messages of the group that it delivers there; 0: before the first."""
    by_view: dict[int, list[int]] = {0: []}
    now = 0
    for row in rows:
        if row["members"] is not None:
            now = row["view"]
            by_view.setdefault(now, [])
        elif row["message"] in views:
            by_view[now].append(row["message"])
    return by_view


def test_views_are_judged_as_by_their_definition_whatever_a_member_does_not_see(recorded: Path, seed: int) -> None:
    whole, random, found = runs_in(recorded), Random(seed), set()
    assert judged(whole).checks["views"].verdict == "valid"

    def spoil(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        wide = [at for at, row in enumerate(rows) if row["kind"] == Kind.DELIVER and row["message"] >> 32 == bridge]
        one, other = random.sample(wide[-12:], 2)  # among the views
        if random.random() < 0.5:
            return rows[:one] + rows[one + 1 :]
        rows[one]["message"], rows[other]["message"] = rows[other]["message"], rows[one]["message"]
        return rows

    for _ in range(500):
        if {"skipped", "outside", "missed"} <= found:
            break
        name, peer = random.choice([("m1", "alice"), ("m1", "carl"), ("m2", "bob")])
        bridge = whole[name].processes.index("bridge@d")
        runs = whole | {name: changed(whole[name], peer, spoil)}
        (source,) = (replace(run.source, format="machines") for run in list(runs.values())[:1])
        run = machines.merged(source, runs)
        expected, verdict = view_faults(run), native.audit(run).checks["views"]
        assert verdict.verdict == ("invalid" if expected else "valid"), verdict.text
        assert {*verdict.kinds} <= expected
        found |= {*verdict.kinds}
    assert found == {"skipped", "outside", "missed"}


def test_recordings_that_are_no_machines_are_refused(tmp_path: Path) -> None:
    with busq.Bus.create("alone") as bus, Recorder(bus, tmp_path / "m1"), bus.join("ann") as ann:
        ann.send("ann", b"")
        ann.recv()
    busq.Bus.unlink("alone")
    found = run_busq("audit", "--format", "machines", str(tmp_path / "m1"))
    assert found.returncode == 2
    assert "expected those of two machines or more" in found.stderr
