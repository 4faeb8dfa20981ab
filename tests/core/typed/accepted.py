# SPDX-License-Identifier: Apache-2.0
# pyright: strict
"""What type checkers let pass, and what they take it for.  Read by them, never run."""

from __future__ import annotations

import array
import ctypes
import mmap
from collections.abc import Callable, Iterator
from typing import Any

from typing_extensions import assert_type

import busq
import busq.lab.check
from busq.check import Counterexample
from busq.examples import chat
from busq.ordered import OrderedMessage, OrderedPeer
from busq.replica import Dict, Lock
from busq.sim import Config, run
from busq.spark import runs
from busq.spark.follow import Followed
from busq.spec import PROPERTIES, History

bus = busq.Bus.create("typed", order="bus1", peers=3, capacity=8, arena=1 << 20, permissions=0o600, exist_ok=True)
assert_type(bus, busq.Bus)
assert_type(busq.Bus.create("typed", temporary=True), busq.Bus)
assert_type(bus.peers(), list[str])
assert_type(bus.repair().buried, int)
with busq.Bus.open("typed") as opened:
    assert_type(opened, busq.Bus)

peer = bus.join("alice", resume=True, durable=True)
jobs = bus.join("jobs", shared=True, resume=True, durable=True)
assert_type(peer, busq.Peer)
assert_type(peer.bus, busq.Bus)
assert_type(peer.name, str)
assert_type(peer.fileno(), int)
with bus.join("bob") as entered:
    assert_type(entered, busq.Peer)


def names() -> Iterator[str]:
    yield "alice"


peer.send("bob", b"bytes")
peer.send("bob", b"bytes", timeout=None)
peer.send("bob", b"bytes", timeout=0)
peer.send("bob", b"bytes", timeout=1.5)
peer.send(["alice", "bob"], bytearray(b"bytes"))
peer.send(("alice", "bob"), memoryview(b"bytes"))
peer.send({"alice", "bob"}, array.array("H", [1, 2]))
peer.send({"alice": 1}, mmap.mmap(-1, 4096))
peer.send(names(), (ctypes.c_char * 8)())

peer.enter("workers", timeout=1)
peer.leave("workers")
peer.watch("bob")
peer.unwatch("bob", timeout=None)
bus.join("carol", watch=["bob"])
assert_type(peer.view("workers"), busq.View)
assert_type(peer.view("workers").members, tuple[str, ...])
assert_type(bus.groups(), dict[str, busq.View])
event = peer.recv()
if isinstance(event, busq.ViewMessage):
    assert_type(event.view, busq.View)
    assert_type(event.group, str)

assert_type(peer.send_many([("bob", b"1"), (["alice", "bob"], bytearray(b"2"))], timeout=1), int)
peer.send_many((name, b"") for name in names())
pairs = [("bob", b"1"), ("alice", b"2")]
peer.send_many(pairs)

peer.send_object("bob", {"any": object()})
peer.send_object(["alice", "bob"], None, timeout=1.5)
assert_type(peer.recv().object(), Any)
with peer.reserve(100, receivers=3, timeout=0.5) as draft:
    assert_type(draft, busq.Draft)
    assert_type(draft.buffer, memoryview)
    draft.send("bob")
    draft.send(["alice", "bob"], size=50, timeout=None)


class Text:
    def encode(self, obj: Any) -> bytes:
        return str(obj).encode()

    def decode(self, payload: memoryview) -> str:
        return str(payload, "utf-8")


bus.join("carol", codec=Text())
bus.join("carol", codec=None)
assert_type(busq.codec.msgspec(dict[str, int], format="json"), busq.codec.Codec)
bus.join("carol", codec=busq.codec.msgspec(int))
assert_type(peer.ask("bob", b"bytes"), busq.Message)
assert_type(peer.ask("bob", [b"bytes", bytearray(b"more")], timeout=1.5), busq.Message)
bus.wait_for("bob")
bus.wait_for(names(), timeout=0)
bus.wait_for(["alice", "bob"], 1.5)

assert_type(peer.recv(), busq.Message)
assert_type(peer.recv(0.5), busq.Message)
assert_type(peer.recv(timeout=None, ack=True), busq.Message)
assert_type(peer.recv_many(10), list[busq.Message])
assert_type(peer.recv_many(10, 0.5, ack=True), list[busq.Message])
for message in peer:
    assert_type(message, busq.Message)
    assert_type(message.data, bytes)
    assert_type(message.sender, str)
    assert_type(message.kind, str)
    assert_type(message.redelivered, bool)
    assert_type(message.view(), memoryview)
    with message.view() as view:
        assert_type(view, memoryview)
    message.ack()
    message.reply(b"bytes")
    message.reply((b"bytes", memoryview(b"more")), timeout=None)


