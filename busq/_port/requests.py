# SPDX-License-Identifier: Apache-2.0
"""Requests: what a peer has asked and nobody has answered so far.  Imported by the first ask.

Replies come to a queue of their own (csrc/shm/request.h), from which whoever waits takes them, for itself or for
others: `Requests.take` hands each to the `Request` whose number it carries.  Nothing depends on who does that, or on
one who does it going on: a pin holds the reply until it is handed over, and gives it back if that never happens.

An event loop needs no thread to ask (busq/aio.py).  It calls `begin`, with a request that knows how to wake whoever
waits; waits for the descriptor of `replies` to be readable; then calls `take_all`, at least once in `SLICE_NS`
`check_asked` for each request, and in the end `finish`, in any case `end`.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from busq import errors
from busq._native import ffi, lib
from busq._port import core as _core
from busq._port.core import REQUEST, Deadline, check
from busq.peer import Message, Payload

SLICE_NS = 50_000_000  # how long the death of the one asked may go unnoticed
_SETTLE_NS = 2_000_000_000
_FEW = 8


class Request:
    """A message that was asked, and the place for its reply.  The accelerator makes one without running Python code."""

    asked = ""  # by its name
    wake: Callable[[], object] | None = None  # called, in any thread, when there is something to do for who waits
    number = 0
    target = 0
    began = 0  # which life of the target was asked
    pin: Any = None  # of the reply

    def hand(self, pin: Any) -> None:
        """Take the reply over, with the pin that holds it."""
        self.pin = pin
        if self.wake is not None:
            self.wake()


class Replies(_core.PythonPort):
    """The queue of the replies."""

    def __init__(self, peer: Any) -> None:
        owner = _core.owned("busq_peer")
        try:
            check(lib.busq_peer_join_replies(peer, owner))
            self._open(_core.held(owner))
        except BaseException:
            if owner[0] != ffi.NULL:
                lib.busq_peer_close(owner[0])
            raise

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is something to take."""
        descriptor = ffi.new("int *")
        check(lib.busq_peer_fileno(self._handle, descriptor))
        return int(descriptor[0])


