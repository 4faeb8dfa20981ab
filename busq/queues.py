# SPDX-License-Identifier: Apache-2.0
"""Queue, SimpleQueue and JoinableQueue: those of multiprocessing, on a bus that is made and removed by itself.

A queue is a shared queue of a bus (`Bus.join` with `shared=True`).  The queues that a process and its descendants make
live on one temporary bus, so that `put_all` can put into several of them in one step.  In each process one peer puts,
into all queues of the bus, and one peer per queue gets; each joins when it is first needed, and in a forked child anew.

No lock is shared: a process that is killed while it puts or gets leaves the queue to the others.

What is put is in shared memory, and outlives its process, as soon as `put` returns; but for what finds no room there,
where a queue may hold more than that.  It waits in the process, where with multiprocessing all of it waits, and a
thread puts it as room comes.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import pickle
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from busq import errors
from busq._native import _core as core
from busq._port.arguments import integer, wrong_type
from busq._port.deadline import NEVER, Deadline
from busq._port.sent_count import nothing_sent
from busq._queues.done_ahead import drop_one, put_right, report_ahead, undone
from busq._queues.exception_origin import is_by_handler
from busq._queues.handed import hand_on
from busq._queues.overflow import GRACE_S, await_so, is_at_shutdown
from busq._queues.peers import private_name
from busq._queues.pickles import (
    dumps,
    dumps_for_views,
    joined,
    loads_packed,
    not_put,
    size_of,
    unpack_copies,
    unpack_views,
)
from busq._queues.pipe import Ends
from busq._queues.process_state import Home, Local, default_home, find_home, home_on, let_go, register
from busq._queues.shutdown import DROPPED, Ending
from busq._queues.tasks import TROUBLE, Awaited, Tasks
from busq._queues.timeouts import wait_of
from busq.bus import Bus
from busq.peer import Message

if TYPE_CHECKING:
    from busq._queues.writers import Writers

__all__ = ["JoinableQueue", "Queue", "SimpleQueue", "put_all"]

_T = TypeVar("_T")
_BURIAL_PERIOD_S = 0.5
_LOOK_EACH = 64
_MOVE_S = 1.0  # a process that is stopped while it puts what waited


# ---- what all queues have in common ----


def _revive(
    kind: Any, key: tuple[str, str, bytes], is_default: bool, name: str, maxsize: int, views: bool, ends: bool
) -> Any:
    queue = kind.__new__(kind)
    try:
        home = find_home(key, is_default=is_default)
    except (OSError, errors.BusqError) as error:
        # Not as it is: a process that reads tasks from a pipe takes an OSError for the pipe's end, and leaves quietly.
        text = f"the queue {name!r} can't be used here, for its bus can't be opened: {error}"
        raise pickle.UnpicklingError(text) from error
    queue._settle(home, name, maxsize, views=views, ends=ends, is_private=False)
    home.raw.handed(name, -1)
    return queue


def _closed(queue: _Base[Any]) -> OSError:
    """What a look at a closed queue comes to, where multiprocessing's would look at a closed file."""
    return OSError(errno.EBADF, f"{queue!r} is closed")


