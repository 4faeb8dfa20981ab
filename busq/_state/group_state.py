# SPDX-License-Identifier: Apache-2.0
"""A peer that gives and takes the state of its groups: what `Peer.enter` makes of one that is given `state` and `take`.

It receives as any other does, and looks at what it gets before its owner does: views, and words of the library, which
its owner never sees, go through transfer.py.  No other peer pays for that: a peer becomes one when it first enters a
group so, by another class.

A word of exchange.py is sent as a message of the form BUSQ_FORM_CONTROL, behind the length of the group's name(1) and
the name.  What the application sends to the group is not counted for places: a member that has the state takes it by
the short way, which does not say to which group it belongs.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from busq import errors
from busq._native import ffi, lib
from busq._port import core as _core
from busq._state.chunks import chunk_bytes
from busq._state.exchange import StateExchange
from busq._state.transfer import Deliver

__all__ = ["Stateful", "become"]

_RETRY_NS = 1_000_000


class _Group:
    """One group, whose state is given and taken; the owner of its exchange."""

    def __init__(self, name: str, peer: Any, state: Callable[[], Any], take: Callable[[bytes], object]) -> None:
        self.name = name
        self._peer, self._state, self._take = peer, state, take
        self.exchange = StateExchange(peer._name, name, chunk_bytes(peer._raw_bus()), self)
        self.transfer = self.exchange.transfer
        self.successor: _Group | None = None  # once the view without this peer has come: it has entered again
        self.is_passing = False

    def pass_all(self) -> None:
        """Let everything pass: it stands for a time in which there was no state to give."""
        self.is_passing = self.transfer.has_state = True

    # ---- the owner of the exchange ----

    def give_state(self) -> tuple[dict[str, Any], memoryview]:
        """Return the state of the application."""
        state = self._state()
        try:
            return {}, memoryview(state)
        except TypeError:
            raise _core.wrong_type("what `state` returned", state, "bytes-like: the state as `take` gets it") from None

    def take_state(self, facts: dict[str, Any], state: memoryview, view: Any) -> None:
        """Hand a state to the application, and show it the view that the state stands in."""
        self._take(bytes(state))
        if view is not None:
            self._peer._sorted.append(view[0])

    def begin_anew(self) -> None:
        """Begin with the state that the application has."""

    def deliver(self, item: Any) -> None:
        """Show a message to the groups behind this one."""
        self._peer._pass(item[0], self._peer._states.index(self) + 1, item[1])

    # ---- words ----

    def flush(self, send: Callable[[str, bytes], bool], full: set[str]) -> None:
        """Send the words that there is room for."""
        name = self.name.encode()
        head = bytes([len(name)]) + name
        self.exchange.flush(lambda to, word: send(to, head + word), full)


def _read_word(data: bytes) -> tuple[str, bytes, bytes]:
    """Return the name of the group, the letter, and what belongs to it."""
    begin = 1 + data[0] if data else 0
    return data[1:begin].decode("utf-8", "replace"), data[begin : begin + 1], data[begin + 1 :]


class Stateful:
    """What stands before the receiving methods of a peer.

    A message goes from the core into the inbox, and from there to its owner, or, where it has to be looked at, is
    sorted.  Sorting is done wholly or not at all: an exception in it, of a handler of a signal or of what its owner
    gave, has everything restored, and the message is sorted again by the next call.
    """

    _name: str
    _handle: Any
    _group_names: dict[int, str]
    _raw_bus: Callable[[], Any]
    _turn: Any  # a lock, of all that is here, never held by who waits: it is there before all else
    _wants_control = True

    def _begin(self) -> None:
        self._states: list[_Group] = []
        self._inbox: deque[Any] = deque()  # taken and not looked at
        self._sorted: deque[Any] = deque()  # for the owner
        self._addressed: dict[int, str] = {}  # to which group a message was sent, while a state is awaited
        self._has_more = False  # to be said, as soon as there is room
        self._undo: Callable[[], None] | None = None  # of the message that is sorted
        self._is_sorting = False
        self._row: Any = threading.RLock()  # of those that receive: one of them waits, the others for that one
        self._is_waiting = False

    # ---- receiving ----

    # What is taken is in a list of the caller's until it is handed over: an exception before that gives it back.

    def recv(self, timeout: float | None = None, *, ack: bool = False) -> Any:
        _core.check_ack(ack)
        taken: list[Any] = []
        try:
            self._take_sorted(taken, _core.Deadline(timeout), ack)
            return taken[0]
        except BaseException:
            self._give_back(taken)
            raise

    def recv_many(self, limit: int, timeout: float | None = None, *, ack: bool = False) -> Any:
        _core.check_limit(limit)
        _core.check_ack(ack)
        taken: list[Any] = []
        try:
            self._take_many(taken, limit, _core.Deadline(timeout), ack)
            return taken
        except BaseException:
            self._give_back(taken)
            raise

    def _next(self) -> Any:
        taken: list[Any] = []
        try:
            self._take_sorted(taken, _core.NEVER, False)
            return taken[0]
        except errors.ShutDown:
            raise StopIteration from None
        except BaseException:
            self._give_back(taken)
            raise

    _recv_slow, _recv_many_slow = recv, recv_many  # for the accelerator

    def _take_many(self, taken: list[Any], limit: int, deadline: _core.Deadline, ack: bool) -> None:
        self._take_sorted(taken, deadline, ack)
        try:
            # A state that is given holds what its owner has got: nothing is sorted before it has this.
            while len(taken) < limit:
                self._take_sorted(taken, _core.AT_ONCE, ack, may_sort=False)
        except (errors.Empty, errors.ShutDown):
            pass

    def _take_sorted(self, taken: list[Any], deadline: _core.Deadline, ack: bool, *, may_sort: bool = True) -> None:
        """Take the next message for the owner, to the end of a list; Empty where it would have to be sorted."""
        _check_process(self._handle)
        left_ns = deadline.left_ns()
        try:
            try:
                if not self._row.acquire(timeout=-1 if left_ns < 0 else left_ns / 1e9):
                    raise errors.Empty("nothing came before the timeout")
                while not self._take_what_is_there(taken, ack, may_sort):
                    self._wait(deadline)
            finally:
                self._leave_row()
        finally:  # perhaps a handler of a signal has struck in the other one
            self._leave_row()

    def _leave_row(self) -> None:
        # Whether this thread stands in it, only the lock knows; more than once, where `state` or `take` receives.
        while self._row._is_owned() and not self._is_sorting:
            self._is_waiting = False
            self._row.release()

    def _take_what_is_there(self, taken: list[Any], ack: bool, may_sort: bool) -> bool:
        with self._turn:
            if self._is_sorting:
                raise RuntimeError("`state` and `take` may not receive: they are called by a call that receives")
            self._restore()
            while not self._sorted:
                self._is_waiting = not self._inbox and not self._receive(ack)
                if self._is_waiting:
                    return False
                if not self._is_to_be_sorted(self._inbox[0]):
                    break
                if not may_sort:
                    raise errors.Empty("what comes next has to be sorted")
                self._sort_next()
                self._flush()  # now, since nobody knows when its owner receives again
            queue = self._sorted or self._inbox
            taken.append(queue[0])
            queue.popleft()
            return True

    def _receive(self, ack: bool) -> bool:
        """Take what comes next out of the core, if it is there."""
        self._flush()
        is_awaited = any(not one.transfer.has_state for one in self._states)
        receive: Any = self._recv_slow_beneath if is_awaited else self._recv_beneath  # type: ignore[attr-defined]
        try:
            # In one step of C from the queue into ours, so that no handler of a signal comes between.
            self._inbox.extend(map(functools.partial(receive, ack=ack), (0,)))
        except errors.Empty:
            return False
        return True

    def _wait(self, deadline: _core.Deadline) -> None:
        """Return when something may have come, or it is time to try again to send what had no room."""
        left_ns = deadline.left_ns()
        is_slice = self._has_more and (left_ns < 0 or left_ns > _RETRY_NS)
        # What else it returns, the next look finds out.
        if lib.busq_peer_wait(self._handle, _RETRY_NS if is_slice else left_ns) == lib.BUSQ_EMPTY and not is_slice:
            raise errors.Empty("nothing came before the timeout")

    def _give_back(self, taken: list[Any]) -> None:
        """Let messages that were taken come next."""
        if not taken and (self._undo is None or self._is_sorting):
            return  # there is nothing to do, or another thread is at it
        with self._turn:
            self._restore()
            while taken:
                message = taken[-1]
                if not any(queue and queue[0] is message for queue in (self._sorted, self._inbox)):
                    self._sorted.appendleft(message)
                taken.pop()
        if self._is_waiting:  # another thread waits, and knows only of what comes out of the core
            self._try(self._name, b"")

    def _message(self, pin: Any) -> Any:
        message = super()._message(pin)  # type: ignore[misc]
        if pin.message.form & lib.BUSQ_FORM_ENVELOPE and message.kind not in ("view", "control"):
            envelope = ffi.new("busq_envelope *")
            lib.busq_message_envelope(ffi.addressof(pin.message), envelope)
            if envelope.group in self._group_names:  # otherwise it was never a member
                self._addressed[id(message)] = self._group_names[envelope.group]
        return message

    # ---- sorting ----

    def _is_to_be_sorted(self, message: Any) -> bool:
        return message.kind in ("view", "control") or any(not one.transfer.has_state for one in self._states)

    def _sort_next(self) -> None:
        message = self._inbox[0]
        sent_to = self._addressed.get(id(message))
        states, groups = list(self._states), [one.exchange.keep() for one in self._states]
        n_sorted = len(self._sorted)

        def undo() -> None:
            self._states[:] = states
            for restore in groups:
                restore()
            _cut(self._sorted, n_sorted)
            if sent_to is not None:
                self._addressed[id(message)] = sent_to
            if not self._inbox or self._inbox[0] is not message:
                self._inbox.appendleft(message)

        try:
            try:
                self._is_sorting = True
                self._undo = undo
                self._inbox.popleft()
                self._sort(message)
                if message.kind == "control":
                    message.ack()  # its owner never sees it
                self._undo = None
            finally:
                self._is_sorting = False
        finally:  # perhaps a handler of a signal has struck in the other one
            self._is_sorting = False

    def _restore(self) -> None:
        """Undo the sorting that an exception has interrupted."""
        if self._undo is not None and not self._is_sorting:
            self._undo()
            self._undo = None

    def _sort(self, message: Any) -> None:
        """Hand a message to whom it belongs: the library, or the owner, or whoever holds it back."""
        kind = message.kind
        if kind == "control":
            name, letter, rest = _read_word(message.data)
            self._pass((message.sender, letter, rest), 0, name)
        else:
            message.data  # noqa: B018  (copied: what is held back may not keep its place in the queue before a state)
            sent_to = message.group if kind == "view" else self._addressed.pop(id(message), None)
            self._pass(message, 0, sent_to)

    def _pass(self, message: Any, start: int, sent_to: str | None) -> None:
        """Show a message, or a word, to one group after the other: each may hold it back, and lets it go on later."""
        for number in range(start, len(self._states)):
            group = self._states[number]
            if group.name == sent_to:
                return self._show(group, message)
            if not group.transfer.has_state:
                return group.exchange.follow(group.transfer.aside((message, sent_to)))
        if not isinstance(message, tuple):
            self._sorted.append(message)
        return None

    def _show(self, group: _Group, message: Any) -> None:
        """Show a message to the group that it was sent to."""
        if isinstance(message, tuple):
            group.exchange.word(*message)
        elif message.kind != "view":
            group.exchange.follow(group.transfer.quiet((message, None)))
        elif self._name in message.view.members:
            group.exchange.view(message.view, (message, None))
        else:
            group.exchange.follow([*group.transfer.leave(), Deliver((message, None))])
            self._states.remove(group)
            if group.successor is not None:  # behind all others, as the last one that it has entered
                self._states.append(group.successor)

    # ---- sending what the library has to say: never waited for ----

    # What is sent twice, since an exception came between, changes nothing.

    def _flush(self) -> bool:
        """Send what has room now; is something left that has to be tried again?"""
        self._has_more = not self._has_flushed()
        return self._has_more

    def _has_flushed(self) -> bool:
        full: set[str] = set()
        for group in self._states:
            group.flush(self._try, full)
        return not full

    def _try(self, to: str, word: bytes) -> bool:
        try:
            self._send_encoded(to, ([word], lib.BUSQ_FORM_CONTROL), _core.AT_ONCE, _core._new_note())  # type: ignore[attr-defined]
        except errors.Full:
            return False
        except (errors.PeerDead, errors.UnknownPeer, errors.ShutDown):  # of the last, whoever receives finds out
            return True
        return True


def _check_process(handle: Any) -> None:
    """Raise in a forked child: another thread of the parent may have held the lock."""
    if lib.busq_peer_is_forked(handle):
        _core.fail(lib.BUSQ_FORKED)


def _cut(queue: deque[Any], size: int) -> None:
    while len(queue) > size:
        queue.pop()


_classes: dict[type, Any] = {}


def _class_of(kind: type) -> Any:
    if kind not in _classes:
        facts = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        _classes[kind] = type(kind.__name__, (Stateful, kind), facts)
    return _classes[kind]


def become(port: Any, group: str, state: Any, take: Any, is_member: bool) -> Callable[[], None] | None:
    """Let a peer give and take the state of a group that it is about to enter; returns what undoes that.

    None if it is in the group so.  A member that is in it otherwise, without a state or as the successor of one that
    had it, is to leave first.
    """
    for name, given in (("state", state), ("take", take)):
        if not callable(given):
            raise _core.wrong_type(name, given, "a function; state and take are given together")
    _check_process(port._handle)
    made = _Group(group, port, state, take)
    with port.__dict__.setdefault("_turn", threading.RLock()):
        if not isinstance(port, Stateful):
            Stateful._begin(port)
            port._cover()
            port.__class__ = _class_of(type(port))
        last = next((one for one in port._states if one.name == group), None)
        if last is None and is_member:
            last = _Group(group, port, state, take)
            last.pass_all()
            port._states.append(last)
        while last is not None and last.successor is not None:
            last = last.successor
        if last is None:
            port._states.append(made)
        elif is_member and not last.is_passing:
            return None
        else:
            last.successor = made

    def undo() -> None:
        with port._turn:
            if last is not None:
                last.successor = None
            if made in port._states:
                port._states.remove(made)

    return undo
