# SPDX-License-Identifier: Apache-2.0
"""What each way of sending and receiving looks like to an audit, and the readers of shared queues most of all."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="traces need pyarrow")

import pyarrow as pa
from conftest import Child, fresh_python, wait_until

import busq
from busq.audit.native import audit
from busq.audit.result import INVALID, UNKNOWN, VALID, RunAudit
from busq.trace import SCHEMA, Kind, Run, find, message_of, read
from busq.trace.recorded_files import Folder
from busq.trace.recorder import Recorder

ORDERS = ("fifo", "causal", "consistent", "total", "side")


def recorded(directory: Path) -> Run:
    (source,) = find([directory]).sources
    return read(source)


def judged(directory: Path) -> RunAudit:
    return audit(recorded(directory))


def check_all_holds(found: RunAudit, *, messages: int, has_times: bool = True) -> None:
    """All that the order claims holds, every message was delivered, and each of them is counted once."""
    untold = {
        name: check.text
        for name, check in found.checks.items()
        if check.claimed and check.verdict != VALID and (has_times or name != "side")
    }
    assert untold == {}
    assert found.checks["lost"].verdict == VALID
    assert found.ok
    assert (found.messages, found.deliveries) == (messages, messages)


# ---- every way to send and to receive ----


def answer(bus_name: str, ack: bool) -> int:
    """The life of a reader of a shared queue: it answers until the bus is shut down."""
    answered = 0
    jobs = busq.Bus.open(bus_name).join("jobs", shared=True, durable=True, resume=True)
    with jobs, contextlib.suppress(busq.ShutDown):
        while True:
            message = jobs.recv(ack=ack)
            message.reply(message.data)
            answered += 1
            if ack:
                message.ack()
    return answered


def ask_all(bus: busq.Bus, name: str, count: int) -> None:
    with bus.join(name) as asker:
        for number in range(count):
            assert asker.ask("jobs", b"%d" % number).data == b"%d" % number


@pytest.mark.parametrize("ack", [False, True], ids=["plain", "acknowledged"])
def test_readers_of_a_shared_queue_that_reply_are_processes_of_their_own(
    bus: busq.Bus, fork: Callable[..., Child], tmp_path: Path, ack: bool
) -> None:
    bus.join("jobs", shared=True, durable=True).close()
    with Recorder(bus, tmp_path / "trace"):
        readers = [fork(answer, bus.name, ack) for _ in range(2)]
        wait_until(lambda: any(peer["consumers"] == 2 for peer in bus.stats()["peers"]))
        askers = [threading.Thread(target=ask_all, args=(bus, name, 60)) for name in ("ann", "bob")]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        bus.shutdown()
        answered = [reader.result() for reader in readers]
    run = recorded(tmp_path / "trace")
    assert sum(answered) == 120
    assert {"jobs", "jobs (2)"} <= set(run.processes)
    check_all_holds(audit(run), messages=240)


def take_and_keep(bus_name: str, count: int) -> None:
    """A reader that takes messages and never acknowledges them."""
    with busq.Bus.open(bus_name).join("jobs", shared=True, durable=True, resume=True) as jobs:
        kept = [jobs.recv(ack=True) for _ in range(count)]
        jobs.send("boss", b"%d" % len(kept))
        threading.Event().wait()


def test_what_a_killed_reader_had_counts_where_it_was_taken_first(
    bus: busq.Bus, fork: Callable[..., Child], tmp_path: Path
) -> None:
    bus.join("jobs", shared=True, durable=True).close()
    with Recorder(bus, tmp_path / "trace"), bus.join("boss") as boss:
        for number in range(20):
            boss.send("jobs", b"%d" % number)
        victim = fork(take_and_keep, bus.name, 5)
        assert boss.recv().data == b"5"
        victim.kill()
        with bus.join("jobs", shared=True, durable=True, resume=True) as jobs:
            got = [jobs.recv() for _ in range(20)]
    assert sum(message.redelivered for message in got) == 5
    found = judged(tmp_path / "trace")
    check_all_holds(found, messages=21, has_times=False)  # the last call of the victim may not have returned
    assert any("5 deliveries marked as repeated" in finding.text for finding in found.findings)


def test_readers_that_come_and_go_add_no_end_of_processes(bus: busq.Bus, tmp_path: Path) -> None:
    bus.join("jobs", shared=True, durable=True).close()
    with Recorder(bus, tmp_path / "trace"), bus.join("boss") as boss:
        for number in range(30):
            boss.send("jobs", b"%d" % number)
            with bus.join("jobs", shared=True, durable=True, resume=True) as jobs:
                assert jobs.recv().data == b"%d" % number
    run = recorded(tmp_path / "trace")
    assert len(run.processes) <= bus.stats()["peer_slots"]
    check_all_holds(audit(run), messages=30)


def durable(bus: busq.Bus) -> int:
    with bus.join("ann") as ann:
        bob = bus.join("bob", durable=True)
        ann.send("bob", b"1")
        bob.recv()
        bob.close()
        ann.send_many([("bob", b"2"), ("bob", b"3")])
        with bus.join("bob", durable=True, resume=True) as bob:
            assert [bob.recv().data, bob.recv().data] == [b"2", b"3"]
    return 3


def acknowledged(bus: busq.Bus) -> int:
    with bus.join("ann") as ann:
        bob = bus.join("bob", durable=True)
        ann.send_many([("bob", b"%d" % number) for number in range(5)])
        bob.recv(ack=True).ack()
        bob.recv(ack=True)
        bob.close()
        with bus.join("bob", durable=True, resume=True) as bob:
            got = [bob.recv() for _ in range(4)]
    assert [message.redelivered for message in got] == [True, False, False, False]
    return 5


def node(bus: busq.Bus) -> int:
    with bus.join("ann") as ann, bus.join("bob") as bob:
        mine = bob.node()
        bob.send("ann", b"here", handles=[mine.handle])
        (handle,) = ann.recv().handles
        ann.send([handle, "ann"], b"to the node")
        assert (bob.recv().data, ann.recv().data) == (b"to the node", b"to the node")
        mine.destroy()
        assert {ann.recv().kind, bob.recv().kind} == {"node_destroyed"}
    return 3


def handle(bus: busq.Bus) -> int:
    with bus.join("ann") as ann, bus.join("bob") as bob, bus.join("cleo") as cleo:
        mine = ann.node()
        ann.send(["bob", "cleo"], b"", handles=[mine.handle])
        handles = [peer.recv().handles[0] for peer in (bob, cleo)]
        for held in handles:
            held.release()
        assert ann.recv().kind == "node_released"
    return 1


def handle_between_sends(bus: busq.Bus) -> int:
    """The notice that the last holder let go stands between sends of the node's owner."""
    with bus.join("ann") as ann, bus.join("bob") as bob:
        for _ in range(3):
            mine = ann.node()
            ann.send("bob", b"", handles=[mine.handle])
            bob.recv().handles[0].release()
            assert ann.recv().kind == "node_released"
            mine.destroy()
            assert ann.recv().kind == "node_destroyed"
    return 6


