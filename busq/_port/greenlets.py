# SPDX-License-Identifier: Apache-2.0
"""gevent and eventlet: a call that waits in C stops all greenlets of its thread, so it is refused there.

Those libraries replace Python's threads by greenlets, of which one runs at a time; a call of busq that waits is not
Python, and lets no other greenlet run: the one that would send what it waits for neither.  Real threads, of the pool
that each of the libraries has, are not concerned; nor is what does not wait.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

from busq._native import _core as core

__all__ = ["guard"]


def guard() -> None:
    """Let the core refuse to wait where greenlets run, if one of the libraries has replaced threads by now."""
    monkey, patcher = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if monkey is not None and monkey.is_module_patched("threading"):
        core.set_guard(_gevent_refusal())
    elif patcher is not None and patcher.is_monkey_patched("thread"):
        core.set_guard(_eventlet_refusal())


def _gevent_refusal() -> Callable[[], None]:
    local = importlib.import_module("gevent._hub_local")  # any other way to ask would make a hub
    example = "gevent.get_hub().threadpool.apply(peer.recv)"
    return lambda: _refuse("gevent", example, local.get_hub_if_exists())


def _eventlet_refusal() -> Callable[[], None]:
    # Its pool makes a call in the thread of greenlets after all while any thread imports: so nothing is imported later.
    for late in ("groups", "_port.objects", "_port.requests"):
        importlib.import_module(f"busq.{late}")
    hubs = importlib.import_module("eventlet.hubs")
    example = "eventlet.tpool.execute(peer.recv)"
    return lambda: _refuse("eventlet", example, getattr(hubs._threadlocal, "hub", None))


def _refuse(library: str, example: str, hub: object) -> None:
    if hub is not None:
        raise RuntimeError(
            f"{library} has replaced threads by greenlets, and a call of busq that waits would stop all of them: "
            f"let it wait in a real thread, {example}, or call it with timeout=0"
        )
