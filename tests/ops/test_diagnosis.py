# SPDX-License-Identifier: Apache-2.0
"""`busq doctor` and `busq gc`: real trouble between real processes, and what is reported and done about it."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import PATIENCE_S, TESTS, Child, run_command, wait_until

import busq
from busq.ops import diagnosis as doctor


@pytest.fixture
def orders(own_directory: Path) -> Iterator[busq.Bus]:
    """A bus by that name, whose queues hold three messages."""
    with busq.Bus.create("orders", peers=8, capacity=3, arena=1 << 20) as bus:
        yield bus


def examined(*arguments: str) -> dict[str, Any]:
    """The doctor's report on the only bus it was asked about."""
    result = run_command("doctor", "--json", *arguments)
    found = json.loads(result.stdout)
    assert (result.stderr, result.exit_code) == ("", 0 if found["ok"] else 1)
    return dict(found["buses"][0])


def findings(report: dict[str, Any], level: str = "wrong") -> list[tuple[str, list[str]]]:
    return [(found["kind"], found["peers"]) for found in report["findings"] if found["level"] == level]


def line_with(text: str, words: str) -> str:
    """The only line of a text that has these words in it."""
    lines = [line for line in text.splitlines() if words in line]
    assert len(lines) == 1, text
    return lines[0]


def facts(bus: busq.Bus, name: str) -> dict[str, Any]:
    return next((peer for peer in bus.stats()["peers"] if peer["name"] == name), {})


# ---- processes ----


def be(bus: str, name: str, *, durable: bool = False, descriptor: bool = False) -> None:
    """Joins, and neither sends nor receives."""
    with busq.Bus.open(bus).join(name, durable=durable) as peer:
        if descriptor:
            peer.fileno()
        time.sleep(60)


def enter(bus: str, name: str, group: str) -> None:
    """Joins and enters a group, and receives nothing."""
    with busq.Bus.open(bus).join(name) as peer:
        peer.enter(group)
        time.sleep(60)


def send_for_ever(bus: str, name: str, to: str) -> None:
    opened = busq.Bus.open(bus)
    with opened.join(name) as peer:
        wait_until(lambda: to in [found["name"] for found in opened.stats()["peers"]])
        while True:
            peer.send(to, b"x")


def receive_slowly(bus: str, name: str) -> None:
    with busq.Bus.open(bus).join(name) as peer:
        while True:
            peer.recv()
            time.sleep(0.01)


@pytest.fixture
def peer(orders: busq.Bus, fork: Callable[..., Child]) -> Callable[..., Child]:
    """peer(function, name, ...) starts a process that joins orders."""

    def start(function: Callable[..., None], name: str, *arguments: Any) -> Child:
        child = fork(lambda: function("orders", name, *arguments))
        wait_until(lambda: bool(facts(orders, name).get("alive")), what=f"{name} joining")
        return child

    return start


def stop(child: Child) -> None:
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)


def wait_for_waiting(bus: busq.Bus, *names: str, seconds: float = 0.6) -> None:
    """Until these wait for room, and then for so long."""
    wait_until(lambda: all(facts(bus, name).get("waits") == "room" for name in names), what=f"waiting of {names}")
    time.sleep(seconds)


# ---- which process waits for which ----


def test_a_sound_bus_is_well(orders: busq.Bus, peer: Callable[..., Child]) -> None:
    peer(receive_slowly, "alice")
    result = run_command("doctor", "orders")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("all is well\n\n")
    assert re.search(r"alice +live +\d+ (sleeping|running) +message +[\d.]+ m?s", result.stdout)
    report = examined("orders")
    assert (report["ok"], report["opened"], report["findings"], report["cycles"]) == (True, True, [], [])


def test_a_sender_that_waits_for_a_stopped_receiver_is_told_how_to_continue_it(
    orders: busq.Bus, peer: Callable[..., Child]
) -> None:
    alice = peer(be, "alice")
    stop(alice)
    peer(send_for_ever, "bob", "alice")
    wait_for_waiting(orders, "bob")
    result = run_command("doctor", "orders")
    assert result.exit_code == 1
    line = line_with(result.stdout, "WRONG")
    assert re.fullmatch(
        r"WRONG  'bob' has waited (\d+ ms|[\d.]+ s) for room in the queue of 'alice', "
        rf"whose process {alice.pid} is stopped: continue it with kill -CONT {alice.pid}",
        line,
    )
    report = examined("orders")
    assert findings(report) == [("waiting for room", ["bob", "alice"])]
    assert 0.3 < report["findings"][0]["seconds"] < 30
    peers = {found["name"]: found for found in report["peers"]}
    assert peers["alice"]["process"] == {"pid": alice.pid, "state": "stopped", "why": "", "tracer_pid": None}
    assert (peers["bob"]["waits"], peers["bob"]["waits_for"]) == ("room", "alice")
    os.kill(alice.pid, signal.SIGCONT)
    wait_until(lambda: "stopped" not in run_command("doctor", "orders").stdout, what="the end of being stopped")