class _Base(Awaited[_T], Ending):
    _never_overflows = False
    _writers: Writers | None = None  # where it ends with those that put
    _is_closed_unused = False  # multiprocessing's Queue, closed before anything was put into it, can still be looked at

    def __init__(self, maxsize: int = 0, *, bus: Bus | None = None, views: bool = False, ends: bool = False) -> None:
        maxsize = integer("maxsize", maxsize, "a whole number; 0 or less is no limit")
        home = default_home() if bus is None else home_on(bus)
        self._settle(home, private_name("queue"), max(0, maxsize), views=bool(views), ends=bool(ends), is_private=True)
        reader = self._local.open_reader(is_new=True)
        if 0 < maxsize < home.capacity:
            core.set_limit(reader, maxsize)

    def _settle(self, home: Home, name: str, maxsize: int, *, views: bool, ends: bool, is_private: bool) -> None:
        self._home, self._name, self._maxsize, self._views = home, name, maxsize, views
        self._dump, self._unpack = (dumps_for_views, unpack_views) if views else (dumps, unpack_copies)
        # Shared memory holds fewer than the queue may: what finds no room there waits here.
        self._overflows = not self._never_overflows and not 0 < maxsize <= home.capacity
        self._begin(is_private=is_private)
        if ends:
            from busq._queues.writers import Writers  # here, since most queues need none

            self._writers = Writers(home, name, weakref.WeakMethod(self.shutdown))
        register(self)

    def _begin(self, *, is_private: bool) -> None:
        """Begin in this process; a forked child does so again."""
        self._local = Local(self._home, self._name, self._maxsize, is_private=is_private)
        self._is_closed = False
        self._send: Callable[..., Any] | None = None
        self._recv: Callable[..., Message] | None = None
        self._tasks = self._local.tasks = Tasks(self._home, self._name)
        if self._writers is not None:
            self._writers.begin_in_child()
        # Not at the end of the process, where threads that are not waited for may still be in `get`.
        weakref.finalize(self, let_go, self._local).atexit = False

    def __reduce__(self) -> Any:
        self._local.is_private = False
        hand_on(self._home, self._name)
        ends = self._writers is not None
        if self._writers is not None:
            self._writers.hands_on()
        key, is_default = self._home.key, self._home.is_default
        return _revive, (type(self), key, is_default, self._name, self._maxsize, self._views, ends)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} of bus {self._home.bus.name!r}>"

    # ---- errors, as multiprocessing has them ----

    def _refuse(self) -> NoReturn:
        raise ValueError(f"{self!r} is closed")

    def _fail(self, error: Exception, data: Any = b"") -> NoReturn:
        if is_by_handler(error):
            raise error
        if isinstance(error, errors.ShutDown):
            if not self._is_closed and self._has_ended():
                raise errors.ShutDown(f"{self!r} was shut down") from error
            raise ValueError(f"{self!r} is closed: {error}") from error
        if size_of(data) > self._home.largest_bytes:
            raise ValueError(
                f"an object of {size_of(data):,} bytes when pickled: the bus of this queue takes at most "
                f"{self._home.largest_bytes:,}; up to 4 GiB, make it on a bus of its own (bus=) with a larger arena "
                "and reserve=False"
            ) from error
        if isinstance(error, errors.PeerDead | errors.UnknownPeer):
            raise BrokenPipeError(errno.EPIPE, f"{self!r} is gone: {error}") from error
        if isinstance(error, errors.BusqError) and not isinstance(error, OSError):
            raise OSError(errno.EIO, f"{self!r}: {error}") from error
        raise error

    # ---- putting ----

    def _will_put(self) -> None:
        """Count as a process that may put, until it gets."""
        if self._writers is not None:
            self._recv = None  # the next `get` comes by `_will_get`
            self._writers.may_put()

    def _will_get(self) -> None:
        """Count no more as a process that may put, until it does."""
        if self._writers is not None:
            self._send = None
            self._writers.gets()

    def _open_sender(self) -> Callable[..., Any]:
        with nothing_sent():
            self._will_put()
            self._send = send = self._home.sender().send
            return send

    def _put(self, data: Any, timeout: float | None) -> None:
        if not self._local.overflow.items:
            try:
                send = self._send or self._open_sender()
                waits = timeout
                if self._overflows:
                    waits = GRACE_S if timeout is None else min(timeout, GRACE_S)
                send(self._name, data, timeout=waits)
                return
            except errors.Full as error:
                if not self._overflows or is_by_handler(error):
                    raise
                self._local.overflow.note_full()
            except TROUBLE as error:
                self._fail(error, data)
        self._put_over(data, timeout)

    def _put_over(self, data: Any, timeout: float | None) -> None:
        """Put into a queue without room, or behind what has found none."""
        self._will_put()
        deadline = NEVER if timeout is None else Deadline(timeout)
        try:
            if timeout != 0 and self._put_late(data, timeout):
                return
            self._home.must_hold(size_of(data))
            data = joined(data)  # it may wait here beyond this call
            # The first try without what a wait needs: it is the only one wherever there is no limit.
            is_put = self._try_over(data) or (timeout != 0 and await_so(lambda: self._try_over(data), deadline))
        except TROUBLE as error:
            self._fail(error, data)
        if not is_put:
            where = f'the queue of "{self._name}" on bus "{self._home.bus.name}"'
            why = f"it held {self._maxsize}, as many as it may" if self._maxsize else "no thread puts at shutdown"
            raise errors.Full(f"{where} stayed full until the timeout: {why}")

    def _put_late(self, data: Any, timeout: float | None) -> bool:
        """Wait for room for a little longer; False where none has come.

        Behind what waits here, only where that will go soon; to look for that with every call would cost too much.
        """
        overflow, send = self._local.overflow, self._home.sender().send
        waiting = len(overflow.items)
        if waiting % _LOOK_EACH:
            return False
        passed = self._local.passed()
        if waiting and not overflow.patience.is_quick(passed):
            return False

        def wait(patience_s: float) -> None:
            limit = Deadline(patience_s if timeout is None else min(timeout, patience_s))
            if not overflow.wait(limit):
                raise errors.Full("what was put before has found no room")
            send(self._name, data, timeout=limit.left_s())

        return overflow.patience.spend(wait, passed)

    def _try_over(self, data: Any) -> bool:
        overflow = self._local.overflow
        try:
            if overflow.append(data, self._local.find()):
                return True
        except RuntimeError as error:
            if self._local.is_private or not is_at_shutdown(error):  # of a private one, it could wait for ever
                raise
            overflow.put_here()
        if overflow.items:
            return False
        try:
            self._home.sender().send(self._name, data, timeout=0)
            return True
        except errors.Full as error:
            if is_by_handler(error):
                raise
            overflow.note_full()
            return False

    # ---- getting ----

    def _open_reader(self) -> Callable[..., Message]:
        self._will_get()
        recv = self._local.open_reader().recv
        self._recv = recv = recv if self._writers is None else self._writers.receiver(recv)
        return recv

    def _get(self, timeout: float | None) -> Any:
        try:
            message = (self._recv or self._open_reader())(timeout)
        except errors.NoSpace as error:
            self._recv = None
            if not self._views or not self._local.change_reader():
                self._fail(error)
            return self._get(timeout)
        except errors.PeerExists:
            return self._get(self._local.await_reader(timeout))
        except errors.Empty:
            raise
        except errors.ShutDown as error:
            message = self._get_last(error, timeout)
        except TROUBLE as error:
            self._fail(error)
        try:
            return pickle.loads(message.view())  # which is released with the call
        except pickle.UnpicklingError as error:
            return loads_packed(message, self._unpack, error)

    def _read(self, message: Message) -> Any:
        try:
            return pickle.loads(message.view())
        except pickle.UnpicklingError as error:
            return loads_packed(message, self._unpack, error)

    # ---- looking ----

    def _waiting(self) -> int:
        """Return how many wait in processes; what leaves them meanwhile is in shared memory by then."""
        return self._local.overflow.tally() if self._overflows else 0

    def _size(self) -> int:
        try:
            if self._local.end() == DROPPED:
                return 0
            waiting, count = self._waiting(), self._local.count()[0]
            if waiting and not count:  # it is about to be put, or was put and got a moment ago
                await_so(lambda: self._local.count()[0] > 0 or not self._waiting(), Deadline(_MOVE_S))
                waiting, count = self._waiting(), self._local.count()[0]
            return waiting + count
        except TROUBLE as error:
            self._fail(error)

    def empty(self) -> bool:
        """Return whether nothing is there to be got.

        It agrees with `qsize`: what waits in any process for room is there, and a moment later can be got.

        Errors: OSError if the queue was closed here after something was put into it (a SimpleQueue: at all), as with
        multiprocessing's, or if the bus is damaged.

        Cost: that of `Queue.qsize`.

        >>> import busq
        >>> queue = busq.SimpleQueue()
        >>> queue.put("hello")
        >>> queue.empty()
        False
        """
        if self._is_closed and (self._send or self._is_closed_unused):
            raise _closed(self)
        return self._size() == 0

    def close(self) -> None:
        """Stop using the queue in this process: what is in it stays for others.

        Closing twice is harmless.

        Errors: none.

        Cost: some microseconds.

        >>> import busq
        >>> queue = busq.SimpleQueue()
        >>> queue.close()
        """
        self._is_closed = True
        self._recv = None
        if self._writers is not None:
            self._writers.close()
        self._tasks.close()
        self._local.close_reader()


