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

import _thread
import collections
import contextlib
import copyreg
import errno
import io
import itertools
import os
import pickle
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from multiprocessing import parent_process, reduction, util
from typing import Any, Generic, NoReturn, TypeVar

from busq import errors
from busq._native import _core as core
from busq._port.arguments import integer, wrong_type
from busq._port.deadline import NEVER, Deadline, timeout_ns
from busq.bus import Bus, _reopen
from busq.peer import Message, Peer

__all__ = ["JoinableQueue", "Queue", "SimpleQueue", "put_all"]

_T = TypeVar("_T")

# Of the bus that is made by itself: 34 MB.  A place is needed for each queue, for each process that puts, and for each
# queue that a process gets from.
PEERS = 256
CAPACITY = 1792  # the ring has a slot more for each peer: 2048
ARENA_BYTES = 16 << 20
QUEUES_MAX = 64  # of one bus; there must be places for who uses them

_PAUSE_S_MIN, _PAUSE_S_MAX = 0.0002, 0.01
_GRACE_S = 0.002  # somebody who gets makes room sooner than a thread would have begun
_BATCH = 100


# ---- pickles ----


class _Pickler(pickle.Pickler):
    """Knows what multiprocessing's knows: connections, sockets, and what others have registered there."""

    dispatch_table: Any = collections.ChainMap(  # noqa: RUF012  (as its base has it)
        vars(reduction.ForkingPickler)["_extra_reducers"], copyreg.dispatch_table
    )


# Of these there is nothing that the others know better; and pickle.dumps is several times as fast.
_PLAIN = frozenset({bytes, str, int, float, bool, type(None)})


def _dumps(obj: Any) -> bytes:
    kind = type(obj)
    if kind in _PLAIN or ((kind is tuple or kind is list) and _PLAIN.issuperset(map(type, obj))):
        return pickle.dumps(obj, 5)
    stream = io.BytesIO()
    _Pickler(stream, 5).dump(obj)
    return stream.getvalue()


def _loads(message: Message) -> Any:
    return pickle.loads(message.view())  # which is released with the call


# ---- the bus ----


class _Home:
    """A bus with queues on it, as this process has it open."""

    def __init__(self, bus: Bus, *, is_default: bool) -> None:
        self.bus = bus
        self.is_default = is_default
        self.n_queues = 0  # made here
        facts = bus.stats()
        self.capacity: int = facts["capacity"]
        self.arena_bytes: int = facts["arena_bytes"]
        self.key = (bus._directory, bus.name, bus._generation())  # what another process opens it by
        self.forget_peers()
        _homes[self.key] = self
        _await_end()

    def forget_peers(self) -> None:
        """Begin without any; in a forked child they are the parent's."""
        self._lock = threading.Lock()
        self._sender: Peer | None = None

    def sender(self) -> Peer:
        """Return the peer that puts, for all threads of this process."""
        with self._lock:
            if self._sender is None:
                self._sender = self.bus.join(_private_name("put"))
            return self._sender


_homes: weakref.WeakValueDictionary[tuple[str, str, bytes], _Home] = weakref.WeakValueDictionary()
_queues: weakref.WeakSet[_Base[Any]] = weakref.WeakSet()
_default: weakref.ref[_Home] | None = None
_lock = threading.RLock()  # of these three


def _private_name(what: str) -> str:
    return f"{what}-{os.getpid()}-{secrets.token_hex(8)}"


def _default_home() -> _Home:
    """Return the bus of this process tree; a new one where there is none, or its places are taken."""
    global _default
    with _lock:
        home = _default() if _default is not None else None
        if home is None or home.n_queues >= QUEUES_MAX:
            name = _private_name("queues")
            bus = Bus.create(name, peers=PEERS, capacity=CAPACITY, arena=ARENA_BYTES, groups=0, nodes=0, temporary=True)
            home = _Home(bus, is_default=True)
            _default = weakref.ref(home)
        return home


def _find_home(key: tuple[str, str, bytes], *, is_default: bool) -> _Home:
    """Return a bus that another process has queues on; if it is the default one there, it is that of this one too."""
    global _default
    with _lock:
        home = _homes.get(key)
        if home is None:
            home = _Home(_reopen(*key), is_default=is_default)
        if is_default and (_default is None or _default() is None):
            _default = weakref.ref(home)
        return home