def test_a_chain_is_followed_to_its_end(orders: busq.Bus, peer: Callable[..., Child]) -> None:
    alice = peer(be, "alice")
    peer(send_for_ever, "bob", "alice")
    peer(send_for_ever, "cleo", "bob")
    peer(send_for_ever, "dan", "cleo")
    stop(alice)
    wait_for_waiting(orders, "bob", "cleo", "dan")
    report = examined("orders")
    assert sorted(findings(report)) == [
        ("waiting for room", ["bob", "alice"]),
        ("waiting for room", ["cleo", "bob"]),
        ("waiting for room", ["dan", "cleo"]),
    ]
    texts = {found["peers"][0]: (found["text"], found["remedy"]) for found in report["findings"]}
    chain = (
        f"'cleo', which itself waits for 'bob', which itself waits for 'alice', whose process {alice.pid} is stopped"
    )
    assert texts["dan"][0].endswith(chain)
    assert {remedy for _, remedy in texts.values()} == {f"continue it with kill -CONT {alice.pid}"}
    assert report["cycles"] == []


def test_a_cycle_of_full_queues_is_named(orders: busq.Bus, peer: Callable[..., Child]) -> None:
    ring = ("ann", "bob", "cleo")
    pids = {}
    children = []
    for name, to in zip(ring, (*ring[1:], ring[0]), strict=True):
        children.append(peer(send_for_ever, name, to))
        pids[name] = children[-1].pid
    peer(send_for_ever, "dan", "ann")
    wait_for_waiting(orders, *ring, "dan")
    report = examined("orders")
    assert findings(report)[0] == ("cycle", list(ring))
    assert findings(report)[1:] == [("waiting for room", ["dan", "ann"])]
    assert report["cycles"] == [list(ring)]
    assert report["findings"][0]["text"].startswith("deadlock: 'ann' -> 'bob' -> 'cleo' -> 'ann' have waited ")
    assert report["findings"][0]["remedy"].endswith(f"kill {pids['ann']}")
    assert report["findings"][1]["text"].endswith("'ann', which is part of a deadlock")
    # The remedy helps.
    children[0].kill(signal.SIGTERM)
    wait_until(lambda: examined("orders")["cycles"] == [], what="the end of the deadlock")


def test_a_receiver_that_is_only_slow_is_no_fault(orders: busq.Bus, peer: Callable[..., Child]) -> None:
    peer(receive_slowly, "alice")
    for name in ("bob", "cleo", "dan", "eve"):
        peer(send_for_ever, name, "alice")
    time.sleep(0.3)
    report = examined("orders")
    assert findings(report) == []
    assert {kind for kind, _ in findings(report, "note")} <= {"waiting for room", "full"}


def test_a_receiver_that_does_something_else_is_pointed_out(orders: busq.Bus, peer: Callable[..., Child]) -> None:
    alice = peer(be, "alice")
    for name in ("bob", "cleo"):
        peer(send_for_ever, name, "alice")
    wait_for_waiting(orders, "bob", "cleo")
    wait_until(lambda: run_command("doctor", "orders").exit_code == 1)  # once they have waited for long enough
    result = run_command("doctor", "orders")
    line = line_with(result.stdout, "WRONG")
    assert re.search(r"'(bob|cleo)' and '(bob|cleo)' have waited up to .* for room in the queue of 'alice'", line)
    assert line.endswith(
        f"whose process {alice.pid} is sleeping and receives nothing: let it receive, or end it with kill {alice.pid}"
    )


def test_a_sender_that_waits_for_memory_is_told_who_has_the_messages(
    own_directory: Path, fork: Callable[..., Child]
) -> None:
    with busq.Bus.create("tight", peers=3, capacity=1000, arena=1 << 16) as bus:

        def send_much() -> None:
            with busq.Bus.open("tight").join("bob") as bob:
                while True:
                    bob.send("alice", bytes(4000))

        alice = fork(be, "tight", "alice")
        wait_until(lambda: "alice" in bus.peers())
        stop(alice)
        fork(send_much)
        wait_until(lambda: facts(bus, "bob").get("waits") == "memory")
        time.sleep(0.5)
        report = examined("tight")
        assert ("waiting for memory", ["bob"]) in findings(report)
        found = next(found for found in report["findings"] if found["kind"] == "waiting for memory")
        assert f"wait for 'alice', whose process {alice.pid} is stopped" in found["text"]
        assert found["remedy"] == f"continue it with kill -CONT {alice.pid}"
        assert report["memory"]["used_bytes"] > report["memory"]["bytes"] / 2


# ---- the dead ----