class Queue(_Base[_T]):
    """A queue that any number of processes put into and get from: multiprocessing's Queue, without its lock and thread.

    Handed to a process as an argument, or in any other pickle, at any time, it is the same queue there.  Each object
    goes to one of those that get; they come in one order, in which those of one process stand as it has put them.

    Its place is on a temporary bus, which is made for the first queue of a process tree and goes with its last process,
    whatever ends that.  A process that is killed takes with it what it had got, and nothing else, and holds up none;
    killed in the middle of `get`, it may leave an object that others get only after what stood behind it.

    Parameters: `maxsize`, how many objects it holds before `put` waits; 0 or less is no limit: then `put` waits for
    50 milliseconds at most, and what finds no room in shared memory waits in this process, in order, until it does; so
    do those of a `maxsize` above 3072, or the capacity of `bus`.  `bus`, the bus that holds it; the default one takes
    objects of up to 4 GiB when pickled, as far as there is shared memory; `views`, True to get arrays, Arrow tables and
    all that hands its buffers over out of band (pickle protocol 5) without a copy, as `Message.object` does: they are
    read-only views of shared memory, and keep it until the last of them is dropped.  Otherwise they are the getter's
    own.  `ends`, True to have it shut down once no process is left that may put: `get` raises ShutDown then, behind
    the last object.  A process may put from when it has the queue until it gets from it, closes it or ends, whatever
    ends it; if it puts again, it may again.  What opens a pickle that was made so far may put as well.

    Errors: NoSpace where there is no memory for the bus; ValueError if `bus` has another order than bus1; TypeError.

    Cost: 0.3 ms; of the first one, and so of every 256th, a millisecond and 1.2 MB of shared memory; with the first
    `put` into it, 4 kB, and 64 kB once more than 128 objects wait in it.

    >>> import busq
    >>> queue = busq.Queue()
    >>> queue.put({"name": "alice"})
    >>> queue.qsize(), queue.get(), queue.empty()
    (1, {'name': 'alice'}, True)
    """

    def put(self, obj: _T, block: bool = True, timeout: float | None = None) -> None:
        """Put an object in; it is pickled before `put` returns, and not looked at any more.

        Parameters: `obj`; `block`, False to try once; `timeout`, how many seconds to wait for room: None waits for
        ever.

        Errors: queue.Full (`busq.Full`) if `maxsize` were there until the timeout, or, up to a `maxsize` of 3072,
        shared memory stayed full, as its text says; ValueError if the queue was closed here, or the object is too large
        for its bus; what pickling raises; BrokenPipeError if the queue is gone; RuntimeError if it found no room, and
        no thread can be begun that would put it later; where that is since the interpreter shuts down, and the queue
        was handed on, it waits for room, or is Full; OSError.  None has put it.

        Cost: a pickle, and 0.3 microseconds; a system call only to wake a reader that waits.  Buffers of 256 KiB and
        more that come out of band, and with `views` all of them, are copied once, into shared memory.

        >>> import busq
        >>> queue = busq.Queue(maxsize=1)
        >>> queue.put("first")
        >>> try:
        ...     queue.put("second", timeout=0.01)
        ... except busq.Full:
        ...     print("full")
        full
        """
        if self._is_closed:
            self._refuse()
        dump = self._dump  # a step of its own: of what is no method, that is the quicker way
        timeout = None if block and timeout is None else wait_of(block, timeout)
        data = dump(obj)
        try:
            self._put(data, timeout)
        except BaseException as error:
            not_put(data, error)
            raise

    def get(self, block: bool = True, timeout: float | None = None) -> _T:
        """Get the next object out.

        Parameters: `block`, False to try once; `timeout`, how many seconds to wait for one: None waits for ever.

        Errors: queue.Empty (`busq.Empty`) if none came before the timeout; ValueError if the queue was closed here;
        what unpickling raises, which loses the object; NoSpace if the bus has no place left for this process; OSError.

        Cost: an unpickling, and half a microsecond; with `views` none for buffers, otherwise a copy of them.

        >>> import busq
        >>> queue = busq.Queue()
        >>> try:
        ...     queue.get(timeout=0.01)
        ... except busq.Empty:
        ...     print("empty")
        empty
        """
        if self._is_closed:
            self._refuse()
        return self._get(None if block and timeout is None else wait_of(block, timeout))  # type: ignore[no-any-return]

    def put_nowait(self, obj: _T) -> None:
        """Put an object in, or raise `busq.Full` at once: `put(obj, block=False)`.

        Parameters: `obj`.

        Errors: those of `put`.

        Cost: that of `put`.

        >>> import busq
        >>> queue = busq.Queue()
        >>> queue.put_nowait(1)
        """
        self.put(obj, False)

    def get_nowait(self) -> _T:
        """Get the next object out, or raise `busq.Empty` at once: `get(block=False)`.

        Errors: those of `get`.

        Cost: that of `get`.

        >>> import busq
        >>> queue = busq.Queue()
        >>> queue.put(1)
        >>> queue.get_nowait()
        1
        """
        return self.get(False)

    def qsize(self) -> int:
        """Return how many objects no process has got yet.

        Exact while no process puts or gets; with what waits in any process for room, which counts twice for the moment
        in which it is put.

        Errors: OSError if the bus is damaged.

        Cost: a microsecond, and a step for each object.

        >>> import busq
        >>> queue = busq.Queue()
        >>> queue.put(1)
        >>> queue.qsize()
        1
        """
        return self._size()

    def full(self) -> bool:
        """Return whether `maxsize` objects are there; never, where there is no limit.

        Also where fewer are, and shared memory has no place for one more: then `put` waits as well.  Whether it has the
        bytes of an object depends on the object: `put` of a large one may wait, or raise Full, though this is False.

        Errors: OSError if the bus is damaged.

        Cost: some microseconds.

        >>> import busq
        >>> queue = busq.Queue(maxsize=1)
        >>> queue.put(1)
        >>> queue.full()
        True
        """
        if not self._maxsize:
            return False
        try:
            is_full = self._waiting() + self._local.depth() >= self._maxsize
            return is_full or (not self._overflows and self._local.is_short())
        except TROUBLE as error:
            self._fail(error)

    def join_thread(self) -> None:
        """Wait until what found no room when it was put has found it; only after `close`.

        A process that ends does so by itself, unless `cancel_join_thread` was called.

        Errors: AssertionError if the queue was not closed here.

        Cost: none, where nothing waits.

        >>> import busq
        >>> queue = busq.Queue()
        >>> queue.close()
        >>> queue.join_thread()
        """
        if not self._is_closed:
            raise AssertionError(f"{self!r} is not closed: close it before join_thread()")
        self._local.overflow.join()

    def cancel_join_thread(self) -> None:
        """Let this process end without waiting for what has found no room: that is lost then.

        Errors: none.

        Cost: none.

        >>> import busq
        >>> queue = busq.Queue()
        >>> queue.cancel_join_thread()
        """
        self._local.overflow.is_cancelled = True


