# SPDX-License-Identifier: Apache-2.0
"""What is sent as bytes is plain memory: addresses are refused wherever a buffer is read."""

from __future__ import annotations

import array
import ctypes
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import PATIENCE_S

import busq
from busq import aio

np = pytest.importorskip("numpy")


class Pair(ctypes.Structure):
    _fields_ = (("PO", ctypes.c_int), ("X", ctypes.c_double))


class Pointing(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int), ("text", ctypes.c_char_p))


ADDRESSES: dict[str, Any] = {
    "an object array": np.array([{"a": 1}, "text"], object),
    "a view of one": memoryview(np.array([{"a": 1}, "text"], object)),
    "an object among numbers": np.zeros(3, [("number", "i4"), ("O", "O")]),
    "an object beside a date": np.zeros(3, [("day", "M8[D]"), ("thing", "O")]),
    "one object": np.array({}, object),
    "objects of ctypes": (ctypes.py_object * 2)("a", {}),
    "pointers": (ctypes.POINTER(ctypes.c_int) * 2)(),
    "texts of C": (ctypes.c_char_p * 2)(b"a", b"b"),
    "wide texts of C": (ctypes.c_wchar_p * 2)("a", "b"),
    "addresses": (ctypes.c_void_p * 2)(),
    "functions": (ctypes.CFUNCTYPE(ctypes.c_int) * 2)(),
    "a structure that points": Pointing(1, b"a"),
}
PLAIN: dict[str, Any] = {
    "numbers": np.arange(1000.0),
    "a table": np.arange(6, dtype=">i2").reshape(2, 3),
    "complex numbers": np.ones(3, complex),
    "small complex numbers": np.ones(3, "c8"),
    "truths": np.ones(5, bool),
    "halves": np.ones(5, "f2"),
    "texts": np.array(["abc", "d"]),
    "bytes": np.array([b"abc", b"d"]),
    "dates": np.array(["2026-11-26"], "M8[D]"),
    "spans": np.array([5], "m8[s]"),
    "names that look like formats": np.zeros(3, [("O", "f8"), ("P&X", "i4", (2,)), ("z", "c16")]),
    "nothing": np.zeros(0),
    "one number": np.array(5),
    "a view": memoryview(np.arange(10.0)),
    "an array": array.array("d", [1, 2]),
    "a bytearray": bytearray(b"abc"),
    "a structure": Pair(1, 2.0),
    "structures": (Pair * 3)(),
    "letters": (ctypes.c_char * 8)(),
}


class Raw:
    """A codec that writes what it is given."""

    def encode(self, obj: Any) -> Any:
        return obj

    def decode(self, payload: memoryview) -> bytes:
        return bytes(payload)


