# SPDX-License-Identifier: Apache-2.0
"""The gate between Python and the C core: one place where a result code becomes an exception.

Also the Python halves of Peer and Message: everything that the accelerator leaves to the slow way, and, where there is
no accelerator, all of it.  Their texts stand in busq/peer.py.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import math
import operator
import os
import stat
import struct
import time
from collections.abc import Callable, Iterable, Sized
from typing import Any, NoReturn

from busq import errors
from busq._native import ffi, lib
from busq.peer import Codec, Draft, Message, Payload, Peer

try:
    if os.environ.get("BUSQ_NO_ACCELERATOR"):
        raise ImportError("BUSQ_NO_ACCELERATOR is set")
    from busq._native import _fast
except ImportError:
    _fast = None  # type: ignore[assignment]


class PythonHandle:
    """The base of `busq.nodes.Handle` where there is no accelerator."""

    __slots__ = ()

    def _attach(self, address: int, node: int) -> None:
        pass

    def _detach(self) -> None:
        pass


HandleBase: Any = PythonHandle if _fast is None else _fast.Handle
COPY_BYTES_MAX = 4096  # of a message that recv hands over as bytes; a larger one is a view
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
    """Raise the exception that a result code stands for."""
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
    """Return the directory of buses: $BUSQ_DIR, or a private one of this user in /dev/shm, made if it is not there.

    Errors: FileNotFoundError if BUSQ_DIR names none, PermissionError if another user made the default one.
    """
    chosen = os.environ.get("BUSQ_DIR")
    if chosen:
        if not os.path.lexists(chosen):
            raise FileNotFoundError(
                errno.ENOENT,
                f"BUSQ_DIR names {chosen!r}, and there is no such directory: make it (mkdir -m 700), or unset BUSQ_DIR",
            )
        return chosen
    path = f"/dev/shm/busq-{os.geteuid()}"
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise PermissionError(
                errno.EACCES,
                f"{path} has owner {status.st_uid} and mode {status.st_mode:o}: expected a directory of user "
                f"{os.geteuid()} with mode 0700; remove it, or set BUSQ_DIR",
            ) from None
    return path


def wrong_type(argument: str, value: Any, expected: str) -> TypeError:
    """Make the error for an argument of a type that it can't have."""
    return TypeError(f"{argument} has type {type(value).__name__}: expected {expected}")


def encode_bus_name(name: Any) -> bytes:
    """Turn the name of a bus into bytes for the core."""
    return _encode_line(name, "name", "bus name")


def encode_order(order: Any) -> bytes:
    """Turn an order, as people write it, into bytes for the core."""
    return _encode_line(order, "order", "order")


def _encode_line(text: Any, argument: str, what: str) -> bytes:
    if not isinstance(text, str):
        raise wrong_type(argument, text, "str")
    encoded = _encode(text, what)
    if b"\0" in encoded:
        raise ValueError(f"{what} {text!r} contains NUL")
    return encoded


def _encode(text: str, what: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} {text!r} can't be written in UTF-8 ({error.reason} at {error.start})") from None


def integer(argument: str, value: Any, expected: str = "a whole number") -> int:
    """Return a whole number of any size; TypeError if it is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise wrong_type(argument, value, expected) from None


def whole_number(argument: str, value: Any, bits: int) -> int:
    """Return a whole number that has no more than so many bits; TypeError or ValueError if it is none."""
    number = integer(argument, value)
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{argument} is {number}: expected a whole number, 0 or more and below 2**{bits}")
    return number


def timeout_ns(timeout: float | None) -> int:
    """Turn seconds into the core's nanoseconds; None is for ever."""
    if timeout is None:
        return -1
    try:
        if isinstance(timeout, str | bytes | bytearray):  # which float would read
            raise TypeError
        seconds = float(timeout)
    except OverflowError:
        return -1  # longer than a float can say is for ever
    except TypeError:
        raise wrong_type("timeout", timeout, "None (for ever) or seconds, 0 or more") from None
    if math.isnan(seconds) or seconds < 0:
        raise ValueError(f"timeout {timeout!r}: expected None (for ever) or seconds, 0 or more")
    return int(min(seconds, 1e9) * 1e9)


class Deadline:
    """The rest of a timeout, on the monotonic clock."""

    __slots__ = ("_end_ns",)

    def __init__(self, timeout: float | None) -> None:
        total_ns = timeout_ns(timeout)
        self._end_ns = -1 if total_ns < 0 else 0 if total_ns == 0 else time.monotonic_ns() + total_ns

    @classmethod
    def until(cls, end_ns: int) -> Deadline:
        """Make one that ends then; -1 for never."""
        deadline = cls(None)
        deadline._end_ns = end_ns
        return deadline

    def left_ns(self) -> int:
        """Return the rest: -1 for ever, 0 for a single try."""
        if self._end_ns <= 0:
            return self._end_ns
        return max(0, self._end_ns - time.monotonic_ns())

    def left_s(self) -> float | None:
        """Return the rest as another timeout."""
        left_ns = self.left_ns()
        return None if left_ns < 0 else left_ns / 1e9


def encode_peer_name(name: Any, argument: str = "name") -> bytes:
    """Turn the name of a peer into bytes for the core."""
    if not isinstance(name, str):
        raise wrong_type(argument, name, "str, the name of a peer")
    return _encode(name, "peer name")


def encode_receiver(name: Any) -> bytes:
    """Turn the name of a receiver into bytes for the core."""
    return encode_peer_name(name, "a receiver (to)")


