# SPDX-License-Identifier: Apache-2.0
"""The rows of the table: what busq can do, each as a way to give and take one unit, or as a mode of the taker.

A new feature is one class here, and its row of verdicts in `expected.py`.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

from crossings.ledger import Unit, expect
from crossings.session import PATIENCE_S, Giver, Session, Taker, parse

import busq

FEATURES: dict[str, type[Feature]] = {}


class Feature:
    """One row."""

    name: ClassVar[str] = ""
    says: ClassVar[str] = ""  # what one unit of work is, for readers of the table

    is_way = True  # otherwise a mode, of whatever is given
    has_own_inbox = False
    inboxes: tuple[str, ...] = ("taker",)  # each gets every unit
    per_work = 1
    tells = True  # an exception from outside, in a call, has the attribute `sent`
    join: ClassVar[dict[str, Any]] = {}  # as a mode: how the taker joins
    join_of_taker: ClassVar[dict[str, Any]] = {}  # as a way
    ack = False
    codec: Any = None
    is_answered = False  # a call that gives returns when the taker has taken, and answered
    has_members = False  # what is given while the taker is no member does not come to it
    outlives_giver = True  # what was given is in shared memory
    lost_by_kill = 1  # units that a taker may have in its hand
    doubled_by_kill = 0  # units that come again without a mark, since there are none

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.name:
            FEATURES[cls.name] = cls

    def begin(self, session: Session) -> None:
        """Make what belongs to the session as a whole."""

    def end(self) -> None:
        """Let go of what `begin` has made."""

    # ---- the giver ----

    def open_giver(self, giver: Giver) -> None:
        """Begin on the side that gives."""

    def prepare_giver(self, giver: Giver, meanwhile: Callable[[], Any]) -> None:
        """Get what giving needs, before the first unit."""

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        """Return what gives the units when it is called: best a method of busq, with nothing around it."""
        raise NotImplementedError

    def check_given(self, giver: Giver, units: list[Unit], result: Any) -> None:
        """Check what the call has returned."""

    def settle(self, giver: Giver) -> None:
        """Receive what has come back."""

    def close_giver_under(self, giver: Giver) -> None:
        """Close what gives, before it gives once more."""
        giver.close()

    def close_giver(self, giver: Giver) -> None:
        """End what the giver has beside its peer."""

    # ---- the taker ----

    def open_taker(self, taker: Taker, resume: bool) -> Any:
        """Begin on the side that takes; return an inbox of its own, if it has one."""

    def close_under(self, taker: Taker) -> None:
        """Close what a thread waits in."""
        taker.close()

    def read(self, taker: Taker, message: Any) -> list[Unit] | None:
        """Return the units of a message, or None if it belongs to another feature."""
        unit = parse(message.data, self) if message.kind == "data" else None
        return None if unit is None else [unit]


# ---- ways to send ----


class Plain(Feature):
    name = "plain"
    says = "`send` to a name, `recv`"

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        return functools.partial(giver.peer.send, "taker", giver.data(self, units[0]), timeout=timeout)


class Group(Feature):
    name = "group"
    says = "`send` to a group of two"
    inboxes = ("group:taker", "group:witness")
    has_members = True

    def call(self, giver: Giver, units: list[Unit], timeout: float | None) -> Callable[[], Any]:
        return functools.partial(giver.peer.send, f"@{self.name}", giver.data(self, units[0]), timeout=timeout)

    def open_taker(self, taker: Taker, resume: bool) -> Any:
        taker.peer.enter(self.name, timeout=PATIENCE_S)

    def read(self, taker: Taker, message: Any) -> list[Unit] | None:
        if message.kind == "view" and message.group == self.name:
            return []
        return super().read(taker, message)


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


# ---- what has an inbox of its own ----


class Queue(Feature):
    name = "queue"
    says = "`put` and `get` of a `busq.Queue`"
    has_own_inbox = True
    inboxes = ("queue:taker",)
    tells = False
    outlives_giver = False

    def begin(self, session: Session) -> None:
        self.queue = self.make(session)

    def make(self, session: Session) -> Any:
        return busq.Queue(bus=session.bus)

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
        obj = (*units[0], bytes(giver.session.size))
        return functools.partial(self.queue.put, obj, True, timeout)

    def open_taker(self, taker: Taker, resume: bool) -> Any:
        self.reopen()
        return QueueInbox(taker, self)


class QueueInbox:
    def __init__(self, taker: Taker, way: Queue) -> None:
        self._taker, self._way = taker, way

    def take(self, timeout: float | None) -> int:
        box: list[Any] = []
        try:
            self._taker.session.window.call(functools.partial(self._way.queue.get, True, timeout), box)
        finally:
            for giver, number, _ in box:
                self._taker.took(self._way.inboxes[0], Unit(giver, number), False)
        return 1

    def close(self) -> None:
        """A queue is closed by its last user, when nothing needs it any more."""


def make(*names: str) -> list[Feature]:
    """Return these features, with a plain way to give if none of them is one."""
    found = [FEATURES[name]() for name in names]
    if not any(one.is_way for one in found):
        found.append(Plain())
    expect(len({one.name for one in found}) == len(found), f"twice: {names}")
    return found