class Requests:
    """All that one peer asks."""

    def __init__(self, peer: Any) -> None:
        """Of the peer with that handle; takes a second slot of the bus."""
        self._peer = peer
        self._replies = Replies(peer)
        self._to = int(lib.busq_peer_target(self._replies._handle))
        self._lock = threading.RLock()  # a handler of a signal may ask as well
        self._numbers = itertools.count(1)
        self._last = 0
        self._waiting: dict[int, Request] = {}
        self._leader: dict[None, Request] = {}  # the one whose thread sleeps in the queue, if there is one
        self._asleep: dict[int, Request] = {}  # those whose threads sleep until they are woken
        self._taking: dict[int, Any] = {}  # pins of threads that may have taken a reply, and not handed it over

    def attach(self, port: Any) -> None:
        """Let the accelerator, if there is one, ask as well, where nobody else waits."""
        if hasattr(port, "_attach_requests"):
            handle = self._replies._handle
            address = int(ffi.cast("uintptr_t", handle))
            shared = (self._waiting, self._leader, self._asleep, self._numbers, Request)
            port._attach_requests(self, handle, address, self._to, *shared)

    def close(self) -> None:
        """Leave; who waits gets ShutDown."""
        lib.busq_peer_close(self._replies._handle)

    @property
    def replies(self) -> Replies:
        """The queue of the replies, for an event loop to wait for."""
        return self._replies

    def take_all(self) -> None:
        """Hand over all that is there."""
        result = lib.BUSQ_OK
        while result == lib.BUSQ_OK:
            result = self.take(0)
        if result not in (lib.BUSQ_EMPTY, lib.BUSQ_INTERRUPTED):
            check(result)

    # ---- asking ----

    def begin(self, port: Any, request: Request, data: Payload, deadline: Deadline, note: Any) -> None:
        """Send a request; `note` says whether it was sent.  Whatever comes of it, `end` has to follow.

        After Full it may be begun again.
        """
        if not request.number:
            self._register(request)
        payload = _core._Parts(data, lib.BUSQ_FORM_ASK, end=REQUEST.pack(request.number, self._to))
        for is_retry in (False, True):
            request.target = port._target(request.asked)
            result = self._send(request, payload, deadline, note)
            if result not in (lib.BUSQ_PEER_DEAD, lib.BUSQ_INVALID):
                break
            port._forget([request.asked])  # it may have joined again since
            if is_retry and result == lib.BUSQ_PEER_DEAD:
                raise errors.PeerDead(f"{request.asked!r} has left or died: it was not asked")
        check(result)

    def _send(self, request: Request, payload: _core._Parts, deadline: Deadline, note: Any) -> int:
        began = ffi.new("uint64_t *")
        while True:
            # Asked for every slice: a durable one that is dead takes messages, but gives no replies.
            result = lib.busq_peer_life_at_send(self._peer, request.target, began)
            if result:
                return int(result)
            request.began = began[0]
            result = _core.send_slice(self._peer, [request.target], payload, deadline, note)
            if result != lib.BUSQ_INTERRUPTED:
                return int(result)
            # The one asked may be held up as well: by its replies to requests that were given up, in a full queue.
            while self.take(0) == lib.BUSQ_OK:
                pass

    def _register(self, request: Request) -> None:
        with self._lock:
            request.number = next(self._numbers)
            self._last = max(self._last, request.number)
            self._waiting[request.number] = request
            # After that: another one may have had a later number, and have ended, between the first of these lines and
            # here.  Where many wait, somebody takes what comes, and it need not be exact.
            floor = min(self._waiting) if len(self._waiting) < _FEW else 0
            lib.busq_peer_await(self._replies._handle, floor)

    def end(self, request: Request) -> None:
        """Wait for this one no more; its reply is dropped."""
        self._step_down(request)  # if it was struck before it had done so
        with self._lock:
            # While anybody waits, replies are taken out of the queue.  When nobody does, they need not be sent.
            if self._waiting.pop(request.number, None) is not None and not self._waiting:
                lib.busq_peer_await(self._replies._handle, self._last + 1)
        # Not kept: a frame that a traceback keeps would keep the reply in its place, and what comes behind it.
        pin, request.pin = request.pin, None
        if pin is not None and pin.state != lib.BUSQ_PIN_TAKEN:
            return  # its reply was handed over
        if pin is not None:
            _drop(pin)
        # What is late would keep memory until somebody asks again.
        while not self._waiting and self.take(0) == lib.BUSQ_OK:
            pass

    # ---- replies ----

    def take(self, timeout_ns: int) -> int:
        """Take one reply and hand it to whom it belongs; returns what the core says."""
        pin = _core._new_pin()
        request = None
        key = id(pin)
        try:
            self._taking[key] = pin
            result = lib.busq_pin_recv(pin, self._replies._handle, lib.BUSQ_TAKE_PINNED, timeout_ns)
            if result == lib.BUSQ_OK:
                request = self._request_of(pin)
                if request is None:
                    _drop(pin)
                else:
                    request.hand(pin)
            return int(result)
        except BaseException:
            if request is None or request.pin is not pin:
                lib.busq_pin_give_back(pin)
            raise
        finally:
            self._taking.pop(key, None)

    def _request_of(self, pin: Any) -> Request | None:
        written = _core.request_of(pin.message)
        request = self._waiting.get(REQUEST.unpack(written)[0]) if written else None
        return None if request is None or request.pin is not None else request

    def look(self, request: Request) -> bool:
        """Is it worth waiting: does the one that was asked live?  If not, all replies that have come were taken."""
        began = ffi.new("uint64_t *")
        if lib.busq_peer_life(self._peer, request.target, began) == lib.BUSQ_OK and began[0] == request.began:
            return True
        self._settle(request)
        return False

    def check_asked(self, request: Request) -> None:
        """Raise PeerDead if no reply can come any more."""
        if not self.look(request) and request.pin is None:
            raise errors.PeerDead(f"{request.asked!r} was asked, and has left or died before it replied")

    def _settle(self, request: Request) -> None:
        """Wait until what had come when this was called was handed over: the last word of the dead is among it."""
        end = lib.busq_peer_tail(self._replies._handle)
        give_up_ns = time.monotonic_ns() + _SETTLE_NS  # a thread may be held up by a handler that runs on top of it
        while request.pin is None and lib.busq_peer_has_received(self._replies._handle, end) == lib.BUSQ_EMPTY:
            if time.monotonic_ns() > give_up_ns:
                return
            self.take(1_000_000)
        takers = dict(self._taking)
        while request.pin is None and any(self._taking.get(key) is pin for key, pin in takers.items()):
            if time.monotonic_ns() > give_up_ns:
                return
            time.sleep(0.001)

    def finish(self, request: Request) -> Message:
        """Return the reply, which has come."""
        pin = request.pin
        message = self._replies._message(pin)
        lib.busq_peer_follow(self._peer, self._replies._handle)
        pin.state = lib.BUSQ_PIN_KEPT
        return message

    # ---- threads that wait ----

    def go_on(self, request: Request, asked: str, number: int, target: int, began: int, end_ns: int) -> Message:
        """Take over from the accelerator, which has sent and registered a request."""
        request.asked, request.number, request.target, request.began = asked, number, target, began
        try:
            self.wait(request, Deadline.until(end_ns))
            return self.finish(request)
        finally:
            self.end(request)

    # One of them leads: it sleeps in the queue, and wakes the others when their replies come, or when it leaves.  That
    # makes it quick; without it, everybody would look for itself after a slice.

    def wait(self, request: Request, deadline: Deadline) -> None:
        """Wait until the reply is there; Empty or PeerDead if it does not come."""
        look_ns = time.monotonic_ns() + SLICE_NS
        try:
            while request.pin is None:
                left_ns = deadline.left_ns()
                slice_ns = max(0, look_ns - time.monotonic_ns())
                self._wait_once(request, slice_ns if left_ns < 0 else min(left_ns, slice_ns))
                if request.pin is not None:
                    return
                if time.monotonic_ns() >= look_ns:
                    self.check_asked(request)
                    look_ns = time.monotonic_ns() + SLICE_NS
                if left_ns == 0 and request.pin is None:
                    raise no_reply(request)
        finally:
            self._step_down(request)

    def _wait_once(self, request: Request, slice_ns: int) -> None:
        if self._leader.setdefault(None, request) is request:
            result = self.take(slice_ns)
            if result not in (lib.BUSQ_OK, lib.BUSQ_EMPTY, lib.BUSQ_INTERRUPTED):
                check(result)
        else:
            self._sleep(request, slice_ns)

    def _sleep(self, request: Request, slice_ns: int) -> None:
        bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        request.wake = lambda: bell.put(None)
        self._asleep[request.number] = request
        try:
            # From here on we are woken; what was there before, we see.
            if request.pin is None and self._leader:
                bell.get(timeout=slice_ns / 1e9)
        except queue.Empty:
            result = lib.BUSQ_OK
            while result == lib.BUSQ_OK and request.pin is None:
                result = self.take(0)
            if result not in (lib.BUSQ_OK, lib.BUSQ_EMPTY, lib.BUSQ_INTERRUPTED):
                check(result)
        finally:
            self._asleep.pop(request.number, None)

    def _step_down(self, request: Request) -> None:
        if self._leader.get(None) is request:
            self._leader.pop(None, None)
        self.wake()

    def wake(self) -> None:
        """Let somebody lead, if nobody does."""
        with contextlib.suppress(KeyError):  # nobody is asleep
            while not self._leader:
                _, other = self._asleep.popitem()
                if other.wake is not None:
                    other.wake()
                    return