class SimpleQueue(_Base[_T], Ends):
    """A queue with `put`, `get` and `empty` alone: multiprocessing's SimpleQueue.

    As `Queue`, but that `put` waits where shared memory has no room: behind 3072 objects, or the capacity of `bus`.

    Parameters: `bus`, `views` and `ends`, as for `Queue`.

    Errors: those of `Queue`.

    Cost: that of `Queue`.

    >>> import busq
    >>> queue = busq.SimpleQueue()
    >>> queue.put([1, 2])
    >>> queue.get()
    [1, 2]
    """

    _never_overflows = True
    _is_closed_unused = True

    def __init__(self, *, bus: Bus | None = None, views: bool = False, ends: bool = False) -> None:
        super().__init__(bus=bus, views=views, ends=ends)

    def _refuse(self) -> NoReturn:
        raise _closed(self)

    def put(self, obj: _T) -> None:
        """Put an object in; waits for room.

        Parameters: `obj`.

        Errors: OSError if the queue was closed here; otherwise those of `Queue.put`.

        Cost: that of `Queue.put`.

        >>> import busq
        >>> queue = busq.SimpleQueue()
        >>> queue.put("hello")
        """
        if self._is_closed:
            self._refuse()
        dump = self._dump  # a step of its own: of what is no method, that is the quicker way
        data = dump(obj)
        try:
            self._put(data, None)
        except BaseException as error:
            not_put(data, error)
            raise

    def get(self) -> _T:
        """Get the next object out; waits for one.

        Errors: OSError if the queue was closed here; otherwise those of `Queue.get`.

        Cost: that of `Queue.get`.

        >>> import busq
        >>> queue = busq.SimpleQueue()
        >>> queue.put("hello")
        >>> queue.get()
        'hello'
        """
        if self._is_closed:
            self._refuse()
        return self._get(None) if self._may_put else self._get_from_parent()  # type: ignore[no-any-return]


