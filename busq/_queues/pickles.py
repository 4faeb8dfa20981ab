# SPDX-License-Identifier: Apache-2.0
"""How objects stand in queues (busq/queues.py): a pickle, or a pickle with its buffers beside it.

What stands beside is copied once when it is put, from where it is into shared memory, and once when it is got; or not
at all, by a queue whose objects are views.  In both cases the object has the types that it would have without.

The payload is a pickle, of which no first byte is 0, or, in little-endian numbers, as `objects` lays it out:

    0 (4) | buffers (4) | bytes of the pickle (8) | bytes of each buffer, and above them whether it can be written (8
    each) | pickle | buffers
"""

from __future__ import annotations

import collections
import copyreg
import functools
import io
import pickle
import struct
import threading
from collections.abc import Callable
from multiprocessing import reduction
from typing import TYPE_CHECKING, Any, NoReturn

from busq import errors
from busq._native import _core as core
from busq._port.objects import gather, split
from busq._queues.exception_origin import is_by_handler

if TYPE_CHECKING:
    from busq.peer import Message

__all__ = [
    "dumps",
    "dumps_for_views",
    "is_handed_on",
    "joined",
    "loads_packed",
    "not_put",
    "size_of",
    "unpack_copies",
    "unpack_views",
]

_HEAD = struct.Struct("<IIQ")
_WRITABLE = 1 << 63


class _Pickler(pickle.Pickler):
    """Knows what multiprocessing's knows: connections, sockets, and what others have registered there."""

    dispatch_table: Any = collections.ChainMap(  # noqa: RUF012  (as its base has it)
        vars(reduction.ForkingPickler)["_extra_reducers"], copyreg.dispatch_table
    )


def dumps(obj: Any) -> Any:
    """Return a payload: bytes, or, where large buffers stand beside the pickle, its parts.

    The parts are not copied so far: they are what the object holds.
    """
    if core.is_plain(obj):  # so there is nothing that the others know better; and this is several times as fast
        return pickle.dumps(obj, 5)
    beside: list[Any] = []
    return _dumped(obj, core.large_into(beside), lambda: beside)


def dumps_for_views(obj: Any) -> Any:
    """Return a payload with all buffers beside the pickle, so that it depends on no size what can't be written to."""
    if core.is_plain(obj):
        return pickle.dumps(obj, 5)
    beside: list[Any] = []
    return _dumped(obj, beside.append, lambda: [buffer.raw() for buffer in beside])


class _WithQueues(list[Any]):
    """The parts of a payload in which other queues stand, and what takes back that they were handed on."""

    def __init__(self, payload: Any, taking_back: list[Callable[[], Any]]) -> None:
        super().__init__(payload if isinstance(payload, list) else [payload])
        self.taking_back = taking_back


class _Pickling(threading.local):
    """What takes back, for each queue in the object that this thread is pickling here, that it was handed on."""

    taking_back: list[Callable[[], Any]] | None = None


_pickling = _Pickling()


def is_handed_on(take_back: Callable[[], Any]) -> None:
    """Have a queue that is just pickled taken back where it stands in an object that can't be put."""
    if _pickling.taking_back is not None:
        _pickling.taking_back.append(take_back)


def not_put(payload: Any, error: BaseException) -> None:
    """Take back the queues in a payload, where what has ended its put knows that it was not sent.

    What a handler of a signal raises does not: then they stay handed on, and keep their bus, as until the end of this
    process do those in a pickle that is never opened.
    """
    if isinstance(payload, _WithQueues) and (_is_not_sent(error) or _is_not_sent(error.__cause__)):
        _take_back(payload.taking_back)


def _is_not_sent(error: BaseException | None) -> bool:
    return error is not None and getattr(error, "sent", None) == 0 and not is_by_handler(error)


def _take_back(taking_back: list[Callable[[], Any]]) -> None:
    while taking_back:
        taking_back.pop()()


def _dumped(obj: Any, take_buffer: Callable[[Any], Any], beside: Callable[[], list[memoryview]]) -> Any:
    stream = io.BytesIO()
    taking_back: list[Callable[[], Any]] = []
    outer = _pickling.taking_back
    _pickling.taking_back = taking_back
    try:
        _Pickler(stream, 5, True, take_buffer).dump(obj)  # by position: by name it takes longer
        views = beside()
    except BaseException:
        _take_back(taking_back)
        raise
    finally:
        _pickling.taking_back = outer
    payload = _with_buffers(stream.getvalue(), views) if views else stream.getvalue()
    return _WithQueues(payload, taking_back) if taking_back else payload


def _with_buffers(pickled: bytes, views: list[memoryview]) -> list[Any]:
    sizes = [view.nbytes if view.readonly else view.nbytes | _WRITABLE for view in views]
    head = _HEAD.pack(0, len(views), len(pickled)) + struct.pack(f"<{len(sizes)}Q", *sizes)
    return gather(head, pickled, views)


def joined(payload: Any) -> Any:
    """Return a payload that no change of the object reaches any more."""
    if isinstance(payload, _WithQueues):
        return _WithQueues(b"".join(payload), payload.taking_back)
    return b"".join(payload) if isinstance(payload, list) else payload


def size_of(payload: Any) -> int:
    """Return its bytes."""
    return sum(map(len, payload)) if isinstance(payload, list) else len(payload)


def loads_packed(
    message: Message, unpack: Callable[[memoryview], Callable[[], Any]], error: pickle.UnpicklingError
) -> Any:
    """Return the object of a message that pickle has refused alone; raises that error where nothing stands beside.

    The queue asks pickle first, since few objects have large buffers, and most are small.
    """
    view = message.view()
    if not view or view[0]:
        del view  # and the place that it keeps, which this traceback would keep
        raise error
    return unpack(view)()


# ---- for core.load, which calls these for a payload that begins with 0, and then what they return ----


def unpack_copies(payload: memoryview) -> Callable[[], Any]:
    """Return what unpickles an object with buffers of its own: bytes, or bytearrays where they could be written."""
    return _unpack(payload, core.own_copy)


def unpack_views(payload: memoryview) -> Callable[[], Any]:
    """Return what unpickles an object whose buffers are read-only views of the payload, and keep it alive."""
    return _unpack(payload, lambda buffer, is_writable: buffer)


def _unpack(payload: memoryview, take: Callable[[memoryview, bool], Any]) -> Callable[[], Any]:
    try:
        _, count, pickled_size = _HEAD.unpack_from(payload)
        marks = struct.unpack_from(f"<{count}Q", payload, _HEAD.size)
        pickled, buffers = split(payload, _HEAD.size + 8 * count, pickled_size, [mark & ~_WRITABLE for mark in marks])
    except (struct.error, errors.CorruptSegment) as error:
        return functools.partial(_refuse, payload.nbytes, str(error))
    taken = [take(buffer, bool(mark & _WRITABLE)) for buffer, mark in zip(buffers, marks, strict=True)]
    return functools.partial(pickle.loads, pickled, buffers=taken)


def _refuse(size: int, found: str) -> NoReturn:
    raise pickle.UnpicklingError(f"an object of {size} bytes in a queue is damaged: {found}")