def _home_on(bus: Any) -> _Home:
    """Return the bus that somebody has chosen; it may be closed there, and used here on."""
    if not isinstance(bus, Bus):
        raise wrong_type("bus", bus, "None or a busq.Bus")
    if bus.order != "bus1":
        raise ValueError(f"bus {bus.name!r} has order {bus.order}: queues need a bus of order bus1")
    return _find_home((bus._directory, bus.name, bus._generation()), is_default=False)


# ---- fork ----


def _before_fork() -> None:
    _lock.acquire()


def _after_fork_in_parent() -> None:
    for queue in list(_queues):
        queue._local.is_private = False  # a child has it too
    _lock.release()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()
    _overflows.clear()
    _begin_process(None)
    for home in list(_homes.values()):
        home.forget_peers()
    for queue in list(_queues):
        queue._begin(is_private=False)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


# ---- the end of a process ----

_overflows: set[_Overflow] = set()  # those that are not through, whatever has become of their queues
_is_awaited = False


def _await_end() -> None:
    """Have what is left put in order when this process ends in good order: its children, too, end that way."""
    global _is_awaited
    if not _is_awaited:
        util.Finalize(None, _end, exitpriority=-5)
        _is_awaited = True  # behind it: where a handler of a signal strikes in between, it is done twice


def _begin_process(_: Any) -> None:
    """Begin as a child of multiprocessing does: all that was to be done at the end is the parent's, and forgotten."""
    global _is_awaited
    _is_awaited = False
    _await_end()


util.register_after_fork(_Home, _begin_process)


def _end() -> None:
    for queue in list(_queues):
        if queue._local.is_private and queue._local.overflow is not None:
            queue._local.overflow.is_cancelled = True  # nobody can ever get it
    for overflow in list(_overflows):
        if not overflow.is_cancelled:
            overflow.join()
    for queue in list(_queues):
        if queue._local.held is not None:
            queue._local.held.ack_all()
    if parent_process() is not None:  # a child of multiprocessing ends by os._exit
        core.leave_all()


# ---- what waits in the process ----


def _await(is_so: Callable[[], bool], deadline: Deadline = NEVER) -> bool:
    """Look again and again; False where it is too late."""
    pause_s = _PAUSE_S_MIN
    while not is_so():
        left_ns = deadline.left_ns()
        if left_ns == 0:
            return False
        time.sleep(pause_s if left_ns < 0 else min(pause_s, left_ns / 1e9))
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)
    return True


class _Overflow:
    """What found no room in a queue, in order, and the thread that puts it.

    A handler of a signal may raise anywhere in a call of the main thread.  So locks are taken and left in one step of
    C, and there is no Thread: where its `start` is struck it forgets the thread that it has begun, which dies of that.
    Whatever is struck here, nothing was appended, and a thread that finds nothing ends.
    """

    def __init__(self, put: Callable[[list[Any]], int], mark: Callable[[], Peer | None]) -> None:
        self._items: collections.deque[Any] = collections.deque()
        self._lock = _thread.allocate_lock()
        self._fed = _thread.allocate_lock()  # by the thread that holds it
        self._put = put
        self._mark = mark  # says on the bus that there is something here
        self.is_over = False
        self._has_ended = False
        self.is_cancelled = False

    def __len__(self) -> int:
        return len(self._items)

    def append(self, data: Any) -> bool:
        """Leave it to the thread; False where that has ended, and there may be room again."""
        with self._lock:
            if self.is_over:
                return False
            if not self._fed.locked():
                self._begin()
            self._items.append(data)
            return True

    def _begin(self) -> None:
        """Return once a thread is at work."""
        _await_end()
        begun = _thread.allocate_lock()
        begun.acquire()
        _thread.start_new_thread(self._feed, (self._mark(), begun))
        begun.acquire()

    def _feed(self, marker: Peer | None, begun: Any) -> None:
        is_mine = self._fed.acquire(blocking=False)  # otherwise another one was begun, by a call that was struck
        if is_mine:
            _overflows.add(self)
        begun.release()
        try:
            if is_mine:
                self._feed_all()
        except Exception:
            if not self.is_cancelled:
                raise
        finally:
            if marker is not None:
                marker.close()
            if is_mine:
                _overflows.discard(self)
                self._has_ended = True

    def _feed_all(self) -> None:
        try:
            while batch := self._next_batch():
                n_put = self._put(batch)
                with self._lock:
                    for _ in range(n_put):
                        self._items.popleft()
        finally:
            with self._lock:
                self.is_over = True
                self._items.clear()

    def _next_batch(self) -> list[Any]:
        with self._lock:  # who else would append to it meanwhile
            batch = list(itertools.islice(self._items, _BATCH))
            self.is_over = not batch
            return batch

    def wait(self, deadline: Deadline) -> bool:
        """Wait until all has gone; False where it is too late."""
        return _await(lambda: not self._items, deadline)

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self._fed.locked():
            _await(lambda: self._has_ended)


