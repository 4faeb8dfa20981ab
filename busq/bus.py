# SPDX-License-Identifier: Apache-2.0
"""Bus and Peer: what people use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

from busq import _core
from busq._native import ffi, lib
from busq.errors import ShutDown

ORDERS = ("bus1",)


class Peer(_core.Port):
    """One member of a bus, with one queue.  Made by `Bus.join`.

    Any number of threads may send and receive on one peer.  A peer is a context manager that closes itself.

    >>> import busq
    >>> with busq.Bus.create("doc-peer") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
    ...     alice.send(["alice", "bob"], b"hello")
    ...     bob.recv().data
    b'hello'
    >>> busq.Bus.unlink("doc-peer")
    """

    def __init__(self, bus: Bus, name: str) -> None:
        encoded = _core.encode_peer_name(name)
        spin = bus._spin_ns()
        handle = ffi.new("busq_peer **")
        _core.check(lib.busq_peer_join(bus._raw(), encoded, len(encoded), handle))
        self._bus = bus
        self._name = name
        self._open(ffi.gc(handle[0], lib.busq_peer_free))
        if spin is not None:
            lib.busq_peer_set_spin(self._handle, *spin)

    @property
    def name(self) -> str:
        """The name under which this peer joined."""
        return self._name

    @property
    def bus(self) -> Bus:
        """The bus that it joined."""
        return self._bus

    def fileno(self) -> int:
        """Return a descriptor that is readable whenever `recv` would not block, for select, poll and asyncio.

        It belongs to the peer: do not read from it and do not close it.  When it is readable, call `recv(timeout=0)`
        and be ready for `Empty`, as with any descriptor: a slow sender may announce a message that was already
        received.  From the first call on, a send that finds this peer waiting costs its sender a system call.
        """
        found = ffi.new("int *")
        _core.check(lib.busq_peer_fileno(self._handle, found))
        return int(found[0])

    def close(self) -> None:
        """Leave the bus.  What was not received is dropped; what was sent is delivered.  Closing twice is harmless.

        Threads that wait on this peer get `ShutDown`.
        """
        lib.busq_peer_close(self._handle)

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                yield self.recv()
            except ShutDown:
                return

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Peer {self._name!r} of bus {self._bus.name!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("a peer can't be pickled; open the bus in the other process and join under a name of its own")


class Bus:
    """A bus: a file in shared memory that processes join as peers.  Made by `Bus.create` or `Bus.open`.

    A bus is a context manager that closes its handle; the file stays until `Bus.unlink`.
    """

    def __init__(self, handle: Any, name: str) -> None:
        self._handle: Any = ffi.gc(handle, lib.busq_bus_free)
        self._name = name

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

        Parameters: `name`, 1 to 200 bytes without "/"; `order`, the ordering protocol; `peers`, how many may be joined
        at once; `capacity`, messages a queue holds before senders wait; `arena`, bytes for messages on their way, all
        peers together, and the largest message; `permissions`, 0o600 or, for a group, 0o660; `exist_ok`, open the bus
        if there is one of that name.

        Errors: FileExistsError, NoSpace, PermissionError, ValueError.  Cost: some milliseconds; arena + 16 bytes x
        peers x capacity of shared memory, and a little more.

        >>> import busq
        >>> with busq.Bus.create("doc-create", peers=4) as bus:
        ...     bus.name
        'doc-create'
        >>> busq.Bus.unlink("doc-create")
        """
        if order not in ORDERS:
            raise ValueError(f"order {order!r}: expected one of {', '.join(ORDERS)}")
        encoded = _core.encode_bus_name(name)
        config = ffi.new("busq_config *")
        try:
            config.peers, config.capacity, config.arena_bytes, config.permissions = peers, capacity, arena, permissions
        except OverflowError as error:
            sizes = f"peers={peers}, capacity={capacity}, arena={arena}, permissions={permissions}"
            raise ValueError(f"{sizes}: {error}") from None
        handle = ffi.new("busq_bus **")
        directory = _core.default_directory().encode()
        result = lib.busq_bus_create(directory, encoded, config, handle)
        if result == lib.BUSQ_EXISTS and exist_ok:
            return cls.open(name)
        _core.check(result)
        return cls(handle[0], name)

    @classmethod
    def open(cls, name: str) -> Bus:
        """Open a bus that exists.

        Errors: FileNotFoundError if there is none; VersionMismatch, CorruptSegment, PermissionError, ValueError.
        """
        encoded = _core.encode_bus_name(name)
        handle = ffi.new("busq_bus **")
        _core.check(lib.busq_bus_open(_core.default_directory().encode(), encoded, handle))
        return cls(handle[0], name)

    @staticmethod
    def unlink(name: str) -> None:
        """Remove the name of a bus; processes that use it go on, and its memory is freed when the last has closed it.

        Errors: FileNotFoundError if there is none; PermissionError.
        """
        _core.check(lib.busq_bus_unlink(_core.default_directory().encode(), _core.encode_bus_name(name)))

    @property
    def name(self) -> str:
        """The name of the bus."""
        return self._name

    def join(self, name: str) -> Peer:
        """Join as a peer.

        Parameters: `name`, 1 to 255 bytes of UTF-8 without "/" and NUL, not beginning with "@".

        Errors: PeerExists if a live process has that name; NoSpace if all peer slots are taken; ShutDown; ValueError.
        """
        return Peer(self, name)

    def peers(self) -> list[str]:
        """Return the names of the peers that are alive, as the kernel knows it."""
        return [facts["name"] for facts in self.stats()["peers"] if facts["alive"]]

    def stats(self) -> dict[str, Any]:
        """Return sizes and counters of the bus and, under "peers", of all who have joined and are still remembered."""
        facts = ffi.new("busq_bus_facts *")
        _core.check(lib.busq_bus_examine(self._raw(), facts))
        return {
            "name": self._name,
            "order": "bus1",
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
            "pid": facts.pid,
            "slot": slot,
            "joined_s": facts.joined_ns / 1e9,
            "clock": facts.clock,
            "depth": facts.depth,
            "sent": facts.sent,
            "received": facts.received,
            "late": facts.late,
        }

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
        import os

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

    def __reduce__(self) -> Any:
        raise TypeError("a bus handle can't be pickled; use Bus.open(name) in the other process")


def bus_names() -> Iterable[str]:
    """Return the names of all buses in the directory, sorted."""
    import os

    directory = _core.default_directory()
    return sorted(entry.name for entry in os.scandir(directory) if not entry.name.startswith(".") and entry.is_file())
