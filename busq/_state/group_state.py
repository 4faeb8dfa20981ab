# SPDX-License-Identifier: Apache-2.0
"""The filter of a peer that gives and takes the state of its groups (csrc/python/port.h): `Peer.enter(state=, take=)`.

It stands between the queue of the peer and the application: every message of the queue goes through it, and those of
the library, which the application never sees, end here.  Views and words go to the exchanges of their groups
(exchange.py); what follows them is held back while a state is awaited.  A message is sorted wholly or not at all: C
keeps it until it was (csrc/python/filter.c).  A peer that never enters a group so has no filter.

A word of exchange.py is sent as a message of the form BUSQ_FORM_CONTROL, behind the length of the group's name(1) and
the name.  What the application sends to the group is not counted for places, since only the words and the views come to
all of them through the filter.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from busq import errors
from busq._native import _core as core
from busq._port.arguments import wrong_type
from busq._port.group_events import addressed
from busq._port.group_members import latest_view
from busq._state.chunks import chunk_bytes
from busq._state.state_transfer import StateExchange
from busq._state.transfer_rules import Deliver

__all__ = ["GroupFilter", "prepare_to_enter"]


class _Group:
    """One group, whose state is given and taken; the owner of its exchange."""

    def __init__(
        self, filter_: GroupFilter, name: str, since: int, state: Callable[[], Any], take: Callable[[bytes], object]
    ) -> None:
        self.name = name
        # The latest view before it: what a predecessor of this peer has left in the queue ends there.
        self._since = since
        self._has_begun = False
        self._filter, self._state, self._take = filter_, state, take
        self.exchange = StateExchange(filter_.name, name, filter_.chunk, self)
        self.transfer = self.exchange.transfer
        self.successor: _Group | None = None  # the peer has entered again, before it has seen itself leave
        self.is_passing = False

    def pass_all(self) -> None:
        """Let everything pass: this stands for a time in which the peer was a member without a state."""
        self.is_passing = self.transfer.has_state = True

    def keep(self) -> Callable[[], None]:
        """Return a function that restores what is known of the group now."""
        has_begun, restore_exchange = self._has_begun, self.exchange.keep()

        def restore() -> None:
            self._has_begun = has_begun
            restore_exchange()

        return restore

    @property
    def holds_back(self) -> bool:
        """Whether what comes has to wait for the state."""
        return self._has_begun and not self.transfer.is_open

    def is_before(self, message: Any) -> bool:
        """Return whether a message, or a word, was sent before the peer entered: to its predecessor, as a member."""
        if not isinstance(message, tuple) and message.kind == "view":
            if message.view.number <= self._since:
                return True
            self._has_begun = True
        return not self._has_begun

    # ---- the owner of the exchange ----

    def give_state(self) -> tuple[dict[str, Any], memoryview]:
        """Return the state of the application."""
        state = self._state()
        try:
            shown = memoryview(state)
        except TypeError:
            raise wrong_type("what `state` returned", state, "bytes-like: the state as `take` gets it") from None
        core.check_plain("what `state` returned", state)
        return {}, shown

    def take_state(self, facts: dict[str, Any], state: memoryview) -> None:
        """Hand a state to the application."""
        self._take(bytes(state))

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
    """What one peer receives through.  C calls `go_on`, `sort` and `drop`, in one thread at a time."""

    def __init__(self, port: Any) -> None:
        self._port = weakref.ref(port)  # which owns the filter: a peer that is dropped leaves at once
        self.name: str = port.name
        self.chunk = chunk_bytes(port._raw_bus().facts()["arena"])
        self.lock: Any = threading.RLock()  # of everything here; never held by a call that waits
        self.groups: list[_Group] = []
        self.has_unsent = False  # words that had no room; event loops look here
        self._kept: list[tuple[_Group, Callable[[], None]]] = []  # before the last sorting, with what restores them
        self.shown: list[Any] = []  # of the message that is sorted: what the application is to get
        # The last message, and either what was shown for it, or, while it is sorted, what undoes that.
        self._last: tuple[Any, list[Any] | None, Callable[[], None] | None] = (None, [], None)

    # ---- sorting ----

    def sort(self, message: Any) -> list[Any]:
        """Sort a message, and return what the application is to get now.

        Where a signal handler, `state` or `take` raises in it, nothing has changed; where a handler raises behind its
        last step, the next call for the same message returns what it has returned.
        """
        with self.lock:
            last, shown, _ = self._last
            if shown is not None and last is message:
                return shown
            self.restore()
            self._last = (message, None, self._keep())
            self.shown = []
            self._sort(message)
            if message.kind == "control":
                message.ack()  # the application never sees it
            self._last = (message, self.shown, None)
            return self.shown

    def restore(self) -> None:
        """Undo the sorting that an exception has interrupted, if one has."""
        undo = self._last[2]
        if undo is not None:
            undo()
            self._last = (None, [], None)

    def drop(self) -> None:
        """Let go of what the application was not shown: the peer was closed."""
        with self.lock:
            self.groups[:] = []
            self._kept, self.shown, self._last = [], [], (None, [], None)

    def _keep(self) -> Callable[[], None]:
        self._kept = [(one, one.keep()) for one in self.groups]

        def undo() -> None:
            self.groups[:] = [one for one, _ in self._kept]
            for _, restore in self._kept:
                restore()

        return undo

    # `state` and `take` may enter groups: what undoes the sorting that calls them does not undo that.

    def add(self, group: _Group) -> None:
        """Add a group that the peer is about to enter."""
        self.groups.append(group)
        self._kept.append((group, group.keep()))

    def remove(self, group: _Group) -> None:
        """Remove a group that the peer has not entered after all."""
        self.groups[:] = [one for one in self.groups if one is not group]
        self._kept = [kept for kept in self._kept if kept[0] is not group]

    def _sort(self, message: Any) -> None:
        """Give a word to its group, and a message to the application, unless a group holds it back."""
        if message.kind == "control":
            name, letter, rest = _read_word(message.data)
            self._pass((message.sender, letter, rest), 0, name)
        else:
            message.data  # noqa: B018  (copied: what is held back may not keep its place in the queue before a state)
            self._pass(message, 0, message.group if message.kind == "view" else addressed(self._port(), message))

    def _pass(self, message: Any, start: int, sent_to: str | None) -> None:
        """Show a message, or a word, to one group after the other: each may hold it back, and lets it go on later."""
        for number in range(start, len(self.groups)):
            group = self.groups[number]
            if group.name == sent_to:
                return self._show(group, message)
            if group.holds_back:
                return group.exchange.follow(group.transfer.aside((message, sent_to)))
        if not isinstance(message, tuple):
            self.shown.append(message)
        return None

    def pass_behind(self, group: _Group, message: Any, sent_to: str | None) -> None:
        """Go on behind a group that has let a message go."""
        self._pass(message, self.groups.index(group) + 1, sent_to)

    def _show(self, group: _Group, message: Any) -> None:
        """Show a message to the group that it was sent to."""
        if group.is_before(message):
            self.pass_behind(group, message, None)
        elif isinstance(message, tuple):
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

    # ---- before a message is taken ----

    def go_on(self) -> int:
        """Send the words that there is room for, which is never waited for.

        Return the bits of `core.FILTER_UNSENT`, if some are left, and of `core.FILTER_SORTS`, if every message has to
        be sorted; otherwise only views and words are.
        """
        full: set[str] = set()
        with self.lock:
            bits = 0
            for group in self.groups:
                if group.exchange.has_words:
                    group.flush(self._send, full)
                if not group.transfer.is_open:
                    bits = core.FILTER_SORTS
            self.has_unsent = bool(full)
        return bits | core.FILTER_UNSENT if full else bits

    def _send(self, to: str, word: bytes) -> bool:
        try:
            port: Any = self._port()
            return core.send_control_once(port, to, word)
        except (errors.PeerDead, errors.UnknownPeer):
            return True  # the receiver has gone
        except errors.ShutDown:
            return True  # the call that receives will raise it


def prepare_to_enter(port: Any, group: str, state: Any, take: Any, is_member: bool) -> Callable[[], None] | None:
    """Let a peer give and take the state of a group that it is about to enter; returns a function that undoes that.

    None if it is already in the group with a state.  A member without a state, or the successor of a peer that had
    one, has to leave first.
    """
    for name, given in (("state", state), ("take", take)):
        if not callable(given):
            raise wrong_type(name, given, "a function; state and take are given together")
    if core.is_forked(port):
        core.check(core.FORKED)
    # In one step, so that threads that enter at the same time have the same filter.
    filter_: GroupFilter = vars(port).setdefault("_filter", GroupFilter(port))
    since = latest_view(port, f"@{group}")
    made = _Group(filter_, group, since, state, take)
    is_sorting = filter_.lock._is_owned()  # and has called `state` or `take`, or a signal handler, which calls this
    with filter_.lock:
        if core.filter_of(port) is None:
            core.set_filter(port, filter_)
        if not is_sorting:
            filter_.restore()
        last = next((one for one in filter_.groups if one.name == group), None)
        if last is None and is_member:
            last = _Group(filter_, group, since, state, take)
            last.pass_all()
            filter_.add(last)
        while last is not None and last.successor is not None:
            last = last.successor
        if last is None:
            filter_.add(made)
        elif is_member and not last.is_passing:
            return None
        else:
            last.successor = made

    def undo() -> None:
        with filter_.lock:
            if not is_sorting:
                filter_.restore()
            if last is not None:
                last.successor = None
            filter_.remove(made)

    return undo
