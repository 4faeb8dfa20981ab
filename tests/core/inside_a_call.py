# SPDX-License-Identifier: Apache-2.0
"""What runs on top of a call in the same thread, as a signal handler does: by a trace function, at each place."""

from __future__ import annotations

import dis
import functools
import itertools
import sys
from collections.abc import Callable, Collection
from typing import Any

from conftest import uncollected


@functools.cache
def places(code: Any) -> frozenset[int]:
    """Where CPython runs the handlers of signals: behind a call, where a function begins, and where a loop turns."""
    ones = list(dis.get_instructions(code))
    behind = {after.offset for one, after in itertools.pairwise(ones) if one.opname.startswith(("CALL", "RESUME"))}
    return frozenset(behind | {one.argval for one in ones if "BACKWARD" in one.opname})


class Handler:
    """Acts once, at the place of that number in these files."""

    def __init__(self, at: int, act: Callable[[], Any], files: Collection[str]) -> None:
        self.left, self._act, self._files = at, act, files

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_lasti in places(frame.f_code):
            self.left -= 1
            if not self.left:
                sys.settrace(None)
                self._act()
        return self

    def on_top_of(self, call: Callable[[], Any]) -> bool:
        """Make the call; whether its place was reached."""
        with uncollected():
            sys.settrace(self)
            try:
                call()
            finally:
                sys.settrace(None)
        return self.left <= 0
