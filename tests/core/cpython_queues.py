# SPDX-License-Identifier: Apache-2.0
"""CPython's own tests of multiprocessing's queues, run with ours: START_METHOD=spawn python -m unittest cpython_queues.

They come from the `test` package of the Python that runs this.  What is overridden here is an exception to it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import unittest
from collections.abc import Iterator
from unittest import mock

from test import _test_multiprocessing as theirs
from test import support

import busq


@contextlib.contextmanager
def ours() -> Iterator[None]:
    """Where a test names multiprocessing's queues, it gets ours."""
    with (
        mock.patch.object(multiprocessing, "Queue", busq.Queue),
        mock.patch.object(multiprocessing, "JoinableQueue", busq.JoinableQueue),
        mock.patch.object(multiprocessing, "SimpleQueue", busq.SimpleQueue),
        mock.patch.object(theirs, "close_queue", close_queue),
    ):
        yield


def close_queue(queue: busq.Queue[object]) -> None:
    """As theirs, which closes no queue that is not multiprocessing's."""
    queue.close()
    queue.join_thread()


class WithOurs(unittest.TestCase):
    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        with ours():
            return super().run(result)


class WithProcessesTestQueue(theirs._TestQueue, theirs.ProcessesMixin, WithOurs):  # type: ignore[misc]
    Queue = staticmethod(busq.Queue)
    JoinableQueue = staticmethod(busq.JoinableQueue)

    def test_queue_feeder_donot_stop_onexc(self) -> None:
        """Theirs puts what can't be pickled, and reads in stderr why it never came; ours raises in the call of put."""

        class NotSerializable:
            def __reduce__(self) -> str:
                raise AttributeError

        q = self.Queue(maxsize=1)
        with contextlib.suppress(AttributeError):
            q.put(NotSerializable())
            raise AssertionError("it was taken")
        q.put(True)
        assert q.qsize() == 1
        assert q.get(timeout=support.SHORT_TIMEOUT)
        assert q.empty()
        close_queue(q)

    @unittest.skip("tests a hook of the feeder thread, in a subclass of multiprocessing's queue; ours has neither")
    def test_queue_feeder_on_queue_feeder_error(self) -> None:
        pass


class TestSimpleQueue(theirs.TestSimpleQueue, WithOurs):  # type: ignore[misc]
    pass


class WithProcessesTestStartMethod(WithOurs):
    """Of theirs, those that put a queue through processes of every kind."""

    if hasattr(theirs.TestStartMethod, "test_nested_startmethod"):  # from Python 3.11 on
        _put_one_in_queue = theirs.TestStartMethod._put_one_in_queue
        _put_two_and_nest_once = theirs.TestStartMethod._put_two_and_nest_once
        test_nested_startmethod = theirs.TestStartMethod.test_nested_startmethod


def setUpModule() -> None:
    multiprocessing.set_start_method(os.environ["START_METHOD"], force=True)
