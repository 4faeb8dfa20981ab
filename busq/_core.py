# SPDX-License-Identifier: Apache-2.0
"""The gate between Python and the C core: one place where a result code becomes an exception.

Also the Python halves of Peer and Message: everything that the accelerator leaves to the slow way, and, where there is
no accelerator, all of it.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from busq import errors
from busq._native import ffi, lib

try:
    if os.environ.get("BUSQ_NO_ACCELERATOR"):
        raise ImportError("BUSQ_NO_ACCELERATOR is set")
    from busq._native import _fast
except ImportError:
    _fast = None  # type: ignore[assignment]

_COPY_BYTES_MAX = 4096
_RECEIVE_BATCH = 1024

_EXCEPTIONS: dict[int, type[Exception]] = {
    lib.BUSQ_SHUTDOWN: errors.ShutDown,
    lib.BUSQ_UNKNOWN_PEER: errors.UnknownPeer,
    lib.BUSQ_PEER_DEAD: errors.PeerDead,
    lib.BUSQ_PEER_EXISTS: errors.PeerExists,
    lib.BUSQ_INVALID: ValueError,
    lib.BUSQ_TOO_LARGE: ValueError,
    lib.BUSQ_CORRUPT: errors.CorruptSegment,
    lib.BUSQ_VERSION: errors.VersionMismatch,
}

_SYSTEM_EXCEPTIONS: dict[int, tuple[type[OSError], int]] = {
    lib.BUSQ_NO_SPACE: (errors.NoSpace, errno.ENOSPC),
    lib.BUSQ_EXISTS: (FileExistsError, errno.EEXIST),
    lib.BUSQ_NOT_FOUND: (FileNotFoundError, errno.ENOENT),
    lib.BUSQ_DENIED: (PermissionError, errno.EACCES),
    lib.BUSQ_SYSTEM: (OSError, errno.EIO),
}


def fail(result: int) -> NoReturn:
    """Raise what a result code stands for."""
    if result == lib.BUSQ_EMPTY:
        raise errors.Empty("nothing came before the timeout")
    if result == lib.BUSQ_FULL:
        raise errors.Full("a receiver's queue, or the memory for messages, stayed full until the timeout")
    if result == lib.BUSQ_CLOSED:
        raise errors.ShutDown("this peer was closed")
    if result == lib.BUSQ_FORKED:
        raise errors.ForkedHandle("this handle belongs to the parent process: open the bus and join again in the child")
    text = ffi.string(lib.busq_error_text()).decode("utf-8", "replace")
    if result in _SYSTEM_EXCEPTIONS:
        kind, number = _SYSTEM_EXCEPTIONS[result]
        raise kind(lib.busq_error_errno() or number, text)
    raise _EXCEPTIONS.get(result, errors.BusqError)(text)


def check(result: int) -> None:
    """Raise unless the result is BUSQ_OK."""
    if result:
        fail(result)


def default_directory() -> str:
    """Return the directory of buses: $BUSQ_DIR, or a private one of this user in /dev/shm, made if it is not there."""
    chosen = os.environ.get("BUSQ_DIR")
    if chosen:
        return chosen
    path = f"/dev/shm/busq-{os.geteuid()}"
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise PermissionError(
                errno.EACCES,
                f"{path} has owner {found.st_uid} and mode {found.st_mode:o}: expected a directory of user "
                f"{os.geteuid()} with mode 0700; remove it, or set BUSQ_DIR",
            ) from None
    return path


def encode_bus_name(name: str) -> bytes:
    """Turn the name of a bus into bytes for the core."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a bus is a str, not {type(name).__name__}")
    encoded = _encode(name, "bus")
    if b"\0" in encoded:
        raise ValueError(f"bus name {name!r} contains NUL")
    return encoded


def _encode(name: str, what: str) -> bytes:
    try:
        return name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} name {name!r} can't be written in UTF-8 ({error.reason} at {error.start})") from None


