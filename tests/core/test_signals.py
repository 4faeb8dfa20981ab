# SPDX-License-Identifier: Apache-2.0
"""Signals: Ctrl-C is answered within 100 ms, a storm of signals neither shortens a timeout nor loses a message."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import PATIENCE_S, TESTS, Child, shortest

import busq

# ---- Ctrl-C ----

# A program that waits in the given way and reports when it was interrupted, on the clock that all processes share.
WAITER = """
import busq, sys, threading, time
name, waiting, others = sys.argv[1:]
bus = busq.Bus.open(name)
alice, bob = bus.join("alice"), bus.join("bob")
if "send" in waiting:
    while True:
        try: alice.send("bob", b"m" * (300_000 if "memory" in waiting else 1000), timeout=0)
        except busq.Full: break
calls = {
    "recv": lambda: alice.recv(),
    "recv with timeout": lambda: alice.recv(timeout=600),
    "recv_many": lambda: alice.recv_many(10),
    "iterate": lambda: list(alice),
    "send to a full queue": lambda: alice.send("bob", b"m"),
    "send without memory": lambda: alice.send("alice", b"m" * 300_000),
    "send_many": lambda: alice.send_many([("bob", b"m")] * 5),
}
carol = bus.join("carol")
if others == "others":
    threading.Thread(target=carol.recv, daemon=True).start()
print("ready", flush=True)
try:
    calls[waiting]()
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
carol.send("alice", b"still works", timeout=0)
assert alice.recv(timeout=0).data == b"still works"
print("works", flush=True)
"""


def interrupt(bus: busq.Bus, waiting: str, others: str) -> float:
    """Seconds from the signal to KeyboardInterrupt."""
    command = [sys.executable, "-c", WAITER, bus.name, waiting, others]
    with subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.15)  # long enough to have stopped spinning
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 0, err
    caught, works = out.split()
    assert works == "works"
    return float(caught) - sent


@pytest.mark.parametrize("others", ["alone", "others"])
@pytest.mark.parametrize(
    "waiting",
    ["recv", "recv with timeout", "recv_many", "iterate", "send to a full queue", "send without memory", "send_many"],
)
def test_ctrl_c_is_answered_within_100_ms(make_bus: Callable[..., busq.Bus], waiting: str, others: str) -> None:
    """Where other threads wait too, the signal may meet one of them first; the main thread must see it all the same."""
    assert shortest(lambda: interrupt(make_bus(capacity=8, arena=1 << 20), waiting, others), 0.1) < 0.1


# ---- a storm ----


class Storm:
    """A signal every millisecond, handled in Python."""

    def __enter__(self) -> Storm:
        self.n_signals = 0
        signal.signal(signal.SIGALRM, self._handle)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        return self

    def _handle(self, *_: Any) -> None:
        self.n_signals += 1

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


def wait_in_a_storm(name: str, seconds: float) -> list[float]:
    bus = busq.Bus.open(name)
    alice = bus.join("alice")
    alice.send_many([("alice", b"")] * bus.stats()["capacity"])
    bob = bus.join("bob")
    waits: list[tuple[type[Exception], Callable[[], Any]]] = [
        (busq.Empty, lambda: bob.recv(timeout=seconds)),
        (busq.Empty, lambda: bob.recv_many(10, timeout=seconds)),
        (busq.Full, lambda: bob.send("alice", b"", timeout=seconds)),
        (busq.Full, lambda: bob.send_many([("alice", b"")], timeout=seconds)),
    ]
    took = []
    for error, call in waits:
        with Storm() as storm:
            begin = time.monotonic()
            try:
                call()
            except error:
                took.append(time.monotonic() - begin)
        assert storm.n_signals > 10
    return took


def test_signals_neither_shorten_a_timeout_nor_begin_it_anew(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    took = fork(wait_in_a_storm, make_bus(capacity=4).name, 0.5).result()
    assert len(took) == 4
    assert min(took) >= 0.5, took


def receive_in_a_storm(name: str) -> list[bytes]:
    with busq.Bus.open(name).join("receiver") as peer, Storm():
        got: list[bytes] = []
        while not got or got[-1] != b"end":
            got += [m.data for m in (peer.recv_many(50) if len(got) % 3 else [peer.recv(timeout=PATIENCE_S)])]
        return got


def send_in_a_storm(name: str, count_min: int, signals_min: int) -> int:
    """Send numbers until there were so many of both, and an end; return how many numbers."""
    with busq.Bus.open(name).join("sender") as peer, Storm() as storm:
        for number in itertools.count():
            if number >= count_min and storm.n_signals >= signals_min:
                break
            if number % 3:
                peer.send("receiver", b"%d" % number)
            else:
                peer.send("receiver", b"%d" % number, timeout=PATIENCE_S)
        peer.send("receiver", b"end")
        return number


def test_signals_lose_no_message(make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]) -> None:
    """Small queues, so that both sides wait all the time."""
    bus = make_bus(capacity=2)
    receiver = fork(receive_in_a_storm, bus.name)
    while "receiver" not in bus.peers():
        time.sleep(0.001)
    sender = fork(send_in_a_storm, bus.name, 20_000, 20)
    received = receiver.result()
    assert received == [b"%d" % number for number in range(sender.result())] + [b"end"]


def test_a_handler_that_raises_ends_the_wait_and_the_peer_works_on(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    class EnoughError(Exception):
        pass

    def raise_enough(*_: Any) -> None:
        raise EnoughError

    def child(name: str) -> bool:
        alice = busq.Bus.open(name).join("alice")
        signal.signal(signal.SIGALRM, raise_enough)
        for _ in range(20):
            with pytest.raises(EnoughError):  # noqa: PT012 (the signal may come at once)
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                alice.recv()
            alice.send("alice", b"after")
            assert alice.recv(timeout=0).data == b"after"
        return True

    assert fork(child, make_bus().name).result()
