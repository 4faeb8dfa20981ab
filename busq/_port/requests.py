# SPDX-License-Identifier: Apache-2.0
"""Requests: what a peer has asked, and has no answer to so far.  Imported by the first ask.

Replies come to a queue of their own (csrc/shm/request.h), from which any thread that waits takes them, for itself or
for others: `Requests.take` hands each to the `Request` whose number it carries, in one step of C (csrc/python/ask.c).

An event loop needs no thread to ask (busq/aio.py).  It calls `begin`, with a request that knows how to wake the task
that waits; waits for the descriptor of `replies` to be readable; then calls `take_all`, at least once in a slice
`look_for_lost`, for a request that is woken and lost `check_asked`, and in the end `finish`, in any case `end`.
"""

from __future__ import annotations

import contextlib
import queue
import select
import threading
import time
from typing import Any

from busq import errors
from busq._native import _core as core
from busq._native._core import Request
from busq._port.arguments import wrong_type
from busq._port.deadline import ASKING, Deadline
from busq.peer import Message, Payload

SLICE_NS = 50_000_000  # how long the death of the one asked may go unnoticed
_SETTLE_NS = 2_000_000_000
_SLEEP_MAX_NS = 10_000_000_000
_LOOK_MAX_NS = 1_000_000_000  # the same where nothing can report it, and no request was begun for long
_LOOKS = 10


