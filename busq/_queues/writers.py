# SPDX-License-Identifier: Apache-2.0
"""Which processes may still put into a queue that ends with them (`Queue(ends=True)`, busq/queues.py).

Guarantee: once no process is left that may put, each that gets finds the queue shut down behind what was put; whatever
has ended the others.  It costs nothing to wait for that.

Mechanism: each process that may put holds a read lock of the kernel on one byte of the bus's file, the queue's own,
through a description that a forked child inherits.  What gets gives its own up, and has a thread wait for a write lock
there, which shuts the queue down as soon as it comes.  For a pickle that no process has opened so far, the process that
made it has a lock of its own, until then.

Not given: a difference between a child that has inherited the queue and will put, and one that never uses it: it counts
until it closes the queue or ends.  A pickle that is never opened counts until the process that made it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import select
import struct
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from busq import errors
from busq._port.deadline import Deadline
from busq._queues.exception_origin import is_by_handler
from busq._queues.overflow import is_at_shutdown

if TYPE_CHECKING:
    from busq._queues.process_state import Home
    from busq.peer import Message

__all__ = ["Writers"]

_FIRST_BYTE = 1 << 61  # behind all that the core locks
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.001, 0.2
_LOOK_S = 0.02


class _Lock:
    """A lock on a queue's byte, through a description of its own; it goes with this object.

    Its descriptor is held by what closes it in C: a handler of a signal that raised in a `__del__` would leave it open.
    """

    def __init__(self, path: str, byte: int) -> None:
        self._byte = byte
        self._holder = select.epoll.fromfd(os.open(path, os.O_RDWR | os.O_CLOEXEC))  # of any descriptor: not waited for

    def _call(self, command: int, kind: int) -> None:
        fcntl.fcntl(self._holder.fileno(), command, struct.pack("hhqqi0q", kind, os.SEEK_SET, self._byte, 1, 0))

    def try_read(self) -> bool:
        """Have it for as long as this object lives; False where the queue is just ending."""
        return self._try(fcntl.F_RDLCK)

    def try_write(self) -> bool:
        """Have it, alone; False where a process has it for reading."""
        return self._try(fcntl.F_WRLCK)

    def _try(self, kind: int) -> bool:
        try:
            self._call(fcntl.F_OFD_SETLK, kind)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def await_write(self) -> None:
        """Wait until no process has it for reading."""
        while True:
            with contextlib.suppress(InterruptedError):
                self._call(fcntl.F_OFD_SETLKW, fcntl.F_WRLCK)
                return

    def close(self) -> None:
        """Give it up; a forked child that has inherited it still has it."""
        self._holder.close()


class Writers:
    """What this process has for one queue: whether it may put, and a thread that waits for the end of all that may."""

    def __init__(self, home: Home, name: str, end: weakref.WeakMethod[Callable[[], None]]) -> None:
        """`end` shuts the queue down."""
        self._end = end
        self._handed = lambda: home.raw.handed(name, 0)
        self._path = os.path.join(*home.key[:2])
        self._byte = _FIRST_BYTE + int(name.rpartition("-")[2], 16) % _FIRST_BYTE
        self._mine: _Lock | None = None
        self._for_pickles: set[_Lock] = set()
        self._waiting: _Lock | None = None
        self._looks = False  # for the end, where no thread can wait for it
        self.may_put()

    def may_put(self) -> None:
        """Count as a process that may put."""
        if self._mine is None:
            lock = _Lock(self._path, self._byte)
            if lock.try_read():  # otherwise `put` finds that the queue was shut down
                self._mine = lock

    def gets(self) -> None:
        """Count as one no more, and shut the queue down once none does."""
        self._mine = None
        if self._waiting is None:
            lock = _Lock(self._path, self._byte)
            self._looks = not self._begin(_await_end, lock, self._end)
            self._waiting = lock  # behind it: where a signal handler raises in between, two threads wait

    def receiver(self, recv: Callable[..., Message]) -> Callable[..., Message]:
        """Return what receives, and finds the end."""
        return functools.partial(self._receive, recv) if self._looks else recv

    def _receive(self, recv: Callable[..., Message], timeout: float | None, **options: Any) -> Message:
        """Receive, and look for the end now and then, since no thread waits for it."""
        deadline = Deadline(timeout)
        while True:
            left_s = deadline.left_s()
            try:
                return recv(_LOOK_S if left_s is None else min(left_s, _LOOK_S), **options)
            except errors.Empty as error:
                if is_by_handler(error) or not (self._shuts_down() or left_s != 0):
                    raise

    def _shuts_down(self) -> bool:
        """Shut the queue down if no process is left that may put."""
        is_over = self._waiting is not None and self._waiting.try_write()
        if is_over:
            _end(self._end)
        return is_over

    def hands_on(self) -> None:
        """Count as one until what was pickled is opened in another process."""
        if not self._for_pickles:
            lock = _Lock(self._path, self._byte)
            if lock.try_read() and not self._begin(_await_opened, lock, self._for_pickles, self._handed):
                self._for_pickles.add(lock)

    def close(self) -> None:
        """Count as one no more."""
        self._mine = None

    def begin_in_child(self) -> None:
        """Keep what a forked child counts by; what threads of the parent wait for is not the child's."""
        for lock in (*self._for_pickles, self._waiting):
            if lock is not None:
                lock.close()
        self._for_pickles, self._waiting = set(), None

    @staticmethod
    def _begin(target: Any, *arguments: Any) -> bool:
        """Begin a thread; False where the interpreter shuts down, and none can be begun any more."""
        try:
            threading.Thread(target=target, args=arguments, name=target.__name__, daemon=True).start()
        except RuntimeError as error:
            if not is_at_shutdown(error):
                raise
            return False
        return True


def _end(end: weakref.WeakMethod[Callable[[], None]]) -> None:
    shut_down = end()
    if shut_down is not None:
        with contextlib.suppress(errors.BusqError, OSError, ValueError):  # it was closed here, or its bus is gone
            shut_down()


def _await_end(lock: _Lock, end: weakref.WeakMethod[Callable[[], None]]) -> None:
    lock.await_write()
    _end(end)
    lock.close()


def _await_opened(lock: _Lock, locks: set[_Lock], handed: Callable[[], bool]) -> None:
    pause_s = _PAUSE_S_MIN
    locks.add(lock)
    while lock in locks:
        while handed():
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)
        locks.discard(lock)
        if handed():  # pickled once more in between, by a call that has found this lock
            locks.add(lock)
    lock.close()