# ---- tasks ----


class _Held:
    """What a process has got from a JoinableQueue and not reported as done, by the threads that got it.

    Without a lock: a handler of a signal may get, or report, on top of a call that does.  Each change is one step of C.
    """

    def __init__(self) -> None:
        self._by_thread: dict[int, collections.deque[Message]] = {}

    def of_this_thread(self) -> collections.deque[Message]:
        """Return where messages of this thread are kept, the first one first."""
        thread = threading.get_ident()
        messages = self._by_thread.get(thread)
        return self._by_thread.setdefault(thread, collections.deque()) if messages is None else messages

    def report(self) -> bool:
        """Acknowledge the first that this thread got, or else, the first of some other; False where there is none."""
        if core.ack_next(self.of_this_thread()):
            return True
        return any(core.ack_next(messages) for messages in list(self._by_thread.values()))

    def is_empty(self) -> bool:
        """Whether all was reported."""
        return not any(list(self._by_thread.values()))

    def ack_all(self, local: Local) -> None:
        """Let go, in good order: none of it comes again."""
        while not self.is_empty():
            with contextlib.suppress(errors.BusqError):
                drop_one(local)
            with contextlib.suppress(errors.BusqError):
                self.report()


class JoinableQueue(Queue[_T]):
    """A Queue that knows which objects are done with: multiprocessing's JoinableQueue.

    An object counts as unfinished from `put` until the process that got it calls `task_done`.  If that process is
    killed before, the object goes to another one that gets; so `join` does not wait for the dead.  A process that ends
    in good order with objects it has not reported drops them, and no process waits for them.

    Parameters: `maxsize`, `bus`, `views` and `ends`, as for `Queue`; an object that a process has got takes no room,
    and a view may be looked at beyond `task_done`.

    Errors: those of `Queue`.

    Cost: that of `Queue`.

    >>> import busq
    >>> queue = busq.JoinableQueue()
    >>> queue.put("task")
    >>> queue.get()
    'task'
    >>> queue.task_done()
    >>> queue.join()
    """

    _next_burial_s = 0.0

    def _begin(self, *, is_private: bool) -> None:
        super()._begin(is_private=is_private)
        self._local.held = _Held()

    def _open_reader(self) -> Callable[..., Message]:
        core.take_back_dropped(self._local.open_reader())
        return super()._open_reader()

    def get(self, block: bool = True, timeout: float | None = None) -> _T:
        """Get the next object out, which is unfinished until `task_done` is called.

        What a handler of a signal raises in here leaves the object in the queue: it is the next one again.

        Parameters: `block`, False to try once; `timeout`, how many seconds to wait for one: None waits for ever.

        Errors: those of `Queue.get`; an object that can't be unpickled is finished.

        Cost: that of `Queue.get`, and half a microsecond.

        >>> import busq
        >>> queue = busq.JoinableQueue()
        >>> queue.put("task")
        >>> queue.get(timeout=1.5)
        'task'
        """
        if self._is_closed:
            self._refuse()
        message = None
        try:
            try:
                message = (self._recv or self._open_reader())(wait_of(block, timeout), ack=True)
            except errors.ShutDown as error:
                message = self._get_last(error, wait_of(block, timeout))
            obj: _T = core.load(message, pickle.loads, self._unpack)
            mine = self._local.held.of_this_thread()  # type: ignore[union-attr]
            # Behind a call, as one of `append`, or of a function of ours, a handler may run.  From here on none does.
            mine += (message,)
            return obj
        except errors.NoSpace as error:
            self._recv = None
            if not self._local.change_reader():
                self._fail(error)
            return self.get(block, timeout)
        except errors.PeerExists:
            return self.get(timeout=self._local.await_reader(wait_of(block, timeout)))
        except (errors.Empty, errors.ShutDown):
            raise
        except errors.BusqError as error:
            self._fail(error)
        except BaseException:
            if message is not None:
                core.give_back(message)  # it would come again only once this traceback is dropped
            raise

    _awaits_ack = True

    async def _aget(self, timeout: float | None) -> Any:
        message = await self._areceive(timeout)
        try:
            obj = core.load(message, pickle.loads, self._unpack)
            mine = self._local.held.of_this_thread()  # type: ignore[union-attr]
            mine += (message,)  # as in `get`
            return obj
        except BaseException:
            core.give_back(message)
            raise

    def task_done(self) -> None:
        """Report that an object is done with: the first that this thread got and has not reported yet.

        Where this thread has none, it is the first that another thread of this process got.  Where this process has
        none, there is one less that `join` waits for, whichever process has got it or gets it, as with multiprocessing.

        Errors: ValueError if all objects that were put are done with; OSError.

        Cost: a microsecond; where this process has none, that of `qsize`.

        >>> import busq
        >>> queue = busq.JoinableQueue()
        >>> try:
        ...     queue.task_done()
        ... except ValueError as error:
        ...     print(error)
        task_done() called too many times
        """
        held = self._local.held
        try:
            if is_reported := held.report():  # type: ignore[union-attr]
                put_right(self._local)
            else:
                is_reported = report_ahead(self._local)
        except errors.BusqError as error:
            self._fail(error)
        if not is_reported:
            raise ValueError("task_done() called too many times")
        if self._is_closed and held.is_empty():  # type: ignore[union-attr]
            self._tasks.close()
            self._local.close_reader()

    def join(self) -> None:
        """Wait until all objects are done with that were put, by any process.

        What a process that was killed had got is done with once another one has got it and reports it.

        Errors: OSError if the bus is damaged.

        Cost: it looks every 10 ms, more often at first, with a step for each object; behind `shutdown(immediate=True)`,
        it also does what `Bus.repair` does, twice a second.

        >>> import busq
        >>> busq.JoinableQueue().join()
        """
        await_so(self._is_done)

    def _is_done(self) -> bool:
        try:
            if not undone(self._local):
                return True
            if self._local.end() == DROPPED:  # no process gets any more, and finds what a killed one had
                self._bury_the_dead()
            return False
        except TROUBLE as error:
            self._fail(error)

    def _bury_the_dead(self) -> None:
        now_s = time.monotonic()
        if now_s < self._next_burial_s:
            return
        self._next_burial_s = now_s + _BURIAL_PERIOD_S
        with contextlib.suppress(OSError):  # no descriptor is left, for one: a later look may have one
            self._home.raw.repair()

    def close(self) -> None:
        """Stop using the queue in this process, but for `task_done`: what is in it stays for others.

        Errors: none.

        Cost: some microseconds.

        >>> import busq
        >>> queue = busq.JoinableQueue()
        >>> queue.put("task")
        >>> _ = queue.get()
        >>> queue.close()
        >>> queue.task_done()
        """
        self._is_closed = True
        self._recv = None
        if self._writers is not None:
            self._writers.close()
        if self._local.held.is_empty():  # type: ignore[union-attr]
            self._tasks.close()
            self._local.close_reader()


