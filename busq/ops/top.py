# SPDX-License-Identifier: Apache-2.0
"""The counters of buses, look by look: what each peer has sent and received per second since the look before."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import busq
from busq.bus import bus_names

__all__ = ["Rates", "looked_at"]


def looked_at(names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any] | OSError | busq.BusqError]]:
    """Yield the name of each bus, and its facts or why it can't be opened; of all of this user, if none is named."""
    for name in names or bus_names():
        try:
            with busq.Bus.open(name) as bus:
                yield name, bus.stats()
        except FileNotFoundError as error:
            if names:  # otherwise it was removed meanwhile
                yield name, error
        except (OSError, busq.BusqError) as error:
            yield name, error


class Rates:
    """Rates between one look at some buses and the next; a peer has none at its first look."""

    def __init__(self) -> None:
        self.interval_s = 0.0  # since the look before; at the first look 0
        self._began_s: float | None = None
        self._before: dict[tuple[str, float, int, float], dict[str, Any]] = {}
        self._now: dict[tuple[str, float, int, float], dict[str, Any]] = {}

    def begin(self) -> None:
        """Begin a look: what is added from here on is compared with what was added before."""
        now_s = time.monotonic()
        self.interval_s = 0.0 if self._began_s is None else now_s - self._began_s
        self._began_s, self._before, self._now = now_s, self._now, {}

    def add(self, facts: dict[str, Any]) -> None:
        """Add the rates of its peers to the facts of a bus, as `Bus.stats` returns them; None where none is known."""
        for peer in facts["peers"]:
            key = (facts["name"], facts["created_s"], peer["slot"], peer["joined_s"])
            before, self._now[key] = self._before.get(key), peer
            for counter in ("sent", "received"):
                rate = (peer[counter] - before[counter]) / self.interval_s if before and self.interval_s else None
                peer[f"{counter}_per_s"] = rate