numbers: busq.Queue[int] = busq.Queue()
numbers.put(1, block=True, timeout=0.5)
assert_type(numbers.get(), int)
assert_type(numbers.get_nowait(), int)
numbers.put(1)
numbers.put(1, False)
numbers.put_nowait(1)
assert_type(numbers.get(False), int)
assert_type(numbers.get(True, 1.5), int)
assert_type(numbers.qsize(), int)
assert_type(numbers.empty(), bool)
numbers.close()
numbers.join_thread()
numbers.cancel_join_thread()
assert_type(numbers.full(), bool)
texts: busq.JoinableQueue[str] = busq.JoinableQueue(10, bus=bus)
assert_type(texts.get(timeout=1), str)
texts.task_done()
texts.join()
simple: busq.SimpleQueue[bytes] = busq.SimpleQueue(bus=bus)
simple.put(b"bytes")
assert_type(simple.get(), bytes)
simple.close()
assert_type(simple.empty(), bool)
busq.put_all([numbers, texts, simple], "anything", timeout=1.5)
busq.put_all((texts,), "anything", False)


def describe(thing: object) -> str:
    if isinstance(thing, OrderedPeer):
        assert_type(thing.recv(), OrderedMessage)
        return thing.name
    if isinstance(thing, busq.Peer):
        return thing.name
    return thing.sender if isinstance(thing, busq.Message) else ""


def drain(receive: Callable[[float], busq.Message], send: Callable[[str, bytes], None]) -> None:
    try:
        send("bob", receive(0).data)
    except busq.BusqError as error:
        assert_type(error.sent, int)


drain(peer.recv, peer.send)


async def in_a_loop() -> list[bytes]:
    joining = busq.aio.join("typed", "bob", resume=True)
    assert_type(joining, busq.aio.Joining)
    async with joining as bob, busq.aio.join(bus, "carol") as carol:
        assert_type(bob, busq.aio.Peer)
        assert_type(bob.name, str)
        assert_type(bob.bus, busq.Bus)
        assert_type(bob.fileno(), int)
        await bob.send("carol", b"bytes")
        await bob.send(["bob", "carol"], bytearray(b"bytes"), timeout=1.5)
        await bob.send("carol", [b"bytes", bytearray(b"more")])
        assert_type(await bob.send_many([("bob", b"1"), (["bob"], memoryview(b"2"))], timeout=1), int)
        await bob.send_object("carol", {"any": object()})
        await bob.send_object(["bob", "carol"], None, timeout=1.5)
        assert_type(await bob.ask("carol", b"bytes"), busq.Message)
        assert_type(await bob.ask("carol", (b"bytes", memoryview(b"more")), timeout=1.5), busq.Message)
        await busq.aio.wait_for(bus, "bob")
        await busq.aio.wait_for(bob.bus, names(), timeout=0)
        busq.aio.join(bus, "jobs", shared=True, codec=busq.codec.msgspec(int), spin_us=5.0)
        assert_type(await carol.recv(), busq.Message)
        assert_type(await carol.recv(0.5, ack=True), busq.Message)
        assert_type(await carol.recv_many(10, timeout=None), list[busq.Message])
        carol.close()
        return [message.data async for message in bob]


def talk_to_nodes(peer: busq.Peer, other: busq.Peer) -> None:
    node = peer.node()
    assert_type(node, busq.Node)
    assert_type(node.handle, busq.Handle)
    peer.send("bob", b"", handles=[node.handle])
    message = other.recv()
    assert_type(message.handles, tuple[busq.Handle, ...])
    assert_type(message.node, busq.Node | busq.Handle | None)
    try:
        other.send([*message.handles, "carol"], b"", timeout=1)
        other.send_object(message.handles[0], 5, handles=message.handles)
    except busq.PeerDead as error:
        assert_type(error.missed, tuple[busq.Handle, ...])
    assert_type(peer.nodes, list[busq.Node])
    assert_type(other.handles, list[busq.Handle])
    node.destroy(timeout=0)
    message.handles[0].release()


# The wings, by their public names: what stands there, and not Any.
assert_type(run(Config(order="fifo")).latency_mean_s, float)
assert_type(busq.sim.Config(order="fifo").claims, frozenset[str])
assert_type(busq.check.run("fifo").counterexample, Counterexample | None)
assert_type(busq.check.run("fifo"), busq.lab.check.Result)
assert_type(History(["p0", "p1"]), busq.spec.History)
names_of_properties: tuple[str, ...] = PROPERTIES
assert_type(chat.demonstrate("fifo").ok, bool)
assert_type(busq.scenario.play("").execution, busq.execution.Execution)
assert_type(busq.compare.known(), list[str])


def count(found: Followed, source: busq.trace.Source) -> int:
    assert_type(runs.deal([source], 1), list[list[int]])
    assert_type(found.runs, int)
    return found.runs


class Book(busq.Replica):
    def __init__(self, title: str = "") -> None:
        self.title, self.prices = title, dict[str, int]()

    @busq.command
    def set(self, name: str, price: int) -> int | None:
        return self.prices.get(name)


with Book.join(bus, "book", "prices", verify=True, timeout=5) as book:
    assert_type(book, Book)
    assert_type(book.set("A", 17), int | None)
    assert_type(book.position, int)
    assert_type(book.members, tuple[str, ...])
    with book.batch(timeout=1) as batch:
        batch.set("A", 17)
    assert_type(batch.results, list[Any])
assert_type(Dict.join("typed", "cache").copy(), dict[Any, Any])
with Lock.join(bus, "lock").held() as number:
    assert_type(number, int)
peer.enter("workers", state=lambda: b"", take=lambda state: None, timeout=1)


async def replicated() -> None:
    async with Book.join_async(bus, "book") as book:
        await book.set("A", 17)
        await book.sync(timeout=1)