# ---- what all queues have in common ----


class _Local:
    """What a process keeps for a queue, and what is left to do when it lets go of it."""

    def __init__(self, home: _Home, name: str, *, is_private: bool) -> None:
        self.home = home
        self.name = name
        self.is_private = is_private  # no other process can have it
        self.lock = threading.Lock()
        self.reader: Peer | None = None
        self.overflow: _Overflow | None = None
        self.held: _Held | None = None  # of a JoinableQueue
        self.is_hasty = False  # nobody waits for what waits here
        self.target = 0
        self.pid = os.getpid()

    def open_reader(self, *, is_new: bool = False) -> Peer:
        """Join as one of those that get."""
        with self.lock:
            if self.reader is None:
                self.reader = self.home.bus.join(self.name, shared=True, durable=True, resume=not is_new)
            return self.reader

    def close_reader(self) -> None:
        """Leave; what was not got stays for others."""
        with self.lock:
            reader, self.reader = self.reader, None
        if reader is not None:
            reader.close()

    def forget_overflow(self) -> bool:
        """Whether nothing waits here any more: what is put now goes the short way again."""
        with self.lock:
            if self.overflow is not None and self.overflow.is_over:
                self.overflow = None
            return self.overflow is None

    def put_waiting(self, items: list[Any]) -> int:
        """Put some of what found no room, at least one, however long that takes; returns how many."""
        sender = self.home.sender()
        try:
            return sender.send_many([(self.name, data) for data in items], timeout=0)
        except errors.Full as error:
            n_sent = int(error.sent)
        if not n_sent:
            sender.send(self.name, items[0])
        return max(1, n_sent)

    def count(self) -> tuple[int, int]:
        """Return how many are there to be got, and how many are not done with, in shared memory."""
        raw = self.home.bus._raw()
        found = raw.count(self._find())
        if found is None:  # another reader has made the queue anew
            self.target = 0
            found = raw.count(self._find())
        if found is None:
            core.check(core.PEER_DEAD)
            raise AssertionError
        return found

    def _find(self) -> int:
        if not self.target:
            self.target = core.lookup(self.reader or self.home.sender(), self.name)
        return self.target

    def depth(self) -> int:
        """Return how many places of the queue are taken."""
        facts = self.home.bus._raw().peer(self._find() & 0xFFFF)
        return 0 if facts is None else int(facts["depth"])


def _let_go(local: _Local) -> None:
    """Leave a queue that this process has dropped; one that no other can have goes with it."""
    if local.pid != os.getpid():
        return
    if local.held is not None:
        local.held.ack_all()
    local.close_reader()
    if local.is_private:
        if local.overflow is not None:
            local.overflow.is_cancelled = True
        with contextlib.suppress(errors.BusqError):
            local.home.bus.remove(local.name)


def _revive(kind: Any, key: tuple[str, str, bytes], is_default: bool, name: str, maxsize: int) -> Any:
    queue = kind.__new__(kind)
    queue._settle(_find_home(key, is_default=is_default), name, maxsize, is_private=False)
    return queue


_TROUBLE = (errors.BusqError, ValueError)  # of the bus; Empty and Full, which are BusqErrors too, come before


def _closed(queue: _Base[Any]) -> OSError:
    """What a look at a closed queue comes to, where multiprocessing's would look at a closed file."""
    return OSError(errno.EBADF, f"{queue!r} is closed")


