# SPDX-License-Identifier: Apache-2.0
"""Reading the state of a replica, which one thread changes (replica_engine.py), between two of its commands.

Nothing that reads keeps the state still in the thread of its caller, but for the block of `reading`: a handler that
struck there would wait for a command that can't be applied before it returns.  The thread that applies is asked to
read, between two commands; a read of a single step is made at once, and once more if something was applied meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from busq import errors

__all__ = ["Completion", "Reading", "here"]

_ANSWER_NS = 50_000_000  # a thread that has messages to apply answers sooner


class _Here(threading.local):
    """What is known of the thread that looks; a number could be that of an earlier one."""

    engine: Reading | None = None  # for which it applies


here = _Here()
os.register_at_fork(after_in_child=lambda: vars(here).clear())  # a child that a command has forked applies nothing


class Completion:
    """What one call waits for; `then`, if given, is called when it is done, in the applying thread."""

    __slots__ = ("_lock", "_once", "error", "is_done", "results", "then")

    def __init__(self, then: Callable[[], object] | None = None) -> None:
        self.results: Any = None
        self.error: BaseException | None = None
        self.is_done = False
        self.then = then
        self._once = [True]  # which one thread takes: one that closes the replica may come at the same time
        self._lock = threading.Lock()
        self._lock.acquire()

    def finish(self, results: Any = None, error: BaseException | None = None) -> None:
        """Note the results, or the error, and wake the waiting thread."""
        try:
            self._once.pop()
        except IndexError:
            return
        self.results, self.error, self.is_done = results, error, True
        self._lock.release()
        if self.then is not None:
            self.then()

    def wait(self, left_ns: int = -1) -> bool:
        """Sleep until it is done or the time is over; returns whether it is done."""
        if not self.is_done and self._lock.acquire(timeout=-1 if left_ns < 0 else left_ns / 1e9):
            self._lock.release()
        return self.is_done

    def result(self) -> Any:
        """Return the results of a call that is done, or raise its error."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.results


class Reading:
    """How the state of a replica is read; the engine adds how it is changed."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._questions: dict[Completion, Callable[[], Any]] = {}
        # Held while the state changes, and by readers.  Readers queue for it in a lock of their own, which the applying
        # thread passes through: otherwise that thread would take the state again before a reader wakes.
        self._state_lock: Any = threading.RLock()
        self._readers: Any = threading.RLock()
        self._changes = 0  # odd while the state changes
        self._is_over = False  # nothing will change it any more

    def is_here(self) -> bool:
        """Return whether this is the process that has joined, and not a forked child."""
        return self._pid == os.getpid()

    def _wake_thread(self) -> None:
        """Have the thread that applies look once more; raises Full or ShutDown where that can't be."""
        raise NotImplementedError

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Apply nothing during a block."""
        if here.engine is self or not self.is_here():  # a thread of the parent may have had the lock
            yield
            return
        with self._readers, self._state_lock:
            yield

    def _is_kept_here(self) -> bool:
        """Return whether this thread is in a block of `reading`, or about to enter one."""
        return self.is_here() and bool(self._readers._is_owned())

    def look(self, function: Callable[[], Any]) -> Any:
        """Return what a function of a single step returns between two commands."""
        is_over, found = self._glance(None, function)
        return found if is_over else self._read(function, self._glance)

    def ask(self, function: Callable[[], Any]) -> Any:
        """Return what a function returns between two commands, in the thread that applies."""
        return self._read(function, self._wake)

    def _read(
        self, function: Callable[[], Any], begin: Callable[[Completion, Callable[[], Any]], tuple[bool, Any]]
    ) -> Any:
        if here.engine is self or not self.is_here():
            return function()
        if self._is_kept_here():
            with self._state_lock:
                return function()
        call = Completion()
        try:
            self._questions[call] = function
            is_over, found = begin(call, function)
            if is_over:
                return found
            call.wait()
            return call.result()
        finally:
            self._questions.pop(call, None)

    def _glance(self, _: Completion | None, function: Callable[[], Any]) -> tuple[bool, Any]:
        # Where something is applied meanwhile, the thread looks for questions behind that, and finds this one.
        changes = self._changes
        found = function()
        return changes % 2 == 0 and changes == self._changes, found

    def _wake(self, call: Completion, function: Callable[[], Any]) -> tuple[bool, Any]:
        if self._is_over:
            return True, function()
        try:
            self._wake_thread()
        except errors.ShutDown:
            pass  # the thread answers at its end
        except errors.Full:  # it has messages, and is awake; or the memory of the bus is full, and it may sleep
            if not call.wait(_ANSWER_NS):
                with self.reading():
                    return True, function()
        return False, None

    # ---- the thread that applies ----

    def _answer(self) -> None:
        for call, function in list(self._questions.items()):
            self._try_to_finish(call, function, is_last=True)
            self._questions.pop(call, None)  # a handler that raised may have kept the caller from it

    @staticmethod
    def _try_to_finish(call: Completion, function: Callable[[], Any], is_last: bool) -> None:
        try:
            found = function()
            if found or is_last:
                call.finish(found)
        except BaseException as error:
            call.finish(error=error)
