# SPDX-License-Identifier: Apache-2.0
"""The rows of the table: what busq can do, each as a way to give and take one unit, or as a mode of the taker.

A new feature is one class here, and its row of verdicts in `expected.py`.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import pickle
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

from crossings.ledger import Unit, expect
from crossings.session import PATIENCE_S, Giver, Session, Taker, parse, tag_of

import busq


class Feature:
    """One row."""

    name: ClassVar[str] = ""
    says: ClassVar[str] = ""  # what one unit of work is, for readers of the table

    is_way = True  # otherwise a mode, of whatever is given
    has_own_inbox = False
    waits_in_process = False  # what has no room is sent later, by a thread
    inboxes: tuple[str, ...] = ("taker",)  # each gets every unit
    per_work = 1
    tells = True  # an exception from outside, in a call, has the attribute `sent`
    sizes: ClassVar[dict[str, Any]] = {}  # of the bus
    join: ClassVar[dict[str, Any]] = {}  # as a mode: how the taker joins
    ack = False
    codec: Any = None
    is_answered = False  # a call that gives returns when the taker has taken, and answered
    has_members = False  # what is given while the taker is no member does not come to it
    can_be_full = True  # a call that finds no room returns
    comes_back = False  # something comes to the giver's own queue
    outlives_giver = True  # what was given is in shared memory
    has_giver = True  # what gives is an object that can be closed, and forked
    holds_back = False  # a successor holds back what comes until it has a state; without `ack`, that goes with it
    slack = 0  # how many more units may find room one time than another
    takes_by_itself = False  # in a thread of its own; a giver waits for room then
    lost_by_strike = (
        0  # units that an exception from outside may lose: one that has left the queue, in a call in Python
    )
    lost_by_kill = 1  # units that a taker may have in its hand
    doubled_by_kill = 0  # units that come again without a mark, since there are none
    late_by_kill = 0  # units that come behind others without a mark, for the same reason

    def begin(self, session: Session) -> None:
        """Make what belongs to the session as a whole."""

    def end_child(self) -> None:
        """Do what a process has to do before it ends in good order."""

    def end(self) -> None:
        """Let go of what `begin` has made."""

    # ---- the giver ----

    def open_giver(self, giver: Giver) -> None:
        """Begin on the side that gives."""

    def prepare_giver(self, giver: Giver, meanwhile: Callable[[], Any]) -> None:
        """Get what giving needs, before the first unit."""

    def giver_got(self, giver: Giver, message: Any) -> bool:
        """Handle a message in the giver's own queue; False if it belongs to another feature."""
        return False

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        """Return what gives the units when it is called: best a method of busq, with nothing around it."""
        raise NotImplementedError

    # ---- in an event loop ----

    @contextlib.asynccontextmanager
    async def loop_giver(self, session: Session) -> AsyncIterator[Any]:
        """A giver whose peer is one of `busq.aio`."""
        from crossings.loops import LoopGiver

        async with busq.aio.join(session.bus, "loop", codec=session.codec_of()) as peer:
            giver = LoopGiver(session, "loop", peer)
            self.open_giver(giver)
            yield giver
            self.close_giver(giver)

    @contextlib.asynccontextmanager
    async def loop_taker(self, session: Session) -> AsyncIterator[Any]:
        """A taker whose peer is one of `busq.aio`."""
        from crossings.loops import LoopTaker, settled

        options = session.join_options("taker")
        is_resumed = options.pop("twice", False)
        if is_resumed:
            session.bus.join("taker", **options).close()
        async with busq.aio.join(session.bus, "taker", resume=is_resumed, **options) as peer:
            taker = LoopTaker(session, peer)
            await settled(self.enter(taker))
            yield taker

    async def prepare_in_loop(self, giver: Any) -> None:
        """Get what giving needs, before the first unit."""

    async def acall(self, giver: Giver, units: list[Unit], timeout: float | None) -> Any:
        """Give the units in an event loop, where the giver's peer is one of `busq.aio`."""
        return await self.call(giver, units, timeout)()

    def check_given(self, giver: Giver, units: list[Unit], result: Any) -> None:
        """Check what the call has returned."""

    def is_refusal(self, error: BaseException) -> bool:
        """Whether an error is what a call in the middle of another one is to get."""
        return False

    def failed(self, giver: Giver, units: list[Unit]) -> None:
        """Take back what was prepared for units that were not given."""

    def settle_all(self, play: Any) -> None:
        """Wait until nothing is on its way any more."""

    def take_rest(self, play: Any) -> None:
        """Take what may come behind what was given last."""

    def check_end(self, play: Any) -> None:
        """Check what only holds when everything has been taken."""

    def closes(self, taker: Taker) -> None:
        """Note what may be lost with a taker that closes."""

    def close_giver_under(self, giver: Giver) -> None:
        """Close what gives, before it gives once more."""
        giver.close()

    def close_giver(self, giver: Giver) -> None:
        """End what the giver has beside its peer."""

    # ---- the taker ----

    def take_in_child(self, taker: Taker) -> None:
        """Take in a forked child what the parent's side would take."""
        taker.take(PATIENCE_S)

    def open_taker(self, taker: Taker, resume: bool) -> Any:
        """Begin on the side that takes; return an inbox of its own, if it has one."""

    def enter(self, taker: Taker) -> Any:
        """Become what only a peer that has joined can be; in an event loop what this returns is awaited."""

    def after(self, taker: Taker, message: Any) -> Any:
        """Do what follows a message that was noted, and is not acknowledged yet; what this returns is awaited, too."""

    def close_under(self, taker: Taker) -> None:
        """Close what a thread waits in."""
        taker.close()

    def read(self, taker: Taker, message: Any) -> list[Unit] | None:
        """Return the units of a message, or None if it belongs to another feature."""
        unit = parse(message.data, self) if message.kind == "data" else None
        return None if unit is None else [unit]


