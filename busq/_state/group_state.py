# SPDX-License-Identifier: Apache-2.0
"""The filter of a peer that gives and takes the state of its groups (csrc/python/port.h): `Peer.enter(state=, take=)`.

It stands between the queue of the peer and the application: every message of the queue goes through it, and those of
the library, which the application never sees, end here.  Views and words go to the exchanges of their groups
(exchange.py); what follows them is held back while a state is awaited.  A peer that never enters a group so has no
filter.

A word of exchange.py is sent as a message of the form BUSQ_FORM_CONTROL, behind the length of the group's name(1) and
the name.  What the application sends to the group is not counted for places, since only the words and the views come to
all of them through the filter.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from busq import errors
from busq._native import _core as core
from busq._port.arguments import wrong_type
from busq._port.deadline import AT_ONCE, Deadline
from busq._state.chunks import chunk_bytes
from busq._state.exchange import StateExchange
from busq._state.transfer import Deliver
from busq.groups import addressed

__all__ = ["GroupFilter", "prepare_to_enter"]

_RETRY_NS = 1_000_000


class _Group:
    """One group, whose state is given and taken; the owner of its exchange."""

    def __init__(
        self, filter_: GroupFilter, name: str, chunk: int, state: Callable[[], Any], take: Callable[[bytes], object]
    ) -> None:
        self.name = name
        self._filter, self._state, self._take = filter_, state, take
        self.exchange = StateExchange(filter_.name, name, chunk, self)
        self.transfer = self.exchange.transfer
        self.successor: _Group | None = None  # the peer has entered again, before it has seen itself leave
        self.is_passing = False

    def pass_all(self) -> None:
        """Let everything pass: this stands for a time in which the peer was a member without a state."""
        self.is_passing = self.transfer.has_state = True

    # ---- the owner of the exchange ----

    def give_state(self) -> tuple[dict[str, Any], memoryview]:
        """Return the state of the application."""
        state = self._state()
        try:
            return {}, memoryview(state)
        except TypeError:
            raise wrong_type("what `state` returned", state, "bytes-like: the state as `take` gets it") from None

    def take_state(self, facts: dict[str, Any], state: memoryview, view: Any) -> None:
        """Hand a state to the application, and show it the view that the state stands in."""
        self._take(bytes(state))
        if view is not None:
            self._filter.sorted.append(view[0])

    def begin_anew(self) -> None:
        """Begin with the state that the application has."""

    def deliver(self, item: Any) -> None:
        """Show a message to the groups behind this one."""
        self._filter.pass_behind(self, *item)

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


class GroupFilter:
    """What one peer receives through.

    A message goes from the core into the inbox, and from there to the application, or, where it has to be looked at, is
    sorted.  Sorting is done wholly or not at all: where a signal handler, `state` or `take` raises in it, everything is
    restored, and the next call sorts the message again.
    """

    def __init__(self, port: Any) -> None:
        self._port = weakref.ref(port)  # which owns the filter: a peer that is dropped leaves at once
        self.name: str = port.name
        self.lock = threading.RLock()  # of everything here; never held by a call that waits
        self.groups: list[_Group] = []
        self.sorted: deque[Any] = deque()  # for the application
        self.is_waiting = False  # a thread, in the core
        self.has_unsent = False  # words that had no room
        self._inbox: deque[Any] = deque()  # taken, and not looked at
        self._undo: Callable[[], None] | None = None  # of the message that is sorted
        self._is_sorting = False
        # Of the calls that receive: one of them waits in the core, and the others for that one.
        self._receivers: Any = threading.RLock()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits here to be received."""
        return not (self.sorted or self._inbox)

    # ---- receiving ----

    # What is taken is in a list of the caller's until it is handed over: an exception before that gives it back.

    def recv(self, timeout: float | None = None, *, ack: bool = False) -> Any:
        """Receive for `Peer.recv`."""
        taken: list[Any] = []
        try:
            self._take_sorted(taken, Deadline(timeout), ack)
            return taken[0]
        except BaseException:
            self.give_back(taken)
            raise

    def recv_many(self, limit: int, timeout: float | None = None, *, ack: bool = False) -> Any:
        """Receive for `Peer.recv_many`."""
        taken: list[Any] = []
        try:
            self._take_sorted(taken, Deadline(timeout), ack)
            try:
                # A state that is given holds everything that the application has got, and it has not got this so far:
                # nothing more is sorted.
                while len(taken) < limit:
                    self._take_sorted(taken, AT_ONCE, ack, may_sort=False)
            except (errors.Empty, errors.ShutDown):
                pass
            return taken
        except BaseException:
            self.give_back(taken)
            raise

    def _take_sorted(self, taken: list[Any], deadline: Deadline, ack: bool, *, may_sort: bool = True) -> None:
        """Take the next message for the application, to the end of a list; Empty where it would have to be sorted."""
        port = self._port()
        if core.is_forked(port):  # a thread of the parent may have held the locks
            core.check(core.FORKED)
        left_ns = deadline.left_ns()
        try:
            try:
                if not self._receivers.acquire(timeout=-1 if left_ns < 0 else left_ns / 1e9):
                    raise errors.Empty("nothing came before the timeout")
                while not self._take_what_is_there(port, taken, ack, may_sort):
                    self._wait(port, deadline)
            finally:
                self._leave_receivers()
        finally:  # a signal handler may have raised in the inner block
            self._leave_receivers()

    def _leave_receivers(self) -> None:
        # Only the lock knows whether this thread has it; more than once, where `state` or `take` receives.
        while self._receivers._is_owned() and not self._is_sorting:
            self.is_waiting = False
            self._receivers.release()

    def _take_what_is_there(self, port: Any, taken: list[Any], ack: bool, may_sort: bool) -> bool:
        with self.lock:
            if self._is_sorting:
                raise RuntimeError("`state` and `take` may not receive: they are called by a call that receives")
            self._restore()
            while not self.sorted:
                self.is_waiting = not self._inbox and not self._receive(port, ack)
                if self.is_waiting:
                    return False
                if not self._has_to_be_sorted(self._inbox[0]):
                    break
                if not may_sort:
                    raise errors.Empty("what comes next has to be sorted")
                self._sort_next(port)
                self._flush(port)  # now: the application may not receive again for long
            queue = self.sorted or self._inbox
            taken.append(queue[0])
            queue.popleft()
            return True

    def _receive(self, port: Any, ack: bool) -> bool:
        """Take what comes next out of the core, if it is there."""
        self._flush(port)
        try:
            # In one step of C from the queue into the inbox, so that no signal handler runs in between.
            self._inbox.extend(map(functools.partial(core.recv_beneath, port), (0,), (ack,)))
        except errors.Empty:
            return False
        return True

    def _wait(self, port: Any, deadline: Deadline) -> None:
        """Return when something may have come, or it is time to try again to send what had no room."""
        left_ns = deadline.left_ns()
        is_slice = self.has_unsent and (left_ns < 0 or left_ns > _RETRY_NS)
        # Any other result is found again by the next look.
        if core.wait(port, _RETRY_NS if is_slice else left_ns) == core.EMPTY and not is_slice:
            raise errors.Empty("nothing came before the timeout")

    def give_back(self, taken: list[Any]) -> None:
        """Let messages that were taken come next."""
        if not taken and (self._undo is None or self._is_sorting):
            return  # there is nothing to do, or another thread is at it
        with self.lock:
            self._restore()
            while taken:
                message = taken[-1]
                if not any(queue and queue[0] is message for queue in (self.sorted, self._inbox)):
                    self.sorted.appendleft(message)
                taken.pop()
        if self.is_waiting:  # another thread waits, and knows only of what comes out of the core
            self._send(self.name, b"")

    # ---- sorting ----

    def _has_to_be_sorted(self, message: Any) -> bool:
        return message.kind in ("view", "control") or any(not one.transfer.has_state for one in self.groups)

    def _sort_next(self, port: Any) -> None:
        message = self._inbox[0]
        groups, exchanges = list(self.groups), [one.exchange.keep() for one in self.groups]
        n_sorted = len(self.sorted)

        def undo() -> None:
            self.groups[:] = groups
            for restore in exchanges:
                restore()
            while len(self.sorted) > n_sorted:
                self.sorted.pop()
            if not self._inbox or self._inbox[0] is not message:
                self._inbox.appendleft(message)

        try:
            try:
                self._is_sorting = True
                self._undo = undo
                self._inbox.popleft()
                self._sort(port, message)
                if message.kind == "control":
                    message.ack()  # the application never sees it
                self._undo = None
            finally:
                self._is_sorting = False
        finally:  # a signal handler may have raised in the inner block
            self._is_sorting = False

    def _restore(self) -> None:
        """Undo the sorting that an exception has interrupted."""
        if self._undo is not None and not self._is_sorting:
            self._undo()
            self._undo = None

    def _sort(self, port: Any, message: Any) -> None:
        """Give a word to its group, and a message to the application, unless a group holds it back."""
        if message.kind == "control":
            name, letter, rest = _read_word(message.data)
            self._pass((message.sender, letter, rest), 0, name)
        else:
            message.data  # noqa: B018  (copied: what is held back may not keep its place in the queue before a state)
            self._pass(message, 0, message.group if message.kind == "view" else addressed(port, message))

    def _pass(self, message: Any, start: int, sent_to: str | None) -> None:
        """Show a message, or a word, to one group after the other: each may hold it back, and lets it go on later."""
        for number in range(start, len(self.groups)):
            group = self.groups[number]
            if group.name == sent_to:
                return self._show(group, message)
            if not group.transfer.has_state:
                return group.exchange.follow(group.transfer.aside((message, sent_to)))
        if not isinstance(message, tuple):
            self.sorted.append(message)
        return None

    def pass_behind(self, group: _Group, message: Any, sent_to: str | None) -> None:
        """Go on behind a group that has let a message go."""
        self._pass(message, self.groups.index(group) + 1, sent_to)

    def _show(self, group: _Group, message: Any) -> None:
        """Show a message to the group that it was sent to."""
        if isinstance(message, tuple):
            group.exchange.word(*message)
        elif message.kind != "view":
            group.exchange.follow(group.transfer.quiet((message, None)))
        elif self.name in message.view.members:
            group.exchange.view(message.view, (message, None))
        else:
            group.exchange.follow([*group.transfer.leave(), Deliver((message, None))])
            self.groups.remove(group)
            if group.successor is not None:  # behind all others, as the last group that the peer has entered
                self.groups.append(group.successor)

    # ---- sending words: never waited for ----

    def _flush(self, port: Any) -> None:
        """Send the words that there is room for."""
        full: set[str] = set()
        for group in self.groups:
            group.flush(self._send, full)
        self.has_unsent = bool(full)

    def _send(self, to: str, word: bytes) -> bool:
        try:
            return core.send_control_once(self._port(), to, word)
        except (errors.PeerDead, errors.UnknownPeer):
            return True  # the receiver has gone
        except errors.ShutDown:
            return True  # the call that receives will raise it


