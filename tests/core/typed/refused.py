# SPDX-License-Identifier: Apache-2.0
# pyright: strict
"""What type checkers refuse: the lines with an expected error, and no others.  Read by them, never run."""

from __future__ import annotations

import busq
from busq.sim import Config, run
from busq.spark.follow import follow

bus = busq.Bus.open("typed")
peer = bus.join("alice")

peer.send("bob", "text")  # refused
peer.send("bob", 5)  # refused
peer.send("bob", None)  # refused
peer.send("bob", [1, 2])  # refused
peer.send(b"bob", b"")  # refused
peer.send(["alice", b"bob"], b"")  # refused
peer.send(5, b"")  # refused
peer.send(None, b"")  # refused
peer.send("bob")  # refused
peer.send("bob", b"", 5)  # refused
peer.send("bob", b"", timeout="5")  # refused
peer.sned("bob", b"")  # refused

peer.send_many([("bob", "text")])  # refused
peer.send_many([("bob", b"", 5)])  # refused
peer.send_many([b"bob"])  # refused
peer.send_many(("bob", b""))  # refused

peer.send_object("bob")  # refused
peer.send_object(5, 5)  # refused
peer.reserve("5")  # refused
peer.reserve(5, 7)  # refused
peer.reserve(5).send("bob", b"")  # refused
peer.reserve(5).buffer = memoryview(b"")  # refused
bus.join("alice", codec=5)  # refused
busq.codec.msgspec(int, format=5)  # refused
peer.ask(["bob"], b"")  # refused
peer.ask("bob", "text")  # refused
peer.ask("bob", b"", 5)  # refused
peer.recv().reply()  # refused
peer.recv().reply("text")  # refused
peer.recv().reply(b"", 5)  # refused
bus.wait_for(5)  # refused
bus.wait_for("bob", "5")  # refused
busq.Bus.create("typed", temporary="yes")  # refused

numbers: busq.Queue[int] = busq.Queue()
numbers.put("text")  # refused
numbers.put(1, timeout="5")  # refused
numbers.get(timeout="5")  # refused
numbers.get_nowait(5)  # refused
numbers.task_done()  # refused
busq.Queue("5")  # refused
busq.Queue(bus="typed")  # refused
busq.SimpleQueue(5)  # refused
simple: busq.SimpleQueue[int] = busq.SimpleQueue()
simple.put(1, False)  # refused
simple.get(False)  # refused
simple.qsize()  # refused
busq.JoinableQueue().join(5)  # refused
busq.put_all(5, 5)  # refused
busq.put_all([numbers], 5, timeout="5")  # refused

peer.recv("5")  # refused
peer.recv(1, True)  # refused
peer.recv(ack="yes")  # refused
peer.recv_many()  # refused
peer.recv_many("3")  # refused
peer.recv_many(1.5)  # refused


async def in_a_loop() -> None:
    busq.aio.join(5, "ann")  # refused
    busq.aio.join("typed")  # refused
    busq.aio.join("typed", "ann", shared="yes")  # refused
    busq.aio.join("typed", "ann", nonsense=1)  # refused
    async with busq.aio.join("typed", "ann") as ann:
        await ann.send("bob", "text")  # refused
        await ann.send(5, b"")  # refused
        await ann.send_many([b"bob"])  # refused
        await ann.send_object(5, 5)  # refused
        await ann.send_object("bob")  # refused
        await ann.ask(["bob"], b"")  # refused
        await ann.ask("bob", "text")  # refused
        await busq.aio.wait_for("typed", "bob")  # refused
        await ann.recv("5")  # refused
        await ann.recv_many()  # refused
        print(ann.recv().data)  # refused


text: str = peer.recv().data  # refused
for message in peer:
    message.data = b""  # refused
    print(message.size)  # refused
    busq.Message(message.data)  # refused

peer.send("bob", b"", handles=["bob"])  # refused
peer.send(peer.node(), b"")  # refused
peer.node("name")  # refused
peer.node().handle = 5  # refused
peer.name = "bob"  # refused
peer.bus = bus  # refused
peer.bus.join(5)  # refused
busq.Peer(bus, "carol")  # refused
busq.Bus("carol")  # refused
bus.join("carol", True)  # refused
bus.join("jobs", shared="yes")  # refused
busq.Bus.create(5)  # refused
busq.Bus.create("typed", order=3)  # refused
busq.Bus.create("typed", peers="many")  # refused
busq.Bus.open(b"typed")  # refused

busq.check.nothing()  # refused
run("fifo")  # refused
Config()  # refused
busq.check.run(5)  # refused
busq.spec.PROPERTIES.append("wrong")  # refused
busq.spark.session(memory=6)  # refused
follow(5)  # refused

peer.enter(5)  # refused
peer.watch(b"bob")  # refused
bus.join("carol", watch=5)  # refused
busq.View("1", ())  # refused


class Book(busq.Replica):
    @busq.command
    def set(self, name: str, price: int) -> None: ...


book = Book.join(5, "book")  # refused
book.set("A")  # refused
book.set("A", "B")  # refused
book.sync("5")  # refused
book.position = 5  # refused
peer.enter("workers", state=b"")  # refused
peer.enter("workers", take=lambda: None)  # refused
busq.command(5)  # refused