class Beside:
    """Hands something over beside its pickle."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer

    def __reduce_ex__(self, protocol: Any) -> Any:
        return bytes, (pickle.PickleBuffer(self.buffer),)


ENTRIES: dict[str, Callable[[busq.Peer, Any], Any]] = {
    "send": lambda ann, data: ann.send("bob", data),
    "send to several": lambda ann, data: ann.send(["ann", "bob"], data, timeout=1),
    "a part of a list": lambda ann, data: ann.send("bob", [b"head", data]),
    "a part of a tuple": lambda ann, data: ann.send("bob", (b"head", data)),
    "send with a handle": lambda ann, data: ann.send("bob", data, handles=[ann.node().handle]),
    "send to a node": lambda ann, data: ann.send(ann.node().handle, data),
    "send_many": lambda ann, data: ann.send_many([("bob", data)]),
    "send_many of what comes": lambda ann, data: ann.send_many(iter([("bob", [data])])),
    "ask": lambda ann, data: ann.ask("bob", data, timeout=0),
}


@pytest.fixture
def pair(bus: busq.Bus) -> tuple[busq.Peer, busq.Peer]:
    return bus.join("ann"), bus.join("bob")


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("what", ADDRESSES)
def test_addresses_are_refused(pair: tuple[busq.Peer, busq.Peer], what: str, entry: str) -> None:
    ann, bob = pair
    with pytest.raises(TypeError, match=r"addresses, which mean nothing in another process; `send_object` sends"):
        ENTRIES[entry](ann, ADDRESSES[what])
    for peer in pair:
        with pytest.raises(busq.Empty):
            peer.recv(timeout=0)
    ann.send("bob", b"goes on")
    assert bob.recv().data == b"goes on"


@pytest.mark.parametrize("what", PLAIN)
def test_plain_memory_is_sent(pair: tuple[busq.Peer, busq.Peer], what: str) -> None:
    ann, bob = pair
    data = PLAIN[what]
    expected = data.tobytes() if hasattr(data, "tobytes") else bytes(data)
    ann.send("bob", data)
    ann.send("bob", [b"head", data])
    ann.send_many([("bob", data)])
    assert [bob.recv().data for _ in range(3)] == [expected, b"head" + expected, expected]


def test_objects_that_are_sent_as_objects_arrive(pair: tuple[busq.Peer, busq.Peer]) -> None:
    ann, bob = pair
    ann.send_object("bob", ADDRESSES["an object array"])
    assert bob.recv().object().tolist() == [{"a": 1}, "text"]


OBJECTS = ADDRESSES["an object array"]


def test_addresses_beside_a_pickle_are_refused(pair: tuple[busq.Peer, busq.Peer]) -> None:
    ann, _ = pair
    with pytest.raises(TypeError, match=r"a buffer of the object .* `send_object`"):
        ann.send_object("bob", Beside(OBJECTS))


def test_a_reply_of_addresses_is_refused(bus: busq.Bus) -> None:
    """Then it can still be replied to."""
    with bus.join("ann") as ann, bus.join("bob") as bob:
        got: list[bytes] = []
        asking = threading.Thread(target=lambda: got.append(bob.ask("ann", b"?", timeout=PATIENCE_S).data))
        asking.start()
        request = ann.recv(timeout=PATIENCE_S)
        with pytest.raises(TypeError, match="send_object"):
            request.reply(OBJECTS)
        request.reply(b"an answer")
        asking.join()
        assert got == [b"an answer"]


async def test_a_coroutine_refuses_them(bus: busq.Bus) -> None:
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob"):
        for send in (ann.send("bob", OBJECTS), ann.send_many([("bob", OBJECTS)]), ann.ask("bob", OBJECTS)):
            with pytest.raises(TypeError, match="send_object"):
                await send


def test_other_orders_refuse_them(make_bus: Callable[..., busq.Bus]) -> None:
    with make_bus(order="fifo", peers=2) as bus, bus.join("ann") as ann, bus.join("bob") as bob:
        for data in (OBJECTS, [b"head", OBJECTS]):
            with pytest.raises(TypeError, match="send_object"):
                ann.send("bob", data)
        ann.send("bob", PLAIN["numbers"])
        assert bob.recv(timeout=PATIENCE_S).data == PLAIN["numbers"].tobytes()


def test_a_state_of_addresses_is_refused(bus: busq.Bus) -> None:
    with bus.join("ann") as ann, bus.join("bob") as bob:
        ann.enter("g", state=lambda: OBJECTS, take=print)
        assert ann.recv().kind == "view"
        bob.enter("g", state=bytes, take=print)
        with pytest.raises(TypeError, match=r"what `state` returned .* `send_object`"):
            ann.recv(timeout=PATIENCE_S)


def test_what_a_codec_has_made_is_looked_at(bus: busq.Bus) -> None:
    with bus.join("ann", codec=Raw()) as ann, bus.join("bob"):
        with pytest.raises(TypeError, match=r"what the codec has made .* addresses"):
            ann.send_object("bob", OBJECTS)
        with pytest.raises(TypeError, match=r"what the codec has made\[1\] .* addresses"):
            ann.send_object("bob", [b"head", OBJECTS])