def told(call: Callable[[], Any], *errors: type[Exception]) -> Exception | None:
    """The error of these kinds that a call raises, if it does."""
    try:
        call()
    except Exception as error:
        if errors and not isinstance(error, errors):
            raise
        return error
    return None


async def both(first: Any, second: Any) -> None:
    await first
    await second


def become(taker: Taker, change: Callable[..., Any]) -> Any:
    """Enter a group, or watch; a successor first takes what its predecessor has left, where that leaves no room."""
    if not isinstance(taker.peer, busq.Peer):
        return change(timeout=PATIENCE_S)
    end_s = time.monotonic() + PATIENCE_S
    while told(lambda: change(timeout=0), busq.Full):
        expect(time.monotonic() < end_s, "there is never room to enter or to watch")
        taker.take_all()
        taker.session.meanwhile()
    return None


# ---- ways to send ----


class Plain(Feature):
    name = "plain"
    says = "`send` to a name, and `recv`"

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        return functools.partial(giver.peer.send, "taker", giver.data(self, units[0]), timeout=timeout)


class Watched(Feature):
    name = "watched"
    says = "a peer that the taker watches joins, sends, and leaves: the message comes between `joined` and `left`"
    tells = False
    has_giver = False
    slack = 1
    sizes: ClassVar[dict[str, Any]] = {"capacity": 64, "peers": 64, "nodes": 16}  # a slot for each visit

    _one_visitor = threading.RLock()

    @staticmethod
    def visitor(giver: Giver) -> str:
        return "visitor" if giver.name == "giver" else "another"

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        def visit() -> None:
            with giver.bus.join(self.visitor(giver), codec=giver.session.codec_of()) as visitor:
                visitor.send("taker", giver.data(self, units[0]), timeout=timeout)

        def visit_alone() -> None:
            with self._one_visitor:
                visit()

        return visit_alone

    async def acall(self, giver: Giver, units: list[Unit], timeout: float | None) -> Any:
        async with busq.aio.join(giver.bus, self.visitor(giver), codec=giver.session.codec_of()) as visitor:
            await visitor.send("taker", giver.data(self, units[0]), timeout=timeout)

    def enter(self, taker: Taker) -> Any:
        watch = functools.partial(become, taker)
        first = watch(functools.partial(taker.peer.watch, "visitor"))
        second = watch(functools.partial(taker.peer.watch, "another"))
        return first and both(first, second)

    def read(self, taker: Taker, message: Any) -> list[Unit] | None:
        before = taker.facts.get(message.sender, "unknown")
        if message.kind in ("joined", "left"):
            fits = ("left", "unknown") if message.kind == "joined" else ("joined", "data", "unknown")
            if message.kind == "joined" and before not in fits and message.sender in taker.session.unwatched:
                taker.session.unwatched.discard(message.sender)
                before = "unknown"
            expect(before in fits or taker.session.is_mixed, f"{message.kind} behind {before}")
            taker.facts[message.sender] = message.kind
            return []
        units = super().read(taker, message)
        if units is not None and not message.redelivered:
            is_watched = not taker.session.given_while_away.intersection(units)
            fits = before in ("joined", "unknown") or not is_watched
            expect(fits or taker.session.is_mixed, f"{units[0]} comes behind {before}")
            taker.facts[message.sender] = "data" if is_watched else "unknown"
        return units


