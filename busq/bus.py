# SPDX-License-Identifier: Apache-2.0
"""Bus and Peer: what people use."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any, NamedTuple, cast

from busq import _core
from busq._native import ffi, lib
from busq.errors import ShutDown

_STATES = {
    lib.BUSQ_PEER_LIVE: "live",
    lib.BUSQ_PEER_CLOSING: "closing",
    lib.BUSQ_PEER_CLOSED: "closed",
    lib.BUSQ_PEER_UNBURIED: "dead, unnoticed",
    lib.BUSQ_PEER_GONE: "dead",
}
_WAITS = {
    lib.BUSQ_WAITING_NOT: None,
    lib.BUSQ_WAITING_MESSAGE: "message",
    lib.BUSQ_WAITING_BLOCKED: "blocked",
    lib.BUSQ_WAITING_ROOM: "room",
    lib.BUSQ_WAITING_MEMORY: "memory",
}
_WAITS_FOR_SOMEBODY = (lib.BUSQ_WAITING_BLOCKED, lib.BUSQ_WAITING_ROOM)


class Peer(_core.Port, _core.Member):
    """One member of a bus, with one queue.  Made by `Bus.join`.

    Any number of threads may send and receive on one peer.  A peer is a context manager that closes itself.

    >>> import busq
    >>> with busq.Bus.create("doc-peer") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
    ...     alice.send(["alice", "bob"], b"hello")
    ...     bob.recv().data
    b'hello'
    >>> busq.Bus.unlink("doc-peer")
    """

    def __init__(self, bus: Bus, name: str, *, resume: bool = False, durable: bool = False) -> None:
        encoded = _core.encode_peer_name(name)
        spin = bus._spin_ns()
        handle = ffi.new("busq_peer **")
        flags = (lib.BUSQ_JOIN_RESUME if resume else 0) | (lib.BUSQ_JOIN_DURABLE if durable else 0)
        _core.check(lib.busq_peer_join_as(bus._raw(), encoded, len(encoded), flags, handle))
        self._bus = bus
        self._name = name
        self._open(ffi.gc(handle[0], lib.busq_peer_free))
        if spin is not None:
            lib.busq_peer_set_spin(self._handle, *spin)

    def fileno(self) -> int:
        """Return a descriptor that is readable whenever `recv` would not block, for select, poll and asyncio.

        It belongs to the peer: do not read from it and do not close it.  When it is readable, call `recv(timeout=0)`
        and be ready for `Empty`, as with any descriptor: a slow sender may announce a message that was already
        received, and every 50 ms of waiting it is readable for a moment, so that a sender that is killed just before it
        announces its message keeps nobody waiting.  From the first call on, a send that finds this peer waiting costs
        its sender a system call.
        """
        found = ffi.new("int *")
        _core.check(lib.busq_peer_fileno(self._handle, found))
        return int(found[0])

    def close(self) -> None:
        """Leave the bus.  What was sent is delivered.  Closing twice is harmless.

        What was not received, or not acknowledged, stays for a successor that joins with `resume=True`: if this peer
        was durable, until it comes or `Bus.remove` drops it, and the queue goes on filling; otherwise for as long as
        nobody needs its place or its memory.  Threads that wait on this peer get `ShutDown`.
        """
        lib.busq_peer_close(self._handle)


class Repairs(NamedTuple):
    """What `Bus.repair` did."""

    buried: int  # peers of whose death nobody had noticed
    helped: int  # messages of others that stood still, and were completed or put off


class Bus:
    """A bus: a file in shared memory that processes join as peers.  Made by `Bus.create` or `Bus.open`.

    A bus is a context manager that closes its handle; the file stays until `Bus.unlink`.
    """

    def __init__(self, handle: Any, name: str, directory: str) -> None:
        self._handle: Any = ffi.gc(handle, lib.busq_bus_free)
        self._name = name
        self._directory = os.path.abspath(directory)
        facts = ffi.new("busq_bus_facts *")
        _core.check(lib.busq_bus_examine(self._handle, facts))
        self._order: str = ffi.string(facts.order).decode("utf-8", "replace")

    @classmethod
    def create(
        cls,
        name: str,
        *,
        order: str = "bus1",
        peers: int = 64,
        capacity: int = 1024,
        arena: int = 16 << 20,
        permissions: int = 0o600,
        exist_ok: bool = False,
    ) -> Bus:
        """Create a bus; its memory is reserved now.

        Parameters: `name`, 1 to 200 bytes without "/"; `order`, the ordering protocol, perhaps with options, as in
        "lamport:ack=all" (`busq.orders.ORDERS`); `peers`, how many may be joined at once, or of another order than
        bus1, how many belong to the group: each may join once, and some orders need all of them; `capacity`, messages a
        queue holds before senders wait; `arena`, bytes for messages on their way, all peers together, and the largest
        message; `permissions`, 0o600 or, for a group, 0o660; `exist_ok`, open the bus if there is one of that name.

        Errors: FileExistsError, NoSpace, PermissionError, ValueError.  Cost: some milliseconds; arena + 16 bytes x
        peers x capacity of shared memory, and a little more.

        >>> import busq
        >>> with busq.Bus.create("doc-create", peers=4) as bus:
        ...     bus.name
        'doc-create'
        >>> busq.Bus.unlink("doc-create")
        """
        encoded = _core.encode_bus_name(name)
        order_text = ffi.new("char[]", _core.encode_bus_name(order))
        config = ffi.new("busq_config *", {"order": order_text})
        try:
            config.peers, config.capacity, config.arena_bytes, config.permissions = peers, capacity, arena, permissions
        except OverflowError as error:
            sizes = f"peers={peers}, capacity={capacity}, arena={arena}, permissions={permissions}"
            raise ValueError(f"{sizes}: {error}") from None
        handle = ffi.new("busq_bus **")
        directory = _core.default_directory()
        result = lib.busq_bus_create(os.fsencode(directory), encoded, config, handle)
        if result == lib.BUSQ_EXISTS and exist_ok:
            return cls.open(name)
        _core.check(result)
        return cls(handle[0], name, directory)

    @classmethod
    def open(cls, name: str) -> Bus:
        """Open a bus that exists.

        Errors: FileNotFoundError if there is none; VersionMismatch, CorruptSegment, PermissionError, ValueError.
        """
        return cls._open(name, _core.default_directory())

    @classmethod
    def _open(cls, name: str, directory: str) -> Bus:
        encoded = _core.encode_bus_name(name)
        handle = ffi.new("busq_bus **")
        _core.check(lib.busq_bus_open(os.fsencode(directory), encoded, handle))
        return cls(handle[0], name, directory)

    @staticmethod
    def unlink(name: str) -> None:
        """Remove the name of a bus; processes that use it go on, and its memory is freed when the last has closed it.

        Errors: FileNotFoundError if there is none; PermissionError.
        """
        _core.check(lib.busq_bus_unlink(os.fsencode(_core.default_directory()), _core.encode_bus_name(name)))

    @property
    def name(self) -> str:
        """The name of the bus."""
        return self._name

    @property
    def order(self) -> str:
        """The order that the bus was created with, and its options: "bus1", "lamport:ack=all"."""
        return self._order

    def join(self, name: str, *, resume: bool = False, durable: bool = False) -> Peer:
        """Join as a peer.  On a bus of another order than bus1 that is an `OrderedPeer`, with the same methods.

        Parameters: `name`, 1 to 255 bytes of UTF-8 without "/" and NUL, not beginning with "@"; `resume`, be the peer
        that a dead or closed one of that name was: what it had not received comes now, what it had received with
        `ack=True` and not acknowledged comes again, in order (without such a predecessor it makes no difference);
        `durable`, messages can be sent to this peer also while it is dead or closed, until it resumes or
        `Bus.remove` drops it.

        Errors: PeerExists if a live process has that name, or, without `resume`, if a durable peer of that name may
        come back; NoSpace if all peer slots are taken; ShutDown; ValueError, also where `resume` or `durable` are asked
        of another order than bus1.

        >>> import busq
        >>> with busq.Bus.create("doc-join") as bus, bus.join("alice") as alice:
        ...     bob = bus.join("bob", durable=True)
        ...     bob.close()
        ...     alice.send("bob", b"for later")
        ...     bus.join("bob", resume=True).recv().data
        b'for later'
        >>> busq.Bus.unlink("doc-join")
        """
        if self._order == "bus1":
            return Peer(self, name, resume=resume, durable=durable)
        if resume or durable:
            raise ValueError(f"order {self._order} can't hand over its state: resume and durable need order bus1")
        from busq.ordered import OrderedPeer  # here, since most who import busq never need it

        return cast(Peer, OrderedPeer(self, name, self._order))  # which it is but for its class

    def peers(self) -> list[str]:
        """Return the names of the peers that are alive, as the kernel knows it."""
        return [facts["name"] for facts in self.stats()["peers"] if facts["alive"]]

    def stats(self) -> dict[str, Any]:
        """Return sizes and counters of the bus and, under "peers", of all who have joined and are still remembered."""
        facts = ffi.new("busq_bus_facts *")
        _core.check(lib.busq_bus_examine(self._raw(), facts))
        return {
            "name": self._name,
            "order": self._order,
            "capacity": facts.capacity,
            "peer_slots": facts.peers,
            "arena_bytes": facts.arena_bytes,
            "arena_used_bytes": facts.arena_used_bytes,
            "segment_bytes": facts.segment_bytes,
            "created_s": facts.created_ns / 1e9,
            "creator_pid": facts.creator_pid,
            "shut_down": bool(facts.is_shut_down),
            "peers": [peer for slot in range(facts.peers) if (peer := self._peer_facts(slot)) is not None],
        }

    def _peer_facts(self, slot: int) -> dict[str, Any] | None:
        facts = ffi.new("busq_peer_facts *")
        result = lib.busq_bus_examine_peer(self._raw(), slot, facts)
        if result == lib.BUSQ_EMPTY:
            return None
        _core.check(result)
        return {
            "name": ffi.unpack(facts.name, facts.name_bytes).decode("utf-8", "replace"),
            "alive": bool(facts.is_alive),
            "state": _STATES[facts.state],
            "durable": bool(facts.is_durable),
            "waits": _WAITS[facts.waits],
            "waits_for_slot": facts.waits_for if facts.waits in _WAITS_FOR_SOMEBODY else None,
            "waited_s": facts.waited_ns / 1e9,
            "pid": facts.pid,
            "slot": slot,
            "incarnation": facts.incarnation,
            "joined_s": facts.joined_ns / 1e9,
            "clock": facts.clock,
            "depth": facts.depth,
            "sent": facts.sent,
            "received": facts.received,
            "late": facts.late,
            "helped": facts.helped,
            "memory_bytes": facts.memory_bytes,
        }

    def remove(self, name: str) -> None:
        """Drop what a dead or closed peer has left, durable or not: nobody can resume it any more.

        Errors: PeerExists while it lives; UnknownPeer if nobody of that name is remembered.
        """
        encoded = _core.encode_peer_name(name)
        _core.check(lib.busq_bus_remove_peer(self._raw(), encoded, len(encoded)))

    def repair(self) -> Repairs:
        """Put in order what dead peers left behind: unfinished messages, unused memory, files.  Drops nothing.

        Completes or puts off, as well, messages of live senders that stand still.  Nobody has to call this: whoever
        meets the remains of a dead peer, or is kept waiting, does it.
        """
        buried, helped = ffi.new("uint32_t *"), ffi.new("uint32_t *")
        _core.check(lib.busq_bus_repair(self._raw(), buried, helped))
        return Repairs(int(buried[0]), int(helped[0]))

    def collect(self) -> int:
        """Repair, and drop messages that wait for peers which are gone and not durable.

        Nobody has to call this: it is done for a slot or for memory as soon as somebody needs one.  Returns how many
        messages were dropped.
        """
        dropped = ffi.new("uint64_t *")
        _core.check(lib.busq_bus_collect(self._raw(), dropped))
        return int(dropped[0])

    def shutdown(self) -> None:
        """End the bus for everybody: sends raise ShutDown at once, receives when nothing is left to receive."""
        _core.check(lib.busq_bus_shutdown(self._raw()))

    def close(self) -> None:
        """Close this handle; peers that joined through it go on."""
        self._handle = None

    def _raw(self) -> Any:
        if self._handle is None:
            raise ShutDown(f"this handle of bus {self._name!r} was closed")
        return self._handle

    @staticmethod
    def _spin_ns() -> tuple[int, int] | None:
        """How long peers of this process spin and then yield before they sleep, if the environment says so."""
        chosen = os.environ.get("BUSQ_SPIN_US")
        if chosen is None:
            return None
        try:
            total_ns = int(float(chosen) * 1000)
        except ValueError:
            raise ValueError(f"BUSQ_SPIN_US={chosen!r}: expected microseconds") from None
        return min(total_ns, 1000), max(total_ns - 1000, 0)

    def __enter__(self) -> Bus:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Bus {self._name!r}>"

    def _generation(self) -> bytes:
        found = ffi.new("uint8_t[16]")
        lib.busq_bus_generation(self._raw(), found)
        return bytes(found)

    def __reduce__(self) -> Any:
        return _reopen, (self._directory, self._name, self._generation())


def _reopen(directory: str, name: str, generation: bytes) -> Bus:
    """Open the bus that was pickled, and no other that has its name now."""
    bus = Bus._open(name, directory)
    if bus._generation() != generation:
        bus.close()
        raise FileNotFoundError(
            errno.ENOENT, f"bus {name!r} was removed, and the one of that name is another: pickle a handle of that one"
        )
    return bus


def bus_names() -> Iterable[str]:
    """Return the names of all buses in the directory, sorted."""
    directory = _core.default_directory()
    return sorted(entry.name for entry in os.scandir(directory) if not entry.name.startswith(".") and entry.is_file())
