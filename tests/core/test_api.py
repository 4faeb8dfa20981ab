# SPDX-License-Identifier: Apache-2.0
"""The public interface in one process, read as a transcript."""

from __future__ import annotations

import array
import ctypes
import functools
import gc
import inspect
import math
import mmap
import os
import pickle
import queue
import resource
import stat
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S, fresh_python, shortest, unlink_quietly

import busq

# ---- names and errors ----


def test_the_public_names_are_those_of_the_design() -> None:
    errors = {
        "BusqError", "Empty", "Full", "PeerDead", "UnknownPeer", "PeerExists", "CorruptSegment", "VersionMismatch",
        "NoSpace", "ForkedHandle", "ShutDown",
    }  # fmt: skip
    assert errors | {"Bus", "Peer", "Message"} <= set(busq.__all__)
    assert all(hasattr(busq, name) for name in busq.__all__)


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (busq.Empty, [busq.BusqError, queue.Empty]),
        (busq.Full, [busq.BusqError, queue.Full]),
        (busq.UnknownPeer, [busq.BusqError, LookupError]),
        (busq.NoSpace, [busq.BusqError, OSError]),
        (busq.PeerDead, [busq.BusqError]),
        (busq.PeerExists, [busq.BusqError]),
        (busq.CorruptSegment, [busq.BusqError]),
        (busq.VersionMismatch, [busq.BusqError]),
        (busq.ForkedHandle, [busq.BusqError]),
        (busq.ShutDown, [busq.BusqError]),
        (busq.BusqError, [Exception]),
    ],
)
def test_errors_are_also_what_the_standard_library_calls_them(error: type, bases: list[type]) -> None:
    assert all(issubclass(error, base) for base in bases)


LIBRARY = {f"busq._port.{name}" for name in ("arguments", "directory", "payload")}
LIBRARY |= {"busq", "busq._port", "busq._native", "busq.bus", "busq.errors", "busq.peer"}


def test_importing_busq_loads_the_library_alone_and_little_of_python() -> None:
    """Below 0.2 s and 15 MB: the modules are counted, since the clock shows something else every time."""
    code = "import sys; before = set(sys.modules); import busq; print(*sorted(set(sys.modules) - before))"
    loaded = set(fresh_python(code).stdout.split())
    assert {name for name in loaded if name.startswith("busq") and not name.startswith("busq._native.")} == LIBRARY
    heavy = {"inspect", "ast", "dataclasses", "asyncio", "multiprocessing", "subprocess", "json", "importlib.metadata"}
    assert not loaded & (heavy | {"numpy", "pyarrow", "matplotlib", "rich", "click"})
    assert len(loaded) < 60


WITHOUT_CFFI = {
    "peers": "alice.send(['alice', 'bob'], [b'to ', b'both']); bob.recv(); alice.recv_many(5)",
    "objects": "alice.send_object('bob', {'price': 17}); bob.recv().object()",
    "drafts": "draft = alice.reserve(9); draft.buffer[:] = bytes(9); draft.send('bob'); bob.recv().view()",
    "nodes": """
node = bob.node(); bob.send('alice', b'', handles=[node.handle])
alice.send(alice.recv().handles[0], b'')""",
    "groups": "alice.enter('g'); alice.recv().view; alice.send('@g', b''); alice.watch('bob'); bus.groups()",
    "states": "alice.enter('g', state=bytes, take=bytes.decode); alice.recv()",
    "requests": """
import threading
server = threading.Thread(target=lambda: bob.recv().reply(b''))
server.start(); alice.ask('bob', b''); server.join()""",
    "readers": """
jobs = bus.join('jobs', shared=True)
alice.send('jobs', b''); bus.collect(); bus.repair(); bus.stats()""",
    "errors": """
for call in (lambda: alice.send('nobody', b''), lambda: alice.send(5, b''), lambda: alice.recv(0)):
    try: call()
    except (busq.BusqError, TypeError): pass""",
    "queues": "queue = busq.Queue(); queue.put('x'); queue.get(); busq.put_all([queue], 'y'); queue.qsize()",
    "replicas": """
from busq.replica import Counter
with Counter.join(bus, 'counter') as counter: counter.add(1); counter.sync()""",
    "an event loop": """
import asyncio
async def main():
    async with busq.aio.join(bus, 'carol') as carol:
        await carol.send('carol', b'1'); await carol.recv()
asyncio.run(main())""",
}