def test_who_died_unnoticed_is_buried_and_loses_nothing(orders: busq.Bus, peer: Callable[..., Child]) -> None:
    child = peer(be, "victim")
    with orders.join("ann") as ann:
        ann.send("victim", b"for later")
        child.kill()
        left_alone = run_command("doctor", "orders", "--no-repair")
        assert left_alone.exit_code == 1
        line = line_with(left_alone.stdout, "had died and nobody had noticed")
        assert line.endswith("busq doctor orders puts in order what it left")
        assert facts(orders, "victim")["state"] == "dead, unnoticed"

        report = examined("orders")
        assert (report["ok"], report["buried"]) == (True, 1)
        assert findings(report, "repaired") == [("death", ["victim"])]
        assert findings(report, "note") == [("left messages", ["victim"])]
        assert facts(orders, "victim")["state"] == "dead"
        with orders.join("victim", resume=True) as victim:
            assert victim.recv(0).data == b"for later"


def test_a_durable_peer_that_is_gone_is_no_fault_until_its_queue_is_full(
    orders: busq.Bus, peer: Callable[..., Child]
) -> None:
    peer(lambda bus, name: be(bus, name, durable=True), "bob").kill()
    with orders.join("ann") as ann:
        ann.send("bob", b"1")
        report = examined("orders")
        assert (report["ok"], findings(report, "note")) == (True, [("durable", ["bob"])])
        for text in (b"2", b"3"):
            ann.send("bob", text)
        report = examined("orders")
        assert findings(report) == [("durable", ["bob"])]
        assert "busq gc orders --remove bob" in report["findings"][0]["remedy"]
        peer(send_for_ever, "cleo", "bob")
        wait_for_waiting(orders, "cleo")
        assert ("waiting for room", ["cleo", "bob"]) in findings(examined("orders"))
        # The remedy helps.
        assert (
            run_command("gc", "orders", "--remove", "bob").stdout
            == "removed peer 'bob' of bus orders and 3 messages for it: asked for by name\n"
        )
        wait_until(lambda: not any("cleo" in names for _, names in findings(examined("orders"))))


@pytest.mark.parametrize("durable", [False, True])
def test_many_that_are_gone_are_said_in_one_line(own_directory: Path, durable: bool) -> None:
    with busq.Bus.create("orders", peers=310, capacity=3, arena=1 << 21) as bus:
        for number in range(300):
            with bus.join(f"queue-{number}", durable=durable) as queue:
                queue.send(queue.name, b"x")
        (found,) = examined("orders")["findings"]
        assert (found["level"], len(found["peers"])) == ("note", 300)
        shown = run_command("doctor", "orders").stdout
        line_with(shown, "and 296 others are closed")
        assert "and 290 more that are closed or dead: busq info orders shows them" in shown
        assert len(shown.splitlines()) < 25


IN_A_NAMESPACE = """
import os, sys, time, busq
peer = busq.Bus.open("orders").join("inside")
assert os.getpid() == 1
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def stopped_inside(orders: busq.Bus) -> Iterator[int]:
    """A process that is stopped, with a full queue, in a pid namespace of its own: its number here."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--pid", "--fork", "true"], check=False).returncode:
        pytest.skip("needs root and unshare --pid")
    command = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", IN_A_NAMESPACE]
    popen = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=TESTS)
    assert popen.stdout is not None
    assert popen.stdout.readline() == b"ready\n"
    (inside,) = psutil.Process(popen.pid).children()
    inside.suspend()
    with orders.join("ann") as ann:
        for _ in range(3):
            ann.send("inside", b"x")
        yield inside.pid
    popen.kill()
    popen.wait()
    popen.stdout.close()


def test_a_process_in_a_pid_namespace_below_is_found_by_its_number_there(orders: busq.Bus, stopped_inside: int) -> None:
    report = examined("orders")
    assert findings(report) == [("stopped", ["inside"])]
    assert f"continue it with kill -CONT {stopped_inside}" in json.dumps(report)


def test_a_full_queue_whose_process_can_not_be_seen_is_wrong(orders: busq.Bus, stopped_inside: int) -> None:
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-m", "busq", "doctor", "orders"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=TESTS)
    assert shown.returncode == 1
    assert "WRONG  the queue of 'inside' is full (3 messages) and it receives nothing; process 1 " in shown.stdout
    assert "all is well" not in shown.stdout


def test_a_number_that_is_another_process_now_is_unknown(orders: busq.Bus, peer: Callable[..., Child]) -> None:
    peer(be, "alice")
    file = os.stat(os.path.join(os.environ["BUSQ_DIR"], "orders"))
    alice = facts(orders, "alice")
    wait_until(lambda: doctor.process_of(alice, file).state == "sleeping", what="sleep")
    # The parent of this test run is older than the peer, and has nothing to do with the bus.
    stranger = doctor.process_of(alice | {"pid": os.getppid()}, file)
    assert (stranger.state, "does not have this bus open" in stranger.why) == ("unknown", True)
    younger = doctor.process_of(alice | {"joined_s": alice["joined_s"] - 3600}, file)
    assert (younger.state, "younger than this peer" in younger.why) == ("unknown", True)
    nobody = doctor.process_of(alice | {"pid": 2**31 - 1}, file)
    assert (nobody.state, "pid namespace" in nobody.why) == ("unknown", True)
    assert doctor.process_of(alice | {"pid": 2**31 - 1, "alive": False}, file).state == "gone"


