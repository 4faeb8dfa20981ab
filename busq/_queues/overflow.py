# SPDX-License-Identifier: Apache-2.0
"""What found no room in a queue (busq/queues.py): it waits in the process that put it, and a thread puts it."""

from __future__ import annotations

import _thread
import collections
import contextlib
import errno
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

from busq import errors
from busq._native import _core as core
from busq._port.deadline import NEVER, Deadline
from busq._port.sent_count import nothing_sent
from busq._queues.at_exit import await_exit, overflows
from busq._queues.exception_origin import is_by_handler
from busq._queues.peers import Joined, join_behind, private_name
from busq._queues.pickles import not_put

__all__ = ["GRACE_S", "Overflow", "Patience", "await_so", "is_at_shutdown"]

_PAUSE_S_MIN, _PAUSE_S_MAX = 0.0002, 0.01
GRACE_S = 0.002  # a process that gets makes room sooner than a thread would have begun
_PATIENCE_S = 0.05  # longer than the scheduler keeps a process that gets from its core, where several put
_PATIENCE_SHARE = 0.5
_QUICK_S = 0.00002  # for each object that is got: ten times what it takes to put one through the thread
_BATCH = 100
_TRIES_UNSAID = 100  # a second
_STRUCK_S = 1.0  # a call that a handler of a signal ended just before it went on
# Of the system, or of its file system: what is not there now comes back.
_SHORTAGES = {errno.EAGAIN, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOLCK, errno.ENOMEM, errno.ENOSPC}


def _tally_key(name: str) -> int:
    """Return the number by which what waits for a queue is counted: that in its name."""
    return int(name.rpartition("-")[2], 16)


def await_so(is_so: Callable[[], bool], deadline: Deadline = NEVER) -> bool:
    """Look again and again; False where it is too late."""
    pause_s = _PAUSE_S_MIN
    while not is_so():
        left_ns = deadline.left_ns()
        if left_ns == 0:
            return False
        with nothing_sent():
            time.sleep(pause_s if left_ns < 0 else min(pause_s, left_ns / 1e9))
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)
    return True


def _log(words: str) -> None:
    import logging  # which few need

    logging.getLogger("busq").warning(words)


def is_at_shutdown(error: RuntimeError) -> bool:
    """Whether no thread can be begun any more, since the interpreter shuts down, as it does not before Python 3.12."""
    return "interpreter shutdown" in str(error)


def _is_shortage(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES)


class Patience:
    """How long calls go on waiting for room after the grace: 50 ms at once, and half of all time in the long run.

    As long as much is got, all of the time: to wait costs less than to put twice.  Where more processes put and get
    than there are cores, the one that gets may stand still for longer than the grace, again and again.  If no process
    gets, the first call alone waits.
    """

    def __init__(self) -> None:
        self._left_s = _PATIENCE_S
        self._since_s = time.monotonic()
        self._passed: int | None = None  # before the last wait

    def is_quick(self, passed: int) -> bool:
        """Whether much was got since the last wait began; `passed` is how much it was ever."""
        n_got = 0 if self._passed is None else passed - self._passed
        return n_got * _QUICK_S >= time.monotonic() - self._since_s

    def spend(self, wait: Callable[[float], None], passed: int) -> bool:
        """Call with as many seconds as are left; False if that has raised Full."""
        is_quick = self.is_quick(passed)
        begun_s = time.monotonic() - GRACE_S  # the grace counts
        left_s = self._left_s + _PATIENCE_SHARE * (begun_s - self._since_s)
        self._left_s = left_s = _PATIENCE_S if is_quick else min(_PATIENCE_S, left_s)
        self._since_s, self._passed = begun_s, passed
        try:
            wait(max(0, left_s - GRACE_S))
            return True
        except errors.Full as error:
            if is_by_handler(error):
                raise
            return False
        finally:
            self._left_s -= time.monotonic() - begun_s


