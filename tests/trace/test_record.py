# SPDX-License-Identifier: Apache-2.0
"""Recording: a trace holds what peers did, all of it and nothing else, whatever happens to them and to the recorder."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S, TESTS, Child, fresh_python, wait_until

import busq
from busq import leftovers
from busq._native import _core as core
from busq._native import ffi, lib

pq = pytest.importorskip("pyarrow.parquet")

from busq.trace.recorder import Recorder, record  # noqa: E402
from busq.trace.schema import Kind, message_of, number_of  # noqa: E402

Row = dict[str, Any]


def logs(directory: Path | str) -> dict[str, list[Row]]:
    """The rows of a trace by the names of processes, in program order."""
    found: dict[str, list[tuple[int, list[Row]]]] = {}
    for path in Path(directory).rglob("*.parquet"):
        table = pq.read_table(path)
        facts = table.schema.metadata
        name = json.loads(facts[b"busq.names"])[int(facts[b"busq.process"])]
        found.setdefault(name, []).append((int(facts[b"busq.segment"]), table.drop_columns(["run"]).to_pylist()))
    return {
        name: [row for _, rows in sorted(segments, key=lambda pair: pair[0]) for row in rows]
        for name, segments in found.items()
    }


def of_kind(rows: list[Row], *kinds: Kind) -> list[Row]:
    return [row for row in rows if row["kind"] in kinds]


def messages(rows: list[Row], *kinds: Kind) -> list[int]:
    return [row["message"] for row in of_kind(rows, *kinds)]


def check_sound(found: dict[str, list[Row]]) -> None:
    """What holds of every trace: positions rise, numbers rise, times fit, and what is delivered was sent."""
    sent = {row["message"]: row for rows in found.values() for row in of_kind(rows, Kind.SEND)}
    incomplete = any(row["kind"] == Kind.GAP for rows in found.values() for row in rows)
    for rows in found.values():
        positions = [row["position"] for row in rows]
        assert positions == sorted(set(positions))
        numbers = [number_of(message) for message in messages(rows, Kind.SEND)]
        assert numbers == sorted(set(numbers))
        for row in of_kind(rows, Kind.DELIVER):
            assert row["message"] in sent or incomplete
            if row["message"] in sent and sent[row["message"]]["commit_ns"] is not None:
                send = sent[row["message"]]
                assert send["time_ns"] <= send["commit_ns"]
                assert send["end_ns"] is None or send["commit_ns"] <= send["end_ns"]
                assert row["time_ns"] >= send["time_ns"]
                assert row["stamp"] == send["stamp"] or send["stamp"] is None
                assert row["process"] in send["destinations"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "trace"


# ---- what is recorded ----


def test_sends_and_deliveries_are_told_with_times_stamps_and_destinations(bus: busq.Bus, trace: Path) -> None:
    with Recorder(bus, trace) as recorder, bus.join("ann") as ann, bus.join("bob") as bob:
        ann.send(["ann", "bob"], b"1")
        ann.send("bob", b"2")
        assert [bob.recv().data, bob.recv().data, ann.recv().data] == [b"1", b"2", b"1"]
    found = logs(trace)
    check_sound(found)
    ann_rows, bob_rows = found["ann"], found["bob"]
    me, you = ann_rows[0]["process"], bob_rows[0]["process"]
    sends = of_kind(ann_rows, Kind.SEND)
    assert [(row["message"], sorted(row["destinations"])) for row in sends] == [
        (message_of(me, 1), sorted([me, you])),
        (message_of(me, 2), [you]),
    ]
    assert messages(bob_rows, Kind.DELIVER) == [message_of(me, 1), message_of(me, 2)]
    assert [row["destinations"] for row in of_kind(ann_rows, Kind.STAGE)] == [[me], [you]]
    assert ann_rows[0]["kind"] == Kind.JOIN
    assert ann_rows[-1]["kind"] == Kind.LEAVE
    assert recorder.recording.ok
    assert recorder.recording.rows == len(ann_rows) + len(bob_rows)


def test_names_may_be_as_long_as_a_bus_takes_them(trace: Path) -> None:
    """Those of files may not: what a path can't hold of it takes several bytes besides."""
    names = ["x" * 255, "x" * 254 + "y", "ü" * 127]
    bus = busq.Bus.create("ü" * 100, temporary=True, arena=1 << 20)
    with bus, Recorder(bus, trace), contextlib.ExitStack() as peers:
        for name in names:
            peers.enter_context(bus.join(name)).send(name, b"to itself")
    run = busq.trace.read(trace)
    assert (sorted(run.processes), run.source.name) == (sorted(names), bus.name)


