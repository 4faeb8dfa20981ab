# SPDX-License-Identifier: Apache-2.0
"""Waiting for peers to be there: `Bus.wait_for`.

A peer that joins wakes no process that waits for it, so this looks again and again: after a millisecond at first, and
then less and less often.  A look compares names in shared memory, and asks the kernel about those it finds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from busq import errors
from busq._native import _core as core
from busq._port.arguments import encode_peer_name, is_iterable, whole_number, wrong_type
from busq._port.deadline import Deadline

_PAUSE_MIN_NS = 1_000_000
_PAUSE_MAX_NS = 20_000_000


def wait_for(bus: Any, names: str | Iterable[str], timeout: float | None, readers: int | None) -> None:
    """Return when all of these peers live at the same time, each with so many readers."""
    for pause_s in looks(bus, names, timeout, readers):
        time.sleep(pause_s)


def looks(bus: Any, names: str | Iterable[str], timeout: float | None, readers: int | None) -> Iterator[float]:
    """Look whether all are there; while they are not, yield how many seconds to wait until the next look."""
    deadline = Deadline(timeout)
    wanted = 1 if readers is None else whole_number("readers", readers, 32)
    if wanted < 1:
        raise ValueError("readers is 0: expected 1 or more")
    encoded = {name: encode_peer_name(name, "a name (names)") for name in _listed(names)}
    seen: set[str] = set()
    pause_ns = _PAUSE_MIN_NS
    while True:
        left_ns = deadline.left_ns()
        missing = _missing(bus, encoded, seen, wanted)
        if not missing:
            return
        if left_ns == 0:
            raise errors.Empty(f"not there before the timeout: {', '.join(missing)}")
        yield (pause_ns if left_ns < 0 else min(pause_ns, left_ns)) / 1e9
        pause_ns = min(pause_ns * 3 // 2, _PAUSE_MAX_NS)


def _listed(names: Any) -> list[Any]:
    if isinstance(names, str):
        return [names]
    if isinstance(names, bytes | bytearray) or not is_iterable(names):
        raise wrong_type("names", names, "str, the name of a peer, or an iterable of names")
    return list(names)


def _missing(bus: Any, encoded: dict[str, bytes], seen: set[str], wanted: int) -> list[str]:
    """Return what is missing, in words."""
    raw = bus._raw()
    missing = []
    for name, text in encoded.items():
        result, count, is_shared = raw.readers(text)
        if result == core.OK:
            seen.add(name)
            if not is_shared and wanted > 1:
                raise ValueError(f"readers is {wanted}, and {name!r} is no shared queue: only its one process reads it")
            if count < wanted:
                missing.append(f"{name!r} ({count} of {wanted} readers)")
            continue
        if result not in (core.PEER_DEAD, core.UNKNOWN_PEER):
            core.check(result)
        if name in seen:
            raise errors.PeerDead(f"{name!r} was there, and has left or died while this waited for others")
        missing.append(repr(name))
    if missing and raw.is_shut_down():
        raise errors.ShutDown(
            f"bus {bus.name!r} was shut down, and nobody joins it any more: {missing[0]} is not there"
        )
    return missing
