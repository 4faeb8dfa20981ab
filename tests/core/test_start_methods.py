# SPDX-License-Identifier: Apache-2.0
"""fork, spawn and forkserver; how processes end; and what other threads do at that moment."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S, TESTS, Child, fresh_python, wait_until

import busq

# ---- fork: copies of handles are refused, and touch nothing ----


def outcome(call: Callable[[], object]) -> str:
    try:
        return repr(call())
    except Exception as error:
        return type(error).__name__


def test_every_call_on_a_parents_peer_is_refused_in_a_forked_child(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice, bob = bus.join("alice", durable=True), bus.join("bob")
    alice.send_many([("bob", b"%d" % number) for number in range(4)])
    offered = bob.recv(ack=True)
    pinned_source = alice.send("bob", b"x" * 50_000)
    assert pinned_source is None
    descriptor = bob.fileno()
    before = bus.stats()

    def child() -> dict[str, str]:
        calls: dict[str, Callable[[], object]] = {
            "send": lambda: alice.send("bob", b""),
            "multicast": lambda: alice.send(["alice", "bob"], b"", timeout=0),
            "to somebody new": lambda: alice.send("carol", b""),
            "send_many": lambda: alice.send_many([("bob", b"")]),
            "recv": lambda: bob.recv(),
            "recv(0)": lambda: bob.recv(timeout=0),
            "recv(ack)": lambda: bob.recv(timeout=0, ack=True),
            "recv_many": lambda: bob.recv_many(5, timeout=PATIENCE_S),
            "recv_many(ack)": lambda: bob.recv_many(5, ack=True),
            "iterate": lambda: next(iter(bob)),
            "ack": lambda: offered.ack(),
            "fileno": lambda: bob.fileno(),
        }
        answers = {name: outcome(call) for name, call in calls.items()}
        alice.close()
        bob.close()
        return answers

    answers = fork(child).result()
    assert set(answers.values()) == {"ForkedHandle"}, answers
    assert bus.stats() == before
    offered.ack()
    assert [m.data[:9] for m in bob.recv_many(9, timeout=0)] == [b"1", b"2", b"3", b"x" * 9]
    alice.send("bob", b"wakes")
    assert bob.fileno() == descriptor
    assert bob.recv(timeout=0).data == b"wakes"


def test_the_parents_bus_handle_may_be_used_in_a_forked_child(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice = bus.join("alice")

    def child() -> list[str]:
        with bus.join("child") as peer:
            peer.send("alice", b"by the parent's handle")
            names = bus.peers()
        bus.close()
        return names

    assert fork(child).result() == ["alice", "child"]
    assert alice.recv(timeout=0).sender == "child"
    assert bus.peers() == ["alice"]


def test_the_error_says_what_to_do(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice = bus.join("alice")

    def child() -> str:
        with pytest.raises(busq.ForkedHandle) as caught:
            alice.recv()
        return str(caught.value)

    assert "join again in the child" in fork(child).result()


def test_forking_while_other_threads_send_receive_and_join(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    """Whatever lock another thread holds at that moment, the child can join, send and end; the parent goes on."""
    bus = make_bus(peers=8, capacity=16)
    alice, bob = bus.join("alice"), bus.join("bob")
    is_over = threading.Event()
    got: list[bytes] = []

    def send() -> None:
        number = 0
        while not is_over.is_set():
            alice.send("bob", b"%d" % number)
            number += 1
        alice.send("bob", b"the end")

    def receive() -> None:
        while (data := bob.recv(timeout=PATIENCE_S, ack=len(got) % 2 == 0)).data != b"the end":
            data.ack()
            got.append(data.data)

    def join() -> None:
        while not is_over.is_set():
            with bus.join("carol", resume=True) as carol:
                carol.fileno()

    def child(number: int) -> list[str]:
        with busq.Bus.open(bus.name) as mine, mine.join(f"child {number}") as peer:
            peer.send(peer.name, b"works")
            assert peer.recv(timeout=0).data == b"works"
        return [outcome(lambda: alice.send("bob", b"")), outcome(lambda: bob.recv())]

    threads = [threading.Thread(target=target) for target in (send, receive, join)]
    for thread in threads:
        thread.start()
    try:
        for number in range(30):
            assert fork(child, number).result(20) == ["ForkedHandle"] * 2
    finally:
        is_over.set()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
    assert got == [b"%d" % number for number in range(len(got))]
    assert sorted(bus.peers()) == ["alice", "bob"]


# ---- spawn and forkserver ----


def answer(bus: busq.Bus, mine: str, to: str) -> None:
    with bus, bus.join(mine) as peer:
        peer.send(to, b"from " + mine.encode())


def answer_from(source: Any, mine: str, to: str) -> None:
    answer(source.get(timeout=PATIENCE_S) if hasattr(source, "get") else source.recv(), mine, to)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_bus_goes_to_a_child_as_an_argument_through_a_queue_and_through_a_pipe(bus: busq.Bus, method: str) -> None:
    """The last two at any later time, long after the child was started."""
    alice = bus.join("alice")
    context: Any = multiprocessing.get_context(method)
    queue = context.Queue()
    reader, writer = context.Pipe(duplex=False)
    children = [
        context.Process(target=answer, args=(bus, "argument", "alice")),
        context.Process(target=answer_from, args=(queue, "queue", "alice")),
        context.Process(target=answer_from, args=(reader, "pipe", "alice")),
    ]
    try:
        for child in children:
            child.start()
        assert alice.recv(timeout=PATIENCE_S).data == b"from argument"
        queue.put(bus)
        writer.send(bus)
        assert {alice.recv(timeout=PATIENCE_S).data for _ in range(2)} == {b"from queue", b"from pipe"}
        for child in children:
            child.join(PATIENCE_S)
            assert child.exitcode == 0
        assert bus.peers() == ["alice"]
    finally:
        for child in children:
            if child.pid:
                child.kill()
                child.join()
        queue.close()
        queue.join_thread()


_worker: busq.Peer | None = None


def begin_work(bus: busq.Bus) -> None:
    global _worker
    _worker = bus.join(f"worker {os.getpid()}")


def work(number: int) -> int:
    assert _worker is not None
    _worker.send("alice", b"%d" % number)
    return number * number


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_pool_join_in_the_initializer(bus: busq.Bus, method: str) -> None:
    alice = bus.join("alice")
    context: Any = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, context, begin_work, (bus,)) as pool:
        assert list(pool.map(work, range(20))) == [number * number for number in range(20)]
        assert {int(message.data) for message in alice.recv_many(99)} == set(range(20))
    assert bus.peers() == ["alice"]


def test_a_bus_that_was_removed_can_not_be_unpickled_and_says_so(bus: busq.Bus) -> None:
    pickled = pickle.dumps(bus)
    busq.Bus.unlink(bus.name)
    code = "import pickle, sys; pickle.loads(bytes.fromhex(sys.argv[1]))"
    done = fresh_python(code, pickled.hex())
    assert done.returncode == 1
    assert "FileNotFoundError" in done.stderr
    assert bus.name in done.stderr
    with busq.Bus.create(bus.name, peers=2) as other:
        done = fresh_python(code, pickled.hex())
        assert "FileNotFoundError" in done.stderr
        assert "the bus of that name is another" in done.stderr
        assert fresh_python(code, pickle.dumps(other).hex()).returncode == 0


# ---- the end of a process ----

ENDS = {
    "os._exit": "os._exit(3)",
    "sys.exit": "sys.exit(3)",
    "abort": "import faulthandler; faulthandler.disable(); os.abort()",
    "an exception": "raise RuntimeError",
    "exec": "os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(60)'])",
    "falling off the end": "pass",
}
PROGRAM = """
import busq, os, resource, sys, threading, time
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
peer = busq.Bus.open(sys.argv[1]).join("victim")
peer.fileno()
other = peer.bus.join("other")
if sys.argv[2]:
    for target in (peer.recv, lambda: other.recv(ack=True), lambda: [m for m in other]):
        threading.Thread(target=target, daemon=True).start()
    time.sleep(0.1)