class Node(Feature):
    name = "node"
    says = "`send` to the handle of a node of the taker"

    def enter(self, taker: Taker) -> Any:
        nodes = taker.peer.nodes
        taker.facts[self] = nodes[0] if nodes else taker.peer.node()

    def ask(self, giver: Any) -> bytes:
        """Begin to ask for a handle: what a taker of before has answered does not count."""
        giver.facts.pop(self, None)
        giver.facts[self, "number"] = number = giver.facts.get((self, "number"), 0) + 1
        return b"node|?%d" % number

    def prepare_giver(self, giver: Giver, meanwhile: Callable[[], Any]) -> None:
        question = self.ask(giver)
        end_s = time.monotonic() + PATIENCE_S
        while self not in giver.facts:  # a taker that finds no room for its answer does not answer later
            expect(time.monotonic() < end_s, "the handle of a node does not come")
            told(lambda: giver.peer.send("taker", question, timeout=0), busq.Full)
            meanwhile()
            giver.settle()

    async def prepare_in_loop(self, giver: Any) -> None:
        question = self.ask(giver)
        end_s = time.monotonic() + PATIENCE_S
        while self not in giver.facts:  # a taker that is cancelled before it answers does not answer later
            expect(time.monotonic() < end_s, "the handle of a node does not come")
            await giver.peer.send("taker", question)
            with contextlib.suppress(busq.Empty):
                self.giver_got(giver, await giver.peer.recv(0.5))

    def giver_got(self, giver: Giver, message: Any) -> bool:
        if message.kind == "data" and message.data.startswith(b"node|!"):
            if int(message.data[6:]) == giver.facts[self, "number"]:
                giver.facts[self] = message.handles[0]
            return True
        return message.kind == "node_destroyed"

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        return functools.partial(giver.peer.send, giver.facts[self], giver.data(self, units[0]), timeout=timeout)

    def read(self, taker: Taker, message: Any) -> list[Unit] | None:
        if message.kind in ("node_released", "node_destroyed"):
            return []
        if message.kind == "data" and message.data.startswith(b"node|?"):
            return []
        units = super().read(taker, message)
        if units is not None:
            # What a predecessor has left was sent to a node of its own.
            expect(isinstance(message.node, busq.Node), f"{units[0]} came to {message.node}, not to a node")
        return units

    def after(self, taker: Taker, message: Any) -> Any:
        node = taker.facts.get(self)  # what enters a group takes, perhaps, before it has a node
        if node is not None and message.kind == "data" and message.data.startswith(b"node|?"):
            # Giver, taker and witness may be in one thread, which makes no room while it waits here.
            timeout = None if taker.is_in_loop else 0
            answer = message.data.replace(b"?", b"!")
            with contextlib.suppress(busq.PeerDead, busq.Full):
                return taker.peer.send(message.sender, answer, handles=[node.handle], timeout=timeout)
        return None


