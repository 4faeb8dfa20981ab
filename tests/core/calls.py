# SPDX-License-Identifier: Apache-2.0
"""Every public call of a bus, made on an object in a known state, and what must be true of it afterwards."""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import operator
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from wholeness import LARGE, SMALL, AskWorld, Fault, OrderedWorld, World, brief, expect, n_descriptors, n_mappings
from wide_world import GROUP, WideWorld

import busq
from busq._native import _core as core
from busq._port import objects as _objects
from busq.bus import Bus1Peer

_numbers = itertools.count()
NEEDS_NOBODY = ("fifo", "causal-matrix")  # so that one member can send to itself before the others have joined
BATCH = 16  # times what a call leaves in a queue must find room in it
BUS_SIZES = {"peers": 4, "capacity": 16, "arena": 1 << 18}


@dataclass
class Outcome:
    """How a call came to its end: with a value, with an error, or struck by the exception of the harness."""

    values: list[Any] = field(default_factory=list)
    error: BaseException | None = None  # an error of busq's own
    struck: BaseException | None = None
    where: str = ""
    at_end: bool = False  # struck when nothing of busq could catch it any more: the call counts as returned, or not


@dataclass
class Stage:
    """An object in a known state."""

    world: Any
    obj: Any = None
    who: str = ""
    data: bytes = b""  # what the object must hold, if it is a message or a view
    ack: bool = False
    meanwhile: Callable[[], Any] | None = None  # what lets a call go on that waits
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def peer(self) -> Any:
        return self.world.peers[self.who]