print("joined", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("threads", ["", "1"], ids=["", "daemon-threads-wait-in-recv"])
@pytest.mark.parametrize("end", ENDS.values(), ids=[name.replace(" ", "-") for name in ENDS])
def test_however_a_process_ends_its_peers_are_gone_at_once(bus: busq.Bus, end: str, threads: str) -> None:
    alice = bus.join("alice")
    command = [sys.executable, "-c", PROGRAM + end, bus.name, threads]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=TESTS, text=True, **pipes) as process:
        try:
            assert process.stdin
            assert process.stdout
            assert process.stdout.readline() == "joined\n"
            assert bus.peers() == ["alice", "victim", "other"]
            alice.send("victim", b"one of its threads may take it")
            process.stdin.close()
            # Not waited for: a zombie, and a process that has become another program, are as dead as any.
            wait_until(lambda: bus.peers() == ["alice"], what="the death")
            with pytest.raises(busq.PeerDead):
                alice.send("victim", b"too late")
            bus.join("victim", resume=True).close()
            assert ("exec" in end) == (process.poll() is None) or process.wait(PATIENCE_S) is not None
        finally:
            process.kill()
    expected = {"os._exit": 3, "sys.exit": 3, "abort": -signal.SIGABRT, "raise": 1, "exec": -signal.SIGKILL, "pass": 0}
    assert process.returncode == next(code for word, code in expected.items() if word in end)