def _drop(pin: Any) -> None:
    """Let a message go that nobody waits for."""
    pin.state = lib.BUSQ_PIN_KEPT
    lib.busq_pin_end(pin, ffi.NULL)


def no_reply(request: Request) -> errors.Empty:
    """Make the error of who has waited for long enough."""
    return errors.Empty(f"no reply of {request.asked!r} came before the timeout")


def check_name(to: Any) -> None:
    """Raise TypeError or ValueError unless it is the name of one peer."""
    if not isinstance(to, str):
        raise _core.wrong_type("to", to, "str, the name of one peer")
    if to.startswith("@"):
        raise ValueError(f"{to!r} is a group: one peer is asked, who replies; send to a group instead")


def requests_of(port: Any) -> Requests:
    """Return what a peer of order bus1 asks; the first time, that takes a second slot."""
    known: Requests | None = port._requests
    if known is not None:
        return known
    if lib.busq_peer_is_forked(port._handle):  # another thread of the parent may have held the lock
        check(lib.BUSQ_FORKED)
    with port.__dict__.setdefault("_asking", threading.RLock()):
        if port._requests is None:
            made = Requests(port._handle)
            if port.__dict__.setdefault("_requests", made) is made:
                made.attach(port)
            else:  # a handler of a signal asked meanwhile
                made.close()
        return port._requests  # type: ignore[no-any-return]


def ask(port: Any, to: str, data: Payload, timeout: float | None, note: Any) -> Message:
    """Send a request and return its reply; `note` says whether it was sent."""
    check_name(to)
    deadline = Deadline(timeout)
    request = Request()
    request.asked = to
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