@pytest.mark.parametrize("feature", WITHOUT_CFFI)
def test_a_bus_of_order_bus1_needs_no_cffi(feature: str) -> None:
    code = f"""
import os, sys, busq
name = f"without-cffi-{{os.getpid()}}"
with busq.Bus.create(name, temporary=True) as bus, bus.join("alice") as alice, bus.join("bob") as bob:
{textwrap.indent(WITHOUT_CFFI[feature], "    ")}
print([name for name in sys.modules if "cffi" in name or name == "busq._native._busq"])
"""
    done = fresh_python(code)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# ---- sending and receiving ----


def test_a_message_arrives_once_with_its_sender(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    assert alice.send("bob", b"hello") is None
    message = bob.recv()
    assert (message.data, message.sender, message.kind) == (b"hello", "alice", "data")
    with pytest.raises(busq.Empty):
        bob.recv(timeout=0)


def test_a_multicast_reaches_every_receiver_and_nobody_else(bus: busq.Bus) -> None:
    alice, bob, carol, dan = (bus.join(name) for name in ["alice", "bob", "carol", "dan"])
    alice.send(["bob", "carol"], b"for two")
    assert bob.recv().data == carol.recv().data == b"for two"
    for nobody in (alice, bob, carol, dan):
        with pytest.raises(busq.Empty):
            nobody.recv(timeout=0)


def test_common_messages_come_in_the_same_order_at_both(bus: busq.Bus) -> None:
    alice, bob, carol, dan = (bus.join(name) for name in ["alice", "bob", "carol", "dan"])
    for number in range(15):
        alice.send(["carol", "dan"], b"a%d" % number)
        bob.send(["dan", "carol"], b"b%d" % number)
        bob.send("carol", b"for carol alone")
    at_carol = [m.data for m in carol.recv_many(100)]
    at_dan = [m.data for m in dan.recv_many(100)]
    assert len(at_dan) == 30
    assert [data for data in at_carol if data != b"for carol alone"] == at_dan


def test_a_peer_may_send_to_itself(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send("alice", b"note")
    alice.send(["bob", "alice"], b"both")
    assert [m.data for m in alice.recv_many(9)] == [b"note", b"both"]
    assert bob.recv().sender == "alice"


@pytest.mark.parametrize("kind", [list, tuple, set, dict.fromkeys, iter, lambda names: (name for name in names)])
def test_receivers_are_any_iterable_of_names(bus: busq.Bus, kind: Callable[[list[str]], object]) -> None:
    alice, bob, carol = (bus.join(name) for name in ["alice", "bob", "carol"])
    alice.send(kind(["bob", "carol"]), b"hello")
    alice.send(kind(["bob", "carol"]), b"again")
    assert [m.data for m in bob.recv_many(9)] == [m.data for m in carol.recv_many(9)] == [b"hello", b"again"]


def test_names_are_any_text(bus: busq.Bus) -> None:
    names = ["é", "名前", "a b", "\n", "x" * 255, "🚌" * 63, "-", ".", "a@b"]
    peers = []
    for name in names:
        with bus.join(name) as peer:
            peer.send(name, b"to myself")
            assert peer.recv().sender == name
            assert bus.peers() == [name]
            peers.append(peer)
    assert [peer.name for peer in peers] == names


# ---- what can be sent ----


class Block(ctypes.Structure):
    _fields_ = [("a", ctypes.c_uint16), ("b", ctypes.c_uint16)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", b""),
        (b"bytes", b"bytes"),
        (bytearray(b"bytearray"), b"bytearray"),
        (memoryview(b"a view")[2:], b"view"),
        (array.array("H", [0x4141, 0x4242]), b"AABB"),
        (Block(0x4141, 0x4242), b"AABB"),
        (memoryview(bytes(range(12))).cast("B", (3, 4)), bytes(range(12))),
        (memoryview(b""), b""),
        (b"\0" * 5, b"\0" * 5),
    ],
    ids=["empty", "bytes", "bytearray", "memoryview", "array", "ctypes", "two-dimensional", "empty-view", "zeros"],
)
def test_data_is_anything_bytes_like(bus: busq.Bus, data: object, expected: bytes) -> None:
    alice = bus.join("alice")
    alice.send("alice", data)
    assert alice.send_many([("alice", data), ("alice", data)]) == 2
    assert [m.data for m in alice.recv_many(9)] == [expected] * 3


def test_data_may_be_a_mapped_file(bus: busq.Bus, tmp_path: Path) -> None:
    alice = bus.join("alice")
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10_000)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        alice.send("alice", mapped)
    assert alice.recv().data == b"x" * 10_000