class Requests:
    """All that one peer asks."""

    def __init__(self, port: Any) -> None:
        """Take a second slot of the bus, for the replies."""
        self._port = port
        self._replies = core.join_replies(port)
        self._waiting: dict[int, Request] = {}
        self._leader: dict[None, Request] = {}  # the one whose thread sleeps in the queue, if there is one
        self._asleep: dict[int, Request] = {}  # those whose threads sleep until they are woken
        self._look_ns = 0  # when to look for the dead again
        self._look_slice_ns = SLICE_NS
        self._looks = 0  # in a row, in which no request was begun
        self._begun = self._seen = 0  # how many requests were, and when that was last looked at
        self._is_watched = False  # the descriptor reports the end of each process that was asked

    def attach(self) -> None:
        """Let C ask as well, where no other request waits."""
        core.attach_requests(self._port, self, self._replies, self._waiting, self._leader, self._asleep)

    def close(self) -> None:
        """Leave; what waits gets ShutDown."""
        core.close(self._replies)

    @property
    def replies(self) -> Any:
        """The port to which replies come, for an event loop to wait for."""
        return self._replies

    def take_all(self) -> None:
        """Hand over all that is there."""
        result = core.OK
        while result == core.OK:
            result = self.take(0)
        self._check(result)

    # ---- asking ----

    def begin(self, port: Any, request: Request, data: Payload, deadline: Deadline, note: Any) -> None:
        """Send a request; `note` records whether it was sent.  Whatever comes of it, `end` has to follow.

        After Full it may be begun again: until then, others may have the place of its reply.
        """
        for is_retry in (False, True):
            result = self._send(request, data, deadline, note)
            if result not in (core.PEER_DEAD, core.INVALID):
                break
            core.forget(port, request.asked)  # it may have joined again since
            if is_retry and result == core.PEER_DEAD:
                raise errors.PeerDead(f"{request.asked!r} has left or died: it was not asked")
        if result == core.FULL:
            self._forget(request)
        core.check(result)

    def _send(self, request: Request, data: Payload, deadline: Deadline, note: Any) -> int:
        is_asking = deadline is ASKING
        while True:
            result = core.OK
            if not request.number:
                left_ns = deadline.left_ns()
                result = core.request_begin(self._port, self._replies, request, self._waiting, left_ns, is_asking)
                self._has_begun()
            if result == core.OK:
                result = core.ask_slice(self._port, request, data, self._replies, deadline.left_ns(), is_asking, note)
            if result != core.INTERRUPTED:
                return result
            # The one asked may be held up as well: by its replies to requests that were given up, in a full queue.
            while self.take(0) == core.OK:
                pass

    def _has_begun(self) -> None:
        self._begun += 1
        if self._is_watched:
            core.wake(self._replies)  # to watch another set of processes

    def _forget(self, request: Request) -> None:
        if request.number:
            self._waiting.pop(request.number, None)
            core.request_end(self._replies, request)

    def end(self, request: Request) -> None:
        """Wait for this one no more; its reply is dropped."""
        self._step_down(request)  # if it was struck before it had done so
        self._forget(request)
        # Not kept: a frame that a traceback keeps would keep the reply in its place, and what comes behind it.
        request.reply = None
        # What is late would keep memory until the next request.
        while not self._waiting and self.take(0) == core.OK:
            pass

    # ---- replies ----

    def take(self, timeout_ns: int) -> int:
        """Take one reply and hand it to the request it belongs to; return the result of the core."""
        return core.take_reply(self._replies, self._waiting, timeout_ns)

    def look_for_lost(self) -> None:
        """Wake the requests whose reply can't come any more; call it at least once in a slice while `has_to_look`.

        The kernel is asked about each process once in a slice, however many requests depend on it.  After some slices
        in which no request was begun, the descriptor of `replies` reports the end of any of those; where it can't,
        the slices grow.
        """
        if self._is_watched:
            if core.watched_lives(self._replies, True) and not self._has_changed():
                self._find_lost()  # a peer that has left wakes us, too
                return
            core.watched_lives(self._replies, False)
            self._is_watched = False
            self._look_ns = 0
        if time.monotonic_ns() < self._look_ns:
            return
        self._look_ns = time.monotonic_ns() + self._look_slice_ns
        self._find_lost()
        if self._has_changed():
            self._looks = 0
            self._look_slice_ns = SLICE_NS
            return
        self._looks += 1
        if self._looks >= _LOOKS:
            self._is_watched = core.watch_lives(self._replies, self._waiting)
            self._look_slice_ns = min(self._look_slice_ns * 5 // 4, _LOOK_MAX_NS)

    def _find_lost(self) -> None:
        for request in core.find_lost(self._replies, self._waiting):
            request.is_lost = True
            if request.wake is not None:
                request.wake()

    def _has_changed(self) -> bool:
        before, self._seen = self._seen, self._begun
        return self._seen != before

    @property
    def has_to_look(self) -> bool:
        """Whether nothing reports the end of one of the processes that were asked."""
        return not self._is_watched or self._seen != self._begun

    def check_asked(self, request: Request) -> None:
        """Raise PeerDead if no reply can come any more."""
        request.is_lost = False
        if not core.is_lost(self._replies, request):
            return
        self._settle(request)
        if request.reply is None and core.is_lost(self._replies, request):  # and no other reader has it by now
            raise errors.PeerDead(f"{request.asked!r} was asked, and has left or died before it replied")

    def _settle(self, request: Request) -> None:
        """Wait until what had come when this was called was handed over: the last word of the dead is among it."""
        end = core.tail(self._replies)
        give_up_ns = time.monotonic_ns() + _SETTLE_NS  # a thread may be held up by a handler that runs on top of it
        while request.reply is None and not core.has_received(self._replies, end):
            if time.monotonic_ns() > give_up_ns:
                return
            self.take(1_000_000)
        if request.reply is None:
            time.sleep(0.001)  # without an interpreter lock, another thread may have taken it and not handed it over

    def finish(self, request: Request) -> Message:
        """Return the reply, which has come."""
        reply = request.reply
        core.follow(self._port, self._replies)
        return reply  # type: ignore[no-any-return]

    # ---- threads that wait ----

    def go_on(self, request: Request, end_ns: int) -> Message:
        """Take over from C, which has sent and registered a request."""
        try:
            self._has_begun()
            self.wait(request, Deadline.until(end_ns))
            return self.finish(request)
        finally:
            self.end(request)

    # One of them leads: it sleeps in the queue, looks whether those that were asked live, and wakes the others when
    # their replies come, or will not, or when it leaves.  The others sleep until then.  They also look by themselves,
    # after as long as they have slept already: a handler of a signal may hold up the leader's thread.

    def wait(self, request: Request, deadline: Deadline) -> None:
        """Wait until the reply is there; Empty or PeerDead if it does not come."""
        slice_ns = SLICE_NS
        try:
            while request.reply is None:
                left_ns = deadline.left_ns()
                if self._wait_once(request, slice_ns, left_ns if left_ns >= 0 else _SLEEP_MAX_NS):
                    slice_ns = min(2 * slice_ns, _SLEEP_MAX_NS)
                if request.reply is not None:
                    return
                if request.is_lost or left_ns == 0:
                    self.check_asked(request)
                if left_ns == 0 and request.reply is None:
                    raise no_reply(request)
        finally:
            self._step_down(request)

    def _wait_once(self, request: Request, slice_ns: int, left_ns: int) -> bool:
        """Wait for a moment; return whether it was in vain, and the next one may be longer."""
        leader = self._leader.setdefault(None, request)
        if leader is not request and leader.thread != request.thread:
            return self._sleep(request, min(slice_ns, left_ns))
        if leader is request and not self.has_to_look:
            self._wait_behind_descriptor(min(slice_ns, left_ns))
            return True
        # A handler that runs on top of the leader, in its thread, can't wait for that to go on.
        if self._look_ns < time.monotonic_ns() - self._look_slice_ns:
            self._look_ns = time.monotonic_ns() + self._look_slice_ns
        self._check(self.take(min(left_ns, self._look_slice_ns)))
        self.look_for_lost()
        return False

    def _wait_behind_descriptor(self, slice_ns: int) -> None:
        """Wait for a reply, or for the end of a process that was asked: nothing has to be looked at meanwhile."""
        poll = select.poll()
        poll.register(self._replies.fileno(), select.POLLIN)
        try:
            if core.listen(self._replies, core.LISTEN_MESSAGES) == core.OK:
                poll.poll(slice_ns // 1_000_000 + 1)
        finally:
            core.listen(self._replies, core.LISTEN_NOT)
        self._check(self.take(0))
        self.look_for_lost()

    def _sleep(self, request: Request, slice_ns: int) -> bool:
        bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        request.wake = lambda: bell.put(None)
        self._asleep[request.number] = request
        try:
            # From here on we are woken; what was there before, we see.
            if request.reply is None and not request.is_lost and self._leader:
                bell.get(timeout=slice_ns / 1e9)
            return False
        except queue.Empty:
            result = core.OK
            while result == core.OK and request.reply is None:
                result = self.take(0)
            self._check(result)
            self.look_for_lost()
            return True
        finally:
            self._asleep.pop(request.number, None)

    @staticmethod
    def _check(result: int) -> None:
        if result not in (core.OK, core.EMPTY, core.INTERRUPTED):
            core.check(result)

    def _step_down(self, request: Request) -> None:
        if self._leader.get(None) is request:
            self._leader.pop(None, None)
        self.wake()

    def wake(self) -> None:
        """Let another one lead, if none does."""
        with contextlib.suppress(KeyError):  # none is asleep
            while not self._leader:
                _, other = self._asleep.popitem()
                if other.wake is not None:
                    other.wake()
                    return


def no_reply(request: Request) -> errors.Empty:
    """Make the error of a request that has waited for long enough."""
    return errors.Empty(f"no reply of {request.asked!r} came before the timeout")


def check_name(to: Any) -> None:
    """Raise TypeError or ValueError unless it is the name of one peer."""
    if not isinstance(to, str):
        raise wrong_type("to", to, "str, the name of one peer")
    if to.startswith("@"):
        raise ValueError(f"{to!r} is a group: one peer is asked, who replies; send to a group instead")


def requests_of(port: Any) -> Requests:
    """Return what a peer of order bus1 asks; the first time, that takes a second slot."""
    known: Requests | None = port._requests
    if known is not None:
        return known
    if core.is_forked(port):  # another thread of the parent may have held the lock
        core.check(core.FORKED)
    with port.__dict__.setdefault("_asking", threading.RLock()):
        if port._requests is None:
            made = Requests(port)
            if port.__dict__.setdefault("_requests", made) is made:
                made.attach()
            else:  # a handler of a signal asked meanwhile
                made.close()
        return port._requests  # type: ignore[no-any-return]


def ask(port: Any, to: str, data: Payload, timeout: float | None, note: Any) -> Message:
    """Send a request and return its reply; `note` records whether it was sent."""
    check_name(to)
    deadline = Deadline(timeout)
    request = Request()
    request.asked, request.thread = to, threading.get_ident()
    requests = requests_of(port)
    try:
        try:
            requests.begin(port, request, data, deadline, note)
            requests.wait(request, deadline)
            return requests.finish(request)
        finally:
            requests.end(request)
    except BaseException:
        requests.end(request)
        raise