class _Base(Generic[_T]):
    _never_overflows = False
    _is_closed_unused = False  # multiprocessing's Queue, closed before anything was put into it, can still be looked at

    def __init__(self, maxsize: int = 0, *, bus: Bus | None = None) -> None:
        maxsize = integer("maxsize", maxsize, "a whole number; 0 or less is no limit")
        home = _default_home() if bus is None else _home_on(bus)
        self._settle(home, _private_name("queue"), max(0, maxsize), is_private=True)
        reader = self._local.open_reader(is_new=True)
        home.n_queues += 1
        if 0 < maxsize < home.capacity:
            core.set_limit(reader, maxsize)

    def _settle(self, home: _Home, name: str, maxsize: int, *, is_private: bool) -> None:
        self._home, self._name, self._maxsize = home, name, maxsize
        # Shared memory holds fewer than the queue may: what finds no room there waits here.
        self._overflows = not self._never_overflows and not 0 < maxsize <= home.capacity
        self._begin(is_private=is_private)
        with _lock:
            _queues.add(self)

    def _begin(self, *, is_private: bool) -> None:
        """Begin in this process; a forked child does so again."""
        self._local = _Local(self._home, self._name, is_private=is_private)
        self._is_closed = False
        self._send: Callable[..., Any] | None = None
        self._recv: Callable[..., Message] | None = None
        # Not at the end of the process, where threads that nobody waits for may still be in `get`.
        weakref.finalize(self, _let_go, self._local).atexit = False

    def __reduce__(self) -> Any:
        self._local.is_private = False
        return _revive, (type(self), self._home.key, self._home.is_default, self._name, self._maxsize)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} of bus {self._home.bus.name!r}>"

    # ---- errors, as those know them who used multiprocessing ----

    def _refuse(self) -> NoReturn:
        raise ValueError(f"{self!r} is closed")

    def _fail(self, error: Exception, data: Any = b"") -> NoReturn:
        if isinstance(error, errors.ShutDown):
            raise ValueError(f"{self!r} is closed: {error}") from error
        if len(data) > self._home.arena_bytes:
            raise ValueError(
                f"an object of {len(data):,} bytes when pickled: the bus of this queue takes at most "
                f"{self._home.arena_bytes:,}; make the queue on a bus with a larger arena (bus=)"
            ) from error
        if isinstance(error, errors.PeerDead | errors.UnknownPeer):
            raise BrokenPipeError(errno.EPIPE, f"{self!r} is gone: {error}") from error
        if isinstance(error, errors.BusqError) and not isinstance(error, OSError):
            raise OSError(errno.EIO, f"{self!r}: {error}") from error
        raise error

    # ---- putting ----

    def _open_sender(self) -> Callable[..., Any]:
        self._send = send = self._home.sender().send
        return send

    def _put(self, data: Any, timeout: float | None) -> None:
        if self._local.overflow is None or self._local.forget_overflow():
            try:
                send = self._send or self._open_sender()
                waits = timeout
                if self._overflows:
                    waits = _GRACE_S if timeout is None else min(timeout, _GRACE_S)
                send(self._name, data, timeout=waits)
                return
            except errors.Full:
                if not self._overflows:
                    raise
            except _TROUBLE as error:
                self._fail(error, data)
        self._put_over(data, timeout)

    def _put_over(self, data: Any, timeout: float | None) -> None:
        """Put into a queue without room, or behind what has found none."""
        deadline = Deadline(timeout)
        local = self._local
        if not self._has_place(deadline):
            raise errors.Full(f"the queue held {self._maxsize} until the timeout")
        while True:
            with local.lock:
                if local.overflow is None or local.overflow.is_over:
                    local.overflow = _Overflow(local.put_waiting, self._mark)
                    local.overflow.is_cancelled = local.is_hasty
                overflow = local.overflow
            if overflow.append(data):
                return

    def _mark(self) -> Peer | None:
        return None

    def _has_place(self, deadline: Deadline) -> bool:
        """Whether, or once, fewer than maxsize are in the queue, as far as this process can know."""
        return not self._maxsize or _await(lambda: self._size() < self._maxsize, deadline)

    # ---- getting ----

    def _open_reader(self) -> Callable[..., Message]:
        self._recv = recv = self._local.open_reader().recv
        return recv

    def _get(self, timeout: float | None) -> Any:
        try:
            message = (self._recv or self._open_reader())(timeout)
        except errors.Empty:
            raise
        except _TROUBLE as error:
            self._fail(error)
        return _loads(message)

    # ---- looking ----

    def _overflowing(self) -> int:
        overflow = self._local.overflow
        return 0 if overflow is None else len(overflow)

    def _size(self) -> int:
        try:
            return self._local.count()[0] + self._overflowing()
        except _TROUBLE as error:
            self._fail(error)

    def empty(self) -> bool:
        """Return whether nothing is there to be got.

        What waits in other processes for room, or for its sender to finish it, is not there yet.

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
        self._local.close_reader()


def _timeout(block: bool, timeout: float | None) -> float | None:
    """Turn the words of multiprocessing into ours: there, what is below zero is no time."""
    if isinstance(timeout, int | float) and timeout < 0:
        return 0
    timeout_ns(timeout)
    return timeout if block else 0


class Queue(_Base[_T]):
    """A queue that any number of processes put into and get from: multiprocessing's Queue, without its lock and thread.

    Handed to a process as an argument, or in any other pickle, at any time, it is the same queue there.  Each object
    goes to one of those that get; they come in one order, in which those of one process stand as it has put them.

    Its place is on a temporary bus, which is made for the first queue of a process tree and goes with its last process,
    whatever ends that.  A process that is killed takes with it what it had got, and nothing else, and holds nobody up.

    Parameters: `maxsize`, how many objects it holds before `put` waits; 0 or less is no limit: then `put` never waits,
    and what finds no room in shared memory waits in this process, in order, until it does; so do those of a `maxsize`
    above 1792, or the capacity of `bus`.  `bus`, the bus that holds it: one with a larger arena takes larger objects,
    which on the default one have at most 16 MiB when pickled.

    Errors: NoSpace where there is no memory for the bus; ValueError if `bus` has another order than bus1; TypeError.

    Cost: 0.3 ms; of the first one, some milliseconds and 34 MB of shared memory, and so of every 64th.

    >>> import busq
    >>> queue = busq.Queue()
    >>> queue.put({"name": "alice"})
    >>> queue.qsize(), queue.get(), queue.empty()
    (1, {'name': 'alice'}, True)
    """

    def put(self, obj: _T, block: bool = True, timeout: float | None = None) -> None:
        """Put an object in; it is pickled before `put` returns.

        Parameters: `obj`; `block`, False to try once; `timeout`, how many seconds to wait for room: None waits for
        ever.

        Errors: queue.Full (`busq.Full`) if `maxsize` were there until the timeout; ValueError if the queue was closed
        here, or the object is too large for its bus; what pickling raises; BrokenPipeError if the queue is gone;
        OSError.

        Cost: a pickle, and 0.3 microseconds; a system call only to wake who waits.

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
        self._put(_dumps(obj), None if block and timeout is None else _timeout(block, timeout))

    def get(self, block: bool = True, timeout: float | None = None) -> _T:
        """Get the next object out.

        Parameters: `block`, False to try once; `timeout`, how many seconds to wait for one: None waits for ever.

        Errors: queue.Empty (`busq.Empty`) if none came before the timeout; ValueError if the queue was closed here;
        what unpickling raises, which loses the object; NoSpace if the bus has no place left for this process; OSError.

        Cost: an unpickling, and half a microsecond.

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
        return self._get(None if block and timeout is None else _timeout(block, timeout))  # type: ignore[no-any-return]

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
        """Return how many objects nobody has got yet.

        Exact while nobody puts or gets; without what waits in other processes for room.

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
            return self._local.depth() + self._overflowing() >= self._maxsize
        except _TROUBLE as error:
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
        overflow = self._local.overflow
        if overflow is not None:
            overflow.join()

    def cancel_join_thread(self) -> None:
        """Let this process end without waiting for what has found no room: that is lost then.

        Errors: none.

        Cost: none.

        >>> import busq
        >>> queue = busq.Queue()
        >>> queue.cancel_join_thread()
        """
        self._local.is_hasty = True
        if self._local.overflow is not None:
            self._local.overflow.is_cancelled = True


