# SPDX-License-Identifier: Apache-2.0
"""Objects: what is sent is what arrives, and large buffers are views that live as long as they are looked at."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import gc
import os
import pickle
import random
import signal
import struct
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from calls import Picture
from conftest import PATIENCE_S, Child, depth, fresh_python, pattern

import busq
from busq._port import objects as _objects

SMALL, LARGE = 100, 100_000


@dataclasses.dataclass
class Order:
    number: int
    lines: list[tuple[str, float]]
    when: datetime.datetime | None = None


def sent_to_itself(bus: busq.Bus, obj: Any, **named: Any) -> Any:
    with bus.join("itself") as peer:
        peer.send_object("itself", obj)
        return peer.recv(timeout=0, **named).object()


@pytest.mark.parametrize("ack", [False, True])
@pytest.mark.parametrize(
    "obj",
    [
        None,
        0,
        "text",
        b"",
        bytes(LARGE),
        [1, [2, [3]]],
        {"a": (1, 2.5), "b": {1, 2}, "c": None},
        Order(5, [("x", 1.5)] * 10_000, datetime.datetime(2026, 1, 1)),
        collections.OrderedDict(a=1),
        ZeroDivisionError("text"),
        len,
    ],
    ids=lambda obj: type(obj).__name__,
)
def test_what_is_sent_is_what_arrives(bus: busq.Bus, obj: Any, ack: bool) -> None:
    found = sent_to_itself(bus, obj, ack=ack)
    assert type(found) is type(obj)
    assert found == obj or repr(found) == repr(obj)


@pytest.mark.parametrize("sizes", [[], [0], [1, 0, 2], [SMALL] * 50, [LARGE, 1, LARGE], [5000] * 20])
@pytest.mark.parametrize("ack", [False, True])
def test_buffers_come_beside_the_pickle_and_can_not_be_written(bus: busq.Bus, sizes: list[int], ack: bool) -> None:
    contents = [pattern(size, number) for number, size in enumerate(sizes)]
    found = sent_to_itself(bus, {"pictures": [Picture(content) for content in contents], "rest": "rest"}, ack=ack)
    assert found["rest"] == "rest"
    for picture, content in zip(found["pictures"], contents, strict=True):
        view = memoryview(picture.content)
        assert (bytes(view), view.readonly) == (content, True)


def test_numpy_arrays(bus: busq.Bus) -> None:
    numpy = pytest.importorskip("numpy")
    arrays = [
        numpy.arange(LARGE, dtype="f8"),
        numpy.asfortranarray(numpy.arange(20_000, dtype="i4").reshape(100, 200)),
        numpy.arange(20_000)[::2],
        numpy.zeros((3, 0, 5)),
        numpy.array(5),
        numpy.array([(1, 2.5)] * 1000, dtype=[("a", "i4"), ("b", "f8")]),
        numpy.array(["text", None], dtype=object),
        numpy.arange(3, dtype="u1"),
    ]
    found = sent_to_itself(bus, arrays)
    for mine, yours in zip(arrays, found, strict=True):
        assert (mine.dtype, mine.shape) == (yours.dtype, yours.shape)
        assert (mine == yours).all()
    for place in (0, 1, 5, 7):
        assert not found[place].flags.writeable
        assert found[place].ctypes.data % 64 == 0
        with pytest.raises(ValueError, match="read-only"):
            found[place][...] = arrays[place]
        found[place].copy()[...] = arrays[place]


def test_arrow_tables(bus: busq.Bus) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"a": list(range(50_000)), "b": [str(number) for number in range(50_000)]})
    found = sent_to_itself(bus, table)
    assert found.equals(table)
    bus.collect()
    assert bus.stats()["arena_used_bytes"] > 0, "it was copied"
    part = found.column("a").slice(40_000, 3)
    del found
    gc.collect()
    bus.collect()
    assert part.to_pylist() == [40_000, 40_001, 40_002]
    assert bus.stats()["arena_used_bytes"] > 0
    del part
    bus.collect()
    assert bus.stats()["arena_used_bytes"] == 0


# ---- lifetimes ----


def test_content_keeps_its_place_until_the_last_who_looks_is_gone(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    alice.send_object("alice", [Picture(pattern(LARGE, 1)), Picture(pattern(LARGE, 2))])
    message = alice.recv()
    first, second = message.object()
    again = message.object()
    assert again[0] is not first
    del message, again
    gc.collect()
    assert depth(bus, "alice") == 1
    part = memoryview(second.content)[10:20]
    del first, second
    assert depth(bus, "alice") == 1
    assert bytes(part) == pattern(LARGE, 2)[10:20]
    del part
    assert depth(bus, "alice") == 0


def test_an_object_without_large_buffers_frees_its_memory_with_its_message(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    alice.send_object("alice", ["text"] * LARGE)
    message = alice.recv()
    found = message.object()
    assert depth(bus, "alice") == 1
    del message
    assert depth(bus, "alice") == 0
    assert len(found) == LARGE


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_the_bytes_of_an_object(bus: busq.Bus, size: int) -> None:
    """Its data and view are what it is written as; reading them first does not take the object away."""
    alice = bus.join("alice")
    obj = Picture(pattern(size))
    written = b"".join(_objects.encode(obj))
    for read in ("data", "view", "object"):
        alice.send_object("alice", obj)
        message = alice.recv()
        assert (message.kind, message.sender) == ("data", "alice")
        if read == "data":
            assert message.data == written
        elif read == "view":
            assert message.view() == written
        assert bytes(message.object().content) == pattern(size)
        assert message.data == written
    message = None
    assert depth(bus, "alice") == 0


def test_who_releases_the_view_of_a_message_does_not_release_its_objects(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    alice.send_object("alice", Picture(pattern(LARGE)))
    message = alice.recv()
    with message.view():
        found = message.object()
    with pytest.raises(ValueError, match="was released, and its object with it"):
        message.object()
    assert bytes(found.content) == pattern(LARGE)
    assert depth(bus, "alice") == 1
    del found
    assert depth(bus, "alice") == 0


def test_content_outlives_message_peers_and_bus_in_any_order(make_bus: Callable[..., busq.Bus], seed: int) -> None:
    chance = random.Random(seed)
    for turn in range(12):
        bus = make_bus(arena=4 << 20)
        alice, bob = bus.join("alice"), bus.join("bob")
        contents = [pattern(LARGE, number) for number in range(4)]
        alice.send_object(["alice", "bob"], [Picture(content) for content in contents])
        message = bob.recv()
        pictures = message.object()
        watched = [weakref.ref(picture) for picture in pictures]
        views = [memoryview(picture.content)[5:] for picture in pictures]
        kept: dict[str, Any] = {"bus": bus, "alice": alice, "bob": bob, "message": message, "pictures": pictures}
        kept |= {str(number): view for number, view in enumerate(views)}
        busq.Bus.unlink(bus.name)
        del bus, alice, bob, message, pictures, views
        order = list(kept)
        chance.shuffle(order)
        for name in order:
            gone = kept.pop(name)
            if name in ("bus", "alice", "bob") and chance.randrange(2):
                gone.close()
            del gone
            if "alice" in kept and kept["alice"] is not None and chance.randrange(2):
                try_to_overwrite(kept["alice"])
            for number, content in enumerate(contents):
                if str(number) in kept:
                    assert bytes(kept[str(number)]) == content[5:], f"turn {turn}: {order} at {name}"
        gc.collect()
        assert [one() for one in watched] == [None] * 4


def try_to_overwrite(peer: busq.Peer) -> None:
    try:
        for _ in range(3):
            peer.send(peer.name, bytes([0xEE]) * LARGE, timeout=0)
        for _ in range(4):
            peer.recv(timeout=0)
    except (busq.Full, busq.Empty, busq.ShutDown):
        pass


def test_content_outlives_a_fork_and_what_the_parent_does_next(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice = bus.join("alice")
    alice.send_object("alice", Picture(pattern(LARGE, 1)))
    alice.send_object("alice", Picture(pattern(LARGE, 2)))
    kept: list[Any] = [alice.recv().object(), alice.recv()]
    go_reader, go = os.pipe()

    def child() -> list[Any]:
        os.read(go_reader, 1)
        told: list[Any] = [bytes(kept[0].content) == pattern(LARGE, 1)]
        try:
            told.append(kept[1].object())
        except busq.ForkedHandle:
            told.append("ForkedHandle")
        kept.clear()
        gc.collect()
        return told

    forked = fork(child)
    assert bytes(kept[1].object().content) == pattern(LARGE, 2)
    kept.clear()
    for number in range(20):
        alice.send("alice", pattern(LARGE, 9 + number))
        assert alice.recv().data == pattern(LARGE, 9 + number)
    os.write(go, b"!")
    assert forked.result() == [True, "ForkedHandle"]
    os.close(go)
    os.close(go_reader)
    assert depth(bus, "alice") == 0


def test_content_outlives_its_peer_beside_a_successor(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(arena=4 << 20)
    bob = bus.join("bob")
    alice = bus.join("alice", durable=True)
    bob.send_object("alice", Picture(pattern(LARGE, 1)))
    bob.send_object("alice", Picture(pattern(LARGE, 2)))
    bob.send_object("alice", Picture(pattern(LARGE, 3)))
    first, acked = alice.recv().object(), alice.recv(ack=True).object()
    message = alice.recv()
    third = message.object()
    alice.close()
    with pytest.raises(busq.PeerExists):  # its slot is still its own
        bus.join("alice", resume=True)
    assert bytes(first.content) == pattern(LARGE, 1)
    assert bytes(acked.content) == pattern(LARGE, 2)
    del first
    assert bytes(third.content) == pattern(LARGE, 3)
    del message, third
    with bus.join("alice", resume=True) as successor:
        assert bytes(successor.recv(timeout=0).object().content) == pattern(LARGE, 2)
        for number in range(20):
            bob.send_object("alice", Picture(pattern(LARGE, 9 + number)), timeout=0)
            assert bytes(successor.recv(timeout=0).object().content) == pattern(LARGE, 9 + number)
    assert bytes(acked.content) == pattern(LARGE, 2)


def test_what_is_not_acknowledged_comes_again(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(arena=4 << 20)
    with bus.join("alice", durable=True) as alice:
        for number in range(3):
            alice.send_object("alice", (number, Picture(pattern(LARGE, number))))
        message = alice.recv(ack=True)
        assert message.object()[0] == 0
        message.ack()
        assert message.object()[0] == 0
        kept = alice.recv(ack=True).object()
    with bus.join("alice", resume=True) as alice:
        found = alice.recv_many(9, ack=True)
        assert [(message.object()[0], message.redelivered) for message in found] == [(1, True), (2, False)]
        assert bytes(found[0].object()[1].content) == bytes(kept[1].content) == pattern(LARGE, 1)
        for message in found:
            message.ack()
    assert bytes(kept[1].content) == pattern(LARGE, 1)


def test_a_process_that_is_killed_while_it_looks_keeps_nothing(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice = bus.join("alice")
    reader, writer = os.pipe()

    def look() -> None:
        peer = busq.Bus.open(bus.name).join("bob")
        os.write(writer, b"x")
        kept = [peer.recv().object() for _ in range(3)]
        assert [bytes(one.content) for one in kept] == [pattern(LARGE, number) for number in range(3)]
        os.write(writer, b"x")
        signal.pause()

    child = fork(look)
    os.read(reader, 1)
    for number in range(3):
        alice.send_object("bob", Picture(pattern(LARGE, number)))
    assert os.read(reader, 1) == b"x"
    child.kill()
    os.close(reader)
    os.close(writer)
    bus.collect()
    with alice.reserve(1 << 20, timeout=0):
        pass


def test_threads_send_and_look_at_objects(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(arena=8 << 20)
    alice, bob = bus.join("alice"), bus.join("bob")
    n_right: list[int] = []

    def send(number: int) -> None:
        for step in range(200):
            size = (20, 3000, 5000, 60_000)[step % 4]
            alice.send_object("bob", (number, Picture(bytes([number]) * size)), timeout=PATIENCE_S)

    def look() -> None:
        for _ in range(200):
            number, picture = bob.recv(timeout=PATIENCE_S).object()
            n_right.append(bytes(picture.content) == bytes([number]) * len(picture.content))
            picture = None  # waiting for the next one while looking at this one may keep the queue full

    threads = [threading.Thread(target=send, args=(number,)) for number in range(3)]
    threads += [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert n_right == [True] * 600
    assert depth(bus, "bob") == 0


# ---- codecs ----


class Text:
    """A codec that keeps what it has made and read."""

    def __init__(self) -> None:
        self.payloads: list[memoryview] = []

    def encode(self, obj: Any) -> list[bytes]:
        return [str(obj).encode(), b"!"]

    def decode(self, payload: memoryview) -> str:
        self.payloads.append(payload)
        return str(payload[:-1], "utf-8")


@pytest.mark.parametrize("ack", [False, True])
@pytest.mark.parametrize("size", [5, LARGE])
def test_a_codec_takes_the_place_of_pickle(bus: busq.Bus, size: int, ack: bool) -> None:
    codec = Text()
    with bus.join("alice", codec=codec) as alice:
        alice.send_object("alice", 10**size // 9 if size < 9 else "x" * size)
        message = alice.recv(ack=ack)
        assert message.object() == ("11111" if size < 9 else "x" * size)
        assert message.data[-1:] == b"!"
        assert codec.payloads[0].readonly


def test_what_a_codec_looks_at_is_kept(bus: busq.Bus) -> None:
    codec = Text()
    alice = bus.join("alice", codec=codec)
    alice.send_object("alice", "x" * LARGE)
    assert len(alice.recv().object()) == LARGE
    assert depth(bus, "alice") == 1
    assert bytes(codec.payloads.pop()) == b"x" * LARGE + b"!"
    assert depth(bus, "alice") == 0


class Bomb:
    """What runs code where it is unpickled."""

    n_exploded = 0

    def __reduce__(self) -> Any:
        return explode, ()


def explode() -> None:
    Bomb.n_exploded += 1


def test_with_a_codec_nothing_is_unpickled(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob", codec=Text())
    alice.send_object(["alice", "bob"], Bomb())
    with pytest.raises(ValueError, match="pickled object, and this peer joined with a codec"):
        bob.recv().object()
    assert Bomb.n_exploded == 0
    assert alice.recv().object() is None
    assert Bomb.n_exploded == 1
    bob.send_object("alice", 5)
    with pytest.raises(ValueError, match="written by a codec"):
        alice.recv().object()


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("ack", [False, True])
def test_what_was_sent_as_bytes_is_no_object(bus: busq.Bus, size: int, ack: bool) -> None:
    """Nothing is unpickled that was not sent as an object, whatever it looks like."""
    alice, bob = bus.join("alice"), bus.join("bob", codec=Text())
    alice.send(["alice", "bob"], b"".join(_objects.encode(Picture(bytes(size)))))
    for peer in (alice, bob):
        message = peer.recv(ack=ack)
        with pytest.raises(ValueError, match="no object"):
            message.object()


@dataclasses.dataclass
class Price:
    name: str
    pence: int


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_msgspec(bus: busq.Bus, form: str) -> None:
    msgspec = pytest.importorskip("msgspec")
    with bus.join("alice", codec=busq.codec.msgspec(Price, format=form)) as alice:
        for price in (Price("A", 17), Price("B" * LARGE, 18)):
            alice.send_object("alice", price)
            assert alice.recv().object() == price
        alice.send_object("alice", {"name": 5})
        with pytest.raises(msgspec.ValidationError):
            alice.recv().object()


def test_msgspec_that_is_not_installed_is_asked_for() -> None:
    done = fresh_python(
        "import sys; sys.modules['msgspec'] = None\n"
        "import busq\n"
        "try: busq.codec.msgspec(int)\n"
        "except ImportError as error: print(error)\n"
        "try: busq.codec.msgspec(int, format='xml')\n"
        "except ValueError as error: print(error)\n"
    )
    assert done.stdout == (
        "busq.codec.msgspec needs msgspec: pip install msgspec\nformat 'xml': expected 'msgpack' or 'json'\n"
    )


# ---- what is wrong ----


@pytest.mark.parametrize("codec", [5, "json", object(), pickle])
def test_a_codec_has_encode_and_decode(bus: busq.Bus, codec: Any) -> None:
    with pytest.raises(TypeError, match="codec has type"):
        bus.join("alice", codec=codec)
    assert bus.peers() == []


def test_a_class_is_no_codec_unless_its_methods_need_no_object(bus: busq.Bus) -> None:
    class Whole:
        encode = staticmethod(pickle.dumps)
        decode = staticmethod(pickle.loads)

    with pytest.raises(TypeError, match=r"codec is the class Text: expected an object, as Text\(\)"):
        bus.join("alice", codec=Text)  # type: ignore[arg-type]
    assert bus.peers() == []
    with bus.join("alice", codec=Whole) as alice:
        alice.send_object("alice", 5)
        assert alice.recv().object() == 5


@pytest.mark.parametrize("made", ["text", None, 5, [b"good", "text"]])
def test_what_a_codec_makes_has_to_be_bytes(bus: busq.Bus, made: Any) -> None:
    codec = Text()
    codec.encode = lambda obj: made  # type: ignore[method-assign]
    with bus.join("alice", codec=codec) as alice:
        with pytest.raises(TypeError, match="what the codec has made"):
            alice.send_object("alice", 5)
        with pytest.raises(busq.Empty):
            alice.recv(timeout=0)


def test_what_can_not_be_pickled_is_not_sent(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    for obj in (lambda: 5, [1, threading.Lock()], Picture(memoryview(b"abcdef")[::2])):
        with pytest.raises((pickle.PicklingError, AttributeError, TypeError, BufferError)) as told:
            alice.send_object("alice", obj)
        assert told.value.sent == 0  # type: ignore[attr-defined]
    with pytest.raises(busq.Empty):
        alice.recv(timeout=0)


def test_errors_of_sending_are_those_of_send(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=1)
    alice = bus.join("alice")
    with pytest.raises(busq.UnknownPeer):
        alice.send_object("nobody", 5)
    with pytest.raises(ValueError, match="timeout -1"):
        alice.send_object("alice", 5, timeout=-1)
    with pytest.raises(TypeError, match="to has type int"):
        alice.send_object(5, 5)  # type: ignore[arg-type]
    alice.send_object("alice", 5)
    with pytest.raises(busq.Full):
        alice.send_object("alice", 5, timeout=0)
    alice.close()
    with pytest.raises(busq.ShutDown):
        alice.send_object("alice", 5)


def test_damage_is_told(bus: busq.Bus, seed: int) -> None:
    """Whatever stands there: an error, and no read beyond the payload."""
    chance = random.Random(seed)
    good = b"".join(_objects.encode([Picture(bytes(200)), Picture(bytes(50))]))
    head = struct.Struct("<IIQ")
    count, _, size = head.unpack_from(good)
    for bad in (
        b"",
        good[:15],
        good[:-1],
        head.pack(count + 1, 0, size) + good[16:],
        head.pack(count, 1, size) + good[16:],
        head.pack(count, 0, 1 << 63) + good[16:],
        head.pack((1 << 32) - 1, 0, size) + good[16:],
        good[:16] + struct.pack("<Q", 1 << 63) + good[24:],
    ):
        with pytest.raises(busq.CorruptSegment, match="damaged"):
            _objects.decode(memoryview(bad))
    for _ in range(2000):
        place = chance.randrange(16 + 8 * count)
        damaged = bytearray(good)
        damaged[place] ^= 1 << chance.randrange(8)
        try:
            found = _objects.decode(memoryview(bytes(damaged)))
        except (busq.CorruptSegment, pickle.UnpicklingError, EOFError, ValueError):
            continue
        assert all(isinstance(picture, Picture) for picture in found)


def test_other_orders_say_that_they_can_not(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(order="fifo", peers=2)
    with pytest.raises(ValueError, match="a codec needs order bus1"):
        bus.join("alice", codec=Text())
    with bus.join("alice") as alice:
        with pytest.raises(ValueError, match="objects need order bus1"):
            alice.send_object("alice", 5)
        alice.send("alice", b"bytes")
        with pytest.raises(ValueError, match="no object"):
            alice.recv(timeout=PATIENCE_S).object()


def test_who_sends_bytes_imports_neither_codecs_nor_numpy() -> None:
    done = fresh_python(
        "import sys; before = set(sys.modules)\n"
        "import busq, os\n"
        "bus = busq.Bus.create('plain-%d' % os.getpid())\n"
        "busq.Bus.unlink(bus.name)\n"
        "alice = bus.join('alice'); alice.send('alice', bytes(9999)); alice.recv().data\n"
        "print(sorted({'busq.codec', 'numpy'} & (set(sys.modules) - before)))\n"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
