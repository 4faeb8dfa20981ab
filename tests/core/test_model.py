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
from conftest import unlink_quietly
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

NAMES = ["ann", "bob", "cleo", "dan", "eve"]
SLOTS = 4  # fewer than names: all slots taken must happen too
ARENA_BYTES = 8 << 20
HELD_MAX = 10
OFFERS_MAX = 12
EXAMPLES = int(os.environ.get("BUSQ_MODEL_EXAMPLES", "60"))

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
        limit = 60.0
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


@dataclass
class Offer:
    """A message that may be acknowledged: now, later, twice, never."""

    copy: model.Copy
    message: Any
    life: int
    is_acknowledged: bool = False


def is_readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


class SideBySide(RuleBasedStateMachine):
    """Every operation is done to both; every answer is compared at once, all counters after each step."""

    @initialize(capacity=st.integers(1, 8), members=st.lists(names, min_size=1, max_size=SLOTS, unique=True))
    def create(self, capacity: int, members: list[str]) -> None:
        self.name = f"model-{os.getpid()}-{next(_numbers)}"
        self.bus = busq.Bus.create(self.name, peers=SLOTS, capacity=capacity, arena=ARENA_BYTES)
        self.is_stale = bool(os.environ.get("BUSQ_STALE_PROPOSALS"))
        self.model = model.Bus(SLOTS, capacity, ARENA_BYTES, is_stale=self.is_stale)
        self.peers: dict[str, busq.Peer] = {}
        self.watched: dict[str, int] = {}
        self.held: list[Held] = []
        self.offers: list[Offer] = []
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
    @rule(name=names, durable=st.booleans())
    def join(self, name: str, durable: bool) -> None:
        self._join(name, durable=durable)

    @rule(name=names, durable=st.booleans())
    def resume(self, name: str, durable: bool) -> None:
        self._join(name, resume=True, durable=durable)

    @precondition(lambda self: self.departed())
    @rule(data=st.data(), durable=st.booleans())
    def resume_one_who_has_left(self, data: st.DataObject, durable: bool) -> None:
        self._join(data.draw(st.sampled_from(self.departed())), resume=True, durable=durable)

    def bus_is_busy(self) -> bool:
        """Some sends have happened: from now on joining and leaving is more interesting."""
        return sum(m.n_sent for m in self.model.slots.values()) > 3

    def _join(self, name: str, **options: bool) -> None:
        errors = self.model.join_errors(name, resume=options.get("resume", False))
        if errors:
            with pytest.raises(tuple(errors)):
                self.bus.join(name, **options)
            return
        self.peers[name] = self.bus.join(name, **options)
        facts = next(f for f in self.bus.stats()["peers"] if f["name"] == name and f["alive"])
        self.model.join(name, facts["slot"], **options)

    @precondition(lambda self: self.bus_is_busy())
    @rule(name=st.sampled_from([*NAMES, "nobody"]))
    def remove(self, name: str) -> None:
        errors = self.model.remove_errors(name)
        if errors:
            with pytest.raises(tuple(errors)):
                self.bus.remove(name)
        else:
            self.bus.remove(name)

    @precondition(lambda self: self.bus_is_busy() and self.departed())
    @rule(chance=st.integers(0, 3))
    def collect(self, chance: int) -> None:
        if chance == 3:
            assert self.bus.collect() == self.model.collect()

    @rule()
    def repair(self) -> None:
        """No peer has died, so it finds nothing, and changes nothing."""
        assert self.bus.repair() == (0, 0)

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
        self._member(name).look()

    def _member(self, name: str) -> model.Member:
        member = self.model.live(name)
        assert member is not None
        return member

    def _receivers(self, data: st.DataObject) -> list[str]:
        """Mostly the living, each once; now and then a peer that has left, was never there, or is named twice."""
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
        """No receiver gets a multicast of which one is gone."""
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
        """As many as can be sent; the error of the first one that can't holds how many those were."""
        name = data.draw(st.sampled_from(sorted(self.peers)))
        messages = [(self._receivers(data), payload) for payload in batch]
        expected, errors = 0, set()
        for to, payload in messages:
            errors = self.model.send_errors(to, payload)
            if errors:
                break
            self.model.send(self._member(name), to, payload)
            expected += 1
        if errors:
            with pytest.raises(tuple(errors)) as caught:
                self.peers[name].send_many(messages, timeout=0)
            assert caught.value.sent == expected
        else:
            with patience.with_bus(self.bus):
                assert self.peers[name].send_many(messages) == expected

    # ---- receiving ----

    @precondition(lambda self: self.peers)
    @rule(data=st.data(), keep=st.sampled_from(["nothing", "message", "view", "ack"]))
    def recv(self, data: st.DataObject, keep: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.peers)))
        member = self._member(name)
        errors = self.model.recv_errors(member)
        if errors:
            with pytest.raises(tuple(errors)):
                self.peers[name].recv(timeout=0, ack=keep == "ack")
            return
        with patience.with_bus(self.bus):
            message = self.peers[name].recv(ack=keep == "ack")
        self._look_at(message, self.model.recv(member, ack=keep == "ack"), keep)
        self._settle(name)

    @precondition(lambda self: self.peers)
    @rule(data=st.data(), limit=st.integers(1, 8), keep=st.sampled_from(["nothing", "message", "view", "ack"]))
    def recv_many(self, data: st.DataObject, limit: int, keep: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.peers)))
        member = self._member(name)
        errors = self.model.recv_errors(member)
        if errors:
            with pytest.raises(tuple(errors)):
                self.peers[name].recv_many(limit, timeout=0, ack=keep == "ack")
            return
        with patience.with_bus(self.bus):
            messages = self.peers[name].recv_many(limit, ack=keep == "ack")
        copies: list[model.Copy] = []
        while len(copies) < limit and member.look():
            copies.append(self.model.recv(member, ack=keep == "ack"))
        assert [m.sender for m in messages] == [copy.message.sender.name for copy in copies]
        while messages:
            self._look_at(messages.pop(), copies.pop(), keep)
        self._settle(name)

    @precondition(lambda self: self.peers)
    @rule(data=st.data())
    def drain(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.peers)))
        while self._member(name).waiting:
            message = self.peers[name].recv(timeout=0)
            self._look_at(message, self.model.recv(self._member(name)), "nothing")
        self._settle(name)

    def _settle(self, name: str) -> None:
        """Whose descriptor is watched looks at once what comes next."""
        if name in self.watched:
            self._member(name).look()

    def _look_at(self, message: Any, copy: model.Copy, keep: str) -> None:
        expected = copy.message
        assert message.sender == expected.sender.name
        assert message.kind == "data"
        assert message.redelivered is copy.is_redelivered
        if keep == "ack":
            assert message.data == expected.data
            self.offers.append(Offer(copy, message, copy.receiver.life))
            del self.offers[:-OFFERS_MAX]
            return
        if keep == "nothing" or len(expected.data) <= 4096 or len(self.held) >= HELD_MAX:
            assert message.data == expected.data
            message.ack()  # nothing to acknowledge: harmless
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

    @precondition(lambda self: self.offers)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        """In any order, also twice, also after the receiver has left or has resumed."""
        offer = self.offers[data.draw(st.integers(0, len(self.offers) - 1))]
        self._acknowledge(offer)

    def _acknowledge(self, offer: Offer) -> None:
        assert offer.message.data == offer.copy.message.data
        errors = set() if offer.is_acknowledged else self.model.ack_errors(offer.copy, offer.life)
        if errors:
            with pytest.raises(tuple(errors)):
                offer.message.ack()
            return
        offer.message.ack()
        if not offer.is_acknowledged:
            self.model.ack(offer.copy)
            offer.is_acknowledged = True
            self._settle(offer.copy.receiver.name)

    @precondition(lambda self: self.offers)
    @rule()
    def acknowledge_everything(self) -> None:
        while self.offers:
            self._acknowledge(self.offers.pop())

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
            state = "live" if member.is_live else "closing" if member.is_closing else "closed"
            assert (facts["name"], facts["alive"], facts["state"]) == (member.name, member.is_live, state)
            assert facts["durable"] == member.is_durable
            counters = (facts["depth"], facts["sent"], facts["received"])
            assert counters == (member.depth, member.n_sent, member.n_received)
            assert facts["late"] == (member.n_multicasts if self.is_stale else 0)
        assert len(stats["peers"]) == len(self.model.slots)

    @invariant()
    def descriptors_agree(self) -> None:
        """fileno() is readable while recv would not block; where it is readable in vain, one recv puts that right."""
        if not self.has_begun:
            return
        for name, descriptor in self.watched.items():
            if self.model.recv_errors(self._member(name)) != {busq.Empty}:
                assert is_readable(descriptor), name
            else:
                assert self._is_quiet(self.peers[name], descriptor), name

    def _is_quiet(self, peer: busq.Peer, descriptor: int) -> bool:
        """Readable only for the wake-up that comes after 50 ms of waiting, and not right after a recv."""
        while is_readable(descriptor):
            began = time.monotonic()
            with pytest.raises(busq.Empty):
                peer.recv(timeout=0)
            if is_readable(descriptor) and time.monotonic() - began < 0.045:
                return False
        return True

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