def request(bus: busq.Bus) -> int:
    with bus.join("ann") as ann, bus.join("bob") as bob:
        answerer = threading.Thread(target=lambda: [bob.recv().reply(b"yes") for _ in range(10)])
        answerer.start()
        assert [ann.ask("bob", b"?").data for _ in range(10)] == [b"yes"] * 10
        answerer.join()
    return 20


def group(bus: busq.Bus) -> int:
    with bus.join("ann") as ann, bus.join("bob") as bob, bus.join("cleo") as cleo:
        ann.enter("workers")
        bob.enter("workers")
        cleo.send("@workers", b"work")
        bob.leave("workers")
        cleo.send("@workers", b"more")
        got = [[message.kind for message in peer.recv_many(9, timeout=0)] for peer in (ann, bob)]
    assert got == [["view", "view", "data", "view", "data"], ["view", "data", "view"]]
    return 5


def get_all(queue: Any, count: int) -> list[int]:
    return [queue.get() for _ in range(count)]


def queue(bus: busq.Bus) -> int:
    shared: Any = busq.Queue(bus=bus)
    readers = [Child(get_all, (shared, 10)) for _ in range(2)]
    for number in range(20):
        shared.put(number)
    assert sorted(number for reader in readers for number in reader.result()) == list(range(20))
    for reader in readers:
        reader.close()
    shared.close()
    shared.join_thread()
    return 20


def replica(bus: busq.Bus) -> int:
    with busq.replica.Counter.join(bus, "count") as one, busq.replica.Counter.join(bus, "count") as other:
        for _ in range(5):
            one.add(1)
            other.add(1)
        assert one.sync() is None
        assert one.value == 10
    return 0