# ---- several queues ----


def put_all(queues: Iterable[Any], obj: Any, block: bool = True, timeout: float | None = None) -> None:
    """Put an object into several queues in one step: into all of them or, if that can't be, into none.

    All that get from these queues get what was put into several of them in the same order.  A process that is killed
    meanwhile has put it into all of them or into none.

    Parameters: `queues`, an iterable of queues of this module, different ones, that are on one bus: those that a
    process tree makes are, up to 64, and those that were made with the same `bus`; `obj`; `block`, False to try once;
    `timeout`, how many seconds to wait for room in all of them: None waits for ever.  It waits for room in shared
    memory, also where `Queue.put` would not.

    Errors: queue.Full (`busq.Full`) if one of them had no room until the timeout; ValueError if they are on different
    buses, one is given twice or was closed here, or the object is too large; what pickling raises; TypeError; OSError.

    Cost: a pickle, half a microsecond, and a third of one for each queue.

    >>> import busq
    >>> orders, log = busq.Queue(), busq.Queue()
    >>> busq.put_all([orders, log], {"order": 17})
    >>> orders.get(), log.get()
    ({'order': 17}, {'order': 17})
    """
    chosen = _checked_queues(queues)
    timeout = wait_of(block, timeout)
    data = (dumps_for_views if any(queue._views for queue in chosen) else dumps)(obj)
    deadline = Deadline(timeout)
    try:
        with nothing_sent():
            for queue in chosen:
                queue._will_put()
                if not queue._local.overflow.wait(deadline):
                    raise errors.Full(f"{queue!r} had no room until the timeout for what was put before")
            left_ns = deadline.left_ns()
            sender = chosen[0]._home.sender()
        sender.send([queue._name for queue in chosen], data, timeout=None if left_ns < 0 else left_ns / 1e9)
    except BaseException as error:
        not_put(data, error)
        if not isinstance(error, TROUBLE) or isinstance(error, errors.Full):
            raise
        was_shut_down = isinstance(error, errors.ShutDown)
        next((queue for queue in chosen if was_shut_down and queue._has_ended()), chosen[0])._fail(error, data)


def _checked_queues(queues: Any) -> list[_Base[Any]]:
    if not isinstance(queues, Iterable):
        raise wrong_type("queues", queues, "an iterable of queues")
    chosen = list(queues)
    if not chosen:
        raise ValueError("no queues: expected an iterable of at least one")
    for number, queue in enumerate(chosen):
        if not isinstance(queue, _Base):
            raise wrong_type(f"queues[{number}]", queue, "a busq.Queue, SimpleQueue or JoinableQueue")
        if queue._is_closed:
            queue._refuse()
        if queue._home is not chosen[0]._home:
            raise ValueError(
                f"queues[0] is on bus {chosen[0]._home.bus.name!r} and queues[{number}] on {queue._home.bus.name!r}: "
                "expected queues of one bus; make them in one process, or on the same bus (bus=)"
            )
    return chosen
