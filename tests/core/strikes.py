# SPDX-License-Identifier: Apache-2.0
"""Boundaries inside a call of busq, and what may be done there: raise, or let another thread go on.

A boundary is a bytecode of busq's, or a call or return of a C function out of one (`sys.settrace`, `sys.setprofile`).
"""

from __future__ import annotations

import contextlib
import dis
import itertools
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from calls import Turn
from wholeness import Fault

import busq

PACKAGE = str(Path(busq.__file__).parent) + os.sep

# Where CPython 3.11 takes in an exception, or lets go of one, a trace function that raises costs it a reference.  No
# signal can come there.
NOT_STRUCK = frozenset(("PUSH_EXC_INFO", "POP_EXCEPT", "COPY", "RERAISE"))


class Struck(BaseException):
    """What the harness raises."""


class Marks:
    """Where a piece of code can be struck."""

    def __init__(self, code: CodeType) -> None:
        self.code = code  # kept alive: another one could come to its address
        self.is_ours = code.co_filename.startswith(PACKAGE)
        self.names = {one.offset: one.opname for one in dis.get_instructions(code)} if self.is_ours else {}
        self.not_struck = frozenset(offset for offset, name in self.names.items() if name in NOT_STRUCK)
        self.ends = frozenset(o for o, name in self.names.items() if name.startswith(("RETURN", "YIELD")))


_marks: dict[int, Marks] = {}  # by address: to hash a piece of code takes longer than to run it


def marks_of(code: CodeType) -> Marks:
    found = _marks.get(id(code))
    if found is None:
        found = _marks[id(code)] = Marks(code)
    return found


class Strike:
    """Counts the boundaries of the calls that this thread makes in it, and does something at one of them."""

    def __init__(self, at: int, act: Callable[[Strike], None]) -> None:
        self.at, self._act = at, act
        self.count = 0
        self.where = ""
        self.at_end = False
        self.error: Struck | None = None

    def __enter__(self) -> Strike:
        sys.setprofile(self._profile)
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        sys.setprofile(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Give a frame of busq's a trace function of its own, which knows its code."""
        marks = marks_of(frame.f_code)
        if not marks.is_ours:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        not_struck, ends = marks.not_struck, marks.ends

        def local(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "opcode":
                if frame.f_lasti in not_struck:
                    return local
            # An exception leaves the frame: no signal is handled there, and Python would drop the first one.
            elif event != "return" or frame.f_lasti not in ends:
                return local
            self.count += 1
            if self.count == self.at:
                self._meet(frame, marks.names[frame.f_lasti] if event == "opcode" else event)
            return local

        self.count += 1
        if self.count == self.at:
            self._meet(frame, event)
        return local

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("c_call", "c_return") and marks_of(frame.f_code).is_ours:
            self.count += 1
            if self.count == self.at:
                self._meet(frame, f"{event} of {getattr(argument, '__name__', argument)}")

    def _meet(self, frame: FrameType, event: str) -> None:
        sys.settrace(None)  # once is enough
        sys.setprofile(None)
        outer = frame.f_back is None or not marks_of(frame.f_back.f_code).is_ours
        self.at_end = outer and event in ("return", "RETURN_VALUE", "YIELD_VALUE")
        code = frame.f_code
        self.where = f"{code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno} {code.co_name}: {event}"
        self._act(self)


def raise_there(strike: Strike) -> None:
    strike.error = Struck(strike.where)
    raise strike.error


def make(turn: Turn) -> None:
    """Call, without a bytecode between what was called and the place where its value is kept."""
    assert turn.call is not None
    out = turn.outcome
    try:
        out.values.extend(itertools.starmap(turn.call, [()]))
    except Struck as error:
        out.struck = forget_frames(error)
    except StopIteration as error:
        out.error = error
    except Exception as error:
        out.error = forget_frames(error)


def forget_frames(error: Any) -> Any:
    """Keep no object alive by way of the frames that an exception has seen."""
    seen = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__context__
    return error


# ---- two threads ----


class Other:
    """A second thread, which makes a call on request."""

    def __init__(self) -> None:
        self._todo: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._n_started = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            with contextlib.suppress(Fault):  # the other thread has met the same
                self._todo.get()()
            self._done.put(None)

    def start(self, function: Callable[[], None]) -> None:
        self._n_started += 1
        self._todo.put(function)

    def wait(self, timeout_s: float) -> bool:
        """False where what was started has not ended."""
        with contextlib.suppress(queue.Empty):
            while self._n_started:
                self._done.get(timeout=timeout_s)
                self._n_started -= 1
        return not self._n_started


class Meeting:
    """Two threads that make calls one after the other, each at the time when the other one makes its own."""

    PATIENCE_S = 60

    def __init__(self) -> None:
        self._arrivals = [queue.SimpleQueue[None](), queue.SimpleQueue[None]()]

    def walk(self, me: int, turns: list[Turn], spins: list[int]) -> None:
        """Make calls; the thread that comes to one first sleeps, and wakes up while the other one is at it."""
        arrived, awaited = self._arrivals[me], self._arrivals[1 - me]
        for number, (turn, spin) in enumerate(zip(turns, spins, strict=True)):
            if turn.before:
                turn.before()
            arrived.put(None)
            try:
                awaited.get(timeout=self.PATIENCE_S)
            except queue.Empty:
                beside = turns[max(0, number - 1)].op.name
                raise Fault(f"what the other thread has called beside {beside} does not end") from None
            for _ in range(spin):
                pass
            make(turn)


class Relay:
    """One call in the middle of another one: begun at a boundary of it, and let go of at a boundary of its own.

    The first one goes on then, to its end, and after that the second one.  A call that must wait for the other one,
    which is held up, is let go on after a moment.
    """

    MOMENT_S = 0.1

    def __init__(self, other: Other, two: Turn, at: int) -> None:
        self._other, self._two = other, two
        self._strike = Strike(at, self._hold)
        self._held: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._go_on: queue.SimpleQueue[None] = queue.SimpleQueue()

    def begin(self, strike: Strike | None = None) -> None:
        self._other.start(self._run)
        with contextlib.suppress(queue.Empty):
            self._held.get(timeout=2 * self.MOMENT_S)

    def _run(self) -> None:
        if self._strike.at:
            with self._strike:
                make(self._two)
        else:
            make(self._two)
        self._held.put(None)

    def _hold(self, strike: Strike) -> None:
        self._held.put(None)
        with contextlib.suppress(queue.Empty):
            self._go_on.get(timeout=self.MOMENT_S)

    def end(self) -> None:
        self._go_on.put(None)

    @property
    def where(self) -> str:
        return f", which is held up at {self._strike.where}" if self._strike.where else ""