@pytest.mark.parametrize(
    "way", [durable, acknowledged, node, handle, handle_between_sends, request, group, queue, replica]
)
def test_nothing_is_held_against_a_way_to_send_that_was_recorded(
    make_bus: Callable[..., busq.Bus], tmp_path: Path, way: Callable[[busq.Bus], int]
) -> None:
    bus = make_bus(peers=16)
    with Recorder(bus, tmp_path / "trace") as recorder:
        messages = way(bus)
    assert recorder.recording.ok
    found = judged(tmp_path / "trace")
    assert {name: check.text for name, check in found.checks.items() if check.claimed and not check.ok} == {}
    assert [finding.text for finding in found.findings if finding.is_error] == []
    assert found.ok
    assert found.messages >= messages
    assert found.checks["lost"].verdict in (VALID, UNKNOWN)
    assert {found.checks[name].verdict for name in ("duplicated", "phantom", *ORDERS)} == {VALID}


# ---- a recorder that is killed ----

KILLED_RECORDER = """
import os, sys, busq, time
bus = busq.Bus.open(sys.argv[1])
recorder = busq.trace.Recorder(bus, sys.argv[2], segment_s=0.05)
print("ready", flush=True)
while recorder.recording.rows < int(sys.argv[3]):
    time.sleep(0.01)
os._exit(9)
"""