def timeout_ns(timeout: float | None) -> int:
    """Turn seconds into the core's nanoseconds; None is for ever."""
    if timeout is None:
        return -1
    try:
        seconds = float(timeout)
    except OverflowError:
        return -1  # longer than a float can say is for ever
    if math.isnan(seconds) or seconds < 0:
        raise ValueError(f"timeout {timeout!r}: expected None (for ever) or seconds, 0 or more")
    return int(min(seconds, 1e9) * 1e9)


class Deadline:
    """How much of a timeout is left, on the monotonic clock."""

    __slots__ = ("_end_ns",)

    def __init__(self, timeout: float | None) -> None:
        total_ns = timeout_ns(timeout)
        self._end_ns = -1 if total_ns < 0 else 0 if total_ns == 0 else time.monotonic_ns() + total_ns

    def left_ns(self) -> int:
        """Return what is left: -1 for ever, 0 for a single try."""
        if self._end_ns <= 0:
            return self._end_ns
        return max(0, self._end_ns - time.monotonic_ns())


def encode_peer_name(name: Any) -> bytes:
    """Turn the name of a peer into bytes for the core."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a peer is a str, not {type(name).__name__}")
    return _encode(name, "peer")


class _PythonMessage:
    """A message that was received: data, sender, kind, and view() for reading it in place."""

    __slots__ = ("_data", "_is_viewed", "_offer", "_redelivered", "_sender", "_size", "_view")

    def __init__(
        self,
        data: bytes | None,
        view: memoryview | None,
        sender: str,
        size: int,
        redelivered: bool,
        offer: tuple[Any, Any] | None = None,
    ) -> None:
        self._data = data
        self._view = view
        self._is_viewed = False
        self._sender = sender
        self._size = size
        self._redelivered = redelivered
        self._offer = offer  # how to acknowledge it, until that was done

    @property
    def kind(self) -> str:
        """ "data": a message that a peer has sent."""
        return "data"

    @property
    def data(self) -> bytes:
        """The payload as bytes."""
        if self._data is None:
            assert self._view is not None
            if self._is_viewed:
                return bytes(self._view)
            self._data = bytes(self._view)
            self._view.release()
        return self._data

    @property
    def sender(self) -> str:
        """The name of the peer that sent it."""
        return self._sender

    @property
    def redelivered(self) -> bool:
        """True where a predecessor of this peer received the message and did not acknowledge it."""
        return self._redelivered

    def ack(self) -> None:
        """Acknowledge the message: it will not come again.

        Only what was received with ack=True needs it; for others, and the second time, it does nothing.

        Errors: ShutDown where the peer was closed meanwhile, ForkedHandle in a forked child: then it will come again.
        """
        if self._offer is not None:
            handle, pinned = self._offer
            check(lib.busq_peer_ack(handle, pinned))
            self._offer = None

    def view(self) -> memoryview:
        """Return the payload as a read-only memoryview, without a copy.

        A large payload stays in the sender's memory, and its place in the queue is kept, until the view is released.
        """
        if self._data is not None:
            return memoryview(self._data)
        assert self._view is not None
        self._is_viewed = True
        return self._view

    def __repr__(self) -> str:
        return f"<Message of {self._size} bytes from {self._sender!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("a message can't be pickled; send its data")


def _view_pinned(
    handle: Any, address: int, size: int, position: int, record: int, sender: int, mark: int
) -> memoryview:
    """Show a payload in place; releasing the view, or dropping it, gives its memory back."""
    pin = ffi.new("busq_message *")
    pin.position, pin.record, pin.sender, pin.mark = position, record, sender, mark

    def release(_: Any) -> None:
        lib.busq_peer_release(handle, pin)

    payload = ffi.gc(ffi.cast("char *", address), release)
    return memoryview(ffi.buffer(payload, size)).toreadonly()


Self = TypeVar("Self", bound="Member")


class Member:
    """What every peer is, whatever the order of its bus: a name on a bus; closed when left, iterated until the end."""

    _name: str
    _bus: Any

    @property
    def name(self) -> str:
        """The name under which this peer joined."""
        return self._name

    @property
    def bus(self) -> Any:
        """The bus that it joined."""
        return self._bus

    def recv(self, timeout: float | None = None, *, ack: bool = False) -> Any:
        """Receive a message; every kind of peer has its own way."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave the bus; every kind of peer has its own way."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                yield self.recv()
            except errors.ShutDown:
                return

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} of bus {self._bus.name!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("a peer can't be pickled; open the bus in the other process and join under a name of its own")


def send_each(send: Callable[..., Any], messages: Iterable[tuple[Any, Any]], sent: int, timeout: float | None) -> int:
    """Send (to, data) pairs until an error stops it; returns how many were sent, with the `sent` ones before.

    The error is raised where not one was sent.
    """
    deadline = Deadline(timeout)
    for to, data in messages:
        left_ns = deadline.left_ns()
        try:
            send(to, data, timeout=None if left_ns < 0 else left_ns / 1e9)
        except (errors.BusqError, ValueError, TypeError):
            if sent:
                return sent
            raise
        sent += 1
    return sent


def check_limit(limit: Any) -> None:
    """ValueError where it is no number of messages to receive."""
    if not isinstance(limit, int) or limit < 1:
        raise ValueError(f"limit {limit!r}: expected a whole number, 1 or more")


class PythonPort:
    """Sending and receiving through cffi; the base of Peer where there is no accelerator."""

    _handle: Any
    _targets: dict[str, int]
    _names: dict[tuple[int, int], str]

    def _open(self, handle: Any) -> None:
        self._handle = handle
        self._targets = {}
        self._names = {}

    # ---- names ----

    def _name_of(self, slot: int, incarnation: int) -> str:
        known = self._names.get((slot, incarnation))
        if known is None:
            name = ffi.new("char[256]")
            size = ffi.new("size_t *")
            check(lib.busq_peer_slot_name(self._handle, slot, incarnation, name, size))
            known = self._names[slot, incarnation] = ffi.unpack(name, size[0]).decode("utf-8", "replace")
        return known

    def _target(self, name: Any) -> int:
        known = self._targets.get(name) if isinstance(name, str) else None
        if known is None:
            encoded = encode_peer_name(name)
            found = ffi.new("uint64_t *")
            check(lib.busq_peer_lookup(self._handle, encoded, len(encoded), found))
            known = self._targets[name] = int(found[0])
        return known

    def _resolve(self, to: Any) -> tuple[list[Any], list[int]]:
        names = [to] if isinstance(to, str) else list(to) if isinstance(to, Iterable) else [to]
        if not names:
            raise ValueError("no receivers: expected a name, or an iterable of at least one")
        return names, [self._target(name) for name in names]

    def _forget(self, names: list[Any]) -> None:
        for name in names:
            self._targets.pop(name, None)

    # ---- sending ----

    def _send_slow(self, to: Any, data: Any, *, timeout: float | None = None) -> None:
        deadline = Deadline(timeout)
        payload = _payload(data)
        names, targets = self._resolve(to)
        for is_retry in (False, True):
            result = self._send_targets(targets, payload, len(payload), deadline)
            if result not in (lib.BUSQ_PEER_DEAD, lib.BUSQ_INVALID):
                break
            # What we knew of a receiver may be out of date: it has joined again since, or somebody else has its slot,
            # so that the two look like one receiver given twice.  If not, looking up once more changes nothing.
            self._forget(names)
            if not is_retry:
                names, targets = self._resolve(names)
        check(result)

    def _send_targets(self, targets: list[int], payload: Any, size: int, deadline: Deadline) -> int:
        while True:
            result = lib.busq_peer_send(self._handle, targets, len(targets), payload, size, deadline.left_ns())
            if result != lib.BUSQ_INTERRUPTED:
                return int(result)

    def _send_many_slow(self, messages: Iterable[tuple[Any, Any]], *, timeout: float | None = None) -> int:
        return self._send_many_from(messages, 0, timeout=timeout)

    def _send_many_from(self, messages: Iterable[tuple[Any, Any]], sent: int, *, timeout: float | None = None) -> int:
        return send_each(self._send_slow, itertools.islice(messages, sent, None), sent, timeout)

    # ---- receiving ----

    def _recv_slow(self, timeout: float | None = None, *, ack: bool = False) -> Any:
        return self._recv_many_slow(1, timeout, ack=ack)[0]

    def _recv_many_slow(self, limit: int, timeout: float | None = None, *, ack: bool = False) -> list[Any]:
        check_limit(limit)
        deadline = Deadline(timeout)
        if ack:
            return self._recv_offered(limit, deadline)
        room = min(limit, _RECEIVE_BATCH)
        found = ffi.new("busq_message[]", room)
        count = ffi.new("uint32_t *")
        while True:
            result = lib.busq_peer_recv(self._handle, found, room, count, deadline.left_ns())
            if result != lib.BUSQ_INTERRUPTED:
                break
        check(result)
        return [self._message(found[i]) for i in range(count[0])]

    def _recv_offered(self, limit: int, deadline: Deadline) -> list[Any]:
        found = [ffi.new("busq_message *") for _ in range(min(limit, _RECEIVE_BATCH))]
        room = ffi.new("busq_message[]", len(found))
        count = ffi.new("uint32_t *")
        while True:
            result = lib.busq_peer_recv_as(
                self._handle, lib.BUSQ_TAKE_OFFERED, room, len(found), count, deadline.left_ns()
            )
            if result != lib.BUSQ_INTERRUPTED:
                break
        check(result)
        for i in range(count[0]):
            found[i][0] = room[i]
        messages = [self._offered(one) for one in found[: count[0]]]
        # Closed meanwhile by another thread, a successor may have them by now, and their memory hold something else.
        if lib.busq_peer_wait(self._handle, 0) == lib.BUSQ_CLOSED:
            fail(lib.BUSQ_CLOSED)
        return messages

    def _offered(self, found: Any) -> _PythonMessage:
        data = ffi.unpack(ffi.cast("char *", found.data), found.size_bytes)
        sender = self._name_of(found.sender, found.sender_incarnation)
        return _PythonMessage(data, None, sender, len(data), bool(found.is_redelivered), offer=(self._handle, found))

    def _message(self, found: Any) -> _PythonMessage:
        sender = self._name_of(found.sender, found.sender_incarnation)
        if found.size_bytes > _COPY_BYTES_MAX:
            address = int(ffi.cast("uintptr_t", found.data))
            view = _view_pinned(
                self._handle, address, found.size_bytes, found.position, found.record, found.sender, found.mark
            )
            return _PythonMessage(None, view, sender, found.size_bytes, bool(found.is_redelivered))
        data = ffi.unpack(ffi.cast("char *", found.data), found.size_bytes)
        redelivered = bool(found.is_redelivered)
        lib.busq_peer_release(self._handle, ffi.addressof(found))
        return _PythonMessage(data, None, sender, len(data), redelivered)

    send = _send_slow
    send_many = _send_many_slow
    recv = _recv_slow
    recv_many = _recv_many_slow


def _payload(data: Any) -> Any:
    if isinstance(data, bytes):
        return data
    if isinstance(data, str):
        raise TypeError("data is a str: expected bytes; encode it first")
    try:
        return ffi.from_buffer(data)
    except TypeError:
        found = type(data).__name__
        raise TypeError(f"data is a {found}: expected bytes, bytearray, memoryview or another buffer") from None


if _fast is not None:
    _fast._set_helpers(_view_pinned, fail, errors.Empty, errors.Full)  # type: ignore[attr-defined]

    class Port(_fast.Port, PythonPort):
        """Sending and receiving by the short way, and through cffi for everything uncommon."""

        send = _fast.Port.send
        send_many = _fast.Port.send_many
        recv = _fast.Port.recv
        recv_many = _fast.Port.recv_many

        def _open(self, handle: Any) -> None:
            super()._open(handle)
            self._attach(
                handle,
                int(ffi.cast("uintptr_t", handle)),
                int(ffi.cast("uintptr_t", lib.busq_calls_table())),
                4096,
                self._targets,
            )

    Message: Any = _fast.Message
else:
    Port = PythonPort  # type: ignore[misc]
    Message = _PythonMessage