def receivers(to: Any) -> list[Any]:
    """Return the receivers of a message, a name or an iterable of names, as a list of at least one."""
    if isinstance(to, str | HandleBase):
        return [to]
    if isinstance(to, bytes | bytearray) or not isinstance(to, Iterable):
        raise wrong_type("to", to, "str, the name of a peer, or an iterable of names")
    names = list(to)
    if not names:
        raise ValueError("no receivers (to): expected a name, or an iterable of at least one")
    return names


def codec(given: Any) -> Codec | None:
    """Return a codec, or None; TypeError unless it has what a codec needs."""
    if given is not None and not (
        callable(getattr(given, "encode", None)) and callable(getattr(given, "decode", None))
    ):
        raise wrong_type("codec", given, "None (pickle), or a codec: an object with encode(obj) and decode(payload)")
    return given  # type: ignore[no-any-return]


def owned(kind: str) -> Any:
    """Return an empty cell for a handle of that kind.

    A handle that the core puts into it is freed with the cell, so that it has an owner at once, whatever is raised.
    """
    return ffi.gc(ffi.new(f"{kind} **"), getattr(lib, f"{kind}_free_at"))


def held(owner: Any) -> Any:
    """Return the handle in a cell; while it is in use, so is the cell."""
    return ffi.gc(owner[0], functools.partial(lib.busq_keep, owner))


NEVER = Deadline(None)
AT_ONCE = Deadline(0)
ASKING = Deadline(0)  # tries once, and asks for the room that was missing: see csrc/busq.h on event loops


class _PythonMessage(Message):
    __slots__ = ("_data", "_handles", "_kind", "_node", "_pin", "_redelivered", "_sender", "_size", "_view")

    _kind: str
    _node: Any
    _handles: tuple[Any, ...]

    def __init__(
        self,
        data: bytes | None,
        view: memoryview | None,
        sender: str,
        size: int,
        redelivered: bool,
        pin: Any = None,
    ) -> None:
        self._data = data
        self._view = view
        self._sender = sender
        self._size = size
        self._redelivered = redelivered
        self._pin = pin  # of a payload that is shown in place, or of what waits to be acknowledged
        self._kind, self._node, self._handles = "data", None, ()

    @property
    def kind(self) -> str:
        return self._kind

    @property
    def node(self) -> Any:
        return self._node

    @property
    def handles(self) -> tuple[Any, ...]:
        return self._handles

    @property
    def data(self) -> bytes:
        view, data = self._view, self._data  # in this order: another thread fills in the data and then drops the view
        if data is None:
            if self._pin is not None:
                check(lib.busq_pin_check(self._pin))
            data = self._data = bytes(view)  # type: ignore[arg-type]
        # The last to look at the payload gives back its place in the queue, perhaps a thread that just called view().
        self._view = None
        return data

    @property
    def sender(self) -> str:
        return self._sender

    @property
    def redelivered(self) -> bool:
        return self._redelivered

    def ack(self) -> None:
        if self._pin is not None:
            check(lib.busq_pin_ack(self._pin))

    def reply(self, data: Payload, *, timeout: float | None = None) -> None:
        _not_asked(data, timeout=timeout)

    def view(self) -> memoryview:
        view = self._view
        if view is None:
            return memoryview(self._data)  # type: ignore[arg-type]
        if self._pin is not None:
            check(lib.busq_pin_show(self._pin))
        return view

    def object(self) -> Any:
        no_object()

    def __repr__(self) -> str:
        return f"<Message of {self._size} bytes from {self._sender!r}>"


