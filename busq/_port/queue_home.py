# SPDX-License-Identifier: Apache-2.0
"""What a process keeps for its queues (busq/queues.py): their buses, its peers there, and what found no room.

Also what becomes of them where the process forks, and where it ends.
"""

from __future__ import annotations

import _thread
import collections
import contextlib
import functools
import itertools
import os
import resource
import secrets
import threading
import time
import weakref
from collections.abc import Callable
from multiprocessing import parent_process, util
from typing import Any, TypeVar

from busq import errors
from busq._native import _core as core
from busq._port.arguments import wrong_type
from busq._port.deadline import NEVER, Deadline
from busq.bus import Bus, _reopen
from busq.peer import Peer

# Of the bus that is made by itself.  Its memory is reserved where it is needed: places and bytes that are not used cost
# nothing.  A place is needed for each queue, for each process that puts, and for each queue that a process gets from.
PEERS = 1024
CAPACITY = 3072  # the ring has a slot more for each peer: 4096
ARENA_BYTES = 2 << 30
ARENA_BYTES_MIN = 16 << 20  # where the process has a limit on what it maps, or on the size of files

_PAUSE_S_MIN, _PAUSE_S_MAX = 0.0002, 0.01
GRACE_S = 0.002  # a process that gets makes room sooner than a thread would have begun
_PATIENCE_S = 0.05  # longer than the scheduler keeps a process that gets from its core, where several put
_PATIENCE_SHARE = 0.5
_BATCH = 100
_STRUCK_S = 1.0  # a call that a handler of a signal ended does not go on
_Seen = TypeVar("_Seen")

# ---- a peer that joins when it is first needed ----


class Joined:
    """A peer for all threads of this process.

    The lock spares the bus places for peers that are not needed.  A handler of a signal, or a `__del__`, may run on top
    of a call that holds it, and need the peer as well: so the lock lets its own thread pass, and the first one stays.
    """

    def __init__(self, join: Callable[..., Peer]) -> None:
        self._lock = threading.RLock()
        self._peers: dict[None, Peer] = {}
        self._join = join

    def peer(self, **options: Any) -> Peer:
        """Return it; joins where it has not, or has left."""
        with self._lock:
            found = self._peers.get(None)
            if found is None:
                made = self._join(**options)
                found = self._peers.setdefault(None, made)
                if found is not made:
                    made.close()
            return found

    def known(self) -> Peer | None:
        """Return it if it has joined."""
        return self._peers.get(None)

    def become(self, peer: Peer) -> None:
        """Be that one, unless it has joined."""
        self._peers.setdefault(None, peer)

    def forget(self) -> None:
        """Let go of it, as soon as no other holds it; the next call of `peer` joins anew."""
        self._peers.pop(None, None)

    def leave(self) -> None:
        """Close it; the next call of `peer` joins anew."""
        peer = self._peers.pop(None, None)
        if peer is not None:
            peer.close()


# ---- the bus ----


class Home:
    """A bus with queues on it, as this process has it open."""

    def __init__(self, bus: Bus, *, is_default: bool) -> None:
        self.bus = bus
        self.raw = bus._raw()
        self.is_default = is_default
        self.handed: set[str] = set()  # queues that were handed on from here, and perhaps not opened so far
        facts = self.raw.facts()
        self.places: int = facts["peers"]
        self.capacity: int = facts["capacity"]
        self.arena_bytes: int = facts["arena"]
        self.key = bus._key()
        if os.geteuid() == 0:  # a worker may drop that, and then put and get
            self.raw.expect_another_user()
        self.forget_peers()
        _await_end()

    def forget_peers(self) -> None:
        """Begin without any; in a forked child they are the parent's."""
        bus = self.bus  # and not this object, which goes with the last of its queues
        self._sender = Joined(lambda: _join_sender(bus))

    def sender(self) -> Peer:
        """Return the peer that puts, for all threads of this process."""
        return self._sender.peer()


def _join_sender(bus: Bus) -> Peer:
    """Join as a peer that puts, in the place of one that is gone, if there is one.

    What a process has put keeps that process's place until it was got.  A successor takes the place over, with what
    stands in the queues: so there are as many places as processes live at a time, however many have put and ended.
    """
    raw = bus._raw()
    for number in itertools.count():
        name = f"put-{number}"
        if raw.readers(name.encode())[0] != core.OK:
            with contextlib.suppress(errors.PeerExists):  # another process was faster
                return bus.join(name, resume=True)
    raise AssertionError


