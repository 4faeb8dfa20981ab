# SPDX-License-Identifier: Apache-2.0
"""What a process keeps for its queues (busq/queues.py): their buses, its peers there, and what found no room.

Also what becomes of them where the process forks, and where it ends.
"""

from __future__ import annotations

import _thread
import collections
import contextlib
import itertools
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable
from multiprocessing import parent_process, util
from typing import Any

from busq import errors
from busq._native import _core as core
from busq._port.arguments import wrong_type
from busq._port.deadline import NEVER, Deadline
from busq.bus import Bus, _reopen
from busq.peer import Peer

# Of the bus that is made by itself: 34 MB.  A place is needed for each queue, for each process that puts, and for each
# queue that a process gets from.
PEERS = 256
CAPACITY = 1792  # the ring has a slot more for each peer: 2048
ARENA_BYTES = 16 << 20
QUEUES_MAX = 64  # of one bus; there must be places for the processes that use them

_PAUSE_S_MIN, _PAUSE_S_MAX = 0.0002, 0.01
GRACE_S = 0.002  # a process that gets makes room sooner than a thread would have begun
_BATCH = 100

# ---- the bus ----


class Home:
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
                self._sender = self.bus.join(private_name("put"))
            return self._sender


_homes: weakref.WeakValueDictionary[tuple[str, str, bytes], Home] = weakref.WeakValueDictionary()
live_queues: weakref.WeakSet[Any] = weakref.WeakSet()
_default: weakref.ref[Home] | None = None
registry_lock = threading.RLock()  # of these three


def private_name(what: str) -> str:
    return f"{what}-{os.getpid()}-{secrets.token_hex(8)}"


def register(queue: Any) -> None:
    """Have a queue put in order where this process forks, and where it ends."""
    with registry_lock:
        live_queues.add(queue)


def default_home() -> Home:
    """Return the bus of this process tree; a new one where there is none, or its places are taken."""
    global _default
    with registry_lock:
        home = _default() if _default is not None else None
        if home is None or home.n_queues >= QUEUES_MAX:
            name = private_name("queues")
            bus = Bus.create(name, peers=PEERS, capacity=CAPACITY, arena=ARENA_BYTES, groups=0, nodes=0, temporary=True)
            home = Home(bus, is_default=True)
            _default = weakref.ref(home)
        return home


def find_home(key: tuple[str, str, bytes], *, is_default: bool) -> Home:
    """Return a bus that another process has queues on; if it is the default one there, it is that of this one too."""
    global _default
    with registry_lock:
        home = _homes.get(key)
        if home is None:
            home = Home(_reopen(*key), is_default=is_default)
        if is_default and (_default is None or _default() is None):
            _default = weakref.ref(home)
        return home


def home_on(bus: Any) -> Home:
    """Return the bus that an application has chosen; it may be closed there, and used here on."""
    if not isinstance(bus, Bus):
        raise wrong_type("bus", bus, "None or a busq.Bus")
    if bus.order != "bus1":
        raise ValueError(f"bus {bus.name!r} has order {bus.order}: queues need a bus of order bus1")
    return find_home((bus._directory, bus.name, bus._generation()), is_default=False)


# ---- fork ----


def _before_fork() -> None:
    registry_lock.acquire()


def _after_fork_in_parent() -> None:
    for queue in list(live_queues):
        queue._local.is_private = False  # a child has it too
    registry_lock.release()


def _after_fork_in_child() -> None:
    global registry_lock
    registry_lock = threading.RLock()
    _overflows.clear()
    _begin_process(None)
    for home in list(_homes.values()):
        home.forget_peers()
    for queue in list(live_queues):
        queue._begin(is_private=False)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


# ---- the end of a process ----

_overflows: set[Overflow] = set()  # those that are not through, whatever has become of their queues
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


util.register_after_fork(Home, _begin_process)


def _end() -> None:
    for queue in list(live_queues):
        if queue._local.is_private and queue._local.overflow is not None:
            queue._local.overflow.is_cancelled = True  # no process can ever get it
    for overflow in list(_overflows):
        if not overflow.is_cancelled:
            overflow.join()
    for queue in list(live_queues):
        if queue._local.held is not None:
            queue._local.held.ack_all()
    if parent_process() is not None:  # a child of multiprocessing ends by os._exit
        core.leave_all()


# ---- what waits in the process ----


def await_so(is_so: Callable[[], bool], deadline: Deadline = NEVER) -> bool:
    """Look again and again; False where it is too late."""
    pause_s = _PAUSE_S_MIN
    while not is_so():
        left_ns = deadline.left_ns()
        if left_ns == 0:
            return False
        time.sleep(pause_s if left_ns < 0 else min(pause_s, left_ns / 1e9))
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)
    return True


class Overflow:
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
        self._mark = mark  # shows on the bus that there is something here
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
        with self._lock:  # otherwise another thread could append to it meanwhile
            batch = list(itertools.islice(self._items, _BATCH))
            self.is_over = not batch
            return batch

    def wait(self, deadline: Deadline) -> bool:
        """Wait until all has gone; False where it is too late."""
        return await_so(lambda: not self._items, deadline)

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self._fed.locked():
            await_so(lambda: self._has_ended)


# ---- a queue in this process ----


class Local:
    """What a process keeps for a queue, and what is left to do when it lets go of it."""

    def __init__(self, home: Home, name: str, *, is_private: bool) -> None:
        self.home = home
        self.name = name
        self.is_private = is_private  # no other process can have it
        self.lock = threading.Lock()
        self.reader: Peer | None = None
        self.overflow: Overflow | None = None
        self.held: Any | None = None  # of a JoinableQueue
        self.is_hasty = False  # no thread waits for what waits here
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


def let_go(local: Local) -> None:
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
