# SPDX-License-Identifier: Apache-2.0
"""Views of groups in recordings: real buses whose members come, go and are killed hold; what was forged is refuted."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="traces need pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq
from audit_oracle import Row, judge, to_run
from conftest import Child, wait_until

import busq
from busq.audit import views_check
from busq.audit.native import audit
from busq.audit.result import INVALID, UNKNOWN, VALID, RunAudit
from busq.trace import Finding, Kind, Run, find, message_of, read, write
from busq.trace.recorder import Recorder

GROUP = "workers"


def recorded(directory: Path) -> Run:
    (source,) = find([directory]).sources
    return read(source)


def rows(run: Run, name: str, *kinds: Kind) -> list[Row]:
    found = run.logs[run.processes.index(name)].to_pylist()
    return [row for row in found if row["kind"] in kinds]


def views_of(run: Run, name: str) -> list[tuple[str, int, list[str]]]:
    """The views that a process saw: group, number and members by name."""
    return [
        (row["group"], row["view"], [run.processes[member] for member in row["members"]])
        for row in rows(run, name, Kind.DELIVER, Kind.LOCAL)
        if row["members"] is not None
    ]


def drain(peer: busq.Peer) -> list[busq.Message]:
    taken = []
    with contextlib.suppress(busq.Empty):
        while True:
            taken.append(peer.recv(timeout=0))
    return taken


# ---- what is recorded ----


def test_views_are_recorded_with_their_members_and_messages_with_their_view(bus: busq.Bus, tmp_path: Path) -> None:
    with Recorder(bus, tmp_path), bus.join("ann") as ann, bus.join("bob") as bob, bus.join("cy") as cy:
        ann.enter(GROUP)
        cy.send(f"@{GROUP}", b"1")
        bob.enter(GROUP)
        cy.send([f"@{GROUP}", "cy"], b"2")
        ann.leave(GROUP)
        seen = {peer.name: [m.view for m in drain(peer) if m.kind == "view"] for peer in (ann, bob)}
        drain(cy)
    run = recorded(tmp_path)
    for name in ("ann", "bob"):
        assert views_of(run, name) == [(GROUP, view.number, list(view.members)) for view in seen[name]]
    assert views_of(run, "cy") == []
    sent = [(row["group"], row["view"], row["members"]) for row in rows(run, "cy", Kind.SEND)]
    assert sent == [(GROUP, 1, None), (GROUP, 2, None)]
    found = audit(run)
    assert found.ok, [check.text for check in found.checks.values() if check.claimed and not check.ok]
    assert found.checks["views"].verdict == VALID


def test_a_view_with_many_members_is_recorded_whole(make_bus: Callable[..., busq.Bus], tmp_path: Path) -> None:
    bus = make_bus(peers=30)
    names = [f"p{number:02}" for number in range(27)]
    with Recorder(bus, tmp_path), contextlib.ExitStack() as stack:
        peers = [stack.enter_context(bus.join(name)) for name in names]
        for peer in peers:
            peer.enter(GROUP)
        for peer in peers:
            drain(peer)
    run = recorded(tmp_path)
    assert views_of(run, "p00")[:27] == [(GROUP, n + 1, names[: n + 1]) for n in range(27)]
    assert audit(run).checks["views"].verdict == VALID


def test_a_recording_that_begins_in_the_midst_knows_nothing_of_the_views_before(bus: busq.Bus, tmp_path: Path) -> None:
    with bus.join("ann") as ann, bus.join("bob") as bob:
        ann.enter(GROUP)
        bob.enter(GROUP)
        ann.send(f"@{GROUP}", b"before")
        with Recorder(bus, tmp_path):
            ann.send(f"@{GROUP}", b"within")
            drain(ann)
            drain(bob)
            ann.leave(GROUP)
            drain(ann)
            drain(bob)
    found = audit(recorded(tmp_path))
    assert found.checks["views"].verdict == VALID
    assert found.ok


def test_events_that_a_peer_leaves_unread_are_missed_by_nobody(bus: busq.Bus, tmp_path: Path) -> None:
    """A peer that closes in a group gets the view in which it is out, and never reads it: passed, and not lost."""
    with Recorder(bus, tmp_path), bus.join("ann") as ann:
        with bus.join("bob") as bob:
            ann.enter(GROUP)
            bob.enter(GROUP)
        drain(ann)
    run = recorded(tmp_path)
    assert rows(run, "bob", Kind.PASS)
    found = audit(run)
    assert found.checks["lost"].verdict == VALID
    assert found.ok


def test_a_message_to_a_handle_is_not_lost_when_its_node_is_gone(bus: busq.Bus, tmp_path: Path) -> None:
    """Sent before the destruction is known, delivered or passed behind it: in no interleaving is it lost."""
    with Recorder(bus, tmp_path), bus.join("ann") as ann, bus.join("bob") as bob:
        for _ in range(30):
            node = ann.node()
            ann.send("bob", b"take it", handles=[node.handle])
            (handle,) = bob.recv(timeout=30).handles
            bob.send(handle, b"1")
            node.destroy()
            with pytest.raises(busq.PeerDead):
                bob.send(handle, b"2")
            drain(ann)
            drain(bob)
    found = audit(recorded(tmp_path))
    assert found.checks["lost"].verdict == VALID
    assert found.ok


def seen_by(directory: Path, name: str) -> list[tuple[str, int, list[str]]]:
    """The views of a process that are written by now."""
    run = recorded(directory) if list(directory.glob("*/*.parquet")) else None
    return views_of(run, name) if run and name in run.processes else []


def take_turns(ann: busq.Peer, tmp_path: Path, groups: Sequence[str]) -> None:
    """Enters one group after the other; each is recorded before the next one gets its entry."""

    def recorded_now(n_views: int) -> None:
        drain(ann)
        wait_until(lambda: len(seen_by(tmp_path, "ann")) == n_views)

    for turn, group in enumerate(groups):
        ann.enter(group)
        ann.send(f"@{group}", b"work")
        recorded_now(2 * turn + 1)
        ann.leave(group)
        recorded_now(2 * turn + 2)


def test_a_group_whose_entry_was_another_ones_between_has_a_name_of_its_own(
    make_bus: Callable[..., busq.Bus], tmp_path: Path
) -> None:
    """The numbers of its views begin anew: under the old name view 1 would come behind view 2."""
    bus = make_bus(groups=1)
    with Recorder(bus, tmp_path, segment_s=0.01), bus.join("ann") as ann:
        take_turns(ann, tmp_path, ["workers", "others", "workers"])
    names = [group for group, _, _ in seen_by(tmp_path, "ann")]
    assert list(dict.fromkeys(names)) == ["workers", "others", "workers (2)"]
    check = audit(recorded(tmp_path)).checks["views"]
    assert (check.verdict, check.text) == (VALID, views_check.HOLDS)


def echoed(ann: busq.Peer) -> list[busq.Message]:
    ann.send("ann", b"is the recorder there?")
    return drain(ann)


def record_until_killed(bus_name: str, directory: str) -> None:
    with busq.Bus.open(bus_name) as bus, Recorder(bus, directory, segment_s=0.01):
        threading.Event().wait()


def test_the_next_recorder_goes_on_with_the_names_of_groups(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child], tmp_path: Path
) -> None:
    bus = make_bus(groups=1)
    with bus.join("ann") as ann:
        first = fork(record_until_killed, bus.name, str(tmp_path))
        wait_until(lambda: any(tmp_path.glob("*/*.parquet")) or not echoed(ann))
        take_turns(ann, tmp_path, ["workers", "others", "workers"])
        first.kill()
        with Recorder(bus, tmp_path, segment_s=0.01):
            ann.enter("workers")
            drain(ann)
    names = [group for group, _, _ in seen_by(tmp_path, "ann")]
    assert list(dict.fromkeys(names)) == ["workers", "others", "workers (2)"]
    assert audit(recorded(tmp_path)).checks["views"].count == 0


# ---- real ones hold ----


def member(bus_name: str, name: str, number: int) -> None:
    """Enters, sends to the group and receives, leaves and enters again, until it is killed."""
    rng = random.Random(number)
    with busq.Bus.open(bus_name) as bus, bus.join(name) as me:
        while True:
            me.enter(GROUP)
            for _ in range(rng.randint(1, 20)):
                with contextlib.suppress(busq.Full, busq.UnknownPeer):
                    me.send([f"@{GROUP}"], b"work", timeout=1)
                drain(me)
            me.leave(GROUP)


def test_members_that_enter_leave_and_are_killed_agree_on_their_views(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child], tmp_path: Path, seed: int
) -> None:
    bus = make_bus(capacity=256)
    rng = random.Random(seed)
    with Recorder(bus, tmp_path) as recorder, bus.join("watcher") as watcher:
        watcher.enter(GROUP)
        children = {f"m{n}": fork(member, bus.name, f"m{n}", n) for n in range(4)}
        for turn in range(6):
            for _ in range(rng.randint(20, 60)):
                watcher.recv(timeout=30)
            name = rng.choice(sorted(children))
            children.pop(name).kill()
            children[f"n{turn}"] = fork(member, bus.name, f"n{turn}", 10 + turn)
        for child in children.values():
            child.kill()
        wait_until(lambda: drain(watcher) is not None and watcher.view(GROUP).members == ("watcher",))
    run = recorded(tmp_path)
    found = audit(run)
    assert views_of(run, "watcher")[-1][2] == ["watcher"]
    expected = (VALID,) if recorder.recording.ok else (VALID, UNKNOWN)  # a killed one may leave a gap behind
    assert found.checks["views"].verdict in expected, found.checks["views"].text
    for name in ("duplicated", "phantom", "fifo", "causal", "total"):
        assert found.checks[name].count == 0, found.checks[name].text
    assert found.checks["lost"].verdict != INVALID, found.checks["lost"].text


# ---- forged ones are refuted ----

ANN, BOB = 0, 1
LARGEST = (1 << 63) - 1
M = message_of(ANN, 1)
SENT: Row = {"kind": Kind.SEND, "message": M, "destinations": [ANN, BOB], "group": GROUP, "view": 2}
GOT: Row = {"kind": Kind.DELIVER, "message": M}


def sight(view: int, members: Sequence[int]) -> Row:
    return {"kind": Kind.LOCAL, "group": GROUP, "view": view, "members": list(members)}


def run_of(*logs: Sequence[Mapping[str, Any]]) -> Run:
    return to_run([[{"position": i, **row} for i, row in enumerate(log)] for log in logs])


def sound() -> list[list[Row]]:
    """Ann and Bob are in view 2; a message; Bob leaves."""
    return [
        [sight(1, [ANN]), sight(2, [ANN, BOB]), SENT, GOT, sight(3, [ANN])],
        [sight(2, [ANN, BOB]), GOT, sight(3, [ANN])],
    ]


def judged(logs: Sequence[Sequence[Row]], tmp_path: Path) -> RunAudit:
    """The audit of what was written to files and read again; the oracle agrees with it."""
    run = run_of(*logs)
    write(run, tmp_path)
    found = audit(recorded(tmp_path))
    assert found.checks["views"].count == judge(run).counts["views"]
    return found


def test_a_sound_recording_holds(tmp_path: Path) -> None:
    found = judged(sound(), tmp_path)
    assert (found.ok, found.checks["views"].verdict, found.checks["views"].claimed) == (True, VALID, True)


def put(process: int, place: int, row: Row | None) -> Callable[[list[list[Row]]], None]:
    def change(logs: list[list[Row]]) -> None:
        logs[process][place : place + 1] = [] if row is None else [row]

    return change


def replaced(process: int, log: list[Row]) -> Callable[[list[list[Row]]], None]:
    def change(logs: list[list[Row]]) -> None:
        logs[process] = log

    return change


def swap(process: int, place: int) -> Callable[[list[list[Row]]], None]:
    def change(logs: list[list[Row]]) -> None:
        log = logs[process]
        log[place], log[place + 1] = log[place + 1], log[place]

    return change


FORGED = {
    "unequal": (
        put(BOB, 0, sight(2, [BOB])),
        "view 2 of @workers has other members at p1 than at p0: p1; and p0 and p1",
    ),
    "skipped": (put(ANN, 1, None), "p0 saw view 3 of @workers next after view 1"),
    "early": (swap(BOB, 0), "p1 delivered p0.1 before view 2 of @workers; p0 sent it in view 2"),
    "late": (swap(BOB, 1), "p1 delivered p0.1 in view 3 of @workers; p0 sent it in view 2"),
    "in another": (put(ANN, 2, {**SENT, "view": 3}), "p0 delivered p0.1 in view 2 of @workers; p0 sent it in view 3"),
    "without a log": (
        put(BOB, 0, sight(2, [ANN, 7])),
        "view 2 of @workers has other members at p1 than at p0: p0 and p7; and p0 and p1",
    ),
    "behind the last number": (
        replaced(ANN, [sight(LARGEST, [ANN]), sight(-LARGEST - 1, [ANN])]),
        f"p0 saw view {-LARGEST - 1} of @workers next after view {LARGEST}",
    ),
    "missed": (put(BOB, 1, {"kind": Kind.LOCAL}), "p1 left view 2 of @workers without p0.1, which p0 delivered"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_recording_is_refuted_with_the_shortest_witness(name: str, tmp_path: Path) -> None:
    change, text = FORGED[name]
    logs = sound()
    change(logs)
    found = judged(logs, tmp_path)
    check = found.checks["views"]
    assert (check.verdict, check.text) == (INVALID, text)
    assert not found.ok


def test_what_lacks_events_is_left_open(tmp_path: Path) -> None:
    logs = sound()
    logs[ANN][1] = {"kind": Kind.GAP, "stamp": 1}
    check = judged(logs, tmp_path).checks["views"]
    assert (check.verdict, check.count) == (UNKNOWN, 0)


def test_another_life_need_not_know_the_views_between(tmp_path: Path) -> None:
    logs = sound()
    logs[ANN] += [{"kind": Kind.JOIN}, sight(7, [ANN])]
    assert judged(logs, tmp_path).checks["views"].verdict == VALID


def test_who_is_named_beside_the_group_may_be_in_no_view(tmp_path: Path) -> None:
    logs = sound()
    logs[ANN][2] = {**SENT, "destinations": [ANN, BOB, 2]}
    logs.append([GOT])
    assert judged(logs, tmp_path).checks["views"].verdict == VALID


def test_what_was_passed_is_not_lost(tmp_path: Path) -> None:
    logs = sound()
    logs[ANN][2] = {**SENT, "destinations": [ANN, BOB, 2]}
    logs.append([{"kind": Kind.PASS, "message": M}])
    found = judged(logs, tmp_path)
    assert found.checks["lost"].verdict == VALID


def test_logs_without_groups_say_nothing_about_views(tmp_path: Path) -> None:
    run = run_of([{"kind": Kind.SEND, "message": M, "destinations": [BOB]}], [GOT])
    check = audit(run).checks["views"]
    assert (check.verdict, check.claimed, check.text) == (UNKNOWN, False, "the logs tell of no groups")


def nobody_saw() -> list[list[Row]]:
    """A message to a group that was sent and delivered; its views stand in no log."""
    return [[SENT, GOT], [GOT]]


def test_what_nobody_saw_does_not_hold(tmp_path: Path) -> None:
    check = judged(nobody_saw(), tmp_path).checks["views"]
    assert (check.verdict, check.text) == (UNKNOWN, "the logs tell of no view")


def test_where_the_order_of_events_is_a_guess_so_is_a_fault_of_views() -> None:
    logs = sound()
    FORGED["skipped"][0](logs)
    doubt = Finding("ties", "equal times", is_error=False)
    check = audit(replace(run_of(*logs), findings=(doubt,))).checks["views"]
    assert (check.verdict, check.count) == (UNKNOWN, 2)
    assert check.text.endswith("; but equal times")


STRANGE = {
    "view": pa.array([1 << 63, None], pa.uint64()),
    "members": pa.array([[0], [1 << 40]], pa.list_(pa.int64())),
}


def strangers_file(path: Path, name: str) -> Path:
    """A message and its delivery, with columns that are called as those of groups, and mean something else."""
    table = {
        "process": pa.array([0, 1], pa.int32()),
        "position": pa.array([0, 0], pa.int64()),
        "kind": pa.array([Kind.SEND, Kind.DELIVER], pa.int8()),
        "message": pa.array([M, M], pa.int64()),
        "destinations": pa.array([[BOB], None], pa.list_(pa.int32())),
        "group": pa.array(["a", "b"]),
        "view": pa.array([5, 6], pa.int64()),
        "members": pa.array([[0], [1]], pa.list_(pa.int32())),
    }
    pq.write_table(pa.table({**table, name: STRANGE[name]}), path / "strange.parquet")
    return path


@pytest.mark.parametrize("name", STRANGE)
def test_columns_of_a_stranger_that_are_called_as_those_of_groups_are_left_out(name: str, tmp_path: Path) -> None:
    found = audit(recorded(strangers_file(tmp_path, name)))
    assert [(f.kind, f.is_error) for f in found.findings] == [("strange-groups", False)]
    assert f"column {name!r}" in found.findings[0].text
    assert (found.checks["views"].text, found.checks["lost"].verdict) == ("the logs tell of no groups", VALID)


def test_views_may_be_numbers_without_a_sign(tmp_path: Path) -> None:
    write(run_of(*sound()), tmp_path)
    unsigned(tmp_path)
    assert audit(recorded(tmp_path)).checks["views"].verdict == VALID


def unsigned(directory: Path) -> None:
    """Gives the files of a trace views and members of types that a stranger might choose."""
    for path in directory.rglob("*.parquet"):
        table = pq.read_table(path)
        for column, kind in (("view", pa.uint64()), ("members", pa.list_(pa.uint64()))):
            table = table.set_column(table.column_names.index(column), column, table[column].cast(kind))
        pq.write_table(table, path)