@pytest.mark.parametrize("receivers", [3, 4, 15, 16, 40])
def test_a_multicast_has_all_its_destinations(make_bus: Callable[..., busq.Bus], trace: Path, receivers: int) -> None:
    bus = make_bus(peers=receivers)
    names = [f"peer {number}" for number in range(receivers)]
    with Recorder(bus, trace):
        peers = [bus.join(name) for name in names]
        peers[0].send(names, b"all")
        for peer in peers:
            peer.recv()
    found = logs(trace)
    check_sound(found)
    (send,) = of_kind(found["peer 0"], Kind.SEND)
    assert sorted(send["destinations"]) == sorted(rows[0]["process"] for rows in found.values())


def test_batches_are_told_message_by_message(make_bus: Callable[..., busq.Bus], trace: Path) -> None:
    bus = make_bus(capacity=512)
    with Recorder(bus, trace), bus.join("ann") as ann, bus.join("bob") as bob:
        for _ in range(3):
            assert ann.send_many([("bob", b"x")] * 150) == 150
            assert len(bob.recv_many(150)) == 150
    found = logs(trace)
    check_sound(found)
    assert messages(found["bob"], Kind.DELIVER) == messages(found["ann"], Kind.SEND)
    assert [number_of(message) for message in messages(found["ann"], Kind.SEND)] == list(range(1, 451))


def test_waits_for_messages_and_for_room_are_told_and_who_gives_up_says_so(
    make_bus: Callable[..., busq.Bus], trace: Path
) -> None:
    bus = make_bus(capacity=1)
    with Recorder(bus, trace), bus.join("ann") as ann, bus.join("bob") as bob:
        times_ns = [time.monotonic_ns()]
        with pytest.raises(busq.Empty):
            ann.recv(timeout=0.05)
        ann.send("bob", b"1")
        times_ns.append(time.monotonic_ns())
        with pytest.raises(busq.Full):
            ann.send("bob", b"2", timeout=0.05)
        times_ns.append(time.monotonic_ns())
        bob.recv()
        ann.send("bob", b"3")
        bob.recv()
    found = logs(trace)
    check_sound(found)
    for_message, for_room = of_kind(found["ann"], Kind.BLOCK)
    assert for_message["message"] is None
    assert for_room["message"] == messages(found["ann"], Kind.ABORT)[0]
    for row, (before_ns, after_ns) in zip((for_message, for_room), pairwise(times_ns), strict=True):
        assert 0 < row["end_ns"] - row["time_ns"] < after_ns - before_ns
    assert len(of_kind(found["ann"], Kind.SEND)) == 2


def test_what_comes_again_is_told_as_such(bus: busq.Bus, trace: Path) -> None:
    with Recorder(bus, trace):
        bob = bus.join("bob", durable=True)
        bob.send("bob", b"1")
        bob.recv(ack=True)
        bob.close()
        with bus.join("bob", resume=True) as again:
            again.recv().ack()
    kinds = [row["kind"] for row in logs(trace)["bob"]]
    assert kinds == [Kind.JOIN, Kind.SEND, Kind.DELIVER, Kind.LEAVE, Kind.JOIN, Kind.REDELIVER, Kind.LEAVE]