def test_a_durable_queue_that_nobody_reads_is_full_of_messages_only() -> None:
    """Found by the histories above: bob leaves while it holds the first of four, and lets go of it afterwards."""
    both = SideBySide()
    both.create(capacity=4, members=["ann"])
    try:
        both._join("bob", durable=True)
        for number in range(4):
            both._send("ann", ["bob"], payload_of(16 << 10, number))
        held = both.model.recv(both._member("bob"))
        both._look_at(both.peers["bob"].recv(), held, "view")
        both.model.close(both._member("bob"))
        both.peers.pop("bob").close()
        both._send("ann", ["bob"], b"held")
        assert both.model.send_errors(["bob"], b"") == {busq.Full}
        both._let_go(both.held.pop())
        both.counters_agree()
        both._send("ann", ["bob"], b"let go")
        both.counters_agree()
        assert both.model.send_errors(["bob"], b"") == {busq.Full}
        both._send("ann", ["bob"], b"four again")
    finally:
        both.teardown()


@pytest.mark.long
def test_core_and_model_agree_where_every_proposal_is_lost(lost_proposals: None) -> None:
    run(EXAMPLES)


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


def test_the_model_itself_continues_where_a_predecessor_stopped() -> None:
    bus = model.Bus(peers=2, capacity=8, arena=100)
    ann, bob = bus.join("ann", 0), bus.join("bob", 1, durable=True)
    messages = [bus.send(ann, ["bob"], b"%d" % number) for number in range(5)]
    bus.release(bus.recv(bob))
    offers = [bus.recv(bob, ack=True) for _ in range(3)]
    bus.ack(offers[1])
    assert (bob.depth, ann.n_under_way) == (4, 3)
    bus.close(bob)
    assert bus.ack_errors(offers[0], 0) == {busq.ShutDown}
    messages.append(bus.send(ann, ["bob"], b"while it was away"))
    assert bus.join_errors("bob") == {busq.PeerExists}
    assert bus.free_slots() == set()
    assert bus.join("bob", 1, resume=True) is bob
    assert bob.depth == 5
    again = [bus.recv(bob) for _ in range(4)]
    assert [copy.message for copy in again] == [messages[1], messages[3], messages[4], messages[5]]
    assert [copy.is_redelivered for copy in again] == [True, True, False, False]
    assert bus.recv_errors(bob) == {busq.Empty}
    for copy in again:
        bus.release(copy)
    assert (bob.depth, bob.n_received, ann.n_under_way) == (0, 8, 0)
    bus.verify()


def test_the_model_itself_drops_the_longest_gone_first() -> None:
    bus = model.Bus(peers=3, capacity=8, arena=100)
    ann, bob, cleo = (bus.join(name, slot) for slot, name in enumerate(["ann", "bob", "cleo"]))
    bus.send(ann, ["bob", "cleo"], b"")
    bus.close(cleo)
    bus.close(bob)
    assert bus.free_slots() == set()
    assert bus.join_errors("dan") == set()
    assert bus.free_slots() == {2}
    assert (bob.depth, ann.n_under_way) == (1, 1)
    assert bus.collect() == 1
    assert (bus.free_slots(), ann.n_under_way) == ({1, 2}, 0)
