# SPDX-License-Identifier: Apache-2.0
"""Bus, and the peers of a bus whose order is bus1."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from busq._native import _core as core
from busq._port import arguments
from busq._port.directory import default_directory, read_only
from busq.errors import ShutDown
from busq.peer import Buffer, Codec, Peer

if TYPE_CHECKING:
    from busq._port.peeked import Peeked
    from busq._port.requests import Requests
    from busq.groups import View
    from busq.nodes import Handle, Node

SPIN_US_MAX = 50_000


class Bus1Peer(core.Port, Peer):
    """A member of a bus whose order is bus1."""

    _requests: Requests | None = None  # made by the first ask

    def __init__(
        self,
        bus: Bus,
        name: str,
        *,
        resume: bool,
        durable: bool,
        shared: bool,
        spin_us: float | None,
        codec: Codec | None,
        watch: Iterable[str],
    ) -> None:
        # What asking and objects need is loaded before there is a peer: a handler of a signal that used the peer while
        # its thread loads them would find them half made.
        from busq._port import called_from_c, objects, requests  # noqa: F401

        arguments.encode_peer_name(name)
        watched = _watched(watch)
        spin = bus._spin_ns(spin_us)
        self._bus, self._name, self._is_shared = bus, name, shared
        self._open_bus: core.Bus | None = bus._raw()  # the peer goes on when its Bus is closed, and names groups by it
        flags = (core.JOIN_RESUME if resume else 0) | (core.JOIN_DURABLE if durable else 0)
        flags |= core.JOIN_SHARED if shared else 0
        if "gevent.monkey" in sys.modules or "eventlet.patcher" in sys.modules:
            from busq._port import greenlets  # here, since most programs have none

            greenlets.guard()
        try:
            core.join(self, self._open_bus, name, flags, codec)
            if spin is not None:
                core.set_spin(self, spin)
            for other in watched:
                self.watch(other)
            self._inherited = core.handles_of(self) if resume else []  # held until they are released
        except BaseException:
            core.close(self)  # no caller gets this peer: it leaves now, not with the last traceback
            raise

    def _raw_bus(self) -> core.Bus:
        bus = self._open_bus  # once: another thread may close it meanwhile
        if bus is None:
            core.check(core.CLOSED)
            raise AssertionError
        return bus

    def fileno(self) -> int:  # noqa: D102
        return super().fileno()

    def node(self) -> Node:  # noqa: D102
        return core.make_node(self)

    @property
    def nodes(self) -> list[Node]:  # noqa: D102
        return core.nodes_of(self)

    @property
    def handles(self) -> list[Handle]:  # noqa: D102
        return core.handles_of(self)

    def enter(  # noqa: D102
        self,
        group: str,
        *,
        state: Callable[[], Buffer] | None = None,
        take: Callable[[bytes], object] | None = None,
        timeout: float | None = None,
    ) -> None:
        from busq._port import enter_group, group_members  # here, since most programs have none

        if group_members.wide_domain(self, group) is None:
            try:
                return enter_group.enter_here(self, group, state, take, timeout)
            except ValueError:  # also where a bridge has made the group a wide one meanwhile: the core knows
                if group_members.wide_domain(self, group) is None:
                    raise
        from busq._port import wide_members

        return wide_members.enter(self, group, state, take, timeout)

    def leave(self, group: str, *, timeout: float | None = None) -> None:  # noqa: D102
        from busq._port import group_members

        name = group_members.checked_name(group)
        if group_members.wide_domain(self, group) is not None and not group_members.is_in(self, name):
            from busq._port import wide_members

            return wide_members.leave(self, group, timeout)
        return core.change(self, "leave", name, timeout)

    def view(self, group: str) -> View:  # noqa: D102
        from busq._port import group_events, group_members

        if core.is_forked(self):
            core.check(core.FORKED)
        name = group_members.checked_name(group)
        seen = group_events.seen_by(self).views.get(group)
        domain = group_members.wide_domain(self, group)
        if seen is not None and (self._name in seen.members or domain is not None):
            return seen
        if domain is not None:
            from busq._port import wide_views

            return wide_views.latest_view(self._raw_bus(), domain, group)
        return group_members.view_of(self._raw_bus(), name.encode())

    def sync(self, group: str, *, timeout: float | None = None) -> None:  # noqa: D102
        from busq._port import wide  # here, since most programs have one machine

        wide.sync(self, group, timeout)

    def watch(self, name: str, *, timeout: float | None = None) -> None:  # noqa: D102
        core.change(self, "watch", name, timeout)

    def unwatch(self, name: str, *, timeout: float | None = None) -> None:  # noqa: D102
        core.change(self, "unwatch", name, timeout)

    def close(self) -> None:  # noqa: D102
        requests = self._requests
        if requests is not None:
            requests.close()
        wide = self.__dict__.get("_wide")  # made by the first send to a group of several machines
        if wide is not None:
            wide.close()
        core.close(self)
        self._open_bus = None


def _watched(watch: Any) -> list[str]:
    """Return the names of the peers to watch; TypeError if they are none."""
    if isinstance(watch, str | bytes | bytearray) or not arguments.is_iterable(watch):
        raise arguments.wrong_type("watch", watch, "an iterable of names of peers")
    names = list(watch)
    for name in names:
        arguments.encode_peer_name(name, "a peer to watch")
    return names


class Repairs(NamedTuple):
    """The result of `Bus.repair`."""

    buried: int  # peers whose death had not been noticed
    helped: int  # messages of other peers that stood still, and were completed or put off


class _Default:
    """The value of an argument of `Bus.create` that was left out: a bus that exists may differ in that."""

    def __init__(self, value: Any) -> None:
        self.default = value

    def __repr__(self) -> str:
        return repr(self.default)


def _default(value: Any) -> Any:
    return _Default(value)


def _is_default(value: Any) -> bool:
    return hasattr(value, "default")  # and no class, which is another one where this module was loaded anew


class Bus:
    """A bus: a file in shared memory that processes join as peers.  Made by `Bus.create` or `Bus.open`.

    A bus is a context manager that closes its handle; the file stays until `Bus.unlink`.

    >>> import busq
    >>> with busq.Bus.create("doc-bus", capacity=100) as bus, bus.join("alice") as alice:
    ...     bus.name, bus.order, bus.peers()
    ('doc-bus', 'bus1', ['alice'])
    >>> busq.Bus.unlink("doc-bus")
    """

    _handle: core.Bus | None
    _name: str
    _directory: str
    _order: str

    def __init__(self, *_: NoReturn, **__: NoReturn) -> None:
        raise TypeError("a Bus is made, or opened, under its name: call `Bus.create` or, where it is there, `Bus.open`")

    @classmethod
    def _of(cls, handle: core.Bus, name: str, directory: str) -> Bus:
        bus = cls.__new__(cls)
        bus._handle, bus._name, bus._directory = handle, arguments.as_utf8(name), os.path.abspath(directory)
        bus._order = handle.facts()["order"]
        return bus

    @classmethod
    def create(
        cls,
        name: str,
        *,
        order: str = _default("bus1"),
        peers: int = _default(64),
        capacity: int = _default(1024),
        arena: int = _default(16 << 20),
        permissions: int = _default(0o600),
        groups: int = _default(32),
        nodes: int | None = None,
        temporary: bool = _default(False),
        reserve: bool = True,
        exist_ok: bool = False,
    ) -> Bus:
        """Create a bus.

        Parameters: `name`, 1 to 200 bytes without "/"; `order`, the ordering protocol, perhaps with options, as in
        "lamport:ack=all" (`busq.orders.ORDERS`); `peers`, how many may be joined at once, or of another order than
        bus1, how many belong to the group: each may join once, and some orders need all of them; `capacity`, how many
        messages a queue holds before senders wait; `arena`, bytes for messages in flight, all peers together: a
        message that it can not hold, of up to 4 GiB, takes memory of its own while it is in flight (but of another
        order than bus1, or where this process has a limit on its addresses, the arena is the largest message);
        `permissions`, 0o600 or, for a group, 0o660; `groups`, how many names of groups and of watched peers there is
        room for, 0 to 65534; `nodes`, how many nodes each peer may have at once, 0 to 65535 (None: 1024 for all peers
        together, and 1 to 64 for each), both for bus1 alone: other orders have none; `temporary`, the name goes with
        the last process that has the bus open, whatever ends it, and does not wait for `unlink`; `reserve`, False
        reserves memory where it is needed instead of now: then a bus with many places and a large arena costs what is
        used of it, messages of 64 MiB and more may take as much as the arena beside it, until they are received, and a
        full file system is NoSpace where a peer joins, or first looks into its queue, or a message is sent; `exist_ok`,
        open the bus if there is one of that name: it must have what was asked for here, in whatever was not left out.

        A process has a bus open until it has closed its handle and the peers that joined through it; a forked child
        has it open as well.  Where the last process is killed, or ends by `os._exit`, the name goes when the next one
        creates or opens a bus, any bus of the directory.

        Errors: FileExistsError, NoSpace, PermissionError, ValueError, TypeError; with `exist_ok` also those of `open`.
        Cost: some milliseconds; arena + 16 bytes x peers x capacity of shared memory, 24 bytes x peers + 9 kB for each
        of the groups, 8 bytes x peers + 128 bytes for each node of each peer, and a little more; 32 GiB of addresses.

        >>> import busq
        >>> with busq.Bus.create("doc-create", peers=4) as bus:
        ...     bus.name
        'doc-create'
        >>> busq.Bus.unlink("doc-create")
        >>> with busq.Bus.create("doc-create-temporary", temporary=True) as bus:
        ...     bus.stats()["temporary"]
        True
        >>> busq.Bus.open("doc-create-temporary")
        Traceback (most recent call last):
            ...
        FileNotFoundError: [Errno 2] there is no bus "doc-create-temporary"; create it first
        """
        given: dict[str, Any] = {
            "order": order,
            "peers": peers,
            "capacity": capacity,
            "arena": arena,
            "permissions": permissions,
            "groups": groups,
            "nodes": _default(None) if nodes is None else nodes,
            "temporary": temporary,
        }
        asked = {key: value for key, value in given.items() if not _is_default(value)}
        chosen = {key: value.default if _is_default(value) else value for key, value in given.items()}
        _complete(chosen, asked)
        encoded = arguments.encode_bus_name(name)
        settings = (*_checked_settings(chosen), arguments.flag("reserve", reserve))
        directory = default_directory()
        while True:
            try:
                bus = cls._of(core.create(os.fsencode(directory), encoded, *settings), name, directory)
            except FileExistsError:
                if not exist_ok:
                    raise
            except OSError as error:
                if error.errno == errno.EROFS:
                    raise read_only(error, directory) from None
                raise
            else:
                if exist_ok:
                    cls._tell_of_namesake(bus)
                return bus
            # The bus may be removed before it is opened here; then there is room for a new one again.
            with contextlib.suppress(FileNotFoundError):
                bus = cls._open(name, directory)
                cls._check_is_as_asked(bus, asked)
                return bus

    @classmethod
    def open(cls, name: str) -> Bus:
        """Open a bus that exists.

        Parameters: `name`, as it was created.

        Errors: FileNotFoundError if there is none; VersionMismatch if an incompatible build of busq made it;
        CorruptSegment; PermissionError if it belongs to another user, or others may write to it; ValueError; TypeError.

        Cost: less than a millisecond.

        >>> import busq
        >>> with busq.Bus.create("doc-open") as created, busq.Bus.open("doc-open") as opened:
        ...     with created.join("alice") as alice, opened.join("bob") as bob:
        ...         alice.send("bob", b"hello")
        ...         bob.recv().data
        b'hello'
        >>> busq.Bus.unlink("doc-open")
        """
        return cls._open(name, default_directory())

    @classmethod
    def _open(cls, name: str, directory: str) -> Bus:
        encoded = arguments.encode_bus_name(name)
        return cls._of(core.open(os.fsencode(directory), encoded), name, directory)

    def _tell_of_namesake(self) -> None:
        """Warn where this bus, which was just made, takes the place of one that its users still believe in."""
        from busq._port import lost_names  # here, since few programs make a bus

        if pids := lost_names.lost(self._directory).get(self._name):
            warnings.warn(lost_names.text_of_namesake(self._name, pids), RuntimeWarning, stacklevel=3)

    def _tell_of_loss(self) -> None:
        """Warn where no other process will find this bus, though `unlink` was not called."""
        if self._raw().lost_its_name():
            from busq._port import lost_names

            warnings.warn(lost_names.text_of_loss(self._name, self._directory), RuntimeWarning, stacklevel=3)

    def _check_is_as_asked(self, asked: dict[str, Any]) -> None:
        """Raise ValueError if this bus, which existed, is another than the one that was asked for."""
        there = self._raw().facts()
        different = [key for key, value in asked.items() if value != there[key]]
        if different:
            self.close()
            raise ValueError(
                f"bus {self._name!r} exists with {_settings(there, different)}, and {_settings(asked, different)} was "
                "asked for: leave that out to open the existing one, or unlink it first"
            )

    @staticmethod
    def unlink(name: str) -> None:
        """Remove the name of a bus; processes that use it go on, and its memory is freed when the last has closed it.

        Parameters: `name`, as it was created.

        Errors: FileNotFoundError if there is none; PermissionError; ValueError; TypeError.

        Cost: a system call or two.

        >>> import busq
        >>> busq.Bus.create("doc-unlink").close()
        >>> busq.Bus.unlink("doc-unlink")
        """
        core.unlink(os.fsencode(default_directory()), arguments.encode_bus_name(name))

    @property
    def name(self) -> str:
        """The name of the bus."""
        return self._name

    @property
    def order(self) -> str:
        """The order that the bus was created with, and its options: "bus1", "lamport:ack=all"."""
        return self._order

    def join(
        self,
        name: str,
        *,
        resume: bool = False,
        durable: bool = False,
        shared: bool = False,
        spin_us: float | None = None,
        codec: Codec | None = None,
        watch: Iterable[str] = (),
    ) -> Peer:
        """Join as a peer.  On a bus of another order than bus1 that is a `busq.ordered.OrderedPeer`.

        Parameters: `name`, 1 to 255 bytes of UTF-8 without "/" and NUL, not beginning with "@"; `resume`, be the peer
        that a dead or closed one of that name was: what it had not received comes now, what it had received with
        `ack=True` and not acknowledged comes again, in order (without such a predecessor it makes no difference);
        `durable`, messages can be sent to this peer also while it is dead or closed, until it resumes or
        `Bus.remove` drops it; `shared`, be one of any number of peers under this name, in any processes: each message
        that is sent to it goes to one of them, in the order of the bus, and what one had with `ack=True` and not
        acknowledged when it died or was closed goes to another, marked as redelivered; `resume` and `durable` mean
        their common queue then, which takes a place on the bus beside one for each of them; `spin_us`, for how many
        microseconds it keeps its core before it sleeps when it has to wait, 0 to 50,000 (None: `BUSQ_SPIN_US`, or what
        the last waits suggest, at most 51); `codec`, what writes and reads the objects of `send_object` and
        `Message.object` instead of pickle: one of `busq.codec`, or anything that has its `encode` and `decode`;
        `watch`, the names of peers to `Peer.watch` from the beginning.

        Errors: PeerExists if a live process has that name, unless both share it, or, without `resume`, if a durable
        peer of that name may come back; NoSpace if all peer slots are taken; ShutDown; ValueError, also where `resume`,
        `durable`, `shared`, `codec` or `watch` are asked of another order than bus1, or `resume` with `shared` of a
        queue that was not shared, or without it of one that was; TypeError.

        Cost: some microseconds and a file descriptor; of another order than bus1, also a native thread.

        >>> import busq
        >>> with busq.Bus.create("doc-join") as bus, bus.join("alice") as alice:
        ...     bob = bus.join("bob", durable=True)
        ...     bob.close()
        ...     alice.send("bob", b"for later")
        ...     bus.join("bob", resume=True).recv().data
        b'for later'
        >>> busq.Bus.unlink("doc-join")

        >>> with busq.Bus.create("doc-shared") as bus, bus.join("alice") as alice:
        ...     one, two = bus.join("jobs", shared=True), bus.join("jobs", shared=True)
        ...     alice.send_many([("jobs", b"first"), ("jobs", b"second")])
        ...     first = one.recv(ack=True)
        ...     one.close()  # not acknowledged
        ...     [(message.data, message.redelivered) for message in two.recv_many(2)]
        2
        [(b'first', True), (b'second', False)]
        >>> busq.Bus.unlink("doc-shared")
        """
        self._tell_of_loss()
        if self._order == "bus1":
            return Bus1Peer(
                self,
                name,
                resume=resume,
                durable=durable,
                shared=shared,
                spin_us=spin_us,
                codec=arguments.codec(codec),
                watch=watch,
            )
        if _watched(watch):
            raise ValueError(f"order {self._order} has no events of peers that come and go: watch needs order bus1")
        if codec is not None:
            raise ValueError(f"order {self._order} carries bytes: a codec needs order bus1")
        if resume or durable:
            raise ValueError(f"order {self._order} can't hand over its state: resume and durable need order bus1")
        if shared:
            raise ValueError(f"order {self._order} knows each member by its name: shared needs order bus1")
        from busq.ordered import OrderedPeer  # here, since most programs never need it

        return OrderedPeer(self, name, self._order, spin_us=spin_us)

    def create_queue(self, name: str, *, durable: bool = True, shared: bool = False) -> bool:
        """Make a queue that goes on filling until its readers come, and return whether it was not there before.

        They join with `Bus.join(name, resume=True, durable=True)`, and `shared=True` if it is shared.

        Parameters: `name`, as for `Bus.join`; `durable`, always true: any other queue ends with its last reader;
        `shared`, for any number of readers at once.

        Errors: ValueError for `durable=False`, and for a queue of that name that is of another kind; those of `join`.

        Cost: that of `Bus.join`.

        >>> import busq
        >>> with busq.Bus.create("doc-create-queue") as bus, bus.join("alice") as alice:
        ...     bus.create_queue("jobs", shared=True), bus.create_queue("jobs", shared=True)
        ...     alice.send("jobs", b"for later")
        ...     bus.join("jobs", shared=True, durable=True, resume=True).recv().data
        (True, False)
        b'for later'
        >>> busq.Bus.unlink("doc-create-queue")
        """
        from busq._port.create_queue import create_queue  # here, since most programs never need it

        return create_queue(self, name, durable, shared)

    def peek(self, name: str, limit: int | None = None, *, bytes_max: int = 65_536) -> list[Peeked]:
        """Return what waits in a queue, in its order, and take none of it: its readers, alive or dead, do not notice.

        What a reader has and has not acknowledged is not among it.  Each has `sender`, `kind`, `redelivered`,
        `size_bytes` and `data`.

        Parameters: `name`, of the queue; `limit`, how many messages at most (None: all); `bytes_max`, of each message.

        Errors: UnknownPeer if there is no such queue; ShutDown if this handle was closed; ValueError; TypeError.

        Cost: that of `stats`, and a step and a copy for each message that waits.

        >>> import busq
        >>> with busq.Bus.create("doc-peek") as bus, bus.join("alice") as alice:
        ...     alice.send("alice", b"hello")
        ...     [(message.sender, message.data) for message in bus.peek("alice")]
        [('alice', b'hello')]
        >>> busq.Bus.unlink("doc-peek")
        """
        from busq._port.peeked import peeked  # here, since most programs never need it

        arguments.encode_peer_name(name)
        most = None if limit is None else arguments.whole_number("limit", limit, 31)
        room = arguments.whole_number("bytes_max", bytes_max, 31)
        return peeked(self._raw(), self.stats()["peers"], name, most, room)

    def peers(self) -> list[str]:
        """Return the names of the peers that are alive, as the kernel knows it.

        The second slot of a peer that asks, where its replies come, is none of them; `stats` shows it.

        Errors: ShutDown if this handle was closed.

        Cost: that of `stats`.

        >>> import busq
        >>> with busq.Bus.create("doc-peers") as bus, bus.join("alice"), bus.join("bob"):
        ...     bus.peers()
        ['alice', 'bob']
        >>> busq.Bus.unlink("doc-peers")
        """
        return [facts["name"] for facts in self.stats()["peers"] if facts["alive"] and "/" not in facts["name"]]

    def groups(self) -> dict[str, View]:
        """Return the groups of the bus by their names, with the view of each that is the latest now.

        A member delivers that view at its place in the order, perhaps later.  One that has died stands in it until
        another member receives, or a peer sends to the group; `repair` changes none.

        Errors: ShutDown if this handle was closed.

        Cost: a step for each peer slot and each group.

        >>> import busq
        >>> with busq.Bus.create("doc-bus-groups") as bus, bus.join("alice") as alice:
        ...     alice.enter("workers")
        ...     bus.groups()["workers"].members
        ('alice',)
        >>> busq.Bus.unlink("doc-bus-groups")
        """
        from busq._port.group_members import groups_of  # here, since most programs have none

        return groups_of(self._raw())

    def wait_for(self, names: str | Iterable[str], timeout: float | None = None, *, readers: int | None = None) -> None:
        """Wait until peers have joined: return when all of them are there, and alive, at the same time.

        Parameters: `names`, the name of a peer, or an iterable of names; none at all are there at once; `timeout`, how
        many seconds to wait: None waits for ever, 0 looks once; `readers`, how many processes have to read each of
        these queues (`Bus.join(..., shared=True)`), None for any number.

        Errors: Empty, which names those that are missing, if they are not all there before the timeout; PeerDead if one
        that was seen here has left or died while others were waited for, and none has joined under its name since:
        what a peer of that name left behind before the call does not matter; ShutDown if the bus was shut down, or this
        handle closed; ValueError, also for more readers than 1 of a queue that is not shared; TypeError.

        Cost: a peer that joins wakes no process; this looks every millisecond at first, and after a while 50 times a
        second, with a system call for each peer that is there.

        >>> import busq
        >>> with busq.Bus.create("doc-wait-for") as bus, bus.join("alice") as alice:
        ...     bus.wait_for("alice")
        ...     try:
        ...         bus.wait_for(["alice", "bob"], timeout=0.1)
        ...     except busq.Empty as error:
        ...         print(error)
        not there before the timeout: 'bob'
        >>> busq.Bus.unlink("doc-wait-for")

        >>> with busq.Bus.create("doc-wait-for-readers") as bus:
        ...     one, two = bus.join("jobs", shared=True), bus.join("jobs", shared=True)
        ...     bus.wait_for("jobs", readers=2)
        ...     try:
        ...         bus.wait_for("jobs", timeout=0, readers=3)
        ...     except busq.Empty as error:
        ...         print(error)
        not there before the timeout: 'jobs' (2 of 3 readers)
        >>> busq.Bus.unlink("doc-wait-for-readers")
        """
        from busq._port.wait_for import wait_for  # here, since most programs never need it

        wait_for(self, names, timeout, readers)

    def stats(self) -> dict[str, Any]:
        """Return sizes and counters of the bus and, under "peers", of every peer that is still remembered.

        Units are in the keys (`arena_bytes`, `waited_s`); `created_s` and `joined_s` are seconds since 1970.  The
        counters of a busy bus are read one after the other, not at one moment.

        Errors: ShutDown if this handle was closed.

        Cost: some microseconds and a system call per peer; no other process waits for it.

        >>> import busq
        >>> with busq.Bus.create("doc-stats") as bus, bus.join("alice") as alice:
        ...     alice.send("alice", b"hello")
        ...     [(peer["name"], peer["sent"], peer["received"], peer["depth"]) for peer in bus.stats()["peers"]]
        [('alice', 1, 0, 1)]
        >>> busq.Bus.unlink("doc-stats")
        """
        raw = self._raw()
        facts = raw.facts()
        return {
            "name": self._name,
            "order": self._order,
            "capacity": facts["capacity"],
            "peer_slots": facts["peers"],
            "groups_max": facts["groups"],
            "nodes_max": facts["nodes"],
            "arena_bytes": facts["arena"],
            **{key: facts[key] for key in ("arena_used_bytes", "segment_bytes", "created_s", "creator_pid")},
            **{key: facts[key] for key in ("shut_down", "temporary")},
            "peers": raw.peers(),
        }

    def remove(self, name: str) -> None:
        """Drop what a dead or closed peer has left, durable or not: it can't be resumed any more.

        Parameters: `name`, that of the peer.

        Errors: PeerExists while it lives; UnknownPeer if no peer of that name is remembered; ShutDown if this handle
        was closed; ValueError; TypeError.

        Cost: some microseconds, and a step per message that is dropped.

        >>> import busq
        >>> with busq.Bus.create("doc-remove") as bus:
        ...     with bus.join("alice", durable=True) as alice:
        ...         alice.send("alice", b"never read")
        ...     bus.remove("alice")
        ...     bus.join("alice").bus.stats()["peers"][0]["depth"]
        0
        >>> busq.Bus.unlink("doc-remove")
        """
        self._raw().remove(arguments.encode_peer_name(name))

    def repair(self) -> Repairs:
        """Put in order what dead peers left behind: unfinished messages, unused memory, files.  Drops nothing.

        Completes or puts off, as well, messages of live senders that stand still.  It need not be called: a process
        that meets the remains of a dead peer, or is kept waiting, does the same.  It changes no view of a group: that
        is a message, so a dead member stands in the view until another one receives, or a peer sends to the group.

        Errors: ShutDown if this handle was closed.

        Cost: that of a look at every peer, and of what is mended.

        >>> import busq
        >>> with busq.Bus.create("doc-repair") as bus:
        ...     bus.repair()
        Repairs(buried=0, helped=0)
        >>> busq.Bus.unlink("doc-repair")
        """
        return Repairs(*self._raw().repair())

    def collect(self) -> int:
        """Repair, and drop messages that wait for departed peers which are not durable; returns how many.

        Groups that have no other members are empty then.  It need not be called: a process that needs a slot,
        memory, or room for the name of another group does the same.

        Errors: ShutDown if this handle was closed.

        Cost: that of `repair`, a step per message that is dropped, and one per group and peer slot.

        >>> import busq
        >>> with busq.Bus.create("doc-collect") as bus, bus.join("alice") as alice:
        ...     bob = bus.join("bob")
        ...     alice.send("bob", b"never read")
        ...     bob.close()
        ...     bus.collect()
        1
        >>> busq.Bus.unlink("doc-collect")
        """
        return self._raw().collect()

    def shutdown(self) -> None:
        """End the bus for all: sends raise ShutDown at once, receives when nothing is left to receive.

        Errors: ShutDown if this handle was closed.

        Cost: a step, and a wake-up for every peer that waits.

        >>> import busq
        >>> with busq.Bus.create("doc-shutdown") as bus, bus.join("alice") as alice:
        ...     alice.send("alice", b"last")
        ...     bus.shutdown()
        ...     [message.data for message in alice]
        [b'last']
        >>> busq.Bus.unlink("doc-shutdown")
        """
        self._raw().shutdown()

    def close(self) -> None:
        """Close this handle; peers that joined through it go on.  Closing twice is harmless.

        Errors: none.

        Cost: none, but where it is the last handle, and no peer is left: then the memory is unmapped.

        >>> import busq
        >>> bus = busq.Bus.create("doc-bus-close")
        >>> alice = bus.join("alice")
        >>> bus.close()
        >>> alice.send("alice", b"still here")
        >>> alice.close()
        >>> busq.Bus.unlink("doc-bus-close")
        """
        self._handle = None

    def _raw(self) -> core.Bus:
        handle = self._handle  # once: another thread may close it meanwhile
        if handle is None:
            raise ShutDown(f"this handle of bus {self._name!r} was closed")
        return handle

    @staticmethod
    def _spin_ns(chosen_us: float | None) -> int | None:
        """Return how long a peer stays awake before it sleeps, if the caller or the environment chooses."""
        expected, called = f"0 to {SPIN_US_MAX:,} microseconds", "spin_us"
        if chosen_us is None and "BUSQ_SPIN_US" not in os.environ:
            return None
        from busq._util.arguments import number  # here, since most programs never need it

        if chosen_us is None:
            text = os.environ["BUSQ_SPIN_US"]
            called = f"the environment's BUSQ_SPIN_US={text!r}, in microseconds,"
            try:
                chosen_us = float(text)
            except ValueError:
                raise ValueError(f"{called} is no number: expected {expected}") from None
        try:
            is_in_range = 0 <= number(called, chosen_us, expected) <= SPIN_US_MAX
        except OverflowError:
            is_in_range = False
        if not is_in_range:
            raise ValueError(f"{called} is {chosen_us!r}: expected {expected}")
        return int(chosen_us * 1000)

    def __enter__(self) -> Bus:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Bus {self._name!r}>"

    def _generation(self) -> bytes:
        return self._raw().generation()

    def __reduce__(self) -> Any:
        return _reopen, self._key()

    def _key(self) -> tuple[str, str, bytes]:
        """Return what another process opens this bus by, and no other that has its name then."""
        return self._directory, self._name, self._generation()


def _complete(chosen: dict[str, Any], asked: dict[str, Any]) -> None:
    """Choose what depends on other settings."""
    order, peers = chosen["order"], chosen["peers"]
    if not isinstance(order, str) or order != "bus1":
        chosen.update({key: 0 for key in ("groups", "nodes") if key not in asked})
    elif chosen["nodes"] is None:
        share = 1024 // peers if isinstance(peers, int) and peers > 0 else 1
        chosen["nodes"] = max(1, min(64, share))


def _checked_settings(chosen: dict[str, Any]) -> tuple[Any, ...]:
    """Return the settings as the core takes them; TypeError or ValueError for one that it can't take."""
    order, groups, nodes = chosen["order"], chosen["groups"], chosen["nodes"]
    bits = {"peers": 32, "capacity": 32, "arena": 64, "permissions": 32, "groups": 32, "nodes": 32}
    encoded = arguments.encode_order(order)
    numbers = [arguments.whole_number(key, chosen[key], n_bits) for key, n_bits in bits.items()]
    if (groups or nodes) and order != "bus1":
        raise ValueError(f"groups={groups}, nodes={nodes} with order {order!r}: only a bus of order bus1 has them")
    return (encoded, *numbers, arguments.flag("temporary", chosen["temporary"]))


def _settings(config: dict[str, Any], keys: list[str]) -> str:
    return ", ".join(f"{key}={config[key]:#o}" if key == "permissions" else f"{key}={config[key]!r}" for key in keys)


def _reopen(directory: str, name: str, generation: bytes) -> Bus:
    """Open the bus that was pickled, and no other that has its name now."""
    bus = Bus._open(name, directory)
    if bus._generation() != generation:
        bus.close()
        raise FileNotFoundError(
            errno.ENOENT, f"bus {name!r} was removed, and the bus of that name is another: pickle a handle of that one"
        )
    return bus


def bus_names() -> Iterable[str]:
    """Return the names of all buses in the directory, sorted."""
    directory = default_directory()
    return sorted(
        arguments.as_utf8(entry.name)
        for entry in os.scandir(directory)
        if not entry.name.startswith(".") and entry.is_file()
    )
