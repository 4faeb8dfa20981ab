# SPDX-License-Identifier: Apache-2.0
"""The end of a queue (busq/queues.py) for all processes, as far as it is not in the core (csrc/shm/queue_end.c).

There one step ends it: no process can put any more, and a reader that finds nothing left finds the end.  What was put
before and has found no room waits in its process, and is put behind the end; so a reader that has found the end looks
whether something waits, and only then once more into the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from busq import errors
from busq._port.deadline import Deadline
from busq._queues.overflow import await_so

if TYPE_CHECKING:
    from collections.abc import Callable

    from busq._queues.process_state import Local
    from busq.peer import Message

__all__ = ["DROPPED", "Ending"]

OPEN, DROPPED = 0, 2


class Ending:
    """What a queue has for its end."""

    _local: Local
    _is_closed: bool
    _awaits_ack: bool
    _recv: Callable[..., Message] | None

    if TYPE_CHECKING:

        def _refuse(self) -> NoReturn: ...
        def _fail(self, error: Exception, data: Any = b"") -> NoReturn: ...
        def _waiting(self) -> int: ...
        def _open_reader(self) -> Callable[..., Message]: ...

    def shutdown(self, immediate: bool = False) -> None:
        """End the queue, in all processes: what is there can still be got, and nothing can be put.

        As queue.Queue of Python 3.13.  Calls that wait for room, in any process, raise `busq.ShutDown`; those that wait
        for an object do so once none is left.  A process that is killed in here has shut it down for all or for none.
        Twice is harmless.

        Parameters: `immediate`, True to drop what no process has got so far: then every `get` raises at once, and for
        `join` it is done.

        Errors: ValueError or OSError if the queue was closed here; OSError if the bus is damaged.

        Cost: some microseconds, and a system call where others wait; a step for each object that is dropped.

        >>> import busq
        >>> queue = busq.Queue()
        >>> queue.put("the last one")
        >>> queue.shutdown()
        >>> queue.get()
        'the last one'
        >>> try:
        ...     queue.get()
        ... except busq.ShutDown:
        ...     print("nothing comes any more")
        nothing comes any more
        """
        if self._is_closed:
            self._refuse()
        try:
            self._local.shut_down(drops=bool(immediate))
        except (errors.BusqError, ValueError) as error:
            self._fail(error)

    def _has_ended(self) -> bool:
        try:
            return self._local.end() != OPEN
        except errors.BusqError:
            return False

    def _awaits_last(self, error: errors.ShutDown) -> bool:
        """Return whether something may still come that was put before the end; raises where nothing can."""
        if self._is_closed or not self._has_ended() or self._local.end() == DROPPED:
            self._fail(error)
        return self._waiting() != 0

    def _get_last(self, error: errors.ShutDown, timeout: float | None) -> Message:
        """Get what was put before the end, and still waits in a process."""
        found: list[Message] = []

        def is_found() -> bool:
            is_awaited = self._awaits_last(error)  # before the look: what leaves a process is in the queue by then
            try:
                recv = self._recv or self._open_reader()
                found.append(recv(0, ack=True) if self._awaits_ack else recv(0))
                return True
            except errors.Empty:
                return False
            except errors.ShutDown as again:
                if not is_awaited:
                    self._fail(again)
                return False

        if not await_so(is_found, Deadline(timeout)):
            raise errors.Empty("nothing came before the timeout")
        return found[0]