class _ControlMessage(_PythonMessage):
    """What the library says to itself: no application gets one."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        return "control"


def _is_control(message: Any) -> bool:
    return bool(message.form & ~lib.BUSQ_FORM_ENVELOPE == lib.BUSQ_FORM_CONTROL)


def _drop(pin: Any, ack: bool) -> None:
    if ack:
        check(lib.busq_pin_ack(pin))
    pin.state = lib.BUSQ_PIN_KEPT
    lib.busq_pin_end(pin, ffi.NULL)


def no_object() -> NoReturn:
    """Raise the error of a message that carries bytes, and is asked for its object."""
    raise ValueError("this message is no object: it was sent by `send`, not by `send_object`; read its data")


class _ObjectMessage(_PythonMessage):
    """A message whose payload is an object."""

    __slots__ = ("_codec", "_is_pickled")

    _codec: Codec | None
    _is_pickled: bool

    def object(self) -> Any:
        return read_object(self, self._codec, self._is_pickled)


def read_object(message: Message, codec: Codec | None, is_pickled: bool) -> Any:
    """Return the object of a message, for a peer with that codec."""
    if codec is not None and is_pickled:
        raise ValueError(
            "this message is a pickled object, and this peer joined with a codec: nothing is unpickled here; "
            "let its sender join with the same codec"
        )
    if codec is None and not is_pickled:
        raise ValueError("this message was written by a codec: join with the same codec as its sender to read it")
    view = message.view()
    try:
        payload = view[:]  # of its own, so that who releases the view of the message does not release the object's
    except ValueError:
        raise ValueError(
            "the view of this message was released, and its object with it: read the object first"
        ) from None
    if codec is not None:
        return codec.decode(payload)
    from busq._port import objects as _objects  # here, since most who import busq send bytes

    return _objects.decode(payload)


REQUEST = struct.Struct("=QQ")  # busq_request: the number, and where the reply goes
_HAVE_REQUEST = (lib.BUSQ_FORM_ASK, lib.BUSQ_FORM_REPLY)
_OF_NODES = (lib.BUSQ_KIND_DATA, lib.BUSQ_KIND_NODE_DESTROYED, lib.BUSQ_KIND_NODE_RELEASED)


def request_of(message: Any) -> bytes:
    """Return the request that stands behind the payload of a message that was asked, or of a reply; else nothing."""
    if message.form & ~lib.BUSQ_FORM_ENVELOPE not in _HAVE_REQUEST or message.size_bytes < REQUEST.size:
        return b""
    start = ffi.cast("char *", message.data) + (message.size_bytes - REQUEST.size)
    return bytes(ffi.buffer(start, REQUEST.size))


def _not_asked(data: Payload, *, timeout: float | None = None) -> NoReturn:
    _Parts(data)
    timeout_ns(timeout)
    raise ValueError("nobody waits for a reply to this message: it was sent, and only one that was asked has a reply")


class Reply:
    """The reply to a message that was asked."""

    __slots__ = ("_asker", "_is_replied", "_peer", "_request")

    def __init__(self, peer: Any, request: bytes, asker: str, is_replied: bool = False) -> None:
        """From the handle that received it; the reply carries the request with it."""
        self._peer, self._request, self._asker, self._is_replied = peer, request, asker, is_replied

    def __call__(self, data: Payload, *, timeout: float | None = None) -> None:
        """Do what `Message.reply` says."""
        note = _new_note()
        try:
            try:
                return self._reply(_Parts(data, lib.BUSQ_FORM_REPLY, end=self._request), Deadline(timeout), note)  # type: ignore[no-any-return]
            except BaseException as error:
                report_sent(error, _was_sent(note))
                raise
            finally:
                self._is_replied |= bool(_was_sent(note))
        except BaseException as error:  # perhaps another one, raised while the first was caught
            report_sent(error, _was_sent(note))
            raise

    def _reply(self, payload: _Parts, deadline: Deadline, note: Any) -> Any:
        if self._is_replied:
            raise ValueError("this message was replied to before: each is replied to once")
        number, target = REQUEST.unpack(self._request)
        while True:
            # Looked at again after every slice: nobody empties the queue of an asker that asks no more.
            result = lib.busq_peer_is_awaited(self._peer, target, number)
            if result == lib.BUSQ_EMPTY:
                self._is_replied = True
                return None
            check(result)
            result = lib.busq_peer_send_parts(
                self._peer, [target], 1, payload.parts, len(payload.parts), payload.form, deadline.left_ns(), note
            )
            if result == lib.BUSQ_PEER_DEAD:
                raise errors.PeerDead(f"{self._asker!r}, who asked, has left or died: nobody waits for the reply")
            if result != lib.BUSQ_INTERRUPTED:
                return check(result)


class _PythonRequest(_PythonMessage):
    """A message that was asked."""

    __slots__ = ("_reply",)

    _reply: Reply

    @property
    def reply(self) -> Reply:  # no frame of ours is around what says whether it was sent
        return self._reply


def _new_pin() -> Any:
    return ffi.gc(ffi.new("busq_pin *"), lib.busq_pin_drop)


_CHARACTERS = ffi.typeof("char *")
_cast, _ended, _buffer_of = ffi.cast, ffi.gc, ffi.buffer  # looked up once: views are made often
_PIN = ffi.typeof("busq_pin *")


def _view_of(end: Any, address: Any, size: int) -> memoryview:
    """Show a payload in place; once the view is released or dropped, `end` is called: its pin lets go."""
    return memoryview(_buffer_of(_ended(_cast(_CHARACTERS, address), end), size)).toreadonly()


class Sending:
    """The number of messages that a call has sent, and a note of the core on the one in hand: whether it was sent."""

    __slots__ = ("_done", "_note", "_was_sent")

    def __init__(self, sent: int, note: Callable[[], Any], was_sent: Callable[[Any], int]) -> None:
        """Begin behind the first `sent`; `note` makes a note for the core to fill in, `was_sent` reads it."""
        self._note, self._was_sent = note, was_sent
        self._done = (sent, note())

    def each(
        self,
        send: Callable[[Any, Any, Deadline, Any], Any],
        messages: Iterable[tuple[Any, Any]],
        timeout: float | None,
    ) -> int:
        """Send (to, data) pairs, but for those that were sent; returns how many were, with these."""
        deadline = Deadline(timeout)
        if not isinstance(messages, Iterable):
            raise wrong_type("messages", messages, "an iterable of pairs (to, data)")
        for message in itertools.islice(messages, self._done[0], None):
            to, data = _pair(message, self._done[0])
            send(to, data, deadline, self._done[1])
            # In one step, so that no exception comes between the count and the note.
            self._done = (self._done[0] + 1, self._note())
        return self._done[0]

    def report(self, error: BaseException) -> None:
        """Let an exception that ends the call say how many messages were sent."""
        sent, note = self._done
        report_sent(error, sent + self._was_sent(note))


def _pair(message: Any, number: int) -> tuple[Any, Any]:
    if not isinstance(message, Iterable):
        raise wrong_type(f"messages[{number}]", message, "a pair (to, data)")
    pair = tuple(message)
    if len(pair) != 2:
        raise ValueError(f"messages[{number}] has length {len(pair)}: expected a pair (to, data)")
    return pair


def check_limit(limit: Any) -> None:
    """Raise TypeError or ValueError unless it is a number of messages to receive."""
    if not isinstance(limit, int):
        raise wrong_type("limit", limit, "a whole number, 1 or more")
    if limit < 1:
        raise ValueError(f"limit {limit!r}: expected a whole number, 1 or more")


def check_ack(ack: Any) -> None:
    """Raise TypeError unless it is True or False."""
    if not isinstance(ack, bool):
        raise wrong_type("ack", ack, "True or False")


def report_sent(error: BaseException, sent: int) -> None:
    """Let an exception that ends a call say how many messages were sent."""
    with contextlib.suppress(AttributeError, TypeError):
        error.sent = sent  # type: ignore[attr-defined]


def _new_note() -> Any:
    """Return a note for the core to fill in: whether a message was sent."""
    return ffi.new("uint32_t *")


def _was_sent(note: Any) -> int:
    return int(note[0])


def send_slice(handle: Any, targets: list[int], payload: _Parts, deadline: Deadline, note: Any) -> int:
    """Send, or wait for room for a slice of time: then BUSQ_INTERRUPTED; returns what the core says."""
    parts, count, form = payload.parts, len(payload.parts), payload.form
    if deadline is ASKING:
        return int(lib.busq_peer_send_asking(handle, targets, len(targets), parts, count, form, note))
    return int(lib.busq_peer_send_parts(handle, targets, len(targets), parts, count, form, deadline.left_ns(), note))


class _Letter:
    """The receivers of a message, names and handles of nodes, and the handles that it carries."""

    __slots__ = ("_carried", "_letter", "_missed", "_nodes", "_targets", "names", "to")

    def __init__(self, raw: Any, to: list[Any], handles: Any) -> None:
        self.to = [receiver for receiver in to if isinstance(receiver, HandleBase)]
        self.names = [receiver for receiver in to if not isinstance(receiver, HandleBase)] if self.to else to
        brought = () if handles == () else carried(handles)
        for handle in (*self.to, *brought):
            _check_handle(handle, raw)
        if len(set(self.to)) < len(self.to):
            raise ValueError("a node is given twice; each receiver gets a message once")
        self._nodes = ffi.new("uint64_t[]", [handle._node for handle in self.to])
        self._carried = ffi.new("uint64_t[]", [handle._node for handle in brought])
        self._missed = ffi.new("uint8_t[]", len(self.to) or 1)

    @property
    def is_plain(self) -> bool:
        return not self.to and not len(self._carried)

    def address(self, targets: list[int]) -> None:
        """Say whom the names stand for."""
        self._targets = ffi.new("uint64_t[]", targets)
        sizes = (len(targets), len(self._nodes), len(self._carried))
        self._letter = ffi.new("busq_letter *", (self._targets, self._nodes, self._carried, *sizes))

    def send_slice(self, raw: Any, payload: _Parts, deadline: Deadline, note: Any) -> int:
        """As the function of that name."""
        parts, count, form = payload.parts, len(payload.parts), payload.form
        if deadline is ASKING:
            return int(lib.busq_peer_send_letter_asking(raw, self._letter, parts, count, form, self._missed, note))
        left_ns = deadline.left_ns()
        return int(lib.busq_peer_send_letter(raw, self._letter, parts, count, form, left_ns, self._missed, note))

    def fail_missed(self, was_sent: int) -> None:
        """Raise the error for a message that has missed some of its nodes; nothing where none was missed."""
        missed = tuple(handle for handle, is_missed in zip(self.to, self._missed, strict=False) if is_missed)
        if not missed:
            return
        have = "the other receivers have it" if was_sent else "nobody gets the message"
        owners = sorted({repr(handle.owner) for handle in missed})
        what = f"the node of {owners[0]}"
        if len(self.to) > 1:
            what = f"{len(missed)} of {len(self.to)} nodes (of {', '.join(owners)})"
        error = errors.PeerDead(
            f"{what} ended before this message's place in the order: destroyed, or the owner has left or died; {have}"
        )
        error.missed = missed
        raise error


def carried(handles: Any) -> tuple[Any, ...]:
    """Return the handles that a message carries; TypeError unless they are iterable."""
    if isinstance(handles, HandleBase) or not isinstance(handles, Iterable):
        raise wrong_type("handles", handles, "an iterable of handles")
    return tuple(handles)


def _check_handle(handle: Any, raw: Any) -> None:
    if not isinstance(handle, HandleBase):
        raise wrong_type("a handle", handle, "a busq.Handle (of a node: `node.handle`)")
    if handle._raw != raw:
        raise ValueError(
            f"{handle!r} belongs to another peer: who needs it gets it in a message, by `send(..., handles=[handle])`"
        )
    if handle._is_released:
        raise ValueError(f"{handle!r} was released: this peer can use it again when a message brings it again")


class PythonPort:
    """Sending and receiving through cffi; the base of Peer where there is no accelerator."""

    _handle: Any
    _codec: Codec | None = None
    _targets: dict[str, int]
    _names: dict[tuple[int, int], str]

    _nodes: Any = None  # a busq.nodes.Nodes, once there is a node or a handle

    def _open(self, handle: Any) -> None:
        self._handle = handle
        self._targets = {}
        self._names = {}
        self._views: dict[str, Any] = {}  # the last that was delivered, of each group
        self._group_names: dict[int, str] = {}  # by what an envelope says
        self._names_in_view: dict[str, dict[tuple[int, int], str]] = {}  # by incarnation and slot

    def _known_nodes(self) -> Any:
        """Return what is known of nodes and handles; the peers of a bus that has some do."""
        raise NotImplementedError

    def _tell_accelerator(self, handle: type[Any], own: dict[int, Any]) -> None:
        if _fast is not None and isinstance(self, _fast.Port):
            _fast._bind_handle(handle)
            self._attach_nodes(own)

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
            encoded = encode_receiver(name)
            target = ffi.new("uint64_t *")
            check(lib.busq_peer_lookup(self._handle, encoded, len(encoded), target))
            known = self._targets[name] = int(target[0])
        return known

    def _resolve(self, to: Any) -> tuple[list[Any], list[int]]:
        names = receivers(to)
        return names, [self._target(name) for name in names]

    def _forget(self, names: list[Any]) -> None:
        for name in names:
            self._targets.pop(name, None)

    # ---- sending ----

    def _send_slow(self, to: Any, data: Payload, *, handles: Iterable[Any] = (), timeout: float | None = None) -> None:
        note = _new_note()
        try:
            try:
                # Returned from here: an exception behind the block would not say what the note says; nor one that comes
                # when an inner function has returned, so every method that sends has such a block itself.
                return self._send_noted(to, data, Deadline(timeout), note, handles)  # type: ignore[no-any-return]
            except BaseException as error:
                report_sent(error, _was_sent(note))
                raise
        except BaseException as error:  # perhaps another one, raised while the first was caught
            report_sent(error, _was_sent(note))
            raise

    def _send_noted(self, to: Any, data: Any, deadline: Deadline, note: Any, handles: Iterable[Any] = ()) -> Any:
        return self._send_payload(to, _Parts(data), deadline, note, handles)

    def _encode(self, obj: Any) -> tuple[Any, int]:
        """Return the parts of an object, and the form that they have together."""
        if self._codec is not None:
            made = self._codec.encode(obj)
            return [made] if isinstance(made, bytes) else made, lib.BUSQ_FORM_CODED
        from busq._port import objects as _objects  # here, since most who import busq send bytes

        return _objects.encode(obj), lib.BUSQ_FORM_OBJECT

    def _send_encoded(
        self, to: Any, encoded: tuple[Any, int], deadline: Deadline, note: Any, handles: Iterable[Any] = ()
    ) -> Any:
        what = "what the codec has made" if encoded[1] == lib.BUSQ_FORM_CODED else "data"
        return self._send_payload(to, _Parts(*encoded, what), deadline, note, handles)

    def _send_payload(
        self, to: Any, payload: _Parts, deadline: Deadline, note: Any, handles: Iterable[Any] = ()
    ) -> Any:
        def send(targets: list[int]) -> int:
            return self._send_targets(targets, payload, deadline, note)

        if handles == () and isinstance(to, str):
            return self._send_to(to, send)
        letter = _Letter(self._handle, receivers(to), handles)
        if letter.is_plain:
            return self._send_to(letter.names, send)
        return self._send_letter(letter, payload, deadline, note)

    def _send_letter(self, letter: _Letter, payload: _Parts, deadline: Deadline, note: Any) -> Any:
        """Send to nodes, or with handles."""
        for is_retry in (False, True):
            letter.address([self._target(name) for name in letter.names])
            while True:
                result = letter.send_slice(self._handle, payload, deadline, note)
                if result != lib.BUSQ_INTERRUPTED:
                    break
            is_outdated = result in (lib.BUSQ_PEER_DEAD, lib.BUSQ_INVALID, lib.BUSQ_UNKNOWN_PEER)
            if not is_outdated or _was_sent(note) or not letter.names or is_retry:
                break
            self._forget(letter.names)  # as in `_send_to`
        if result == lib.BUSQ_PEER_DEAD:
            letter.fail_missed(_was_sent(note))
        check(result)

    def _send_to(self, to: Any, send: Callable[[list[int]], int]) -> Any:
        names, targets = self._resolve(to)
        for is_retry in (False, True):
            result = send(targets)
            if result not in (lib.BUSQ_PEER_DEAD, lib.BUSQ_INVALID, lib.BUSQ_UNKNOWN_PEER):
                break
            # A remembered receiver may be out of date: it has joined again since, or another peer has its slot, so that
            # the two look like one receiver given twice.  If not, looking up once more changes nothing.
            self._forget(names)
            if not is_retry:
                names, targets = self._resolve(names)
        check(result)

    def _send_targets(self, targets: list[int], payload: _Parts, deadline: Deadline, note: Any) -> int:
        while True:
            result = send_slice(self._handle, targets, payload, deadline, note)
            if result != lib.BUSQ_INTERRUPTED:
                return result

    def _send_object_slow(
        self, to: Any, obj: Any, *, handles: Iterable[Any] = (), timeout: float | None = None
    ) -> None:
        note = _new_note()
        try:
            try:
                return self._send_encoded(to, self._encode(obj), Deadline(timeout), note, handles)  # type: ignore[no-any-return]
            except BaseException as error:
                report_sent(error, _was_sent(note))
                raise
        except BaseException as error:  # perhaps another one, raised while the first was caught
            report_sent(error, _was_sent(note))
            raise

    def _send_encoded_slow(self, to: Any, encoded: tuple[Any, int], timeout: Any) -> None:
        note = _new_note()
        try:
            try:
                return self._send_encoded(to, encoded, Deadline(timeout), note)  # type: ignore[no-any-return]
            except BaseException as error:
                report_sent(error, _was_sent(note))
                raise
        except BaseException as error:  # perhaps another one, raised while the first was caught
            report_sent(error, _was_sent(note))
            raise

    def _send_many_slow(
        self, messages: Iterable[tuple[str | Iterable[str], Payload]], *, timeout: float | None = None
    ) -> int:
        sending = self._sending(0)
        try:
            try:
                return sending.each(self._send_noted, messages, timeout)
            except BaseException as error:
                sending.report(error)
                raise
        except BaseException as error:  # perhaps another one, raised while the first was caught
            sending.report(error)
            raise

    # For the accelerator, which reads from `_sending` itself how many were sent when `_send_rest` raises.

    def _sending(self, sent: int) -> Sending:
        return Sending(sent, _new_note, _was_sent)

    def _send_rest(self, messages: Iterable[tuple[Any, Any]], sending: Sending) -> int:
        return sending.each(self._send_noted, messages, None)

    # ---- drafts ----

    def _reserve_slow(self, size: int, *, receivers: int | None = None, timeout: float | None = None) -> Draft:
        pin = _new_pin()
        size, count = _natural("size", size, 0), 0 if receivers is None else _natural("receivers", receivers, 1)
        deadline = Deadline(timeout)
        while True:
            result = lib.busq_pin_reserve(pin, self._handle, size, count, deadline.left_ns())
            if result != lib.BUSQ_INTERRUPTED:
                break
        check(result)
        return _PythonDraft(self, pin)

    reserve = _reserve_slow

    def _send_draft(self, to: Any, draft: tuple[Any, Any, int], deadline: Deadline, note: Any) -> Any:
        pin, _, size = draft
        if any(isinstance(receiver, HandleBase) for receiver in receivers(to)):
            raise ValueError("a draft is sent to names: send data to a node with `send`")

        def send(targets: list[int]) -> int:
            while True:
                left_ns = deadline.left_ns()
                result = lib.busq_pin_send(pin, targets, len(targets), size, lib.BUSQ_FORM_DATA, left_ns, note)
                if result != lib.BUSQ_INTERRUPTED:
                    return int(result)

        return self._send_to(to, send)

    # ---- receiving ----

    # Of those that give and take states (busq/_state/group_state.py), which look at what comes before their owner does.
    _wants_control = False  # also the library's own messages
    _sorted: Sized = ()
    _inbox: Sized = ()
    _has_more = False

    def _cover(self) -> None:
        """Let what comes go to the methods of this class from now on, and nowhere else, as the accelerator might."""

    # A message that is taken belongs to its pin at once.  An exception from then on (of a signal handler, say) gives it
    # back: it comes next.  The caller keeps what it gets; a copied payload is released with its pin, after the call.

    def _recv_slow(self, timeout: float | None = None, *, ack: bool = False) -> Message:
        check_ack(ack)
        pin, was_covered = _new_pin(), self._wants_control
        try:
            message = self._recv_pinned(pin, ack, Deadline(timeout))
            if self._wants_control and not was_covered:  # since it waits
                lib.busq_pin_give_back(pin)
                return self.recv(timeout, ack=ack)
            pin.state = lib.BUSQ_PIN_KEPT
            return message
        except BaseException:
            lib.busq_pin_give_back(pin)
            raise

    def _next(self) -> Any:
        """Receive for `__iter__`.  With a frame between taking and handing over, a signal could lose the message."""
        if self._wants_control:  # since the loop began
            return self._next()
        pin = _new_pin()
        try:
            message = self._recv_pinned(pin, False, Deadline(None))
            if self._wants_control:
                lib.busq_pin_give_back(pin)
                return self._next()
            pin.state = lib.BUSQ_PIN_KEPT
            return message
        except errors.ShutDown:
            raise StopIteration from None
        except BaseException:
            lib.busq_pin_give_back(pin)
            raise

    def _recv_pinned(self, pin: Any, ack: bool, deadline: Deadline) -> Message:
        check(self._take(pin, ack, deadline))
        return self._message(pin)

    def _recv_many_slow(self, limit: int, timeout: float | None = None, *, ack: bool = False) -> list[Message]:
        check_limit(limit)
        check_ack(ack)
        deadline = Deadline(timeout)
        pins: list[Any] = []
        try:
            messages = self._recv_many_pinned(pins, limit, ack, deadline)
            if not messages:  # it has entered with a state since it waits
                return self.recv_many(limit, deadline.left_s(), ack=ack)
            for pin in pins:
                pin.state = lib.BUSQ_PIN_KEPT
            return messages
        except BaseException:
            for pin in pins:
                lib.busq_pin_give_back(pin)
            raise

    def _recv_many_pinned(self, pins: list[Any], limit: int, ack: bool, deadline: Deadline) -> list[Message]:
        messages: list[Message] = []
        was_covered = self._wants_control
        while len(messages) < min(limit, _RECEIVE_BATCH):
            pins.append(_new_pin())
            result = self._take(pins[-1], ack, AT_ONCE if messages else deadline)
            if result == lib.BUSQ_OK and self._wants_control and not was_covered:
                lib.busq_pin_give_back(pins.pop())
                break
            if result and messages:
                pins.pop()
                break
            check(result)
            messages.append(self._message(pins[-1]))
        return messages

    def _take(self, pin: Any, ack: bool, deadline: Deadline) -> int:
        mode = lib.BUSQ_TAKE_OFFERED if ack else lib.BUSQ_TAKE_PINNED
        while True:
            result = lib.busq_pin_recv(pin, self._handle, mode, deadline.left_ns())
            if result == lib.BUSQ_OK and not self._wants_control and _is_control(pin.message):
                _drop(pin, ack)
                continue
            if result != lib.BUSQ_INTERRUPTED:
                return int(result)

    def _message(self, pin: Any) -> _PythonMessage:
        message = pin.message
        if message.form & lib.BUSQ_FORM_ENVELOPE:
            envelope = ffi.new("busq_envelope *")
            lib.busq_message_envelope(ffi.addressof(message), envelope)
            if envelope.kind not in _OF_NODES:
                return self._event_of(pin, envelope)
        size, redelivered = message.size_bytes, bool(message.is_redelivered)
        sender = self._name_of(message.sender, message.sender_incarnation)
        request = request_of(message)
        size -= len(request)
        make = functools.partial(self._made, message.form & ~lib.BUSQ_FORM_ENVELOPE, request)
        is_offered = pin.mode == lib.BUSQ_TAKE_OFFERED
        if size > COPY_BYTES_MAX and not is_offered:
            end = functools.partial(lib.busq_pin_end, pin)
            return self._enveloped(
                message, make(None, _view_of(end, message.data, size), sender, size, redelivered, pin)
            )
        data = ffi.unpack(ffi.cast("char *", message.data), size)
        # Closed meanwhile by another thread, a successor may have it by now, and its memory hold something else.
        if is_offered and lib.busq_peer_wait(self._handle, 0) == lib.BUSQ_CLOSED:
            fail(lib.BUSQ_CLOSED)
        return self._enveloped(message, make(data, None, sender, size, redelivered, pin if is_offered else None))

    def _enveloped(self, message: Any, made: _PythonMessage) -> _PythonMessage:
        if message.form & lib.BUSQ_FORM_ENVELOPE and (message.n_nodes or message.n_handles):
            self._known_nodes().fill(made, message)
        return made

    def _event_of(self, pin: Any, envelope: Any) -> _PythonMessage:
        """Make the message of an event; the peers of a bus that has some do."""
        raise NotImplementedError

    def _made(self, form: int, request: bytes, *facts: Any) -> _PythonMessage:
        if form in (lib.BUSQ_FORM_OBJECT, lib.BUSQ_FORM_CODED):
            thing = _ObjectMessage(*facts)
            thing._codec, thing._is_pickled = self._codec, form == lib.BUSQ_FORM_OBJECT
            return thing
        if form == lib.BUSQ_FORM_CONTROL:
            return _ControlMessage(*facts)
        if form != lib.BUSQ_FORM_ASK or not request:
            return _PythonMessage(*facts)
        message = _PythonRequest(*facts)
        message._reply = Reply(self._handle, request, message._sender)
        return message

    send = _send_slow
    send_many = _send_many_slow
    send_object = _send_object_slow
    recv = _recv_beneath = _recv_slow_beneath = _recv_slow
    recv_many = _recv_many_slow


# Python's errors about wrong arguments name the method that was called, and not the one that does its work.
for _name in ("send", "send_many", "send_object", "reserve", "recv", "recv_many"):
    _method = getattr(PythonPort, _name)
    _method.__name__, _method.__qualname__ = _name, f"Bus1Peer.{_name}"
    _method.__doc__ = getattr(Peer, _name).__doc__
_PythonMessage.__init__.__qualname__ = "Message.__init__"


class _SlowDraft(Draft):
    """The methods of a draft: all of them, or what the accelerator leaves to the slow way.

    A draft is its pin, which is given back when it is dropped: by the draft, and by the last view that there is of it.
    """

    __slots__ = ()

    _port: Any
    _view: memoryview | None

    def _place(self) -> tuple[Any, Any]:
        """Return the pin, or something false where it was given back, and what keeps it alive."""
        raise NotImplementedError

    def _held(self) -> tuple[Any, Any]:
        """Return the pin of a draft that can be sent, and what keeps it alive."""
        pin, owner = self._place()
        if not pin or pin.state == lib.BUSQ_PIN_EMPTY:
            self._fail_used()
        return pin, owner

    def _fail_used(self) -> NoReturn:
        raise ValueError("this draft was sent, or given back: reserve another one")

    def _send_slow(self, to: str | Iterable[str], *, size: int | None = None, timeout: float | None = None) -> None:
        pin, owner = self._held()
        most = int(pin.message.size_bytes)
        n_bytes = most if size is None else _natural("size", size, 0)
        if n_bytes > most:
            raise ValueError(f"size is {n_bytes}: expected at most {most}, as was reserved")
        view = self._view  # once: another thread may give the draft back
        try:
            if view is not None:
                view.release()
        except BufferError:
            raise BufferError(_LOOKED_AT) from None
        if pin.state == lib.BUSQ_PIN_SHOWN:  # by a slice, or another view: those are no exports of the view
            raise BufferError(_LOOKED_AT)
        note = _new_note()
        try:
            try:
                draft = (pin, owner, n_bytes)
                return self._port._send_draft(to, draft, Deadline(timeout), note)  # type: ignore[no-any-return]
            except BaseException as error:
                report_sent(error, _was_sent(note))
                raise
        except BaseException as error:  # perhaps another one, raised while the first was caught
            report_sent(error, _was_sent(note))
            raise

    def __repr__(self) -> str:
        pin, _ = self._place()
        if not pin or pin.state == lib.BUSQ_PIN_EMPTY:
            return "<Draft that was sent or given back>"
        return f"<Draft of {pin.message.size_bytes} bytes>"


class _PythonDraft(_SlowDraft):
    __slots__ = ("_pin", "_port", "_view")

    def __init__(self, port: PythonPort, pin: Any) -> None:
        self._port, self._pin = port, pin
        self._view: memoryview | None = None

    def _place(self) -> tuple[Any, Any]:
        return self._pin, None

    @property
    def buffer(self) -> memoryview:
        view = self._view
        if view is None or _is_released(view):
            pin, _ = self._held()
            # Counted first: a view that is not counted could be written to after the draft was sent.  One that is
            # counted and never made only keeps the draft from being sent.
            check(lib.busq_pin_show(pin))
            view = self._view = _writable_view_of(
                functools.partial(lib.busq_pin_end, pin), pin.message.data, pin.message.size_bytes
            )
        return view

    send = _SlowDraft._send_slow

    def _give_back(self) -> None:
        view = self._view
        with contextlib.suppress(BufferError):  # what still looks at the memory keeps it until it is dropped
            if view is not None:
                view.release()
        self._pin = self._view = None


_LOOKED_AT = (
    "something still looks at the draft's memory, and could write to what is sent: "
    "drop arrays and slices of its buffer first"
)
_PythonDraft.__init__.__qualname__ = "Draft.__init__"
_SlowDraft._send_slow.__name__, _SlowDraft._send_slow.__qualname__ = "send", "Draft.send"
_SlowDraft._send_slow.__doc__ = Draft.send.__doc__


def _writable_view_of(end: Any, address: Any, size: int) -> memoryview:
    """Show the memory of a draft; once the view is released or dropped, `end` is called: its pin counts it no more."""
    return memoryview(_buffer_of(_ended(_cast(_CHARACTERS, address), end), size))


def _is_released(view: memoryview) -> bool:
    try:
        return view.nbytes < 0
    except ValueError:
        return True


def _natural(argument: str, value: Any, least: int) -> int:
    number = integer(argument, value, f"a whole number, {least} or more")
    if not least <= number < 1 << 32:
        raise ValueError(f"{argument} is {number}: expected a whole number, {least} or more and below 2**32")
    return number


class _Parts:
    """What is sent: buffers that are gathered into one message."""

    __slots__ = ("_buffers", "form", "parts")

    def __init__(self, data: Any, form: int = lib.BUSQ_FORM_DATA, argument: str = "data", *, end: bytes = b"") -> None:
        """Of one buffer, or of a list or tuple of them, and of what stands behind it."""
        if isinstance(data, list | tuple):
            self._buffers = [_buffer(part, f"{argument}[{i}]") for i, part in enumerate(tuple(data))]
        else:
            self._buffers = [_buffer(data, argument)]
        if end:
            self._buffers.append(ffi.from_buffer(end))
        self.form = form
        self.parts = ffi.new("busq_part[]", [(buffer, len(buffer)) for buffer in self._buffers])


def joined(data: Any) -> Any:
    """Return the buffer of a payload; one that is given in parts is joined, by a copy."""
    if not isinstance(data, list | tuple):
        return _buffer(data, "data")
    return b"".join(ffi.buffer(_buffer(part, f"data[{i}]")) for i, part in enumerate(tuple(data)))


def _buffer(data: Any, argument: str) -> Any:
    if isinstance(data, str):
        raise wrong_type(argument, data, "bytes; encode it first")
    try:
        return ffi.from_buffer(data)
    except TypeError:
        many = ", or a list of them" if argument == "data" else ""
        raise wrong_type(argument, data, f"bytes, bytearray, memoryview or another buffer{many}") from None


# How those methods are called that the accelerator has in C.
_SIGNATURES = {
    "send": "($self, to, data, *, handles=(), timeout=None)",
    "send_many": "($self, messages, *, timeout=None)",
    "send_object": "($self, to, obj, *, handles=(), timeout=None)",
    "reserve": "($self, size, *, receivers=None, timeout=None)",
    "ask": "($self, to, data, *, timeout=None)",
    "recv": "($self, timeout=None, *, ack=False)",
    "recv_many": "($self, limit, timeout=None, *, ack=False)",
    "ack": "($self)",
    "reply": "($self, data, *, timeout=None)",
    "view": "($self)",
    "object": "($self)",
}


def _texts() -> dict[str, str]:
    """Return the docstrings of Peer and Message, those of C methods in the form from which Python reads a signature."""
    texts = {name: member.__doc__ or "" for name, member in {**vars(Peer), **vars(Message)}.items()}
    texts |= {name: f"{name}{given}\n--\n\n{texts[name]}" for name, given in _SIGNATURES.items()}
    texts["buffer"] = Draft.buffer.__doc__ or ""
    texts["Draft.send"] = f"send($self, to, *, size=None, timeout=None)\n--\n\n{Draft.send.__doc__}"
    return texts


if _fast is not None:

    class _FastDraft(_fast.Draft, _SlowDraft):
        """A draft by the short way."""

        __slots__ = ()

        def _place(self) -> tuple[Any, Any]:
            address, owner = self._pin_place
            return ffi.cast(_PIN, address), owner

    try:
        _fast._bind(
            int(ffi.cast("uintptr_t", lib.busq_calls_table())),
            _texts(),
            _FastDraft,
            fail,
            no_object,
            _not_asked,
            Reply,
            read_object,
            errors.Empty,
            errors.Full,
            errors.ShutDown,
        )
    except ImportError:
        _fast = None  # type: ignore[assignment]

if _fast is not None:
    Message.register(_fast.Message)

    class Port(_fast.Port, PythonPort):
        """Sending and receiving by the short way, and through cffi for everything uncommon."""

        send = _fast.Port.send
        send_many = _fast.Port.send_many
        ask = _fast.Port.ask
        recv = _fast.Port.recv
        _next = _fast.Port._next
        _cover = _fast.Port._cover
        _recv_beneath = _fast.Port._recv_beneath
        recv_many = _fast.Port.recv_many
        reserve = _fast.Port.reserve
        send_object = _fast.Port.send_object
        _module = _fast  # `_fast` may be another one, or none, once busq is loaded anew

        def _open(self, handle: Any) -> None:
            super()._open(handle)
            self._attach(
                self._module,
                handle,
                int(ffi.cast("uintptr_t", handle)),
                COPY_BYTES_MAX,
                self._targets,
                self._codec is not None,
            )

else:
    Port = PythonPort  # type: ignore[misc]