@pytest.mark.parametrize("mode", [lib.BUSQ_TAKE_PINNED, lib.BUSQ_TAKE_OFFERED])
def test_what_was_given_back_and_comes_to_a_successor_is_told_once(bus: busq.Bus, trace: Path, mode: int) -> None:
    with Recorder(bus, trace):
        bob = bus.join("bob", durable=True)
        bob.send("bob", b"1")
        pin = ffi.gc(ffi.new("busq_pin *"), lib.busq_pin_drop)
        assert lib.busq_pin_recv(pin, ffi.cast("busq_peer *", core.address(bob)), mode, 0) == lib.BUSQ_OK
        lib.busq_pin_give_back(pin)
        bob.close()
        with bus.join("bob", resume=True) as again:
            message = again.recv(timeout=0)
            assert (message.data, message.redelivered) == (b"1", False)
    kinds = [row["kind"] for row in logs(trace)["bob"]]
    assert kinds == [Kind.JOIN, Kind.SEND, Kind.DELIVER, Kind.LEAVE, Kind.JOIN, Kind.LEAVE]


def test_numbers_go_on_over_the_lives_of_a_name(bus: busq.Bus, trace: Path) -> None:
    with Recorder(bus, trace), bus.join("bob") as bob:
        for life in range(3):
            with bus.join("ann") as ann:
                ann.send("bob", b"%d" % life)
            with bus.join(f"other {life}"):  # so that slots change hands
                pass
        assert len(bob.recv_many(3)) == 3
    found = logs(trace)
    check_sound(found)
    assert [number_of(message) for message in messages(found["ann"], Kind.SEND)] == [1, 2, 3]
    assert messages(found["bob"], Kind.DELIVER) == messages(found["ann"], Kind.SEND)


def test_recording_begins_and_ends_while_peers_go_on(bus: busq.Bus, tmp_path: Path) -> None:
    with bus.join("ann") as ann:
        for turn in range(3):
            ann.send("ann", b"between")
            with Recorder(bus, tmp_path / str(turn)) as recorder:
                assert ann.recv().data == b"between"
                ann.send("ann", b"while")
                assert ann.recv().data == b"while"
            assert recorder.recording.before == 1
            found = logs(tmp_path / str(turn))
            check_sound(found)
            assert [row["kind"] for row in found["ann"]] == [Kind.LOCAL, Kind.SEND, Kind.DELIVER]


def test_threads_of_one_peer_are_told_completely(bus: busq.Bus, trace: Path) -> None:
    import threading

    with Recorder(bus, trace), bus.join("ann") as ann:
        senders = [threading.Thread(target=lambda: [ann.send("ann", b"x") for _ in range(200)]) for _ in range(3)]
        for thread in senders:
            thread.start()
        taken = len([ann.recv(timeout=PATIENCE_S) for _ in range(600)])
        for thread in senders:
            thread.join()
    found = logs(trace)
    check_sound(found)
    assert taken == 600
    assert len(of_kind(found["ann"], Kind.SEND)) == len(of_kind(found["ann"], Kind.DELIVER)) == 600


# ---- processes that die ----


def talk(name: str, me: str, others: list[str], ready: Any = None) -> None:
    with busq.Bus.open(name) as bus, bus.join(me, resume=True) as peer:
        number = 0
        while True:
            with contextlib.suppress(busq.Full, busq.PeerDead, busq.UnknownPeer):
                peer.send(others, b"%d" % number, timeout=0)
            number += 1
            with contextlib.suppress(busq.Empty):
                peer.recv_many(10, timeout=0)