def _join_behind(bus: Bus) -> Peer:
    """Join as a peer that puts, into queues that have ended, what was put before."""
    peer = bus.join(private_name("behind"))
    core.send_behind(peer)
    return peer


_homes: weakref.WeakValueDictionary[tuple[str, str, bytes], Home] = weakref.WeakValueDictionary()
live_queues: weakref.WeakSet[Any] = weakref.WeakSet()
_kept: set[Home] = set()  # whose bus would go before the queues were opened that this process has handed on
_default: weakref.ref[Home] | None = None
registry_lock = threading.RLock()  # of these four


def private_name(what: str) -> str:
    return f"{what}-{os.getpid()}-{secrets.token_hex(8)}"


def _tally_key(name: str) -> int:
    """Return the number by which what waits for a queue is counted: that in its name."""
    return int(name.rpartition("-")[2], 16)


def register(queue: Any) -> None:
    """Have a queue put in order where this process forks, and where it ends."""
    with registry_lock:
        live_queues.add(queue)


def _sizes() -> tuple[int, int]:
    """Return how many places and bytes of an arena this process, and children with its limits, can map beside all else.

    Each place takes up to 180 kB of that, used or not.
    """
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE)]
    bytes_max = min((limit // 4 for limit in limits if limit != resource.RLIM_INFINITY), default=ARENA_BYTES)
    if bytes_max < 16 * ARENA_BYTES_MIN:
        return PEERS // 4, max(ARENA_BYTES_MIN, bytes_max)
    return PEERS, min(ARENA_BYTES, bytes_max)


def hand_on(home: Home, name: str) -> None:
    """Keep a bus open until another process has opened a queue that goes there in a pickle, or this one ends."""
    home.raw.handed(name, 1)
    home.handed.add(name)
    _kept.add(home)


def _drop_opened() -> None:
    """Let go of buses that need not be kept any more.

    First out, then the look: what another call hands on in between is seen, or stays in.
    """
    for home in list(_kept):
        for name in list(home.handed):
            home.handed.discard(name)
            if home.raw.handed(name, 0):
                home.handed.add(name)
        _kept.discard(home)
        if home.handed:
            _kept.add(home)


def default_home() -> Home:
    """Return the bus of this process tree; a new one where there is none, or half of its places are taken.

    The other half is for the processes that use the queues.  Queues that other processes have made count as well.
    """
    global _default
    _drop_opened()
    with registry_lock:
        seen = _default
        home = seen() if seen is not None else None
        if home is None or home.raw.taken() >= home.places // 2:
            name = private_name("queues")
            places, arena_bytes = _sizes()
            bus = Bus.create(
                name,
                peers=places,
                capacity=CAPACITY,
                arena=arena_bytes,
                groups=0,
                nodes=0,
                temporary=True,
                reserve=False,
            )
            home = Home(bus, is_default=True)
            made = weakref.ref(home)
            if _default is not seen:  # a handler of a signal has made one meanwhile
                return default_home()
            _homes[home.key] = home
            _default = made
        return home


def find_home(key: tuple[str, str, bytes], *, is_default: bool) -> Home:
    """Return a bus that another process has queues on; if it is the default one there, it is that of this one too."""
    global _default
    with registry_lock:
        home = _homes.get(key)
        if home is None:
            # A handler of a signal, or a `__del__`, may have opened it meanwhile: put_all asks for one and the same.
            home = _homes.setdefault(key, Home(_reopen(*key), is_default=is_default))
        if is_default and (_default is None or _default() is None):
            _default = weakref.ref(home)
        return home


def home_on(bus: Any) -> Home:
    """Return the bus that an application has chosen; it may be closed there, and used here on."""
    if not isinstance(bus, Bus):
        raise wrong_type("bus", bus, "None or a busq.Bus")
    if bus.order != "bus1":
        raise ValueError(f"bus {bus.name!r} has order {bus.order}: queues need a bus of order bus1")
    return find_home(bus._key(), is_default=False)


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
    _kept.clear()
    _begin_process(None)
    for home in list(_homes.values()):
        home.handed.clear()
        home.forget_peers()
    for queue in list(live_queues):
        queue._begin(is_private=False)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


# ---- the end of a process ----

# What is put by threads, each under a key of its own, whatever has become of the queues.
_overflows: dict[Any, Overflow] = {}
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
    mine: list[Local] = [queue._local for queue in list(live_queues)]
    for local in mine:
        if local.is_private:
            local.overflow.is_cancelled = True  # no process can ever get it
    for overflow in {*_overflows.values(), *(local.overflow for local in mine)}:
        if not overflow.is_cancelled:
            overflow.join()
    for local in mine:
        if local.held is not None:
            local.held.ack_all()
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


class Patience:
    """How long calls wait for room that have waited for the grace: 50 ms at once, in the long run half of the time.

    Where more processes put and get than there are cores, the one that gets may stand still for longer than the grace,
    again and again.  What waits in its process meanwhile takes twice the work to be put; and more comes behind it.
    If no process gets, the first call alone waits.
    """

    def __init__(self) -> None:
        self._left_s = _PATIENCE_S
        self._since_s = time.monotonic()

    def spend(self, wait: Callable[[float], None]) -> bool:
        """Call with as many seconds as are left; False if that has raised Full."""
        begun_s = time.monotonic() - GRACE_S  # the grace counts
        self._left_s = left_s = min(_PATIENCE_S, self._left_s + _PATIENCE_SHARE * (begun_s - self._since_s))
        self._since_s = begun_s
        try:
            wait(max(0, left_s - GRACE_S))
            return True
        except errors.Full:
            return False
        finally:
            self._left_s -= time.monotonic() - begun_s


class Overflow:
    """What found no room in a queue, in order, and the thread that puts it.

    A handler of a signal, or a `__del__`, may run anywhere in a call, and put as well, or raise.  So nothing here waits
    for a lock that a call could hold: what is one step is one of C, on a deque or on a lock that is tried.  Whatever is
    struck, what was appended is put, by the thread at work or, where `append` did not come to begin one, by the next.

        a call      appends                                   finds that a thread holds `_fed`: it will see that
        the thread  finds nothing left        lets go of `_fed`, and looks once more: goes on, or ends

    There is no Thread: where its `start` is struck it forgets the thread that it has begun, which dies of that.
    """

    def __init__(self, home: Home, name: str, bound: int) -> None:
        self.items: collections.deque[Any] = collections.deque()  # only the thread takes out, what it has put
        self._fed = _thread.allocate_lock()  # by the thread that holds it
        self._home = home
        self._name = name
        self._bound = bound  # of what waits in all processes together; 0: none
        self.key = _tally_key(name)
        bus = home.bus
        self._counter = Joined(lambda: bus.join(private_name("waits")))
        self._behind = Joined(lambda: _join_behind(bus))
        self.patience = Patience()
        self.is_cancelled = False

    def append(self, data: Any, target: int) -> bool:
        """Leave it to the thread; False where as much waits in all as may; ShutDown where the queue has ended."""
        is_kept = core.keep(self.items, self._home.sender(), self.key, self._bound, data, target)
        if is_kept is None:  # that peer counts for another queue
            is_kept = core.keep(self.items, self._counter.peer(), self.key, self._bound, data, target)
        if is_kept and not self._fed.locked():
            self._begin()
        return bool(is_kept)

    def tally(self) -> int:
        """Return how much waits in all processes."""
        return self._home.raw.tally(self.key)

    def _begin(self) -> None:
        """Return once a thread is at work.

        It begins to put once the call has gone on, and perhaps has put more: otherwise it could be through with the
        only object, and `join` return, while the call waits for its core between two of them.
        """
        _await_end()
        begun, gone_on = _thread.allocate_lock(), _thread.allocate_lock()
        begun.acquire()
        gone_on.acquire()
        _thread.start_new_thread(self._feed, (begun, gone_on))
        begun.acquire()
        gone_on.release()

    def _feed(self, begun: Any, gone_on: Any) -> None:
        is_mine = self._fed.acquire(blocking=False)  # otherwise another one was begun meanwhile
        if is_mine:
            _overflows[begun] = self
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
            self._counter.forget()
            self._behind.forget()
            _overflows.pop(begun, None)

    def _feed_all(self) -> None:
        try:
            while batch := [self.items[at][1] for at in range(min(_BATCH, len(self.items)))]:
                for _ in range(self._put(batch)):
                    core.settle(self.items)
        except BaseException as error:
            while self.items:
                core.settle(self.items)
            if not isinstance(error, errors.ShutDown):
                raise
        finally:
            self._fed.release()

    def _put(self, batch: list[Any]) -> int:
        """Put some, at least one, however long that takes; returns how many."""
        sender = self._behind.known() or self._home.sender()
        try:
            return sender.send_many([(self._name, data) for data in batch], timeout=0)
        except errors.ShutDown as error:
            n_sent = int(error.sent)
            if not n_sent:
                if self._behind.known():  # dropped
                    raise
                self._behind.peer()
                return self._put(batch)
        except errors.Full as error:
            n_sent = int(error.sent)
        if not n_sent:
            self._put_one(batch[0])
        return max(1, n_sent)

    def _put_one(self, data: Any) -> None:
        try:
            (self._behind.known() or self._home.sender()).send(self._name, data)
        except errors.ShutDown:
            if self._behind.known():
                raise
            self._behind.peer().send(self._name, data)

    def wait(self, deadline: Deadline) -> bool:
        """Wait until all has gone; False where it is too late."""
        self._go_on()
        return await_so(lambda: not self.items, deadline)

    def join(self) -> None:
        """Wait until all has gone, and the thread has ended."""
        self._go_on()
        await_so(lambda: self not in list(_overflows.values()))

    def _go_on(self) -> None:
        """Begin a thread where `append` was struck before it could."""
        if self.items and not self._fed.locked():
            self._begin()


# ---- a queue in this process ----


class Local:
    """What a process keeps for a queue, and what is left to do when it lets go of it."""

    def __init__(self, home: Home, name: str, maxsize: int, *, is_private: bool) -> None:
        self.home = home
        self.name = name
        self.is_private = is_private  # no other process can have it
        self._reader = Joined(functools.partial(home.bus.join, name, shared=True, durable=True))
        self._full_readers: list[Peer] = []
        self.overflow = Overflow(home, name, max(0, maxsize - home.capacity))
        self.held: Any | None = None  # of a JoinableQueue
        self.tasks: Any | None = None  # which await it (queue_await.py)
        self.target = 0
        self.pid = os.getpid()

    def open_reader(self, *, is_new: bool = False) -> Peer:
        """Join as one of those that get."""
        return self._reader.peer(resume=not is_new)

    def change_reader(self) -> None:
        """Get by another peer from now on, since this one can keep no more that is not reported.

        It is one that could keep no more before, and has become half empty, or a new one.
        """
        full = self._reader.known()
        if full is not None and full not in self._full_readers:
            self._full_readers.append(full)
        self._reader.forget()
        for peer in list(self._full_readers):
            if core.hands(peer) <= self.home.capacity // 2:
                self._full_readers.remove(peer)
                self._reader.become(peer)
                return
        self.open_reader()

    def close_reader(self) -> None:
        """Leave; what was not got stays for others."""
        self._reader.leave()
        while self._full_readers:
            self._full_readers.pop().close()

    def count(self) -> tuple[int, int]:
        """Return how many are there to be got, and how many are not done with, in shared memory."""
        return self._look(self.home.raw.count)

    def _look(self, look: Callable[[int], _Seen | None]) -> _Seen:
        found = look(self.find())
        if found is None:  # another reader has made the queue anew
            self.target = 0
            found = look(self.find())
        if found is None:
            core.check(core.PEER_DEAD)
            raise AssertionError
        return found

    def find(self) -> int:
        """Return where the queue is."""
        if not self.target:
            self.target = core.lookup(self._reader.known() or self.home.sender(), self.name)
        return self.target

    def end(self) -> int:
        """Return whether the queue was shut down: 0, 1, or 2 where it was with all that it held."""
        return self._look(self.home.raw.queue_end)

    def shut_down(self, *, drops: bool) -> None:
        """End the queue for all processes."""
        try:
            self.home.raw.end_queue(self.find(), drops)
        except errors.PeerDead:  # another reader has made it anew
            self.target = 0
            self.home.raw.end_queue(self.find(), drops)

    def depth(self) -> int:
        """Return how many places of the queue are taken."""
        return self._look(self.home.raw.depth)


def let_go(local: Local) -> None:
    """Leave a queue that this process has dropped; one that no other can have goes with it."""
    if local.pid != os.getpid():
        return
    _drop_opened()
    if local.held is not None:
        local.held.ack_all()
    if local.tasks is not None:
        local.tasks.close()
    local.close_reader()
    if local.is_private:
        local.overflow.is_cancelled = True
        with contextlib.suppress(errors.BusqError):
            local.home.bus.remove(local.name)
