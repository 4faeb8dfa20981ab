# SPDX-License-Identifier: Apache-2.0
"""The queues in which tasks wait for one peer, whatever the event loop.

A task is woken when it is its turn and there is something to do, and does it itself, in the step in which it wakes up:
cancelled at any time before, it has done nothing.  A task that leaves its queue, for any reason, wakes its successor.

Receivers wait in one queue, first come first served.  Senders wait in a queue for each list of receivers; the first of
every queue has asked the core for the room that it lacks (`busq_peer_send_asking` in csrc/busq.h).  While a task waits,
a look is due, or a receiver looks again and again, or the core listens: then the descriptor becomes readable when it is
worth looking again.  At that moment listening ends, what was asked for is forgotten, and the first task of each queue
looks.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from busq._native import _core as core
from busq._port.deadline import Deadline
from busq._port.readiness import Readiness
from busq.errors import Empty, Full

__all__ = ["SLICE_S", "WaitQueues"]

SLICE_S = 200e-6  # for so long a task may go on without letting others run; also in csrc/python/async_attempt.c
_RETRY_S = 1e-3
# As in the core: a waiter looks for so long before it sleeps, unless the last waits were all many times as long.
# YIELD_NS_DEFAULT of csrc/shm/wait/pacing.c, in seconds.
_SPIN_S, _IN_VAIN_MAX, _IN_VAIN_TIMES = 50e-6, 4, 8


class _SpinBudget:
    """For how long to look before sleeping: only where that is mostly long enough."""

    def __init__(self, chosen_s: float | None) -> None:
        self._spin_s = _SPIN_S if chosen_s is None else chosen_s
        self._is_chosen = chosen_s is not None
        self._in_vain = 0

    def may_spin(self, spent_s: float) -> bool:
        return self._in_vain < _IN_VAIN_MAX and spent_s < self._spin_s

    def learn(self, waited_s: float) -> None:
        if waited_s < _IN_VAIN_TIMES * self._spin_s:
            self._in_vain = 0
        elif self._in_vain < _IN_VAIN_MAX and not self._is_chosen:
            self._in_vain += 1


class _Line(OrderedDict[Any, None]):
    """Tasks that wait for their turn.  One that is cancelled leaves at once, wherever it stands."""

    def first(self) -> Any:
        return next(iter(self))

    def enter(self, waiter: Any, is_first: bool) -> None:
        self[waiter] = None
        if is_first:
            self.move_to_end(waiter, last=False)


class _Senders(_Line):
    """Tasks that wait for room at the same receivers, and why the first of them has not sent."""

    why = ""


class WaitQueues:
    """The queues of one peer; the event loops differ in how a task sleeps and how a descriptor is watched."""

    def __init__(self, readiness: Readiness, spin_s: float | None) -> None:
        self._readiness = readiness
        self.spin_s = spin_s
        self._fd = -1
        self._receive_spin, self._send_spin = _SpinBudget(spin_s), _SpinBudget(spin_s)
        self.running: Any = None  # the event loop, if it is one of asyncio
        self.receivers = _Line()
        self.senders: dict[Any, _Senders] = {}
        self.resumed = time.monotonic()  # when a task of this peer last went on after a wait

    # ---- what the event loops differ in ----

    def check(self) -> None:
        """Raise RuntimeError in any other event loop than the one in which the peer joined."""
        raise NotImplementedError

    async def _yield(self) -> None:
        """Let other tasks run."""
        raise NotImplementedError

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        """Make a call that blocks for a moment in a thread, and wait for its end, whatever happens meanwhile."""
        raise NotImplementedError

    def _new_waiter(self) -> Any:
        raise NotImplementedError

    async def _sleep(self, waiter: Any, seconds: float | None) -> bool:
        """Sleep until the waiter is woken; False if the time is over."""
        raise NotImplementedError

    def look_soon(self) -> None:
        """Let the first task of each queue look."""
        raise NotImplementedError

    def _watch(self) -> None:
        """Let `_ready` be called when the descriptor is readable."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Do not watch the descriptor any more."""
        raise NotImplementedError

    def _refuse(self) -> NoReturn:
        if self._readiness.is_forked():
            core.check(core.FORKED)
        raise RuntimeError(
            "this peer joined in another event loop, and can be used in that one only: close it and join again here, "
            "or join under another name"
        )

    def _check_may_close(self) -> None:
        """Raise RuntimeError where the event loop runs in another thread."""

    # ---- waiting ----

    async def pause(self) -> None:
        """Let other tasks run, for this one has run for long enough."""
        await self._yield()
        self.resumed = time.monotonic()

    async def receive_turn(self, deadline: Deadline, is_first: bool, request: Any = None) -> None:
        """Wait until there is something to receive and it is this task's turn; raises Empty at the deadline.

        A task that waits for the reply to a request also goes on as soon as another one has taken that reply.
        """
        waiter = self._new_waiter()
        if request is not None:
            request.wake = waiter.wake
        self.receivers.enter(waiter, is_first)
        try:
            began = time.monotonic()
            has_message = self._readiness.has_message
            is_done = has_message if request is None else lambda: request.reply is not None or has_message()
            if self.receivers.first() is waiter and await self._spin(self._receive_spin, is_done):
                return
            await self._wait(waiter, deadline, Empty("nothing came before the timeout"), request)
            self._receive_spin.learn(self.resumed - began)
        finally:
            del self.receivers[waiter]
            if self.receivers:
                self.look_soon()

    async def send_in_turn(self, key: Any, send: Callable[[bool], bool], deadline: Deadline) -> None:
        """Try to send until it was sent, behind the other tasks that send to the same receivers.

        Parameters: `key`, names the queue; `send`, tries once, and returns whether it was sent; with True it asks for
        the room that it lacks.
        """
        if time.monotonic() - self.resumed > SLICE_S:
            await self.pause()
        is_first = key not in self.senders
        if is_first:
            if send(False):
                return
            if deadline.left_ns() == 0:
                core.check(core.FULL)
        try:
            if is_first:
                with self._in_queue(key, is_first):
                    if await self._spin(self._send_spin, lambda: send(False)):
                        return
            while not is_first or not send(True):
                await self.send_turn(key, deadline, is_first)
                is_first = True
        finally:
            queue = self.senders.get(key)
            if queue:
                queue.first().wake()

    async def send_turn(self, key: Any, deadline: Deadline, is_first: bool) -> None:
        """Wait until it is worth trying to send to these receivers again; raises Full at the deadline.

        The first in its queue has just tried in vain: why, the core still knows, and all behind it wait for the same.
        """
        with self._in_queue(key, is_first) as waiter:
            began = time.monotonic()
            await self._wait(waiter, deadline, Full(self.senders[key].why))
            self._send_spin.learn(self.resumed - began)

    @contextlib.contextmanager
    def _in_queue(self, key: Any, is_first: bool) -> Iterator[Any]:
        waiter = self._new_waiter()
        queue = self.senders.setdefault(key, _Senders())
        if is_first:
            queue.why = core.error_text()
        queue.enter(waiter, is_first)
        try:
            yield waiter
        finally:
            del queue[waiter]
            if not queue:
                del self.senders[key]

    async def _wait(self, waiter: Any, deadline: Deadline, error: Exception, request: Any = None) -> None:
        if self._fd < 0:
            self._fd = self._readiness.fileno()
        left_s = deadline.left_s()
        waiter.saw_unsent = self._readiness.has_unsent
        is_slice = request is None and waiter.saw_unsent and (left_s is None or left_s > _RETRY_S)
        waiter.is_asleep = True
        if request is not None and (request.reply is not None or request.is_lost):
            waiter.wake()  # that came before it could be woken
        self.look_soon()
        try:
            if not await self._sleep(waiter, _RETRY_S if is_slice else left_s) and not is_slice:
                raise error
        finally:
            self.resumed = time.monotonic()
            del error  # or it and this frame, and all frames above, would keep each other until they are collected

    async def _spin(self, budget: _SpinBudget, is_done: Callable[[], object]) -> bool:
        """Look for a moment, while others run; True when it is done."""
        began = time.monotonic()
        while budget.may_spin(time.monotonic() - began):
            os.sched_yield()
            await self._yield()
            self.resumed = time.monotonic()
            if is_done():
                budget.learn(0)
                return True
        return False

    # ---- looking ----

    def _look(self) -> None:
        """Wake the first receiver, if there is something for it; otherwise listen for the first of each queue."""
        if self._needs_message():
            self._listen(core.LISTEN_MESSAGES)
        elif self.senders:
            self._listen(core.LISTEN_ROOM)

    def _needs_message(self) -> bool:
        first = self.receivers.first() if self.receivers else None
        if first is None or not first.is_asleep:
            return False
        if not self._readiness.has_message() and first.saw_unsent >= self._readiness.has_unsent:
            return True
        first.wake()  # also one that saw nothing unsent when it began to sleep, and now has to try again soon
        return False

    def _listen(self, what: int) -> None:
        if self._readiness.listen(what):
            self._watch()
        else:
            self.wake_all()  # their calls find out why

    def _ready(self) -> None:
        """Look again: the descriptor is readable."""
        self._readiness.listen(core.LISTEN_NOT)
        if self._readiness.stays_readable:
            self._forget()
        for queue in self.senders.values():
            queue.first().wake()
        if self.receivers or self.senders:
            self._look()

    def wake_all(self) -> None:
        """Let every task that waits try once more."""
        for queue in (self.receivers, *self.senders.values()):
            for waiter in queue:
                waiter.wake()

    def close(self) -> None:
        """Watch nothing any more, and wake all tasks: the peer is about to be closed, and they will see that."""
        if self._readiness.is_forked():  # the parent watches it
            return
        self._check_may_close()
        if self._fd >= 0:
            self._forget()
        self._fd = -1
        self.wake_all()
