# SPDX-License-Identifier: Apache-2.0
"""Whose an exception is that comes out of a step of a put: the step's own, or that of a handler of a signal.

A handler may run just behind the commit, before the next step of Python.  It may raise a Full of another queue, from
which nothing follows for the object that is put: a put that took it for its own would put the object twice, and take
back a queue in it that is already handed on.  Its function stands among the frames that the exception has come through.
"""

from __future__ import annotations

_STEPS = {"busq", "asyncio", "anyio", "trio", "outcome", "contextlib"}  # packages whose functions a put goes through


def is_by_handler(error: BaseException) -> bool:
    """Return whether a function that is no part of a put has raised it, or let it through."""
    trace = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] not in _STEPS:
            return True
        trace = trace.tb_next
    return False
