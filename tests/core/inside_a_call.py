# SPDX-License-Identifier: Apache-2.0
"""What runs on top of a call in the same thread, as a signal handler does, at each place where one may run."""

from __future__ import annotations

import dis
import functools
import itertools
import sys
import threading
from collections.abc import Callable, Collection
from typing import Any

from conftest import uncollected

_monitoring: Any = getattr(sys, "monitoring", None)  # since 3.12, where trace functions see few of the instructions
_TOOL = 3


@functools.cache
def places(code: Any) -> frozenset[int]:
    """Where CPython runs the handlers of signals: behind a call, where a function begins, and where a loop turns."""
    ones = list(dis.get_instructions(code))
    behind = {after.offset for one, after in itertools.pairwise(ones) if one.opname.startswith(("CALL", "RESUME"))}
    # An `await` turns without looking for signals, and its end is reached by another way than that of its errors.
    jumps = [one for one in ones if "JUMP" in one.opname and "NO_INTERRUPT" not in one.opname]
    turns = {one.argval for one in jumps if one.argval < one.offset}
    return frozenset(behind | turns - {one.offset for one in ones if one.opname == "END_SEND"})


class Handler:
    """Acts once, at the place of that number in these files, or in all, of what this thread runs in the block."""

    def __init__(self, at: int, act: Callable[[], Any], files: Collection[str] | None = None) -> None:
        self.left, self._act, self._files = at, act, files
        self._uncollected = uncollected()
        self._thread = threading.get_ident()

    def __enter__(self) -> Handler:
        self._uncollected.__enter__()
        if _monitoring is None:
            sys.settrace(self._trace)
        else:
            instruction = _monitoring.events.INSTRUCTION
            _monitoring.use_tool_id(_TOOL, "busq's tests")
            _monitoring.register_callback(_TOOL, instruction, self._see)
            _monitoring.set_events(_TOOL, instruction)
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        if _monitoring is not None:
            _monitoring.register_callback(_TOOL, _monitoring.events.INSTRUCTION, None)
            _monitoring.free_tool_id(_TOOL)
        self._uncollected.__exit__(None, None, None)

    def _end(self) -> None:
        if _monitoring is None:
            sys.settrace(None)
        else:
            _monitoring.set_events(_TOOL, 0)

    def _trace(self, frame: Any, event: str, _: Any) -> Any:
        if not self._is_in(frame.f_code):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self._see(frame.f_code, frame.f_lasti)
        return self._trace

    def _see(self, code: Any, offset: int) -> None:
        if self.left <= 0 or not self._is_in(code) or offset not in places(code):
            return
        if threading.get_ident() != self._thread:
            return
        self.left -= 1
        if not self.left:
            self._end()
            self._act()

    def _is_in(self, code: Any) -> bool:
        return code.co_filename in self._files if self._files is not None else code.co_filename != __file__

    def on_top_of(self, call: Callable[[], Any]) -> bool:
        """Make the call; whether its place was reached."""
        with self:
            call()
        return self.left <= 0