class SimpleQueue(_Base[_T]):
    """A queue with `put`, `get` and `empty` alone: multiprocessing's SimpleQueue.

    As `Queue`, but that `put` waits where shared memory has no room: behind 1792 objects, or the capacity of `bus`.

    Parameters: `bus`, as for `Queue`.

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

    def __init__(self, *, bus: Bus | None = None) -> None:
        super().__init__(bus=bus)

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
        self._put(_dumps(obj), None)

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
        return self._get(None)  # type: ignore[no-any-return]


# ---- tasks ----


class _Held:
    """What a process has got from a JoinableQueue and not reported as done, by the threads that got it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_thread: dict[int, collections.deque[Message]] = {}

    def add(self, message: Message) -> None:
        """Keep it, as the last of this thread."""
        with self._lock:
            self._by_thread.setdefault(threading.get_ident(), collections.deque()).append(message)

    def pop(self) -> Message | None:
        """Return the first that this thread got, or else, the first of some other."""
        with self._lock:
            for thread in (threading.get_ident(), *self._by_thread):
                if messages := self._by_thread.get(thread):
                    message = messages.popleft()
                    if not messages:
                        del self._by_thread[thread]
                    return message
        return None

    def is_empty(self) -> bool:
        """Whether all was reported."""
        return not self._by_thread

    def ack_all(self) -> None:
        """Let go, in good order: none of it comes again."""
        while (message := self.pop()) is not None:
            with contextlib.suppress(errors.BusqError):
                message.ack()


