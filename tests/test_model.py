# SPDX-License-Identifier: Apache-2.0
"""The core and the reference model side by side: Hypothesis chooses what happens, both must answer the same.

BUSQ_MODEL_EXAMPLES is the number of random histories per variant.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import select
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import model
import pytest
from conftest import fresh_python, unlink_quietly
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import busq
from busq import _core

NAMES = ["ann", "bob", "cleo", "dan", "eve"]
SLOTS = 4  # fewer than names: all slots taken must happen too
ARENA_BYTES = 8 << 20
HELD_MAX = 10
EXAMPLES = int(os.environ.get("BUSQ_MODEL_EXAMPLES", "250"))

_numbers = itertools.count()

names = st.sampled_from(NAMES)


def payload_of(size: int, number: int) -> bytes:
    return random.Random(number).randbytes(size)


# Small ones are copied out by recv, large ones may be read in place.
small = st.builds(payload_of, st.integers(0, 1024), st.integers(0, 1 << 16))
large = st.builds(payload_of, st.integers(16 << 10, 100 << 10), st.integers(0, 1 << 16))
payloads = st.one_of(small, small, large)


class Patience:
    """A call that does not come back ends with ShutDown after a while: a broken core fails instead of hanging."""

    def __init__(self) -> None:
        self._busy: tuple[busq.Bus, float] | None = None
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def with_bus(self, bus: busq.Bus) -> Iterator[None]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        self._busy = (bus, time.monotonic())
        yield
        self._busy = None

    def _watch(self) -> None:
        limit = 3.0
        while True:
            time.sleep(0.1)
            busy = self._busy
            if busy and time.monotonic() - busy[1] > limit:
                busy[0].shutdown()
                limit = 0.2  # from now on it is only about making the example small


patience = Patience()


@dataclass
class Held:
    """A large message that the application has not finished looking at."""

    copy: model.Copy
    message: Any
    view: memoryview | None


class SideBySide(RuleBasedStateMachine):
    """Every operation is done to both; every answer is compared at once, all counters after each step."""

    @initialize(capacity=st.integers(1, 8), members=st.lists(names, min_size=1, max_size=SLOTS, unique=True))
    def create(self, capacity: int, members: list[str]) -> None:
        self.name = f"model-{os.getpid()}-{next(_numbers)}"
        self.bus = busq.Bus.create(self.name, peers=SLOTS, capacity=capacity, arena=ARENA_BYTES)
        self.model = model.Bus(SLOTS, capacity, ARENA_BYTES)
        self.peers: dict[str, busq.Peer] = {}
        self.watched: dict[str, int] = {}
        self.held: list[Held] = []
        self.is_stale = bool(os.environ.get("BUSQ_STALE_PROPOSALS"))
        self.has_begun = True
        for name in members:
            self._join(name)

    has_begun = False

    def teardown(self) -> None:
        if not self.has_begun:
            return
        try:
            while self.held:
                self._let_go(self.held.pop())
        finally:
            for peer in self.peers.values():
                peer.close()
            self.peers.clear()
            del self.bus  # with the last peer this unmaps it
            unlink_quietly(self.name)

    # ---- joining and leaving ----

    @precondition(lambda self: len(self.peers) < 3 or self.bus_is_busy())
    @rule(name=names)
    def join(self, name: str) -> None:
        self._join(name)

    def bus_is_busy(self) -> bool:
        """Some sends have happened: from now on joining and leaving is more interesting."""
        return sum(m.n_sent for m in self.model.slots.values()) > 3

    def _join(self, name: str) -> None:
        errors = self.model.join_errors(name)
        if errors:
            with pytest.raises(tuple(errors)):
                self.bus.join(name)
            return
        self.peers[name] = self.bus.join(name)
        facts = next(f for f in self.bus.stats()["peers"] if f["name"] == name and f["alive"])
        self.model.join(name, facts["slot"])

    @precondition(lambda self: self.peers and self.bus_is_busy())
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.peers)))
        self.watched.pop(name, None)
        self.peers.pop(name).close()
        self.model.close(self._member(name))

    @precondition(lambda self: self.peers)
    @rule(data=st.data())
    def watch(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.peers)))
        self.watched[name] = self.peers[name].fileno()

    def _member(self, name: str) -> model.Member:
        member = self.model.live(name)
        assert member is not None
        return member

    def _receivers(self, data: st.DataObject) -> list[str]:
        """Mostly the living, each once; now and then somebody who has left, was never there, or is named twice."""
        live = st.lists(st.sampled_from(sorted(self.peers)), min_size=1, max_size=4, unique=True)
        if data.draw(st.integers(0, 5)) < 5:
            return data.draw(live)
        return data.draw(st.lists(st.sampled_from([*NAMES, "nobody"]), max_size=4))

    # ---- sending ----

    @precondition(lambda self: self.peers)
    @rule(data=st.data(), payload=payloads)
    def send(self, data: st.DataObject, payload: bytes) -> None:
        self._send(data.draw(st.sampled_from(sorted(self.peers))), self._receivers(data), payload)

    @precondition(lambda self: len(self.peers) > 1)
    @rule(data=st.data(), payload=payloads)
    def send_to_all(self, data: st.DataObject, payload: bytes) -> None:
        self._send(data.draw(st.sampled_from(sorted(self.peers))), list(self.peers), payload)

    @precondition(lambda self: self.peers and self.departed())
    @rule(data=st.data(), payload=small)
    def send_to_one_who_has_left(self, data: st.DataObject, payload: bytes) -> None:
        """Nobody gets a multicast of which one receiver is gone."""
        to = [
            *data.draw(st.lists(st.sampled_from(sorted(self.peers)), unique=True)),
            data.draw(st.sampled_from(self.departed())),
        ]
        self._send(data.draw(st.sampled_from(sorted(self.peers))), to, payload)

    def departed(self) -> list[str]:
        return sorted({m.name for m in self.model.slots.values() if not m.is_live} - set(self.peers))

    def _send(self, name: str, to: list[str], payload: bytes) -> None:
        errors = self.model.send_errors(to, payload)
        if errors:
            with pytest.raises(tuple(errors)):
                self.peers[name].send(to, payload, timeout=0)
            return
        with patience.with_bus(self.bus):
            self.peers[name].send(to[0] if len(to) == 1 else to, payload)
        self.model.send(self._member(name), to, payload)

    @precondition(lambda self: self.peers)
    @rule(data=st.data(), batch=st.lists(small, max_size=6))
    def send_many(self, data: st.DataObject, batch: list[bytes]) -> None:
        """As many as can be sent; the error of the first one that can't is raised only where it is the first of all."""
        name = data.draw(st.sampled_from(sorted(self.peers)))
        messages = [(self._receivers(data), payload) for payload in batch]
        expected, errors = 0, set()
        for to, payload in messages:
            errors = self.model.send_errors(to, payload)
            if errors:
                break
            self.model.send(self._member(name), to, payload)
            expected += 1
        if errors and not expected:
            with pytest.raises(tuple(errors)):
                self.peers[name].send_many(messages, timeout=0)
        elif errors:
            assert self.peers[name].send_many(messages, timeout=0) == expected
        else:
            with patience.with_bus(self.bus):
                assert self.peers[name].send_many(messages) == expected

    # ---- receiving ----

    @precondition(lambda self: self.peers)
    @rule(data=st.data(), keep=st.sampled_from(["nothing", "message", "view"]))
    def recv(self, data: st.DataObject, keep: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.peers)))
        member = self._member(name)
        errors = self.model.recv_errors(member)
        if errors:
            with pytest.raises(tuple(errors)):
                self.peers[name].recv(timeout=0)
            return
        with patience.with_bus(self.bus):
            message = self.peers[name].recv()
        self._look_at(message, self.model.recv(member), keep)

    @precondition(lambda self: self.peers)
    @rule(data=st.data(), limit=st.integers(1, 8), keep=st.sampled_from(["nothing", "message", "view"]))
    def recv_many(self, data: st.DataObject, limit: int, keep: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.peers)))
        member = self._member(name)
        errors = self.model.recv_errors(member)
        if errors:
            with pytest.raises(tuple(errors)):
                self.peers[name].recv_many(limit, timeout=0)
            return
        with patience.with_bus(self.bus):
            messages = self.peers[name].recv_many(limit)
        copies = [self.model.recv(member) for _ in range(min(limit, len(member.waiting)))]
        assert [m.sender for m in messages] == [copy.message.sender.name for copy in copies]
        while messages:
            self._look_at(messages.pop(), copies.pop(), keep)

    @precondition(lambda self: self.peers)
    @rule(data=st.data())
    def drain(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.peers)))
        while self._member(name).waiting:
            message = self.peers[name].recv(timeout=0)
            self._look_at(message, self.model.recv(self._member(name)), "nothing")

    def _look_at(self, message: Any, copy: model.Copy, keep: str) -> None:
        expected = copy.message
        assert message.sender == expected.sender.name
        assert message.kind == "data"
        if keep == "nothing" or len(expected.data) <= 4096 or len(self.held) >= HELD_MAX:
            assert message.data == expected.data
            del message
            self.model.release(copy)
            return
        view = message.view() if keep == "view" else None
        self.held.append(Held(copy, None if view is not None else message, view))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        """In any order, also after the receiver, the sender or both have left."""
        self._let_go(self.held.pop(data.draw(st.integers(0, len(self.held) - 1))))

    def _let_go(self, held: Held) -> None:
        expected = held.copy.message.data
        if held.view is not None:
            assert held.view == expected
            held.view.release()
        else:
            assert held.message.data == expected
            held.message = None
        self.model.release(held.copy)

    # ---- the end ----

    @precondition(lambda self: self.bus_is_busy())
    @rule(chance=st.integers(0, 7))
    def shutdown(self, chance: int) -> None:
        if chance == 7:
            self.bus.shutdown()
            self.model.is_shut_down = True

    # ---- after every step ----

    @invariant()
    def counters_agree(self) -> None:
        if not self.has_begun:
            return
        stats = self.bus.stats()
        assert stats["shut_down"] == self.model.is_shut_down
        assert self.bus.peers() == [m.name for _, m in sorted(self.model.slots.items()) if m.is_live]
        for facts in stats["peers"]:
            member = self.model.slots[facts["slot"]]
            assert (facts["name"], facts["alive"]) == (member.name, member.is_live)
            if member.is_live:
                counters = (facts["depth"], facts["sent"], facts["received"])
                assert counters == (member.depth, member.n_sent, member.n_received)
                assert facts["late"] == (member.n_multicasts if self.is_stale else 0)
        assert len(stats["peers"]) == len(self.model.slots)

    @invariant()
    def descriptors_agree(self) -> None:
        """fileno() is readable exactly while recv would not block: a message waits, or the bus is shut down."""
        if not self.has_begun or not self.watched:
            return
        poll = select.poll()
        for descriptor in self.watched.values():
            poll.register(descriptor, select.POLLIN)
        readable = {descriptor for descriptor, _ in poll.poll(0)}
        for name, descriptor in self.watched.items():
            would_not_block = bool(self._member(name).waiting) or self.model.is_shut_down
            assert (descriptor in readable) == would_not_block, name

    @invariant()
    def model_agrees_with_itself(self) -> None:
        if self.has_begun:
            self.model.verify()


