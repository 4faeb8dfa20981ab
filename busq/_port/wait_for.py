# SPDX-License-Identifier: Apache-2.0
"""Waiting for peers to be there: `Bus.wait_for`.

Nobody is woken when somebody joins, so this looks again and again: after a millisecond at first, and then less and less
often.  A look compares names in shared memory, and asks the kernel about those it finds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from busq import errors
from busq._native import _core as core
from busq._port.arguments import encode_peer_name, wrong_type
from busq._port.deadline import Deadline

_PAUSE_MIN_NS = 1_000_000
_PAUSE_MAX_NS = 20_000_000


def wait_for(bus: Any, names: str | Iterable[str], timeout: float | None) -> None:
    """Return when all of these peers live at the same time."""
    for pause_s in looks(bus, names, timeout):
        time.sleep(pause_s)


def looks(bus: Any, names: str | Iterable[str], timeout: float | None) -> Iterator[float]:
    """Look whether all are there; while they are not, yield how many seconds to wait until the next look."""
    deadline = Deadline(timeout)
    encoded = {name: encode_peer_name(name, "a name (names)") for name in _listed(names)}
    seen: set[str] = set()
    pause_ns = _PAUSE_MIN_NS
    while True:
        left_ns = deadline.left_ns()
        missing = _missing(bus, encoded, seen)
        if not missing:
            return
        if left_ns == 0:
            raise errors.Empty(f"not there before the timeout: {', '.join(map(repr, missing))}")
        yield (pause_ns if left_ns < 0 else min(pause_ns, left_ns)) / 1e9
        pause_ns = min(pause_ns * 3 // 2, _PAUSE_MAX_NS)


def _listed(names: Any) -> list[Any]:
    if isinstance(names, str):
        return [names]
    if isinstance(names, bytes | bytearray) or not isinstance(names, Iterable):
        raise wrong_type("names", names, "str, the name of a peer, or an iterable of names")
    return list(names)


def _missing(bus: Any, encoded: dict[str, bytes], seen: set[str]) -> list[str]:
    raw = bus._raw()
    missing = []
    for name, text in encoded.items():
        result = raw.is_there(text)
        if result == core.OK:
            seen.add(name)
            continue
        if result not in (core.PEER_DEAD, core.UNKNOWN_PEER):
            core.check(result)
        if name in seen:
            raise errors.PeerDead(f"{name!r} was there, and has left or died while this waited for others")
        missing.append(name)
    if missing and raw.is_shut_down():
        raise errors.ShutDown(
            f"bus {bus.name!r} was shut down, and nobody joins it any more: {missing[0]!r} is not there"
        )
    return missing