class JoinableQueue(Queue[_T]):
    """A Queue that knows which objects are done with: multiprocessing's JoinableQueue.

    An object counts as unfinished from `put` until the process that got it calls `task_done`.  If that process is
    killed before, the object goes to another one that gets; so `join` does not wait for the dead.  A process that ends
    in good order with objects it has not reported drops them, and nobody waits for them.

    Parameters: `maxsize` and `bus`, as for `Queue`; an object that somebody has got takes no room.

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

    def _begin(self, *, is_private: bool) -> None:
        super()._begin(is_private=is_private)
        self._local.held = _Held()

    def _get(self, timeout: float | None) -> Any:
        try:
            message = (self._recv or self._open_reader())(timeout, ack=True)
            try:
                obj = _loads(message)
            except Exception:
                message.ack()  # as with multiprocessing it is gone; but nobody waits for it
                raise
        except errors.Empty:
            raise
        except errors.BusqError as error:
            self._fail(error)
        self._local.held.add(message)  # type: ignore[union-attr]
        return obj

    def task_done(self) -> None:
        """Say that an object is done with: the first that this thread got and has not reported yet.

        Where this thread has none, it is the first that another thread of this process got.

        Errors: ValueError if this process has reported all that it got; OSError.

        Cost: a microsecond.

        >>> import busq
        >>> queue = busq.JoinableQueue()
        >>> try:
        ...     queue.task_done()
        ... except ValueError as error:
        ...     print(error)
        task_done() called too many times
        """
        held = self._local.held
        message = held.pop()  # type: ignore[union-attr]
        if message is None:
            raise ValueError("task_done() called too many times")
        try:
            message.ack()
        except errors.BusqError as error:
            self._fail(error)
        if self._is_closed and held.is_empty():  # type: ignore[union-attr]
            self._local.close_reader()

    def join(self) -> None:
        """Wait until all objects are done with that were put, by any process.

        What a process that was killed had got is done with once another one has got it and says so.

        Errors: OSError if the bus is damaged.

        Cost: it looks every 10 ms, more often at first, with a step for each object.

        >>> import busq
        >>> busq.JoinableQueue().join()
        """
        _await(self._is_done)

    def _is_done(self) -> bool:
        """Look in this order: what has left a process was in the queue before its mark went."""
        marks = self._mark_name()
        try:
            return not any(name.startswith(marks) for name in self._home.bus.peers()) and not self._local.count()[1]
        except _TROUBLE as error:
            self._fail(error)

    def _mark_name(self) -> str:
        return f"{self._name}-waits"

    def _mark(self) -> Peer | None:
        """Say on the bus that this process has more to put: a peer of that name, which goes with the process."""
        return self._home.bus.join(_private_name(self._mark_name()))

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
        if self._local.held.is_empty():  # type: ignore[union-attr]
            self._local.close_reader()


# ---- several queues ----


def put_all(queues: Iterable[Any], obj: Any, block: bool = True, timeout: float | None = None) -> None:
    """Put an object into several queues in one step: into all of them or, if that can't be, into none.

    All who get from these queues get what was put into several of them in the same order.  A process that is killed
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
    timeout = _timeout(block, timeout)
    data = _dumps(obj)
    deadline = Deadline(timeout)
    for queue in chosen:
        overflow = queue._local.overflow
        if overflow is not None and not overflow.wait(deadline):
            raise errors.Full(f"{queue!r} had no room until the timeout for what was put before")
    left_ns = deadline.left_ns()
    try:
        sender = chosen[0]._home.sender()
        sender.send([queue._name for queue in chosen], data, timeout=None if left_ns < 0 else left_ns / 1e9)
    except errors.Full:
        raise
    except _TROUBLE as error:
        chosen[0]._fail(error, data)


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
