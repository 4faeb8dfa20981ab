# SPDX-License-Identifier: Apache-2.0
"""Every feature of the library with every other order than bus1: it works, or it raises at once, with the reason."""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from conftest import PATIENCE_S

import busq
from busq import aio
from busq.orders import ORDERS

NAMES = [name for name, order in ORDERS.items() if name != "bus1" and not order.laboratory]


class Text:
    def encode(self, obj: Any) -> bytes:
        return str(obj).encode()

    def decode(self, payload: memoryview) -> str:
        return str(payload, "utf-8")


@pytest.fixture(params=NAMES)
def other(request: pytest.FixtureRequest, make_bus: Callable[..., busq.Bus]) -> busq.Bus:
    return make_bus(order=request.param, peers=2)


Pair = tuple[busq.Peer, busq.Peer]


@pytest.fixture
def pair(other: busq.Bus) -> Iterator[Pair]:
    with other.join("ann") as ann, other.join("bob") as bob:
        yield ann, bob


def send_to_bob(pair: Pair, data: Any) -> None:
    with contextlib.suppress(busq.Unfinished):  # some sends last until the message was delivered
        pair[0].send("bob", data, timeout=0.01)


def sent_to_bob(pair: Pair, data: Any) -> busq.Message:
    send_to_bob(pair, data)
    return pair[1].recv(timeout=PATIENCE_S)


def test_bytes_parts_and_views(pair: Pair) -> None:
    assert sent_to_bob(pair, [b"head", bytearray(b"body"), memoryview(b"tail")]).data == b"headbodytail"
    assert sent_to_bob(pair, bytes(100_000)).view() == bytes(100_000)


def test_it_tells_of_messages_by_its_descriptor(pair: Pair) -> None:
    send_to_bob(pair, b"1")
    assert select.select([pair[1]], [], [], PATIENCE_S)[0]
    assert [message.data for message in pair[1].recv_many(5, timeout=PATIENCE_S)] == [b"1"]


def test_waiting_for_peers_and_iterating(other: busq.Bus, pair: Pair) -> None:
    other.wait_for(["ann", "bob"], timeout=0)
    with pytest.raises(busq.Empty, match="carol"):
        other.wait_for("carol", timeout=0)
    other.shutdown()
    assert list(pair[1]) == []


async def test_in_an_event_loop(other: busq.Bus) -> None:
    async with aio.join(other, "ann") as ann, aio.join(other, "bob") as bob:
        await aio.wait_for(other, ["ann", "bob"], timeout=PATIENCE_S)
        receiving = asyncio.create_task(bob.recv())
        await ann.send("bob", [b"1", b"2"], timeout=PATIENCE_S)
        assert (await receiving).data == b"12"
        refused: list[Callable[[], Awaitable[Any]]] = [
            lambda: ann.ask("bob", b"anybody there?"),
            lambda: ann.send_object("bob", 5),
            lambda: ann.recv(ack=True),
            lambda: ann.recv_many(5, ack=True),
            lambda: ann.send("@all", b"to a group"),
            lambda: ann.enter("all"),
            lambda: ann.leave("all"),
        ]
        for call in refused:
            with pytest.raises(ValueError, match=f"order {other.order} .*bus1"):
                await call()
        await ann.send("bob", b"no handles", handles=[], timeout=PATIENCE_S)
        assert (await bob.recv()).data == b"no handles"


def test_temporary(other: busq.Bus) -> None:
    name = f"{other.name}-temporary"
    with busq.Bus.create(name, order=other.order, peers=2, temporary=True) as bus, bus.join("ann"):
        busq.Bus.open(name).close()
    with pytest.raises(FileNotFoundError):
        busq.Bus.open(name)


REFUSED: dict[str, Callable[[busq.Bus, busq.Peer], Any]] = {
    "reserve": lambda _, peer: peer.reserve(100),
    "send_object": lambda _, peer: peer.send_object("bob", 5),
    "ask": lambda _, peer: peer.ask("bob", b"anybody there?"),
    "ack": lambda _, peer: peer.recv(ack=True),
    "ack of many": lambda _, peer: peer.recv_many(5, ack=True),
    "resume": lambda bus, _: bus.join("carol", resume=True),
    "durable": lambda bus, _: bus.join("carol", durable=True),
    "shared": lambda bus, _: bus.join("carol", shared=True),
    "codec": lambda bus, _: bus.join("carol", codec=Text()),
    "Queue": lambda bus, _: busq.Queue(bus=bus),
    "SimpleQueue": lambda bus, _: busq.SimpleQueue(bus=bus),
    "JoinableQueue": lambda bus, _: busq.JoinableQueue(bus=bus),
    "group": lambda _, peer: peer.send("@all", b"to a group"),
    "groups": lambda _, peer: peer.send_many([(["@all"], b"to a group")]),
    "Replica": lambda bus, _: busq.replica.Dict.join(bus, "all"),
    "Replica by name": lambda bus, _: busq.replica.Dict.join(bus.name, "all"),
}


@pytest.mark.parametrize("feature", REFUSED)
def test_what_needs_bus1_says_so_at_once(other: busq.Bus, pair: Pair, feature: str) -> None:
    with pytest.raises(ValueError, match=f"order {other.order}\\b.*bus1"):
        REFUSED[feature](other, pair[0])
    assert sent_to_bob(pair, b"goes on").data == b"goes on"


@pytest.mark.parametrize("feature", ["send_object", "ask", "group", "groups"])
def test_what_is_refused_was_not_sent(other: busq.Bus, pair: Pair, feature: str) -> None:
    with pytest.raises(ValueError, match="bus1") as caught:
        REFUSED[feature](other, pair[0])
    assert caught.value.sent == 0  # type: ignore[attr-defined]


def test_no_handles_are_no_handles(pair: Pair) -> None:
    pair[0].send("bob", b"none", handles=[], timeout=PATIENCE_S)
    assert pair[1].recv(PATIENCE_S).data == b"none"
    with pytest.raises(ValueError, match="no nodes and no handles") as caught:
        pair[0].send("bob", b"", handles=iter(["one"]))  # type: ignore[list-item]
    assert caught.value.sent == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("to", "error", "text"),
    [
        ([], ValueError, "no receivers"),
        ("@all", ValueError, "bus1"),
        ([5], TypeError, "a receiver"),
        (5, TypeError, "to has type"),
    ],
)
def test_what_is_no_receiver_is_refused_before_the_others_have_joined(
    make_bus: Callable[..., busq.Bus], to: Any, error: type[Exception], text: str
) -> None:
    with make_bus(order="lamport", peers=2).join("ann") as ann, pytest.raises(error, match=text):
        ann.send(to, b"", timeout=0)


def test_replies_and_objects_of_its_messages(pair: Pair) -> None:
    message = sent_to_bob(pair, b"hello")
    with pytest.raises(ValueError, match="nobody waits for a reply"):
        message.reply(b"hello yourself")
    with pytest.raises(ValueError, match="no object"):
        message.object()
    message.ack()  # of what was not offered, it does nothing