def run(examples: int) -> None:
    run_state_machine_as_test(SideBySide, settings=settings(max_examples=examples, stateful_step_count=50))


@pytest.fixture
def lost_proposals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every multicast of peers that join from now on has to be sealed and synced."""
    monkeypatch.setenv("BUSQ_STALE_PROPOSALS", "1")


def test_core_and_model_agree() -> None:
    run(EXAMPLES)


def test_core_and_model_agree_where_every_proposal_is_lost(lost_proposals: None) -> None:
    run(EXAMPLES)


@pytest.mark.skipif(_core._fast is None, reason="this interpreter already runs without the accelerator")
@pytest.mark.parametrize("stale", ["", "1"], ids=["", "lost-proposals"])
def test_core_and_model_agree_without_the_accelerator(stale: str) -> None:
    code = f"import test_model; test_model.run({max(1, EXAMPLES // 4)})"
    done = fresh_python(code, BUSQ_NO_ACCELERATOR="1", BUSQ_STALE_PROPOSALS=stale, timeout=110)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]


def test_the_model_itself_orders_by_key() -> None:
    """A short history by hand, so that the model is not only ever compared with what it is to judge."""
    bus = model.Bus(peers=3, capacity=2, arena=100)
    ann, bob, cleo = (bus.join(name, slot) for slot, name in enumerate(["ann", "bob", "cleo"]))
    first = bus.send(ann, ["bob"], b"1")
    second = bus.send(bob, ["bob", "cleo"], b"2")  # bob has not received the first, but its queue has its timestamp
    assert first.key < second.key
    assert bus.send_errors(["cleo", "bob"], b"3") == {busq.Full}
    third = bus.send(cleo, ["cleo"], b"3")
    assert second.timestamp < third.timestamp
    held = bus.recv(bob)
    assert bus.recv(bob).message is second
    assert bob.depth == 2  # the first is still looked at, and the second stands behind it
    bus.release(held)
    assert bob.depth == 1
    bus.close(ann)
    assert bus.send_errors(["ann"], b"") == {busq.PeerDead}
    assert bus.send_errors(["dan"], b"") == {busq.UnknownPeer}
    assert bus.free_slots() == {0}
    bus.verify()