class Handle(Feature):
    name = "handle"
    says = "`send` with the handle of a node of the giver: it comes alive, and its release is reported"
    comes_back = True

    def open_giver(self, giver: Giver) -> None:
        giver.facts[self] = {}

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        node = giver.peer.node()
        giver.facts[self][node] = units[0]
        data = giver.data(self, units[0])
        return functools.partial(giver.peer.send, "taker", data, handles=[node.handle], timeout=timeout)

    def is_refusal(self, error: BaseException) -> bool:
        """Whether an error is what a call in the middle of another one is to get."""
        return False

    def failed(self, giver: Giver, units: list[Unit]) -> None:
        for node, unit in list(giver.facts[self].items()):
            if unit in units:
                del giver.facts[self][node]
                with contextlib.suppress(busq.BusqError):
                    node.destroy(timeout=0)

    def giver_got(self, giver: Giver, message: Any) -> bool:
        if message.kind == "node_released" and message.node in giver.facts[self]:
            del giver.facts[self][message.node]
            giver.facts.setdefault((self, "released"), []).append(message.node)
        self._destroy_released(giver)
        return message.kind in ("node_destroyed", "node_released")

    def _destroy_released(self, giver: Giver) -> None:
        """Destroy what is of no use as soon as there is room: its queue, which the giver reads alone, may be full."""
        released = giver.facts.get((self, "released"), [])
        with contextlib.suppress(IndexError):  # several threads give
            while node := released.pop():
                if told(functools.partial(node.destroy, timeout=0), busq.Full):
                    released.append(node)
                    return

    def read(self, taker: Taker, message: Any) -> list[Unit] | None:
        if message.kind == "node_destroyed":
            return []
        units = super().read(taker, message)
        if units is not None:
            handles = message.handles
            expect(len(handles) == 1, f"{units[0]} brings {len(handles)} handles")
            expect(not handles[0].is_dead, f"the handle of {units[0]} is dead: redelivered is {message.redelivered}")
        return units

    def after(self, taker: Taker, message: Any) -> Any:
        for handle in message.handles:
            handle.release()

    def check_end(self, play: Any) -> None:
        end_s = time.monotonic() + PATIENCE_S
        for handle in play.taker.peer.handles:  # what its predecessor had in its hands, and held until it is released
            handle.release()
        while left := [*play.giver.facts[self], *play.giver.facts.get((self, "released"), [])]:
            expect(time.monotonic() < end_s, f"{len(left)} nodes were never released")
            play.take_all()
            play.giver.settle()
            self._destroy_released(play.giver)


class Group(Feature):
    name = "group"
    says = "`send` to a group of two"
    inboxes = ("group:taker", "group:witness")
    has_members = True

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        return functools.partial(giver.peer.send, f"@{self.name}", giver.data(self, units[0]), timeout=timeout)

    def enter(self, taker: Taker) -> Any:
        return self.change(taker)

    def change(self, taker: Taker, **options: Any) -> Any:
        return become(taker, functools.partial(taker.peer.enter, self.name, **options))

    def read(self, taker: Taker, message: Any) -> list[Unit] | None:
        if message.kind == "view" and message.group == self.name:
            return []
        return super().read(taker, message)