def test_who_dies_while_the_doctor_looks_is_buried_too(orders: busq.Bus, peer: Callable[..., Child]) -> None:
    child = peer(be, "victim")

    def kill(seconds: float) -> None:
        child.kill()

    (report,) = doctor.examine(["orders"], pause=kill)
    assert [(found.level, found.kind) for found in report.findings] == [("repaired", "death")]
    assert facts(orders, "victim")["state"] == "dead"


def test_one_whose_gravedigger_is_stopped_is_not_called_repaired(
    own_directory: Path, orders: busq.Bus, peer: Callable[..., Child]
) -> None:
    peer(be, "victim").kill()
    slot = facts(orders, "victim")["slot"]
    with open(own_directory / "orders", "r+b") as file:
        # What a process holds that is putting in order what this peer has left.
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, (1 << 41) + slot, 1, 0))
        report = examined("orders")
        assert (findings(report), report["buried"]) == ([("death", ["victim"])], 0)
        assert "seems to be stopped" in report["findings"][0]["remedy"]
    assert findings(examined("orders"), "repaired") == [("death", ["victim"])]


def test_one_that_a_debugger_holds_is_called_traced(orders: busq.Bus, peer: Callable[..., Child]) -> None:
    alice = peer(be, "alice")
    attach, detach = 16, 17
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    if ptrace(attach, alice.pid, None, None) != 0:
        pytest.skip(f"ptrace: {os.strerror(ctypes.get_errno())}")
    os.waitpid(alice.pid, 0)
    with orders.join("bob") as bob:
        bob.send("alice", b"x")
        report = examined("orders")
        process = next(found["process"] for found in report["peers"] if found["name"] == "alice")
        assert (process["state"], process["tracer_pid"]) == ("traced", os.getpid())
        assert findings(report) == [("traced", ["alice"])]
        assert report["findings"][0]["remedy"] == f"let its debugger (process {os.getpid()}) continue it"
        assert ptrace(detach, alice.pid, None, None) == 0
        assert examined("orders")["ok"]


def test_a_zombie_is_called_one(orders: busq.Bus, peer: Callable[..., Child]) -> None:
    child = peer(be, "alice")
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    report = examined("orders")
    assert [(found["state"], found["process"]["state"]) for found in report["peers"]] == [("dead", "zombie")]


# ---- buses that can't be opened ----