def prepare_to_enter(port: Any, group: str, state: Any, take: Any, is_member: bool) -> Callable[[], None] | None:
    """Let a peer give and take the state of a group that it is about to enter; returns a function that undoes that.

    None if it is in the group so.  A member without a state, or the successor of a peer that had one, has to leave
    first.
    """
    for name, given in (("state", state), ("take", take)):
        if not callable(given):
            raise wrong_type(name, given, "a function; state and take are given together")
    if core.is_forked(port):
        core.check(core.FORKED)
    # In one step, so that threads that enter at the same time have the same filter.
    filter_: GroupFilter = core.filter_of(port) or vars(port).setdefault("_filter", GroupFilter(port))
    chunk = chunk_bytes(port._raw_bus().facts()["arena"])
    made = _Group(filter_, group, chunk, state, take)
    with filter_.lock:
        core.set_filter(port, filter_)
        last = next((one for one in filter_.groups if one.name == group), None)
        if last is None and is_member:
            last = _Group(filter_, group, chunk, state, take)
            last.pass_all()
            filter_.groups.append(last)
        while last is not None and last.successor is not None:
            last = last.successor
        if last is None:
            filter_.groups.append(made)
        elif is_member and not last.is_passing:
            return None
        else:
            last.successor = made

    def undo() -> None:
        with filter_.lock:
            if last is not None:
                last.successor = None
            if made in filter_.groups:
                filter_.groups.remove(made)

    return undo
