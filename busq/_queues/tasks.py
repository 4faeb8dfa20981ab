# SPDX-License-Identifier: Apache-2.0
"""What queues (busq/queues.py) keep for the tasks of an event loop: a peer that gets, and one that puts.

Both are peers of `busq.aio`, beside those of the threads: what waits is a task, and what is cancelled has got nothing.
They join when a task first needs them, once for each thread, since one event loop runs in a thread at a time; those of
a loop that has ended give way to those of the next one, and the last ones go with the queue.
"""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from busq import errors
from busq._native import _core as core
from busq._port.deadline import Deadline
from busq._port.event_loops import sleep
from busq._port.sent_count import nothing_sent
from busq._queues.exception_origin import is_by_handler
from busq._queues.peers import STOOD_STILL, private_name
from busq._queues.pickles import not_put
from busq._queues.timeouts import wait_of

if TYPE_CHECKING:
    from busq._queues.process_state import Home, Local
    from busq.peer import Message

__all__ = ["TROUBLE", "Awaited", "Tasks"]

_T = TypeVar("_T")
TROUBLE = (errors.BusqError, ValueError)  # of the bus; Empty and Full, which are BusqErrors too, come before
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.0002, 0.01


async def _try_so(attempt: Callable[[], Awaitable[Any]], so: type[Exception], timeout: float | None) -> float | None:
    """Try again and again while it raises that, in between of which other tasks run; returns what is left of a timeout.

    The error is raised where it is too late.
    """
    deadline, pause_s = Deadline(timeout), 0.0
    while True:
        with nothing_sent():
            await sleep(pause_s)
        try:
            await attempt()
            return deadline.left_s()
        except so as error:
            if is_by_handler(error):
                raise
            left_ns = deadline.left_ns()
            if left_ns == 0:
                raise
        pause_s = min(max(2 * pause_s, _PAUSE_S_MIN), _PAUSE_S_MAX, math.inf if left_ns < 0 else left_ns / 1e9)


class _Loop:
    """The peers of a queue in one event loop."""

    def __init__(self) -> None:
        self.reader: Any | None = None
        self.port: Any = None  # the reader's
        self.sender: Any | None = None

    def is_here(self) -> bool:
        """Whether it is the event loop that runs here."""
        try:
            for peer in (self.reader, self.sender):
                if peer is not None:
                    peer._queues.check()
        except RuntimeError:
            return False
        return True


class Tasks:
    """The peers of a queue in the event loops of this process."""

    def __init__(self, home: Home, name: str) -> None:
        self._home, self._name = home, name
        self._loops: dict[int, _Loop] = {}

    def _here(self) -> _Loop:
        thread = threading.get_ident()
        loop = self._loops.get(thread)
        if loop is None or not loop.is_here():
            loop = self._loops[thread] = _Loop()
        return loop

    async def reader(self) -> Any:
        """Return the peer that gets, for the tasks of the event loop that runs here."""
        loop = self._here()
        if loop.reader is None:
            from busq import aio  # here, since most programs never wait so

            joining = aio.join(self._home.bus, self._name, resume=True, shared=True, durable=True)
            reader = await joining  # which lets no other task run
            loop.port = reader._peer
            core.take_back_dropped(loop.port)  # what a handler of a signal keeps from being returned
            loop.reader = reader
        return loop.reader

    async def await_reader(self, timeout: float | None) -> float | None:
        """Do what `Local.await_reader` does, while other tasks run."""
        try:
            return await _try_so(self.reader, errors.PeerExists, timeout)
        except errors.PeerExists:
            raise errors.Empty(STOOD_STILL) from None

    async def sender(self) -> Any:
        """Return the peer that puts, for the tasks of the event loop that runs here."""
        loop = self._here()
        if loop.sender is None:
            from busq import aio

            loop.sender = await aio.join(self._home.bus, private_name("put"))
        return loop.sender

    def change_reader(self) -> bool:
        """Get by another peer from now on, since this one can keep no more that is not reported; False as `Local`'s."""
        here = self._here()
        if here.reader is None or not core.hands(here.port):
            return False
        here.reader = None
        return True

    def close(self) -> None:
        """Leave, so that tasks that wait do so no longer."""
        loops = list(self._loops.values())
        self._loops = {}
        for loop in loops:
            for peer in (loop.reader, loop.sender):
                if peer is not None:
                    _leave(peer)


def _leave(peer: Any) -> None:
    """Close a peer; where its event loop runs in another thread, as soon as that comes by."""
    running = peer._queues.running
    if running is not None and running.is_closed():
        peer._peer.close()  # no task waits
        return
    try:
        peer.close()
    except RuntimeError:
        running.call_soon_threadsafe(peer.close)