def test_peers_that_are_killed_leave_a_sound_trace(
    make_bus: Callable[..., busq.Bus], trace: Path, fork: Callable[..., Child], seed: int
) -> None:
    chance = random.Random(seed)
    bus = make_bus(peers=8, capacity=256)
    names, killed = ["ann", "bob", "cid"], ["ann", "bob", "cid"]
    with Recorder(bus, trace) as recorder:
        children = {name: fork(talk, bus.name, name, names) for name in names}
        for _ in range(6):
            time.sleep(chance.uniform(0.02, 0.15))
            name = chance.choice(names)
            killed.append(name)
            os.kill(children[name].pid, signal.SIGKILL)
            children[name].wait()
            children[name] = fork(talk, bus.name, name, names)
        time.sleep(0.1)
        for child in children.values():
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
    found = logs(trace)
    assert set(found) == set(names)
    check_sound(found)
    assert recorder.recording.before == 0
    for name, rows in found.items():
        lives = [row["kind"] for row in of_kind(rows, Kind.JOIN, Kind.DIE, Kind.LEAVE)]
        if not recorder.recording.dropped:  # otherwise a death may be missing
            assert lives == [Kind.JOIN, Kind.DIE] * (len(lives) // 2)
            assert 0 < len(lives) // 2 <= killed.count(name)  # one may have died before it joined
        delivered = messages(rows, Kind.DELIVER)
        assert len(delivered) == len(set(delivered))
        # Equal stamps go by the senders' slots, and a peer that was killed may have come back in another one.
        stamps = [row["stamp"] for row in of_kind(rows, Kind.DELIVER)]
        assert stamps == sorted(stamps)


# ---- recorders that die ----


@pytest.fixture
def start(bus: busq.Bus) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Run `busq record` for the bus, in a process."""
    started: list[subprocess.Popen[str]] = []

    def begin(directory: Path, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "busq", "record", bus.name, str(directory), "--json", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=TESTS)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def files(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.parquet"))


def send_until(peer: Any, condition: Callable[[], bool]) -> int:
    sent = 0
    end_s = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < end_s:
        peer.send("ann", b"x")
        peer.recv()
        sent += 1
        time.sleep(0.0005)
    assert condition()
    return sent


def test_a_killed_recorder_leaves_a_readable_prefix_and_the_next_one_goes_on(
    bus: busq.Bus, trace: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    with bus.join("ann") as ann:
        first = start(trace)
        send_until(ann, lambda: len(files(trace)) >= 1)
        first.kill()
        first.wait()
        prefix = logs(trace)
        check_sound(prefix)
        send_until(ann, lambda: True)
        for _ in range(20):
            ann.send("ann", b"nobody takes it")
            ann.recv()
        written = len(files(trace))
        second = start(trace)
        send_until(ann, lambda: len(files(trace)) > written)
        second.send_signal(signal.SIGTERM)
        told = json.loads(second.communicate(timeout=PATIENCE_S)[0])
    found = logs(trace)
    check_sound(found)
    assert found["ann"][: len(prefix["ann"])] == prefix["ann"]
    assert told["continued"]
    assert second.returncode == (0 if told["ok"] else 1)
    gaps = of_kind(found["ann"], Kind.GAP)
    assert sum(row["stamp"] for row in gaps) == told["lost"] + told["dropped"]
    sent, delivered = (messages(found["ann"], kind) for kind in (Kind.SEND, Kind.DELIVER))
    assert set(sent[:-1]) - set(delivered) == set() or gaps
    assert len(set(sent)) == len(sent)


def test_who_dies_while_nobody_records_is_not_taken_for_alive_nor_the_living_for_dead(
    bus: busq.Bus, trace: Path, start: Callable[..., subprocess.Popen[str]], fork: Callable[..., Child]
) -> None:
    children = {name: fork(talk_slowly, bus.name, name) for name in ("bob", "cid", "dan")}
    first = start(trace)
    wait_until(lambda: len(files(trace)) >= 3)
    first.kill()
    first.wait()
    children["bob"].kill()
    before = {*files(trace)}
    second = start(trace)
    wait_until(lambda: {path.name[:3] for path in files(trace) if path not in before} >= {"cid", "dan"})
    children["cid"].kill()
    second.send_signal(signal.SIGTERM)
    told = json.loads(second.communicate(timeout=PATIENCE_S)[0])
    found = {name: [row["kind"] for row in rows] for name, rows in logs(trace).items()}
    assert found["bob"].count(Kind.DIE) == (found["bob"][-1] == Kind.DIE)
    assert (found["cid"].count(Kind.DIE), found["cid"][-1]) == (1, Kind.DIE) or told["dropped"]
    assert Kind.DIE not in found["dan"]
    children["dan"].kill()


def talk_slowly(name: str, me: str) -> None:
    with busq.Bus.open(name) as bus, bus.join(me) as peer:
        while True:
            peer.send(me, b"x")
            peer.recv()
            time.sleep(0.002)


def test_what_a_ring_has_no_room_for_is_counted_and_stands_as_a_gap(
    make_bus: Callable[..., busq.Bus], trace: Path
) -> None:
    bus = make_bus(capacity=512)
    recorder = Recorder(bus, trace, ring_records=256)
    with bus.join("ann") as ann:
        for _ in range(100):
            ann.send_many([("ann", b"x")] * 300)
            assert len(ann.recv_many(300)) == 300
    recorder.close()
    found = logs(trace)
    check_sound(found)
    gaps = of_kind(found["ann"], Kind.GAP)
    told = recorder.recording
    assert sum(row["stamp"] for row in gaps) == told.dropped
    others = [row for row in found["ann"] if row["kind"] not in (Kind.GAP, Kind.JOIN, Kind.LEAVE)]
    assert len(others) + told.dropped >= 100 * 600
    assert told.ok == (not told.dropped)


def test_a_limit_is_kept_and_what_is_above_it_is_a_gap(make_bus: Callable[..., busq.Bus], trace: Path) -> None:
    bus = make_bus(capacity=512)
    began_s = time.monotonic()
    with Recorder(bus, trace, ring_records=1024, limit_per_s=20_000) as recorder, bus.join("ann") as ann:
        sent = 0
        while time.monotonic() < began_s + 4 or recorder.recording.events < 20_000 * 3:
            ann.send_many([("ann", b"x")] * 300)
            sent += len(ann.recv_many(300))
    told, seconds = recorder.recording, time.monotonic() - began_s
    found = logs(trace)
    check_sound(found)
    gaps = of_kind(found["ann"], Kind.GAP)
    assert sum(row["stamp"] for row in gaps) == told.dropped
    assert told.events + told.dropped >= 2 * sent
    # So many seconds' worth at once, and what was in the ring when it was emptied for the last times.
    assert told.events <= 20_000 * (2 + seconds) + 4 * 1024
    assert told.events >= 20_000 * 3


def test_what_is_below_the_limit_is_there_completely(make_bus: Callable[..., busq.Bus], trace: Path) -> None:
    bus = make_bus()
    with Recorder(bus, trace, limit_per_s=20_000) as recorder, bus.join("ann") as ann:
        for _ in range(5000):
            ann.send("ann", b"x")
            ann.recv()
    assert recorder.recording.ok
    assert len(of_kind(logs(trace)["ann"], Kind.SEND, Kind.DELIVER)) == 10_000


def test_what_was_taken_is_written_however_long_nothing_more_may_be_taken(
    make_bus: Callable[..., busq.Bus], trace: Path
) -> None:
    bus = make_bus()
    with Recorder(bus, trace, limit_per_s=100) as recorder, bus.join("ann") as ann:
        for _ in range(10_000):
            ann.send("ann", b"x")
            ann.recv()
        # What comes out of the rings by the last look before the limit settles with the next one, which is at the end.
        wait_until(lambda: recorder.recording.limited and recorder.recording.rows > 0, what="the files")
    assert recorder.recording.rows >= 20_000
    assert recorder.recording.dropped == 0


@pytest.mark.parametrize("limit", ["nan", "inf", "-1", "many"])
def test_the_command_refuses_a_limit_that_cannot_be(bus: busq.Bus, trace: Path, limit: str) -> None:
    found = run("record", bus.name, str(trace), "--limit", limit)
    assert found.returncode == 2
    assert "--limit" in found.stderr
    assert limit in found.stderr


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_limit_that_is_none_is_refused(bus: busq.Bus, trace: Path, limit: float) -> None:
    with pytest.raises(ValueError, match="expected events per second, or None for no limit"):
        Recorder(bus, trace, limit_per_s=limit)
    assert not trace.exists()


# ---- other orders ----


@pytest.mark.parametrize("order", ["fifo", "causal-vector", "lamport", "mfss", "sync", "none"])
def test_other_orders_tell_what_applications_sent_and_got(
    make_bus: Callable[..., busq.Bus], trace: Path, order: str
) -> None:
    bus = make_bus(order=order, peers=2)
    with Recorder(bus, trace), bus.join("ann") as ann, bus.join("bob") as bob:
        for number in range(5):
            ann.send("bob", b"%d" % number)
            assert bob.recv(timeout=PATIENCE_S).data == b"%d" % number
    found = logs(trace)
    check_sound(found)
    me = found["ann"][0]["process"]
    assert messages(found["ann"], Kind.SEND) == [message_of(me, number) for number in range(1, 6)]
    assert messages(found["bob"], Kind.DELIVER) == messages(found["ann"], Kind.SEND)
    assert not of_kind(found["bob"], Kind.SEND)


def test_a_thread_that_waits_beside_tells_of_no_delivery_again(make_bus: Callable[..., busq.Bus], trace: Path) -> None:
    bus = make_bus(order="none", peers=2)
    with Recorder(bus, trace), bus.join("ann") as ann, bus.join("bob") as bob:
        for number in range(2000):
            ann.send("bob", b"%d" % number)
            assert bob.recv(timeout=PATIENCE_S).data == b"%d" % number
    found = logs(trace)
    assert messages(found["bob"], Kind.DELIVER) == messages(found["ann"], Kind.SEND)


# ---- the command, and what goes wrong ----


def test_packets_of_other_orders_do_not_count_as_dropped(make_bus: Callable[..., busq.Bus], trace: Path) -> None:
    bus = make_bus(peers=3, order="skeen")
    with Recorder(bus, trace, ring_records=256, limit_per_s=10) as recorder:
        peers = [bus.join(name) for name in ("ann", "bob", "cid")]
        for turn in range(500):
            peers[turn % 3].send(["ann", "bob", "cid"], b"x")
            for peer in peers:
                peer.recv(timeout=PATIENCE_S)
        for peer in peers:
            peer.close()
    told = recorder.recording
    assert told.dropped > 0
    # Sends, deliveries, joins and leaves; and waits, of which each receive may have one.
    assert 500 * 4 <= told.events + told.dropped <= 500 * 4 + 6 + 500 * 3


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "busq", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=TESTS)


def test_the_command_records_for_so_long_and_says_what(bus: busq.Bus, trace: Path) -> None:
    done = run("record", bus.name, str(trace), "--seconds", "0.2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("0 events of 0 peers in 0 files")


def test_the_command_ends_when_the_bus_is_shut_down(
    bus: busq.Bus, trace: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    process = start(trace)
    with bus.join("ann") as ann:
        wait_until(trace.exists)
        time.sleep(0.3)
        ann.send("ann", b"x")
        bus.shutdown()
        told = json.loads(process.communicate(timeout=PATIENCE_S)[0])
    assert told["ok"]
    assert len(of_kind(logs(trace)["ann"], Kind.SEND)) == 1


def test_a_bus_that_is_not_there_a_second_recorder_and_another_trace_are_refused(bus: busq.Bus, trace: Path) -> None:
    done = run("record", "nobody-made-it", str(trace))
    assert done.returncode == 1
    assert "there is no bus" in done.stderr
    with Recorder(bus, trace), bus.join("ann"), pytest.raises(FileExistsError, match="somebody else records"):
        Recorder(bus, trace / "other")
    with pytest.raises(FileExistsError, match="there is a trace already"):
        Recorder(bus, trace)
    done = run("record", bus.name, str(trace))
    assert done.returncode == 1
    assert "choose another directory" in done.stderr
    assert "Traceback" not in done.stderr
    with Recorder(bus, trace / "third"):
        pass


def test_without_pyarrow_there_is_one_line(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None; from busq.cli import main;"
        f"sys.argv = ['busq', 'record', 'any', {str(tmp_path)!r}]; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=TESTS
    )
    assert done.returncode == 2
    assert done.stderr == "busq: busq record needs pyarrow: pip install 'busq[trace]'\n"


def test_a_directory_that_cannot_be_written_ends_it_and_what_was_written_stays(bus: busq.Bus, trace: Path) -> None:
    recorder = Recorder(bus, trace, segment_s=0.05)
    with bus.join("ann") as ann:
        ann.send("ann", b"1")
        wait_until(lambda: bool(files(trace)))
        before = files(trace)
        folder = before[0].parent
        folder.rename(trace / "away")
        ann.send("ann", b"2")
        wait_until(lambda: recorder.failure is not None)
        ann.send("ann", b"messages do not care")
    with pytest.raises(FileNotFoundError):
        recorder.close()
    assert of_kind(logs(trace)["ann"], Kind.SEND)
    with Recorder(bus, trace / "next"):  # the bus can be recorded again
        pass


def ring_files() -> list[Path]:
    return sorted(Path(os.environ["BUSQ_DIR"]).glob(".busq-*-trace-*"))


def test_rings_go_with_the_recording_with_the_bus_or_with_gc(
    make_bus: Callable[..., busq.Bus], trace: Path, tmp_path: Path
) -> None:
    bus = make_bus()
    with Recorder(bus, trace):
        assert len(ring_files()) == 1
    assert not ring_files()
    code = (
        "import os, signal, sys, busq; from busq.trace.recorder import Recorder\n"
        "with busq.Bus.open(sys.argv[1]) as bus:\n"
        "    Recorder(bus, sys.argv[2]); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, bus.name, str(tmp_path / "a")], check=False, timeout=PATIENCE_S, cwd=TESTS
    )
    assert len(ring_files()) == 1
    busq.Bus.unlink(bus.name)
    assert not ring_files()
    orphan = Path(os.environ["BUSQ_DIR"]) / ".busq-0123456789abcdef-trace-0123456789abcdef"
    orphan.touch()
    removed = leftovers.collect().removed  # what other tests have left goes, too
    assert [one.name for one in removed if one.kind == "trace"] == [orphan.name]
    assert not orphan.exists()


def test_rings_have_the_permissions_of_the_bus_and_links_are_not_followed(
    make_bus: Callable[..., busq.Bus], tmp_path: Path
) -> None:
    bus = make_bus()
    with Recorder(bus, tmp_path / "a"):
        (ring,) = ring_files()
        assert ring.stat().st_mode & 0o777 == 0o600
        target = tmp_path / "target"
        target.write_bytes(b"not ours to write")
        ring.unlink()
        ring.symlink_to(target)
        with bus.join("ann") as ann:  # it is not recorded, and works
            ann.send("ann", b"x")
            assert ann.recv().data == b"x"
        assert target.read_bytes() == b"not ours to write"
    assert not ring_files()


def test_damaged_rings_are_reported_and_messages_do_not_care(bus: busq.Bus, trace: Path, seed: int) -> None:
    chance = random.Random(seed)
    for turn in range(15):
        recorder = Recorder(bus, trace / str(turn), ring_records=256)
        with bus.join("ann") as ann:
            ann.send("ann", b"1")
            ann.recv()
            (ring,) = ring_files()
            with ring.open("r+b") as file:
                for _ in range(30):
                    file.seek(chance.randrange(4096, 4096 + 16384))
                    file.write(chance.randbytes(8))
            ann.send("ann", b"2")
            assert ann.recv().data == b"2"
        with contextlib.suppress(busq.CorruptSegment):
            recorder.close()
        logs(trace / str(turn))


def test_recording_is_a_function_too(bus: busq.Bus, trace: Path) -> None:
    found = record(bus, trace, seconds=0.05)
    assert found.ok
    assert found.as_json()["directory"] == str(trace)


def test_busq_imports_no_pyarrow() -> None:
    done = fresh_python("import sys, busq, busq.cli; print('pyarrow' in sys.modules)")
    assert done.stdout.strip() == "False"


def test_recordings_that_are_over_cost_a_living_peer_nothing(bus: busq.Bus, tmp_path: Path) -> None:
    def trace_files() -> list[str]:
        maps = Path("/proc/self/maps").read_text().splitlines()
        links = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
        return [where for where in (*maps, *links) if "-trace" in where]

    before = len(trace_files())  # of peers of other tests
    with bus.join("alice") as alice:
        for number in range(5):
            with Recorder(bus, tmp_path / str(number)):
                alice.send("alice", b"traced")
                assert alice.recv(timeout=0).data == b"traced"
            found = trace_files()
            assert len(found) <= before + 1, found  # what the last one has left, until the next one begins
