# SPDX-License-Identifier: Apache-2.0
"""Requests: ask, reply, wait_for."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator

import pytest
from conftest import PATIENCE_S

import busq

SIZES = [0, 1, 100, 4080, 4096, 4097, 100_000]


@contextlib.contextmanager
def serving(peer: busq.Peer, answer: Callable[[busq.Message], bytes] = lambda message: message.data) -> Iterator[None]:
    """Answer all that comes to this peer, in a thread, until the block ends."""

    def serve() -> None:
        with contextlib.suppress(busq.ShutDown):
            for message in peer:
                with contextlib.suppress(busq.PeerDead):
                    message.reply(answer(message))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        peer.close()
        thread.join()


@pytest.mark.parametrize("size", SIZES)
def test_a_reply_comes_back_as_it_was_sent(bus: busq.Bus, size: int) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    data = random.Random(size).randbytes(size)
    with serving(bob):
        reply = alice.ask("bob", data, timeout=PATIENCE_S)
        assert reply.data == data
        assert (reply.sender, reply.kind, reply.redelivered) == ("bob", "data", False)
        assert bytes(alice.ask("bob", [data, b"", bytearray(data)], timeout=PATIENCE_S).view()) == data + data


@pytest.mark.parametrize("ack", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_a_request_is_a_message_like_any_other(bus: busq.Bus, size: int, ack: bool) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    data = random.Random(size).randbytes(size)
    with pytest.raises(busq.Empty):
        alice.ask("bob", data, timeout=0)
    message = bob.recv(timeout=PATIENCE_S, ack=ack)
    assert (message.sender, message.kind, message.redelivered) == ("alice", "data", False)
    assert bytes(message.view()) == data
    assert message.data == data
    assert isinstance(message, busq.Message)
    assert repr(message) == f"<Message of {size} bytes from 'alice'>"
    message.ack()


def test_the_queue_for_replies_is_seen_and_can_not_be_sent_to(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    with serving(bob):
        alice.ask("bob", b"", timeout=PATIENCE_S)
        assert bus.peers() == ["alice", "bob"]
        assert [peer["name"] for peer in bus.stats()["peers"]] == ["alice", "bob", "alice/replies"]
        with pytest.raises(ValueError, match="/"):
            alice.send("alice/replies", b"")
        with pytest.raises(ValueError, match="/"):
            alice.ask("alice/replies", b"")
        with pytest.raises(ValueError, match="/"):
            bus.join("alice/replies", resume=True)
    alice.close()
    assert [peer["name"] for peer in bus.stats()["peers"] if peer["alive"]] == []


def test_wait_for_returns_when_all_are_there(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    bus.wait_for("alice", timeout=0)
    bus.wait_for([])
    with pytest.raises(busq.Empty, match="'bob', 'carol'"):
        bus.wait_for(["bob", "alice", "carol"], timeout=0)
    joined: list[busq.Peer] = []
    thread = threading.Thread(target=lambda: (bus.wait_for("alice"), joined.extend(map(bus.join, ["bob", "carol"]))))
    thread.start()
    bus.wait_for(iter(["bob", "alice", "carol"]), timeout=PATIENCE_S)
    thread.join()
    assert sorted(bus.peers()) == ["alice", "bob", "carol"]
    alice.close()