def test_an_unreaped_child_is_dead(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    pid = os.fork()
    if pid == 0:
        try:
            busq.Bus.open(bus.name).join("victim")
            kept = busq.Bus.open(bus.name).join("kept")
            kept.send("alice", b"here I am")
        finally:
            os._exit(0)
    try:
        assert alice.recv(timeout=PATIENCE_S).sender == "kept"
        wait_until(lambda: b") Z " in Path(f"/proc/{pid}/stat").read_bytes(), what="the zombie")
        assert bus.peers() == ["alice"]
        with pytest.raises(busq.PeerDead):
            alice.send("kept", b"")
        bus.join("kept").close()
    finally:
        os.waitpid(pid, 0)


# ---- closing while another thread waits ----


def waiting_calls(bus: busq.Bus) -> dict[str, tuple[busq.Peer, Callable[[], object]]]:
    alice, bob, carol = bus.join("alice"), bus.join("bob"), bus.join("carol")
    with contextlib.suppress(busq.Full):
        while True:
            carol.send("carol", b"fills the queue", timeout=0)
    return {
        "recv": (alice, lambda: alice.recv()),
        "recv with a timeout": (alice, lambda: alice.recv(timeout=PATIENCE_S)),
        "recv(ack)": (alice, lambda: alice.recv(ack=True)),
        "recv_many": (alice, lambda: alice.recv_many(5)),
        "recv_many(ack)": (alice, lambda: alice.recv_many(5, ack=True)),
        "send": (bob, lambda: bob.send("carol", b"")),
        "multicast": (bob, lambda: bob.send(["alice", "carol"], b"", timeout=PATIENCE_S)),
        "send_many": (bob, lambda: bob.send_many([("carol", b"")])),
        "keeps carol": (carol, lambda: None),
    }


@pytest.mark.parametrize(
    "name",
    ["recv", "recv with a timeout", "recv(ack)", "recv_many", "recv_many(ack)", "send", "multicast", "send_many"],
)
def test_closing_ends_the_wait_of_other_threads(make_bus: Callable[..., busq.Bus], name: str) -> None:
    bus = make_bus(capacity=2)
    calls = waiting_calls(bus)  # keeps all peers
    peer, call = calls[name]
    ended: list[str] = []
    threads = [threading.Thread(target=lambda: ended.append(outcome(call))) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.15)
    assert not ended
    peer.close()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert ended == ["ShutDown"] * 3
    assert peer.name not in bus.peers()


def test_who_waits_for_room_learns_that_the_receiver_has_closed(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=1)
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send("bob", b"fills the queue")
    ended: list[str] = []
    thread = threading.Thread(target=lambda: ended.append(outcome(lambda: alice.send(["alice", "bob"], b"waits"))))
    thread.start()
    time.sleep(0.1)
    bob.close()
    thread.join(PATIENCE_S)
    assert ended == ["PeerDead"]
    with pytest.raises(busq.Empty):
        alice.recv(timeout=0)


def test_interrupting_a_recv_that_is_to_be_acknowledged(bus: busq.Bus) -> None:
    """Ctrl-C is answered within 100 ms, and the peer works on."""
    code = """
import busq, sys, time
bob = busq.Bus.open(sys.argv[1]).join("bob")
for call in (lambda: bob.recv(ack=True), lambda: bob.recv_many(9, ack=True)) * 10:
    print("ready", flush=True)
    try: call()
    except KeyboardInterrupt: print(time.monotonic(), flush=True)
bob.send("bob", b"works")
print(bob.recv(timeout=0, ack=True).data, flush=True)
"""
    took = []
    with subprocess.Popen(
        [sys.executable, "-c", code, bus.name], cwd=TESTS, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            for _ in range(20):
                assert process.stdout.readline() == "ready\n"
                time.sleep(0.15)
                sent = time.monotonic()
                process.send_signal(signal.SIGINT)
                took.append(float(process.stdout.readline()) - sent)
            assert process.stdout.readline() == "b'works'\n"
        finally:
            process.kill()
    assert max(min(took[::2]), min(took[1::2])) < 0.1, took


# ---- other pid namespaces ----

IN_A_NAMESPACE = """
import os, sys, time
import busq

peer = busq.Bus.open(sys.argv[1]).join("inside", durable=True)
assert os.getpid() == 1
peer.send("outside", b"from process 1")
time.sleep(60)
"""


def test_life_and_death_are_seen_across_pid_namespaces(bus: busq.Bus) -> None:
    """Inside, the process has a number that is another process outside: what counts is what the kernel holds for it."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--pid", "--fork", "true"], check=False).returncode:
        pytest.skip("needs root and unshare --pid")
    outside = bus.join("outside")
    command = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", IN_A_NAMESPACE, bus.name]
    process = subprocess.Popen(command, cwd=TESTS)
    try:
        message = outside.recv(timeout=PATIENCE_S)
        assert (message.data, message.sender) == (b"from process 1", "inside")
        assert bus.peers() == ["outside", "inside"]
        with pytest.raises(busq.PeerExists):
            bus.join("inside", resume=True)
        outside.send("inside", b"unread")
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: bus.peers() == ["outside"], what="the kernel to say that it is dead")
    assert bus.join("inside", resume=True).recv(timeout=0).data == b"unread"
