# SPDX-License-Identifier: Apache-2.0
"""A peer that is a receiver of its own message, while its own queue is full.

Room is made there by the threads of this process alone: where no other one receives, the call raises instead of waiting
for itself.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import PATIENCE_S, Child, wait_until

import busq

CAPACITY = 8


@pytest.fixture
def small(make_bus: Callable[..., busq.Bus]) -> busq.Bus:
    return make_bus(capacity=CAPACITY)


def fill(bus: busq.Bus, name: str) -> None:
    """Let another peer fill a queue."""
    with bus.join("filler") as filler:
        fill_from(filler, name)


def fill_from(peer: busq.Peer, name: str) -> None:
    with contextlib.suppress(busq.Full):
        while True:
            peer.send(name, b"m", timeout=0)


def draft(ann: busq.Peer) -> None:
    with ann.reserve(10_000) as made:
        made.send(["ann", "bob"])


CALLS: dict[str, Callable[[busq.Peer], Any]] = {
    "alone": lambda ann: ann.send("ann", b"m"),
    "in a list": lambda ann: ann.send(["ann", "bob"], b"m"),
    "large": lambda ann: ann.send(["bob", "ann"], bytes(100_000)),
    "in parts": lambda ann: ann.send(["bob", "ann"], [b"m", b"m"]),
    "with time": lambda ann: ann.send(["bob", "ann"], b"m", timeout=10 * PATIENCE_S),
    "in a group": lambda ann: ann.send("@g", b"m"),
    "beside a group": lambda ann: ann.send(["@g", "bob"], b"m"),
    "to its node": lambda ann: ann.send(ann.node().handle, b"m"),
    "with a handle": lambda ann: ann.send(["ann", "bob"], b"m", handles=[ann.node().handle]),
    "many": lambda ann: ann.send_many([("ann", b"m")]),
    "an object": lambda ann: ann.send_object("ann", [1, 2, 3]),
    "a draft": draft,
    "leaving": lambda ann: ann.leave("g"),
    "entering": lambda ann: ann.enter("another"),
}


@pytest.mark.parametrize("how", CALLS)
def test_who_sends_to_its_own_full_queue_is_told_at_once(small: busq.Bus, how: str) -> None:
    """It would wait for itself for ever; once it has received, it goes on."""
    with small.join("ann") as ann, small.join("bob"):
        ann.enter("g")
        fill(small, "ann")
        with pytest.raises(busq.Full, match=r'the queue of "ann" is full, and "ann" itself sends .* receive first'):
            CALLS[how](ann)
        assert len(ann.recv_many(CAPACITY)) == CAPACITY
        CALLS[how](ann)
        fill_from(ann, "ann")
        with pytest.raises(busq.Full):  # tried once
            ann.send("ann", b"m", timeout=0)


def test_what_was_sent_before_is_counted(small: busq.Bus) -> None:
    with small.join("ann") as ann, small.join("bob"):
        fill(small, "ann")
        with pytest.raises(busq.Full) as caught:
            ann.send_many([("bob", b"1"), ("bob", b"2"), (["ann", "bob"], b"3")])
        assert caught.value.sent == 2


def test_another_thread_that_receives_makes_room(small: busq.Bus) -> None:
    """It does between two calls of recv, too."""
    with small.join("ann") as ann:
        ann.enter("g")
        n, got = 20 * CAPACITY, []
        went_on = threading.Event()

        def read() -> None:
            while len(got) <= n:
                got.append(ann.recv(timeout=PATIENCE_S).data)
                went_on.wait(PATIENCE_S)  # is away, while the queue is full

        reader = threading.Thread(target=read)
        reader.start()
        wait_until(lambda: len(got) == 1, what="the view was read")
        sender = threading.Thread(target=lambda: [ann.send("@g", b"%d" % number) for number in range(n)])
        sender.start()
        wait_until(lambda: small.stats()["peers"][0]["depth"] == CAPACITY, what="the queue is full")
        went_on.set()
        sender.join(PATIENCE_S)
        reader.join(PATIENCE_S)
        assert got[1:] == [b"%d" % number for number in range(n)]


def test_a_thread_sends_before_the_one_that_receives_has_begun(small: busq.Bus) -> None:
    with small.join("ann") as ann:
        sender = threading.Thread(target=lambda: [ann.send("ann", b"%d" % number) for number in range(100)])
        sender.start()
        wait_until(lambda: small.stats()["peers"][0]["depth"] == CAPACITY, what="the queue is full")
        assert [ann.recv(timeout=PATIENCE_S).data for _ in range(100)] == [b"%d" % number for number in range(100)]
        sender.join(PATIENCE_S)


def test_the_only_reader_of_a_shared_queue_is_told(small: busq.Bus) -> None:
    with small.join("jobs", shared=True) as worker:
        fill(small, "jobs")
        with pytest.raises(busq.Full, match=r'the queue of "jobs" is full, and .* receive first'):
            worker.send("jobs", b"m")
        worker.recv(timeout=0)
        worker.send("jobs", b"m")
        with small.join("jobs", shared=True) as other:
            sender = threading.Thread(target=worker.send, args=("jobs", b"last"))
            sender.start()
            got = [other.recv(timeout=PATIENCE_S).data for _ in range(CAPACITY + 1)]
            sender.join(PATIENCE_S)
            assert got[-1] == b"last"


def join_and_send(bus: busq.Bus) -> None:
    with bus.join("jobs", shared=True) as one:
        one.send("jobs", b"first")


def test_of_readers_that_all_send_to_their_queue_the_last_one_is_told(small: busq.Bus) -> None:
    """It receives, and the others go on."""
    with small.join("jobs", shared=True) as other:
        fill(small, "jobs")
        sender = threading.Thread(target=join_and_send, args=(small,))
        sender.start()
        told = "until the timeout"
        while "until the timeout" in told:  # the other one does not wait yet
            with pytest.raises(busq.Full) as caught:
                other.send("jobs", b"second", timeout=0.1)
            told = str(caught.value)
        assert "while no other thread or reader receives from it" in told
        assert other.recv(timeout=0).data == b"m"
        sender.join(PATIENCE_S)
        assert not sender.is_alive()


def test_who_waits_for_a_thread_that_ends_is_told(small: busq.Bus) -> None:
    with small.join("ann") as ann:
        ann.send("ann", b"m")
        leave = threading.Event()

        def read_one() -> None:
            ann.recv(timeout=PATIENCE_S)
            leave.wait(PATIENCE_S)

        reader = threading.Thread(target=read_one)
        reader.start()
        wait_until(lambda: small.stats()["peers"][0]["depth"] == 0, what="the reader has received")
        fill(small, "ann")
        told: list[str] = []

        def send() -> None:
            try:
                ann.send("ann", b"m")
            except busq.Full as error:
                told.append(str(error))

        sender = threading.Thread(target=send)
        sender.start()
        wait_until(lambda: small.stats()["peers"][0]["waits"] == "room", what="the sender waits")
        assert not told
        leave.set()
        sender.join(PATIENCE_S)
        assert "receive first" in told[0]


def test_of_threads_that_send_to_their_own_queue_the_last_one_goes_on(small: busq.Bus) -> None:
    """Each receives, and sends two for one; all would wait for each other's receiving."""
    with small.join("ann") as ann:
        n_told = threading.Semaphore(0)
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                try:
                    ann.recv(timeout=0.01)
                    ann.send_many([("ann", b"m")] * 2)
                except busq.Empty:
                    pass
                except busq.Full:
                    n_told.release()

        ann.send_many([("ann", b"m")] * 2)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert all(n_told.acquire(timeout=PATIENCE_S) for _ in range(50))
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def sends_to_itself(name: str) -> str:
    with busq.Bus.open(name) as bus, bus.join("child") as peer:
        fill_from(peer, "child")
        peer.recv()
        peer.send("child", b"m")
        with pytest.raises(busq.Full) as caught:
            peer.send("child", b"m")
        return str(caught.value)


def test_a_forked_child_is_told_as_well(small: busq.Bus, fork: Callable[..., Child]) -> None:
    """Its thread has another number than the one in the parent that it is a copy of."""
    with small.join("ann") as ann:
        ann.send("ann", b"m")
        ann.recv()
        assert "receive first" in fork(sends_to_itself, small.name).result()