def test_a_message_is_a_copy_and_the_buffer_is_free_afterwards(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    buffer = bytearray(b"before")
    alice.send("alice", buffer)
    buffer[:] = b"after!"
    buffer.extend(b" and longer")  # raises BufferError if anything still held on to it
    assert alice.recv().data == b"before"


@pytest.mark.parametrize(
    "size", [0, 1, 23, 24, 25, 63, 64, 65, 511, 512, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20]
)
def test_every_size_arrives_whole(make_bus: Callable[..., busq.Bus], size: int) -> None:
    bus = make_bus(arena=4 << 20)
    alice, bob = bus.join("alice"), bus.join("bob")
    data = bytes(i * 7 & 0xFF for i in range(256)) * (size // 256 + 1)
    alice.send(["alice", "bob"], data[:size])
    alice.send("bob", data[:size])
    assert alice.recv().data == bob.recv().data == bob.recv().data == data[:size]


def test_a_message_as_large_as_the_arena(make_bus: Callable[..., busq.Bus]) -> None:
    arena = 1 << 20
    bus = make_bus(arena=arena)
    alice, bob = bus.join("alice"), bus.join("bob")
    for _ in range(3):  # its memory is given back each time
        alice.send(["alice", "bob"], b"m" * arena, timeout=0)
        assert alice.recv().data == bob.recv().data == b"m" * arena


# ---- time ----


def test_timeout_0_answers_at_once(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=1)
    alice = bus.join("alice")
    slept_before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw  # each sleep is a voluntary context switch
    for _ in range(100):
        with pytest.raises(busq.Empty):
            alice.recv(timeout=0)
        with pytest.raises(busq.Empty):
            alice.recv_many(5, timeout=0)
    alice.send("alice", b"fills the queue")
    for _ in range(100):
        with pytest.raises(busq.Full):
            alice.send("alice", b"", timeout=0)
        with pytest.raises(busq.Full):
            alice.send_many([("alice", b"")], timeout=0)
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - slept_before < 100


@pytest.mark.parametrize("timeout", [0.01, 0.3])
def test_a_timeout_is_waited_for_and_not_much_longer(make_bus: Callable[..., busq.Bus], timeout: float) -> None:
    bus = make_bus(capacity=1)
    alice, bob = bus.join("alice"), bus.join("bob")
    bob.send("bob", b"fills the queue")
    tries: list[tuple[type[Exception], Callable[[], object]]] = [
        (busq.Empty, lambda: alice.recv(timeout=timeout)),
        (busq.Empty, lambda: alice.recv(timeout)),
        (busq.Empty, lambda: alice.recv_many(3, timeout=timeout)),
        (busq.Full, lambda: alice.send("bob", b"", timeout=timeout)),
        (busq.Full, lambda: alice.send(["alice", "bob"], b"", timeout=timeout)),
        (busq.Full, lambda: alice.send_many([("bob", b""), ("bob", b"")], timeout=timeout)),
    ]

    def waited(error: type[Exception], call: Callable[[], object]) -> float:
        begin = time.monotonic()
        with pytest.raises(error):
            call()
        took = time.monotonic() - begin
        assert timeout <= took
        return took

    for error, call in tries:
        assert shortest(functools.partial(waited, error, call), timeout + 0.25) < timeout + 0.25


def test_a_timeout_may_be_a_whole_number_or_endless(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    for timeout in (None, 1, 2.5, True, float("inf"), 1e300):
        alice.send("alice", b"", timeout=timeout)
        assert alice.recv(timeout=timeout).data == b""


# ---- several at once ----


def test_recv_many_takes_what_is_there_up_to_the_limit(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    alice.send_many([("alice", b"%d" % n) for n in range(10)])
    assert [m.data for m in alice.recv_many(3)] == [b"0", b"1", b"2"]
    assert [m.data for m in alice.recv_many(1, timeout=0)] == [b"3"]
    assert alice.recv().data == b"4"
    # It waits for the first message only: for a 100th one it would wait for ever.
    assert [m.data for m in alice.recv_many(100)] == [b"5", b"6", b"7", b"8", b"9"]


def test_recv_many_takes_thousands(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=5000)
    alice = bus.join("alice")
    assert alice.send_many([("alice", b"%d" % n) for n in range(5000)]) == 5000
    got: list[bytes] = []
    while len(got) < 5000:
        batch = alice.recv_many(1 << 40, timeout=0)
        assert batch
        got += [m.data for m in batch]
    assert got == [b"%d" % n for n in range(5000)]


def test_send_many_keeps_the_order_and_mixes_receivers(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    sent = alice.send_many([("bob", b"1"), (["alice", "bob"], b"2"), (("alice",), bytearray(b"3")), ("bob", b"4")])
    assert sent == 4
    assert [m.data for m in bob.recv_many(9)] == [b"1", b"2", b"4"]
    assert [m.data for m in alice.recv_many(9)] == [b"2", b"3"]


def test_send_many_takes_any_iterable(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    assert alice.send_many([]) == 0
    assert alice.send_many(iter([])) == 0
    assert alice.send_many(("alice", b"%d" % n) for n in range(3)) == 3
    assert alice.send_many((("alice", b"3"), ("alice", b"4"))) == 2
    assert [m.data for m in alice.recv_many(9)] == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_send_many_says_how_many_were_sent_before_a_queue_was_full(
    make_bus: Callable[..., busq.Bus], kind: Callable[..., Any]
) -> None:
    bus = make_bus(capacity=4)
    alice = bus.join("alice")
    messages = [("alice", b"%d" % n) for n in range(10)]
    for timeout, expected in ((0, 4), (0, 0), (0.05, 0)):
        with pytest.raises(busq.Full) as caught:
            alice.send_many(kind(messages), timeout=timeout)
        assert caught.value.sent == expected
    assert [m.data for m in alice.recv_many(9)] == [b"0", b"1", b"2", b"3"]
    with pytest.raises(busq.Full) as caught:
        alice.send_many(kind(messages[4:]), timeout=0.05)
    assert caught.value.sent == 4


class BadHash(str):
    """A name that can't be looked up."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise ZeroDivisionError


@pytest.mark.parametrize("kind", [list, tuple, iter])
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (("nobody", b"bad"), busq.UnknownPeer),
        (("gone", b"bad"), busq.PeerDead),
        ((["alice", "alice"], b"bad"), ValueError),
        (("alice", "text"), TypeError),
        ((5, b"bad"), TypeError),
        (("alice",), ValueError),
        (5, TypeError),
        ((BadHash("alice"), b"bad"), ZeroDivisionError),
        (([BadHash("alice")], b"bad"), ZeroDivisionError),
    ],
    ids=lambda value: repr(value)[:30],
)
@pytest.mark.parametrize("before", [0, 1, 2])
def test_send_many_stops_before_the_first_that_is_wrong(
    bus: busq.Bus, kind: Callable[..., Any], before: int, bad: Any, error: type[Exception]
) -> None:
    alice = bus.join("alice")
    bus.join("gone").close()
    alice.send("alice", b"from now on its name is known")
    good = ("alice", b"good")
    with pytest.raises(error) as caught:
        alice.send_many(kind([good] * before + [bad, good]))
    assert caught.value.sent == before  # type: ignore[attr-defined]
    assert len(alice.recv_many(9)) == 1 + before


class Closed(Exception):
    """Takes no attributes."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"nobody may set {name}")


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit, busq.Empty, Closed])
def test_send_many_says_how_many_were_sent_before_its_iterable_failed(
    bus: busq.Bus, error: type[BaseException]
) -> None:
    alice = bus.join("alice")

    def messages() -> Iterator[tuple[str, bytes]]:
        yield "alice", b"1"
        yield "alice", b"2"
        raise error("no more")

    with pytest.raises(error, match="no more") as caught:
        alice.send_many(messages())
    assert getattr(caught.value, "sent", None) == (None if error is Closed else 2)
    assert len(alice.recv_many(9)) == 2


def test_send_many_says_that_nothing_was_sent_where_its_arguments_are_wrong(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    for messages, timeout in ((5, None), (None, 0), ([("alice", b"")], -1), ([], math.nan)):
        with pytest.raises((TypeError, ValueError)) as caught:
            alice.send_many(messages, timeout=timeout)  # type: ignore[arg-type]
        assert caught.value.sent == 0  # type: ignore[union-attr]
    with pytest.raises(busq.Empty):
        alice.recv(timeout=0)


# ---- the end ----


def test_iteration_ends_when_the_bus_is_shut_down_and_the_queue_is_empty(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    for number in range(3):
        alice.send("bob", b"%d" % number)
    bus.shutdown()
    assert [message.data for message in bob] == [b"0", b"1", b"2"]
    assert list(bob) == []


def test_after_shutdown_nothing_is_sent_and_what_was_sent_is_received(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send(["alice", "bob"], b"last")
    bus.shutdown()
    bus.shutdown()
    assert bus.stats()["shut_down"] is True
    for send in (
        lambda: alice.send("bob", b"late"),
        lambda: alice.send(["alice", "bob"], b"late", timeout=0),
        lambda: alice.send_many([("bob", b"late")]),
        lambda: bus.join("carol"),
    ):
        with pytest.raises(busq.ShutDown):
            send()
    assert bob.recv().data == b"last"
    assert alice.recv_many(5)[0].data == b"last"
    for receive in (
        lambda: bob.recv(),
        lambda: bob.recv(timeout=0),
        lambda: bob.recv(timeout=PATIENCE_S),
        lambda: bob.recv_many(5),
    ):
        with pytest.raises(busq.ShutDown):
            receive()


def test_a_closed_peer_is_gone_and_says_so(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    bob.send("alice", b"was on its way when bob left")
    alice.send("bob", b"never received")
    bob.close()
    bob.close()
    for call in (
        lambda: bob.recv(),
        lambda: bob.recv(timeout=0),
        lambda: bob.recv_many(3),
        lambda: bob.send("alice", b""),
        lambda: bob.send_many([("alice", b"")]),
        lambda: bob.fileno(),
    ):
        with pytest.raises(busq.ShutDown, match="closed"):
            call()
    assert list(bob) == []
    for to in ("bob", ["alice", "bob"]):
        with pytest.raises(busq.PeerDead):
            alice.send(to, b"")
    assert bus.peers() == ["alice"]
    assert [(m.data, m.sender) for m in alice.recv_many(9)] == [(b"was on its way when bob left", "bob")]


def test_everything_is_a_context_manager(bus_name: str) -> None:
    with busq.Bus.create(bus_name) as bus, bus.join("alice") as alice:
        assert bus.name == bus_name
        assert alice.bus is bus
        alice.send("alice", b"inside")
        assert alice.recv().data == b"inside"
    with pytest.raises(busq.ShutDown):
        alice.recv(timeout=0)
    with pytest.raises(busq.ShutDown):
        bus.join("bob")
    with pytest.raises(ZeroDivisionError), busq.Bus.open(bus_name) as bus, bus.join("alice"):
        raise ZeroDivisionError
    assert busq.Bus.open(bus_name).peers() == []


def test_peers_go_on_after_their_bus_handle_is_closed(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    bus.close()
    bus.close()
    alice.send("alice", b"still here")
    assert alice.recv().data == b"still here"
    for call in (bus.stats, bus.peers, bus.shutdown, lambda: bus.join("bob")):
        with pytest.raises(busq.ShutDown, match="closed"):
            call()


def test_a_removed_bus_serves_those_who_use_it(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    busq.Bus.unlink(bus.name)
    bob = bus.join("bob")
    alice.send("bob", b"still here")
    assert bob.recv().data == b"still here"
    with pytest.raises(FileNotFoundError):
        busq.Bus.open(bus.name)
    with pytest.raises(FileNotFoundError):
        busq.Bus.unlink(bus.name)
    with busq.Bus.create(bus.name, peers=2) as other:
        assert other.peers() == []
        with other.join("alice") as namesake, pytest.raises(busq.UnknownPeer):
            namesake.send("bob", b"")


# ---- making and finding ----


def test_create_open_and_exist_ok(bus_name: str) -> None:
    with pytest.raises(FileNotFoundError):
        busq.Bus.open(bus_name)
    first = busq.Bus.create(bus_name, peers=3, capacity=7, arena=100_000)
    with pytest.raises(FileExistsError):
        busq.Bus.create(bus_name)
    alice = first.join("alice")
    second = busq.Bus.create(bus_name, exist_ok=True)
    third = busq.Bus.open(bus_name)
    assert second.peers() == third.peers() == ["alice"]
    assert (third.stats()["peer_slots"], third.stats()["capacity"]) == (3, 7)
    bob = third.join("bob")
    bob.send("alice", b"by another handle")
    assert alice.recv().data == b"by another handle"


THERE = {"order": "lamport:ack=all", "peers": 3, "capacity": 7, "arena": 100_001, "permissions": 0o660}


@pytest.fixture
def bus_there(make_bus: Callable[..., busq.Bus]) -> busq.Bus:
    return make_bus(**THERE)


@pytest.mark.parametrize("asked", [{}, THERE, *({key: value} for key, value in THERE.items())], ids=str)
def test_exist_ok_opens_what_has_all_that_was_asked_for(bus_there: busq.Bus, asked: dict[str, Any]) -> None:
    with busq.Bus.create(bus_there.name, **asked, exist_ok=True) as found:
        assert found.order == THERE["order"]
        assert found.stats() == bus_there.stats()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"order": "bus1"}, ["order='lamport:ack=all'", "order='bus1'"]),
        ({"order": "lamport"}, ["order='lamport:ack=all'", "order='lamport'"]),
        ({"peers": 64}, ["peers=3", "peers=64"]),
        ({"capacity": 8}, ["capacity=7", "capacity=8"]),
        ({"arena": 100_000}, ["arena=100001", "arena=100000"]),
        ({"permissions": 0o600}, ["permissions=0o660", "permissions=0o600"]),
        ({"peers": 4, "capacity": 7, "arena": 1 << 20}, ["peers=3, arena=100001", "peers=4, arena=1048576"]),
    ],
    ids=str,
)
def test_exist_ok_refuses_another_bus_than_was_asked_for_and_names_both(
    bus_there: busq.Bus, asked: dict[str, Any], words: list[str]
) -> None:
    """Also where what was asked for is the default: it was asked for."""
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError) as caught:
        busq.Bus.create(bus_there.name, **asked, exist_ok=True)
    there, _, wanted = str(caught.value).partition(", and ")
    assert words[0] in there
    assert words[1] in wanted
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_the_signature_of_create_tells_its_defaults() -> None:
    defaults = {name: found.default for name, found in inspect.signature(busq.Bus.create).parameters.items()}
    del defaults["name"]
    assert {name: repr(value) for name, value in defaults.items()} == {
        "order": "'bus1'",
        "peers": "64",
        "capacity": "1024",
        "arena": "16777216",
        "permissions": "384",
        "groups": "32",
        "nodes": "None",
        "temporary": "False",
        "reserve": "True",
        "exist_ok": "False",
    }


def test_the_file_belongs_to_its_user_unless_opened_to_a_group(
    make_bus: Callable[..., busq.Bus], bus_directory: Path
) -> None:
    for permissions in (0o600, 0o660):
        path = bus_directory / make_bus(permissions=permissions).name
        found = path.lstat()
        assert stat.S_ISREG(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == permissions
    assert stat.S_IMODE(bus_directory.lstat().st_mode) == 0o700


def test_the_memory_is_reserved_at_creation(make_bus: Callable[..., busq.Bus], bus_directory: Path) -> None:
    bus = make_bus(arena=3 << 20, capacity=1000, peers=16)
    file = (bus_directory / bus.name).stat()
    assert file.st_size == bus.stats()["segment_bytes"] > 3 << 20
    for_replies = 4 * 4096  # of each peer, when it first asks: 16 bytes for each message of its queue
    assert file.st_blocks * 512 >= file.st_size - 16 * for_replies
    with bus.join("alice") as alice, bus.join("bob"), pytest.raises(busq.Empty):
        alice.ask("bob", b"", timeout=0)
    assert (bus_directory / bus.name).stat().st_blocks >= file.st_blocks + for_replies // 512


def test_a_name_belongs_to_one_live_peer(bus: busq.Bus) -> None:
    with bus.join("alice"):
        with pytest.raises(busq.PeerExists, match="alice"):
            bus.join("alice")
        with pytest.raises(busq.PeerExists), busq.Bus.open(bus.name) as again:
            again.join("alice")
        assert bus.peers() == ["alice"]
    with bus.join("bob") as bob, bus.join("alice") as alice:
        bob.send("alice", b"to the second of that name")
        assert alice.recv().data == b"to the second of that name"


def test_a_sender_finds_the_new_peer_of_an_old_name(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    for number in range(20):
        with bus.join("bob") as bob:
            alice.send("bob", b"%d" % number)
            alice.send(["alice", "bob"], b"%d" % number)
            assert [m.data for m in bob.recv_many(9)] == [b"%d" % number] * 2
    assert len(alice.recv_many(99)) == 20


def test_a_remembered_name_and_a_new_one_may_have_the_same_slot(bus: busq.Bus) -> None:
    alice, first = bus.join("alice"), bus.join("x")
    alice.send("x", b"alice remembers where x is")
    first.close()
    y, x = bus.join("y"), bus.join("x")  # y gets the place that x had
    alice.send(["x", "y"], b"hello")
    assert x.recv(timeout=0).data == y.recv(timeout=0).data == b"hello"
    x.close()
    y.close()
    z = bus.join("z")
    for to in (["x", "z"], ["y", "z"], ["x", "y"]):
        with pytest.raises((busq.PeerDead, busq.UnknownPeer)):
            alice.send(to, b"too late")
    with pytest.raises(busq.Empty):
        z.recv(timeout=0)


def test_when_all_slots_are_taken_joining_is_no_space(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(peers=2)
    alice, bob = bus.join("alice"), bus.join("bob")
    with pytest.raises(busq.NoSpace, match="2 peer slots"):
        bus.join("carol")
    bob.send("alice", b"on its way")
    bob.close()
    with pytest.raises(busq.NoSpace):  # bob's message is still on its way, in bob's memory
        bus.join("carol")
    assert alice.recv().sender == "bob"
    with bus.join("carol") as carol:
        carol.send("alice", b"")
        assert alice.recv().sender == "carol"


# ---- looking at it ----


def test_stats_count_what_happens(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(peers=4, capacity=16, arena=1 << 20)
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send(["alice", "bob"], b"x")
    alice.send("bob", b"x")
    bob.recv()
    stats = bus.stats()
    assert (stats["name"], stats["order"], stats["shut_down"]) == (bus.name, "bus1", False)
    assert (stats["capacity"], stats["peer_slots"], stats["arena_bytes"]) == (16, 4, 1 << 20)
    assert 0 < stats["arena_used_bytes"] < stats["segment_bytes"]
    assert abs(stats["created_s"] - time.time()) < PATIENCE_S
    counted = {p["name"]: (p["sent"], p["received"], p["depth"], p["late"], p["alive"]) for p in stats["peers"]}
    assert counted == {"alice": (2, 0, 1, 0, True), "bob": (0, 1, 1, 0, True)}
    bob.close()
    assert bus.peers() == ["alice"]
    assert [p["alive"] for p in bus.stats()["peers"]] == [True, False]


def test_repr_names_what_it_is(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    alice.send("alice", b"12345")
    alice.send("alice", b"x" * 100_000)
    assert repr(bus) == f"<Bus {bus.name!r}>"
    assert repr(alice) == f"<Peer 'alice' of bus {bus.name!r}>"
    assert repr(alice.recv()) == "<Message of 5 bytes from 'alice'>"
    large = alice.recv()
    assert repr(large) == "<Message of 100000 bytes from 'alice'>"
    with large.view():
        assert "100000" in repr(large)


def test_a_bus_can_be_pickled_and_opens_the_same_bus_elsewhere(bus: busq.Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = bus.join("alice")
    pickled = pickle.dumps(bus)
    monkeypatch.setenv("BUSQ_DIR", "/somewhere/else")  # the directory is part of what is pickled
    with pickle.loads(pickled) as again, again.join("bob") as bob:
        assert (again.name, again.peers()) == (bus.name, ["alice", "bob"])
        bob.send("alice", b"by a handle that was pickled")
        assert alice.recv(timeout=0).data == b"by a handle that was pickled"
        assert pickle.loads(pickle.dumps(again)).peers() == ["alice", "bob"]
    bus.close()
    with pytest.raises(busq.ShutDown, match="closed"):
        pickle.dumps(bus)


def test_a_pickled_bus_is_not_mistaken_for_another_of_its_name(bus: busq.Bus) -> None:
    pickled = pickle.dumps(bus)
    busq.Bus.unlink(bus.name)
    with pytest.raises(FileNotFoundError, match=bus.name):
        pickle.loads(pickled)
    with busq.Bus.create(bus.name, peers=2), pytest.raises(FileNotFoundError, match="is another"):
        pickle.loads(pickled)


def test_peers_and_messages_can_not_be_pickled_and_say_what_to_do(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    alice.send("alice", b"")
    with pytest.raises(TypeError, match="open the bus in the other process and join"):
        pickle.dumps(alice)
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(alice.recv())


@pytest.mark.parametrize("error", [busq.Empty("e"), busq.UnknownPeer("u"), busq.NoSpace(28, "n"), busq.ShutDown("s")])
def test_errors_can_be_pickled(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args) == (type(error), error.args)


def test_without_busq_dir_buses_lie_in_a_private_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from busq._port.directory import default_directory

    monkeypatch.delenv("BUSQ_DIR")
    stranger = 4_000_000_000 + os.getpid()  # a user that does not exist
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    path = Path(f"/dev/shm/busq-{stranger}")
    try:
        assert default_directory() == str(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        with pytest.raises(PermissionError, match="owner"):  # there it is, but it is not that user's
            default_directory()
    finally:
        path.rmdir()


def test_bus_names_lists_the_directory(make_bus: Callable[..., busq.Bus]) -> None:
    from busq.bus import bus_names

    buses = [make_bus(), make_bus()]
    with buses[0].join("watched") as watched:
        watched.fileno()  # makes a FIFO, which is not a bus
        assert set(bus_names()) >= {bus.name for bus in buses}
        assert all(not name.startswith(".") for name in bus_names())
    unlink_quietly(buses[0].name)
    assert buses[0].name not in bus_names()
