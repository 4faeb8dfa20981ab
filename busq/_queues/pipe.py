# SPDX-License-Identifier: Apache-2.0
"""The two ends of a SimpleQueue, as multiprocessing.Pool and concurrent.futures use those of multiprocessing's.

They look into it: its `_reader` is read and waited for, its `_writer` is written to, and a worker closes the one that
it does not use.  A pipe whose writers are all gone is at its end; so a worker of a pool that was killed ends as well.
A queue has no such end: a process that has closed its `_writer` waits for its parent's death, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from multiprocessing import connection, parent_process
from typing import TYPE_CHECKING, Any

from busq import errors

__all__ = ["Ends"]


class _NoLock(contextlib.AbstractContextManager[None]):
    """What keeps others from reading in multiprocessing's; here each reads at any time."""

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        return True

    def release(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class _End:
    def __init__(self, queue: Any, is_closed: Callable[[], bool]) -> None:
        self._queue = queue
        self._is_closed = is_closed

    @property
    def closed(self) -> bool:
        return self._is_closed()


class _Reader(_End):
    """What is waited for by its descriptor is readable now and then with nothing there (Peer.fileno).

    An executor waits for results, for its workers' ends and for new tasks at once, and takes a result where this is
    readable: waiting here it would hear of nothing else any more.  It goes on to wait where the result is None.
    """

    _is_waited_for = False

    def recv(self) -> Any:
        """Return the next object; None at once where the descriptor was asked for, and there is none."""
        if not self._is_waited_for:
            return self._queue.get()
        with contextlib.suppress(errors.Empty):
            return self._queue._get(0)
        return None

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Return whether something is there, or comes before the timeout, in seconds."""
        return bool(connection.wait([self._queue], timeout)) and not self._queue.empty()

    def fileno(self) -> int:
        self._is_waited_for = True
        return self._queue.fileno()  # type: ignore[no-any-return]

    def close(self) -> None:
        """Do nothing: what was not got stays for others."""


class _Writer(_End):
    def __init__(self, queue: Any, is_closed: Callable[[], bool], close: Callable[[], None]) -> None:
        super().__init__(queue, is_closed)
        self.send = queue.put
        self.close = close


class Ends:
    """What a queue has for pools of processes."""

    _is_closed: bool
    _may_put = True
    _rlock = _wlock = _NoLock()

    if TYPE_CHECKING:

        def _get(self, timeout: float | None) -> Any: ...

    @property
    def _reader(self) -> _Reader:
        return _Reader(self, lambda: self._is_closed)

    @property
    def _writer(self) -> _Writer:
        return _Writer(self, lambda: self._is_closed, self._put_no_more)

    def _put_no_more(self) -> None:
        self._may_put = False

    def _get_from_parent(self) -> Any:
        """Return the next object; EOFError where none is left, and the parent of this process is gone."""
        parent = parent_process()
        if parent is None:
            return self._get(None)
        here: Any = self
        while True:
            with contextlib.suppress(errors.Empty):
                return self._get(0)
            if parent.sentinel in connection.wait([here, parent.sentinel]):
                try:
                    return self._get(0)  # what the parent has put before it went
                except errors.Empty:
                    raise EOFError(f"{self!r}: nothing is left, and the parent of this process is gone") from None