class Overflow:
    """What found no room in a queue, in order, and the thread that puts it.

    A handler of a signal, or a `__del__`, may run anywhere in a call, and put as well, or raise.  So nothing here waits
    for a lock that a call could hold: what is one step is one of C, on a deque or on a lock that is tried.  Whatever is
    struck, what was appended is put, by the thread at work or by one that `append` begins on its way out.

        a call      appends                                   finds that a thread holds `_fed`: it will see that
        the thread  finds nothing left        lets go of `_fed`, and looks once more: goes on, or ends

    There is no Thread: where its `start` is struck it forgets the thread that it has begun, which dies of that.
    """

    def __init__(self, home: Any, name: str, maxsize: int) -> None:
        self.items: collections.deque[Any] = collections.deque()  # only the thread takes out, what it has put
        self._fed = _thread.allocate_lock()  # by the thread that holds it
        self._home = home  # a Home (home.py)
        self._name = name
        self._maxsize = maxsize  # of the queue, with what waits in all processes; 0: none
        self.is_short = False  # when it was full last, it held fewer than the bus's capacity, for want of memory
        self.key = _tally_key(name)
        bus = home.bus
        self._counter = Joined(lambda: bus.join(private_name("waits")))
        self._behind = Joined(lambda: join_behind(bus))
        self.patience = Patience()
        self.is_cancelled = False

    def append(self, data: Any, target: int) -> bool:
        """Leave it to the thread; False where as much waits in all as may; ShutDown where the queue has ended.

        RuntimeError where no thread can be begun: the thread comes first, so nothing is kept then.  Where it has just
        ended, and no other can be begun, this call puts all that is kept.
        """
        is_fed = self._fed.locked()
        bound = self._bound(target) if self._maxsize else None
        if is_fed:
            return self._keep_fed(data, target, bound)
        if bound is not None and self.tally() >= bound:
            return False  # as it may be for long, and a thread would be begun with every look
        with self._begun():
            return self._keep_fed(data, target, bound)

    def note_full(self) -> None:
        """Note why a call of this thread has found the queue full."""
        self.is_short = core.shortage() != core.SHORT_OF_NOTHING

    def _bound(self, target: int) -> int:
        """Return how many may wait in all processes together, where there is a limit.

        Where memory is short, the queue holds as many as ever: a few more for a moment, as memory comes back.
        """
        n_held: int = min(self._maxsize, self._home.capacity)
        if self.is_short:
            n_held = min(n_held, self._home.raw.depth(target) or 0)
        return self._maxsize - n_held

    def _keep_fed(self, data: Any, target: int, bound: int | None) -> bool:
        """Keep it, where a thread was at work a moment ago."""
        try:
            return self._keep(data, target, bound)
        finally:
            try:
                await_so(self._goes_on)  # a thread may just have ended, and left room for another one
            except BaseException:  # of a handler: what it has kept from its thread no later call may come to put
                self._goes_on()
                raise

    def _keep(self, data: Any, target: int, bound: int | None) -> bool:
        bound = bound or 0
        is_kept = core.keep(self.items, self._home.sender(), self.key, bound, data, target)
        if is_kept is None:  # that peer counts for another queue
            with nothing_sent():
                counter = self._counter.peer()
            is_kept = core.keep(self.items, counter, self.key, bound, data, target)
        return is_kept is True

    def tally(self) -> int:
        """Return how much waits in all processes."""
        return int(self._home.raw.tally(self.key))

    @contextlib.contextmanager
    def _begun(self) -> Iterator[None]:
        """Have a thread at work, which begins to put behind the block.

        And once the call has gone on, and perhaps has put more: otherwise it could be through with the only object, and
        `join` return, while the call waits for its core between two of them.
        """
        await_exit()
        begun, gone_on = _thread.allocate_lock(), _thread.allocate_lock()
        begun.acquire()
        gone_on.acquire()
        try:
            with nothing_sent():
                _thread.start_new_thread(self._feed, (begun, gone_on))
                begun.acquire()
            yield
        finally:
            gone_on.release()

    def _feed(self, begun: Any, gone_on: Any) -> None:
        is_mine = self._fed.acquire(blocking=False)  # otherwise another one was begun meanwhile
        if is_mine:
            overflows[begun] = self
        begun.release()
        try:
            gone_on.acquire(timeout=_STRUCK_S)
            while is_mine:
                self._feed_all()
                is_mine = bool(self.items) and self._fed.acquire(blocking=False)
        except Exception:
            if not self.is_cancelled:
                raise
        finally:
            self._forget_peers()
            overflows.pop(begun, None)

    def _forget_peers(self) -> None:
        self._counter.forget()
        self._behind.forget()

    def _feed_all(self) -> None:
        try:
            while self.items:
                for _ in range(self._put_some()):
                    core.settle(self.items)
        except BaseException as error:
            while self.items:
                not_put(self.items[0][1], error)
                core.settle(self.items)
            if not isinstance(error, errors.ShutDown):
                raise
        finally:
            self._fed.release()

    def put_here(self) -> bool:
        """Put in this thread what finds room now, where no other can be begun; whether nothing is left to it.

        What a handler of a signal raises leaves in order what was not put.
        """
        while self.items and not self._fed.locked():
            sender = self._behind.known() or self._home.sender()
            try:
                core.move_first(self.items, self._fed, functools.partial(sender.send, self._name, timeout=0))
            except Exception as error:
                if is_by_handler(error):
                    raise
                if isinstance(error, errors.Full) or _is_shortage(error):
                    return False
                self._put_none(error)
        self._forget_peers()
        return True

    def _put_none(self, error: Exception) -> None:
        """Give up what waits; behind the end of the queue, by another peer, it may still be put."""
        if isinstance(error, errors.ShutDown) and not self._behind.known():
            self._behind.peer()
            return
        while self.items and not self._fed.locked():
            core.move_first(self.items, self._fed, lambda data: not_put(data, error))
        if not isinstance(error, errors.ShutDown):
            raise error

    def _put_some(self) -> int:
        """Put at least one, however long that takes; returns how many."""
        pause_s, n_tries = _PAUSE_S_MIN, 0
        while True:
            n_tries += 1
            try:
                return self._put([self.items[at][1] for at in range(min(_BATCH, len(self.items)))])
            except (MemoryError, OSError) as error:
                if not _is_shortage(error):
                    raise
                if n_tries == _TRIES_UNSAID:
                    _log(f"{len(self.items)} objects wait to be put into a queue, until there is no: {error!r}")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    def _put(self, batch: list[Any]) -> int:
        sender = self._behind.known() or self._home.sender()
        try:
            return sender.send_many([(self._name, data) for data in batch], timeout=0)
        except (errors.ShutDown, errors.Full, MemoryError, OSError) as error:
            n_sent = int(getattr(error, "sent", 0))
            if n_sent:
                return n_sent
            if isinstance(error, errors.ShutDown) and not self._behind.known():
                self._behind.peer()
                return self._put(batch)
            if not isinstance(error, errors.Full):  # dropped, for one
                raise
            self.note_full()
        self._put_one(batch[0])
        return 1

    def _put_one(self, data: Any) -> None:
        try:
            (self._behind.known() or self._home.sender()).send(self._name, data)
        except errors.ShutDown:
            if self._behind.known():
                raise
            self._behind.peer().send(self._name, data)

    def wait(self, deadline: Deadline) -> bool:
        """Wait until all has gone; False where it is too late."""
        return await_so(self._has_gone, deadline)

    def join(self) -> None:
        """Wait until all has gone, and the thread has ended."""
        await_so(lambda: self._has_gone() and self not in list(overflows.values()))

    def _has_gone(self) -> bool:
        return self._goes_on() and not self.items

    def _goes_on(self) -> bool:
        """Have a thread at work where something waits; where none can be begun, put what fits; False if more waits."""
        if not self.items or self._fed.locked():
            return True
        try:
            with self._begun():
                return True
        except RuntimeError as error:
            if is_by_handler(error):
                raise
            return self.put_here() or (self.is_cancelled and is_at_shutdown(error))