@dataclass
class Turn:
    """One call, and what came of it."""

    op: Op
    call: Callable[[], Any] | None = None
    before: Callable[[], Any] | None = None  # what is done right before it
    sends: list[tuple[list[str], bytes]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    may_raise: tuple[type[BaseException], ...] = ()  # because of another call beside it
    outcome: Outcome = field(default_factory=Outcome)


@dataclass(frozen=True)
class Op:
    """A way to call a public method.  `call` makes something that can be called without a Python frame of ours."""

    method: str
    name: str
    call: Callable[[Stage, Turn], Callable[[], Any]]
    takes: int = 0
    ack: bool = False
    raises: tuple[type[BaseException], ...] = ()
    check: Callable[[Stage, Turn], None] = lambda stage, turn: None
    ends: bool = False  # the object may be closed or released afterwards
    is_wide: bool = False  # to several machines: where it is struck, its messages may come later


@dataclass(frozen=True)
class Kind:
    """Objects in a state, and the calls that are made on them."""

    of: str  # the class whose methods these are
    name: str
    ready: Callable[[Any], Stage]
    ops: list[Op]
    finish: Callable[[Stage, list[Turn]], None]
    make_world: Callable[[], Any] = World
    waits: bool = False  # its calls go on when `meanwhile` was called: only for signals
    weight: int = 1  # how many times longer than others it takes
    for_pairs: bool = False  # adds nothing but combinations

    @property
    def batch(self) -> int:
        """How many of its calls are made before it is asked whether all is whole."""
        return 1 if self.waits or self.weight > 3 else BATCH


def returns(value: Any) -> Callable[[Stage, Turn], None]:
    def check(_: Stage, turn: Turn) -> None:
        for found in turn.outcome.values:
            expect(found == value, f"{turn.op.name} returned {found!r} instead of {value!r}")

    return check


def says_sent(error: BaseException) -> int:
    """How many messages were sent, by the error that a send raised, or the one that it has come upon; else none."""
    told: BaseException | None = error
    while told is not None and not hasattr(told, "sent"):
        told = told.__context__
    return int(getattr(told, "sent", 0) or 0)


# ---- what was sent and received ----


def account(stage: Stage, turn: Turn) -> None:
    """Move what a call has sent or received from the one side of the ledger to the other."""
    world, out = stage.world, turn.outcome
    if out.error is not None:
        expected = (*turn.op.raises, *turn.may_raise)
        expect(isinstance(out.error, expected), f"{turn.op.name} raised {out.error!r} (from {out.error.__cause__!r})")
    if turn.op.takes:
        account_received(stage, turn)
    if turn.sends:
        account_sent(world, turn)
    if out.values:
        turn.op.check(stage, turn)


def account_received(stage: Stage, turn: Turn) -> None:
    world, who, out = stage.world, stage.who, turn.outcome
    for message in (one for value in out.values for one in (value if isinstance(value, list) else [value])):
        view = message.view()
        data = bytes(view)
        world.took(who, [data])
        if turn.op.ack:
            message.ack()
            expect(message.data == data, "a message that was acknowledged says something else")
        else:
            world.returned("the view of a message that the call returned", view, data)
    if out.at_end:
        world.perhaps.update(world.owed[who][: turn.op.takes])


def account_sent(world: Any, turn: Turn) -> None:
    out = turn.outcome
    if out.at_end:
        for to, data in turn.sends:
            world.sent(to, data)
            world.perhaps[data] += len(to)
        return
    raised = out.error if out.struck is None else out.struck
    if raised is not None and not out.values:
        n_sent = says_sent(raised)
    else:
        n_sent = out.values[0] if isinstance(out.values[0], int) else len(turn.sends)
    for to, data in turn.sends[:n_sent]:
        world.sent(to, data)
    if turn.op.is_wide and raised is not None and (len(turn.sends) > 1 or getattr(raised, "sent", None) is None):
        for to, data in turn.sends[n_sent:]:
            world.perhaps[data] += len(to)


# ---- messages ----


def ready_message(size: int, ack: bool, world: Any) -> Stage:
    sender = "alice"
    data = world.put(sender, ["bob"], size)
    message = world.bob.recv(timeout=10, ack=ack)
    world.owed["bob"].remove(data)
    return Stage(world, message, "bob", data, ack)


def finish_message(stage: Stage, turns: list[Turn]) -> None:
    message, stage.obj = stage.obj, None
    if not any(turn.op.method == "__del__" for turn in turns):
        data = message.data
        expect(data == stage.data, f"the message says {brief(data)}, which was {brief(stage.data)}")
        if stage.ack:
            message.ack()
    for box in (turn.facts.get("box") for turn in turns):
        if box:
            box.clear()


def check_view(stage: Stage, turn: Turn) -> None:
    for view in turn.outcome.values:
        expect(bytes(view) == stage.data, f"view() shows {brief(bytes(view))}, which was {brief(stage.data)}")
        stage.world.returned("the view that view() returned", view, stage.data)


def check_data(stage: Stage, turn: Turn) -> None:
    for data in turn.outcome.values:
        expect(data == stage.data, f"it is {brief(data)}, which was {brief(stage.data)}")


def drop(stage: Stage, turn: Turn) -> Callable[[], Any]:
    """Let go of the object as its last user."""
    box = turn.facts["box"] = [stage.obj]
    stage.obj = None
    return box.clear


def attribute(name: str) -> Callable[[Stage, Turn], Callable[[], Any]]:
    return lambda stage, turn: partial(getattr, stage.obj, name)


def method(name: str, *arguments: Any, **named: Any) -> Callable[[Stage, Turn], Callable[[], Any]]:
    return lambda stage, turn: partial(getattr(stage.obj, name), *arguments, **named)


def message_ops(ack: bool, extra: tuple[Op, ...] = ()) -> list[Op]:
    ops = [
        Op("data", "data", attribute("data"), check=check_data),
        Op("sender", "sender", attribute("sender"), check=returns("alice")),
        Op("kind", "kind", attribute("kind"), check=returns("data")),
        Op("redelivered", "redelivered", attribute("redelivered"), check=returns(False)),
        Op("sender_life", "sender_life", attribute("sender_life")),
        Op("node", "node", attribute("node"), check=returns(None)),
        Op("handles", "handles", attribute("handles"), check=returns(())),
        Op("place", "place", attribute("place"), check=returns(None)),
        Op("ack", "ack()", method("ack")),
        Op("object", "object()", method("object"), raises=(ValueError,)),
        Op("view", "view()", method("view"), check=check_view),
        Op("__repr__", "repr()", lambda stage, turn: partial(repr, stage.obj)),
        Op("__reduce__", "pickle.dumps()", lambda stage, turn: partial(pickle.dumps, stage.obj), raises=(TypeError,)),
        *(() if extra else [Op("reply", "reply() to a message", method("reply", b""), raises=(ValueError,))]),
    ]
    # What was not acknowledged and is dropped stays for a successor.
    return [*ops, *extra, *([] if ack else [Op("__del__", "del", drop, ends=True)])]


# ---- objects ----


def as_sent(obj: Any) -> bytes:
    """The payload that `send_object` makes of it."""
    return b"".join(_objects.encode(obj))


class Picture:
    """What hands its content over beside its pickle, and is a view of it where it is received."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Picture, (pickle.PickleBuffer(self.content),)


def ready_object(size: int, ack: bool, world: Any) -> Stage:
    content = world.payload(size)
    world.alice.send_object("bob", Picture(content))
    return Stage(
        world, world.bob.recv(timeout=10, ack=ack), "bob", as_sent(Picture(content)), ack, facts={"is": content}
    )


def check_object(stage: Stage, turn: Turn) -> None:
    for picture in turn.outcome.values:
        expect(bytes(picture.content) == stage.facts["is"], "the object has another content than was sent")
        stage.world.returned("the content of an object", picture.content, stage.facts["is"])


def object_ops(ack: bool) -> list[Op]:
    others = [op for op in message_ops(ack) if op.method != "object"]
    return [Op("object", "object()", method("object"), check=check_object), *others]


# ---- drafts ----


def ready_draft(size: int, world: Any) -> Stage:
    data = world.payload(size)
    draft = world.bob.reserve(size)
    draft.buffer[:] = data
    return Stage(world, draft, "bob", data)


def finish_draft(stage: Stage, turns: list[Turn]) -> None:
    """What was not sent can be, once it is not looked at, and holds what was written."""
    draft, stage.obj = stage.obj, None
    for turn in turns:
        turn.outcome.values.clear()
    for box in (turn.facts.get("box") for turn in turns):
        if box:
            box.clear()
    if draft is None or any(turn.op.ends for turn in turns):
        return
    try:
        draft.send("alice", timeout=10)
    except ValueError:
        expect(any(turn.sends for turn in turns), "a draft that was not sent can't be sent")
    else:
        stage.world.sent(["alice"], stage.data)


def send_draft(to: list[str], **named: Any) -> Callable[[Stage, Turn], Callable[[], Any]]:
    def make(stage: Stage, turn: Turn) -> Callable[[], Any]:
        size = named.get("size", len(stage.data))
        turn.sends = [(to, stage.data[:size])]
        return partial(stage.obj.send, to[0] if len(to) == 1 else to, **named)

    return make


def check_buffer(stage: Stage, turn: Turn) -> None:
    for buffer in turn.outcome.values:
        with contextlib.suppress(ValueError):  # the other call of a pair has released it
            expect(bytes(buffer) == stage.data, f"buffer shows {brief(bytes(buffer))}, which was {brief(stage.data)}")


def draft_ops() -> list[Op]:
    used = (ValueError,)  # sent or given back by the other call of a pair
    looked_at = (BufferError, ValueError)
    return [
        Op("buffer", "buffer", attribute("buffer"), check=check_buffer, raises=used),
        Op("send", "send()", send_draft(["alice"]), raises=looked_at),
        Op("send", "send() to two", send_draft(["alice", "carol"], timeout=Seconds(10)), raises=looked_at),
        Op("send", "send(size=7)", send_draft(["alice"], size=7), raises=looked_at),
        Op("__repr__", "repr()", lambda stage, turn: partial(repr, stage.obj)),
        Op("__reduce__", "pickle.dumps()", lambda stage, turn: partial(pickle.dumps, stage.obj), raises=(TypeError,)),
        Op("__enter__", "with", method("__enter__")),
        Op("__exit__", "end of with", method("__exit__", None, None, None), ends=True),
        Op("__del__", "del", drop, ends=True),
    ]


def send_object(to: list[str], size: int, **named: Any) -> Callable[[Stage, Turn], Callable[[], Any]]:
    def make(stage: Stage, turn: Turn) -> Callable[[], Any]:
        obj = Picture(stage.world.payload(size))
        turn.sends = [(to, as_sent(obj))]
        return partial(stage.peer.send_object, to[0] if len(to) == 1 else to, obj, **named)

    return make


def reserve(*arguments: Any, **named: Any) -> Callable[[Stage, Turn], Callable[[], Any]]:
    return lambda stage, turn: partial(stage.peer.reserve, *arguments, **named)


def check_reserved(stage: Stage, turn: Turn) -> None:
    for draft in turn.outcome.values:
        data = stage.world.payload(draft.buffer.nbytes)
        draft.buffer[:] = data
        with contextlib.suppress(busq.ShutDown):  # the other call of a pair has closed the peer
            draft.send("carol", timeout=10)
            stage.world.sent(["carol"], data)


def writing() -> list[Op]:
    return [
        *(Op("send_object", f"send_object({size})", send_object(["alice"], size)) for size in (SMALL, LARGE)),
        Op("send_object", "send_object to two", send_object(["alice", "carol"], LARGE, timeout=math.inf)),
        *(Op("reserve", f"reserve({size})", reserve(size), check=check_reserved) for size in (16, SMALL, LARGE)),
        Op("reserve", "reserve(receivers=2)", reserve(SMALL, receivers=2, timeout=Seconds(10)), check=check_reserved),
    ]


def refusing() -> list[Op]:
    """What other orders than bus1 do not do."""
    return [
        Op("send_object", "send_object()", lambda s, t: partial(s.peer.send_object, "bob", 5), raises=(ValueError,)),
        Op("reserve", "reserve()", reserve(SMALL), raises=(ValueError,)),
    ]


# ---- views ----


def ready_view(size: int, world: Any) -> Stage:
    stage = ready_message(size, False, world)
    stage.obj = stage.obj.view()
    return stage


def finish_view(stage: Stage, turns: list[Turn]) -> None:
    view, stage.obj = stage.obj, None
    for box in (turn.facts.get("box") for turn in turns):
        if box:
            box.clear()
    if view is None:
        return
    try:
        data = bytes(view)
    except ValueError:
        expect(any(turn.op.ends for turn in turns), "the view was released by a call that only reads it")
        return
    expect(data == stage.data, f"the view shows {brief(data)}, which was {brief(stage.data)}")
    view.release()


def check_part(stage: Stage, turn: Turn) -> None:
    for part in turn.outcome.values:
        expect(bytes(part) in stage.data, f"a part shows {brief(bytes(part))}")
        stage.world.returned("a part of a view", part, bytes(part))


READS = ("c_contiguous", "contiguous", "f_contiguous", "format", "itemsize", "nbytes", "ndim", "obj", "readonly")
READS += ("shape", "strides", "suboffsets")


def view_ops() -> list[Op]:
    return [
        *(Op(name, name, attribute(name)) for name in READS),
        Op("release", "release()", method("release"), ends=True),
        Op("tobytes", "tobytes()", method("tobytes"), check=check_data),
        Op("hex", "hex()", method("hex"), check=lambda stage, turn: returns(stage.data.hex())(stage, turn)),
        Op("tolist", "tolist()", method("tolist")),
        Op("cast", "cast('c')", method("cast", "c"), check=check_part),
        Op("toreadonly", "toreadonly()", method("toreadonly"), check=check_part),
        Op(
            "__getitem__",
            "[8:24]",
            lambda stage, turn: partial(operator.getitem, stage.obj, slice(8, 24)),
            check=check_part,
        ),
        Op("__enter__", "with", method("__enter__")),
        Op("__exit__", "end of with", method("__exit__", None, None, None), ends=True),
        Op("__del__", "del", drop, ends=True),
    ]


# ---- requests ----


def ready_request(size: int, ack: bool, world: Any) -> Stage:
    """A request of alice to bob, for whose reply no thread waits, as in an event loop."""
    from busq._port import requests as _requests
    from busq._port.deadline import Deadline

    request, data = _requests.Request(), world.payload(size)
    request.asked = "bob"
    waiting = _requests.requests_of(world.alice)
    waiting.begin(world.alice, request, data, Deadline(10), core.Note())
    message = world.bob.recv(timeout=10, ack=ack)
    return Stage(world, message, "bob", data, ack, facts={"waiting": waiting, "request": request})


def finish_request(stage: Stage, turns: list[Turn]) -> None:
    """Alice has one of the replies that were sent, whole, or none."""
    waiting, request = stage.facts.pop("waiting"), stage.facts.pop("request")
    while waiting.take(0) == 0:
        pass
    replies = [turn for turn in turns if turn.op.method == "reply"]
    sent = [turn.facts["reply"] for turn in replies if turn.outcome.values or was_sent(turn.outcome)]
    if not any(turn.outcome.at_end for turn in replies):
        expect(
            bool(sent) == (request.reply is not None), f"{len(sent)} replies were sent, and alice has {request.reply}"
        )
    if request.reply is not None:
        reply = waiting.finish(request)
        expect(reply.data in [turn.facts["reply"] for turn in replies], f"the reply says {brief(reply.data)}")
        del reply
    waiting.end(request)
    for turn in turns:
        turn.call = None
    finish_message(stage, turns)


def was_sent(outcome: Outcome) -> int:
    raised = outcome.error if outcome.struck is None else outcome.struck
    return 0 if raised is None else says_sent(raised)


def reply(size: int, **named: Any) -> Callable[[Stage, Turn], Callable[[], Any]]:
    def make(stage: Stage, turn: Turn) -> Callable[[], Any]:
        data = turn.facts["reply"] = stage.world.payload(size)
        return partial(stage.obj.reply, data, **named)

    return make


def request_ops(ack: bool) -> list[Op]:
    twice = (ValueError,)  # the other call of a pair has replied
    replies = [
        Op("reply", f"reply({size} bytes{', ' if named else ''}{named or ''})", reply(size, **named), raises=twice)
        for size in (0, SMALL, LARGE)
        for named in ({}, {"timeout": 5}, {"timeout": Seconds(5)})
    ]
    return message_ops(ack, tuple(replies))


def ask(size: int, **named: Any) -> Callable[[Stage, Turn], Callable[[], Any]]:
    def make(stage: Stage, turn: Turn) -> Callable[[], Any]:
        data = turn.facts["asked"] = stage.world.payload(size)
        return partial(stage.peer.ask, "echo", data, **named)

    return make


def check_reply(stage: Stage, turn: Turn) -> None:
    for message in turn.outcome.values:
        view = message.view()
        expect(bytes(view) == turn.facts["asked"], f"the reply shows {brief(bytes(view))}")
        expect(message.sender == "echo", f"the reply comes from {message.sender!r}")
        stage.world.returned("the view of a reply", view, turn.facts["asked"])


def finish_asking(stage: Stage, turns: list[Turn]) -> None:
    """What was struck shows whether it was sent."""
    world = stage.world
    world.bob.ask("echo", b"settled", timeout=10)
    for turn in turns:
        out, asked = turn.outcome, turn.facts.get("asked") in world.asked
        if turn.facts.get("asked") and out.struck is not None and not out.values and not out.at_end:
            expect(was_sent(out) == asked, f"it says that {was_sent(out)} were sent, and the server has it: {asked}")
    finish_peer(stage, turns)


def asking() -> list[Op]:
    return [
        *(
            Op("ask", f"ask({size} bytes, {timeout})", ask(size, timeout=timeout), check=check_reply)
            for size in (0, SMALL, LARGE)
            for timeout in (None, 20, Seconds(20))
        ),
        Op("ask", "ask(timeout=0)", ask(SMALL, timeout=0), raises=(busq.Empty,), check=check_reply),
        Op("ask", "ask nobody", lambda s, t: partial(s.peer.ask, "nobody", b""), raises=(busq.UnknownPeer,)),
    ]


# ---- peers ----


class Seconds(float):
    """A float of a class of its own."""

    def __repr__(self) -> str:
        return f"Seconds({super().__repr__()})"


class Instant(int):
    """The same for an int."""

    def __repr__(self) -> str:
        return f"Instant({super().__repr__()})"


def recv(*arguments: Any, **named: Any) -> Callable[[Stage, Turn], Callable[[], Any]]:
    return lambda stage, turn: partial(stage.peer.recv, *arguments, **named)


def recv_many(*arguments: Any, **named: Any) -> Callable[[Stage, Turn], Callable[[], Any]]:
    return lambda stage, turn: partial(stage.peer.recv_many, *arguments, **named)


def iterate(stage: Stage, turn: Turn) -> Callable[[], Any]:
    return partial(next, iter(stage.peer))


def receiving(can_ack: bool) -> list[Op]:
    """Where there are messages."""
    timeouts: list[Any] = [0, None, 5.0, math.inf, 1e9, Seconds(5), Instant(0)]
    ops = []
    for timeout in timeouts:
        missing = (busq.Empty,) if timeout == 0 and not can_ack else ()  # packets may still be on their way
        ops += [
            Op("recv", f"recv({timeout})", recv(timeout), takes=1, raises=missing),
            Op("recv_many", f"recv_many(3, {timeout})", recv_many(3, timeout), takes=3, raises=missing),
        ]
    ops += [
        Op("recv_many", "recv_many(9)", recv_many(9), takes=9),
        Op("recv_many", "recv_many(True)", recv_many(True), takes=1),
        Op("__iter__", "next(iter())", iterate, takes=1),
    ]
    if can_ack:
        for timeout in (0, math.inf):
            ops += [
                Op("recv", f"recv({timeout}, ack=True)", recv(timeout, ack=True), takes=1, ack=True),
                Op(
                    "recv_many",
                    f"recv_many(3, {timeout}, ack=True)",
                    recv_many(3, timeout, ack=True),
                    takes=3,
                    ack=True,
                ),
            ]
    return ops


def missing() -> list[Op]:
    """Where there are none."""
    return [
        Op(name, f"{name}({', '.join(map(str, arguments))}), nothing there", call(*arguments), raises=(busq.Empty,))
        for timeout in (0, 0.001, Seconds(0.001))
        for name, call, arguments in (("recv", recv, (timeout,)), ("recv_many", recv_many, (3, timeout)))
    ]


def send(
    to: list[str], size: int, wrap: Callable[[bytes], Any] = bytes, *, forget: bool = False, **named: Any
) -> Callable[[Stage, Turn], Callable[[], Any]]:
    def make(stage: Stage, turn: Turn) -> Callable[[], Any]:
        data = stage.world.payload(size)
        turn.sends = [(to, data)]
        if forget:
            turn.before = partial(forget_names, stage.peer)
        return partial(stage.peer.send, to[0] if len(to) == 1 else to, wrap(data), **named)

    return make


def forget_names(peer: Any) -> None:
    for known in ("_targets", "_numbers"):
        getattr(peer, known, {}).clear()


def send_many(
    to: list[list[str]], wrap: Callable[[Any], Any] = list, *, forget: bool = False, **named: Any
) -> Callable[[Stage, Turn], Callable[[], Any]]:
    def make(stage: Stage, turn: Turn) -> Callable[[], Any]:
        pairs = [(names, stage.world.payload(SMALL)) for names in to]
        turn.sends = pairs
        if forget:
            turn.before = partial(forget_names, stage.peer)
        return partial(stage.peer.send_many, wrap(pairs), **named)

    return make


def sending(others: list[str]) -> list[Op]:
    a, *more = others
    both = [a, *more[:1]]
    stops = (busq.BusqError, TypeError, ValueError)
    ops = [
        Op("send", f"send({size} bytes to {len(to)}{', forgotten' if forget else ''})", send(to, size, forget=forget))
        for size in (0, SMALL, LARGE)
        for to in ([a], both)
        for forget in (False, True)
    ]
    ops += [
        Op("send", "send(bytearray)", send([a], SMALL, bytearray)),
        Op("send", "send(memoryview)", send(both, LARGE, memoryview)),
        Op("send", "send(timeout=inf)", send([a], SMALL, timeout=math.inf)),
        Op("send", "send(timeout=0)", send([a], LARGE, timeout=0), raises=(busq.Unfinished,)),
        Op("send", "send to a generator", lambda stage, turn: send_to_generator(stage, turn, both)),
        Op("send", "send to nobody", lambda stage, turn: partial(stage.peer.send, "nobody", b""), raises=stops),
        Op("send", "send(str)", lambda stage, turn: partial(stage.peer.send, a, "text"), raises=stops),
        Op("send_many", "send_many(list)", send_many([[a], both, [a]])),
        Op("send_many", "send_many(iterator)", send_many([[a], both, [a]], iter, timeout=1)),
        *(
            Op(
                "send_many",
                f"send_many, the third to nobody{', forgotten' if forget else ''}",
                send_many([[a], both, ["nobody"], [a]], forget=forget),
                raises=stops,
            )
            for forget in (False, True)
        ),
    ]
    return ops


def send_to_generator(stage: Stage, turn: Turn, to: list[str]) -> Callable[[], Any]:
    data = stage.world.payload(SMALL)
    turn.sends = [(to, data)]
    return partial(stage.peer.send, iter(to), data)


def send_wide(method: str, count: int, **named: Any) -> Callable[[Stage, Turn], Callable[[], Any]]:
    """To a group of several machines, of which bob is a member."""

    def make(stage: Stage, turn: Turn) -> Callable[[], Any]:
        messages = [stage.world.payload(SMALL) for _ in range(count)]
        turn.sends = [(["bob"], data) for data in messages]
        if method == "send":
            return partial(stage.peer.send, GROUP, *messages, **named)
        return partial(stage.peer.send_many, [(GROUP, data) for data in messages], **named)

    return make


def sending_beyond() -> list[Op]:
    return [
        Op("send", "send() to a wide group", send_wide("send", 1), is_wide=True),
        Op("send", "send(timeout=10) to a wide group", send_wide("send", 1, timeout=10), is_wide=True),
        Op("send_many", "send_many() to a wide group", send_wide("send_many", 3), is_wide=True),
        Op("sync", "sync()", of_peer("sync", GROUP)),
    ]


def looking() -> list[Op]:
    """Calls that only look."""
    return [
        Op(
            "name",
            "name",
            lambda stage, turn: partial(getattr, stage.peer, "name"),
            check=lambda s, t: returns(s.who)(s, t),
        ),
        Op("bus", "bus", lambda stage, turn: partial(getattr, stage.peer, "bus")),
        Op("nodes", "nodes", lambda stage, turn: partial(getattr, stage.peer, "nodes")),
        Op("handles", "handles", lambda stage, turn: partial(getattr, stage.peer, "handles")),
        Op("view", "view() of no group", of_peer("view", "nobody"), raises=(ValueError, busq.UnknownPeer)),
        Op("sync", "sync() of no wide group", of_peer("sync", "@nobody"), raises=(ValueError, busq.UnknownPeer)),
        *(
            Op(name, f"{name}() that changes nothing", of_peer(name, argument), raises=(ValueError,))
            for name, argument in (("enter", "a/b"), ("watch", "a/b"), ("leave", "nobody"), ("unwatch", "nobody"))
        ),
        Op("__repr__", "repr()", lambda stage, turn: partial(repr, stage.peer)),
        Op("__enter__", "with", lambda stage, turn: stage.peer.__enter__),
        Op("__reduce__", "pickle.dumps()", lambda stage, turn: partial(pickle.dumps, stage.peer), raises=(TypeError,)),
    ]


def ready_peer(sizes: tuple[int, ...], world: Any) -> Stage:
    for _ in range(len(sizes) - world.n_left("bob")):
        world.put("alice", ["bob"], sizes[world.n_put % len(sizes)])
        world.n_put += 1
    return Stage(world, world.bob, "bob")


def ready_sender(world: Any) -> Stage:
    return Stage(world, world.alice, "alice")


def finish_peer(stage: Stage, turns: list[Turn]) -> None:
    stage.obj = None


def ready_full(world: Any) -> Stage:
    with contextlib.suppress(busq.Full):
        while True:
            data = world.payload(SMALL)
            world.alice.send("carol", data, timeout=0)
            world.sent(["carol"], data)
    return Stage(world, world.bob, "bob")


def to_a_full_queue() -> list[Op]:
    full = (busq.Full,)
    return [
        Op("send", f"send(timeout={timeout}) to {len(to)}, full", send(to, SMALL, timeout=timeout), raises=full)
        for timeout in (0, 0.001, Seconds(0))
        for to in (["carol"], ["alice", "carol"])
    ] + [
        Op(
            "send_many",
            f"send_many({wrap.__name__}, timeout={timeout}), full",
            send_many([["alice"], ["alice"], ["carol"], ["alice"]], wrap, timeout=timeout),
            raises=full,
        )
        for timeout in (0, 0.001)
        for wrap in (list, iter)
    ]


# ---- peers that come and go ----


def ready_fresh(world: Any) -> Stage:
    facts = {"descriptors": n_descriptors(), "mappings": n_mappings()}
    world.peers["dave"] = world.bus.join("dave")
    world.owed["dave"] = []
    for size in (LARGE, SMALL, 0, LARGE):
        world.put("alice", ["dave"], size)
    return Stage(world, world.dave, "dave", facts=facts)


def finish_fresh(stage: Stage, turns: list[Turn]) -> None:
    world, stage.obj = stage.world, None
    if not any(turn.op.ends for turn in turns):
        world.drain("dave")
        world.put("dave", ["dave"], SMALL)  # others would keep the way to wake it open
        world.drain("dave")
    peer = world.peers.pop("dave")
    del world.owed["dave"]
    for turn in turns:
        turn.call = None
        turn.facts.clear()
        turn.outcome.values.clear()
    world.check_views()  # closed or not, a view shows what it showed
    peer.close()
    try:
        peer.recv(timeout=0)
        raise Fault("a closed peer receives")
    except busq.ShutDown:
        pass
    del peer
    check_gone(stage)
    for name in ("alice", "bob", "carol"):
        core.forget(world.peers[name], "dave")


def check_gone(stage: Stage) -> None:
    """The peer that came and went has left nothing."""
    world, facts = stage.world, stage.facts
    if n_descriptors() > facts["descriptors"] or n_mappings() > facts["mappings"]:
        gc.collect()
    expect("dave" not in world.bus.peers(), "dave is still joined")
    with contextlib.suppress(busq.UnknownPeer):
        world.bus.remove("dave")
    world.bus.collect()
    n, mapped = n_descriptors(), n_mappings()
    # Fewer are no fault: what a scene before this one left to the collector is gone by now.
    expect(n <= facts["descriptors"], f"{n} descriptors are open, {facts['descriptors']} before")
    expect(mapped <= facts["mappings"], f"{mapped} mappings, {facts['mappings']} before")


def check_fileno(stage: Stage, turn: Turn) -> None:
    for number in turn.outcome.values:
        expect(isinstance(number, int) and number >= 0, f"fileno() returned {number!r}")


def of_peer(name: str, *arguments: Any) -> Callable[[Stage, Turn], Callable[[], Any]]:
    return lambda stage, turn: partial(getattr(stage.peer, name), *arguments)


def leaving() -> list[Op]:
    return [
        Op("node", "node()", of_peer("node")),
        Op("fileno", "fileno()", of_peer("fileno"), check=check_fileno),
        Op("close", "close()", of_peer("close"), ends=True),
        Op("__exit__", "end of with", of_peer("__exit__", None, None, None), ends=True),
    ]


# ---- groups, nodes, and peers that are watched ----


class Company:
    """A bus of its own, on which erin is in two groups, and erin and dave each have a node of the other's."""

    def __init__(self, name: str) -> None:
        self.bus = busq.Bus.create(name, **BUS_SIZES)
        self.dave, self.erin = self.bus.join("dave", watch=["frank"]), self.bus.join("erin")
        self.heard: dict[str, list[Any]] = {"dave": [], "erin": []}
        self.states = {"dave": b"", "erin": b"the state"}
        for group in ("g", "h", "k"):
            self.erin.enter(group)
        self.dave.enter("h")
        self.dave.enter("k")
        self.given_away: list[Any] = []
        self.enter_with_state(self.erin)
        self.node, self.other = self.dave.node(), self.erin.node()
        self.dave.send("erin", b"a node", handles=[self.node.handle])
        self.erin.send("dave", b"a node", handles=[self.other.handle])
        self.hear()
        self.theirs, self.handle = (
            next(message.handles[0] for message in self.heard[name] if message.handles) for name in ("erin", "dave")
        )
        self.heard = {"dave": [], "erin": []}

    def enter_with_state(self, peer: Any) -> None:
        peer.enter("s", **self.given(peer))

    def given(self, peer: Any) -> dict[str, Any]:
        def take(state: bytes) -> None:
            self.states[peer.name] = state

        return {"state": lambda: self.states[peer.name], "take": take}

    def hear(self) -> None:
        """Receive what is there, and what comes of that."""
        n_idle = 0
        while n_idle < 2:
            before = sum(map(len, self.heard.values()))
            for peer in (self.erin, self.dave):
                with contextlib.suppress(busq.Empty):
                    while True:
                        self.heard[peer.name].append(peer.recv(timeout=0))
            n_idle = n_idle + 1 if sum(map(len, self.heard.values())) == before else 0

    def settle(self) -> None:
        """Do what the calls do, each once more: whatever became of them, that is then done, once."""
        self.dave.enter("g")
        self.dave.leave("h")
        self.dave.watch("erin")
        self.dave.unwatch("frank")
        self.enter_with_state(self.dave)
        self.node.destroy()
        self.handle.release()
        for _ in range(1000):
            self.hear()
            if self.count("erin", "node_released") and self.states["dave"]:
                break
            gc.collect(0)

    def count(self, name: str, kind: str) -> int:
        return sum(message.kind == kind for message in self.heard[name])

    def check(self) -> None:
        """Everything that was to happen has happened once."""
        for name, heard in self.heard.items():
            for group, members in (("g", ("erin", "dave")), ("h", ("erin",)), ("s", ("erin", "dave"))):
                views = [one.view for one in heard if one.kind == "view" and one.group == group]
                numbers = [view.number for view in views]
                expect(len(views) == 1, f"{name} heard the views {numbers} of {group}")
                expect(views[-1].members == members, f"{name} heard that {views[-1].members} are in {group}")
            expect(self.count(name, "node_destroyed") == 1, f"{name} heard of an end {heard}")
        released = [message.node for message in self.heard["erin"] if message.kind == "node_released"]
        expect(released.count(self.other) == 1, f"erin heard of a release {self.heard['erin']}")
        expect(self.count("dave", "joined") == 1, f"dave heard who joined: {self.heard['dave']}")
        expect(self.states["dave"] == b"the state", "dave has no state")

    def check_received(self) -> None:
        """What dave was sent has come once, and is let go of with the message that brought it."""
        heard = self.heard["dave"]
        is_left = self.erin.name not in self.bus.groups()["k"].members
        n_views = sum(message.kind == "view" and message.group == "k" for message in heard)
        expect(n_views == is_left, f"dave heard {n_views} views of k")
        brought = [message for message in heard if message.kind == "data" and message.data == b"another node"]
        alive = [handle for message in brought for handle in message.handles if not handle.is_dead]
        expect(len(brought) == len(alive) == len(self.given_away), f"dave got {brought} with {alive}")
        brought.clear()
        alive.clear()
        heard.clear()
        released: list[Any] = []
        for _ in range(1000):
            released += [one.node for one in self.heard["erin"] if one.kind == "node_released"]
            self.heard["erin"].clear()
            if len(released) > len(self.given_away):
                break
            gc.collect(0)
            self.hear()
        for node in self.given_away:
            expect(released.count(node) == 1, f"erin was told {released.count(node)} times that a node is not held")

    def close(self) -> None:
        for peer in (self.dave, self.erin):
            peer.close()
        name = self.bus.name
        self.bus.close()
        busq.Bus.unlink(name)


def ready_company(world: Any) -> Stage:
    facts = {"descriptors": n_descriptors(), "mappings": n_mappings()}
    return Stage(world, Company(f"scratch-{next(_numbers)}"), "dave", facts=facts)


def finish_company(stage: Stage, turns: list[Turn]) -> None:
    company, stage.obj = stage.obj, None
    for turn in turns:
        if turn.op.method in ("recv", "recv_many"):
            values = turn.outcome.values
            company.heard["dave"] += [
                one for value in values for one in (value if isinstance(value, list) else [value])
            ]
            values.clear()
            del values
    company.settle()
    company.check()
    came = [message.data for message in company.heard["erin"] if message.kind == "data"]
    for turn in turns:
        data = turn.facts.get("data")
        if data is not None and not turn.outcome.at_end:
            was = bool(turn.outcome.values) or says_sent(turn.outcome.struck or turn.outcome.error)
            expect(came.count(data) == was, f"{turn.op.name} came {came.count(data)} times, and says {was}")
    for turn in turns:
        turn.call = None
        turn.facts.clear()
        turn.outcome.values.clear()
    if not any(turn.outcome.at_end for turn in turns):
        company.check_received()
    company.close()
    del company
    check_gone(stage)


def of_company(name: str, *arguments: Any) -> Callable[[Stage, Turn], Callable[[], Any]]:
    return lambda stage, turn: partial(getattr(stage.obj.dave, name), *arguments)


def send_in_company(to: Callable[[Company], Any]) -> Callable[[Stage, Turn], Callable[[], Any]]:
    def make(stage: Stage, turn: Turn) -> Callable[[], Any]:
        turn.facts["data"] = stage.world.payload(SMALL)
        return partial(stage.obj.dave.send, to(stage.obj), turn.facts["data"])

    return make


def receive_in_company(event: Callable[[Company], Any], *call: Any) -> Callable[[Stage, Turn], Callable[[], Any]]:
    def make(stage: Stage, turn: Turn) -> Callable[[], Any]:
        event(stage.obj)
        return partial(getattr(stage.obj.dave, call[0]), *call[1:], timeout=0)

    return make


def leave_it(company: Company) -> None:
    company.erin.leave("k")


def give_a_node(company: Company) -> None:
    company.given_away.append(company.erin.node())
    company.erin.send("dave", b"another node", handles=[company.given_away[-1].handle])


def company_ops() -> list[Op]:
    empty = (busq.Empty,)  # the other call of a pair has it
    return [
        Op("recv", "recv() of a view", receive_in_company(leave_it, "recv"), raises=empty),
        Op("recv_many", "recv_many() of a view", receive_in_company(leave_it, "recv_many", 5), raises=empty),
        Op("recv", "recv() of a handle", receive_in_company(give_a_node, "recv"), raises=empty),
        Op("recv_many", "recv_many() of a handle", receive_in_company(give_a_node, "recv_many", 5), raises=empty),
        Op("enter", "enter()", of_company("enter", "g")),
        Op("enter", "enter(state)", lambda s, t: partial(s.obj.dave.enter, "s", **s.obj.given(s.obj.dave))),
        Op("leave", "leave()", of_company("leave", "h")),
        Op("watch", "watch()", of_company("watch", "erin")),
        Op("unwatch", "unwatch()", of_company("unwatch", "frank")),
        Op("view", "view()", of_company("view", "g")),
        Op("send", "send() to a group", send_in_company(lambda company: "@g")),
        Op("send", "send() to a handle", send_in_company(lambda company: company.handle), raises=(ValueError,)),
        Op("destroy", "destroy()", lambda stage, turn: stage.obj.node.destroy),
        Op("release", "release()", lambda stage, turn: stage.obj.handle.release),
        Op("handles", "handles", lambda stage, turn: partial(getattr, stage.obj.dave, "handles")),
        Op("nodes", "nodes", lambda stage, turn: partial(getattr, stage.obj.dave, "nodes")),
    ]


# ---- buses ----


def ready_handle(world: Any) -> Stage:
    facts = {"descriptors": n_descriptors(), "mappings": n_mappings(), "scratch": f"scratch-{next(_numbers)}"}
    return Stage(world, busq.Bus.open(world.bus.name), facts=facts)


def close_values(turns: list[Turn], keep: Any = None) -> None:
    """Use what calls returned, and let go of it."""
    values = [value for turn in turns for value in turn.outcome.values if value is not keep]
    is_ended = any(turn.op.ends for turn in turns)
    for turn in turns:
        turn.call = None
        turn.facts.clear()
        turn.outcome.values.clear()
    for value in values:
        if isinstance(value, Bus1Peer):
            with contextlib.suppress(busq.ShutDown) if is_ended else contextlib.nullcontext():
                check_joined(value)
        elif isinstance(value, busq.Bus) and not is_ended:
            value.stats()
    while values:
        value = values.pop()
        if hasattr(value, "close"):
            value.close()
        del value


def finish_handle(stage: Stage, turns: list[Turn]) -> None:
    """Whatever came of it can be closed, and what was created can be opened, or is not there at all."""
    world, stage.obj = stage.world, None
    close_values(turns)
    gc.collect(0)
    with contextlib.suppress(FileNotFoundError):
        busq.Bus.open(stage.facts["scratch"]).close()
        busq.Bus.unlink(stage.facts["scratch"])
    check_gone(stage)
    with world.bus.join("dave"):  # which could not come back if another one still had the name
        pass
    world.bus.remove("dave")
    for name in ("alice", "bob", "carol"):
        core.forget(world.peers[name], "dave")


def check_joined(peer: Any) -> None:
    peer.send(peer.name, b"hello", timeout=0)
    found = [message.data for message in peer.recv_many(9, timeout=5)]  # the first, where it took over a queue
    expect(found[-1] == b"hello", f"a peer that joined received {found}")


def scratch(function: str, existing: bool = False, **named: Any) -> Callable[[Stage, Turn], Callable[[], Any]]:
    def make(stage: Stage, turn: Turn) -> Callable[[], Any]:
        name = stage.facts["scratch"]
        if existing:
            busq.Bus.create(name, **(BUS_SIZES | {"exist_ok": True})).close()
        return partial(getattr(busq.Bus, function), name, **named)

    return make


def leave_a_durable_peer(stage: Stage) -> None:
    with contextlib.suppress(busq.PeerExists):  # the other call of a pair got the same error
        stage.obj.join("dave", durable=True).close()


def remove(stage: Stage, turn: Turn) -> Callable[[], Any]:
    leave_a_durable_peer(stage)
    return partial(stage.obj.remove, "dave")


def resume(stage: Stage, turn: Turn) -> Callable[[], Any]:
    leave_a_durable_peer(stage)
    return partial(stage.obj.join, "dave", resume=True)


def reopen(stage: Stage, turn: Turn) -> Callable[[], Any]:
    return partial(pickle.loads, pickle.dumps(stage.world.bus))


CLOSED = (busq.ShutDown,)


def bus_ops() -> list[Op]:
    there = (FileExistsError,)
    return [
        Op("create", "create()", scratch("create", **BUS_SIZES), raises=there),
        Op("create", "create() of one that is there", scratch("create", existing=True, **BUS_SIZES), raises=there),
        Op(
            "create",
            "create(exist_ok=True)",
            scratch("create", existing=True, exist_ok=True, **BUS_SIZES),
            raises=there,
        ),
        Op("open", "open()", scratch("open", existing=True), raises=there),
        Op("open", "open() of none", scratch("open"), raises=(FileNotFoundError,)),
        Op("unlink", "unlink()", scratch("unlink", existing=True), raises=(FileNotFoundError, *there)),
        Op("name", "name", attribute("name")),
        Op("order", "order", attribute("order"), check=returns("bus1")),
        Op("join", "join()", method("join", "dave")),
        Op("join", "join(durable=True)", method("join", "dave", durable=True)),
        Op("join", "join(resume=True)", resume),
        Op("join", "join() of one who is there", method("join", "bob"), raises=(busq.PeerExists,)),
        Op("create_queue", "create_queue()", method("create_queue", "dave"), raises=(ValueError, busq.PeerExists)),
        Op("peek", "peek()", method("peek", "bob"), raises=(busq.UnknownPeer,)),
        Op("peers", "peers()", method("peers")),
        Op("wait_for", "wait_for()", method("wait_for", ["alice", "bob"], 0.05), raises=(busq.Empty, busq.PeerDead)),
        Op("wait_for", "wait_for() of one who does not come", method("wait_for", "erin", 0.005), raises=(busq.Empty,)),
        Op("stats", "stats()", method("stats")),
        Op("groups", "groups()", method("groups")),
        Op("remove", "remove()", remove),
        Op("repair", "repair()", method("repair")),
        Op("collect", "collect()", method("collect")),
        Op("close", "close()", method("close"), ends=True),
        Op("__enter__", "with", method("__enter__")),
        Op("__exit__", "end of with", method("__exit__", None, None, None), ends=True),
        Op("__repr__", "repr()", lambda stage, turn: partial(repr, stage.obj)),
        Op("__reduce__", "pickle.dumps()", lambda stage, turn: partial(pickle.dumps, stage.obj)),
        Op("__reduce__", "pickle.loads()", reopen),
        Op("__del__", "del", drop, ends=True),
    ]


def ready_own_bus(world: Any) -> Stage:
    stage = ready_handle(world)
    stage.obj = busq.Bus.create(stage.facts["scratch"], **BUS_SIZES)
    return stage


def shutting_down() -> list[Op]:
    return [Op("shutdown", "shutdown()", method("shutdown"), ends=True)]


# ---- peers of other orders ----


def ready_ordered_message(size: int, world: Any) -> Stage:
    return ready_message(size, False, world)


def ordered_message_ops() -> list[Op]:
    extra = (
        Op("message", "message", attribute("message")),
        Op("handles", "handles", attribute("handles"), check=returns(())),
        Op("reply", "reply() to a message", method("reply", b""), raises=(ValueError,)),
    )
    return message_ops(False, extra)


def ordered_looking() -> list[Op]:
    return [
        *looking(),
        Op("order_stats", "order_stats()", of_peer("order_stats")),
        Op("node", "node()", of_peer("node"), raises=(ValueError,)),
        Op("ask", "ask()", of_peer("ask", "alice", b""), raises=(ValueError,)),
        Op("reserve", "reserve()", of_peer("reserve", 5), raises=(ValueError,)),
        Op("send_object", "send_object()", of_peer("send_object", "alice", 5), raises=(ValueError,)),
        Op("fileno", "fileno()", of_peer("fileno"), check=check_fileno),
    ]


def ready_ordered_bus(order: str, world: Any) -> Stage:
    """A whole bus of that order, for peers that join it and leave it."""
    facts = {"descriptors": n_descriptors(), "mappings": n_mappings(), "scratch": f"scratch-{next(_numbers)}"}
    bus = busq.Bus.create(facts["scratch"], order=order, **(BUS_SIZES | {"peers": 2}))
    stage = Stage(world, bus, "dave", facts=facts)
    world.peers["dave"] = bus.join("dave")
    return stage


def ready_ordered_member(order: str, world: Any) -> Stage:
    """The same with messages to receive."""
    stage = ready_ordered_bus(order, world)
    for size in (LARGE, SMALL, 0, LARGE):
        world.put("dave", ["dave"], size)
    return stage


def finish_ordered_bus(stage: Stage, turns: list[Turn]) -> None:
    world, bus, stage.obj = stage.world, stage.obj, None
    world.check_views()
    world.peers.pop("dave").close()
    world.owed.pop("dave", None)
    close_values(turns, bus)
    gc.collect(0)
    if "erin" in bus.peers():
        gc.collect()
    expect("erin" not in bus.peers(), "erin is still joined")
    busq.Bus.unlink(bus.name)
    bus.close()
    del bus
    if n_descriptors() != stage.facts["descriptors"]:
        gc.collect()
    check_gone(stage)


def ordered_leaving() -> list[Op]:
    return [
        Op("close", "close()", of_peer("close"), ends=True),
        Op("__exit__", "end of with", of_peer("__exit__", None, None, None), ends=True),
        Op("join", "join()", method("join", "erin")),
    ]


# ---- recording ----


def ready_recorder(world: Any) -> Stage:
    """A bus of its own: a peer that was recorded keeps the rings open until it leaves."""
    from busq.trace import Recorder

    stage = Stage(world, facts={"descriptors": n_descriptors(), "mappings": n_mappings(), "class": Recorder})
    stage.facts["directory"] = tempfile.mkdtemp(dir=os.environ["BUSQ_DIR"])
    stage.obj = busq.Bus.create(f"scratch-{next(_numbers)}", **BUS_SIZES)
    return stage


def finish_recorder(stage: Stage, turns: list[Turn]) -> None:
    """No recorder is left, and another one can begin."""
    bus, stage.obj = stage.obj, None
    if recorder := stage.facts.pop("recorder", None):
        recorder.close()
    if any(turn.outcome.struck is not None for turn in turns):
        # A recorder that was struck before its caller had it goes on: its threads hold it.  That is not judged here.
        for recorder in [one for one in gc.get_objects() if type(one) is stage.facts["class"]]:
            recorder.close()
    del recorder
    close_values(turns)
    gc.collect()
    with tempfile.TemporaryDirectory() as directory, stage.facts["class"](bus, directory) as recorder:
        with bus.join("erin") as erin:
            erin.send("erin", b"hello")
            expect(erin.recv(timeout=5).data == b"hello", "a peer that is recorded receives something else")
        del erin
    expect(recorder.recording.rows == 4, f"{recorder.recording.rows} rows were recorded instead of 4")
    del recorder
    shutil.rmtree(stage.facts["directory"])
    busq.Bus.unlink(bus.name)
    bus.close()
    del bus
    check_gone(stage)


def open_recorder(stage: Stage) -> Any:
    if "recorder" not in stage.facts:
        stage.facts["recorder"] = stage.facts["class"](stage.obj, stage.facts["directory"])
    return stage.facts["recorder"]


def recorder_ops() -> list[Op]:
    return [
        Op("__init__", "Recorder()", lambda s, t: partial(s.facts["class"], s.obj, s.facts["directory"])),
        Op("close", "close()", lambda s, t: open_recorder(s).close),
        Op("__enter__", "with", lambda s, t: open_recorder(s).__enter__),
        Op("__exit__", "end of with", lambda s, t: partial(open_recorder(s).__exit__, None, None, None)),
        Op("failure", "failure", lambda s, t: partial(getattr, open_recorder(s), "failure"), check=returns(None)),
        Op("record", "record()", lambda s, t: record_call(s)),
    ]


def record_call(stage: Stage) -> Callable[[], Any]:
    from busq.trace import record

    return partial(record, stage.obj, stage.facts["directory"], seconds=0.0)


# ---- calls that wait ----


def ready_for_a_message(size: int, world: Any) -> Stage:
    """Another peer sends a message while the call waits for it."""
    data = world.payload(size)
    world.sent(["bob"], data)
    return Stage(world, world.bob, "bob", meanwhile=partial(world.alice.send, "bob", data))


def ready_for_room(world: Any) -> Stage:
    """Another peer receives a message while the call waits for room."""
    stage = ready_full(world)

    def make_room() -> None:
        stage.facts["got"] = world.carol.recv(timeout=0).data

    stage.meanwhile = make_room
    return stage


def finish_room(stage: Stage, turns: list[Turn]) -> None:
    stage.obj = None
    if "got" in stage.facts:
        expect(stage.world.owed["carol"].pop(0) == stage.facts["got"], "carol received another message")


def waiting_for_a_message(can_ack: bool) -> list[Op]:
    patient: list[Any] = [None, 20, math.inf, 1e9, Seconds(20)]
    ops = [Op("recv", f"recv({timeout})", recv(timeout), takes=1) for timeout in patient]
    ops += [Op("recv_many", f"recv_many(3, {timeout})", recv_many(3, timeout), takes=3) for timeout in patient]
    ops += [Op("__iter__", "next(iter())", iterate, takes=1)]
    if can_ack:
        ops += [
            Op("recv", "recv(ack=True)", recv(ack=True), takes=1, ack=True),
            Op("recv", "recv(inf, ack=True)", recv(math.inf, ack=True), takes=1, ack=True),
            Op("recv_many", "recv_many(3, ack=True)", recv_many(3, ack=True), takes=3, ack=True),
        ]
    return ops


def waiting_for_room() -> list[Op]:
    return [
        *(
            Op("send", f"send(timeout={t}) to {len(to)}", send(to, SMALL, timeout=t))
            for t in (None, 20, math.inf)
            for to in (["carol"], ["alice", "carol"])
        ),
        *(
            Op("send_many", f"send_many({wrap.__name__})", send_many([["alice"], ["carol"]], wrap))
            for wrap in (list, iter)
        ),
    ]


# ---- all of them ----


def kinds_of_bus1() -> Iterator[Kind]:
    for size in (0, SMALL, LARGE):
        for ack in (False, True):
            name = f"a message of {size} bytes{', to be acknowledged' if ack else ''}"
            yield Kind("Message", name, partial(ready_message, size, ack), message_ops(ack), finish_message)
    for size in (SMALL, LARGE):
        for ack in (False, True):
            name = f"an object of {size} bytes{', to be acknowledged' if ack else ''}"
            yield Kind("Message", name, partial(ready_object, size, ack), object_ops(ack), finish_message)
        yield Kind("Draft", f"a draft of {size} bytes", partial(ready_draft, size), draft_ops(), finish_draft)
    for size in (SMALL, LARGE):
        yield Kind("memoryview", f"a view of {size} bytes", partial(ready_view, size), view_ops(), finish_view)
    ready = partial(ready_peer, (LARGE, SMALL, 0, LARGE))
    staying = [*looking(), *sending(["alice", "carol"]), *writing()]
    yield Kind("Peer", "a peer with messages", ready, [*receiving(True), *staying], finish_peer)
    yield Kind("Peer", "a peer without messages", partial(ready_peer, ()), missing(), finish_peer)
    yield Kind("Peer", "a peer before a full queue", ready_full, to_a_full_queue(), finish_peer)
    yield Kind("Peer", "a peer that leaves", ready_fresh, leaving(), finish_fresh, weight=30)
    for size in (0, SMALL, LARGE):
        for ack in (False, True):
            name = f"a request of {size} bytes{', to be acknowledged' if ack else ''}"
            ready = partial(ready_request, size, ack)
            yield Kind("Message", name, ready, request_ops(ack), finish_request, AskWorld)
    yield Kind("Peer", "a peer that asks", partial(ready_peer, ()), asking(), finish_asking, AskWorld)
    first = [op for op in asking() if "None" in op.name]
    yield Kind("Peer", "a peer that asks first and leaves", ready_fresh, first, finish_fresh, AskWorld, weight=30)
    both = [*receiving(False), *staying, *first, *leaving()]
    yield Kind("Peer", "a peer that may leave", ready_fresh, both, finish_fresh, AskWorld, weight=30, for_pairs=True)
    yield Kind("Bus", "a handle of a bus", ready_handle, bus_ops(), finish_handle, weight=40)
    yield Kind("Bus", "a bus that ends", ready_own_bus, shutting_down(), finish_handle, weight=40)
    both = [*bus_ops(), *shutting_down()]
    yield Kind("Bus", "a bus that may end", ready_own_bus, both, finish_handle, weight=40, for_pairs=True)
    for size in (SMALL, LARGE):
        ready = partial(ready_for_a_message, size)
        ops = waiting_for_a_message(True)
        yield Kind("Peer", f"a peer that waits for {size} bytes", ready, ops, finish_peer, waits=True)
    name = "a peer that sends to a wide group"
    yield Kind("Peer", name, ready_sender, sending_beyond(), finish_peer, WideWorld, weight=20)
    yield Kind("Peer", "a peer in company", ready_company, company_ops(), finish_company, weight=60)
    yield Kind("Peer", "a peer that waits for room", ready_for_room, waiting_for_room(), finish_room, waits=True)


def kinds_of_order(order: str) -> Iterator[Kind]:
    world = partial(OrderedWorld, order)
    for size in (0, SMALL, LARGE):
        name, ready = f"a message of {size} bytes under {order}", partial(ready_ordered_message, size)
        yield Kind("OrderedMessage", name, ready, ordered_message_ops(), finish_message, world)
    yield Kind("memoryview", f"a view under {order}", partial(ready_view, LARGE), view_ops(), finish_view, world)
    ready = partial(ready_peer, (LARGE, SMALL, 0, LARGE))
    ops = [*receiving(False), *sending(["alice", "bob"]), *refusing(), *ordered_looking()]
    yield Kind("OrderedPeer", f"a peer with messages under {order}", ready, ops, finish_peer, world, weight=3)
    ready = partial(ready_peer, ())
    yield Kind("OrderedPeer", f"a peer without messages under {order}", ready, missing(), finish_peer, world)
    ready = partial(ready_for_a_message, LARGE)
    ops = waiting_for_a_message(False)
    yield Kind("OrderedPeer", f"a peer that waits under {order}", ready, ops, finish_peer, world, waits=True)
    name, ready = f"a peer that joins or leaves under {order}", partial(ready_ordered_bus, order)
    yield Kind("OrderedPeer", name, ready, ordered_leaving(), finish_ordered_bus, weight=100)
    if order in NEEDS_NOBODY:
        ready = partial(ready_ordered_member, order)
        ops = [*receiving(False), *sending(["dave"]), *ordered_looking(), *ordered_leaving()]
        name = f"a peer that may leave under {order}"
        yield Kind("OrderedPeer", name, ready, ops, finish_ordered_bus, weight=100, for_pairs=True)


def kinds_of_recording() -> Iterator[Kind]:
    yield Kind("Recorder", "a recorder", ready_recorder, recorder_ops(), finish_recorder, weight=1000)