class State(Group):
    name = "state of a group"
    holds_back = True
    slack = 2  # the words by which members hand states over
    says = "`send` to a group whose members keep a state, which those that enter get"
    inboxes = ("state:taker", "state:witness")

    def enter(self, taker: Taker) -> Any:
        units: list[Unit] = taker.facts.setdefault(self, [])
        if taker.name == "taker":
            self._held_back = taker.session.ledger.sure  # what is given until the state comes

        def take(state: bytes) -> None:
            self._held_back = dict(taker.session.ledger.sure)
            units[:] = [Unit(giver, number) for giver, number in json.loads(state)]

        return self.change(taker, state=lambda: json.dumps(units).encode(), take=take)

    def closes(self, taker: Taker) -> None:
        """What is held back from a joiner, and was received without `ack`, goes with it (Peer.enter)."""
        if taker.name == "taker" and not taker.session.ack:
            for way in taker.session.ways:
                for inbox in way.inboxes:
                    if inbox.split(":")[-1] == "taker" and not way.has_own_inbox:
                        taker.session.ledger.optional[inbox].update(self._held_back)

    def is_refusal(self, error: BaseException) -> bool:
        """While a message is sorted, `state` or `take` may run."""
        return isinstance(error, RuntimeError) and "may not receive" in str(error)

    def read(self, taker: Taker, message: Any) -> list[Unit] | None:
        units = super().read(taker, message)
        if units and not message.redelivered:
            taker.facts.setdefault(self, []).extend(units)  # also of a predecessor, while another group is entered
        return units

    def check_end(self, play: Any) -> None:
        mine, other = play.taker.facts[self], play.witness.facts[self]
        if play.session.is_mixed:  # a handler notes what it takes before the call that it strikes does
            mine, other = sorted(mine), sorted(other)
        expect(mine == other, f"the states differ: {mine[-5:]} of {len(mine)}, {other[-5:]} of {len(other)}")
        sure = [unit for unit in play.ledger.sure if unit in set(other)]
        expect(len(sure) == play.ledger.count(self.inboxes[1]), "the state has lost something")


class Request(Feature):
    name = "request"
    says = "`ask`, and `reply`"
    is_answered = True

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        return functools.partial(giver.peer.ask, "taker", giver.data(self, units[0]), timeout=timeout)

    def check_given(self, giver: Giver, units: list[Unit], result: Any) -> None:
        expect(result.data == giver.data(self, units[0]), f"{units[0]} got the reply {result.data[:40]!r}")

    def after(self, taker: Taker, message: Any) -> Any:
        if message.kind != "data" or not parse(message.data, self):
            return
        end_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                message.reply(message.data, timeout=0)
                return
            except busq.PeerDead:
                return
            except busq.Full as error:  # what others have not taken fills the memory
                expect(time.monotonic() < end_s, f"a reply finds no room, though all take: {error}")
                taker.session.meanwhile()


class Object(Feature):
    name = "object"
    says = "`send_object`, and `object`"

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        obj = [self.name, *units[0], "x" * giver.session.size]
        return functools.partial(giver.peer.send_object, "taker", obj, timeout=timeout)

    def read(self, taker: Taker, message: Any) -> list[Unit] | None:
        if message.kind != "data" or tag_of(message.data) in FEATURES:
            return None
        name, giver, number, text = message.object()
        if name != self.name:
            return None
        expect(set(text) <= {"x"}, f"the object of {giver}.{number} is damaged")
        return [Unit(giver, number)]


class Json:
    """A codec."""

    def encode(self, obj: Any) -> bytes:
        return json.dumps(obj).encode()

    def decode(self, payload: memoryview) -> Any:
        return json.loads(bytes(payload))


class Codec(Object):
    name = "codec"
    says = "`send_object` between peers that joined with a codec"
    codec = Json()


