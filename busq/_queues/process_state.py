# SPDX-License-Identifier: Apache-2.0
"""What a process keeps for its queues (busq/queues.py): their buses, each queue, and what becomes of them in a fork.

Its peers are in peers.py, what found no room in overflow.py, what is left where it ends in at_exit.py.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import resource
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from busq import errors
from busq._native import _core as core
from busq._port.arguments import wrong_type
from busq._port.deadline import Deadline
from busq._queues.at_exit import await_exit, begin_process, live_queues, overflows
from busq._queues.handed import drop_opened, forget_handed
from busq._queues.overflow import Overflow, await_so
from busq._queues.peers import STOOD_STILL, Joined, join_sender, private_name
from busq.bus import Bus, _reopen
from busq.peer import Peer

# Of the bus that is made by itself.  Its memory is reserved where it is needed: places and bytes that are not used cost
# nothing.  A place is needed for each queue, for each process that puts, and for each queue that a process gets from.
PEERS = 1024
CAPACITY = 3072  # the ring has a slot more for each peer: 4096
ARENA_BYTES = 2 << 30
ARENA_BYTES_MIN = 16 << 20  # where the process has a limit on what it maps, or on the size of files

_Seen = TypeVar("_Seen")

# ---- the bus ----


_SURE_BYTES = 4096  # any bus takes as much itself, so a put behind others need not ask the system


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
        self.largest_bytes: int = facts["largest"]
        self.key = bus._key()
        if os.geteuid() == 0:  # a worker may drop that, and then put and get
            self.raw.expect_another_user()
        self.forget_peers()
        await_exit()

    def forget_peers(self) -> None:
        """Begin without any; in a forked child they are the parent's."""
        bus = self.bus  # and not this object, which goes with the last of its queues
        self._sender = Joined(lambda: join_sender(bus))

    def sender(self) -> Peer:
        """Return the peer that puts, for all threads of this process."""
        return self._sender.peer()

    def must_hold(self, size_bytes: int) -> None:
        """Raise where shared memory, were it empty, could not hold such an object, which would wait for ever."""
        if size_bytes > self.largest_bytes:
            raise ValueError("too large for the bus")
        if size_bytes <= _SURE_BYTES:
            return
        all_of_it = os.statvfs(self.key[0])
        all_bytes = all_of_it.f_blocks * all_of_it.f_frsize or size_bytes
        if size_bytes > all_bytes:
            text = f"an object of {size_bytes:,} bytes when pickled: the file system of the bus has {all_bytes:,}"
            raise errors.NoSpace(errno.ENOSPC, text)


_homes: weakref.WeakValueDictionary[tuple[str, str, bytes], Home] = weakref.WeakValueDictionary()
_default: weakref.ref[Home] | None = None
registry_lock = threading.RLock()  # of these two, and of the queues that live


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


def default_home() -> Home:
    """Return the bus of this process tree; a new one where there is none, or half of its places are taken.

    The other half is for the processes that use the queues.  Queues that other processes have made count as well.
    """
    global _default
    drop_opened()
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
    overflows.clear()
    forget_handed()
    begin_process(None)
    for home in list(_homes.values()):
        home.handed.clear()
        home.forget_peers()
    for queue in list(live_queues):
        queue._begin(is_private=False)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


# ---- a queue in this process ----


class Local:
    """What a process keeps for a queue, and what is left to do when it lets go of it."""

    def __init__(self, home: Home, name: str, maxsize: int, *, is_private: bool) -> None:
        self.home = home
        self.name = name
        self.is_private = is_private  # no other process can have it
        self._reader = Joined(functools.partial(home.bus.join, name, shared=True, durable=True))
        self._full_readers: dict[Peer, int] = {}  # and how much each could keep
        self.overflow = Overflow(home, name, maxsize)
        self.held: Any | None = None  # of a JoinableQueue
        self.tasks: Any | None = None  # which await it (tasks.py)
        self.target = 0
        self.pid = os.getpid()

    def open_reader(self, *, is_new: bool = False) -> Peer:
        """Join as one of those that get."""
        return self._reader.peer(resume=not is_new)

    def change_reader(self) -> bool:
        """Get by another peer from now on, since this one can keep no more that is not reported.

        It is one that could keep no more before, and has become half empty, or one that joins with the next `get`.
        Where this one keeps nothing there is no memory for another one: it is one with any room, or none: False.
        """
        full = self._reader.known()
        n_kept = core.hands(full) if full is not None else 0
        if full is not None and n_kept:
            self._full_readers[full] = n_kept
        share = 0.5 if n_kept else 1
        empty = (peer for peer, n_full in list(self._full_readers.items()) if core.hands(peer) < share * n_full)
        reader = next(empty, None)
        if reader is None and not n_kept:
            return False
        self._reader.forget()
        if reader is not None:
            self._full_readers.pop(reader, None)
            self._reader.become(reader)
        return True

    def await_reader(self, timeout: float | None) -> float | None:
        """Join where a process that puts the queue in order seems to be stopped; returns what is left of a timeout."""
        deadline = Deadline(timeout)
        if not await_so(self._try_reader, deadline):
            raise errors.Empty(STOOD_STILL)
        return deadline.left_s()

    def _try_reader(self) -> bool:
        with contextlib.suppress(errors.PeerExists):
            self.open_reader()
            return True
        return False

    def close_reader(self) -> None:
        """Leave; what was not got stays for others."""
        self._reader.leave()
        while self._full_readers:
            self._full_readers.popitem()[0].close()

    def remove(self) -> None:
        """Leave, and have the queue go: no other process can have it."""
        self.close_reader()
        with contextlib.suppress(errors.BusqError, OSError):  # which may want for a descriptor
            self.home.bus.remove(self.name)

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
        if drops:  # the memory comes back with a look at the queue, and no process may ever get again
            with contextlib.suppress(errors.BusqError, OSError):
                self.open_reader().recv(0)

    def is_short(self) -> bool:
        """Return whether the queue can't hold one more, for there is no memory for more places."""
        return self._look(self.home.raw.is_short)

    def passed(self) -> int:
        """Return how many places of the queue were given back so far."""
        return self._look(self.home.raw.passed)

    def depth(self) -> int:
        """Return how many places of the queue are taken."""
        return self._look(self.home.raw.depth)


def let_go(local: Local) -> None:
    """Leave a queue that this process has dropped; one that no other can have goes with it."""
    try:
        _let_go(local)
    except BaseException:  # of a handler of a signal: it ends no call, and nothing comes back here
        _let_go(local)
        raise


def _let_go(local: Local) -> None:
    if local.pid != os.getpid():
        return
    drop_opened()
    if local.held is not None:
        local.held.ack_all(local)
    if local.tasks is not None:
        local.tasks.close()
    if local.is_private:
        local.overflow.is_cancelled = True
        local.remove()
    else:
        local.close_reader()