class Awaited(Generic[_T]):
    """What a queue has for tasks, and for what waits for descriptors."""

    _awaits_ack = False  # what is got is reported later
    _dump: Callable[[Any], Any]
    _overflows: bool
    _views: bool  # what is got may be kept for long
    _is_closed: bool
    _name: str
    _local: Local
    _tasks: Tasks

    if TYPE_CHECKING:

        def _refuse(self) -> NoReturn: ...
        def _fail(self, error: Exception, data: Any = b"") -> NoReturn: ...
        def _awaits_last(self, error: errors.ShutDown) -> bool: ...
        def _put(self, data: Any, timeout: float | None) -> None: ...
        def _read(self, message: Message) -> Any: ...
        def _will_put(self) -> None: ...
        def _will_get(self) -> None: ...

    async def aput(self, obj: _T, timeout: float | None = None) -> None:
        """Put an object in, in an event loop: where there is no room, this task waits, and others run.

        In asyncio, uvloop and, with anyio, trio.  A task that is cancelled while it waits has put nothing.

        Parameters: `obj`; `timeout`, how many seconds to wait for room: None waits for ever, 0 tries once.

        Errors: those of `put`; RuntimeError where no event loop runs.

        Cost: that of `put`; the first call of an event loop joins the bus once more.

        >>> import asyncio, busq
        >>> async def main(queue):
        ...     await queue.aput("hello")
        ...     return await queue.aget()
        >>> asyncio.run(main(busq.Queue()))
        'hello'
        """
        if self._is_closed:
            self._refuse()
        timeout = wait_of(True, timeout)
        data = self._dump(obj)
        try:
            await self._aput(data, timeout)
        except BaseException as error:
            not_put(data, error)
            raise

    async def aget(self, timeout: float | None = None) -> _T:
        """Get the next object out, in an event loop: where there is none, this task waits, and others run.

        A task that is cancelled while it waits has got nothing: the object goes to the next one that gets.  `async for`
        gets one after the other.

        Parameters: `timeout`, how many seconds to wait for one: None waits for ever, 0 tries once.

        Errors: those of `get`; RuntimeError where no event loop runs.

        Cost: that of `get`; the first call of an event loop joins the bus once more.

        >>> import asyncio, busq
        >>> async def main(queue):
        ...     await queue.aput(17)
        ...     async for number in queue:
        ...         return number
        >>> asyncio.run(main(busq.Queue()))
        17
        """
        if self._is_closed:
            self._refuse()
        return await self._aget(wait_of(True, timeout))  # type: ignore[no-any-return]

    async def _aput(self, data: Any, timeout: float | None) -> None:
        if self._overflows:

            async def attempt() -> None:
                self._put(data, 0)

            await _try_so(attempt, errors.Full, timeout)
            return
        try:
            with nothing_sent():
                self._will_put()
                sender = await self._tasks.sender()
            await sender.send(self._name, data, timeout=timeout)
        except errors.Full:
            raise
        except TROUBLE as error:
            self._fail(error, data)

    async def _aget(self, timeout: float | None) -> Any:
        return self._read(await self._areceive(timeout))

    async def _areceive(self, timeout: float | None) -> Message:
        self._will_get()
        try:
            reader = await self._tasks.reader()
            return await reader.recv(timeout, ack=self._awaits_ack)  # type: ignore[no-any-return]
        except errors.NoSpace as error:
            if not (self._awaits_ack or self._views) or not self._tasks.change_reader():
                self._fail(error)
            return await self._areceive(timeout)
        except errors.PeerExists:
            return await self._areceive(await self._tasks.await_reader(timeout))
        except errors.Empty:
            raise
        except errors.ShutDown as error:
            return await self._aget_last(error, reader, timeout)
        except TROUBLE as error:
            self._fail(error)

    def __aiter__(self) -> AsyncIterator[_T]:
        """Get object after object, as `aget` does, until the queue is shut down, or closed here."""
        return self

    async def __anext__(self) -> _T:
        if self._is_closed:
            raise StopAsyncIteration
        try:
            return await self._aget(None)  # type: ignore[no-any-return]
        except errors.ShutDown:
            raise StopAsyncIteration from None
        except ValueError:
            if self._is_closed:
                raise StopAsyncIteration from None
            raise

    async def _aget_last(self, error: errors.ShutDown, reader: Any, timeout: float | None) -> Message:
        """Get what was put before the end, and still waits in a process."""
        deadline = Deadline(timeout)
        while True:
            is_awaited = self._awaits_last(error)  # before the look: what leaves a process is in the queue by then
            try:
                return await reader.recv(0, ack=self._awaits_ack)  # type: ignore[no-any-return]
            except errors.Empty:  # another process is about to get from it
                pass
            except errors.ShutDown:
                if not is_awaited:
                    self._fail(error)
            if deadline.left_ns() == 0:
                raise errors.Empty("nothing came before the timeout")
            await sleep(_PAUSE_S_MAX)

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is something to get, for `select` and its kin.

        Also for `multiprocessing.connection.wait([queue, process.sentinel])`.  When it is readable, call
        `get(block=False)` and be ready for `busq.Empty`: another process may be faster, and it is readable for a moment
        now and then.  It is the queue's: do not read from it and do not close it.

        Errors: ValueError or OSError if the queue was closed here; OSError if the system has no descriptor left.

        Cost: that of `Peer.fileno`; where a process that puts the queue in order is stopped, it waits, as `get` does.

        >>> import busq
        >>> from multiprocessing.connection import wait
        >>> queue = busq.Queue()
        >>> queue.put("hello")
        >>> wait([queue], timeout=5) == [queue], queue.get()
        (True, 'hello')
        """
        if self._is_closed:
            self._refuse()
        try:
            self._will_get()
            self._local.await_reader(None)
            return self._local.open_reader().fileno()
        except TROUBLE as error:
            self._fail(error)
