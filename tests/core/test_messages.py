# SPDX-License-Identifier: Apache-2.0
"""Messages that were received: payloads in place, how long they live, whose they are.

A large payload stays in the sender's memory, and keeps its place in the receiver's queue, until it is not looked at any
more.
"""

from __future__ import annotations

import gc
import pickle
import random
import threading
from collections.abc import Callable

import pytest
from conftest import PATIENCE_S, depth, fresh_python, pattern, wait_until

import busq

LARGE = 100_000
SMALL = 100


@pytest.mark.parametrize("size", [0, SMALL, LARGE])
def test_a_view_shows_the_payload_and_can_not_be_written(bus: busq.Bus, size: int) -> None:
    alice = bus.join("alice")
    alice.send("alice", pattern(size))
    with alice.recv().view() as view:
        assert (view.readonly, view.nbytes, view.format, view.ndim, view.contiguous) == (True, size, "B", 1, True)
        assert view == pattern(size)
        assert bytes(view[size // 2 :]) == pattern(size)[size // 2 :]
        if size:
            with pytest.raises(TypeError, match="read-only"):
                view[0] = 1


@pytest.mark.parametrize("order", ["bus1", "fifo"])
@pytest.mark.parametrize("sizes", [[], [0], [0, 0], [1, 0, 2], [SMALL] * 50, [LARGE, 1, LARGE]])
def test_parts_become_one_message(make_bus: Callable[..., busq.Bus], order: str, sizes: list[int]) -> None:
    parts = [pattern(size, number) for number, size in enumerate(sizes)]
    bus = make_bus(order=order, peers=2)
    with bus.join("alice") as alice, bus.join("bob") as bob:
        alice.send(["alice", "bob"], parts)
        alice.send_many([("bob", tuple(bytearray(part) for part in parts)), ("bob", b"last")], timeout=PATIENCE_S)
        assert alice.recv(PATIENCE_S).data == b"".join(parts)
        assert [bob.recv(PATIENCE_S).data for _ in range(3)] == [b"".join(parts), b"".join(parts), b"last"]


def test_parts_are_too_large_together(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(order="fifo", peers=2)
    alice = bus.join("alice")
    most = bus.stats()["arena_bytes"]
    with pytest.raises(ValueError, match=f"a message of {most + 1} bytes"):
        alice.send("alice", [bytes(most), b"x"])


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_data_may_be_read_again_and_before_a_view(bus: busq.Bus, size: int) -> None:
    alice = bus.join("alice")
    alice.send("alice", pattern(size))
    message = alice.recv()
    assert message.data == message.data == pattern(size)
    with message.view() as view:
        assert view == pattern(size)
    assert message.data == pattern(size)  # it was copied out before the view was released


def test_a_view_keeps_its_place_in_the_queue_until_released(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=2)
    alice = bus.join("alice")
    alice.send("alice", pattern(LARGE))
    alice.send("alice", b"second")
    message = alice.recv()
    view = message.view()
    assert alice.recv().data == b"second"
    with pytest.raises(busq.Full):
        alice.send("alice", b"third", timeout=0)
    assert depth(bus, "alice") == 2
    view.release()
    assert depth(bus, "alice") == 0
    with pytest.raises(ValueError, match="was released, and its memory with it: read `data` before"):
        _ = message.data
    alice.send("alice", b"third", timeout=0)


def test_views_may_be_released_in_any_order(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=4, arena=4 << 20)
    alice = bus.join("alice")
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]):
        for number in range(4):
            alice.send("alice", pattern(LARGE, number), timeout=0)
        views = [m.view() for m in alice.recv_many(4)]
        for number in order:
            assert views[number] == pattern(LARGE, number)
            assert depth(bus, "alice") > 0
            views[number].release()
        assert depth(bus, "alice") == 0


def test_releasing_twice_is_harmless_and_reading_afterwards_an_error(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    alice.send("alice", pattern(LARGE))
    message = alice.recv()
    view = message.view()
    view.release()
    view.release()
    assert depth(bus, "alice") == 0
    with pytest.raises(ValueError, match="released"):
        view[0]
    with pytest.raises(ValueError, match="released"):
        _ = message.data
    alice.send("alice", pattern(LARGE, 1))
    assert alice.recv().data == pattern(LARGE, 1)


def test_a_part_of_a_view_keeps_the_whole(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    alice.send("alice", pattern(LARGE))
    with alice.recv().view() as view:
        part = view[1000:2000]
    assert depth(bus, "alice") == 1
    assert part == pattern(LARGE)[1000:2000]
    part.release()
    assert depth(bus, "alice") == 0


@pytest.mark.parametrize("what", ["message", "view", "both"])
def test_dropping_it_is_as_good_as_releasing_it(bus: busq.Bus, what: str) -> None:
    alice = bus.join("alice")
    alice.send("alice", pattern(LARGE))
    kept: list[object] = [alice.recv()]
    if what != "message":
        kept.append(kept[0].view())  # type: ignore[attr-defined]
    if what == "view":
        del kept[0]
    assert depth(bus, "alice") == 1
    kept.clear()
    gc.collect()
    assert depth(bus, "alice") == 0


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_reading_data_gives_the_place_back(bus: busq.Bus, size: int) -> None:
    alice = bus.join("alice")
    alice.send("alice", pattern(size))
    message = alice.recv()
    assert message.data == pattern(size)
    assert depth(bus, "alice") == 0
    assert message.data == pattern(size)


def test_a_view_outlives_sender_receiver_and_bus(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(arena=4 << 20)
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send("bob", pattern(LARGE, 1))
    alice.send("bob", pattern(LARGE, 2))
    first, second = (m.view() for m in bob.recv_many(2))
    alice.close()
    assert first == pattern(LARGE, 1)
    with bus.join("alice") as other:  # must get memory of its own
        for number in range(8):
            other.send("alice", pattern(LARGE, 10 + number))
        assert first == pattern(LARGE, 1)
    bob.close()
    assert second == pattern(LARGE, 2)
    busq.Bus.unlink(bus.name)
    bus.close()
    del alice, bob, other, bus
    gc.collect()
    assert (bytes(first), bytes(second)) == (pattern(LARGE, 1), pattern(LARGE, 2))
    first.release()
    second.release()


def test_a_closed_peer_gives_its_slot_back_with_the_last_view(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(peers=2, arena=4 << 20)
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send("bob", pattern(LARGE, 1))
    alice.send("bob", pattern(LARGE, 2))
    views = [m.view() for m in bob.recv_many(2)]
    bob.close()
    with pytest.raises(busq.NoSpace):
        bus.join("carol")
    views[0].release()
    with pytest.raises(busq.NoSpace):
        bus.join("carol")
    views[1].release()
    with bus.join("carol") as carol:
        alice.send("carol", b"hello")
        assert carol.recv().data == b"hello"


def test_releasing_a_view_wakes_a_sender_that_waits_for_room(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=1)
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send("bob", pattern(LARGE))
    view = bob.recv().view()
    sent = threading.Event()

    def wait_and_send() -> None:
        alice.send("bob", b"second", timeout=PATIENCE_S)
        sent.set()

    thread = threading.Thread(target=wait_and_send)
    thread.start()
    assert not sent.wait(0.2)
    view.release()
    assert sent.wait(PATIENCE_S)
    thread.join()
    assert bob.recv(timeout=PATIENCE_S).data == b"second"


def test_releasing_a_view_wakes_a_sender_that_waits_for_memory(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(arena=1 << 20)
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send("bob", pattern(700_000, 1))
    view = bob.recv().view()
    with pytest.raises(busq.Full):
        alice.send("bob", pattern(700_000, 2), timeout=0)
    thread = threading.Thread(target=lambda: alice.send("bob", pattern(700_000, 2), timeout=PATIENCE_S))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    view.release()
    assert bob.recv(timeout=PATIENCE_S).data == pattern(700_000, 2)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_messages_under_way_do_not_change_while_others_come_and_go(
    make_bus: Callable[..., busq.Bus], seed: int
) -> None:
    rng = random.Random(seed)
    bus = make_bus(peers=4, capacity=64, arena=16 << 20)
    peers = [bus.join(name) for name in ("alice", "bob", "carol")]
    held: list[tuple[bytes, memoryview]] = []
    expected: dict[str, list[bytes]] = {peer.name: [] for peer in peers}
    for step in range(3000):
        sender = rng.choice(peers)
        size = rng.choice([0, 10, 100, 5000, 20_000, 200_000])
        data = pattern(size, step)
        to = rng.sample([peer.name for peer in peers], rng.randint(1, 3))
        try:
            sender.send(to, data, timeout=0)
        except busq.Full:
            pass
        else:
            for name in to:
                expected[name].append(data)
        receiver = rng.choice(peers)
        if expected[receiver.name]:
            wanted = expected[receiver.name].pop(0)
            held.append((wanted, receiver.recv(timeout=0).view()))
        while len(held) > rng.randint(0, 20):
            wanted, view = held.pop(rng.randrange(len(held)))
            assert view == wanted
            view.release()
    for wanted, view in held:
        assert view == wanted
        view.release()


def test_messages_of_one_slot_have_the_names_of_their_times(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(peers=2)
    bob = bus.join("bob")
    for name in ["x1", "x2", "x3"] * 3:
        with bus.join(name) as other:
            other.send("bob", b"hi")
        assert bob.recv().sender == name


def test_a_message_can_not_be_made_by_hand() -> None:
    done = fresh_python(
        "import busq\n"
        "try: m = busq.Message()\n"
        "except TypeError: print('refused')\n"
        "else: print(m.data, m.sender, repr(m))"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "refused\n", "")


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_message_can_not_be_pickled_or_changed(bus: busq.Bus, size: int) -> None:
    alice = bus.join("alice")
    alice.send("alice", pattern(size))
    message = alice.recv()
    with pytest.raises(TypeError):
        pickle.dumps(message)
    for name in ("data", "sender", "kind"):
        with pytest.raises(AttributeError):
            setattr(message, name, "other")


def test_a_view_may_be_released_by_another_thread(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    alice.send("alice", pattern(LARGE))
    view = alice.recv().view()
    thread = threading.Thread(target=view.release)
    thread.start()
    thread.join()
    wait_until(lambda: depth(bus, "alice") == 0)