class Draft(Feature):
    name = "draft"
    says = "`reserve`, writing in place, and `draft.send`"
    tells = False

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        data = giver.data(self, units[0])

        def write() -> None:
            with giver.peer.reserve(len(data), timeout=timeout) as draft:
                draft.buffer[:] = data
                draft.send("taker", timeout=timeout)

        return write

    async def acall(self, giver: Giver, units: list[Unit], timeout: float | None) -> Any:
        data = giver.data(self, units[0])
        if units[0].number % 2:
            draft = await giver.peer.reserve(len(data), timeout=timeout)
            with draft:
                await self._write_in_loop(draft, data, timeout)
        else:
            async with giver.peer.reserve(len(data), timeout=timeout) as draft:
                await self._write_in_loop(draft, data, timeout)

    @staticmethod
    async def _write_in_loop(draft: Any, data: bytes, timeout: float | None) -> None:
        draft.buffer[:] = data
        await draft.send("taker", timeout=timeout)


class Batch(Feature):
    name = "batch"
    says = "`send_many` of three, and `recv_many`"
    per_work = 3
    lost_by_kill = 3  # of one `recv_many`

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        pairs = [("taker", giver.data(self, unit)) for unit in units]
        return functools.partial(giver.peer.send_many, pairs, timeout=timeout)


# ---- modes of the taker ----


class Mode(Feature):
    is_way = False
    inboxes = ()


class Acknowledged(Mode):
    name = "acknowledged"
    says = "`recv(ack=True)`, and `ack`"
    ack = True


class Shared(Mode):
    name = "shared"
    says = "the taker joins with `shared=True`"
    join: ClassVar[dict[str, Any]] = {"shared": True}


class Durable(Mode):
    name = "durable"
    says = "the taker joins with `durable=True`"
    join: ClassVar[dict[str, Any]] = {"durable": True}


class Resumed(Mode):
    name = "resumed"
    says = "the taker is a successor, by `resume=True`, of one that was closed"
    join: ClassVar[dict[str, Any]] = {"twice": True}


# ---- what has an inbox of its own ----


class Queue(Feature):
    name = "queue"
    says = "`put` and `get` of a `busq.Queue`"
    has_own_inbox = True
    inboxes = ("queue:taker",)
    tells = False
    lost_by_strike = 1
    late_by_kill = 1
    can_be_full = False
    waits_in_process = True
    outlives_giver = False

    def begin(self, session: Session) -> None:
        self.queue = self.make(session)

    def make(self, session: Session) -> Any:
        return busq.Queue(bus=session.bus)

    def end_child(self) -> None:
        self.queue.close()
        self.queue.join_thread()

    def end(self) -> None:
        self.queue.close()
        del self.queue

    def close_under(self, taker: Taker) -> None:
        self.queue.close()

    def close_giver_under(self, giver: Giver) -> None:
        self.queue.close()

    def reopen(self) -> None:
        """What a process has closed, it can open again from a pickle."""
        if self.queue._is_closed:
            self.queue = pickle.loads(pickle.dumps(self.queue))

    def open_giver(self, giver: Giver) -> None:
        self.reopen()

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        return functools.partial(self.queue.put, self.object_of(giver, units[0]), True, timeout)

    def object_of(self, giver: Giver, unit: Unit) -> Any:
        return (*unit, bytes(giver.session.size))

    def open_taker(self, taker: Taker, resume: bool) -> Any:
        self.reopen()
        return QueueInbox(taker, self)

    def got(self, content: Any) -> None:
        """Report that a unit is done with."""

    @contextlib.asynccontextmanager
    async def loop_giver(self, session: Session) -> AsyncIterator[Any]:
        from crossings.loops import LoopGiver

        yield LoopGiver(session, "loop", None)

    @contextlib.asynccontextmanager
    async def loop_taker(self, session: Session) -> AsyncIterator[Any]:
        yield LoopQueueTaker(session, self)

    async def acall(self, giver: Giver, units: list[Unit], timeout: float | None) -> Any:
        await self.queue.aput(self.object_of(giver, units[0]), timeout)