def test_readers_keep_their_names_when_another_recorder_goes_on(bus: busq.Bus, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with bus.join("boss") as boss, contextlib.ExitStack() as stack:
        readers = [stack.enter_context(bus.join("jobs", shared=True)) for _ in range(3)]

        def round_trip() -> None:
            for reader in readers:
                boss.send("jobs", b"")
                reader.recv()
                reader.send("boss", b"")
                boss.recv()

        stop = threading.Event()

        def keep_on() -> None:
            while not stop.wait(0.001):
                round_trip()

        talk = threading.Thread(target=keep_on)
        talk.start()
        killed = fresh_python(KILLED_RECORDER, bus.name, str(trace), "200")
        stop.set()
        talk.join()
        assert killed.returncode == 9, killed.stderr
        before = recorded(trace)
        with Recorder(bus, trace):
            round_trip()
    after = recorded(trace)
    assert after.processes[: len(before.processes)] == before.processes
    assert {"jobs", "jobs (2)", "jobs (3)"} <= set(after.processes)
    found = audit(after)
    assert {found.checks[name].verdict for name in ("duplicated", "phantom", "fifo", "causal")} <= {VALID, UNKNOWN}


# ---- what is forged ----

BOSS, QUEUE, SECOND, THIRD = range(4)
READERS = {QUEUE: [QUEUE, 5], SECOND: [QUEUE, 6], THIRD: [QUEUE, 7]}

Event = tuple[Kind, int]


def forged(directory: Path, logs: Mapping[int, Sequence[Event]]) -> Path:
    """Write the logs of a boss that sends to a shared queue, and of its three readers; numbers are of messages."""
    folder = Folder(directory / "run", "run", "bus1")
    folder.path.mkdir(parents=True)
    for process, name in enumerate(["boss", "jobs", "jobs", "jobs"]):
        folder.know(process, name)
    for process, (its_queue, slot) in READERS.items():
        folder.know_reader(process, its_queue, slot)
    for process in range(4):
        rows = [
            {
                "run": "run",
                "process": process,
                "position": position,
                "kind": kind,
                "message": None if kind == Kind.GAP else message_of(BOSS, number),
                "destinations": [QUEUE] if kind == Kind.SEND else None,
                "stamp": number,
            }
            for position, (kind, number) in enumerate(logs.get(process, ()))
        ]
        if rows:
            folder.write(process, pa.Table.from_pylist(rows, schema=SCHEMA))
    return directory


def sends(count: int) -> list[Event]:
    return [(Kind.SEND, number) for number in range(1, count + 1)]


def gets(*numbers: int) -> list[Event]:
    return [(Kind.DELIVER, number) for number in numbers]


def counts(found: RunAudit) -> dict[str, tuple[str, int]]:
    return {name: (check.verdict, check.count) for name, check in found.checks.items() if check.count}


def test_each_message_goes_to_one_reader(tmp_path: Path) -> None:
    directory = forged(tmp_path, {BOSS: sends(6), QUEUE: gets(1, 4), SECOND: gets(2, 3, 6), THIRD: gets(5)})
    run = recorded(directory)
    assert run.processes == ("boss", "jobs", "jobs (2)", "jobs (3)")
    assert run.logs[BOSS]["destinations"].to_pylist() == [[1], [2], [2], [1], [3], [2]]
    check_all_holds(audit(run), messages=6, has_times=False)


def test_a_message_that_two_readers_took_is_doubled_and_invented_by_nobody(tmp_path: Path) -> None:
    found = judged(forged(tmp_path, {BOSS: sends(3), QUEUE: gets(1, 3), SECOND: gets(2, 3)}))
    assert counts(found) == {"duplicated": (INVALID, 1)}
    assert found.checks["duplicated"].text == "jobs delivered boss.3 more than once"


def test_a_message_that_comes_to_another_reader_again_is_not_doubled(tmp_path: Path) -> None:
    again = [(Kind.REDELIVER, 1), (Kind.REDELIVER, 2)]
    found = judged(forged(tmp_path, {BOSS: sends(4), QUEUE: gets(1, 2), SECOND: [*gets(3, 4), *again]}))
    assert counts(found) == {}
    assert any("2 deliveries marked as repeated" in finding.text for finding in found.findings)


def test_what_came_back_before_its_first_reader_had_told_of_it_is_neither_lost_nor_late(tmp_path: Path) -> None:
    found = judged(forged(tmp_path, {BOSS: sends(4), QUEUE: gets(2), SECOND: [*gets(3, 4), (Kind.REDELIVER, 1)]}))
    assert counts(found) == {}


def test_what_no_reader_took_is_lost_when_one_took_something_later(tmp_path: Path) -> None:
    found = judged(forged(tmp_path, {BOSS: sends(4), QUEUE: gets(1), SECOND: gets(3)}))
    assert counts(found) == {"lost": (INVALID, 2)}
    assert "jobs (2) never delivered boss.2" in found.checks["lost"].text
    assert "1 other loss cannot be told" in found.checks["lost"].text


def test_what_is_missing_may_stand_in_a_gap_of_any_reader(tmp_path: Path) -> None:
    found = judged(forged(tmp_path, {BOSS: sends(3), QUEUE: [(Kind.GAP, 1)], SECOND: gets(1, 3)}))
    assert counts(found) == {"lost": (UNKNOWN, 1)}


def test_a_reader_that_takes_messages_out_of_order_is_found(tmp_path: Path) -> None:
    found = judged(forged(tmp_path, {BOSS: sends(4), QUEUE: gets(1), SECOND: gets(3, 2), THIRD: gets(4)}))
    assert found.checks["fifo"].count == 1
    assert "jobs (2) delivered boss.3 before boss.2" in found.checks["fifo"].text


def random_logs(dice: random.Random) -> dict[int, list[Event]]:
    """Three readers: most messages are taken once and in order, some by none, by several, again, or out of order."""
    count = dice.randrange(1, 40)
    logs: dict[int, list[Event]] = {BOSS: sends(count), QUEUE: [], SECOND: [], THIRD: []}
    readers = [QUEUE, SECOND, THIRD][: dice.randrange(1, 4)]
    for number in range(1, count + 1):
        if dice.random() < 0.1:
            continue
        logs[dice.choice(readers)].append((dice.choice([Kind.DELIVER] * 9 + [Kind.REDELIVER]), number))
        if dice.random() < 0.15:
            logs[dice.choice(readers)].append((dice.choice([Kind.DELIVER, Kind.REDELIVER]), number))
    for reader in readers:
        if dice.random() < 0.2:
            dice.shuffle(logs[reader])
        if dice.random() < 0.1:
            logs[reader].insert(dice.randrange(len(logs[reader]) + 1), (Kind.GAP, 1))
    return logs


def doubled(logs: Mapping[int, Sequence[Event]], message: int) -> int:
    """How often a message was delivered beyond the first time, unmarked, by any reader."""
    told = [[kind for kind, number in logs[reader] if number == message and kind != Kind.GAP] for reader in READERS]
    first = next((kinds for kinds in told if Kind.DELIVER in kinds), [Kind.REDELIVER])
    return sum(kinds.count(Kind.DELIVER) for kinds in told) - (first[0] == Kind.DELIVER)


def test_whatever_readers_do_every_message_is_counted_once(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(100):
        logs = random_logs(dice)
        found = judged(forged(tmp_path / str(number), logs))
        taken = {message for reader in READERS for kind, message in logs[reader] if kind != Kind.GAP}
        assert found.messages == len(logs[BOSS])
        assert found.checks["phantom"].count == 0
        assert found.checks["duplicated"].count == sum(doubled(logs, message) for message in taken)
        assert found.checks["lost"].count == len(logs[BOSS]) - len(taken)