def damage(path: Path, offset: int, change: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(change)


def of_an_earlier_boot(path: Path) -> None:
    """Gives a bus another boot id, and the checksum that goes with it."""

    def checksum(header: bytes) -> int:
        value = 0xCBF29CE484222325
        for byte in header[:12] + bytes(4) + header[16:]:  # all but the state
            value = (value ^ byte) * 0x100000001B3 % (1 << 64)
        return value

    head = path.read_bytes()[:512]
    place = next(at for at in range(64, 512, 8) if int.from_bytes(head[at : at + 8], "little") == checksum(head[:at]))
    changed = head[:24] + bytes(16) + head[40:place]
    damage(path, 0, changed + checksum(changed).to_bytes(8, "little"))


def make_wrecks(directory: Path) -> None:
    for name in ("damaged", "earlier", "half-made", "newer"):
        busq.Bus.create(name, peers=2, capacity=2, arena=1 << 16).close()
    damage(directory / "damaged", 60, b"\xff")
    of_an_earlier_boot(directory / "earlier")
    damage(directory / "half-made", 12, bytes(4))
    damage(directory / "newer", 8, b"\x63")
    (directory / "stranger").write_bytes(b"hello" * 1000)
    (directory / "stranger").chmod(0o600)


def test_what_can_not_be_opened_is_explained_and_the_others_are_looked_at(own_directory: Path) -> None:
    make_wrecks(own_directory)
    with busq.Bus.create("sound", peers=2), busq.Bus.open("sound").join("alice"):
        result = run_command("doctor", "--json")
        assert result.exit_code == 1
        found = {report["name"]: report for report in json.loads(result.stdout)["buses"]}
        kinds = {name: [finding["kind"] for finding in report["findings"]] for name, report in found.items()}
        assert kinds == {
            "damaged": ["damaged"],
            "earlier": ["stale"],
            "half-made": ["stale"],
            "newer": ["version"],
            "sound": [],
            "stranger": ["damaged"],
        }
        shown = run_command("doctor")
        assert line_with(shown.stdout, "before this machine was booted").endswith(": busq gc earlier removes it")
        assert "5 things wrong, 6 buses looked at" in shown.stdout
    missing = run_command("doctor", "nowhere")
    assert missing.exit_code == 1
    assert 'there is no bus "nowhere"' in missing.stdout


def test_a_bus_whose_insides_are_damaged_gets_a_diagnosis_and_no_traceback(
    own_directory: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LOOK_EVERY_S", 0.001)
    with busq.Bus.create("sound", peers=2, capacity=4, arena=1 << 16) as bus, bus.join("bob", durable=True) as bob:
        for _ in range(3):
            bob.send("bob", b"x")
    sound = (own_directory / "sound").read_bytes()
    random_ = random.Random(seed)
    for _ in range(40):
        image = bytearray(sound)
        for _ in range(random_.choice((1, 10, 1000))):
            image[random_.randrange(4096, len(image))] = random_.randrange(256)
        for peer_slot in range(2):  # where most is
            image[4096 + 1024 * peer_slot + random_.randrange(1024)] = random_.randrange(256)
        (own_directory / "damaged").write_bytes(image)
        (own_directory / "damaged").chmod(0o600)
        for arguments in (["doctor"], ["doctor", "damaged", "--json"], ["info", "damaged", "--interval", "0"], ["gc"]):
            result = run_command(*arguments)
            assert result.exit_code in (0, 1), (arguments, result.exception)
            assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exception)
        assert (own_directory / "sound").read_bytes()[4096:] == sound[4096:]


def test_gc_removes_what_is_stale_and_leaves_what_it_does_not_know(own_directory: Path) -> None:
    make_wrecks(own_directory)
    before = sorted(os.listdir(own_directory))
    would = run_command("gc", "--dry-run", "--json")
    assert sorted(os.listdir(own_directory)) == before
    done = run_command("gc", "--json")
    assert (would.exit_code, done.exit_code) == (0, 0)
    told = json.loads(done.stdout)
    assert json.loads(would.stdout) == told | {"dry_run": True}
    assert [(one["kind"], one["name"]) for one in told["removed"]] == [("bus", "earlier"), ("bus", "half-made")]
    assert [left["bus"] for left in told["left"]] == ["damaged", "newer", "stranger"]
    assert sorted(os.listdir(own_directory)) == ["damaged", "newer", "stranger"]
    named = run_command("gc", "stranger")
    assert (named.exit_code, "FAILED  stranger: " in named.stdout) == (1, True)


# ---- leftovers ----


def test_fifos_of_the_dead_and_of_buses_that_are_gone_are_found_and_removed(
    own_directory: Path, fork: Callable[..., Child], orders: busq.Bus
) -> None:
    with orders.join("alive") as alive:
        alive.fileno()
        mine = next(name for name in os.listdir(own_directory) if name.startswith(".busq-"))
        doomed = busq.Bus.create("doomed", peers=2)
        child = fork(lambda: be("doomed", "x", descriptor=True))
        wait_until(lambda: len(list(own_directory.glob(".busq-*"))) == 2, what="the FIFO of x")
        (left,) = {path.name for path in own_directory.glob(".busq-*")} - {mine}
        (own_directory / "doomed").unlink()
        doomed.close()

        def fifos() -> list[str]:
            return [path.name for path in own_directory.glob(".busq-*")]

        # Its owner lives and has it open: whatever became of the bus, it is not stale.
        reports = json.loads(run_command("doctor", "--json").stdout)["buses"]
        assert [found["kind"] for report in reports for found in report["findings"]] == ["lost"]
        child.kill()
        # Just made, it might belong to a process that is about to open it.
        assert (run_command("gc").stdout, len(fifos())) == ("nothing to remove\n", 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("busq.ops.leftovers.FIFO_AGE_S_MIN", -1.0)
            result = run_command("doctor")
            assert result.exit_code == 1
            assert line_with(result.stdout, "WRONG").endswith(f"{left}: busq gc removes them")
            assert run_command("gc", "orders").stdout == "nothing to remove\n"
            assert run_command("gc").stdout == f"removed fifo {left}: its bus is gone, and nobody has it open\n"
            assert fifos() == [mine]
            assert run_command("doctor").exit_code == 0


# ---- groups ----


def wait_for_members(bus: busq.Bus, group: str, *names: str) -> None:
    wait_until(
        lambda: bus.groups()[group].members == names if group in bus.groups() else False, what=f"{names} in {group}"
    )


def test_the_views_of_groups_are_shown_and_members_that_follow_them_are_well(orders: busq.Bus) -> None:
    with orders.join("alice") as alice:
        alice.enter("workers")
        alice.recv(timeout=PATIENCE_S)
        report = examined("orders")
        assert report["groups"] == {"workers": {"view": 1, "members": ["alice"]}}
        assert (report["ok"], report["findings"]) == (True, [])
        assert "@workers: view 1, alice" in run_command("doctor", "orders").stdout


def test_a_view_that_names_a_dead_member_is_pointed_out(orders: busq.Bus, peer: Callable[..., Child]) -> None:
    bob = peer(enter, "bob", "workers")
    wait_for_members(orders, "workers", "bob")
    bob.kill()
    report = examined("orders")
    assert report["groups"] == {"workers": {"view": 1, "members": ["bob"]}}
    (found,) = [finding for finding in report["findings"] if finding["kind"] == "view"]
    assert (found["level"], found["peers"]) == ("note", ["bob"])
    assert found["text"] == "view 1 of '@workers' names 'bob', which is gone, and nobody else"


def test_who_enters_while_the_doctor_looks_is_not_called_gone(
    orders: busq.Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, members = busq.Bus.stats, []
    with contextlib.ExitStack() as stack:

        def look_and_enter(bus: busq.Bus) -> dict[str, Any]:
            facts = look(bus)
            members.append(stack.enter_context(orders.join(f"number {len(members)}")))
            members[-1].enter("workers")
            for member in members:
                member.recv(timeout=PATIENCE_S)  # the view: queues hold three
            return facts

        monkeypatch.setattr(busq.Bus, "stats", look_and_enter)
        report = examined("orders")
    assert report["groups"]["workers"]["members"]
    assert [finding["text"] for finding in report["findings"] if "gone" in finding["text"]] == []


def test_a_dead_member_that_only_a_stopped_one_could_notice_is_wrong(
    orders: busq.Bus, peer: Callable[..., Child]
) -> None:
    alice, bob = peer(enter, "alice", "workers"), None
    wait_for_members(orders, "workers", "alice")
    bob = peer(enter, "bob", "workers")
    wait_for_members(orders, "workers", "alice", "bob")
    stop(alice)
    bob.kill()
    line = line_with(run_command("doctor", "orders").stdout, "no other member can notice")
    assert line == (
        "WRONG  view 2 of '@workers' names 'bob', which is gone, and no other member can notice: "
        f"process {alice.pid} is stopped: continue it with kill -CONT {alice.pid}"
    )
    with orders.join("cleo") as cleo, contextlib.suppress(busq.Full):  # a send to the group makes it right
        cleo.send("@workers", b"x", timeout=0)  # which fills the queue of the one that is stopped
    assert orders.groups()["workers"].members == ("alice",)
    assert "no other member" not in run_command("doctor", "orders").stdout


def test_who_has_not_come_to_the_latest_view_holds_up_those_who_wait_for_a_state(
    orders: busq.Bus, peer: Callable[..., Child]
) -> None:
    peer(enter, "alice", "workers")
    wait_for_members(orders, "workers", "alice")
    with orders.join("bob") as bob:
        bob.enter("workers")
        bob.recv(timeout=PATIENCE_S)
        report = examined("orders")
    (found,) = [finding for finding in report["findings"] if finding["kind"] == "view"]
    assert (found["level"], found["peers"]) == ("note", ["alice"])
    assert found["text"] == (
        "'alice' has not come to view 2 of '@workers': it has entered, and received no view so far"
    )
    assert found["remedy"] == "let it receive; until then, who enters may wait for a state that it has to give"
    assert report["ok"]


def test_files_that_look_like_fifos_are_never_touched(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busq.ops.leftovers.FIFO_AGE_S_MIN", -1.0)
    (own_directory / ".busq-0123456789abcdef-0-1-0123456789abcdef").write_text("a file")
    os.mkfifo(own_directory / ".busq-0123456789abcdef-0-1")
    os.mkfifo(own_directory / ".something")
    assert run_command("gc", "--unused").stdout == "nothing to remove\n"
    assert len(os.listdir(own_directory)) == 3


def test_gc_drops_what_waits_for_the_gone_and_keeps_what_is_durable(
    orders: busq.Bus, peer: Callable[..., Child]
) -> None:
    child = peer(be, "plain")
    with orders.join("kept", durable=True) as kept, orders.join("alive") as alive:
        for name in ("plain", "kept", "alive"):
            alive.send([name], b"x")
        kept.close()
        child.kill()
        would = json.loads(run_command("gc", "orders", "--dry-run", "--json").stdout)
        assert [(one["kind"], one["messages"]) for one in would["removed"]] == [("messages", 1)]
        assert facts(orders, "plain")["depth"] == 1
        assert run_command("gc", "orders").stdout.startswith("removed 1 message for 'plain' on bus orders")
        assert [facts(orders, name)["depth"] for name in ("plain", "kept", "alive")] == [0, 1, 1]
        assert run_command("gc", "orders").stdout == "nothing to remove\n"
        assert alive.recv(0).data == b"x"


def test_remove_is_refused_for_the_living_and_for_strangers(orders: busq.Bus) -> None:
    with orders.join("alive"):
        for dry_run in ([], ["--dry-run"]):
            for name in ("alive", "nobody"):
                result = run_command("gc", "orders", "--remove", name, *dry_run)
                assert (result.exit_code, result.stdout) == (1, "")
                assert name in result.stderr
        assert orders.peers() == ["alive"]


@pytest.mark.parametrize("shared", [False, True])
def test_what_was_removed_is_not_removed_again(orders: busq.Bus, shared: bool) -> None:
    with orders.join("kept", durable=True, shared=shared) as kept:
        kept.send("kept", b"x")
    assert run_command("gc", "orders", "--remove", "kept").stdout.startswith(
        "removed peer 'kept' of bus orders and 1 message"
    )
    for dry_run in ([], ["--dry-run"]):
        again = run_command("gc", "orders", "--remove", "kept", *dry_run)
        assert (again.exit_code, again.stdout) == (1, "")
        assert again.stderr == "busq: 'kept' has left nothing on bus 'orders'\n"


def hold_open(bus: str) -> None:
    """Does not even join."""
    opened = busq.Bus.open(bus)
    time.sleep(60)
    opened.close()


def has_open(pid: int, path: Path) -> bool:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            if os.readlink(link) == str(path.resolve()):
                return True
    return False


def leave_a_message(name: str, durable: bool) -> None:
    with busq.Bus.open(name) as bus, bus.join("bob", durable=durable) as bob:
        bob.send("bob", b"x")


def test_unused_buses_go_only_when_asked_and_only_when_nobody_has_them_open(
    own_directory: Path, fork: Callable[..., Child]
) -> None:
    for name in ("empty", "open", "lived-in", "durable", "used-up"):
        busq.Bus.create(name, peers=2, capacity=2, arena=1 << 16).close()
    child = fork(hold_open, "open")
    wait_until(lambda: has_open(child.pid, own_directory / "open"), what="opening")
    with busq.Bus.open("lived-in") as lived_in, lived_in.join("alice"):
        for name, durable in (("durable", True), ("used-up", False)):
            leave_a_message(name, durable)
        would = run_command("gc", "--unused", "--dry-run")
        assert [line.split()[3] for line in would.stdout.splitlines() if " bus " in line[:18]] == ["empty", "used-up"]
        assert len(os.listdir(own_directory)) == 5
        assert run_command("gc").exit_code == 0
        assert sorted(os.listdir(own_directory)) == ["durable", "empty", "lived-in", "open", "used-up"]
        assert run_command("gc", "--unused").exit_code == 0
        assert sorted(os.listdir(own_directory)) == ["durable", "lived-in", "open"]
        child.kill()
        assert run_command("gc", "open", "lived-in", "--unused").stdout.startswith("removed bus open ")
        assert sorted(os.listdir(own_directory)) == ["durable", "lived-in"]


# ---- wrong arguments, and how it looks ----


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["doctor", "a/b"], 'busq: bus name "a/b"'),
        (["doctor", ""], 'busq: bus name ""'),
        (["gc", ".hidden"], 'busq: bus name ".hidden"'),
        (["gc", "--remove", "bob"], "busq gc: --remove wants exactly one BUS"),
        (["gc", "a", "b", "--remove", "bob"], "busq gc: --remove wants exactly one BUS"),
        (["gc", "orders", "--remove", "bob", "--unused"], "busq gc: --remove wants exactly one BUS, and no --unused"),
        (["gc", "orders", "--remove", ""], "busq: a peer's name"),
        (["info", "orders", "--interval", "-1"], "busq info: Invalid value for '--interval'"),
        (["info", "orders", "--interval", "nan"], "busq info: Invalid value for '--interval'"),
        (["info", "orders", "--interval", "inf"], "busq info: Invalid value for '--interval'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(orders: busq.Bus, arguments: Sequence[str], line: str) -> None:
    result = run_command(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert line in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_buses_there_is_nothing_to_say(own_directory: Path) -> None:
    assert [run_command(command).stdout for command in ("doctor", "gc")] == ["no buses\n", "nothing to remove\n"]
    assert json.loads(run_command("doctor", "--json").stdout) == {"ok": True, "buses": []}


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_findings_keep_to_one_line_each_in_a_pipe(
    orders: busq.Bus, peer: Callable[..., Child], columns: int, tmp_path: Path
) -> None:
    stop(peer(be, "a-receiver-with-a-long-name-that-is-stopped"))
    peer(send_for_ever, "a-sender-with-a-long-name", "a-receiver-with-a-long-name-that-is-stopped")
    wait_for_waiting(orders, "a-sender-with-a-long-name", seconds=0.2)
    for command in ("doctor", "info"):
        while True:  # a send that is begun again is not seen to wait for a moment
            shown = subprocess.run(
                [sys.executable, "-m", "busq", command, "orders"],
                cwd=tmp_path,
                env=os.environ | {"COLUMNS": str(columns)},
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            assert shown.stderr == ""
            rows = [line for line in shown.stdout.splitlines() if line.startswith(" a-sender-with-a-long-name ")]
            if any("room: " in row for row in rows):
                break
        assert any("room: a-receiver-with-a-long-name-that-is-stopped" in row for row in rows)
        if command == "doctor":
            assert shown.returncode == 1
            assert re.search(r"^WRONG .* continue it with kill -CONT \d+$", shown.stdout, re.MULTILINE)


LONG = "orders.eu-west-1.customer-facing.fulfilment.worker-with-a-name-that-fills-a-terminal"


@pytest.mark.parametrize("is_terminal", [False, True], ids=["piped", "on a terminal"])
@pytest.mark.parametrize("command", [["ls"], ["info", LONG], ["doctor", LONG]], ids=["ls", "info", "doctor"])
def test_names_are_not_broken(own_directory: Path, command: list[str], is_terminal: bool) -> None:
    with busq.Bus.create(LONG) as bus, bus.join(f"{LONG} one"), bus.join(f"{LONG}-two", durable=True):
        shown = on_a_terminal(command) if is_terminal else run_command(*command).stdout
    assert re.search(rf"^.*{LONG}\b", shown, re.MULTILINE)
    if command != ["ls"]:
        assert re.search(rf"^ *{LONG} one .*\blive\b", shown, re.MULTILINE)
        assert re.search(rf"^ *{LONG}-two .*\blive, durable\b", shown, re.MULTILINE) or is_terminal
        assert f"{LONG}-two " in shown


def on_a_terminal(command: list[str]) -> str:
    """What a command prints on a terminal of 80 columns, without colours."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "dumb"}
    environment.pop("COLUMNS", None)
    popen = subprocess.Popen([sys.executable, "-m", "busq", *command], stdout=theirs, env=environment, cwd=TESTS)
    os.close(theirs)
    text = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while part := os.read(ours, 1 << 16):
            text += part
    os.close(ours)
    popen.wait(PATIENCE_S)
    return re.sub(r"\x1b\[[0-9;]*m", "", text.decode()).replace("\r\n", "\n")


# ---- info ----


def test_info_shows_waits_states_and_measured_rates(
    orders: busq.Bus, peer: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    peer(receive_slowly, "alice")
    peer(send_for_ever, "bob", "alice")
    with orders.join("kept", durable=True):
        pass
    time.sleep(0.2)
    found = json.loads(run_command("info", "orders", "--interval", "0.5", "--json").stdout)
    peers = {one["name"]: one for one in found["peers"]}
    assert found["interval_s"] >= 0.5
    assert 0 < peers["alice"]["received_per_s"] <= 101
    assert 0 < peers["bob"]["sent_per_s"] <= 130
    assert (peers["kept"]["state"], peers["kept"]["durable"], peers["kept"]["sent_per_s"]) == ("closed", True, 0)
    monkeypatch.setenv("COLUMNS", "120")
    shown = run_command("info", "orders").stdout
    assert re.search(r"kept +closed, durable +- +- +0 +0 B +0 +0", shown)
    assert re.search(r"sent/s +recv/s", shown)
    without = run_command("info", "orders", "--interval", "0")
    assert "sent/s" not in without.stdout
    unmeasured = json.loads(run_command("info", "orders", "--interval", "0", "--json").stdout)
    assert {one["sent_per_s"] for one in unmeasured["peers"]} == {None}
    assert unmeasured["interval_s"] == 0


def test_ctrl_c_ends_a_measurement_quietly(orders: busq.Bus, own_directory: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "busq", "info", "orders", "--interval", "30"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            wait_until(lambda: has_open(process.pid, own_directory / "orders"), what="the first look")
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert (process.returncode, stdout, stderr.strip()) == (130, b"", b"")


def test_a_group_whose_places_were_all_given_is_told_though_nobody_is_there(own_directory: Path) -> None:
    with busq.Bus.create("group", order="skeen", peers=2) as bus:
        with bus.join("ann") as ann, bus.join("bob"):
            ann.send("bob", b"never received")
        report = examined("group")
        assert ("slots", []) in findings(report, "note")
        told = run_command("doctor", "group").stdout
        assert "order skeen gives each once" in " ".join(told.split())
        assert "resume until" not in told
        with pytest.raises(busq.NoSpace):
            bus.join("cleo")


def test_a_queue_that_cannot_grow_for_want_of_memory_is_told(
    own_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ring is a page until it needs more, and a full file system has no more."""
    disk = namedtuple("disk", "f_bavail f_frsize")
    with busq.Bus.create("short", capacity=1024, reserve=False) as bus, bus.join("ann") as ann, bus.join("bob"):
        ann.send("bob", b"")
        for free, levels in ((0, ["wrong"]), (1, ["wrong"]), (10, [])):
            monkeypatch.setattr("busq.ops.diagnosis.os.statvfs", lambda _, free=free: disk(free, 4096))
            found = [finding for finding in doctor.examine(["short"])[0].findings if finding.kind == "growth"]
            assert [finding.level for finding in found] == levels
            assert all(finding.peers == ("bob",) and "'bob' can't grow" in finding.text for finding in found)
        for _ in range(1000):
            ann.send("bob", b"")
        monkeypatch.setattr("busq.ops.diagnosis.os.statvfs", lambda _: disk(0, 4096))
        assert not [finding for finding in doctor.examine(["short"])[0].findings if finding.kind == "growth"]