class Joinable(Queue):
    name = "joinable queue"
    says = "`put`, `get` and `task_done` of a `busq.JoinableQueue` with a limit"
    inboxes = ("joinable:taker",)
    can_be_full = True
    outlives_giver = True
    lost_by_strike = 0
    lost_by_kill = 0
    doubled_by_kill = 1

    def make(self, session: Session) -> Any:
        return busq.JoinableQueue(maxsize=4, bus=session.bus)  # no more than the bus holds

    def got(self, content: Any) -> None:
        self.queue.task_done()

    def take_rest(self, play: Any) -> None:
        """A task that a killed process had in its hands may come behind what was given last."""
        waiting = threading.Thread(target=self.queue.join, daemon=True)
        waiting.start()
        end_s = time.monotonic() + PATIENCE_S
        while waiting.is_alive():
            expect(time.monotonic() < end_s, "something in the queue is never done")
            play.take_all()
            waiting.join(0.001)


class Views(Queue):
    name = "queue of views"
    says = "`put`, and `get` of a `busq.Queue` with `views=True`, of which the last ones are held"
    inboxes = ("views:taker",)

    _HELD = 3

    def make(self, session: Session) -> Any:
        self._held: collections.deque[Any] = collections.deque()
        return busq.Queue(bus=session.bus, views=True)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": collections.deque()}  # a view belongs to its process

    def object_of(self, giver: Giver, unit: Unit) -> Any:
        return (*unit, pickle.PickleBuffer(self._content(unit.number, giver.session.size)))

    @staticmethod
    def _content(number: int, size: int) -> bytes:
        return number.to_bytes(4, "big") * (size // 4)

    def got(self, content: Any) -> None:
        self._held.append(content)
        if len(self._held) > self._HELD:
            oldest = memoryview(self._held.popleft())
            number = int.from_bytes(oldest[:4], "big")
            expect(oldest == self._content(number, len(oldest)), f"a view held of number {number} has changed")

    def end(self) -> None:
        self._held.clear()
        super().end()


class QueueInbox:
    def __init__(self, taker: Taker, way: Queue) -> None:
        self._taker, self._way = taker, way

    def take(self, timeout: float | None) -> int:
        box: list[Any] = []
        try:
            self._taker.session.window.call(functools.partial(self._way.queue.get, True, timeout), box)
        finally:
            for giver, number, content in box:
                self._taker.took(self._way.inboxes[0], Unit(giver, number), False)
                self._way.got(content)
        return 1

    def close(self) -> None:
        """A queue is closed by its last user, when nothing needs it any more."""


class LoopQueueTaker:
    """The same in an event loop."""

    def __init__(self, session: Session, way: Queue) -> None:
        self._session, self._way = session, way

    async def take_in_loop(self, timeout: float | None) -> int:
        giver, number, content = await self._way.queue.aget(timeout)
        self._session.notes.took(self._way.inboxes[0], "loop", Unit(giver, number), False)
        self._way.got(content)
        return 1


class Units(busq.Replica):
    """The replica of a session: a list of units."""

    def __init__(self) -> None:
        self.units: list[Any] = []

    @busq.command
    def add(self, giver: str, number: int, padding: str) -> int:
        self.units.append((giver, number))
        return len(self.units)


class Replica(Feature):
    name = "replica"
    says = "a command of a `busq.Replica`"
    has_own_inbox = True
    inboxes = ("replica:taker",)
    tells = False
    lost_by_kill = 0
    takes_by_itself = True

    def open_giver(self, giver: Giver) -> None:
        giver.facts[self] = self.join_as(giver)

    def join_as(self, side: Any) -> Any:
        codec = busq.codec.pickle() if side.session.codec else None
        return Units.join(side.bus, "units", member=f"{side.name}.replica", codec=codec, timeout=PATIENCE_S)

    def close_giver(self, giver: Giver) -> None:
        giver.facts[self].close()

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        replica, arguments = giver.facts[self], (*units[0], "x" * giver.session.size)
        if timeout == PATIENCE_S:
            return functools.partial(replica.add, *arguments)

        def add() -> None:
            with replica.batch(timeout=timeout) as batch:  # a command alone waits for ever for room
                batch.add(*arguments)

        return add

    def take_in_child(self, taker: Taker) -> None:
        """Reading the copy is reading memory; what asks the bus is refused."""
        taker.parts[-1].replica.sync()

    def open_taker(self, taker: Taker, resume: bool) -> Any:
        return ReplicaInbox(taker, self)

    @contextlib.asynccontextmanager
    async def loop_giver(self, session: Session) -> AsyncIterator[Any]:
        from crossings.loops import LoopGiver

        async with self.join_in_loop(session, "loop") as replica:
            giver = LoopGiver(session, "loop", None)
            giver.facts[self] = replica
            yield giver

    @contextlib.asynccontextmanager
    async def loop_taker(self, session: Session) -> AsyncIterator[Any]:
        async with self.join_in_loop(session, "taker") as replica:
            yield LoopReplicaTaker(session, self, replica)

    def join_in_loop(self, session: Session, name: str) -> Any:
        return Units.join_async(session.bus, "units", member=f"{name}.replica", timeout=PATIENCE_S)

    async def acall(self, giver: Giver, units: list[Unit], timeout: float | None) -> Any:
        return await giver.facts[self].add(*units[0], "x" * giver.session.size)

    def settle_all(self, play: Any) -> None:
        """Also what a replica has sent to itself, to be woken: that may come behind what has woken it."""
        play.giver.facts[self].sync()
        play.taker.parts[-1].replica.sync()


class ReplicaInbox:
    """A copy of the list; what is new in it was taken."""

    def __init__(self, taker: Taker, way: Replica) -> None:
        self._taker, self._way = taker, way
        self._n_seen = 0
        took = taker.session.ledger.took[way.inboxes[0]] + taker.session.took_before.get(way.inboxes[0], [])
        self._old = {one.unit for one in took}  # by a predecessor
        self.replica = way.join_as(taker)
        self._lock = threading.Lock()

    def take(self, timeout: float | None) -> int:
        self._taker.session.window.call(functools.partial(self.replica.wait_for, self._has_new, timeout), [])
        with self._lock:
            found = self.replica.units[self._n_seen :]
            self._n_seen += len(found)
            units = [Unit(giver, number) for giver, number in found]
            new = [unit for unit in units if unit not in self._old]
            for unit in new:
                self._taker.took(self._way.inboxes[0], unit, False)
        return len(new)

    def _has_new(self) -> bool:
        return len(self.replica.units) > self._n_seen

    def close(self) -> None:
        self.replica.close()


class LoopReplicaTaker:
    """The same in an event loop."""

    def __init__(self, session: Session, way: Replica, replica: Any) -> None:
        self._session, self._way, self._replica = session, way, replica
        self._n_seen = 0

    async def take_in_loop(self, timeout: float | None) -> int:
        await self._replica.wait_for(lambda: len(self._replica.units) > self._n_seen, timeout)
        found = self._replica.units[self._n_seen :]
        self._n_seen += len(found)
        for giver, number in found:
            self._session.notes.took(self._way.inboxes[0], "loop", Unit(giver, number), False)
        return len(found)


_ALL: tuple[type[Feature], ...] = (
    *(Plain, Acknowledged, Shared, Durable, Resumed, Watched, Node, Handle, Group, State),
    *(Request, Object, Draft, Batch, Replica, Queue, Joinable, Views, Codec),
)
FEATURES = {one.name: one for one in _ALL}


def make(*names: str) -> list[Feature]:
    """Return these features, with a plain way to give if none of them is one."""
    found = [FEATURES[name]() for name in names]
    if not any(one.is_way and not (one.has_own_inbox and len(found) > 1) for one in found):
        found.append(Plain())
    expect(len({one.name for one in found}) == len(found), f"twice: {names}")
    return found
